"""Slurm's ``topology.conf`` for its topology/tree plugin, written only.

The plugin wants a tree: a leaf switch lists nodes (``Nodes=``), any other switch lists switches
(``Switches=``), no line lists both, and a loop of switches stops the controller. It compares the
distance of every two lines in the cube of their number, so lines that add nothing cost. A fabric is
seldom a tree; what is written is the tree of its *blocks*: the sets of leaf switches that hang
under one switch. Switches over the same leaves are one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import InputError, NotApplicable
from weft.core.words import few
from weft.fabrics import Fabric, LinkKind, NodeKind
from weft.fabrics.formats.format_registry import warn, writer
from weft.fabrics.formats.hostlist import compress
from weft.fabrics.formats.labels import guid_id
from weft.fabrics.formats.tiers import tiers
from weft.fabrics.machines import host_part

#: Longest name of a switch or node, Linux's HOST_NAME_MAX.
MAX_NAME = 64

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")


@dataclass
class _Block:
    """A set of leaf switches that one line stands for."""

    leaves: int
    switches: list[str]
    children: list[str] = field(default_factory=list)


@writer("slurm", suffixes=("topology.conf",))
def write(fabric: Fabric, *, root: str = "fabric") -> str:
    """Slurm ``topology.conf``: leaf switches with their nodes, and the tree of switches over them.

    A host is listed under the switch of its first cabled port. A switch's tier is its distance from
    the nearest leaf, and the switches of the tier below that it is cabled to are its children;
    cables between switches of one tier have no place in a tree and are left out. Switches over the
    same leaves are one line, which names the others in a comment. Of two switches whose leaves
    overlap only in part, the later one is left out. Where the tree then has several tops that
    cables join, a line called `root` spans them, without which Slurm would run no job across.
    Everything left out is counted in a `FormatWarning`.

    Parameters
    ----------
    fabric
        What to write.
    root
        Name of the spanning line; with a number behind it when the fabric is in pieces.

    Raises
    ------
    NotApplicable
        When no host is cabled to a switch, or two nodes would go by one name.
    """
    if not _NAME.fullmatch(root):
        raise InputError(f"slurm: root {root!r} is no name that Slurm takes")
    return _Tree(fabric, root).text()


class _Tree:
    def __init__(self, fabric: Fabric, root: str):
        self.fabric = fabric
        self.root = root
        self.left_out: list[str] = []
        self.switch_names = self._switch_names()
        self.nodes = self._nodes_of_leaves()
        if not self.nodes:
            raise NotApplicable(f"no host of {fabric.name} is cabled to a switch")
        self.leaves = np.array(sorted(self.nodes), dtype=np.int64)
        self.tier = tiers(fabric, self.leaves)
        self.blocks = self._blocks()

    def _switch_names(self) -> list[str]:
        fabric = self.fabric
        names = []
        for node in range(fabric.num_switches):
            label = fabric.node_names[node]
            fits = _NAME.fullmatch(label) and len(label) <= MAX_NAME
            names.append(label if fits else guid_id(NodeKind.SWITCH, int(fabric.node_guid[node])))
        if len(set(names)) < len(names):
            raise NotApplicable("a switch is called by the GUID of another")
        return names

    def _host_name(self, node: int) -> str:
        name = host_part(self.fabric.node_names[node])
        if _NAME.fullmatch(name) and len(name) <= MAX_NAME:
            return name
        return guid_id(NodeKind.HOST, int(self.fabric.node_guid[node]))

    def _nodes_of_leaves(self) -> dict[int, list[str]]:
        """Leaf switch -> names of the hosts whose first cable leads to it."""
        fabric = self.fabric
        to_switch = np.flatnonzero(fabric.link_kind == LinkKind.HOST_SWITCH)
        order = to_switch[
            np.lexsort((fabric.link_from_port[to_switch], fabric.link_from[to_switch]))
        ]
        host = fabric.node_kind[fabric.link_from[order]] == NodeKind.HOST
        order = order[host]
        under: dict[int, list[str]] = {}
        leaf_of: dict[str, int] = {}
        elsewhere = set()
        for node, leaf in zip(
            fabric.link_from[order].tolist(), fabric.link_to[order].tolist(), strict=True
        ):
            name = self._host_name(node)
            if leaf_of.setdefault(name, leaf) != leaf:
                elsewhere.add(name)
            elif name not in (known := under.setdefault(leaf, [])):
                known.append(name)
        if elsewhere:
            self.left_out.append(
                f"further leaf switches of {len(elsewhere)} hosts, listed under their first: "
                + few(sorted(elsewhere))
            )
        cabled = np.zeros(fabric.num_nodes, dtype=bool)
        cabled[fabric.link_from[order]] = True
        loose = [node for node in fabric.host_nodes.tolist() if not cabled[node]]
        if loose:
            self.left_out.append(
                f"{len(loose)} hosts that are cabled to no switch: "
                + few([fabric.node_names[node] for node in loose])
            )
        return under

    def _blocks(self) -> list[_Block]:
        """Every distinct set of two leaves or more under a switch, as bits, smallest first."""
        fabric, tier = self.fabric, self.tier
        covers = {int(leaf): 1 << bit for bit, leaf in enumerate(self.leaves)}
        switch = tier[: fabric.num_switches]
        pairs = np.flatnonzero(fabric.link_kind == LinkKind.SWITCH_SWITCH)
        tail, head = fabric.link_from[pairs], fabric.link_to[pairs]
        down = (tier[tail] == tier[head] + 1) & (tier[head] > 0)
        level = int(np.count_nonzero((tier[tail] == tier[head]) & (tier[tail] > 0))) // 2
        if level:
            self.left_out.append(f"{level} cables between switches of one tier")
        order = np.argsort(tier[tail[down]], kind="stable")
        for parent, child in zip(
            tail[down][order].tolist(), head[down][order].tolist(), strict=True
        ):
            covers[parent] = covers.get(parent, 0) | covers[child]
        apart = np.flatnonzero(switch < 0)
        if len(apart):
            self.left_out.append(
                f"{len(apart)} switches that no switch cable joins to a leaf: "
                + few([self.switch_names[node] for node in apart.tolist()])
            )
        found: dict[int, _Block] = {}
        single = []
        for node in np.lexsort((np.arange(len(switch)), switch)).tolist():
            if switch[node] < 2:
                continue
            if covers[node].bit_count() < 2:
                single.append(self.switch_names[node])
                continue
            block = found.setdefault(covers[node], _Block(covers[node], []))
            block.switches.append(self.switch_names[node])
        if single:
            self.left_out.append(f"{len(single)} switches over one leaf only: {few(single)}")
        return self._nested(sorted(found.values(), key=lambda block: block.leaves.bit_count()))

    def _nested(self, blocks: list[_Block]) -> list[_Block]:
        """The blocks that contain each other or share nothing, and who is whose child.

        The parent of a leaf or block is the smallest later block that contains it; a block that
        shares only some of another's leaves is dropped.
        """
        tops = {int(leaf): 1 << bit for bit, leaf in enumerate(self.leaves)}
        top_of_bit = [self.switch_names[int(leaf)] for leaf in self.leaves]
        cover = {self.switch_names[leaf]: bits for leaf, bits in tops.items()}
        kept, dropped = [], []
        for block in blocks:
            children = list(dict.fromkeys(top_of_bit[bit] for bit in _bits(block.leaves)))
            if any(cover[child] & ~block.leaves for child in children):
                dropped += block.switches
                continue
            block.children = children
            cover[block.switches[0]] = block.leaves
            for bit in _bits(block.leaves):
                top_of_bit[bit] = block.switches[0]
            kept.append(block)
        if dropped:
            self.left_out.append(
                f"{len(dropped)} switches whose leaves overlap in part with another's: "
                + few(dropped)
            )
        self.tops = list(dict.fromkeys(top_of_bit))
        self.first_leaf = {top: int(self.leaves[top_of_bit.index(top)]) for top in self.tops}
        return kept

    def text(self) -> str:
        """The file."""
        lines = [f"# topology.conf of {' '.join(self.fabric.name.split())}, by weft"]
        lines += [
            f"SwitchName={self.switch_names[leaf]} Nodes={compress(self.nodes[leaf])}"
            for leaf in self.leaves.tolist()
        ]
        for block in self.blocks:
            first, *others = block.switches
            if others:
                lines.append(f"# {first} stands for {compress(others)} too")
            lines.append(f"SwitchName={first} Switches={compress(block.children)}")
        lines += self._roots()
        if self.left_out:
            warn(
                self.fabric.name,
                "a tree has no place for all of it; topology.conf leaves out "
                + "; ".join(self.left_out),
            )
        return "\n".join([*lines, ""])

    def _roots(self) -> list[str]:
        piece = _pieces(self.fabric)
        groups: dict[int, list[str]] = {}
        for top in self.tops:
            groups.setdefault(int(piece[self.first_leaf[top]]), []).append(top)
        spanning = [tops for tops in groups.values() if len(tops) > 1]
        lines = []
        for number, tops in enumerate(spanning):
            name = self.root if len(spanning) == 1 else f"{self.root}{number}"
            if name in self.switch_names:
                raise NotApplicable(f"a switch is called {name!r}; choose another root")
            lines += [
                f"# {name} is no switch: it spans what has no common switch above it",
                f"SwitchName={name} Switches={compress(tops)}",
            ]
        return lines


def _bits(number: int) -> list[int]:
    """Places of the bits that are set."""
    places = []
    while number:
        low = number & -number
        places.append(low.bit_length() - 1)
        number ^= low
    return places


def _pieces(fabric: Fabric) -> NDArray[np.int32]:
    """Connected piece of each node."""
    shape = (fabric.num_nodes, fabric.num_nodes)
    ones = np.ones(fabric.num_links, dtype=np.int8)
    graph = coo_array((ones, (fabric.link_from, fabric.link_to)), shape=shape)
    labels: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return labels
