"""Tables of one fabric as tables of another, of the switches and ports that both have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.routing.opensm.ports import port_guids
from weft.routing.routes import TableRoutes


def moved(routes: TableRoutes, old: Fabric, new: Fabric) -> TableRoutes:
    """Return the entries of tables for another fabric; the others have no path.

    Service levels and lanes are left out if the fabrics differ.
    """
    if old.digest == new.digest:
        return routes
    table = np.full(
        (new.num_destinations, 1 << routes.lmc, new.num_switches),
        routes.no_path,
        dtype=routes.table.dtype,
    )
    lines = common(port_guids(old), port_guids(new))
    columns = common(old.node_guid[: old.num_switches], new.node_guid[: new.num_switches])
    entries = routes.table.reshape(old.num_destinations, 1 << routes.lmc, old.num_switches)
    offsets = np.arange(1 << routes.lmc)
    table[np.ix_(lines[1], offsets, columns[1])] = entries[np.ix_(lines[0], offsets, columns[0])]
    return TableRoutes(
        routes.engine, new.digest, table=table.reshape(-1, new.num_switches), lmc=routes.lmc
    )


def common(
    old: NDArray[np.uint64], new: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the GUIDs that both arrays have, in each."""
    _, first, second = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    return first, second
