"""QsNET: packets that hold circuits, cycle by cycle, and the rates and times of the ping tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.flit_runs import run_workload

import weft
from weft.sim.flit.workloads import FlitResult
from weft.sim.qsnet import QsNet, qsnet
from weft.workload import WorkloadBuilder
from weft.workload.jobs import Job, combine

SWITCH, TREE = "kary-n-tree:4;1;rate=3.2", "kary-n-tree:4;2;rate=3.2"
CYCLE_NS = 5.0
#: Flits of a full packet, (320 + 58) / 2; cycles of a cable of 2 m, and of a switch.
FLITS, CABLE, HOP = 189, 2, 7
#: Cycles of a flit over one switch.
WAY = CABLE + HOP + CABLE


def puts(
    pairs: Sequence[tuple[int, int]], size: int, *, fabric: str = SWITCH, repeat: int = 1,
    options: dict[str, Any] | None = None, **description: Any,
) -> FlitResult:  # fmt: skip
    """Run puts between pairs of hosts, all at time 0."""
    builder = WorkloadBuilder(weft.fabric(fabric).num_hosts)
    for _ in range(repeat):
        for source, target in pairs:
            builder.put(source, target, size)
    return run_workload(fabric, builder.build(), **{**qsnet(**description), **(options or {})})


def period_ns(pairs: Sequence[tuple[int, int]], fabric: str = SWITCH, **description: Any) -> float:
    """Return the time between the packets of a long message, the longest of all pairs."""
    few, many = (
        puts(pairs, count * 320, fabric=fabric, **description).arrived_ns for count in (20, 220)
    )
    return float((many - few).max() / 200)


def test_one_packet_holds_its_circuit_for_the_cycles_of_the_rules() -> None:
    result = puts([(0, 1)], 320)
    adapter_ns = 1000.0
    left = adapter_ns / CYCLE_NS
    # The last flit of the data follows the head by all other flits but the tail.
    arrived = left + WAY + FLITS - 2
    assert result.left_ns[0] == left * CYCLE_NS == 1000.0
    assert result.arrived_ns[0] == arrived * CYCLE_NS + adapter_ns == 2990.0
    assert result.flits.sum() == 2 * FLITS  # the tail too, over both cables


def test_a_lone_packet_in_flight_waits_for_the_acknowledgement() -> None:
    """The tail leaves when the acknowledgement is back, and the next packet one cycle later."""
    assert period_ns([(0, 1)], window=1) == (WAY + FLITS - 2 + WAY + 1) * CYCLE_NS
    way = 4 * CABLE + 3 * HOP
    assert period_ns([(0, 15)], TREE, window=1) == (way + FLITS - 2 + way + 1) * CYCLE_NS


def test_the_description_is_a_set_of_options() -> None:
    fabric = weft.fabric(SWITCH)
    work = WorkloadBuilder(4)
    work.put(0, 1, 320)
    result = weft.simulate(fabric, "nca-adaptive", work.build(), level="flit", **weft.qsnet())
    assert result.arrived_ns[0] == 2990.0


@pytest.mark.parametrize(("pair", "fabric"), [((0, 1), SWITCH), ((0, 15), TREE)])
def test_two_packets_in_flight_fill_the_link(pair: tuple[int, int], fabric: str) -> None:
    assert period_ns([pair], fabric) == FLITS * CYCLE_NS  # 338.6 MB/s of 400


def test_an_adapter_handles_packets_of_both_directions_one_after_the_other() -> None:
    net = QsNet()
    assert net.service_ns + net.turnaround_ns == pytest.approx(320e3 / 560)
    both = period_ns([(0, 1), (1, 0)])
    assert 320e3 / 280 * 0.99 < both < 320e3 / 280 * 1.05


def test_main_memory_is_as_slow_as_its_bus() -> None:
    net = QsNet(memory="main")
    assert net.service_ns == pytest.approx(320e3 / 200)
    assert net.turnaround_ns == pytest.approx(320e3 / 160 - 320e3 / 200)
    assert period_ns([(0, 1)], memory="main") == pytest.approx(320e3 / 200)
    assert period_ns([(0, 1), (1, 0)], memory="main") == pytest.approx(320e3 / 80, rel=0.01)


def test_small_messages_take_the_time_of_the_library() -> None:
    for library, empty in (("elan3lib", 2200), ("mpi", 5500)):
        for pair, fabric in (((0, 1), SWITCH), ((0, 63), "kary-n-tree:4;3;rate=3.2")):
            time = puts([pair], 0, fabric=fabric, library=library).arrived_ns[0]
            assert time == pytest.approx(empty, abs=200)


@pytest.mark.parametrize("turn", [1, 2, 4])
def test_messages_take_turns_of_some_packets(turn: int) -> None:
    """Of two messages of four packets, the last turn of the second one remains at the end."""
    first, second = puts([(0, 1)], 4 * 320, repeat=2, window=1, turn_packets=turn).arrived_ns
    assert second - first == turn * (WAY + FLITS - 2 + WAY + 1) * CYCLE_NS


@pytest.mark.parametrize("first", range(3))
def test_a_high_priority_gets_the_output_first(first: int) -> None:
    builder = WorkloadBuilder(4)
    for source in (1, 2, 3):
        builder.phase(f"put {source - 1}")
        builder.put(source, 0, 40 * 320)
    names = (f"put {first}",)
    fabric, work = weft.fabric(SWITCH), builder.build()
    result = weft.simulate(
        fabric, "nca-adaptive", work, level="flit", high_priority=names, **qsnet()
    )
    assert result.arrived_ns.argsort()[0] == first
    usual = weft.simulate(fabric, "nca-adaptive", work, level="flit", **qsnet())
    # Otherwise all have the same part of the output.
    assert np.ptp(usual.arrived_ns) < 0.1 * usual.arrived_ns.max() < np.ptp(result.arrived_ns)


def test_a_job_of_high_priority_has_its_phases() -> None:
    work = weft.application_workload("pattern:complement;size=1KiB", 4)
    jobs = [Job(work, "a", [0, 1, 2, 3]), Job(work, "b", [4, 5, 6, 7])]
    fabric = weft.fabric("kary-n-tree:4;2;rate=3.2")
    mix = combine(jobs, fabric)
    for names, found in ((("b",), True), (("a: complement", "b"), True), (("c",), False)):
        options = {**qsnet(), "high_priority": names}
        if found:
            weft.simulate(fabric, "nca-adaptive", mix.workload, mix.hosts, level="flit", **options)
            continue
        with pytest.raises(weft.InputError, match="no phase or job has the name 'c'; there are"):
            weft.simulate(fabric, "nca-adaptive", mix.workload, mix.hosts, level="flit", **options)


def test_a_priority_needs_an_arbiter_that_knows_ages() -> None:
    work = weft.application_workload("pattern:complement;size=1KiB", 4)
    options = {**qsnet(), "high_priority": ("complement",), "router": weft.Router(lanes=2)}
    with pytest.raises(weft.InputError, match="arbiter age of routers, not round-robin"):
        weft.simulate(weft.fabric(SWITCH), "nca-adaptive", work, level="flit", **options)


def test_cables_of_another_rate_are_refused() -> None:
    work = weft.application_workload("pattern:complement;size=1KiB", 4)
    with pytest.raises(weft.InputError, match=r"cycles of 5 ns, .* expected a rate of 3.2 Gb/s"):
        weft.simulate(weft.fabric("kary-n-tree:4;1"), "nca-adaptive", work, level="flit", **qsnet())


def test_unknown_parameters_are_named() -> None:
    with pytest.raises(weft.InputError, match=r"no 'chanels' \(did you mean 'channels'"):
        qsnet(chanels=2)


def test_counts_begin_and_end_when_asked() -> None:
    whole = puts([(0, 1)], 100 * 320)
    part = puts([(0, 1)], 100 * 320, options={"from_ns": 20_000.0, "max_time_ns": 60_000.0})
    assert whole.carried.tolist() == [32_000]
    assert (part.from_ps, part.end_ps) == (20_000_000, 60_000_000)
    expected = 40_000 / (FLITS * CYCLE_NS)
    assert part.carried[0] == pytest.approx(expected * 320, abs=320)
    assert part.flits.sum() / 2 == pytest.approx(8000, abs=1)
    assert part.links()["utilisation"].max() == pytest.approx(1.0)


def test_every_circuit_is_closed_in_the_end() -> None:
    pairs = [(source, (source * 7 + shift) % 16) for source in range(16) for shift in (1, 2, 5)]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    result = puts(pairs, 3 * 320 + 7, fabric=TREE)
    assert result.complete
    sizes = 3 * FLITS + 33  # 7 + 58 bytes
    at_hosts = result.links().filter(pl.col("kind").is_in(["host-switch", "switch-host"]))
    assert at_hosts["flits"].sum() == 2 * len(pairs) * sizes


@pytest.mark.parametrize(
    "description", [{"payload_bytes": 0}, {"memory": "disk"}, {"window": 0}, {"channels": 33}]
)
def test_descriptions_that_cannot_work_are_refused(description: dict[str, Any]) -> None:
    with pytest.raises(weft.InputError, match=next(iter(description))):
        qsnet(**description)


def test_store_and_forward_cannot_hold_circuits() -> None:
    work = weft.application_workload("pattern:complement;size=1KiB", 4)
    router = weft.Router(lanes=2, switching="store-and-forward", arbiter="age")
    options = {**qsnet(), "router": router}
    with pytest.raises(weft.InputError, match="the tail waits for the packet's arrival"):
        weft.simulate(weft.fabric(SWITCH), "nca-adaptive", work, level="flit", **options)
