"""Multicasts of a workload as arrays of the kernels: their ranges, and the tree that they use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.kernels.flit import multicast
from weft.kernels.flit.multicast import Casts
from weft.kernels.records import record
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.network import Links
from weft.sim.flit.router import MOST_PORTS, Router
from weft.sim.flit.routings.tree import coordinates
from weft.workload import Multicast, Workload

#: Routings with which multicasts cannot deadlock: up to a common ancestor, then down.
ROUTINGS = ("nca-random", "nca-adaptive")


def check_multicasts(routing: str, router: Router, held: Adapter | None, work: Workload) -> None:
    """Refuse settings with which a workload's multicasts do not work."""
    if routing not in ROUTINGS:
        raise InputError(
            f"hardware broadcasts and barriers need the routing {' or '.join(ROUTINGS)}, not "
            f"{routing}"
        )
    for name in ("output_buffer", "speculative", "hold_switch"):
        if getattr(router, name):
            raise InputError(f"routers with {name} have no hardware broadcasts and barriers")
    if router.switching == "store-and-forward":
        raise InputError("store-and-forward goes without hardware broadcasts and barriers")
    if held is None and (work.multicast == Multicast.TEST).any():
        raise InputError(
            "a hardware barrier waits for acknowledgements, so it needs an adapter with circuits"
        )


def casts_of(links: Links, work: Workload, hosts: NDArray[np.int32], held: Adapter | None) -> Casts:
    """Return the state of the multicasts of a workload at cycle 0.

    `links`, `work`: links of the fabric, and the workload. `hosts` [ranks]: host of each rank.
    `held`: how packets hold circuits; None if they do not.
    """
    hop = 0 if held is None else held.acknowledge_hop
    trunk, branches = _tree(links, hop)
    first = np.flatnonzero(work.multicast >= Multicast.DATA)
    sends = np.flatnonzero(work.multicast)
    end = sends[np.append(np.searchsorted(sends, first)[1:], len(sends)) - 1] + 1
    groups = np.zeros(len(first), dtype=multicast.GROUP)
    groups["size"], groups["first_op"] = work.size_bytes[first], first
    groups["ops"] = groups["waiting"] = end - first
    groups["test"] = work.multicast[first] == Multicast.TEST
    of_op = np.full(work.num_ops, -1, dtype=np.int32)
    of_op[sends] = np.repeat(np.arange(len(first)), end - first)
    offsets, ops, entries = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], 0
    for group, begin, stop in zip(groups, first.tolist(), end.tolist(), strict=True):
        source = int(hosts[work.rank[begin]])
        to = hosts[work.peer[begin:stop]]
        low, high = _range(links, np.append(to, source))
        group["low"], group["high"] = low, high
        group["receivers"] = entries
        order = np.argsort(to, kind="stable")
        ops.append(begin + order)
        counts = np.bincount(to - low, minlength=high - low)
        offsets.append(offsets[-1][-1] + np.cumsum(counts))
        entries += high - low
        row = int(links.outputs["head_node"][source]) - links.ends
        way = int(links.outputs["latency"][source]) + int(trunk["way"][row]) + hop
        while trunk["low"][row] > low or trunk["high"][row] < high:
            row = int(trunk["parent"][row]) - links.ends
        group["top"], group["way"] = row, way - int(trunk["way"][row])
    return Casts(
        groups=groups,
        packets=np.zeros(0, dtype=multicast.CAST),
        forks=np.zeros(0, dtype=multicast.FORK),
        trunk=trunk,
        branches=branches,
        tests=record(multicast.TESTS, quiet=-1),
        of_op=of_op,
        op_offset=np.concatenate(offsets).astype(np.int32),
        ops=np.concatenate(ops).astype(np.int32),
        lanes=np.zeros(0, dtype=np.uint8),
        ports=np.zeros(len(trunk), dtype=np.uint64),
        of_port=np.zeros(len(links.inputs), dtype=np.uint32),
        done=np.zeros(MOST_PORTS, dtype=np.uint32),
    )


def _range(links: Links, hosts: NDArray[np.int32]) -> tuple[int, int]:
    """Return the first host of a multicast and the one after the last, if there is none between."""
    used = np.unique(hosts)
    low, high = int(used[0]), int(used[-1]) + 1
    if len(used) < high - low:
        gap = int(used[np.argmax(np.diff(used) > 1)]) + 1
        names = links.fabric.host_names
        raise InputError(
            f"a hardware broadcast or barrier needs consecutive hosts, but of {names[low]} to "
            f"{names[high - 1]} it leaves out {names[gap]}"
        )
    return low, high


def _tree(links: Links, hop: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return `TRUNK` of each row and `BRANCH`: the tree below the first switch of the top level.

    Rows without a part in the tree have no branches. Of parallel cables, the first is in the tree.

    `hop`: cycles of an acknowledgement in a router.
    """
    tree = coordinates(links)
    fabric, ends = links.fabric, links.ends
    trunk = np.zeros(len(tree.rows), dtype=multicast.TRUNK)
    trunk["parent"] = trunk["up"] = -1
    top = int(np.flatnonzero(tree.rows["width"] == 0)[0])
    branches: list[tuple[int, int, int]] = []

    def add(row: int, way: int) -> tuple[int, int]:
        """Add the subtree of a row; return its range of endpoints."""
        outputs: list[tuple[int, int, int]] = []
        here = tree.rows[row]
        for child in range((here["high"] - here["low"]) // here["span"]):
            down = int(tree.output[here["down"] + child * here["parallel"]])
            node = int(links.outputs["head_node"][down])
            if down < 0:
                continue  # place of a host that is not there
            if node < ends:
                outputs.append((down, node, node + 1))
            else:
                part = trunk[node - ends]
                up = int(links.output_of[links.out_link[down] ^ 1])
                part["parent"], part["up"] = row + ends, up
                outputs.append(
                    (down, *add(node - ends, way + hop + int(links.outputs["latency"][up])))
                )
        if not outputs:
            raise NotApplicable(
                "hardware broadcasts and barriers need hosts at every leaf switch, but "
                f"{fabric.node_names[row]} has none"
            )
        outputs.sort()
        lows, highs = ([each[at] for each in outputs] for at in (1, 2))
        low, high = min(lows), max(highs)
        if sum(highs) - sum(lows) != high - low:
            raise NotApplicable(
                "hardware broadcasts and barriers need a fat tree whose subtrees have consecutive "
                f"hosts, which those of {fabric.node_names[row]} are not"
            )
        trunk[row]["low"], trunk[row]["high"], trunk[row]["way"] = low, high, way
        trunk[row]["first"] = len(branches)
        branches.extend(outputs)
        trunk[row]["end"] = len(branches)
        return low, high

    low, high = add(top, 0)
    if high - low < ends:
        raise NotApplicable(
            "hardware broadcasts and barriers need a fat tree with a switch above all hosts"
        )
    return trunk, np.array(branches, dtype=multicast.BRANCH)
