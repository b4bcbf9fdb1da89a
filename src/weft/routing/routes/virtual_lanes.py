"""The mapping of service levels to virtual lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.frozen import FrozenArrays
from weft.fabrics import Fabric
from weft.kernels.parts import StateParts
from weft.kernels.routes.dependencies import Lanes

#: Number of service levels: an SL has four bits.
NUM_SLS = 16
#: Number of lanes for data; VL 15 is for subnet management alone.
MAX_VLS = 15


def _whole(array: NDArray[Any], dimensions: int) -> bool:
    """Return whether an array has this number of dimensions and an integer type."""
    return array.ndim == dimensions and array.dtype.kind in "iu"


def within(array: NDArray[Any], low: int, high: Any) -> bool:
    """Return whether all numbers of an array are from low to high."""
    return not np.any(array < low) and not np.any(array > high)


@dataclass(frozen=True, eq=False)
class VirtualLanes(FrozenArrays):
    """SL to VL mapping: one table for all, or one per (row, input port, output port)."""

    #: uint8 [tables, 16]: the VL of each SL.
    tables: NDArray[np.uint8]
    #: int32: the table of row ``r`` from port ``i`` to port ``o`` is ``index[base[r] + i * ports[r]
    #: + o]``, where port 0 is the node itself; empty if table 0 is used everywhere.
    index: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    #: int64 and int32 [rows]: start of the row in `index`, and number of its ports, port 0
    #: included; empty if `index` is empty.
    base: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ports: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @classmethod
    def uniform(cls, sl_to_vl: Any = ()) -> VirtualLanes:
        """Return one table for all pairs of ports; SLs beyond the given ones map to VL 0."""
        table = np.zeros((1, NUM_SLS), dtype=np.uint8)
        table[0, : len(sl_to_vl)] = sl_to_vl
        return cls(table)

    @property
    def is_uniform(self) -> bool:
        """Whether one table is used for every pair of ports."""
        return len(self.index) == 0

    @property
    def parts(self) -> StateParts:
        """The arrays as kernels take them."""
        return StateParts(Lanes(self.tables, self.index, self.base, self.ports))

    def check(self, fabric: Fabric) -> None:
        """Check that the arrays fit each other and the fabric."""
        if not _whole(self.tables, 2) or self.tables.shape[1] != NUM_SLS or not len(self.tables):
            raise InputError(
                f"the SL to VL tables have shape {self.tables.shape}; expected {NUM_SLS} entries "
                "each"
            )
        if self.is_uniform:
            return
        ports = np.diff(fabric.graph.row_base)
        run = ports.astype(np.int64) ** 2
        if (
            not np.array_equal(self.ports, ports)
            or self.base.shape != ports.shape
            or not within(self.base, 0, len(self.index) - run)
        ):
            raise InputError(
                "SL to VL tables by port must have ports x ports entries, port 0 included, "
                f"for each of the {len(ports)} rows of {fabric.name}"
            )
        if not _whole(self.index, 1) or not within(self.index, 0, len(self.tables) - 1):
            raise InputError(f"an index of an SL to VL table must be 0 to {len(self.tables) - 1}")

    def of_rows(self, row: NDArray[np.int64], ports: NDArray[np.integer[Any]]) -> VirtualLanes:
        """Return the lanes of these rows.

        `row`: number of each new row in this mapping; -1 for one whose lanes are all VL 0.
        `ports` [rows]: number of ports of each, port 0 included.
        """
        if self.is_uniform:
            return self
        fresh = int(ports[row < 0].max(initial=0)) ** 2
        return VirtualLanes(
            np.concatenate((self.tables, np.zeros((1, NUM_SLS), dtype=np.uint8))),
            np.append(self.index, np.full(fresh, len(self.tables), dtype=np.int32)),
            np.where(row >= 0, self.base[row], len(self.index)),
            ports.astype(np.int32),
        )
