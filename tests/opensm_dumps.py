"""Dumps as OpenSM writes them: SL to VL tables, and hops between switches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.distances import UNREACHED
from weft.routing.opensm.lid_matrix import NO_PATH
from weft.routing.opensm.lids import Lids, predict_lids
from weft.routing.opensm.ports import node_types, port_guids, refuse_forwarding_hosts
from weft.routing.routes import NUM_SLS, VirtualLanes

_RULER = "#--------------------------------------------------------"
_HEADING = "#in out : " + "".join(f"{sl:<3}" for sl in range(NUM_SLS)).rstrip()


def shortest_hops(fabric: Fabric) -> NDArray[np.uint8]:
    """Return the hops between switches by output port, as counted by OpenSM's minhop.

    `fabric`: any fabric whose hosts do not forward.

    Returns uint8 [switches, target switches, 1 + largest number of ports]: hops to the target
    through each port, 255 without a path; the entry of port 0 is the fewest hops.
    """
    refuse_forwarding_hosts(fabric)
    graph, count = fabric.graph, fabric.num_switches
    graph.need_memory(count, graph.max_port + 1, "hops by port")
    hops = graph.hops()
    # The neighbour at the near end of a longest path counts one hop more by that port.
    far = hops[(hops >= NO_PATH - 1) & (hops != UNREACHED)]
    if len(far):
        raise NotApplicable(
            f"{fabric.name} has paths of {far.max()} hops; OpenSM's matrix allows at most 253"
        )
    least = np.where(hops == UNREACHED, NO_PATH, hops).astype(np.uint8)
    matrix = np.full((count, count, graph.max_port + 1), NO_PATH, dtype=np.uint8)
    matrix[:, :, 0] = least.T
    # Hops are symmetric, so `least` also has the hops from each neighbour to all targets.
    by_port = least[graph.edge_row]
    by_port[by_port != NO_PATH] += 1
    matrix[graph.edge_tail, :, graph.edge_port] = by_port
    return matrix


def lid_matrix(
    fabric: Fabric, hops: NDArray[np.uint8] | None = None, lids: Lids | None = None
) -> str:
    """Return the dump of a matrix of hops.

    `hops`: matrix in the form of `shortest_hops`; by default the result of that function. `lids`:
    LIDs, by default those that OpenSM assigns; switches without a LID are left out.
    """
    hops = shortest_hops(fabric) if hops is None else hops
    lids = predict_lids(fabric) if lids is None else lids
    base = lids.base[fabric.num_endpoints :]
    guids = port_guids(fabric)[fabric.num_endpoints :]
    digits = [f" {value:02x}" for value in range(NO_PATH + 1)]
    targets = [target for target in np.argsort(base, kind="stable").tolist() if base[target]]
    parts = []
    order = np.argsort(fabric.node_guid[: fabric.num_switches].byteswap(), kind="stable")
    for switch in order.tolist():
        if not base[switch]:
            continue
        parts.append(f"Switch: guid 0x{fabric.node_guid[switch]:016x}\n")
        ports = int(fabric.num_ports[switch]) + 1
        for target in targets:
            if hops[switch, target, 0] == NO_PATH:
                continue
            row = "".join(digits[value] for value in hops[switch, target, :ports].tolist())
            parts.append(f"0x{base[target]:04x}:{row} # portguid 0x{guids[target]:016x}\n")
    return "".join(parts)


def sl2vl_dump(
    fabric: Fabric, lanes: VirtualLanes, lids: Lids, adapters: NDArray[np.uint8] | None = None
) -> str:
    """Return SL to VL tables in the format of OpenSM's dump.

    `lids`: LIDs; ports without a LID are left out. `adapters` [endpoints, 16]: tables of adapters,
    by default table 0 of `lanes`.
    """
    refuse_forwarding_hosts(fabric)
    if adapters is None:
        adapters = np.broadcast_to(lanes.tables[0], (fabric.num_endpoints, NUM_SLS))
    texts = [_text(table) for table in lanes.tables.tolist()]
    types = node_types(fabric)
    guids = port_guids(fabric)
    nodes = np.concatenate((fabric.endpoint_node, np.arange(fabric.num_switches)))
    parts = []
    for port in np.argsort(guids.byteswap(), kind="stable").tolist():
        if not lids.base[port]:
            continue
        node = int(nodes[port])
        parts.append(
            f"{types[node]} 0x{guids[port]:016x}, base LID {lids.base[port]}, "
            f'"{fabric.descriptions[node]}"\n{_HEADING}\n{_RULER}\n'
        )
        if port < fabric.num_endpoints:
            parts.append(f"0   0   :{_text(adapters[port].tolist())}\n")
        else:
            parts += _switch_rows(fabric, lanes, node, texts)
        parts.append(f"{_RULER}\n\n")
    return "".join(parts)


def _switch_rows(fabric: Fabric, lanes: VirtualLanes, switch: int, texts: list[str]) -> list[str]:
    links = fabric.port_link[fabric.port_offset[switch] : fabric.port_offset[switch + 1]]
    rows = []
    for out in (np.flatnonzero(links >= 0) + 1).tolist():
        for into in range(len(links) + 1):
            number = 0
            if not lanes.is_uniform:
                at = lanes.base[switch] + into * int(lanes.ports[switch]) + out
                number = int(lanes.index[at])
            rows.append(f"{into:<3} {out:<3} :{texts[number]}\n")
    return rows


def _text(table: list[int]) -> str:
    return "".join(f" {vl:<2}" for vl in table)
