"""Pictures of runs for the page of a study: loads of links, fabrics, congestion matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.counts import count_text
from weft.fabrics import Fabric, LinkKind, NodeKind
from weft.report.labels import short_names
from weft.report.layout import layout
from weft.report.matrix_drawing import CELL, CENTRE, matrix_drawing
from weft.report.study_summary import Summary
from weft.report.summary import curve, rounded

#: Column of a table of links that is its load, the first that it has, with name and unit.
LOADS = {
    "utilisation": ("utilisation", ""),
    "max_load": ("load", "flows"),
    "busy_ns": ("busy", "ns"),
}
#: Number of values of a distribution.
CURVE_POINTS = 80
#: Largest number of distributions; of cables, cells and pictures that are drawn.
MOST_CURVES, MOST_CABLES, MOST_CELLS, MOST_DRAWN = 600, 6_000, 120_000, 60


def load_of(links: pl.DataFrame) -> tuple[str, NDArray[np.float64]] | None:
    """Return the name of the loads in a table of links, and the loads; None if it has none."""
    for name in LOADS:
        if name in links.columns and links[name].count():
            return name, links[name].cast(pl.Float64).fill_null(0.0).to_numpy()
    return None


def by_link(fabric: Fabric, links: pl.DataFrame, loads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the load of each link of a fabric from a table of links."""
    link = links["link"].to_numpy()
    inside = link < fabric.num_links  # links inside hosts follow
    every = np.zeros(fabric.num_links)
    every[link[inside]] = loads[inside]
    return every


def first_runs(made: Summary, table: str) -> Iterator[tuple[int, str, pl.DataFrame]]:
    """Yield point, key and table of the first complete run of each point that has the table."""
    for point, keys in enumerate(made.keys):
        for key in keys:
            found = made.data.table(key, table)
            if found is not None and not found.is_empty():
                yield point, key, found
                break


def distributions(made: Summary) -> dict[str, Any]:
    """Return the distribution of the loads of links of each point, over all its runs."""
    curves: dict[int, Any] = {}
    column = ""
    for point, keys in enumerate(made.keys[:MOST_CURVES]):
        loads = []
        for key in keys:
            links = made.data.table(key, "links")
            if links is None:
                continue
            if "kind" in links.columns:
                between = links.filter(pl.col("kind") == "switch-switch")
                links = links if between.is_empty() else between
            found = load_of(links)
            if found is not None and column in ("", found[0]):
                column = found[0]
                loads.append(found[1])
        if loads:
            x, y = curve(np.concatenate(loads), CURVE_POINTS)
            curves[point] = {"x": [rounded(v, 5) for v in x], "y": [rounded(v, 4) for v in y]}
    if not curves:
        return {}
    name, unit = LOADS[column]
    return {"name": name, "unit": unit, "curves": curves}


def fabrics(made: Summary) -> tuple[dict[str, Any], list[str]]:
    """Return drawings of fabrics with the loads of cables of one run per point, and notes."""
    drawings: dict[str, Any] = {}
    loads: dict[int, Any] = {}
    column = ""
    for point, key, links in first_runs(made, "links"):
        if len(loads) >= MOST_DRAWN:
            break
        fabric, found = made.data.fabric(key), load_of(links)
        if fabric is None or found is None or column not in ("", found[0]):
            continue
        if fabric.digest not in drawings:
            drawings[fabric.digest] = fabric_drawing(fabric)
        drawing = drawings[fabric.digest]
        if drawing is None:
            continue
        column = found[0]
        cable = by_link(fabric, links, found[1]).reshape(-1, 2).max(axis=1)[drawing["cables"]]
        loads[point] = {"fabric": fabric.digest, "load": [rounded(v, 4) for v in cable]}
    drawn = {digest: drawing for digest, drawing in drawings.items() if drawing is not None}
    large = count_text(len(drawings) - len(drawn), "fabric")
    notes = [f"Not drawn: {large} of more than {MOST_CABLES:,} cables."]
    notes = notes if len(drawn) < len(drawings) else []
    if not loads:
        return {}, notes
    # Texts of cables name both ends, so the numbers of cables are not needed any more.
    for drawing in drawn.values():
        del drawing["cables"]
    name, unit = LOADS[column]
    return {"name": name, "unit": unit, "fabrics": drawn, "loads": loads}, notes


def fabric_drawing(fabric: Fabric) -> dict[str, Any] | None:
    """Return positions of nodes and cables; without hosts, or None, if there are too many."""
    cables = np.arange(fabric.num_links // 2)
    hosts = True
    if len(cables) > MOST_CABLES:
        hosts = False
        cables = np.flatnonzero(fabric.link_kind[0::2] == LinkKind.SWITCH_SWITCH)
        if not 0 < len(cables) <= MOST_CABLES:
            return None
    drawing = layout(fabric)
    ends = np.stack((fabric.link_from[0::2], fabric.link_to[0::2]))[:, cables]
    low, high = ends.min(axis=0), ends.max(axis=0)
    nodes = np.flatnonzero((fabric.node_kind == NodeKind.SWITCH) | hosts)
    at = {int(node): i for i, node in enumerate(nodes)}
    labels = short_names(fabric.node_names)
    return {
        "name": fabric.name, "cables": cables, "hosts": hosts,
        "x": [rounded(v, 4) for v in drawing.position[nodes, 0]],
        "y": [rounded(v, 4) for v in drawing.position[nodes, 1]],
        "switch": [int(kind == NodeKind.SWITCH) for kind in fabric.node_kind[nodes]],
        "labels": [labels[node] for node in nodes],
        "from": [at[int(node)] for node in low], "to": [at[int(node)] for node in high],
        "bend": [rounded(v, 4) for v in drawing.bend[cables]],
    }  # fmt: skip


def matrices(made: Summary) -> tuple[dict[int, Any], list[str]]:
    """Return the congestion matrix of one run per point as rectangles, and notes."""
    found: dict[int, Any] = {}
    cells, left_out = 0, 0
    for point, _, table in first_runs(made, "congestion"):
        if len(found) >= MOST_DRAWN or cells + len(table) > MOST_CELLS:
            left_out += 1
            continue
        cells += len(table)
        found[point] = _matrix(table)
    return found, [f"{left_out} congestion matrices are left out."] if left_out else []


def _matrix(table: pl.DataFrame) -> dict[str, Any]:
    drawing = matrix_drawing(table)
    names = dict(zip(table["link"], table["name"], strict=True))
    switches = dict(zip(table["node"], table["node_name"], strict=True))

    def short(values: NDArray[Any], places: int = 2) -> list[float]:
        listed: list[float] = np.round(values, places).tolist()
        return listed

    return {
        "size": [rounded(v, 5) for v in drawing.size], "cell": CELL, "centre": CENTRE,
        "x": short(drawing.x), "y": short(drawing.y), "width": short(drawing.width),
        "height": short(drawing.height), "centreY": short(drawing.centre_y),
        "switchShare": short(drawing.switch_share, 3),
        "switchWait": short(drawing.switch_wait_ns, 0),
        "switches": [switches[int(node)] for node in drawing.node],
        "cellX": short(drawing.cell_x), "cellY": short(drawing.cell_y),
        "cellWidth": short(drawing.cell_width), "share": short(drawing.share, 3),
        "wait": short(drawing.wait_ns, 0), "links": [names[int(link)] for link in drawing.link],
        "block": drawing.block.tolist(), "labels": drawing.labels, "notes": drawing.notes,
    }  # fmt: skip
