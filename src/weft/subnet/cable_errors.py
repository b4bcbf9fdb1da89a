"""Cables whose ports have counted errors."""

from __future__ import annotations

from collections.abc import Iterator

from weft.core.counts import counted
from weft.counters.counters import CABLE_ERRORS, Counters
from weft.fabrics import Fabric
from weft.subnet.finding import Finding


def cable_errors(counters: Counters) -> Iterator[Finding]:
    """Yield the ports with errors, those with the most errors first, then those that went down.

    `counters`: one or more readings, of which the last one of each port counts.
    """
    went_down = {"link_downed_counter": "link downed"}
    for kind, names in (("links down", went_down), ("cable errors", CABLE_ERRORS)):
        of_slot: dict[int, dict[str, int]] = {}
        for slot, *values in counters.frame.select("slot", *names).iter_rows():
            of_slot[slot] = {what: n for what, n in zip(names.values(), values, strict=True) if n}
        found = [each for each in of_slot.items() if each[1]]
        worst = sorted(found, key=lambda item: (-sum(item[1].values()), item[0]))
        items = [
            f"{_port(counters.fabric, slot)}: "
            + ", ".join(f"{what} {value:,}" for what, value in sorted(values.items()))
            for slot, values in worst
        ]
        if items:
            down = kind == "links down"
            text = counted(items, "port", "that went down" if down else "with errors")
            yield Finding.of(kind, text, "note" if down else "warning", items)


def _port(fabric: Fabric, slot: int) -> str:
    link = int(fabric.port_link[slot])
    if link < 0:
        return f"{fabric.slot_name(slot)} (no cable)"
    return fabric.link_name(link).replace(" -> ", " to ")
