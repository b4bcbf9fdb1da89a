"""Functions of updn and dnup that fill OpenSM's tables and count pairs without a path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.kernels.routing.opensm_ranks import MOST_HOPS, ranked_tables
from weft.routing.engine_registry import empty_table, opensm_targets, row_system, sending_rows


def fill_ranked(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    step: NDArray[np.uint8],
    lmc: int = 0,
    most_hops: int = MOST_HOPS,
) -> None:
    """Fill tables as OpenSM's updn and dnup do; see `weft.kernels.routing.opensm_ranks`."""
    ranked_tables(
        fabric.graph.parts, row_system(fabric), step, *opensm_targets(fabric, table, lmc),
        most_hops, table,
    )  # fmt: skip


def lost_pairs(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], step: NDArray[np.uint8], lmc: int
) -> tuple[str, ...]:
    """Return a note on pairs without a path in tables of `fill_ranked`; none if all have one."""
    gaps, example = missing_paths(fabric, table, lmc)
    if not gaps:
        return ()
    note = f"OpenSM leaves {gaps} pairs of a switch and a host without a path, such as {example}"
    other = empty_table(fabric)
    fill_ranked(fabric, other, step, most_hops=2 * len(step) + MOST_HOPS)
    if not missing_paths(fabric, other, 0)[0]:
        note += f", because it allows at most {MOST_HOPS} hops"
    return (note,)


def missing_paths(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int
) -> tuple[int, str]:
    """Return the number of pairs of a leaf and a host without a path, and text that names one pair.

    Only pairs in one connected component are counted. All ports of a host are included, since each
    port has its LIDs and may send.
    """
    graph = fabric.graph
    leaves = sending_rows(fabric)
    hosts = np.flatnonzero(graph.destination_row[: fabric.num_host_endpoints] >= 0)
    missing = (table[hosts << lmc] == np.iinfo(table.dtype).max).take(leaves, axis=1)
    if not missing.any():
        return 0, ""
    label = fabric.graph.components
    connected = label[graph.destination_row[hosts]][:, None] == label[leaves]
    gaps = np.argwhere(missing & connected)
    if not len(gaps):
        return 0, ""
    leaf = fabric.node_names[graph.row_node[leaves[gaps[0, 1]]]]
    host = fabric.node_names[fabric.endpoint_node[hosts[gaps[0, 0]]]]
    return len(gaps), f"from {leaf} to {host}"
