"""The matrix of hops, ``opensm-lid-matrix.dump``, which OpenSM reads with ``-M``.

For each switch, the file has one line per switch LID: the fewest hops to that LID, then the hops
through each port. Numbers are hexadecimal; ``ff`` means no path::

    Switch: guid 0x0000000000200000
    0x0002: 00 ff ff 02 # portguid 0x0000000000200000
    0x0003: 01 ff ff 01 # portguid 0x0000000000200001
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
from weft.routing.opensm.lids import Lids, known_lids
from weft.routing.opensm.ports import by_switch_guid, port_guids, refuse_forwarding_hosts

#: Value that means no path.
NO_PATH = 255

_HEADER = re.compile(r"Switch: guid 0x([0-9a-fA-F]{1,16})")
_ROW = re.compile(
    r"0x([0-9a-fA-F]{1,4}):((?:\s+[0-9a-fA-F]{2})+)(?:\s*# portguid 0x([0-9a-fA-F]{1,16}))?"
)


def read_lid_matrix(
    fabric: Fabric, path: str | Path, *, lids: Lids | None = None
) -> NDArray[np.uint8]:
    """Read the hops between switches by output port from a dump.

    `lids`: LIDs for lines without a port GUID; by default those of the fabric, or if it has none,
    those that OpenSM assigns. In lines with a GUID, the LID is ignored, although OpenSM itself uses
    it.

    Returns uint8 [switches, target switches, 1 + largest number of ports]: hops to the target
    through each port, 255 for missing entries; the entry of port 0 is the fewest hops.
    """
    refuse_forwarding_hosts(fabric)
    lids = known_lids(fabric) if lids is None else lids
    of_lid = {int(lid): n for n, lid in enumerate(lids.base[fabric.num_endpoints :]) if lid}
    of_guid = {int(guid): n for n, guid in enumerate(port_guids(fabric)[fabric.num_endpoints :])}
    of_node = by_switch_guid(fabric)
    count = fabric.num_switches
    matrix = np.full((count, count, fabric.graph.max_port + 1), NO_PATH, dtype=np.uint8)
    switch = -1
    seen: set[tuple[int, int]] = set()
    for number, line in numbered_lines(path):
        wrong = partial(InputError, file=path, line=number)
        header, row = _HEADER.fullmatch(line), _ROW.fullmatch(line)
        if header:
            switch = of_node.get(int(header[1], 16), -1)
            if switch < 0:
                raise wrong(f"switch 0x{header[1]} is not in {fabric.name}")
            continue
        if row is None or switch < 0:
            raise wrong(f"expected 'Switch: guid 0x…' or a line of hops, found {shown(line)}")
        target = of_lid.get(int(row[1], 16), -1)
        if row[3]:
            target = of_guid.get(int(row[3], 16), -1)
        values = [int(value, 16) for value in row[2].split()]
        name = fabric.node_names[switch]
        if target < 0:
            raise wrong(f"LID {int(row[1], 16)} is not that of a switch of {fabric.name}")
        if len(values) > fabric.num_ports[switch] + 1:
            raise wrong(f"{len(values) - 1} ports, but {name} has {fabric.num_ports[switch]}")
        if (switch, target) in seen:
            raise wrong(f"{name} already has hops to {fabric.node_names[target]}")
        seen.add((switch, target))
        matrix[switch, target, : len(values)] = values
    if not seen:
        raise InputError("has no line of hops", file=path)
    return matrix
