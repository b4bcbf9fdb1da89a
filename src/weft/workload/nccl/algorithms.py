"""The messages of NCCL's algorithms: rings, rooted trees, and point-to-point messages.

Channels that take the same paths are one message with the bytes of all. Blocks, which only tests
use, are numbered by channel and part: ``channel * members + part``; the parts of a ring are named
after the rank that begins with them (all-gather) or ends with them (reduce-scatter). In an
all-to-all, block ``source * members + target``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.nccl.messages import Messages
from weft.workload.nccl.shape import Shape
from weft.workload.nccl.tuning import P2P_CHANNEL, P2P_CHUNK, P2P_PER_BATCH, Choice, Tuner

Ints = NDArray[np.int64]

#: Largest number of passes over a ring that are simulated one by one; NCCL's passes beyond it are
#: spread over these, which changes only how long the pipeline fills.
_MAX_PASSES = 3
#: Most pieces of a message in a tree, in which several channels send between the same members.
_PIECES = 10


def cut(total: int, weights: NDArray[np.int64]) -> Ints:
    """Divide bytes in proportion to weights; cumulative rounding makes the sum exact."""
    marks = np.concatenate([[0], np.cumsum(weights)])
    return np.diff(total * marks.astype(object) // int(marks[-1])).astype(np.int64)


def shares(choice: Choice, total: int, parts: int = 1) -> Ints:
    """Return bytes of each distinct channel: channel c and its repetitions, each an equal part."""
    count = np.bincount(np.arange(choice.channels) % (choice.base * parts))
    return cut(total, count)


def copies_of(choice: Choice, channel: int, parts: int = 1) -> int:
    """Return how many channels are a distinct channel and its repetitions."""
    return int(np.bincount(np.arange(choice.channels) % (choice.base * parts))[channel])


# -- rings -----------------------------------------------------------------------------------------


def ring_order(shape: Shape, channel: int) -> Ints:
    """Return the members along the ring of a channel: machine by machine."""
    return np.concatenate([shape.chain(machine, channel) for machine in range(shape.machines)])


def relays(tuner: Tuner, order: Ints) -> Ints:
    """Return for each member of a ring the member that relays its messages; -1 for none.

    A message that leaves a machine goes through the adapter of its channel, by which the ring
    enters, and so through the processor near it (PXN), unless the ring may cross rails.
    """
    shape, options = tuner.shape, tuner.options
    following = np.roll(order, -1)
    leaves = shape.machine[order] != shape.machine[following]
    relay = np.full(len(order), -1, dtype=np.int64)
    if options.cross_nic == 1 or shape.machines == 1:
        return relay
    for at in np.flatnonzero(leaves):
        source, target = int(order[at]), int(following[at])
        if shape.adapter[source] == shape.adapter[target]:
            continue
        by = shape.relay(source, int(shape.adapter[target]))
        if options.pxn_disable or not shape.nvlink or by < 0:
            if options.cross_nic == 0:
                raise NotApplicable(
                    "a ring must leave through another adapter than it enters, which cross_nic=0 "
                    "forbids; expected PXN (NVLink, pxn_disable=false) or cross_nic 1 or 2"
                )
            continue
        relay[at] = by
    return relay


class _Ring:
    """Steps of a ring, in which every member sends to the next."""

    def __init__(self, messages: Messages, tuner: Tuner, choice: Choice, channel: int):
        self.messages = messages
        self.order = ring_order(tuner.shape, channel)
        self.relay = relays(tuner, self.order)
        self.channel = channel
        self.network = tuner.shape.machine[self.order] != np.roll(tuner.shape.machine[self.order], -1)
        self.copies = copies_of(choice, channel)
        self.at_once = choice.slice_bytes * self.copies
        self.first: Ints | None = None
        self.last: Ints | None = None

    def step(self, size: Ints, block: Ints, combines: bool, repeats: int, fresh: bool) -> None:
        """Add a step: each member sends `size` bytes of a block, which it received before.

        `fresh`: whether the data are the sender's own, so that they wait for nothing.
        """
        messages, order = self.messages, self.order
        following = np.roll(order, -1)
        by_relay = self.relay >= 0
        slices = np.maximum(1, -(-size // self.at_once)) if self.at_once else 2
        common = {
            "slices": slices, "lane": self.channel, "repeats": repeats, "blocks": self.copies,
            "block": self.channel * len(order) + block,
        }  # fmt: skip
        first = messages.add(
            order, np.where(by_relay, self.relay, following), size,
            network=self.network & ~by_relay, combines=combines & ~by_relay, **common,
        )  # fmt: skip
        last = first.copy()
        if by_relay.any():
            second = {
                key: value[by_relay] if isinstance(value, np.ndarray) else value
                for key, value in common.items()
            }
            second["blocks"] = 0  # a proxy sends, not a thread block of the relay
            last[by_relay] = messages.add(
                self.relay[by_relay], following[by_relay], size[by_relay], network=True,
                combines=combines, **second,
            )  # fmt: skip
            messages.stream(last[by_relay], first[by_relay])
        if self.first is not None:
            messages.after_own(first, self.first)
        if self.last is not None and not fresh:
            messages.stream(first, np.roll(self.last, 1))
        self.first, self.last = first, last


def ring(messages: Messages, tuner: Tuner, choice: Choice, size: int, _: int) -> None:
    """All-reduce, all-gather and reduce-scatter around a ring for each channel.

    With one adapter a machine and n machines, data of S bytes, k slices a step, and o the time that
    a slice takes a thread block: 2 (n - 1) steps of an all-reduce take (S/n)/B each, if a slice
    takes longer than its latency.
    """
    n = tuner.shape.size
    reduces = choice.collective in ("allreduce", "reduce-scatter")
    gathers = choice.collective in ("allreduce", "allgather")
    for channel, share in enumerate(shares(choice, size).tolist()):
        passes = max(1, -(-share // (choice.chunk_bytes * copies_of(choice, channel) * n)))
        run = min(passes, _MAX_PASSES)
        for turn, part in enumerate(cut(share, np.ones(run, dtype=np.int64)).tolist()):
            blocks = cut(part, np.ones(n, dtype=np.int64))
            repeats = -(-(passes - turn) // run)
            circle = _Ring(messages, tuner, choice, channel) if turn == 0 else circle
            for step in range(n - 1 if reduces else 0):
                block = np.roll(circle.order, step + 1)
                circle.step(blocks[block], block, True, repeats, step == 0)
            for step in range(n - 1 if gathers else 0):
                block = np.roll(circle.order, step)
                circle.step(blocks[block], block, False, repeats, step == 0 and not reduces)


def pipeline(messages: Messages, tuner: Tuner, choice: Choice, size: int, root: int) -> None:
    """Broadcast and reduce along the rings, cut at the root: k chunks over n - 1 hops."""
    n = tuner.shape.size
    for channel, share in enumerate(shares(choice, size).tolist()):
        order = ring_order(tuner.shape, channel)
        relay = relays(tuner, order)
        at = int(np.flatnonzero(order == root)[0])
        down = choice.collective == "broadcast"
        order, relay = np.roll(order, -at if down else n - 1 - at), np.roll(
            relay, -at if down else n - 1 - at
        )
        before = None
        for source, to, by in zip(order[:-1].tolist(), order[1:].tolist(), relay, strict=False):
            before = _hop(messages, tuner, choice, source, to, int(by), share, channel, not down, before)


def _hop(
    messages: Messages,
    tuner: Tuner,
    choice: Choice,
    source: int,
    to: int,
    by: int,
    size: int,
    channel: int,
    combines: bool,
    before: Ints | int | None,
    *,
    copies: int = 0,
    lane: int | None = None,
    scale: float = 1.0,
) -> int:
    """Add a message in chunks, perhaps by a relay, that passes on others; return its number."""
    shape = tuner.shape
    copies = copies or copies_of(choice, channel)
    slices = max(1, -(-size // (min(choice.chunk_bytes, choice.slice_bytes) * copies)))
    far = bool(shape.machine[source] != shape.machine[to])
    lane = channel if lane is None else lane
    ends = [source, to] if by < 0 else [source, by, to]
    number = -1
    for at, (one, other) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        leaves = far and at == len(ends) - 2
        added = messages.add(
            one, other, size, network=leaves, slices=slices, lane=lane, block=channel,
            blocks=0 if at else copies,
            combines=combines and other == to, scale=1.0 if leaves else scale, pieces=_PIECES,
        )  # fmt: skip
        if at:
            messages.stream(added, number)
        elif before is not None and np.size(before):
            messages.stream(added, before)
        number = int(added)
    return number


# -- trees -----------------------------------------------------------------------------------------


def binary_tree(count: int, node: int) -> tuple[int, int]:
    """Return the parent of a node in NCCL's binary tree, and which child of it the node is.

    The root is 0 and has no parent (-1). Leaves and inner nodes alternate: a node whose lowest bit
    is b has the parent without b and with 2b, or without both if that is out of range.
    """
    if node == 0:
        return -1, 0
    bit = node & -node
    up = (node ^ bit) | (bit << 1)
    if up >= count:
        up = node ^ bit
    return up, 0 if node < up else 1


def double_tree(count: int, node: int, tree: int) -> tuple[int, int]:
    """Return a node's parent in one of two trees, in which most leaves of one are inner nodes.

    The second tree is the first one mirrored, if the number of nodes is even, or shifted by one.
    """
    if tree == 0:
        return binary_tree(count, node)
    if count % 2:
        up, child = binary_tree(count, (node - 1) % count)
        return (up if up < 0 else (up + 1) % count), child
    up, child = binary_tree(count, count - 1 - node)
    return (up if up < 0 else count - 1 - up), child


def _rooted(
    messages: Messages,
    tuner: Tuner,
    choice: Choice,
    parent: Ints,
    size: int,
    channel: int,
    copies: int,
    inside_scale: float,
) -> None:
    """Add an all-reduce over a rooted tree: up to the root, combining, and down again."""
    children: list[list[int]] = [[] for _ in parent]
    for node, up in enumerate(parent.tolist()):
        if up >= 0:
            children[up].append(node)
    root = int(np.flatnonzero(parent < 0)[0])
    order = [root]
    for node in order:
        order += children[node]
    lane = 2 * channel
    rise: dict[int, int] = {}
    fall: dict[int, int] = {}
    for node in reversed(order[1:]):
        before = np.array([rise[child] for child in children[node]], dtype=np.int64)
        rise[node] = _hop(
            messages, tuner, choice, node, int(parent[node]), -1, size, channel, True, before,
            copies=copies, lane=lane, scale=inside_scale,
        )  # fmt: skip
    arrived = np.array([rise[child] for child in children[root]], dtype=np.int64)
    for node in order[1:]:
        up = int(parent[node])
        before = arrived if up == root else np.array([fall[up]])
        fall[node] = _hop(
            messages, tuner, choice, up, node, -1, size, channel, False, before,
            copies=copies, lane=lane + 1, scale=inside_scale,
        )  # fmt: skip


def tree(messages: Messages, tuner: Tuner, choice: Choice, size: int, _: int) -> None:
    """All-reduce over a double binary tree of machines, with a chain in each machine.

    The first member of a chain sends to the parent; first children arrive at the second member,
    second ones at the first (NCCL_TOPO_PATTERN_BALANCED_TREE). On n machines of one processor, data
    of S bytes in two trees and k chunks a tree take at least S/B (each rank sends S in all).
    """
    shape = tuner.shape
    for each, share in enumerate(shares(choice, size, 2).tolist()):
        channel, second = each % choice.base, each // choice.base
        copies = copies_of(choice, each, 2)
        chains = [shape.chain(machine, channel) for machine in range(shape.machines)]
        parent = np.full(shape.size, -1, dtype=np.int64)
        for machine, chain in enumerate(chains):
            parent[chain[1:]] = chain[:-1]
            up, child = double_tree(shape.machines, machine, second)
            if up >= 0:
                at = min(1, len(chains[up]) - 1) if child == 0 else 0
                parent[chain[0]] = chains[up][at]
        _rooted(messages, tuner, choice, parent, share, each, copies, 1.0)


def nvls(messages: Messages, tuner: Tuner, choice: Choice, size: int, _: int) -> None:
    """All-reduce with reduction in the switches of a machine, and trees of the heads between.

    Each head reduces its part of the data and multicasts the result. Switches that reduce and
    multicast spare links: every processor sends S bytes to be reduced and S/p as a head, and takes
    as much, where p processors that exchange parts directly would send and take 2 S (p - 1)/p.
    Messages within a machine are those of the direct exchange, with their bytes scaled so that
    links carry what they carry with NVLS.
    """
    shape = tuner.shape
    trees = 2 if shape.machines > 1 and choice.channels > 1 else 1
    parts = cut(size, np.ones(tuner.heads * trees, dtype=np.int64))
    copies = max(1, choice.channels // trees)
    for each, share in enumerate(parts.tolist()):
        head, second = each // trees, each % trees
        parent = np.full(shape.size, -1, dtype=np.int64)
        first = [int(shape.chain(machine, head)[0]) for machine in range(shape.machines)]
        if shape.machines == 1:
            first = [int(shape.local[0][head])]
        for machine, local in enumerate(shape.local):
            parent[local] = first[machine]
            up, _child = double_tree(shape.machines, machine, second)
            parent[first[machine]] = first[up] if up >= 0 else -1
        _rooted(messages, tuner, choice, parent, share, each, copies, nvls_scale(shape, "allreduce"))


def nvls_scale(shape: Shape, collective: str) -> float:
    """Return the bytes on a processor's link with NVLS, relative to a direct exchange of parts."""
    p = shape.size / shape.machines
    return (p + 1) / (2 * (p - 1)) if collective == "allreduce" else p / (p - 1)


