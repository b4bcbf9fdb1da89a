"""Loading of a workload from a file or from the spec of an application, collective or pattern."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from weft.core.errors import InputError, NotApplicable
from weft.core.files import is_source
from weft.core.registry import Registry, did_you_mean
from weft.core.units import parse_bytes
from weft.workload.apps import application, application_workload
from weft.workload.apps import depends_on_places as application_depends_on_places
from weft.workload.apps.one_shot import pattern_workload
from weft.workload.collectives import (
    COLLECTIVES,
    check_collective,
    collective,
    collective_workload,
    depends_on_machines,
)
from weft.workload.formats import read_workload, workload_reader
from weft.workload.patterns import pattern
from weft.workload.places import Places
from weft.workload.rolled import RolledBuilder, RolledWorkload
from weft.workload.workload import Workload

#: Size of each message of a workload that is loaded from the spec of a pattern.
PATTERN_BYTES = parse_bytes("64KiB")


def load_workload(
    spec_or_path: str | Path,
    num_ranks: int | None = None,
    *,
    format: str | None = None,
    places: Places | None = None,
    **options: Any,
) -> Workload:
    """Read a workload from a file, or construct it from a spec.

    Parameters
    ----------
    spec_or_path
        A file (``"-"`` is standard input) or folder; or the name of an application, a collective
        or a traffic pattern with options (``"hpcg:iterations=5"``,
        ``"allreduce:size=1MiB,algorithm=ring"``, ``"transpose"``). A file takes precedence over an
        application, and an application over a collective or pattern. A pattern is one message of 64
        KiB for each of its flows; the application ``pattern`` has more options.
    num_ranks
        Number of ranks; required for a spec. Most files give the number of ranks; if
        `num_ranks` is given, too, the numbers must be equal.
    format
        Format of the file; if left out, it follows from the file's name or contents.
    places
        Machines and processors of the ranks, for applications that depend on them; by default, each
        rank has a machine of its own.
    options
        Options of the format or of the application.

    Raises
    ------
    InputError
        When `spec_or_path` is neither a file nor a known name, or the file, spec or options are
        wrong.
    NotApplicable
        When the workload does not exist for this number of ranks.

    Examples
    --------
    >>> load_workload("barrier", 4)
    Workload('barrier': 4 ranks, 16 operations, 8 messages)
    """
    text = str(spec_or_path)
    if isinstance(spec_or_path, Path) or format is not None or is_source(text):
        given = {} if num_ranks is None else {"ranks": num_ranks}
        return read_workload(spec_or_path, format, **{**given, **options})
    kind = _kind_of(text)
    if num_ranks is None:
        raise InputError(f"{text} needs a number of ranks: num_ranks, or --ranks")
    if kind is application:
        return application_workload(text, num_ranks, places=places, **options)
    _refuse_options(text, options)
    if kind is collective:
        return collective_workload(text, num_ranks, places=places)
    return pattern_workload(num_ranks, text, PATTERN_BYTES)


def load_rolled(
    spec: str, num_ranks: int | None, *, places: Places | None = None, above: int = -1,
    **options: Any,
) -> RolledWorkload:  # fmt: skip
    """Construct a workload from a spec, with the operations that ranks have in common stored once.

    Collectives, the applications ``train`` and ``ring-allreduce``, and files ``.trace`` with loops
    can be rolled if most operations are common to ranks. Arguments are those of `load_workload`; a
    workload must have more operations than `above`.

    Raises
    ------
    NotApplicable
        When the spec names anything else, or a small workload, or one of which little is common.
    """
    text = str(spec)
    made: Any = None
    if os.path.isfile(text) and any(
        "builder" in signature(entry.function).parameters
        for entry in workload_reader.of_suffix(text)
    ):
        if num_ranks is not None:
            options["ranks"] = num_ranks
        made = read_workload(text, builder=partial(RolledBuilder, above=above), **options)
    elif num_ranks is not None and not is_source(text):
        builder, kind = RolledBuilder(num_ranks, name=text, above=above), _kind_of(text)
        if kind is application:
            made = application_workload(text, num_ranks, places=places, builder=builder, **options)
        elif kind is collective:
            made = collective_workload(text, num_ranks, places=places, builder=builder)
    if made is None:
        raise NotApplicable(f"{text} has no operations that are known to be common to ranks")
    assert isinstance(made, RolledWorkload)
    return made


def depends_on_places(spec: str) -> bool:
    """Return whether the workload of a spec depends on the machines and processors of ranks."""
    return application_depends_on_places(spec) or depends_on_machines(spec)


def check_workload(spec: str, options: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Refuse the spec of a workload that is wrong for every number of ranks; make no workload.

    `spec`: the spec; not the name of a file. `options`: as in `load_workload`.
    """
    kind = _kind_of(spec)
    if kind is application:
        entry, given = application.parse(spec, options)
        passed = entry.facts.get("passes_on")
        own = {k: v for k, v in given.items() if k in entry.options} if passed else given
        application.bind(entry, own)
        return
    _refuse_options(spec, options)
    if kind is collective:
        check_collective(spec)
    else:
        pattern.bind(*pattern.parse(spec))


def _refuse_options(text: str, options: Mapping[str, Any]) -> None:
    if options:
        raise InputError(f"{text}: {', '.join(options)} must be written in the spec itself")


def _kind_of(text: str) -> Registry:
    """Return the registry that has the name of a spec."""
    name = text.partition(":")[0].strip()
    kinds = application, collective, pattern
    for kind in kinds:  # a plug-in's application comes before a collective
        if kind.has_module_of(name) or (kind.has_plugins() and name in kind):
            return kind
    for kind in kinds:  # imports all
        if name in kind:
            return kind
    known = [*application.names(), *COLLECTIVES, *collective.names(), *pattern.names()]
    raise InputError(
        f"{text!r} is neither a file nor a workload: no such file, and no application, "
        f"collective or pattern {name!r}{did_you_mean(name, known)}; expected a file or a name "
        "of 'weft list applications', 'weft list collectives' or 'weft list patterns'"
    )
