"""Sets of ports among which a policy chooses for each packet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric, SwitchGraph
from weft.kernels.parts import parts
from weft.kernels.routes.dependencies import Sets, WaitGraph, candidate_dependencies
from weft.kernels.routes.intermediates import phase_dependencies
from weft.kernels.routes.route_links import drawn_routes
from weft.kernels.routes.split import split_loads, split_shares
from weft.routing.routes.base import Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out
from weft.routing.routes.tables import TableRoutes
from weft.routing.routes.virtual_lanes import within


@dataclass(frozen=True, eq=False, repr=False)
class CandidateRoutes(Routes):
    """Sets of ports that a packet may take; a policy chooses among them.

    If there are intermediates, a packet between rows of different intermediates is sent in two
    phases: by `via_set` to a third intermediate, which the policy draws; then, from the first row
    that it reaches there, by `set_id` to its destination. Packets within one intermediate, and
    packets whose source or destination row is in no intermediate, are sent direct.

    Parameters
    ----------
    set_id
        int32 [rows, rows]: ``set_id[g, r]`` is the number of the set by which row ``r`` may send to
        destinations of row ``g``, -1 where there is none. The last hop, from ``g`` to the
        destination, is not listed.
    set_offset, set_edge
        int32 CSR: the edges (of `SwitchGraph`) of each set, by ascending port. Equal sets are
        stored once.
    set_lane
        uint8: for each edge in `set_edge`, the virtual lane on which a packet leaves by this edge;
        empty if all packets use the lane of `sl`.
    via
        int32 [rows]: the intermediate, such as a group of switches, that a row belongs to, -1 for
        none; empty if all packets are sent direct. There must be at least three intermediates.
    via_set
        int32 [intermediates, rows]: ``via_set[v, r]`` is the number of the set by which row ``r``
        sends to intermediate ``v``; -1 if ``r`` is in ``v`` or has no set.
    direct
        Whether the policy may also send packets direct if there are intermediates.
    turn_set
        int32 [rows, rows]: ``turn_set[g, r]`` is the number of the set by which row ``r`` may send,
        direct to another intermediate, packets of its own intermediate that may still turn to a
        third one: at the next row ``s``, if it is in the intermediate of ``r``, they may continue
        by ``via_set[v, s]``; -1 where there is none. Empty if packets decide at their first row.
    fallback
        The forwarding tables of switches that route adaptively, for packets that may not choose;
        None if the candidates have none.
    """

    set_id: NDArray[np.int32]
    set_offset: NDArray[np.int32]
    set_edge: NDArray[np.int32]
    set_lane: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    via: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    via_set: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    direct: bool = True
    turn_set: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    fallback: TableRoutes | None = None

    @property
    def settled(self) -> bool:
        """Whether each flow has one path: False, because a policy chooses at every row."""
        return False

    @property
    def spread(self) -> bool:
        """Whether switches spread the packets of a flow over all candidates, as adaptive ones do.

        Otherwise a hash may send them all by one of them.
        """
        return self.fallback is not None and not self.num_intermediates

    @property
    def num_intermediates(self) -> int:
        """Number of intermediates via which packets may be sent; 0 if all paths are direct."""
        return len(self.via_set)

    @property
    def num_vls(self) -> int:
        """Number of virtual lanes: one more than the highest lane that the sets use."""
        return int(self.set_lane.max()) + 1 if len(self.set_lane) else super().num_vls

    def check(self, fabric: Fabric) -> None:
        """See `Routes.check`."""
        super().check(fabric)
        rows = fabric.graph.num_rows
        if self.set_id.shape != (rows, rows):
            raise InputError(
                f"the port sets have shape {self.set_id.shape}; {fabric.name} needs {(rows, rows)}"
            )
        if len(self.set_lane) not in (0, len(self.set_edge)):
            raise InputError(f"{len(self.set_lane)} lanes do not match {len(self.set_edge)} edges")
        self._check_sets(fabric.graph)
        if self.fallback is not None:
            self.fallback.check(fabric)
        if len(self.via):
            self._check_intermediates(rows)

    def _check_sets(self, graph: SwitchGraph) -> None:
        offset = self.set_offset
        if (
            not len(offset)
            or offset[0] != 0
            or offset[-1] != len(self.set_edge)
            or np.any(np.diff(offset) < 0)
        ):
            raise InputError(
                f"the offsets of port sets must ascend from 0 to {len(self.set_edge)}, the number "
                "of edges"
            )
        if not within(self.set_edge, 0, len(graph.edge_row) - 1):
            raise InputError(f"an edge of a port set must be 0 to {len(graph.edge_row) - 1}")
        for lines in (self.set_id, self.via_set, self.turn_set):
            if not within(lines, -1, self.num_sets - 1):
                raise InputError(
                    f"the number of a port set must be 0 to {self.num_sets - 1}, or -1 for none"
                )

    def _check_intermediates(self, rows: int) -> None:
        vias = int(self.via.max(initial=-1)) + 1
        if len(self.via) != rows or self.via_set.shape != (vias, rows) or vias < 3:
            raise InputError(
                f"the routes have {vias} intermediates for {len(self.via)} rows, and their sets "
                f"have shape {self.via_set.shape}; expected three or more, for {rows} rows"
            )
        if len(self.turn_set) and self.turn_set.shape != (rows, rows):
            raise InputError(
                f"the sets of packets that may turn have shape {self.turn_set.shape}; expected "
                f"{(rows, rows)}"
            )
        inside = np.flatnonzero(self.via >= 0)
        if np.any(self.via_set[self.via[inside], inside] >= 0) or np.any(
            self.set_id[np.arange(rows), np.arange(rows)] >= 0
        ):
            raise InputError("a row must not have a port set to itself or to its own intermediate")

    def _sl_shapes(self, fabric: Fabric) -> list[tuple[int, ...]]:
        return [()]

    @property
    def num_sets(self) -> int:
        """Number of distinct port sets."""
        return len(self.set_offset) - 1

    def __repr__(self) -> str:
        widest = int(np.diff(self.set_offset).max(initial=0))
        via = f", via {self.num_intermediates} intermediates" if len(self.via) else ""
        lanes = f", {self.num_vls} lanes" if self.num_vls > 1 else ""
        return (
            f"CandidateRoutes({self.engine!r}: {self.num_sets} port sets on "
            f"{self.set_id.shape[0]} switches, up to {widest} ports each{via}{lanes})"
        )

    def on_one_lane(self) -> Self:
        """See `Routes.on_one_lane`."""
        return replace(super().on_one_lane(), set_lane=np.zeros(0, dtype=np.uint8))

    def renumbered(self, old: Fabric, new: Fabric, destination: NDArray[np.integer[Any]]) -> Self:
        """See `Routes.renumbered`."""
        static = self.fallback and self.fallback.renumbered(old, new, destination)
        return replace(super().renumbered(old, new, destination), fallback=static)

    def drawn_links(
        self, fabric: Fabric, flows: EndpointFlows, state: NDArray[np.uint64]
    ) -> tuple[NDArray[Any], ...]:
        """See `Routes.drawn_links`."""
        graph = fabric.graph
        result: tuple[NDArray[Any], ...] = drawn_routes(
            self.set_id, self.set_offset, self.set_edge, self.via, self.via_set, self.direct,
            graph.parts, endpoint_out(fabric), flows.sources, flows.destinations, state,
        )  # fmt: skip
        return result

    def link_loads(self, fabric: Fabric, flows: EndpointFlows) -> tuple[NDArray[Any], int]:
        """See `Routes.link_loads`; flows take direct paths and are split equally at every hop."""
        graph = fabric.graph
        per_link = np.zeros(fabric.num_links)
        offset, moving, unrouted = _by_target(fabric, flows)
        unrouted += split_loads(
            self.set_id, self.set_offset, self.set_edge, graph.parts, graph.destination_link,
            endpoint_out(fabric), offset, moving, flows.sources, flows.destinations, flows.weights,
            per_link,
        )  # fmt: skip
        return per_link, int(unrouted)

    def split_shares(
        self, fabric: Fabric, flows: EndpointFlows, cost: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], int]:
        """Return the share of the injection rate that each flow gets if all are split equally.

        `cost` [links]: the injection rate divided by the rate of the link. Flows have no weights;
        packets take direct paths.

        Returns the least share over the links that a flow uses, float64 [flows], 0 without a path;
        and the number of flows without a path.
        """
        loads, unrouted = self.link_loads(fabric, flows)
        offset, moving, _ = _by_target(fabric, flows)
        shares = np.zeros(len(flows.sources))
        split_shares(
            self.set_id, self.set_offset, self.set_edge, fabric.graph.parts, endpoint_out(fabric),
            offset, moving, flows.sources, flows.destinations, loads * cost, shares,
        )  # fmt: skip
        return shares, unrouted

    def add_dependencies(self, fabric: Fabric, management: bool, dependencies: WaitGraph) -> None:
        """See `Routes.add_dependencies`."""
        graph = fabric.graph
        rows = graph.destination_row[: fabric.num_host_endpoints]
        rows = np.unique(rows[rows >= 0])
        if management:
            rows = np.arange(graph.num_rows, dtype=np.int32)
        lane = int(self.lanes.tables[0, int(self.sl)])
        sets = Sets(self.set_id, self.set_offset, self.set_edge, self.set_lane, lane)
        add = candidate_dependencies
        if self.num_intermediates:
            sets = sets._replace(
                via=self.via, via_set=self.via_set, turn_set=self.turn_set, direct=self.direct
            )
            add = phase_dependencies
        add(parts(sets), graph.parts, rows, parts(dependencies))


def _by_target(
    fabric: Fabric, flows: EndpointFlows
) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    """Return flows by the row of their destination, CSR; and how many have an end without a row.

    Flows within an endpoint are left out.
    """
    rows_of, count = fabric.graph.destination_row, fabric.graph.num_rows
    known = (flows.sources >= 0) & (flows.destinations >= 0)
    moving = np.flatnonzero(known & (flows.sources != flows.destinations))
    rows = rows_of[flows.destinations[moving]]
    apart = len(flows.sources) - int(known.sum()) + int((rows < 0).sum())
    moving, rows = moving[rows >= 0], rows[rows >= 0]
    offset = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=offset[1:])
    return offset, moving[np.argsort(rows, kind="stable")].astype(np.int32), apart
