"""The tree of switches and hosts that schedulers ask for, from any fabric.

Slurm requires a tree: a leaf switch lists nodes, any other switch lists switches, no line lists
both, and a loop of switches stops the controller. Its run time is cubic in the number of lines, so
redundant lines are left out. A fabric is seldom a tree, so this is the tree of its *blocks*. A
block is the set of leaf switches below one switch or several switches of one tier, which share one
line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.counts import count_text, counted
from weft.core.errors import InputError, NotApplicable
from weft.core.words import few
from weft.fabrics import Fabric, LinkKind, NodeKind
from weft.fabrics.formats.format_registry import warn
from weft.fabrics.formats.labels import guid_id
from weft.fabrics.formats.tiers import tiers
from weft.fabrics.machines import host_part

#: Longest name of a switch or node, Linux's HOSTNAME_MAX.
MAX_NAME = 64
#: Names that Slurm accepts.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")


@dataclass
class _Block:
    """The set of leaf switches, as bits, that one line represents."""

    leaves: int
    switches: list[str]
    children: list[str] = field(default_factory=list)


class TreeLine(NamedTuple):
    """A leaf switch with its hosts, or another line of the tree with the lines below it."""

    name: str
    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    #: Other switches that the line represents; None if the line is no switch, but joins several.
    others: tuple[str, ...] | None = ()


def host_name(fabric: Fabric, node: int) -> str:
    """Return the name of a host, or the id made from its GUID if Slurm does not accept the name."""
    name = host_part(fabric.node_names[node])
    if NAME.fullmatch(name) and len(name) <= MAX_NAME:
        return name
    return guid_id(NodeKind.HOST, int(fabric.node_guid[node]))


def other_hosts(fabric: Fabric) -> set[str]:
    """Return the names of hosts whose role is neither compute nor unknown."""
    roles = zip(fabric.host_nodes.tolist(), fabric.roles, strict=True)
    return {host_name(fabric, node) for node, role in roles if role not in ("compute", "unknown")}


class SwitchTree:
    """Lines of the tree of a fabric, leaf switches first, each line after those below it.

    A host is listed under the switch of its first cabled port. A switch's tier is its level in a
    tree, or else its distance from the nearest switch with hosts; its children are the switches
    cabled to it in the tier below, and other cables between switches are left out. Switches of one
    tier share one line if their leaves differ only because cables are missing, which is assumed
    if half of the leaves below either of two switches are below both. The line has the name of the
    first switch without hosts. If the leaves of two lines overlap only in part, the line with more
    leaves is left out; if both have equally many, the later one. If the tree has several tops in
    one connected component, a line named `root` joins them; if several components need such a line,
    a number is appended. What is left out is counted in one `FormatWarning` about `file`.

    Raises `NotApplicable` if no host is cabled to a switch, or two nodes would have the same name.
    """

    def __init__(self, fabric: Fabric, file: str, root: str = "fabric"):
        if not NAME.fullmatch(root):
            raise InputError(f"slurm: root {root!r} is not a name that Slurm accepts")
        self.fabric = fabric
        self.root = root
        self.left_out: list[str] = []
        self.switch_names = self._switch_names()
        self.nodes = self._nodes_of_leaves()
        if not self.nodes:
            raise NotApplicable(f"no host of {fabric.name} is cabled to a switch")
        self.leaves = np.array(sorted(self.nodes), dtype=np.int64)
        self.tier = tiers(fabric)
        blocks = self._blocks()
        self.lines = [
            TreeLine(self.switch_names[leaf], tuple(self.nodes[leaf]))
            for leaf in self.leaves.tolist()
        ]
        self.lines += [
            TreeLine(block.switches[0], (), tuple(block.children), tuple(block.switches[1:]))
            for block in blocks
        ]
        self.lines += self._roots()
        if self.left_out:
            warn(
                fabric.name,
                f"the fabric is not a tree; {file} leaves out " + "; ".join(self.left_out),
            )

    def chains(self) -> list[list[TreeLine]]:
        """Return for each leaf the lines from it to the top, with leaves in the order of the tree.

        The leaves below any line are consecutive.
        """
        parent = {child: line for line in self.lines for child in line.children}
        at = {line.name: number for number, line in enumerate(self.lines)}
        chains = []
        for line in self.lines:
            if line.hosts:
                chain = [line]
                while upper := parent.get(chain[-1].name):
                    chain.append(upper)
                chains.append(chain)
        return sorted(chains, key=lambda chain: [at[line.name] for line in chain[::-1]])

    def heights(self) -> dict[str, int]:
        """Return the height of each line: 1 for leaves, and 1 more than the highest child."""
        heights: dict[str, int] = {}
        for line in self.lines:
            heights[line.name] = 1 + max((heights[child] for child in line.children), default=0)
        return heights

    def _leave_out(self, names: list[str], noun: str, what: str) -> None:
        self.left_out += [counted(names, noun, what)] if names else []

    def _switch_names(self) -> list[str]:
        fabric = self.fabric
        names = []
        for node in range(fabric.num_switches):
            label = fabric.node_names[node]
            fits = NAME.fullmatch(label) and len(label) <= MAX_NAME
            names.append(label if fits else guid_id(NodeKind.SWITCH, int(fabric.node_guid[node])))
        if len(set(names)) < len(names):
            raise NotApplicable("the name of a switch equals the id made from the GUID of another")
        return names

    def _nodes_of_leaves(self) -> dict[int, list[str]]:
        """Return leaf switch -> names of the hosts whose first cable leads to it."""
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
            name = host_name(fabric, node)
            if leaf_of.setdefault(name, leaf) != leaf:
                elsewhere.add(name)
            elif name not in (known := under.setdefault(leaf, [])):
                known.append(name)
        if elsewhere:
            self.left_out.append(
                f"further leaf switches of {count_text(len(elsewhere), 'host')}, "
                "listed under their first: " + few(sorted(elsewhere))
            )
        cabled = np.zeros(fabric.num_nodes, dtype=bool)
        cabled[fabric.link_from[order]] = True
        uncabled = [fabric.node_names[n] for n in fabric.host_nodes.tolist() if not cabled[n]]
        self._leave_out(uncabled, "host", "without a cable to a switch")
        return under

    def _blocks(self) -> list[_Block]:
        """Return a block per distinct set of two or more leaves below a switch, smallest first."""
        fabric, tier = self.fabric, self.tier
        own = {int(leaf): 1 << bit for bit, leaf in enumerate(self.leaves)}
        covers = own.copy()
        switch = tier[: fabric.num_switches]
        pairs = np.flatnonzero(fabric.link_kind == LinkKind.SWITCH_SWITCH)
        tail, head = fabric.link_from[pairs], fabric.link_to[pairs]
        down = (tier[tail] == tier[head] + 1) & (tier[head] > 0)
        across = (np.abs(tier[tail] - tier[head]) != 1) & (tier[tail] > 0)
        if across.any():
            self.left_out.append(
                f"{count_text(int(across.sum()) // 2, 'cable')} not between successive tiers"
            )
        rows = fabric.graph.node_row
        reached = fabric.graph.hops_from(rows[self.leaves])[rows[: fabric.num_switches]] >= 0
        unconnected = [self.switch_names[node] for node in np.flatnonzero(~reached).tolist()]
        self._leave_out(unconnected, "switch", "without a path to a leaf")
        blocks: dict[int, _Block] = {}
        single: list[str] = []
        for at in range(2, int(switch.max()) + 1):
            below: dict[int, int] = {}
            here = down & (tier[tail] == at)
            for parent, child in zip(tail[here].tolist(), head[here].tolist(), strict=True):
                below[parent] = below.get(parent, 0) | covers.get(child, 0)
            for node in sorted(below):
                if below[node].bit_count() == 1 and node not in own:
                    single.append(self.switch_names[node])
                    covers[node] = below.pop(node)
            for group in _alike({node: below[node] for node in sorted(below) if below[node]}):
                leaves = 0
                for node in group:
                    leaves |= below[node] | own.get(node, 0)
                covers.update(dict.fromkeys(group, leaves))
                names = [self.switch_names[node] for node in group if node not in own]
                if names:
                    blocks.setdefault(leaves, _Block(leaves, [])).switches += names
        self._leave_out(single, "switch", "above only one leaf")
        return self._nested(sorted(blocks.values(), key=lambda block: block.leaves.bit_count()))

    def _nested(self, blocks: list[_Block]) -> list[_Block]:
        """Set the children of blocks and return those that are pairwise nested or disjoint.

        The parent of a leaf or block is the smallest later block that contains it. A block that
        overlaps an earlier block, without containing it, is dropped.
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
        self._leave_out(dropped, "switch", "whose leaves overlap in part with another's")
        self.tops = list(dict.fromkeys(top_of_bit))
        self.first_leaf = {top: int(self.leaves[top_of_bit.index(top)]) for top in self.tops}
        return kept

    def _roots(self) -> list[TreeLine]:
        component = _components(self.fabric)
        groups: dict[int, list[str]] = {}
        for top in self.tops:
            groups.setdefault(int(component[self.first_leaf[top]]), []).append(top)
        spanning = [tops for tops in groups.values() if len(tops) > 1]
        lines = []
        for number, tops in enumerate(spanning):
            name = self.root if len(spanning) == 1 else f"{self.root}{number}"
            if name in self.switch_names:
                raise NotApplicable(f"a switch is named {name!r}; choose another root")
            lines.append(TreeLine(name, (), tuple(tops), None))
        return lines


def _alike(covers: dict[int, int]) -> list[list[int]]:
    """Return groups of switches with common leaves: at least half of the leaves of any two."""
    groups: dict[int, list[int]] = {}
    sets: dict[int, list[int]] = {}
    for node, leaves in covers.items():
        sets.setdefault(leaves, []).append(node)
    for leaves, nodes in sets.items():
        near = [
            known
            for known in groups
            if any(
                2 * (leaves & covers[node]).bit_count() >= (leaves | covers[node]).bit_count()
                for node in groups[known]
            )
        ]
        groups[nodes[0]] = sum((groups.pop(known) for known in near), nodes)
    return [sorted(group) for group in groups.values()]


def _bits(number: int) -> list[int]:
    """Return the indices of the bits that are set."""
    indices = []
    while number:
        low = number & -number
        indices.append(low.bit_length() - 1)
        number ^= low
    return indices


def _components(fabric: Fabric) -> NDArray[np.int32]:
    """Return the connected component of each node."""
    shape = (fabric.num_nodes, fabric.num_nodes)
    ones = np.ones(fabric.num_links, dtype=np.int8)
    graph = coo_array((ones, (fabric.link_from, fabric.link_to)), shape=shape)
    labels: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return labels
