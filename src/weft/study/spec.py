"""The file of a study: the keys of a command, and the table ``[study]`` with what varies."""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, create_model

from weft.core.errors import InputError
from weft.core.files import parse_toml, read_text
from weft.core.registry import Entry, did_you_mean
from weft.core.settings import Number, Seed
from weft.core.units import Bytes
from weft.experiment.spec import Part, listed
from weft.experiment.toml_file import KeyPath, line_of, table_in, toml_text, validated
from weft.runs.executors import Limits
from weft.study.command_registry import Point
from weft.study.command_registry import command as commands

#: Command of a file that names none.
USUAL_COMMAND = "simulate"
#: Largest number of runs of a study.
MAX_RUNS = 1_000_000
#: A variable in a text: ``$name`` or ``${name}``.
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


def _seeds(value: Any) -> Any:
    """Convert a number of seeds to the seeds 0, 1, 2 and so on."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MAX_RUNS:
            raise ValueError("expected a number of seeds from 1, or a list of seeds")
        return tuple(range(value))
    return value


def _distinct(value: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(value)) < len(value):
        raise ValueError("expected different seeds")
    return value


class StudyPart(Part):
    """What a study varies, and how its runs are performed.

    Parameters
    ----------
    title
        Title of the report.
    product
        Keys of the command, or variables ``$name``, each with a list of values: every combination
        is a run. A table of label = value gives values short names.
    zip
        Tables of lists of one length each, whose values are taken together, the first with the
        first and so on.
    exclude
        Tables of axes and values: runs that have all of them are left out. Values may contain
        ``*``.
    seeds
        Number of repetitions, or a list of seeds. Everything random without a seed of its own
        takes the seed of the repetition.
    baseline
        Axes and values of the runs to which others are compared.
    measures
        Measures that the report shows, the main one first; by default those of the command.
    tables
        Tables of each run that are kept.
    run_seconds
        Wall time in seconds after which a run is ended.
    run_memory
        Memory of a run's process after which the run is ended.
    """

    title: Annotated[str, Field(min_length=1)] | None = None
    product: dict[str, Any] = Field(default_factory=dict)
    zip: tuple[dict[str, Any], ...] = ()
    exclude: tuple[dict[str, Any], ...] = ()
    seeds: Annotated[
        Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_distinct)] | None,
        BeforeValidator(_seeds),
    ] = None
    baseline: dict[str, str | int | float | bool] = Field(default_factory=dict)
    measures: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    tables: Annotated[tuple[str, ...], BeforeValidator(listed)] | None = None
    run_seconds: Annotated[Number, Field(gt=0)] | None = None
    run_memory: Annotated[Bytes, Field(gt=0)] | None = None


@dataclass(frozen=True)
class Axis:
    """Values that vary together.

    Parameters
    ----------
    keys
        Paths of the keys, or names of variables.
    where
        Path of the list of each key in the file.
    labels, values
        Label and value of each key, position by position.
    """

    keys: tuple[str, ...]
    where: tuple[KeyPath, ...]
    labels: tuple[tuple[str, ...], ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study.

    Parameters
    ----------
    number
        Number in the study, from 1.
    seed
        Seed of the repetition; None if the study has none.
    point
        Axis -> value as text.
    parameters
        Parameters of the function that performs the run.
    """

    number: int
    seed: int | None
    point: Mapping[str, str]
    parameters: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StudyFile:
    """A checked file of a study.

    Parameters
    ----------
    name
        Name of the study: that of the file without its suffix.
    command
        The command.
    study
        The table ``[study]``.
    keys
        Keys of the command, as given.
    axes
        What varies.
    path, text
        The file and its text.
    """

    name: str
    command: Entry
    study: StudyPart
    keys: Mapping[str, Any]
    axes: tuple[Axis, ...]
    path: Path
    text: str

    @property
    def title(self) -> str:
        """The title of the study, or its name."""
        return self.study.title or self.name

    @property
    def limits(self) -> Limits:
        """Limits of a run."""
        return Limits(self.study.run_seconds, self.study.run_memory)

    def runs(self) -> list[PlannedRun]:
        """Return every run, in order: the axes of the file from the outermost in, then the seeds.

        Raises
        ------
        InputError
            If a value does not fit, or there is no run, or too many; the error names the line.
        """
        planned: list[PlannedRun] = []
        dropped = [0] * len(self.study.exclude)
        for point, keys in self._points():
            shown = self._checked(keys, point)
            for seed in self.study.seeds or (None,):
                given = keys if seed is None else self.command.facts["seeded"](keys, seed)
                runs = self._checked(given, point, with_paths=True)
                for each, run in zip(shown, runs, strict=True):
                    axes = {**point, **each.axes}
                    excluded = False
                    for number, rule in enumerate(self.study.exclude):
                        if _matches(rule, axes):
                            dropped[number] += 1
                            excluded = True
                    if not excluded:
                        planned.append(PlannedRun(len(planned) + 1, seed, axes, run.parameters))
                if len(planned) > MAX_RUNS:
                    raise InputError(
                        f"describes more than {MAX_RUNS:,} runs, the most that a study can have",
                        file=self.path,
                    )
        self._check_axes(planned, dropped)
        return planned

    def _points(self) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
        """Yield the labels and the keys of every combination of the axes."""
        for choice in itertools.product(*(range(len(axis.values)) for axis in self.axes)):
            point: dict[str, str] = {}
            variables: dict[str, Any] = {}
            changes: list[tuple[str, Any]] = []
            for axis, at in zip(self.axes, choice, strict=True):
                for key, label, value in zip(
                    axis.keys, axis.labels[at], axis.values[at], strict=True
                ):
                    point[key.removeprefix("$")] = label
                    if key.startswith("$"):
                        variables[key[1:]] = value
                    else:
                        changes.append((key, value))
            keys = _copied(self.keys)
            for key, value in changes:
                self._set(keys, key, value)
            if variables:
                keys = self._filled(keys, variables)
                point = {
                    name: self._filled(label, variables) if name not in variables else label
                    for name, label in point.items()
                }
            yield point, keys

    def _filled(self, value: Any, variables: Mapping[str, Any]) -> Any:
        """Return a value with the values of variables in its texts."""
        if isinstance(value, str):
            return _fill(value, variables, (), self._error)
        if isinstance(value, dict):
            return {key: self._filled(each, variables) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each, variables) for each in value]
        return value

    def _set(self, keys: dict[str, Any], path: str, value: Any) -> None:
        """Set a key by its path, such as ``faults.random_cables`` or ``job.name.placement``."""
        *tables, last = path.split(".")
        at = keys
        for number, table in enumerate(tables):
            inner = at.setdefault(table, {})
            if isinstance(inner, str):  # fabric = "spec" is short for a table
                inner = at[table] = {"source": inner}
            if isinstance(inner, list):
                names = [each.get("name") for each in inner]
                rest = tables[number + 1 :]
                if rest and rest[0] in names:
                    inner[names.index(rest[0])][last] = value
                elif len(inner) == 1 and not rest:
                    inner[0][last] = value
                else:
                    raise self._error(
                        f"{path}: expected {table}.NAME.{last} with the name of a [[{table}]]",
                        self._where(path),
                    )
                return
            at = inner
        at[last] = value

    def _where(self, key: str) -> KeyPath:
        """Return the path of the list of a key in the file."""
        for axis in self.axes:
            if key in axis.keys:
                return axis.where[axis.keys.index(key)]
        return tuple(key.split("."))

    def _checked(
        self, keys: Mapping[str, Any], point: Mapping[str, str], with_paths: bool = False
    ) -> Sequence[Point]:
        """Return the runs of a combination, with absolute paths or with those of the file."""

        def written(path: KeyPath) -> KeyPath:
            words = [part for part in path if isinstance(part, str)]
            for length in range(len(words), 0, -1):
                given = ".".join(words[:length])
                for axis in self.axes:
                    for key, where in zip(axis.keys, axis.where, strict=True):
                        parts = key.split(".")
                        if key == given or [parts[0], parts[-1]] == words[:length]:
                            return where
            return path

        checked = validated(
            self.command.facts["keys"], keys, file=self.path, text=self.text, written=written
        )
        if with_paths:
            checked = self.command.facts["paths"](checked, self.path.parent)
        try:
            points: Sequence[Point] = self.command.facts["points"](checked)
        except InputError as error:
            where = "".join(f"{name} {value}: " for name, value in point.items() if len(point) < 4)
            raise InputError(where + error.message, file=error.file or self.path) from None
        return points

    def _check_axes(self, planned: Sequence[PlannedRun], dropped: Sequence[int]) -> None:
        """Check what names axes: exclusions and the baseline."""
        for number, count in enumerate(dropped):
            known: dict[str, set[str]] = {}
            for run in planned:
                for name, value in run.point.items():
                    known.setdefault(name, set()).add(value)
            for name in self.study.exclude[number]:
                self._known_axis(name, known, ("study", "exclude", number))
            if not count:
                raise self._error(
                    f"exclude {number + 1} leaves out no run: {_shown(self.study.exclude[number])}",
                    ("study", "exclude", number),
                )
        if not planned:
            raise self._error("no run is left: everything is excluded", ("study", "exclude", 0))
        if self.study.baseline:
            values: dict[str, dict[str, None]] = {}
            for run in planned:
                for name, value in run.point.items():
                    values.setdefault(name, {})[value] = None
            for name, wanted in self.study.baseline.items():
                where = ("study", "baseline", name)
                self._known_axis(name, values, where)
                value = text_of(wanted)
                if value not in values[name]:
                    some = ", ".join(itertools.islice(values[name], 20))
                    raise self._error(
                        f"baseline: {name} has no value {value!r}"
                        f"{did_you_mean(value, values[name])}; expected one of {some}",
                        where,
                    )

    def _known_axis(self, name: str, known: Mapping[str, Any], where: KeyPath) -> None:
        if name not in known:
            raise self._error(
                f"nothing called {name!r} varies{did_you_mean(name, known)}; "
                f"expected one of {', '.join(known) or 'no axes'}",
                where,
            )

    def _error(self, text: str, where: KeyPath = ()) -> InputError:
        return InputError(text, file=self.path, line=line_of(self.text, where) if where else None)


