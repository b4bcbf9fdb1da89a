"""Data-parallel training with two binary trees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import all_ranks, application, at_least, check_messages
from weft.workload.apps.training import (
    BUCKET_BYTES,
    FIRST_BUCKET_BYTES,
    RESNET50_BYTES,
    buckets,
    train,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind, Workload

Ints = NDArray[np.int64]


@application(
    "tree-allreduce",
    source="double binary trees (Sanders, Speck and Traeff 2009) as NCCL pipelines them",
    small={"chunk": 2**22},
)
def tree_allreduce(
    num_ranks: int,
    *,
    gradients: Bytes = RESNET50_BYTES,
    bucket: Bytes = BUCKET_BYTES,
    first_bucket: Bytes = FIRST_BUCKET_BYTES,
    chunk: Bytes = 2**19,
    iterations: int = 1,
    forward: Nanoseconds = 0.0,
    backward: Nanoseconds = 0.0,
    overlap: bool = True,
) -> Workload:
    """Train data-parallel, with gradients reduced and broadcast on two binary trees at once.

    Each tree reduces one half of a bucket, in chunks: a rank adds its children's chunks to its own
    and sends the sum to its parent; the root broadcasts the result down the tree. Chunks are
    pipelined, and each rank handles the chunks of a tree and direction in order. If the number of
    ranks is even, the second tree is the first one mirrored, and no rank has children in both
    trees. If it is odd, the second tree is the first one shifted by one rank, and only one rank has
    children in both.

    Parameters
    ----------
    chunk
        Bytes of a message; the last message of each bucket and tree may be smaller.
    gradients, bucket, first_bucket, iterations, forward, backward, overlap
        As in ring-allreduce.
    """
    at_least(1, iterations=iterations, chunk=chunk)
    sizes = buckets(gradients, bucket, first_bucket)
    pieces = sum(-(-half // chunk) for size in sizes for half in _halves(size))
    check_messages(num_ranks, iterations * pieces * 2.0 * (num_ranks - 1))
    builder = WorkloadBuilder(num_ranks)
    trees = double_tree(num_ranks)

    def reduce(size: int) -> None:
        _reduce(builder, trees, size, chunk)

    train(
        builder, sizes, reduce, iterations=iterations, forward=forward, backward=backward,
        overlap=overlap,
    )  # fmt: skip
    return builder.build()


def double_tree(num_ranks: int) -> tuple[Ints, Ints]:
    """Return the parents of all ranks in both trees, int64 [ranks] each; -1 for the root."""
    ranks = np.arange(num_ranks, dtype=np.int64)
    # The parent of a rank whose lowest set bit is b: clear b, set the next bit.
    low = ranks & -ranks
    parent = (ranks ^ low) | (low << 1)
    parent = np.where(parent >= num_ranks, ranks ^ low, parent)
    parent[0] = -1
    if num_ranks % 2:
        other = np.where(parent < 0, -1, (parent + 1) % num_ranks)[(ranks - 1) % num_ranks]
    else:
        other = np.where(parent < 0, -1, num_ranks - 1 - parent)[::-1]
    return parent, other


def _halves(size: int) -> tuple[int, int]:
    return size - size // 2, size // 2


def _reduce(builder: WorkloadBuilder, trees: tuple[Ints, Ints], size: int, chunk: int) -> None:
    """Add the reduction of a bucket on both trees at once, chunk by chunk."""
    ranks = all_ranks(builder)
    begin = builder.calc(ranks, 0.0)
    halves = zip(trees, _halves(size), strict=True)
    pipes = [
        (_Pipe(builder, parent, number, begin), half)
        for number, (parent, half) in enumerate(halves)
        if half
    ]
    for start in range(0, size, chunk):
        for pipe, half in pipes:
            if start < half:
                pipe.chunk(min(chunk, half - start))
    for pipe, _ in pipes:
        for last in pipe.last():
            builder.wait(ranks, last)


class _Pipe:
    """One tree that reduces and broadcasts chunks.

    A rank receives the chunks from each neighbour in order. It sends chunks upwards in order, each
    after adding its children's sums of the same chunk, and downwards in order, each after receiving
    the result. There are no other dependencies.
    """

    def __init__(self, builder: WorkloadBuilder, parent: Ints, number: int, begin: Ints):
        self._builder = builder
        self._parent = parent
        self._tags = 2 * number, 2 * number + 1
        ranks = all_ranks(builder)
        self._root = np.flatnonzero(parent < 0)
        self._children = np.flatnonzero(parent >= 0)
        # Parents with their first child, then parents with their second child. A parent has at most
        # two children.
        order = self._children[np.argsort(parent[self._children], kind="stable")]
        second = np.zeros(len(order), dtype=np.bool_)
        second[1:] = parent[order[1:]] == parent[order[:-1]]
        self._families = [
            (parent[group], group) for group in (order[~second], order[second]) if len(group)
        ]
        self._ranks = ranks
        # Operations of each rank that the next chunk waits for: sums, results, sends up and down.
        self._summed = self._sent_up = self._got = begin
        self._sent_down = [begin for _ in self._families]

    def last(self) -> list[Ints]:
        """Return the operations of all ranks that end the last chunk, int64 [ranks] each."""
        return [self._summed, self._sent_up, self._got, *self._sent_down]

    def chunk(self, size: int) -> None:
        """Reduce and broadcast one chunk."""
        up, down = self._tags
        add, requires = self._builder.operations, self._builder.requires
        children, above = self._children, self._parent[self._children]
        receives = []
        for parents, family in self._families:
            ops = add(parents, Kind.RECV, peer=family, size_bytes=size, tag=up)
            requires(ops, self._summed[parents])
            receives.append((parents, ops))
        summed = add(self._ranks, Kind.CALC)
        requires(summed, self._summed)
        for parents, ops in receives:
            requires(summed[parents], ops)
        self._summed = summed
        self._sent_up = self._send(children, above, size, up, summed, self._sent_up)
        received = add(children, Kind.RECV, peer=above, size_bytes=size, tag=down)
        requires(received, self._got[children])
        got = add(self._ranks, Kind.CALC)
        requires(got, self._got)
        requires(got[children], received)
        requires(got[self._root], summed[self._root])
        self._got = got
        self._sent_down = [
            self._send(parents, family, size, down, got, before)
            for (parents, family), before in zip(self._families, self._sent_down, strict=True)
        ]

    def _send(self, ranks: Ints, to: Ints, size: int, tag: int, has: Ints, before: Ints) -> Ints:
        ops = self._builder.operations(ranks, Kind.SEND, peer=to, size_bytes=size, tag=tag)
        self._builder.requires(ops, has[ranks])
        self._builder.requires(ops, before[ranks])
        after = before.copy()
        after[ranks] = ops
        return after
