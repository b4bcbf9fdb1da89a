"""What programs of ranks keep while they run, by name: shared by all levels over time.

Time is float64 ns at the flow level and int64 ps at the packet level. Below, *unit* is that type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.records import counters

#: What has been counted: operations that have ended, messages that have arrived, operations that
#: are ready (from `ready_head` to `ready_tail` of their queue), those that join their queue pairs
#: at this moment, and the first release that has not come.
COUNT = counters("ended", "arrived", "ready_head", "ready_tail", "joining", "timeline")
#: How many events a heap holds.
HEAP_SIZE = counters("events")


def rules_dtype(unit: Any) -> np.dtype[Any]:
    """Fields of the rules of a run, times being of a type.

    `overhead` is the processor's time at either side of a message, `adapter_latency` passes
    between an adapter and its processor, and `local_latency` after a copy within a host, which
    takes `local_units_per_byte / local_gbps` a byte, rounded where `local_whole`.
    """
    return np.dtype(
        [
            ("eager_bytes", np.int64),
            ("handshake", np.bool_),
            ("overhead", unit),
            ("adapter_latency", unit),
            ("local_latency", unit),
            ("local_gbps", np.float64),
            ("local_units_per_byte", np.float64),
            ("local_whole", np.bool_),
        ],
        align=True,
    )


class Program(NamedTuple):
    """What the ranks are to do; nothing of it changes.

    Parameters
    ----------
    kind, rank, size_bytes, match, cpu
        Of each operation, as in `weft.workload.Workload`; `cpu` is empty where all is 0.
    duration, release
        *unit* [ops]: of calculations, and when an operation may start; `release` may be empty.
    successor_offset, successor, successor_on_start
        Who waits for whom; see `weft.workload.Workload.after`.
    route
        int32 [ops]: the route of a message, LOCAL within a host.
    """

    kind: Any
    rank: Any
    size_bytes: Any
    match: Any
    cpu: Any
    duration: Any
    release: Any
    successor_offset: Any
    successor: Any
    successor_on_start: Any
    route: Any


class Heap(NamedTuple):
    """Events to come: *unit* times, int64 items, and how many there are (HEAP_SIZE)."""

    time: Any
    item: Any
    size: Any


class Ranks(NamedTuple):
    """Programs of ranks as they run.

    Parameters
    ----------
    program
        A `Program`.
    rules, count
        Records: of `rules_dtype`, and COUNT.
    heap
        A `Heap` of what is to come.
    timeline_op, timeline_time
        int32 and *unit*: operations that wait for nothing but their release, in its order.
    pending
        int32 [ops]: predecessors that have not started or ended.
    ready
        int32 [ops + 1]: queue of operations to start.
    posted, ended, left, arrived
        *unit* [ops], -1 before: when an operation started and ended, its data began to leave, and
        its message arrived.
    busy_until, first_waiting
        *unit* and int32 [ranks, processors]: when a processor is free, and the operation that is
        first to have it, counted from 1.
    left_below, right_below
        int32 [ops]: those below each operation that waits for a processor, in a skew heap.
    sends
        uint8 [ops]: what an operation sends at the moment.
    joining
        int32 [ops + 1]: operations that join their queue pairs at this moment.
    copy_pair, copied_until
        int32 [ops] and *unit*: ordered pair of ranks of a message within a host, and until when
        each pair's copies last.
    """

    program: Any
    rules: Any
    count: Any
    heap: Any
    timeline_op: Any
    timeline_time: Any
    pending: Any
    ready: Any
    posted: Any
    ended: Any
    left: Any
    arrived: Any
    busy_until: Any
    first_waiting: Any
    left_below: Any
    right_below: Any
    sends: Any
    joining: Any
    copy_pair: Any
    copied_until: Any
