"""A folded Clos network in the form that the kernels of routing keys need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.frozen import FrozenArrays, read_only
from weft.fabrics import Fabric
from weft.kernels.keys.assignment import Stages
from weft.routing.structure.folded_clos import FoldedClos, find_largest_clos


@dataclass(frozen=True, eq=False)
class KeyNetwork(FrozenArrays):
    """A fabric on which routing keys are assigned."""

    #: The fabric and its coordinates.
    fabric: Fabric
    clos: FoldedClos
    #: Dimensions for kernels.
    stages: Stages
    #: int32 [loads]: edge of `SwitchGraph` for each load, -1 for a missing cable.
    edge: NDArray[np.int32]
    #: float64 [loads]: load that a flow adds to the link: the injection rate divided by the rate of
    #: the link; -1 for a missing cable.
    weight: NDArray[np.float64]

    @property
    def num_groups(self) -> int:
        """Number of groups of a key, over all stages."""
        return int(self.stages.group_base[-1])

    @property
    def complete(self) -> bool:
        """Whether no cable is missing."""
        return self.clos.complete

    @cached_property
    def uniform(self) -> bool:
        """Whether no cable is missing and all cables between two levels have one rate."""
        base = self.stages.load_base
        stages = [self.weight[low:high] for low, high in pairwise(base)]
        return self.complete and all((each == each[0]).all() for each in stages)

    @cached_property
    def hosts(self) -> NDArray[np.int32]:
        """Hosts at leaf switches of the network, which can have keys; int32."""
        hosts = np.flatnonzero(self.fabric.host_endpoint >= 0)
        row = self.fabric.graph.destination_row[self.fabric.host_endpoint[hosts]]
        inside = (row >= 0) & (self.clos.leaf_of_row[row] >= 0)
        return read_only(hosts[inside].astype(np.int32))

    def subtrees(self, endpoints: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the subtree of each endpoint at each stage, int32 [endpoints, stages]."""
        leaf = self.clos.leaf_of_row[self.fabric.graph.destination_row[endpoints]]
        for end in endpoints[leaf < 0][:1]:
            name = self.fabric.node_names[self.fabric.endpoint_node[end]]
            raise InputError(
                f"host {name} of {self.fabric.name} has no routing keys, since it is not at a leaf "
                f"switch of the folded Clos network, which is the fabric without "
                f"{self.clos.left_out}"
            )
        parts = [stage.subtree[leaf] for stage in self.clos.stages]
        shape = (len(endpoints), len(parts))
        return np.stack(parts, axis=1) if parts else np.zeros(shape, dtype=np.int32)

    def bound(
        self,
        ends: Sequence[NDArray[np.int32]],
        depth: NDArray[np.int32],
        weight: NDArray[np.float64],
    ) -> float:
        """Return a lower bound on the largest load that flows cause on a link between switches.

        The flows that leave or enter a subtree share its cables to the next level; each flow uses
        one of them.

        `ends`: subtrees of the two ends of each flow, as `subtrees` returns them. `depth` [flows]:
        number of stages that each flow uses. `weight` [loads]: load that a flow adds, negative for
        a missing cable.
        """
        bound = 0.0
        for stage, subtrees in enumerate(self.stages.subtrees):
            first, end = self.stages.load_base[stage : stage + 2]
            lines = np.sort(weight[first:end].reshape(2, subtrees, -1), axis=2)
            # Of all subtrees with the same cables as the first, only the busiest matters.
            alike = (lines == lines[:, :1]).all(axis=2)
            for side, subtree in enumerate(ends):
                flows = np.bincount(subtree[depth > stage, stage], minlength=subtrees)
                busiest = np.argmax(flows * alike[side])
                for line in (busiest, *np.flatnonzero(flows * ~alike[side])):
                    if flows[line]:
                        bound = max(bound, least_load(int(flows[line]), lines[side, line]))
        return bound


def least_load(flows: int, weight: NDArray[np.float64]) -> float:
    """Return the largest load of some cables if flows are divided among them as well as possible.

    `weight`: load that a flow adds to each cable; negative for a missing cable.
    """
    weight = weight[weight > 0]
    if not len(weight):
        return float("inf")
    load = flows / float((1 / weight).sum())
    while np.floor(load / weight + 1e-9).sum() < flows:
        load = float(((np.floor(load / weight + 1e-9) + 1) * weight).min())
    return load


@lru_cache(maxsize=4)
def key_network(fabric: Fabric) -> KeyNetwork:
    """Return the largest part of a fabric that is a folded Clos network, for routing keys."""
    clos = find_largest_clos(fabric)
    lines = clos.stages
    planes = np.array([stage.planes for stage in lines], dtype=np.int64)
    subtrees = np.array([len(stage.edge) for stage in lines], dtype=np.int64)
    prefixes = np.cumprod([1, *planes], dtype=np.int64)
    sizes = [2 * stage.edge.size for stage in lines]
    stages = Stages(
        planes,
        np.array([stage.parallel for stage in lines], dtype=np.int64),
        subtrees,
        prefixes,
        np.cumsum([0, *sizes], dtype=np.int64),
        np.cumsum([0, *prefixes[1:]], dtype=np.int64),
    )
    up = [stage.edge.reshape(-1) for stage in lines]
    parts = [(each, np.where(each >= 0, clos.reverse[each], -1)) for each in up]
    edge = np.concatenate([np.zeros(0, np.int32), *(part for both in parts for part in both)])
    rate = fabric.link_rate_gbps[fabric.graph.edge_link[edge]]
    weight = np.where(edge >= 0, fabric.host_rate_gbps / rate, -1.0)
    return KeyNetwork(fabric, clos, stages, edge.astype(np.int32), weight)
