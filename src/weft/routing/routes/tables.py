"""Forwarding tables, as a subnet manager programs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.parts import parts
from weft.kernels.routes.dependencies import DependencyRoom, WaitGraph, table_dependencies
from weft.kernels.routes.route_links import table_routes
from weft.kernels.routes.walk import table_loads
from weft.routing.routes.base import Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out

#: Number of LIDs whose service levels are read together: those of a row fill a cache line.
_LIDS_TOGETHER = 64


@dataclass(frozen=True, eq=False, repr=False)
class TableRoutes(Routes):
    """Linear forwarding tables.

    Parameters
    ----------
    table
        uint8 or uint16 [destinations << lmc, rows]: ``table[(d << lmc) + o, r]`` is the output port
        of row ``r`` for LID offset ``o`` of destination ``d``. Port 0 is the row itself; the
        largest value of the type means "no path". The entries of one destination are contiguous,
        because walks and engines work destination by destination.
    lmc
        LID mask control: each endpoint answers to ``2 ** lmc`` LIDs.
    """

    table: NDArray[np.unsignedinteger[Any]]
    lmc: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.lmc < 8:
            raise InputError(f"an LMC is 0 to 7, not {self.lmc}")
        super().__post_init__()

    def check(self, fabric: Fabric) -> None:
        """See `Routes.check`."""
        if self.table.dtype.kind != "u":
            raise InputError(
                f"the ports of a table must be unsigned integers, not {self.table.dtype}"
            )
        super().check(fabric)
        expected = (fabric.num_destinations << self.lmc, fabric.graph.num_rows)
        if self.table.shape != expected:
            raise InputError(
                f"the table has shape {self.table.shape}; {fabric.name} with LMC {self.lmc} "
                f"needs {expected}"
            )

    def _sl_shapes(self, fabric: Fabric) -> list[tuple[int, ...]]:
        lids = fabric.num_destinations << self.lmc
        return [(), (lids,), (fabric.graph.num_rows, lids)]

    def renumbered(self, old: Fabric, new: Fabric, destination: NDArray[np.integer[Any]]) -> Self:
        """See `Routes.renumbered`."""
        lids = ((destination[:, None] << self.lmc) + np.arange(1 << self.lmc)).reshape(-1)
        sl = np.take(self.sl, lids, axis=-1) if self.sl.ndim else self.sl
        routes = super().renumbered(old, new, destination)
        return replace(routes, table=self.table[lids], sl=sl)

    def on(self, old: Fabric, new: Fabric) -> Self:
        """Return the same entries on a fabric without some parts, or with further ones.

        Entries stay as they are, those for ports without a cable included. New switches and
        destinations have none, and service level and lane 0.

        Parameters
        ----------
        old, new
            The fabric of these tables, and the other one. Nodes are the same if their GUIDs are.
        """
        node = _indices(old.node_guid, new.node_guid)
        of = _indices(
            _destination_keys(old, np.arange(old.num_nodes)), _destination_keys(new, node)
        )
        offsets = np.arange(1 << self.lmc)
        lid = np.where(of[:, None] < 0, -1, (of[:, None] << self.lmc) + offsets).reshape(-1)
        row = _indices(old.node_guid[old.graph.row_node], new.node_guid[new.graph.row_node])
        dtype = new.graph.port_dtype
        table = np.full((len(lid), len(row)), np.iinfo(dtype).max, dtype=dtype)
        lids, rows = np.flatnonzero(lid >= 0), np.flatnonzero(row >= 0)
        part = self.table[lid[lids]]
        if not np.array_equal(row[rows], np.arange(part.shape[1])):
            part = part[:, row[rows]]
        if dtype != part.dtype:
            part = np.where(part == self.no_path, np.iinfo(dtype).max, part)
        if len(rows) == len(row):
            table[lids] = part
        else:
            table[np.ix_(lids, rows)] = part
        sl = self.sl
        if sl.ndim:
            sl = np.where(lid >= 0, sl[..., lid], 0).astype(np.uint8)
        if sl.ndim > 1:
            sl = np.where(row[:, None] >= 0, sl[row], 0).astype(np.uint8)
        return replace(
            self, fabric_digest=new.digest, table=table, sl=sl, lanes=self.lanes.of_rows(
                row, np.diff(new.graph.row_base)
            ),
        )  # fmt: skip

    @property
    def no_path(self) -> int:
        """Entry that means "no path": 255, as in OpenSM, or 65535 if ports need 16 bits."""
        return int(np.iinfo(self.table.dtype).max)

    def lft(self, row: int) -> NDArray[np.unsignedinteger[Any]]:
        """Return the forwarding table of one row, ordered by destination, then LID offset."""
        return np.ascontiguousarray(self.table[:, row])

    def __repr__(self) -> str:
        rows = self.table.shape[1]
        lids = f", LMC {self.lmc}" if self.lmc else ""
        lanes = f", {self.num_vls} lanes" if self.num_vls > 1 else ""
        return (
            f"TableRoutes({self.engine!r}: {self.table.shape[0] >> self.lmc} destinations "
            f"on {rows} switches{lids}{lanes})"
        )

    def walk_arrays(self, fabric: Fabric) -> tuple[Any, ...]:
        """Return the first arguments of `weft.kernels.routes.walk.table_loads`."""
        return self.table, fabric.graph.parts, endpoint_out(fabric), self.no_path

    def links(
        self, fabric: Fabric, flows: EndpointFlows
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """See `Routes.links`."""
        offset, link = table_routes(
            *self.walk_arrays(fabric), flows.sources, flows.destinations,
            flows.lids if len(flows.lids) else flows.destinations,
        )  # fmt: skip
        return offset, link

    def link_loads(self, fabric: Fabric, flows: EndpointFlows) -> tuple[NDArray[Any], int]:
        """See `Routes.link_loads`."""
        loads = flows.loads_of(fabric)
        unrouted = table_loads(
            *self.walk_arrays(fabric), flows.sources, flows.destinations, flows.lids,
            flows.weights.astype(loads.dtype), flows.order, loads,
        )  # fmt: skip
        return loads, int(unrouted)

    def add_dependencies(self, fabric: Fabric, management: bool, dependencies: WaitGraph) -> None:
        """See `Routes.add_dependencies`."""
        graph = fabric.graph
        per_lid = 1 << self.lmc
        last = fabric.num_destinations if management else fabric.num_host_endpoints
        destinations = np.flatnonzero(graph.destination_row[:last] >= 0)
        lids = ((destinations[:, None] << self.lmc) + np.arange(per_lid)).reshape(-1)
        # Every destination also sends; its row receives these packets at the port of its cable.
        rows, links = graph.destination_row[destinations], graph.destination_link[destinations]
        ports = np.where(links >= 0, fabric.link_from_port[links], 0)
        start = self._same_starts(rows, ports)
        _, first, count = np.unique(start, return_index=True, return_counts=True)
        senders = np.where(count > 1, -1, destinations[first])
        rows, ports = rows[first], ports[first]
        alone = np.zeros(fabric.num_destinations, dtype=np.uint8)
        alone[senders[senders >= 0]] = 1
        sl = np.atleast_2d(np.asarray(self.sl, dtype=np.uint8))
        levels = np.empty((_LIDS_TOGETHER, len(sl)), dtype=np.uint8)
        room = DependencyRoom(alone, levels, np.zeros(len(dependencies.used), dtype=np.int64))
        table_dependencies(
            self.table, lids.astype(np.int32), graph.parts,
            fabric.link_to_port[graph.edge_link].astype(np.int32),
            np.array((rows, ports, senders), dtype=np.int32), sl, self.lmc, self.no_path,
            self.lanes.parts, parts(dependencies), parts(room),
        )  # fmt: skip

    def _same_starts(self, rows: NDArray[np.int32], ports: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return a number for each input port, the same for ports of a row with the same VLs."""
        lanes = self.lanes
        _, first, row = np.unique(rows, return_index=True, return_inverse=True)
        if lanes.is_uniform:
            return row
        width = lanes.ports[rows].astype(np.int64)
        at = lanes.base[rows] + ports * width
        start = row.astype(np.int64)
        for size in np.unique(width):
            here, out = np.flatnonzero(width == size), np.arange(size)
            one, two = at[here, None] + out, at[first[row[here]], None] + out
            own = here[(lanes.index[one] != lanes.index[two]).any(axis=1)]
            start[own] = len(rows) + own
        return start


