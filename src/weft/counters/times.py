"""Times of readings: in lines and names of files."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from weft.core.errors import InputError

#: Date and time in a name or line, with any of the usual separators.
_ISO = re.compile(
    r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:_-]?(\d\d)[:_-]?(\d\d)(?:[.,](\d{1,9}))?(?!\d)"
    r"\s?(Z|UTC|[+-]\d\d:?\d\d(?!\d))?",
    re.ASCII,
)
#: Seconds, or milli-, micro- or nanoseconds since 1970: from 2001 to 2262.
_EPOCH = re.compile(r"(?<![\w.])([1-9]\d{9})(?:\.(\d{1,9})|(\d{3}|\d{6}|\d{9}))?(?![\da-zA-Z])")
#: What ``date`` prints in the C locale and in that of the United States, and ``date -R``.
_DATE = re.compile(
    r"[A-Z][a-z]{2},? (?:([A-Z][a-z]{2}) +(\d{1,2})|(\d{1,2}) ([A-Z][a-z]{2}))"
    r"(?: (\d{4}))? +(\d{1,2}):(\d\d):(\d\d)(?: ([AP]M))?(?: ([A-Z]{2,5}|[+-]\d{2,4}))?"
    r"(?: (\d{4}))?",
    re.ASCII,
)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


#: Date and time at which simulated runs begin, unless told otherwise.
BEGIN = "2026-01-01T00:00:00Z"


class ReadTime(NamedTuple):
    """A time in ns since 1970, and whether its zone had to be taken for UTC."""

    ns: int
    assumed_utc: bool = False


def moment_in(text: str) -> ReadTime | None:
    """Return the only time in a name or line, None if there is none or more than one."""
    found = {_iso(match) for match in _ISO.finditer(text)} - {None}
    if not found:
        found = {_epoch(match) for match in _EPOCH.finditer(text)} - {None}
    return found.pop() if len(found) == 1 else None


def time_of(text: str) -> ReadTime:
    """Return the time that a text of a user consists of.

    Raises
    ------
    InputError
        If it is no time.
    """
    moment = moment_of(text)
    if moment is None:
        raise InputError(f"{text!r} is not a time; expected such as {BEGIN}, or seconds since 1970")
    return moment


def time_text(ns: int) -> str:
    """Return a time in ns since 1970 as date and time in UTC."""
    at = datetime.fromtimestamp(ns // 10**9, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def moment_of(text: str) -> ReadTime | None:
    """Return the time that a text consists of: a date and time, or what ``date`` prints."""
    text = text.strip()
    for form, read in ((_ISO, _iso), (_EPOCH, _epoch), (_DATE, _date)):
        if match := form.fullmatch(text):
            return read(match)
    return None


def _iso(match: re.Match[str]) -> ReadTime | None:
    *numbers, fraction, zone = match.groups()
    return _moment([int(number) for number in numbers], zone, fraction or "")


def _epoch(match: re.Match[str]) -> ReadTime | None:
    fraction = match[2] or match[3] or ""
    ns = int(match[1]) * 10**9 + int(fraction.ljust(9, "0"))
    return None if ns >> 63 else ReadTime(ns)


def _date(match: re.Match[str]) -> ReadTime | None:
    month, day = (match[1], match[2]) if match[1] else (match[4], match[3])
    at, year = _MONTHS.find(month), match[5] or match[11]
    hour = int(match[6])
    if match[9]:
        hour = hour % 12 + 12 * (match[9] == "PM") if 1 <= hour <= 12 else 24
    if at < 0 or at % 3 or not year:
        return None
    numbers = [int(year), at // 3 + 1, int(day), hour, int(match[7]), int(match[8])]
    return _moment(numbers, match[10], "")


def _moment(numbers: list[int], zone: str | None, fraction: str) -> ReadTime | None:
    try:
        at = datetime(*numbers, tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    offset_s, known = 0, zone in ("Z", "UTC", "GMT")
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset_s = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if zone[0] == "+" else -1)
        known = True
    ns = (int(at.timestamp()) - offset_s) * 10**9 + int(fraction.ljust(9, "0") or 0)
    return ReadTime(ns, not known) if 0 <= ns < 1 << 63 else None
