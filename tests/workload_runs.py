"""Reference execution of workloads from their definition, one operation at a time."""

from __future__ import annotations

import heapq

import numpy as np

from weft.workload import Kind, Workload


def finish_times(
    workload: Workload, message: float = 1.0, *, calc: float | None = None
) -> np.ndarray:
    """Return the end of each operation when all messages take the same time without contention.

    A send and its receive begin when both are posted, and end together: no message moves before
    its receive is posted. A calculation takes its duration, or `calc` if given; calculations of a
    rank wait for each other only where the program says so. Operations that never end are inf.
    """
    ops = workload.num_ops
    kind, match = workload.kind, workload.match
    offset, after, on_start = workload.after
    missing = np.diff(workload.dep_offset).copy()
    ready = np.full(ops, np.inf)
    begin = np.zeros(ops)
    end = np.full(ops, np.inf)
    if len(workload.release_ns):
        begin = np.maximum(begin, workload.release_ns)
    events = [(float(begin[op]), op) for op in np.flatnonzero(missing == 0).tolist()]
    heapq.heapify(events)

    def free(op: int, time: float, started: bool) -> None:
        for place in range(offset[op], offset[op + 1]):
            waits_for_start = bool(len(on_start)) and bool(on_start[place])
            if waits_for_start == started:
                other = int(after[place])
                begin[other] = max(begin[other], time)
                missing[other] -= 1
                if missing[other] == 0:
                    heapq.heappush(events, (float(begin[other]), other))

    while events:
        time, op = heapq.heappop(events)
        ready[op] = time
        free(op, time, started=True)
        if kind[op] in (Kind.SEND, Kind.RECV):
            other = int(match[op])
            if np.isinf(ready[other]):
                continue
            for one in (op, other):
                end[one] = time + message
                free(one, end[one], started=False)
            continue
        took = message if kind[op] == Kind.PUT else 0.0
        if kind[op] == Kind.CALC:
            took = float(workload.duration_ns[op]) if calc is None else calc
        end[op] = time + took
        free(op, end[op], started=False)
    return end


def sent(workload: Workload, phase: str = "") -> np.ndarray:
    """Return int64 [messages, 3]: sender, receiver and bytes in order of operations.

    Only phases whose name contains `phase` count; messages of collectives, whose tags are below
    0, are excluded.
    """
    ops = workload.messages
    names = np.array([phase in name for name in workload.phase_names])
    ops = ops[(workload.tag[ops] >= 0) & names[workload.phase[ops]]]
    return np.stack([workload.rank[ops], workload.peer[ops], workload.size_bytes[ops]], axis=1)


def collective_messages(workload: Workload) -> int:
    """Count the messages of collectives."""
    return int((workload.tag[workload.messages] < 0).sum())


def same(one: Workload, other: Workload) -> bool:
    """Return whether two workloads have equal operations; names and phases are ignored."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in one.__dataclass_fields__
        if name != "phase" and isinstance(getattr(one, name), np.ndarray)
    )
