"""Random trace programs and workloads, from a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import numpy as np

from weft.workload import Workload, WorkloadBuilder
from weft.workload.trace import nodes
from weft.workload.trace.expressions import LEVELS
from weft.workload.trace.keywords import COLLECTIVES

T = TypeVar("T")
NAMES = ("a", "b", "n2", "grid", "long_name", "x", "to_", "ring")
NUMBERS = ("0", "1", "7", "4096", "64KiB", "1.5us", "2e3", "0.25", "3ms")
CALLS = (("min", 2), ("max", 3), ("abs", 1), ("xor", 2), ("choose", 3), ("rank", 1))
TEXTS = ("", "a", "two words", "#", "it's", "(x: 3) END")


class Syntax:
    """Random programs that follow the grammar but need not be meaningful."""

    def __init__(self, seed: int):
        self.random = Random(seed)

    def program(self) -> nodes.TraceProgram:
        return nodes.TraceProgram(self.body(3, self.random.randrange(6)))

    def maybe(self, make: Callable[[], T]) -> T | None:
        return make() if self.random.random() < 0.4 else None

    def pick(self, values: Any) -> Any:
        return self.random.choice(values)

    def name(self) -> str:
        return str(self.pick(NAMES))

    def scope(self) -> str:
        return str(self.pick((*NAMES, "ALL")))

    def comment(self) -> str:
        return str(self.pick(("", "", "note", 'a "b" # c', "END")))

    def many(self, make: Callable[[], T], least: int = 1, most: int = 3) -> tuple[T, ...]:
        return tuple(make() for _ in range(self.random.randint(least, most)))

    def expression(self, depth: int = 3) -> nodes.Expression:
        kind = self.random.randrange(6) if depth else self.random.randrange(2)
        if kind == 0:
            return nodes.Number(self.pick(NUMBERS))
        if kind == 1:
            return nodes.Name(self.name())
        if kind == 2:
            return nodes.Unary(self.pick(("-", "not")), self.expression(depth - 1))
        if kind == 3:
            name, count = self.pick(CALLS)
            return nodes.Call(name, tuple(self.expression(depth - 1) for _ in range(count)))
        sides = self.expression(depth - 1), self.expression(depth - 1)
        return nodes.Binary(self.pick(sorted(LEVELS)), *sides)

    def peer(self) -> nodes.Peer:
        kind = self.random.randrange(5)
        if kind == 0:
            return nodes.NullPeer()
        if kind == 1:
            return nodes.Neighbour(self.pick("+-"), self.name())
        return nodes.Coordinates(self.many(self.expression)) if kind == 2 else self.expression()

    def on(self) -> nodes.On | None:
        kind = self.random.randrange(3)
        if kind == 0:
            return None
        return nodes.On(scope=self.scope()) if kind == 1 else nodes.On(number=self.expression())

    def after(self) -> tuple[nodes.Dependency, ...] | None:
        def one() -> nodes.Dependency:
            return nodes.Dependency(self.random.randint(-5, 5), self.pick((False, True)))

        return self.maybe(lambda: self.many(one, 0))

    def range(self, closed: bool = False) -> nodes.Range:
        last = self.expression() if closed else self.maybe(self.expression)
        step = None if last is None else self.maybe(self.expression)
        return nodes.Range(self.expression(), last, step)

    def definition(self) -> nodes.Definition:
        parent = self.scope()
        axes = tuple(self.random.sample(NAMES, self.random.randint(1, 3)))
        match self.random.randrange(6):
            case 0:
                dims = tuple(self.maybe(self.expression) for _ in axes)
                return nodes.Cart(parent, axes, dims, self.pick((None, (), axes, axes[:1])))
            case 1:
                return nodes.Sub(parent, axes)
            case 2:
                return nodes.Split(parent, self.expression(), self.maybe(self.expression))
            case 3:
                return nodes.Where(parent, self.expression())
            case 4:
                return nodes.Listed(parent, self.many(self.range))
        return nodes.Dup(parent)

    def simple(self) -> nodes.Statement:
        texts = {"comment": self.comment()}
        value, maybe = self.expression, self.maybe
        match self.random.randrange(16):
            case 0:
                return nodes.Title(self.pick(TEXTS), **texts)
            case 1:
                return nodes.RankCount(value(), **texts)
            case 2:
                return nodes.Seed(value(), **texts)
            case 3:
                return nodes.Param(self.name(), value(), **texts)
            case 4:
                return nodes.Let(self.name(), value(), **texts)
            case 5:
                return nodes.Communicator(value(), self.pick(TEXTS), **texts)
            case 6:
                return nodes.DefineScope(self.name(), self.definition(), **texts)
            case 7:
                return nodes.EnterScope(self.scope(), **texts)
            case 8:
                return nodes.SetPhase(self.pick(TEXTS), **texts)
            case 9:
                return nodes.Calc(value(), maybe(value), maybe(value), after=self.after(), **texts)
            case 10:
                peers = self.peer(), self.peer()
                return nodes.SendRecv(
                    value(), *peers, maybe(value), maybe(value), self.on(), **texts
                )
            case 11:
                return nodes.Wait(self.many(self.name, 0), **texts)
            case 12:
                verb = self.pick(("RODREQUEST", "RODDONE"))
                return nodes.KeyOperation(
                    verb, value(), maybe(value), self.on(), after=self.after(), **texts
                )
            case 13:
                name = self.pick(sorted(COLLECTIVES))
                sized, rooted = COLLECTIVES[name]
                return nodes.CollectiveCall(
                    name, value() if sized else None, maybe(value) if rooted else None,
                    self.pick(("", self.scope())), self.pick(("", "ring", "recursive-doubling")),
                    **texts,
                )  # fmt: skip
        verb = self.pick(("SEND", "ISEND", "RECV", "IRECV", "PUT"))
        request = self.pick(("", self.name())) if verb in ("ISEND", "IRECV", "PUT") else ""
        put = verb == "PUT"
        return nodes.Message(
            verb, value(), self.peer(), maybe(value), None if put else self.on(),
            maybe(value) if put else None, request, after=self.after(), **texts,
        )  # fmt: skip

    def body(self, depth: int, count: int) -> tuple[nodes.Statement, ...]:
        statements: list[nodes.Statement] = []
        for _ in range(count):
            if self.random.random() < 0.1:
                statements.append(nodes.Blank(comment=self.pick(("note", "#"))))
            statements.append(self.statement(depth))
        return tuple(statements)

    def statement(self, depth: int) -> nodes.Statement:
        kind = self.random.randrange(9)
        if depth == 0 or kind > 4:
            return self.simple()
        texts = {"comment": self.comment(), "end_comment": self.comment()}
        body = self.body(depth - 1, self.random.randrange(4))
        if kind == 0:
            return nodes.For(self.name(), self.range(closed=True), body, **texts)
        if kind == 1:
            return nodes.Repeat(self.expression(), body, **texts)
        if kind == 2:
            branches = [nodes.Branch(self.expression(), body, comment=self.comment())]
            for _ in range(self.random.randrange(3)):
                branches.append(nodes.Branch(self.expression(), self.body(depth - 1, 1)))
            if self.random.random() < 0.5:
                branches.append(nodes.Branch(None, body, comment=self.comment()))
            return nodes.If(tuple(branches), end_comment=self.comment())
        ranks = self.many(self.range, 1, 2)
        if kind == 3:
            return nodes.OnRanks(ranks, body, False, **texts)
        inside = self.statement(depth - 1)
        while isinstance(inside, nodes.OnRanks):
            inside = self.statement(depth - 1)
        return nodes.OnRanks(ranks, (inside,))


class Sense:
    """Random programs that run and have no collectives, so that the reference can run them."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.first, self.second = self.random.randint(1, 4), self.random.randint(1, 3)
        self.ranks = self.first * self.second

    def text(self) -> str:
        closed = self.random.choice(["", " PERIODIC", " PERIODIC (x)"])
        lines = [
            f"SCOPE grid = CART ALL (x: {self.first}, y: {self.second}){closed}",
            "LET a = rank * 3",
            "LET b = 11",
            "0: PUT 1 TO 0 AS r",
            "0: PUT 1 TO 0 AS s",
        ]
        names = ["rank", "size", "a", "b", "3", "7"]
        for _ in range(3):
            lines += [*self.body(names, 2), *self.exchange()]
        return "\n".join(lines) + "\n"

    def exchange(self) -> list[str]:
        shift, axis = self.random.randrange(8), self.random.choice("xy")
        return [
            f"SENDRECV 100 TO (rank + {shift}) % size FROM (rank - {shift}) % size",
            f"SENDRECV 5KiB TO +{axis} FROM -{axis} ON grid",
            f"SENDRECV 1 TO at(x - 2, y + {shift}) FROM at(x + 2, y - {shift}) ON grid",
        ]

    def value(self, names: list[str], depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self.random.choice(names)
        one, other = self.value(names, depth - 1), self.value(names, depth - 1)
        return self.random.choice(
            [
                f"({one} + {other})",
                f"({one} - {other})",
                f"({one} * {other})",
                f"({one} // (1 + abs({other})))",
                f"({one} % (1 + abs({other})))",
                f"(-{one})",
                f"min({one}, {other})",
                f"xor(abs({one}), abs({other}))",
                f"choose({one} < {other}, {one}, {other})",
                f"choose({one} != 0 and {other} // {one} > 1, {one}, 2)",
                f"choose({one} == 0 or {other} % {one} > 1, {one}, 2)",
            ]
        )

    def body(self, names: list[str], depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, 4)):
            value = self.value(names)
            kind = self.random.randrange(8 if depth else 4)
            if kind == 0:
                lines.append(f"LET {self.random.choice('ab')} = {value} % 1000")
            elif kind == 1:
                name = self.random.choice(["", " AS r", " AS s"])
                to = self.value(names)
                lines.append(f"PUT abs({value}) TO {to} % size TAG {value} % 99{name}")
            elif kind == 2:
                waits = ["WAITALL", "WAIT r", "WAIT s", "WAIT r, s"]
                lines.append(self.random.choice(waits))
            elif kind == 3:
                lines.append(f"CALC 1 + abs({value})")
            elif kind == 4:
                lines += [f"IF {value} % 2 == 0 or rank == 1", *self.body(names, depth - 1)]
                lines += [f"ELIF not {value} < 5", *self.body(names, depth - 1)]
                lines += ["ELSE", *self.body(names, depth - 1), "END"]
            elif kind == 5 and "i" not in names:
                step = self.random.choice(["", " BY 2", " BY -1", " BY 1 + rank"])
                lines += [f"FOR i = {value} % 3..{self.value(names)} % 5{step}"]
                lines += [*self.body([*names, "i"], depth - 1), "END"]
            elif kind == 6:
                lines += [f"REPEAT abs({value}) % 3", *self.body(names, depth - 1), "END"]
            else:
                lines += ["0..size - 1 BY 2:", *self.body(names, depth - 1), "END"]
        return lines


