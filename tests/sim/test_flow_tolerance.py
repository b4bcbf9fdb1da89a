"""The flow level's tolerance bounds the error of completion times and saves work."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from benchmarks._simgrid import random_flows
from numpy.typing import ArrayLike

from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.sim.flow.result import FlowResult
from weft.sim.simulate import simulate
from weft.workload import Workload, WorkloadBuilder, load_workload

SPEC = "xgft:2;8,8;1,8"


def both(
    fabric: Fabric, workload: Workload, tolerance: float, placement: ArrayLike | str = "linear"
) -> tuple[FlowResult, FlowResult]:
    routes = route(fabric, "dmodk")
    return (
        simulate(fabric, routes, workload, placement, latency_ns=0),
        simulate(fabric, routes, workload, placement, latency_ns=0, tolerance=tolerance),
    )


def worst(exact: FlowResult, near: FlowResult) -> float:
    """Return the largest relative error of completion times."""
    ops = exact.workload.messages
    true = exact.arrived_ns[ops]
    return float((np.abs(near.arrived_ns[ops] - true) / true).max())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("tolerance", [0.01, 0.05])
@pytest.mark.parametrize("spread_ns", [0.0, 1e6, 1e7, 1e8])
@pytest.mark.parametrize("seed", range(2))
def test_random_flows_end_within_the_tolerance(
    tolerance: float, spread_ns: float, seed: int
) -> None:
    fabric = build(SPEC)
    flows = random_flows(fabric, route(fabric, "dmodk"), 1000, seed=seed, spread_ns=spread_ns)
    exact, near = both(fabric, flows.workload(), tolerance, flows.placement())
    assert worst(exact, near) < tolerance
    if spread_ns <= 1e7:  # flows that start farther apart rarely share links
        assert worst(exact, near) > 0
        assert near.num_rate_changes < exact.num_rate_changes


@pytest.mark.parametrize("seed", range(3))
def test_chains_of_messages_beside_others_end_within_the_tolerance(seed: int) -> None:
    # Every message of a chain waits for the one before, so delays add up along the chain.
    fabric = build(SPEC)
    random = np.random.default_rng(seed)
    builder = WorkloadBuilder(fabric.num_hosts)
    order = random.permutation(fabric.num_hosts)
    sizes = random.integers(20_000, 2_000_000, len(order))
    for rank in range(fabric.num_hosts):
        builder.put(rank, (rank + 5) % fabric.num_hosts, int(random.integers(1, 60)) * 1_000_000)
    for place, (rank, after) in enumerate(pairwise(order)):
        if place:
            builder.recv(int(rank), int(order[place - 1]), int(sizes[place - 1]))
        builder.send(int(rank), int(after), int(sizes[place]))
    builder.recv(int(order[-1]), int(order[-2]), int(sizes[len(order) - 2]))
    exact, near = both(fabric, builder.build(), 0.01)
    assert worst(exact, near) < 0.01


def test_flows_through_a_chain_of_shared_links_end_within_the_tolerance() -> None:
    # As in a parking lot, long paths use all links and short paths one link each.
    fabric = build("torus:8")
    builder = WorkloadBuilder(fabric.num_hosts)
    random = np.random.default_rng(1)
    for start in range(fabric.num_hosts):
        for far in (1, 2, 3):
            for _ in range(4):
                builder.put(
                    start,
                    (start + far) % fabric.num_hosts,
                    int(random.integers(10_000, 10_000_000)),
                    release_ns=float(random.random() * 1e6),
                )
    routes = route(fabric, "minhop")
    exact = simulate(fabric, routes, builder.build(), latency_ns=0)
    near = simulate(fabric, routes, exact.workload, latency_ns=0, tolerance=0.01)
    assert worst(exact, near) < 0.01


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spec", ["xgft:2;8,8;1,4", "torus:4x4x4"])
@pytest.mark.parametrize(
    "program",
    [
        "alltoall:size=64KiB",
        "allreduce:size=4MiB,algorithm=ring",
        "graph500:scale=18",
        "shuffle",
        "open-loop:load=0.7,rate_gbps=200,duration=100us,size_distribution=exponential",
    ],
)
def test_programs_end_within_the_tolerance(spec: str, program: str) -> None:
    fabric = build(spec)
    routes = route(fabric, "minhop")
    work = load_workload(program, 64)
    exact = simulate(fabric, routes, work, "random:seed=3")
    near = simulate(fabric, routes, work, "random:seed=3", tolerance=0.05)
    assert worst(exact, near) < 0.05
    assert abs(near.makespan_ns / exact.makespan_ns - 1) < 0.01
