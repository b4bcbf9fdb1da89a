"""`RolledWorkload`: programs that many ranks have in common, stored once, and their builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import need_memory
from weft.core.errors import NotApplicable
from weft.workload.builder import WorkloadBuilder
from weft.workload.program_order import NONE, Rows
from weft.workload.workload import Kind, TrainingStep

Ints = NDArray[np.int64]

#: Number of messages above which `weft simulate` runs a rolled workload, if there is one: all that
#: is known of single messages would take more than 4 GB.
ROLLED_FROM = 2**24
#: Largest number of maps of peers and of sets of ranks, which have an entry for every rank.
_MOST_MAPS = 4096
#: Least memory of an operation that is stored: its columns, and its set of ranks.
_STORED_BYTES = 64
#: Least number of ranks, on average, for which an operation is stored once for a command.
_LEAST_COMMON = 8


class CommonProgram(NamedTuple):
    """Operations that ranks have in common, in program order; arrays [ops] as in `Workload`.

    `peers`: index in `RolledWorkload.peers` of the map of peers, -1 without one. `dep`: index in
    the program of an operation to wait for. `dep_on_start`: bool [dependencies].
    `match`: index of the matching operation in the program of the peer.
    """

    kind: NDArray[np.uint8]
    peers: NDArray[np.int32]
    size_bytes: Ints
    tag: NDArray[np.int32]
    comm: NDArray[np.int32]
    duration_ns: NDArray[np.float64]
    phase: NDArray[np.int32]
    cpu: NDArray[np.uint8]
    dep_offset: Ints
    dep: NDArray[np.int32]
    dep_on_start: NDArray[np.bool_]
    match: NDArray[np.int32]

    @property
    def sends(self) -> Ints:
        """Indices of the operations that send a message."""
        return np.flatnonzero((self.kind == Kind.SEND) | (self.kind == Kind.PUT))


@dataclass(frozen=True, eq=False, repr=False)
class RolledWorkload:
    """Programs of ranks, stored once for all ranks that have them in common.

    Parameters
    ----------
    name, phase_names, comm_names, notes, step
        As in `Workload`.
    program_of
        int32 [ranks]: index in `programs` of the program of each rank.
    programs
        The programs.
    peers
        int32 [maps, ranks]: peers of all ranks, -1 for ranks without such a message. Two maps of a
        program name different peers for each of its ranks.
    """

    name: str
    program_of: NDArray[np.int32]
    programs: tuple[CommonProgram, ...]
    peers: NDArray[np.int32]
    phase_names: tuple[str, ...]
    comm_names: tuple[str, ...] = ("world",)
    notes: tuple[str, ...] = field(default=())
    step: TrainingStep | None = None

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return len(self.program_of)

    @cached_property
    def num_ops(self) -> int:
        """Number of operations of all ranks."""
        return int(np.array([len(each.kind) for each in self.programs])[self.program_of].sum())

    @cached_property
    def num_messages(self) -> int:
        """Number of messages of all ranks."""
        return int(np.array([len(each.sends) for each in self.programs])[self.program_of].sum())

    def __repr__(self) -> str:
        return (
            f"RolledWorkload({self.name!r}: {self.num_ranks} ranks, {self.num_ops} operations, "
            f"{self.num_messages} messages; {len(self.programs)} programs)"
        )


def joined(programs: Iterable[CommonProgram]) -> CommonProgram:
    """Return programs one behind the other; `dep` and `match` stay indices in each of them."""
    columns = [*zip(*programs, strict=True)]
    offsets = [np.diff(offset) for offset in columns[8]]
    columns[8] = (np.concatenate(([0], np.cumsum(np.concatenate(offsets)))).astype(np.int64),)
    return CommonProgram(*map(np.concatenate, columns))


class _Edges(Rows):
    """Waits of `RolledBuilder`: each row of pairs of equal operations is one wait."""

    def __init__(self, builder: RolledBuilder):
        super().__init__((("op", np.int64), ("on", np.int64), ("start", np.bool_)))
        self._builder = builder
        self._seen: set[tuple[int, int, bool]] = set()

    def columns(self) -> list[NDArray[Any]]:
        """Return the operations that wait, those they wait for, and whether for their start."""
        return [self.column(at) for at in range(3)]

    def extend(self, count: int, *values: Any) -> None:
        """Add waits, one for each rank."""
        ops, others, start = map(np.asarray, values)
        key = ops.astype(np.int64) << 32 | others << 1 | start
        key = np.broadcast_to(key, count)
        if count and (key == key[0]).all():
            key, counts = key[:1], np.array([count])
        else:
            key, counts = np.unique(key, return_counts=True)
        columns = (key >> 32).tolist(), (key % 2**32 >> 1).tolist(), (key & 1).tolist()
        for op, on, at_start, ranks in zip(*columns, counts.tolist(), strict=True):
            if ranks != self._builder.common(op, on):
                raise NotApplicable("ranks with the same operations wait for different ones")
            if (op, on, at_start) not in self._seen:
                self._seen.add((op, on, at_start))
                self.add(op, on, at_start)


class RolledBuilder(WorkloadBuilder):
    """A `WorkloadBuilder` that stores an operation once for all ranks of a call.

    Handles are numbers of such operations, equal for all ranks of a call. Calls must give all their
    ranks the same size, duration and tag; anything else raises `NotApplicable`, and so do puts with
    releases, multicasts, reductions in switches, routing keys and operations of single ranks.
    `build` raises it as well unless there are more operations than `above`.
    """

    max_ops = 2**62

    def __init__(self, num_ranks: int, *, name: str = "", above: int = -1):
        super().__init__(num_ranks, name=name)
        self._above = above
        self._edges: Any = _Edges(self)
        self._sets: dict[bytes, int] = {}
        self._members: list[NDArray[np.bool_]] = []
        self._sizes: list[int] = []
        self._set_of: list[int] = []
        self._maps: dict[bytes, int] = {}
        self._peers: list[NDArray[np.int32]] = []
        self._common: dict[tuple[int, int], int] = {}

    @property
    def num_stored(self) -> int:
        """Number of operations that are stored."""
        return len(self._set_of)

    def common(self, op: int, on: int) -> int:
        """Return the number of ranks that have both operations."""
        key = self._set_of[op], self._set_of[on]
        if key not in self._common:
            both = self._members[key[0]] & self._members[key[1]]
            self._common[key] = int(both.sum())
        return self._common[key]

    def rounds(self, count: int, add: Callable[[int], None]) -> None:
        """Add the rounds of a loop, of which the first two are made by `add`."""
        marks = []
        for step in range(min(count, 2)):
            state = self._last.copy(), self._also.copy()
            marks.append((len(self._set_of), len(self._edges.column(0)), state))
            add(step)
        if count < 3:
            return
        (before, *_), (begin, first, earlier) = marks
        length, more = len(self._set_of) - begin, count - 2
        edges = [column[first:].copy() for column in self._edges.columns()]
        other = [ops for _, ops in self._open]
        for pair in self._streams.values():
            other += [ops for ops in pair if ops is not self._last and ops is not self._also]
        if (
            begin - before != length
            or any(np.any(ops >= before) for ops in other)
            or np.any(edges[1] < before)
            or any(
                np.any(now - was != length * (was >= before))
                for was, now in zip(earlier, (self._last, self._also), strict=True)
            )
        ):  # what follows depends on more than the round before
            for step in range(2, count):
                add(step)
            return
        what = f"{length * more:,} operations that ranks have in common"
        need_memory(_STORED_BYTES * length * more, what, "use fewer rounds")
        columns = [np.array(self._ops.column(at)[begin:]) for at in range(10)]
        self._ops.extend(length * more, *(np.tile(column, more) for column in columns))
        shift = length * np.repeat(np.arange(1, more + 1), len(edges[0]))
        op, on, start = (np.tile(column, more) for column in edges)
        Rows.extend(self._edges, len(shift), op + shift, on + shift, start)
        self._count += more * sum(self._sizes[at] for at in self._set_of[begin:])
        self._set_of += self._set_of[begin:] * more
        for handles in (self._last, self._also):
            handles[handles >= begin] += length * more

    def build(self) -> Any:
        """Return the `RolledWorkload`."""
        if self._count <= self._above:
            raise NotApplicable(f"{self.name or 'the workload'} has {self._count:,} operations")
        columns = [np.asarray(self._ops.column(at)) for at in range(10)]
        edges = self._edges.columns()
        none = np.full(self.num_ranks, NONE, dtype=np.int32)
        peers = np.array(self._peers or [none])
        program_of = np.zeros(self.num_ranks, dtype=np.int64)
        for label in (*self._members, *_first_alike(peers)):
            program_of = refined(program_of, label)
        while True:
            finer = program_of
            for peer in peers:
                finer = refined(finer, np.where(peer < 0, -1, program_of[peer]))
            if finer.max(initial=0) == program_of.max(initial=0):
                break
            program_of = finer
        ranks = [np.flatnonzero(program_of == at) for at in range(int(program_of.max()) + 1)]
        if self._above >= 0 and len(ranks) * self.num_stored > self._count:
            raise NotApplicable("ranks have few operations in common")
        programs = [_program(columns, edges, self._members, mine, peers) for mine in ranks]
        return RolledWorkload(
            name=self.name, program_of=program_of.astype(np.int32), peers=peers,
            programs=_matched(programs, program_of, peers, self.name),
            phase_names=tuple(self._phases), comm_names=tuple(self._comms), notes=tuple(self.notes),
        )  # fmt: skip

    # -- private -----------------------------------------------------------------------------------

    def _add(self, kind: Kind, ranks: ArrayLike, **columns: Any) -> Any:
        """Add one operation for all ranks that wait for the same operations."""
        rank_array = self._ranks(ranks)
        last, also = self._last[rank_array], self._also[rank_array]
        if not np.ndim(ranks) or ((last == last[:1]).all() and (also == also[:1]).all()):
            return super()._add(kind, ranks, **columns)
        label = refined(last, also)
        for mine in [np.flatnonzero(label == each) for each in range(int(label.max()) + 1)]:
            of = {key: value[mine] if np.ndim(value) and len(value) == len(last) else value
                  for key, value in columns.items()}  # fmt: skip
            label[mine] = super()._add(kind, rank_array[mine], **of)
        return label

    def _append(self, rank_array: Ints, *columns: ArrayLike) -> Ints:
        kind, peer, *rest = columns
        count = len(rank_array)
        row = [self._same(value, count) for value in (kind, *rest)]
        if row[0] > Kind.PUT or row[6]:
            raise NotApplicable("routing keys and releases cannot be rolled")
        here = np.zeros(self.num_ranks, dtype=np.bool_)
        here[rank_array] = True
        if np.count_nonzero(here) != count:
            raise NotApplicable("a rank has several operations of one call")
        if (key := here.tobytes()) not in self._sets:
            self._sets[key] = len(self._members)
            self._members.append(here)
            self._sizes.append(count)
        number = NONE
        if row[0] != Kind.CALC:
            to = np.full(self.num_ranks, NONE, dtype=np.int32)
            to[rank_array] = peer
            number = self._maps.setdefault(to.tobytes(), len(self._peers))
            if number == len(self._peers):
                self._peers.append(to)
        if max(len(self._peers), len(self._members)) > _MOST_MAPS:
            raise NotApplicable("ranks have too many different peers")
        self._ops.add(self._sets[key], row[0], number, *row[1:])
        self._set_of.append(self._sets[key])
        self._count += count
        if self._above >= 0 and self.num_stored == _MOST_MAPS > self._count / _LEAST_COMMON:
            raise NotApplicable("ranks have few operations in common")
        return np.full(count, len(self._set_of) - 1, dtype=np.int64)

    @staticmethod
    def _same(value: ArrayLike, count: int) -> Any:
        array = np.asarray(value)
        if array.ndim and (not count or np.any(array != array.reshape(-1)[0])):
            raise NotApplicable(
                "ranks of one call have different sizes, durations or tags; choose, for a "
                "collective, a size that the number of ranks divides"
            )
        return array.reshape(-1)[0] if array.ndim else value

    def _close(self, ops: Ints) -> None:
        for op, count in zip(*np.unique(ops, return_counts=True), strict=True):
            if count < self._sizes[self._set_of[op]]:
                raise NotApplicable("some ranks of a call wait, and others do not")
        super()._close(ops)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotApplicable("single ranks have operations of their own, or switches reduce")

    _add_one = _wait_one = reduce_in_network = in_order = _refuse


def _first_alike(peers: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each map and rank the first map with the same peer of this rank."""
    count = peers.shape[1]
    key = peers.astype(np.int64) * count + np.arange(count)
    _, first, same = np.unique(key, return_index=True, return_inverse=True)
    alike: Ints = (first // count)[same].reshape(peers.shape)
    return alike


def refined(label: NDArray[Any], by: NDArray[Any]) -> Ints:
    """Return numbers of the distinct pairs of two labels, in order of the first and the second."""
    first = np.unique(label, return_inverse=True)[1]
    second = np.unique(by, return_inverse=True)[1]
    key = first * (int(second.max(initial=0)) + 1) + second
    numbers: Ints = np.unique(key, return_inverse=True)[1]
    return numbers


def _program(
    columns: list[NDArray[Any]], edges: list[NDArray[Any]], members: list[NDArray[np.bool_]],
    ranks: Ints, peers: NDArray[np.int32],
) -> CommonProgram:  # fmt: skip
    """Return the program of ranks, with maps of peers that are unique; it has no matches yet."""
    there = np.array([each[ranks[0]] for each in members] or [False])[columns[0]]
    number = np.cumsum(there) - 1
    both = there[edges[0]] & there[edges[1]]
    op, on, start = (edge[both] for edge in edges)
    order = np.argsort(op, kind="stable")
    counts = np.bincount(number[op], minlength=int(there.sum()))
    _, kind, to, size, tag, comm, duration, phase, _, cpu = (column[there] for column in columns)
    first: dict[bytes, int] = {}
    for at in np.unique(to[to >= 0]).tolist():
        to[to == at] = first.setdefault(peers[at, ranks].tobytes(), at)
    return CommonProgram(
        kind, to, size, tag, comm, duration, phase, cpu,
        dep_offset=np.append(0, np.cumsum(counts)), dep=number[on[order]].astype(np.int32),
        dep_on_start=start[order], match=np.full(len(kind), -1, dtype=np.int32),
    )  # fmt: skip


def _matched(
    programs: list[CommonProgram], program_of: Ints, peers: NDArray[np.int32], name: str
) -> tuple[CommonProgram, ...]:
    """Match the sends of each program with the receives of the programs of the peers."""
    members = [np.flatnonzero(program_of == number) for number in range(len(programs))]
    sources = [np.unique(each.peers[each.kind == Kind.RECV]) for each in programs]
    for program, ranks in zip(programs, members, strict=True):
        for to in np.unique(program.peers[program.kind == Kind.SEND]).tolist():
            target = peers[to, ranks]
            number = int(program_of[target[0]])
            other, maps = programs[number], sources[number]
            back = maps[peers[maps, target[0]] == ranks[0]]  # one at most
            fit = len(ranks) == len(members[number]) and np.array_equal(
                peers[back, target[:, np.newaxis]].ravel(), ranks
            )
            sends = np.flatnonzero((program.kind == Kind.SEND) & (program.peers == to))
            receives = np.flatnonzero((other.kind == Kind.RECV) & np.isin(other.peers, back))
            by = [
                ops[np.lexsort((ops, each.tag[ops], each.comm[ops]))]
                for each, ops in ((program, sends), (other, receives))
            ]
            fit = fit and all(
                np.array_equal(getattr(program, key)[by[0]], getattr(other, key)[by[1]])
                for key in ("tag", "comm")
            )
            if not fit or np.any(program.size_bytes[by[0]] > other.size_bytes[by[1]]):
                raise NotApplicable(f"sends of {name or 'the workload'} do not fit its receives")
            program.match[by[0]], other.match[by[1]] = by[1], by[0]
    if any(np.any(each.match[each.kind == Kind.RECV] < 0) for each in programs):
        raise NotApplicable(f"receives of {name or 'the workload'} have no sends")
    return tuple(programs)
