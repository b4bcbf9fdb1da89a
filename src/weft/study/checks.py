"""Checks of the keys of a study before anything runs, names of files, and seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from weft.core.errors import InputError
from weft.core.files import each_text, names_file, renamed_spec
from weft.core.registry import Registry
from weft.core.toml_lines import KeyPath
from weft.fabrics.formats import reader
from weft.fabrics.load import check_source
from weft.fabrics.topology import topology
from weft.routing import engine as engines
from weft.sim.common.host_parameters import read_host_parameters
from weft.sim.flit import routing as routings
from weft.sim.flow.contention.coefficients import read_coefficients
from weft.sim.options import check_policy
from weft.workload.apps import application
from weft.workload.collectives import collective
from weft.workload.formats import workload_reader
from weft.workload.load import check_workload
from weft.workload.patterns import pattern as patterns
from weft.workload.placement import placement as placements

#: Registries of the texts that name a workload.
#: Keys of a fabric whose value may be the name of a file.
FABRIC_FILES = ("source", "names", "also", "machines", "node")
WORKLOADS = (application, collective, patterns)


class WrongKey(InputError):
    """A value of a key is wrong.

    Parameters
    ----------
    message
        What is wrong and what was expected.
    path
        Path of the key.
    """

    def __init__(self, message: str, path: KeyPath) -> None:
        super().__init__(message)
        self.path = path

    @classmethod
    def of(cls, error: InputError, keys: BaseModel) -> WrongKey:
        """Return an error of settings as that of the key with their name, if there is one."""
        return cls(error.message, (error.key,) if error.key in type(keys).model_fields else ())


# -- names of files --------------------------------------------------------------------------------


class Files:
    """Files that the keys of a study name: in the folder of its file, or in the working folder.

    Parameters
    ----------
    folder
        Folder of the file of the study.
    keys
        Names of keys whose value may be the name of a file.
    """

    def __init__(self, folder: Path, keys: Collection[str] = ()) -> None:
        self._folder = folder
        self._keys = frozenset(keys)
        self._found: dict[str, str | None] = {}
        self._known: dict[tuple[str, bool], str] = {}

    def find(self, name: str) -> str | None:
        """Return the absolute path of an existing file or folder, or None."""
        if name not in self._found:
            paths = (os.path.join(self._folder, name), name)
            self._found[name] = next((os.path.abspath(p) for p in paths if os.path.exists(p)), None)
        return self._found[name]

    def absolute(self, value: Any) -> Any:
        """Return parameters with absolute paths in place of the names of files."""
        return each_text(value, self._text)

    def _text(self, text: str, key: str) -> str:
        whole = key in self._keys
        if (text, whole) not in self._known:
            self._known[text, whole] = self._renamed(text, whole)
        return self._known[text, whole]

    def _renamed(self, text: str, whole: bool) -> str:
        if whole and (path := self.find(text)):
            return path
        return renamed_spec(text, self._file)

    def _file(self, name: str) -> str | None:
        path = self.find(name)
        return path if path and os.path.isfile(path) else None


# -- checks ----------------------------------------------------------------------------------------


@lru_cache(65536)
def _problem(check: Callable[..., object], *arguments: Any) -> str:
    """Return why a check refuses its arguments; empty if it does not."""
    try:
        check(*arguments)
    except InputError as error:
        return str(error)
    return ""


def check_with(path: KeyPath, check: Callable[..., object], *arguments: Any) -> None:
    """Call a check once for equal arguments."""
    if problem := _problem(check, *arguments):
        raise WrongKey(problem, path)


def _bind(registry: Registry, text: str) -> None:
    registry.bind(*registry.parse(text))


def check_specs(
    registry: Registry, texts: Iterable[str] | None, files: Files, *path: str | int
) -> None:
    """Check specs of a registry, and that the files exist that they name; refuse equal ones."""
    for number, text in enumerate(texts or ()):
        check_spec(registry, text, files, *path, number)
    check_distinct(texts or (), *path)


def check_spec(registry: Registry, text: str, files: Files, *path: str | int) -> None:
    """Check a spec of a registry, and that the files exist that it names."""
    check_with(path, _bind, registry, text)
    for option, name in _named_files(registry, text):
        if files.find(name) is None:
            raise WrongKey(f"{text}: {option}: there is no file {name!r}", path)


@lru_cache(65536)
def _named_files(registry: Registry, text: str) -> tuple[tuple[str, str], ...]:
    """Return the options of a spec that are names of files, and these names."""
    entry, given = registry.parse(text)
    return tuple(
        (option, str(value))
        for option, value in registry.bind(entry, given).items()
        if names_file(option, entry.facts.get("needs", "")) and isinstance(value, str | Path)
    )


def check_distinct(values: Iterable[Any], *path: str | int) -> None:
    """Refuse a list that has a value twice."""
    seen = set()
    for number, value in enumerate(values):
        if value in seen:
            raise WrongKey(f"{path[-1]}: {value!r} is listed twice", (*path, number))
        seen.add(value)


def check_file(files: Files, name: str | None, *path: str | int) -> None:
    """Refuse the name of a file that does not exist."""
    if name is not None and files.find(name) is None:
        key = next(part for part in reversed(path) if isinstance(part, str))
        raise WrongKey(f"{key}: there is no file {name!r}", path)


def check_fabric(keys: Any, files: Files) -> None:
    """Check the keys ``fabric`` and ``faults``; nothing is built.

    Raises
    ------
    WrongKey
        If one is wrong.
    """
    fabric = keys.fabric
    if fabric.format is not None:
        check_with(("fabric", "format"), _bind, reader, fabric.format)
        check_file(files, fabric.source, "fabric", "source")
    elif files.find(fabric.source) is None:
        check_with(("fabric", "source"), check_source, fabric.source)
    check_file(files, fabric.names, "fabric", "names")
    for at, name in enumerate(fabric.also or ()):
        check_file(files, name, "fabric", "also", at)


def check_methods(keys: Any, files: Files) -> None:
    """Check the keys ``engine``, ``routing`` and ``level``."""
    check_specs(engines, keys.engine, files, "engine")
    check_specs(routings, keys.routing, files, "routing")
    check_distinct(keys.level, "level")
    if keys.routing and "flit" not in keys.level:
        raise WrongKey("routing requires level flit", ("routing",))


def check_models(keys: Any, sharing: Sequence[str], files: Files) -> None:
    """Check the keys ``host_parameters`` and ``coefficients``, for the sharing ``penalty``."""
    if keys.host_parameters is not None:
        check_file(files, keys.host_parameters, "host_parameters")
        check_with(("host_parameters",), read_host_parameters, files.find(keys.host_parameters))
    name = keys.coefficients
    if name is not None:
        check_file(files, name, "coefficients")
        check_with(("coefficients",), read_coefficients, files.find(name))
        if "penalty" not in sharing:
            raise WrongKey("coefficients require sharing penalty", ("coefficients",))


def check_policies(levels: Sequence[str], specs: Sequence[str] | None) -> None:
    """Check policies: each must be one of some level."""
    for number, spec in enumerate(specs or ()):
        problems = [_problem(check_policy, level, spec) for level in levels if level != "static"]
        if not problems:
            raise WrongKey("policy requires level packet or flit", ("policy",))
        if all(problems):
            raise WrongKey(problems[0], ("policy", number))
    check_distinct(specs or (), "policy")


def check_job(job: Any, number: int, files: Files) -> None:
    """Check the workloads and placements of a job."""
    where = ("job", number)
    if job.format is not None:
        check_with((*where, "format"), _bind, workload_reader, job.format)
    for at, text in enumerate(job.workload):
        path = (*where, "workload", at)
        if job.format is not None:
            check_file(files, text, *path)
        else:
            check_workload_text(text, files, *path, options=job.options)
    check_distinct(job.workload, *where, "workload")
    check_specs(placements, job.placement, files, *where, "placement")


def check_workload_text(
    text: str, files: Files, *path: str | int, options: Mapping[str, Any] | None = None
) -> None:
    """Check a workload, a spec or the name of a file."""
    if files.find(text) is not None:
        return
    if not options:
        check_with(path, check_workload, text)
        return
    try:
        check_workload(text, options)
    except InputError as error:
        raise WrongKey(error.message, path) from None


# -- seeds -----------------------------------------------------------------------------------------


@lru_cache(65536)
def _takes_seed(text: str, registries: tuple[Registry, ...]) -> bool:
    """Return whether a spec draws at random and does not give the option ``seed``."""
    name = text.partition(":")[0].strip()
    for registry in registries:
        if name not in registry:
            continue
        entry, given = registry.parse(text)
        if registry is collective:  # sizes are drawn only if they differ
            return "seed" not in given and float(given.get("spread", 0)) > 0
        if "seed" not in entry.options or "seed" in given:
            return False
        usual = {option: each.default for option, each in entry.options.items()}
        draws = entry.facts.get("draws")
        return draws is None or bool(draws({**usual, **registry.bind(entry, given)}))
    return False


def with_seed(text: str, seed: int, *registries: Registry) -> str:
    """Return a spec with the option ``seed`` if its entry takes it and it is not given.

    `text`: spec such as ``random`` or ``random-permutation:share=0.5``. `registries`: registries
    that may know the name; the first that does counts.
    """
    if not _takes_seed(text, registries):
        return text
    separator = "" if text.endswith(":") else "," if ":" in text else ":"
    return f"{text}{separator}seed={seed}"


def seeded(parameters: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Put a seed into the fabric, its random faults, the engine, the pattern, and ``seed``.

    `given`: keys as the file gives them; seeds among these stay.
    """
    changed = dict(parameters)
    if "fabric" in changed:
        fabric = changed["fabric"]
        changed["fabric"] = {**fabric, "source": with_seed(fabric["source"], seed, topology)}
    faults = changed.get("faults", {})
    if (faults.get("random_cables") or faults.get("random_switches")) and "seed" not in given.get(
        "faults", {}
    ):
        changed["faults"] = {**faults, "seed": seed}
    for key, registry in (("engine", engines), ("routing", routings), ("pattern", patterns)):
        if isinstance(changed.get(key), str):
            changed[key] = with_seed(changed[key], seed, registry)
    if "seed" in changed and "seed" not in given:
        changed["seed"] = seed
    return changed
