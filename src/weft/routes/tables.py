"""Forwarding tables, as a subnet manager programs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.routes.base import Routes


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
