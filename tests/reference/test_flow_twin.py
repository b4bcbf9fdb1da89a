"""The event loop of the flow level against its reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.random_workloads import random_workload
from tests.reference.flow import PlainFlow
from weft.sim.common.host_parameters import HostParameters, Overhead
from weft.workload import WorkloadBuilder

FABRICS = ("xgft:2;3,3;1,2", "kns:k=3,n=2", "torus:3x3", "bcube:3,k=1")


def of_simulate(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of the reference implementation as `weft.simulate` expects them."""
    packet = {name: options[name] for name in ("mtu_bytes", "header_bytes")}
    others = {name: value for name, value in options.items() if name not in packet}
    return {**others, "hardware": weft.Hardware(**packet)}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(48))
def test_agrees_with_the_reference(seed: int) -> None:
    random = np.random.default_rng(1000 + seed)
    fabric = weft.fabric(FABRICS[seed % len(FABRICS)])
    other = "smodk" if fabric.name.startswith("xgft") else "dfsssp"
    routes = weft.route(fabric, ("minhop", "ecmp", other)[seed // 4 % 3])
    work = random_workload(seed, ranks=7)
    hosts = random.integers(fabric.num_hosts, size=7)
    options = {
        "eager_bytes": int(random.choice([0, 20_000, 10**9])),
        "handshake": bool(random.integers(2)),
        "rendezvous": ("get", "put", "put-shared")[seed // 12 % 3],
        "overhead_ns": 0.0,
        "host_parameters": HostParameters(
            adapter_gbps=(None, 90.0, 500.0)[seed % 3], adapter_latency_ns=(None, 75.5)[seed % 2]
        ),
        "mtu_bytes": int(random.choice([1, 2048, 9000])),
        "header_bytes": int(random.choice([0, 26, 700])),
        "switch_latency_ns": float(random.choice([0.0, 90.0])),
        "local_gbps": 80.0,
        "local_latency_ns": float(random.choice([0.0, 100.0])),
    }
    sharing = str(random.choice(["maxmin", "maxmin", "penalty", "penalty", "none"]))
    if routes.engine == "ecmp" and fabric.name.startswith("bcube"):
        sharing = "maxmin"  # messages leave by several ports, which penalty sharing rejects
    plain = PlainFlow(fabric, routes, work, hosts.tolist(), sharing=sharing, **options)
    plain.run()
    result = weft.simulate(fabric, routes, work, hosts, sharing=sharing, **of_simulate(options))
    ops = range(work.num_ops)
    assert np.allclose(result.ended_ns, [plain.ended[op] for op in ops], rtol=1e-9, atol=1e-6)
    assert np.allclose(result.posted_ns, [plain.started[op] for op in ops], rtol=1e-9, atol=1e-6)
    for ours, theirs in ((result.left_ns, plain.left), (result.arrived_ns, plain.arrived)):
        expected = [theirs[op] for op in work.messages]
        assert np.allclose(ours[work.messages], expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_processors_run_one_operation_at_a_time(seed: int) -> None:
    # Random sizes and times, so that no two operations request a processor at the same moment.
    random = np.random.default_rng(seed)
    fabric = weft.fabric("xgft:2;3,3;1,2")
    routes = weft.route(fabric, "minhop")
    builder = WorkloadBuilder(4)
    for rank in range(4):
        builder.calc(rank, float(random.uniform(0, 100)))
    for _ in range(15):
        ends = random.choice(4, size=2, replace=False)
        size = int(random.integers(1, 20_000))
        builder.isend(int(ends[0]), int(ends[1]), size)
        builder.recv(int(ends[1]), int(ends[0]), size)
        cpu = int(random.integers(3))
        builder.calc(int(ends[0]), float(random.uniform(0, 900)), cpu=cpu, after=[])
    work = builder.build()
    options = {
        "eager_bytes": 5000, "handshake": True, "rendezvous": "get",
        "overhead_ns": 73.1 if seed % 2 else None,
        "mtu_bytes": 9000, "header_bytes": 26,
        "host_parameters": HostParameters(
            overhead=(
                Overhead(from_bytes=0, ns=41.3),
                Overhead(from_bytes=3000, ns=80.7, ns_per_byte=0.0313, latency_ns=317.9),
            )
        ),
        "switch_latency_ns": 50.0, "local_gbps": 80.0, "local_latency_ns": 10.0,
    }  # fmt: skip
    plain = PlainFlow(fabric, routes, work, [0, 1, 5, 8], sharing="maxmin", **options)
    plain.run()
    result = weft.simulate(fabric, routes, work, [0, 1, 5, 8], **of_simulate(options))
    expected = [plain.ended[op] for op in range(work.num_ops)]
    assert np.allclose(result.ended_ns, expected, rtol=1e-9, atol=1e-6)
