"""Units and the InfiniBand link rates.

A rate is the data rate after line coding, in Gb/s: 8b/10b up to QDR
(4xQDR signals 40 Gb/s and carries 32), 64b/66b from FDR10 on.
"""

from __future__ import annotations

import contextlib
import re
from decimal import Decimal
from functools import cache
from numbers import Real
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field

from weft.core.arguments import finite_number, shown
from weft.core.errors import InputError

LANE_RATE_GBPS = {
    "SDR": 2.0,
    "DDR": 4.0,
    "QDR": 8.0,
    "FDR10": 10.0,
    "FDR": 14.0625 * 64 / 66,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
WIDTHS = (1, 2, 4, 8, 12)

#: Names of all InfiniBand rates; a cable stores the index of its rate, 0 for a rate without name.
RATE_NAMES: tuple[str, ...] = (
    "",
    *(f"{width}x{speed}" for speed in LANE_RATE_GBPS for width in WIDTHS),
)

#: Propagation delay of copper and of fibre, close to 1 / (0.66 c).
LATENCY_NS_PER_M = 5.0
#: Default length of a cable.
DEFAULT_LENGTH_M = 2.0

_RATE = re.compile(r"(?:(\d{1,2})x)?([A-Za-z]+\d{0,2})", re.ASCII)


@cache
def rate_code(text: str) -> int:
    """Return the index in `RATE_NAMES` of a rate such as ``4xQDR``; ``HDR`` alone means 4xHDR."""
    match = _RATE.fullmatch(text.strip())
    if match:
        name = f"{int(match[1] or 4)}x{match[2].upper()}"
        if name in RATE_NAMES:
            return RATE_NAMES.index(name)
    raise InputError(
        f"unknown rate {shown(text)}; expected a width and a speed such as 4xQDR, "
        f"with width 1, 2, 4, 8 or 12 and speed {', '.join(LANE_RATE_GBPS)}"
    )


@cache
def rate_gbps(code: int) -> float:
    """Return the data rate in Gb/s of an index in `RATE_NAMES`; the index is not 0."""
    width, speed = RATE_NAMES[code].split("x", 1)
    return int(width) * LANE_RATE_GBPS[speed]


def parse_rate(value: str | float) -> tuple[float, int]:
    """Return a rate in Gb/s and its index in `RATE_NAMES` (0 if it has no name).

    `value`: ``"4xHDR"``, ``"HDR"``, or a number of Gb/s.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            code = rate_code(value)
            return rate_gbps(code), code
    return finite_number(value, "a rate in Gb/s", above=True), 0


# -- quantities as text ----------------------------------------------------------------------------

_QUANTITY = re.compile(r"\s*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)
_BYTES = {
    "": 1, "b": 1, "byte": 1, "bytes": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
}  # fmt: skip
_NS = {"": 1.0, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}
#: Largest size of a message, and of all messages of a workload: sums stay within 64 bits.
MAX_BYTES = 2**56
MAX_TOTAL_BYTES = 2**62


def parse_bytes(value: object) -> int:
    """Parse a size in bytes: a whole number, or text such as ``64KiB``, ``1 MB``, ``4k``.

    ``k m g t`` alone are powers of 1,024, as in benchmarks; ``kB MB GB TB`` are powers of 1,000 and
    ``KiB MiB GiB TiB`` powers of 1,024, in upper or lower case.
    """
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise ValueError("expected a number, or text with a unit such as 64KiB")
    size: Any
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        factor = _BYTES.get(match[2].lower()) if match else None
        if not match or factor is None:
            what = "a positive number of bytes" if _is_negative(value) else "bytes"
            raise ValueError(
                f"{shown(value)} is not a size; expected {what} such as 4096, 64KiB or 1MB"
            )
        is_integer = match[1].isdigit() and len(match[1]) < 20  # fewer digits than 2^64
        size = (int(match[1]) if is_integer else float(match[1])) * factor
    else:
        size = value
    if not 0 <= size <= MAX_BYTES:
        raise ValueError(f"a size of {shown(value)} is out of range; expected 0 to 2^56 bytes")
    if size != int(size):
        raise ValueError(f"{shown(value)} is not a whole number of bytes")
    return int(size)


def parse_duration_ns(value: object) -> float:
    """Parse a duration in nanoseconds: a number, or text such as ``10us``, ``1.5 ms``, ``2s``.

    Raises `ValueError` if the value is not a duration, is negative or is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise ValueError("expected a number, or text with a unit such as 10us")
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        factor = _NS.get(match[2].lower()) if match else None
        if not match or factor is None:
            what = "a positive time" if _is_negative(value) else "ns, or a unit"
            raise ValueError(f"{shown(value)} is not a duration; expected {what} as in 10us or 2ms")
        duration = float(match[1]) * factor
    else:
        duration = float("inf")
        with contextlib.suppress(OverflowError):  # an int above the largest float
            duration = float(value)
    if not 0 <= duration < float("inf"):
        raise ValueError(f"a duration of {shown(value)} is out of range; expected a positive time")
    return duration


def percent_of(value: object) -> Decimal | None:
    """Return the number of a text such as ``2%``; None if the value is no such text."""
    share = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)%", str(value), re.ASCII)
    return Decimal(share[1]) if share else None


