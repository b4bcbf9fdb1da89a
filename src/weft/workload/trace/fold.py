"""Conversion of any workload to a compact trace, with shared lines and loops.

Ranks whose statements differ only in numbers form a group. If the numbers of a statement follow a
rule over the ranks of the group (such as a peer at a fixed distance), the statement is written once
for all ranks, otherwise once for each combination of numbers. Repeated blocks of statements become
loops, even if numbers in them grow by a constant step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.workload.trace import nodes
from weft.workload.trace.dense import (
    CALC,
    SENDRECV,
    WAIT,
    WAITALL,
    RankReader,
    Step,
    StepColumns,
    header,
    number_text,
)
from weft.workload.trace.formatter import format_program
from weft.workload.trace.parser import parse
from weft.workload.trace.repeats import Item, Linear, Loop, Real, StatementLine, compress
from weft.workload.trace.rules import Rule, rule_of_peers, rule_of_values
from weft.workload.trace.scopes import Ints
from weft.workload.workload import Workload

#: Names of loop counters, by depth.
_COUNTERS = "ijklmn"


def folded_text(workload: Workload) -> str:
    """Return a compact trace that reads back as the same workload, array by array."""
    return format_program(folded(workload))


def folded(workload: Workload) -> nodes.TraceProgram:
    """Return the compact program of a workload."""
    statements = list(parse("\n".join(header(workload))).statements)
    groups: dict[tuple[object, ...], list[int]] = {}
    programs: dict[int, list[_Row]] = {}
    reader, rows = RankReader(workload), _Rows(workload)
    for rank in range(workload.num_ranks):
        program = rows.of(reader.steps(rank))
        if program:
            programs[rank] = program
            groups.setdefault(tuple(row.shape for row in program), []).append(rank)
    for ranks in groups.values():
        statements.append(nodes.Blank())
        statements += _group(np.array(ranks), [programs[rank] for rank in ranks], workload)
    return nodes.TraceProgram(tuple(statements))


class _Row:
    """A statement of one rank: its shape, which the ranks of a group share, and its numbers."""

    __slots__ = ("numbers", "shape")

    def __init__(self, shape: tuple[object, ...], numbers: tuple[Real, ...] = ()):
        self.shape = shape
        self.numbers = numbers


class _Rows(StepColumns):
    """Converter of steps to rows."""

    def of(self, steps: Sequence[Step]) -> list[_Row]:
        """Return the rows of one rank, including its changes of phase."""
        rows: list[_Row] = []
        requests = {step.op: step.request for step in steps if step.request}
        phase = 0
        for step in steps:
            if step.op >= 0 and self._phase[step.op] != phase:
                phase = self._phase[step.op]
                rows.append(_Row(("PHASE", phase)))
            rows.append(self._row(step, requests))
        return rows

    def _row(self, step: Step, requests: dict[int, str]) -> _Row:
        op, verb = step.op, step.verb
        if verb == WAITALL:
            return _Row((verb,))
        if verb == WAIT:
            return _Row((verb, tuple(requests[other] for other in step.waits)))
        if verb == CALC:
            cpu = self._cpu[op] if self._cpu else 0
            return _Row((verb, step.after, cpu), (self._duration[op],))
        comm = self._comm[op]
        if verb in ("RODREQUEST", "RODDONE"):
            return _Row((verb, comm, step.after), (self._tag[op], self._size[op]))
        if verb == SENDRECV:
            sent, received = self._size[op + 1], self._size[op]
            sizes = (sent,) if sent == received else (sent, received)
            peers = (self._peer[op + 1], self._peer[op])
            return _Row((verb, comm, len(sizes)), (*sizes, self._tag[op], *peers))
        released = bool(self._release) and self._release[op] != 0
        numbers: tuple[Real, ...] = (self._size[op], self._tag[op], self._peer[op])
        if released:
            numbers += (self._release[op],)
        return _Row((verb, comm, step.after, step.request, released), numbers)


# -- one group of ranks ----------------------------------------------------------------------------


def _group(
    ranks: Ints, programs: Sequence[Sequence[_Row]], workload: Workload
) -> list[nodes.Statement]:
    """Return the statements of ranks whose programs have the same shape."""
    phases = workload.phase_names
    items: list[Item] = []
    for index, first in enumerate(programs[0]):
        shape = first.shape
        columns = [
            np.array([program[index].numbers[n] for program in programs])
            for n in range(len(first.numbers))
        ]
        peers = _peers_of(shape)
        rules = [
            rule_of_peers(ranks, column, workload.num_ranks)
            if n - len(columns) in peers
            else rule_of_values(ranks, column)
            for n, column in enumerate(columns)
        ]
        known = [rule for rule in rules if rule is not None]
        if len(known) == len(rules):
            items.append(_line(shape, known))
            continue
        # Without rules, there is one line for each combination of numbers and the ranks that have
        # these numbers.
        table = np.stack([np.unique(column, return_inverse=True)[1] for column in columns], axis=1)
        _, inverse = np.unique(table, axis=0, return_inverse=True)
        for value in range(int(inverse.max()) + 1):
            selected = np.flatnonzero(inverse.reshape(-1) == value)
            fixed = [Rule("fixed", (column[selected[0]].item(),)) for column in columns]
            items.append(_line(shape, fixed, tuple(ranks[selected].tolist())))
    body = tuple(_statements(compress(items), 0, phases))
    if len(ranks) == workload.num_ranks:
        return list(body)
    return [nodes.OnRanks(ranges(ranks.tolist()), body, len(body) == 1)]


def _peers_of(shape: tuple[object, ...]) -> tuple[int, ...]:
    """Return the indices of the peers among a statement's numbers, counted from the end."""
    if shape[0] == SENDRECV:
        return (-1, -2)
    if shape[0] in ("SEND", "ISEND", "RECV", "IRECV", "PUT"):
        return (-2,) if shape[-1] else (-1,)
    return ()


