"""Rolled workloads against the unrolled ones, to the last bit, and their statistics and limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tests.examples import examples

from weft import (
    CongestionControl,
    Hardware,
    InputError,
    NotApplicable,
    fabric,
    forecast,
    rank_spans,
    route,
    simulate,
    timelines,
)
from weft.core.errors import OutOfMemory
from weft.sim.common import windows
from weft.sim.common.progress import IncompleteRun
from weft.sim.common.rolled_result import DroppedOperations
from weft.sim.flow import cells as partition
from weft.sim.flow import rolled as runner
from weft.sim.packet.policies import Policy, policy
from weft.sim.packet.state import PacketRunState
from weft.workload import Kind, WorkloadBuilder
from weft.workload.apps import application_workload
from weft.workload.collectives import collective_on
from weft.workload.load import load_rolled, load_workload
from weft.workload.placement import host_of_rank
from weft.workload.places import Places
from weft.workload.rolled import RolledBuilder
from weft.workload.trace import trace_workload

TIMES = ("posted", "ended", "left", "arrived")
Make = Callable[[Any], Any]


def compare(
    spec: str,
    engine: str,
    ranks: int,
    make: Make,
    placement: Any,
    growth: int,
    packet: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """Run a program rolled, in windows of `growth` operations, and unrolled; expect equal times.

    With `alike` false, each rank is a cell unless cells are certain to have equal times. At the
    packet level, whose options `packet` has, each rank is a cell.
    """
    net = fabric(spec, node=options.pop("node", None))
    alike = options.pop("alike", True)
    routes = route(net, engine)
    hosts = host_of_rank(net, ranks, placement)
    works = [make(builder(ranks)) for builder in (WorkloadBuilder, RolledBuilder)]
    if packet is not None:
        options |= {"level": "packet", **packet}
    plain = simulate(net, routes, works[0], hosts, **options)
    seen: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "GROWTH", 1)
        patch.setattr(windows, "LEAST_GROWTH", growth)
        add = DroppedOperations.add

        def added(tally: Any, table: Any, row: Any, cell: Any, times: Any, alone: Any) -> None:
            times_ns = np.where(times < 0, -1, times / tally.per_ns)
            seen.append({"cell": cell, "row": row, "times": times_ns, "to": tally})
            add(tally, table, row, cell, times, alone)

        patch.setattr(DroppedOperations, "add", added)
        result = simulate(net, routes, works[1], hosts, **options)
        if not alike and packet is None and not result.certain:
            seen.clear()
            patch.setattr(partition, "_coloured", lambda *_: None)
            result = simulate(net, routes, works[1], hosts, **options)
            assert result.certain
    cell, row, times = (
        np.concatenate([each[key] for each in seen if each["to"] is result.tally], axis=-1)
        for key in ("cell", "row", "times")
    )
    length = np.array([len(each.kind) for each in works[1].programs])
    place = row - (np.cumsum(length) - length)[works[1].program_of[_first(result)[cell]]]
    order = np.lexsort((place, cell))
    ops = np.arange(works[0].num_ops) - works[0].op_offset[works[0].rank]
    key = (cell * 2**32 + place)[order]
    wanted = result.tally.of_rank[works[0].rank] * 2**32 + ops
    assert len(key) == len(set(key.tolist()))  # each operation was dropped once
    assert set(key.tolist()) <= set(wanted.tolist())
    there = np.isin(wanted, key)  # others were recalled
    assert packet is not None or there.all()
    sent = int(np.isin(works[0].messages, np.flatnonzero(there)).sum())
    assert packet is None or result.tally.computed == sent
    at = np.searchsorted(key, wanted[there])
    for name, column in zip(TIMES, times[:, order], strict=True):
        expected = getattr(plain, f"{name}_ns")[there]
        np.testing.assert_array_equal(column[at], expected, err_msg=name)
    return plain, result


def _first(result: Any) -> Any:
    """Return a rank of each cell."""
    return np.unique(result.tally.of_rank, return_index=True)[1]


def ring(size: int, **options: Any) -> Make:
    """Return a ring all-reduce of a block size for each rank."""

    def make(builder: Any) -> Any:
        ranks = np.arange(builder.num_ranks)
        whole = size * builder.num_ranks
        collective_on(builder, "allreduce", ranks, whole, algorithm="ring", **options)
        return builder.build()

    return make


@pytest.mark.parametrize("size", [700, 9000, 70_000])  # one packet, eager, rendezvous
@pytest.mark.parametrize(
    ("spec", "engine", "ranks", "cells"),
    [
        ("xgft:3;4,4,4;1,4,4", "dmodk", 64, 16),
        ("xgft:3;4,4,4;1,2,2", "dmodk", 64, 16),
        ("torus:4x4", "dor", 16, 4),
        ("dragonfly:p=2,a=4,h=2", "minhop", 72, 72),
    ],
)
def test_rings_are_equal_to_the_last_bit(
    spec: str, engine: str, ranks: int, cells: int, size: int
) -> None:
    plain, result = compare(spec, engine, ranks, ring(size), "linear", 7)
    assert len(result.cells.first) == cells
    assert result.tally.computed == 2 * (ranks - 1) * cells
    assert result.tally.num_messages == len(plain.workload.messages)
    assert result.makespan_ns == plain.makespan_ns


def test_rings_with_calculations_at_random_places_share_links_alike() -> None:
    make = ring(20_000, reduce_ns_per_byte=0.02)
    _, result = compare("xgft:3;4,4,4;1,2,2", "dmodk", 64, make, "random:seed=2", 5)
    assert result.tally.computed == result.tally.num_messages  # no rank is like another one
    assert result.most_ops < 2500  # of 24,192


@pytest.mark.parametrize("reach", [(2,), (4, 5)])
def test_ranks_of_a_host_share_its_cable(reach: tuple[int, ...]) -> None:
    """Messages between ranks of the same two hosts have one route, and share it."""

    def make(builder: Any) -> Any:
        ranks = np.arange(builder.num_ranks)
        handles = []
        for far in reach:
            handles.append(builder.irecv(ranks, (ranks - far) % len(ranks), 100_000, far))
            handles.append(builder.isend(ranks, (ranks + far) % len(ranks), 100_000, far))
        builder.wait(ranks, np.stack(handles))
        return builder.build()

    _, result = compare("xgft:2;4,4;1,4", "dmodk", 16, make, np.arange(16) // 2, 9)
    assert result.shared


@pytest.mark.parametrize("colours", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("spec", ["xgft:2;4,4;1,4", "torus:4x4"])
def test_equal_hashes_do_not_make_ranks_alike(
    spec: str, colours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mix = partition._mix
    monkeypatch.setattr(partition, "_mix", lambda one, other: mix(one, other) % np.uint64(colours))
    engine = "dmodk" if spec.startswith("xgft") else "dor"
    placement = "linear" if colours % 2 else "random:seed=1"
    _, result = compare(spec, engine, 16, ring(9000), placement, 9)
    assert colours > 1 or len(result.cells.first) == 16


def test_ranks_with_equal_hashes_and_other_programs_are_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make(builder: Any) -> Any:
        builder.calc(np.arange(8), 100.0)
        builder.calc(np.arange(8, 16), 200.0)
        return builder.build()

    assert len(compare("xgft:2;4,4;1,4", "dmodk", 16, make, "linear", 9)[1].cells.first) == 2
    monkeypatch.setattr(partition, "_mix", lambda one, _: one * np.uint64(0))
    assert len(compare("xgft:2;4,4;1,4", "dmodk", 16, make, "linear", 9)[1].cells.first) == 16


def test_rows_of_a_colour_are_compared() -> None:
    colour, offset = np.array([0, 1, 0]), np.array([0, 2, 3, 5])
    assert partition._alike(colour, (np.array([7, 8, 7]),), offset, np.array([1, 2, 9, 1, 2]))
    assert not partition._alike(colour, (np.array([7, 8, 6]),))
    assert not partition._alike(colour, (), offset, np.array([1, 2, 9, 1, 3]))
    assert not partition._alike(colour, (), np.array([0, 2, 4, 5]), np.array([1, 2, 9, 1, 2]))


@pytest.mark.parametrize(
    ("spec", "certain"),
    [("allreduce:size=64KiB,algorithm=ring", True), ("train:model=llama3-8b,tp=8", False)],
)
def test_programs_in_turns_are_certain(spec: str, certain: bool) -> None:
    programs = load_rolled(spec, 16).programs
    assert all(map(runner._in_turns, programs)) == certain
    halves = RolledBuilder(2)
    first, second = (halves.operations(np.arange(2), Kind.CALC, duration_ns=1.0) for _ in "ab")
    third = halves.operations(np.arange(2), Kind.CALC, duration_ns=1.0)
    halves.requires(third, second)
    assert not runner._in_turns(halves.build().programs[0])
    halves.requires(third, first)
    assert runner._in_turns(halves.build().programs[0])


def same(plain: Any, result: Any) -> None:
    """Expect equal tables of ranks, phases and links."""
    for name in plain.ranks().columns:
        assert result.ranks()[name].equals(plain.ranks()[name]), name
    mine, theirs = result.phases(), plain.phases()
    exact = ["phase", "begin_ns", "end_ns", "span_ns", "messages", "size_bytes", "max_message_ns"]
    assert mine[exact].equals(theirs[exact])
    for name in ("mean_message_ns", "mean_slowdown"):
        means = (each[name].fill_null(-1).to_numpy() for each in (mine, theirs))
        np.testing.assert_allclose(*means, rtol=1e-10)
    mine, theirs = result.links(), plain.links()
    if "carried_bytes" not in mine.columns:
        return assert_frame_equal(mine, theirs)
    assert mine["messages"].equals(theirs["messages"])
    np.testing.assert_allclose(mine["carried_bytes"], theirs["carried_bytes"], rtol=1e-14)
    expected = plain.summary()
    for name, value in result.summary().items():
        known = expected[name]
        assert value == (pytest.approx(known) if isinstance(value, float) else known), name


def random_rounds(seed: int) -> Make:
    """Return a random program of rounds of all ranks or halves of them, with streams and loops."""

    def make(builder: Any) -> Any:
        random = np.random.default_rng(seed)
        n = builder.num_ranks
        for step in range(int(random.integers(2, 6))):
            builder.phase(f"part {step % 3}")
            half = random.random() < 0.3
            groups = np.arange(n).reshape(2, -1) if half else np.arange(n)[np.newaxis]
            size = int(random.choice([0, 100, 3000, 17_000, 60_000]))
            what = int(random.integers(5))
            with builder.stream(f"stream {random.integers(2)}"):
                if what == 0:
                    builder.calc(groups.ravel(), float(random.integers(5000)), cpu=step % 2)
                elif what == 1:
                    collective_on(builder, "allgather", groups, size, algorithm="ring")
                elif what == 2:
                    collective_on(builder, "alltoall", groups, size, algorithm="pairwise")
                elif what == 3:
                    shift = int(random.integers(1, n))
                    ranks = np.arange(n)
                    got = builder.irecv(ranks, (ranks - shift) % n, size + 1, step)
                    sent = builder.isend(ranks, (ranks + shift) % n, size, step)
                    builder.wait(ranks, np.stack([got, sent] if random.random() < 0.5 else [got]))
                else:
                    ops = [builder.operations(np.arange(n), Kind.CALC, duration_ns=3.0 * k)
                           for k in range(3)]  # fmt: skip
                    builder.requires(ops[2], ops[0], start=bool(random.integers(2)))
        builder.waitall()
        return builder.build()

    return make


@example(397, 1, False, False)  # messages that coincide have other orders on ranks that are alike
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 9, 1000]), st.booleans(), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_random_rounds_are_equal(seed: int, growth: int, shuffled: bool, handshake: bool) -> None:
    placement = f"random:seed={seed % 5}" if shuffled else "linear"
    rendezvous = ["get", "put", "put-shared"][seed % 3]
    plain, result = compare(
        "xgft:2;4,4;1,4", "dmodk", 16, random_rounds(seed), placement, growth,
        handshake=handshake, rendezvous=rendezvous, overhead_ns=float(seed % 2 * 40), alike=False,
    )  # fmt: skip
    same(plain, result)


#: Fields of results at the packet level.
COUNTERS = (
    "packets", "wire_bytes", "wait_ps", "busy_ps", "blocked_ps", "buffer_wait_ps", "held_bytes",
    "overtook", "kept_ps", "most_kept_ps", "end_ps", "num_hops", "num_events", "conservation",
    "deadlock", "complete",
)  # fmt: skip


def same_counters(plain: Any, result: Any) -> None:
    """Expect equal counters and tables."""
    for name in COUNTERS:
        np.testing.assert_array_equal(getattr(result, name), getattr(plain, name), err_msg=name)
    same(plain, result)


CONTROL = Hardware(mtu_bytes=512, congestion_control=CongestionControl())
FINE = Hardware(mtu_bytes=256, queue_pairs="host")


@given(
    st.integers(0, 10**6), st.sampled_from([1, 2, 9, 40]), st.sampled_from(["", "ecmp", "spray"]),
    st.sampled_from([CONTROL, FINE, Hardware(mtu_bytes=2048)]), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(40), deadline=None)
def test_random_rounds_of_packets_are_equal(
    seed: int, growth: int, policy: str, hardware: Hardware, several: bool, handshake: bool
) -> None:
    """All times and counters are equal, on one thread and, where that is possible, on two."""
    hosts = np.random.default_rng(seed).permutation(16)
    if several and not policy:
        hosts //= 2  # two ranks a host
    chosen = {"policy": policy} if policy else {}
    plain, result = compare(
        "xgft:2;4,4;1,4", "ecmp" if policy else "dmodk", 16, random_rounds(seed), hosts, growth,
        chosen | {"hardware": hardware, "threads": 1 + handshake}, handshake=handshake,
        rendezvous=["get", "put", "put-shared"][seed % 3], overhead_ns=float(seed % 2 * 40),
    )  # fmt: skip
    same_counters(plain, result)
    if result.congestion is not None:
        assert list(map(str, vars(result.congestion).values())) == list(
            map(str, vars(plain.congestion).values())
        )


def random_loops(seed: int) -> Make:
    """Return a random program of loops, in loops, with equal rounds; halves of the ranks differ."""
    draw = np.random.default_rng(seed)
    ranks = np.arange(16)
    groups = [ranks, ranks[:8], ranks[8:], ranks[::2], ranks[1::2]]

    def block(builder: Any, depth: int, some: Any) -> Callable[[], None]:
        what = int(draw.integers(6 if depth else 5))
        size, shift = int(draw.choice([0, 900, 5000, 20_000])), int(draw.integers(1, len(some)))
        time, name = float(draw.integers(1, 3000)), f"stream {draw.integers(2)}"
        if what == 0:
            return lambda: builder.calc(some, time)
        if what == 1:
            return lambda: collective_on(builder, "allgather", some, size, algorithm="ring")
        if what == 2:
            return lambda: builder.calc(some[: len(some) // 2], time)
        if what < 5:
            to, come = np.roll(some, -shift), np.roll(some, shift)

            def exchange() -> None:
                with builder.stream(name):
                    got = builder.irecv(some, come, size, 1)
                    sent = builder.isend(some, to, size, 1)
                    builder.wait(some, np.stack([got, sent]))

            return exchange
        return loop(builder, depth - 1, some)

    def loop(builder: Any, depth: int, some: Any) -> Callable[[], None]:
        body = [block(builder, depth, some) for _ in range(int(draw.integers(1, 3)))]
        count = int(draw.integers(2, 8 if depth else 120))
        return lambda: [step() for _ in range(count) for step in body] and None

    def make(builder: Any) -> Any:
        nonlocal draw
        draw = np.random.default_rng(seed)
        for part in range(int(draw.integers(1, 3))):
            builder.phase(f"part {part}")
            loop(builder, int(draw.integers(2)), groups[int(draw.integers(5))])()
        builder.waitall()
        return builder.build()

    return make


@given(
    st.integers(0, 10**6), st.sampled_from([2, 9, 40]), st.sampled_from(["", "ecmp"]),
    st.sampled_from([FINE, Hardware(mtu_bytes=2048), Hardware(queues="voq", speedup=2)]),
    st.booleans(), st.sampled_from([1, 2, 3]),
)  # fmt: skip
@settings(max_examples=examples(30), deadline=None)
def test_rounds_of_packets_that_are_recalled_are_equal(
    seed: int, growth: int, policy: str, hardware: Hardware, shuffled: bool, threads: int
) -> None:
    """Recalled rounds leave all other times, and all counters, as they are."""
    hosts = np.random.default_rng(seed).permutation(16) if shuffled else np.arange(16)
    if seed % 3 == 0 and threads == 1 and not policy:
        hosts //= 2  # two ranks a host
    chosen: dict[str, Any] = {"policy": policy} if policy else {}
    plain, result = compare(
        "xgft:2;4,4;1,4", "ecmp" if policy else "dmodk", 16, random_loops(seed), hosts, growth,
        chosen | {"hardware": hardware, "threads": threads},
        rendezvous=["get", "put", "put-shared"][seed % 3], overhead_ns=float(seed % 2 * 40),
    )  # fmt: skip
    same_counters(plain, result)


@pytest.mark.parametrize(("placement", "most"), [("linear", 0.15), ("random:seed=1", 1.0)])
def test_rounds_are_recalled_only_if_the_state_comes_again(placement: str, most: float) -> None:
    """A ring in order comes again each 4 rounds; one at random places drifts for all its rounds."""

    def make(builder: Any) -> Any:
        ranks = np.arange(64)
        for step in range(5):
            builder.phase(f"part {step // 4}")
            collective_on(builder, "allreduce", ranks, 64 * 2000, algorithm="ring")
        return builder.build()

    plain, result = compare("xgft:3;4,4,4;1,4,4", "dmodk", 64, make, placement, 16, {})
    same_counters(plain, result)
    computed = result.tally.computed / result.tally.num_messages
    assert computed <= most
    assert most < 1 or computed == 1
    assert f"{result.tally.computed:,} messages were computed" in result.recalled


def test_windows_do_not_depend_on_when_the_loop_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop returns after so many instants as a report of progress takes."""
    step = PacketRunState.step
    monkeypatch.setattr(windows, "GROWTH", 1)
    monkeypatch.setattr(windows, "LEAST_GROWTH", 3)
    net, work = fabric("xgft:2;4,4;1,4"), random_loops(2)(RolledBuilder(16))
    hosts = np.random.default_rng(2).permutation(16)
    found = set()
    for most in (2**40, 5):
        monkeypatch.setattr(PacketRunState, "step", lambda self, _, most=most: step(self, most))
        result = simulate(net, route(net, "dmodk"), work, hosts, level="packet", threads=3)
        found.add((int(result.tally.computed), result.most_ops))
    assert len(found) == 1


