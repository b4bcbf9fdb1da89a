"""Reductions in switches at the flow level: times, bytes on links, jobs, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, NodeKind, Parts
from weft.workload import Workload, WorkloadBuilder
from weft.workload.formats import write_workload
from weft.workload.jobs import Job, combine

FABRIC = weft.fabric("xgft:2;4,4;1,1,rate=80")  # one spine: a cable of each of 4 leaves
ROUTES = weft.route(FABRIC, "minhop")
SIZE, RATE = 10**6, 10.0


def reduction(*groups: list[int], ranks: int = 16) -> Workload:
    """Return a workload with a reduction of each group, in which all begin at once."""
    builder = WorkloadBuilder(ranks)
    for root, first, *rest in groups:
        for member in (first, *rest):
            builder.send(member, root, 0)
            builder.recv(root, member, 0)
        sends = [builder.isend(root, first, SIZE)]
        builder.recv(first, root, SIZE)
        sends += [builder.isend(first, member, 0) for member in (root, *rest)]
        for member in (root, *rest):
            builder.recv(member, first, 0)
        builder.reduce_in_network(sends)
    return builder.build()


def run(work: Workload, fabric=FABRIC, hosts="linear", **options):
    hardware = weft.Hardware(header_bytes=0)
    options = {"eager_bytes": 2**50, "latency_ns": 7.0, "hardware": hardware, **options}
    routes = ROUTES if fabric is FABRIC else weft.route(fabric, "minhop")
    return weft.simulate(fabric, routes, work, hosts, **options)


@pytest.mark.parametrize(
    ("members", "cables"),
    [([0, 1], 2), ([0, 1, 2, 3], 4), ([0, 4], 4), ([5, 0, 1, 4], 6), (list(range(16)), 20)],
)
def test_a_reduction_takes_one_latency_and_its_bytes_at_the_rate_of_a_cable(
    members: list[int], cables: int
) -> None:
    result = run(reduction(members))
    assert result.makespan_ns == pytest.approx(7 + SIZE / RATE)
    carried = result.links()["carried_bytes"].to_numpy()
    # Each cable of the tree carries the data once up and once down, however many members use it.
    assert carried[carried > 0].tolist() == [SIZE] * (2 * cables)


@pytest.mark.parametrize(("other", "times"), [([1, 5], 2), ([8, 12], 1)])
def test_trees_share_cables(other: list[int], times: int) -> None:
    assert run(reduction([0, 4], other)).makespan_ns == pytest.approx(7 + times * SIZE / RATE)


def test_reductions_of_jobs_keep_their_members() -> None:
    pair = reduction([0, 1], ranks=2)
    plain = WorkloadBuilder(2)
    plain.send(0, 1, SIZE)
    plain.recv(1, 0, SIZE)
    jobs = combine(
        [
            Job(work, name, placement=hosts)
            for work, name, hosts in (
                (pair, "a", [0, 4]), (plain.build(), "b", [8, 9]), (pair, "c", [1, 5]),
            )
        ],
        FABRIC,
    )  # fmt: skip
    assert sorted(set(jobs.workload.tree.tolist())) == [-1, 0, 1]
    result = run(jobs.workload, hosts=jobs.hosts)
    assert result.makespan_ns == pytest.approx(7 + 2 * SIZE / RATE)
    # Four cables of hosts and two shared ones of leaves in both directions; two of the plain job.
    assert (result.links()["carried_bytes"] > 0).sum() == 2 * 6 + 2


def test_paths_meet_only_at_switches_with_aggregation_nodes_if_the_fabric_has_any() -> None:
    parts = Parts.of(weft.fabric("xgft:2;5,4;1,1,rate=80"))
    for leaf in (0, 1):  # the last host of two of four leaves
        node = parts.names.index(f"h{5 * leaf + 4}")
        parts.kind[node] = NodeKind.AUXILIARY
        parts.descriptions[node] = "Mellanox Technologies Aggregation Node"
    fabric = Fabric.of(parts)
    assert run(reduction([0, 1, 2, 4, 5]), fabric).makespan_ns == pytest.approx(7 + SIZE / RATE)
    run(reduction([0, 4]), fabric)  # two members: at either leaf
    for members, switch in (([8, 9, 10], "s1-2"), ([0, 4, 8], "s2-0"), ([8, 13], "s1-2")):
        with pytest.raises(NotApplicable, match=f"meet at {switch}, which does not reduce"):
            run(reduction(members), fabric)


def test_switches_inside_machines_do_not_reduce() -> None:
    fabric = weft.fabric("xgft:2;8,8;1,8;rate=4xNDR", node="dgx-h100")
    with pytest.raises(NotApplicable, match="meet at m0 scale-up, which does not reduce"):
        run(reduction([0, 1, 2]), fabric)


def test_what_has_no_tree_is_refused(tmp_path: Path) -> None:
    work = reduction([0, 4, 8])
    for level in ("static", "packet", "flit"):
        with pytest.raises(InputError, match=f"reductions in switches, which the {level} level"):
            weft.simulate(FABRIC, ROUTES, work, level=level)
    with pytest.raises(NotApplicable, match="the format goal has no reductions in switches"):
        write_workload(work, tmp_path / "x.goal")
    with pytest.raises(InputError, match="members of a reduction in switches are on one machine"):
        run(work, hosts=[0] * 5 + list(range(5, 12)) + [0] * 4)
    with pytest.raises(NotApplicable, match="sharing model penalty"):
        run(work, sharing="penalty")
    with pytest.raises(NotApplicable, match="needs one path; ecmp has several"):
        weft.simulate(FABRIC, weft.route(FABRIC, "ecmp"), work)
    builder = WorkloadBuilder(2)
    with pytest.raises(InputError, match="a tree has a number below 0"):
        builder.reduce_in_network(builder.isend(0, 1, 0), -1)
    builder.reduce_in_network(builder.irecv(1, 0, 0))
    with pytest.raises(InputError, match="has an operation that is not a send"):
        builder.build()
