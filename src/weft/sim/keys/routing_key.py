"""`RoutingKey`: a path for each flow of an application's communication phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.frozen import FrozenArrays, read_only
from weft.core.html import facts_table
from weft.fabrics import Fabric
from weft.kernels.keys.assignment import Groups, add_flows, gather_groups, path_edges
from weft.routing.routes import PathRoutes
from weft.sim.keys.network import KeyNetwork

#: The host rate in units of `RoutingKey.demand`. Demands are integers, so that sums are exact.
HOST_RATE = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class RoutingKey(FrozenArrays):
    """Paths for a set of flows, chosen together so that they share as few links as possible.

    Parameters
    ----------
    network
        The fabric with its coordinates.
    name
        Name of the key, such as ``A`` or ``A, +x``.
    method
        ``exact`` or ``greedy``.
    sources, destinations
        int32 [flows]: hosts of each flow.
    endpoints
        int32 [2, flows]: endpoints of each flow, sources first.
    depth
        int32 [flows]: number of stages that a flow uses; 0 within a leaf switch and for a flow that
        repeats the hosts of an earlier one, with which it shares the path.
    colour
        int32 [flows]: colour of each flow at the leaf switches, -1 within a leaf switch. Flows of
        one colour have different leaf switches at both ends, unless they have the same hosts.
    column
        int32 [flows, stages]: column of `Stage.edge` by which a flow leaves each stage; -1 for a
        stage that it does not use.
    """

    network: KeyNetwork
    name: str
    method: str
    sources: NDArray[np.int32]
    destinations: NDArray[np.int32]
    endpoints: NDArray[np.int32]
    depth: NDArray[np.int32]
    colour: NDArray[np.int32]
    column: NDArray[np.int32]

    @property
    def fabric(self) -> Fabric:
        """The fabric of the key."""
        return self.network.fabric

    @property
    def num_colours(self) -> int:
        """Number of colours of the flows at the leaf switches."""
        return int(self.colour.max(initial=-1)) + 1

    @cached_property
    def subtrees(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Subtrees of both ends of each flow at each stage, int32 [flows, stages] each."""
        return self.network.subtrees(self.endpoints[0]), self.network.subtrees(self.endpoints[1])

    @cached_property
    def group(self) -> NDArray[np.int32]:
        """Group of each flow at each stage (see `weft.kernels.keys.assignment`).

        int32 [flows, stages]: the flows of a group ascend to switches of one plane, and NRK moves
        them together to another plane. -1 for a stage that the flow does not use, and for a flow
        that repeats the hosts of an earlier one.
        """
        group = np.full(self.column.shape, -1, dtype=np.int32)
        prefix = np.zeros(len(self.depth), dtype=np.int32)
        for stage, planes in enumerate(self.network.stages.planes.tolist()):
            uses = self.depth > stage
            prefix = prefix * planes + self.column[:, stage] % planes
            group[uses, stage] = prefix[uses]
        return read_only(group)

    @cached_property
    def cable(self) -> NDArray[np.int32]:
        """Parallel cable of each flow at each stage, int32 [flows, stages], -1 as in `group`."""
        cable = self.column // self.network.stages.planes.astype(np.int32)
        return read_only(np.where(self.group >= 0, cable, np.int32(-1)))

    @cached_property
    def groups(self) -> Groups:
        """The key's flows, counted by group, side, cable and subtree."""
        groups: Groups = gather_groups(self.network.stages, self.group, self.cable, *self.subtrees)
        return groups

    @cached_property
    def loads(self) -> NDArray[np.int32]:
        """Number of flows on each link, int32, in the order of `KeyNetwork.edge`."""
        loads = np.zeros(len(self.network.edge), dtype=np.int32)
        add_flows(self.network.stages, *self.subtrees, self.depth, self.column, 1, loads)
        return loads

    @cached_property
    def demand(self) -> NDArray[np.int64]:
        """Rate at which each flow could send, in parts of 1 / `HOST_RATE` of the host rate.

        int64 [flows]: the host rate divided by the number of flows at the busier of its two hosts.
        Hedera's estimator has these demands after its first step. Its further steps redistribute
        what the flows of a host leave unused because their other ends limit them.
        """
        ends = self.endpoints.astype(np.int64)
        pairs = np.unique(ends[:, ends[0] != ends[1]], axis=1)
        counts = [np.bincount(each, minlength=self.fabric.num_endpoints) for each in pairs]
        most = np.maximum(*(count[end] for count, end in zip(counts, ends, strict=True)))
        demand: NDArray[np.int64] = HOST_RATE // np.maximum(most, 1)
        return demand

    @property
    def worst(self) -> int:
        """Largest number of flows on a link between switches."""
        return int(self.loads.max(initial=0))

    @property
    def contention(self) -> float:
        """Largest load of a link between switches over its rate, if flows send at the host rate."""
        return float((self.loads * self.network.weight).max(initial=0.0))

    @cached_property
    def bound(self) -> int:
        """Lower bound on `worst`: flows that leave or enter a subtree, divided by its cables."""
        alike = np.where(self.network.weight < 0, -1.0, 1.0)
        return int(self.network.bound(self.subtrees, self.depth, alike))

    @cached_property
    def contention_bound(self) -> float:
        """Lower bound on `contention` for any routing of these flows, one path per flow."""
        return self.network.bound(self.subtrees, self.depth, self.network.weight)

    @property
    def middle(self) -> NDArray[np.int32]:
        """Switch to which each flow ascends: int32 [flows], or [flows, stages] with several stages.

        Switches are numbered as nodes of the fabric; -1 for a stage that the flow does not use.
        """
        network = self.network
        offset, edges = self.paths
        flows, stages = self.column.shape
        result = np.full((flows, stages), -1, dtype=np.int32)
        for stage in range(stages):
            uses = np.flatnonzero(self.column[:, stage] >= 0)
            row = network.fabric.graph.edge_row[edges[offset[uses] + stage]]
            result[uses, stage] = network.fabric.graph.row_node[row]
        return result[:, 0] if stages == 1 else result

    @cached_property
    def paths(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Edges of each flow's path between leaf switches (CSR): int64 offsets, int32 edges."""
        return self.paths_on(self.column)

    def paths_on(self, column: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return `paths` for other columns of the same flows."""
        network = self.network
        depth = (column >= 0).sum(axis=1).astype(np.int32)
        offset, edges = path_edges(network.stages, network.edge, *self.subtrees, depth, column)
        return offset, edges

    @cached_property
    def routes(self) -> PathRoutes:
        """Source routes of the flows, one for each pair of hosts."""
        fabric = self.fabric
        pair = self.endpoints[0].astype(np.int64) * fabric.num_host_endpoints + self.endpoints[1]
        moving = np.flatnonzero(self.endpoints[0] != self.endpoints[1])
        pairs, first = np.unique(pair[moving], return_index=True)
        flow = moving[first]
        offset, edges = self.paths
        count = (offset[1:] - offset[:-1])[flow]
        starts = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        index = np.repeat(offset[flow] - starts[:-1], count) + np.arange(starts[-1])
        return PathRoutes(
            engine=f"keys:{self.method}", fabric_digest=fabric.digest,
            pair=pairs, offset=starts, edge=edges[index],
            notes=(f"routing key {self.name}: {self.guarantee}",),
        )  # fmt: skip

    @property
    def guarantee(self) -> str:
        """Largest number of flows on a link and how it compares with the bound, in words."""
        pairs = np.unique(self.endpoints, axis=1).shape[1]
        once = " (flows between the same hosts count once)" if pairs < len(self.sources) else ""
        links = f"at most {flows_of(self.worst)} on a link between switches{once}"
        if self.worst <= 1 < self.contention:
            return f"{links}; some of these links are slower than those of hosts"
        if self.worst == self.bound:
            reason = "free of contention" if self.worst <= 1 else "the fewest possible"
            return f"{links}, {reason}"
        return f"{links}; no routing has fewer than {self.bound}"

    def lines(self, lids: NDArray[np.integer[Any]] | None = None) -> list[str]:
        """Return the path of each flow as in the paper: ``A1: 0→4→1→DLID(4)``.

        Switches are given by their numbers in the fabric.

        Parameters
        ----------
        lids
            int [flows]: LID to which each flow is sent; by default the first LID of its
            destination, or its number among the destinations if the fabric has no LIDs.
        """
        fabric = self.fabric
        graph = fabric.graph
        offset, edges = self.paths
        if lids is None:
            lids = (fabric.lid if fabric.lid.any() else np.arange(len(fabric.lid)))[
                self.endpoints[1]
            ]
        # The number follows a name such as "A" directly, as in the paper, and others after a dot.
        name = self.name if self.name.isalpha() else f"{self.name}."
        result = []
        for flow, start in enumerate(self.endpoints[0].tolist()):
            rows = [
                graph.destination_row[start],
                *graph.edge_row[edges[offset[flow] : offset[flow + 1]]],
            ]
            path = "→".join(str(graph.row_node[row]) for row in rows)
            result.append(f"{name}{flow + 1}: {path}→DLID({lids[flow]})")
        return result

    def shared(self, column: NDArray[np.int32]) -> NDArray[np.int32]:
        """Give repeated flows the columns of the first flow between their hosts, in place."""
        if np.any((self.depth == 0) & (self.colour >= 0)):
            column[:] = column[stages_used(self.network, self.endpoints)[1]]
        return column

    def moved(self, column: NDArray[np.int32]) -> RoutingKey:
        """Return the key with the same colours and other columns."""
        return replace(self, column=column)

    def _repr_html_(self) -> str:
        return facts_table(
            f"Routing key {self.name} on {self.fabric.name}",
            {
                "flows": len(self.sources), "method": self.method, "colours": self.num_colours,
                "most flows on a link": self.worst, "lower bound": self.bound,
                "contention": self.contention,
            },
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"RoutingKey({self.name!r}: {len(self.sources)} flows, {self.num_colours} colours; "
            f"{self.guarantee})"
        )


def stages_used(
    network: KeyNetwork, endpoints: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Return `RoutingKey.depth`, and the first flow between the endpoints of each flow.

    `endpoints` [2, flows].
    """
    ends = [network.subtrees(each) for each in endpoints]
    depth = (ends[0] != ends[1]).sum(axis=1).astype(np.int32)
    pair = endpoints[0].astype(np.int64) * network.fabric.num_endpoints + endpoints[1]
    _, first, index = np.unique(pair, return_index=True, return_inverse=True)
    earliest = first[index]
    depth[earliest != np.arange(len(pair))] = 0
    return read_only(depth), earliest


def flows_of(count: int) -> str:
    """Return a number of flows as text, such as ``2 flows``."""
    return f"{count} flow" if count == 1 else f"{count} flows"
