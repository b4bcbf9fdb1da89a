"""The registry of collective algorithms, and what they share.

An entry is one algorithm of one collective, named ``collective-algorithm``: ``allreduce-ring``. Its
function writes the messages of one collective operation into the programs of the ranks of a
`Group`. Entries carry the facts `collective`, `algorithm` and `source`, where it is defined.

Matching. A collective's messages have a tag of their own, which the builder reserves: the n-th
collective that is written on a communicator has the tag -n. Other messages beside collectives have
tags of 0 or more, as MPI demands, so that a collective meets neither them nor another collective
that overlaps it in time, also where two sets of ranks share a communicator. Within a collective the
messages of a pair of ranks are sent and received in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError
from weft.core.registry import Registry
from weft.workload.builder import WorkloadBuilder
from weft.workload.program_order import MAX_OPS

F = TypeVar("F", bound=Callable[..., Any])
Ints = NDArray[np.int64]
#: Blocks that the message of a sender holds, given its place in the communicator.
Carries = Callable[[int], Iterable[int]]

collective = Registry(
    "collective",
    "weft.workload.collectives",
    "weft.collectives",
    ("group",),
    facts=("collective", "algorithm"),
)


class Sizes(Enum):
    """What the size of a collective is, as in MPI's arguments."""

    #: No data at all.
    NONE = "no size"
    #: Bytes of the whole buffer of a rank.
    BUFFER = "bytes of the buffer"
    #: Bytes of the block of one rank: one number, or [n].
    BLOCK = "bytes of the block of one rank"
    #: Bytes from each rank to each other: one number, or [n, n] with the sender first.
    PAIR = "bytes of one rank for one other"


@dataclass(frozen=True)
class Collective:
    """What a collective is, whatever the algorithm.

    Parameters
    ----------
    name
        As users type it.
    sizes
        What its size means.
    uneven
        Whether blocks may have different sizes.
    rooted
        Whether it has a root.
    combines
        Whether it applies a reduction operator.
    """

    name: str
    sizes: Sizes
    uneven: bool = False
    rooted: bool = False
    combines: bool = False


COLLECTIVES: dict[str, Collective] = {
    kind.name: kind
    for kind in (
        Collective("barrier", Sizes.NONE),
        Collective("bcast", Sizes.BUFFER, rooted=True),
        Collective("reduce", Sizes.BUFFER, rooted=True, combines=True),
        Collective("allreduce", Sizes.BUFFER, combines=True),
        Collective("scan", Sizes.BUFFER, combines=True),
        Collective("exscan", Sizes.BUFFER, combines=True),
        Collective("allgather", Sizes.BLOCK),
        Collective("allgatherv", Sizes.BLOCK, uneven=True),
        Collective("gather", Sizes.BLOCK, rooted=True),
        Collective("gatherv", Sizes.BLOCK, uneven=True, rooted=True),
        Collective("scatter", Sizes.BLOCK, rooted=True),
        Collective("scatterv", Sizes.BLOCK, uneven=True, rooted=True),
        Collective("reduce-scatter", Sizes.BLOCK, uneven=True, combines=True),
        Collective("alltoall", Sizes.PAIR),
        Collective("alltoallv", Sizes.PAIR, uneven=True),
    )
}


def algorithm(of: str, name: str, *, source: str, first: bool = False) -> Callable[[F], F]:
    """Register the decorated function as an algorithm of a collective.

    Parameters
    ----------
    of
        The collective, one of `COLLECTIVES`.
    name
        The algorithm.
    source
        Where it is defined.
    first
        Whether the collective's name alone also finds it in the registry; of one algorithm only.
    """
    if of not in COLLECTIVES:
        raise ValueError(f"there is no collective {of!r}")
    aliases = (of,) if first else ()
    return collective(f"{of}-{name}", aliases=aliases, collective=of, algorithm=name, source=source)