def random_workload(seed: int) -> Workload:
    """Return random ranks with equal or different operations, phases and dependencies."""
    random = Random(seed)
    ranks = random.randint(1, 6)
    builder = WorkloadBuilder(ranks, name="any")
    everyone = np.arange(ranks)
    comms = [0, builder.communicator(everyone, "one"), builder.communicator(everyone, "two")]
    odd = random.random() < 0.3
    handles: list[list[int]] = [[] for _ in range(ranks)]
    for _ in range(random.randrange(14)):
        chosen = everyone if random.random() < 0.7 else everyone[random.randrange(ranks) :]
        shift, comm = random.randrange(ranks), random.choice(comms)
        if random.random() < 0.2:
            builder.phase(random.choice(["", "a", "b"]))
        match random.randrange(10):
            case 0 | 1 | 2 as kind:
                size, step = random.choice([0, 8, 4096]), random.choice([0, 3])
                to, source = (everyone + shift) % ranks, (everyone - shift) % ranks
                for round_ in range(random.randrange(1, 6)):
                    tag = round_ * step
                    if kind == 0:
                        builder.sendrecv(everyone, to, size, source, size + 1, tag, comm)
                        continue
                    receives = builder.irecv(everyone, source, size, tag, comm)
                    sent = builder.isend(everyone, to, size, tag, comm)
                    if kind == 2:
                        builder.wait(everyone, np.stack([receives, sent]))
            case 3:
                duration = random.choice([0.0, 1.5, 1000.0])
                builder.calc(chosen, duration, cpu=random.choice([0, 0, 1]))
            case 4:
                builder.calc(chosen, np.arange(len(chosen)) * 10.0)
            case 5:
                release = random.choice([0.0, 2.5])
                for rank, op in zip(
                    chosen, builder.put(chosen, chosen[::-1], 7, release_ns=release), strict=True
                ):
                    handles[rank].append(int(op))
            case 6:
                builder.waitall(chosen)
            case 7:
                builder.key_request(chosen, 3 + shift, comm, tag=[-1, 0, shift][shift % 3])
                builder.key_done(chosen, 3, comm)
            case 8:
                mine = [random.choice(ops) if ops else -1 for ops in handles]
                builder.wait(chosen, np.array(mine)[chosen])
            case _ if odd:
                rank = random.randrange(ranks)
                calcs = [builder.calc(rank, 5.0, after=[]) for _ in range(3)]
                builder.requires(calcs[0], calcs[2], start=random.random() < 0.5)
                handles[rank] += [builder.put(rank, shift, 1, after=[calcs[1]]), calcs[1]]
    return builder.build()
