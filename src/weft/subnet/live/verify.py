"""Verification of a simulated subnet from the files that OpenSM dumped."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.counts import count_text
from weft.core.errors import WeftError
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats import FormatWarning
from weft.fabrics.formats.subnet_list import DiscoveredSubnet, read_seen
from weft.routing.opensm.lfts import read_lfts
from weft.routing.opensm.lids import Lids, clash_summary, clash_texts, read_guid2lid
from weft.routing.opensm.osm_log import Sweep, complaints
from weft.routing.opensm.ports import destination_name, port_guids
from weft.routing.opensm.tables_folder import DUMP, GUID2LID, SUBNET
from weft.routing.routes import TableRoutes


def lids_of(fabric: Fabric, spans: Mapping[int, tuple[int, int]]) -> Lids:
    """Return the LIDs of a fabric's ports in a ``guid2lid`` file, 0 for ports without an entry.

    `spans`: first and last LID by port GUID, as `read_guid2lid` returns them.
    """
    base = np.zeros(fabric.num_destinations, dtype=np.int32)
    lmc = np.zeros(len(base), dtype=np.uint8)
    for destination, guid in enumerate(port_guids(fabric).tolist()):
        first, last = spans.get(guid, (0, 0))
        base[destination], lmc[destination] = first, (last - first).bit_length()
    return Lids(base, lmc)


def verify(
    fabric: Fabric, folder: Path, sweep: Sweep, expected: Lids, given: TableRoutes | None
) -> TableRoutes:
    """Compare cables, LIDs and tables in OpenSM's dumps with the expected ones.

    `folder`: folder of OpenSM's dumps and its ``guid2lid``. `sweep`: the sweep that wrote the
    dumps. `expected`: LIDs of the ports that OpenSM reaches, 0 for other ports. If `given` is a
    table, the reached ports must have exactly these LIDs; otherwise each must have a LID that no
    other port has. `given`: the tables that OpenSM loaded; None if it routes with its own engine.

    Returns tables of the switches in OpenSM's dump.
    """
    seen = read_seen(folder / SUBNET)
    _, fault = cable_faults(fabric, seen, expected.base > 0)
    if fault:
        raise WeftError(f"the subnet is not as expected: {fault}{complaints(sweep.errors)}")
    spans = read_guid2lid(folder / GUID2LID)
    return verify_tables(fabric, seen, spans, folder / DUMP, sweep, expected, given)


def verify_tables(
    fabric: Fabric,
    seen: DiscoveredSubnet,
    spans: Mapping[int, tuple[int, int]],
    dump: Path,
    sweep: Sweep,
    expected: Lids,
    given: TableRoutes | None,
) -> TableRoutes:
    """Compare LIDs and tables with the expected ones; see `verify`.

    `seen`, `spans`, `dump`: ports and LIDs that OpenSM discovered, the contents of its
    ``guid2lid``, and its dump of the tables.
    """
    errors = complaints(sweep.errors)
    fault = _lid_fault(fabric, seen, spans, expected, exact=given is not None)
    if fault:
        raise WeftError(f"the subnet is not as expected: {fault}{errors}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        lmc = None if given is None else given.lmc
        programmed = read_lfts(fabric, dump, lids=expected, lmc=lmc)
    if given is not None:
        differ = differences(fabric, expected, given, programmed)
        if len(differ):
            line, switch = (int(number) for number in differ[0])
            ports = [
                "no port"
                if routes.table[line, switch] == routes.no_path
                else f"port {routes.table[line, switch]}"
                for routes in (given, programmed)
            ]
            raise WeftError(
                f"OpenSM programmed {len(differ)} entries that differ from the tables, for example "
                f"{fabric.node_names[switch]} towards "
                f"{destination_name(fabric, line >> given.lmc)}: {ports[1]} instead of "
                f"{ports[0]}{errors}"
            )
    return programmed


def differences(
    fabric: Fabric, lids: Lids, wanted: TableRoutes, programmed: TableRoutes
) -> NDArray[np.int64]:
    """Return int64 [entries, 2]: indices in the tables of the entries that differ.

    Only entries for LIDs that a port has are compared.
    """
    known, reached = _compared(fabric, lids, wanted.lmc)
    return np.argwhere((programmed.table != wanted.table) & known[:, None] & reached)


def compared(fabric: Fabric, lids: Lids, lmc: int) -> int:
    """Return the number of entries that `differences` compares."""
    known, reached = _compared(fabric, lids, lmc)
    return int(known.sum()) * int(reached.sum())


def _compared(fabric: Fabric, lids: Lids, lmc: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the lines of a table whose LID a port has, and the switches with a LID."""
    width = np.where(lids.base > 0, 1 << lids.lmc.astype(np.int64), 0)
    known: NDArray[np.bool_] = (np.arange(1 << lmc) < width[:, None]).reshape(-1)
    return known, lids.base[fabric.num_endpoints :] > 0


