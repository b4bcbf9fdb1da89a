"""Flit level: the cycle in which each flit arrives, by hand from the rules of docs/flit-level.md.

`t` is the cycle in which a flit is granted the switch. By default a head flit that arrives in cycle
a is granted in a + 1 (`vc_delay`), leaves in t + 2 (`switch_delay`), and arrives in t + 3; its
credit is back in t + 2 (`credit_delay`, and the link).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from tests.flit_runs import Run, holding

import weft
from weft.kernels.flit.records import FLIT, PACKET_SHIFT
from weft.sim.flit.router import Router
from weft.sim.flit.traffic import Load

#: Hosts 0 and 1 with three routers on their path; two hosts at each end of it, 0 and 1 at one end,
#: 2 and 3 at the other; and six hosts at one router, host h at port h.
CHAIN, SHARED_CHAIN, SWITCH = "xgft:2;1,2;1,1", "xgft:2;2,2;1,1", "xgft:1;6;1"
#: Links of CHAIN on the way from host 0 to host 1.
WAY = ["h0[1] -> s1-0[1]", "s1-0[2] -> s2-0[1]", "s2-0[2] -> s1-1[2]", "s1-1[1] -> h1[1]"]

Packet = tuple[int, int, int]
Arrivals = dict[tuple[int, int], list[int]]
NEVER = 2**40


def arrivals(
    spec: str, packets: list[Packet], size: int, router: dict[str, Any], *, reply: int = 0,
    latency: dict[str, int] | None = None, interval: dict[str, int] | None = None, **options: Any,
) -> Arrivals:  # fmt: skip
    """Return the cycles in which flits arrive, by source and destination.

    Parameters
    ----------
    spec
        The fabric.
    packets
        Birth, source and destination of each packet, in the order of births.
    size, router, reply
        As in `Load` and `Router`.
    latency, interval
        Cycles of links by name; others have 1.
    **options
        Options of `Run`.
    """
    fabric = weft.fabric(spec)
    names = [fabric.link_name(link) for link in range(fabric.num_links)]
    cycles = []
    for given in (latency or {}, interval or {}):
        assert set(given) <= set(names)
        cycles.append(np.array([given.get(name, 1) for name in names]))
    load = Load(
        rate=1e-9, pattern="shift", size=((size, 1.0),), reply=reply, warmup=0, measure=10**6
    )
    run = Run(fabric, Router(**router), load, latency=cycles[0], interval=cycles[1], **options)
    net, ends = run.net, fabric.num_endpoints
    nodes = ends + len(net.routers)
    to_come = {host: [p for p in packets if p[1] == host] for host in range(ends)}
    net.endpoints["birth"] = NEVER
    found: Arrivals = defaultdict(list)
    for now in range(120):
        for host, left in to_come.items():
            if left and net.endpoints["birth"][host] >= NEVER // 2**20:
                net.endpoints["birth"][host], _, net.traffic.targets[host] = left.pop(0)
        slot = now & (int(net.rules.horizon) - 1)
        comes = net.mail.flit_ports[slot * nodes : slot * nodes + ends]
        for to in np.flatnonzero(comes).tolist():
            flit = int(net.mail.flits[slot * len(net.inputs) + to]) & FLIT
            found[int(net.origins["source"][flit >> PACKET_SHIFT]), to].append(now)
        net = run.until(now + 1)
    assert net.count.under_way == 0
    assert sum(map(len, found.values())) == net.batches["ejected"].sum()
    return dict(found)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("router", "expected"),
    [
        # Link 1, then for each router routing + vc + switch + link.
        ({}, [13, 14, 15]),  # 1 + 3 * (0 + 1 + 2 + 1)
        ({"routing_delay": 2, "vc_delay": 3, "switch_delay": 0}, [19, 20, 21]),  # 1 + 3 * 6
        ({"routing_delay": 1, "vc_delay": 0, "switch_delay": 1}, [10, 11, 12]),  # 1 + 3 * 3
        ({"vc_delay": 0, "switch_delay": 0}, [4, 5, 6]),  # 1 + 3 * 1
        # Speculation: the head is granted in the cycle in which it gets a lane.
        ({"speculative": True}, [10, 11, 12]),  # 1 + 3 * (2 + 1)
        ({"speculative": True, "vc_delay": 4, "routing_delay": 2}, [16, 17, 18]),  # 1 + 3 * 5
        ({"speculative": True, "output_buffer": 4}, [10, 11, 12]),
        # Output queues: a flit may leave `switch_delay` after its grant.
        ({"output_buffer": 3}, [13, 14, 15]),
        ({"output_buffer": 1, "switch_delay": 0}, [7, 8, 9]),  # 1 + 3 * (1 + 0 + 1)
        # Two places: grants at 2, 3 and, because the first flit leaves at 4, at 5.
        ({"output_buffer": 2}, [13, 14, 16]),
        # One place: a flit granted at t leaves at t + 2, the next is granted at t + 3.
        ({"output_buffer": 1}, [13, 16, 19]),
        # Store and forward: 2 cycles more at each router, for the flits after the first.
        ({"switching": "store-and-forward"}, [19, 20, 21]),
        ({"switching": "cut-through", "buffer": 3}, [13, 14, 15]),
        ({"input_speedup": 2, "output_speedup": 2, "output_buffer": 4}, [13, 14, 15]),
        ({"allocator": "islip", "iterations": 2}, [13, 14, 15]),
        ({"allocator": "output-first", "arbiter": "age"}, [13, 14, 15]),
        ({"arbiter": "least-recent"}, [13, 14, 15]),
        ({"hold_switch": True}, [13, 14, 15]),
        # One place in each buffer: a credit is back 2 (switch) + 1 + 1 + 1 cycles after the grant.
        # At the source: sent at 0, granted at 2, back at 4. Router 1: grants 2, 8 (router 2 grants
        # at 6), 14, but router 2 grants at 6, 12, 17 and router 3 at 10, 15, 20.
        ({"lanes": 1, "buffer": 1}, [13, 18, 23]),
        # Router 1 grants at 2, 11 (6 + 4 + 1), router 2 at 6, 15 (10 + 5), router 3 at 10, 18;
        # then 11 + 8 at router 1 waits for router 2: 15 + 5 = 20, and 18 + 5 = 23, 26.
        ({"lanes": 1, "buffer": 1, "credit_delay": 4}, [13, 21, 29]),
        # Output queues take the credit when the flit leaves. Router 1 grants at 2, 5, 8, and the
        # flits leave at 4, 8 (router 2 grants at 6), 11 (9); router 2: 8, 12, 15; router 3: +3.
        ({"lanes": 1, "buffer": 1, "output_buffer": 4}, [13, 16, 19]),
    ],
)  # fmt: skip
def test_a_packet_of_three_flits_alone(router: dict[str, Any], expected: list[int]) -> None:
    assert arrivals(CHAIN, [(0, 0, 1)], 3, router) == {(0, 1): expected}


@pytest.mark.parametrize("places", [{"buffer": 3}, {"buffer": 1, "shared_buffer": 2}])
def test_short_buffers_let_three_flits_pass_in_a_round_trip(places: dict[str, int]) -> None:
    """Round trip 2 + 1 + 2: router 1 grants at 2, 3, 4, and with router 2's credits at 8, 9, 10."""
    found = arrivals(CHAIN, [(0, 0, 1)], 6, {"lanes": 1, **places})
    assert found == {(0, 1): [13, 14, 15, 18, 19, 20]}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("latency", "interval", "router", "expected"),
    [
        ([2, 5, 1, 3], [1, 1, 1, 1], {}, [20, 21, 22]),  # 11 + 3 * 3
        # Flits leave every 3 cycles. Those after the first do not wait for a lane, so they gain a
        # cycle at each router behind the slow link, as long as they do not catch up.
        ([1, 1, 1, 1], [3, 1, 1, 1], {}, [13, 14, 16]),
        ([1, 1, 1, 1], [1, 3, 1, 1], {}, [13, 14, 17]),
        ([1, 1, 1, 1], [1, 1, 3, 1], {}, [13, 15, 18]),
        ([1, 1, 1, 1], [1, 1, 1, 3], {}, [13, 16, 19]),
        # Departures from router 1 at 4, 6, 8 and from router 2 at 8, 11, 14.
        ([1, 1, 1, 1], [1, 2, 3, 1], {"output_buffer": 2}, [13, 15, 18]),
        ([4, 1, 1, 1], [1, 1, 1, 3], {"speculative": True}, [13, 16, 19]),  # 4 + 3 * 3
        # Link of latency 5 with 2 places: the third flit is granted 2 + 1 + 2 * 5 after the first,
        # which router 2 grants 1 later because it waits for a lane: 2 + 13 + 1 = 16. No router
        # delays it further: 16 + 2 + 5, and 2 * (2 + 1).
        ([1, 5, 1, 1], [1, 1, 1, 1], {"lanes": 1, "buffer": 2}, [17, 18, 29]),
    ],
)  # fmt: skip
def test_links_have_latencies_and_intervals(
    latency: list[int], interval: list[int], router: dict[str, Any], expected: list[int]
) -> None:
    found = arrivals(
        CHAIN, [(0, 0, 1)], 3, router,
        latency=dict(zip(WAY, latency, strict=True)),
        interval=dict(zip(WAY, interval, strict=True)),
    )  # fmt: skip
    assert found == {(0, 1): expected}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("router", "second"),
    [
        # The second packet follows the tail: sent at 6, its head arrives at 6 + 13.
        ({"buffer": 6}, 19),
        ({"buffer": 12, "switching": "cut-through"}, 19),
        # All places must be free, the last credit of the first packet (flit 5) is back at: source
        # 4 + 5 = 9, router 1 8 + 5 = 13 (waits since 10), router 2 12 + 5 = 17 (head there at 17).
        # Lane at 17, granted 18, router 3: 21, 22; 25.
        ({"buffer": 6, "switching": "cut-through"}, 25),
        ({"buffer": 6, "atomic": True}, 25),
        ({"buffer": 8, "atomic": True}, 25),
        # Six of eight places are free with the credit of flit 3: 7, 11, 15; 4 + 8 later: 23.
        ({"buffer": 8, "switching": "cut-through"}, 23),
        # Shared places count for the packet, but for `atomic` only the lane's own.
        ({"buffer": 2, "shared_buffer": 6, "switching": "cut-through"}, 23),
        # Lane allocation of the second packet begins when the tail of the first one has gone, one
        # cycle later than its head was there; heads take 1 + 3 * 5 cycles: 16, and 16 + 6 + 1.
        ({"buffer": 12, "routing_delay": 1}, 23),
        ({"buffer": 12, "vc_delay": 2}, 23),
        ({"buffer": 12, "vc_delay": 0}, 16),  # heads take 1 + 3 * 3 cycles; no gap: 10 + 6
    ],
)  # fmt: skip
def test_a_second_packet_on_the_only_lane(router: dict[str, Any], second: int) -> None:
    found = arrivals(CHAIN, [(0, 0, 1), (1, 0, 1)], 6, {"lanes": 1, **router})
    first = 1 + 3 * (3 + router.get("routing_delay", 0) + router.get("vc_delay", 1))
    assert found == {(0, 1): [*range(first, first + 6), *range(second, second + 6)]}


