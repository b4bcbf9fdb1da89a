"""`Routes`: what a subnet manager would program, whole paths, or sets to choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.frozen import FrozenArrays
from weft.fabrics import Fabric, SwitchGraph, check_fabric
from weft.kernels.routes.paths import SOUND, first_broken_path

#: A service level is four bits.
NUM_SLS = 16
#: Data lanes; VL 15 is for subnet management alone.
MAX_VLS = 15


def _whole(array: NDArray[Any], dimensions: int) -> bool:
    """Whether an array has so many dimensions and whole numbers."""
    return array.ndim == dimensions and array.dtype.kind in "iu"


def _within(array: NDArray[Any], low: int, high: Any) -> bool:
    """Whether all numbers of an array are from low to high."""
    return not np.any(array < low) and not np.any(array > high)


@dataclass(frozen=True, eq=False)
class VirtualLanes(FrozenArrays):
    """SL to VL mapping, one table for every (row, in port, out port) or one each.

    Parameters
    ----------
    tables
        uint8 [tables, 16]: the VL of each SL.
    index
        int32: the table of row ``r`` from port ``i`` to port ``o`` is
        ``index[base[r] + i * ports[r] + o]``, port 0 being the node itself; empty when table 0
        serves everywhere.
    base, ports
        int64 and int32 [rows], empty with `index`.
    """

    tables: NDArray[np.uint8]
    index: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    base: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ports: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @classmethod
    def uniform(cls, sl_to_vl: Any = ()) -> VirtualLanes:
        """One table for all; left out, every SL rides on VL 0."""
        table = np.zeros((1, NUM_SLS), dtype=np.uint8)
        table[0, : len(sl_to_vl)] = sl_to_vl
        return cls(table)

    @property
    def is_uniform(self) -> bool:
        """One table serves every pair of ports."""
        return len(self.index) == 0

    def check(self, fabric: Fabric) -> None:
        """Refuse arrays that do not fit each other or the fabric.

        Raises
        ------
        InputError
            With what is wrong.
        """
        if not _whole(self.tables, 2) or self.tables.shape[1] != NUM_SLS or not len(self.tables):
            raise InputError(
                f"the SL to VL tables have shape {self.tables.shape}; each has {NUM_SLS} entries"
            )
        if self.is_uniform:
            return
        ports = np.diff(fabric.graph.row_base)
        run = ports.astype(np.int64) ** 2
        if (
            not np.array_equal(self.ports, ports)
            or self.base.shape != ports.shape
            or not _within(self.base, 0, len(self.index) - run)
        ):
            raise InputError(
                "the SL to VL tables by port must have a run of ports x ports, port 0 among them, "
                f"for each of the {len(ports)} rows of {fabric.name}"
            )
        if not _whole(self.index, 1) or not _within(self.index, 0, len(self.tables) - 1):
            raise InputError(f"an SL to VL table is 0 to {len(self.tables) - 1}")


@dataclass(frozen=True, eq=False, repr=False)
class Routes(FrozenArrays):
    """Routes of a fabric, with how they were made. One of `TableRoutes`, `CandidateRoutes`,
    `PathRoutes`.

    Parameters
    ----------
    engine
        Name of the engine that made them.
    fabric_digest
        `Fabric.digest` of what they were made for.
    sl
        uint8, the service level: of shape () for all, [lids], or [rows, lids] by the row at
        the source. A destination has one LID, or with an LMC as many as its tables have.
        Source routes may have one for each path, candidates only one for all.
    lanes
        SL to VL.
    options
        Options of the engine, all of them.
    refusals
        Engines tried before, each with its reason.
    notes
        What a user should know, such as the roots that were found.
    """

    engine: str
    fabric_digest: str
    sl: NDArray[np.uint8] = field(kw_only=True, default_factory=lambda: np.zeros((), np.uint8))
    lanes: VirtualLanes = field(kw_only=True, default_factory=VirtualLanes.uniform)
    options: Mapping[str, Any] = field(kw_only=True, default_factory=dict)
    refusals: tuple[tuple[str, str], ...] = field(kw_only=True, default=())
    notes: tuple[str, ...] = field(kw_only=True, default=())

    @property
    def num_vls(self) -> int:
        """Virtual lanes that the service levels in use map to."""
        used = np.unique(self.sl)
        return int(self.lanes.tables[:, used].max(initial=0)) + 1

    def check(self, fabric: Fabric) -> None:
        """Refuse to be used with another fabric than the one routed.

        Raises
        ------
        InputError
            When the fabric differs in nodes, ports or cables, or an array has the wrong shape for
            it.
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
            raise InputError(f"service levels are whole numbers, not {sl.dtype}")
        if sl.size and not 0 <= sl.min() <= sl.max() < NUM_SLS:
            wrong = sl.min() if sl.min() < 0 else sl.max()
            raise InputError(f"a service level is 0 to {NUM_SLS - 1}, not {wrong}")
        self.lanes.check(fabric)
        if self.num_vls > MAX_VLS:
            used = np.unique(self.sl)
            levels = used[self.lanes.tables[:, used].max(axis=0) >= MAX_VLS]
            if len(levels):
                lane = self.lanes.tables[:, levels[0]].max()
                raise InputError(
                    f"SL {levels[0]} maps to VL {lane}; a virtual lane is 0 to {MAX_VLS - 1}"
                )
            raise InputError(f"a virtual lane is 0 to {MAX_VLS - 1}, not {self.num_vls - 1}")

    def _sl_shapes(self, fabric: Fabric) -> list[tuple[int, ...]]:
        """Shapes that `sl` may have."""
        return [(), (fabric.num_destinations,), (fabric.graph.num_rows, fabric.num_destinations)]


