"""The MPI trace language as a file format; `weft.workload.trace` is the language itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.core.errors import InputError, NotApplicable
from weft.workload.formats.workload_format_registry import workload_reader, workload_writer
from weft.workload.trace import dense_text, trace_workload
from weft.workload.trace.keywords import COLLECTIVES, HEADS
from weft.workload.trace.lowering import MAX_OPERATIONS
from weft.workload.workload import Workload

_START = re.compile(
    rf"(?:\s|#[^\n]*\n)*(?:(?:{'|'.join((*HEADS, *COLLECTIVES))})\b|[\d(][^\n]*:)", re.IGNORECASE
)

_LOOP = re.compile(r"\b(?:REPEAT|FOR)\b", re.IGNORECASE)


def parameters_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Return values by name from texts such as ``n=64KiB``."""
    parameters: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise InputError(f"{text!r} is not a parameter; expected name=value, such as n=64KiB")
        if name.strip() in parameters:
            raise InputError(f"parameter {name.strip()} is set twice")
        parameters[name.strip()] = value.strip()
    return parameters


@workload_reader(
    "trace", suffixes=(".trace",), sniff=lambda text, _path: _START.match(text) is not None
)
def read(
    text: str,
    file: str,
    builder: Callable[..., Any] | None = None,
    *,
    ranks: int | None = None,
    seed: int | None = None,
    parameters: tuple[str, ...] = (),
    max_operations: int = MAX_OPERATIONS,
) -> Any:
    """Read the MPI trace language: one program for all ranks, with expressions or numbers.

    Parameters
    ----------
    ranks
        Number of ranks; required if the program has no RANKS line.
    seed
        Seed of the computing times, instead of the program's.
    parameters
        Values of the program's parameters, such as ``n=64KiB``.
    max_operations
        Largest number of operations of the program.

    Raises
    ------
    InputError
        If the program has an error; the message gives line and column.
    NotApplicable
        If the program is for another number of ranks, or has no loops and a `builder` is given.
    """
    if builder is not None and not _LOOP.search(text):
        raise NotApplicable("a trace without loops has each operation once")
    return trace_workload(
        text, str(Path(file)), ranks=ranks, seed=seed, parameters=parameters_of(parameters),
        max_operations=max_operations, builder=builder,
    )  # fmt: skip


@workload_writer("trace", suffixes=(".trace",))
def write(workload: Workload) -> str:
    """Write the MPI trace language: the program of each rank.

    Raises
    ------
    NotApplicable
        If an operation other than a put has a release time, or a name cannot be quoted.
    """
    return dense_text(workload)
