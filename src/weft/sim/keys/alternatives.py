"""Alternatives of a routing key that forwarding tables hold, so that a grant only chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.frozen import FrozenArrays, read_only
from weft.fabrics import Fabric
from weft.kernels.keys.assignment import best_alternative
from weft.sim.keys.make import keys
from weft.sim.keys.network import KeyNetwork
from weft.sim.keys.routing_key import RoutingKey


@dataclass(frozen=True, eq=False, repr=False)
class InstalledKey(FrozenArrays):
    """Paths of the same flows in several alternatives, one of which is used at a time.

    Unlike a `RoutingKey` it names links of the fabric, so that it may have been made for the fabric
    with cables missing, and its paths need not be those of a key.
    """

    name: str
    #: int32 [flows]: hosts of each flow.
    sources: NDArray[np.int32]
    destinations: NDArray[np.int32]
    #: int64 [alternatives * flows + 1]: first link of each path in `link`, alternative after
    #: alternative.
    offset: NDArray[np.int64]
    #: int32: links between switches, as in `Fabric`.
    link: NDArray[np.int32]
    #: uint8 [alternatives, flows]: offset of the destination's LID that selects the path.
    lid_offset: NDArray[np.uint8]

    @property
    def num_alternatives(self) -> int:
        """Number of alternatives."""
        return len(self.lid_offset)

    @cached_property
    def moving(self) -> NDArray[np.intp]:
        """Indices of the first flow between each two hosts; other flows share its path."""
        pair = self.sources.astype(np.int64) << 32 | self.destinations
        first: NDArray[np.intp] = np.unique(pair, return_index=True)[1]
        return first

    def links(self, alternative: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the paths of an alternative (CSR): int64 offsets [flows + 1], int32 links."""
        flows = len(self.sources)
        part = self.offset[alternative * flows : (alternative + 1) * flows + 1]
        return part - part[0], self.link[part[0] : part[-1]]

    @cached_property
    def used(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Links that each alternative uses, and its number of flows on each.

        int64 [alternatives + 1]: first entry of each alternative; int32: links, and flows. Flows
        between the same two hosts count once, as for `RoutingKey.loads`.
        """
        once = np.zeros(len(self.sources), dtype=np.bool_)
        once[self.moving] = True
        parts = []
        for number in range(self.num_alternatives):
            begin, links = self.links(number)
            parts.append(np.unique(links[np.repeat(once, np.diff(begin))], return_counts=True))
        start = np.cumsum([0, *(len(links) for links, _ in parts)]).astype(np.int64)
        links, flows = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        return start, links.astype(np.int32), flows.astype(np.int32)

    def worst(self, alternative: int) -> int:
        """Return the largest number of flows of an alternative on a link."""
        start, _, flows = self.used
        return int(flows[start[alternative] : start[alternative + 1]].max(initial=0))

    def __repr__(self) -> str:
        flows = len(self.sources)
        return f"InstalledKey({self.name!r}: {flows} flows, {self.num_alternatives} alternatives)"


def alternatives(key: RoutingKey, count: int, seed: int = 0) -> list[NDArray[np.int32]]:
    """Return up to `count` sets of columns for the flows of a key, the key's own first.

    Each further set moves all flows to switches a number of steps to the right, at each stage
    (Routing Keys, section II-B), in even steps over the switches. Where cables are missing on these
    paths, a key with other random switches replaces it.

    `count`: number of alternatives; a network with fewer switches has fewer. `seed`: seed of keys
    with random switches.

    Returns int32 [flows, stages] each, as `RoutingKey.column`, with at most the contention of
    `key`.
    """
    planes = key.network.stages.planes.astype(np.int64)
    found = [key.column]
    for number in range(1, count):
        step, again = number * planes // count, np.zeros(len(planes), dtype=np.int64)
        # With more alternatives than switches at the leaves, those with equal switches there differ
        # at the next stage.
        again[1:] = number - (step[:1] * count + planes[:1] - 1) // planes[:1]
        plane = (key.column % planes + (step + again) % planes) % planes
        column = np.where(key.column < 0, -1, key.column // planes * planes + plane)
        column = column.astype(np.int32)
        if not _exists(key, column):
            made = keys(
                key.fabric, key.sources, key.destinations, method="exact", first="random",
                name=key.name, seed=seed + number,
            )  # fmt: skip
            if made.contention > key.contention * (1 + 1e-9):
                continue
            column = made.column
        if not any(np.array_equal(column, other) for other in found):
            found.append(read_only(column))
    return found


def _exists(key: RoutingKey, column: NDArray[np.int32]) -> bool:
    """Return whether no cable of the paths is missing, and contention is not above the key's."""
    if key.network.uniform:
        return True
    if (key.paths_on(column)[1] < 0).any():
        return False
    return key.moved(column).contention <= key.contention * (1 + 1e-9)


def installed_key(
    key: RoutingKey,
    columns: Sequence[NDArray[np.int32]],
    lid_offset: NDArray[np.integer[Any]],
    base: InstalledKey | None,
    link_of_edge: NDArray[np.int32],
) -> InstalledKey:
    """Return alternatives of a key as links.

    `columns`: int32 [flows, stages] for each alternative. `lid_offset`, int [alternatives, flows]:
    as in `weft.sim.keys.tables.KeyTables`. Flows with -1 take the path of the base routes. `base`:
    paths of the same flows by the base routes; None if every flow has a LID. `link_of_edge`
    [edges]: link of each edge; see `links_in`.
    """
    lengths, links = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
    usual = None if base is None else base.links(0)
    for column, offsets in zip(columns, lid_offset, strict=True):
        begin, edges = key.paths_on(column)
        own = (begin, link_of_edge[edges])
        if (offsets >= 0).all():
            links.append(own[1])
            lengths.append(np.diff(begin))
            continue
        for flow, offset in enumerate(offsets.tolist()):
            start, path = usual if offset < 0 and usual is not None else own
            links.append(path[start[flow] : start[flow + 1]])
            lengths.append(start[flow + 1 : flow + 2] - start[flow])
    return InstalledKey(
        key.name, key.sources, key.destinations, np.cumsum(np.concatenate(lengths)),
        np.concatenate(links), np.maximum(lid_offset, 0).astype(np.uint8),
    )  # fmt: skip


def links_in(fabric: Fabric, whole: Fabric) -> NDArray[np.int32]:
    """Return the link of `whole` for each link of a fabric with the same nodes but fewer cables."""
    slot = whole.port_offset[fabric.link_from] + fabric.link_from_port - 1
    number = np.full(len(whole.port_guid), -1, dtype=np.int32)
    number[whole.port_offset[whole.link_from] + whole.link_from_port - 1] = np.arange(
        len(whole.link_from), dtype=np.int32
    )
    links: NDArray[np.int32] = number[slot]
    return links


@dataclass(frozen=True, eq=False)
class Alternatives(FrozenArrays):
    """Flows that each alternative of a key adds to the links of a network."""

    #: int64 [alternatives + 1]: first entry of each alternative in the other arrays.
    start: NDArray[np.int64]
    #: int32: index of the load, as `KeyNetwork.edge`, and number of flows.
    load: NDArray[np.int32]
    flows: NDArray[np.int32]
    #: Columns of each alternative; empty for an `InstalledKey`.
    columns: tuple[NDArray[np.int32], ...] = ()

    @classmethod
    def of(
        cls,
        network: KeyNetwork,
        key: RoutingKey | InstalledKey,
        columns: tuple[NDArray[np.int32], ...] = (),
    ) -> Alternatives:
        """Return the alternatives of a key, by default only a `RoutingKey`'s own columns.

        `key`, `columns`: as for `weft.sim.keys.scheduler.Place`.
        """
        if isinstance(key, InstalledKey):
            start, links, flows = key.used
            return cls(start, index_of_link(network)[links], flows)
        parts: list[tuple[NDArray[Any], NDArray[Any]]] = []
        columns = columns or (key.column,)
        for column in columns:
            loads = key.moved(column).loads
            used = np.flatnonzero(loads)
            parts.append((used, loads[used]))
        starts = np.cumsum([0, *(len(load) for load, _ in parts)]).astype(np.int64)
        return cls(
            starts,
            np.concatenate([load for load, _ in parts]).astype(np.int32),
            np.concatenate([flows for _, flows in parts]).astype(np.int32),
            columns,
        )

    @property
    def count(self) -> int:
        """Number of alternatives."""
        return len(self.start) - 1

    def best(self, loads: NDArray[np.int32], weight: NDArray[np.float64], by_maximum: bool) -> int:
        """Return the alternative with the least loads; see `best_alternative`."""
        best: int = best_alternative(self.start, self.load, self.flows, loads, weight, by_maximum)
        return best

    def largest(self, number: int, loads: NDArray[np.int32]) -> int:
        """Return the largest load of the links of an alternative."""
        first, end = self.start[number : number + 2]
        return int(loads[self.load[first:end]].max(initial=0))

    def add(self, number: int, sign: int, loads: NDArray[np.int32]) -> None:
        """Add an alternative to loads (`sign` 1), or remove it (-1)."""
        first, end = self.start[number : number + 2]
        loads[self.load[first:end]] += sign * self.flows[first:end]


@lru_cache(maxsize=4)
def index_of_link(network: KeyNetwork) -> NDArray[np.int32]:
    """Return the index of the load of each link of a network's fabric, -1 for links at hosts."""
    fabric = network.fabric
    index = np.full(len(fabric.link_from), -1, dtype=np.int32)
    used = np.flatnonzero(network.edge >= 0)
    index[fabric.graph.edge_link[network.edge[used]]] = used
    return read_only(index)


def load_decision(network: KeyNetwork) -> None:
    """Load the compiled code of decisions by one without alternatives."""
    none = np.zeros(0, dtype=np.int32)
    loads = np.zeros(len(network.edge), dtype=np.int32)
    best_alternative(np.zeros(2, dtype=np.int64), none, none, loads, network.weight, True)
