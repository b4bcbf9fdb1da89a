"""Writes any workload as a dense trace: the program of each rank, in numbers only."""

from __future__ import annotations

from collections.abc import Iterator

from weft.core.errors import NotApplicable
from weft.fabrics.formats.format_registry import printable
from weft.workload.trace.steps import CALC, SENDRECV, WAIT, WAITALL, RankReader, Step, StepColumns
from weft.workload.workload import Workload


def dense_text(workload: Workload) -> str:
    """A trace that holds every operation of every rank, and that gives the same workload again.

    Ranks are those of the world, sizes are bytes and times nanoseconds. Ranks in a row whose
    programs are equal share a block.

    Raises
    ------
    NotApplicable
        When something other than a put has a release time, or a phase or a communicator a name
        with a quotation mark in it.
    """
    return "".join(line + "\n" for line in _lines(workload))


def header(workload: Workload) -> list[str]:
    """The lines that say what a workload is: name, ranks, communicators and phases.

    Raises
    ------
    NotApplicable
        When a name cannot stand between quotation marks.
    """
    lines = [f"# {' '.join(note.split())}" for note in workload.notes]
    if workload.name:
        lines.append(f"NAME {quoted(printable(workload.name.replace(chr(34), chr(39))))}")
    lines.append(f"RANKS {workload.num_ranks}")
    for number, name in enumerate(workload.comm_names[1:], start=1):
        lines.append(f"COMMUNICATOR {number} {quoted(name)}")
    names = workload.phase_names
    if len(names) > 1:
        lines += [f"PHASE {quoted(name)}" for name in (*names[1:], names[0])]
    return lines


def quoted(text: str) -> str:
    """A text between quotation marks.

    Raises
    ------
    NotApplicable
        When it holds one itself, or a line break.
    """
    if '"' in text or not text.isprintable():
        raise NotApplicable(f"a trace cannot state the name {text!r}")
    return f'"{text}"'


def _lines(workload: Workload) -> Iterator[str]:
    yield from header(workload)
    reader = RankReader(workload)
    writer = StepWriter(workload)
    pending: list[str] = []
    first = 0
    for rank in range(workload.num_ranks + 1):
        lines = None
        if rank < workload.num_ranks:
            lines = writer.lines(reader.steps(rank))
        if lines == pending:
            continue
        if pending:
            last = rank - 1
            yield f"{first}:" if first == last else f"{first}..{last}:"
            yield from (f"  {line}" for line in pending)
            yield "END"
        pending, first = lines or [], rank


def number_text(value: int | float) -> str:
    """A number without what it does not need, from which the same number is read."""
    if isinstance(value, int):
        return str(value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


class StepWriter(StepColumns):
    """Writes steps as lines of numbers."""

    def __init__(self, workload: Workload):
        super().__init__(workload)
        self._phases = [quoted(name) for name in workload.phase_names]

    def lines(self, steps: list[Step]) -> list[str]:
        """Lines of one rank, which begins and ends in the first phase."""
        lines: list[str] = []
        waited: dict[int, str] = {step.op: step.request for step in steps if step.request}
        phase = 0
        for step in steps:
            if step.op >= 0 and self._phase[step.op] != phase:
                phase = self._phase[step.op]
                lines.append(f"PHASE {self._phases[phase]}")
            lines.append(self._line(step, waited))
        return lines

    def _line(self, step: Step, waited: dict[int, str]) -> str:
        op, verb = step.op, step.verb
        if verb == WAITALL:
            return verb
        if verb == WAIT:
            return f"WAIT {', '.join(waited[other] for other in step.waits)}"
        if verb == CALC:
            line = f"CALC {number_text(self._duration[op])}"
            if self._cpu and self._cpu[op]:
                line += f" CPU {self._cpu[op]}"
        elif verb in ("RODREQUEST", "RODDONE"):
            tag = f" TAG {self._size[op]}" if self._size[op] else ""
            line = f"{verb} KEY {self._tag[op]}{tag}{self._comm_text(op)}"
        else:
            line = self._message(verb, op)
            if step.request:
                line += f" AS {step.request}"
        if step.after is not None:
            named = [f"{back} START" if start else str(back) for back, start in step.after]
            line += f" AFTER {', '.join(named) or 'NOTHING'}"
        return line

    def _message(self, verb: str, op: int) -> str:
        size, peer = self._size[op], self._peer[op]
        if verb == SENDRECV:
            sent = self._size[op + 1]
            other = "" if sent == size else f", {size}"
            line = f"SENDRECV {sent} TO {self._peer[op + 1]}{other} FROM {peer}"
        else:
            way = "FROM" if verb.endswith("RECV") else "TO"
            line = f"{verb} {size} {way} {peer}"
        line += f" TAG {self._tag[op]}" if self._tag[op] else ""
        if verb == "PUT":
            if self._comm[op]:
                raise NotApplicable("a trace cannot state a put in a communicator")
            if self._release and self._release[op]:
                line += f" RELEASE {number_text(self._release[op])}"
            return line
        return line + self._comm_text(op)

    def _comm_text(self, op: int) -> str:
        return f" COMM {self._comm[op]}" if self._comm[op] else ""
