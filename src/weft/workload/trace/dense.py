"""Conversion of workloads to statements (steps), and to dense traces, which have only numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from weft.core.errors import NotApplicable
from weft.fabrics.formats.format_registry import printable
from weft.workload.workload import Kind, Workload

#: Verbs of steps that are not messages.
CALC, WAIT, WAITALL, SENDRECV = "CALC", "WAIT", "WAITALL", "SENDRECV"

_VERBS = {
    Kind.CALC: CALC,
    Kind.SEND: "SEND",
    Kind.RECV: "RECV",
    Kind.PUT: "PUT",
    Kind.KEY_REQUEST: "RODREQUEST",
    Kind.KEY_DONE: "RODDONE",
}


@dataclass(slots=True)
class Step:
    """One statement of a rank's program."""

    #: First word of the statement.
    verb: str
    #: Operation of the statement; -1 for a `WAIT` that adds no operation. For `SENDRECV`, the
    #: receive; the send is the next operation.
    op: int
    #: For `WAIT`, the operations that it waits for.
    waits: tuple[int, ...] = ()
    #: Explicit dependencies that replace the order of statements: the distance back to each
    #: operation, and whether only its start is waited for. None if the order of statements applies.
    after: tuple[tuple[int, bool], ...] | None = None
    #: Request name for a later `WAIT`.
    request: str = ""


class RankReader:
    """Reader of a workload's programs, one rank at a time."""

    def __init__(self, workload: Workload):
        self._workload = workload
        self._kind = workload.kind.tolist()
        self._phase = workload.phase.tolist()
        self._tag = workload.tag.tolist()
        self._comm = workload.comm.tolist()
        self._offset = workload.dep_offset.tolist()
        self._dep = workload.dep.tolist()
        self._start = workload.dep_on_start.tolist()
        idle = (workload.kind == Kind.CALC) & (workload.duration_ns == 0)
        if len(workload.cpu):
            idle &= workload.cpu == 0
        self._idle = idle.tolist()
        if len(workload.release_ns):
            wrong = (workload.release_ns != 0) & (workload.kind != Kind.PUT)
            if wrong.any():
                raise NotApplicable(
                    f"{workload.describe(int(wrong.argmax()))} has a release time, which is "
                    "possible only for PUT"
                )

    def steps(self, rank: int) -> list[Step]:
        """Return the statements of a rank."""
        first, end = (int(x) for x in self._workload.op_offset[rank : rank + 2])
        steps: list[Step] = []
        frontier: frozenset[int] = frozenset()
        open_: set[int] = set()
        op = first
        while op < end:
            needs = frozenset(self._needs(op))
            plain = not (self._start and any(self._starts(op)))
            more = needs - frontier
            named = plain and frontier <= needs and more <= open_
            if not named:
                steps.append(self._after(op))
                op += 1
                continue
            if more and self._idle[op] and (len(more) + len(frontier) > 2 or more == open_):
                if more == open_:
                    steps.append(Step(WAITALL, op))
                else:
                    steps.append(Step(WAIT, op, tuple(sorted(more))))
                open_ -= more
                frontier = frozenset((op,))
                op += 1
                continue
            if len(more) + len(frontier) > 2:
                steps.append(self._after(op))
                op += 1
                continue
            for other in sorted(more):
                steps.append(Step(WAIT, -1, (other,)))
                open_.discard(other)
            frontier |= more
            kind = self._kind[op]
            if kind in (Kind.CALC, Kind.KEY_REQUEST, Kind.KEY_DONE):
                steps.append(Step(_VERBS[Kind(kind)], op))
                frontier = frozenset((op,))
            elif kind == Kind.PUT:
                steps.append(Step("PUT", op))
                open_.add(op)
            elif self._is_pair(op, end, frontier):
                steps.append(Step(SENDRECV, op))
                frontier = frozenset((op, op + 1))
                op += 1
            else:
                verb = "SEND" if kind == Kind.SEND else "RECV"
                if self._blocks(op, end, frontier):
                    steps.append(Step(verb, op))
                    frontier = frozenset((op,))
                else:
                    steps.append(Step("I" + verb, op))
                    open_.add(op)
            op += 1
        _name_requests(steps)
        return steps

    def _needs(self, op: int) -> list[int]:
        needs: list[int] = self._dep[self._offset[op] : self._offset[op + 1]]
        return needs

    def _starts(self, op: int) -> list[bool]:
        starts: list[bool] = self._start[self._offset[op] : self._offset[op + 1]]
        return starts

    def _after(self, op: int) -> Step:
        """Return a statement with explicit dependencies."""
        kind = Kind(self._kind[op])
        needs = self._needs(op)
        starts = self._starts(op) if self._start else [False] * len(needs)
        after = tuple((op - need, start) for need, start in zip(needs, starts, strict=True))
        return Step(_VERBS[kind], op, after=after)

    def _is_pair(self, op: int, end: int, frontier: frozenset[int]) -> bool:
        """Return whether a receive and the next send form a `SENDRECV`.

        They have the same dependencies, and the next operation waits for both.
        """
        other = op + 1
        if other >= end or (self._kind[op], self._kind[other]) != (Kind.RECV, Kind.SEND):
            return False
        alike = all(column[op] == column[other] for column in (self._phase, self._tag, self._comm))
        plain = not (self._start and any(self._starts(other)))
        if not (alike and plain and frontier == set(self._needs(other))):
            return False
        if other + 1 == end:
            return True
        if self._idle[other + 1]:
            return False  # an operation of 0 ns waits for IRECV and ISEND
        after = set(self._needs(other + 1))
        return {op, other} <= after and (after == {op, other} or not frontier <= after)

    def _blocks(self, op: int, end: int, frontier: frozenset[int]) -> bool:
        """Return whether the next operation waits for this one instead of the earlier ones."""
        if op + 1 >= end:
            return True
        after = set(self._needs(op + 1))
        return after == {op} or (op in after and not frontier <= after)


