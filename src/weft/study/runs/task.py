"""One run of many: the function, the parameters that determine its result, and the result."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
import stat
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.core.files import files_in_spec, listed_files
from weft.study.runs.versions import build_of

if TYPE_CHECKING:
    import polars as pl

Status = Literal[
    "complete",
    "partial",
    "does not fit",
    "failed",
    "stopped",
    "out of time",
    "out of memory",
    "lost",
]
#: Statuses that the same run would have again, on any machine and with any limits.
SETTLED = frozenset({"complete", "does not fit", "failed"})
#: Most files of a folder that is an input; a store could name ``/``.
MOST_FILES = 20_000
#: Type of the values of measures.
Value = float | int | str | bool | None


@dataclass(frozen=True)
class RunResult:
    """Result of one run.

    Parameters
    ----------
    measures
        Name -> value. A name has the unit as a suffix.
    tables
        Name -> table of details, such as the links.
    status
        ``complete``, or ``partial``, ``stopped`` or ``does not fit`` with a reason.
    reason
        Reason why the result is missing or partial.
    """

    measures: Mapping[str, Value] = field(default_factory=dict)
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    status: Status = "complete"
    reason: str = ""


#: Function of a module that performs a run from its parameters, or a partial of one; see
#: `weft.core.pool.RunTask`.
RunFunction = Callable[[Mapping[str, Any], Callable[[Any], None]], RunResult]
#: Function that returns the registered function of a name, for parameters that a file gives.
Registered = Callable[[str, Mapping[str, Any]], RunFunction]


def function_name(function: Callable[..., Any]) -> str:
    """Return a function of a module as ``module:name``."""
    whole = function.func if isinstance(function, partial) else function
    return f"{whole.__module__}:{whole.__name__}"


def computing_functions(function: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the functions that a run calls: its own, and that which a typed run names."""
    inner = parameters.get("run")
    return (function, inner) if isinstance(inner, str) else (function,)


@dataclass(frozen=True)
class Task:
    """One run."""

    #: The function. A name in a file becomes a function only by a registry, never by an import.
    perform: RunFunction
    #: Its parameters, as values of JSON. Together with the contents of the files that they name,
    #: they determine the result.
    parameters: Mapping[str, Any]
    #: Path of each file or folder that the parameters name -> hash of its contents.
    inputs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, perform: RunFunction, parameters: Mapping[str, Any], inputs: Inputs | None = None
    ) -> Task:
        """Return a run, with the hashes of the files that its parameters name.

        Tasks that are made with the same `inputs` read each file once.
        """
        return cls(perform, parameters, (inputs or Inputs()).of(parameters))

    @property
    def function(self) -> str:
        """Name of the function, as ``module:name``."""
        return function_name(self.perform)

    @property
    def build(self) -> str:
        """Version of weft with a hash of what computes the run."""
        return build_of(*computing_functions(self.function, self.parameters))

    @cached_property
    def key(self) -> str:
        """Hash of all that determines the result: 32 hexadecimal digits.

        Names of files do not count, only their contents.
        """
        text = json.dumps([self.function, self.parameters], sort_keys=True, ensure_ascii=False)
        # The longest name first, since it may contain another.
        for name in sorted(self.inputs, key=len, reverse=True):
            text = text.replace(json.dumps(name, ensure_ascii=False)[1:-1], self.inputs[name])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def files_in(text: str) -> tuple[str, ...]:
    """Return the absolute names of existing files and folders in a text.

    The text may be a name itself, or contain names as options of a spec:
    ``file:lfts_file=tables.dump``. A name contains a full stop or a slash: a folder called
    ``minhop`` does not make the engine of that name a file.
    """
    if ("." in text or "/" in text) and os.path.exists(text):
        return (text,)
    return tuple(text[start:end] for start, end in files_in_spec(text, os.path.isfile))


