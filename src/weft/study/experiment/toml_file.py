"""Reader of experiment files in TOML, with the line of each error, and writer of all keys."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from weft.core.arguments import shown
from weft.core.errors import InputError
from weft.core.files import each_text, file_exists, parse_toml, read_text, renamed_spec
from weft.core.registry import in_words, wrong_name
from weft.core.settings import settings
from weft.core.toml_lines import KeyPath, line_of
from weft.fabrics.faults import Faults
from weft.fabrics.load import Source
from weft.study.experiment.spec import RUN, TABLES, Experiment, JobPart, OutputPart

#: Names of the types to which pydantic tried to convert a value, in paths of keys.
_TRIED = re.compile(r"str|tuple\[.*\]|function-.*\)?.*\]")

#: Keys whose value may be the name of a file; in other texts, arguments of specs may be.
_FILES = (
    "fabric",
    "source",
    "names",
    "also",
    "machines",
    "node",
    "workload",
    "coefficients",
    "host_parameters",
)

#: Most errors that a message explains; the others are counted.
_SHOWN = 5


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
    return validated(Experiment, data, file=file, text=text, flags=flags)


Keys = TypeVar("Keys", bound=BaseModel)


def validated(
    model: type[Keys],
    data: Mapping[str, Any],
    *,
    file: str | Path | None = None,
    text: str | None = None,
    flags: bool = False,
    written: Callable[[KeyPath], KeyPath] = lambda path: path,
) -> Keys:
    """Return the checked keys of a file as an instance of its model.

    `model`: model of the file, such as `Experiment`. `data`, `file`, `text`, `flags`: as in
    `check`. `written`: function from the path of a key to the path at which the text gives its
    value.
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
        texts = [_explain(model, each, path, flags) for path, each in wrong.items()]
        if (more := len(texts) - _SHOWN) > 1:
            texts[_SHOWN:] = [f"and {more} more errors"]
        message = "; ".join(texts)
        unknown = len(path) == 1 and first["type"] == "extra_forbidden"
        key = str(path[0]) if path and not unknown else ""
        raise InputError(message, file=file, line=line, key=key) from None


def _plain(path: KeyPath) -> KeyPath:
    """Return the path of a key without pydantic's names of types."""
    return tuple(part for part in path if not (isinstance(part, str) and _TRIED.fullmatch(part)))


def _explain(root: type[BaseModel], error: Any, path: KeyPath, flags: bool) -> str:
    """Return a message for an error of pydantic, with the key."""
    if not path:
        return in_words(error)
    *table, key = path
    keys = list(_model(root, tuple(table)).model_fields)
    where = _name(tuple(table))
    if error["type"] == "extra_forbidden":
        return wrong_name(f"{where}unknown key", key, keys)
    if error["type"] == "missing":
        return f"{where}the key {key!r} is missing"
    value = error["input"]
    reason = in_words(error)
    named = _name(path).removesuffix(": ")
    if flags:
        words = [part for part in path if isinstance(part, str)]
        named = _flag(words)
    if path in [(name,) for name in TABLES] and error["type"] == "value_error":
        return f"{named}: {reason}"
    return f"{named}: {shown(value)} does not fit: {reason}"


def _flag(words: Sequence[str]) -> str:
    """Return the option that sets a key, given the names of its tables and of the key."""
    if words[0] in TABLES:
        return " ".join((f"--{words[0]}", *words[1:]))
    kind = {"fabric": Source, "faults": Faults, "job": JobPart, "output": OutputPart}.get(words[0])
    items = settings(kind) if kind and len(words) > 1 else (*RUN, *settings(Experiment))
    key = words[1] if kind and len(words) > 1 else words[0]
    return next((item.flag for item in items if item.key == key and item.flag), f"--{words[-1]}")


def _name(path: KeyPath) -> str:
    """Return the path of a key as text such as ``job 2, start: ``, counting from 1."""
    words: list[str] = []
    for part in path:
        if isinstance(part, int):
            words[-1] += f" {part + 1}"
        else:
            words.append(part)
    return ", ".join(words) + ": " if words else ""


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
    if get_origin(hint) in {tuple, Annotated, Union, UnionType}:
        return next(filter(None, map(table_in, get_args(hint))), None)
    return None


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