def test_stored_packets_follow_each_other() -> None:
    """The first one waits for 5 flits at 3 routers: head at 13 + 15; the second is 6 behind."""
    router = {"lanes": 2, "switching": "store-and-forward"}
    found = arrivals(CHAIN, [(0, 0, 1), (1, 0, 1)], 6, router)
    assert found == {(0, 1): [*range(28, 34), *range(34, 40)]}


@pytest.mark.parametrize(
    ("window", "first", "second"),
    [
        (1, [13, 14, 15], [16, 17, 18]),  # sent at 0, 1, 2 and 3, 4, 5
        (2, [13, 15, 17], [14, 16, 18]),  # in turn
    ],
)
def test_packets_of_an_endpoint_on_two_lanes(
    window: int, first: list[int], second: list[int]
) -> None:
    packets = [(0, 0, 2), (1, 0, 3)]
    found = arrivals(SHARED_CHAIN, packets, 3, {"lanes": 2}, window=window)
    assert found == {(0, 2): first, (0, 3): second}


@pytest.mark.parametrize(
    ("router", "interval", "first", "second"),
    [
        # Flits of both packets in turn: router 1 grants host 0 at 2, 4, 6 and host 1 at 3, 5, 7,
        # the others each 4 later (head) or 4 later (the next waits for the lane before).
        ({}, {}, [13, 15, 17], [14, 16, 18]),
        # One packet after the other.
        ({"hold_switch": True}, {}, [13, 14, 15], [16, 17, 18]),
        # Flits of host 0 come at 1, 5, 9 and are granted at 2, 5, 9; those of host 1 at 10, 11, 12.
        # Body flits with a gap before them do not wait for the lane: 5 + 9, 9 + 9; 10 + 11.
        ({"hold_switch": True}, {"h0[1] -> s1-0[1]": 4}, [13, 14, 18], [21, 22, 23]),
        # Router 1: 2, 5, 9 and 3, 4, 6. Router 2 (lanes in turn): 6, 8, 12 and 7, 9, 10. Router 3:
        # 10, 12, 15 and 11, 13, 14.
        ({}, {"h0[1] -> s1-0[1]": 4}, [13, 15, 18], [14, 16, 17]),
        # Two places a lane: router 1 grants 2, 4, 8 (credit) and 3, 5, 9; router 2: 6, 8, 12 and
        # 7, 9, 13; router 3: 10, 12, 15 and 11, 13, 16.
        ({"buffer": 2}, {}, [13, 15, 18], [14, 16, 19]),
        # One place a lane and one for both. Router 1: 2 (own), 3 (own), 4 (shared, host 0); the
        # credit at 8 is the shared place: host 1 at 8, host 0 at 9, host 1 at 10. Router 2: 6, 7,
        # 8; 12 (host 1), 13, 14. Router 3: 10, 12, 16 and 11, 15, 17.
        ({"buffer": 1, "shared_buffer": 1}, {}, [13, 15, 19], [14, 18, 20]),
    ],
)  # fmt: skip
def test_two_packets_share_links(
    router: dict[str, Any], interval: dict[str, int], first: list[int], second: list[int]
) -> None:
    packets = [(0, 0, 2), (0, 1, 3)]
    found = arrivals(SHARED_CHAIN, packets, 3, {"lanes": 2, **router}, interval=interval)
    assert found == {(0, 2): first, (1, 3): second}