class Inputs:
    """Files that parameters of runs name, and hashes of their contents; each is read once."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, ...]] = {}
        self._hashes: dict[str, str] = {}

    def of(self, parameters: Mapping[str, Any]) -> dict[str, str]:
        """Return the name of each file -> hash of its contents."""
        names = self._names(parameters)
        for name in names - self._hashes.keys():
            self._hashes[name] = contents(name)
        return {name: self._hashes[name] for name in sorted(names)}

    def are(self, parameters: Mapping[str, Any], inputs: Mapping[str, str]) -> bool:
        """Return whether these are all files that parameters name, with these contents.

        If there are others, none is read: parameters of a store may name any file.
        """
        return self._names(parameters) == inputs.keys() and self.of(parameters) == dict(inputs)

    def _names(self, parameters: Mapping[str, Any]) -> set[str]:
        names: set[str] = set()
        for text in _texts(parameters):
            if text not in self._files:
                self._files[text] = files_in(text)
            names.update(self._files[text])
        return names


@lru_cache(4096)
def _hash_of(path: str, size: int, changed_ns: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def contents(path: str) -> str:
    """Return a hash of the contents of a file, or of all files of a folder.

    A list of files, one per line, has the contents of these files, too.
    """
    if os.path.isdir(path):
        inside = (each for each in Path(path).rglob("*") if each.is_file())
        files = list(islice(inside, MOST_FILES + 1))
        if len(files) > MOST_FILES:
            raise InputError(f"has more than {MOST_FILES:,} files", file=path)
        parts = [f"{each.relative_to(path)}={contents(str(each))}" for each in sorted(files)]
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    try:
        parts = [_of_file(path), *(_of_file(str(each)) for each in listed_files(Path(path)))]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    return parts[0] if len(parts) == 1 else hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _of_file(path: str) -> str:
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode):  # such as a device, which may have no end
        raise InputError("is not a regular file", file=path)
    return _hash_of(path, about.st_size, about.st_mtime_ns)


def changed_inputs(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each file that no longer has these contents -> what is wrong with it.

    `inputs`: as in `Task`.
    """
    wrong = {}
    for name, digest in inputs.items():
        try:
            if contents(name) != digest:
                wrong[name] = "has changed"
        except InputError as error:
            wrong[name] = error.message
    return wrong


@dataclass(frozen=True)
class Packed:
    """Result of one run, ready to be stored or sent."""

    #: As in `RunResult`; also the other statuses.
    status: Status
    reason: str = ""
    #: Measures as JSON.
    measures: str = "{}"
    #: Name -> contents of a Parquet file.
    tables: Mapping[str, bytes] = field(default_factory=dict)
    #: Traceback of an unexpected error.
    details: str = ""
    #: Name of the machine that performed the run.
    host: str = field(default_factory=platform.node)


def perform(shared: None, task: Task, watch: Callable[[Any], None]) -> Packed:
    """Perform a run and pack its result; an error becomes part of the result."""
    try:
        result = task.perform(task.parameters, watch)
        for name, reason in changed_inputs(task.inputs).items():
            return Packed("lost", f"{name}: {reason} while the study ran")
        tables = {name: _parquet(table) for name, table in result.tables.items()}
        return Packed(result.status, result.reason, _json(result.measures), tables)
    except MemoryError as error:
        return Packed("out of memory", str(error) or "not enough memory")
    except NotApplicable as error:
        return Packed("does not fit", str(error))
    except WeftError as error:
        return Packed("failed", str(error))
    except Exception as error:
        # One run with a fault in the code does not stop the others; its traceback is kept.
        text = f"unexpected {type(error).__name__}: {error}"
        return Packed("failed", text, details=traceback.format_exc())


def _json(measures: Mapping[str, Value]) -> str:
    """Return measures as JSON, which has no NaN: null; infinity is a number beyond all others."""
    parts = []
    for name, value in measures.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, float) and not math.isfinite(value):
            text = "null" if math.isnan(value) else text.replace("Infinity", "9e999")
        parts.append(f"{json.dumps(name, ensure_ascii=False)}: {text}")
    return "{" + ", ".join(parts) + "}"


def _parquet(table: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()
