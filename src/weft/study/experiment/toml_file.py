"""Reader of experiment files in TOML, with the line of each error, and writer of all keys."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.core.files import each_text, file_exists, parse_toml, read_text, renamed_spec
from weft.core.settings import settings
from weft.core.toml_lines import KeyPath, line_of, path_text, validated
from weft.fabrics.faults import Faults
from weft.fabrics.load import Source
from weft.study.checks import FABRIC_FILES
from weft.study.experiment.spec import RUN, TABLES, Experiment, JobPart, OutputPart

#: Keys whose value may be the name of a file; in other texts, arguments of specs may be.
_FILES = ("fabric", *FABRIC_FILES, "workload", "coefficients", "host_parameters")


def read_experiment(path: str | Path) -> Experiment:
    """Read and check an experiment file.

    Files that the experiment names are searched first in the folder of the experiment file, then in
    the working folder.

    Raises
    ------
    InputError
        If the file cannot be read or is not valid TOML, a key is unknown or missing, or a value
        does not fit; the error names the file and line.
    """
    text = read_text(path)
    data = parse_toml(text, path)
    for key in ("study", "command"):
        if key in data:
            raise InputError(
                "describes a study: 'weft study' runs it", file=path, line=line_of(text, (key,))
            )

    def beside(name: str) -> str | None:
        found = Path(path).parent / name
        return str(found) if not Path(name).is_absolute() and file_exists(found) else None

    return check(_renamed(data, beside), file=path, text=text)


def check(
    data: Mapping[str, Any],
    *,
    file: str | Path | None = None,
    text: str | None = None,
    flags: bool = False,
) -> Experiment:
    """Return an experiment from its keys.

    `file`, `text`: name and text of the file, for messages. `flags`: whether the keys are from the
    command line; messages then name options.
    """
    named = _flag if flags else path_text
    return validated(Experiment, data, file=file, text=text, named=named)


def _flag(path: KeyPath) -> str:
    """Return the option that sets a key."""
    words = [part for part in path if isinstance(part, str)]
    if words[0] in TABLES:
        return " ".join((f"--{words[0]}", *words[1:]))
    kind = {"fabric": Source, "faults": Faults, "job": JobPart, "output": OutputPart}.get(words[0])
    items = settings(kind) if kind and len(words) > 1 else (*RUN, *settings(Experiment))
    key = words[1] if kind and len(words) > 1 else words[0]
    return next((item.flag for item in items if item.key == key and item.flag), f"--{words[-1]}")


def with_absolute_paths(experiment: Experiment) -> Experiment:
    """Return the experiment with absolute paths, independent of the working folder."""
    data = _renamed(
        experiment.model_dump(),
        lambda name: os.path.abspath(name) if os.path.exists(name) else None,
    )
    output = data["output"]
    output |= {key: os.path.abspath(output[key]) for key in ("folder", "html") if output[key]}
    checked: Experiment = Experiment.model_validate(data)
    return checked


def _renamed(data: dict[str, Any], find: Callable[[str], str | None]) -> dict[str, Any]:
    """Return the keys of an experiment with other names of files; `find` knows them."""

    def changed(text: str, key: str) -> str:
        return (find(text) if key in _FILES else None) or renamed_spec(text, find)

    renamed: dict[str, Any] = each_text(data, changed)
    return renamed


def resolved(experiment: Experiment) -> str:
    """Return the experiment as the text of a file with every key."""
    own: dict[str, Any] = {}
    tables = [("", own)]
    for key, value in experiment.model_dump().items():
        if isinstance(value, dict):
            tables.append((f"[{key}]", value))
        elif key == "job":
            tables += [("[[job]]", job) for job in value]
        else:
            own[key] = value
    return toml_tables(tables)


class Comment(str):
    """What is written about a key without a value."""


def toml_tables(tables: Iterable[tuple[str, Mapping[Any, Any]]]) -> str:
    """Return tables as the text of a file.

    `tables`: header of each table, or other lines above it, and its values. A key of several parts
    is written with dots. None is left out, and a `Comment` is written as a comment.
    """
    parts = []
    for header, table in tables:
        lines = [header] if header else []
        for key, value in table.items():
            if isinstance(value, Comment):
                lines.append(f"# {key}: {value}")
            elif value is not None:
                name = key_text(key) if isinstance(key, str) else ".".join(map(key_text, key))
                lines.append(f"{name} = {toml_text(value)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def key_text(name: str) -> str:
    """Return the name of a key as TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def toml_text(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A JSON string is a TOML string, except for one character that TOML requires escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        inside = ", ".join(f"{key_text(k)} = {toml_text(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_text, value))}]"
    return repr(value)
