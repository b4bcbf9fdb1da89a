"""The messages of NCCL's algorithms: rings, rooted trees, and point-to-point messages.

Channels that take the same paths are one message with the bytes of all. Parts of the data, which
only tests use, are numbered by channel, and within a ring by the member that ends (reduce-scatter)
or begins (all-gather) with them; those of an all-to-all by source and target.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.nccl.messages import LANES, MessageGraph
from weft.workload.nccl.tuning import P2P_CHUNK, P2P_PER_BATCH, NcclChoice, Tuner

Ints = NDArray[np.int64]
Algorithm = Callable[[MessageGraph, Tuner, NcclChoice, int, int], None]

#: Largest number of passes over a ring that are lowered one by one, and of messages of more than
#: one pass and slice. More are spread over these, which changes only how the pipeline fills.
_MAX_PASSES, _MANY = 3, 2**19
#: Largest number of messages of a collective; they and what ranks do for them take about 3 GB.
MAX_MESSAGES = 2**22


def _cut(total: int, weights: Any) -> Ints:
    """Divide bytes in proportion to weights; cumulative rounding makes the sum exact."""
    marks = np.concatenate([[0], np.cumsum(weights)]).astype(object)
    parts: Ints = np.diff(total * marks // marks[-1]).astype(np.int64)
    return parts


def _copies(choice: NcclChoice, trees: int = 1) -> Ints:
    """Return how many channels are each distinct channel and its repetitions."""
    return np.bincount(np.arange(choice.channels) % (choice.base * trees))


def _refuse(choice: NcclChoice, n: int, messages: int) -> None:
    """Refuse more messages than fit in memory, before they are made."""
    if messages > MAX_MESSAGES:
        raise NotApplicable(
            f"{choice.collective} of {n} ranks has {messages:,} messages with {choice.algorithm}; "
            f"expected at most {MAX_MESSAGES:,}"
        )


# -- rings -----------------------------------------------------------------------------------------


def _ring_order(tuner: Tuner, channel: int) -> tuple[Ints, Ints]:
    """Return the members along a ring, machine by machine, and the relay of each; -1 for none.

    A message that leaves a machine goes through the adapter by which the ring enters, hence by the
    member near it (PXN), unless the ring may cross rails.
    """
    shape, options = tuner.shape, tuner.options
    order = np.concatenate([shape.chain(machine, channel) for machine in range(shape.machines)])
    relay = np.full(len(order), -1, dtype=np.int64)
    following = np.roll(order, -1)
    leaves = shape.machine[order] != shape.machine[following]
    leaves &= shape.adapter[order] != shape.adapter[following]
    for at in np.flatnonzero(leaves & (options.cross_nic != 1)):
        by = shape.relay(int(order[at]), int(shape.adapter[following[at]]))
        if not options.pxn_disable and shape.nvlink:
            relay[at] = by
        elif options.cross_nic == 0:
            raise NotApplicable(
                "a ring must leave through another adapter than it enters, which cross_nic=0 "
                "forbids; expected PXN (NVLink, pxn_disable=false) or cross_nic 1 or 2"
            )
    return order, relay


def _ring(messages: MessageGraph, tuner: Tuner, choice: NcclChoice, size: int, _: int) -> None:
    """All-reduce, all-gather or reduce-scatter around a ring for each channel.

    On n members, each step moves S/n bytes from each to the next: 2 (n - 1) steps for an
    all-reduce, n - 1 for the others. Passes of at most a chunk a step follow each other.
    """
    n = tuner.shape.size
    reduces = choice.collective in ("allreduce", "reduce-scatter")
    gathers = choice.collective in ("allreduce", "allgather")
    copies = _copies(choice)
    expected = n * (n - 1) * (reduces + gathers) * len(copies)
    _refuse(choice, n, expected)
    for channel, share in enumerate(_cut(size, copies).tolist()):
        order, relay = _ring_order(tuner, channel)
        by, following = relay >= 0, np.roll(order, -1)
        network = tuner.shape.machine[order] != tuner.shape.machine[following]
        passes = max(1, -(-share // (choice.chunk_bytes * int(copies[channel]) * n)))
        turns = min(passes, _MAX_PASSES if expected <= _MANY else 1)
        first: Ints | None = None
        last: Ints | None = None
        for turn, part in enumerate(_cut(share, np.ones(turns)).tolist()):
            bytes_of = _cut(part, np.ones(n))
            whole = 2 if expected > _MANY and not choice.slice_bytes else 1
            steps = [(step + 1, True) for step in range(n - 1) if reduces]
            steps += [(step, False) for step in range(n - 1) if gathers]
            for number, (ahead, adds) in enumerate(steps):
                name = np.roll(order, ahead)
                data = bytes_of[name]
                at_once = choice.slice_bytes * int(copies[channel])
                slices = np.maximum(1, -(-data // at_once)) if at_once else np.full(n, 2)
                if expected > _MANY:
                    slices = np.ones(n, dtype=np.int64)
                name = (channel * turns + turn) * n + name
                before: Ints | None = first
                first = messages.add(
                    order, np.where(by, relay, following), data, network=network & ~by,
                    slices=slices, lane=channel, blocks=copies[channel], part=name,
                    combines=adds & ~by, repeats=whole * -(-(passes - turn) // turns),
                )  # fmt: skip
                if before is not None:
                    messages.after_own(first, before)
                if last is not None and number:
                    messages.stream(first, np.roll(last, 1))
                last = first.copy()
                if by.any():
                    last[by] = messages.add(
                        relay[by], following[by], data[by], network=True, slices=slices[by],
                        blocks=0, part=name[by], combines=adds,
                    )  # fmt: skip
                    messages.stream(last[by], first[by])


def _hop(
    messages: MessageGraph, tuner: Tuner, choice: NcclChoice, ends: list[int], size: int,
    before: Any, *, part: int, lane: int, copies: int, combines: bool, scale: float = 1.0,
) -> int:  # fmt: skip
    """Add a message in chunks, perhaps by a relay, that passes on others; return its number."""
    slices = max(1, -(-size // (min(choice.chunk_bytes, choice.slice_bytes) * copies)))
    for one, to in pairwise(ends):
        network = bool(tuner.shape.machine[one] != tuner.shape.machine[to])
        added = messages.add(
            one, to, size, network=network, slices=slices, lane=lane, part=part,
            blocks=copies if one == ends[0] else 0, combines=combines and to == ends[-1],
            scale=1.0 if network else scale,
        )  # fmt: skip
        number = int(added)
        if np.size(before):
            messages.stream(number, before)
        before = number
    return number


def _pipeline(
    messages: MessageGraph, tuner: Tuner, choice: NcclChoice, size: int, root: int
) -> None:
    """Broadcast or reduce along the rings, cut at the root.

    k chunks of time t take (k + n - 2) t on n members.
    """
    down = choice.collective == "broadcast"
    copies = _copies(choice)
    for channel, share in enumerate(_cut(size, copies).tolist()):
        order, relay = _ring_order(tuner, channel)
        turn = int(np.flatnonzero(order == root)[0]) + (not down)
        order, relay = np.roll(order, -turn), np.roll(relay, -turn)
        before: Any = []
        for (source, to), by in zip(pairwise(order.tolist()), relay.tolist(), strict=False):
            before = _hop(
                messages, tuner, choice, [source, to] if by < 0 else [source, by, to], share,
                before, part=channel, lane=channel, copies=int(copies[channel]), combines=not down,
            )  # fmt: skip


# -- trees -----------------------------------------------------------------------------------------


def binary_tree(count: int, node: int) -> tuple[int, int]:
    """Return the parent of a node in NCCL's binary tree, and which child of it the node is.

    The root is 0 and has no parent (-1). Leaves and inner nodes alternate: a node whose lowest bit
    is b has the parent without b and with 2b, or only without b if that is out of range.
    """
    if node == 0:
        return -1, 0
    bit = node & -node
    up = (node ^ bit) | (bit << 1)
    up = up if up < count else node ^ bit
    return up, int(node > up)


def double_tree(count: int, node: int, second: int) -> tuple[int, int]:
    """Return a node's parent in one of two trees, in which most leaves of one are inner nodes.

    The second tree is the first one mirrored, if the number of nodes is even, or shifted by one.
    """
    if not second:
        return binary_tree(count, node)
    up, child = binary_tree(count, (node - 1) % count if count % 2 else count - 1 - node)
    if up < 0:
        return up, child
    return ((up + 1) % count if count % 2 else count - 1 - up), child


def _rooted(
    messages: MessageGraph,
    tuner: Tuner,
    choice: NcclChoice,
    parent: Ints,
    size: int,
    **options: Any,
) -> None:
    """Add an all-reduce over a rooted tree: up to the root, combining, and down again."""
    children: list[list[int]] = [[] for _ in parent]
    for node in np.flatnonzero(parent >= 0).tolist():
        children[parent[node]].append(node)
    order = np.flatnonzero(parent < 0).tolist()
    for node in order:
        order += children[node]
    lane = 2 * options["part"] % LANES
    rise: dict[int, int] = {}
    fall: dict[int, Any] = {}
    for node in reversed(order[1:]):
        rise[node] = _hop(
            messages, tuner, choice, [node, int(parent[node])], size,
            [rise[child] for child in children[node]], lane=lane, combines=True, **options,
        )  # fmt: skip
    fall[order[0]] = [rise[child] for child in children[order[0]]]
    for node in order[1:]:
        up = int(parent[node])
        fall[node] = _hop(
            messages, tuner, choice, [up, node], size, fall[up], lane=lane + 1, combines=False,
            **options,
        )  # fmt: skip


def _tree(messages: MessageGraph, tuner: Tuner, choice: NcclChoice, size: int, _: int) -> None:
    """All-reduce over a double binary tree of machines, with a chain in each machine.

    The first member of a chain sends to the parent; first children arrive at the second member,
    second ones at the first (NCCL_TOPO_PATTERN_BALANCED_TREE). With one tree, k chunks of time t
    take (k + 1) t on 2 members and (2 k + 2) t on 3, of which one sends all data up and down.
    """
    shape = tuner.shape
    copies = _copies(choice, 2)
    for each, share in enumerate(_cut(size, copies).tolist()):
        second, channel = divmod(each, choice.base)
        chains = [shape.chain(machine, channel) for machine in range(shape.machines)]
        parent = np.full(shape.size, -1, dtype=np.int64)
        for machine, chain in enumerate(chains):
            parent[chain[1:]] = chain[:-1]
            up, child = double_tree(shape.machines, machine, second)
            if up >= 0:
                parent[chain[0]] = chains[up][0 if child else min(1, len(chains[up]) - 1)]
        _rooted(messages, tuner, choice, parent, share, part=each, copies=int(copies[each]))


def _nvls(messages: MessageGraph, tuner: Tuner, choice: NcclChoice, size: int, _: int) -> None:
    """All-reduce with reduction in the switches of a machine, and trees of the heads between.

    Each head reduces its part of the data and multicasts the result. Every one of p processors
    sends S bytes to be reduced and S/p as a head, and takes as much; processors that exchange parts
    directly would send and take 2 S (p - 1)/p. Messages within a machine are those of the direct
    exchange, with their bytes scaled so that links carry what they carry with NVLS.
    """
    shape = tuner.shape
    trees = 2 if shape.machines > 1 and choice.channels > 1 else 1
    processors = shape.size / shape.machines
    scale = (processors + 1) / (2 * (processors - 1))
    copies = max(1, choice.channels // trees)
    for each, share in enumerate(_cut(size, np.ones(tuner.heads * trees)).tolist()):
        head, second = divmod(each, trees)
        parent = np.full(shape.size, -1, dtype=np.int64)
        first = [shape.chain(machine, head)[0] for machine in range(shape.machines)]
        if shape.machines == 1:
            first = [shape.local[0][head]]
        for machine, local in enumerate(shape.local):
            parent[local] = first[machine]
            up = double_tree(shape.machines, machine, second)[0]
            parent[first[machine]] = first[up] if up >= 0 else -1
        _rooted(messages, tuner, choice, parent, share, part=each, copies=copies, scale=scale)


def _collnet(messages: MessageGraph, tuner: Tuner, choice: NcclChoice, size: int, _: int) -> None:
    """All-reduce with reduction in the switches between machines (CollNet direct).

    The members of a machine send a part of the data to each head, which adds them up; the network
    reduces the parts of the heads of a rail; each head sends the result to the others. The tree of
    a rail reduces a slice when all its heads have signalled that they have it.
    """
    shape = tuner.shape
    for head, share in enumerate(_cut(size, np.ones(tuner.heads)).tolist()):
        first = [int(shape.chain(machine, head)[0]) for machine in range(shape.machines)]
        cut = {"slices": max(1, -(-share // (choice.chunk_bytes * choice.channels))), "part": head}
        ready = messages.add(first[1:], first[0], 0, network=2, combines=True, **cut)
        data = messages.add(first[0], first[1], share, network=1, **cut)
        told = messages.add(first[1], [first[0], *first[2:]], 0, network=2, **cut)
        messages.stream(data, ready)
        messages.stream(told, data)
        messages.reduce_in_network([data, *told])
        gives, has = [data, *ready], [told[0], data, *told[1:]]
        options = {"part": head, "copies": choice.channels}
        lane = 2 * head % LANES
        for own, local, give, result in zip(first, shape.local, gives, has, strict=True):
            for ends in ([node, own] for node in local.tolist() if node != own):
                rise = _hop(
                    messages, tuner, choice, ends, share, [], lane=lane, combines=True, **options
                )
                messages.stream(give, rise)
                _hop(
                    messages, tuner, choice, ends[::-1], share, result, lane=lane + 1,
                    combines=False, **options,
                )  # fmt: skip


# -- point-to-point --------------------------------------------------------------------------------


def _point_to_point(
    messages: MessageGraph, tuner: Tuner, choice: NcclChoice, size: int, _: int
) -> None:
    """All-to-all, or a ring of neighbours by rank, as sends and receives of one group.

    Messages to another machine go through the adapter near the target, hence first to the member
    near that adapter (PXN). Each channel serves a number of peers at once; further peers wait.
    """
    shape = tuner.shape
    n, everyone = shape.size, choice.collective == "alltoall"
    _refuse(choice, n, n * (n - 1) * 2)
    ranks, blocks = np.arange(n), _cut(size, np.ones(n))
    at_once = max(1, tuner.channels // choice.channels * P2P_PER_BATCH)
    started: list[Ints] = []
    for step in range(1, n if everyone else 2):
        to = (ranks + step) % n
        far = shape.machine != shape.machine[to]
        data = blocks[to] if everyone else np.full(n, size)
        by = np.full(n, -1, dtype=np.int64)
        if not tuner.options.pxn_disable and shape.nvlink:
            for source in np.flatnonzero(far & (shape.adapter != shape.adapter[to])).tolist():
                by[source] = shape.relay(source, int(shape.adapter[to[source]]))
        some, part = by >= 0, ranks * n + to
        slices = np.maximum(1, -(-data // (P2P_CHUNK * choice.channels)))
        first = messages.add(
            ranks, np.where(some, by, to), data, network=far & ~some, slices=slices, part=part
        )
        if some.any():
            onward = messages.add(
                by[some], to[some], data[some], network=True, slices=slices[some], blocks=0,
                part=part[some],
            )  # fmt: skip
            messages.stream(onward, first[some])
        if len(started) >= at_once:
            messages.after_own(first, started[-at_once])
        started.append(first)


ALGORITHMS: dict[tuple[str, str], Algorithm] = {
    **{(name, "ring"): _ring for name in ("allreduce", "allgather", "reduce-scatter")},
    **{(name, "ring"): _pipeline for name in ("broadcast", "reduce")},
    **{(name, "p2p"): _point_to_point for name in ("alltoall", "sendrecv")},
    **{("allreduce", name): _nvls for name in ("nvls", "nvls-tree")},
    ("allreduce", "tree"): _tree,
    ("allreduce", "collnet-direct"): _collnet,
}
