"""What varies in a study: lists of values of keys or variables, alone or zipped."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.core.toml_lines import KeyPath, table_in
from weft.report.study_data import RUN_KEYS
from weft.study.experiment.toml_file import toml_text

#: Path of a key, ``("faults", "random_cables")`` or ``("job", "solver", "placement")``; or a
#: variable.
Path = tuple[str, ...]
Fail = Callable[..., InputError]


@dataclass(frozen=True)
class Axis:
    """Values that vary together."""

    #: Path of each key; a variable is ``("$name",)``.
    paths: tuple[Path, ...]
    #: Path of the list of each key in the file.
    whole: tuple[KeyPath, ...]
    #: Label, value, and path in the file of each key, position by position.
    labels: tuple[tuple[str, ...], ...]
    values: tuple[tuple[Any, ...], ...]
    where: tuple[tuple[KeyPath, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the keys: paths with dots, variables without the dollar sign."""
        return tuple(name_of(path) for path in self.paths)

    @staticmethod
    def is_variable(path: Path) -> bool:
        """Return whether a path is that of a variable."""
        return path[0].startswith("$")


def name_of(path: Path) -> str:
    """Return the name of an axis."""
    return ".".join(path).removeprefix("$")


def text_of(value: Any) -> str:
    """Return a value of an axis as text."""
    return value if isinstance(value, str) else toml_text(value)


def read_axes(
    product: Mapping[str, Any],
    zips: Sequence[Mapping[str, Any]],
    keys: Mapping[str, Any],
    model: type[BaseModel],
    fail: Fail,
) -> Iterator[Axis]:
    """Yield the axes of a study, in the order of the file: the product, then each zip.

    `fail`: function from a message and a path in the file to an error.
    """
    reader = _Reader(keys, model, fail)
    for column in reader.columns(product, ("study", "product")):
        yield reader.axis([column], column.where)
    for number, table in enumerate(zips):
        where: KeyPath = ("study", "zip", number)
        columns = list(reader.columns(table, where))
        if not columns:
            raise fail(f"zip {number + 1} is empty; expected keys with lists", where)
        if len({len(column.labels) for column in columns}) > 1:
            counted = ", ".join(
                f"{name_of(column.path)} has {len(column.labels)} values" for column in columns
            )
            raise fail(f"zip {number + 1}: expected lists of one length; {counted}", where)
        yield reader.axis(columns, where)


@dataclass(frozen=True)
class _Column:
    """The list of one key."""

    path: Path
    where: KeyPath
    labels: list[str]
    values: list[Any]
    items: list[KeyPath]


