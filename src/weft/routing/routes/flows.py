"""Flows between endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric


@dataclass(frozen=True, eq=False)
class EndpointFlows:
    """Flows between endpoints, as arrays for kernels."""

    #: int32 [flows]: endpoints, -1 for a host without a cable.
    sources: NDArray[np.int32]
    destinations: NDArray[np.int32]
    #: int32 [flows]: index of each flow's LID in the forwarding tables; empty if the LMC is 0.
    lids: NDArray[np.int32]
    #: int32 [flows]: indices of the flows, sorted by destination.
    order: NDArray[np.int32]
    #: float64 [flows]: weight of each flow; empty if every flow has weight 1.
    weights: NDArray[np.float64]

    def part(self, chosen: slice | NDArray[np.integer[Any]]) -> EndpointFlows:
        """Return the chosen flows, in the given order."""
        sources = self.sources[chosen]
        return EndpointFlows(
            sources,
            self.destinations[chosen],
            self.lids[chosen] if len(self.lids) else self.lids,
            np.arange(len(sources), dtype=np.int32),
            self.weights[chosen] if len(self.weights) else self.weights,
        )

    @property
    def staying(self) -> NDArray[np.bool_]:
        """Whether each flow is from an endpoint to itself, bool [flows]."""
        staying: NDArray[np.bool_] = (self.sources == self.destinations) & (self.sources >= 0)
        return staying

    def loads_on(
        self, fabric: Fabric, offset: NDArray[np.int64], link: NDArray[np.int32]
    ) -> tuple[NDArray[Any], int]:
        """Return the loads of the links that `Routes.links` lists, and the flows without a path."""
        count = np.diff(offset)
        weights = np.repeat(self.weights, count) if len(self.weights) else None
        loads = np.bincount(link, weights, minlength=fabric.num_links)
        return loads, int((count == 0).sum() - self.staying.sum())

    def loads_of(self, fabric: Fabric) -> NDArray[Any]:
        """Return one zero per link, as float64 if the flows have weights, else as int64."""
        return np.zeros(fabric.num_links, dtype=np.float64 if len(self.weights) else np.int64)


def endpoint_out(fabric: Fabric) -> NDArray[np.int32]:
    """Return the link from each destination to its row, -1 for destinations that are rows."""
    link = fabric.graph.destination_link
    return np.where(link >= 0, link ^ 1, -1).astype(np.int32)