def parse_share(value: object) -> object:
    """Return a share from a text such as ``1%``, 0.01; other values as they are."""
    percent = percent_of(value)
    return value if percent is None else float(percent / 100)


def parse_count(value: object) -> int | str:
    """Parse a number of things, ``3``, or a share of them as a text, ``2%``."""
    if isinstance(value, float | np.integer | np.floating) and float(value).is_integer():
        value = int(float(value))  # 2.0, or an integer of NumPy
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if re.fullmatch(r"-?\d{1,19}", text, re.ASCII):
        if not 0 <= int(text) < 2**63:
            raise ValueError("expected 0 or more, below 2^63")
        return int(text)
    percent = percent_of(text)
    if percent is None:
        raise ValueError("expected a whole number, or a share such as 2%")
    if not 0 < percent <= 100:
        raise ValueError("expected a share over 0% and up to 100%")
    return f"{percent.normalize():f}%"


def number_of(count: int | str, there: int) -> int:
    """Return how many of `there` things a count of `parse_count` is.

    A share is rounded to the nearest number, and halves up; it is at least one if there are any.
    """
    if isinstance(count, int):
        return count
    return max(min(1, there), int(Decimal(count[:-1]) * there / 100 + Decimal("0.5")))


def _is_negative(text: str) -> bool:
    return text.strip().startswith("-") and _QUANTITY.fullmatch(text.strip()[1:]) is not None


#: Types of options that take numbers or text with a unit.
#: Texts of sizes and of times, for JSON schemas.
_SIZE = r"^\s*[\d.]+([eE][+-]?\d+)?\s*([kKmMgGtT]([iI]?[bB])?|[bB]([yY][tT][eE][sS]?)?)?\s*$"
_TIME = r"^\s*[\d.]+([eE][+-]?\d+)?\s*([nNuUµmM]?[sS]|[mM][iI][nN]|[hH])?\s*$"
Bytes = Annotated[
    int,
    BeforeValidator(
        parse_bytes,
        json_schema_input_type=Annotated[float, Field(ge=0)] | Annotated[str, Field(pattern=_SIZE)],
    ),
]
Nanoseconds = Annotated[
    float,
    BeforeValidator(
        parse_duration_ns,
        json_schema_input_type=Annotated[float, Field(ge=0)] | Annotated[str, Field(pattern=_TIME)],
    ),
]
Count = Annotated[
    int | str,
    BeforeValidator(
        parse_count,
        json_schema_input_type=Annotated[int, Field(ge=0)]
        | Annotated[str, Field(pattern=r"^(\d+|\d{1,3}(\.\d{1,9})?%)$")],
    ),
]