def of_grants(*grants: tuple[int, int, list[int]]) -> Arrivals:
    """Return arrivals, 3 cycles after the grants of the only router."""
    return {(source, to): [cycle + 3 for cycle in cycles] for source, to, cycles in grants}


@pytest.mark.parametrize(
    ("router", "first", "second"),
    [
        # One lane: it is free when the tail of the first packet has been granted.
        ({"lanes": 1}, [2, 3], [4, 5]),
        # The first packet gets the lane and the switch at 1, its tail the switch at 2. The other
        # one gets the lane at 2, but the output has had its grant.
        ({"lanes": 1, "speculative": True}, [1, 2], [3, 4]),
        # Both get lanes at 1 and the first one the switch; the other one must wait for `vc_delay`.
        ({"lanes": 2, "speculative": True}, [1, 3], [2, 4]),
        ({"lanes": 2, "speculative": True, "vc_delay": 3}, [1, 2], [4, 5]),
    ],
)
def test_two_packets_compete_for_an_output(
    router: dict[str, Any], first: list[int], second: list[int]
) -> None:
    found = arrivals(SWITCH, [(0, 0, 4), (0, 1, 4)], 2, router)
    assert found == of_grants((0, 4, first), (1, 4, second))


#: Hosts 2, 1 and 3, one after the other, then hosts 1 and 2 together.
LATE = [(0, 2, 0), (1, 1, 0), (2, 3, 0), (3, 1, 0), (3, 2, 0)]