def _name_requests(steps: Sequence[Step]) -> None:
    """Give request names, as few as possible, to the operations in `WAIT` statements."""
    waited = {op for step in steps for op in step.waits}
    names: dict[int, int] = {}
    free: list[int] = []
    for step in steps:
        if step.verb in (WAIT, WAITALL):
            for op in step.waits:
                if op in names:
                    heappush(free, names.pop(op))
        elif step.op in waited and step.after is None:
            number = heappop(free) if free else len(names)
            names[step.op] = number
            step.request = f"r{number}"


def dense_text(workload: Workload) -> str:
    """Return a trace with every operation of every rank, which reads back as the same workload.

    Ranks are those of the world, sizes are bytes and times nanoseconds. Consecutive ranks with
    equal programs share a block.
    """
    return "".join(line + "\n" for line in _lines(workload))


def _header(workload: Workload) -> list[str]:
    """Return the first lines of a trace: notes, name, ranks, communicators and phases."""
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
    """Return a text in quotation marks."""
    if '"' in text or not text.isprintable():
        raise NotApplicable(f"a trace cannot express the name {text!r}")
    return f'"{text}"'


def _lines(workload: Workload) -> Iterator[str]:
    yield from _header(workload)
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
    """Return the shortest text that reads back as the same number."""
    if isinstance(value, int):
        return str(value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


class StepWriter:
    """Writer of steps as lines with numbers."""

    def __init__(self, workload: Workload):
        # Single values are read fastest from lists.
        self._peer = workload.peer.tolist()
        self._size = workload.size_bytes.tolist()
        self._tag = workload.tag.tolist()
        self._comm = workload.comm.tolist()
        self._duration = workload.duration_ns.tolist()
        self._phase = workload.phase.tolist()
        self._release = workload.release_ns.tolist()
        self._cpu = workload.cpu.tolist()
        self._phases = [quoted(name) for name in workload.phase_names]

    def lines(self, steps: list[Step]) -> list[str]:
        """Return the lines of one rank; its program begins in the first phase."""
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
            direction = "FROM" if verb.endswith("RECV") else "TO"
            line = f"{verb} {size} {direction} {peer}"
        line += f" TAG {self._tag[op]}" if self._tag[op] else ""
        if verb == "PUT":
            if self._comm[op]:
                raise NotApplicable("a trace cannot express a put in a communicator")
            if self._release and self._release[op]:
                line += f" RELEASE {number_text(self._release[op])}"
            return line
        return line + self._comm_text(op)

    def _comm_text(self, op: int) -> str:
        return f" COMM {self._comm[op]}" if self._comm[op] else ""
