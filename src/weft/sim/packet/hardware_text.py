"""Hardware as users write it: names without their units, sizes and times as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from weft.core.errors import InputError
from weft.core.registry import convert, did_you_mean
from weft.core.settings import Option, Setting, Truth, is_listed, settings
from weft.sim.packet.congestion_control import CongestionControl
from weft.sim.packet.hardware import Hardware, VlArbitration

CONTROL = "congestion_control"


def _optional(item: Setting) -> Setting:
    """A setting of one of the hardware's own tables, none of which need be there."""
    usual = item.option.usual or (f"{item.default}" if item.default != () else "")
    option = replace(item.option, usual=usual)
    return replace(item, hint=item.hint | None, default=None, option=option)


def _written() -> Iterator[Setting]:
    """Settings of hardware in one table, those of its own tables in their place."""
    for item in settings(Hardware):
        if item.field == "vl_arbitration":
            yield from map(_optional, settings(VlArbitration))
        elif item.field == CONTROL:
            option = Option(written=Truth, usual="true where one of the next is given")
            yield replace(item, option=option)
            yield from map(_optional, settings(CongestionControl))
        else:
            yield item


#: Every setting that users write, by its key.
WRITTEN: Mapping[str, Setting] = {item.key: item for item in _written()}
NAMES = tuple(WRITTEN)
_OF_LANES, _OF_CONTROL = (
    {item.key: item.field for item in settings(kind)} for kind in (VlArbitration, CongestionControl)
)
_KEYS = {item.field: item.key for item in WRITTEN.values()}
#: Fields in messages: what begins one, or ends in a unit.
_FIELD = re.compile(rf"^({'|'.join(_KEYS)})\b|\b({'|'.join(n for n in _KEYS if '_' in n)})\b")


def hardware_of(given: Mapping[str, Any]) -> Hardware:
    """Hardware from settings by `NAMES`; those left out, or None, are the usual ones.

    Parameters
    ----------
    given
        Numbers, or text with a unit; tables as ``"0:4,1:8"`` or a list of entries.

    Raises
    ------
    InputError
        On an unknown name, or a value that cannot be.
    """
    wrong = next((name for name in given if name not in NAMES), None)
    if wrong is not None:
        raise InputError(
            f"hardware has no {wrong!r}{did_you_mean(wrong, NAMES)}; there are {', '.join(NAMES)}"
        )
    said = {name: _entries(value) for name, value in given.items() if value not in (None, (), [])}
    lanes, control = (
        {field: said.pop(key) for key, field in of.items() if key in said}
        for of in (_OF_LANES, _OF_CONTROL)
    )
    wanted = convert(said.pop(CONTROL, bool(control)), Truth, CONTROL)
    if lanes and not {"high", "low"} & set(lanes):
        raise InputError("high_limit goes with a table of lanes, vlarb_high or vlarb_low")
    if control and not wanted:
        raise InputError(f"{CONTROL} is false, and {_KEYS[next(iter(control))]} is set")
    try:
        return Hardware(
            **{WRITTEN[key].field: value for key, value in said.items()},
            vl_arbitration=VlArbitration(**lanes) if lanes else None,
            congestion_control=CongestionControl(**control) if wanted else None,
        )
    except InputError as error:
        # As users call it.
        raise InputError(_FIELD.sub(lambda found: _KEYS[found[0]], error.message)) from None


def _entries(value: Any) -> Any:
    """A table as one text."""
    texts = isinstance(value, tuple | list) and all(isinstance(part, str) for part in value)
    return ",".join(value) if texts else value


def parse_hardware(words: Iterable[str]) -> dict[str, str]:
    """Settings from words such as ``mtu=4KiB,queues=voq`` or ``vlarb_high=0:4,1:8``.

    Raises
    ------
    InputError
        On what is no NAME=VALUE, an unknown name, or one given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        last = ""
        for part in word.split(","):
            name, equals, value = (text.strip() for text in part.partition("="))
            name = name.replace("-", "_")
            # Entries of a table have commas between them, too.
            if not equals and last and is_listed(WRITTEN[last]) and part.strip():
                found[last] += "," + part.strip()
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
            if name in found:
                raise InputError(f"{name} is given twice")
            found[name] = value
            last = name
    return found