@pytest.mark.parametrize(
    ("arbiter", "size", "packets", "latency", "grants"),
    [
        # Ports 1, 2, 3 in turn.
        ("round-robin", 2, [(0, 1, 0), (0, 2, 0), (0, 3, 0)], 1, [[2, 5], [3, 6], [4, 7]]),
        # After port 2 comes port 3; least recently served is port 1, before port 3.
        ("round-robin", 1, [(1, 1, 0), (0, 2, 0), (1, 3, 0)], 1, [[4], [2], [3]]),
        ("least-recent", 1, [(1, 1, 0), (0, 2, 0), (1, 3, 0)], 1, [[3], [2], [4]]),
        # Ports 2, 1, 3 have been served: of ports 1 and 2, port 2 less recently.
        ("round-robin", 1, LATE, 1, [[3, 5], [2, 6], [4]]),
        ("least-recent", 1, LATE, 1, [[3, 6], [2, 5], [4]]),
        # The oldest packet is that of host 3, which is on a long cable: at the router at 3.
        ("round-robin", 3, [(1, 1, 0), (2, 2, 0), (0, 3, 0)], 3,
         [[3, 6, 9], [4, 7, 10], [5, 8, 11]]),
        ("age", 3, [(1, 1, 0), (2, 2, 0), (0, 3, 0)], 3, [[3, 7, 8], [9, 10, 11], [4, 5, 6]]),
    ],
)  # fmt: skip
def test_arbiters_choose_among_three_inputs(
    arbiter: str, size: int, packets: list[Packet], latency: int, grants: list[list[int]]
) -> None:
    long = {"h3[1] -> s1-0[4]": latency}
    found = arrivals(SWITCH, packets, size, {"arbiter": arbiter}, latency=long)
    assert found == of_grants(*((host, 0, grants[host - 1]) for host in (1, 2, 3)))


