"""The file of a study: the keys of a command, and the table ``[study]`` with what varies."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, create_model

from weft.core.errors import InputError
from weft.core.files import parse_toml, read_text
from weft.core.registry import Entry, did_you_mean
from weft.core.settings import Number, Seed, settings
from weft.core.toml_lines import KeyPath, line_of, validated
from weft.core.units import Bytes
from weft.sim.options import RunSettings, listed
from weft.study.axes import Axis, read_axes, set_key, text_of
from weft.study.checks import Files, WrongKey
from weft.study.command_registry import Point, keys_of, measures_of, repeated, study_command
from weft.study.experiment.spec import MAX_RUNS, Part
from weft.study.experiment.toml_file import toml_text
from weft.study.runs.executors import Limits
from weft.study.variables import Variables

#: Command of a file that names none.
USUAL_COMMAND = "simulate"
#: Key of a run -> levels of detail that have it.
_LEVELS = {item.key: item.option.levels for item in settings(RunSettings)}


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


def _flat(value: Any) -> Any:
    """Return a table with dotted names in place of tables: ``faults.seed = 1`` in TOML is one."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, Mapping):
            flat |= {f"{name}.{inner}": one for inner, one in _flat(each).items()}
        else:
            flat[name] = each
    return flat


Scalar = str | int | float | bool
Rule = Annotated[
    dict[str, Scalar | tuple[Scalar, ...]],
    Field(min_length=1),
    BeforeValidator(_flat, json_schema_input_type=dict[str, Any]),
]


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
    exclude: tuple[Rule, ...] = ()
    seeds: Annotated[
        Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_distinct)] | None,
        BeforeValidator(_seeds),
    ] = None
    baseline: Annotated[
        dict[str, Scalar], BeforeValidator(_flat, json_schema_input_type=dict[str, Any])
    ] = Field(default_factory=dict)
    measures: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    tables: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    run_seconds: Annotated[Number, Field(gt=0, allow_inf_nan=False)] | None = None
    run_memory: Annotated[Bytes, Field(gt=0)] | None = None


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study."""

    #: Number in the study, from 1.
    number: int
    #: Seed of the repetition; None if the study has none.
    seed: int | None
    #: Axis -> value as text.
    point: Mapping[str, str]
    #: Parameters of the function that performs the run.
    parameters: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Combination:
    """One combination of the values of all axes."""

    #: Axis -> label.
    point: Mapping[str, str]
    #: Keys of the command.
    keys: Mapping[str, Any]
    #: Path of a key -> path of its value in the file.
    origin: Mapping[KeyPath, KeyPath]

    def written(self, path: KeyPath) -> KeyPath:
        """Return the path in the file of a key, which may be in the list of an axis."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origin:
                return (*self.origin[path[:length]], *path[length:])
        return path


@dataclass(eq=False)
class _Seen:
    """What the combinations of a study have, for checks of all of them together."""

    #: Axis -> values, of all runs and of those that are not excluded.
    every: dict[str, dict[str, None]] = field(default_factory=dict)
    left: dict[str, dict[str, None]] = field(default_factory=dict)
    #: Number of runs that are not excluded.
    kept: int = 0
    #: Exclusion -> number of runs that it leaves out.
    dropped: Counter[int] = field(default_factory=Counter)
    #: Given keys that no level of any combination has; None before the first.
    unused: set[str] | None = None

    def add(self, axes: Mapping[str, str], rules: Sequence[int]) -> None:
        """Add a run, and the exclusions that leave it out."""
        for known in (self.every,) if rules else (self.every, self.left):
            for name, value in axes.items():
                known.setdefault(name, {})[value] = None
        self.dropped.update(rules)
        self.kept += not rules


