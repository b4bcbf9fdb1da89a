"""Shares of links at the packet level in closed form: round robin, merging and blocking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import lcm

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, L, R, arrivals, fabric_of, puts, run

from weft.fabrics import Fabric
from weft.sim.packet import Hardware
from weft.sim.packet.result import PacketResult
from weft.workload import WorkloadBuilder

#: Time from when the first packet leaves its host until it may leave the switch; time from when a
#: packet begins to leave the switch until it has arrived.
FIRST, LAST = L + R, L + D
DEEP = replace(PLAIN, buffer_bytes=1 << 24)


def last_slot(packets: Sequence[int], flow: int) -> int:
    """Return the slot, from 0, of the last packet of one of several flows in round robin.

    A flow of p packets ends in round p. By then, a flow that comes earlier in each round has sent p
    packets, and one that comes later p - 1, or all of its packets if it has fewer.
    """
    rounds = packets[flow]
    before = sum(min(each, rounds - (at > flow)) for at, each in enumerate(packets) if at != flow)
    return before + rounds - 1


FLOWS = [[7], [5, 5], [20] * 5, [3, 9, 1, 9], [40, 1, 2, 30, 17, 30], [1] * 11, [11, *[2] * 9]]


@pytest.mark.parametrize("queues", ["input", "voq"])
@pytest.mark.parametrize("packets", FLOWS, ids=str)
def test_an_incast_is_served_round_robin(packets: list[int], queues: str) -> None:
    """The link to one host serves n flows round robin in slots of D, and no slot is empty."""
    n = len(packets)
    work = puts(n + 1, *((host, n, 1000 * each) for host, each in enumerate(packets)))
    result = run(fabric_of([0] * (n + 1)), work, replace(PLAIN, queues=queues))  # type: ignore[arg-type]
    slots = [last_slot(packets, flow) for flow in range(n)]
    assert arrivals(result) == [FIRST + slot * D + LAST for slot in slots]
    assert max(slots) == sum(packets) - 1
    assert result.busy_ps.max() == sum(packets) * D


@pytest.mark.parametrize("packets", FLOWS, ids=str)
def test_flows_over_one_cable_are_served_round_robin(packets: list[int]) -> None:
    """n pairs of hosts at two switches share the cable between these like the link of an incast."""
    n = len(packets)
    work = puts(2 * n, *((host, n + host, 1000 * each) for host, each in enumerate(packets)))
    result = run(fabric_of([0] * n + [1] * n, [(0, 1)]), work)
    slots = [last_slot(packets, flow) for flow in range(n)]
    assert arrivals(result) == [2 * FIRST + slot * D + LAST for slot in slots]


@pytest.mark.parametrize("packets", FLOWS, ids=str)
def test_queue_pairs_of_one_host_are_served_round_robin(packets: list[int]) -> None:
    """One host sends to n hosts, and its own link is shared in the same manner."""
    n = len(packets)
    work = puts(n + 1, *((0, host + 1, 1000 * each) for host, each in enumerate(packets)))
    slots = [last_slot(packets, flow) for flow in range(n)]
    result = run(fabric_of([0] * (n + 1)), work)
    assert arrivals(result) == [FIRST + slot * D + LAST for slot in slots]


# -- trees of merges -----------------------------------------------------------------------------

#: A tree: the number of hosts at a switch, and the trees below it.
Tree = tuple[int, tuple["Tree", ...]]


def _parking_lot(switches: int) -> Tree:
    return (1, (_parking_lot(switches - 1),)) if switches > 1 else (1, ())


def _random_tree(random: np.random.Generator, depth: int) -> Tree:
    below = int(random.integers(0, 3)) if depth else 0
    hosts = int(random.integers(0 if below else 1, 4))
    return hosts, tuple(_random_tree(random, depth - 1) for _ in range(below))


def _lay(tree: Tree, switch_of: list[int], trunks: list[tuple[int, int]], count: list[int]) -> int:
    """Append the switch of each host and the cables between switches; return the top switch."""
    switch = count[0]
    count[0] += 1
    switch_of += [switch] * tree[0]
    for below in tree[1]:
        trunks.append((_lay(below, switch_of, trunks, count), switch))
    return switch


def _shares(tree: Tree) -> tuple[list[int], int]:
    """Return the packets of each host in one period of the tree's outgoing link, and the period.

    Each of n inputs has every n-th slot of a link. The share of a host is the product of 1 / n over
    the switches on its path.
    """
    parts = [([1], 1)] * tree[0] + [_shares(below) for below in tree[1]]
    period = lcm(*(each for _, each in parts)) * len(parts)
    numbers_of = [
        number * period // (len(parts) * each) for numbers, each in parts for number in numbers
    ]
    return numbers_of, period


def _grants(result: PacketResult, fabric: Fabric, host: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the source and the departure time in ps of packets to a host, in order of time."""
    to = fabric.num_switches + host
    hop = result.hop[fabric.link_to[result.hop["link"]] == to]
    hop = hop[np.argsort(hop["left_ps"], kind="stable")]
    return result.workload.rank[hop["op"]], hop["left_ps"]


