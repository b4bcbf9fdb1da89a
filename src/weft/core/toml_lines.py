"""TOML files as models: their keys, checked, and the lines of the keys for messages on values."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from weft.core.arguments import shown
from weft.core.errors import InputError
from weft.core.files import parse_toml
from weft.core.registry import in_words, wrong_name

#: Path of a key: names of tables, indices in lists, and the name of the key itself.
KeyPath = tuple[str | int, ...]
Keys = TypeVar("Keys", bound=BaseModel)

#: Names of the types to which pydantic tried to convert a value, in paths of keys.
_TRIED = re.compile(r"str|float|tuple\[.*\]|function-.*\)?.*\]")
#: Type of an error of a whole table, whose message says what is wrong with which of its keys.
UNFIT_TABLE = "unfit_table"
#: Most errors that a message explains; the others are counted.
_SHOWN = 5

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


# -- models ----------------------------------------------------------------------------------------


def read_table(model: type[Keys], text: str, path: str | Path) -> Keys:
    """Return the checked keys of the text of a TOML file as an instance of its model."""
    return validated(model, parse_toml(text, path), file=path, text=text)


def path_text(path: KeyPath) -> str:
    """Return the path of a key as text such as ``job 2, start``, counting from 1."""
    words: list[str] = []
    for part in path:
        if isinstance(part, int):
            words[-1] += f" {part + 1}"
        else:
            words.append(part)
    return ", ".join(words)


def validated(
    model: type[Keys],
    data: Mapping[str, Any],
    *,
    file: str | Path | None = None,
    text: str | None = None,
    written: Callable[[KeyPath], KeyPath] = lambda path: path,
    named: Callable[[KeyPath], str] = path_text,
) -> Keys:
    """Return checked keys as an instance of their model.

    `model`: model of the file, such as that of an experiment. `data`: the keys. `file`, `text`:
    name and text of the file, for messages. `written`: function from the path of a key to the path
    at which the text gives its value. `named`: function from the path of a key to its name in
    messages.
    """
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        # Report unknown keys first: a misspelt key is also reported as a missing one.
        first, *others = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        path = _plain(first["loc"])
        line = line_of(text, written(path)) if text is not None else None
        wrong = {path: first}
        for other in others:
            # A list with a wrong item is also reported as too short.
            if other["type"] != "too_short":
                wrong.setdefault(_plain(other["loc"]), other)
        texts = [_explain(model, each, path, named) for path, each in wrong.items()]
        if (more := len(texts) - _SHOWN) > 1:
            texts[_SHOWN:] = [f"and {more} more errors"]
        message = "; ".join(texts)
        unknown = len(path) == 1 and first["type"] == "extra_forbidden"
        key = str(path[0]) if path and not unknown else ""
        raise InputError(message, file=file, line=line, key=key) from None


def _plain(path: KeyPath) -> KeyPath:
    """Return the path of a key without pydantic's names of types."""
    return tuple(part for part in path if not (isinstance(part, str) and _TRIED.fullmatch(part)))


def _explain(
    root: type[BaseModel], error: Any, path: KeyPath, named: Callable[[KeyPath], str]
) -> str:
    """Return a message for an error of pydantic, with the key."""
    if not path:
        return in_words(error)
    *table, key = path
    where = f"{path_text(tuple(table))}: " if table else ""
    if error["type"] == "extra_forbidden":
        return wrong_name(f"{where}unknown key", key, _model(root, tuple(table)).model_fields)
    if error["type"] == "missing":
        return f"{where}the key {key!r} is missing"
    value = error["input"]
    if error["type"] == UNFIT_TABLE:
        return f"{named(path)}: {in_words(error)}"
    return f"{named(path)}: {shown(value)} does not fit: {in_words(error)}"


def _model(model: type[BaseModel], table: KeyPath) -> type[BaseModel]:
    """Return the model of a table of a file."""
    for part in table:
        if isinstance(part, str) and part in model.model_fields:
            inner = table_in(model.model_fields[part].annotation)
            if inner is not None:
                model = inner
    return model


def table_in(hint: Any) -> type[BaseModel] | None:
    """Return the model of the table that a type contains, or None if it contains none."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint
    if get_origin(hint) in {tuple, list, Annotated, Union, UnionType}:
        return next(filter(None, map(table_in, get_args(hint))), None)
    return None
