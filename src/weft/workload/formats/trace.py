"""The MPI trace language as a file format; `weft.workload.trace` is the language itself."""

from __future__ import annotations

import re
from pathlib import Path

from weft.core.errors import InputError
from weft.workload.formats.workload_format_registry import workload_reader, workload_writer
from weft.workload.trace import dense_text, folded_text, trace_workload
from weft.workload.trace.keywords import COLLECTIVES, HEADS
from weft.workload.trace.lowering import MAX_OPERATIONS
from weft.workload.workload import Workload

_START = re.compile(
    rf"(?:\s|#[^\n]*\n)*(?:(?:{'|'.join((*HEADS, *COLLECTIVES))})\b|[\d(][^\n]*:)", re.IGNORECASE
)


def parameters_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Values by name from texts such as ``n=64KiB``.

    Raises
    ------
    InputError
        When a text is not of this form, or names a parameter again.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise InputError(f"{text!r} sets no parameter; expected name=value, such as n=64KiB")
        if name.strip() in found:
            raise InputError(f"parameter {name.strip()} is set twice")
        found[name.strip()] = value.strip()
    return found


@workload_reader(
    "trace", suffixes=(".trace",), sniff=lambda text, _path: _START.match(text) is not None
)
def read(
    text: str,
    file: str,
    *,
    ranks: int | None = None,
    seed: int | None = None,
    parameters: tuple[str, ...] = (),
    max_operations: int = MAX_OPERATIONS,
) -> Workload:
    """The MPI trace language: one program for all ranks, symbolic or dense.

    Parameters
    ----------
    text, file
        The contents of a file and its name.
    ranks
        How many ranks run the program; needed when it has no RANKS line.
    seed
        Seed of the computing times, instead of the program's.
    parameters
        Values for the program's parameters, such as ``n=64KiB``.
    max_operations
        Most operations that the program may unfold to.

    Raises
    ------
    InputError
        With line and column, when the program is not right.
    NotApplicable
        When the program is for another number of ranks.
    """
    return trace_workload(
        text,
        str(Path(file)),
        ranks=ranks,
        seed=seed,
        parameters=parameters_of(parameters),
        max_operations=max_operations,
    )


@workload_writer("trace", suffixes=(".trace",))
def write(workload: Workload, *, fold: bool = False) -> str:
    """The MPI trace language: each rank's operations in numbers, or folded.

    Parameters
    ----------
    workload
        What to write.
    fold
        Write what ranks share once, and repetitions as loops.

    Raises
    ------
    NotApplicable
        On a release time of something other than a put, or a name that cannot be quoted.
    """
    return folded_text(workload) if fold else dense_text(workload)
