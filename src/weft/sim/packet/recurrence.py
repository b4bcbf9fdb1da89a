"""States of a rolled run that come again, and rounds that are recalled because of it.

All that is under way, with times and places in the programs relative to the present, determines
what follows as long as the programs have equal rows. When it has come again, whole periods are left
out: counters and statistics grow by what one period added, and operations under way are those so
many rows later. Nothing is rounded, so times and counters are those of the run in full.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.kernels.packet.net import Net
from weft.kernels.packet.records import NEVER
from weft.kernels.program.events import END, FREE_NOW, OPERATION
from weft.kernels.program.operations import NOTHING
from weft.kernels.program.state import Ranks
from weft.sim.common.rolled_result import DroppedOperations
from weft.sim.packet.partition import Partition, gathered
from weft.sim.packet.policies import Policy
from weft.sim.packet.rolled import PacketWindows

Ints = NDArray[np.int64]

#: Largest size of all moments that are kept to be met again, bytes.
_KEPT_BYTES = 2**28
#: Looks without success after which each further look is as many changes of the window later.
_PATIENCE = 4
#: Counters of a part, and fields of lanes, to which each period adds.
_COUNTS = (
    "injected", "injected_bytes", "delivered", "delivered_bytes", "hops", "window_hops", "events",
)  # fmt: skip
_SUMS = ("packets", "wire_bytes", "wait_ps", "busy_ps")
#: Fields of packets that determine what follows.
_WAY = (
    "link", "out_link", "address", "wire_bytes", "lane", "out_lane", "level", "sends", "is_last"
)  # fmt: skip


class _Moment(NamedTuple):
    """Time, first row of each program's last part, and counters and statistics up to then."""

    time_ps: int
    low: Ints
    sums: list[NDArray[Any]]
    tally: DroppedOperations