def nvls_direct(messages: Messages, tuner: Tuner, choice: Choice, size: int, _: int) -> None:
    """All-gather by multicast, or reduce-scatter by reduction, in the switches of one machine."""
    shape = tuner.shape
    n, scale = shape.size, nvls_scale(shape, choice.collective)
    blocks = cut(size, np.ones(n, dtype=np.int64))
    gathers = choice.collective == "allgather"
    for source in range(n):
        to = np.delete(np.arange(n), source)
        block = np.full(n - 1, source) if gathers else to
        slices = np.maximum(1, -(-blocks[block] // (choice.chunk_bytes * choice.channels)))
        messages.add(
            source, to, blocks[block], network=False, slices=slices, lane=to % 64, block=block,
            combines=not gathers, scale=scale,
        )  # fmt: skip


# -- point-to-point --------------------------------------------------------------------------------


def point_to_point(messages: Messages, tuner: Tuner, choice: Choice, size: int, _: int) -> None:
    """All-to-all, or a ring of neighbours by rank, as sends and receives of one group.

    Messages to another machine go through the adapter near the target, hence first to the processor
    near that adapter (PXN). Each channel serves a number of peers at once; further peers wait.
    """
    shape = tuner.shape
    n = shape.size
    ranks = np.arange(n)
    blocks = cut(size, np.ones(n, dtype=np.int64))
    at_once = max(1, tuner.channels // choice.channels * P2P_PER_BATCH)
    started: list[Ints] = []
    for step in range(1, n if choice.collective == "alltoall" else 2):
        to = (ranks + step) % n
        far = shape.machine != shape.machine[to]
        sizes = blocks[to] if choice.collective == "alltoall" else np.full(n, size)
        by = np.full(n, -1, dtype=np.int64)
        if not tuner.options.pxn_disable and shape.nvlink:
            for source in np.flatnonzero(far & (shape.adapter != shape.adapter[to])).tolist():
                by[source] = shape.relay(source, int(shape.adapter[to[source]]))
        slices = np.maximum(1, -(-sizes // (P2P_CHUNK * choice.channels)))
        block = ranks * n + to if choice.collective == "alltoall" else ranks
        lane = step * choice.channels % 64
        first = messages.add(
            ranks, np.where(by >= 0, by, to), sizes, network=far & (by < 0), slices=slices,
            lane=lane, block=block,
        )  # fmt: skip
        some = by >= 0
        if some.any():
            onward = messages.add(
                by[some], to[some], sizes[some], network=True, slices=slices[some], lane=lane,
                block=block[some],
            )  # fmt: skip
            messages.stream(onward, first[some])
        if len(started) >= at_once:
            messages.after_own(first, started[-at_once])
        started.append(first)


def copy_ns(tuner: Tuner, choice: Choice, size: int) -> Ints:
    """Return how long the thread blocks of point-to-point channels move data to the network.

    NCCL counts on 14 GB/s of a channel. Each peer has some channels; if peers share channels, each
    channel moves their data in turn. float64 [members].
    """
    shape = tuner.shape
    n = shape.size
    if choice.collective == "sendrecv":
        far = shape.machine != np.roll(shape.machine, -1)
        return np.where(far, size / (P2P_CHANNEL * choice.channels), 0.0)
    outside = n - np.array([len(shape.local[machine]) for machine in shape.machine])
    alone = np.ceil(outside * choice.channels / tuner.channels)
    return np.where(outside > 0, size / n * alone / (P2P_CHANNEL * choice.channels), 0.0)


ALGORITHMS: dict[tuple[str, str], Callable[[Messages, Tuner, Choice, int, int], None]] = {
    **{(name, "ring"): ring for name in ("allreduce", "allgather", "reduce-scatter")},
    **{(name, "ring"): pipeline for name in ("broadcast", "reduce")},
    **{(name, "nvls"): nvls_direct for name in ("allgather", "reduce-scatter")},
    **{(name, "p2p"): point_to_point for name in ("alltoall", "sendrecv")},
    ("allreduce", "tree"): tree,
    ("allreduce", "nvls"): nvls,
    ("allreduce", "nvls-tree"): nvls,
}  # fmt: skip
