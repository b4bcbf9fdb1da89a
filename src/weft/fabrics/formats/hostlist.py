"""Slurm's bracketed host lists: ``node[001-003,7],login``.

Numbers of a range are padded with zeros to the width of its lower end: ``[8-10]`` is 8, 9, 10 and
``[08-10]`` is 08, 09, 10. A name may have several brackets, the last of which varies fastest.
ClusterShell's steps (``n[0-6/2]`` is n0, n2, n4, n6) and names in double quotes, whose text is not
expanded (``"rack 1, node 2"``), are read but never written, because Slurm does not accept them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

from weft.core.errors import InputError
from weft.core.words import quote_end, unquoted

#: Largest number of names in a list, as a guard against mistyped ranges.
MAX_HOSTS = 1_000_000

_NAME = re.compile(r"[^\s,\[\]=#]+")
#: The first part of a name, and its trailing digits: at most 18, which fit in 63 bits.
_TAIL = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?:/(\d{1,18}))?)?", re.ASCII)
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")


def compress(names: Iterable[str]) -> str:
    """Return the host list of these names in natural order, without duplicates."""
    groups: dict[str, set[str]] = {}
    plain: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise InputError(f"{name!r} cannot be in a host list")
        tail = _TAIL.fullmatch(name)
        if tail:
            groups.setdefault(tail[1], set()).add(tail[2])
        else:
            plain.add(name)
    parts = {prefix: _bracket(prefix, digits) for prefix, digits in groups.items()}
    parts.update({name: name for name in plain if name not in parts})
    both = [name for name in plain if name in groups]
    return ",".join([parts[key] for key in sorted(parts)] + sorted(both))


def host_list(names: Iterable[str]) -> str:
    """Return names as a host list, or with commas if a host list cannot hold them."""
    listed = list(names)
    try:
        return compress(listed)
    except InputError:
        return ", ".join(listed)


def _bracket(prefix: str, digits: set[str]) -> str:
    if len(digits) == 1:
        return prefix + next(iter(digits))
    runs = []
    left = set(digits)
    for start in sorted(digits, key=lambda text: (int(text), len(text))):
        if start not in left:
            continue
        width = len(start)
        last = start
        while last in left:
            left.remove(last)
            end, last = last, f"{int(last) + 1:0{width}d}"
        runs.append(start if end == start else f"{start}-{end}")
    return f"{prefix}[{','.join(runs)}]"


def expand(text: str) -> list[str]:
    """Return the names in a host list, in the order of the list."""
    names: list[str] = []
    for item in _items(text):
        names.extend("".join(parts) for parts in product(*_pieces(item, text)))
        _limit(len(names), text)
    return names


def _items(text: str) -> Iterator[str]:
    """Split at the commas outside brackets and quotes."""
    start, at, depth = 0, 0, 0
    while at <= len(text):
        character = text[at : at + 1] or ","
        if character == '"' and not text[start:at].strip():
            at = quote_end(text, at)
            continue
        depth += (character == "[") - (character == "]")
        if depth > 1:
            raise InputError(f"host list {text[:80]!r}: brackets inside brackets")
        if depth < 0:
            break
        if character == "," and not depth:
            if not text[start:at].strip():
                raise InputError(f"host list {text[:80]!r}: a name is missing")
            yield text[start:at].strip()
            start = at + 1
        at += 1
    if depth:
        raise InputError(f"host list {text[:80]!r}: the brackets do not match")


def _pieces(item: str, text: str) -> list[list[str]]:
    if item.startswith('"'):
        return [[unquoted(item)]]
    pieces: list[list[str]] = []
    count = 1
    for match in _PIECE.finditer(item):
        piece = _numbers(match[1], text) if match[2] is None else [match[2]]
        count *= len(piece)
        _limit(count, text)
        pieces.append(piece)
    return pieces


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise InputError(
                f"host list {text[:80]!r}: expected numbers and ranges such as 1-3,7 between "
                f"brackets, found {part[:20]!r}"
            )
        low, high, step = match[1], match[2] or match[1], int(match[3] or 1)
        if int(high) < int(low):
            raise InputError(f"host list {text[:80]!r}: range {part.strip()} is descending")
        if step == 0:
            raise InputError(f"host list {text[:80]!r}: range {part.strip()} has a step of 0")
        steps = range(int(low), int(high) + 1, step)
        _limit(len(numbers) + len(steps), text)
        numbers += [f"{n:0{len(low)}d}" for n in steps]
    return numbers


def _limit(count: int, text: str) -> None:
    if count > MAX_HOSTS:
        raise InputError(f"host list {text[:80]!r} has more than {MAX_HOSTS:,} names")
