"""Numbers with units: sizes in bytes, times in nanoseconds."""

from __future__ import annotations

import re
from functools import lru_cache

#: Units of a value: none, bytes or time.
PLAIN, BYTES, TIME = "", "bytes", "time"

#: Integers of the language are below this limit; numbers that are not integers are floats.
LIMIT = 2**63

#: Largest number of digits of a number.
_DIGITS = 400
_QUANTITY = re.compile(r"([\d.]+(?:[eE][+-]?\d+)?)([A-Za-zµ]*)")
_BYTES = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
}  # fmt: skip
_TIME = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}


@lru_cache(maxsize=4096)
def quantity(text: str) -> tuple[int | float, str]:
    """Return the value and the unit of a number; suffixes are those of `weft.core.units`."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number")
    digits, unit = match[1], match[2]
    if len(digits) > _DIGITS:
        raise ValueError(f"{digits[:20]}... has too many digits")
    value: int | float = int(digits) if digits.isdigit() else float(digits)
    kind = PLAIN
    if unit:
        factor = _BYTES.get(unit.lower())
        kind = BYTES
        if factor is None:
            factor, kind = _TIME.get(unit), TIME
        if factor is None:
            raise ValueError(
                f"{text!r} has the unknown unit {unit!r}; sizes are in B, kB, KiB, MB, MiB, GB, "
                "GiB, TB, TiB, and times in ns, us, ms, s, min"
            )
        value *= factor
    if value >= (LIMIT if isinstance(value, int) else float("inf")):
        raise ValueError(f"{text} is too large")
    return value, kind
