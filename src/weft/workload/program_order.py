"""The programs of ranks under construction, and the dependencies of each new operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from weft.core.arguments import need_memory
from weft.core.errors import InputError
from weft.core.units import MAX_BYTES
from weft.workload.workload import Kind

#: Smallest capacity, in values, of a column whose values differ.
_ROOM = 256


class Rows:
    """Table to which rows are appended, one or many at a time.

    `columns`: name and dtype of each column.
    """

    def __init__(self, columns: Sequence[tuple[str, Any]]):
        self._columns = [_Column(dtype) for _, dtype in columns]
        self._lists: list[list[Any]] = [[] for _ in columns]

    def add(self, *row: Any) -> None:
        """Append one row."""
        for values, value in zip(self._lists, row, strict=True):
            values.append(value)

    def extend(self, count: int, *values: Any) -> None:
        """Append `count` rows; each column takes one value for all rows or one per row."""
        self._flush()
        for column, value in zip(self._columns, values, strict=True):
            column.extend(count, value)

    def _flush(self) -> None:
        if self._lists[0]:
            for column, values in zip(self._columns, self._lists, strict=True):
                column.extend(len(values), values)
                values.clear()

    def column(self, number: int) -> NDArray[Any]:
        """Return a column of all rows so far, with a stride of 0 where all values are equal.

        The array may be a view of a buffer that is moved when the next row is appended.
        """
        self._flush()
        return self._columns[number].view()


class _Column:
    """Values of a column; while all values are equal, only one is stored."""

    def __init__(self, dtype: DTypeLike):
        self._values = np.zeros(1, dtype=dtype)
        self._count = 0
        self._same = True

    def extend(self, count: int, value: Any) -> None:
        array = np.asarray(value, dtype=self._values.dtype)
        if not count:
            return
        if self._same:
            first = array.reshape(-1)[0]
            if not self._count:
                self._values[0] = first
            if first == self._values[0] and (array.ndim == 0 or np.all(array == first)):
                self._count += count
                return
        # Doubling costs little: the system allocates pages on first write, and a resize remaps
        # them.
        if self._same or self._count + count > len(self._values):
            kept = self._values[0]
            self._values.resize(max(2 * (self._count + count), _ROOM), refcheck=False)
            if self._same:
                self._values[: self._count] = kept
                self._same = False
        self._values[self._count : self._count + count] = array
        self._count += count

    def view(self) -> NDArray[Any]:
        if self._same:
            return np.broadcast_to(self._values[0], self._count)
        return self._values[: self._count]


#: Memory of an operation at the end of the construction, beyond what it takes before; memory that
#: it takes before, at least; and number of operations from which this is compared with the
#: available memory, at each doubling.
_MORE_BYTES, _ADDED_BYTES, _UNCHECKED = 64, 40, 2**22
#: Largest number of operations of a workload; operation numbers have 32 bits.
MAX_OPS = 2**31 - 2
#: No operation, or no peer.
NONE = -1

INT32 = np.iinfo(np.int32)
_COLUMNS = (
    ("rank", np.int32),
    ("kind", np.uint8),
    ("peer", np.int32),
    ("size_bytes", np.int64),
    ("tag", np.int32),
    ("comm", np.int32),
    ("duration_ns", np.float64),
    ("phase", np.int32),
    ("release_ns", np.float64),
    ("cpu", np.uint8),
)


class ProgramOrder:
    """Operations of all ranks, with the program order of each rank.

    Parameters
    ----------
    num_ranks
        Number of ranks; ranks are numbered from 0.
    name
        Name of the workload in messages.
    """

    #: Largest number of operations.
    max_ops = MAX_OPS

    def __init__(self, num_ranks: int, *, name: str = ""):
        if not isinstance(num_ranks, int | np.integer) or not 0 < num_ranks <= INT32.max:
            raise InputError(
                f"a workload cannot have {num_ranks} ranks; expected 1 to {INT32.max:,}"
            )
        self.num_ranks = int(num_ranks)
        self.name = name
        self.notes: list[str] = []
        self._ops = Rows(_COLUMNS)
        self._edges = Rows((("op", np.int32), ("on", np.int32), ("start", np.bool_)))
        self._count, self._checked = 0, _UNCHECKED
        self._comms = ["world"]
        self._phases = {"": 0}
        self._phase = 0
        # The one or two operations that the next operation of each rank waits for.
        self._last = np.full(self.num_ranks, NONE, dtype=np.int64)
        self._also = np.full(self.num_ranks, NONE, dtype=np.int64)
        # The same of each further stream, while it is not the current one.
        self._streams: dict[str | None, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        # Non-blocking operations that have no wait yet: ranks and handles.
        self._open: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        # The same for operations that were added one at a time: handles of each rank.
        self._open_of: dict[int, dict[int, None]] = {}
        # First handle, number of sends and kind of each multicast.
        self._multicasts: list[tuple[int, int, int]] = []
        # Sends of reductions in switches, and the number of the tree of each.
        self._trees: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._released = self._uses_cpus = False
        # Number of tags reserved on each communicator, whether one is in use now, and whether
        # other messages have tags below 0.
        self._reserved: dict[int, int] = {}
        self._reserving = self._negative = False

    @property
    def num_ops(self) -> int:
        """Number of operations so far, which is the handle of the next operation."""
        return self._count

    @property
    def num_stored(self) -> int:
        """Number of operations that are stored: of a `RolledBuilder`, one for many ranks."""
        return self._count

    @contextmanager
    def stream(self, name: str | None) -> Iterator[None]:
        """Add the operations of the context to another sequence of each rank, as CUDA's streams do.

        `name`: the stream; None for one of this context only.

        Operations of a stream wait for those before them in the stream, and for those of other
        streams only by `wait` or `requires`. `waitall` includes all streams.
        """
        none = np.full(self.num_ranks, NONE, dtype=np.int64)
        outside = self._last, self._also
        self._last, self._also = self._streams.get(name, (none, none.copy()))
        try:
            yield
        finally:
            if name is not None:
                self._streams[name] = self._last, self._also
            self._last, self._also = outside

    def in_order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all handles by rank, then program order: the order of operations in a workload.

        Returns
        -------
        ``offset``, int64 [ranks + 1], and ``handles``, int64 [ops]: the operations of rank ``r``
        have the handles ``handles[offset[r]:offset[r + 1]]``.
        """
        rank = self._ops.column(0)
        offset = np.zeros(self.num_ranks + 1, dtype=np.int64)
        np.cumsum(np.bincount(rank, minlength=self.num_ranks), out=offset[1:])
        return offset, np.argsort(rank, kind="stable")

    def requires(self, op: ArrayLike, on: ArrayLike, *, start: ArrayLike = False) -> None:
        """Let operation `op` wait for the end, or only for the start, of operation `on`.

        Each argument is one value or an array with one value per pair of operations.

        Raises
        ------
        InputError
            When a handle is unknown; `build` checks that both operations are of one rank.
        """
        if isinstance(op, int | np.integer) and isinstance(on, int | np.integer):
            self._edges.add(self._known_one(op), self._known_one(on), start)
            return
        ops, others = self._known(op).ravel(), self._known(on).ravel()
        if len(ops) != len(others) and 1 not in {len(ops), len(others)}:
            raise InputError(
                f"{len(ops)} operations cannot wait for {len(others)} others; expected equal "
                "numbers, or one operation on one side"
            )
        ops, others = np.broadcast_arrays(ops, others)
        self._edges.extend(len(ops), ops, others, self._each(start, len(ops), "start"))

    def wait(self, ranks: ArrayLike, handles: ArrayLike) -> None:
        """Let the next operation of each rank also wait for the operations of given handles.

        Parameters
        ----------
        ranks
            One rank or several.
        handles
            Handles, [ranks] or [k, ranks], or [k] for a single rank; -1 for no operation.

        Raises
        ------
        InputError
            When a rank or handle is unknown, or the shapes do not match.
        """
        if isinstance(ranks, int | np.integer) and 0 <= ranks < self.num_ranks:
            self._wait_one(int(ranks), handles)
            return
        rank_array = self._ranks(ranks)
        ops = _numbers(handles, "handles")
        if np.ndim(ranks) == 0:
            ops = ops.reshape(-1, 1)
        ops = np.atleast_2d(ops)
        if ops.ndim > 2 or ops.shape[1] != len(rank_array):
            raise InputError(f"handles of shape {ops.shape} do not match {len(rank_array)} ranks")
        ops = self._known(ops, none=True)
        if self._open_of:
            for rank, column in zip(rank_array.tolist(), ops.T.tolist(), strict=True):
                for handle in column:
                    self._open_of.get(rank, {}).pop(handle, None)
        self._close(ops[ops != NONE])
        self._join(rank_array, ops)

    def waitall(self, ranks: ArrayLike | None = None) -> None:
        """Let ranks wait for all their non-blocking operations that have no wait yet.

        Parameters
        ----------
        ranks
            One rank or several; all ranks when left out.
        """
        rank_array = np.arange(self.num_ranks) if ranks is None else self._ranks(ranks)
        chosen = np.zeros(self.num_ranks, dtype=np.bool_)
        chosen[rank_array] = True
        ranks_open, ops_open, rest = [], [], []
        for rank, op in self._open:
            mine = chosen[rank]
            ranks_open.append(rank[mine])
            ops_open.append(op[mine])
            if not mine.all():
                rest.append((rank[~mine], op[~mine]))
        self._open = rest
        for single in [rank for rank in self._open_of if chosen[rank]]:
            handles = np.fromiter(self._open_of.pop(single), dtype=np.int64)
            ranks_open.append(np.full(len(handles), single))
            ops_open.append(handles)
        if not ranks_open:
            return
        rank, op = np.concatenate(ranks_open), np.concatenate(ops_open)
        waits = np.unique(rank)
        if not len(waits):
            return
        joins = self._add(Kind.CALC, waits)
        join_of_rank = np.empty(self.num_ranks, dtype=np.int64)
        join_of_rank[waits] = joins
        self._edges.extend(len(op), join_of_rank[rank], op, False)

    # -- private -----------------------------------------------------------------------------------

    def _ranks(self, ranks: ArrayLike) -> NDArray[np.int64]:
        """Return the ranks as an array, checked to exist and to be distinct."""
        rank_array = np.atleast_1d(_numbers(ranks, "ranks"))
        wrong = rank_array[(rank_array < 0) | (rank_array >= self.num_ranks)]
        if len(wrong):
            raise InputError(
                f"there is no rank {wrong[0]} in {self.name or 'the workload'}; "
                f"ranks are 0 to {self.num_ranks - 1}"
            )
        if (
            len(rank_array) > 1
            and np.any(np.diff(rank_array) <= 0)
            and len(np.unique(rank_array)) < len(rank_array)
        ):
            raise InputError("a rank is listed twice in one call; each rank takes one operation")
        return rank_array

    def _known(self, handles: ArrayLike, *, none: bool = False) -> NDArray[np.int64]:
        """Return handles as an array, checked to exist; -1 is allowed with `none`."""
        ops = _numbers(handles, "handles")
        wrong = (ops < (NONE if none else 0)) | (ops >= self._count)
        if wrong.any():
            raise InputError(f"no operation has the handle {ops[wrong][0]}")
        return ops.astype(np.int64)

    def _known_one(self, handle: int | np.integer[Any]) -> int:
        """Return a single handle, checked to exist, without making an array."""
        if not 0 <= handle < self._count:
            raise InputError(f"no operation has the handle {handle}")
        return int(handle)

    @staticmethod
    def _each(values: ArrayLike, count: int, what: str, *, integers: bool = False) -> NDArray[Any]:
        """Return `count` values, given as one value for all operations or one for each."""
        try:
            array = np.asarray(values)
        except ValueError:
            raise InputError(f"{what} {values!r} is neither a number nor an array") from None
        if array.ndim and array.shape not in {(count,), (1,)}:
            raise InputError(
                f"{what}: array of shape {array.shape}; expected a value for each of {count} ranks"
            )
        if integers and array.size and array.dtype.kind not in "iu":
            raise InputError(f"{what} {values!r} is not a whole number")
        return np.broadcast_to(array, count)

    def _message(
        self,
        kind: Kind,
        ranks: ArrayLike,
        peer: ArrayLike,
        size_bytes: ArrayLike,
        tag: ArrayLike,
        comm: int,
        blocking: bool | None,
        after: Iterable[int] | None,
        release_ns: ArrayLike = 0.0,
    ) -> Any:
        self._check_comm(comm)
        self._check(peer, 0, self.num_ranks - 1, ranks, "peer", "ranks are")
        self._check(size_bytes, 0, MAX_BYTES, ranks, "size in bytes", "sizes are")
        self._check(tag, INT32.min, INT32.max, ranks, "tag", "tags are")
        if kind != Kind.PUT:
            self._refuse_reserved(tag)
        now = isinstance(release_ns, float | np.floating) and release_ns == 0.0
        if not now and np.any(np.asarray(release_ns) != 0):
            self._check(release_ns, 0, np.finfo(np.float64).max, ranks, "release time", "times are")
            self._released = True
        return self._add(
            kind, ranks, peer=peer, size_bytes=size_bytes, tag=tag, comm=comm,
            release_ns=release_ns, blocking=blocking, after=after,
        )  # fmt: skip

    def _key(self, kind: Kind, ranks: ArrayLike, key: ArrayLike, comm: int, tag: ArrayLike) -> Any:
        self._check_comm(comm)
        self._check(key, INT32.min, INT32.max, ranks, "routing key", "keys are")
        self._check(tag, INT32.min, INT32.max, ranks, "tag", "tags are")
        return self._add(kind, ranks, size_bytes=tag, tag=key, comm=comm)

    def _check_comm(self, comm: int) -> None:
        if not isinstance(comm, int | np.integer) or not 0 <= comm < len(self._comms):
            raise InputError(f"there is no communicator {comm} among {len(self._comms)}")

    def _refuse_reserved(self, tags: ArrayLike) -> None:
        """Refuse tags below 0, which could match messages of a collective."""
        if self._reserving:
            return
        if tags >= 0 if isinstance(tags, int) else not np.any(np.asarray(tags) < 0):
            return
        if self._reserved:
            raise InputError(
                f"tag {np.min(tags)}: tags below 0 are reserved for the collectives of the "
                "workload; use tags of 0 or more"
            )
        self._negative = True

    def _check(
        self, values: ArrayLike, low: float, high: float, ranks: ArrayLike, what: str, are: str
    ) -> None:
        if isinstance(values, int | np.integer) and low <= values <= high:
            return  # one number in range, without the cost of an array
        rank_array = np.atleast_1d(ranks)
        array = self._each(values, len(rank_array), what)
        # An int of more than 64 bits is an object array; the check of the range refuses it.
        if array.dtype.kind not in "iuf" and type(values) is not int:
            raise InputError(f"{what} {values!r} is not a number")
        part = array != np.floor(array) if array.dtype.kind == "f" else np.zeros(1, dtype=bool)
        if what != "release time" and part.any():
            at = int(np.argmax(part))
            raise InputError(f"rank {rank_array[at]}: {what} {array[at]} is not a whole number")
        bad = ~np.asarray((array >= low) & (array <= high), dtype=np.bool_)
        if bad.any():
            at = int(np.argmax(bad))
            value = array[at]
            raise InputError(f"rank {rank_array[at]}: {what} {value}; {are} {low:g} to {high:g}")

    def _check_calc(self, count: int, duration_ns: ArrayLike, cpu: ArrayLike) -> None:
        if (
            isinstance(duration_ns, float | np.floating | int | np.integer)
            and isinstance(cpu, int | np.integer)
            and 0 <= duration_ns < np.inf
            and 0 <= cpu <= 255
        ):
            return
        durations, processor = (
            self._each(values, count, what)
            for values, what in ((duration_ns, "duration"), (cpu, "processor"))
        )
        if durations.dtype.kind not in "iuf":
            raise InputError(f"a duration of {duration_ns!r} ns is not possible")
        possible = (durations >= 0) & (durations < np.inf)
        if not possible.all():
            wrong = durations[int(np.argmin(possible))]
            raise InputError(f"a duration of {wrong} ns is not possible")
        integers = processor.dtype.kind in "iu" or not processor.size
        if not integers or np.any((processor < 0) | (processor > 255)):
            raise InputError(f"processor {cpu!r}; processors are 0 to 255")

    def _add(
        self,
        kind: Kind,
        ranks: ArrayLike,
        *,
        peer: ArrayLike = NONE,
        size_bytes: ArrayLike = 0,
        tag: ArrayLike = 0,
        comm: int = 0,
        duration_ns: ArrayLike = 0.0,
        release_ns: ArrayLike = 0.0,
        cpu: ArrayLike = 0,
        blocking: bool | None = True,
        after: Iterable[int] | None = None,
    ) -> Any:
        """Add one operation to each program; `blocking` is None if the caller adds the wait."""
        self._check_calc(np.size(ranks), duration_ns, cpu)
        if isinstance(ranks, int | np.integer):
            one = (peer, size_bytes, tag, duration_ns, release_ns, cpu)
            peer, size_bytes, tag, duration_ns, release_ns, cpu = (
                value if isinstance(value, int | float | np.generic) else np.asarray(value).item()
                for value in one
            )
            return self._add_one(
                int(ranks), kind, peer, size_bytes, tag, comm, duration_ns, release_ns, cpu,
                blocking, after,
            )  # fmt: skip
        if after is not None:
            raise InputError("'after' is for operations of one rank")
        rank_array = self._ranks(ranks)
        ops = self._append(
            rank_array, kind, peer, size_bytes, tag, comm, duration_ns, self._phase, release_ns, cpu
        )
        for before in (self._last[rank_array], self._also[rank_array]):
            waits = before != NONE
            if waits.any():
                self._edges.extend(int(waits.sum()), ops[waits], before[waits], False)
        if blocking:
            self._last[rank_array], self._also[rank_array] = ops, NONE
        elif blocking is not None:
            self._open.append((rank_array, ops))
        return ops

    def _add_one(
        self,
        rank: int,
        kind: Kind,
        peer: Any,
        size_bytes: Any,
        tag: Any,
        comm: int,
        duration_ns: Any,
        release_ns: Any,
        cpu: Any,
        blocking: bool | None,
        after: Iterable[int] | None,
    ) -> int:
        if not 0 <= rank < self.num_ranks:
            self._ranks(rank)
        self._reserve(1)
        op = self._count - 1
        self._ops.add(
            rank, kind, peer, size_bytes, tag, comm, duration_ns, self._phase, release_ns, cpu
        )
        if after is not None:
            for before in after:
                self.requires(op, before)
            return op
        for before in (self._last[rank], self._also[rank]):
            if before != NONE:
                self._edges.add(op, before, False)
        if blocking:
            self._last[rank], self._also[rank] = op, NONE
        elif blocking is not None:
            self._open_of.setdefault(rank, {})[op] = None
        return op

    def _append(self, rank_array: NDArray[np.int64], *columns: ArrayLike) -> NDArray[np.int64]:
        """Append an operation to the program of each rank, and return the handles."""
        first = self._count
        self._reserve(len(rank_array))
        self._ops.extend(len(rank_array), rank_array, *columns)
        return np.arange(first, first + len(rank_array), dtype=np.int64)

    def _reserve(self, count: int) -> None:
        self._count += count
        if self._count > self.max_ops:
            raise InputError(f"{self.name}: more than {self.max_ops:,} operations")
        if self._count >= self._checked:
            self._checked = 2 * self._count
            self.need_memory_for(0)

    def need_memory_for(self, more: int) -> None:
        """Refuse operations, those added and `more`, that do not fit in memory."""
        if self.max_ops == MAX_OPS:  # not of rolled workloads
            count = self._count + more
            need_memory(
                _MORE_BYTES * count + _ADDED_BYTES * more,
                f"{self.name or 'a workload'} of {count:,} operations or more",
                "use fewer ranks or shorter programs",
            )

    def _wait_pair(self, ranks: NDArray[np.int64], handles: NDArray[np.int64]) -> None:
        """Let each rank's next operation wait only for the two `handles` of the rank.

        The operations of these handles wait for all earlier ones.
        """
        first = np.where(handles[0] != NONE, handles[0], handles[1])
        second = np.where(handles[0] != NONE, handles[1], NONE)
        moves = first != NONE
        self._last[ranks[moves]], self._also[ranks[moves]] = first[moves], second[moves]

    def _join(self, ranks: NDArray[np.int64], handles: NDArray[np.int64]) -> None:
        """Let each rank's next operation also wait for `handles`.

        An empty calculation combines more than two dependencies.
        """
        if len(handles) == 1:
            free = (self._last[ranks] == NONE) | (self._also[ranks] == NONE)
            if free.all():
                ops = handles[0]
                empty = self._last[ranks] == NONE
                valid = ops != NONE
                self._last[ranks[empty & valid]] = ops[empty & valid]
                self._also[ranks[~empty & valid]] = ops[~empty & valid]
                return
        waits = (handles != NONE).any(axis=0)
        if not waits.any():
            return
        waiting, some = ranks[waits], handles[:, waits]
        joins = np.atleast_1d(self._add(Kind.CALC, waiting))
        valid = some != NONE
        self._edges.extend(
            int(valid.sum()), np.broadcast_to(joins, some.shape)[valid], some[valid], False
        )

    def _wait_one(self, rank: int, handles: ArrayLike) -> None:
        """Do what `wait` does, for one rank."""
        known: list[int] = self._known(handles, none=True).ravel().tolist()
        some = [handle for handle in known if handle != NONE]
        if not some:
            return
        mine = self._open_of.get(rank, {})
        others = [handle for handle in some if handle not in mine]
        for handle in some:
            mine.pop(handle, None)
        if others:
            self._close(np.array(others))
        if len(some) == 1 and self._also[rank] == NONE:
            before = self._last if self._last[rank] == NONE else self._also
            before[rank] = some[0]
            return
        join = self._add(Kind.CALC, rank)
        for handle in some:
            self._edges.add(join, handle, False)

    def _close(self, ops: NDArray[np.int64]) -> None:
        """Remove `ops`, which now have a wait, from the open operations."""
        if not self._open or not len(ops):
            return
        rest = []
        named = np.sort(ops)  # sorted once: the loop may have as many iterations as `ops`
        for rank, op in self._open:
            kept = named[np.minimum(np.searchsorted(named, op), len(named) - 1)] != op
            if kept.any():
                rest.append((rank[kept], op[kept]))
        self._open = rest


def _numbers(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """Return whole numbers as an array."""
    try:
        array = np.asarray(values)
    except ValueError:  # nested lists of unequal lengths
        raise InputError(f"{what} must be whole numbers, not {values!r}") from None
    if array.dtype.kind not in "iu" and array.size:
        raise InputError(f"{what} must be whole numbers, not {values!r}")
    return array.astype(np.int64)