def _copied(value: Any) -> Any:
    """Return a copy of tables and lists, which may then be changed."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(each) for each in value]
    return value


def text_of(value: Any) -> str:
    """Return a value of an axis as text."""
    return value if isinstance(value, str) else toml_text(value)


def _shown(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {toml_text(value)}" for name, value in table.items())


def _matches(rule: Mapping[str, Any], axes: Mapping[str, str]) -> bool:
    """Return whether a run has all values of an exclusion."""
    for name, value in rule.items():
        wanted = value if isinstance(value, list) else [value]
        if name not in axes:
            return False
        if not any(
            axes[name] == text_of(each) or fnmatch.fnmatchcase(axes[name], text_of(each))
            for each in wanted
        ):
            return False
    return True


def _fill(text: str, variables: Mapping[str, Any], inside: tuple[str, ...], error: Any) -> str:
    """Return a text with the values of its variables, which may name other variables."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in variables:
            raise error(
                f"unknown variable ${name}{did_you_mean(name, variables)} in {text!r}; "
                f"expected one of {', '.join('$' + each for each in variables)}"
            )
        if name in inside:
            cycle = " -> ".join(f"${each}" for each in (*inside, name))
            raise error(f"the variables refer to one another in a cycle: {cycle}")
        return _fill(text_of(variables[name]), variables, (*inside, name), error)

    return _VARIABLE.sub(value_of, text)


