"""The registry of commands that a study can run, and what these commands share.

A command is added by a file in ``commands/`` with one function and one decorator::

    @command(
        "simulate", keys=Experiment, points=points, measures=MEASURES, tables=("jobs",),
        seeded=seeded, paths=absolute,
    )
    def simulate(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
        \"\"\"Run workloads on a routed fabric.\"\"\"

The facts are:

``keys``
    Model of the keys that the file has besides ``command`` and ``study``.
``points``
    Function from checked keys to the runs that their lists describe: `Point`.
``measures``
    Measures of a run; the first is the main one.
``tables``
    Names of the tables that a run can keep.
``seeded``
    Function that puts the seed of a repetition into the keys of a file.
``paths``
    Function that makes names of files absolute: checked keys and the folder of the file -> keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.core.registry import Registry
from weft.fabrics.topology import topology
from weft.routing import engine as engines

command = Registry(
    "command of a study", "weft.study.commands", "weft.study_commands",
    pipeline=("parameters", "watch"),
    facts=("keys", "points", "measures", "tables", "seeded", "paths"),
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


def with_seed(text: str, registries: Iterable[Registry], seed: int) -> str:
    """Return a spec with the option ``seed`` if its entry takes it and it is not given.

    Parameters
    ----------
    text
        Spec such as ``random`` or ``random-permutation:share=0.5``.
    registries
        Registries that may know the name.
    seed
        The seed.
    """
    name, colon, options = text.partition(":")
    for registry in registries:
        if name in registry:
            takes = "seed" in registry[name].options
            given = any(part.strip().startswith("seed=") for part in options.split(","))
            if takes and not given:
                return f"{text}{',' if options else '' if colon else ':'}seed={seed}"
    return text


def seeded_fabric(keys: dict[str, Any], seed: int) -> None:
    """Put a seed into the fabric, its random faults and the engines of a file's keys, in place."""
    fabric = keys.get("fabric")
    if isinstance(fabric, str):
        keys["fabric"] = with_seed(fabric, [topology], seed)
    elif isinstance(fabric, dict) and isinstance(fabric.get("source"), str):
        keys["fabric"] = {**fabric, "source": with_seed(fabric["source"], [topology], seed)}
    faults = keys.get("faults")
    if (
        isinstance(faults, dict)
        and (faults.get("random_cables") or faults.get("random_switches"))
        and "seed" not in faults
    ):
        keys["faults"] = {**faults, "seed": seed}
    if "engine" in keys:
        keys["engine"] = seeded_list(keys["engine"], [engines], seed)


def seeded_list(given: Any, registries: Iterable[Registry], seed: int) -> Any:
    """Return a spec, or a list of specs, with the seed; other values as they are."""
    if isinstance(given, str):
        return with_seed(given, registries, seed)
    if isinstance(given, list | tuple):
        return [seeded_list(each, registries, seed) for each in given]
    return given
