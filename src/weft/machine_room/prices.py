"""The price file: what a user pays for switches, adapters, cables and racks, in TOML.

weft knows no prices. A section that is left out is not counted, and the plan says so; within a
section everything that the plan needs must have a price.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weft.core.errors import InputError
from weft.core.files import parse_toml, read_text
from weft.core.registry import in_words
from weft.core.units import parse_rate
from weft.fabrics.builder import MAX_PORTS

#: Bounded far beyond any price, so that sums stay finite.
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    price: Amount
    power_w: Amount | None = None


class SwitchPrice(_Entry):
    """A switch with up to so many ports."""

    ports: Annotated[int, Field(ge=1, le=MAX_PORTS)]


class AdapterPrice(_Entry):
    """A host's adapter with up to so many ports."""

    ports: Annotated[int, Field(ge=1, le=MAX_PORTS)] = 1


class CablePrice(_Entry):
    """A cable of a kind, with both of its transceivers; for any rate or length if not given."""

    kind: Literal["copper", "optical"]
    rate: str | float | None = None
    length_m: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    price_per_m: Amount = 0.0

    def rate_gbps(self) -> float | None:
        """Data rate in Gb/s, None for any."""
        return None if self.rate is None else parse_rate(self.rate)[0]


class RackPrice(_Entry):
    """A rack."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    currency: Annotated[str, Field(min_length=1)]
    switch: list[SwitchPrice] | None = None
    adapter: list[AdapterPrice] | None = None
    cable: list[CablePrice] | None = None
    rack: RackPrice | None = None


@dataclass(frozen=True)
class Prices:
    """Prices read from a file.

    Parameters
    ----------
    file
        Where they come from.
    currency
        What they are in.
    switch, adapter, cable
        Entries of each section; None where the file has no such section.
    rack
        Price of a rack, or None.
    """

    file: str
    currency: str
    switch: tuple[SwitchPrice, ...] | None = None
    adapter: tuple[AdapterPrice, ...] | None = None
    cable: tuple[CablePrice, ...] | None = None
    rack: RackPrice | None = None

    @classmethod
    def read(cls, path: str | Path) -> Prices:
        """Read a price file.

        Raises
        ------
        InputError
            With file and line, when it is no TOML, has an unknown key, a value of the wrong
            type, or two prices for one thing.
        """
        text = read_text(path)
        try:
            file = _File.model_validate(parse_toml(text, path))
        except ValidationError as error:
            first = error.errors()[0]
            where = tuple(part for part in first["loc"] if part not in ("str", "float"))
            raise InputError(
                f"{_said(first, _dotted(where))}{_expected(where)}",
                file=path,
                line=_line(text, where),
            ) from None
        found = cls(
            str(path),
            file.currency,
            None if file.switch is None else tuple(file.switch),
            None if file.adapter is None else tuple(file.adapter),
            None if file.cable is None else tuple(file.cable),
            file.rack,
        )
        found._check(text)
        return found

    def _check(self, text: str) -> None:
        for section in ("switch", "adapter", "cable"):
            seen: dict[object, int] = {}
            for at, entry in enumerate(getattr(self, section) or ()):
                line = _line(text, (section, at))
                try:
                    key = _key(entry)
                except InputError as error:
                    raise InputError(
                        f"{section}[{at + 1}].rate: {error.message}", file=self.file, line=line
                    ) from None
                if key in seen:
                    raise InputError(
                        f"{section}[{at + 1}] prices the same as {section}[{seen[key] + 1}]",
                        file=self.file,
                        line=line,
                    )
                seen[key] = at

    def of_switch(self, ports: int) -> SwitchPrice | None:
        """The smallest switch with at least so many ports; None when there is none."""
        return min(
            (entry for entry in self.switch or () if entry.ports >= ports),
            key=lambda entry: entry.ports,
            default=None,
        )

    def of_adapter(self, ports: int) -> AdapterPrice | None:
        """The smallest adapter with at least so many ports; None when there is none."""
        return min(
            (entry for entry in self.adapter or () if entry.ports >= ports),
            key=lambda entry: entry.ports,
            default=None,
        )

    def of_cable(self, kind: str, rate_gbps: float, length_m: float) -> CablePrice | None:
        """The entry that says most of such a cable: its rate before its length; or None."""
        fits = [
            entry
            for entry in self.cable or ()
            if entry.kind == kind
            and entry.rate_gbps() in (None, rate_gbps)
            and entry.length_m in (None, length_m)
        ]
        return max(
            fits,
            key=lambda entry: (entry.rate is not None, entry.length_m is not None),
            default=None,
        )


def _key(entry: _Entry) -> object:
    if isinstance(entry, CablePrice):
        return entry.kind, entry.rate_gbps(), entry.length_m
    return getattr(entry, "ports", None)


def _dotted(where: tuple[str | int, ...]) -> str:
    text = ""
    for part in where:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _said(error: Any, name: str) -> str:
    """A mistake in words."""
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] == "extra_forbidden":
        return f"unknown key {name}"
    shown = repr(error["input"])
    shown = shown if len(shown) < 60 else shown[:57] + "…"
    return f"{name}: {shown} does not fit: {in_words(error)}"


_KEYS: dict[str, type[BaseModel]] = {
    "switch": SwitchPrice,
    "adapter": AdapterPrice,
    "cable": CablePrice,
    "rack": RackPrice,
}


def _expected(where: tuple[str | int, ...]) -> str:
    """What a section takes, for an unknown or missing key."""
    model = _KEYS.get(str(where[0])) if where else None
    if model is None:
        return f"; expected {', '.join(_File.model_fields)}" if len(where) == 1 else ""
    return f"; [{where[0]}] takes {', '.join(sorted(model.model_fields))}"


def _line(text: str, where: tuple[str | int, ...]) -> int | None:
    """Line on which a key stands, or else the header of its section; None when not found."""
    lines = text.split("\n")
    if not where:
        return None
    header = re.compile(rf"\s*\[\[?\s*{re.escape(str(where[0]))}\s*\]")
    heads = [at for at, line in enumerate(lines) if header.match(line)]
    number = where[1] if len(where) > 1 and isinstance(where[1], int) else 0
    start, stop, found = 0, len(lines), None
    if number < len(heads):
        start = heads[number]
        found = start + 1
        rest = range(start + 1, len(lines))
        stop = next((at for at in rest if lines[at].lstrip().startswith("[")), len(lines))
    elif len(where) > 1:
        return None
    key = re.compile(rf"\s*\"?{re.escape(str(where[-1]))}\"?\s*=")
    return next((at + 1 for at in range(start, stop) if key.match(lines[at])), found)