def _destination_keys(fabric: Fabric, node: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return a number for each destination: its node, renumbered, and its port; 0 for switches."""
    adapters = (node[fabric.endpoint_node].astype(np.int64) << 16) + fabric.endpoint_port
    return np.concatenate((adapters, node[: fabric.num_switches].astype(np.int64) << 16))


def _indices(known: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each wanted value among the known ones, -1 for those that are not."""
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    found: NDArray[np.int64] = np.where(known[order[at]] == wanted, order[at], -1)
    return found


def distinct_lids(*tables: TableRoutes) -> list[TableRoutes]:
    """Return tables of a fabric with the fewest LIDs that have all paths of these tables.

    Paths to LIDs of a destination are the same where all entries are. In most tables of routing
    keys most LIDs have the entries of the first LID; these are left out, as far as the number of
    LIDs is a power of two.

    `*tables`: tables with the same LMC, on one lane.
    """
    count = 1 << tables[0].lmc
    parts = [each.table.reshape(-1, count, each.table.shape[1]) for each in tables]
    own = np.zeros(parts[0].shape[:2], dtype=np.bool_)
    for part in parts:
        own |= (part != part[:, :1]).any(axis=2)
    own[:, 0] = True
    lmc = int(own.sum(axis=1).max(initial=1) - 1).bit_length()
    first = np.argsort(~own, axis=1, kind="stable")[:, : 1 << lmc]
    lines = np.arange(len(own))[:, None]
    return [
        replace(
            each, lmc=lmc, table=part[lines, first].reshape(-1, part.shape[2]),
            sl=np.zeros((), np.uint8),
        )
        for each, part in zip(tables, parts, strict=True)
    ]  # fmt: skip
