"""`--json`, `--quiet` and `--verbose`: flags that every command takes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

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


@contextlib.contextmanager
def output_by(flags: set[str]) -> Iterator[None]:
    """Run a command with flags; with ``--json``, print its results at the end.

    `flags`: flags of `FLAGS`. ``--json`` drops all other standard output and ``--quiet`` all
    standard error.
    """
    _given.update(flags)
    _results.clear()
    streams = {"--json": contextlib.redirect_stdout, "--quiet": contextlib.redirect_stderr}
    try:
        with contextlib.ExitStack() as dropped:
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