@pytest.mark.parametrize(
    ("arbiter", "first", "second"),
    [
        ("round-robin", [2, 4, 6], [3, 5, 7]),
        ("least-recent", [2, 4, 6], [3, 5, 7]),
        ("age", [2, 3, 5], [4, 6, 7]),
    ],
)
def test_arbiters_choose_among_lanes(arbiter: str, first: list[int], second: list[int]) -> None:
    """Flits come at 1, 3, 5 and at 2, 4, 6; in cycle 3 the first lane has a flit and the second."""
    found = arrivals(SWITCH, [(0, 0, 4), (1, 0, 5)], 3, {"arbiter": arbiter}, window=2)
    assert found == of_grants((0, 4, first), (0, 5, second))


@pytest.mark.parametrize(
    ("arbiter", "second", "third"), [("round-robin", [4, 5], [6, 7]), ("age", [6, 7], [4, 5])]
)
def test_an_output_gives_its_only_lane_in_turn_or_by_age(
    arbiter: str, second: list[int], third: list[int]
) -> None:
    """Hosts 2 and 3 are at the router at 3; host 3 sent at 1, over a cable of 2 cycles."""
    packets = [(0, 1, 0), (2, 2, 0), (1, 3, 0)]
    router = {"arbiter": arbiter, "lanes": 1}
    found = arrivals(SWITCH, packets, 2, router, latency={"h3[1] -> s1-0[4]": 2})
    assert found == of_grants((1, 0, [2, 3]), (2, 0, second), (3, 0, third))


#: In cycle 2 host 0 gets output 4. In cycle 3 host 1 has packets for outputs 4 and 5, and hosts 2
#: and 3 have packets for output 5.
FOR_TWO_OUTPUTS = [(0, 0, 4), (0, 1, 4), (1, 1, 5), (1, 2, 5), (1, 3, 5)]


@pytest.mark.parametrize(
    ("allocator", "iterations", "to_five"),
    [
        # Host 1 offers its first lane, for output 4; output 5 takes hosts 2, 3, 1 in turn.
        ("input-first", 1, [5, 3, 4]),
        # Both outputs grant host 1, which accepts output 4; output 5 remains idle in cycle 3.
        ("output-first", 1, [4, 5, 6]),
        ("islip", 1, [4, 5, 6]),
        # In the second iteration output 5 grants host 2. Then host 3 is the next, but with islip a
        # second iteration does not count, and it is host 1.
        ("output-first", 2, [5, 3, 4]),
        ("islip", 2, [4, 3, 5]),
    ],
)
def test_allocators_match_inputs_and_outputs(
    allocator: str, iterations: int, to_five: list[int]
) -> None:
    router = {"allocator": allocator, "iterations": iterations}
    found = arrivals(SWITCH, FOR_TWO_OUTPUTS, 1, router, window=2)
    assert found == of_grants(
        (0, 4, [2]), (1, 4, [3]), *((host, 5, [to_five[host - 1]]) for host in (1, 2, 3))
    )


