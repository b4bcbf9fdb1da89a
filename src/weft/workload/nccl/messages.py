"""`MessageGraph`: the messages of one collective, which follow each other in pipelines of slices.

A message is what one rank sends to another on one channel in one step. NCCL cuts it into slices,
and a slice is passed on while the next one is under way. So a message is lowered to the sends of
its first slice, of the slices between, and of its last slice. If it *streams* from another one, its
first slice waits for that one's first, and its last for that one's last. So a pipeline takes the
time of all slices sent one by one, if its hops are equally fast (k slices of time t over s hops:
(k + s - 1) t), and the bytes on every link are exact.

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

#: Processors of a rank that run thread blocks, and that run delays; the last two are left to
#: calculations beside collectives.
LANES = 64
_DELAYS = 254 - LANES


@dataclass(frozen=True)
class Hop:
    """Costs of a message within a machine, or between machines."""

    #: Time of a thread block for each message and for each slice, whatever their sizes.
    step_ns: float = 0.0
    busy_ns: float = 0.0
    #: Rate at which a thread block copies, in bytes on the link per nanosecond (GB/s).
    rate: float = float("inf")
    #: Time from the arrival of a slice until the receiver can use it.
    delay_ns: float = 0.0
    #: Bytes on the link for each byte of data.
    inflation: float = 1.0


class MessageGraph:
    """Messages between the members of a collective, numbered in the order in which they are added.

    `hops`: costs of messages within a machine and between machines; signals have none.
    """

    def __init__(self, hops: tuple[Hop, Hop]):
        self._hops = (*hops, Hop())
        self._columns: list[tuple[NDArray[Any], ...]] = []
        self._edges: list[NDArray[Any]] = []
        self._on_trees: list[int] = []
        self.count = 0

    def add(
        self, source: Any, to: Any, size_bytes: Any, *, network: Any, slices: Any = 1,
        lane: Any = 0, blocks: Any = 1, part: Any = 0, combines: Any = False, repeats: Any = 1,
        scale: Any = 1.0,
    ) -> Ints:  # fmt: skip
        """Add messages of members to members, and return their numbers, int64 [messages].

        `network`: whether a message leaves its machine; 2 for a signal. `repeats`: how many of
        NCCL's slices a slice stands for. `lane`, `blocks`: first thread block of the sender, and
        how many share the message; 0 if a proxy sends it. `part`, `combines`: number of the part of
        the data (and of its tree), and whether the receiver adds it to its own. `scale`:
        bytes on the link for each byte, besides the inflation of the hop.
        """
        columns = np.broadcast_arrays(
            source, to, size_bytes, network, slices, lane, blocks, part, combines, repeats, scale
        )
        numbers = np.arange(self.count, self.count + columns[0].size, dtype=np.int64)
        self._columns.append(tuple(column.ravel() for column in columns))
        self.count += len(numbers)
        return numbers.reshape(columns[0].shape)

    def stream(self, messages: Any, on: Any) -> None:
        """Let messages pass on the data of others slice by slice."""
        self._edges.append(np.stack([*np.broadcast_arrays(messages, on, 1)]).reshape(3, -1))

    def after_own(self, messages: Any, on: Any) -> None:
        """Let messages begin after the thread block of the same sender is done with others."""
        self._edges.append(np.stack([*np.broadcast_arrays(messages, on, 0)]).reshape(3, -1))

    def reduce_in_network(self, messages: Any) -> None:
        """Let messages stand for reductions in switches; those of a part have one tree."""
        self._on_trees += np.ravel(messages).tolist()

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return the columns of all messages, in the order of the parameters of `add`."""
        return tuple(np.concatenate(column) for column in zip(*self._columns, strict=True))

    def edges(self) -> NDArray[Any]:
        """Return messages that wait, those they wait for, and whether they stream, [3, edges]."""
        return np.concatenate([np.zeros((3, 0), dtype=np.int64), *self._edges], axis=1)

    def lower(
        self, builder: WorkloadBuilder, members: Ints, base_ns: float, tag: int, least_ns: Any
    ) -> None:
        """Add the operations of all messages to the programs of groups of ranks [groups, size].

        `base_ns`: time at each rank before its first message. `tag`: tag of all messages; those of
        a pair of ranks match in order. `least_ns` [size]: shortest time of the collective at each
        member, beside its messages.
        """
        source, to, size, network, slices, lane, blocks, part, _, repeats, scale = self.columns()
        step, busy, rate, delay, inflation = (
            np.array([getattr(hop, name) for hop in self._hops])[network.astype(np.int64)]
            for name in ("step_ns", "busy_ns", "rate", "delay_ns", "inflation")
        )
        wire = np.ceil(size * inflation * scale - 1e-9).astype(np.int64)
        count = np.minimum(slices, 3)
        last = np.cumsum(count) - 1
        first = last - count + 1
        of = np.repeat(np.arange(len(count)), count)
        piece = np.arange(len(of)) - first[of]
        middle = (piece == 1) & (count[of] == 3)
        slice_bytes = wire // slices
        piece_bytes = np.where(middle, (wire - 2 * slice_bytes)[of], slice_bytes[of])
        rest = (count[of] < 3) & (piece == count[of] - 1)
        piece_bytes[rest] = (wire - (count - 1) * slice_bytes)[of][rest]
        work = busy[of] * np.where(middle, slices[of] - 2, 1) + step[of] * (piece == 0)
        copy = piece_bytes / (rate * np.maximum(blocks, 1))[of]
        work = np.where(blocks[of] > 0, work * repeats[of] + copy, 0.0)
        wait = np.where(middle, 0.0, delay[of])

        always = np.ones(len(of), dtype=np.bool_)
        present = np.stack([work > 0, always, always, wait > 0], axis=1)
        number = np.where(present, np.cumsum(present.ravel()).reshape(present.shape) - 1, -1)
        calc, send, receive, later = number.T
        start, arrived = np.where(calc >= 0, calc, send), np.where(later >= 0, later, receive)

        def each(*values: Any) -> NDArray[Any]:
            """Return one value for each operation, from those of a piece's four operations."""
            return np.stack([np.broadcast_to(v, len(of)) for v in values], axis=1)[present]

        own, other = source[of], to[of]
        rank = each(own, own, other, other)
        kind = each(Kind.CALC, Kind.SEND, Kind.RECV, Kind.CALC)
        op, on, streams = self.edges()
        streams = streams.astype(np.bool_)
        again, long = np.flatnonzero(piece > 0), streams & (count[op] > 1)
        heads = np.where(count[op] > 1, first[on], last[on])
        waits = [
            (send[calc >= 0], calc[calc >= 0]), (later[later >= 0], receive[later >= 0]),
            (start[again], start[again - 1]),
            (start[first[op]][~streams], start[last[on]][~streams]),
            (start[first[op]][streams], arrived[heads][streams]),
            (start[last[op]][long], arrived[last[on]][long]),
        ]  # fmt: skip
        ops, others = (np.concatenate(side) for side in zip(*waits, strict=True))

        groups, total = len(members), len(kind)
        free = np.bincount(ops, minlength=total) == 0
        final = np.bincount(others, minlength=total) == 0
        begin = np.reshape(builder.calc(members.ravel(), base_ns), members.shape)
        made = builder.operations(
            members[:, rank].ravel(), np.tile(kind, groups),
            peer=members[:, each(own, other, own, other)].ravel(), tag=tag,
            size_bytes=np.tile(each(0, piece_bytes, piece_bytes, 0), groups),
            duration_ns=np.tile(each(work, 0.0, 0.0, wait), groups),
            cpu=np.tile(each(lane[of] % LANES, 0, 0, LANES + np.arange(len(of)) % _DELAYS), groups),
        ).reshape(groups, total)  # fmt: skip
        on_tree = np.isin(of, self._on_trees)
        if on_tree.any():
            number = part[of[on_tree]] * groups + np.arange(groups)[:, None]
            builder.reduce_in_network(made[:, send[on_tree]].ravel(), number.ravel())
        least = np.tile(least_ns, groups)
        copies = builder.operations(members.ravel(), Kind.CALC, duration_ns=least, cpu=LANES - 1)
        end = builder.operations(members.ravel(), Kind.CALC).reshape(members.shape)
        for op, on in (
            (made[:, ops], made[:, others]), (made[:, free], begin[:, rank[free]]),
            (copies, begin), (end, copies), (end[:, rank[final]], made[:, final]),
        ):  # fmt: skip
            builder.requires(op.ravel(), on.ravel())
        builder.wait(members.ravel(), end.ravel())
