"""What the event loop of the flow level keeps, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: What was set: relative error that is allowed, simulated time at which to give up, payload of a
#: packet (0 where messages do not wait for those of other queue pairs), and the header that a
#: message of one packet takes along.
RULES = np.dtype(
    [
        ("tolerance", np.float64),
        ("max_time_ns", np.float64),
        ("mtu_bytes", np.int64),
        ("header_bytes", np.int64),
    ],
    align=True,
)
#: Simulated time, and what has been counted: slots that are free and that have ever been in use,
#: flows that leave and that come at this moment, flows under way and the most at a time, how often
#: rates were shared, and how many of them changed.
COUNT = np.dtype(
    [
        ("now_ns", np.float64),
        *(
            (name, np.int64)
            for name in (
                "free",
                "slots",
                "leaving",
                "coming",
                "active",
                "peak",
                "solves",
                "changes",
            )
        ),
    ],
    align=True,
)


class Paths(NamedTuple):
    """Paths that messages take; float64 and int32, one entry for each route.

    Parameters
    ----------
    latency_ns
        From the last byte's leaving to its arrival.
    rate_bytes_per_ns
        Rate of a message when nothing else is there.
    source, destination
        Adapters at the ends.
    source_rate_bytes_per_ns
        Rate of the source's cable.
    """

    latency_ns: Any
    rate_bytes_per_ns: Any
    source: Any
    destination: Any
    source_rate_bytes_per_ns: Any


class QueuePairs(NamedTuple):
    """Queue pairs, each of which sends one message after the other.

    Parameters
    ----------
    pair_of
        int32 [ops]: queue pair of each operation.
    last
        int32 [pairs]: the last operation in line, counted from 1; 0 where there is none.
    latest_ns
        float64 [pairs]: latest arrival of what has been sent.
    adapter_free_ns
        float64 [adapters]: when the next message of one packet may leave.
    """

    pair_of: Any
    last: Any
    latest_ns: Any
    adapter_free_ns: Any


class Flows(NamedTuple):
    """Messages under way: arrays over slots, but for the blocks.

    Parameters
    ----------
    op
        int32: the operation.
    left_bytes, since_ns
        float64: what is left to send, and when that was so.
    rate
        float64, bytes/ns: at which the flow moves.
    shared_rate
        float64, bytes/ns: what the sharing law gives it.
    end_ns
        float64: when it will have left, infinite for a slot without a flow.
    block_end_ns
        float64 [blocks]: earliest end in each block of slots.
    free, leaving, changed, coming
        int32: lists of slots.
    touched
        int32 [blocks]: list of blocks.
    """

    op: Any
    left_bytes: Any
    since_ns: Any
    rate: Any
    shared_rate: Any
    end_ns: Any
    block_end_ns: Any
    free: Any
    leaving: Any
    changed: Any
    coming: Any
    touched: Any


class Level(NamedTuple):
    """The flow level but for the ranks and the sharing law: its parts, and records of its own."""

    paths: Any
    pairs: Any
    flows: Any
    rules: Any
    count: Any
