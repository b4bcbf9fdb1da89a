"""State of the event loop of the flow level."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: Settings: relative error allowed in completion times, simulated time at which the run gives up,
#: largest payload of a packet (0 if messages of one packet do not wait for those of other queue
#: pairs), header of a message of one packet, number of pairs of ranks, and number of arrivals after
#: whose instant the loop returns.
RULES = np.dtype(
    [
        ("tolerance", np.float64),
        ("max_time_ns", np.float64),
        ("mtu_bytes", np.int64),
        ("header_bytes", np.int64),
        ("pairs", np.int64),
        ("most_arrivals", np.int64),
    ],
    align=True,
)
#: Simulated time, and counters: free slots, slots that have ever been in use, flows that end at
#: the present time, flows that start then, flows under way, the largest number of these so far,
#: solutions of the sharing model, and rates that the solutions changed.
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
    """Paths of messages: float64 [routes]; adapters are int32 [routes]."""

    #: Time from departure to arrival of the last byte.
    latency_ns: Any
    #: Rate of a message without other traffic.
    rate_bytes_per_ns: Any
    #: Adapters at the two ends of the path.
    source: Any
    destination: Any
    #: Rate of the source's link.
    source_rate_bytes_per_ns: Any


class QueuePairs(NamedTuple):
    """Queues of the pairs of ranks, each of which sends its messages one after the other."""

    #: int32 [ops]: pair of ranks of each operation.
    pair_of: Any
    #: int32 [queues x pairs]: last operation in the queue, counted from 1; 0 if it is empty.
    last: Any
    #: float64 [queues x pairs]: latest arrival of the messages sent.
    latest_ns: Any
    #: float64 [adapters]: earliest departure of the adapter's next message of one packet.
    adapter_free_ns: Any


class Flows(NamedTuple):
    """Messages under way: arrays [slots] unless a shape is given."""

    #: int32: operation that sends the message.
    op: Any
    #: float64: bytes left to send at the last change of `rate`, and time of that change.
    left_bytes: Any
    since_ns: Any
    #: float64, bytes/ns: present rate.
    rate: Any
    #: float64, bytes/ns: rate in the last solution of the sharing model.
    shared_rate: Any
    #: float64: departure of the last byte at the present rate; infinite for a slot without a flow.
    end_ns: Any
    #: float64 [blocks]: earliest `end_ns` in each block of slots.
    block_end_ns: Any
    #: int32: lists of free slots, of slots whose flow ends, of slots whose rate has changed, and of
    #: slots whose flow starts.
    free: Any
    leaving: Any
    changed: Any
    coming: Any
    #: int32 [blocks]: list of blocks whose earliest end must be found again.
    touched: Any


class Level(NamedTuple):
    """State of the flow level: `Paths`, `QueuePairs`, `Flows`, a RULES and a COUNT record."""

    paths: Any
    pairs: Any
    flows: Any
    rules: Any
    count: Any
