"""Placements that give each job links of its own."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

import weft
from weft.routing.structure.folded_clos import find_folded_clos
from weft.workload.isolation import (
    Allocation,
    IsolatedJobs,
    Isolation,
    isolated_allocations,
    isolated_routes,
)
from weft.workload.jobs import Job, combine

Link = tuple[str, int, int]


def path_choices(state: IsolatedJobs, job: Allocation, a: int, b: int) -> list[list[Link]]:
    """Return the paths between two hosts of a job on the job's own cables."""
    start, end = int(state.leaf_of[a]), int(state.leaf_of[b])
    if start == end:
        return [[]]
    pods = state.pod_of[start], state.pod_of[end]
    common = job.leaf_cables[start] & job.leaf_cables[end]
    result = []
    for position in range(common.bit_length()):
        if not common >> position & 1:
            continue
        outer = [("up", start, position), ("down", end, position)]
        if pods[0] == pods[1]:
            result.append(outer)
            continue
        shared = job.pod_cables[pods[0], position] & job.pod_cables[pods[1], position]
        for spine in range(shared.bit_length()):
            if shared >> spine & 1:
                at = position * 1000 + spine
                inner = [("pod up", pods[0], at), ("pod down", pods[1], at)]
                result.append(outer + inner)
    return result


def permutation_is_possible(state: IsolatedJobs, job: Allocation, order: np.ndarray) -> bool:
    """Return whether all hosts can send to others at once without sharing a link of the job."""
    choices = [
        (flow, path)
        for flow, (a, b) in enumerate(zip(job.hosts, order.tolist(), strict=True))
        for path in path_choices(state, job, a, b)
    ]
    links = sorted({link for _, path in choices for link in path})
    each = np.zeros((len(job.hosts) + len(links), len(choices)))
    for number, (flow, path) in enumerate(choices):
        each[flow, number] = 1
        each[[len(job.hosts) + links.index(link) for link in path], number] = 1
    low = np.concatenate((np.ones(len(job.hosts)), np.zeros(len(links))))
    rows = LinearConstraint(each, low, 1)
    ones = np.ones(len(choices))
    return bool(milp(0 * ones, constraints=rows, bounds=Bounds(0, 1), integrality=ones).success)