def test_recalled_rounds_count_towards_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, ranks = RolledBuilder(16), np.arange(16)
    for _ in range(200):
        builder.sendrecv(ranks, np.roll(ranks, -4), 3000, np.roll(ranks, 4), 3000)
    monkeypatch.setattr(windows, "GROWTH", 1)
    monkeypatch.setattr(windows, "LEAST_GROWTH", 4)
    net, work = fabric("xgft:2;4,4;1,4"), builder.build()
    end_ps = simulate(net, route(net, "dmodk"), work, level="packet").end_ps
    for limit in (end_ps, end_ps // 2, end_ps - 1):
        options: dict[str, Any] = {"level": "packet", "max_time_ns": limit / 1000}
        if limit == end_ps:
            assert simulate(net, route(net, "dmodk"), work, **options).end_ps == limit
            continue
        with pytest.raises(IncompleteRun, match=f"stopped at {re.escape(f'{limit / 1000:g}')} ns"):
            simulate(net, route(net, "dmodk"), work, **options)


def test_only_policies_without_state_recall_rounds() -> None:
    fixed = [each.name for each in policy if Policy(entry=each).is_fixed]
    assert fixed == ["ark", "deterministic", "e-ecmp", "ecmp", "nrk"]
    watches = replace(policy["ecmp"], facts={**policy["ecmp"].facts, "sent": object()})
    assert not Policy(entry=watches).is_fixed


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("growth", [1, 2, 3])
def test_what_ends_after_its_window_is_kept(growth: int, threads: int) -> None:
    """Operations wait for a long packet on its way, and messages for receives posted late."""

    def make(builder: Any) -> Any:
        ranks = np.arange(16)
        for half in (ranks[:8], ranks[8:]):
            to, come = half ^ 4, half ^ 4
            sent = builder.isend(half, to, 60_000, 1)
            got = builder.irecv(half, come, 60_000, 1)
            for _ in range(4):
                builder.calc(half, 500.0)
            builder.wait(half, sent)
            builder.calc(half, 1.0)
            builder.wait(half, got)
        builder.send(ranks[:8], ranks[8:], 100, 2)
        for step in range(9):
            builder.calc(ranks[8:], 900.0)
            builder.calc(ranks[:8], 100.0 + step)
        builder.recv(ranks[8:], ranks[:8], 100, 2)
        return builder.build()

    packet = {"hardware": Hardware(mtu_bytes=2**16, buffer_bytes=2**18), "threads": threads}
    same_counters(*compare("xgft:2;4,4;1,4", "dmodk", 16, make, "linear", growth, packet))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_packets_of_a_ring_of_1024_ranks_are_equal(threads: int) -> None:
    packet = {"threads": threads}
    plain, result = compare("xgft:2;32,32;1,32", "dmodk", 1024, ring(1000), "linear", 64, packet)
    assert result.threads == threads
    assert result.most_ops < plain.workload.num_ops / 10
    same_counters(plain, result)


@pytest.mark.slow
def test_a_ring_of_1024_ranks_is_equal_to_the_last_bit() -> None:
    plain, result = compare("xgft:3;8,8,16;1,8,8", "dmodk", 1024, ring(70_000), "linear", 64)
    assert result.tally.num_messages == 2 * 1023 * 1024
    assert result.certain
    assert len(result.cells.first) == 64
    assert result.makespan_ns == plain.makespan_ns


@pytest.mark.parametrize(
    ("spec", "node", "cells"),
    [
        ("train:model=llama3-8b,tp=8,pp=2,buckets=2", "dgx-h100", 2),
        ("train:model=mixtral-8x7b,tp=8,pp=2,ep=8,buckets=2,zero=0", "dgx-h100", 2),
        ("train:model=llama3-8b,tp=8,pp=4,chunks=2,zero=2,overlap=false,buckets=2", "dgx-h100", 4),
        ("train:model=llama3-8b,tp=2,pp=8,buckets=1,sequence=512", None, 8),
    ],
)
def test_training_steps_are_equal_to_the_last_bit(spec: str, node: str | None, cells: int) -> None:
    training(spec, node, cells, "xgft:2;8,8;1,8,rate=NDR", 64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "node", "cells"),
    [
        ("tp=8", "dgx-h100", 16),
        ("tp=2,buckets=1,global_batch=64,zero=0", None, 1024),  # experts across machines
    ],
)
def test_training_steps_of_1024_are_equal(options: str, node: str | None, cells: int) -> None:
    spec = f"train:model=mixtral-8x7b,pp=16,ep=8,{options}"
    training(spec, node, cells, "xgft:3;8,8,16;1,8,8,rate=NDR", 1024)