@cache
def file_model(command: str) -> type[BaseModel]:
    """Return the model of a file of studies of a command: its keys, ``command`` and ``study``."""
    keys: type[BaseModel] = commands[command].facts["keys"]
    own: Any = {
        "command": (Literal[command], Field(default=command, description="Command that is run.")),
        "study": (StudyPart, Field(default_factory=StudyPart)),
    }
    model: type[BaseModel] = create_model(f"{keys.__name__}Study", __base__=keys, **own)
    return model


def read_study(path: str | Path) -> StudyFile:
    """Read a file of a study, or an experiment file.

    Raises
    ------
    InputError
        If the file cannot be read or is not valid TOML, or a key is wrong; the error names the
        line.
    """
    text = read_text(path)
    data = parse_toml(text, path)
    fail = partial(_fail, path, text)
    name = data.pop("command", USUAL_COMMAND)
    known = commands.names()
    if not isinstance(name, str) or name not in commands:
        raise fail(
            f"command: {toml_text(name)} does not fit{did_you_mean(str(name), known)}; "
            f"expected one of {', '.join(known)}",
            ("command",),
        )
    command = commands[name]
    given = data.pop("study", {})
    study: StudyPart = validated(_Only, {"study": given}, file=path, text=text).study
    tables = command.facts["tables"]
    for kind, known, chosen in (
        ("measure", [each.name for each in command.facts["measures"]], study.measures),
        ("table", list(tables), study.tables or ()),
    ):
        for each in chosen:
            if each not in known:
                raise fail(
                    f"study, {kind}s: unknown {kind} {each!r}{did_you_mean(each, known)}; "
                    f"expected one of {', '.join(known)}",
                    ("study", f"{kind}s"),
                )
    axes = tuple(_axes(study, command.facts["keys"], fail))
    for axis in axes:
        for key, where in zip(axis.keys, axis.where, strict=True):
            first = key.split(".")[0]
            if "." not in key and first in data:
                raise fail(f"{key} is given twice, here and at the top of the file", where)
    return StudyFile(Path(path).stem, command, study, data, axes, Path(path), text)


