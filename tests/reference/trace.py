"""Reference implementation of the trace language's lowering: rank by rank, in Python numbers.

It supports programs without collectives whose scopes are ALL and grids.
"""

from __future__ import annotations

import math
from typing import Any

from weft.workload import Workload, WorkloadBuilder
from weft.workload.trace import nodes

UNITS = {"": 1, "KiB": 1024, "us": 1000, "ns": 1}


class Rank:
    """A rank that runs a program."""

    def __init__(self, builder: WorkloadBuilder, rank: int, grids: dict[str, dict[str, Any]]):
        self.builder, self.rank, self.grids = builder, rank, grids
        self.size = builder.num_ranks
        self.variables: dict[str, Any] = {}
        self.requests: dict[str, int] = {}

    def run(self, statements: Any, scope: str) -> None:
        for statement in statements:
            match statement:
                case nodes.EnterScope(name=name):
                    scope = name
                case nodes.DefineScope(name=name, definition=definition):
                    dims = [int(dim.text) for dim in definition.dims]
                    closed = definition.axes if definition.periodic is None else definition.periodic
                    self.grids[name] = {
                        "axes": definition.axes,
                        "dims": dims,
                        "closed": [axis in closed for axis in definition.axes],
                        "comm": 1 + list(self.grids).index(name) if name in self.grids else 1,
                    }
                case nodes.Let(name=name, value=value):
                    self.variables[name] = self.value(value, scope)
                case nodes.Calc(mean=mean):
                    self.builder.calc(self.rank, float(self.value(mean, scope)))
                case nodes.Message(verb="PUT"):
                    to = self.value(statement.peer, scope)
                    size = self.value(statement.size, scope)
                    tag = self.value(statement.tag, scope) if statement.tag else 0
                    handle = self.builder.put(self.rank, to, size, tag)
                    if statement.request:
                        self.requests[statement.request] = handle
                case nodes.SendRecv():
                    on = statement.on.scope if statement.on else scope
                    to, source = self.peer(statement.to, on), self.peer(statement.source, on)
                    size = self.value(statement.size, on)
                    comm = self.grids[on]["comm"] if on != "ALL" else 0
                    self.builder.sendrecv([self.rank], to, size, source, size, 0, comm)
                case nodes.Wait(requests=()):
                    self.builder.waitall([self.rank])
                    self.requests.clear()
                case nodes.Wait(requests=names):
                    handles = [self.requests.pop(name, -1) for name in names]
                    self.builder.wait(self.rank, handles)
                case nodes.For(counter=counter, range=range_, body=body):
                    first = self.value(range_.first, scope)
                    last = self.value(range_.last, scope)
                    step = self.value(range_.step, scope) if range_.step else 1
                    while first <= last if step > 0 else first >= last:
                        self.variables[counter] = first
                        self.run(body, scope)
                        first += step
                    self.variables.pop(counter, None)
                case nodes.Repeat(count=count, body=body):
                    for _ in range(self.value(count, scope)):
                        self.run(body, scope)
                case nodes.If(branches=branches):
                    for branch in branches:
                        if branch.condition is None or self.value(branch.condition, scope):
                            self.run(branch.body, scope)
                            break
                case nodes.OnRanks(ranks=ranks, body=body):
                    if self.rank in self.listed(ranks, scope):
                        self.run(body, scope)
                case nodes.Blank() | nodes.SetPhase():
                    pass
                case _:
                    raise TypeError(type(statement).__name__)

    def listed(self, ranks: Any, scope: str) -> set[int]:
        result: set[int] = set()
        for one in ranks:
            first = self.value(one.first, scope)
            last = first if one.last is None else self.value(one.last, scope)
            result |= set(range(first, last + 1, self.value(one.step, scope) if one.step else 1))
        return result

    def coordinates(self, scope: str) -> list[int]:
        rest, result = self.rank, []
        for dim in reversed(self.grids[scope]["dims"]):
            result.insert(0, rest % dim)
            rest //= dim
        return result

    def peer(self, peer: Any, scope: str) -> int:
        if isinstance(peer, nodes.NullPeer):
            return -1
        if isinstance(peer, nodes.Neighbour):
            grid = self.grids[scope]
            where = self.coordinates(scope)
            where[grid["axes"].index(peer.axis)] += 1 if peer.sign == "+" else -1
        elif isinstance(peer, nodes.Coordinates):
            grid = self.grids[scope]
            where = [self.value(value, scope) for value in peer.values]
        else:
            return int(self.value(peer, scope))
        number = 0
        for coordinate, dim, closed in zip(where, grid["dims"], grid["closed"], strict=True):
            if not 0 <= coordinate < dim and not closed:
                return -1
            number = number * dim + coordinate % dim
        return number

    def value(self, node: Any, scope: str) -> Any:
        match node:
            case nodes.Number(text=text):
                digits = text.rstrip("KiBusn")
                number = float(digits) if "." in digits else int(digits)
                return number * UNITS[text[len(digits) :]]
            case nodes.Name(name="rank"):
                return self.rank
            case nodes.Name(name="size"):
                return self.size
            case nodes.Name(name=name):
                if scope != "ALL" and name in self.grids[scope]["axes"]:
                    return self.coordinates(scope)[self.grids[scope]["axes"].index(name)]
                return self.variables[name]
            case nodes.Unary(operator="-", operand=operand):
                return -self.value(operand, scope)
            case nodes.Unary(operand=operand):
                return not self.value(operand, scope)
            case nodes.Binary(operator="and", left=left, right=right):
                return self.value(left, scope) and self.value(right, scope)
            case nodes.Binary(operator="or", left=left, right=right):
                return self.value(left, scope) or self.value(right, scope)
            case nodes.Binary(operator=operator, left=left, right=right):
                a, b = self.value(left, scope), self.value(right, scope)
                return {
                    "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b,
                    "/": lambda: a / b, "//": lambda: a // b, "%": lambda: a % b,
                    "**": lambda: a**b, "==": lambda: a == b, "!=": lambda: a != b,
                    "<": lambda: a < b, "<=": lambda: a <= b, ">": lambda: a > b,
                    ">=": lambda: a >= b,
                }[operator]()  # fmt: skip
            case nodes.Call(function="choose", arguments=(test, one, other)):
                return self.value(one if self.value(test, scope) else other, scope)
            case nodes.Call(function=function, arguments=arguments):
                values = [self.value(argument, scope) for argument in arguments]
                return {
                    "min": min, "max": max, "abs": abs, "floor": math.floor, "ceil": math.ceil,
                    "xor": lambda a, b: a ^ b,
                }[function](*values)  # type: ignore[operator] # fmt: skip
        raise TypeError(type(node).__name__)


def plain_workload(program: nodes.TraceProgram, num_ranks: int) -> Workload:
    """Return the workload of a program, run rank by rank."""
    builder = WorkloadBuilder(num_ranks, name="trace")
    names = [s.name for s in program.statements if isinstance(s, nodes.DefineScope)]
    for name in names:
        builder.communicator(range(num_ranks), name)
    for rank in range(num_ranks):
        grids: dict[str, dict[str, Any]] = {name: {} for name in names}
        Rank(builder, rank, grids).run(program.statements, "ALL")
    return builder.build()