class _Reader:
    """Reader of the tables of axes."""

    def __init__(self, keys: Mapping[str, Any], model: type[BaseModel], fail: Fail) -> None:
        self._keys = keys
        self._model = model
        self._fail = fail
        self._seen: dict[Path, None] = {}

    def axis(self, columns: Sequence[_Column], where: KeyPath) -> Axis:
        """Return the axis of zipped lists; equal positions are refused."""
        labels = tuple(zip(*(column.labels for column in columns), strict=True))
        seen = set()
        for at, each in enumerate(labels):
            if each in seen:
                names = ", ".join(name_of(column.path) for column in columns)
                raise self._fail(
                    f"{names}: {', '.join(each)} is listed twice", columns[0].items[at]
                )
            seen.add(each)
        return Axis(
            tuple(column.path for column in columns),
            tuple(column.where for column in columns),
            labels,
            tuple(zip(*(column.values for column in columns), strict=True)),
            tuple(zip(*(column.items for column in columns), strict=True)),
        )

    def columns(self, table: Mapping[str, Any], where: KeyPath) -> Iterator[_Column]:
        """Yield the lists of a table."""
        for path, given, at in self._lists(table, (), where):
            if path in self._seen:
                raise self._fail(
                    f"{name_of(path)} varies twice; expected each key in one product or zip", at
                )
            self._seen[path] = None
            name = name_of(path).removeprefix("$")
            if name in RUN_KEYS:
                advice = "; study.seeds repeats runs" if name == "seed" else ""
                raise self._fail(f"{name_of(path)} is a column of every run{advice}", at)
            variable = Axis.is_variable(path)
            if not variable:
                self._refuse_given(path, at)
            yield self._column(path, given, at, variable)

    def _refuse_given(self, path: Path, where: KeyPath) -> None:
        """Refuse a key that the file also gives outside of the study."""
        copy = _tables_copied(self._keys)
        try:
            set_key(copy, path, None, new=True)
        except KeyError as error:
            raise self._fail(f"{name_of(path)}: {error.args[0]}", where) from None

    def _lists(
        self, table: Mapping[str, Any], path: Path, where: KeyPath
    ) -> Iterator[tuple[Path, Any, KeyPath]]:
        """Yield the path, the values and the place of each list of a table.

        ``faults.random_cables = [0, 1]`` without quotes is a table in TOML, with quotes a name.
        """
        for name, given in table.items():
            at = (*where, name)
            if not path and name.startswith("$"):
                if not re.fullmatch(r"\$[A-Za-z_]\w*", name):
                    raise self._fail(f"{name!r} is no name of a variable; expected $name", at)
                yield (name,), given, at
                continue
            # The name of a table of a list, such as that of a job, may have dots of its own.
            tables = self._keys.get(path[0]) if len(path) == 1 else None
            whole = isinstance(tables, list) and name in _names(tables, path[0])
            inner = (*path, name) if whole else (*path, *name.split("."))
            self._check_path(inner, at)
            if isinstance(given, dict) and not self._labels(inner, given, at):
                yield from self._lists(given, inner, at)
            else:
                yield inner, given, at

    def _check_path(self, path: Path, where: KeyPath) -> None:
        """Refuse a key that the model does not have."""
        model: type[BaseModel] | None = self._model
        several = False
        for number, part in enumerate(path):
            if model is None:
                raise self._fail(
                    f"{'.'.join(path[:number])} is no table; it has no {part!r}", where
                )
            known = model.model_fields
            if part not in known:
                if several:  # the name of one of several tables
                    several = False
                    continue
                first = number == 0
                inner = _tables_with(part, known)
                if inner is not None:
                    raise self._fail(
                        f"{'.'.join(path)} is a key of [[{inner}]]; expected {inner}.NAME.{part}, "
                        f"or {inner}.{part} if there is one {inner}",
                        where,
                    )
                raise self._fail(
                    f"{'.'.join(path[:number])}{': ' * (not first)}unknown key {part!r}"
                    f"{did_you_mean(part, known)}; expected one of {', '.join(known)}"
                    + ", or a variable $name"
                    * first,
                    where,
                )
            hint = known[part].annotation
            if _is_free(hint):
                return
            model, several = table_in(hint), is_list_of_tables(hint)

    def _labels(self, path: Path, given: Mapping[str, Any], where: KeyPath) -> bool:
        """Return whether a table is one of labels and values, and not of further keys."""
        hint = self._hint(path)
        inner = None if hint is None else table_in(hint)
        if hint is None or is_list_of_tables(hint):  # the name of a job, or all jobs
            return (
                hint is not None
                and all(isinstance(each, list) for each in given.values())
                and (all(isinstance(one, dict) for each in given.values() for one in each))
            )
        if _is_free(hint):
            return all(isinstance(each, dict) for each in given.values())
        if inner is None:
            return True
        keys = [name.partition(".")[0] for name in given]
        if any(key in inner.model_fields for key in keys):
            return False
        if not all(isinstance(each, dict | str) for each in given.values()):
            self._check_path((*path, keys[0]), (*where, next(iter(given))))
        return True

    def _hint(self, path: Path) -> Any:
        """Return the type of a key; None for the name of one of several tables."""
        model: type[BaseModel] | None = self._model
        hint: Any = None
        for part in path:
            if model is None or part not in model.model_fields:
                hint = None
                continue
            hint = model.model_fields[part].annotation
            model = table_in(hint)
        return hint

    def _column(self, path: Path, given: Any, where: KeyPath, variable: bool) -> _Column:
        """Return the labels and the values of a list, or of a table label = value."""
        name = name_of(path)
        if isinstance(given, dict):
            labels, values = list(given), list(given.values())
            items = [(*where, label) for label in labels]
        elif isinstance(given, list):
            labels, values = [text_of(each) for each in given], given
            items = [(*where, at) for at in range(len(given))]
        else:
            raise self._fail(f"{name}: expected a list of values, not {toml_text(given)}", where)
        if not values:
            raise self._fail(f"{name}: the list is empty, so that there is no run", where)
        for value, item in zip(values, items, strict=True):
            if isinstance(value, float) and not math.isfinite(value):
                raise self._fail(f"{name}: expected finite numbers, not {value}", item)
            if variable and isinstance(value, dict | list):
                raise self._fail(
                    f"${name}: expected texts and numbers, not {toml_text(value)}", item
                )
        return _Column(path, where, labels, values, items)


