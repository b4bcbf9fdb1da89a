"""Hardware as users write it: names without their units, sizes and times as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from weft.errors import InputError
from weft.registry import did_you_mean
from weft.sim.packet.hardware import Hardware, LaneWeights, VlArbitration

_SUFFIX = re.compile(r"_(bytes|ns)$")
#: Name of each setting without its unit -> field of `Hardware`.
KEYS: Mapping[str, str] = {
    _SUFFIX.sub("", field.name): field.name
    for field in fields(Hardware)
    if field.name != "vl_arbitration"
}
#: Those of lane arbitration, called as in OpenSM's options, -> field of `VlArbitration`.
ARBITRATION_KEYS: Mapping[str, str] = {
    "vlarb_high": "high", "vlarb_low": "low", "high_limit": "limit",
}  # fmt: skip
_ENTRY = re.compile(r"\s*(\d{1,9})\s*:\s*(\d{1,9})\s*")


def hardware_of(settings: Mapping[str, Any]) -> Hardware:
    """Hardware from settings by `KEYS` and `ARBITRATION_KEYS`; those left out are the usual ones.

    Parameters
    ----------
    settings
        Numbers, or text with a unit; of arbitration tables ``"0:4,1:8"`` or a list of entries.

    Raises
    ------
    InputError
        On an unknown name, or a value that cannot be.
    """
    known = [*KEYS, *ARBITRATION_KEYS]
    wrong = next((name for name in settings if name not in known), None)
    if wrong is not None:
        raise InputError(
            f"hardware has no {wrong!r}{did_you_mean(wrong, known)}; there are {', '.join(known)}"
        )
    given = {KEYS[name]: value for name, value in settings.items() if name in KEYS}
    tables = {
        field: settings[name]
        for name, field in ARBITRATION_KEYS.items()
        if settings.get(name) not in (None, ())
    }
    if tables and not {"high", "low"} & set(tables):
        raise InputError("high_limit goes with a table of lanes, vlarb_high or vlarb_low")
    arbitration = None
    if tables:
        limit = tables.get("limit", 0)
        if isinstance(limit, str) and limit.strip().isdecimal():
            limit = int(limit)
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise InputError(f"high_limit: expected 0 to 255, not {limit!r}")
        arbitration = VlArbitration(
            lane_weights(tables.get("high", ())), lane_weights(tables.get("low", ())), limit
        )
    return Hardware(**given, vl_arbitration=arbitration)


def parse_hardware(words: Iterable[str]) -> dict[str, str]:
    """Settings from words such as ``mtu=4KiB,queues=voq`` or ``vlarb_high=0:4,1:8``.

    Raises
    ------
    InputError
        On what is no NAME=VALUE, an unknown name, or one given twice.
    """
    known = [*KEYS, *ARBITRATION_KEYS]
    settings: dict[str, str] = {}
    for word in words:
        last = ""
        for part in word.split(","):
            name, equals, value = (text.strip() for text in part.partition("="))
            name = name.replace("-", "_")
            if not equals and last in ARBITRATION_KEYS and part.strip():
                # Entries of a table have commas between them, too.
                settings[last] += "," + part.strip()
                continue
            if not equals or not value or not name:
                raise InputError(
                    f"{part.strip()!r} in {word!r}: expected NAME=VALUE, such as mtu=4KiB; names "
                    f"are {', '.join(known)}"
                )
            if name not in known:
                raise InputError(
                    f"unknown name {name!r}{did_you_mean(name, known)}; there are "
                    f"{', '.join(known)}"
                )
            if name in settings:
                raise InputError(f"{name} is given twice")
            settings[name] = value
            last = name
    return settings


def lane_weights(entries: str | Sequence[str]) -> LaneWeights:
    """Entries of an arbitration table: ``"0:4,1:8"`` or ``["0:4", "1:8"]``.

    Raises
    ------
    InputError
        On what is no LANE:WEIGHT.
    """
    listed = entries.split(",") if isinstance(entries, str) else list(entries)
    made = []
    for entry in listed:
        found = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
        if found is None:
            raise InputError(f"{entry!r} is no entry of lane arbitration; expected LANE:WEIGHT")
        made.append((int(found[1]), int(found[2])))
    return tuple(made)
