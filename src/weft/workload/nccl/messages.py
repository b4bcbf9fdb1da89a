"""`Messages`: the messages of one collective, which follow each other in pipelines of slices.

A message is what one rank sends to another on one channel in one step. NCCL cuts it into slices,
and a slice is passed on while the next one is under way. So a message is lowered to a few pieces:
its first slice, the slices between, in one or more pieces of equal size, and its last slice. If a
message *streams* from another, its first slice waits for that one's first, its last for that one's
last, and each piece between for the piece before it. So a pipeline takes the time of all slices
sent one by one, if its hops are equally fast (k slices of time t over s hops: (k + s - 1) t), and
bytes on every link are exact.

A slice first occupies the thread block of its channel, which handles one slice after the other,
then the links; after its arrival there is a delay, which slices in flight do not add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind

Ints = NDArray[np.int64]

#: Processors of a rank that run the thread blocks of channels; the others run delays.
_LANES = 64
_DELAYS = 256 - _LANES
#: What a message waits for: all slices, slice by slice, or what its own thread block does before.
_WHOLE, _STREAM, _OWN = range(3)


@dataclass(frozen=True)
class Hop:
    """Costs of a message within a machine, or between machines.

    Parameters
    ----------
    step_ns, busy_ns
        Time of a thread block for each message and for each slice, whatever their sizes.
    rate
        Rate at which a thread block copies, in bytes on the link per nanosecond (GB/s).
    delay_ns
        Time from the arrival of a slice until the receiver can use it.
    inflation
        Bytes on the link for each byte of data.
    """

    step_ns: float = 0.0
    busy_ns: float = 0.0
    rate: float = float("inf")
    delay_ns: float = 0.0
    inflation: float = 1.0


class Messages:
    """Messages between the members of a collective, numbered in the order in which they are added.

    Parameters
    ----------
    size
        Number of members.
    inside, between
        Costs of messages within a machine and between machines.
    """

    def __init__(self, size: int, inside: Hop, between: Hop):
        self.size = size
        self._hops = inside, between
        self._columns: list[tuple[NDArray[Any], ...]] = []
        self._edges: list[tuple[Ints, Ints, Ints]] = []
        self.count = 0

    def add(
        self,
        source: Any,
        to: Any,
        size_bytes: Any,
        *,
        network: Any,
        slices: Any = 1,
        lane: Any = 0,
        block: Any = 0,
        combines: Any = False,
        repeats: Any = 1,
        blocks: Any = 1,
        scale: Any = 1.0,
        pieces: Any = 3,
    ) -> Ints:
        """Add messages and return their numbers, int64 [messages].

        Parameters
        ----------
        source, to
            Members, by their index.
        size_bytes
            Bytes of data.
        network
            Whether a message leaves its machine.
        slices, repeats
            Slices of a message, and how many of NCCL's slices each of them stands for.
        lane, blocks
            First thread block of the sender, and how many share the message; 0 if none does.
        block, combines
            Number of the part of the data, and whether the receiver adds it to its own; only tests
            use them.
        scale
            Bytes on the link for each byte, in addition to the inflation of the hop.
        pieces
            Most pieces of a message, at least 3. Messages between two ranks leave one after the
            other, so that more pieces let channels between the same two ranks take turns.
        """
        columns = np.broadcast_arrays(
            source, to, size_bytes, network, slices, lane, block, combines, repeats, blocks,
            scale, pieces,
        )  # fmt: skip
        numbers = np.arange(self.count, self.count + columns[0].size, dtype=np.int64)
        self._columns.append(tuple(column.ravel() for column in columns))
        self.count += len(numbers)
        return numbers.reshape(columns[0].shape)

    def stream(self, messages: Any, on: Any) -> None:
        """Let messages pass on the data of others slice by slice."""
        self._need(messages, on, _STREAM)

    def follow(self, messages: Any, on: Any) -> None:
        """Let messages begin after the arrival of others at their sender."""
        self._need(messages, on, _WHOLE)

    def after_own(self, messages: Any, on: Any) -> None:
        """Let messages begin after the thread block of the same sender is done with others."""
        self._need(messages, on, _OWN)

    def _need(self, messages: Any, on: Any, kind: int) -> None:
        ops, others = np.broadcast_arrays(messages, on)
        ops, others = ops.ravel().astype(np.int64), others.ravel().astype(np.int64)
        self._edges.append((ops, others, np.full(len(ops), kind)))

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return the columns of all messages, in the order of the parameters of `add`."""
        return tuple(np.concatenate(column) for column in zip(*self._columns, strict=True))

    def edges(self) -> tuple[Ints, Ints, Ints]:
        """Return the messages that wait, those that they wait for, and in which way."""
        if not self._edges:
            none = np.zeros(0, dtype=np.int64)
            return none, none, none
        on, op, kind = (np.concatenate(column) for column in zip(*self._edges, strict=True))
        return on, op, kind

    def lower(
        self,
        builder: WorkloadBuilder,
        members: Ints,
        base_ns: float,
        tag: int,
        least_ns: NDArray[np.float64] | None = None,
    ) -> None:
        """Add the operations of all messages to the programs of several groups of ranks.

        Parameters
        ----------
        builder
            Builder of the workload.
        members
            int64 [groups, size]: ranks of each group.
        base_ns
            Time at each rank before its first message.
        tag
            Tag of all messages; those of a pair of ranks match in order.
        least_ns
            float64 [size]: shortest time of the collective at each member, beside its messages.
        """
        columns = self.columns()
        source, to, size, network, slices, lane, _, _, repeats, blocks, scale, pieces = columns
        once, busy, rate, delay, inflation = (
            np.where(network, getattr(self._hops[1], name), getattr(self._hops[0], name))
            for name in ("step_ns", "busy_ns", "rate", "delay_ns", "inflation")
        )
        wire = np.ceil(size * inflation * scale - 1e-9).astype(np.int64)
        count = np.minimum(slices, pieces).astype(np.int64)
        first = np.concatenate([[0], np.cumsum(count)])
        last, first = first[1:] - 1, first[:-1]
        of = np.repeat(np.arange(len(count)), count)
        piece = np.arange(len(of)) - first[of]
        slice_bytes = wire // slices
        between = wire - slice_bytes * np.where(count > 2, 2, count - 1)
        middle = (piece > 0) & (piece < count[of] - 1)
        rest = (count[of] <= 2) & (piece == count[of] - 1)
        part = np.maximum(count[of] - 2, 1)
        piece_bytes = np.where(
            middle, between[of] * piece // part - between[of] * (piece - 1) // part, slice_bytes[of]
        )
        piece_bytes[rest] = between[of][rest]
        work = busy[of] * np.where(middle, (slices[of] - 2) / part, 1)
        work = (work + np.where(piece == 0, once[of], 0.0)) * repeats[of]
        copy = piece_bytes / (rate * np.maximum(blocks, 1))[of]
        work = np.where(blocks[of] > 0, work + copy, 0.0)
        wait = np.where(middle, 0.0, delay[of])

        always = np.ones(len(of), dtype=np.bool_)
        present = np.stack([work > 0, always, always, wait > 0], axis=1)
        number = np.where(present, np.cumsum(present.ravel()).reshape(present.shape) - 1, -1)
        calc, send, receive, later = number.T
        start = np.where(calc >= 0, calc, send)
        arrived = np.where(later >= 0, later, receive)

        def each(*values: Any) -> NDArray[Any]:
            """Return one value for each operation, from those of a piece's four operations."""
            return np.stack([np.broadcast_to(v, len(of)) for v in values], axis=1)[present]

        own, other = source[of], to[of]
        kind = each(Kind.CALC, Kind.SEND, Kind.RECV, Kind.CALC)
        rank = each(own, own, other, other)
        peer = each(own, other, own, other)
        bytes_ = each(0, piece_bytes, piece_bytes, 0)
        duration = each(work, 0.0, 0.0, wait)
        cpu = each(lane[of] % _LANES, 0, 0, _LANES + np.arange(len(of)) % _DELAYS)

        waiting: list[Ints] = []
        awaited: list[Ints] = []

        def need(op: Ints, on: Ints) -> None:
            waiting.append(op)
            awaited.append(on)

        need(send[calc >= 0], calc[calc >= 0])
        need(later[later >= 0], receive[later >= 0])
        again = np.flatnonzero(piece > 0)
        need(start[again], start[again - 1])
        op, on, how = self.edges()
        streams = how == _STREAM
        need(start[first[op[streams]]], arrived[first[on[streams]]])
        long = streams & (count[op] > 1)
        need(start[last[op[long]]], arrived[last[on[long]]])
        most = int(count.max(initial=0))
        alike = streams & (count[op] == count[on])
        for at in range(2, most - 1):
            deep = alike & (count[op] - 1 > at)
            need(start[first[op[deep]] + at], arrived[first[on[deep]] + at - 1])
        short = (streams & (count[op] == 1)) | (how == _WHOLE)
        need(start[first[op[short]]], arrived[last[on[short]]])
        need(start[first[op[how == _OWN]]], start[last[on[how == _OWN]]])
        ops, others = np.concatenate(waiting), np.concatenate(awaited)

        groups, total = len(members), len(kind)
        free = np.bincount(ops, minlength=total) == 0
        ends_here = np.bincount(others, minlength=total) == 0
        begin = np.reshape(builder.calc(members.ravel(), base_ns), members.shape)
        made = builder.operations(
            members[:, rank].ravel(), np.tile(kind, groups),
            peer=members[:, peer].ravel(), size_bytes=np.tile(bytes_, groups), tag=tag,
            duration_ns=np.tile(duration, groups), cpu=np.tile(cpu, groups),
        ).reshape(groups, total)  # fmt: skip
        builder.requires(made[:, ops].ravel(), made[:, others].ravel())
        builder.requires(made[:, free].ravel(), begin[:, rank[free]].ravel())
        least = np.zeros(members.size) if least_ns is None else np.tile(least_ns, groups)
        busy_blocks = builder.operations(members.ravel(), Kind.CALC, duration_ns=least, cpu=_LANES - 1)
        builder.requires(busy_blocks, begin.ravel())
        finish = builder.operations(members.ravel(), Kind.CALC).reshape(members.shape)
        builder.requires(finish[:, rank[ends_here]].ravel(), made[:, ends_here].ravel())
        builder.requires(finish.ravel(), busy_blocks)
        builder.wait(members.ravel(), finish.ravel())
