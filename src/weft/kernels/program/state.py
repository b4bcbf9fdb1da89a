"""State of programs of ranks while they run, which the flow and the packet level share.

Times are float64 ns at the flow level and int64 ps at the packet level; *unit* below is that type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.records import counters

#: Counters: operations ended, messages arrived, first and end index of the queue of ready
#: operations, number of operations in `Ranks.joining`, next index in the timeline of releases, and
#: number of operations in `Ranks.asked`.
COUNT = counters("ended", "arrived", "ready_head", "ready_tail", "joining", "timeline", "asked")
#: Number of events in a heap.
HEAP_SIZE = counters("events")


def rules_dtype(unit: Any) -> np.dtype[Any]:
    """Return the dtype of the settings of a run, with times of type *unit*.

    `eager_bytes` is the size of the largest eager message; with `handshake`, a request and an
    answer precede larger messages. Requests and answers use the queue `control_queue` of their pair
    of ranks, the data after them `data_queue`, and all else queue 0. `adapter_latency` is the time
    between an adapter and its processor.
    A copy within a host takes ``local_units_per_byte / local_gbps`` *unit* per byte, rounded if
    `local_whole` is set, and its message arrives `local_latency` later. With `scheduled`, requests
    of routing keys wait for the scheduler; otherwise they take no time.
    """
    return np.dtype(
        [
            ("eager_bytes", np.int64),
            ("handshake", np.bool_),
            ("control_queue", np.int64),
            ("data_queue", np.int64),
            ("adapter_latency", unit),
            ("local_latency", unit),
            ("local_gbps", np.float64),
            ("local_units_per_byte", np.float64),
            ("local_whole", np.bool_),
            ("scheduled", np.bool_),
        ],
        align=True,
    )


class Program(NamedTuple):
    """Operations of the ranks; constant during a run."""

    #: [ops], as in `weft.workload.Workload`; `cpu` is empty if all processors are 0.
    kind: Any
    rank: Any
    size_bytes: Any
    match: Any
    cpu: Any
    #: *unit* [ops]: duration of a calculation or overhead of a message at its processor, and
    #: earliest start of an operation; `release` may be empty.
    duration: Any
    release: Any
    #: *unit* [ops]: latency of a message's data at the sender besides that of the adapter; may be
    #: empty.
    latency: Any
    #: Operations that depend on each operation; see `weft.workload.Workload.after`.
    successor_offset: Any
    successor: Any
    successor_on_start: Any
    #: int32 [ops]: route of a message, LOCAL within a host.
    route: Any


class Heap(NamedTuple):
    """Heap of future events: *unit* times, int64 items, and a HEAP_SIZE record."""

    time: Any
    item: Any
    size: Any


class Ranks(NamedTuple):
    """State of the programs of ranks."""

    #: A `Program`.
    program: Any
    #: One record of `rules_dtype`, and one COUNT.
    rules: Any
    count: Any
    #: A `Heap` of future events.
    heap: Any
    #: int32 and *unit*: operations that wait only for their release, in the order of their
    #: releases, and the time of each release.
    timeline_op: Any
    timeline_time: Any
    #: int32 [ops]: number of predecessors whose start or end an operation still waits for.
    pending: Any
    #: int32 [ops + 1]: queue of operations to start.
    ready: Any
    #: *unit* [ops]: time when an operation started, when it ended, when its data began to depart,
    #: and when its message arrived; -1 until then. Of a request of a routing key, `left` is the
    #: time of the answer.
    posted: Any
    ended: Any
    left: Any
    arrived: Any
    #: *unit* and int32 [ranks, processors]: when a processor becomes free, and the first operation
    #: that waits for the processor, counted from 1; 0 for none.
    busy_until: Any
    first_waiting: Any
    #: int32 [ops]: children, counted from 1, in the skew heap of operations that wait for a
    #: processor.
    left_below: Any
    right_below: Any
    #: uint8 [ops]: what an operation sends at present (NOTHING, REQUEST, DATA or ANSWER). A request
    #: or return of a routing key that the scheduler must handle sends REQUEST.
    sends: Any
    #: int32 [ops + 1]: operations that join their queue pairs at the present time.
    joining: Any
    #: int32 [key operations + 1]: requests and returns of routing keys that have started and that
    #: the scheduler has not handled.
    asked: Any
    #: int32 [ops] and *unit* [pairs]: pair of ranks (source, destination) of a message within a
    #: host, and end of the last copy of each pair.
    copy_pair: Any
    copied_until: Any