@dataclass(frozen=True, eq=False, repr=False)
class TableRoutes(Routes):
    """Linear forwarding tables.

    Parameters
    ----------
    table
        uint8 or uint16 [destinations << lmc, rows]: the port by which row ``r`` sends what is
        addressed to LID offset ``o`` of destination ``d`` is ``table[(d << lmc) + o, r]``; 0 is
        the row itself and the largest value of the type "no path". One destination lies in one
        run of memory, because walks and engines work destination by destination.
    lmc
        Each endpoint answers to ``2 ** lmc`` LIDs.
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
            raise InputError(f"the ports of a table are unsigned numbers, not {self.table.dtype}")
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

    @property
    def no_path(self) -> int:
        """Entry that says "no path": 255, as OpenSM's, unless ports need 16 bits."""
        return int(np.iinfo(self.table.dtype).max)

    def lft(self, row: int) -> NDArray[np.unsignedinteger[Any]]:
        """One row's forwarding table, by destination and LID offset."""
        return np.ascontiguousarray(self.table[:, row])

    def __repr__(self) -> str:
        rows = self.table.shape[1]
        lids = f", LMC {self.lmc}" if self.lmc else ""
        lanes = f", {self.num_vls} lanes" if self.num_vls > 1 else ""
        return (
            f"TableRoutes({self.engine!r}: {self.table.shape[0] >> self.lmc} destinations "
            f"on {rows} switches{lids}{lanes})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PathRoutes(Routes):
    """Source routes: the whole way of each pair of endpoints, decided where it begins.

    Parameters
    ----------
    pair
        int64 [paths], ascending: path ``i`` leads from endpoint ``pair[i] // endpoints`` to
        endpoint ``pair[i] % endpoints`` of a fabric whose hosts have that many
        (`Fabric.num_host_endpoints`). A pair that is not listed has no way.
    offset, edge
        int64 [paths + 1] and int32, CSR: the edges (of `SwitchGraph`) of each path, from the row
        that its source sends through to the row that its destination hangs from; none when
        these are one. The cables to the hosts are the fabric's.
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
            raise InputError("the pairs of source routes must ascend, each with its run of edges")
        if len(self.pair) and self.pair[-1] >= endpoints**2:
            raise InputError(
                f"pair {self.pair[-1]} is none of the {endpoints} endpoints of {fabric.name}"
            )
        path, why = first_broken_path(
            self.pair, self.offset, self.edge, endpoints, graph.destination_row,
            graph.edge_tail, graph.edge_row,
        )  # fmt: skip
        if why != SOUND:
            names = [
                fabric.node_names[fabric.endpoint_node[end]]
                for end in divmod(int(self.pair[path]), endpoints)
            ]
            raise InputError(f"the path from {names[0]} to {names[1]} does not lead there")

    def _sl_shapes(self, fabric: Fabric) -> list[tuple[int, ...]]:
        return [(), (len(self.pair),)]

    def find(
        self, fabric: Fabric, sources: NDArray[Any], destinations: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Number of the path of each pair of endpoints, -1 where there is none."""
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


@dataclass(frozen=True, eq=False, repr=False)
class CandidateRoutes(Routes):
    """Sets of ports that a packet may take; a policy chooses among them.

    With intermediates a packet goes in two phases: from a row of one intermediate to one of
    another, it first makes for a third, which the policy draws, by `via_set`; on the first row of
    that one it turns to its destination, by `set_id`. What stays within one intermediate goes
    straight, and so does what begins or ends in none.

    Parameters
    ----------
    set_id
        int32 [rows, rows]: the set by which row ``r`` may send towards the row ``g`` that the
        destination hangs from is number ``set_id[g, r]``, -1 where there is none. The last hop,
        from ``g`` itself, is the fabric's.
    set_offset, set_edge
        int32 CSR: the edges (of `SwitchGraph`) of each set, by ascending port. Sets are shared
        by all destinations that use them.
    set_lane
        uint8, as `set_edge`: the virtual lane on which a packet leaves by that edge; empty when
        all ride on the one of `sl`.
    via
        int32 [rows]: the intermediate, such as a group of switches, that a row belongs to, -1 for
        none; empty when packets go straight. There must be three or more.
    via_set
        int32 [intermediates, rows]: the set by which row ``r`` sends towards intermediate ``v`` is
        number ``via_set[v, r]``, -1 in ``v`` itself and where there is none.
    direct
        With intermediates: the policy may also send a packet straight.
    """

    set_id: NDArray[np.int32]
    set_offset: NDArray[np.int32]
    set_edge: NDArray[np.int32]
    set_lane: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    via: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    via_set: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    direct: bool = True

    @property
    def num_intermediates(self) -> int:
        """Intermediates that packets may go by; 0 when all go straight."""
        return len(self.via_set)

    @property
    def num_vls(self) -> int:
        """Virtual lanes that the sets use."""
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
                "of their edges"
            )
        if not _within(self.set_edge, 0, len(graph.edge_row) - 1):
            raise InputError(f"an edge of a port set is 0 to {len(graph.edge_row) - 1}")
        for lines in (self.set_id, self.via_set):
            if not _within(lines, -1, self.num_sets - 1):
                raise InputError(f"a port set is 0 to {self.num_sets - 1}, or -1 for none")

    def _check_intermediates(self, rows: int) -> None:
        vias = int(self.via.max(initial=-1)) + 1
        if len(self.via) != rows or self.via_set.shape != (vias, rows) or vias < 3:
            raise InputError(
                f"{vias} intermediates of {len(self.via)} rows, with sets of shape "
                f"{self.via_set.shape}; there must be three or more, of {rows} rows"
            )
        inside = np.flatnonzero(self.via >= 0)
        if np.any(self.via_set[self.via[inside], inside] >= 0) or np.any(
            self.set_id[np.arange(rows), np.arange(rows)] >= 0
        ):
            raise InputError("a packet that is where it makes for needs no set")

    def _sl_shapes(self, fabric: Fabric) -> list[tuple[int, ...]]:
        return [()]

    @property
    def num_sets(self) -> int:
        """Distinct port sets."""
        return len(self.set_offset) - 1

    def __repr__(self) -> str:
        widest = int(np.diff(self.set_offset).max(initial=0))
        by = f", by {self.num_intermediates} intermediates" if len(self.via) else ""
        lanes = f", {self.num_vls} lanes" if self.num_vls > 1 else ""
        return (
            f"CandidateRoutes({self.engine!r}: {self.num_sets} port sets on "
            f"{self.set_id.shape[0]} switches, up to {widest} ports each{by}{lanes})"
        )