def training(spec: str, node: str | None, cells: int, tree: str, ranks: int) -> None:
    """Compare a rolled with an unrolled step of training."""
    places = Places.of(fabric(tree, node=node), np.arange(ranks, dtype=np.int32))

    def make(builder: Any) -> Any:
        return application_workload(spec, ranks, places=places, builder=builder)

    plain, result = compare(tree, "dmodk", ranks, make, "linear", 6, node=node)
    assert len(result.cells.first) == cells
    assert result.workload.step == plain.workload.step
    same(plain, result)


def test_packets_of_a_training_step_are_equal() -> None:
    spec = "train:model=llama3-8b,tp=2,pp=4,sequence=1,global_batch=8,buckets=2"

    def make(builder: Any) -> Any:
        return application_workload(spec, 16, builder=builder)

    packet = {"hardware": Hardware(mtu_bytes=2**20, buffer_bytes=2**22)}
    same_counters(*compare("xgft:2;4,4;1,4,rate=NDR", "dmodk", 16, make, "linear", 6, packet))


LOOPS = """RANKS 16
REPEAT 9
  CALC 5us
  ISEND 20KiB TO (rank + 1) % 16
  IRECV 20KiB FROM (rank - 1) % 16
  WAITALL
  REPEAT 3
    ALLREDUCE 8KiB
  END
END
IF rank % 4 == 1
  CALC 2us
END
FOR i = 1..5
  ISEND i * 1KiB TO (rank + i) % 16 AS a
  IRECV i * 1KiB FROM (rank - i) % 16
  WAITALL
END
REPEAT 4
  IRECV 3 FROM rank // 2 * 2 + 1 - rank % 2 AS b
  ISEND 3 TO rank // 2 * 2 + 1 - rank % 2
END
REPEAT 5
  CALC 1us
  ISEND 4KiB TO (rank + 3) % 16
  IRECV 4KiB FROM (rank - 3) % 16
END
WAITALL
"""