class Recurrence:
    """Looks at the state after each change of the window, and leaves out periods.

    `look_ps`: time of the next look.
    """

    def __init__(self, windows: PacketWindows, cut: Partition):
        self.windows, self.cut = windows, cut
        self.look_ps = NEVER
        self._seen: dict[bytes, _Moment] = {}
        self._misses = self._changes = 0

    def look_after(self, nets: list[Net], programs: list[Ranks]) -> None:
        """Look when all parts are where the one that asked for a window cannot act on them.

        Look more rarely the longer nothing has come again, and only in loops.
        """
        self._changes += 1
        if self._changes % (1 + self._misses // _PATIENCE) or not self.windows.in_loop():
            return
        asked = [
            int(net.count["now_ps"])
            for net, ranks in zip(nets, programs, strict=True) if ranks.count.asked
        ]  # fmt: skip
        self.look_ps = min(asked) + self.cut.lookahead_ps

    def look(self, nets: list[Net], programs: list[Ranks]) -> None:
        """Leave out whole periods if the present state was there before."""
        now, self.look_ps, windows = self.look_ps, NEVER, self.windows
        ranks, tally = programs[0], windows.tally.copy()
        ended, events = _ends(programs)
        done = windows.done(ranks, np.where(ended > now, -1, ended))
        windows.drop(ranks, done, tally)
        digest = hashlib.blake2b(digest_size=16)
        for array in _state(
            nets, ranks, windows, self.cut, now, ~done & ~windows.gates, ended, events
        ):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        sums = _sums(nets)
        before = self._seen.pop(digest.digest(), None)
        self._misses = 0 if before is not None else self._misses + 1
        if before is not None:
            lasts = now + windows.skipped - before.time_ps
            left = int(nets[0].rules["max_time_ps"]) - now
            times = min(windows.repeats(before.low, before.tally, tally), left // lasts)
            for (of, name), old in zip(sums, before.sums, strict=True):
                of[name] += times * (of[name] - old)
            ranks.count.ended += times * (tally.num_ops - before.tally.num_ops)
            ranks.count.arrived += times * (tally.num_messages - before.tally.num_messages)
            nets[0].rules["max_time_ps"] -= times * lasts
            windows.skip(before.low, times, lasts)
            gain = before.tally, tally.copy(), times, lasts
            windows.tally.repeat(*gain)
            tally.repeat(*gain)
        copies = [np.copy(of[name]) for of, name in sums]
        moment = _Moment(now + windows.skipped, windows.low.copy(), copies, tally)
        self._seen[digest.digest()] = moment
        size = sum(array.nbytes for array in (*copies, tally.times, tally.end_ns))
        while len(self._seen) > max(2, _KEPT_BYTES // size):
            self._seen.pop(next(iter(self._seen)))


def recurrence_of(
    windows: PacketWindows | None, nets: list[Net], cut: Partition, policy: Policy
) -> Recurrence | None:
    """Return what looks for states that come again; None if a state has more than is looked at."""
    rules = nets[0].rules
    if windows is None or not policy.is_fixed or rules["reorders"] or rules["has_control"]:
        return None
    return Recurrence(windows, cut)


def _sums(nets: list[Net]) -> list[tuple[Any, str]]:
    """Return the records, and the names of their fields, to which each period adds."""
    found = []
    for net in nets:
        found += [(net.lanes, name) for name in _SUMS]
        found += [(net.queues, "wait_ps"), (net.topology.links, "blocked_ps")]
        found += [(net.count, name) for name in _COUNTS]
    return found


def _ends(programs: list[Ranks]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when operations end, -1 if that is unknown, and times and items of other events.

    Whether an end is an event, or recorded in advance, depends on the window.
    """
    heaps = [each.heap for each in programs]
    time = np.concatenate([each.time[: each.size.events] for each in heaps])
    item = np.concatenate([each.item[: each.size.events] for each in heaps])
    ended, ends = programs[0].ended.copy(), item & ~OPERATION == END
    ended[item[ends] & OPERATION] = time[ends]
    return ended, np.stack((time, item))[:, ~ends]


def _state(
    nets: list[Net], ranks: Ranks, windows: PacketWindows, cut: Partition, now: int,
    alive: NDArray[np.bool_], ended: Ints, events: Ints,
) -> Iterator[Any]:  # fmt: skip
    """Yield what determines all that follows, relative to `now` and to the windows of programs.

    `alive`: operations that are not done. `ended`, `events`: as returned by `_ends`.
    """
    net, window = gathered(nets, cut), windows.window
    number = np.append(np.where(alive, np.cumsum(alive) - 1, -1), -1)
    # Times before all that is under way differ in nothing.
    oldest = min(int(ranks.posted[alive & (ranks.posted >= 0)].min(initial=now)), now)

    def since(times: NDArray[Any]) -> NDArray[Any]:
        return np.where(times >= NEVER, NEVER, np.maximum(times, oldest) - now)

    def late(times: NDArray[Any]) -> NDArray[Any]:
        at = np.flatnonzero(times > oldest)
        return np.stack((at, since(times.ravel()[at])))

    # Programs; of operations that have not begun, their places determine the rest.
    cell, begun = window.cell[alive], ranks.posted[alive] >= 0
    place = window.place[alive] - windows.low[windows.program_of[cell]]
    yield from (np.bincount(cell), place.astype(np.int32), np.packbits(begun))
    used = np.flatnonzero(alive)[begun | (ranks.sends[alive] != NOTHING)]
    for times in (ranks.posted, ended, ranks.left, ranks.arrived):
        yield np.where(times[used] < 0, NEVER, times[used] - now)
    yield from (number[used], ranks.sends[used])
    yield from (late(ranks.busy_until), number[ranks.first_waiting - 1], late(ranks.copied_until))
    time, item = events
    op = item & OPERATION
    kind = item ^ op
    op = np.where(kind == FREE_NOW, op, number[np.where(kind == FREE_NOW, -1, op)])
    yield np.stack((op, kind, time - now))[:, np.lexsort((op, kind, time))]

    # Queue pairs and their messages; of others, what matters is in their packets.
    pairs, messages = net.adapters.pairs, net.adapters.messages
    of, at = _lists(pairs["first"], messages["next_sent"])
    yield from (of, number[at], since(messages["ready_ps"][at]), pairs["used_bytes"])
    yield from (messages[name][at] for name in ("left_bytes", "route", "connection"))
    yield np.where(pairs["first"] >= 0, pairs["next"], -1)

    # Links and lanes
    links, lanes = net.topology.links, net.lanes
    yield from (late(links[name]) for name in ("free_at_ps", "wake_at_ps", "ready_ps"))
    yield from (links["asking"], net.asked, late(net.port_free), net.arbitration.arbiters)
    yield from (late(net.adapters.memories[name]) for name in net.adapters.memories.dtype.names)
    names = ("credits", "last_grant", "routed_credits", "first_pair", "is_short")
    yield from (lanes[name] for name in names)
    yield np.where(lanes["first_pair"] < 0, -1, lanes["last_pair"])
    returns, begin = _together([each.credits.returns for each in nets])
    begins = begin[np.repeat(cut.tail, int(net.rules["lanes"]))]
    of, at = _lists(_behind(lanes["first_return"], begins), returns["next"])
    yield from (of, since(returns["time_ps"][at]), returns["credits"][at])

    # Packets
    packets, begin = _together([each.calendar.packets for each in nets])
    sizes = np.diff(np.append(links["first_queue"], len(net.queues)))
    begins = begin[np.repeat(cut.head, sizes)]
    of, at = _lists(_behind(net.queues["first"], begins), packets["next"])
    is_event = np.ones(len(packets), dtype=bool)
    for each, first in zip(nets, begin, strict=True):
        is_event[first + each.calendar.free[: each.calendar.state["free"]]] = False
    is_event[at] = False
    yield of
    yield from _packets(packets[at], number)
    yield packets["time_ps"][at] - now
    events_of = np.concatenate([each.calendar.events for each in nets])[is_event]
    flying = packets[is_event]
    flying[events_of["link"] < 0] = np.zeros(1, dtype=flying.dtype)
    order = np.lexsort((events_of["link"], events_of["time_ps"]))
    yield from (events_of["time_ps"][order] - now, events_of["link"][order])
    yield from _packets(flying[order], number)


def _packets(packets: NDArray[Any], number: Ints) -> Iterator[NDArray[Any]]:
    """Yield what determines the way of packets."""
    yield number[packets["op"]]
    for name in _WAY:
        yield packets[name]


def _together(pools: list[NDArray[Any]]) -> tuple[NDArray[Any], Ints]:
    """Return the entries of the pools of all parts, and where those of each part begin."""
    sizes = np.array([*map(len, pools)], dtype=np.int64)
    begin, entries = np.cumsum(sizes) - sizes, np.concatenate(pools)
    entries["next"] = _behind(entries["next"], np.repeat(begin, sizes))
    return entries, begin


def _behind(index: NDArray[Any], begin: Ints) -> NDArray[np.int64]:
    """Return indices of entries that are so far behind; -1 for none."""
    return np.where(index < 0, -1, index + begin)


def _lists(first: NDArray[Any], after: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return the list and the index of all entries of lists, each from its `first` on."""
    of = np.flatnonzero(first >= 0)
    at = first[of]
    found = [(of[:0], at[:0])]
    while len(of):
        found.append((of, at))
        at = after[at]
        of, at = of[at >= 0], at[at >= 0]
    owner, index = (np.concatenate(column) for column in zip(*found, strict=True))
    return owner, index
