"""What ports did between two readings of their counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.frozen import read_only
from weft.fabrics import Fabric

#: Columns of `Rates.frame`, one row per port and interval, ordered by interval, then slot.
RATE_COLUMNS: Mapping[str, Column] = {
    "begin": Column(pl.Datetime, "UTC", "Time of the first reading"),
    "end": Column(pl.Datetime, "UTC", "Time of the second reading"),
    "slot": Column(pl.Int64, "", "Slot of the port in the fabric"),
    "seconds": Column(pl.Float64, "s", "Time between the two readings of this port"),
    "xmit_gbps": Column(pl.Float64, "Gb/s", "Data sent (null: not known)"),
    "rcv_gbps": Column(pl.Float64, "Gb/s", "Data received (null: not known)"),
    "xmit_pps": Column(pl.Float64, "1/s", "Packets sent per second (null: not known)"),
    "rcv_pps": Column(pl.Float64, "1/s", "Packets received per second (null: not known)"),
    "wait_share": Column(
        pl.Float64, "", "Share of the time in which data waited and none was sent (null: unknown)"
    ),
    "discards": Column(pl.Int64, "", "Packets that the port discarded (null: not known)"),
    "errors": Column(pl.Int64, "", "Symbol and link errors (null: not known)"),
    "link_downs": Column(pl.Int64, "", "Times that the link went down (null: not known)"),
}


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of the ports of a fabric over one interval.

    Parameters
    ----------
    fabric
        The fabric.
    frame
        Rows of `RATE_COLUMNS` of one interval.
    """

    fabric: Fabric
    frame: pl.DataFrame

    @classmethod
    def of_links(
        cls,
        fabric: Fabric,
        link_gbps: NDArray[np.float64],
        link_wait_share: NDArray[np.float64] | None = None,
        *,
        seconds: float = 1.0,
    ) -> Rates:
        """Return the rates of the ports of links whose rates are known, NaN where not known.

        `link_gbps`, `link_wait_share`: float64 [links].
        """
        slots = np.flatnonzero(fabric.port_link >= 0)
        link = fabric.port_link[slots]
        epoch = datetime(1970, 1, 1)
        none = [None] * len(slots)
        wait = none if link_wait_share is None else link_wait_share[link]
        data = {
            "begin": [epoch] * len(slots),
            "end": [epoch + timedelta(seconds=seconds)] * len(slots),
            "slot": slots,
            "seconds": np.full(len(slots), seconds),
            "xmit_gbps": link_gbps[link],
            "rcv_gbps": link_gbps[link ^ 1],
            "wait_share": wait,
        }
        return cls(
            fabric, frame(RATE_COLUMNS, {name: data.get(name, none) for name in RATE_COLUMNS})
        )

    @cached_property
    def link_gbps(self) -> NDArray[np.float64]:
        """float64 [links]: rate of each directed link, NaN where not known.

        What the port at its tail sent, or else what the port at its head received.
        """
        sent, received = self._of_links("xmit_gbps"), self._of_links("rcv_gbps")
        at_head = received[np.arange(len(received)) ^ 1]
        return read_only(np.where(np.isnan(sent), at_head, sent))

    @cached_property
    def link_wait_share(self) -> NDArray[np.float64]:
        """float64 [links]: `wait_share` of the port at the tail of each link, NaN where unknown."""
        return read_only(self._of_links("wait_share"))

    def _of_links(self, column: str) -> NDArray[np.float64]:
        """Return the values of the port at the tail of each link."""
        values = np.full(self.fabric.num_links, np.nan)
        link = self.fabric.port_link[self.frame["slot"].to_numpy()]
        given = self.frame[column].to_numpy().astype(np.float64)
        values[link[link >= 0]] = given[link >= 0]
        return values