@dataclass(frozen=True, eq=False)
class StudyFile:
    """A checked file of a study."""

    #: Name of the study: that of the file without its suffix.
    name: str
    #: The command.
    command: Entry
    #: The table ``[study]``.
    study: StudyPart
    #: Keys of the command, as given.
    keys: Mapping[str, Any]
    #: What varies.
    axes: tuple[Axis, ...]
    #: The file and its text.
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

    @property
    def baseline(self) -> dict[str, str]:
        """Axis -> value of the baseline, with the values that are zipped with the given ones."""
        wanted = {name: text_of(value) for name, value in self.study.baseline.items()}
        for axis in self.axes:
            given = [(at, wanted[name]) for at, name in enumerate(axis.names) if name in wanted]
            found = [
                labels for labels in axis.labels if all(labels[at] == value for at, value in given)
            ]
            if given and len(found) == 1:
                wanted |= dict(zip(axis.names, found[0], strict=True))
        return wanted

    def runs(self) -> list[PlannedRun]:
        """Return every run, in order: the axes from the outermost in, then the seeds."""
        return self._runs

    @cached_property
    def _runs(self) -> list[PlannedRun]:
        seeds: Sequence[int | None] = self.study.seeds or (None,)
        self._refuse_more(math.prod(len(axis.labels) for axis in self.axes) * len(seeds))
        files = Files(self.path.parent, self.command.facts.get("files", ()))
        rules = [_Rule(rule) for rule in self.study.exclude]
        seen, planned = _Seen(), list[PlannedRun]()
        for each in self._combinations():
            kept = []
            points = self._points(each, files, seen)
            # A list of one value is no axis: it may depend on what varies, as texts with variables.
            names = dict.fromkeys(name for point in points for name in point.axes)
            listed = [name for name in names if len({point.axes.get(name) for point in points}) > 1]
            for point in points:
                axes = {**each.point, **{name: point.axes.get(name, "") for name in listed}}
                dropping = [number for number, rule in enumerate(rules) if rule.matches(axes)]
                seen.add(axes, dropping)
                if not dropping:
                    kept.append((axes, files.absolute(point.parameters)))
            for seed in seeds:
                for axes, parameters in kept:
                    given = parameters
                    if seed is not None:
                        given = repeated(self.command.name, parameters, each.keys, seed)
                    planned.append(PlannedRun(len(planned) + 1, seed, axes, given))
            self._refuse_more(len(planned))
        self._check_together(seen)
        return planned

    def first(self) -> BaseModel:
        """Return the checked keys of the first combination."""
        return self._validated(next(self._combinations()))

    def _refuse_more(self, number: int) -> None:
        if number > MAX_RUNS:
            raise self.error(
                f"describes more than {MAX_RUNS:,} runs, the most that a study can have"
            )

    def _combinations(self) -> Iterator[_Combination]:
        """Yield every combination of the axes."""
        # Without a dollar sign there are no variables, in values or elsewhere.
        variables = Variables(self.axes, self.error) if "$" in self.text else None
        for choice in itertools.product(*(range(len(axis.labels)) for axis in self.axes)):
            point: dict[str, str] = {}
            origin: dict[KeyPath, KeyPath] = {}
            keys: dict[str, Any] = copied(self.keys)
            chosen: dict[str, Any] = {}
            for axis, at in zip(self.axes, choice, strict=True):
                point |= zip(axis.names, axis.labels[at], strict=True)
                for path, where, value in zip(
                    axis.paths, axis.where[at], axis.values[at], strict=True
                ):
                    if axis.is_variable(path):
                        chosen[path[0][1:]] = value
                    else:
                        origin[set_key(keys, path, value)] = where
            if variables is not None:
                keys = variables.filled(keys, chosen)
                point = {name: str(variables.filled(text, chosen)) for name, text in point.items()}
            yield _Combination(point, keys, origin)
        if variables is not None:
            variables.refuse_unused()

    def _validated(self, combination: _Combination) -> BaseModel:
        try:
            return validated(
                keys_of(self.command.name), combination.keys, file=self.path, text=self.text,
                written=combination.written,
            )  # fmt: skip
        except InputError as error:
            if not isinstance(self.keys.get(error.key), list | dict):
                raise
            hint = f"{error.message}; several values of {error.key} are listed in [study.product]"
            raise InputError(hint, file=error.file, line=error.line) from None

    def _points(self, combination: _Combination, files: Files, seen: _Seen) -> Sequence[Point]:
        """Return the runs of a combination."""
        checked = self._validated(combination)
        if "level" in type(checked).model_fields:
            unused = _unused(checked)
            seen.unused = unused if seen.unused is None else seen.unused & unused
        try:
            points: Sequence[Point] = self.command.facts["points"](checked, files)
        except WrongKey as error:
            raise self.error(error.message, combination.written(error.path)) from None
        except InputError as error:
            raise InputError(error.message, file=error.file or self.path) from None
        return points

    def _check_together(self, seen: _Seen) -> None:
        """Check what concerns all runs: unused keys, exclusions and the baseline."""
        for name in sorted(seen.unused or ()):
            levels = " or ".join(_LEVELS[name])
            raise self.error(f"{name} requires level {levels}, which no run has", (name,))
        for number, rule in enumerate(self.study.exclude):
            what = f"exclude {number + 1}"
            for name, wanted in rule.items():
                where: KeyPath = ("study", "exclude", number, *name.split("."))
                known = self._known_axis(what, name, seen.every, where)
                for each in wanted if isinstance(wanted, tuple) else (wanted,):
                    if not any(_Rule({name: each}).matches({name: value}) for value in known):
                        self._unknown_value(what, name, text_of(each), known, where)
            if not seen.dropped[number]:
                shown = ", ".join(f"{name} = {toml_text(value)}" for name, value in rule.items())
                raise self.error(
                    f"{what} leaves out no run: none has {shown}", ("study", "exclude", number)
                )
        if not seen.kept:
            raise self.error("no run is left: everything is excluded", ("study", "exclude", 0))
        for name, given in self.study.baseline.items():
            where = ("study", "baseline", *name.split("."))
            known = self._known_axis("baseline", name, seen.left, where)
            if text_of(given) not in known:
                self._unknown_value("baseline", name, text_of(given), known, where)
            if len(known) == 1:
                raise self.error(
                    f"baseline: {name} has one value, so that there is nothing to compare", where
                )

    def _known_axis(
        self, what: str, name: str, axes: Mapping[str, dict[str, None]], where: KeyPath
    ) -> dict[str, None]:
        """Return the values of an axis."""
        if name not in axes:
            raise self.error(
                f"{what}: nothing called {name!r} varies{did_you_mean(name, axes)}; "
                f"expected one of {', '.join(axes)}",
                where,
            )
        return axes[name]

    def _unknown_value(
        self, what: str, name: str, value: str, known: Mapping[str, None], where: KeyPath
    ) -> None:
        some = ", ".join(itertools.islice(known, 20)) + ", …" * (len(known) > 20)
        raise self.error(
            f"{what}: {name} has no value {value!r}{did_you_mean(value, known)}; "
            f"expected one of {some}",
            where,
        )

    def error(self, text: str, where: KeyPath = ()) -> InputError:
        """Return an error with the file, and the line of a key."""
        return InputError(text, file=self.path, line=line_of(self.text, where))


