"""Plain twin of InfiniBand's congestion control: one source's rate, and who marks what.

It takes nothing from the kernel. The rate is a clock that ticks; marks are counted again from where
each packet was at each moment, as traced hops tell it. See docs/congestion-control.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

TIMER_PS = 1_024_000


class PlainRate:
    """What a queue pair, or a level of a port, knows: its index, and when the timer next ends."""

    def __init__(self, control: Any):
        self.control = control
        self.index = control.ccti_min
        self.next_tick: int | None = None

    def until(self, now: int) -> None:
        """Let the timer tick up to a moment, that included."""
        while self.next_tick is not None and self.next_tick <= now:
            self.index -= 1
            self.next_tick += self.control.ccti_timer * TIMER_PS
            if self.index == self.control.ccti_min:
                self.next_tick = None

    def notification(self, now: int) -> None:
        self.until(now)
        if self.next_tick is None:
            self.next_tick = now + self.control.ccti_timer * TIMER_PS
        limit = self.control.ccti_limit
        for _ in range(self.control.ccti_increase):
            if self.index < limit:
                self.index += 1
        if self.index == self.control.ccti_min:
            self.next_tick = None

    def delay(self, takes: int, now: int) -> int:
        """After a packet of a duration that leaves now."""
        self.until(now)
        shift, multiplier = self.control.cct[self.index]
        return takes // 2**shift * multiplier


class Hop(NamedTuple):
    """A packet on a link: its message and number, and when its first byte and its last one left."""

    op: int
    number: int
    link: int
    left: int
    gone: int


def ways_of(result: Any) -> list[list[Hop]]:
    """Hops of each packet in order, from a run of which all is traced.

    Notifications have no number; those of a message leave and move in order, so that the ones of
    each link are matched by turn.
    """
    ways: dict[tuple[int, int], list[Hop]] = defaultdict(list)
    turn: dict[tuple[int, int], int] = defaultdict(int)
    for op, given, link, _, _, left, gone, _ in result.hop.tolist():
        number = given
        if given < 0:
            turn[op, link] += 1
            number = -turn[op, link]
        ways[op, number].append(Hop(op, number, link, left, gone))
    return [sorted(way, key=lambda hop: hop.left) for way in ways.values()]


def marked_again(result: Any) -> dict[int, int]:
    """How many packets each link marks, worked out from the hops; every mark is taken."""
    fabric, hardware = result.fabric, result.hardware
    control = hardware.congestion_control
    is_switch = fabric.forwards
    latency = np.rint(np.repeat(fabric.cable_latency_ns, 2) * 1000).astype(int)
    back = round(hardware.credit_latency_ns * 1000)
    route = round(hardware.switch_latency_ns * 1000)
    ways = ways_of(result)

    def need(hop: Hop) -> int:
        rate = fabric.link_rate_gbps[hop.link]
        return hardware.credits_of(round((hop.gone - hop.left) * rate / 8000))

    # For each link: when packets for it are routed and when they leave; credits taken and back.
    waits: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    takes: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for way in ways:
        for place, hop in enumerate(way):
            if place:
                before = way[place - 1]
                routed = before.left + int(latency[before.link]) + route
                waits[hop.link].append((routed, hop.left, need(hop)))
            free = hop.left + int(latency[hop.link]) + hop.gone - hop.left
            if place + 1 < len(way):
                free = way[place + 1].gone
            takes[hop.link].append((hop.left, free + int(latency[hop.link]) + back, need(hop)))
    whole = hardware.credits_of(hardware.mtu_bytes + hardware.header_bytes)
    buffer = hardware.buffer_bytes // hardware.credit_bytes
    limit = buffer * (16 - control.threshold) / 16
    counts: dict[int, int] = defaultdict(int)
    for way in ways:
        if way[0].number < 0:
            continue
        for hop in way[1:]:
            now = hop.left
            queue = sum(n for routed, left, n in waits[hop.link] if routed <= now < left)
            there = buffer - sum(n for left, free, n in takes[hop.link] if left <= now < free)
            to_host = not is_switch[fabric.link_to[hop.link]]
            victim = there < whole
            told = control.victims == "all" or (control.victims == "hosts" and to_host)
            if queue > np.floor(limit) and (not victim or told):
                counts[hop.link] += 1
                break
    return dict(counts)