@pytest.mark.parametrize(("iterations", "to_four", "to_five"), [(1, 4, 5), (2, 4, 3)])
def test_an_input_offers_another_lane_in_the_second_iteration(
    iterations: int, to_four: int, to_five: int
) -> None:
    """In cycle 3 hosts 1 and 2 offer lanes for output 4, whose turn it is for host 1."""
    packets = [(0, 0, 4), (1, 1, 4), (0, 2, 4), (1, 2, 5)]
    found = arrivals(SWITCH, packets, 1, {"iterations": iterations}, window=2)
    assert found == of_grants((0, 4, [2]), (1, 4, [3]), (2, 4, [to_four]), (2, 5, [to_five]))


@pytest.mark.parametrize(
    ("router", "to_five"),
    [
        # Host 1 sends to output 4 at 3, and to output 5 at 4: it passes one flit in a cycle.
        ({"output_buffer": 2}, 4),
        ({"output_buffer": 2, "input_speedup": 2}, 3),
        ({"input_speedup": 2}, 3),
        # Output 4 takes both flits at 2 and sends them at 4 and 5.
        ({"output_buffer": 2, "output_speedup": 2}, 3),
    ],
)
def test_inputs_and_outputs_with_speedup(router: dict[str, Any], to_five: int) -> None:
    packets = [(0, 0, 4), (0, 1, 4), (1, 1, 5)]
    found = arrivals(SWITCH, packets, 1, router, window=2)
    assert found == of_grants((0, 4, [2]), (1, 4, [3]), (1, 5, [to_five]))


def test_replies_follow_requests() -> None:
    """Host 1 sends its own request at 13, 15 and the reply at 14, 16, 17, on other lanes.

    The request of host 0 has arrived at 14, that of host 1 at 28; replies take 13 cycles.
    """
    found = arrivals(CHAIN, [(0, 0, 1), (13, 1, 0)], 2, {}, reply=3)
    assert found == {(0, 1): [13, 14, 41, 42, 43], (1, 0): [26, 27, 28, 29, 30]}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("packets", "circuits", "window", "expected"),
    [
        # The data have arrived at 15, the acknowledgement takes 4 * 1 + 3 * 2. The tail leaves at
        # 25 and takes 1 + 3 * (2 + 1), because it has its lanes.
        ([(0, 0, 1)], (2, 0, 0), 1, [13, 14, 15, 35]),
        # The adapter handles the packet from 13 to 18.
        ([(0, 0, 1)], (2, 5, 0), 1, [13, 14, 15, 38]),
        ([(0, 0, 1)], (0, 5, 3), 1, [13, 14, 15, 32]),
        # It has sent before: from 13 + 3 to 21.
        ([(0, 0, 1), (0, 1, 0)], (2, 5, 3), 1, [13, 14, 15, 41]),
        # The second packet begins when the adapter of the source is free, at 20; that of the
        # destination handles the packets from 13 to 33 and from 33 to 53.
        ([(0, 0, 1), (1, 0, 1)], (2, 20, 0), 2, [13, 14, 15, 33, 34, 35, 53, 73]),
        # One packet at a time: the second begins after the tail, at 44.
        ([(0, 0, 1), (1, 0, 1)], (2, 20, 0), 1, [13, 14, 15, 53, 57, 58, 59, 97]),
    ],
)
def test_packets_hold_circuits_until_they_are_acknowledged(
    packets: list[Packet], circuits: tuple[int, int, int], window: int, expected: list[int]
) -> None:
    found = arrivals(CHAIN, packets, 4, {}, circuits=holding(*circuits), window=window)
    ways = {(source, to) for _, source, to in packets}
    assert found == dict.fromkeys(ways, expected)


@pytest.mark.parametrize(
    ("lanes", "second"),
    [
        # The circuit of host 0 holds the only lane until its tail is granted at 26 (sent at 25):
        # the lane is given at 26, 27 is the grant, and 11 cycles more.
        (1, [38, 39, 40, 60]),
        # Another lane: router 1 grants the data of both in turn, 2, 4, 6 and 3, 5, 7.
        (2, [14, 16, 18, 38]),
    ],
)
def test_a_circuit_blocks_its_lane(lanes: int, second: list[int]) -> None:
    packets = [(0, 0, 2), (0, 1, 3)]
    found = arrivals(SHARED_CHAIN, packets, 4, {"lanes": lanes}, circuits=holding(2))
    first = [13, 14, 15, 35] if lanes == 1 else [13, 15, 17, 37]
    assert found == {(0, 2): first, (1, 3): second}