def filled(fabric: weft.Fabric, method: Isolation, seed: int) -> tuple[list[Allocation], int]:
    """Return the jobs in a tree after random arrivals and departures, and how many were refused."""
    random = np.random.default_rng(seed)
    state = IsolatedJobs(fabric, method)
    jobs: list[Allocation] = []
    refused = 0
    for _ in range(40):
        job = state.find(int(random.integers(1, fabric.num_hosts // 3)))
        if job is not None:
            state.take(job)
            jobs.append(job)
        refused += job is None
        if job is None or random.random() < 0.3:
            state.release(jobs.pop(int(random.integers(len(jobs)))))
    return jobs, refused


@pytest.mark.parametrize("method", ["jigsaw", "laas"])
@pytest.mark.parametrize("spec", ["xgft:2;4,8;1,4", "xgft:3;4,4,4;1,4,4", "xgft:3;3,4,5;1,3,4"])
def test_jobs_share_no_link_and_route_any_permutation_on_their_own(
    spec: str, method: Isolation
) -> None:
    fabric = weft.fabric(spec)
    state = IsolatedJobs(fabric, method)
    shapes, refusals = set(), 0
    for seed in range(4):
        jobs, refused = filled(fabric, method, seed)
        refusals += refused
        used = []
        for job in jobs:
            paths = [path_choices(state, job, *ends) for ends in permutations(job.hosts, 2)]
            assert all(paths)
            used.append({link for each in paths for path in each for link in path})
            assert job.wasted == 0 or (method == "laas" and job.pod_cables)
            shapes.add((bool(job.leaf_cables), bool(job.pod_cables), bool(job.wasted)))
        for one, other in combinations(range(len(jobs)), 2):
            assert not set(jobs[one].hosts) & set(jobs[other].hosts)
            assert not used[one] & used[other]
        random = np.random.default_rng(seed)
        for job in jobs:
            assert permutation_is_possible(state, job, random.permutation(job.hosts))
    assert refusals
    assert {(False, False, False), (True, False, False)} <= shapes
    if len(find_folded_clos(fabric).stages) > 1:
        assert (True, True, method == "laas") in shapes


def test_with_a_cable_less_some_permutation_shares_a_link() -> None:
    state = IsolatedJobs(weft.fabric("xgft:2;4,4;1,4"), "jigsaw")
    job = state.find(7)
    assert job is not None
    order = np.roll(job.hosts, 4)
    assert permutation_is_possible(state, job, order)
    for leaf, cables in job.leaf_cables.items():
        fewer = replace(job, leaf_cables=job.leaf_cables | {leaf: cables & (cables - 1)})
        assert not permutation_is_possible(state, fewer, order)


def fits_in_a_pod(state: IsolatedJobs, count: int) -> bool:
    """Return whether any leaves of a two-level tree and any sets of cables fit a job."""
    leaves = range(len(state.free))
    for each in range(1, count + 1):
        full, rest = divmod(count, each)
        for chosen in combinations(leaves, full):
            if any(len(state.free[leaf]) < each for leaf in chosen):
                continue
            if full == 1 and not rest:
                return True
            common = set(range(8))
            for leaf in chosen:
                common &= {k for k in range(8) if state.leaf_cables[leaf] >> k & 1}
            lasts = [
                leaf for leaf in leaves if leaf not in chosen and len(state.free[leaf]) >= rest
            ]
            for last in lasts if rest else chosen[:1]:
                own = {k for k in common if state.leaf_cables[last] >> k & 1}
                if len(common) >= each and len(own) >= rest:
                    return True
    return False


def test_a_job_is_refused_only_if_no_allocation_exists() -> None:
    random = np.random.default_rng(4)
    answers = []
    for _ in range(60):
        state = IsolatedJobs(weft.fabric("xgft:2;4,5;1,4"), "jigsaw")
        for leaf in range(5):
            # Any state of cables, also those that no sequence of jobs would leave.
            state.leaf_cables[leaf] = int(random.integers(16))
            state.free[leaf] = state.free[leaf][: int(random.integers(5))]
        for count in range(1, 12):
            job = state.find(count)
            assert (job is not None) == fits_in_a_pod(state, count)
            answers.append(job is not None)
    assert 100 < sum(answers) < len(answers) - 100


@pytest.mark.parametrize("method", ["jigsaw", "laas"])
def test_links_follow_from_the_hosts_of_jobs(method: Isolation) -> None:
    fabric = weft.fabric("xgft:3;4,4,4;1,4,4")
    state, random = IsolatedJobs(fabric, method), np.random.default_rng(2)
    jobs: list[Allocation] = []
    placed: list[np.ndarray] = []
    for count in random.integers(1, 18, 12).tolist():
        job = state.find(count)
        if job is None:
            with pytest.raises((weft.NotApplicable, weft.InputError)):
                weft.place(fabric, count, "isolated", method=method, earlier=placed)
            continue
        state.take(job)
        jobs.append(job)
        placed.append(weft.place(fabric, count, "isolated", method=method, earlier=placed))
        assert placed[-1].tolist() == list(job.hosts[:count])
    assert isolated_allocations(fabric, placed, method) == jobs


def test_all_shapes_are_searched() -> None:
    """Every number of hosts fits an empty tree, and a job fits exactly what others have left."""
    fabric = weft.fabric("xgft:3;4,4,4;1,4,4")
    for count in range(1, 65):
        placed = [weft.place(fabric, count, "isolated")]
        if count < 64:
            placed.append(weft.place(fabric, 64 - count, "isolated", earlier=placed))
        assert len(set(np.concatenate(placed).tolist())) == 64
    waste = [
        isolated_allocations(fabric, [weft.place(fabric, count, "isolated:method=laas")], "laas")
        for count in range(1, 65)
    ]
    assert [jobs[0].wasted for jobs in waste] == [
        -count % 4 if count > 16 else 0 for count in range(1, 65)
    ]


def test_a_released_job_leaves_no_trace() -> None:
    state = IsolatedJobs(weft.fabric("xgft:3;4,4,4;1,4,4"), "jigsaw")
    before = [each.copy() for each in state.free], state.leaf_cables.copy(), str(state.pod_cables)
    found = [state.find(count) for count in (5,)]
    for count in (21, 7, 3):
        job = state.find(count)
        assert job is not None
        state.take(job)
        found.append(job)
    for job in found[:0:-1]:
        assert job is not None
        state.release(job)
    assert (state.free, state.leaf_cables, str(state.pod_cables)) == before
    assert state.find(5) == found[0]


def test_jobs_of_a_mix_are_isolated_or_refused() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")

    def job(name: str, placement: str = "isolated", ranks: int = 6) -> Job:
        work = weft.application_workload("cartesian", ranks)
        return Job(work, name=name, placement=placement)

    mix = combine([job("a"), job("b")], fabric)
    first, second = isolated_allocations(fabric, [mix.hosts[:6], mix.hosts[6:]])
    for leaf in first.leaf_cables.keys() & second.leaf_cables.keys():
        assert not first.leaf_cables[leaf] & second.leaf_cables[leaf]
    # A free host on each leaf, in pods of four: no pod has room, and no leaf is whole.
    tree = weft.fabric("xgft:3;4,4,4;1,4,4")
    threes = [job(f"three{at}", ranks=3) for at in range(16)]
    with pytest.raises(weft.NotApplicable, match=r"job last: .* no 5 of the 16 free hosts"):
        combine([*threes, job("last", ranks=5)], tree)
    with pytest.raises(weft.NotApplicable, match="job 1, already placed, is not isolated"):
        combine([job("a", "random:seed=1"), job("b")], fabric)
    with pytest.raises(weft.NotApplicable, match="job 2 cannot be isolated"):
        isolated_allocations(fabric, [[0, 1], [2, 4, 5, 8]])


@pytest.mark.parametrize("method", ["jigsaw", "laas"])
def test_jobs_on_their_own_links_take_as_long_as_alone(method: Isolation) -> None:
    fabric = weft.fabric("xgft:3;4,4,4;1,4,4")
    jobs = [
        Job(
            weft.load_workload("alltoall:size=64KiB", ranks),
            name=f"job{at}",
            placement=f"isolated:method={method}",
        )
        for at, ranks in enumerate((9, 21, 3, 7, 18))
    ]
    mix = combine(jobs, fabric)
    placed = [mix.hosts[mix.job == number] for number in range(len(jobs))]
    routes = isolated_routes(fabric, placed, method)
    between = fabric.graph.edge_link
    used = np.zeros(len(between), dtype=int)
    for job, hosts in zip(jobs, placed, strict=True):
        ends = np.array(list(permutations(hosts.tolist(), 2))).T
        loads = weft.link_loads(fabric, routes, *ends)[between]
        assert loads.sum() or job.workload.num_ranks < 4
        used += loads > 0
    assert used.max() == 1
    together = weft.simulate(fabric, routes, mix.workload, mix.hosts).messages()["slowdown"]
    alone = [
        weft.simulate(fabric, routes, job.workload, hosts).messages()["slowdown"]
        for job, hosts in zip(jobs, placed, strict=True)
    ]
    np.testing.assert_allclose(together, np.concatenate(alone))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("torus:4x4", "connects two switches"),
        ("xgft:2;4,4;1,2", "as many cables upwards"),
        ("xgft:2;4,4;1,2;1,2", "one cable between two switches"),
        ("xgft:4;2,2,2,2;1,2,2,2", "at most three levels"),
    ],
)
def test_other_networks_are_refused(spec: str, reason: str) -> None:
    with pytest.raises(weft.NotApplicable, match=reason):
        weft.place(weft.fabric(spec), 2, "isolated")
