"""Lines of the keys of a TOML file, for messages on its values."""

from __future__ import annotations

import bisect
import re
from functools import lru_cache

#: Path of a key: names of tables, indices in lists, and the name of the key itself.
KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
#: Multi-line and single-line strings, basic and literal; a multi-line one may end in extra quotes.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:""?(?!"))?|' r"'''.*?'''(?:''?(?!'))?|" r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)  # fmt: skip
#: Numbers, truth values, and dates, which may contain a space before the time.
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d [\d:.Z+-]+|[^\s,\]}#]+")


def line_of(text: str, path: KeyPath) -> int | None:
    """Return the line of a key or of an item of a list, counting from 1.

    `path`: path of the key. If the key is not in the file, the line of the longest known part of
    its path is returned.

    Returns None if no part of the path is in the file.
    """
    lines = _lines(text)
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


@lru_cache(8)
def _lines(text: str) -> dict[KeyPath, int]:
    return _Reader(text).read()


class _Reader:
    """Reader of the positions of keys and items in valid TOML."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        #: Path of a list of tables -> number of its tables so far.
        self._counts: dict[KeyPath, int] = {}

    def read(self) -> dict[KeyPath, int]:
        """Return path -> line of all tables, keys and items."""
        table: KeyPath = ()
        while self._skip(_BLANK) < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._assignment(table)
        return self._lines

    def _skip(self, pattern: re.Pattern[str]) -> int:
        """Move behind a pattern, which always matches; return the position."""
        match = pattern.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at

    def _mark(self, path: KeyPath) -> None:
        self._lines.setdefault(path, bisect.bisect_left(self._breaks, self._at) + 1)

    def _header(self) -> KeyPath:
        several = self._text.startswith("[[", self._at)
        start = self._at
        self._at += 2 if several else 1
        path: KeyPath = ()
        names = self._names()
        after, self._at = self._at, start
        for number, name in enumerate(names, 1):
            path = (*path, name)
            self._mark(path)
            if several and number == len(names):
                self._counts[path] = self._counts.get(path, -1) + 1
            if path in self._counts:
                path = (*path, self._counts[path])
                self._mark(path)
        self._at = after + (2 if several else 1)
        return path

    def _names(self) -> list[str]:
        """Read a key, whose parts are separated by dots."""
        names = []
        while True:
            self._skip(_SPACE)
            pattern = _STRING if self._text[self._at] in "\"'" else _BARE_KEY
            start = self._at
            name = self._text[start : self._skip(pattern)]
            names.append(name[1:-1] if pattern is _STRING else name)
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _assignment(self, table: KeyPath) -> None:
        start = self._at
        names = self._names()
        equals, self._at = self._at, start
        path = table
        for name in names:
            path = (*path, name)
            self._mark(path)
        self._at = equals + 1
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        first = self._text[self._at]
        if first in "\"'":
            self._skip(_STRING)
        elif first in "[{":
            self._at += 1
            number = 0
            while self._text[self._skip(_BLANK)] not in "]}":
                if first == "{":
                    self._assignment(path)
                else:
                    self._mark((*path, number))
                    self._value((*path, number))
                    number += 1
                if self._text[self._skip(_BLANK)] == ",":
                    self._at += 1
            self._at += 1
        else:
            self._skip(_SCALAR)
