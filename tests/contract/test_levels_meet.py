"""The same runs at the static, flow, packet and flit level: where they agree, and where they part.

Buffers hold whole packets, and switches take the same time at the packet and at the flit level. The
table of docs/validation.md has these runs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import weft
from weft.sim.flit.router import Router
from weft.sim.packet.hardware import Hardware

#: Bytes and duration of a flit at 200 Gb/s, and cycles of a switch.
FLIT_BYTES, CYCLE_NS, SWITCH_CYCLES = 64, 2.56, 20
HARDWARE = Hardware(
    mtu_bytes=2048, header_bytes=0, switch_latency_ns=SWITCH_CYCLES * CYCLE_NS, speedup=1,
    buffer_bytes=256 * FLIT_BYTES,
)  # fmt: skip
#: One virtual channel with a buffer of eight packets, which are not mixed on a link.
CUT_THROUGH = Router(
    lanes=1, buffer=256, vc_delay=1, switch_delay=SWITCH_CYCLES - 1, switching="cut-through",
    hold_switch=True,
)  # fmt: skip
WORKLOADS = (
    "pattern:pattern=shift,offset=16,size=64KiB",
    "pattern:pattern=bit-reversal,size=64KiB",
    "pattern:pattern=transpose,size=64KiB",
    "pattern:pattern=all-to-all,size=16KiB",
    "pattern:pattern=random-permutation,size=64KiB",
    "Nto1:size=64KiB",
    "allreduce:size=1MiB",
)


@cache
def fabric() -> Any:
    return weft.fabric("kary-n-tree:4;3")


@cache
def makespan_ns(workload: str, level: Any) -> float:
    work = weft.load_workload(workload, 64)
    options: dict[str, Any] = {"hardware": HARDWARE}
    if level == "flit":
        options |= {"router": CUT_THROUGH, "flit_bytes": FLIT_BYTES}
    result = weft.simulate(fabric(), weft.route(fabric(), "dmodk"), work, level=level, **options)
    return float(result.makespan_ns)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_packets_and_flits_agree_where_both_do_the_same(workload: str) -> None:
    """Cables take whole cycles at the flit level; the order of packets at a switch differs."""
    assert makespan_ns(workload, "flit") == pytest.approx(makespan_ns(workload, "packet"), rel=0.02)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_level_ends_before_the_most_loaded_link_has_sent_everything(workload: str) -> None:
    work = weft.load_workload(workload, 64)
    static = weft.simulate(fabric(), weft.route(fabric(), "dmodk"), work, level="static")
    links = static.links()
    (column,) = (name for name in ("size_bytes", "bytes", "carried_bytes") if name in links.columns)
    least = float(links[column].max()) * 8 / fabric().host_rate_gbps
    for level in ("flow", "packet", "flit"):
        assert makespan_ns(workload, level) >= least


def test_queues_in_order_of_arrival_cost_what_fair_flows_do_not_see() -> None:
    """Head-of-line blocking: an all-to-all takes half as long again with packets or flits."""
    flow, flit = (makespan_ns(WORKLOADS[3], level) for level in ("flow", "flit"))
    assert flit > 1.3 * flow