TREES = {
    "two by one input, one by another": (1, ((2, ()),)),
    **{f"parking lot of {n}": _parking_lot(n) for n in (2, 3, 4, 6)},
    "a long way alone": (2, ((0, ((0, ((1, ()),)),)),)),
    **{f"random {n}": _random_tree(np.random.default_rng([n, 3]), 3) for n in range(12)},
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("queues", ["input", "voq"])
@pytest.mark.parametrize("name", TREES)
def test_merging_serves_every_input_once_per_round(name: str, queues: str) -> None:
    """Round robin shares a link by inputs, not by flows: 1/4, 1/4 and 1/2 instead of 1/3 each.

    While all hosts send to one, each switch passes a packet of every input per round. Behind a
    tree of switches every period of slots has exactly the packets that `_shares` counts, from any
    slot on, and no slot is empty: a queue has its next packet long before it is served again.
    """
    tree = TREES[name]
    hosts: list[int] = []
    trunks: list[tuple[int, int]] = []
    root = _lay(tree, hosts, trunks, [0])
    senders = len(hosts)
    # _lay lists hosts of a switch before those below it, as _shares does.
    shares, period = _shares(tree)
    fabric = fabric_of([*hosts, root], trunks)
    warm, periods = 60, 2
    slots = warm + (periods + 1) * period + 40
    work = puts(senders + 1, *((host, senders, 1000 * slots) for host in range(senders)))
    result = run(
        fabric, work, replace(PLAIN, queues=queues),  # type: ignore[arg-type]
        trace=range(senders), max_time_ns=slots * D / 1000,
    )  # fmt: skip
    source, left = _grants(result, fabric, senders)
    source, left = source[warm:], left[warm:]
    assert len(left) >= (periods + 1) * period
    assert set(np.diff(left).tolist()) <= {D}
    for begin in range(0, periods * period, max(period // 7, 1)):
        counts = np.bincount(source[begin : begin + period], minlength=senders)
        assert counts.tolist() == shares


def test_shares_equal_those_by_hand() -> None:
    assert _shares((1, ((2, ()),))) == ([2, 1, 1], 4)
    assert _shares(_parking_lot(4)) == ([4, 2, 1, 1], 8)
    assert _shares((3, ())) == ([1, 1, 1], 3)


def test_a_link_is_shared_by_lanes_first_and_then_by_inputs() -> None:
    """One input's flows get 1/4 on lane 0 and 1/2 on lane 1; another input's on lane 0 gets 1/4.

    The link serves lanes round robin, and then the inputs of a lane, so that lane 1 has half of it.
    """
    # Hosts 0 and 1 are behind the trunk and send to 3 on lane 0 and to 4 on lane 1. Another cable,
    # behind which hosts 3 and 4 are, is the bottleneck.
    fabric = fabric_of([0, 0, 1, 2, 2], [(0, 1), (1, 2)])
    work = puts(5, (0, 3, 400_000), (1, 4, 400_000), (2, 3, 400_000))
    result = run(fabric, work, lane_of=[0, 0, 0, 0, 1], trace=range(3), max_time_ns=20_000)
    middle = int(np.flatnonzero((fabric.link_from == 1) & (fabric.link_to == 2))[0])
    hop = result.hop[result.hop["link"] == middle]
    hop = hop[np.argsort(hop["left_ps"])][20:]
    assert set(np.diff(hop["left_ps"]).tolist()) == {D}
    for begin in range(80):
        assert np.bincount(hop["op"][begin : begin + 4]).tolist() == [1, 2, 1]


# -- head-of-line blocking -----------------------------------------------------------------------


def _slot(arrived: int) -> float:
    """Return the slot of a packet on the last link from its time of arrival in ps."""
    return (arrived - FIRST - LAST) / D


def _victim(
    n: int, packets: int, hardware: Hardware, *, hot: int | None = None, **options: object
) -> tuple[float, float]:
    """Let host 0 send alternately to X, to which n - 1 others send too, and to Y, which is idle.

    Returns
    -------
    tuple
        Slots of the last packets of host 0 for X and for Y.
    """
    x, y = n, n + 1
    many = hot or packets
    others = ((host, x, 1000 * many) for host in range(1, n))
    work = puts(n + 2, (0, x, 1000 * many), (0, y, 1000 * packets), *others)
    result = run(fabric_of([0] * (n + 2)), work, hardware, **options)  # type: ignore[arg-type]
    to_x, to_y = arrivals(result)[:2]
    return _slot(to_x), _slot(to_y)


@pytest.mark.parametrize("packets", [2, 5, 40])
@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_head_of_line_blocking_slows_packets_to_an_idle_destination(n: int, packets: int) -> None:
    """X grants host 0 every n-th slot; after each packet for X, one for Y leaves in the next slot.

    So the k-th packets leave in slots n k and n k + 1. Y, though idle, receives 1/n of its rate.
    """
    hot, victim = n * (packets - 1), n * (packets - 1) + 1
    assert _victim(n, packets, PLAIN) == (hot, victim)
    # With a speedup, the packet for Y leaves together with the one for X if it has arrived by then.
    both = (hot, max(hot, 2 * packets - 1))
    assert _victim(n, packets, replace(PLAIN, speedup=2)) == both


@pytest.mark.parametrize("packets", [2, 5, 40])
@pytest.mark.parametrize("n", [2, 4, 6])
def test_virtual_output_queues_avoid_blocking_with_enough_buffer(n: int, packets: int) -> None:
    """Packets for Y leave on arrival, in every other slot, and packets for X in every n-th slot.

    For even n, packets for X and for Y never contend for the input port.
    """
    voq = replace(DEEP, queues="voq")
    assert _victim(n, packets, voq) == (n * (packets - 1), 2 * (packets - 1) + 1)
    assert _victim(n, packets, replace(voq, speedup=2)) == (n * (packets - 1), 2 * packets - 1)


@pytest.mark.parametrize("buffered", [2, 6, 16])
@pytest.mark.parametrize("n", [4, 6])
def test_virtual_output_queues_share_the_buffer_of_a_lane(n: int, buffered: int) -> None:
    """All queues of a lane share its credits, which waiting packets for X use up.

    With b packets in the buffer, host 0 may send when one for X leaves, in every n-th slot. A round
    trip later, the next packet for Y overtakes b - 1 packets for X: the k-th packet for Y leaves a
    round trip after the (k - b + 1)-th for X. So Y gets 1/n again, ahead by the buffered packets.
    """
    voq = replace(PLAIN, queues="voq", buffer_bytes=1024 * buffered)
    trip = (L + R + D + L) / D
    for packets in (60, 110):
        hot, victim = _victim(n, packets, voq)
        assert n * (packets - 1) <= hot < n * packets
        assert victim == hot - n * (buffered - 1) + trip


@pytest.mark.parametrize("queues", ["input", "voq"])
@pytest.mark.parametrize("n", [3, 4, 6])
def test_separate_lanes_avoid_blocking_with_any_buffer(n: int, queues: str) -> None:
    """With X and Y on separate lanes, Y gets the rest of host 0's link: 1 - 1/n."""
    small = replace(PLAIN, queues=queues, buffer_bytes=4096)  # type: ignore[arg-type]
    lane_of = [0] * (n + 1) + [1]
    few, many = (
        _victim(n, packets, small, hot=400, lane_of=lane_of)[1]
        for packets in (100 * (n - 1), 200 * (n - 1))
    )
    assert many - few == 100 * n


@pytest.mark.parametrize("n", [2, 3, 5])
def test_congestion_spreads_to_flows_that_share_a_cable(n: int) -> None:
    """Hosts 0 and 1 send over a trunk to X and Y; n - 1 hosts at the switch of X send to X too.

    The trunk serves both hosts alternately. Its packets join one queue, which advances when X
    accepts a packet: host 1 gets 1/n of the trunk, though Y is idle. With a separate lane and a
    speedup of 2, host 1 gets 1 - 1/n. Without the speedup its packets would occupy the input port,
    which would hardly ever be free at the same time as the link to X.
    """
    x, y = n + 1, n + 2
    fabric = fabric_of([0, 0, *[1] * (n + 1)], [(0, 1)])

    def slots(packets: int, lane_of: list[int] | None, speedup: int) -> int:
        others = ((host, x, 900_000) for host in range(2, n + 1))
        work = puts(n + 3, (0, x, 900_000), (1, y, 1000 * packets), *others)
        result = run(fabric, work, replace(PLAIN, speedup=speedup), lane_of=lane_of)
        return arrivals(result)[1] // D

    p = 60 * (n - 1)
    assert slots(3 * p, None, 1) - slots(2 * p, None, 1) == n * p
    own_lane = [0] * (n + 2) + [1]
    assert slots(3 * p, own_lane, 2) - slots(2 * p, own_lane, 2) == 60 * n


@pytest.mark.parametrize("speedup", [1, 2, 4])
def test_speedup_lets_one_fast_input_feed_several_outputs(speedup: int) -> None:
    """A cable of four times the rate feeds four hosts; up to S packets leave its port at a time.

    Packets arrive every D / 4 and leave in that order as soon as fewer than S are leaving: the
    first S leave on arrival, and each other packet leaves D after the S-th before it. So packet j
    leaves at (j div S) D + (j mod S) D / 4, and the outputs receive S times the rate of one.
    """
    fabric = fabric_of([0] * 5, rates=[320.0, *[80.0] * 4])
    packets = 30
    work = puts(5, *((0, host, 1000 * packets) for host in range(1, 5)))
    result = run(fabric, work, replace(DEEP, speedup=speedup))
    last = range(4 * (packets - 1), 4 * packets)
    expected = [FIRST + at // speedup * D + at % speedup * D // 4 + LAST for at in last]
    assert arrivals(result) == expected


# -- saturation of input queues ------------------------------------------------------------------


def _saturation(ports: int) -> float:
    """Return the share of busy slots of an output if the single queue of an input is never empty.

    Karol, Hluchyj and Morgan 1987: the first packets of all queues have random outputs. Of those
    for the same output any one leaves per slot, and a new packet takes its place. A state of the
    Markov chain is the number of first packets for each output.
    """
    states = sorted(
        {
            tuple(sorted(np.bincount(first, minlength=ports).tolist()))
            for first in product(range(ports), repeat=ports)
        }
    )
    number = {state: at for at, state in enumerate(states)}
    chain = np.zeros((len(states), len(states)))
    for state in states:
        left = [max(each - 1, 0) for each in state]
        leaving = sum(each > 0 for each in state)
        for new in product(range(ports), repeat=leaving):
            after = np.add(left, np.bincount(new, minlength=ports))
            chain[number[state], number[tuple(sorted(after.tolist()))]] += ports**-leaving
    stationary = np.linalg.matrix_power(chain, 4096)[0]
    busy = [sum(each > 0 for each in state) for state in states]
    return float(stationary @ busy) / ports


def test_saturation_equals_the_published_values() -> None:
    """The values are those of Table I in Karol, Hluchyj and Morgan 1987."""
    shares = [_saturation(ports) for ports in (1, 2, 3, 4)]
    assert shares == pytest.approx([1.0, 0.75, 0.6825, 0.6553], abs=1e-4)


def _throughput(ports: int, hardware: Hardware, packets: int) -> float:
    """Return the share of busy slots if hosts always have packets for random hosts to send."""
    random = np.random.default_rng([ports, 1])
    builder = WorkloadBuilder(2 * ports)
    for host in range(ports):
        for target in random.integers(ports, size=packets).tolist():
            builder.put(host, ports + target, 1000)
    result = run(fabric_of([0] * 2 * ports), builder.build(), hardware)
    arrived = np.array(arrivals(result)).reshape(ports, packets)
    end = arrived.max(1).min()
    slots = (end - FIRST - LAST) / D + 1
    return float((arrived <= end).sum() / slots / ports)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ports", [2, 3, 4])
def test_input_queues_saturate_where_theory_says(ports: int) -> None:
    """4,000 packets per port agree within 1.5 %; virtual output queues accept far more."""
    one_queue = replace(PLAIN, queue_pairs="host")
    accepted = _throughput(ports, one_queue, 4000)
    assert accepted == pytest.approx(_saturation(ports), rel=0.015)
    assert _throughput(ports, replace(one_queue, queues="voq"), 4000) > 1.15 * accepted


@pytest.mark.parametrize("quantum", [0, 1, 2048, 4096, 4097, 10**6])
def test_queue_pairs_are_served_one_quantum_at_a_time(quantum: int) -> None:
    """Two messages of 12 packets from one host alternate every ceil(quantum / 1024) slots."""
    work = puts(3, (0, 1, 12_000), (0, 2, 12_000))
    result = run(fabric_of([0] * 3), work, replace(PLAIN, quantum_bytes=quantum))
    each = min(max(-(-quantum // 1024), 1), 12)
    first, second = [], []
    while len(first) + len(second) < 24:
        for slots in (first, second):
            count = min(each, 12 - len(slots))
            begin = len(first) + len(second)
            slots.extend(range(begin, begin + count))
    assert arrivals(result) == [slots[-1] * D + FIRST + LAST for slots in (first, second)]
