"""Grammar of BookSim's configuration files.

A file is a sequence of assignments ``key = value;``. A value is a whole number, a number, a word or
a list in braces without spaces. Text from ``//`` to the end of the line is a comment, unless it is
part of a word, which may have slashes. As in BookSim's scanner, the longest token counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from weft.core.errors import InputError

Value = int | float | str

#: Kinds of tokens; of equally long ones, the first counts.
_TOKENS = [
    (kind, re.compile(pattern, re.ASCII))
    for kind, pattern in (
        ("", r"//[^\n]*"),
        ("", r"[ \t\r\n]+"),
        ("text", r"\{[A-Za-z0-9_\-.({,)}]+\}"),
        ("whole", r"-?[0-9]+"),
        ("real", r"-?[0-9]*\.[0-9]+"),
        ("real", r"-?(?:[0-9]*\.)?[0-9]+(?:[eE][+-]?[0-9]+)?"),
        ("text", r"[A-Za-z_\-/.][A-Za-z0-9_\-/.+({,)}]*"),
        ("mark", r"(?s:.)"),
    )
]


@dataclass(frozen=True)
class Assignment:
    """A value of a key, and its line, counted from 1; 0 for an assignment not from the file."""

    key: str
    value: Value
    line: int


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def parse(text: str, file: str, *, numbered: bool = True) -> tuple[Assignment, ...]:
    """Return the assignments of a file in order.

    `numbered`: whether messages and assignments have line numbers.
    """
    tokens = _tokens(text)
    found = []
    while part := list(islice(tokens, 4)):
        line = part[0].line if numbered else 0
        forms = [("text", ""), ("mark", "="), ("", ""), ("mark", ";")]
        for token, (kind, mark) in zip(part, forms, strict=False):
            fits = token.kind == kind if kind else token.kind != "mark"
            if not fits or (mark and token.text != mark):
                raise InputError(
                    f"{token.text!r} does not fit; expected assignments such as `num_vcs = 8;`",
                    file=file,
                    line=token.line if numbered else None,
                )
        if len(part) < len(forms):
            raise InputError(
                f"the last assignment, of {part[0].text!r}, has no value or no semicolon",
                file=file,
                line=line or None,
            )
        found.append(Assignment(part[0].text, _value(part[2], file, line), line))
    if not found:
        raise InputError("has no assignment such as `num_vcs = 8;`", file=file)
    return tuple(found)


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        matches = [(kind, match) for kind, form in _TOKENS if (match := form.match(text, at))]
        kind, match = max(matches, key=lambda each: each[1].end())
        if kind:
            yield _Token(kind, match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _value(token: _Token, file: str, line: int) -> Value:
    if token.kind == "text":
        return token.text
    whole = token.kind == "whole" and len(token.text) < 20
    number = int(token.text) if whole else float(token.text)
    if (token.kind == "whole" and abs(number) >= 2**31) or not isfinite(number):
        raise InputError(f"the number {token.text[:60]} is too large", file=file, line=line or None)
    return number


def items(value: Value) -> list[str]:
    """Return the items of a list in braces, which may be lists; anything else is one item."""
    text = str(value)
    if not text.startswith("{"):
        return [text]
    found, depth, start = [], 0, 1
    for at, mark in enumerate(text[1:], 1):
        if mark == "{":
            depth += 1
        elif mark == "}" and depth:
            depth -= 1
        elif mark in ",}" and not depth:
            found.append(text[start:at])
            start = at + 1
    return [item for item in found if item]


def call(text: str) -> tuple[str, list[str]]:
    """Return the name and the arguments of a word such as ``islip(2)``."""
    name, _, inside = text.partition("(")
    return name, items(inside.rpartition(")")[0] or inside) if inside else []
