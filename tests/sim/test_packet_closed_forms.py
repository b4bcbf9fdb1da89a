"""Times at the packet level in closed form: single messages, credits, MPI, collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, L, R, arrivals, duration_ps, fabric_of, line, puts, run

import weft
from weft import Hardware
from weft.workload import WorkloadBuilder
from weft.workload.collectives import collective_workload

#: Time in ps of a packet without payload at 80 Gb/s, and of a request or an answer.
EMPTY, CONTROL = 2_400, 8_800
#: Time from the departure of a packet's first byte to that byte's arrival behind one switch.
WAY = L + R + L
DEEP = replace(PLAIN, buffer_bytes=1 << 24)


def message_ps(
    size: int, rates: Sequence[float], latencies: Sequence[int], hardware: Hardware
) -> int:
    """Return the time in ps from departure to arrival of a message alone that never lacks credits.

    Let d_i be the time of a packet on cable i, and l_i the time from the departure of its first
    byte on cable i to the end of its routing behind cable i. The first packet begins on cable i at

        s_i = sum over j < i of l_j + max(0, d_j - d_(j+1)),

    where the second term ensures that a faster cable always has the next byte. Equal packets
    follow each other at the pace of the slowest cable so far: the k-th begins at
    s_i + (k - 1) max(d_1 .. d_i). So the last but one has left cable i at
    s_i + (n - 2) max(d_1 .. d_i) + d_i. The last packet may be shorter and catch up with that
    packet; the maximum is over the last cable at which the last packet waits for it.

    If the sending adapter is slower than its cable, packets follow each other at its pace. A
    receiving adapter that is slower than its cable is one more stage, without latency.
    """
    full_packets, rest = divmod(size, hardware.mtu_bytes)
    packets = full_packets + (rest > 0 or full_packets == 0)
    last = hardware.header_bytes + (rest if rest or not full_packets else hardware.mtu_bytes)
    memory = hardware.adapter_gbps
    if memory is not None and memory < rates[-1]:
        rates, latencies = [*rates, memory], [*latencies, 0]
    full = [duration_ps(hardware.mtu_bytes + hardware.header_bytes, rate) for rate in rates]
    short = [duration_ps(last, rate) for rate in rates]
    occupied = list(full)
    if memory is not None:
        wire = hardware.mtu_bytes + hardware.header_bytes
        occupied[0] = max(occupied[0], duration_ps(wire, memory))
    stages = range(len(rates))

    def after(stage: int, took: list[int]) -> int:
        """Return the time from the beginning of a packet on a stage to that on the last stage."""
        return sum(latencies[j] + max(0, took[j] - took[j + 1]) for j in stages[stage:-1])

    begins = after(0, short)
    if packets > 1:
        begins = max(
            after(0, full) - after(stage, full)
            + (packets - 2) * max(occupied[: stage + 1]) + occupied[stage]
            + after(stage, short)
            for stage in stages
        )  # fmt: skip
    return begins + short[-1] + latencies[-1] + round((hardware.adapter_latency_ns or 0) * 1000)


RATES = {
    "one switch": [80.0, 80.0],
    "fast into slow": [160.0, 40.0],
    "slow into fast": [40.0, 160.0],
    "up and down": [32.0, 100.0, 25.0, 54.5],
    "down and up": [100.0, 10.0, 400.0, 10.5],
    "nine switches": [80.0] * 10,
    "nine faster and faster": [8.0 * 1.37**n for n in range(10)],
}


@pytest.mark.parametrize("adapter", [None, 37.0, 9.0])
@pytest.mark.parametrize("name", RATES)
def test_the_time_of_a_message_alone_equals_the_closed_form(
    name: str, adapter: float | None
) -> None:
    """`message_ps` holds for sizes around multiples of the MTU and for every order of rates."""
    rates = RATES[name]
    lengths = [2.0 + 1.5 * at for at in range(len(rates))]
    fabric = line(rates, lengths)
    hardware = replace(DEEP, adapter_gbps=adapter, adapter_latency_ns=70.0)
    cables = np.rint(fabric.cable_latency_ns * 1000).astype(int).tolist()
    # There is no routing at the end of the last cable.
    latencies = [cable + R for cable in cables[:-1]] + cables[-1:]
    builder = WorkloadBuilder(2)
    sizes = [0, 1, 999, 1000, 1001, 2000, 2100, 10_000, 23_457]
    for at, size in enumerate(sizes):
        builder.put(0, 1, size, release_ns=1e6 * at)
    result = run(fabric, builder.build(), hardware)
    joined = [10**9 * at + 70_000 for at in range(len(sizes))]
    assert result.left_ps.tolist() == joined
    expected = [message_ps(size, rates, latencies, hardware) for size in sizes]
    assert [at - left for at, left in zip(arrivals(result), joined, strict=True)] == expected
    assert (result.alone_ns() * 1000).round().astype(int).tolist() == expected


def test_the_closed_form_equals_times_by_hand() -> None:
    """2100 bytes behind one switch: one of 124 bytes follows two full packets at once."""
    latencies = [L + R, L]
    assert message_ps(2100, [80, 80], latencies, PLAIN) == 2 * D + WAY + 12_400
    assert message_ps(1000, [80, 160], latencies, PLAIN) == L + R + D // 2 + L + D // 2
    assert message_ps(0, [80, 80], latencies, PLAIN) == WAY + EMPTY
    # If the second cable has half the rate, the last packet queues behind the others.
    assert message_ps(2100, [80, 40], latencies, PLAIN) == WAY + 2 * 2 * D + 2 * 12_400


@pytest.mark.parametrize("adapter", [None, 60.0])
@pytest.mark.parametrize(("target", "hops"), [(1, 1), (3, 2)])
def test_a_host_that_forwards_is_an_adapter_and_a_switch(
    target: int, hops: int, adapter: float | None
) -> None:
    """In BCube(2, 1), internal links of hosts have the total rate of the ports and no latency.

    Hosts 0 and 1 share a switch; the path from host 0 to host 3 is switch, host, switch.
    """
    fabric = weft.fabric("bcube:2,k=1,rate=80")
    hardware = replace(DEEP, forward_latency_ns=230.0, adapter_gbps=adapter)
    inside, forward = adapter or 160.0, 230_000
    rates = [inside, *[80.0, 80.0] * hops, inside]
    latencies = [forward, *[L + R, L + forward] * hops, 0]
    for size in (0, 700, 5300):
        result = run(fabric, puts(4, (0, target, size)), hardware)
        # The internal link already has the rate of the adapter, which is no further stage.
        free = replace(hardware, adapter_gbps=None)
        assert arrivals(result) == [message_ps(size, rates, latencies, free)]


@pytest.mark.parametrize(
    ("spec", "engine"),
    [
        ("xgft:3;3,3,3;1,3,3,rate=32", "dmodk"),
        ("torus:4,3,rate=4xHDR", "dor"),
        ("bcube:3,k=1", "minhop"),
        ("dragonfly:p=2,a=3,h=1", "minhop"),
        ("kns:k=4,n=2", "hdor"),
        ("hyperx:3,3", "ecmp"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_alone_ns_is_the_time_of_a_message_alone(spec: str, engine: str, seed: int) -> None:
    """Messages of any size are far apart in time; the hardware is arbitrary, with deep buffers."""
    random = np.random.default_rng([seed, 5])
    fabric = weft.fabric(spec)
    hardware = Hardware(
        mtu_bytes=int(random.choice([256, 1000, 4096])),
        buffer_bytes=1 << 24,
        queues=str(random.choice(["input", "voq"])),  # type: ignore[arg-type]
        switch_latency_ns=float(random.uniform(0, 300)),
        forward_latency_ns=float(random.uniform(0, 600)),
        adapter_gbps=random.choice([None, 11.3, 27.0, 99.0]),
        adapter_latency_ns=float(random.uniform(0, 100)),
        credit_latency_ns=float(random.uniform(0, 100)),
    )
    builder = WorkloadBuilder(fabric.num_hosts)
    for at in range(25):
        source, target = random.choice(fabric.num_hosts, size=2, replace=False)
        size = int(random.choice([0, random.integers(1, 300), random.integers(60_000)]))
        builder.put(int(source), int(target), size, release_ns=1e6 * at)
    policy = "ecmp" if engine == "ecmp" else "deterministic"
    routes = weft.route(fabric, engine)
    result = weft.simulate(
        fabric,
        routes,
        builder.build(),
        hardware=hardware,
        policy=policy,
        seed=seed,
        level="packet",
    )
    ops = result.workload.messages
    took = result.arrived_ps[ops] - result.left_ps[ops]
    assert took.tolist() == (result.alone_ns() * 1000).round().astype(int).tolist()


# -- credits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("packets", [1, 2, 3, 5])
@pytest.mark.parametrize("credit_ns", [0.0, 700.0])
def test_a_small_buffer_limits_the_rate_to_one_buffer_per_round_trip(
    packets: int, credit_ns: float
) -> None:
    """A buffer of b packets allows b packets per round trip, and at most one per D.

    The round trip of the cable into the switch is the latency L, the routing R, the departure D
    from the buffer, and L and the credit latency for the credit. That of the next cable has no R.
    """
    hardware = replace(PLAIN, buffer_bytes=packets * 1024, credit_latency_ns=credit_ns)
    trip = max(L + R + D + L + round(credit_ns * 1000), packets * D)
    trips = 40
    size = 1000 * (trips * packets + 1)
    result = run(fabric_of([0, 0]), puts(2, (0, 1, size)), hardware)
    assert arrivals(result) == [trips * trip + WAY + D]
    assert result.arrived_ps[0] >= result.alone_ns()[0] * 1000


@pytest.mark.parametrize("lengths", [(2, 900, 2), (900, 2, 2), (2, 2, 1700), (400, 420, 440)])
def test_the_longest_round_trip_of_a_cable_limits_the_rate(
    lengths: tuple[int, int, int],
) -> None:
    """On a chain, b packets pass in each longest round trip, 2 L_i + (R at the far end) + D."""
    fabric = line([80.0] * 3, lengths)
    cables = np.rint(fabric.cable_latency_ns * 1000).astype(int).tolist()
    hardware = replace(PLAIN, buffer_bytes=3 * 1024)
    trips = [2 * cable + D + R * (at < 2) for at, cable in enumerate(cables)]
    rounds = 30
    result = run(fabric, puts(2, (0, 1, 1000 * (3 * rounds + 1))), hardware)
    through = sum(cables) + 2 * R + D
    assert arrivals(result) == [rounds * max(*trips, 3 * D) + through]


def test_only_whole_credits_count() -> None:
    """A packet takes 11 credits of 100 bytes. A buffer of 2199 bytes has 21, so it holds one."""
    one = replace(PLAIN, buffer_bytes=2199, credit_bytes=100)
    two = replace(PLAIN, buffer_bytes=2200, credit_bytes=100)
    trip = L + R + D + L
    work = puts(2, (0, 1, 9000))
    assert arrivals(run(fabric_of([0, 0]), work, one)) == [8 * trip + WAY + D]
    assert arrivals(run(fabric_of([0, 0]), work, two)) == [4 * max(trip, 2 * D) + WAY + D]


# -- MPI -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("late_ns", [0, 400, 5000])
@pytest.mark.parametrize("handshake", [True, False])
def test_a_rendezvous_waits_for_request_receive_and_answer(late_ns: int, handshake: bool) -> None:
    """The answer departs when request and receive are present, and data when the answer arrives.

    Request, answer and data each pass two adapters of 20 ns. Without a handshake, data departs
    when both operations are posted.
    """
    hardware = replace(PLAIN, adapter_latency_ns=20.0)
    builder = WorkloadBuilder(2)
    send = builder.send(0, 1, 3000)
    builder.calc(1, float(late_ns))
    builder.recv(1, 0, 3000)
    result = run(
        fabric_of([0, 0]), builder.build(), hardware, eager_bytes=2999, handshake=handshake
    )
    control = 20_000 + WAY + CONTROL + 20_000
    left = 1000 * late_ns + 20_000
    if handshake:
        left = max(control, 1000 * late_ns) + control + 20_000
    assert int(result.left_ps[send]) == left
    # The send ends when the last byte has departed, and the receive when that byte has passed
    # the receiving adapter.
    assert int(result.ended_ps[send]) == left + 3 * D
    assert result.end_ps == left + 3 * D + WAY + 20_000


def test_an_eager_send_ends_at_its_departure_and_its_receive_after_arrival() -> None:
    """An overhead of 30 ns precedes the departure, and one follows the arrival."""
    builder = WorkloadBuilder(2)
    send = builder.send(0, 1, 3000)
    receive = builder.recv(1, 0, 3000)
    result = run(fabric_of([0, 0]), builder.build(), eager_bytes=3000, overhead_ns=30)
    assert int(result.left_ps[send]) == int(result.ended_ps[send]) == 30_000
    assert int(result.ended_ps[receive]) == 30_000 + 3 * D + WAY + 30_000


def test_messages_of_two_ranks_arrive_in_order_and_empty_ones_are_packets() -> None:
    """One queue pair sends messages of 2, 1 (empty) and 1 packets without gaps."""
    builder = WorkloadBuilder(2)
    for size in (2000, 0, 500):
        builder.put(0, 1, size)
    result = run(fabric_of([0, 0]), builder.build())
    ends = [2 * D, 2 * D + EMPTY, 2 * D + EMPTY + duration_ps(524, 80)]
    assert arrivals(result) == [WAY + end for end in ends]
    assert result.num_hops == 2 * 4


# -- collectives on one switch -------------------------------------------------------------------


def _collective(text: str, ranks: int, **options: object) -> int:
    """Return the completion time in ps of a collective operation."""
    work = collective_workload(text, ranks)
    result = run(fabric_of([0] * ranks), work, **options)
    assert result.complete
    return round(result.makespan_ns * 1000)


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 13, 16])
def test_barriers_take_their_closed_form(ranks: int) -> None:
    """A message takes T = 2 L + R + the time of an empty packet.

    - dissemination: log2 p rounds, rounded up, follow each other, with one message to each host;
    - linear: p - 1 packets arrive at rank 0 one by one, and p - 1 depart one by one.
    """
    alone = WAY + EMPTY
    assert _collective("barrier-dissemination", ranks) == ceil(log2(ranks)) * alone
    assert _collective("barrier-linear", ranks) == 2 * (alone + (ranks - 2) * EMPTY)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("size", [1000, 4321])
def test_collectives_of_equal_rounds_take_the_sum_of_their_rounds(ranks: int, size: int) -> None:
    """In each round every host sends and receives one message; a round takes one message's time.

    Ring and pairwise exchange have p - 1 rounds of a block. An allreduce by recursive doubling has
    log2 p rounds of the whole buffer. Allgathers by Bruck's algorithm and by recursive doubling
    have log2 p rounds of 1, 2, 4 ... blocks. An allreduce on a ring has 2 (p - 1) rounds of a p-th
    of the buffer.
    """

    def one(count: int) -> int:
        packets = [1024] * (count // 1000) + [24 + count % 1000] * (count % 1000 > 0)
        return WAY + sum(duration_ps(packet, 80) for packet in packets)

    large = {"eager_bytes": 1 << 20}
    rounds = round(log2(ranks))
    doubling = sum(one(size << step) for step in range(rounds))
    assert _collective(f"allgather-ring:size={size}", ranks, **large) == (ranks - 1) * one(size)
    assert _collective(f"alltoall-pairwise:size={size}", ranks, **large) == (ranks - 1) * one(size)
    assert (
        _collective(f"allreduce-recursive-doubling:size={size}", ranks, **large)
        == rounds * one(size)
    )  # fmt: skip
    assert _collective(f"allgather-recursive-doubling:size={size}", ranks, **large) == doubling
    assert _collective(f"allgather-bruck:size={size}", ranks, **large) == doubling
    assert (
        _collective(f"allreduce-ring:size={16 * size}", ranks, **large)
        == 2 * (ranks - 1) * one(16 * size // ranks)
    )  # fmt: skip


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_a_binomial_broadcast_takes_one_message_per_round(ranks: int) -> None:
    """log2 p messages follow each other in the eager and in the rendezvous protocol.

    Eager messages of one packet depart from the root one after another. The first goes to the rank
    that forwards most. A rendezvous adds a request and an answer to each message. The second
    message waits until the first has departed, and departs before the first is forwarded.
    """
    rounds = round(log2(ranks))
    assert _collective("bcast-binomial:size=1000", ranks) == rounds * (WAY + D)
    rendezvous = 2 * (WAY + CONTROL) + WAY + 5 * D
    assert _collective("bcast-binomial:size=5000", ranks, eager_bytes=0) == rounds * rendezvous
