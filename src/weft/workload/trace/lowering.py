"""Execution of a program for all ranks at once, which builds its workload.

Statements run one after the other, each for the ranks that reach it; expressions are arrays over
these ranks. A loop whose bounds differ by rank continues with the ranks that have iterations left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from weft.core.errors import InputError, NotApplicable
from weft.workload.builder import WorkloadBuilder
from weft.workload.matching import OperationError
from weft.workload.program_order import MAX_OPS
from weft.workload.trace import nodes
from weft.workload.trace.analysis import all_statements, check_constant, check_names
from weft.workload.trace.defining import MAX_LISTED, define, listed
from weft.workload.trace.dense_reader import read_dense
from weft.workload.trace.errors import NOWHERE, FilePosition, TraceError
from weft.workload.trace.operations import Operations
from weft.workload.trace.parser import parse, parse_value
from weft.workload.trace.scopes import Ints, Scope, world_scope
from weft.workload.trace.values import (
    Context,
    Value,
    Variable,
    common_unit,
    condition,
    evaluate,
    integer,
    same_everywhere,
)

#: Default of the largest number of operations of a program.
MAX_OPERATIONS = 50_000_000
#: Largest number of loop iterations, including iterations without operations. If `max_operations`
#: divided by `_OPERATIONS_PER_ITERATION` is larger, that is the limit.
MAX_ITERATIONS = 2_000_000
_OPERATIONS_PER_ITERATION = 25


def trace_workload(
    text: str,
    file: str = "trace",
    *,
    ranks: int | None = None,
    seed: int | None = None,
    parameters: Mapping[str, str | float] | None = None,
    max_operations: int = MAX_OPERATIONS,
    builder: Callable[..., Any] | None = None,
) -> Any:
    """Return the workload of a trace program.

    `ranks`: number of ranks; required if the program has no ``RANKS``. `seed`: seed of the
    computing times, instead of the program's ``SEED`` or 0. `parameters`: values of the program's
    ``PARAM`` names, as numbers or text such as ``64KiB``. `max_operations`: largest number of
    operations that are stored. `builder`: class of the builder.
    """
    try:
        dense = None if parameters or builder else read_dense(text, ranks, max_operations)
        if dense is not None:
            try:
                return dense.builder.build()
            except InputError as error:
                _name_lines(error, dense.builder, range(len(dense.lines)), dense.lines.tolist())
        program = parse(text, file)
        make = builder or WorkloadBuilder
        return _Lowering(program, ranks, seed, parameters or {}, max_operations, make).run()
    except TraceError as error:
        raise error.in_file(file, text) from None
    except InputError as error:
        raise InputError(error.message, file=file) from None


class _Lowering:
    def __init__(
        self,
        program: nodes.TraceProgram,
        ranks: int | None,
        seed: int | None,
        parameters: Mapping[str, str | float],
        max_operations: int,
        make: Callable[..., Any],
    ):
        check_names(program)
        self._program = program
        self._max_operations = max_operations
        self._iterations = 0
        self.variables: dict[str, Variable] = {}
        self._no_ranks = Context(np.zeros(0, dtype=np.int64), world_scope(1), {}, self.variables)
        self._set_parameters(parameters)
        self.num_ranks = self._count(ranks)
        self._seed = self._header(nodes.Seed, "value", "SEED", 0) if seed is None else seed
        if not 0 <= self._seed < 2**63:
            raise TraceError(f"SEED {self._seed}; expected 0 to 2^63 - 1", self._place(nodes.Seed))
        titles = [line.text for line in program.statements if isinstance(line, nodes.Title)]
        self.builder = make(self.num_ranks, name=titles[0] if titles else "trace")
        world = world_scope(self.num_ranks)
        self.scopes: dict[str, Scope] = {"ALL": world}
        self._everyone = world.ranks
        # Operations from handle `_from[i]` on are of line `_lines[i]`.
        self._from: list[int] = []
        self._lines: list[int] = []
        collectives = any(
            isinstance(statement, nodes.CollectiveCall)
            for statement in all_statements(program.statements)
        )
        rolled = self.builder.max_ops > MAX_OPS
        most = self.builder.max_ops if rolled else max_operations
        self._operations = Operations(self.builder, self._seed, collectives, most)

    def run(self) -> Any:
        self._block(self._program.statements, self._everyone, self.scopes["ALL"])
        self._operations.add_dependencies()
        try:
            return self.builder.build()
        except InputError as error:
            _name_lines(error, self.builder, self._from, self._lines)

    # -- parameters, seed and number of ranks ------------------------------------------------------

    def _set_parameters(self, given: Mapping[str, str | float]) -> None:
        given = dict(given)
        names = [line.name for line in self._program.statements if isinstance(line, nodes.Param)]
        for name in given:
            if name not in names:
                known = ", ".join(names) or "none"
                raise InputError(f"the program has no parameter {name!r}; it has {known}")
        for line in self._program.statements:
            if isinstance(line, nodes.Param):
                value = evaluate(line.value, self._no_ranks)
                if line.name in given:
                    value = _parameter(line.name, given[line.name], value)
                self.variables[line.name] = Variable(value)

    def _header(self, kind: type[Any], field: str, what: str, default: int) -> int:
        for line in self._program.statements:
            if isinstance(line, kind):
                return same_everywhere(getattr(line, field), self._no_ranks, what)
        return default

    def _place(self, kind: type[nodes.Statement]) -> FilePosition:
        return next((s.at for s in self._program.statements if isinstance(s, kind)), NOWHERE)

    def _count(self, requested: int | None) -> int:
        declared = self._header(nodes.RankCount, "count", "RANKS", 0)
        at = self._place(nodes.RankCount)
        if at == NOWHERE and requested is None:
            raise InputError("the program has no RANKS line; specify the number of ranks (--ranks)")
        if at != NOWHERE and not 1 <= declared <= MAX_LISTED:
            raise TraceError(f"RANKS {declared}; expected 1 to {MAX_LISTED:,}", at)
        if at != NOWHERE and requested not in (None, declared):
            raise NotApplicable(f"the program is for {declared} ranks, not {requested}")
        count = declared or requested or 0
        if not 1 <= count <= MAX_LISTED:
            raise InputError(f"a program cannot have {count} ranks; expected 1 to {MAX_LISTED:,}")
        return count

    # -- blocks ------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[nodes.Statement], ranks: Ints, scope: Scope) -> None:
        active = ranks
        for statement in statements:
            if isinstance(statement, nodes.EnterScope):
                scope = self.scopes[statement.name]
                active = ranks[scope.group[ranks] >= 0]
            elif isinstance(statement, nodes.DefineScope | nodes.Communicator):
                self._declare(statement)
            elif len(active):
                before = self.builder.num_stored
                self._statement(statement, active, scope)
                self._note_line(before, statement)

    def _note_line(self, before: int, statement: nodes.Statement) -> None:
        count = self.builder.num_stored
        if count > self._max_operations:
            raise TraceError(
                f"the program expands to more than {self._max_operations:,} operations (at the "
                "flow level, those that ranks have in common count once)",
                statement.at,
            )
        if count > before and not isinstance(statement, nodes.Block):
            self._from.append(before)
            self._lines.append(statement.at.line)

    def _context(self, ranks: Ints, scope: Scope) -> Context:
        return Context(ranks, scope, self.scopes, self.variables)

    def _statement(self, statement: nodes.Statement, ranks: Ints, scope: Scope) -> None:
        try:
            self._run(statement, ranks, scope)
        except TraceError:
            raise
        except InputError as error:
            raise TraceError(error.message, statement.at) from None

    def _run(self, statement: nodes.Statement, ranks: Ints, scope: Scope) -> None:
        match statement:
            case nodes.Let(name=name, value=value):
                self._assign(name, evaluate(value, self._context(ranks, scope)), ranks)
            case nodes.For():
                self._for(statement, ranks, scope)
            case nodes.Repeat():
                self._repeat(statement, ranks, scope)
            case nodes.If():
                self._if(statement, ranks, scope)
            case nodes.OnRanks():
                selected = listed(statement.ranks, self._context(ranks, scope))
                self._block(statement.body, ranks[np.isin(scope.local[ranks], selected)], scope)
            case _:
                self._operations.run(statement, self._context(ranks, scope))

    def _declare(self, statement: nodes.DefineScope | nodes.Communicator) -> None:
        if isinstance(statement, nodes.Communicator):
            number = same_everywhere(statement.number, self._no_ranks, "a communicator's number")
            expected = self.builder.communicator(self._everyone, statement.text or str(number))
            if expected != number:
                raise TraceError(
                    f"COMMUNICATOR {number} must be {expected}: communicators and scopes are "
                    "numbered from 1 in the order of the program",
                    statement.at,
                )
            return
        parent = self.scopes[statement.definition.parent]
        members = parent.ranks
        context = self._context(members, parent)
        comm = self.builder.communicator(self._everyone, statement.name)
        self.scopes[statement.name] = define(statement, parent, context, comm)

    def _count_iterations(self, iterations: int, at: FilePosition) -> None:
        self._iterations += iterations
        most = max(MAX_ITERATIONS, self._max_operations // _OPERATIONS_PER_ITERATION)
        if self._iterations > most:
            raise TraceError(
                f"the loops of the program have more than {most:,} iterations; a larger "
                "max_operations allows more",
                at,
            )

    def _for(self, loop: nodes.For, ranks: Ints, scope: Scope) -> None:
        context = self._context(ranks, scope)
        assert loop.range.last is not None
        first = integer(loop.range.first, context, "the first value")
        last = integer(loop.range.last, context, "the last value")
        step = 1
        if loop.range.step is not None:
            step = integer(loop.range.step, context, "the step")
            if np.any(np.asarray(step) == 0):
                raise TraceError("the step of a loop cannot be 0", loop.range.step.at)
        if not any(isinstance(value, np.ndarray) for value in (first, last, step)):
            self._count_iterations(max(0, (last - first) // step + 1), loop.at)
            for value in range(first, last + (1 if step > 0 else -1), step):
                self.variables[loop.counter] = Variable(Value(value))
                self._block(loop.body, ranks, scope)
            self.variables.pop(loop.counter, None)
            return
        count = (np.asarray(last) - first) // step + 1 + np.zeros(len(ranks), dtype=np.int64)
        self._count_iterations(max(0, int(count.max())), loop.at)
        iteration = 0
        while (active := count > iteration).any():
            values = np.zeros(self.num_ranks, dtype=np.int64)
            values[ranks] = first + iteration * np.asarray(step)
            self.variables[loop.counter] = Variable(Value(values))
            self._block(loop.body, ranks[active], scope)
            iteration += 1
        self.variables.pop(loop.counter, None)

    def _repeat(self, loop: nodes.Repeat, ranks: Ints, scope: Scope) -> None:
        count = integer(loop.count, self._context(ranks, scope), "the number of repetitions")
        if np.any(np.asarray(count) < 0):
            raise TraceError(f"REPEAT {np.min(count)}; expected 0 or more", loop.count.at)
        self._count_iterations(int(np.max(count)), loop.at)
        # A round of a body that leaves nothing behind but operations is as the one before.
        same = np.ndim(count) == 0 and not any(map(_leaves, all_statements(loop.body)))
        rounds = self.builder.rounds if same else partial(WorkloadBuilder.rounds, self.builder)
        left = np.broadcast_to(count, len(ranks))
        rounds(int(np.max(count)), lambda done: self._block(loop.body, ranks[left > done], scope))

    def _if(self, statement: nodes.If, ranks: Ints, scope: Scope) -> None:
        left = ranks
        for branch in statement.branches:
            if not len(left):
                return
            if branch.condition is None:
                self._block(branch.body, left, scope)
                return
            truth = condition(branch.condition, self._context(left, scope))
            mask = np.broadcast_to(np.asarray(truth), len(left))
            if mask.any():
                self._block(branch.body, left[mask], scope)
            left = left[~mask]

    def _assign(self, name: str, value: Value, ranks: Ints) -> None:
        if len(ranks) == self.num_ranks:
            if not value.is_array:
                self.variables[name] = Variable(value)
                return
            data = np.empty(self.num_ranks, dtype=value.data.dtype)
            data[ranks] = value.data
            self.variables[name] = Variable(Value(data, value.unit))
            return
        known = np.zeros(self.num_ranks, dtype=np.bool_)
        assigned = np.asarray(value.data)
        old = self.variables.get(name)
        if old is None:
            data = np.zeros(self.num_ranks, dtype=assigned.dtype)
        else:
            unit = common_unit(old.value, value)
            if old.value.is_truth != value.is_truth or unit is None:
                raise InputError(f"{name} has another type or unit on other ranks")
            dtype = np.result_type(np.asarray(old.value.data).dtype, assigned.dtype)
            data = np.broadcast_to(np.asarray(old.value.data), self.num_ranks).astype(dtype)
            known = np.ones_like(known) if old.known is None else old.known.copy()
            value = Value(value.data, unit)
        data[ranks] = value.data
        known[ranks] = True
        self.variables[name] = Variable(Value(data, value.unit), None if known.all() else known)


def _leaves(statement: nodes.Statement) -> bool:
    """Return whether a statement changes what later rounds of a loop do."""
    drawn = isinstance(statement, nodes.Calc) and statement.std is not None
    named = isinstance(statement, nodes.Message) and bool(statement.request)
    return drawn or named or isinstance(statement, nodes.Let)


def _name_lines(
    error: InputError, builder: WorkloadBuilder, first: Sequence[int], lines: Sequence[int]
) -> NoReturn:
    """Raise the builder's error with the lines of the operations in its message."""
    if not isinstance(error, OperationError):
        raise TraceError(error.message) from None
    _, order = builder.in_order()
    own = [lines[bisect_right(first, int(order[op])) - 1] for op in error.ops]
    message = error.with_places([f", line {line}" for line in own])
    raise TraceError(message, FilePosition(own[0], 0)) from None


def _parameter(name: str, given: str | float, default: Value) -> Value:
    """Return the value that the caller sets, with the type and unit of the default."""
    no_ranks = Context(np.zeros(0, dtype=np.int64), world_scope(1), {}, {})
    try:
        expression = parse_value(str(given))
        check_constant(expression)
        value = evaluate(expression, no_ranks)
    except TraceError as error:
        raise InputError(f"parameter {name}={given}: {error.reason}") from None
    unit = common_unit(value, default)
    if value.is_truth != default.is_truth or unit is None:
        raise InputError(f"parameter {name}={given} must have the type and unit of its default")
    return Value(value.data, unit)
