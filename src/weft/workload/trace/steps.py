"""Reads a rank's operations back as the statements that make them.

A workload holds operations and what each waits for; a program has blocking and non-blocking
statements and waits. Here the second is found from the first, so that the same builder makes the
same workload again. What no order of statements makes keeps its dependencies in words (``AFTER``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from weft.core.errors import NotApplicable
from weft.workload.workload import Kind, Workload

#: Statements that a step can be, besides those of messages.
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
    """One statement of a rank's program.

    Parameters
    ----------
    verb
        Its first word.
    op
        The operation that it makes; -1 for a `WAIT` that makes none. For `SENDRECV` the receive,
        which the send follows.
    waits
        For `WAIT`, the operations that it names.
    after
        How many places back the operations stand that it waits for, instead of those that the
        order of statements says, and whether it waits for their start only.
    request
        Name under which a `WAIT` finds it.
    """

    verb: str
    op: int
    waits: tuple[int, ...] = ()
    after: tuple[tuple[int, bool], ...] | None = None
    request: str = ""


class RankReader:
    """Reads the programs of a workload, one rank at a time."""

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
                    f"{workload.describe(int(wrong.argmax()))} has a release time, which only PUT "
                    "can state"
                )

    def steps(self, rank: int) -> list[Step]:
        """The statements of a rank."""
        first, end = (int(x) for x in self._workload.op_offset[rank : rank + 2])
        found: list[Step] = []
        frontier: frozenset[int] = frozenset()
        open_: set[int] = set()
        op = first
        while op < end:
            needs = frozenset(self._needs(op))
            plain = not (self._start and any(self._starts(op)))
            more = needs - frontier
            named = plain and frontier <= needs and more <= open_
            if not named:
                found.append(self._after(op))
                op += 1
                continue
            if more and self._idle[op] and (len(more) + len(frontier) > 2 or more == open_):
                if more == open_:
                    found.append(Step(WAITALL, op))
                else:
                    found.append(Step(WAIT, op, tuple(sorted(more))))
                open_ -= more
                frontier = frozenset((op,))
                op += 1
                continue
            if len(more) + len(frontier) > 2:
                found.append(self._after(op))
                op += 1
                continue
            for other in sorted(more):
                found.append(Step(WAIT, -1, (other,)))
                open_.discard(other)
            frontier |= more
            kind = self._kind[op]
            if kind in (Kind.CALC, Kind.KEY_REQUEST, Kind.KEY_DONE):
                found.append(Step(_VERBS[Kind(kind)], op))
                frontier = frozenset((op,))
            elif kind == Kind.PUT:
                found.append(Step("PUT", op))
                open_.add(op)
            elif self._is_pair(op, end, frontier):
                found.append(Step(SENDRECV, op))
                frontier = frozenset((op, op + 1))
                op += 1
            else:
                verb_ = "SEND" if kind == Kind.SEND else "RECV"
                if self._blocks(op, end, frontier):
                    found.append(Step(verb_, op))
                    frontier = frozenset((op,))
                else:
                    found.append(Step("I" + verb_, op))
                    open_.add(op)
            op += 1
        _name_requests(found)
        return found

    def _needs(self, op: int) -> list[int]:
        needs: list[int] = self._dep[self._offset[op] : self._offset[op + 1]]
        return needs

    def _starts(self, op: int) -> list[bool]:
        starts: list[bool] = self._start[self._offset[op] : self._offset[op + 1]]
        return starts

    def _after(self, op: int) -> Step:
        """A statement that says what it waits for."""
        kind = Kind(self._kind[op])
        needs = self._needs(op)
        starts = self._starts(op) if self._start else [False] * len(needs)
        after = tuple((op - need, start) for need, start in zip(needs, starts, strict=True))
        return Step(_VERBS[kind], op, after=after)

    def _is_pair(self, op: int, end: int, frontier: frozenset[int]) -> bool:
        """Whether a receive and the send behind it began together and are both waited for."""
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
            return False  # a wait for what began, rather than a computation of no time
        after = set(self._needs(other + 1))
        return {op, other} <= after and (after == {op, other} or not frontier <= after)

    def _blocks(self, op: int, end: int, frontier: frozenset[int]) -> bool:
        """Whether the next operation waits for this one rather than for those before it."""
        if op + 1 >= end:
            return True
        after = set(self._needs(op + 1))
        return after == {op} or (op in after and not frontier <= after)


def _name_requests(steps: Sequence[Step]) -> None:
    """Give names, as few as possible, to what a `WAIT` names."""
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


class StepColumns:
    """What steps say of their operations, as lists, which single values are read from fastest."""

    def __init__(self, workload: Workload):
        self._peer = workload.peer.tolist()
        self._size = workload.size_bytes.tolist()
        self._tag = workload.tag.tolist()
        self._comm = workload.comm.tolist()
        self._duration = workload.duration_ns.tolist()
        self._phase = workload.phase.tolist()
        self._release = workload.release_ns.tolist()
        self._cpu = workload.cpu.tolist()
