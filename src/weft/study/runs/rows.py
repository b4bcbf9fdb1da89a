"""Rows of the index of a store, and the check of each value when it is read.

A store may come from anyone, so that a value is used only if it has its form.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from weft.core.errors import InputError
from weft.study.runs.task import Status

_KEY, _HASH, _TABLE = (
    re.compile(form) for form in (r"[0-9a-f]{32}", r"[0-9a-f]{64}", r"[\w-]{1,128}")
)
#: Nested values of parameters, and characters of a wrong value that an error shows.
_DEPTH, _SHOWN = 64, 40
#: Largest number of seconds, such as of a time since 1970; and of other numbers.
_LONGEST_S, _LARGEST = 1e11, 1e300


class StoreError(InputError):
    """The store cannot be read or written; what was stored before is unchanged."""


@dataclass(frozen=True)
class StoredRun:
    """A run of the store."""

    #: As `weft.study.runs.task.Task.key`.
    key: str
    #: As in `weft.study.runs.task.Task`.
    function: str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, str]
    #: As in `weft.study.runs.task.Packed`, with the measures as a mapping.
    status: str
    reason: str
    measures: Mapping[str, Any]
    #: Name of a table -> size of its file in bytes, and hash of its contents.
    tables: Mapping[str, tuple[int, str]]
    #: Wall time, and peak of the resident memory of the process that performed the run.
    wall_s: float
    memory_bytes: int
    #: Limits of the run that were in force: ``seconds``, ``bytes``.
    limits: Mapping[str, float]
    #: As in `weft.study.runs.versions`.
    build: str
    libraries: Mapping[str, str]
    #: Name of the machine, and time of the end in seconds since 1970.
    host: str
    ended_s: float
    details: str


#: Columns of the index of runs.
COLUMNS = tuple(StoredRun.__dataclass_fields__)


@dataclass(frozen=True)
class Member:
    """A run of a study."""

    #: Number in the study, from 1.
    number: int
    #: Key of the run.
    key: str
    #: Seed of the repetition; None if there is none.
    seed: int | None
    #: Axis -> value as text.
    point: Mapping[str, str]


@dataclass(frozen=True)
class Brief:
    """Short form of a stored run: all that decides whether it has to be computed again."""

    #: As in `StoredRun`.
    status: str
    build: str
    wall_s: float
    memory_bytes: int
    limits: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Any]] = field(default_factory=dict)


# -- forms -----------------------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_texts(value: Any) -> bool:
    """Return whether a value of JSON is a table of texts."""
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _LONGEST_S


def _is_measure(value: Any) -> bool:
    return value is None or isinstance(value, float | str | bool) or _is_whole(value)


def _is_limit(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value < _LARGEST


def _is_table(item: tuple[str, Any]) -> bool:
    name, about = item
    if not (isinstance(about, list) and len(about) == 2 and _TABLE.fullmatch(name)):
        return False
    size, digest = about
    return _is_whole(size) and size >= 0 and _is_text(digest) and bool(_HASH.fullmatch(digest))


def _is_shallow(value: Any, depth: int = _DEPTH) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_shallow(part, depth - 1) for part in parts)


def _all(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(test, value.values()))


def _list(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(test, value))


#: Parts of the description of a study -> their form.
_ABOUT = {
    **dict.fromkeys(("title", "command", "file", "text"), _is_text),
    "axes": _all(_list(_is_text)), "baseline": is_texts, "measures": _list(_is_text),
    "seeds": _list(_is_whole),
}  # fmt: skip


def _is_about(value: Any) -> bool:
    return isinstance(value, dict) and all(test(value.get(key)) for key, test in _ABOUT.items())


#: Name of a column -> its form, and the form in words; those of JSON have this in the words.
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "key": (lambda value: _is_text(value) and bool(_KEY.fullmatch(value)), "32 hexadecimal digits"),
    "status": (frozenset(get_args(Status)).__contains__, f"one of {', '.join(get_args(Status))}"),
    **dict.fromkeys(
        ("build", "reason", "function", "host", "details", "study"), (_is_text, "text")
    ),
    **dict.fromkeys(("wall_s", "ended_s", "changed_s"), (_is_seconds, "a number of seconds")),
    "memory_bytes": (lambda value: _is_whole(value) and value >= 0, "a number of bytes"),
    "number": (_is_whole, "a whole number"),
    "seed": (lambda value: value is None or _is_whole(value), "a whole number"),
    **dict.fromkeys(("inputs", "libraries", "point"), (is_texts, "a table of texts in JSON")),
    "measures": (_all(_is_measure), "a table of numbers and texts in JSON"),
    "limits": (_all(_is_limit), "a table of numbers in JSON"),
    "parameters": (
        lambda value: isinstance(value, dict) and _is_shallow(value), "a table in JSON"
    ),
    "tables": (
        lambda value: isinstance(value, dict) and all(map(_is_table, value.items())),
        "a table of sizes and hashes in JSON",
    ),
    "about": (_is_about, "the description of a study in JSON"),
}  # fmt: skip
_JSON = frozenset(name for name, (_, words) in _FORMS.items() if words.endswith("JSON"))


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def checked(column: str, value: Any, file: Path, of: str = "") -> Any:
    """Return a value of a column, read from JSON if it is JSON.

    `column`: name of the column; ``study`` is that of a study. `of`: what has the value, for the
    error.
    """
    test, words = _FORMS[column]
    try:
        found = value
        if column in _JSON and isinstance(value, str):
            # SQLite, which sorts by measures, has no NaN.
            found = json.loads(value, parse_constant=_no_number if column == "measures" else None)
            if "\\u" in value:  # A lone surrogate is a ValueError: no file or terminal takes it.
                json.dumps(found, ensure_ascii=False).encode()
        if (column not in _JSON or isinstance(value, str)) and test(found):
            return found
    except (ValueError, RecursionError, TypeError):  # TypeError: not hashable
        pass
    text = repr(value[: 2 * _SHOWN] if isinstance(value, str | bytes) else value)
    short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    raise StoreError(
        f"the index is damaged: {column}{of and f' of {of}'} is {short}; expected {words}",
        file=file,
    )


def run_of(row: Sequence[Any], file: Path) -> StoredRun:
    """Return a run from its columns."""
    of = f"run {checked('key', row[0], file)[:8]}"
    values = {
        name: checked(name, value, file, of) for name, value in zip(COLUMNS, row, strict=True)
    }
    values["tables"] = {name: tuple(about) for name, about in values["tables"].items()}
    return StoredRun(**values)
