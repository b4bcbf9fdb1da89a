"""NCCL's collectives: where data go, times on ideal networks, the tuning model, and refusals."""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics.machine_model import machine_model
from weft.workload import Kind, WorkloadBuilder
from weft.workload.apps import application_workload
from weft.workload.nccl import Options, add_collective
from weft.workload.nccl.algorithms import ALGORITHMS, binary_tree, double_tree
from weft.workload.nccl.messages import Hop, MessageGraph
from weft.workload.nccl.shape import Shape
from weft.workload.nccl.tuning import NcclChoice, Tuner
from weft.workload.places import Places

H100 = machine_model("dgx-h100")
MEASURED = Path(__file__).parents[3] / "shared" / "measured" / "nccl-h100-10x8.csv"


def places(counts: list[int], *, model=H100, shuffle: int | None = None) -> Places:
    """Return places of ranks on machines with these numbers of ranks."""
    machine = np.repeat(np.arange(len(counts)), counts)
    processor = np.concatenate([np.arange(count) for count in counts])
    if shuffle is not None:
        order = np.random.default_rng(shuffle).permutation(len(machine))
        machine, processor = machine[order], processor[order]
    return Places(machine, processor, model)


def made(
    name: str, at: Places, size: int, root: int = 0, **options
) -> tuple[MessageGraph, NcclChoice]:
    """Return the messages of a collective without any latency or overhead."""
    tuner = Tuner(Shape.of(at, np.arange(len(at.machine))), Options(**options))
    choice = tuner.choose(name, size)
    messages = MessageGraph((Hop(), Hop()))
    ALGORITHMS[name, choice.algorithm](messages, tuner, choice, size, root)
    return messages, choice


# -- where data go ---------------------------------------------------------------------------------


def run(messages: MessageGraph, n: int, start, seed: int) -> list[dict[int, Counter]]:
    """Follow the data of all messages in a random order that their dependencies allow.

    A message carries what its sender has when the messages for which it waits have arrived. A proxy
    (no thread block) carries what it is sent, which its rank does not see.
    """
    source, to, _, _, _, _, blocks, part, combines, _, _ = messages.columns()
    waits: list[list[int]] = [[] for _ in range(messages.count)]
    after: list[list[int]] = [[] for _ in range(messages.count)]
    for op, other, _ in messages.edges().T.tolist():
        waits[op].append(other)
        after[other].append(op)
    proxies = np.flatnonzero(blocks == 0).tolist()
    feeds = {waits[op][0] for op in proxies}
    assert all(len(waits[op]) == 1 for op in proxies)
    missing = [len(ops) for ops in waits]
    state = [start(rank) for rank in range(n)]
    carried: dict[int, Counter] = {}
    rng = random.Random(seed)
    ready = [op for op in range(messages.count) if not waits[op]]
    while ready:
        op = ready.pop(rng.randrange(len(ready)))
        key = int(part[op])
        carried[op] = carried[waits[op][0]] if blocks[op] == 0 else state[source[op]][key]
        if op not in feeds:
            mine = state[to[op]]
            mine[key] = mine.get(key, Counter()) + carried[op] if combines[op] else carried[op]
        for follower in after[op]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    assert len(carried) == messages.count, "a cycle"
    return state