def test_traces_with_loops_are_equal_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loops.trace").write_text(LOOPS)
    text = str(tmp_path / "loops.trace")
    added: list[int] = []
    store = RolledBuilder._append

    def append(builder: Any, *args: Any) -> Any:
        added.append(1)
        return store(builder, *args)

    monkeypatch.setattr(RolledBuilder, "_append", append)

    def make(builder: Any) -> Any:
        return (
            load_rolled(text, None) if isinstance(builder, RolledBuilder) else load_workload(text)
        )

    plain, result = compare("torus:4x4", "dor", 16, make, "linear", 9, alike=False)
    same(plain, result)
    assert len(added) < sum(len(each.kind) for each in result.workload.programs) / 2
    same_counters(*compare("torus:4x4", "dor", 16, make, "linear", 9, {}))


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_a_window_holds_what_is_under_way(level: Any) -> None:
    sizes = []
    for rounds in (1, 4):
        work = load_rolled(f"allreduce:size=1MiB,algorithm=ring,count={rounds}", 64)
        net = fabric("xgft:2;8,8;1,8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "GROWTH", 1)
            sizes.append(simulate(net, route(net, "dmodk"), work, level=level).most_ops)
    assert sizes[0] == sizes[1] < 64 * 252 / (8 if level == "flow" else 3)


def test_percentiles_are_within_their_bins() -> None:
    plain, result = compare("xgft:2;4,4;1,2", "dmodk", 16, ring(30_000), "random:seed=4", 9)
    ops = plain.workload.messages
    took = np.sort(plain.arrived_ns[ops] - plain.left_ns[ops])
    for share in (0.1, 0.5, 0.99):
        exact = took[int(np.ceil(share * len(took))) - 1]
        assert exact <= result.tally.percentile_ns(share) <= exact * 2 ** (1 / 64)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("allreduce:size=1000001,algorithm=ring", "different sizes"),
        ("hpcg", "no builder"),
        ("transpose", "not known|known to be common"),
        ("RANKS 8\nCALC 1us", "without loops"),
        ("RANKS 8\nREPEAT 2\nCALC 1us AFTER 1\nEND", "single ranks"),
        ("RANKS 8\nREPEAT 2\nCALC 1us STD 1ns\nEND", "different sizes"),
    ],
)
def test_what_cannot_be_rolled_says_why(spec: str, reason: str, tmp_path: Path) -> None:
    if "\n" in spec:
        (tmp_path / "a.trace").write_text(spec)
        spec = str(tmp_path / "a.trace")
    with pytest.raises(NotApplicable, match=reason):
        load_rolled(spec, 8)


