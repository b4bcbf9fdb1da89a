"""`KeyedRoutes`: routes of a fabric, with the paths of routing keys at additional LIDs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routes.dependencies import WaitGraph
from weft.routing.routes import PathRoutes, Routes
from weft.routing.routes.flows import EndpointFlows
from weft.sim.keys.routing_key import RoutingKey


@dataclass(frozen=True, eq=False, repr=False)
class KeyedRoutes(Routes):
    """Routes that messages select by an offset from the first LID of their destination.

    Offset 0 selects the path of the base routes. Offset ``1 + k`` selects the path of key ``k`` for
    the pair of hosts, or that of the base routes if the key has no flow between them.
    """

    #: Routes with one path for each pair of hosts, in a single virtual lane.
    base: Routes
    #: The source routes of each key.
    keys: tuple[PathRoutes, ...]

    @classmethod
    def of(cls, fabric: Fabric, base: Routes, keys: tuple[RoutingKey, ...]) -> KeyedRoutes:
        """Return base routes together with the paths of keys.

        Raises `NotApplicable` if the base routes leave a choice of paths, have several LIDs per
        host or use several virtual lanes.
        """
        base.check(fabric)
        if not base.settled or base.num_intermediates:
            raise NotApplicable(
                f"routing keys need base routes with one path per pair; {base.engine} leaves a "
                "choice; use another engine, such as dmodk"
            )
        if base.lmc:
            raise NotApplicable("routing keys use the LMC themselves; leave out the option lmc")
        if base.num_vls > 1:
            raise NotApplicable(
                f"routing keys use one virtual lane; the {base.engine} routes use {base.num_vls}"
            )
        return cls(
            engine=f"{base.engine} with {len(keys)} routing keys", fabric_digest=fabric.digest,
            base=base, keys=tuple(key.routes for key in keys),
        )  # fmt: skip

    @property
    def lmc(self) -> int:
        """LID mask control: number of bits of the offset."""
        return len(self.keys).bit_length()

    def links(
        self, fabric: Fabric, flows: EndpointFlows
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """See `Routes.links`."""
        count = len(flows.sources)
        bits = flows.lids & ((1 << self.lmc) - 1) if len(flows.lids) else np.zeros(count, np.int32)
        plain = replace(flows, lids=flows.lids[:0])
        begin, length = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        parts: list[NDArray[np.int32]] = []
        size = 0

        def add(mine: NDArray[np.intp], routes: Routes) -> NDArray[np.intp]:
            """Append the links of some flows; return the flows without a path."""
            nonlocal size
            offset, link = routes.links(fabric, plain.part(mine))
            begin[mine], length[mine] = offset[:-1] + size, np.diff(offset)
            parts.append(link)
            size += len(link)
            lost: NDArray[np.intp] = mine[length[mine] == 0]
            return lost

        rest = np.flatnonzero(bits == 0)
        for number in np.unique(bits[bits > 0]).tolist():
            mine = np.flatnonzero(bits == number)
            # The LMC allows offsets above the number of keys; they select the base routes.
            lost = add(mine, self.keys[number - 1]) if number <= len(self.keys) else mine
            rest = np.concatenate((rest, lost))
        add(rest, self.base)
        ends = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
        index = np.repeat(begin - ends[:-1], length) + np.arange(ends[-1])
        links: NDArray[np.int32] = np.concatenate(parts)[index]
        return ends, links

    def link_loads(self, fabric: Fabric, flows: EndpointFlows) -> tuple[NDArray[Any], int]:
        """See `Routes.link_loads`."""
        return flows.loads_on(fabric, *self.links(fabric, flows))

    def add_dependencies(self, fabric: Fabric, management: bool, dependencies: WaitGraph) -> None:
        """See `Routes.add_dependencies`."""
        self.base.add_dependencies(fabric, management, dependencies)
        for key in self.keys:
            key.add_dependencies(fabric, management, dependencies)
