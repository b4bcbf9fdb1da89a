"""`Counters`: values of port counters of a fabric at one or more times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from weft.core.columns import Column
from weft.core.errors import InputError
from weft.core.files import write_with
from weft.fabrics import Fabric


class Counter(NamedTuple):
    """A counter of InfiniBand's performance management."""

    name: str
    #: Bits in PortCounters, where a counter stays at its largest value, 0 if only
    #: PortCountersExtended has it, with 64 bits.
    bits: int
    meaning: str


#: Counters by column.
COUNTERS: Mapping[str, Counter] = {
    "port_xmit_data": Counter("PortXmitData", 32, "Data sent, in words of 4 bytes"),
    "port_rcv_data": Counter("PortRcvData", 32, "Data received, in words of 4 bytes"),
    "port_xmit_pkts": Counter("PortXmitPkts", 32, "Packets sent"),
    "port_rcv_pkts": Counter("PortRcvPkts", 32, "Packets received"),
    "port_unicast_xmit_pkts": Counter("PortUnicastXmitPkts", 0, "Unicast packets sent"),
    "port_unicast_rcv_pkts": Counter("PortUnicastRcvPkts", 0, "Unicast packets received"),
    "port_multicast_xmit_pkts": Counter("PortMulticastXmitPkts", 0, "Multicast packets sent"),
    "port_multicast_rcv_pkts": Counter("PortMulticastRcvPkts", 0, "Multicast packets received"),
    "port_xmit_wait": Counter(
        "PortXmitWait", 32, "Ticks in which the port had data to send and sent none"
    ),
    "symbol_error_counter": Counter("SymbolErrorCounter", 16, "Symbol errors"),
    "link_error_recovery_counter": Counter("LinkErrorRecoveryCounter", 8, "Link error recoveries"),
    "link_downed_counter": Counter("LinkDownedCounter", 8, "Times that the link went down"),
    "port_rcv_errors": Counter("PortRcvErrors", 16, "Packets received with an error"),
    "port_rcv_remote_physical_errors": Counter(
        "PortRcvRemotePhysicalErrors", 16, "Packets received that were marked as bad on their way"
    ),
    "port_rcv_switch_relay_errors": Counter(
        "PortRcvSwitchRelayErrors", 16, "Packets received that the switch could not forward"
    ),
    "port_xmit_discards": Counter("PortXmitDiscards", 16, "Packets discarded instead of sent"),
    "port_xmit_constraint_errors": Counter(
        "PortXmitConstraintErrors", 8, "Packets not sent because of a constraint such as a key"
    ),
    "port_rcv_constraint_errors": Counter(
        "PortRcvConstraintErrors", 8, "Packets dropped at arrival because of a constraint"
    ),
    "local_link_integrity_errors": Counter(
        "LocalLinkIntegrityErrors", 4, "Times that local errors exceeded their threshold"
    ),
    "excessive_buffer_overrun_errors": Counter(
        "ExcessiveBufferOverrunErrors", 4, "Times that buffer overruns persisted"
    ),
    "vl15_dropped": Counter("VL15Dropped", 16, "Management packets dropped for want of room"),
    "qp1_dropped": Counter("QP1Dropped", 16, "Packets for queue pair 1 dropped"),
}

#: Columns of `Counters.frame`.
COUNTER_COLUMNS: Mapping[str, Column] = {
    "reading": Column(pl.Datetime("ns", "UTC"), "UTC", "Time of the reading of the whole fabric"),
    "time": Column(pl.Datetime("ns", "UTC"), "UTC", "Time at which the port was read"),
    "slot": Column(pl.Int64, "", "Slot of the port in the fabric"),
    "narrow": Column(
        pl.Boolean, "", "Whether the counters are those of 32 and fewer bits (null: not known)"
    ),
    "tick_bytes": Column(
        pl.Float64, "B", "What the port could send in a tick (null: the reading does not say)"
    ),
    "state": Column(pl.String, "", "State of the link (null: not known)"),
    "rate": Column(pl.String, "", "Width and speed of the link (null: not known)"),
    **{
        name: Column(pl.UInt64, "", f"{counter.name}: {counter.meaning} (null: not known)")
        for name, counter in COUNTERS.items()
    },
}

#: Counters of errors of a cable, and what they count.
CABLE_ERRORS = {
    "symbol_error_counter": "symbol errors",
    "link_error_recovery_counter": "link error recoveries",
    "port_rcv_errors": "receive errors",
    "local_link_integrity_errors": "local link integrity errors",
    "excessive_buffer_overrun_errors": "buffer overruns",
}

#: Columns by what names of counters have in common in all formats: their letters and digits.
_BY_KEY = {name.replace("_", ""): name for name in COUNTERS} | {
    "linkdowncounter": "link_downed_counter",
    "excesivebuffererrors": "excessive_buffer_overrun_errors",
    "excessivebuffererrors": "excessive_buffer_overrun_errors",
}


@lru_cache(maxsize=10_000)
def column_of(name: str) -> str:
    """Return the column of a counter, however a format writes its name; empty if it is unknown."""
    return _BY_KEY.get(name.replace("_", "").lower(), "")


@dataclass(frozen=True, eq=False)
class Counters:
    """Values of port counters of a fabric: one reading, or a series of them.

    Parameters
    ----------
    fabric
        The fabric.
    frame
        Rows of `COUNTER_COLUMNS`, one per reading and port, ordered by reading, then slot.
    """

    fabric: Fabric
    frame: pl.DataFrame

    @classmethod
    def joined(cls, parts: Iterable[Counters]) -> Counters:
        """Return the series of the readings of several counters of one fabric.

        Raises
        ------
        InputError
            If the fabrics differ, or two of the parts have the same reading of a port.
        """
        listed = list(parts)
        fabrics = {each.fabric.digest: each.fabric for each in listed}
        if len(fabrics) != 1:
            raise InputError(f"expected counters of one fabric, found those of {len(fabrics)}")
        frame = pl.concat([each.frame for each in listed]).sort("reading", "slot")
        if frame.select("reading", "slot").is_duplicated().any():
            raise InputError("two of the counters have the same reading of a port")
        return cls(listed[0].fabric, frame)

    @cached_property
    def readings(self) -> tuple[Counters, ...]:
        """Each reading by itself, in order of time."""
        parts = self.frame.partition_by("reading", maintain_order=True)
        return tuple(Counters(self.fabric, part) for part in parts)

    def write(self, path: str | Path) -> None:
        """Write the frame as Parquet."""
        write_with(Path(path), self.frame.write_parquet)

    @classmethod
    def read(cls, path: str | Path, fabric: Fabric) -> Counters:
        """Return the counters that `write` wrote, of the same fabric.

        Raises
        ------
        InputError
            If the file cannot be read, has other columns, or ports that the fabric lacks.
        """
        try:
            frame = pl.read_parquet(Path(path))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(f"cannot be read as Parquet: {error}", file=path) from None
        schema = {name: column.dtype for name, column in COUNTER_COLUMNS.items()}
        if dict(frame.schema) != schema:
            raise InputError("has other columns than weft's counters", file=path)
        slots = frame["slot"]
        if slots.null_count() or not slots.is_between(0, len(fabric.port_link) - 1).all():
            raise InputError(f"has ports that {fabric.name} lacks", file=path)
        return cls(fabric, frame)