class _Rule:
    """An exclusion."""

    def __init__(self, rule: Mapping[str, Any]) -> None:
        self._texts: dict[str, tuple[set[str], list[re.Pattern[str]]]] = {}
        for name, value in rule.items():
            texts = [text_of(each) for each in (value if isinstance(value, tuple) else (value,))]
            patterns = [
                re.compile(".*".join(map(re.escape, text.split("*")))) for text in texts
                if "*" in text
            ]  # fmt: skip
            self._texts[name] = {*texts}, patterns

    def matches(self, axes: Mapping[str, str]) -> bool:
        """Return whether a run has all values of the exclusion."""
        return all(
            name in axes
            and (axes[name] in texts or any(each.fullmatch(axes[name]) for each in patterns))
            for name, (texts, patterns) in self._texts.items()
        )


def _unused(keys: Any) -> set[str]:
    """Return the given keys that no level of a combination has."""
    usual = type(keys).model_fields
    own = {keys.level} if isinstance(keys.level, str) else set(keys.level)
    return {
        name
        for name in keys.model_fields_set
        if (levels := _LEVELS.get(name))
        and not own & set(levels)
        and getattr(keys, name) != usual[name].get_default(call_default_factory=True)
    }


def copied(value: Any) -> Any:
    """Return a copy of tables and lists, which may then be changed."""
    if isinstance(value, Mapping):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [copied(each) for each in value]
    return value


