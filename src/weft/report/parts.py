"""Common parts of pages that draw a fabric: the fabric as a blob, colours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from weft.fabrics import Fabric, NodeKind, rate_text
from weft.report.colours import themes
from weft.report.labels import short_names
from weft.report.layout import Layout
from weft.report.packing import packed
from weft.report.summary import rounded

#: Largest number of hosts that a page draws.
MAX_DRAWN_HOSTS = 12_000


def drawing_facts(fabric: Fabric, drawing: Layout) -> dict[str, Any]:
    """Return the data of the drawing's script, without the fabric itself."""
    switch = fabric.node_kind == NodeKind.SWITCH
    return {
        "hosts": fabric.num_hosts,
        "hostsDrawn": fabric.num_hosts <= MAX_DRAWN_HOSTS,
        "layoutText": drawing.caption,
        "switchGap": _switch_gap(drawing.position[switch]),
        "colours": themes(host=("#7b8794", "#76828f")),
    }


def _switch_gap(position: NDArray[np.float64]) -> float:
    """Return the distance between neighbouring switches (10th percentile), to scale symbols."""
    if len(position) < 2:
        return 1.0
    distance, _ = cKDTree(position).query(position, k=2)
    return rounded(float(np.clip(np.percentile(distance[:, 1], 10), 0.05, 4.0)), 4)


def fabric_blob(fabric: Fabric, drawing: Layout) -> str:
    """Return the fabric and its layout as a blob for `FabricData` in `data.js`."""
    rates, rate_index = np.unique(
        np.stack((fabric.cable_rate_code.astype(float), fabric.cable_rate_gbps)),
        axis=1,
        return_inverse=True,
    )
    arrays: dict[str, NDArray[Any]] = {
        "x": drawing.position[:, 0].astype(np.float32),
        "y": drawing.position[:, 1].astype(np.float32),
        "bend": drawing.bend.astype(np.float32),
        "length": fabric.cable_length_m.astype(np.float32),
        "aNode": fabric.link_from[0::2],
        "bNode": fabric.link_to[0::2],
        "guidHigh": (fabric.node_guid >> np.uint64(32)).astype(np.uint32),
        "guidLow": (fabric.node_guid & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        "aPort": fabric.link_from_port[0::2],
        "bPort": fabric.link_to_port[0::2],
        "ports": fabric.num_ports.astype(np.uint16),
        "rateIndex": rate_index.ravel().astype(np.uint16),
        "kind": fabric.node_kind,
        "forwards": fabric.forwards.astype(np.uint8),
        "level": fabric.level,
        "group": drawing.group.astype(np.int32),
    }
    pairs = zip(fabric.descriptions, fabric.node_names, strict=True)
    labels = zip(short_names(fabric.node_names), fabric.node_names, strict=True)
    values = {
        "names": fabric.node_names,
        "labels": {n: label for n, (label, name) in enumerate(labels) if label != name},
        "descriptions": {n: text for n, (text, name) in enumerate(pairs) if text != name},
        "rates": [
            f"{rate_text(gbps, int(code))} ({gbps:g} Gb/s)" if code else f"{gbps:g} Gb/s"
            for code, gbps in rates.T.tolist()
        ],
    }
    machines = {
        name: [fabric.num_switches + host for host in hosts]
        for name, hosts in fabric.machines.items()
        if len(hosts) > 1
    }
    if machines:
        values["machines"] = machines
    return packed(arrays, values)