@dataclass
class Trace:
    """What the messages of a collective hold, for whoever checks that it does what it should.

    A block is a number: the part of the buffer, the rank that a block comes from or goes to, or
    ``sender * n + receiver`` in an alltoall.

    Parameters
    ----------
    carried
        By rank, for each of its sends in program order, the blocks in the message.
    taken
        By rank, for each of its receives in program order: whether what comes is combined with
        what is there or takes its place, and blocks to which it is also applied.
    cuts
        Sizes of the parts into which a buffer was cut, int64 [parts].
    """

    carried: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    taken: dict[int, list[tuple[bool, tuple[int, ...]]]] = field(default_factory=dict)
    cuts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Group:
    """The ranks of one collective operation, and the operations that an algorithm writes.

    Algorithms name ranks by their place in the communicator, 0 to n - 1; every method takes one
    place or an array of them, and other arguments one for each.

    Parameters
    ----------
    builder
        Whose programs grow.
    members
        int64 [groups, n]: world ranks in communicator order. The operation takes place in each
        row on its own.
    sizes
        Bytes: one number, int64 [n] or int64 [n, n], as the collective has them (`Sizes`).
    root
        Place of the root.
    uneven
        Whether blocks may have different sizes, so that messages of empty ones may be left out.
    comm, tag
        Number of the communicator, and the tag of all messages.
    reduce_ns_per_byte
        Time to combine one byte that came with one's own.
    trace
        Filled with what each message holds, when given.
    """

    def __init__(
        self,
        builder: WorkloadBuilder,
        members: Ints,
        sizes: Any,
        *,
        root: int = 0,
        uneven: bool = False,
        comm: int = 0,
        tag: int = 0,
        reduce_ns_per_byte: float = 0.0,
        trace: Trace | None = None,
    ):
        self.n = members.shape[1]
        self.root = root
        self.sizes = sizes
        self.uneven = uneven
        self.places: Ints = np.arange(self.n, dtype=np.int64)
        self._builder = builder
        self._members = members
        self._comm = comm
        self._tag = tag
        self._reduce_ns_per_byte = reduce_ns_per_byte
        self._trace = trace

    def from_root(self, relative: Any) -> Any:
        """Place of a rank that stands this far behind the root."""
        return (relative + self.root) % self.n

    def behind_root(self, place: Any) -> Any:
        """How far a place stands behind the root."""
        return (place - self.root) % self.n

    def cut(self, sizes: Ints) -> Ints:
        """Note the parts into which the buffer is cut."""
        if self._trace is not None:
            self._trace.cuts = sizes
        return sizes

    def expect(self, messages: int) -> None:
        """Refuse at once what would not fit in a workload after long work.

        Raises
        ------
        InputError
            When so many messages of each group are too many.
        """
        total = messages * len(self._members)
        if 2 * total + self._builder.num_ops > MAX_OPS:
            raise InputError(
                f"a collective of {self.n} ranks has {total:,} messages by this algorithm; a "
                f"workload holds {MAX_OPS // 2:,}, sent and received"
            )

    # -- operations --------------------------------------------------------------------------------

    def exchange(
        self,
        who: Any,
        to: Any,
        send_bytes: Any,
        source: Any,
        recv_bytes: Any,
        carries: Carries,
        *,
        add: bool = False,
        also: Carries | None = None,
        combined_bytes: Any = None,
    ) -> None:
        """Send and receive at once, and wait for both.

        Parameters
        ----------
        who, to, source
            int64 [k], places; -1 in `to` or `source` for a rank that does not send or receive.
        send_bytes, recv_bytes
            Of each.
        carries
            Blocks in the message of a sender.
        add
            Whether what comes is combined with what is there.
        also
            Blocks to which what comes at a receiver is also applied.
        combined_bytes
            Bytes that each combines, where they are not those received.
        """
        self._builder.sendrecv(
            self._ranks(who), self._ranks(to), self._each(send_bytes), self._ranks(source),
            self._each(recv_bytes), self._tag, self._comm,
        )  # fmt: skip
        if self._trace is not None:
            self._note_sends(who, np.asarray(to) >= 0, carries)
            self._note_receives(who, np.asarray(source) >= 0, add, also)
        if add:
            came = np.where(np.asarray(source) >= 0, recv_bytes, 0)
            self.combine(who, came if combined_bytes is None else combined_bytes)

    def send(self, who: Any, to: Any, size_bytes: Any, carries: Carries) -> None:
        """Send and wait."""
        if self._trace is not None:
            self._note_sends(who, True, carries)
        self._builder.send(
            self._ranks(who), self._ranks(to), self._each(size_bytes), self._tag, self._comm
        )

    def receive(
        self,
        who: Any,
        source: Any,
        size_bytes: Any,
        *,
        add: bool = False,
        also: Carries | None = None,
    ) -> None:
        """Receive and wait; what is combined takes its time."""
        if self._trace is not None:
            self._note_receives(who, True, add, also)
        self._builder.recv(
            self._ranks(who), self._ranks(source), self._each(size_bytes), self._tag, self._comm
        )
        if add:
            self.combine(who, size_bytes)

    def message(
        self,
        senders: Any,
        receivers: Any,
        size_bytes: Any,
        carries: Carries,
        *,
        add: bool = False,
        also: Carries | None = None,
    ) -> None:
        """One message from each sender to its receiver, both waiting; nobody is on both sides."""
        if np.size(senders):
            self.send(senders, receivers, size_bytes, carries)
            self.receive(receivers, senders, size_bytes, add=add, also=also)

    def begin_send(
        self, who: Any, to: Any, size_bytes: Any, carries: Carries, *, where: Any = None
    ) -> Ints:
        """Begin to send; handles for `wait`, -1 for those that `where` leaves out."""
        if self._trace is not None:
            self._note_sends(who, True if where is None else where, carries)
        return self._begin(self._builder.isend, who, to, size_bytes, where)

    def begin_receive(
        self, who: Any, source: Any, size_bytes: Any, *, where: Any = None, add: bool = False
    ) -> Ints:
        """Begin to receive; handles for `wait`, -1 for those that `where` leaves out.

        Its end costs no time of combining; `combine` does.
        """
        if self._trace is not None:
            self._note_receives(who, True if where is None else where, add, None)
        return self._begin(self._builder.irecv, who, source, size_bytes, where)

    def wait(self, who: Any, handles: Sequence[Ints]) -> None:
        """Wait for what was begun at these places."""
        if handles:
            self._builder.wait(self._ranks(np.atleast_1d(who)), np.stack(handles))

    def combine(self, who: Any, size_bytes: ArrayLike) -> None:
        """Compute for as long as it takes to combine so many bytes with one's own."""
        if not self._reduce_ns_per_byte:
            return
        places = np.atleast_1d(who)
        duration = np.broadcast_to(np.asarray(size_bytes), len(places)) * self._reduce_ns_per_byte
        some = duration > 0
        if some.any():
            self._builder.calc(self._ranks(places[some]), self._each(duration[some]))

    # -- inside ------------------------------------------------------------------------------------

    def _begin(
        self, call: Callable[..., Any], who: Any, peer: Any, size_bytes: Any, where: Any
    ) -> Ints:
        groups = len(self._members)
        if where is None or np.all(where):
            handles = call(
                self._ranks(who), self._ranks(peer), self._each(size_bytes), self._tag, self._comm
            )
            return np.atleast_1d(np.asarray(handles, dtype=np.int64))
        handles = np.full((groups, len(who)), -1, dtype=np.int64)
        if np.any(where):
            sizes = np.broadcast_to(np.asarray(size_bytes), len(who))
            some = self._begin(call, who[where], peer[where], sizes[where], None)
            handles[:, where] = some.reshape(groups, -1)
        return handles.ravel()

    def _ranks(self, places: Any) -> Any:
        """World ranks of places, of all groups in turn; -1 stays."""
        if len(self._members) == 1 and isinstance(places, int):
            return int(self._members[0, places])
        index = np.asarray(places)
        ranks = self._members[:, index]
        if index.ndim and len(index) and index.min() < 0:
            ranks = np.where(index < 0, -1, ranks)
        return ranks.ravel()

    def _each(self, values: Any) -> Any:
        if len(self._members) == 1 or np.ndim(values) == 0:
            return values
        return np.tile(values, len(self._members))

    def _note_sends(self, who: Any, where: Any, carries: Carries) -> None:
        assert self._trace is not None
        for row in self._members:
            for place, out in np.broadcast(np.atleast_1d(who), where):
                if out:
                    blocks = tuple(map(int, carries(int(place))))
                    self._trace.carried.setdefault(int(row[place]), []).append(blocks)

    def _note_receives(self, who: Any, where: Any, add: bool, also: Carries | None) -> None:
        assert self._trace is not None
        for row in self._members:
            for place, back in np.broadcast(np.atleast_1d(who), where):
                if back:
                    more = tuple(map(int, also(int(place)))) if also else ()
                    self._trace.taken.setdefault(int(row[place]), []).append((add, more))


def check_members(builder: WorkloadBuilder, members: ArrayLike, comm: int) -> Ints:
    """Members as int64 [groups, n].

    Raises
    ------
    InputError
        On a rank that does not exist or is there twice, or no rank at all.
    """
    given = np.asarray(members)
    if given.size == 0 or given.ndim not in (1, 2):
        raise InputError("members of a collective are a list of ranks, or one list for each group")
    if given.dtype.kind not in "iu":
        raise InputError(f"members of a collective are numbers of ranks, not {members!r}")
    ranks = np.atleast_2d(given).astype(np.int64)
    wrong = ranks[(ranks < 0) | (ranks >= builder.num_ranks)]
    if len(wrong):
        raise InputError(
            f"a collective names rank {wrong[0]}; ranks are 0 to {builder.num_ranks - 1}"
        )
    once, count = np.unique(ranks, return_counts=True)
    if len(once) < ranks.size:
        raise InputError(f"a collective names rank {once[np.argmax(count)]} twice")
    return ranks
