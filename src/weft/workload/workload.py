"""`Workload`: the operations of every rank, and the dependencies between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.frozen import FrozenArrays
from weft.kernels.program.dag import successors

#: Largest number of dependencies of a simulated workload; their indices have 32 bits.
_MAX_DEPS = 2**31 - 1


class Kind(IntEnum):
    """Kind of an operation."""

    #: Calculation: occupies the rank's processor for its duration.
    CALC = 0
    #: Send of a message that its peer receives.
    SEND = 1
    RECV = 2
    #: Message that needs no receive, such as an RDMA write.
    PUT = 3
    #: Request and return of a routing key (the Routing Keys paper, section IV-B).
    KEY_REQUEST = 4
    KEY_DONE = 5


class Multicast(IntEnum):
    """Part of a send in a multicast, whose sends follow each other in program order."""

    #: No part: a send to one rank.
    NONE = 0
    #: A further send of the same multicast.
    FURTHER = 1
    #: First send of a multicast.
    DATA = 2
    #: First send of a multicast without data that counts only if all receives are posted.
    TEST = 3


class TrainingStep(NamedTuple):
    """What a step of training a neural network computes, to judge the time that it takes."""

    #: Tokens of all sequences.
    tokens: int
    #: Time of the model's operations at the full speed of all GPUs.
    peak_ns: float


@dataclass(frozen=True, eq=False, repr=False)
class Workload(FrozenArrays):
    """Programs of all ranks as flat arrays; dependencies form an acyclic graph. Immutable.

    Operations of a rank are contiguous and in program order, which is also the order in which its
    sends and receives are posted. `WorkloadBuilder` makes workloads and checks them.

    Parameters
    ----------
    name
        Name of the workload in messages and results.
    op_offset
        int64 [ranks + 1]: operations of rank ``r`` are ``op_offset[r]:op_offset[r + 1]``.
    kind
        uint8 [ops]: `Kind` of each operation.
    peer
        int32 [ops]: rank at the other end of a message; -1 if there is none.
    size_bytes
        int64 [ops]: size of a message that is sent; for a receive, the largest size that it takes;
        for a key operation, which has no size, its tag.
    tag, comm
        int32 [ops]: tag and communicator of a message; for a key operation, its key and
        communicator. If all values of `tag`, `comm` or `phase` are equal, the array may be a view
        of a single value.
    duration_ns
        float64 [ops]: duration of a calculation.
    phase
        int32 [ops]: index in `phase_names` of the phase of each operation.
    dep_offset, dep
        int64 [ops + 1] and int32 [dependencies]: operation ``i`` waits for the operations
        ``dep[dep_offset[i]:dep_offset[i + 1]]`` of the same rank.
    dep_on_start
        bool [dependencies]: whether the dependency is on the start of the other operation rather
        than on its end; empty when all dependencies are on the end.
    match
        int32 [ops]: for a send, its receive; for a receive, its send; -1 for other operations.
    release_ns
        float64 [ops]: earliest start of each operation; may be empty if all are 0.
    cpu
        uint8 [ops]: processor of the rank on which a calculation runs; empty when all are 0.
    multicast
        uint8 [ops]: `Multicast` of each operation; empty if there are none.
    tree
        int32 [ops]: number of the reduction in switches of each send, -1 for none; empty if there
        are none. The members of a tree are all ranks between which its sends are.
    comm_names
        Names of the communicators; communicator 0 is the world.
    notes
        Assumptions that the reader of the file made.
    step
        The step of training that the workload is, if it is one.
    """

    name: str
    op_offset: NDArray[np.int64]
    kind: NDArray[np.uint8]
    peer: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    tag: NDArray[np.int32]
    comm: NDArray[np.int32]
    duration_ns: NDArray[np.float64]
    phase: NDArray[np.int32]
    phase_names: tuple[str, ...]
    dep_offset: NDArray[np.int64]
    dep: NDArray[np.int32]
    dep_on_start: NDArray[np.bool_]
    match: NDArray[np.int32]
    release_ns: NDArray[np.float64]
    cpu: NDArray[np.uint8]
    multicast: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    tree: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    comm_names: tuple[str, ...] = ("world",)
    notes: tuple[str, ...] = field(default=())
    step: TrainingStep | None = None

    @cached_property
    def num_ranks(self) -> int:
        """Number of ranks, including those without operations."""
        return len(self.op_offset) - 1

    @cached_property
    def num_ops(self) -> int:
        """Number of operations of all ranks."""
        return len(self.kind)

    @cached_property
    def rank(self) -> NDArray[np.int32]:
        """int32 [ops]: rank of each operation."""
        return np.repeat(np.arange(self.num_ranks, dtype=np.int32), np.diff(self.op_offset))

    @cached_property
    def messages(self) -> NDArray[np.int64]:
        """int64 [messages]: operations that are sends or puts."""
        return np.flatnonzero((self.kind == Kind.SEND) | (self.kind == Kind.PUT))

    @cached_property
    def after(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Successors of each operation: the operations that wait for it, in three arrays.

        int32 [ops + 1]: position in the other two arrays of each operation's first successor;
        int32 [dependencies]: the successors; bool [dependencies]: whether the successor waits only
        for the start. The last array is empty if no dependency is on a start.
        """
        if len(self.dep) > _MAX_DEPS:
            raise InputError(
                f"{self.name or 'the workload'} has {len(self.dep):,} dependencies; at most "
                f"{_MAX_DEPS:,} can be numbered"
            )
        starts = len(self.dep_on_start) > 0
        offset, after, index = successors(self.num_ops, self.dep_offset, self.dep, starts)
        return offset, after, self.dep_on_start[index] if starts else self.dep_on_start

    def describe(self, op: int, place: str = "", number: int | None = None) -> str:
        """Return an operation in words: ``operation 4 of rank 2 (receive from rank 5, tag 7)``.

        Operations of a rank are numbered from 0, unless `number` is that of this one. `place` is
        put behind the rank.
        """
        rank = int(self.rank[op])
        number = op - int(self.op_offset[rank]) if number is None else number
        return f"operation {number} of rank {rank}{place} ({self.what(op)})"

    def what(self, op: int) -> str:
        """Return the kind of an operation and its arguments in words."""
        kind = Kind(int(self.kind[op]))
        if kind == Kind.CALC:
            return f"calculation of {self.duration_ns[op]:g} ns"
        comm = int(self.comm[op])
        where = f", communicator {self.comm_names[comm]}" if comm else ""
        if kind in (Kind.KEY_REQUEST, Kind.KEY_DONE):
            verb = "request" if kind == Kind.KEY_REQUEST else "return"
            tag = f", tag {self.size_bytes[op]}" if self.size_bytes[op] else ""
            return f"{verb} of routing key {self.tag[op]}{tag}{where}"
        verb = {Kind.SEND: "send to", Kind.RECV: "receive from", Kind.PUT: "put to"}[kind]
        return f"{verb} rank {self.peer[op]}, tag {self.tag[op]}{where}"

    def __repr__(self) -> str:
        return (
            f"Workload({self.name!r}: {self.num_ranks} ranks, {self.num_ops} operations, "
            f"{len(self.messages)} messages)"
        )
