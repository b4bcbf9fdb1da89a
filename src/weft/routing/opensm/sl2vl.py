"""OpenSM's dump of the SL to VL tables of all ports, ``opensm-sl2vl.dump`` (with ``-Q``).

A switch has one table for each pair of an input port and an output port with a cable; input port 0
is the switch itself. An adapter port has one table::

    Switch 0x0000000000200000, base LID 2, "SW1"
    #in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
    #--------------------------------------------------------
    0   1   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  7

``ibdiagnet2.slvl`` and ibdm's files have a line for each table, with GUID, input and output port,
and two levels in each byte::

    0x0000000000200000 0 1 0x01 0x23 0x45 0x67 0x01 0x23 0x45 0x67
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.formats.records import numbered_lines, shown
from weft.routing.opensm.ports import (
    by_port_guid,
    destination_name,
    explain_guid,
    refuse_forwarding_hosts,
)
from weft.routing.routes import NUM_SLS, VirtualLanes

_HEADER = re.compile(
    r"(Switch|Channel Adapter|Router) 0x(?P<guid>[0-9a-fA-F]{1,16}), base LID \d+, .*"
)
_ROW = re.compile(r"(\d{1,3})\s+(\d{1,3})\s*:((?:\s+\d{1,2}){16})")
_BYTES = re.compile(
    r"0x(?P<guid>[0-9a-fA-F]{1,16}) (?P<into>\d{1,3}) (?P<out>\d{1,3})"
    r"(?P<levels>(?: 0x[0-9a-fA-F]{2}){8})",
    re.ASCII,
)
_MAX_VL = 15


def read_sl2vl(fabric: Fabric, path: str | Path) -> tuple[VirtualLanes, NDArray[np.uint8]]:
    """Read the SL to VL tables of switches and adapters.

    `fabric`: fabric of the tables; its hosts must not forward.

    Returns one table if all tables of switches are equal, else one per switch, input port and
    output port; and uint8 [endpoints, 16]: VL of each SL at an adapter port, empty if a file of
    ibdiagnet2 has tables of switches only.
    """
    refuse_forwarding_hosts(fabric)
    destination = by_port_guid(fabric)
    base, ports = _layout(fabric)
    switch_tables = np.full((int(base[-1]), NUM_SLS), 255, dtype=np.uint8)
    adapters = np.full((fabric.num_endpoints, NUM_SLS), 255, dtype=np.uint8)
    at, packed = -1, None
    for number, line in numbered_lines(path):
        wrong = partial(InputError, file=path, line=number)
        header, row, packed = (form.fullmatch(line) for form in (_HEADER, _ROW, _BYTES))
        named = header or packed
        if named:
            guid = int(named["guid"], 16)
            if guid not in destination:
                what = explain_guid(fabric, guid)
                raise wrong(f"{guid:#018x} is {what}; expected the GUID of a port")
            at = destination[guid]
        if header:
            continue
        if packed:
            into, out = int(packed["into"]), int(packed["out"])
            table = [int(level, 16) for level in packed["levels"].replace(" 0x", "")]
        elif row and at >= 0:
            into, out = int(row[1]), int(row[2])
            table = [int(vl) for vl in row[3].split()]
        else:
            raise wrong(f"expected a heading or a line of a table, found {shown(line)}")
        name = destination_name(fabric, at)
        if max(table) > _MAX_VL:
            raise wrong(f"a VL must be 0 to {_MAX_VL}, not {max(table)}")
        if at < fabric.num_endpoints:
            tables, slot, last = adapters, at, 0
        else:
            switch = at - fabric.num_endpoints
            tables, last = switch_tables, int(ports[switch]) - 1
            slot = int(base[switch]) + into * (last + 1) + out
        if max(into, out) > last:
            raise wrong(f"{name} has no table from port {into} to port {out}")
        if tables[slot, 0] != 255:
            raise wrong(f"{name} already has a table from port {into} to port {out}")
        tables[slot] = table
    if packed and (adapters == 255).all():
        adapters = adapters[:0]  # ibdiagnet2 lists switches only
    _refuse_missing(fabric, path, switch_tables, adapters)
    return _lanes(switch_tables, base, ports), adapters


def _layout(fabric: Fabric) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return `VirtualLanes.base`, ending with the number of tables, and `VirtualLanes.ports`."""
    ports = (fabric.num_ports[: fabric.num_switches] + 1).astype(np.int32)
    base = np.concatenate(([0], np.cumsum(ports.astype(np.int64) ** 2)))
    return base, ports


def _cabled_outputs(fabric: Fabric) -> NDArray[np.bool_]:
    """Return whether the output port of each table has a cable, in the order of `_layout`."""
    parts = []
    for switch in range(fabric.num_switches):
        links = fabric.port_link[fabric.port_offset[switch] : fabric.port_offset[switch + 1]]
        cabled = np.append(False, links >= 0)
        parts.append(np.tile(cabled, len(cabled)))
    return np.concatenate([np.zeros(0, dtype=bool), *parts])


def _refuse_missing(
    fabric: Fabric, path: str | Path, switch_tables: NDArray[np.uint8], adapters: NDArray[np.uint8]
) -> None:
    missing = np.flatnonzero(_cabled_outputs(fabric) & (switch_tables[:, 0] == 255))
    if len(missing):
        base, ports = _layout(fabric)
        switch = int(np.searchsorted(base, missing[0], side="right")) - 1
        into, out = divmod(int(missing[0] - base[switch]), int(ports[switch]))
        raise InputError(
            f"{len(missing)} tables of switches are missing, the first from port {into} to port "
            f"{out} of {fabric.node_names[switch]}",
            file=path,
        )
    without = np.flatnonzero(adapters[:, 0] == 255)
    if len(without):
        raise InputError(
            f"{len(without)} tables of adapters are missing, the first of "
            f"{destination_name(fabric, int(without[0]))}",
            file=path,
        )


def _lanes(
    switch_tables: NDArray[np.uint8], base: NDArray[np.int64], ports: NDArray[np.int32]
) -> VirtualLanes:
    present = switch_tables[:, 0] != 255
    if not present.any():
        return VirtualLanes.uniform()
    tables, number = np.unique(switch_tables[present], axis=0, return_inverse=True)
    if len(tables) == 1:
        return VirtualLanes(tables)
    index = np.zeros(len(switch_tables), dtype=np.int32)
    index[present] = number.reshape(-1)
    return VirtualLanes(tables, index, base[:-1], ports)
