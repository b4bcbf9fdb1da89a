"""Order of the messages of a queue pair, against closed forms, the packet level and LogGOPS."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reference.loggops import replay

import weft
from weft.core.errors import InputError
from weft.workload import Workload, WorkloadBuilder, load_workload
from weft.workload.collectives import COLLECTIVES, Sizes, collective
from weft.workload.formats import write_workload

#: One switch; rate in bytes/ns, and latency in ns of two cables (10 each) and a switch (100).
STAR = weft.fabric("xgft:1;16;1,rate=100")
ROUTES = weft.route(STAR, "minhop")
ALPHA, RATE = 120.0, 12.5


def puts(*messages: tuple[int, int, int]) -> Workload:
    """Return messages (source, destination, bytes), all posted at once; rank i is on host i."""
    builder = WorkloadBuilder(STAR.num_hosts)
    for message in messages:
        builder.put(*message)
    return builder.build()


def times(work: Workload, **options: object) -> tuple[list[float], list[float]]:
    """Return the times at which each message left and arrived."""
    rows = weft.simulate(STAR, ROUTES, work, latency_ns=0, **options).messages()
    return rows["left_ns"].to_list(), rows["arrived_ns"].to_list()


@pytest.mark.parametrize("sharing", ["maxmin", "penalty", "none"])
def test_messages_of_a_queue_pair_leave_one_after_the_other(sharing: str) -> None:
    left, arrived = times(puts((0, 1, 5000), (0, 1, 10_000), (0, 1, 5000)), sharing=sharing)
    assert left == pytest.approx([0, 400, 1200])
    assert arrived == pytest.approx([400, 1200, 1600])


@pytest.mark.parametrize("messages", [2, 3, 40])
def test_messages_posted_at_one_instant_depart_in_program_order(messages: int) -> None:
    """The operations for which the messages have waited may end in any order."""
    builder = WorkloadBuilder(2)
    ready = [builder.calc(0, 0.0, after=[]) for _ in range(messages)]
    sent = [builder.put(0, 1, 5000, after=[calc]) for calc in reversed(ready)]
    result = weft.simulate(STAR, ROUTES, builder.build())
    assert result.posted_ns[sent].tolist() == [0.0] * messages
    assert result.left_ns[sent] == pytest.approx([400.0 * index for index in range(messages)])


def test_queue_pairs_of_one_adapter_share_its_rate() -> None:
    # Both queue pairs have 15,000 bytes to send, at half the rate each.
    left, arrived = times(puts((0, 1, 5000), (0, 1, 10_000), (0, 2, 15_000)))
    assert left == pytest.approx([0, 800, 0])
    assert arrived == pytest.approx([800, 2400, 2400])


def test_single_packets_of_several_queue_pairs_leave_one_after_the_other() -> None:
    messages = [(0, peer, 1250) for peer in range(1, 6)]
    left, arrived = times(puts(*messages), hardware=weft.Hardware(header_bytes=0))
    assert left == pytest.approx([0, 100, 200, 300, 400])
    assert arrived == pytest.approx([100, 200, 300, 400, 500])
    # Each packet has its header; an empty message is a packet too.
    left, arrived = times(
        puts(*messages, (0, 6, 0), (0, 7, 1225)), hardware=weft.Hardware(header_bytes=25)
    )
    assert left == pytest.approx([0, 102, 204, 306, 408, 510, 512])
    assert arrived == pytest.approx([102, 204, 306, 408, 510, 512, 612])
    # Messages of several packets share the link, as their packets alternate.
    assert times(puts(*messages), hardware=weft.Hardware(mtu_bytes=1249))[1] == pytest.approx(
        [500] * 5
    )
    # A packet delayed at a later link does not delay packets behind it, as switches have buffers.
    left, arrived = times(
        puts((0, 1, 1250), (0, 2, 1250), (3, 1, 125_000)), hardware=weft.Hardware(header_bytes=0)
    )
    assert left == pytest.approx([0, 100, 0])
    assert arrived == pytest.approx([200, 250, 10_100])


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_copies_between_two_ranks_of_a_host_follow_each_other(level: str) -> None:
    builder = WorkloadBuilder(3)
    for size in (5000, 0, 10_000):
        builder.put(0, 1, size)
    builder.put(2, 1, 5000)
    hosts = {"level": level, "local_gbps": 80, "local_latency_ns": 11}
    result = weft.simulate(STAR, ROUTES, builder.build(), [3, 3, 3], **hosts).messages()
    assert result["left_ns"].to_list() == pytest.approx([0, 500, 500, 0])
    assert result["arrived_ns"].to_list() == pytest.approx([511, 511, 1511, 511])


def test_a_request_waits_for_earlier_messages_of_its_queue_pair() -> None:
    builder = WorkloadBuilder(2)
    builder.isend(0, 1, 12_500)
    builder.isend(0, 1, 25_000)
    builder.irecv(1, 0, 12_500)
    builder.irecv(1, 0, 25_000)
    result = weft.simulate(STAR, ROUTES, builder.build(), latency_ns=50).messages()
    # The first message is eager. The request leaves after it, at 1000; its answer arrives at 1100.
    assert result["left_ns"].to_list() == pytest.approx([0, 1100])
    assert result["arrived_ns"].to_list() == pytest.approx([1050, 3150])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ranks", [2, 3, 16])
@pytest.mark.parametrize("segment", [2048, 8192, 16384, 65536])
def test_a_chain_takes_its_closed_form(segment: int, ranks: int) -> None:
    """Eager segments, sent back to back, take (p - 1 + m/s - 1) s/B + (p - 1) alpha.

    Above the eager limit, a request leaves when the previous segment has left, and its answer
    arrives two latencies later: each of p - 2 + m/s segments takes 3 alpha + s/B. A rank that only
    sends makes its next request without waiting for the last alpha.
    """
    size = 1 << 20
    work = load_workload(f"bcast:size={size},algorithm=chain,segment={segment}", ranks)
    result = weft.simulate(STAR, ROUTES, work).makespan_ns
    steps = ranks - 2 + size // segment
    wire = segment + 26 * (segment <= 2048)  # a single packet includes its header
    if segment <= 16384:
        assert result == pytest.approx(steps * wire / RATE + (ranks - 1) * ALPHA)
    else:
        each = segment / RATE + 2 * ALPHA
        assert steps * each <= result <= steps * (each + ALPHA) + ALPHA


#: Permitted ratios of the time at the flow level to the time at the packet level.
LEAST, MOST = 0.82, 1.2
#: Without those that only the flit level has.
ENTRIES = {
    entry.name: entry.facts for entry in collective if entry.facts["algorithm"] != "hardware"
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("entry", ENTRIES)
def test_collectives_take_as_long_as_at_the_packet_level(entry: str) -> None:
    """Every algorithm runs on one switch of 12 ranks and a tree of 16, at default settings.

    The flow and packet levels differ most where messages from near and far ranks share a link. With
    max-min fairness all end together. Packets of near ranks use the link when it would be idle.
    """
    sized = COLLECTIVES[ENTRIES[entry]["collective"]].sizes is not Sizes.NONE
    ratios = []
    for spec, engine, ranks in (
        ("leaf-spine:leaves=1,spines=1,hosts=12", "minhop", 12),
        ("xgft:2;4,4;1,4", "dmodk", 16),
    ):
        fabric = weft.fabric(spec)
        routes = weft.route(fabric, engine)
        for size in ("2KiB", "24KiB", "256KiB") if sized else ("",):
            text = f"{entry}:size={size}" if sized else entry
            try:
                work = load_workload(text, ranks)
            except InputError:  # for powers of 2 only
                work = load_workload(text, 8)
            flow = weft.simulate(fabric, routes, work).makespan_ns
            ratios.append(flow / weft.simulate(fabric, routes, work, level="packet").makespan_ns)
    assert min(ratios) > LEAST
    assert max(ratios) < MOST


def wavefront(side: int, blocks: int, size: int) -> Workload:
    """Return sweeps over a grid of ranks from its four corners: Sweep3D without calculations."""
    builder = WorkloadBuilder(side * side)
    for down, right in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        for row, column in np.ndindex(side, side):
            here = row * side + column
            before = [here - down * side] * (0 <= row - down < side)
            before += [here - right] * (0 <= column - right < side)
            after = [here + down * side] * (0 <= row + down < side)
            after += [here + right] * (0 <= column + right < side)
            for _ in range(blocks):
                for other in before:
                    builder.recv(here, other, size)
                for other in after:
                    builder.send(here, other, size)
    return builder.build()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "spec",
    [
        "bcast:size=1MiB,algorithm=chain,segment=8KiB",
        "bcast:size=2KiB,algorithm=binomial",
        "allreduce:size=64KiB,algorithm=ring",
        "allgather:size=64KiB,algorithm=ring",
        "alltoall:size=4KiB,algorithm=pairwise",
        "gather:size=8KiB,algorithm=binomial",
    ],
)
@pytest.mark.parametrize("eager", [16384, 0])
def test_programs_take_the_time_of_loggops(spec: str, eager: int, tmp_path: Path) -> None:
    """Times are exact if ranks send to one rank at a time, also after a round trip via GOAL."""
    work = load_workload(spec, 16)
    write_workload(work, tmp_path / "run.goal")
    work = load_workload(tmp_path / "run.goal")
    expected = replay(work, latency=Fraction(120), per_byte=1 / Fraction(RATE), eager_bytes=eager)
    result = weft.simulate(
        STAR, ROUTES, work, eager_bytes=eager, hardware=weft.Hardware(header_bytes=0)
    )
    assert result.ended_ns == pytest.approx([float(end) for end in expected], rel=1e-9)


@pytest.mark.parametrize("size", [1000, 8000, 40_000])
def test_wavefronts_take_the_time_of_loggops_and_of_the_packet_level(size: int) -> None:
    work = wavefront(4, 10, size)
    result = weft.simulate(STAR, ROUTES, work).makespan_ns
    packet = weft.simulate(STAR, ROUTES, work, level="packet").makespan_ns
    ends = replay(work, latency=Fraction(120), per_byte=1 / Fraction(RATE), eager_bytes=16384)
    assert result == pytest.approx(packet, rel=0.09)
    # In LogGOPS two messages of one adapter leave one after the other; here they share its link.
    bare = weft.simulate(STAR, ROUTES, work, hardware=weft.Hardware(header_bytes=0)).makespan_ns
    assert bare == pytest.approx(float(max(ends)), rel=0.1)


@pytest.mark.parametrize("sharing", ["maxmin", "penalty", "none"])
@pytest.mark.parametrize("ranks", [65, 128, 129])
def test_many_queue_pairs_may_continue_at_one_instant(sharing: str, ranks: int) -> None:
    """Each queue pair has room for the message that is leaving and the next one."""
    fabric = weft.fabric(f"xgft:1;{ranks};1,rate=100")
    builder = WorkloadBuilder(ranks)
    everyone = np.arange(ranks)
    for _ in range(3):
        builder.put(everyone, (everyone + 1) % ranks, 10_000)
    work = builder.build()
    result = weft.simulate(fabric, weft.route(fabric, "minhop"), work, sharing=sharing)
    assert result.makespan_ns == pytest.approx(3 * 800 + ALPHA)
    assert result.most_concurrent == ranks


@pytest.mark.parametrize("late", ["send first", "receive first", "both at once"])
@pytest.mark.parametrize("early", ["send first", "receive first", "both at once"])
def test_an_answer_keeps_its_place_in_its_queue_pair(early: str, late: str) -> None:
    """Two ranks exchange 256 KiB, one of them late, in one queue pair for each direction.

    The late rank answers the early rank's request, then sends a request of its own. When the
    second request arrives, the early rank is already sending; it answers once its message has left.
    """
    size, delay = 262_144, 10_000.0
    builder = WorkloadBuilder(2)
    builder.calc(1, delay)
    for rank, order in enumerate((early, late)):
        if order == "both at once":
            builder.sendrecv(rank, 1 - rank, size, 1 - rank, size)
            continue
        steps = [builder.isend, builder.irecv]
        for post in steps if order == "send first" else steps[::-1]:
            post(rank, 1 - rank, size)
    work = builder.build()
    shared: Any = {"rendezvous": "put-shared"}
    result = weft.simulate(STAR, ROUTES, work, **shared).makespan_ns - delay
    one = size / RATE
    if late == "send first":
        assert result == pytest.approx(one + 3 * ALPHA)
    else:
        assert result == pytest.approx(2 * one + 3 * ALPHA)
    packet = weft.simulate(STAR, ROUTES, work, level="packet", **shared).makespan_ns - delay
    assert result == pytest.approx(packet, rel=0.02)


FLOODS = {
    "to one": [(rank, 0) for rank in range(1, 16)] * 20,
    "from one": [(0, rank) for rank in range(1, 16)] * 20,
    "one pair": [(0, 1)] * 100,
    "all to all": [(a, b) for a in range(16) for b in range(16) if a != b] * 5,
}


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("size", [0, 1, 64, 500, 2048])
def test_floods_of_small_messages_take_as_long_as_at_the_packet_level(
    flood: str, size: int
) -> None:
    work = puts(*((a, b, size) for a, b in FLOODS[flood]))
    packet = weft.simulate(STAR, ROUTES, work, level="packet").makespan_ns
    assert weft.simulate(STAR, ROUTES, work).makespan_ns == pytest.approx(packet, rel=0.05)
