"""Hardware broadcasts and barriers: cycles by hand, one copy for each host, deadlocks, bad input.

Settings are those of QsNET: cycles of 5 ns, cables of 2 cycles, switches of 7 cycles for the first
flit of a packet and of 1 cycle for the others.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests import simulate_runs
from tests.flit_runs import run_workload

import weft
from weft.sim.flit.workloads import FlitResult
from weft.sim.qsnet import qsnet
from weft.workload import Workload, WorkloadBuilder
from weft.workload.collectives import collective_on, collective_workload
from weft.workload.formats import write_workload
from weft.workload.jobs import Job, combine

SWITCH, TREE = "kary-n-tree:4;1;rate=3.2", "kary-n-tree:4;3;rate=3.2"
CYCLE_NS, ADAPTER_NS = 5.0, 1000.0
#: Flits of a full packet and of one without data; cycles of a cable, of a switch for the first flit
#: and for others, and of an adapter for a packet (571 ns).
FLITS, EMPTY, CABLE, HOP, BODY, SERVICE = 189, 29, 2, 7, 1, 114
#: Cycles of the first flit, and of an acknowledgement, to all hosts: over 1 and over 5 switches.
WAY = {SWITCH: 2 * CABLE + HOP, TREE: 6 * CABLE + 5 * HOP}


def hosts_of(spec: str) -> int:
    return int(weft.fabric(spec).num_hosts)


def broadcast(root: int, ranks: Any, size: int, builder: WorkloadBuilder) -> None:
    members = np.asarray(ranks)
    at = int(np.flatnonzero(members == root)[0])
    collective_on(builder, "bcast", members, size, algorithm="hardware", root=at)


def run(spec: str, builder: WorkloadBuilder | Workload, **options: Any) -> FlitResult:
    work = builder if isinstance(builder, Workload) else builder.build()
    description = options.pop("description", {})
    return run_workload(spec, work, **{**qsnet(**description), **options})


@pytest.mark.parametrize("spec", [SWITCH, TREE])
def test_one_packet_reaches_all_hosts_in_the_time_of_one_host(spec: str) -> None:
    count = hosts_of(spec)
    result = run(spec, collective_workload("bcast:size=320,algorithm=hardware,root=1", count))
    arrived = result.arrived_ns[result.workload.messages]
    # The last flit of the data follows the first by all others but the tail.
    cycles = ADAPTER_NS / CYCLE_NS + WAY[spec] + FLITS - 2
    assert len(arrived) == count - 1
    assert (arrived == cycles * CYCLE_NS + ADAPTER_NS).all()
    # One copy on the cable of each host, the sender's too, and one from the sender.
    links = result.links()
    down = links.filter(pl.col("kind") == "switch-host")["flits"]
    assert down.to_list() == [FLITS] * count
    assert links.filter(pl.col("kind") == "host-switch")["flits"].sum() == FLITS
    inner = links.filter(pl.col("kind") == "switch-switch")["flits"]
    # Up two cables, and down to four and from there to sixteen switches.
    assert inner.sum() == (FLITS * (2 + 4 + 16) if spec == TREE else 0)


@pytest.mark.parametrize(
    ("root", "ranks", "links"),
    [(5, range(4, 8), 0), (3, range(3, 5), 1 + 2), (0, range(16), 1 + 4), (17, range(14, 18), 4)],
)
def test_a_range_is_reached_from_the_first_switch_above_it(
    root: int, ranks: range, links: int
) -> None:
    """Switches of a level cover 4, 16 and 64 hosts; `links` are those between switches."""
    builder = WorkloadBuilder(64)
    broadcast(root, ranks, 320, builder)
    result = run(TREE, builder)
    levels = 1 if len({rank // 4 for rank in ranks}) == 1 else 2
    levels = levels if len({rank // 16 for rank in ranks}) == 1 else 3
    way = 2 * levels * CABLE + (2 * levels - 1) * HOP
    arrived = result.arrived_ns[result.workload.messages]
    assert (arrived == (200 + way + FLITS - 2) * CYCLE_NS + ADAPTER_NS).all()
    used = result.links().filter(pl.col("flits") > 0)
    assert used.filter(pl.col("kind") == "switch-host").height == len(ranks)
    inner = used.filter(pl.col("kind") == "switch-switch").height
    assert inner == {1: 0, 2: links, 3: 2 + 2 + links - 2}[levels]


def test_the_circuit_is_held_until_the_last_acknowledgement() -> None:
    """One packet at a time: the second leaves when the adapter that is last has answered."""
    work = collective_workload("bcast:size=640,algorithm=hardware", 4)
    result = run(SWITCH, work, description={"window": 1})
    # The others answer when they have the data. The sender's adapter handles the packet that it
    # sends, then its own copy. The answer comes back, the tail leaves, and the second packet leaves
    # one cycle later.
    answered = 2 * SERVICE + WAY[SWITCH]
    assert answered > WAY[SWITCH] + FLITS - 2 + WAY[SWITCH]
    cycles = 200 + answered + 1 + WAY[SWITCH] + FLITS - 2
    assert (result.arrived_ns[result.workload.messages] == cycles * CYCLE_NS + ADAPTER_NS).all()


@pytest.mark.parametrize("spec", [SWITCH, TREE])
def test_a_barrier_takes_one_packet_its_answers_and_its_tail(spec: str) -> None:
    count = hosts_of(spec)
    result = run(spec, collective_workload("barrier:algorithm=hardware", count))
    # The sender's adapter handles the packet that it sends, then its own copy. Of the tail, no
    # switch takes the time to route it.
    cables = WAY[spec] - HOP * (1 if spec == SWITCH else 5)
    tail = cables + BODY * (1 if spec == SWITCH else 5)
    cycles = 200 + 2 * SERVICE + WAY[spec] + tail
    assert (result.arrived_ns[result.workload.messages] == cycles * CYCLE_NS + ADAPTER_NS).all()
    assert result.links().filter(pl.col("kind") == "switch-host")["flits"].max() == EMPTY


@pytest.mark.parametrize("late", [0, 5, 15])
def test_no_rank_leaves_a_barrier_before_the_last_has_entered(late: int) -> None:
    builder = WorkloadBuilder(16)
    entered = builder.calc(late, 20_000.0)
    collective_on(builder, "barrier", range(16), algorithm="hardware")
    left = builder.calc(np.arange(16), 1.0)
    work = builder.build()
    result = run("kary-n-tree:4;2;rate=3.2", work)
    assert result.complete
    after = result.posted_ns[work.duration_ns == 1.0]
    assert len(after) == len(left)
    assert entered >= 0
    assert after.min() > 20_000.0 + ADAPTER_NS
    # A test that fails is repeated at once: the barrier ends within two rounds.
    assert after.max() < 20_000.0 + 2 * ADAPTER_NS + 2 * 1500.0
    tests = result.links().filter(pl.col("kind") == "switch-host")["flits"] / EMPTY
    assert tests.n_unique() == 1
    assert tests[0] == 1 if late == 0 else tests[0] > 10


def test_ranks_that_share_hosts_enter_a_barrier_one_by_one() -> None:
    builder = WorkloadBuilder(8)
    builder.calc(4, 10_000.0)  # on the host of rank 0, which sends
    collective_on(builder, "barrier", range(8), algorithm="hardware")
    builder.calc(np.arange(8), 1.0)
    result = weft.simulate(
        weft.fabric(SWITCH), "nca-adaptive", builder.build(), placement=[0, 1, 2, 3] * 2,
        level="flit", **qsnet(),
    )  # fmt: skip
    assert result.posted_ns[result.workload.duration_ns == 1.0].min() > 11_000.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("circuits", [True, False])
def test_broadcasts_of_many_sources_and_other_traffic_end(seed: int, circuits: bool) -> None:
    """Every rank gets every broadcast of its group once, among puts between random hosts."""
    random = np.random.default_rng(seed)
    builder = WorkloadBuilder(64)
    for _ in range(40):
        low = int(random.integers(0, 63))
        high = int(random.integers(low + 1, 64))
        root = int(random.integers(low, high + 1))
        broadcast(root, range(low, high + 1), int(random.choice([1, 320, 900])), builder)
    for source, target in random.integers(0, 64, size=(400, 2)):
        if source != target:
            builder.put(int(source), int(target), int(random.choice([0, 320, 5000])))
    options = qsnet(channels=1, window=1, fifo_flits=8)
    if not circuits:
        options["adapter"] = weft.Adapter()
    result = run_workload(TREE, builder.build(), **options)
    assert result.complete
    assert result.deadlock == ""
    np.testing.assert_array_equal(
        result.carried[result.workload.messages],
        result.workload.size_bytes[result.workload.messages],
    )


def test_barriers_of_several_groups_at_once_end() -> None:
    builder = WorkloadBuilder(64)
    for _ in range(3):
        collective_on(builder, "barrier", np.arange(64).reshape(8, 8), algorithm="hardware")
        builder.calc(np.arange(64), np.arange(64) * 10.0)
        collective_on(builder, "barrier", range(64), algorithm="hardware")
    result = run(TREE, builder)
    assert result.complete
    assert (result.ended_ns >= 0).all()


def test_a_barrier_that_a_rank_never_enters_is_a_deadlock() -> None:
    builder = WorkloadBuilder(4)
    # Rank 3 enters when rank 0 has left.
    builder.recv(3, 0, 8)
    collective_on(builder, "barrier", range(4), algorithm="hardware")
    builder.send(0, 3, 8)
    with pytest.raises(weft.InputError, match=r"deadlocks after .*rank 3 in operation 0"):
        run(SWITCH, builder)


@pytest.mark.parametrize(
    ("routing", "options", "words"),
    [
        ("dmodk", {}, "need the routing nca-random or nca-adaptive, not dmodk"),
        ("nca-adaptive", {"adapter": weft.Adapter()}, "needs an adapter with circuits"),
        ("nca-adaptive", {"overhead_ns": 5.0}, "go without overhead"),
        (
            "nca-adaptive",
            {"router": weft.Router(output_buffer=2)},
            "routers with output_buffer have no hardware broadcasts",
        ),
        ("nca-adaptive", {"router": weft.Router(hold_switch=True)}, "routers with hold_switch"),
        (
            "nca-adaptive",
            {"router": weft.Router(switching="store-and-forward")},
            "store-and-forward goes without hardware broadcasts",
        ),
        ("nca-adaptive", {"router": weft.Router(speculative=True)}, "routers with speculative"),
        ("nca-adaptive", {"placement": [0, 1, 3]}, "of n000 to n003 it leaves out n002"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    routing: str, options: dict[str, Any], words: str
) -> None:
    fabric = weft.fabric(SWITCH)
    routes: Any = weft.route(fabric, "minhop") if routing == "dmodk" else routing
    words = words.replace("dmodk", "minhop").replace("n00", fabric.host_names[0][:-1])
    work = collective_workload("barrier:algorithm=hardware", 3)
    with pytest.raises(weft.InputError, match=re.escape(words)):
        weft.simulate(fabric, routes, work, level="flit", **{**qsnet(), **options})


def test_broadcasts_need_one_thread() -> None:
    work = collective_workload("bcast:size=8,algorithm=hardware", hosts_of(TREE))
    with pytest.raises(weft.InputError, match="threads 2: copies of hardware broadcasts are"):
        run(TREE, work, adapter=weft.Adapter(), threads=2)


@pytest.mark.parametrize("level", ["static", "flow", "packet"])
def test_other_levels_refuse_hardware_broadcasts(level: Any) -> None:
    fabric = weft.fabric(SWITCH)
    work = collective_workload("bcast:size=8,algorithm=hardware", 4)
    with pytest.raises(weft.InputError, match=f"hardware broadcasts.* the {level} level does not"):
        weft.simulate(fabric, weft.route(fabric, "minhop"), work, level=level)


def test_fabrics_without_a_tree_of_consecutive_hosts_are_refused() -> None:
    work = collective_workload("bcast:size=8,algorithm=hardware", 4)
    with pytest.raises(weft.NotApplicable):
        run("torus:4x4,rate=3.2", work)
    tree = weft.fabric("kary-n-tree:4;2;rate=3.2").shuffled(1)
    with pytest.raises(weft.NotApplicable, match=r"consecutive hosts, which those of .* are not"):
        weft.simulate(tree, "nca-adaptive", work, level="flit", **qsnet())


def test_multicasts_that_cannot_be_are_refused(tmp_path: Any) -> None:
    builder = WorkloadBuilder(4)
    with pytest.raises(weft.InputError, match="needs a rank that receives"):
        builder.multicast(0, [], 8)
    with pytest.raises(weft.InputError, match="listed twice"):
        builder.multicast(0, [1, 1], 8)
    with pytest.raises(weft.InputError, match="a test has no bytes, not 8"):
        builder.multicast(0, [1, 2], 8, test=True)
    with pytest.raises(weft.InputError, match="there is no rank 4"):
        builder.multicast(0, [1, 4], 8)
    work = collective_workload("bcast:size=8,algorithm=hardware", 4)
    with pytest.raises(weft.NotApplicable, match="the format goal has no hardware"):
        write_workload(work, tmp_path / "work.goal")


def test_jobs_keep_their_broadcasts() -> None:
    fabric = weft.fabric("kary-n-tree:4;2;rate=3.2")
    hardware = collective_workload("bcast:size=320,algorithm=hardware", 4)
    other = collective_workload("bcast:size=320", 4)
    jobs = combine([Job(other, "a"), Job(hardware, "b")], fabric)
    result = weft.simulate(
        fabric, "nca-adaptive", jobs.workload, placement=jobs.hosts, level="flit", **qsnet()
    )
    assert (result.arrived_ns[result.workload.multicast > 0] == 2990.0).all()


def test_a_large_broadcast_has_no_rendezvous() -> None:
    fabric = weft.fabric(SWITCH)
    work = collective_workload("bcast:size=64KiB,algorithm=hardware", 4)
    result = weft.simulate(fabric, "nca-adaptive", work, level="flit", **qsnet())
    links = result.links().filter(pl.col("kind") == "host-switch")["flits"]
    # 204 full packets, and one of 256 + 58 bytes; nothing from the ranks that receive.
    assert sorted(links) == [0, 0, 0, 204 * FLITS + 157]


def test_the_command_line_runs_a_hardware_barrier(capsys: Any) -> None:
    words = (simulate_runs.TREE, "--workload", "barrier:algorithm=hardware")
    flit = ("--level", "flit", "--routing", "nca-adaptive")
    circuits = ("--adapter", "circuits=true")
    status, _, err = simulate_runs.run(capsys, *words, *flit, *circuits)
    assert status != 0
    assert "packets that hold circuits have at least 2 flits" in err
    circuits += ("--hardware", "header=128B")
    status, out, err = simulate_runs.run(capsys, *words, *flit, *circuits)
    assert (status, err) == (0, "")
    assert "Makespan" in out
    status, _, err = simulate_runs.run(capsys, *words, *flit)
    assert status != 0
    assert "a hardware barrier waits for acknowledgements" in err
    status, _, err = simulate_runs.run(capsys, *words, "--level", "packet", "--engine", "dmodk")
    assert status != 0
    assert "which the packet level does not" in err