@cache
def file_model(command: str) -> type[BaseModel]:
    """Return the model of a file of studies of a command: its keys, ``command`` and ``study``."""
    keys = keys_of(command)
    own: Any = {
        "command": (Literal[command], Field(default=command, description="Command that is run.")),
        "study": (
            StudyPart,
            Field(default_factory=StudyPart, description="What varies, and how it is run."),
        ),
    }
    model: type[BaseModel] = create_model(f"{keys.__name__}Study", __base__=keys, **own)
    return model


class _Only(Part):
    """A file of which only the table ``[study]`` is checked."""

    study: StudyPart = StudyPart()


def read_study(path: str | Path) -> StudyFile:
    """Read a file of a study, or an experiment file."""
    text = read_text(path)
    return study_of(text, path)


def study_of(text: str, path: str | Path) -> StudyFile:
    """Return the study of a text; `path` is the name of its file, for messages and other files."""
    data = parse_toml(text, path)

    def fail(message: str, where: KeyPath = ()) -> InputError:
        return InputError(message, file=path, line=line_of(text, where))

    name = data.pop("command", USUAL_COMMAND)
    if not isinstance(name, str) or name not in study_command:
        known = study_command.names()
        raise fail(
            f"command: {toml_text(name)} does not fit{did_you_mean(str(name), known)}; "
            f"expected one of {', '.join(known)}",
            ("command",),
        )
    command = study_command[name]
    study: StudyPart = validated(
        _Only, {"study": data.pop("study", {})}, file=path, text=text
    ).study
    if "output" in data and "output" not in keys_of(name).model_fields:
        raise fail("output is not a key of a study; its results are in the store", ("output",))
    _check_names(study, command, fail)
    axes = tuple(read_axes(study.product, study.zip, data, command.facts["keys"], fail))
    _check_axes(axes, command, fail)
    return StudyFile(Path(path).stem, command, study, data, axes, Path(path), text)


def _check_axes(axes: Sequence[Axis], command: Entry, fail: Callable[..., InputError]) -> None:
    """Refuse axes with the name of a measure or of a column of points."""
    from weft.report.study_summary import POINT_COLUMNS

    taken = {*POINT_COLUMNS, *(each.name for each in measures_of(command.name))}
    for axis in axes:
        for name, path, where in zip(axis.names, axis.paths, axis.whole, strict=True):
            if name in taken:
                other = "" if axis.is_variable(path) else f', or a variable: {name} = "$other"'
                raise fail(
                    f"{path[0]}: the tables of results have a column {name} of their own; "
                    f"expected another name{other}",
                    where,
                )


def _check_names(study: StudyPart, command: Entry, fail: Callable[..., InputError]) -> None:
    """Check the names of measures and tables."""
    measures = [each.name for each in measures_of(command.name)]
    for kind, known, chosen in (
        ("measure", measures, study.measures),
        ("table", list(command.facts["tables"]), study.tables),
    ):
        for number, each in enumerate(chosen):
            if each not in known:
                raise fail(
                    f"study, {kind}s: unknown {kind} {each!r}{did_you_mean(each, known)}; "
                    f"expected one of {', '.join(known) or f'no {kind}s'}",
                    ("study", f"{kind}s", number),
                )
            if each in chosen[:number]:
                raise fail(f"study, {kind}s: {each} is listed twice", ("study", f"{kind}s", number))
