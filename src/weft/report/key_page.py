"""`write_key_page`: routing keys on a fabric as one self-contained HTML file.

The paths of a key are drawn in one colour for each of its colour classes. If there are many paths,
the loads of links are drawn instead, and the paths of a host, switch or cable when it is selected.
Like the other pages, this one holds all its data and makes no network requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.files import write_text
from weft.fabrics import Fabric
from weft.fabrics.rails import machine_facts
from weft.report.key_picture import MOST_FLOWS, colour_labels, drawn_paths
from weft.report.layout import layout
from weft.report.packing import packed
from weft.report.parts import drawing_facts, fabric_blob
from weft.report.render import render_page
from weft.sim.keys import RoutingKey

SCRIPTS = ("common.js", "data.js", "view.js", "drawing.js", "panels.js", "app.js", "keys.js")
#: Number of links on the drawn paths of a page from which on no further key is drawn.
MOST_LINKS = 500_000
#: Largest number of keys that are listed.
MOST_KEYS = 1000


def write_key_page(fabric: Fabric, keys: Iterable[RoutingKey], path: str | Path) -> None:
    """Write, atomically, a page that lists keys and draws the paths of a selected one.

    Parameters
    ----------
    fabric
        The fabric of the keys.
    keys
        The keys, such as a `KeySet`.
    path
        The HTML file.

    Raises
    ------
    InputError
        If a key is for another fabric, or the file cannot be written.
    """
    made = tuple(keys)
    for key in made:
        if key.fabric.digest != fabric.digest:
            raise InputError(f"key {key.name} is for another fabric than {fabric.name}")
    write_text(path, render_keys(fabric, made))


def render_keys(fabric: Fabric, keys: Sequence[RoutingKey]) -> str:
    """Return the page as text; equal keys give equal text."""
    drawing, links = layout(fabric), 0
    facts: list[dict[str, Any]] = []
    lid = np.zeros(fabric.num_nodes, dtype=np.int32)
    lids = fabric.lid if fabric.lid.any() else np.arange(len(fabric.lid))
    lid[fabric.host_nodes] = lids[fabric.host_endpoint]
    blobs = {"weft-fabric": fabric_blob(fabric, drawing), "weft-lids": packed({"lid": lid}, {})}
    for number, key in enumerate(keys[:MOST_KEYS]):
        if links >= MOST_LINKS:
            break
        arrays = _arrays(key)
        links += len(arrays["port"])
        blobs[f"weft-key-{number}"] = packed(arrays, {})
        facts.append(
            {
                "name": key.name, "flows": len(key.sources), "text": key.guarantee,
                "labels": colour_labels(key),
            }
        )  # fmt: skip
    notes = []
    if len(facts) < len(keys):
        notes.append(f"The paths of the first {len(facts):,} of {len(keys):,} keys are drawn.")
    if len(keys) > MOST_KEYS:
        notes.append(f"The first {MOST_KEYS:,} keys are listed.")
    return render_page(
        "keys.html",
        ("style.css",),
        SCRIPTS,
        {
            **drawing_facts(fabric, drawing), "scopeIsAll": False, "keys": facts,
            "mostFlows": MOST_FLOWS,
        },
        blobs,
        title=f"Routing keys on {fabric.name}",
        facts=[
            ("hosts", f"{fabric.num_hosts:,}"),
            *machine_facts(fabric),
            ("switches", f"{fabric.subnet.num_switches:,}"),
            ("keys", f"{len(keys):,}"),
            ("flows", f"{sum(len(key.sources) for key in keys):,}"),
            ("most flows of a key on a link", f"{max((key.worst for key in keys), default=0):,}"),
        ],
        notes=notes,
        keys=keys[:MOST_KEYS],
        drawn=len(facts),
    )  # fmt: skip


def _arrays(key: RoutingKey) -> dict[str, NDArray[Any]]:
    """Return the flows of a key, and the output ports on their paths, as `KeyData` reads them."""
    nodes = key.fabric.host_nodes.astype(np.int32)
    flow, offset, links = drawn_paths(key)
    return {
        "flow": flow.astype(np.int32),
        "source": nodes[key.sources[flow]],
        "destination": nodes[key.destinations[flow]],
        "colour": key.colour[flow],
        "hops": np.diff(offset).astype(np.uint8),
        "port": key.fabric.link_from_port[links].astype(np.uint16),
    }