def test_a_forecast_counts_what_is_computed() -> None:
    net = fabric("xgft:2;4,4;1,4")
    routes = route(net, "dmodk")
    work = load_rolled("allreduce:size=64KiB,algorithm=ring,count=40", 16)
    told: list[Any] = []
    result = simulate(net, routes, work, expected=told.append)
    told.append(forecast(net, routes, work))
    for each in told:
        assert each.counts["computed"] == result.tally.computed
        assert each.counts["messages"] == result.tally.num_messages
        assert result.most_ops <= each.counts["window"] <= each.counts["operations"]
    shared = forecast(net, routes, work, "random:seed=1")
    assert 0 < told[0].least_s < told[0].most_s < shared.least_s
    net = fabric("xgft:2;8,8;1,8,rate=NDR", node="dgx-h100")
    places = Places.of(net, np.arange(64))
    step = load_rolled("train:model=llama3-8b,tp=8,pp=2,buckets=2", 64, places=places)
    ahead = forecast(net, route(net, "dmodk"), step)
    assert ahead.counts["window"] == ahead.counts["operations"]


def test_a_forecast_of_packets_is_that_of_the_unrolled_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "GROWTH", 1)
    net, spec = fabric("xgft:2;4,4;1,4"), "allreduce:size=64KiB,algorithm=ring,count=40"
    routes = route(net, "dmodk")
    told: list[Any] = []
    rolled, plain = load_rolled(spec, 16), load_workload(spec, 16)
    result = simulate(net, routes, rolled, level="packet", expected=told.append)
    told.append(forecast(net, routes, rolled, level="packet"))
    full = forecast(net, routes, plain, level="packet")
    for each in told:
        assert each.counts["hops"] == full.counts["hops"] == result.num_hops
        for name in ("units", "operations", "messages"):
            assert each.counts[name] == full.counts[name], name
        assert result.most_ops <= each.counts["window"] < each.counts["operations"] / 4
        exist = f"{each.counts['window']:,} of {each.counts['operations']:,} operations exist"
        assert f"(rounds laid as they begin: about {exist} at a time; rounds that" in each.text()
        assert each.least_s == 0
        assert each.most_s == pytest.approx(full.most_s)
    assert told[0].memory_bytes < full.memory_bytes


