"""The registry of commands that a study can run.

A command is added by a file in ``commands/`` with one function and one decorator::

    @study_command(
        "predict", keys=PredictKeys, points=points, measures=MEASURES, files=("graph",),
        tables={"edges": EDGE_COLUMNS}, example={"graph": "graph.txt"},
    )
    def predict(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
        \"\"\"Predict the completion times of the edges of a contention graph.\"\"\"

The function performs one run. Its parameters are values of JSON that `points` returns, and
``tables``, the names of the tables to keep. It calls `watch` regularly if it takes long; an
exception that `watch` raises ends the run. The facts are:

``keys``
    Model of the keys that the file has besides ``command`` and ``study``: a subclass of
    `weft.study.experiment.spec.Part`.
``points``
    Function (keys, files) that checks the keys and returns a `Point` for each run that their lists
    describe; `files` is a `weft.study.checks.Files`.
``measures``
    Measures of a run (`weft.core.columns.Measure`); the first is the main one.
``tables``
    Name -> columns of the tables that a run can keep, or a function that returns them.
``example``
    Keys of a small run, for tests.
``files``
    Names of keys whose value may be the name of a file. Default: none.
``draws``
    Function (parameters) -> the measures that the key ``seed`` changes, as far as something is
    drawn; specs with seeds of their own do not count. Default: all. If there are none, runs of
    other seeds are the same run.
``void``
    Function (measures of a run) -> why some of them do not count, such as ``saturated``, and their
    names. Default: all count.
``details``
    Name -> meaning of texts that describe a run, such as ``engine``: parameters, or measures that
    are texts. Default: none.
``seeded``
    Function (parameters, given, seed) -> parameters that puts the seed of a repetition into the
    parameters of a run; `given` are the keys as the file gives them. Default: the key ``seed``,
    and those of the fabric and of its faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from weft.core.arguments import shown
from weft.core.columns import Measure
from weft.core.errors import InputError
from weft.core.registry import Registry
from weft.study.checks import seeded
from weft.study.runs.task import RunFunction, function_name
from weft.study.runs.typed import perform_typed, typed_runs

Keys = TypeVar("Keys", bound=BaseModel)

study_command = Registry(
    "command of a study", "weft.study.commands", "weft.study_commands",
    pipeline=("parameters", "watch"),
    facts=("keys", "points", "measures", "tables", "example"),
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One run that the lists of a file describe.

    Parameters
    ----------
    axes
        Name of a list -> the value of this run, as text.
    parameters
        Parameters of the function that performs the run, as values of JSON.
    """

    axes: Mapping[str, str]
    parameters: Mapping[str, Any]


def repeated(
    name: str, parameters: Mapping[str, Any], given: Mapping[str, Any], seed: int
) -> Mapping[str, Any]:
    """Return the parameters of a run with the seed of a repetition, if anything takes it.

    `given`: keys as the file gives them.
    """
    facts = study_command[name].facts
    changed: dict[str, Any] = facts.get("seeded", seeded)(parameters, given, seed)
    others = {**changed, "seed": parameters.get("seed")} == {"seed": None, **parameters}
    return parameters if others and not drawn(name, parameters) else changed


def drawn(name: str, parameters: Mapping[str, Any]) -> set[str]:
    """Return the measures of a run that the key ``seed`` changes."""
    draws = study_command[name].facts.get("draws")
    return {each.name for each in measures_of(name)} if draws is None else {*draws(parameters)}


def keys_of(name: str) -> type[BaseModel]:
    """Return the model of the keys of a command."""
    model: type[BaseModel] = study_command[name].facts["keys"]
    return model


def keys_and_tables(model: type[Keys], parameters: Mapping[str, Any]) -> tuple[Keys, Sequence[str]]:
    """Return the parameters of a run as keys, and the names of the tables to keep."""
    given = dict(parameters)
    tables: Sequence[str] = given.pop("tables")
    return model.model_validate(given), tables


def measures_of(name: str) -> tuple[Measure, ...]:
    """Return the measures of a command."""
    measures: tuple[Measure, ...] = study_command[name].facts["measures"]
    return measures


def details_of(name: str) -> Mapping[str, str]:
    """Return the names and meanings of the texts that describe a run of a command."""
    details: Mapping[str, str] = study_command[name].facts.get("details", {})
    return details


def run_function(name: str, parameters: Mapping[str, Any]) -> RunFunction:
    """Return the function that performs a run which a store or a plan names.

    Only functions of commands, and those that a command registers with `typed_run`, are found;
    nothing is imported by a name in a file.
    """
    if name == function_name(perform_typed):
        name = str(parameters.get("run"))
        study_command.names()  # imports the commands, and so their runs
        if name in typed_runs:
            return partial(perform_typed, typed_runs[name])
    for entry in study_command:
        if function_name(entry.function) == name:
            found: RunFunction = entry.function
            return found
    raise InputError(f"{shown(name)} is no function of a command or paper of this version of weft")


#: Function that is called regularly during a run.
Watch = Callable[[Any], None]
