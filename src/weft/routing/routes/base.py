"""The base class of all routes: engine, service levels and lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.frozen import FrozenArrays
from weft.core.html import facts_table
from weft.fabrics import Fabric, check_fabric
from weft.kernels.routes.dependencies import WaitGraph
from weft.routing.routes.flows import EndpointFlows
from weft.routing.routes.virtual_lanes import MAX_VLS, NUM_SLS, VirtualLanes


@dataclass(frozen=True, eq=False, repr=False)
class Routes(FrozenArrays):
    """Routes of a fabric: `TableRoutes`, `CandidateRoutes` or `PathRoutes`.

    Parameters
    ----------
    engine
        Name of the engine that made the routes.
    fabric_digest
        `Fabric.digest` of the routed fabric.
    sl
        uint8: service levels, of shape () if all paths have the same. Tables may also have one per
        LID, [lids], or one per (first row of the path, LID), [rows, lids]. Source routes may also
        have one per path, [paths].
    lanes
        SL to VL mapping.
    options
        All options of the engine with their values.
    refusals
        Engines that were tried but not applicable, each with the reason.
    notes
        Information for the user, such as the roots of the tree.
    """

    engine: str
    fabric_digest: str
    sl: NDArray[np.uint8] = field(kw_only=True, default_factory=lambda: np.zeros((), np.uint8))
    lanes: VirtualLanes = field(kw_only=True, default_factory=VirtualLanes.uniform)
    options: Mapping[str, Any] = field(kw_only=True, default_factory=dict)
    refusals: tuple[tuple[str, str], ...] = field(kw_only=True, default=())
    notes: tuple[str, ...] = field(kw_only=True, default=())

    @property
    def lmc(self) -> int:
        """LID mask control: each endpoint answers to ``2 ** lmc`` LIDs."""
        return 0

    @property
    def num_intermediates(self) -> int:
        """Number of intermediates via which packets may be sent; 0 if all paths are direct."""
        return 0

    @property
    def settled(self) -> bool:
        """Whether each flow has one path, fixed by tables or source routes."""
        return True

    @property
    def num_vls(self) -> int:
        """Number of virtual lanes: one more than the highest lane of a service level in use."""
        return int(self.lanes.tables[:, self.used_sls].max(initial=0)) + 1

    @property
    def used_sls(self) -> NDArray[np.int64]:
        """Service levels in use."""
        bits = np.uint16(0)
        for line in np.atleast_2d(self.sl):
            bits |= np.bitwise_or.reduce(np.left_shift(np.uint16(1), line), initial=0)
        return np.flatnonzero(bits >> np.arange(NUM_SLS) & 1)

    def _repr_html_(self) -> str:
        return facts_table(
            f"{type(self).__name__} by {self.engine}",
            {
                "options": tuple(f"{name}={value}" for name, value in self.options.items()),
                "virtual lanes": self.num_vls,
                "refused before": tuple(f"{name}: {reason}" for name, reason in self.refusals),
                "notes": self.notes,
            },
        )

    def check(self, fabric: Fabric) -> None:
        """Check that the routes were made for this fabric and that their arrays fit it.

        Raises
        ------
        InputError
            If the fabric differs in nodes, ports or cables, or an array has the wrong shape or
            values.
        """
        check_fabric(fabric)
        if fabric.digest != self.fabric_digest:
            raise InputError(
                f"these {self.engine} routes were made for another fabric than {fabric.name}; "
                "route it again"
            )
        sl, shapes = np.asarray(self.sl), self._sl_shapes(fabric)
        if sl.shape not in shapes:
            *first, last = map(str, shapes)
            raise InputError(
                f"the service levels have shape {sl.shape}; {fabric.name} needs "
                f"{', '.join(first)}{' or ' if first else ''}{last}"
            )
        if sl.dtype.kind not in "iu":
            raise InputError(f"service levels must be integers, not {sl.dtype}")
        if sl.size and not 0 <= sl.min() <= sl.max() < NUM_SLS:
            wrong = sl.min() if sl.min() < 0 else sl.max()
            raise InputError(f"a service level is 0 to {NUM_SLS - 1}, not {wrong}")
        self.lanes.check(fabric)
        if self.num_vls > MAX_VLS:
            used = self.used_sls
            levels = used[self.lanes.tables[:, used].max(axis=0) >= MAX_VLS]
            if len(levels):
                lane = self.lanes.tables[:, levels[0]].max()
                raise InputError(
                    f"SL {levels[0]} maps to VL {lane}; a virtual lane is 0 to {MAX_VLS - 1}"
                )
            raise InputError(f"a virtual lane is 0 to {MAX_VLS - 1}, not {self.num_vls - 1}")

    def _sl_shapes(self, fabric: Fabric) -> list[tuple[int, ...]]:
        """Return the shapes that `sl` may have."""
        return [(), (fabric.num_destinations,), (fabric.graph.num_rows, fabric.num_destinations)]

    def on_one_lane(self) -> Self:
        """Return the same paths, all on VL 0.

        A cycle of dependencies of (link, VL) pairs implies a cycle of dependencies of links. So if
        the paths have no credit loop on one lane, they have none for any assignment of lanes.
        """
        return replace(self, sl=np.zeros((), np.uint8), lanes=VirtualLanes.uniform())

    def renumbered(self, old: Fabric, new: Fabric, destination: NDArray[np.integer[Any]]) -> Self:
        """Return the same routes for a fabric that differs in which hosts are judged only.

        Parameters
        ----------
        old, new
            The fabric of the routes, and the other one.
        destination
            int [destinations]: number in `old` of each destination of `new`.
        """
        return replace(self, fabric_digest=new.digest)

    def links(
        self, fabric: Fabric, flows: EndpointFlows
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the links of the path of each flow, links at hosts included.

        Returns
        -------
        ndarray
            int64 [flows + 1]: start of the links of each flow; a flow without a path has no links.
        ndarray
            int32: the links.

        Raises
        ------
        NotApplicable
            If the routes are not `settled`.
        """
        raise NotApplicable(f"{self.engine} leaves the path of a flow to a policy")

    def drawn_links(
        self, fabric: Fabric, flows: EndpointFlows, state: NDArray[np.uint64]
    ) -> tuple[NDArray[Any], ...]:
        """Return the links of paths with candidates drawn at random at every hop.

        Parameters
        ----------
        fabric, flows
            As in `links`.
        state
            uint64 [flows]: initial random state of each flow.

        Returns
        -------
        tuple of ndarray
            Offsets and links, as `links` returns them, of direct paths, and then of paths via an
            intermediate (two empty arrays if there are no intermediates). A flow that has
            both paths may use either.
        """
        none = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return *self.links(fabric, flows), *none

    def link_loads(self, fabric: Fabric, flows: EndpointFlows) -> tuple[NDArray[Any], int]:
        """Return the link loads, and the number of flows without a path.

        The loads are float64 if flows have weights or are split, else int64.
        """
        raise NotApplicable(f"{self.engine} gives no paths to load links by")

    def add_dependencies(self, fabric: Fabric, management: bool, dependencies: WaitGraph) -> None:
        """Set the dependencies of the paths in a channel dependency graph.

        Parameters
        ----------
        fabric
            The routed fabric.
        management
            Whether to include paths to and from switches.
        dependencies
            The graph of `weft.routing.validation.deadlock.dependencies`, changed in place.
        """
        raise NotApplicable(f"{self.engine} gives no paths to check for deadlock")