def test_levels_and_models_without_rolled_workloads_refuse_them() -> None:
    net = fabric("xgft:2;4,4;1,4")
    routes = route(net, "dmodk")
    work = load_rolled("allreduce:size=64KiB,algorithm=ring", 16)
    packet: dict[str, Any] = {"level": "packet"}
    for options, why in (
        ({"level": "static"}, "the static level needs all"), ({"sharing": "penalty"}, "all"),
        (packet | {"trace": [0]}, "show messages"), (packet | {"snapshot_ns": 9}, "show messages"),
        (packet | {"fast_forward": 0.01}, "looks ahead"), (packet | {"lids": "spread"}, "in turn"),
        (packet | {"policy": "e-ecmp"}, "queue pairs in turn"), ({"policy": "ark"}, "keys"),
    ):  # fmt: skip
        with pytest.raises(NotApplicable, match=f"the workload is rolled, and .*{why}"):
            simulate(net, routes, work, **options)
    for level in ("flow", "packet"):
        with pytest.raises(IncompleteRun, match="stopped at"):
            simulate(net, routes, work, level=level, max_time_ns=2000.0)
        result = simulate(net, routes, work, level=level)
        with pytest.raises(NotApplicable, match="single messages"):
            result.messages()
        assert re.match(r"Rolled\w+\('allreduce.*: 480 messages in \d+", repr(result))
        for table in (rank_spans, timelines):
            with pytest.raises(NotApplicable, match="single operations"):
                table(result)


