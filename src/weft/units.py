"""Units and the InfiniBand link rates.

A rate is the data rate after line coding, in Gb/s, as `ibstat` prints it: 8b/10b up to QDR
(4xQDR signals 40 Gb/s and carries 32), 64b/66b from FDR10 on.
"""

from __future__ import annotations

import re
from functools import cache

from weft.errors import InputError

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

#: Every InfiniBand rate name; a cable keeps the index of its name, 0 for a rate without one.
RATE_NAMES: tuple[str, ...] = (
    "",
    *(f"{width}x{speed}" for speed in LANE_RATE_GBPS for width in WIDTHS),
)

#: Propagation delay of copper and fibre alike, close to 1 / (0.66 c).
LATENCY_NS_PER_M = 5.0
#: Length assumed for a cable that nobody measured.
DEFAULT_LENGTH_M = 2.0

_RATE = re.compile(r"(?:(\d+)x)?([A-Za-z]+\d*)")


@cache
def rate_code(text: str) -> int:
    """Index in `RATE_NAMES` of a rate such as ``4xQDR``; a speed alone (``HDR``) means 4x.

    Raises
    ------
    InputError
        When the text is not an InfiniBand rate.
    """
    match = _RATE.fullmatch(text.strip())
    if match:
        name = f"{int(match[1] or 4)}x{match[2].upper()}"
        if name in RATE_NAMES:
            return RATE_NAMES.index(name)
    raise InputError(
        f"unknown rate {text!r}; expected a width and a speed such as 4xQDR, "
        f"with width 1, 2, 4, 8 or 12 and speed {', '.join(LANE_RATE_GBPS)}"
    )


@cache
def rate_gbps(code: int) -> float:
    """Data rate in Gb/s of an index in `RATE_NAMES` (not 0, which names no rate)."""
    width, speed = RATE_NAMES[code].split("x", 1)
    return int(width) * LANE_RATE_GBPS[speed]


def parse_rate(value: str | float) -> tuple[float, int]:
    """Rate in Gb/s and its index in `RATE_NAMES` (0 when it has no name).

    Parameters
    ----------
    value
        ``"4xHDR"``, ``"HDR"``, or a number of Gb/s.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            code = rate_code(value)
            return rate_gbps(code), code
    if not 0 < value < float("inf"):
        raise InputError(f"a rate of {value} Gb/s is not possible; expected a positive number")
    return float(value), 0
