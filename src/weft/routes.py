"""`Routes`: what a subnet manager would program, or the candidates that a policy chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.fabrics import Fabric

#: A service level is four bits.
NUM_SLS = 16


@dataclass(frozen=True, eq=False)
class VirtualLanes:
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


@dataclass(frozen=True, eq=False, repr=False)
class Routes:
    """Routes of a fabric, with how they were made. One of `TableRoutes`, `CandidateRoutes`.

    Parameters
    ----------
    engine
        Name of the engine that made them.
    fabric_digest
        `Fabric.digest` of what they were made for.
    sl
        uint8, the service level: of shape () for all, [lids], or [rows, lids] by the row at
        the source. A destination has one LID, or with an LMC as many as its tables have.
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
        return int(self.lanes.tables[:, used].max()) + 1

    def check(self, fabric: Fabric) -> None:
        """Refuse to be used with another fabric than the one routed.

        Raises
        ------
        InputError
            When the fabric differs in nodes, ports or cables, or an array has the wrong shape for
            it.
        """
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
        if sl.size and sl.max() >= NUM_SLS:
            raise InputError(f"a service level is 0 to {NUM_SLS - 1}, not {sl.max()}")

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
        self.table.setflags(write=False)

    def check(self, fabric: Fabric) -> None:
        """See `Routes.check`."""
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
class CandidateRoutes(Routes):
    """Sets of ports that a packet may take; a policy chooses among them.

    Parameters
    ----------
    set_id
        int32 [rows, rows]: the set by which row ``r`` may send towards the row ``g`` that the
        destination hangs from is number ``set_id[g, r]``, -1 where there is none. The last hop,
        from ``g`` itself, is the fabric's.
    set_offset, set_edge
        int32 CSR: the edges (of `SwitchGraph`) of each set, by ascending port. Sets are shared
        by all destinations that use them.
    """

    set_id: NDArray[np.int32]
    set_offset: NDArray[np.int32]
    set_edge: NDArray[np.int32]

    def __post_init__(self) -> None:
        for array in (self.set_id, self.set_offset, self.set_edge):
            array.setflags(write=False)

    def check(self, fabric: Fabric) -> None:
        """See `Routes.check`."""
        super().check(fabric)
        rows = fabric.graph.num_rows
        if self.set_id.shape != (rows, rows):
            raise InputError(
                f"the port sets have shape {self.set_id.shape}; {fabric.name} needs {(rows, rows)}"
            )

    @property
    def num_sets(self) -> int:
        """Distinct port sets."""
        return len(self.set_offset) - 1

    def __repr__(self) -> str:
        widest = int(np.diff(self.set_offset).max(initial=0))
        return (
            f"CandidateRoutes({self.engine!r}: {self.num_sets} port sets on "
            f"{self.set_id.shape[0]} switches, up to {widest} ports each)"
        )
