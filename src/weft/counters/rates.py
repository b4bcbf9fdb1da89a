"""What ports did between two readings of their counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.frozen import read_only
from weft.core.severity import Severity
from weft.core.units import RATE_NAMES
from weft.counters.counters import CABLE_ERRORS, COUNTERS, Counters
from weft.counters.ticks import RULES, STATED, tick_rules
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import warn_of

#: How much a rate may exceed that of its cable, since times of readings are not exact.
_INEXACT = 1.1
#: Largest size of a packet, about.
_PACKET_BYTES = 4400
#: Values of a 32-bit counter.
_WRAP = 2.0**32

#: Columns of `Rates.frame`, one row per port and interval, ordered by interval, then slot.
RATE_COLUMNS: Mapping[str, Column] = {
    "begin": Column(pl.Datetime("ns", "UTC"), "UTC", "Time of the first reading"),
    "end": Column(pl.Datetime("ns", "UTC"), "UTC", "Time of the second reading"),
    "slot": Column(pl.Int64, "", "Slot of the port in the fabric"),
    "seconds": Column(pl.Float64, "s", "Time between the two readings of this port"),
    "xmit_gbps": Column(pl.Float64, "Gb/s", "Data sent (null: not known)"),
    "rcv_gbps": Column(pl.Float64, "Gb/s", "Data received (null: not known)"),
    "xmit_pps": Column(pl.Float64, "1/s", "Packets sent per second (null: not known)"),
    "rcv_pps": Column(pl.Float64, "1/s", "Packets received per second (null: not known)"),
    "wait_share": Column(
        pl.Float64, "", "Share of the time in which data waited and none was sent (null: unknown)"
    ),
    "wait_rule": Column(pl.String, "", "Rule for ticks of PortXmitWait (empty: not known)"),
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
        none = [None] * len(slots)
        wait = none if link_wait_share is None else link_wait_share[link]
        data = {
            "begin": np.zeros(len(slots), dtype=np.int64),
            "end": np.full(len(slots), round(seconds * 1e9), dtype=np.int64),
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


def rates(counters: Counters) -> list[Rates]:
    """Return what each port did between the readings of a series.

    Parameters
    ----------
    counters
        Two or more readings.

    Returns
    -------
    list of Rates
        One for each interval between readings, in order of time, with the ports of both readings.

    Raises
    ------
    InputError
        If there are fewer than two readings, or two have no port in common.

    Notes
    -----
    A value is null where it cannot be known, and a `FormatWarning` names the ports: after a reset
    (a counter decreased), for counters that stay at their largest value, for rates above that of
    the cable by more than a tenth, and for ports read twice at one time. A 32-bit counter of data
    that decreased is taken to have wrapped once if that, and only that, is possible at the rate of
    the cable. Waits are those of `weft.counters.ticks`.
    """
    if len(counters.readings) < 2:
        raise InputError("rates need two readings of port counters at different times, found one")
    return [_Interval(*pair).rates() for pair in pairwise(counters.readings)]


class _Interval:
    """Two readings, of the ports that both have."""

    def __init__(self, first: Counters, second: Counters) -> None:
        self.fabric = fabric = first.fabric
        self.both = first.frame.join(second.frame, on="slot", suffix="_2", maintain_order="left")
        times = [str(each.frame["reading"][0])[:-6] for each in (first, second)]
        self.name = f"{fabric.name}, readings of {times[0]} and {times[1]}"
        if not len(self.both):
            raise InputError(f"{self.name}: no port is in both")
        self.slots = self.both["slot"].to_numpy()
        for here, there, what in ((first, second, "vanished"), (second, first, "appeared")):
            gone = np.setdiff1d(here.frame["slot"].to_numpy(), there.frame["slot"].to_numpy())
            self._warn(gone, f"that {what}", "changed ports")
        begin, end = (self.both[name].to_physical().to_numpy() for name in ("time", "time_2"))
        self._warn(self.slots[end <= begin], "read twice at one time", "times of readings")
        self.seconds = np.where(end > begin, (end - begin) / 1e9, np.nan)
        link = fabric.port_link[self.slots]
        codes = np.append(np.repeat(fabric.cable_rate_code, 2), 0)[link]
        usual = pl.Series(np.array(RATE_NAMES)[np.where(link < 0, 0, codes)])
        slower = (self.both["rate_2"] != usual) & (usual != "")
        what = "whose link has another width or speed than in the fabric"
        self._warn(self.slots[slower.fill_null(False).to_numpy()], what, "changed rates")
        idle = ~self.both["state_2"].str.starts_with("Active").fill_null(True).to_numpy()
        what = "with a cable whose link is not active"
        self._warn(self.slots[idle & (link >= 0)], what, "inactive links")
        known = np.append(fabric.link_rate_gbps, np.inf)
        self.limit_gbps = known[np.where(link < 0, len(known) - 1, link)]
        narrow = self.both["narrow"].fill_null(True) | self.both["narrow_2"].fill_null(True)
        self.may_stick = narrow.to_numpy()
        self.is_narrow = (self.both["narrow"] & self.both["narrow_2"]).fill_null(False).to_numpy()
        self.decreased = np.zeros(len(self.slots), dtype=bool)
        self.growth = {name: self._growth(name) for name in COUNTERS}

    def _warn(
        self, slots: NDArray[np.int64], what: str, kind: str, severity: Severity = "warning"
    ) -> None:
        """Warn of ports."""
        items = [self.fabric.slot_name(slot) for slot in slots.tolist()]
        warn_of(self.name, items, "port", what, kind=kind, severity=severity)

    def _growth(self, name: str) -> NDArray[np.float64]:
        """Return the growth of a counter, NaN where it decreased, is stuck, or is not known."""
        first, second = pl.col(name), pl.col(f"{name}_2")
        bits = COUNTERS[name].bits
        grown, decreased, stuck, wrapped = self.both.select(
            pl.when(second >= first).then(second - first).cast(pl.Float64).fill_null(np.nan),
            (second < first).fill_null(False).alias("decreased"),
            (second == (1 << bits) - 1).fill_null(False).alias("stuck"),
            (second.cast(pl.Float64) - first.cast(pl.Float64) + _WRAP).fill_null(np.nan).alias("w"),
        ).to_numpy().T  # fmt: skip
        decreased, stuck = decreased.astype(bool), (stuck > 0) & self.may_stick & (bits > 0)
        if bits == 32 and name.endswith("_data"):
            gbps = wrapped * 32e-9 / self.seconds
            more = (wrapped + _WRAP) * 32e-9 / self.seconds
            once = decreased & self.is_narrow & (gbps <= self.limit_gbps)
            once &= (more > self.limit_gbps) & np.isfinite(self.limit_gbps)
            what = f"{COUNTERS[name].name} of 32 bits is taken to have wrapped once"
            self._warn(self.slots[once], f"whose {what}", "wrapped counters")
            grown, decreased = np.where(once, wrapped, grown), decreased & ~once
        self.decreased |= decreased
        # Errors of a counter that is stuck are at least those that it shows; traffic is not known.
        lost = stuck & ((bits == 32) | (grown == 0))
        what = f"whose {COUNTERS[name].name} is at its largest value and counts no further"
        self._warn(self.slots[stuck], what, "stuck counters")
        return np.where(lost | (self.seconds != self.seconds), np.nan, grown)

    def rates(self) -> Rates:
        """Return the rates of the ports."""
        self._warn(
            self.slots[self.decreased],
            "with a counter that decreased, so that it was reset; what it counted is not known",
            "reset counters",
        )  # fmt: skip
        growth, seconds = self.growth, self.seconds
        xmit, rcv = (growth[f"port_{way}_data"] * 32e-9 / seconds for way in ("xmit", "rcv"))
        # A value that the cable cannot have carried since the first reading was not reset.
        most_words = self.limit_gbps * seconds / 32e-9
        held = [(self.both[f"port_{way}_data_2"].cast(pl.Float64).fill_null(0).to_numpy()
                 > _INEXACT * most_words) for way in ("xmit", "rcv")]  # fmt: skip
        lost = self.decreased & ~(held[0] & held[1])
        # Packets count whole, and clocks are not exact.
        slack = 1.01 + _PACKET_BYTES * 8e-9 / self.limit_gbps / seconds
        fast = np.fmax(xmit, rcv) > slack * self.limit_gbps
        self._warn(
            self.slots[fast & ~lost],
            "with a rate above that of the cable: times of readings, or the fabric, are not right",
            "impossible rates",
        )  # fmt: skip
        lost |= fast & (np.fmax(xmit, rcv) > _INEXACT * self.limit_gbps)
        tick_bytes, rule = self._ticks()
        share = growth["port_xmit_wait"] * tick_bytes * 8e-9 / self.limit_gbps / seconds
        self._warn(
            self.slots[share > _INEXACT], "that waited for longer than the time between "
            "the readings: a tick of PortXmitWait has another length", "impossible waits",
        )  # fmt: skip
        share = np.where(share > _INEXACT, np.nan, np.minimum(share, 1.0))
        traffic = {
            "xmit_gbps": xmit, "rcv_gbps": rcv, "wait_share": share,
            "xmit_pps": growth["port_xmit_pkts"] / seconds,
            "rcv_pps": growth["port_rcv_pkts"] / seconds,
        }  # fmt: skip
        errors = np.stack([growth[name] for name in CABLE_ERRORS])
        none = np.isnan(errors).all(axis=0)
        counts = {
            "errors": np.where(none, np.nan, np.nansum(errors, axis=0)),
            "discards": growth["port_xmit_discards"],
            "link_downs": growth["link_downed_counter"],
        }
        data = {name: np.where(lost, np.nan, each) for name, each in traffic.items()} | {
            name: pl.Series(np.where(self.decreased, np.nan, each)).fill_nan(None).cast(pl.Int64)
            for name, each in counts.items()
        }
        columns: dict[str, Any] = data | {
            "begin": self.both["time"], "end": self.both["time_2"], "slot": self.slots,
            "seconds": seconds, "wait_rule": [RULES[number] for number in rule.tolist()],
        }  # fmt: skip
        return Rates(self.fabric, frame(RATE_COLUMNS, columns))

    def _ticks(self) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Return bytes of a tick and the rule of each port, NaN and 0 where not known."""
        tick_bytes, rule = (each[self.slots] for each in tick_rules(self.fabric))
        stated = self.both["tick_bytes"].fill_null(np.nan).to_numpy()
        same = stated == self.both["tick_bytes_2"].fill_null(np.nan).to_numpy()
        unknown = self.slots[~np.isnan(self.growth["port_xmit_wait"]) & (rule == 0) & ~same]
        what = "whose waits are not known, since the length of a tick of PortXmitWait is not"
        self._warn(unknown, what, "unknown ticks", "note")
        return np.where(same, stated, tick_bytes), np.where(same, STATED, rule).astype(np.int8)
