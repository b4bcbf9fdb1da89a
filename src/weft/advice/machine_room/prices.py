"""The price file: a user's prices of switches, adapters, cables and racks, in TOML.

weft has no prices of its own. If the file has no section for a category, the costs do not include
the category, and the plan states this. A section must have a price for every item of its category.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.core.toml_lines import line_of, path_text, read_table
from weft.core.units import parse_rate
from weft.fabrics.builder import MAX_PORTS

Price = TypeVar("Price")
#: A price or power, bounded so that sums stay finite.
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    price: Amount
    power_w: Amount | None = None


class SwitchPrice(_Entry):
    """Price of a switch with up to `ports` ports."""

    ports: Annotated[int, Field(ge=1, le=MAX_PORTS)]


class AdapterPrice(_Entry):
    """Price of a host's adapter with up to `ports` ports."""

    ports: Annotated[int, Field(ge=1, le=MAX_PORTS)] = 1


class CablePrice(_Entry):
    """Price of a cable with both transceivers.

    Without `rate` the price is for cables of any rate, without `length_m` for any length.
    """

    kind: Literal["copper", "optical"]
    rate: str | float | None = None
    length_m: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    price_per_m: Amount = 0.0

    def rate_gbps(self) -> float | None:
        """Return the data rate in Gb/s; None if the price is for any rate."""
        return None if self.rate is None else parse_rate(self.rate)[0]


class RackPrice(_Entry):
    """Price of a rack."""


#: TOML has lists, which are read-only here.
Entries = Annotated[tuple[Price, ...] | None, Field(strict=False)]


class Prices(BaseModel):
    """Prices read from a file: entries of each section, None if the file has no such section."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    _file: str = ""

    currency: Annotated[str, Field(min_length=1)]
    switch: Entries[SwitchPrice] = None
    adapter: Entries[AdapterPrice] = None
    cable: Entries[CablePrice] = None
    rack: RackPrice | None = None

    @property
    def file(self) -> str:
        """Name of the file."""
        return self._file

    @classmethod
    def read(cls, path: str | Path) -> Prices:
        """Read a price file."""
        text = read_text(path)
        prices = read_table(cls, text, path)
        prices._file = str(path)
        prices._check(text)
        return prices

    def _check(self, text: str) -> None:
        for section in ("switch", "adapter", "cable"):
            seen: dict[object, int] = {}
            for at, entry in enumerate(getattr(self, section) or ()):
                name, line = path_text((section, at)), line_of(text, (section, at))
                try:
                    key = _key(entry)
                except InputError as error:
                    raise InputError(
                        f"{name}, rate: {error.message}", file=self.file, line=line
                    ) from None
                if key in seen:
                    raise InputError(
                        f"{name} is for the same item as {path_text((section, seen[key]))}",
                        file=self.file,
                        line=line,
                    )
                seen[key] = at

    def of_switch(self, ports: int) -> SwitchPrice | None:
        """Return the entry of the smallest switch with at least `ports` ports, or None."""
        return min(
            (entry for entry in self.switch or () if entry.ports >= ports),
            key=lambda entry: entry.ports,
            default=None,
        )

    def of_adapter(self, ports: int) -> AdapterPrice | None:
        """Return the entry of the smallest adapter with at least `ports` ports, or None."""
        return min(
            (entry for entry in self.adapter or () if entry.ports >= ports),
            key=lambda entry: entry.ports,
            default=None,
        )

    def of_cable(self, kind: str, rate_gbps: float, length_m: float) -> CablePrice | None:
        """Return the most specific entry for a cable, or None; rate has priority over length."""
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