def cable_faults(
    fabric: Fabric, seen: DiscoveredSubnet, reached: NDArray[np.bool_]
) -> tuple[list[int], str]:
    """Return the first list of `compare_cables`, and text that describes a difference."""
    missing, more = compare_cables(fabric, seen, reached)
    if missing:
        names = few([fabric.cable_name(cable) for cable in missing])
        return missing, f"OpenSM did not discover {count_text(len(missing), 'cable')}: {names}"
    return [], unknown_cables(fabric, more) if more else ""


def unknown_cables(fabric: Fabric, ends: Sequence[tuple[int, int, int, int]]) -> str:
    """Return a text about ends of cables that OpenSM discovered and the fabric does not have."""
    destinations = dict(zip(port_guids(fabric).tolist(), count(), strict=False))

    def name(guid: int, port: int) -> str:
        destination = destinations.get(guid, -1)
        if destination >= fabric.num_endpoints:
            return fabric.port_name(destination - fabric.num_endpoints, port)
        return f"{guid:#018x}[{port}]" if destination < 0 else destination_name(fabric, destination)

    return (
        f"OpenSM discovered {len(ends)} ends of cables that are not in {fabric.name}, for example "
        f"{name(*ends[0][:2])} to {name(*ends[0][2:])}"
    )


def compare_cables(
    fabric: Fabric, seen: DiscoveredSubnet, reached: NDArray[np.bool_]
) -> tuple[list[int], list[tuple[int, int, int, int]]]:
    """Compare the cables that OpenSM discovered with those of the fabric.

    `seen`: ports and cables that OpenSM discovered. `reached` [destinations]: ports of hosts and
    switches that OpenSM reaches.

    Returns cables that OpenSM did not discover; and ends of cables that the fabric does not have,
    as in `DiscoveredSubnet.cables`.
    """
    guids, ends = port_guids(fabric), fabric.num_endpoints
    ports = fabric.num_ports[: fabric.num_switches]
    slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    # For each port, the GUID of the adapter port or switch, and whether OpenSM reaches it.
    guid = fabric.port_guid.copy()
    known = np.zeros(len(guid), dtype=np.bool_)
    inner = int(ports.sum())
    guid[:inner], known[:inner] = np.repeat(guids[ends:], ports), np.repeat(reached[ends:], ports)
    known[slots] = reached[:ends]
    start = fabric.port_offset[fabric.link_from] + fabric.link_from_port - 1
    end = fabric.port_offset[fabric.link_to] + fabric.link_to_port - 1
    links = np.flatnonzero(known[start])
    columns = (
        guid[start[links]], fabric.link_from_port[links],
        guid[end[links]], fabric.link_to_port[links],
    )  # fmt: skip
    ends_of_links = zip(*(column.tolist() for column in columns), strict=True)
    wanted = dict(zip(ends_of_links, links.tolist(), strict=True))
    missing = sorted({link >> 1 for end, link in wanted.items() if end not in seen.cables})
    return missing, sorted(seen.cables - wanted.keys())


def _lid_fault(
    fabric: Fabric,
    seen: DiscoveredSubnet,
    spans: Mapping[int, tuple[int, int]],
    expected: Lids,
    *,
    exact: bool,
) -> str:
    """Return text that describes how LIDs differ from the expected LIDs; empty if all are equal."""
    guids = port_guids(fabric).tolist()
    base = np.array([seen.lid.get(guid, 0) for guid in guids], dtype=np.int32)
    memory = lids_of(fabric, spans)
    reached = expected.base > 0
    without = np.flatnonzero(reached & (base == 0))
    if len(without):
        names = few([destination_name(fabric, int(port)) for port in without])
        return f"{len(without)} of {count_text(int(reached.sum()), 'port')} without a LID: {names}"
    for what, lids in (("have", base), ("are in guid2lid with", memory.base)):
        differ = np.flatnonzero(reached & (lids != (expected.base if exact else base)))
        if len(differ):
            at = int(differ[0])
            wanted = expected.base[at] if exact else base[at]
            return (
                f"{len(differ)} of {reached.sum()} ports {what} an unexpected LID, for "
                f"example {destination_name(fabric, at)}: {lids[at]} instead of {wanted}"
            )
    shared = clash_texts(fabric, Lids(base, memory.lmc))
    return clash_summary(shared) if shared else ""
