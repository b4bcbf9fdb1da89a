"""Deadlocks of the flit level: buffers that wait for each other in a cycle.

An input lane with flits, or with a packet whose other flits are to come, is *stuck* if it belongs
to the greatest set of lanes none of which can move as long as the others do not:

- a packet that waits for an output lane is stuck if each lane that it may take is owned by a packet
  at the front of a stuck lane, or is free but lacks the places that the packet needs, and these are
  behind the link in stuck lanes;
- a packet that has an output lane is stuck if the lane has no place, none is on its way back, and
  the lane behind the link is stuck; or if its next flit is in a stuck lane before the link; or if
  the output is held by a packet of another stuck lane;
- the tail of a packet that holds a circuit is stuck if its data are in stuck lanes;
- a multicast is stuck if the next output lane that it takes is owned or lacks places as above, or,
  with a lane of each output, if one of them cannot send.

Every stuck lane waits for stuck lanes only, so there is a cycle of them. Other lanes may move.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from weft.kernels.flit.net import FlitNet
from weft.kernels.flit.records import ACTIVE, FORKED, IDLE, PACKET_SHIFT, WAITING
from weft.sim.flit.network import Links
from weft.sim.flit.routings.routing_registry import Routing

#: Largest number of buffers of a cycle that the text names.
NAMED = 12


def find_deadlock(net: FlitNet, links: Links, routing: Routing | None = None) -> str:
    """Return a cycle of buffers that can never move again, even if others do.

    `routing`: routing of the run. Without it, packets that wait for an output lane are assumed to
    keep the choice that they made last, which holds unless the routing is adaptive.

    Returns the buffers of a shortest cycle, each with the one that it waits for; "" if none is
    stuck. With an adaptive routing that does not tell its choices (`Routing.choices`), packets that
    wait for an output lane count as able to move.
    """
    cycle = shortest_cycle(stuck_lanes(net, links, routing))
    if not cycle:
        return ""
    shift, fabric = int(net.rules.lane_shift), links.fabric

    def named(lane: int) -> str:
        link = int(links.in_link[lane >> shift])
        return f"{fabric.link_name(link)} (link {link}, lane {lane & (1 << shift) - 1})"

    names = ", which waits for ".join(named(lane) for lane in cycle[:NAMED])
    more = f", and so on over {len(cycle)} buffers" if len(cycle) > NAMED else ""
    return f"the buffer behind {names}{more}, which waits for {named(cycle[0])}"


def stuck_lanes(
    net: FlitNet, links: Links, routing: Routing | None = None
) -> dict[int, tuple[int, ...]]:
    """Return the stuck input lanes, ascending, and the lanes for which each of them waits."""
    state = _State(net, links, routing)
    # A lane waits for all of several things, each of which happens if one of its lanes moves.
    unmet: dict[int, list[set[int]]] = {}
    waiting: dict[int, list[int]] = {}
    moving: deque[int] = deque()
    used = (net.in_lanes["state"] != IDLE) | (net.in_lanes["count"] > 0)
    for lane in np.flatnonzero(used).tolist():
        unmet[lane] = [set(awaited) for awaited in state.all_awaited(lane) if awaited is not None]
        if not unmet[lane]:
            moving.append(lane)
        for other in set().union(*unmet[lane]):
            waiting.setdefault(other, []).append(lane)
    # A lane that is empty, and for which a lane waits, can take flits.
    moving += [lane for lane in waiting if not used[lane]]
    while moving:
        moved = moving.popleft()
        unmet.pop(moved, None)
        for lane in waiting.get(moved, ()):
            if unmet.get(lane):
                unmet[lane] = [awaited for awaited in unmet[lane] if moved not in awaited]
                if not unmet[lane]:
                    moving.append(lane)
    return {lane: tuple(sorted(set().union(*awaited))) for lane, awaited in unmet.items()}


def shortest_cycle(waits: dict[int, tuple[int, ...]]) -> list[int]:
    """Return a shortest cycle, from its lowest lane on; of several, one with the lowest lane."""
    best: list[int] = []
    for start in waits:
        before = {start: -1}
        reached = deque([(start, 1)])
        while reached:
            lane, length = reached.popleft()
            if best and length >= len(best):
                break
            if start in waits[lane]:
                best = [lane]
                while before[best[-1]] >= 0:
                    best.append(before[best[-1]])
                best.reverse()
                break
            for other in waits[lane]:
                # Lower lanes have been the start of a search of their own.
                if other > start and other not in before:
                    before[other] = lane
                    reached.append((other, length + 1))
    return best


class _State:
    """What moves in a state."""

    def __init__(self, net: FlitNet, links: Links, routing: Routing | None):
        self.net, self.links, self.routing = net, links, routing
        self.shift, self.ends = int(net.rules.lane_shift), links.ends
        self.lanes = 1 << self.shift
        # Credits on their way back, by output lane.
        words = net.mail.credits.reshape(int(net.rules.horizon), -1)
        bits = np.arange(self.lanes, dtype=words.dtype)
        self.returning = ((words[:, :, None] >> bits) & 1).sum(axis=0).reshape(-1)
        self.credits = net.out_lanes["credits"].astype(np.int64) + self.returning
        borrowed = np.maximum(-self.credits, 0).reshape(-1, self.lanes).sum(axis=1)
        places = int(net.rules.depth) - int(net.rules.buffer)
        self.shared = places - borrowed

    def all_awaited(self, lane: int) -> list[list[int] | None]:
        """Return what must all happen before a lane can move, each as `awaited` does."""
        net = self.net
        if net.casts is None or net.in_lanes["state"][lane] != FORKED:
            return [self.awaited(lane)]
        if not net.in_lanes["count"][lane]:
            return [self._feeding(lane)]
        fork = net.casts.forks[lane]
        wanted, held = int(fork["wanted"]), int(fork["held"])
        first = int(net.routers["first_out"][self._row(lane)])
        if left := wanted & ~held:
            output, slot = first + (left & -left).bit_length() - 1, self._packet(lane)
            lanes = range(int(net.rules.lanes))
            return [self._any(self._obtaining(output << self.shift | k, slot) for k in lanes)]
        return [
            self._place((first + port) << self.shift | int(net.casts.lanes[lane * 64 + port]))
            for port in range(wanted.bit_length())
            if wanted >> port & 1
        ]

    def awaited(self, lane: int) -> list[int] | None:
        """Return the lanes one of which must move before a lane can; None if it can move now."""
        here, rules = self.net.in_lanes[lane], self.net.rules
        if here["state"] == WAITING:
            slot = self._packet(lane)
            if rules.stored and here["count"] < self.net.packets[slot]["size"]:
                return self._feeding(lane)
            choices = self._choices(lane, slot)
            if choices is None:
                return None
            return self._any(
                self._obtaining(output << self.shift | k, slot)
                for output, allowed in choices
                for k in range(int(rules.lanes))
                if allowed >> k & 1
            )
        if here["state"] != ACTIVE:
            return None
        if not here["count"]:
            return self._feeding(lane)
        out = int(here["out"])
        if rules.hold_switch:
            holder = int(self.net.turns["holder"][out >> self.shift])
            if holder not in (-1, lane):
                return [holder]
        if rules.output_buffer and self.net.queues["count"][out] < rules.output_buffer:
            return None
        return self._place(out)

    def _packet(self, lane: int) -> int:
        return int(self.net.in_lanes["front"][lane]) >> PACKET_SHIFT

    @staticmethod
    def _any(parts: Iterable[list[int] | None]) -> list[int] | None:
        """Return all lanes of several alternatives; None if one of them needs none."""
        lanes: list[int] = []
        for part in parts:
            if part is None:
                return None
            lanes += part
        return lanes

    def _choices(self, lane: int, slot: int) -> list[tuple[int, int]] | None:
        """Return the outputs and lanes (as bits) among which a packet may choose, None if unknown.

        A packet that has just begun to wait has made no choice.
        """
        here, routing = self.net.in_lanes[lane], self.routing
        if here["out"] < 0:
            return None
        if routing is None or not routing.adaptive:
            return [(int(here["out"]) >> self.shift, int(here["allowed"]))]
        if routing.choices is None:
            return None
        return routing.choices(self.net, self._row(lane), slot)

    def _row(self, lane: int) -> int:
        """Return the router of an input lane."""
        return int(self.links.fabric.graph.link_row[self.links.in_link[lane >> self.shift]])

    def _behind(self, out: int) -> int:
        """Return the input lane at the other end of an output lane."""
        head = int(self.net.outputs["head"][out >> self.shift])
        return head << self.shift | out & (self.lanes - 1)

    def _borrowers(self, out: int) -> list[int]:
        """Return the input lanes behind an output whose flits are in shared places."""
        first = out >> self.shift << self.shift
        return [
            self._behind(each)
            for each in range(first, first + self.lanes)
            if self.credits[each] < 0
        ]

    def _place(self, out: int) -> list[int] | None:
        """Return what must move before an output lane can send a flit."""
        if self.net.outputs["head"][out >> self.shift] < self.ends:
            return None
        if self.credits[out] > 0 or self.shared[out >> self.shift] > 0:
            return None
        return [self._behind(out), *self._borrowers(out)]

    def _obtaining(self, out: int, slot: int) -> list[int] | None:
        """Return what must move before a packet can get an output lane."""
        net, rules = self.net, self.net.rules
        owner = int(net.out_lanes["owner"][out])
        if owner >= 0:
            return [owner]
        if net.outputs["head"][out >> self.shift] < self.ends:
            return None
        queued = int(net.queues["count"][out]) if rules.output_buffer else 0
        own, shared = int(self.credits[out]), int(self.shared[out >> self.shift])
        if rules.atomic and (own < rules.buffer or queued):
            return [self._behind(out), *self._borrowers(out)]
        if rules.whole and max(own, 0) + shared - queued < net.packets[slot]["size"]:
            own_used = own < rules.buffer or queued
            return [*([self._behind(out)] if own_used else []), *self._borrowers(out)]
        return None

    def _feeding(self, lane: int) -> list[int] | None:
        """Return what must move before the next flit of a packet comes to an input lane."""
        net = self.net
        output = int(net.inputs["tail"][lane >> self.shift])
        out = output << self.shift | lane & (self.lanes - 1)
        coming = int(net.rules.buffer) - int(self.credits[out]) - int(net.in_lanes["count"][lane])
        if coming > 0 or (
            net.rules.output_buffer and output >= self.ends and net.queues["count"][out]
        ):
            return None
        if output >= self.ends:
            owner = int(net.out_lanes["owner"][out])
            return None if owner < 0 else [owner]
        sending = net.sending[out]
        if not sending["held"] or sending["left"] != 1:
            return None
        return self._circuit(lane) or None

    def _circuit(self, lane: int) -> list[int]:
        """Return the lanes with flits of the packet that holds a circuit from an input lane on."""
        net, seen = self.net, dict[int, bool]()
        while lane >> self.shift >= self.ends and lane not in seen:
            here = net.in_lanes[lane]
            seen[lane] = bool(here["count"])
            if here["state"] != ACTIVE:
                break
            lane = self._behind(int(here["out"]))
        return [lane for lane, has_flits in seen.items() if has_flits]
