"""The scheduler of routing keys, and runs with keys at the flow and packet levels."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.sim.keys import keys
from weft.sim.keys.alternatives import alternatives
from weft.sim.keys.choice import Choice, chosen_columns
from weft.sim.keys.network import key_network
from weft.sim.keys.routing_key import HOST_RATE
from weft.sim.keys.run import KeyRules, KeyRun
from weft.sim.keys.scheduler import (
    Done,
    Event,
    Leave,
    Place,
    Request,
    Scheduler,
    SchedulerGrant,
    Tick,
)
from weft.sim.keys.tables import key_tables
from weft.workload.jobs import Job, JobMix, combine

TREE = weft.fabric("xgft:3;4,4,4;1,4,4")
ROUTES = weft.route(TREE, "dmodk")


def scheduler(number: int = 6, **options: object) -> Scheduler:
    """Return a scheduler with keys k0, k1, … of 12 flows each."""
    random = np.random.default_rng(7)
    made = Scheduler(key_network(TREE), **options)  # type: ignore[arg-type]
    for index in range(number):
        ends = random.permutation(64)[:24].reshape(2, 12)
        key = keys(TREE, *ends, name=f"k{index}")
        made.handle(Place(0.0, key, tuple(alternatives(key, 3))))
    return made


@pytest.mark.parametrize("choice", ["shift", "optimum", "first-fit", "fixed", "installed"])
@pytest.mark.parametrize("criterion", ["max", "variance"])
def test_loads_are_those_of_the_keys_in_use(choice: str, criterion: str) -> None:
    state = scheduler(choice=choice, criterion=criterion)
    random = np.random.default_rng(8)
    grants: list[SchedulerGrant] = []
    for time in range(120):
        name = f"k{random.integers(6)}"
        event: Event = (Done if name in state.granted else Request)(float(time), name)
        grants += state.handle(event)
        fresh = sum(
            (state.keys[each].moved(grant.column).loads for each, grant in state.granted.items()),
            np.zeros_like(state.loads),
        )
        assert np.array_equal(state.loads, fresh)
        # Every host has one flow of each key.
        assert np.array_equal(state.reserved, fresh * HOST_RATE * (choice == "first-fit"))
    again = Scheduler(key_network(TREE), choice=choice, criterion=criterion)  # type: ignore[arg-type]
    answers = again.replay(state.log)
    for one, other in zip(answers, grants, strict=True):
        assert (one.name, one.time_ns) == (other.name, other.time_ns)
        assert np.array_equal(one.column, other.column)
    assert np.array_equal(again.loads, state.loads)
    assert again.log == state.log
    for name in list(state.granted):
        state.handle(Done(1e3, name))
    assert not state.loads.any()
    assert not state.reserved.any()


def test_flows_of_a_host_share_its_rate() -> None:
    key = keys(TREE, [0, 0, 0, 1, 2, 3, 3], [20, 24, 20, 20, 2, 40, 41])
    assert (HOST_RATE / key.demand).round().tolist() == [2, 2, 2, 2, 1, 2, 2]
    # Three flows of a third fit on a link; two of a half and one of a third do not.
    tree = weft.fabric("xgft:2;4,4;1,4")
    thirds = keys(tree, [0, 0, 0], [4, 8, 12], name="thirds")
    halves = keys(tree, [1, 1], [5, 9], name="halves")
    state = Scheduler(key_network(tree), choice="first-fit")
    for key in (thirds, halves):
        state.handle(Place(0.0, key))
        state.handle(Request(0.0, key.name))
    assert state.granted["thirds"].column[:, 0].tolist() == [0, 0, 0]
    assert state.granted["halves"].column[:, 0].tolist() == [1, 1]


def test_a_key_moves_to_switches_that_no_other_key_uses() -> None:
    tree = weft.fabric("xgft:2;4,4;1,4")
    state = Scheduler(key_network(tree))
    state.handle(Place(0.0, keys(tree, [0, 1], [4, 8], name="A")))
    state.handle(Place(0.0, keys(tree, [2], [12], name="B")))
    (first,), (second,) = (state.handle(Request(1.0, name)) for name in "AB")
    assert state.loads.max() == 1
    assert set(first.column[:, 0]) | set(second.column[:, 0]) == {0, 1, 2}


def test_keys_of_an_equal_fabric_are_accepted() -> None:
    state = Scheduler(key_network(TREE))
    key_network.cache_clear()
    state.handle(Place(0.0, keys(weft.fabric(TREE.name), [0, 1], [20, 40])))
    assert len(state.handle(Request(1.0, "A"))) == 1
    assert state.loads.sum() == 8


def test_requests_wait_for_the_scheduler_in_order_of_arrival() -> None:
    state = scheduler(latency_ns=100.0, service_ns=30.0)
    grants = [grant for at in range(3) for grant in state.handle(Request(float(at), f"k{at}"))]
    assert [grant.time_ns for grant in grants] == [230.0]
    assert state.next_decision_ns == 30.0
    grants = state.handle(Tick(60.0))
    assert [(grant.name, grant.time_ns) for grant in grants] == [("k1", 260.0), ("k2", 290.0)]
    assert state.next_decision_ns == np.inf
    state.handle(Done(500.0, "k0"))
    (grant,) = state.handle(Request(500.0, "k3"))
    assert grant.time_ns == 730.0


def test_a_request_is_decided_when_it_is_served_and_withdrawn_by_an_earlier_return() -> None:
    tree = weft.fabric("xgft:2;4,4;1,2")
    state = Scheduler(key_network(tree), service_ns=100.0)
    for name, source in zip("ABCD", range(4), strict=True):
        state.handle(Place(0.0, keys(tree, [source], [source + 4], name=name)))
    requests = zip(range(4), "ABCD", strict=True)
    grants = [grant for at, name in requests for grant in state.handle(Request(float(at), name))]
    assert [grant.name for grant in grants] == ["A"]
    with pytest.raises(weft.InputError, match="C is in use"):
        state.handle(Request(5.0, "C"))
    (second,) = state.handle(Done(110.0, "B"))  # served from 100 ns
    state.handle(Done(120.0, "C"))
    (last,) = state.handle(Tick(250.0))  # D follows B, because C is withdrawn
    assert (second.name, second.time_ns, last.name, last.time_ns) == ("B", 200.0, "D", 300.0)
    assert last.column[0, 0] == second.column[0, 0] != grants[0].column[0, 0]
    assert state.loads.max() == 1


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Request(5.0, "k9"), "no key k9"),
        (Request(5.0, "k0"), "k0 is in use"),
        (Done(5.0, "k1"), "k1 is returned, but it is not in use"),
        (Done(5.0, "b"), "no key b"),
        (Leave(5.0, "b"), "no key b"),
        (Request(0.5, "k1"), "earlier than the one before"),
        (Request(float("nan"), "k1"), "nan ns"),
        (Place(5.0, keys(TREE, [0], [9], name="k2")), "already a key k2"),
        (Place(5.0, keys(weft.fabric("xgft:2;4,4;1,4"), [0], [9])), "for another fabric"),
    ],
)
def test_wrong_events_are_refused_and_change_nothing(event: Event, message: str) -> None:
    state = scheduler()
    state.handle(Request(1.0, "k0"))
    before = state.loads.copy(), dict(state.granted), dict(state.keys)
    with pytest.raises(weft.InputError, match=message):
        state.handle(event)
    assert np.array_equal(state.loads, before[0])
    assert (state.granted, state.keys) == before[1:]
    state.handle(Done(1.0, "k0"))
    assert not state.loads.any()


def mix(keyed: bool = True, jobs: int = 4) -> JobMix:
    """Return jobs of 12 ranks with random placements."""
    return combine(
        [
            Job(
                weft.application_workload("cartesian", 12, keys=keyed, seed=seed, iterations=2),
                name=f"job{seed}", placement=f"random:seed={seed}",
            )
            for seed in range(jobs)
        ],
        TREE,
    )  # fmt: skip


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_one_application_has_no_contention_with_its_key(level: str) -> None:
    alone = mix(jobs=1)
    result = weft.simulate(TREE, ROUTES, alone.workload, alone.hosts, level=level, policy="nrk")  # type: ignore[call-overload]
    slowdown = result.messages().filter(result.messages()["size_bytes"] > 0)["slowdown"]
    assert slowdown.max() == pytest.approx(1.0, abs=1e-3 if level == "flow" else 0.02)


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_levels_and_policies_run_the_same_programs(level: str) -> None:
    jobs = mix()
    spans = {}
    for policy in (
        "deterministic",
        "ark",
        "nrk",
        "nrk:choice=optimum,criterion=variance",
        "nrk:choice=first-fit",
    ):
        result = weft.simulate(TREE, ROUTES, jobs.workload, jobs.hosts, level=level, policy=policy)  # type: ignore[call-overload]
        assert (result.messages()["arrived_ns"] >= 0).all()
        spans[policy] = result.makespan_ns
    assert spans["nrk"] < spans["deterministic"]


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_phases_wait_for_the_scheduler_or_take_the_base_routes(level: str) -> None:
    jobs = mix(jobs=2)

    def span(policy: str) -> float:
        result = weft.simulate(TREE, ROUTES, jobs.workload, jobs.hosts, level=level, policy=policy)  # type: ignore[call-overload]
        assert isinstance(result.makespan_ns, float)
        return result.makespan_ns

    # Two iterations of six phases, each of which waits twice the latency.
    assert span("nrk:latency=20us") >= span("nrk") + 12 * 2 * 20_000 * 0.95
    # Both jobs have the same scheduler, so their requests wait for each other.
    assert span("nrk:service=20us") >= span("nrk") + 12 * 20_000 * 0.95
    # The grant comes after all messages of the phase have been posted, so it has no effect.
    assert span("nrk:latency=1ms,before=base") == span("deterministic")


@pytest.mark.parametrize(("level", "before"), [("flow", "wait"), ("packet", "base")])
def test_many_requests_wait_for_a_slow_scheduler(level: str, before: str) -> None:
    jobs = mix(jobs=5)
    policy = f"nrk:service=3us,latency=1us,before={before}"
    result = weft.simulate(TREE, ROUTES, jobs.workload, jobs.hosts, level=level, policy=policy)  # type: ignore[call-overload]
    assert (result.messages()["arrived_ns"] >= 0).all()
    if before == "wait":  # 60 requests of 3 us, one after the other
        assert result.makespan_ns >= 60 * 3_000


def test_a_run_without_requests_has_keys_of_its_phases_or_is_refused() -> None:
    jobs = mix(keyed=False)
    ark = weft.simulate(TREE, ROUTES, jobs.workload, jobs.hosts, policy="ark")
    assert ark.makespan_ns > 0
    with pytest.raises(weft.NotApplicable, match="requests no routing keys"):
        weft.simulate(TREE, ROUTES, jobs.workload, jobs.hosts, policy="nrk")
    with pytest.raises(weft.InputError, match="only policy nrk has a scheduler"):
        weft.simulate(
            TREE, ROUTES, jobs.workload, jobs.hosts, policy="ark", scheduler="latency=1us"
        )
    with pytest.raises(weft.NotApplicable, match="leaves a choice"):
        weft.simulate(TREE, weft.route(TREE, "ecmp"), jobs.workload, jobs.hosts, policy="ark")


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_paths_of_messages_under_way_do_not_change(level: str) -> None:
    """The first phase has a long message; the third must not change its path."""
    builder = weft.WorkloadBuilder(2)
    for size in (10_000_000, 1, 1):
        builder.key_request([0, 1], 1)
        builder.put(0, 1, size, after=[])
        builder.key_done([0, 1], 1)
    with pytest.raises(weft.InputError, match="end each phase with a barrier"):
        weft.simulate(TREE, ROUTES, builder.build(), [0, 60], level=level, policy="nrk")  # type: ignore[call-overload]


def test_keys_of_a_workload_are_listed_by_number_and_name() -> None:
    work = weft.application_workload("cartesian", 12, keys=True)
    made = weft.workload_keys(TREE, work, "random:seed=4")
    assert len(made) == 6
    assert made["world:2"] is made[2]
    assert made.table()["worst"].to_list() == [key.worst for key in made] == [1] * 6
    assert repr(made) == "KeySet(6 keys; at most 1 flow of a key on a link)"
    with pytest.raises(weft.InputError, match="no key world:9"):
        made["world:9"]


def test_keys_that_are_not_returned_are_refused() -> None:
    builder = weft.WorkloadBuilder(2)
    builder.key_request([0, 1], 1)
    builder.key_request([0, 1], 2)
    with pytest.raises(weft.InputError, match="requests a key while it holds another"):
        weft.simulate(TREE, ROUTES, builder.build(), policy="ark")
    for requested in ((), (1,)):
        builder = weft.WorkloadBuilder(2)
        for key in requested:
            builder.key_request([0, 1], key)
        builder.key_done([0, 1], 2)
        with pytest.raises(weft.InputError, match=r"return of routing key 2.*does not hold it"):
            weft.simulate(TREE, ROUTES, builder.build(), policy="ark")


def test_flows_without_a_lid_take_the_base_routes() -> None:
    jobs = mix(keyed=False)
    work, hosts = jobs.workload, jobs.hosts
    free = KeyRun(TREE, ROUTES, work, hosts, KeyRules(scheduled=False))
    lost = {}
    for lmc in (1, 2, 5):
        run = KeyRun(TREE, ROUTES, work, hosts, KeyRules(scheduled=False, lmc=lmc))
        tables = key_tables(TREE, ROUTES, tuple(run.plan), lmc)
        without = {
            (number, int(key.sources[flow]), int(key.destinations[flow]))
            for number, (key, given) in enumerate(zip(run.plan, tables.offset, strict=True))
            for flow in np.flatnonzero(given < 0)
        }
        lost[lmc] = len(without)
        for op in work.messages.tolist():
            ends = (int(hosts[work.rank[op]]), int(hosts[work.peer[op]]))
            missing = (int(run.plan.of_op[op]), *ends) in without
            assert run.lid_offset[op] == (0 if missing else free.lid_offset[op])
    assert lost[1] > lost[2] > lost[5] == 0
    with pytest.raises(weft.NotApplicable, match="room for an LMC of 7, not 8"):
        weft.simulate(TREE, ROUTES, work, hosts, policy="ark:lmc=8")
    with pytest.raises(weft.InputError, match="lmc"):
        weft.simulate(TREE, ROUTES, work, hosts, policy="ark:lmc=-1")


@pytest.mark.parametrize("choice", ["shift", "optimum"])
@pytest.mark.parametrize("spec", ["xgft:3;4,4,4;1,4,2", "xgft:4;3,3,3,3;1,3,2,1"])
def test_a_moved_key_keeps_its_own_contention(spec: str, choice: Choice) -> None:
    tree = weft.fabric(spec)
    random = np.random.default_rng(3)
    for _ in range(20):
        key = keys(tree, *(random.integers(0, tree.num_hosts, tree.num_hosts) for _ in range(2)))
        loads = random.integers(0, 3, len(key.loads)).astype(np.int32)
        moved = key.moved(chosen_columns(key, loads, choice, "max"))
        assert moved.worst == key.worst
        assert np.array_equal(moved.colour, key.colour)


@pytest.mark.parametrize("choice", ["shift", "optimum"])
def test_a_key_moves_on_a_tree_with_missing_cables(choice: Choice) -> None:
    tree = TREE.with_faults(cables=12, seed=2)
    random = np.random.default_rng(4)
    changed = 0
    for _ in range(20):
        key = keys(tree, *random.permutation(64)[:32].reshape(2, 16))
        loads = random.integers(0, 3, len(key.loads)).astype(np.int32)
        moved = key.moved(chosen_columns(key, loads, choice, "max"))
        assert (key.network.weight[moved.loads > 0] > 0).all()
        most = [(loads + each.loads)[each.loads > 0].max() for each in (key, moved)]
        assert most[1] <= most[0] or choice == "shift"
        changed += not np.array_equal(moved.column, key.column)
    assert changed
