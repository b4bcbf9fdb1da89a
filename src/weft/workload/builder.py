"""`WorkloadBuilder`, with which users and all front ends construct a `Workload`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError
from weft.core.units import MAX_BYTES, MAX_TOTAL_BYTES
from weft.kernels.program.dag import by_key, edge_runs
from weft.workload.matching import check_order, match_messages
from weft.workload.program_order import INT32, NONE, ProgramOrder
from weft.workload.workload import Kind, Multicast, Workload


class WorkloadBuilder(ProgramOrder):
    """Builder of a workload: appends operations to the programs of ranks.

    Every method that adds an operation takes one rank or an array of distinct ranks and adds one
    operation to the program of each rank; other arguments are one value for all ranks or an array
    of one value per rank. The method returns the handles of the operations: an int for one rank,
    else int64 [ranks].

    A rank's next operation waits for the rank's last blocking operations (`calc`, `send`, `recv`,
    `sendrecv`) and for operations passed to `wait` or covered by `waitall`. An operation with
    ``after`` is outside program order: it waits only for the operations in ``after``, later
    operations do not wait for it, and `waitall` does not include it; `wait` and ``after`` may name
    its handle. Peers are world ranks, whatever the communicator.

    Parameters
    ----------
    num_ranks
        Number of ranks; ranks are numbered from 0.
    name
        Name of the workload in messages and results.

    Examples
    --------
    >>> from weft.workload import WorkloadBuilder
    >>> builder = WorkloadBuilder(2, name="ping-pong")
    >>> _ = builder.rank(0).send(1, 4096).recv(1, 4096)
    >>> _ = builder.rank(1).recv(0, 4096).send(0, 4096)
    >>> builder.build()
    Workload('ping-pong': 2 ranks, 4 operations, 2 messages)
    """

    # -- operations in program order ---------------------------------------------------------------

    def calc(
        self,
        ranks: ArrayLike,
        duration_ns: ArrayLike,
        *,
        cpu: ArrayLike = 0,
        after: Iterable[int] | None = None,
    ) -> Any:
        """Add a calculation.

        Parameters
        ----------
        ranks
            One rank or several.
        duration_ns
            Duration of the calculation.
        cpu
            Processor of the rank, 0 to 255; it runs one calculation at a time.
        after
            Handles of the operations to wait for, instead of the rank's last operations; only for a
            single rank.

        Raises
        ------
        InputError
            If a rank does not exist, a duration is negative or infinite, or a processor is outside
            0 to 255.
        """
        if np.any(np.asarray(cpu) != 0):
            self._uses_cpus = True
        return self._add(Kind.CALC, ranks, duration_ns=duration_ns, cpu=cpu, after=after)

    def send(
        self,
        ranks: ArrayLike,
        to: ArrayLike,
        size_bytes: ArrayLike,
        tag: ArrayLike = 0,
        comm: int = 0,
        *,
        after: Iterable[int] | None = None,
    ) -> Any:
        """Add a blocking send, which ends when its buffer may be reused.

        Raises
        ------
        InputError
            If a rank or communicator does not exist, a size is below 0 or above 2^56, or a tag is
            below 0 in a workload with collectives, for which tags below 0 are reserved.
        """
        return self._message(Kind.SEND, ranks, to, size_bytes, tag, comm, True, after)

    def recv(
        self,
        ranks: ArrayLike,
        source: ArrayLike,
        size_bytes: ArrayLike,
        tag: ArrayLike = 0,
        comm: int = 0,
        *,
        after: Iterable[int] | None = None,
    ) -> Any:
        """Add a blocking receive of at most `size_bytes`. Raises what `send` raises."""
        return self._message(Kind.RECV, ranks, source, size_bytes, tag, comm, True, after)

    def isend(
        self,
        ranks: ArrayLike,
        to: ArrayLike,
        size_bytes: ArrayLike,
        tag: ArrayLike = 0,
        comm: int = 0,
        *,
        after: Iterable[int] | None = None,
    ) -> Any:
        """Add a non-blocking send; `wait` completes it. Raises what `send` raises."""
        return self._message(Kind.SEND, ranks, to, size_bytes, tag, comm, False, after)

    def irecv(
        self,
        ranks: ArrayLike,
        source: ArrayLike,
        size_bytes: ArrayLike,
        tag: ArrayLike = 0,
        comm: int = 0,
        *,
        after: Iterable[int] | None = None,
    ) -> Any:
        """Add a non-blocking receive; `wait` completes it. Raises what `send` raises."""
        return self._message(Kind.RECV, ranks, source, size_bytes, tag, comm, False, after)

    def put(
        self,
        ranks: ArrayLike,
        to: ArrayLike,
        size_bytes: ArrayLike,
        tag: ArrayLike = 0,
        *,
        release_ns: ArrayLike = 0.0,
        after: Iterable[int] | None = None,
    ) -> Any:
        """Add a non-blocking put that starts at `release_ns` or later. Raises what `send` does."""
        return self._message(Kind.PUT, ranks, to, size_bytes, tag, 0, False, after, release_ns)

    def multicast(
        self,
        rank: int,
        to: ArrayLike,
        size_bytes: int,
        tag: int = 0,
        comm: int = 0,
        *,
        test: bool = False,
    ) -> NDArray[np.int64]:
        """Add sends of one message to several ranks, which the network copies; wait for them.

        Only the flit level has such messages (docs/flit-level.md, Multicasts).

        Parameters
        ----------
        rank
            The rank that sends.
        to
            Distinct ranks that receive the message, each with a `recv` of its own; `rank` may be
            one of them.
        size_bytes, tag, comm
            As for `send`.
        test
            Whether the message, which has no bytes, arrives only when the receives of all its ranks
            have been posted.

        Returns
        -------
        int64 [to]: handles of the sends.

        Raises
        ------
        InputError
            In the cases of `send`, if `to` has no rank or names one twice, or a test has bytes.
        """
        peers = self._ranks(to)
        if not len(peers):
            raise InputError("a multicast needs a rank that receives it")
        if test and size_bytes:
            raise InputError(f"a multicast that is a test has no bytes, not {size_bytes}")
        sends = [
            self._message(Kind.SEND, rank, peer, size_bytes, tag, comm, None, None)
            for peer in peers.tolist()
        ]
        self._multicasts.append((sends[0], len(sends), Multicast.TEST if test else Multicast.DATA))
        handles = np.array(sends, dtype=np.int64)
        self.wait(rank, handles)
        return handles

    def reduce_in_network(self, sends: ArrayLike, tree: ArrayLike = 0) -> None:
        """Let sends stand for reductions in switches (docs/flow-level.md, Reductions in switches).

        Such a send uses all links between the members of its tree in both directions, as long as it
        departs. One send of each reduction has its bytes; those by which further members learn of
        the result have none. Members tell the sender by ordinary messages that they are ready.

        Parameters
        ----------
        sends
            int [sends]: handles of the sends.
        tree
            int [sends], from 0: number of the tree of each send among those of this call. The
            members of a tree are the ranks of its sends and their peers.

        Raises
        ------
        InputError
            If a handle is unknown, or a number is below 0; by `build`, if one is of no send.
        """
        handles = self._known(np.atleast_1d(sends))
        number = self._each(tree, len(handles), "tree", integers=True).astype(np.int64)
        if np.any(number < 0):
            raise InputError("a tree has a number below 0")
        before = 1 + max((int(numbers.max(initial=-1)) for _, numbers in self._trees), default=-1)
        self._trees.append((handles, before + number))

    def sendrecv(
        self,
        ranks: ArrayLike,
        to: ArrayLike,
        send_bytes: ArrayLike,
        source: ArrayLike,
        recv_bytes: ArrayLike,
        tag: ArrayLike = 0,
        comm: int = 0,
    ) -> None:
        """Add a concurrent send and receive, and block until both end.

        Parameters
        ----------
        to, source
            Ranks to send to and to receive from; -1 (MPI_PROC_NULL) for no send or no receive.

        Raises
        ------
        InputError
            In the cases of `send`.
        """
        rank_array = self._ranks(ranks)
        target, origin = (
            self._each(peer, len(rank_array), "peer", integers=True).astype(np.int64)
            for peer in (to, source)
        )
        handles = np.full((2, len(rank_array)), NONE, dtype=np.int64)
        sides = (
            (Kind.RECV, origin, recv_bytes, origin != NONE),
            (Kind.SEND, target, send_bytes, target != NONE),
        )
        for row, (kind, peer, size, active) in enumerate(sides):
            if active.any():
                sizes = self._each(size, len(rank_array), "size in bytes")[active]
                tags = self._each(tag, len(rank_array), "tag")[active]
                handles[row, active] = self._message(
                    kind, rank_array[active], peer[active], sizes, tags, comm, None, None
                )
        self._wait_pair(rank_array, handles)

    def key_request(
        self, ranks: ArrayLike, key: ArrayLike, comm: int = 0, tag: ArrayLike = 0
    ) -> Any:
        """Add a request of a routing key for a communicator (RODRequest)."""
        return self._key(Kind.KEY_REQUEST, ranks, key, comm, tag)

    def key_done(self, ranks: ArrayLike, key: ArrayLike, comm: int = 0, tag: ArrayLike = 0) -> Any:
        """Add the return of a routing key (RODDone)."""
        return self._key(Kind.KEY_DONE, ranks, key, comm, tag)

    # -- operations outside program order, tags, phases, communicators -----------------------------

    def operations(
        self,
        ranks: ArrayLike,
        kind: ArrayLike,
        *,
        peer: ArrayLike = NONE,
        size_bytes: ArrayLike = 0,
        tag: ArrayLike = 0,
        comm: ArrayLike = 0,
        duration_ns: ArrayLike = 0.0,
        cpu: ArrayLike = 0,
        phase: ArrayLike | None = None,
        release_ns: ArrayLike = 0.0,
    ) -> NDArray[np.int64]:
        """Add many operations at once; their only dependencies are those added by `requires`.

        Parameters
        ----------
        ranks
            [ops]: rank of each operation; the operations of one rank are in program order.
        kind
            [ops]: kind of each operation, a value of `Kind`.
        peer, size_bytes, tag, comm
            [ops]: peer, size, tag and communicator of a message. For a key operation, `tag` is the
            key and `size_bytes` is the tag. Ignored for calculations.
        duration_ns, cpu
            [ops]: duration and processor of a calculation.
        phase
            [ops]: phase of each operation. Phases are numbered from 1 in the order in which calls
            of `phase` first name them; 0 is no phase. If left out, the current phase.
        release_ns
            [ops]: earliest start of each operation, as for `put`.

        Returns
        -------
        int64 [ops]: handles of the operations.

        Raises
        ------
        InputError
            In the cases of `send` and `calc`.
        """
        rank_array = np.asarray(ranks).reshape(-1)
        self._ranks(np.unique(rank_array))
        rank_array = rank_array.astype(np.int64)
        kinds = self._each(kind, len(rank_array), "kind", integers=True)
        for wrong in kinds[(kinds < 0) | (kinds > max(Kind))][:1]:
            raise InputError(f"kind {wrong}; kinds are 0 to {int(max(Kind))}")
        kinds = kinds.astype(np.uint8)
        comms = self._each(comm, len(rank_array), "communicator", integers=True)
        for number in comms[(comms < 0) | (comms >= len(self._comms))][:1]:
            raise InputError(f"there is no communicator {number} among {len(self._comms)}")
        if phase is not None and not np.isin(phase, np.arange(len(self._phases))).all():
            raise InputError(f"phase {phase!r}; phases are 0 to {len(self._phases) - 1}")
        message = kinds != Kind.CALC
        between = message & (kinds <= Kind.PUT)
        keys = message & ~between

        def checked(
            some: NDArray[np.bool_], values: ArrayLike, low: float, high: float, what: str, are: str
        ) -> Any:
            """Return one value per operation, after checking the range of those at `some`."""
            array = self._each(values, len(rank_array), what)
            self._check(array[some], low, high, rank_array[some], what, are)
            return array

        peers = checked(between, peer, 0, self.num_ranks - 1, "peer", "ranks are")
        if np.any(np.asarray(release_ns) != 0):
            self._check(
                release_ns, 0, np.finfo(np.float64).max, rank_array, "release time", "times are"
            )
            self._released = True
        sizes = checked(between, size_bytes, 0, MAX_BYTES, "size in bytes", "sizes are")
        tags = checked(between, tag, INT32.min, INT32.max, "tag", "tags are")
        if keys.any():
            checked(keys, tag, INT32.min, INT32.max, "routing key", "keys are")
            checked(keys, size_bytes, INT32.min, INT32.max, "tag", "tags are")
        self._refuse_reserved(tags[between & (kinds != Kind.PUT)])
        durations = np.where(message, 0.0, self._each(duration_ns, len(rank_array), "duration"))
        processors = np.where(message, 0, self._each(cpu, len(rank_array), "processor"))
        self._check_calc(len(rank_array), durations, processors)
        self._uses_cpus |= bool(processors.any())
        return self._append(
            rank_array, kinds, np.where(between, peers, NONE), np.where(message, sizes, 0),
            np.where(message, tags, 0), np.where(message, comms, 0), durations,
            self._phase if phase is None else phase, release_ns, processors,
        )  # fmt: skip

    def rounds(self, count: int, add: Callable[[int], None]) -> None:
        """Add the rounds of a loop: call `add` with the number of each round, from 0.

        Rounds after the first one must add the same operations with equal waits for operations of
        the round before, so that rolled workloads store one of them.
        """
        for step in range(count):
            add(step)

    @contextmanager
    def reserved_tag(self, comm: int) -> Iterator[int]:
        """Reserve a tag of a communicator for the operations added in the context.

        The n-th reserved tag of a communicator is -n; after 2^31 reservations, tags are reused. A
        workload with reserved tags has no other messages with tags below 0, so that no other
        message can match a message of a collective.

        Raises
        ------
        InputError
            When the workload already has other messages with tags below 0; later ones are refused
            when they are added.
        """
        if self._negative:
            raise InputError(
                "the workload has messages with tags below 0, which are reserved for collectives; "
                "use tags of 0 or more"
            )
        before = self._reserved.get(comm, 0)
        self._reserved[comm] = before % 2**31 + 1
        self._reserving = True
        try:
            yield -self._reserved[comm]
        finally:
            self._reserving = False

    def phase(self, name: str) -> None:
        """Assign the operations added from now on to a phase; results give times for each phase."""
        self._phase = self._phases.setdefault(name, len(self._phases))

    def communicator(self, members: ArrayLike, name: str = "") -> int:
        """Create a communicator, whose messages match only each other, and return its number.

        Raises
        ------
        InputError
            If a rank does not exist or is listed twice.
        """
        self._ranks(np.atleast_1d(members))
        self._comms.append(name or str(len(self._comms)))
        return len(self._comms) - 1

    def rank(self, rank: int) -> RankProgram:
        """Return the program of one rank, for chained calls."""
        self._ranks(rank)
        return RankProgram(self, rank)

    def build(self) -> Workload:
        """Return the workload with its sends and receives matched.

        Raises
        ------
        InputError
            If a send or receive has no match, a message is larger than its receive, a dependency
            is between ranks, or operations wait for each other in a cycle; the error names the
            operations and their ranks. Also if the messages have more than 2^62 bytes in all.
        """
        # Columns are reordered one at a time, which limits peak memory for millions of operations.
        # Numba would compile these kernels again for the read-only arrays of constant columns.
        offset, order = by_key(
            np.require(self._ops.column(0), requirements=["C", "W"]), self.num_ranks
        )
        number = np.empty(len(order), dtype=np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        dep_offset, dep, on_start = edge_runs(
            number,
            *(np.require(self._edges.column(at), requirements=["C", "W"]) for at in range(3)),
        )
        multicast = np.zeros(len(order) if self._multicasts else 0, dtype=np.uint8)
        for handle, count, what in self._multicasts:
            first = int(number[handle])
            multicast[first : first + count] = Multicast.FURTHER
            multicast[first] = what
        tree = np.full(len(order) if self._trees else 0, -1, dtype=np.int32)
        for handles, numbers in self._trees:
            tree[number[handles]] = numbers
        del number
        kind, peer, size, duration = (_ordered(self._ops.column(at), order) for at in (1, 2, 3, 6))
        tag, comm, phase = (
            column if column.strides == (0,) else column[order]
            for column in map(self._ops.column, (4, 5, 7))
        )
        release = _ordered(self._ops.column(8), order) if self._released else np.zeros(0)
        none = np.zeros(0, dtype=np.uint8)
        cpu = _ordered(self._ops.column(9), order) if self._uses_cpus else none
        del order
        if len(tree) and np.any(kind[tree >= 0] != Kind.SEND):
            raise InputError("a reduction in switches has an operation that is not a send")
        unmatched = Workload(
            name=self.name,
            op_offset=offset,
            kind=kind,
            peer=peer,
            size_bytes=size,
            tag=tag,
            comm=comm,
            duration_ns=duration,
            phase=phase,
            phase_names=tuple(self._phases),
            dep_offset=dep_offset,
            dep=dep,
            dep_on_start=on_start,
            match=np.zeros(0, dtype=np.int32),
            release_ns=release,
            cpu=cpu,
            multicast=multicast,
            tree=tree,
            comm_names=tuple(self._comms),
            notes=tuple(self.notes),
        )
        sent = float(size[(kind == Kind.SEND) | (kind == Kind.PUT)].sum(dtype=np.float64))
        if sent > MAX_TOTAL_BYTES:
            raise InputError(
                f"the messages of {self.name or 'the workload'} have {sent:.3g} bytes together; "
                f"at most {MAX_TOTAL_BYTES:.3g} can be counted"
            )
        check_order(unmatched)
        return match_messages(unmatched)


def _ordered(column: NDArray[Any], order: NDArray[np.int32]) -> NDArray[Any]:
    """Return a column in another order; memory pages of an all-zero column are never written."""
    if column.strides == (0,) and len(column) and not column[0]:
        return np.zeros(len(column), dtype=column.dtype)
    return column[order]


class RankProgram:
    """Program of one rank: `WorkloadBuilder`'s methods without the argument of the rank.

    Methods that add blocking operations return the program itself, so that calls chain; `isend`,
    `irecv` and `put` return a handle for `wait`.
    """

    def __init__(self, builder: WorkloadBuilder, rank: int):
        self._builder = builder
        self._rank = int(rank)

    def calc(self, duration_ns: float, *, cpu: int = 0) -> RankProgram:
        """Add a calculation."""
        self._builder.calc(self._rank, duration_ns, cpu=cpu)
        return self

    def send(self, to: int, size_bytes: int, tag: int = 0, comm: int = 0) -> RankProgram:
        """Add a blocking send."""
        self._builder.send(self._rank, to, size_bytes, tag, comm)
        return self

    def recv(self, source: int, size_bytes: int, tag: int = 0, comm: int = 0) -> RankProgram:
        """Add a blocking receive."""
        self._builder.recv(self._rank, source, size_bytes, tag, comm)
        return self

    def isend(self, to: int, size_bytes: int, tag: int = 0, comm: int = 0) -> int:
        """Add a non-blocking send."""
        return int(self._builder.isend(self._rank, to, size_bytes, tag, comm))

    def irecv(self, source: int, size_bytes: int, tag: int = 0, comm: int = 0) -> int:
        """Add a non-blocking receive."""
        return int(self._builder.irecv(self._rank, source, size_bytes, tag, comm))

    def put(self, to: int, size_bytes: int, tag: int = 0, *, release_ns: float = 0.0) -> int:
        """Add a put, which needs no receive."""
        return int(self._builder.put(self._rank, to, size_bytes, tag, release_ns=release_ns))

    def sendrecv(
        self, to: int, send_bytes: int, source: int, recv_bytes: int, tag: int = 0, comm: int = 0
    ) -> RankProgram:
        """Add a concurrent send and receive, and block until both end."""
        self._builder.sendrecv(self._rank, to, send_bytes, source, recv_bytes, tag, comm)
        return self

    def wait(self, *handles: int) -> RankProgram:
        """Wait for the operations of these handles; without handles, for all non-blocking ones."""
        if handles:
            self._builder.wait(self._rank, handles)
        else:
            self._builder.waitall([self._rank])
        return self
