"""Output of commands: `--json`, `--quiet`, `--verbose`, and terminals without UTF-8 or narrow."""

from __future__ import annotations

import codecs
import io
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, is_dataclass
from typing import Any

#: Limits of the width of tables and help; below the lower one, words would be cut into letters.
LEAST_COLUMNS = 40
MOST_COLUMNS = 10_000

_NEAREST = str.maketrans(
    {"×": "x", "→": "->", "…": "...", "–": "-", "—": "-", "−": "-", "≤": "<=", "≥": ">=", "·": "*",
     "µ": "u", "α": "a", "β": "b", "⊕": "+"}
)  # fmt: skip


#: Characters that change what a terminal shows or does, or the order of a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return a text in which control characters are written as Python writes them."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class _Plain:
    """A stream to which texts of files, stores and other machines may be printed as they are.

    Rich writes its own control sequences to the stream beneath.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by similar ASCII, or else by a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    given = error.object[error.start : error.end].translate(_NEAREST)
    plain = unicodedata.normalize("NFKD", given)
    kept = (letter for letter in plain if not unicodedata.combining(letter))
    return "".join(letter if letter.isascii() else "?" for letter in kept), error.end


codecs.register_error("weft-nearest", _nearest)


@contextmanager
def printable_output() -> Iterator[None]:
    """Make standard output and standard error accept all text, in any encoding and width."""
    kept = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            kept.append((name, stream, stream.errors))
            stream.reconfigure(errors="weft-nearest")
            setattr(sys, name, _Plain(stream))
    columns = os.environ.pop("COLUMNS", None)
    wanted = int(columns) if columns is not None and columns.isdecimal() else 0
    width = wanted or shutil.get_terminal_size((LEAST_COLUMNS, 24)).columns
    usable = min(max(width, LEAST_COLUMNS), MOST_COLUMNS)
    if wanted or width != usable:
        os.environ["COLUMNS"] = str(usable)
    try:
        yield
    finally:
        for name, stream, errors in kept:
            stream.reconfigure(errors=errors)
            setattr(sys, name, stream)
        os.environ.pop("COLUMNS", None)
        if columns is not None:
            os.environ["COLUMNS"] = columns


# -- flags of every command, and JSON --------------------------------------------------------------

#: Flag -> its help text.
FLAGS = {
    "--json": "Print results as one JSON object, with unrounded numbers.",
    "--quiet": "Print no progress, notes or warnings; errors are still printed.",
    "--verbose": "Print each kernel that is compiled; print a traceback with an error.",
}

_given: set[str] = set()
_results: dict[str, Any] = {}


def given(flag: str) -> bool:
    """Return whether the running command was given a flag of `FLAGS`."""
    return flag in _given


def split_flags(words: Sequence[str]) -> tuple[set[str], list[str]]:
    """Separate the flags from a command line; words after ``--`` belong to another program.

    Returns the given flags, and the other words.
    """
    own = words[: words.index("--")] if "--" in words else words
    given = {word for word in own if word in FLAGS}
    return given, [word for word in own if word not in FLAGS] + list(words[len(own) :])


@contextmanager
def output_by(flags: set[str]) -> Iterator[None]:
    """Run a command with flags; with ``--json``, print its results at the end.

    `flags`: flags of `FLAGS`. ``--json`` drops all other standard output and ``--quiet`` all
    standard error.
    """
    _given.update(flags)
    _results.clear()
    streams = {"--json": redirect_stdout, "--quiet": redirect_stderr}
    try:
        with ExitStack() as dropped:
            for flag in streams.keys() & flags:
                dropped.enter_context(streams[flag](io.StringIO()))
            yield
        if "--json" in flags and _results:
            import json  # imported late: short commands start faster

            print(json.dumps(_results, indent=2, default=str, allow_nan=False))
    finally:
        _given.clear()
        _results.clear()


def emit(**results: Any) -> None:
    """Add results to the JSON output, if ``--json`` is given.

    `**results`: frames, dataclasses, mappings, lists and plain values, by name. A function without
    arguments is called only with ``--json``.
    """
    if given("--json"):
        for name, value in results.items():
            _results[name] = _finite(value() if callable(value) else value)


def _finite(value: Any) -> Any:
    """Convert a value to JSON's types; NaN and infinity become null."""
    import numpy as np  # imported late: short commands start faster
    import polars as pl

    if isinstance(value, pl.DataFrame):
        value = value.to_dicts()
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
