"""The event loop is compiled once. No input causes a recompilation, which takes half a minute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.kernels.packet.engine import run
from weft.sim.packet.result import PacketResult

FULL = {
    "hardware": weft.Hardware(
        queues="voq", adapter_gbps=25.0,
        vl_arbitration=weft.VlArbitration(high=((0, 1),), low=((0, 1),), limit=3),
        congestion_control=weft.CongestionControl(),
    ),
    "snapshot_ns": 100.0,
}  # fmt: skip


def one_message(num_ranks: int) -> weft.Workload:
    builder = weft.WorkloadBuilder(num_ranks)
    builder.put(0, 1, 100)
    return builder.build()


def simulate(spec: str, engine: str, work: weft.Workload, **more: Any) -> PacketResult:
    fabric = weft.fabric(spec)
    return weft.simulate(fabric, weft.route(fabric, engine), work, **more, level="packet")


@pytest.mark.parametrize(
    ("spec", "engine", "more"),
    [
        ("xgft:1;2;1", "minhop", {}),
        ("xgft:1;2;1", "minhop", FULL),
        ("xgft:2;2,2;1,2", "dmodk", {"placement": [0, 0]}),
        ("xgft:2;2,2;1,2", "smodk", FULL),
        ("xgft:2;2,2;1,2", "ecmp", {"policy": "conga:gap=5us,t_dre=1us"}),
        ("kns:k=3,n=2,router=adapter", "hdor", {}),
        ("torus:5", "dfsssp", {}),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_no_options_of_a_run_recompile_the_loop(
    spec: str, engine: str, more: dict[str, Any], several: bool
) -> None:
    simulate("xgft:2;4,4;1,2", "dmodk", weft.load_workload("alltoall:size=100", 16))
    before = set(run.signatures)
    work = weft.load_workload("alltoall:size=100", 2) if several else one_message(2)
    result = simulate(spec, engine, work, trace=work.messages[:1].tolist(), **more)
    assert result.complete
    assert set(run.signatures) == before


def test_empty_arrays_do_not_recompile_the_loop() -> None:
    simulate("xgft:2;4,4;1,2", "dmodk", weft.load_workload("alltoall:size=100", 16))
    before = set(run.signatures)
    builder = weft.WorkloadBuilder(1)
    builder.calc(0, 5.0)
    result = simulate("xgft:1;2;1", "minhop", builder.build())
    assert result.makespan_ns == 5
    assert np.array_equal(result.packets, np.zeros_like(result.packets))
    assert set(run.signatures) == before