def test_a_message_that_takes_too_long_is_named_by_its_place() -> None:
    builder = RolledBuilder(2)
    for size in (64, 64, 2**55):
        builder.sendrecv([0, 1], [1, 0], size, [1, 0], size)
    net = fabric("leaf-spine:leaves=1,spines=1,hosts=2")
    with pytest.raises(InputError, match=r"^operation 5 of rank 0 sends 36,028,797,018,963,968 b"):
        simulate(net, route(net, "dmodk"), builder.build(), level="packet")


def test_a_window_that_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    net = fabric("xgft:2;4,4;1,4")
    work = load_rolled("allreduce:size=64KiB,algorithm=ring", 16)
    monkeypatch.setattr(windows, "OP_BYTES", 2**50)
    with pytest.raises(OutOfMemory, match=r"operations of 4 ranks at a time would take .* fewer"):
        simulate(net, route(net, "dmodk"), work)


def test_small_workloads_are_not_rolled_for_a_command() -> None:
    with pytest.raises(NotApplicable, match="has 960 operations"):
        load_rolled("allreduce:size=64KiB,algorithm=ring", 16, above=960)
    assert load_rolled("allreduce:size=64KiB,algorithm=ring", 16, above=959).num_ops == 960


def test_programs_with_little_in_common_are_not_rolled_for_a_command() -> None:
    builders = RolledBuilder(16), RolledBuilder(16, above=0)
    for builder in builders:
        for pair in np.arange(16).reshape(8, 2):
            builder.calc(pair, 1.0)
    assert builders[0].build().num_ops == 16
    with pytest.raises(NotApplicable, match="few operations in common"):
        builders[1].build()
    builder = RolledBuilder(16, above=0)

    def add() -> None:
        for step in range(4096):
            builder.calc(np.arange(1 + step % 7), float(step))

    with pytest.raises(NotApplicable, match="few operations in common"):
        add()


