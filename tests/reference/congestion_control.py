"""Reference implementation of InfiniBand's congestion control: a source's rate, and the marks.

Independent of the kernel: the rate follows the timer tick by tick, and marks are recounted from the
positions of all packets over time, which traced hops give. See docs/congestion-control.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

TIMER_PS = 1_024_000


class PlainRate:
    """State of a queue pair, or of a service level of a port: its index and the next timer tick."""

    def __init__(self, control: Any):
        self.control = control
        self.index = control.ccti_min
        self.next_tick: int | None = None

    def until(self, now: int) -> None:
        """Advance the timer to a moment, inclusive."""
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
        """Return the delay that follows a packet which leaves now and takes this long."""
        self.until(now)
        shift, multiplier = self.control.cct[self.index]
        return takes // 2**shift * multiplier


class Hop(NamedTuple):
    """A packet on a link: its message and number, and when its first and its last byte left."""

    op: int
    number: int
    link: int
    left: int
    gone: int


def paths_of(result: Any) -> list[list[Hop]]:
    """Return the hops of each packet in order, from a run with all messages traced.

    Notifications have no number. Those of one message stay in order, so the n-th notification on
    one link is the n-th on the next link.
    """
    paths: dict[tuple[int, int], list[Hop]] = defaultdict(list)
    count: dict[tuple[int, int], int] = defaultdict(int)
    for op, sequence, link, _, _, left, gone, _ in result.hop.tolist():
        number = sequence
        if sequence < 0:
            count[op, link] += 1
            number = -count[op, link]
        paths[op, number].append(Hop(op, number, link, left, gone))
    return [sorted(path, key=lambda hop: hop.left) for path in paths.values()]


def marked_again(result: Any) -> dict[int, int]:
    """Return the number of packets that each link marks, recomputed from the hops."""
    fabric, hardware = result.fabric, result.hardware
    control = hardware.congestion_control
    is_switch = fabric.forwards
    latency = np.rint(np.repeat(fabric.cable_latency_ns, 2) * 1000).astype(int)
    back = round(hardware.credit_latency_ns * 1000)
    route = round(hardware.switch_latency_ns * 1000)
    paths = paths_of(result)

    def need(hop: Hop) -> int:
        rate = fabric.link_rate_gbps[hop.link]
        return hardware.credits_of(round((hop.gone - hop.left) * rate / 8000))

    # By link: (routed, left, credits) of packets that wait for it, and (taken, returned, credits)
    # of packets that cross it.
    waits: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    takes: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for path in paths:
        for index, hop in enumerate(path):
            if index:
                before = path[index - 1]
                routed = before.left + int(latency[before.link]) + route
                waits[hop.link].append((routed, hop.left, need(hop)))
            free = hop.left + int(latency[hop.link]) + hop.gone - hop.left
            if index + 1 < len(path):
                free = path[index + 1].gone
            takes[hop.link].append((hop.left, free + int(latency[hop.link]) + back, need(hop)))
    full_packet = hardware.credits_of(hardware.mtu_bytes + hardware.header_bytes)
    buffer = hardware.buffer_bytes // hardware.credit_bytes
    limit = buffer * (16 - control.threshold) / 16
    counts: dict[int, int] = defaultdict(int)
    for path in paths:
        if path[0].number < 0:
            continue
        for hop in path[1:]:
            now = hop.left
            queue = sum(n for routed, left, n in waits[hop.link] if routed <= now < left)
            credits = buffer - sum(n for left, free, n in takes[hop.link] if left <= now < free)
            to_host = not is_switch[fabric.link_to[hop.link]]
            victim = credits < full_packet
            notified = control.victims == "all" or (control.victims == "hosts" and to_host)
            if queue > np.floor(limit) and (not victim or notified):
                counts[hop.link] += 1
                break
    return dict(counts)
