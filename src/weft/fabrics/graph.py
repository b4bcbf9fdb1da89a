"""The forwarding nodes of a fabric as the arrays that routing and walking kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from weft.core.arguments import need_memory
from weft.core.frozen import FrozenArrays, read_only
from weft.fabrics.arrays import FabricArrays
from weft.kernels.graph import Graph
from weft.kernels.parts import parts
from weft.kernels.routing.distances import bfs_many


@dataclass(frozen=True, eq=False)
class SwitchGraph(FrozenArrays):
    """Rows (forwarding nodes) and the links that leave them.

    A *row* is a node that owns a forwarding table: switch ``s`` is row ``s``, and forwarding hosts
    follow. Destination numbers are the fabric's: endpoints, then switches.
    """

    #: int32 [rows], int32 [nodes]: node of each row, and row of each node, -1 for no row.
    row_node: NDArray[np.int32]
    node_row: NDArray[np.int32]
    #: int32 [rows + 1] and int32: the link that leaves row ``r`` by port ``p`` is
    #: ``row_link[row_base[r] + p]``, or -1 if there is none. Port 0 stands for the row itself.
    row_base: NDArray[np.int32]
    row_link: NDArray[np.int32]
    #: int32 [links]: row at the head of the link, -1 if the node there does not forward.
    link_row: NDArray[np.int32]
    #: int32 [destinations]: the destination itself if it is a row, else the row to which it is
    #: attached; -1 if it has no cable to a row.
    destination_row: NDArray[np.int32]
    #: int32 [destinations]: link from `destination_row` to the destination; -1 if the destination
    #: is a row or has no cable to a row.
    destination_link: NDArray[np.int32]
    #: int32 [rows + 1], then int32 [edges] each: edges ``edge_offset[r]`` to ``edge_offset[r + 1] -
    #: 1`` leave row ``r``, in ascending order of port; head row, link and port of each edge. An
    #: edge is a link from one row to another.
    edge_offset: NDArray[np.int32]
    edge_row: NDArray[np.int32]
    edge_link: NDArray[np.int32]
    edge_port: NDArray[np.int32]

    def __getstate__(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        values, fixed = super().__getstate__()
        values.pop("parts", None)  # addresses
        return values, fixed

    @cached_property
    def num_rows(self) -> int:
        """Number of nodes that own a forwarding table."""
        return len(self.row_node)

    @cached_property
    def max_port(self) -> int:
        """Highest port number of any row."""
        return int(np.diff(self.row_base).max(initial=1)) - 1

    @property
    def port_dtype(self) -> np.dtype[np.unsignedinteger]:
        """Smallest dtype of a port; its largest value means "no path", as 255 does in OpenSM."""
        return np.dtype(np.uint8) if self.max_port < 255 else np.dtype(np.uint16)

    @cached_property
    def edge_of_link(self) -> NDArray[np.int32]:
        """Edge of each link between two rows, -1 for any other link, int32 [links]."""
        edges = np.full(len(self.link_row), -1, dtype=np.int32)
        edges[self.edge_link] = np.arange(len(self.edge_link), dtype=np.int32)
        return read_only(edges)

    @cached_property
    def slot_edge(self) -> NDArray[np.int32]:
        """Edge that leaves each row by each port, -1 if none; int32, indexed like `row_link`."""
        edges = np.full(len(self.row_link), -1, dtype=np.int32)
        used = np.flatnonzero(self.row_link >= 0)
        edges[used] = self.edge_of_link[self.row_link[used]]
        return read_only(edges)

    @cached_property
    def edge_tail(self) -> NDArray[np.int32]:
        """Row at the tail of each edge, int32 [edges]."""
        rows = np.arange(self.num_rows, dtype=np.int32)
        return read_only(np.repeat(rows, np.diff(self.edge_offset)))

    @cached_property
    def edge_back(self) -> NDArray[np.int32]:
        """Reverse edge of each edge, which is on the same cable, int32 [edges]."""
        return read_only(self.edge_of_link[self.edge_link ^ 1])

    @cached_property
    def first_dependency(self) -> NDArray[np.int64]:
        """Index of the first dependency of each edge on one that follows it, int64 [edges + 1]."""
        first = np.zeros(len(self.edge_row) + 1, dtype=np.int64)
        np.cumsum(np.diff(self.edge_offset)[self.edge_row], out=first[1:])
        return read_only(first)

    @cached_property
    def parts(self) -> Any:
        """The arrays that kernels take as one `Graph`."""
        return parts(Graph(*(getattr(self, name) for name in Graph._fields)))

    @cached_property
    def components(self) -> NDArray[np.int32]:
        """Index of the connected component of each row, int32 [rows]."""
        label: NDArray[np.int32] = connected_components(self.matrix(), directed=False)[1]
        return read_only(label)

    def matrix(self, used: NDArray[np.bool_] | None = None) -> csr_array:
        """Return the neighbours of each row along some edges (by default all), as ones."""
        keep = slice(None) if used is None else used
        ends = self.edge_tail[keep], self.edge_row[keep]
        shape = (self.num_rows, self.num_rows)
        near = csr_array((np.ones(len(ends[0]), dtype=np.int64), ends), shape=shape)
        near.sum_duplicates()
        near.data[:] = 1
        return near

    def hops_from(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the edges from the nearest of some rows to each row, -1 if there is no path."""
        if not len(rows):
            return np.full(self.num_rows, -1, dtype=np.int64)
        hops = dijkstra(self.matrix(), unweighted=True, indices=rows, min_only=True)
        return np.where(np.isfinite(hops), hops, -1).astype(np.int64)

    def hops(self, rows: NDArray[np.int32] | None = None) -> NDArray[np.uint16]:
        """Return the smallest number of edges from each of some rows (by default all) to all rows.

        Returns uint16 [source rows, rows]; `weft.kernels.routing.distances.UNREACHED` where there
        is no path.
        """
        if rows is None:
            rows = np.arange(self.num_rows, dtype=np.int32)
        self.need_memory(len(rows), 2, "distances")
        distances = np.empty((len(rows), self.num_rows), dtype=np.uint16)
        bfs_many(self.edge_offset, self.edge_row, rows, distances)
        return distances

    def need_memory(self, lines: int, each: int, what: str) -> None:
        """Refuse a table of `lines` x `num_rows` entries of `each` bytes that does not fit."""
        need_memory(
            lines * self.num_rows * each,
            f"a table of {what} of {lines:,} x {self.num_rows:,} entries",
            "use a smaller fabric or part of this one; weft info, convert and cost accept any size",
        )

    @classmethod
    def of(cls, fabric: FabricArrays) -> SwitchGraph:
        """Return the graph of a fabric."""
        row_node = np.flatnonzero(fabric.forwards).astype(np.int32)
        rows = len(row_node)
        node_row = np.full(fabric.num_nodes, -1, dtype=np.int32)
        node_row[row_node] = np.arange(rows, dtype=np.int32)

        ports = fabric.num_ports[row_node]
        row_base = np.zeros(rows + 1, dtype=np.int32)
        np.cumsum(ports + 1, out=row_base[1:])
        row_link = np.full(int(row_base[-1]), -1, dtype=np.int32)
        from_row = node_row[fabric.link_from]
        out = np.flatnonzero(from_row >= 0)
        row_link[row_base[from_row[out]] + fabric.link_from_port[out]] = out

        link_row = node_row[fabric.link_to]

        destinations = np.concatenate(
            (fabric.endpoint_node, np.arange(fabric.num_switches, dtype=np.int32))
        )
        destination_row = node_row[destinations].copy()
        destination_link = np.full(len(destinations), -1, dtype=np.int32)
        ends = np.flatnonzero(~fabric.forwards[fabric.endpoint_node])
        slot = fabric.port_offset[fabric.endpoint_node[ends]] + fabric.endpoint_port[ends] - 1
        to_fabric = fabric.port_link[slot]
        destination_row[ends] = link_row[to_fabric]
        reachable = destination_row[ends] >= 0
        destination_link[ends[reachable]] = to_fabric[reachable] ^ 1

        slots = np.flatnonzero(row_link >= 0)
        slots = slots[link_row[row_link[slots]] >= 0]
        slot_row = np.repeat(np.arange(rows, dtype=np.int32), ports + 1)[slots]
        edge_link = row_link[slots]
        edge_offset = np.zeros(rows + 1, dtype=np.int32)
        np.cumsum(np.bincount(slot_row, minlength=rows), out=edge_offset[1:])
        return cls(
            row_node=row_node,
            node_row=node_row,
            row_base=row_base,
            row_link=row_link,
            link_row=link_row,
            destination_row=destination_row,
            destination_link=destination_link,
            edge_offset=edge_offset,
            edge_row=link_row[edge_link],
            edge_link=edge_link,
            edge_port=(slots - row_base[slot_row]).astype(np.int32),
        )