def test_a_deadlock_is_an_error() -> None:
    builder = RolledBuilder(4)
    ranks = np.arange(4)
    builder.recv(ranks, (ranks - 1) % 4, 10)
    builder.send(ranks, (ranks + 1) % 4, 10)
    net = fabric("xgft:1;4;1")
    for level in ("flow", "packet"):
        with pytest.raises(InputError, match="deadlocks"):
            simulate(net, route(net, "minhop"), builder.build(), level=level)


def test_nested_loops_beyond_memory_are_refused_before_they_are_stored() -> None:
    text = "RANKS 4\n" + "REPEAT 30000\n" * 3 + "SENDRECV 1 TO +x FROM -x ON g\n" + "END\n" * 3
    text = "SCOPE g = CART ALL (x: 4) PERIODIC\n" + text
    with pytest.raises(OutOfMemory, match="operations that ranks have in common would take"):
        trace_workload(text, builder=RolledBuilder)


@pytest.mark.parametrize("hosts", [np.arange(16) // 2, np.arange(16) % 8])
def test_ranks_of_a_host_take_turns_as_without_windows(hosts: Any) -> None:
    """More messages begin in one instant than the window would have."""

    def make(builder: Any) -> Any:
        ranks, handles = np.arange(16), []
        builder.calc(ranks, 100.0)
        for far in range(1, 9):
            handles.append(builder.irecv(ranks, (ranks - far) % 16, 5000, far))
            handles.append(builder.isend(ranks, (ranks + far) % 16, 5000, far))
        builder.wait(ranks, np.stack(handles))
        return builder.build()

    same_counters(*compare("xgft:2;4,4;1,4", "dmodk", 16, make, hosts, 2, {}))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadlock_names_the_operations_of_the_program(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(builder: Any) -> Any:
        ranks = np.arange(16)
        builder.rounds(9, lambda _: builder.calc(ranks, 100.0))
        builder.communicator(ranks, "halo")
        builder.send(ranks, (ranks + 1) % 16, 40_000, 7, 1)  # a ring of rendezvous
        builder.recv(ranks, (ranks - 1) % 16, 40_000, 7, 1)
        return builder.build()

    net = fabric("xgft:2;4,4;1,4")
    monkeypatch.setattr(windows, "GROWTH", 1)
    monkeypatch.setattr(windows, "LEAST_GROWTH", 2)
    texts = []
    for each in (WorkloadBuilder, RolledBuilder):
        with pytest.raises(InputError, match="rank 0 in operation 9, send to rank 1, tag 7") as why:
            simulate(net, route(net, "dmodk"), make(each(16)), level="packet", threads=threads)
        texts.append(str(why.value))
    assert texts[0] == texts[1]
    wait = "rank 0 in operation 9, send to rank 1, tag 7, communicator halo, waits for its receive"
    assert wait in texts[0]
    with pytest.raises(InputError, match=f"{wait}.*; further ranks are like these"):
        simulate(net, route(net, "dmodk"), make(RolledBuilder(16)))


def test_rounds_that_change_how_ranks_wait_are_not_repeated(tmp_path: Path) -> None:
    """The second round has as many operations as the first, but of other sets of ranks."""
    text = """RANKS 16
REPEAT 3
  IF rank // 4 % 2 == 0
    SEND 64 TO rank + 4
  ELSE
    RECV 64 FROM rank - 4
  END
  REPEAT 4
    SENDRECV 0 TO (rank + 7) % 16 FROM (rank - 7) % 16 TAG 1
    IF rank % 4 == 1
      CALC 4693ns
    END
  END
END
"""
    (tmp_path / "a.trace").write_text(text)
    name = str(tmp_path / "a.trace")

    def make(builder: Any) -> Any:
        return load_rolled(name, 16) if isinstance(builder, RolledBuilder) else load_workload(name)

    same_counters(*compare("torus:4x4", "dor", 16, make, "linear", 9, {}))
