"""What OpenSM 3.3.23 does by itself where an engine has no file: roots, and its fallback."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.routing.engine_registry import PASSES, empty_table, fill_counted, row_adapters
from weft.routing.routes import TableRoutes

#: A root has more than the first share of the adapters at one distance, and at most the second
#: share at every other distance.
ROOT_SHARE = 0.9
OTHER_SHARE = 0.05

#: OpenSM ignores adapters at this distance or farther when it detects roots.
FAR_HOPS = 64


def detected_roots(fabric: Fabric) -> NDArray[np.int32]:
    """Return the roots that OpenSM's updn detects: rows with nearly all adapters at one distance.

    Each connected component is a subnet of its own, and may have no roots.
    """
    graph, label = fabric.graph, fabric.graph.components
    sources = row_adapters(fabric)
    leaves = np.flatnonzero(sources).astype(np.int32)
    hops = graph.hops(leaves)
    total = np.bincount(label, weights=sources)[label]
    over_most = np.zeros(graph.num_rows, dtype=np.int64)
    over_some = np.zeros(graph.num_rows, dtype=np.int64)
    for distance in np.flatnonzero(np.bincount(hops.reshape(-1))[:FAR_HOPS]):
        count = (hops == distance).T @ sources[leaves]
        over_most += count > ROOT_SHARE * total
        over_some += count > OTHER_SHARE * total
    return np.flatnonzero((over_most == 1) & (over_some == 1)).astype(np.int32)


def fall_back(
    fabric: Fabric,
    engine: str,
    reason: str,
    *,
    lmc: int = 0,
    behind: NDArray[np.int64] | None = None,
    table: NDArray[np.unsignedinteger[Any]] | None = None,
) -> TableRoutes:
    """Return the tables of minhop, which OpenSM uses without a word where an engine fails.

    `behind`, `table`: as for `minhop_as_opensm`; by default there are no present tables.
    """
    table = empty_table(fabric, lmc) if table is None else table
    refusal = engine, f"{reason}; OpenSM falls back to minhop"
    return replace(minhop_as_opensm(fabric, table, lmc, behind), refusals=(refusal,))


def minhop_as_opensm(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    lmc: int = 0,
    behind: NDArray[np.int64] | None = None,
) -> TableRoutes:
    """Return OpenSM's tables.

    `table`: the present tables, of which entries on shortest paths stay; changed in place.
    `behind`: destinations per edge that an engine had counted when it failed, int64 [edges].
    """
    fill_counted(fabric, table, lmc, behind)
    options = {"balance": "opensm", "lmc": lmc, "passes": PASSES}
    return TableRoutes("minhop", fabric.digest, table=table, lmc=lmc, options=options)
