"""Source routes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.parts import parts
from weft.kernels.routes.dependencies import WaitGraph
from weft.kernels.routes.paths import SOUND, first_broken_path, path_dependencies
from weft.routing.routes.base import Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out


@dataclass(frozen=True, eq=False, repr=False)
class PathRoutes(Routes):
    """Source routes: a path for each pair of endpoints, which the source fixes in the packet.

    Parameters
    ----------
    pair
        int64 [paths], ascending: path ``i`` leads from endpoint ``pair[i] // endpoints`` to
        endpoint ``pair[i] % endpoints``, where ``endpoints`` is `Fabric.num_host_endpoints`. A
        pair that is not listed has no path.
    offset, edge
        int64 [paths + 1] and int32, CSR: the edges (of `SwitchGraph`) of each path, from the row of
        its source to the row of its destination; no edges if both are the same row. Links at the
        hosts are not listed.
    """

    pair: NDArray[np.int64]
    offset: NDArray[np.int64]
    edge: NDArray[np.int32]

    def check(self, fabric: Fabric) -> None:
        """See `Routes.check`; every path must lead from its source to its destination."""
        super().check(fabric)
        graph, endpoints = fabric.graph, fabric.num_host_endpoints
        if len(self.offset) != len(self.pair) + 1 or (
            len(self.pair) and (np.any(np.diff(self.pair) <= 0) or self.pair[0] < 0)
        ):
            raise InputError(
                "pairs of source routes must ascend, and there must be one offset more than pairs"
            )
        if len(self.pair) and self.pair[-1] >= endpoints**2:
            raise InputError(
                f"pair {self.pair[-1]} must be below {endpoints} x {endpoints}, the number of "
                f"pairs of endpoints of {fabric.name}"
            )
        path, status = first_broken_path(self.pair, self.offset, self.edge, endpoints, graph.parts)
        if status != SOUND:
            names = [
                fabric.node_names[fabric.endpoint_node[end]]
                for end in divmod(int(self.pair[path]), endpoints)
            ]
            raise InputError(f"the path from {names[0]} to {names[1]} does not lead there")

    def _sl_shapes(self, fabric: Fabric) -> list[tuple[int, ...]]:
        return [(), (len(self.pair),)]

    def renumbered(self, old: Fabric, new: Fabric, destination: NDArray[np.integer[Any]]) -> Self:
        """See `Routes.renumbered`; pairs of which an end is no host of `new` are left out."""
        end = np.full(old.num_endpoints, -1, dtype=np.int64)
        end[destination[: new.num_host_endpoints]] = np.arange(new.num_host_endpoints)
        source, target = (end[each] for each in np.divmod(self.pair, old.num_host_endpoints))
        pair = np.where(
            np.minimum(source, target) < 0, -1, source * new.num_host_endpoints + target
        )
        order = np.argsort(pair, kind="stable")[np.count_nonzero(pair < 0) :]
        count = np.diff(self.offset)[order]
        offset = np.concatenate(([0], np.cumsum(count)))
        edge = np.repeat(self.offset[order] - offset[:-1], count) + np.arange(offset[-1])
        return replace(
            super().renumbered(old, new, destination), pair=pair[order], offset=offset,
            edge=self.edge[edge], sl=self.sl[order] if self.sl.ndim else self.sl,
        )  # fmt: skip

    def find(
        self, fabric: Fabric, sources: NDArray[Any], destinations: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return the index of the path of each pair of endpoints, -1 where there is none."""
        key = sources.astype(np.int64) * fabric.num_host_endpoints + destinations
        at = np.searchsorted(self.pair, key)
        known = (sources >= 0) & (destinations >= 0) & (at < len(self.pair))
        known[known] = self.pair[at[known]] == key[known]
        return np.where(known, at, -1).astype(np.int32)

    def __repr__(self) -> str:
        longest = int(np.diff(self.offset).max(initial=0))
        lanes = f", {self.num_vls} lanes" if self.num_vls > 1 else ""
        return (
            f"PathRoutes({self.engine!r}: {len(self.pair)} source routes, up to {longest} links "
            f"between switches{lanes})"
        )

    def links(
        self, fabric: Fabric, flows: EndpointFlows
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """See `Routes.links`."""
        path = self.find(fabric, flows.sources, flows.destinations)
        path[flows.staying] = -1
        out = endpoint_out(fabric)[flows.sources]
        back = fabric.graph.destination_link[flows.destinations]
        known = path >= 0
        first = np.where(known, self.offset[path], 0)
        inner = np.where(known, self.offset[path + 1] - first, 0)
        length = inner + (known & (out >= 0)) + (known & (back >= 0))
        offset = np.zeros(len(path) + 1, dtype=np.int64)
        np.cumsum(length, out=offset[1:])
        link = np.empty(offset[-1], dtype=np.int32)
        begins = known & (out >= 0)
        link[offset[:-1][begins]] = out[begins]
        ends = known & (back >= 0)
        link[offset[1:][ends] - 1] = back[ends]
        pair = np.repeat(np.arange(len(path)), inner)
        position = np.arange(len(pair)) - np.repeat(np.cumsum(inner) - inner, inner)
        link[offset[pair] + begins[pair] + position] = fabric.graph.edge_link[
            self.edge[first[pair] + position]
        ]
        return offset, link

    def link_loads(self, fabric: Fabric, flows: EndpointFlows) -> tuple[NDArray[Any], int]:
        """See `Routes.link_loads`."""
        return flows.loads_on(fabric, *self.links(fabric, flows))

    def add_dependencies(self, fabric: Fabric, management: bool, dependencies: WaitGraph) -> None:
        """See `Routes.add_dependencies`."""
        graph = fabric.graph
        source = self.pair // fabric.num_host_endpoints
        row = graph.destination_row[source]
        link = graph.destination_link[source]
        port = np.where(link >= 0, fabric.link_from_port[link], 0)
        path_dependencies(
            row, port.astype(np.int32), np.broadcast_to(self.sl, len(row)),
            self.offset, self.edge, graph.parts,
            fabric.link_to_port[graph.edge_link].astype(np.int32),
            self.lanes.parts, parts(dependencies),
        )  # fmt: skip
