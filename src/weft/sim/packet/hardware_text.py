"""Hardware as users write it: names without their units, sizes and times as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.sim.packet.congestion_control import CongestionControl
from weft.sim.packet.hardware import Hardware, LaneWeights, VlArbitration

_SUFFIX = re.compile(r"_(bytes|ns)$")
_TABLES = ("vl_arbitration", "congestion_control")
#: Name of each setting without its unit -> field of `Hardware`.
KEYS: Mapping[str, str] = {
    _SUFFIX.sub("", field.name): field.name
    for field in fields(Hardware)
    if field.name not in _TABLES
}
#: Those of lane arbitration, called as in OpenSM's options, -> field of `VlArbitration`.
ARBITRATION_KEYS: Mapping[str, str] = {
    "vlarb_high": "high", "vlarb_low": "low", "high_limit": "limit",
}  # fmt: skip
#: Whether there is congestion control, and what it is set to -> field of `CongestionControl`.
CONTROL = "congestion_control"
CONTROL_KEYS: Mapping[str, str] = {
    field.name if field.name.startswith("cct") else f"cc_{field.name}": field.name
    for field in fields(CongestionControl)
}
NAMES = (*KEYS, *ARBITRATION_KEYS, CONTROL, *CONTROL_KEYS)
#: Those that are lists, whose entries have commas between them, too.
_LISTS = ("vlarb_high", "vlarb_low", "cct")
#: Fields, which errors name, -> what users call them.
_NAMES = {field: name for name, field in KEYS.items() if name != field}
_FIELD = re.compile("|".join(rf"\b{field}\b" for field in _NAMES))
_TRUTH = {"true": True, "false": False}
_ENTRY = re.compile(r"\s*(\d{1,9})\s*:\s*(\d{1,9})\s*")


def hardware_of(settings: Mapping[str, Any]) -> Hardware:
    """Hardware from settings by `NAMES`; those left out, or None, are the usual ones.

    Parameters
    ----------
    settings
        Numbers, or text with a unit; tables as ``"0:4,1:8"`` or a list of entries.

    Raises
    ------
    InputError
        On an unknown name, or a value that cannot be.
    """
    wrong = next((name for name in settings if name not in NAMES), None)
    if wrong is not None:
        raise InputError(
            f"hardware has no {wrong!r}{did_you_mean(wrong, NAMES)}; there are {', '.join(NAMES)}"
        )
    given = {name: value for name, value in settings.items() if value not in (None, (), [])}
    try:
        return Hardware(
            **{KEYS[name]: value for name, value in given.items() if name in KEYS},
            vl_arbitration=_arbitration(given),
            congestion_control=_control(given),
        )
    except InputError as error:
        # As users call it.
        raise InputError(_FIELD.sub(lambda found: _NAMES[found[0]], error.message)) from None


def _arbitration(given: Mapping[str, Any]) -> VlArbitration | None:
    tables = {field: given[name] for name, field in ARBITRATION_KEYS.items() if name in given}
    if not tables:
        return None
    if not {"high", "low"} & set(tables):
        raise InputError("high_limit goes with a table of lanes, vlarb_high or vlarb_low")
    limit = tables.get("limit", 0)
    if isinstance(limit, str) and limit.strip().isdecimal():
        limit = int(limit)
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InputError(f"high_limit: expected 0 to 255, not {limit!r}")
    high, low = (lane_weights(tables.get(name, ())) for name in ("high", "low"))
    return VlArbitration(high, low, limit)


def _control(given: Mapping[str, Any]) -> CongestionControl | None:
    settings = {field: given[name] for name, field in CONTROL_KEYS.items() if name in given}
    wanted = given.get(CONTROL, bool(settings))
    if not isinstance(wanted, bool):
        raise InputError(f"{CONTROL}: expected true or false, not {wanted!r}")
    if not wanted:
        if settings:
            raise InputError(f"{CONTROL} is false, and {next(iter(settings))} is set")
        return None
    if "cct" in settings:
        settings["cct"] = lane_weights(settings["cct"])
    return CongestionControl(**settings)


def parse_hardware(words: Iterable[str]) -> dict[str, Any]:
    """Settings from words such as ``mtu=4KiB,queues=voq`` or ``vlarb_high=0:4,1:8``.

    Raises
    ------
    InputError
        On what is no NAME=VALUE, an unknown name, or one given twice.
    """
    settings: dict[str, Any] = {}
    for word in words:
        last = ""
        for part in word.split(","):
            name, equals, value = (text.strip() for text in part.partition("="))
            name = name.replace("-", "_")
            if not equals and last in _LISTS and part.strip():
                settings[last] += "," + part.strip()
                continue
            if not equals or not value or not name:
                raise InputError(
                    f"{part.strip()!r} in {word!r}: expected NAME=VALUE, such as mtu=4KiB; names "
                    f"are {', '.join(NAMES)}"
                )
            if name not in NAMES:
                raise InputError(
                    f"unknown name {name!r}{did_you_mean(name, NAMES)}; there are "
                    f"{', '.join(NAMES)}"
                )
            if name in settings:
                raise InputError(f"{name} is given twice")
            if name == CONTROL and value not in _TRUTH:
                raise InputError(f"{CONTROL}: expected true or false, not {value!r}")
            settings[name] = _TRUTH[value] if name == CONTROL else value
            last = name
    return settings


def lane_weights(entries: str | Sequence[str]) -> LaneWeights:
    """Pairs of numbers: ``"0:4,1:8"`` or ``["0:4", "1:8"]``, as arbitration tables have them.

    Raises
    ------
    InputError
        On what is no pair.
    """
    listed = entries.split(",") if isinstance(entries, str) else list(entries)
    made = []
    for entry in listed:
        found = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
        if found is None:
            raise InputError(f"{entry!r} is no entry of a table; expected two numbers such as 0:4")
        made.append((int(found[1]), int(found[2])))
    return tuple(made)