def _line(
    shape: tuple[object, ...], rules: Sequence[Rule], ranks: tuple[int, ...] = ()
) -> StatementLine:
    kinds = tuple((rule.kind, rule.fixed) for rule in rules)
    numbers = tuple(number for rule in rules for number in rule.numbers)
    return StatementLine((shape, kinds, ranks), numbers)


# -- back to statements ----------------------------------------------------------------------------


def _statements(items: Sequence[Item], depth: int, phases: Sequence[str]) -> list[nodes.Statement]:
    statements: list[nodes.Statement] = []
    for item in items:
        if isinstance(item, Loop):
            statements.append(_loop(item, depth, phases))
        else:
            statements.append(_one(item, phases))
    return statements


def _loop(loop: Loop, depth: int, phases: Sequence[str]) -> nodes.Statement:
    count = nodes.Number(str(loop.count))
    counter = _COUNTERS[depth] if depth < len(_COUNTERS) else f"i{depth}"
    counted = any(any(step) for step in loop.steps)
    body = tuple(_statements(loop.with_counter(counter), depth + 1, phases))
    if not counted:
        return nodes.Repeat(count, body)
    last = nodes.Number(str(loop.count - 1))
    return nodes.For(counter, nodes.Range(nodes.Number("0"), last), body)


def _one(line: StatementLine, phases: Sequence[str]) -> nodes.Statement:
    shape, kinds, ranks = line.key
    forms = list(line.forms())
    values: list[nodes.Expression] = []
    for kind, fixed in kinds:
        count = Rule.COUNTS[kind]
        values.append(Rule.expression(kind, fixed, [_sum(form) for form in forms[:count]]))
        del forms[:count]
    statement = _statement(shape, values, phases)
    if ranks:
        return nodes.OnRanks(ranges(list(ranks)), (statement,))
    return statement


def _statement(
    shape: tuple[object, ...], values: list[nodes.Expression], phases: Sequence[str]
) -> nodes.Statement:
    match shape:
        case ("PHASE", int() as number):
            return nodes.SetPhase(phases[number])
        case ("WAITALL",):
            return nodes.Wait()
        case ("WAIT", tuple() as requests):
            return nodes.Wait(requests)
        case ("CALC", after, int() as cpu):
            processor = nodes.Number(str(cpu)) if cpu else None
            return nodes.Calc(values[0], None, processor, after=_after(after))
        case ("RODREQUEST" | "RODDONE" as verb, int() as comm, after):
            key, tag = values
            return nodes.KeyOperation(verb, key, _tag(tag), _comm(comm), after=_after(after))
        case ("SENDRECV", int() as comm, int() as sizes):
            received = values[1] if sizes == 2 else None
            tag, to, source = values[sizes:]
            return nodes.SendRecv(values[0], to, source, received, _tag(tag), _comm(comm))
        case (str() as verb, int() as comm, after, str() as request, bool() as released):
            size, tag, peer = values[:3]
            return nodes.Message(
                verb, size, peer, _tag(tag), _comm(comm), values[3] if released else None, request,
                after=_after(after),
            )  # fmt: skip
    raise TypeError(f"{shape} is not the shape of a statement")


def _after(after: object) -> tuple[nodes.Dependency, ...] | None:
    if not isinstance(after, tuple):
        return None
    return tuple(nodes.Dependency(back, start) for back, start in after)


def _comm(comm: int) -> nodes.On | None:
    return nodes.On(number=nodes.Number(str(comm))) if comm else None


def _tag(tag: nodes.Expression) -> nodes.Expression | None:
    return None if tag == nodes.Number("0") else tag


def _sum(form: Linear) -> nodes.Expression:
    """Return ``base + step * counter + …`` without terms of 0 and factors of 1."""
    total: nodes.Expression | None = None
    for name, step in form.terms:
        if not step:
            continue
        term: nodes.Expression = nodes.Name(name)
        if abs(step) != 1:
            term = nodes.Binary("*", nodes.Number(number_text(abs(step))), term)
        if total is None:
            total = nodes.Unary("-", term) if step < 0 else term
        else:
            total = nodes.Binary("-" if step < 0 else "+", total, term)
    if total is None:
        return number(form.base)
    if not form.base:
        return total
    if isinstance(total, nodes.Unary):
        return nodes.Binary("-", number(form.base), total.operand)
    sign = "-" if form.base < 0 else "+"
    return nodes.Binary(sign, total, nodes.Number(number_text(abs(form.base))))


def number(value: float) -> nodes.Expression:
    """Return a number as an expression."""
    text = nodes.Number(number_text(abs(value)))
    return nodes.Unary("-", text) if value < 0 else text


def ranges(ranks: Sequence[int]) -> tuple[nodes.Range, ...]:
    """Return ascending ranks as ranges, greedily merged."""
    result = []
    start = 0
    while start < len(ranks):
        end = start + 1
        if end < len(ranks):
            step = ranks[end] - ranks[start]
            while end + 1 < len(ranks) and ranks[end + 1] - ranks[end] == step:
                end += 1
            if end - start >= 2 or step == 1:
                result.append(_range(ranks[start], ranks[end], step))
                start = end + 1
                continue
        result.append(nodes.Range(nodes.Number(str(ranks[start]))))
        start += 1
    return tuple(result)


def _range(first: int, last: int, step: int) -> nodes.Range:
    return nodes.Range(
        nodes.Number(str(first)),
        nodes.Number(str(last)),
        None if step == 1 else nodes.Number(str(step)),
    )
