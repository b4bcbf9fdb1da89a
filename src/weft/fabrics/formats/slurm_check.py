"""Check of Slurm's topology files: by Slurm's own rules, and against the cables of a fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.core.arguments import shown
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.severity import SEVERITIES, Severity
from weft.core.words import few
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.hostlist import compress
from weft.fabrics.formats.labels import guid_id
from weft.fabrics.formats.slurm import SlurmBlock, SlurmSwitch, SlurmTopology, size_problem
from weft.fabrics.formats.switch_tree import MAX_NAME, SwitchTree, host_name, other_hosts
from weft.fabrics.machines import host_part

#: Passes over the lines after which Slurm takes a tree for a loop.
_MAX_PASSES = 20


class SlurmFinding(NamedTuple):
    """What is wrong with a file, and in which line of it."""

    severity: Severity
    text: str
    line: int


def check_topologies(topologies: Sequence[SlurmTopology], fabric: Fabric) -> list[SlurmFinding]:
    """Return what is wrong with the topologies of a file, worst first, then by line.

    An error stops Slurm's controller, or lets jobs span hosts without a path. A warning leaves
    hosts out or has them at the wrong switch; a note concerns switches above the leaves. Hosts are
    compared by label, by the host name in their description and by the id made from their GUID.
    The names of switches are Slurm's own: a leaf switch is the one to which most of its hosts are
    cabled.
    """
    check = _Check(fabric)
    seen: set[str] = set()
    for each in topologies:
        if each.topology in seen:
            check.add("error", f"another topology is named {each.topology!r}", each.line)
        seen.add(each.topology)
        if each.tree:
            check.tree(each.tree.switches)
        elif each.block:
            check.blocks(each.block.blocks, each.block.block_sizes)
        elif each.flat is None:
            text = f"topology {each.topology!r} is not checked: it is neither a tree nor blocks"
            check.add("note", text, each.line)
    return sorted(check.found, key=lambda each: (SEVERITIES.index(each.severity), each.line))


class _Check:
    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.found: list[SlurmFinding] = []
        #: Any name of a host -> the one in the tree.
        self.hosts: dict[str, str] = {}
        self.others = other_hosts(fabric)
        for node in fabric.host_nodes.tolist():
            name = host_name(fabric, node)
            text = host_part(fabric.descriptions[node].strip())
            for alias in (name, fabric.node_names[node], text):
                self.hosts.setdefault(alias, name)
            self.hosts[guid_id(NodeKind.HOST, int(fabric.node_guid[node]))] = name
        chains = SwitchTree(fabric, "the check").chains()
        self.leaf_of = {host: chain[0].name for chain in chains for host in chain[0].hosts}
        #: Leaf switch -> top of its connected part.
        self.top_of = {chain[0].name: chain[-1].name for chain in chains}
        #: Line above leaf switches -> these.
        self.above: dict[str, set[str]] = {}
        for leaf, *lines in chains:
            for line in lines:
                self.above.setdefault(line.name, set()).add(leaf.name)

    def add(self, severity: Severity, text: str, line: int) -> None:
        self.found.append(SlurmFinding(severity, text, line))

    def _leaves(self, entries: Sequence[SlurmSwitch] | Sequence[SlurmBlock]) -> dict[str, set[str]]:
        """Return the leaf switches to which the nodes of each entry are cabled; check names."""
        lines: dict[str, int] = {}
        where: dict[str, str] = {}
        found: dict[str, set[str]] = {}
        for entry in entries:
            first = lines.setdefault(entry.name, entry.line)
            if first != entry.line or len(entry.name) > MAX_NAME:
                what = (
                    f"longer than {MAX_NAME} characters" if first == entry.line else "there twice"
                )
                self.add("error", f"{entry.name} is {what}", entry.line)
            nodes = {node: self.hosts.get(node, node) for node in entry.nodes}
            if twice := [
                n for n in nodes.values() if where.setdefault(n, entry.name) != entry.name
            ]:
                text = f"{entry.name}: also listed at {where[twice[0]]}: {_listed(twice)}"
                self.add("warning", text, entry.line)
            if unknown := [node for node in nodes if node not in self.hosts]:
                text = f"{entry.name}: not in {self.fabric.name}: {_listed(unknown)}"
                self.add("warning", text, entry.line)
            found[entry.name] = {self.leaf_of[n] for n in nodes.values() if n in self.leaf_of}
        absent = self.leaf_of.keys() - where.keys()
        severities: tuple[Severity, Severity] = ("warning", "note")
        for severity, names in zip(
            severities, (absent - self.others, absent & self.others), strict=True
        ):
            if names:
                text = f"{count_text(len(names), 'host')} of {self.fabric.name} not listed: "
                self.add(severity, text + _listed(names), entries[0].line)
        return found

    def tree(self, switches: Sequence[SlurmSwitch]) -> None:
        """Check a tree of switches."""
        leaves = self._leaves(switches)
        parents: dict[str, list[str]] = {switch.name: [] for switch in switches}
        for switch in switches:
            if switch.nodes and switch.children:
                text = f"{switch.name} lists nodes and switches; Slurm takes one of them"
                self.add("error", text, switch.line)
            count = Counter(self.leaf_of.get(self.hosts.get(node, "")) for node in switch.nodes)
            for leaf in [each for each, _ in count.most_common() if each is not None][1:]:
                nodes = [n for n in switch.nodes if self.leaf_of.get(self.hosts.get(n, "")) == leaf]
                text = f"{switch.name}: cabled to {leaf}, unlike most hosts there: {_listed(nodes)}"
                self.add("warning", text, switch.line)
                leaves[switch.name].discard(leaf)
            for child in switch.children:
                if child not in parents:
                    text = f"{switch.name}: {child} is no switch of the file"
                    self.add("error", text, switch.line)
                else:
                    parents[child].append(switch.name)
        for switch in switches:
            if len(parents[switch.name]) > 1:
                text = f"{switch.name} is below several switches: {_listed(parents[switch.name])}"
                self.add("warning", text, switch.line)
        left = [switch for switch in switches if switch.children and not switch.nodes]
        for _ in range(_MAX_PASSES):
            waiting = {switch.name for switch in left}
            for switch in left:
                if not waiting & set(switch.children):
                    waiting.discard(switch.name)
                    for child in switch.children:
                        leaves[switch.name] |= leaves.get(child, set())
            left = [switch for switch in left if switch.name in waiting]
        if left:
            text = f"no tree: a loop of switches, or more than {_MAX_PASSES} levels: "
            self.add("error", text + _listed(each.name for each in left), left[0].line)
            return
        for switch in switches:
            below = leaves[switch.name]
            if switch.children and below not in self.above.values():
                text = f"{switch.name}: nothing in the fabric is above just its leaf switches "
                self.add("note", text + _listed(below), switch.line)
        for upper, below in self.above.items():
            if below not in leaves.values():
                text = f"no line is above just the leaf switches of {upper}: {_listed(below)}"
                self.add("note", text, switches[0].line)
        tops = {each.name: leaves[each.name] for each in switches if not parents[each.name]}
        self._parts({switch.name: switch.line for switch in switches}, tops)
        for top in sorted(set(self.top_of.values())):
            names = [name for name, below in tops.items() if top in map(self.top_of.get, below)]
            if len(names) > 1:
                text = "no line joins what cables join, and Slurm runs no job across it: "
                self.add("warning", text + _listed(names), switches[0].line)

    def _parts(self, lines: dict[str, int], leaves: dict[str, set[str]]) -> None:
        """Report entries that join hosts which no cable joins."""
        for name, below in leaves.items():
            ends = {self.top_of[leaf]: leaf for leaf in sorted(below)}
            if len(ends) > 1:
                text = f"{name} joins switches without a path: {few(list(ends.values()))}"
                self.add("error", text, lines[name])

    def blocks(self, blocks: Sequence[SlurmBlock], sizes: tuple[int, ...]) -> None:
        """Check blocks and their sizes."""
        leaves = self._leaves(blocks)
        if sizes and (problem := size_problem(sizes)):
            self.add("error", problem, blocks[0].line)
        base = max(1, sizes[0] if sizes else len(set(blocks[0].nodes)))
        homes: dict[str, list[str]] = {}
        for block in blocks:
            if (count := len(set(block.nodes))) < base:
                text = f"{block.name} has {count_text(count, 'node')}, fewer than the base {base}"
                self.add("error", text, block.line)
            for leaf in leaves[block.name]:
                homes.setdefault(leaf, []).append(block.name)
        self._parts({block.name: block.line for block in blocks}, leaves)
        for leaf, names in sorted(homes.items()):
            if len(names) > 1:
                text = f"the hosts of {leaf} are in several blocks: {_listed(names)}"
                self.add("note", text, blocks[0].line)


def _listed(names: Iterable[str]) -> str:
    """Return a host list of all names, or the first of those that no host list can hold."""
    every = sorted(set(names))
    try:
        return compress(every)
    except InputError:
        return few([shown(name) for name in every])