def check(name: str, at: Places, *, root: int = 0, seed: int = 0, size: int = 0, **options) -> None:
    n = len(at.machine)
    messages, choice = made(name, at, size or 64 * n, root, **options)
    _, _, bytes_, _, _, _, _, part, _, _, _ = messages.columns()
    assert (bytes_ >= 0).all()
    parts = sorted(set(part.tolist()))
    everyone = Counter(range(n))
    owner = {key: key % n for key in parts}

    def start(rank: int) -> dict[int, Counter]:
        own = Counter([rank])
        if name == "allgather":
            return {key: own for key in parts if owner[key] == rank}
        if name == "broadcast":
            return dict.fromkeys(parts, own) if rank == root else {}
        if name in ("alltoall", "sendrecv"):
            return {key: own for key in parts if key // n == rank}
        return dict.fromkeys(parts, own)

    state = run(messages, n, start, seed)
    for rank in range(n):
        for key in parts:
            if name == "allreduce":
                assert state[rank][key] == everyone, (rank, key, choice.text)
            elif name == "allgather":
                assert state[rank][key] == Counter([owner[key]])
            elif name == "reduce-scatter" and owner[key] == rank:
                assert state[rank][key] == everyone
            elif name == "broadcast":
                assert state[rank][key] == Counter([root])
            elif name == "reduce" and rank == root:
                assert state[rank][key] == everyone
            elif name in ("alltoall", "sendrecv") and key % n == rank:
                assert state[rank][key] == Counter([key // n])
    if name == "alltoall":
        assert {key // n * n + key % n for key in parts} == {
            i * n + j for i in range(n) for j in range(n) if i != j
        }


RINGS = [
    ("allreduce", {"algo": "ring"}), ("allgather", {"algo": "ring"}),
    ("reduce-scatter", {"algo": "ring"}), ("broadcast", {}), ("reduce", {}),
]  # fmt: skip
ALL = [*RINGS, ("allreduce", {"algo": "tree"}), ("alltoall", {}), ("sendrecv", {})]


@pytest.mark.parametrize(("name", "options"), ALL)
def test_data_reach_every_rank_for_all_rank_counts(name: str, options: dict) -> None:
    for n in range(2, 34):
        check(name, places([1] * n, model=None), root=n // 2, seed=n, **options)


@pytest.mark.parametrize(
    "counts", [[8], [2], [3, 3], [8, 8, 8], [8, 5, 2], [4, 4, 4, 4, 4], [1, 8, 1, 3], [2] * 9]
)
@pytest.mark.parametrize(("name", "options"), ALL)
def test_data_reach_every_rank_in_every_shape(name: str, options: dict, counts: list[int]) -> None:
    for more in ({}, {"pxn_disable": True}, {"cross_nic": 1}, {"max_channels": 3}):
        for proto in ("simple", "ll") if "algo" in options else ("auto",):
            check(
                name, places(counts, shuffle=1), root=1, seed=2, proto=proto, size=2**16,
                **options, **more,
            )  # fmt: skip


@pytest.mark.parametrize("counts", [[1] * 33, [8, 8], [4, 3, 4], [8] * 5, [1, 8, 3], [2] * 9])
def test_data_reach_every_rank_with_collnet(counts: list[int]) -> None:
    for size in (2**10, 2**26):
        check("allreduce", places(counts, shuffle=1), size=size, algo="collnet-direct")


@pytest.mark.parametrize("counts", [[4], [8], [8, 8], [4, 3, 4], [8] * 5])
def test_data_reach_every_rank_with_nvls(counts: list[int]) -> None:
    alone = len(counts) == 1
    check("allreduce", places(counts), algo="nvls" if alone else "nvls-tree")


def test_messages_leave_a_machine_through_the_adapter_near_their_target() -> None:
    at = places([8, 8, 8])
    for name in ("alltoall", "allgather"):
        source, to, _, network, *_ = made(name, at, 2**24)[0].columns()
        leaves = at.machine[source] != at.machine[to]
        np.testing.assert_array_equal(network, leaves)
        np.testing.assert_array_equal(at.processor[source][leaves], at.processor[to][leaves])
        source, to, *_ = made(name, at, 2**24, pxn_disable=True)[0].columns()
        leaves = at.machine[source] != at.machine[to]
        assert (at.processor[source] != at.processor[to])[leaves].any()


def test_trees_are_those_of_the_source() -> None:
    """The figures in NCCL's src/graph/trees.cc, for 14 nodes; and no rank has three children."""
    assert [binary_tree(14, node)[0] for node in range(14)] == [
        -1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12,
    ]  # fmt: skip
    for count in range(2, 40):
        for second in (0, 1):
            parents = [double_tree(count, node, second) for node in range(count)]
            assert sum(up < 0 for up, _ in parents) == 1
            children = Counter(parents)
            assert max(children[up, child] for up, child in parents if up >= 0) == 1
        leaves = [
            set(range(count)) - {double_tree(count, node, second)[0] for node in range(count)}
            for second in (0, 1)
        ]
        assert len(leaves[0] | leaves[1]) >= count - 2


# -- times on ideal networks -----------------------------------------------------------------------


def ideal_ns(
    name: str, n: int, size: int, level: str, at: Places | None = None, **options
) -> tuple[float, NcclChoice]:
    """Return the time of a collective on one switch of 50 GB/s a port without latencies."""
    messages, choice = made(name, at or Places.one_each(n), size, **options)
    builder = WorkloadBuilder(n)
    with builder.reserved_tag(0) as tag:
        messages.lower(builder, np.arange(n)[None], 0.0, tag, np.zeros(n))
    fabric = weft.fabric(f"xgft:1;{n};1,rate=4xNDR")
    hardware = weft.Hardware(header_bytes=0, switch_latency_ns=0.0, buffer_bytes=65536)
    latency = {"latency_ns": 0.0} if level == "flow" else {}
    result = weft.simulate(
        fabric, weft.route(fabric, "minhop"), builder.build(), level=level, hardware=hardware,
        eager_bytes=2**50, **latency,
    )  # fmt: skip
    return result.makespan_ns, choice


@pytest.mark.parametrize("level", ["flow", "packet"])
@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("name", [name for name, _ in RINGS] + ["alltoall", "sendrecv"])
def test_times_on_an_ideal_network_are_those_of_the_formulas(name: str, n: int, level: str) -> None:
    size, rate = 2**22 * n, 50.0
    options = {} if name in ("alltoall", "sendrecv") else {"algo": "ring", "proto": "simple"}
    time, choice = ideal_ns(name, n, size, level, **options)
    chunks = size // choice.channels // choice.chunk_bytes
    expected = {
        "allreduce": 2 * (n - 1) * size / n, "broadcast": (chunks + n - 2) * size / chunks,
        "reduce": (chunks + n - 2) * size / chunks, "sendrecv": size,
    }.get(name, (n - 1) * size / n) / rate  # fmt: skip
    assert time == pytest.approx(expected, rel=1e-9 if level == "flow" else 1e-3)


@pytest.mark.parametrize("level", ["flow", "packet"])
@pytest.mark.parametrize("n", [2, 3])
def test_a_tree_takes_its_chunks_and_their_way(n: int, level: str) -> None:
    size = 2**22
    time, choice = ideal_ns(
        "allreduce", n, size, level, algo="tree", proto="simple", max_channels=1
    )
    chunks = size // choice.chunk_bytes
    steps = chunks + 1 if n == 2 else 2 * chunks + 2
    expected = steps * choice.chunk_bytes / 50.0
    assert time == pytest.approx(expected, rel=1e-9 if level == "flow" else 1e-3)


@pytest.mark.parametrize(("level", "exact"), [("flow", 1e-6), ("packet", 1e-3)])
@pytest.mark.parametrize("p", [4, 8])
def test_nvls_sends_all_data_and_the_part_of_a_head(p: int, level: str, exact: float) -> None:
    size = 2**22 * p
    time, choice = ideal_ns("allreduce", p, size, level, places([p]), algo="nvls")
    assert choice.algorithm == "nvls"
    assert time == pytest.approx(size * (1 + 1 / p) / 50.0, rel=exact)


def test_links_carry_the_bytes_of_nvls() -> None:
    """Each of 8 processors sends S and its part S/8, over NVSwitch at 85 % (Hopper)."""
    at, size = places([8]), 2**26
    builder = WorkloadBuilder(8)
    assert add_collective(builder, "allreduce", range(8), at, size).algorithm == "nvls"
    work = builder.build()
    sent = np.bincount(work.rank[work.messages], work.size_bytes[work.messages])
    np.testing.assert_allclose(sent, size * 9 / 8 / 0.85, rtol=1e-5)


def collnet_ns(counts: list[int], size: int, spec: str, node: str | None = None):
    """Return the result of an all-reduce in switches, without NCCL's latencies."""
    at = places(counts, model=machine_model(node) if node else None)
    messages = made("allreduce", at, size, algo="collnet-direct")[0]
    n = sum(counts)
    builder = WorkloadBuilder(2 * n)
    with builder.reserved_tag(0) as tag:  # a group at each end of the fabric
        messages.lower(builder, np.arange(2 * n).reshape(2, n), 0.0, tag, np.zeros(n))
    fabric = weft.fabric(spec, node=node)
    return weft.simulate(
        fabric, weft.route(fabric, "minhop"), builder.build(), eager_bytes=2**50, latency_ns=0.0,
        hardware=weft.Hardware(header_bytes=0),
    )  # fmt: skip


def test_collnet_takes_the_time_of_all_data_on_one_adapter_whatever_the_ranks() -> None:
    size = 2**24
    for n in (2, 3, 8):
        result = collnet_ns([1] * n, size, "xgft:1;16;1,rate=4xNDR")
        assert result.makespan_ns == pytest.approx(size / 50.0)
        sent = result.links().filter(kind="host-switch")["carried_bytes"].to_numpy()
        assert sent[sent > 0] == pytest.approx(np.full(2 * n, size))


def test_collnet_sends_all_data_twice_in_machines_and_a_part_of_them_on_each_rail() -> None:
    size = 2**28
    result = collnet_ns([8] * 4, size, "xgft:2;8,8;1,8;rate=4xNDR", "dgx-h100")
    links = result.links().filter(result.links()["carried_bytes"] > 0)
    inside = links["name"].str.contains("scale-up")
    assert links.filter(~inside)["carried_bytes"].to_numpy() == pytest.approx(size / 8)
    assert links.filter(inside)["carried_bytes"].to_numpy() == pytest.approx(size * 7 / 4)
    # Rails, which take half as long, wait for NVLink only.
    assert result.makespan_ns == pytest.approx(size * 7 / 4 / 370.8)


def test_collnet_is_estimated_and_taken_only_on_request() -> None:
    shape = Shape.of(places([8] * 10), np.arange(80))
    times = [
        Tuner(shape, Options(collnet_enable=on)).time_us("allreduce", "collnet-direct", p, 2**30)
        for on, p in ((False, "simple"), (True, "ll"), (True, "simple"))
    ]
    # 31 us, twice 3.7 us and 0.4 us for each of 7 members; 8 heads of 48 GB/s, halved, 85 %.
    assert times[:2] == [None, None]
    assert times[2] == pytest.approx(31 + 2 * (3.7 + 2.8) + 2**30 / (8 * 48e3 / 2 * 0.85))
    work = application_workload("nccl:allreduce,size=1MiB,algo=collnet-direct", 16)
    assert any(note.startswith("CollNet: switches reduce") for note in work.notes)


def test_lowering_keeps_bytes_and_makes_thread_blocks_take_turns() -> None:
    messages = MessageGraph((Hop(10.0, 100.0, 2.0, 7.0, 1.5), Hop()))
    one = messages.add(0, 1, 1000, network=False, slices=5, lane=3, blocks=2)
    two = messages.add(1, 2, 1000, network=False, slices=5, lane=1)
    messages.stream(two, one)
    builder = WorkloadBuilder(3)
    with builder.reserved_tag(0) as tag:
        messages.lower(builder, np.arange(3)[None], 5.0, tag, np.zeros(3))
    work = builder.build()
    sizes = work.size_bytes[work.messages].tolist()
    assert sizes == [300, 900, 300] * 2
    calc = work.duration_ns[(work.rank == 0) & (work.kind == Kind.CALC)]
    # Per message 10 ns, per slice 100 ns, and the copy at twice 2 GB/s.
    assert calc[calc > 0].tolist() == [5, 110 + 75, 300 + 225, 100 + 75]
    assert set(work.cpu[(work.rank == 0) & (work.duration_ns > 10)]) == {3}


@pytest.mark.parametrize("slices", [1, 2, 3, 7])
def test_lowering_keeps_odd_bytes(slices: int) -> None:
    messages = MessageGraph((Hop(), Hop()))
    messages.add(0, 1, 1001, network=True, slices=slices)
    builder = WorkloadBuilder(2)
    with builder.reserved_tag(0) as tag:
        messages.lower(builder, np.arange(2)[None], 0.0, tag, np.zeros(2))
    work = builder.build()
    assert work.size_bytes[work.messages].sum() == 1001


def test_groups_are_lowered_together_and_apart() -> None:
    at = places([8, 8])
    rails = np.arange(16).reshape(2, 8).T
    builder = WorkloadBuilder(16)
    choice = add_collective(builder, "allgather", rails, at, 2**20)
    pairs = set(zip(*(x.tolist() for x in sends(builder)), strict=True))
    assert pairs == {(i, (i + 8) % 16) for i in range(16)}
    assert choice.text in builder.notes
    single = WorkloadBuilder(16)
    add_collective(single, "allgather", rails[3], at, 2**20)
    assert 8 * single.num_ops == builder.num_ops


def sends(builder: WorkloadBuilder) -> tuple[np.ndarray, np.ndarray]:
    work = builder.build()
    return work.rank[work.messages], work.peer[work.messages]


# -- the tuning model ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("each", "channels", "peer", "chosen"),
    [
        (1, 4, 2, ["ring ll128", "ring simple", "ring simple"]),
        (2, 8, 2, ["ring ll128", "ring simple", "ring simple"]),
        (4, 16, 2, ["nvls-tree simple", "nvls-tree simple", "ring simple"]),
        (8, 16, 1, ["nvls-tree simple", "nvls-tree simple", "ring simple"]),
    ],
)
def test_choices_on_ten_machines_of_h100(
    each: int, channels: int, peer: int, chosen: list[str]
) -> None:
    """By hand: 48 GB/s a channel; of 8, 7 of 8 hops are on NVLink, 336 of its 370.8 GB/s.

    NVLS trees: 40 GB/s a head within, 48 between, limited to 45.5, and so to 364 of 8 heads.
    """
    tuner = Tuner(Shape.of(places([each] * 10), np.arange(10 * each)), Options())
    assert tuner.channels == channels
    assert tuner.choose("sendrecv", 2**30).channels == peer
    choices = [tuner.choose("allreduce", size) for size in (2**25, 2**28, 2**32)]
    assert [f"{choice.algorithm} {choice.protocol}" for choice in choices] == chosen
    assert tuner.choose("allreduce", 256).channels < channels


def test_estimates_are_those_of_the_formulas() -> None:
    """8 channels of 48 GB/s; 8.4 us, 70 steps of 3.4 us and 9 of 14 us, all by hand."""
    tuner = Tuner(Shape.of(places([8] * 10), np.arange(80)), Options())
    gather = tuner.time_us("allgather", "ring", "simple", 10**9)
    assert gather == pytest.approx(8.4 + 70 * 3.4 + 9 * 14 + 1e6 / (384 * 80 / 79))
    reduce = tuner.time_us("allreduce", "ring", "simple", 10**9)
    assert reduce == pytest.approx(1.4 * (8.4 + 140 * 3.4 + 18 * 14) + 1e6 / (384 * 80 / 158))
    heads = tuner.time_us("allreduce", "nvls-tree", "simple", 10**9)
    assert heads == pytest.approx(25 + 6 * 20.9 + 1e6 / (8 * 45.5 * 80 / 158))
    trees = tuner.time_us("allreduce", "tree", "simple", 10**9)
    assert trees == pytest.approx(8.4 + 2 * (7 * 4 + 3 * 14) + 1e6 / (8 * 36 / 2))
    alone = Tuner(Shape.of(places([8]), np.arange(8)), Options())
    switch = alone.time_us("allreduce", "nvls", "simple", 10**9)
    assert switch == pytest.approx(25 + 1e6 / (2 * 8 * 40 * 0.85 * 7 / 8 * 8 / 14))
    gather = alone.time_us("allgather", "nvls", "simple", 10**9)
    assert gather == pytest.approx(25 + 1e6 / (8 * 40 * 0.85 * 7 / 8 * 7 / 8))
    four = Tuner(Shape.of(places([4]), np.arange(4)), Options())
    switch = four.time_us("allreduce", "nvls", "simple", 10**9)
    assert switch == pytest.approx(25 + 1e6 / (4 * 60 * 4 / 6))
    one = Tuner(Shape.of(places([1] * 10), np.arange(10)), Options())
    trees = one.time_us("allreduce", "tree", "simple", 10**9)
    assert trees == pytest.approx(8.4 + 2 * 3 * 14 + 1e6 / (0.85 * 48 * 0.92 / 2))
    send = one.time_us("broadcast", "ring", "simple", 10**9)
    assert send == pytest.approx(8.4 + 14 + 1e6 / 48)
    relays = Tuner(Shape.of(places([8] * 10), np.arange(80)), Options(cross_nic=0))
    slow = relays.time_us("allgather", "ring", "simple", 10**9)
    assert slow == pytest.approx(8.4 + 70 * 3.4 + 9 * 14 + 1e6 / (8 * 45 * 80 / 79))
    amd = Tuner(Shape.of(places([8] * 10), np.arange(80)), Options(cpu="amd"))
    slow = amd.time_us("allgather", "ring", "simple", 10**9)
    assert slow == pytest.approx(8.4 + 70 * 6 + 9 * 14 + 1e6 / (384 * 80 / 79))


def test_channels_and_chunks_are_those_of_the_source() -> None:
    """connect.cc: four thread blocks a channel above 45 GB/s; paths.cc; enqueue.cc; nvls.cc."""
    six = Tuner(Shape.of(places([6] * 4), np.arange(24)), Options())
    assert six.channels == 24  # 6 channels of 48 GB/s
    for name, each, channels in (("dgx-b200", 8, 16), ("dgx-a100", 4, 8), ("cpu-2nic", 2, 4)):
        at = places([each] * 4, model=machine_model(name))
        assert Tuner(Shape.of(at, np.arange(4 * each)), Options()).channels == channels
    slow = Shape(np.arange(4), np.zeros(4, int), np.zeros(4, int), 12.5, 0.0, False, False)
    few = Tuner(slow, Options(proto="simple"))  # 12 GB/s: 256 threads of a block
    assert few.choose("allgather", 2 * 256 * 64).channels == 2
    pcie = Tuner(
        Shape.of(places([2] * 4, model=machine_model("cpu-2nic")), np.arange(8)), Options()
    )
    assert pcie.choose("sendrecv", 2**20).channels == 2
    chunks = {
        (n, size): Tuner(Shape.of(places([8] * n), np.arange(8 * n)), Options(algo=name))
        .choose("allreduce", size)
        .chunk_bytes
        for n, size, name in (
            (1, 2**34, "nvls"), (1, 2**25, "nvls"), (3, 2**34, "nvls-tree"), (4, 2**34, "nvls-tree")
        )
    }  # fmt: skip
    assert [*chunks.values()] == [131072, 32768, 131072, 65536]
    trees = Tuner(Shape.of(places([8] * 4), np.arange(32)), Options(algo="tree", proto="ll128"))
    # 576,000 bytes, halved to have 30.4 chunks a channel down to 131,072, and 7.6 down to 32,768.
    sizes = [trees.choose("allreduce", size).chunk_bytes for size in (2**31, 2**26, 2**20)]
    assert sizes == [576000, 72000, 18000]


@pytest.mark.parametrize(
    ("algorithm", "protocol", "rate"),
    [
        ("ring", "simple", 36.7 * 128 / 120 / 2), ("ring", "ll128", 36.7 * 128 / 120 / 2),
        ("ring", "ll", 2 * 20.4 / 16), ("tree", "simple", 36 / 2),
        ("tree", "ll128", 29 * 128 / 120 / 2),
    ],
)  # fmt: skip
def test_thread_blocks_copy_at_the_limits_of_the_tables(
    algorithm: str, protocol: str, rate: float
) -> None:
    tuner = Tuner(
        Shape.of(places([8] * 10), np.arange(80)), Options(algo=algorithm, proto=protocol)
    )
    assert tuner.hops(tuner.choose("allreduce", 2**30))[0].rate == pytest.approx(rate)


def test_some_collectives_have_a_shortest_time() -> None:
    tuner = Tuner(Shape.of(places([8] * 10), np.arange(80)), Options())
    times = tuner.least_ns(tuner.choose("sendrecv", 14_000_000), 14_000_000)
    assert times.tolist() == ([0.0] * 7 + [1e6]) * 10
    # 72 of 80 peers on 16 channels are 5 turns of 175,000 bytes.
    times = tuner.least_ns(tuner.choose("alltoall", 14_000_000), 14_000_000)
    assert times == pytest.approx(np.full(80, 5 * 12_500))
    size = 2**30
    times = tuner.least_ns(tuner.choose("allreduce", size), size)
    assert times == pytest.approx(np.full(80, size * 158 / 80 / 364))


def test_what_was_taken_is_said_and_pat_is_not_replaced_in_silence() -> None:
    work = application_workload("nccl:allgather,size=64KiB", 16)
    assert any("NCCL would take PAT, which is not modelled" in note for note in work.notes)
    assert any(note.startswith("allgather: NCCL 2.29, ring, ") for note in work.notes)
    assert any("no model of the machines" in note for note in work.notes)
    work = application_workload("nccl:allreduce,size=1MiB,algo=tree,proto=ll128", 16)
    assert "allreduce: NCCL 2.29, tree, ll128, 4 channels" in work.notes


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("min_channels=0", InputError, "0 to 64 channels; expected 1 to 64"),
        ("min_channels=9,max_channels=8", InputError, "min_channels not above max_channels"),
        ("nthreads=100", InputError, "nthreads is 100; expected a multiple of 32, 64 to 640"),
        ("cross_nic=3", InputError, "cross_nic is 3; expected 0, 1 or 2"),
        ("buffsize=1", InputError, "buffsize is 1 bytes; expected at least 8192"),
        ("root=4", InputError, "allreduce: there is no root 4 among 4 ranks"),
        ("algo=collnet-chain", NotApplicable, "CollNet chain is not modelled"),
        ("algo=collnet-direct,collective=allgather", NotApplicable, "no allgather with"),
        ("algo=nvls", NotApplicable, "no allreduce with algo=nvls and proto=auto on these"),
        ("algo=tree,collective=allgather", NotApplicable, "expected ring with ll"),
        ("collective=alltoall,proto=ll", NotApplicable, "alltoall is point-to-point"),
    ],
)
def test_what_cannot_be_is_refused(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        application_workload("nccl:" + spec, 4)


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
def test_too_many_messages_are_refused_at_once(name: str) -> None:
    with pytest.raises(NotApplicable, match=r"of 4096 ranks has [\d,]+ messages with (ring|p2p)"):
        application_workload(f"nccl:{name},size=1GiB", 4096)


def test_ranks_that_share_a_processor_and_rings_without_a_way_out_are_refused() -> None:
    with pytest.raises(InputError, match="several ranks are on one processor"):
        add_collective(
            WorkloadBuilder(2), "allreduce", [0, 1], Places(np.zeros(2, int), np.zeros(2, int)), 8
        )
    with pytest.raises(NotApplicable, match="which cross_nic=0 forbids"):
        made("allgather", places([8, 8]), 2**20, cross_nic=0, pxn_disable=True)


# -- measurements ----------------------------------------------------------------------------------


@pytest.mark.skipif(not MEASURED.exists(), reason="no measurements here")
@pytest.mark.parametrize("each", [1, 2, 4, 8])
def test_large_collectives_take_what_was_measured(each: int) -> None:
    """Values of specifications only: the median of the errors is below a tenth."""
    fabric = weft.fabric("xgft:2;10,8;1,10;rate=4xNDR", node="dgx-h100")
    routes = weft.route(fabric, "minhop")
    hosts = np.flatnonzero(fabric.ordinal_of_host < each).astype(np.int32)
    hosts = hosts[np.argsort(fabric.machine_of_host[hosts], kind="stable")]
    errors = []
    with MEASURED.open() as file:
        for row in csv.DictReader(file):
            name = row["collective"].replace("all_", "all").replace("_", "-")
            size = int(row["size_bytes"])
            if int(row["gpus_per_node"]) != each or not 2**27 <= size < 2**32:
                continue
            if name not in ("allreduce", "allgather", "reduce-scatter"):
                continue
            builder = WorkloadBuilder(len(hosts))
            at = Places.of(fabric, hosts)
            add_collective(builder, name, range(len(hosts)), at, size)
            result = weft.simulate(fabric, routes, builder.build(), hosts)
            errors.append(result.makespan_ns / 1000 / float(row["time_us"]) - 1)
    assert len(errors) == 15
    assert np.median(np.abs(errors)) < 0.1