class _Only(Part):
    """A file of which only the table ``[study]`` is checked."""

    make: ClassVar[Any]
    study: StudyPart = StudyPart()


def _fail(file: str | Path, source: str, message: str, where: KeyPath = ()) -> InputError:
    return InputError(message, file=file, line=line_of(source, where) if where else None)


def _axes(study: StudyPart, keys: type[BaseModel], fail: Any) -> Iterator[Axis]:
    """Yield the axes of a study, in the order of the file: the product, then each zip."""
    seen: dict[str, None] = {}

    def known(key: str, where: KeyPath) -> None:
        if key in seen:
            raise fail(f"{key} varies twice: expected each key in one product or zip", where)
        seen[key] = None
        if key.startswith("$"):
            if not re.fullmatch(r"\$\w+", key):
                raise fail(f"{key!r} is no name of a variable; expected $name", where)
            return
        first = key.split(".", maxsplit=1)[0]
        if first not in keys.model_fields:
            raise fail(
                f"unknown key {first!r}{did_you_mean(first, keys.model_fields)}; expected one of "
                f"{', '.join(keys.model_fields)}, or a variable $name",
                where,
            )

    for key, given, where in _flat(study.product, keys, ("study", "product")):
        known(key, where)
        labels, values = _labelled(key, given, where, fail)
        yield Axis((key,), (where,), tuple((each,) for each in labels), tuple((v,) for v in values))
    for number, table in enumerate(study.zip):
        columns = list(_flat(table, keys, ("study", "zip", number)))
        if not columns:
            raise fail(f"zip {number + 1} is empty; expected keys with lists", ("study", "zip"))
        read = []
        for key, given, where in columns:
            known(key, where)
            read.append(_labelled(key, given, where, fail))
        lengths = {key: len(labels) for (key, _, _), (labels, _) in zip(columns, read, strict=True)}
        if len(set(lengths.values())) > 1:
            counted = ", ".join(f"{key} has {length}" for key, length in lengths.items())
            raise fail(
                f"zip {number + 1}: expected lists of one length; {counted} values",
                columns[0][2],
            )
        yield Axis(
            tuple(key for key, _, _ in columns),
            tuple(where for _, _, where in columns),
            tuple(zip(*(labels for labels, _ in read), strict=True)),
            tuple(zip(*(values for _, values in read), strict=True)),
        )


def _flat(
    table: Mapping[str, Any], model: type[BaseModel], where: KeyPath, prefix: str = ""
) -> Iterator[tuple[str, Any, KeyPath]]:
    """Yield the path, the values and the place of each list of a table.

    ``faults.random_cables = [0, 1]`` without quotes is a table in TOML, which is read as the path.
    """
    for name, given in table.items():
        inner = (
            table_in(model.model_fields[name].annotation) if name in model.model_fields else None
        )
        at = (*where, name)
        if (
            isinstance(given, dict)
            and inner is not None
            and all(
                part in inner.model_fields or isinstance(each, dict) for part, each in given.items()
            )
        ):
            yield from _flat(given, inner, at, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", given, at


def _labelled(key: str, given: Any, where: KeyPath, fail: Any) -> tuple[list[str], list[Any]]:
    """Return the labels and the values of a list, or of a table label = value."""
    if isinstance(given, dict):
        labels, values = list(given), list(given.values())
    elif isinstance(given, list):
        labels, values = [text_of(each) for each in given], given
    else:
        raise fail(f"{key}: expected a list of values, not {toml_text(given)}", where)
    if not values:
        raise fail(f"{key}: the list is empty, so that there is no run", where)
    twice = (
        next((each for each in labels if labels.count(each) > 1), None)
        if len(labels) < 10_000
        else None
    )
    if twice is not None:
        raise fail(f"{key}: {twice!r} is listed twice", where)
    if any(isinstance(each, float) and not math.isfinite(each) for each in values):
        raise fail(f"{key}: expected finite numbers", where)
    return labels, values
