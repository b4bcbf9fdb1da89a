"""Faults of a fabric: each with its severity, its ports, and what its peers have instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.advice.irregular import (
    AGREE,
    fabric_levels,
    missing_cables,
    missing_steps,
    rate_of,
    slow_cables,
    uneven_uplinks,
)
from weft.core.columns import Column, frame
from weft.core.counts import count_text
from weft.core.severity import Severity
from weft.core.units import parse_rate
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.hostlist import host_list
from weft.fabrics.rails import machine_kinds

#: Number of lines on each kind of fault that are printed; the others are only counted.
NAMED = 6

#: Kind -> heading of its row in `weft info`, in the plural.
HEADINGS = {
    "disconnected host": "disconnected hosts",
    "degraded cable": "degraded cables",
    "missing cable": "missing cables",
    "uneven uplinks": "leaf switches with uneven uplinks",
    "absent leaf switch": "absent leaf switches",
    "missing adapter": "machines without some adapters",
    "swapped adapters": "machines with adapters on other rails",
    "unnamed adapters": "adapters without a host name",
}
#: Labels of adapters that name no host: GUIDs, and what firmware and drivers write.
_UNNAMED = re.compile(
    r"|H-[0-9a-f]{16}|(?:localhost|MT\d+|\S*ConnectX\S*|\S*InfiniHost\S*)(?!\S).*", re.ASCII
)

#: Columns of the table of faults, one row each.
FAULT_COLUMNS = {
    "kind": Column(pl.String, "", f"One of: {', '.join(HEADINGS)}"),
    "severity": Column(pl.String, "", "error, warning or note"),
    "node": Column(pl.String, "", "Node with the fault: of a missing cable, the lower switch"),
    "port": Column(pl.Int64, "", "Port of the node (null: not known, or not about a port)"),
    "peer": Column(pl.String, "", "Node at the other end (null: not about a cable)"),
    "peer_port": Column(pl.Int64, "", "Port of that node (null: not known)"),
    "found": Column(pl.String, "", "What was found: a rate, or a number of cables"),
    "normal": Column(pl.String, "", "What most of its peers have"),
    "text": Column(pl.String, "", "The fault in words"),
    "lost_gbps": Column(
        pl.Float64, "Gb/s", "Bandwidth that it costs in each direction (null: not known)"
    ),
}


@dataclass(frozen=True)
class Fault:
    """One fault; the fields are the columns of `FAULT_COLUMNS`."""

    kind: str
    severity: Severity
    node: str
    port: int | None
    peer: str | None
    peer_port: int | None
    found: str
    normal: str
    text: str
    lost_gbps: float | None = None


def faults(fabric: Fabric) -> list[Fault]:
    """Return the faults of a fabric: what most of the peers of a part have and the part lacks.

    `fabric`: any fabric. On a tree, missing cables and uneven uplinks are searched for; otherwise
    missing cables only, on a torus or mesh.

    - A host is disconnected if no cables connect it to the largest part of the fabric.
    - A cable is degraded if at least 60 % of the cables of the same use are faster: at its switch,
      those of adapters of the same model, or those to switches of the same model and level. If it
      is the only one there, or in a tie, those at all switches of this model count.
      Without such cables nothing is said.
    - Peers are switches of one level that share at least half of their upper neighbours. A cable
      is missing if a switch has fewer cables to a neighbour than most of its peers have. If the
      switch has at least as many uplinks as its peers, or at most half as many (and at least two
      fewer), its uplinks are uneven instead. The ports of a missing cable are known if most of the
      other switches of this level use the same port, and it is free.
    - Machines deviate from their kind, see `weft.fabrics.rails`: a leaf switch of one rail is
      absent (all machines at some other leaf switches lack the same adapter), machines have fewer
      adapters, or adapters are at leaf switches of other rails.
    - An adapter has no name if its label is its GUID or what firmware and drivers write.
    - Uplinks of a leaf switch with hosts are uneven if they are fewer, lead to fewer switches, or
      have a lower total rate than those of most such switches, unless missing or degraded cables
      explain this.
    """
    fabric = fabric.subnet if fabric.machine_model else fabric
    names = fabric.node_names
    found = [
        Fault(
            "disconnected host", "error", names[node], None, None, None, "0 paths", "a path",
            f"{names[node]}: no cables connect it to most hosts",
        )
        for node in _apart(fabric)
    ]  # fmt: skip
    slow = slow_cables(fabric)
    for cable, normal in slow:
        link, rate = 2 * cable, rate_of(fabric, cable)
        found.append(
            Fault(
                "degraded cable", "error", names[fabric.link_from[link]],
                int(fabric.link_from_port[link]), names[fabric.link_to[link]],
                int(fabric.link_to_port[link]), rate, normal,
                f"{fabric.cable_name(cable)} at {rate}, not {normal}",
                parse_rate(normal.removesuffix(" Gb/s"))[0] - float(fabric.cable_rate_gbps[cable]),
            )
        )  # fmt: skip
    level = fabric_levels(fabric)
    missing = missing_steps(fabric) if level is None else missing_cables(fabric, level)
    ports = _Ports(fabric, level)
    for a, b, has, of in missing:
        for port, peer_port in ports.missing(a, b, of - has):
            found.append(
                Fault(
                    "missing cable", "error", names[a], port, names[b], peer_port, str(has),
                    str(of), f"{names[a]} -- {names[b]}: {has} of {of}", _uplink_gbps(fabric, a),
                )
            )  # fmt: skip
    found += _machine_faults(fabric.whole)
    if level is None:
        return found
    explained = {a for a, *_ in missing}
    for cable, _ in slow:
        ends = fabric.link_from[2 * cable : 2 * cable + 2]
        if (ends < fabric.num_switches).all():
            explained.update(ends.tolist())
    for leaf, mine, usual, unit in uneven_uplinks(fabric, level):
        if leaf not in explained:
            found.append(
                Fault(
                    "uneven uplinks", "warning", names[leaf], None, None, None, f"{mine:g} {unit}",
                    f"{usual:g} {unit}", f"{names[leaf]}: {mine:g} of {usual:g} {unit}",
                    _lost_gbps(fabric, leaf, usual - mine, unit),
                )
            )  # fmt: skip
    return found


def _machine_faults(fabric: Fabric) -> Iterator[Fault]:
    for kind in machine_kinds(fabric):
        usual = count_text(kind.adapters, "adapter")
        for leaf in kind.absent:
            machines = count_text(len(leaf.machines), "machine")
            yield Fault(
                "absent leaf switch", "error", leaf.machines[0], None, None, None,
                f"no {leaf.port}", leaf.port,
                f"{machines} ({host_list(leaf.machines)}) have no {leaf.port}: all machines at "
                f"{host_list(leaf.leaves)}",
            )  # fmt: skip
        for name, (ours, ports) in kind.lacking.items():
            without = f", without {few(ports)}" if ports else ""
            yield Fault(
                "missing adapter", "warning", name, None, None, None, count_text(ours, "adapter"),
                usual, f"{name}: {ours} of {usual}{without}",
            )  # fmt: skip
        for swap in kind.swaps:
            places = [" at ".join(each) for each in zip(swap.ports, swap.leaves, strict=True)]
            how = "have each other's rail" if swap.mutual else "on another rail"
            yield Fault(
                "swapped adapters", "warning", swap.machine, None, None, None, few(places),
                "the rail of the other machines", f"{swap.machine}: {few(places)}: {how}",
            )  # fmt: skip
    unnamed = [name for name in fabric.host_names if _UNNAMED.fullmatch(name)]
    if unnamed:
        yield Fault(
            "unnamed adapters", "note", unnamed[0], None, None, None,
            count_text(len(unnamed), "adapter"), "a host name",
            f"{count_text(len(unnamed), 'adapter')}: {few(unnamed)}",
        )  # fmt: skip


def _uplink_gbps(fabric: Fabric, switch: int) -> float:
    """Return the highest rate of the cables from a switch to others."""
    out = (fabric.link_from == switch) & (fabric.link_to < fabric.num_switches)
    return float(fabric.link_rate_gbps[out].max(initial=0.0))


def _lost_gbps(fabric: Fabric, leaf: int, less: float, unit: str) -> float | None:
    if unit == "switches above":
        return None
    return less if unit == "Gb/s" else less * _uplink_gbps(fabric, leaf)


def fault_table(found: Sequence[Fault]) -> pl.DataFrame:
    """Return faults as a frame of `FAULT_COLUMNS`, one row each."""
    rows = [asdict(fault) for fault in found]
    return frame(FAULT_COLUMNS, {name: [row[name] for row in rows] for name in FAULT_COLUMNS})


def fault_rows(found: Sequence[Fault], most: int = NAMED) -> list[tuple[str, str]]:
    """Return a heading with the number of faults, and their text, for each kind of fault.

    `most`: largest number of lines of a text; the last line counts the faults that have none.
    """
    rows = []
    for kind, heading in HEADINGS.items():
        texts = [fault.text for fault in found if fault.kind == kind]
        # Parallel cables that are missing have one line.
        lines = list(dict.fromkeys(texts))[:most]
        left = sum(text not in set(lines) for text in texts)
        if texts:
            text = "\n".join([*lines, *([f"and {left:,} more"] if left else [])])
            rows.append((f"{heading} ({len(texts):,})", text))
    return rows


def _apart(fabric: Fabric) -> list[int]:
    """Return the hosts with a cable that are not in the part of the fabric with most hosts."""
    ends = (fabric.link_from, fabric.link_to)
    graph = coo_array((np.ones(fabric.num_links), ends), shape=(fabric.num_nodes,) * 2)
    _, part = connected_components(graph, directed=False)
    hosts = fabric.host_nodes[fabric.host_endpoint >= 0]
    largest = int(np.argmax(np.bincount(part[hosts], minlength=1)))
    apart: list[int] = hosts[part[hosts] != largest].tolist()
    return apart


class _Ports:
    """Ports at which cables between switches are missing, as the other switches are cabled."""

    def __init__(self, fabric: Fabric, level: NDArray[np.int64] | None) -> None:
        self._fabric = fabric
        self._level = np.zeros(fabric.num_switches) if level is None else level
        #: Switch -> neighbour -> ports of the neighbour with a cable to the switch.
        self._towards: dict[int, dict[int, list[int]]] = {}
        between = (fabric.link_from < fabric.num_switches) & (fabric.link_to < fabric.num_switches)
        for link in np.flatnonzero(between).tolist():
            from_here = self._towards.setdefault(int(fabric.link_to[link]), {})
            from_here.setdefault(int(fabric.link_from[link]), []).append(
                int(fabric.link_from_port[link])
            )

    def missing(self, a: int, b: int, count: int) -> list[tuple[int | None, int | None]]:
        """Return the ports of both switches for each of the missing cables."""
        ends = [self._likely(a, b, count), self._likely(b, a, count)]
        return list(zip(*ends, strict=True))

    def _likely(self, node: int, peer: int, count: int) -> list[int | None]:
        alike = [
            ports
            for other, ports in self._towards.get(peer, {}).items()
            if other != node and self._level[other] == self._level[node]
        ]
        first = int(self._fabric.port_offset[node])
        last = int(self._fabric.port_offset[node + 1])
        free = np.flatnonzero(self._fabric.port_link[first:last] < 0)
        likely: list[int | None] = [
            port
            for port in (free + 1).tolist()
            if alike and sum(port in ports for ports in alike) >= AGREE * len(alike)
        ]
        return [*likely[:count], *[None] * (count - len(likely))]
