"""The registry of collective algorithms, and the classes that they share.

An entry is one algorithm of one collective, named ``collective-algorithm``: ``allreduce-ring``. Its
function appends the messages of one collective operation to the programs of the ranks of a
`Group`. Entries have the facts `collective`, `algorithm` and `source` (where the algorithm is
defined).

Matching. The messages of a collective have a tag that the builder reserves: -n for the n-th
collective on a communicator. All other messages of a workload with collectives have tags of 0 or
more, as MPI requires. So a collective's messages match neither these nor the messages of another
collective that overlaps it in time, even if two groups of ranks share a communicator. Within a
collective, each pair of ranks sends and receives its messages in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError
from weft.core.registry import Registry
from weft.workload.builder import WorkloadBuilder

F = TypeVar("F", bound=Callable[..., Any])
Ints = NDArray[np.int64]
#: Function from a sender's communicator rank to the blocks in its message.
Carries = Callable[[int], Iterable[int]]


def one_block(number: int) -> Carries:
    """Return that every sender's message has only this block."""
    return lambda _: (number,)


#: Every message has the whole buffer.
BUFFER = one_block(0)


collective = Registry(
    "collective",
    "weft.workload.collectives",
    "weft.collectives",
    ("group",),
    facts=("collective", "algorithm"),
)


class Sizes(Enum):
    """Meaning of the size of a collective, as in MPI's arguments."""

    #: No data at all.
    NONE = "no size"
    #: Bytes of the whole buffer of a rank.
    BUFFER = "bytes of the buffer"
    #: Bytes of the block of one rank: one number, or one per rank [n].
    BLOCK = "bytes of the block of one rank"
    #: Bytes from each rank to each other rank: one number, or [n, n] with the sender first.
    PAIR = "bytes from one rank to one other rank"


@dataclass(frozen=True)
class Collective:
    """Properties of a collective that are common to all its algorithms."""

    #: Name in specs and commands.
    name: str
    #: Meaning of the size of the collective.
    sizes: Sizes
    #: Whether blocks may have different sizes.
    uneven: bool = False
    #: Whether the collective has a root.
    rooted: bool = False
    #: Whether the collective applies a reduction operator.
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


def algorithm(
    of: str, name: str, *, source: str, first: bool = False, machines: bool = False
) -> Callable[[F], F]:
    """Register the decorated function as an algorithm of a collective.

    Parameters
    ----------
    of
        The collective, one of `COLLECTIVES`.
    name
        Name of the algorithm.
    source
        Paper or program that defines the algorithm.
    first
        Whether the collective's name alone also names this algorithm; true for one algorithm each.
    machines
        Whether the algorithm depends on the machines of ranks (`Group.machines`).
    """
    if of not in COLLECTIVES:
        raise ValueError(f"there is no collective {of!r}")
    aliases = (of,) if first else ()
    facts = {"collective": of, "algorithm": name, "source": source, "machines": machines}
    return collective(f"{of}-{name}", aliases=aliases, **facts)


