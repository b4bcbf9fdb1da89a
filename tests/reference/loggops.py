"""LogGOPS replay of a workload in plain Python: Hoefler, Schneider and Lumsdaine 2010, section 2.

The network has contention only at its ends: a message of s bytes occupies the sender's
interface for s G in order of posting, and the receiver's for s G in order of arrival. Messages
above S wait for their receive: a request and an answer of latency L precede them. Times are exact
fractions.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np

from weft.workload import Kind, Workload


def replay(
    work: Workload, *, latency: Fraction, per_byte: Fraction, eager_bytes: int
) -> list[Fraction]:
    """Return the end of each operation, with o = g = 0.

    Parameters
    ----------
    work
        Calculations, sends and receives.
    latency
        L, ns.
    per_byte
        G, ns a byte.
    eager_bytes
        S.
    """
    waits = {
        op: set(work.dep[work.dep_offset[op] : work.dep_offset[op + 1]].tolist())
        for op in range(work.num_ops)
    }
    wakes: dict[int, list[int]] = defaultdict(list)
    for op, needed in waits.items():
        for other in needed:
            wakes[other].append(op)
    sending: dict[int, Fraction] = defaultdict(Fraction)
    receiving: dict[int, Fraction] = defaultdict(Fraction)
    processor: dict[int, Fraction] = defaultdict(Fraction)
    posted: dict[int, Fraction] = {}
    arrived: dict[int, Fraction] = {}
    ended: dict[int, Fraction] = {}
    order = itertools.count()
    queue: list[tuple[Fraction, int, int, str]] = []

    def at(time: Fraction, op: int, what: str) -> None:
        heapq.heappush(queue, (time, next(order), op, what))

    def data(op: int, now: Fraction) -> None:
        """Give a message to the interface of its rank."""
        rank, lasts = int(work.rank[op]), int(work.size_bytes[op]) * per_byte
        begin = max(now, sending[rank])
        sending[rank] = begin + lasts
        if work.size_bytes[op] > eager_bytes:
            at(begin + lasts, op, "end")
        at(begin + latency, op, "head")

    def start(op: int, now: Fraction) -> None:
        kind, rank, match = Kind(int(work.kind[op])), int(work.rank[op]), int(work.match[op])
        posted[op] = now
        if kind == Kind.CALC:
            begin = max(now, processor[rank])
            processor[rank] = begin + Fraction(float(work.duration_ns[op]))
            at(processor[rank], op, "end")
            return
        send, receive = (op, match) if kind == Kind.SEND else (match, op)
        if work.size_bytes[send] > eager_bytes:
            if match in posted:
                at(max(posted[send] + latency, posted[receive]) + latency, send, "data")
        elif kind == Kind.SEND:
            at(now, op, "end")
            data(op, now)
        elif send in arrived:
            at(now, op, "end")

    for op, needed in waits.items():
        if not needed:
            at(Fraction(0), op, "start")
    while queue:
        now, _, op, what = heapq.heappop(queue)
        if what == "start":
            start(op, now)
        elif what == "data":
            data(op, now)
        elif what == "head":
            # The first byte has arrived; the last one follows once the interface has received it.
            rank = int(work.peer[op])
            done = max(now, receiving[rank]) + int(work.size_bytes[op]) * per_byte
            receiving[rank] = done
            at(done, op, "arrive")
        elif what == "arrive":
            arrived[op] = now
            if int(work.match[op]) in posted:
                at(now, int(work.match[op]), "end")
        else:
            ended[op] = now
            for other in wakes[op]:
                waits[other].discard(op)
                if not waits[other]:
                    at(now, other, "start")
    assert len(ended) == work.num_ops
    assert not np.any(work.kind == Kind.PUT)
    return [ended[op] for op in range(work.num_ops)]