def set_key(keys: dict[str, Any], path: Path, value: Any, *, new: bool = False) -> KeyPath:
    """Set a key of a file by its path.

    `keys`: keys of the file, which are changed. `path`: path of the key. An item of a list of
    tables is known by its name, or left out if there is one item only. `new`: whether the key must
    not be there.

    Returns the path of the key with numbers in place of names of tables. If the key cannot be set,
    the argument of a `KeyError` says why.
    """
    at: Any = keys
    found: KeyPath = ()
    for number, part in enumerate(path):
        last = number == len(path) - 1
        if isinstance(at, list):
            table = path[number - 1]
            names = _names(at, table)
            if part in names and not last:
                found = (*found, names.index(part))
                at = at[names.index(part)]
                continue
            if len(at) != 1 or not isinstance(at[0], dict):
                raise KeyError(
                    f"expected {table}.NAME.KEY with one of the names {', '.join(map(str, names))}"
                )
            found = (*found, 0)
            at = at[0]
        found = (*found, part)
        if last:
            if new and part in at:
                raise KeyError("is given twice, here and outside of the table study")
            at[part] = value
            break
        if part not in at:
            at[part] = {}
        elif part == "fabric" and isinstance(at[part], str):  # short for a table
            at[part] = {"source": at[part]}
        at = at[part]
        if not isinstance(at, dict | list):
            raise KeyError(f"is part of {part}, which is no table: {toml_text(at)}")
    return found


def _names(tables: Sequence[Any], table: str) -> list[Any]:
    """Return the names of a list of tables; by default job1, job2 and so on."""
    return [
        each.get("name", f"{table}{number}") if isinstance(each, dict) else None
        for number, each in enumerate(tables, 1)
    ]


def _tables_copied(value: Any) -> Any:
    """Return a copy of all tables and lists of tables."""
    if isinstance(value, Mapping):
        return {key: _tables_copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_tables_copied(each) for each in value]
    return value


def is_list_of_tables(hint: Any) -> bool:
    """Return whether a type is a list of tables."""
    if get_origin(hint) in {Annotated, Union, UnionType}:
        return any(map(is_list_of_tables, get_args(hint)))
    return get_origin(hint) is tuple and table_in(hint) is not None


def _tables_with(key: str, fields: Mapping[str, FieldInfo]) -> str | None:
    """Return the name of the list of tables that has a key; None if there is none."""
    for name, field in fields.items():
        table = table_in(field.annotation)
        if table is not None and is_list_of_tables(field.annotation) and key in table.model_fields:
            return name
    return None


def _is_free(hint: Any) -> bool:
    """Return whether a type is a table with any keys."""
    if get_origin(hint) in {Annotated, Union, UnionType}:
        return any(map(_is_free, get_args(hint)))
    return get_origin(hint) in {dict, Mapping}
