"""Experiment files in TOML: read with the place of every mistake, and written back resolved."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from weft.core.arguments import shown
from weft.core.errors import InputError
from weft.core.files import parse_toml, read_text
from weft.core.registry import did_you_mean, in_words
from weft.core.settings import settings
from weft.experiment.spec import RUN, Experiment, JobPart, OutputPart
from weft.fabrics.faults import Faults
from weft.fabrics.load import Source

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*(?:\.[^=]*)?=""")

_TRIED = re.compile(r"str|tuple\[.*\]|function-.*\)?.*\]")
Place = tuple[str | int, ...]


def read_experiment(path: str | Path) -> Experiment:
    """Read and check an experiment file.

    Files that it names are looked for beside it first, then in the working folder.

    Raises
    ------
    InputError
        With file and line, on a file that cannot be read or is no TOML, an unknown or missing key,
        or a value that does not fit.
    """
    text = read_text(path)
    made = check(parse_toml(text, path), file=path, text=text)
    return _beside(made, Path(path).parent)


def check(
    data: Mapping[str, Any],
    *,
    file: str | Path | None = None,
    text: str | None = None,
    flags: bool = False,
) -> Experiment:
    """An experiment from its keys.

    Parameters
    ----------
    data
        As an experiment file has them.
    file, text
        The file they come from and what it says, for messages.
    flags
        They come from the command line: messages speak of ``--ranks-per-host``.

    Raises
    ------
    InputError
        With the key and its place.
    """
    try:
        return Experiment.model_validate(dict(data))
    except ValidationError as error:
        # An unknown key explains the missing one that it was meant to be.
        first, *others = sorted(
            error.errors(), key=lambda found: found["type"] != "extra_forbidden"
        )
        place = _plain(first["loc"])
        line = _line(text, place) if text is not None else None
        # A list with something wrong in it is also found too short; that is no mistake of its own.
        found = {_plain(other["loc"]) for other in others if other["type"] != "too_short"}
        more = len(found - {place})
        also = f" (and {more} more mistake{'s' if more > 1 else ''})" if more else ""
        raise InputError(_explain(first, place, flags) + also, file=file, line=line) from None


def _plain(place: Place) -> Place:
    """A place without the names of types that were tried there."""
    return tuple(part for part in place if not (isinstance(part, str) and _TRIED.fullmatch(part)))


def _explain(error: Any, place: Place, flags: bool) -> str:
    """A mistake in words, with its place."""
    if not place:
        return in_words(error)
    *table, key = place
    keys = list(_model(tuple(table)).model_fields)
    where = _name(tuple(table))
    if error["type"] == "extra_forbidden":
        return (
            f"{where}unknown key {key!r}{did_you_mean(str(key), keys)}; there are {', '.join(keys)}"
        )
    if error["type"] == "missing":
        return f"{where}the key {key!r} is missing"
    given = error["input"]
    said = in_words(error)
    named = _name(place).removesuffix(": ")
    if flags:
        words = [part for part in place if isinstance(part, str)]
        named = _flag(words)
    if place == ("hardware",) and error["type"] == "value_error":
        return f"{named}: {said}"
    return f"{named}: {shown(given)} does not fit: {said}"


def _flag(words: Sequence[str]) -> str:
    """The option of the command line that sets a key, by the names of its tables and its own."""
    if words[0] == "hardware":
        return " ".join(("--hardware", *words[1:]))
    kind = {"fabric": Source, "faults": Faults, "job": JobPart, "output": OutputPart}.get(words[0])
    items = settings(kind) if kind and len(words) > 1 else (*RUN, *settings(Experiment))
    key = words[1] if kind and len(words) > 1 else words[0]
    return next((item.flag for item in items if item.key == key and item.flag), f"--{words[-1]}")


def _name(place: Place) -> str:
    """A place such as ``job 2, start: ``; lists of one table count from 1."""
    words: list[str] = []
    for part in place:
        if isinstance(part, int):
            words[-1] += f" {part + 1}"
        else:
            words.append(part)
    return ", ".join(words) + ": " if words else ""


def _model(table: Place) -> type[BaseModel]:
    """The table at a place."""
    model: type[BaseModel] = Experiment
    for part in table:
        if isinstance(part, str) and part in model.model_fields:
            inner = _table(model.model_fields[part].annotation)
            if inner is not None:
                model = inner
    return model


def _table(hint: Any) -> type[BaseModel] | None:
    """The table that a type holds, if it holds one."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint
    if get_origin(hint) in {tuple, Annotated, Union, UnionType}:
        return next(filter(None, map(_table, get_args(hint))), None)
    return None


def _line(text: str, place: Place) -> int | None:
    """Line on which a key stands, or its table where the key is missing; None when not found.

    It reads headers and the keys at the beginning of lines, which is how such files are written;
    keys inside inline tables get the line that the table begins on.
    """
    lines: dict[Place, int] = {}
    counts: dict[str, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        if header:
            name = header[2].strip("\"' ")
            parts: Place = tuple(part.strip("\"' ") for part in name.split("."))
            if header[1] == "[[":
                lines.setdefault(parts, number)
                counts[name] = counts.get(name, -1) + 1
                parts = (*parts, counts[name])
            table = parts
            lines.setdefault(table, number)
            continue
        key = _KEY.match(line)
        if key:
            lines.setdefault((*table, key[1].strip("\"'")), number)
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


def _beside(experiment: Experiment, folder: Path) -> Experiment:
    """The experiment with the files that lie beside it named so that they are found."""

    def found(name: str) -> str:
        path = folder / name
        return str(path) if not Path(name).is_absolute() and path.exists() else name

    return _renamed(experiment, found)


def from_anywhere(experiment: Experiment) -> Experiment:
    """The experiment with whole paths, so that it is the same from every working folder."""
    output = experiment.output
    if output.folder is not None:
        output = output.model_copy(update={"folder": os.path.abspath(output.folder)})
    if output.html is not None:
        output = output.model_copy(update={"html": os.path.abspath(output.html)})
    made = _renamed(
        experiment, lambda name: os.path.abspath(name) if os.path.exists(name) else name
    )
    return made.model_copy(update={"output": output})


def _renamed(experiment: Experiment, found: Callable[[str], str]) -> Experiment:
    """The experiment with the names of its files, and of what may be one, changed."""

    def spec(text: str) -> str:
        kind, colon, rest = text.partition(":")
        return f"file:{found(rest)}" if colon and kind.strip() == "file" else text

    fabric = experiment.fabric
    if fabric.names is not None:
        fabric = fabric.model_copy(update={"names": found(fabric.names)})
    jobs = tuple(
        job.model_copy(
            update={
                "workload": tuple(map(found, job.workload)),
                "placement": tuple(map(spec, job.placement)),
            }
        )
        for job in experiment.job
    )
    changes: dict[str, Any] = {
        "fabric": fabric.model_copy(update={"source": found(fabric.source)}),
        "job": jobs,
    }
    if experiment.coefficients is not None:
        changes["coefficients"] = found(experiment.coefficients)
    return experiment.model_copy(update=changes)


def resolved(experiment: Experiment) -> str:
    """The experiment as a file that says every key, and reads back as the same experiment."""
    data = experiment.model_dump()
    lines: list[str] = []
    tables: list[tuple[str, Mapping[str, Any]]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            tables.append((f"[{key}]", value))
        elif key == "job":
            tables += [("[[job]]", job) for job in value]
        elif value is not None:
            lines.append(f"{key} = {_toml(value)}")
    for header, table in tables:
        lines += ["", header]
        lines += [f"{_key(name)} = {_toml(v)}" for name, v in table.items() if v is not None]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one character that TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
