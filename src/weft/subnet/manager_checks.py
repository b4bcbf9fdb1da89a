"""Checks of names, LIDs, and of the settings and the place of a subnet manager."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from weft.advice.irregular import fabric_levels
from weft.core.counts import count_text, counted
from weft.core.files import read_text
from weft.core.severity import SEVERITIES
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.labels import is_guid_id
from weft.fabrics.formats.slurm import read_topologies
from weft.fabrics.formats.slurm_check import check_topologies
from weft.routing.opensm.guids import parse_guids
from weft.routing.opensm.ports import by_port_guid, by_switch_guid
from weft.routing.routes import TableRoutes
from weft.subnet.finding import Finding

#: Engines that route up and down from roots.
_ROOTED = ("updn", "dnup", "ar_updn")
_BOUND = re.compile(r"binding to port(?: GUID)? 0x([0-9a-fA-F]{1,16})", re.IGNORECASE)
#: Roles of machines on which a subnet manager is not disturbed.
_QUIET = ("management", "subnet-manager")


def doubled_names(fabric: Fabric) -> Iterator[Finding]:
    """Yield a finding if several nodes have one description, and so a GUID instead of a name."""
    names = Counter(
        text
        for text, label in zip(fabric.descriptions, fabric.node_names, strict=True)
        if text.strip() and is_guid_id(label)
    )
    doubled = [f"{text!r} of {count}" for text, count in sorted(names.items()) if count > 1]
    if doubled:
        text = counted(doubled, "description", "of several nodes")
        yield Finding.of("doubled names", text, "note", doubled)


def unaligned_lids(fabric: Fabric) -> Iterator[Finding]:
    """Yield a finding if base LIDs are no multiple of the number of LIDs of a port."""
    wrong = np.flatnonzero((fabric.lid > 0) & (fabric.lid % (1 << fabric.lmc.astype(int)) != 0))
    if len(wrong):
        lids = [str(lid) for lid in fabric.lid[wrong]]
        text = counted(lids, "base LID", "not aligned to the LMC")
        yield Finding.of("LIDs", text, "error", lids)


def idle_lmc(fabric: Fabric, routes: TableRoutes) -> Iterator[Finding]:
    """Yield a finding if all LIDs of each port have the same paths."""
    hosts = fabric.num_endpoints << routes.lmc
    lines = routes.table[:hosts].reshape(fabric.num_endpoints, 1 << routes.lmc, -1)
    if routes.lmc and np.array_equal(lines, np.broadcast_to(lines[:, :1], lines.shape)):
        yield Finding.of(
            "LMC",
            f"LMC {routes.lmc} gives each port {1 << routes.lmc} LIDs, but their paths are equal",
            "warning", cost="LIDs, and time of each sweep", action="set lmc to 0",
        )  # fmt: skip


def slurm_faults(fabric: Fabric, file: Path) -> Iterator[Finding]:
    """Yield a finding for each severity of what is wrong with a topology file of Slurm."""
    found = check_topologies(read_topologies(file), fabric)
    for severity in SEVERITIES:
        items = [f"line {each.line}: {each.text}" for each in found if each.severity == severity]
        if items:
            text = f"{file}: {count_text(len(items), severity)}: {few(items)}"
            yield Finding.of("Slurm's topology", text, severity, items)


def misplaced_manager(fabric: Fabric, log: str) -> Iterator[Finding]:
    """Yield a finding if the SM of a log is on a machine that computes, or not in the fabric."""
    bound = _BOUND.findall(log)
    if not bound:
        return
    guid = int(bound[-1], 16)
    destination = by_port_guid(fabric).get(guid)
    if destination is None:
        text = f"the port of the SM, {guid:#018x}, is not in the fabric"
        yield Finding.of("stale", text, "warning", [f"{guid:#018x}"])
    elif destination < fabric.num_host_endpoints:
        node = int(fabric.endpoint_node[destination])
        role = fabric.roles[node - fabric.num_switches]
        name = fabric.node_names[node]
        if role not in (*_QUIET, "unknown"):
            text = f"the SM runs on {name}, whose role is {role}"
            yield Finding.of("subnet manager", text, "warning", [name])


def wrong_roots(
    fabric: Fabric, settings: Mapping[str, str], engine: str, folders: tuple[Path, ...]
) -> Iterator[Finding]:
    """Yield findings about the roots of an engine that goes up to them, and then down.

    `folders`: where a copy of the file is searched that ``root_guid_file`` names.
    """
    engine = engine or settings.get("routing_engine", "").split(",")[0].strip()
    named = settings.get("root_guid_file", "(null)")
    if engine not in _ROOTED or named in ("", "(null)"):
        return
    copies = [folder / Path(named).name for folder in folders]
    file = next((path for path in copies if path.is_file()), None)
    if file is None:
        yield Finding("roots", f"{named} is not among the files, so roots are unknown", "note")
        return
    guids = [guid for guid, _ in parse_guids(read_text(file), str(file))]
    switches = by_switch_guid(fabric)
    strangers = [f"{guid:#018x}" for guid in guids if guid not in switches]
    if strangers:
        text = counted(strangers, "root", f"in {named} that the fabric lacks")
        yield Finding.of("roots", text, "warning", strangers, "the SM ignores them")
    level = fabric_levels(fabric)
    if level is None:
        return
    roots = {switches[guid] for guid in guids if guid in switches}
    top = set(np.flatnonzero(level == level.max()).tolist())
    for what, odd, of, cost in (
        ("switches of the top level are no root", top - roots, top, ""),
        ("roots are below the top level", roots - top, roots, "paths may turn at lower switches"),
    ):
        if odd:
            names = [fabric.node_names[node] for node in sorted(odd)]
            text = f"{len(odd)} of {len(of)} {what} in {named}: {few(names)}"
            yield Finding.of("roots", text, "warning", names, cost)
