"""Cables whose ports have counted errors, from the counters that ibdiagnet2 saved."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from weft.core.counts import counted
from weft.fabrics import Fabric
from weft.routing.opensm.counters import counted_slots
from weft.subnet.finding import Finding

#: Counters of errors as ``.pm`` and PM_INFO spell them in snake case, and what they count.
_COUNTERS = {
    re.compile(rf"(?:{pattern})(?:_ext|_extended)?"): what
    for pattern, what in (
        ("link_down(?:ed)?_counter", "link downed"),
        ("symbol_error_counter", "symbol errors"),
        ("link_error_recovery_counter", "link error recoveries"),
        ("port_rcv_errors", "receive errors"),
        ("local_link_integrity_errors", "local link integrity errors"),
        ("exces{1,2}ive_buffer(?:_overrun)?_errors", "buffer overruns"),
    )
}


def cable_errors(fabric: Fabric, counters: pl.DataFrame) -> Iterator[Finding]:
    """Yield the ports with errors, those with the most errors first, then those that went down.

    `counters`: a frame of `weft.routing.opensm.counters.read_counters`.
    """
    kinds = {
        name: what
        for name in counters["counter"].unique()
        for pattern, what in _COUNTERS.items()
        if pattern.fullmatch(name)
    }
    frame = counters.filter(pl.col("counter").is_in(list(kinds)) & (pl.col("value") > 0))
    errors: dict[str, dict[int, dict[str, int]]] = {"links down": {}, "cable errors": {}}
    strangers = set()
    for slot, (guid, port, name, value) in zip(
        counted_slots(fabric, frame).tolist(), frame.iter_rows(), strict=True
    ):
        if slot < 0:
            strangers.add(f"port {port} of {guid:#018x}")
            continue
        what = kinds[name]
        at = errors["links down" if what == "link downed" else "cable errors"].setdefault(slot, {})
        # A counter and the extended one count the same; the former stops at a small number.
        at[what] = max(at.get(what, 0), value)
    for kind, of_slot in errors.items():
        worst = sorted(of_slot.items(), key=lambda item: (-sum(item[1].values()), item[0]))
        items = [
            f"{_port(fabric, slot)}: "
            + ", ".join(f"{what} {value:,}" for what, value in sorted(values.items()))
            for slot, values in worst
        ]
        if items:
            down = kind == "links down"
            text = counted(items, "port", "that went down" if down else "with errors")
            yield Finding.of(kind, text, "note" if down else "warning", items)
    if strangers:
        text = f"errors of {counted(sorted(strangers), 'port', 'not in the fabric')}"
        yield Finding.of("stale", text, "warning", sorted(strangers))


def _port(fabric: Fabric, slot: int) -> str:
    node = int(fabric.port_offset.searchsorted(slot, "right")) - 1
    name = fabric.port_name(node, slot - int(fabric.port_offset[node]) + 1)
    link = int(fabric.port_link[slot])
    if link < 0:
        return f"{name} (no cable)"
    peer = fabric.port_name(int(fabric.link_to[link]), int(fabric.link_to_port[link]))
    return f"{name} to {peer}"
