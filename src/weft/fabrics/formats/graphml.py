"""Writer of GraphML, for graph tools such as networkx, Gephi and yEd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from weft.core.errors import NotApplicable
from weft.core.units import RATE_NAMES
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.format_registry import printable, writer
from weft.fabrics.formats.labels import guid_id

_NODE_KEYS = {
    "label": "string",
    "description": "string",
    "kind": "string",
    "forwards": "boolean",
    "ports": "int",
    "guid": "string",
    "system_guid": "string",
    "vendor_id": "int",
    "device_id": "int",
    "level": "int",
    "coordinates": "string",
    "lids": "string",
}
_EDGE_KEYS = {
    "rate_gbps": "double",
    "rate": "string",
    "source_port": "int",
    "target_port": "int",
    "length_m": "double",
    "latency_ns": "double",
}
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns'
    ' http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">'
)


@writer("graphml", suffixes=(".graphml",))
def write(fabric: Fabric) -> str:
    """GraphML: an undirected multigraph with a node per node and an edge per cable.

    Node ids are the labels, edge ids the cable numbers. A node or edge lacks the attributes
    that are unknown (level, coordinates, length, system GUID, LIDs). Characters that XML cannot
    hold are replaced by U+FFFD; if that makes labels equal, ids are made from the GUIDs.
    """
    lines = [_HEAD]
    for domain, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
        lines += [
            f'  <key id="{key}" for="{domain}" attr.name="{key}" attr.type="{kind}"/>'
            for key, kind in keys.items()
        ]
    lines.append(f'  <graph id={_quoted(fabric.name)} edgedefault="undirected">')
    ids = _node_ids(fabric)
    lines.extend(_nodes(fabric, ids))
    lines.extend(_edges(fabric, ids))
    lines += ["  </graph>", "</graphml>", ""]
    return "\n".join(lines)


def _node_ids(fabric: Fabric) -> list[str]:
    """Return the quoted id of each node."""
    shown = [printable(label) for label in fabric.node_names]
    count = Counter(shown)
    ids = [
        guid_id(kind, guid) if count[text] > 1 and text != label else text
        for text, label, kind, guid in zip(
            shown,
            fabric.node_names,
            fabric.node_kind.tolist(),
            fabric.node_guid.tolist(),
            strict=True,
        )
    ]
    if len(set(ids)) < len(ids):
        raise NotApplicable("a label equals the id made from the GUID of another node")
    return [_quoted(text) for text in ids]


def _quoted(text: str) -> str:
    return quoteattr(printable(text))


def _data(values: dict[str, object]) -> str:
    return "".join(
        f'<data key="{key}">{escape(printable(str(value)))}</data>'
        for key, value in values.items()
        if value is not None
    )


def _nodes(fabric: Fabric, ids: list[str]) -> Iterator[str]:
    lids: dict[int, list[str]] = {}
    owners = [*fabric.endpoint_node.tolist(), *range(fabric.num_switches)]
    for node, lid in zip(owners, fabric.lid.tolist(), strict=True):
        if lid:
            lids.setdefault(node, []).append(str(lid))
    for node, node_id in enumerate(ids):
        system = int(fabric.system_guid[node])
        level = int(fabric.level[node])
        coords = fabric.coordinates[node].tolist()
        values: dict[str, object] = {
            "label": fabric.node_names[node],
            "description": fabric.descriptions[node],
            "kind": NodeKind(fabric.node_kind[node]).name.lower(),
            "forwards": str(bool(fabric.forwards[node])).lower(),
            "ports": int(fabric.num_ports[node]),
            "guid": f"{int(fabric.node_guid[node]):#018x}",
            "system_guid": f"{system:#018x}" if system else None,
            "vendor_id": int(fabric.vendor_id[node]),
            "device_id": int(fabric.device_id[node]),
            "level": level if level >= 0 else None,
            "coordinates": ",".join(map(str, coords)) if any(c >= 0 for c in coords) else None,
            "lids": ",".join(lids[node]) if node in lids else None,
        }
        yield f"    <node id={node_id}>{_data(values)}</node>"


def _edges(fabric: Fabric, ids: list[str]) -> Iterator[str]:
    for cable in range(fabric.num_cables):
        link = 2 * cable
        length = float(fabric.cable_length_m[cable])
        code = int(fabric.cable_rate_code[cable])
        values: dict[str, object] = {
            "rate_gbps": float(fabric.cable_rate_gbps[cable]),
            "rate": RATE_NAMES[code] if code else None,
            "source_port": int(fabric.link_from_port[link]),
            "target_port": int(fabric.link_to_port[link]),
            "length_m": None if np.isnan(length) else length,
            "latency_ns": float(fabric.cable_latency_ns[cable]),
        }
        yield (
            f'    <edge id="c{cable}" source={ids[fabric.link_from[link]]} '
            f"target={ids[fabric.link_to[link]]}>{_data(values)}</edge>"
        )