@dataclass
class BlockRecord:
    """Record of the blocks in the messages of a collective, for tests.

    A block is given by a number: the index of a part of the buffer, the rank that sends or receives
    the block, or ``sender * n + receiver`` in an alltoall.
    """

    #: For each rank and each of its sends in program order: the blocks in the message.
    sent_blocks: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    #: For each rank and each of its receives in program order: true if the received blocks are
    #: combined with the rank's own, false if they replace these; and further blocks of the rank
    #: that the message is combined into.
    taken: dict[int, list[tuple[bool, tuple[int, ...]]]] = field(default_factory=dict)
    #: Sizes of the parts of a divided buffer, int64 [parts].
    cuts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Group:
    """Ranks of one collective operation, to which an algorithm adds operations.

    Algorithms address ranks by their number in the communicator, 0 to n - 1 (`ranks` is an array of
    all of them). Every method takes one rank or an array of ranks; every other argument is one
    value or an array of one value per rank.

    Parameters
    ----------
    builder
        Builder that the operations are added to.
    members
        int64 [groups, n]: world ranks in communicator order. Each row performs the operation
        independently.
    sizes
        Bytes: one number, int64 [n] or int64 [n, n], according to the collective (`Sizes`).
    root
        Communicator rank of the root.
    uneven
        Whether blocks may have different sizes, so that messages of empty blocks may be left out.
    comm, tag
        Number of the communicator, and the tag of all messages.
    reduce_ns_per_byte
        Time to combine one received byte with the rank's own.
    trace
        Record to fill with the blocks of each message; None for no record.
    machine
        int64 [n]: the machine of each rank; None if each has one of its own.
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
        trace: BlockRecord | None = None,
        machine: Ints | None = None,
    ):
        self.n = members.shape[1]
        self.root = root
        self.sizes = sizes
        self.uneven = uneven
        self.ranks: Ints = np.arange(self.n, dtype=np.int64)
        self._builder = builder
        self._members = members
        self._comm = comm
        self._tag = tag
        self._reduce_ns_per_byte = reduce_ns_per_byte
        self._trace = trace
        self._machine = self.ranks if machine is None else machine
        #: Number of parts into which the buffer was cut.
        self.parts = 1

    def machines(self) -> tuple[Group, list[Group]]:
        """Return a group of one leader a machine, and the groups of machines with several ranks.

        The leader is rank 0 of its machine: the root, or the lowest rank.
        """
        order = np.lexsort((self.ranks != self.root, self._machine))
        first = np.flatnonzero(np.diff(self._machine[order], prepend=-1))
        members = np.split(order, first[1:])
        leaders = self.part(order[first][np.newaxis])
        leaders.root = int(np.argmax(order[first] == self.root))
        sizes = {len(each) for each in members} - {1}
        alike = ([each for each in members if len(each) == size] for size in sorted(sizes))
        return leaders, [self.part(np.stack(each)) for each in alike]

    def part(self, ranks: Ints) -> Group:
        """Return groups of equal size [groups, k] of the ranks of each group."""
        return Group(
            self._builder, self._members[:, ranks].reshape(-1, ranks.shape[1]), self.sizes,
            uneven=self.uneven, comm=self._comm, tag=self._tag, trace=self._trace,
            reduce_ns_per_byte=self._reduce_ns_per_byte,
        )  # fmt: skip

    def from_root(self, relative: Any) -> Any:
        """Return the rank that is `relative` ranks after the root."""
        return (relative + self.root) % self.n

    def behind_root(self, place: Any) -> Any:
        """Return the number of ranks by which a rank follows the root."""
        return (place - self.root) % self.n

    def cut(self, sizes: Ints) -> Ints:
        """Record the sizes of the parts of the buffer, and return them."""
        self.parts = len(sizes)
        if self._trace is not None:
            self._trace.cuts = sizes
        return sizes

    def expect(self, messages: int) -> None:
        """Refuse a number of messages per group that does not fit in a workload, before adding any.

        Raises
        ------
        InputError
            If the messages of all groups are too many for a workload.
        OutOfMemory
            If their operations do not fit in memory.
        """
        total = messages * len(self._members)
        if 2 * total + self._builder.num_ops > self._builder.max_ops:
            raise InputError(
                f"a collective of {self.n} ranks has {total:,} messages with this algorithm; "
                f"expected at most {self._builder.max_ops // 2:,} in a workload; the flow level "
                "counts operations that ranks have in common, as with equal sizes, only once"
            )
        self._builder.need_memory_for(2 * total)

    # -- operations --------------------------------------------------------------------------------

    def rounds(self, count: int, add: Callable[[int], None]) -> None:
        """Add rounds by `WorkloadBuilder.rounds`; a record of blocks needs each of them."""
        self._builder.rounds(count, add)

    def exchange(
        self,
        ranks: Any,
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
        """Add a concurrent send and receive, and wait for both.

        Parameters
        ----------
        ranks, to, source
            int64 [k]: ranks; -1 in `to` or `source` for a rank that does not send or receive.
        send_bytes, recv_bytes
            Sizes of the messages.
        carries
            Function from a sender to the blocks in its message.
        add
            Whether received blocks are combined with the receiver's own.
        also
            Function from a receiver to further blocks that the message is combined into.
        combined_bytes
            Bytes that each rank combines, if they differ from the bytes received.
        """
        self._builder.sendrecv(
            self._world(ranks), self._world(to), self._each(send_bytes), self._world(source),
            self._each(recv_bytes), self._tag, self._comm,
        )  # fmt: skip
        receives = np.asarray(source) >= 0
        self._note_sends(ranks, np.asarray(to) >= 0, carries)
        self._note_receives(ranks, receives, add, also)
        if add:
            received = np.where(receives, recv_bytes, 0)
            self.combine(ranks, received if combined_bytes is None else combined_bytes)

    def send(self, ranks: Any, to: Any, size_bytes: Any, carries: Carries) -> None:
        """Add a blocking send."""
        self._note_sends(ranks, True, carries)
        self._add(self._builder.send, ranks, to, size_bytes)

    def receive(
        self,
        ranks: Any,
        source: Any,
        size_bytes: Any,
        *,
        add: bool = False,
        also: Carries | None = None,
    ) -> None:
        """Add a blocking receive and, with `add`, the calculation that combines its data."""
        self._note_receives(ranks, True, add, also)
        self._add(self._builder.recv, ranks, source, size_bytes)
        if add:
            self.combine(ranks, size_bytes)

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
        """Add a blocking message from each sender to its receiver; no sender may be a receiver."""
        if np.size(senders):
            self.send(senders, receivers, size_bytes, carries)
            self.receive(receivers, senders, size_bytes, add=add, also=also)

    def multicast(
        self, root: int, to: Ints, size_bytes: int, carries: Carries, *, test: bool = False
    ) -> None:
        """Add a message from one rank to several that the network copies; `test`: see builder."""
        for _ in to:
            self._note_sends(root, True, carries)
        for row in self._members:
            self._builder.multicast(
                int(row[root]), row[to], size_bytes, self._tag, self._comm, test=test
            )

    def begin_send(
        self, ranks: Any, to: Any, size_bytes: Any, carries: Carries, *, where: Any = None
    ) -> Ints:
        """Add non-blocking sends; return handles for `wait`, -1 where `where` is false."""
        self._note_sends(ranks, True if where is None else where, carries)
        return self._begin(self._builder.isend, ranks, to, size_bytes, where)

    def begin_receive(
        self, ranks: Any, source: Any, size_bytes: Any, *, where: Any = None, add: bool = False
    ) -> Ints:
        """Add non-blocking receives; return handles for `wait`, -1 where `where` is false.

        The time to combine the data is not included; `combine` adds it.
        """
        self._note_receives(ranks, True if where is None else where, add, None)
        return self._begin(self._builder.irecv, ranks, source, size_bytes, where)

    def wait(self, ranks: Any, handles: Sequence[Ints]) -> None:
        """Add waits of ranks for their non-blocking operations."""
        if handles:
            self._builder.wait(self._world(np.atleast_1d(ranks)), np.stack(handles))

    def combine(self, ranks: Any, size_bytes: ArrayLike) -> None:
        """Add a calculation of the time to combine `size_bytes` with the rank's own data."""
        if not self._reduce_ns_per_byte:
            return
        ranks = np.atleast_1d(ranks)
        duration = np.broadcast_to(np.asarray(size_bytes), len(ranks)) * self._reduce_ns_per_byte
        some = duration > 0
        if some.any():
            self._builder.calc(self._world(ranks[some]), self._each(duration[some]))

    # -- private -----------------------------------------------------------------------------------

    def _add(self, call: Callable[..., Any], ranks: Any, peer: Any, size_bytes: Any) -> Any:
        ends = self._world(ranks), self._world(peer)
        return call(*ends, self._each(size_bytes), self._tag, self._comm)

    def _begin(
        self, call: Callable[..., Any], ranks: Any, peer: Any, size_bytes: Any, where: Any
    ) -> Ints:
        groups = len(self._members)
        if where is None or np.all(where):
            handles = self._add(call, ranks, peer, size_bytes)
            return np.atleast_1d(np.asarray(handles, dtype=np.int64))
        handles = np.full((groups, len(ranks)), -1, dtype=np.int64)
        if np.any(where):
            sizes = np.broadcast_to(np.asarray(size_bytes), len(ranks))
            some = self._begin(call, ranks[where], peer[where], sizes[where], None)
            handles[:, where] = some.reshape(groups, -1)
        return handles.ravel()

    def _world(self, ranks: Any) -> Any:
        """Return the world ranks of communicator ranks, group by group; -1 stays -1."""
        if len(self._members) == 1 and isinstance(ranks, int):
            return int(self._members[0, ranks])
        index = np.asarray(ranks)
        world_ranks = self._members[:, index]
        if index.ndim and len(index) and index.min() < 0:
            world_ranks = np.where(index < 0, -1, world_ranks)
        return world_ranks.ravel()

    def _each(self, values: Any) -> Any:
        if len(self._members) == 1 or np.ndim(values) == 0:
            return values
        return np.tile(values, len(self._members))

    def _note_sends(self, ranks: Any, where: Any, carries: Carries) -> None:
        if self._trace is not None:
            for member, rank in self._acting(ranks, where):
                blocks = tuple(map(int, carries(rank)))
                self._trace.sent_blocks.setdefault(member, []).append(blocks)

    def _note_receives(self, ranks: Any, where: Any, add: bool, also: Carries | None) -> None:
        if self._trace is not None:
            for member, rank in self._acting(ranks, where):
                more = tuple(map(int, also(rank))) if also else ()
                self._trace.taken.setdefault(member, []).append((add, more))

    def _acting(self, ranks: Any, where: Any) -> Iterator[tuple[int, int]]:
        """Iterate over the world rank and the rank of those that send or receive."""
        for row in self._members:
            for rank, acts in np.broadcast(np.atleast_1d(ranks), where):
                if acts:
                    yield int(row[rank]), int(rank)


def check_members(builder: WorkloadBuilder, members: ArrayLike, comm: int) -> Ints:
    """Return members as int64 [groups, n]."""
    array = np.asarray(members)
    if array.size == 0 or array.ndim not in (1, 2):
        raise InputError("members of a collective must be a list of ranks, or a list per group")
    if array.dtype.kind not in "iu":
        raise InputError(f"members of a collective must be ranks (integers), not {members!r}")
    ranks = np.atleast_2d(array).astype(np.int64)
    wrong = ranks[(ranks < 0) | (ranks >= builder.num_ranks)]
    if len(wrong):
        raise InputError(
            f"a collective names rank {wrong[0]}; ranks are 0 to {builder.num_ranks - 1}"
        )
    distinct, count = np.unique(ranks, return_counts=True)
    if len(distinct) < ranks.size:
        raise InputError(f"a collective names rank {distinct[np.argmax(count)]} twice")
    return ranks
