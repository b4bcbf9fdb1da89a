"""Checks of names before a program runs, including those in statements that no rank reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.core.registry import did_you_mean, wrong_name
from weft.workload.trace import nodes
from weft.workload.trace.errors import FilePosition, TraceError
from weft.workload.trace.keywords import FUNCTIONS, PEER, SCOPE_FUNCTIONS

#: Statements that are allowed only outside blocks.
_WORDS = {
    nodes.Title: "NAME",
    nodes.RankCount: "RANKS",
    nodes.Seed: "SEED",
    nodes.Param: "PARAM",
    nodes.Communicator: "COMMUNICATOR",
    nodes.DefineScope: "the definition of a SCOPE",
}


def check_names(program: nodes.TraceProgram) -> None:
    """Refuse a program that uses undefined names."""
    _Analysis(program).run()


def check_constant(node: nodes.Expression) -> None:
    """Refuse an expression that contains a name."""
    _Analysis(nodes.TraceProgram(())).constant(node)


def all_statements(statements: Sequence[nodes.Statement]) -> Iterator[nodes.Statement]:
    """Yield every statement, including those in blocks."""
    for statement in statements:
        yield statement
        if isinstance(statement, nodes.If):
            for branch in statement.branches:
                yield from all_statements(branch.body)
        elif isinstance(statement, nodes.For | nodes.Repeat | nodes.OnRanks):
            yield from all_statements(statement.body)


class _Analysis:
    def __init__(self, program: nodes.TraceProgram):
        self._program = program
        self._axes: dict[str, tuple[str, ...]] = {"ALL": ()}
        self._params: set[str] = set()
        self._variables: set[str] = set()
        self._counters: set[str] = set()
        self._requests = {
            statement.request
            for statement in all_statements(program.statements)
            if isinstance(statement, nodes.Message)
        } - {""}
        self._once: set[str] = set()

    def run(self) -> None:
        self._block(self._program.statements, "ALL", top=True)

    def _block(self, statements: Sequence[nodes.Statement], scope: str, top: bool = False) -> None:
        for statement in statements:
            if type(statement) in _WORDS:
                if not top:
                    what = _WORDS[type(statement)]
                    raise TraceError(f"{what} is not allowed inside a block", statement.at)
                self._declaration(statement)
            elif isinstance(statement, nodes.EnterScope):
                self._known_scope(statement.name, statement.at)
                scope = statement.name
            else:
                self._statement(statement, scope)

    # -- declarations ------------------------------------------------------------------------------

    def _declaration(self, statement: nodes.Statement) -> None:
        if isinstance(statement, nodes.Title | nodes.RankCount | nodes.Seed):
            word = _WORDS[type(statement)]
            if word in self._once:
                raise TraceError(f"{word} is given twice", statement.at)
            self._once.add(word)
        match statement:
            case (
                nodes.RankCount(count=value)
                | nodes.Seed(value=value)
                | nodes.Communicator(number=value)
            ):
                self.constant(value)
            case nodes.Param(name=name, value=value):
                self.constant(value)
                self._new(name, statement.at)
                self._params.add(name)
            case nodes.DefineScope(name=name, definition=definition):
                self._new(name, statement.at)
                self._axes[name] = self._definition(definition)

    def constant(self, node: nodes.Expression) -> None:
        """Allow only numbers and parameters: the number of ranks may still be unknown."""
        match node:
            case nodes.Name(name=name) if name not in self._params:
                raise TraceError(
                    f"{name!r} is not a parameter; expected numbers and names defined by PARAM"
                    f"{did_you_mean(name, self._params)}",
                    node.at,
                )
            case nodes.Call(function=function, arguments=arguments):
                self._known_function(function, node.at)
                if function not in FUNCTIONS:
                    raise TraceError(f"{function}(…) is not allowed here", node.at)
                for argument in arguments:
                    self.constant(argument)
            case nodes.Unary(operand=operand):
                self.constant(operand)
            case nodes.Binary(left=left, right=right):
                self.constant(left)
                self.constant(right)

    def _new(self, name: str, at: FilePosition) -> None:
        """Refuse a name that already has a meaning."""
        if name in self._variables or name in self._params or name in self._counters:
            raise TraceError(f"{name} is already a variable", at)
        if name in self._axes:
            raise TraceError(f"{name} is already a scope", at)
        owner = next((scope for scope, axes in self._axes.items() if name in axes), None)
        if owner:
            raise TraceError(f"{name} is already an axis of {owner}", at)

    def _definition(self, definition: nodes.Definition) -> tuple[str, ...]:
        parent = definition.parent
        self._known_scope(parent, definition.at)
        match definition:
            case nodes.Cart(axes=axes, dims=dims):
                for dim in dims:
                    if dim is not None:
                        self._expression(dim, parent)
                for axis in axes:
                    if axis in self._axes:
                        raise TraceError(f"{axis} is already a scope", definition.at)
                    if axis in self._variables | self._params:
                        raise TraceError(f"{axis} is already a variable", definition.at)
                return axes
            case nodes.Sub(axes=axes):
                for axis in axes:
                    self._known_axis(axis, parent, definition.at)
                if len(set(axes)) < len(axes):
                    raise TraceError("an axis is given twice", definition.at)
                return tuple(axis for axis in self._axes[parent] if axis in axes)
            case nodes.Split(color=color, key=key):
                self._expression(color, parent)
                if key is not None:
                    self._expression(key, parent)
            case nodes.Where(condition=condition):
                self._expression(condition, parent)
            case nodes.Listed(ranks=ranks):
                self._ranges(ranks, parent)
            case nodes.Dup():
                return self._axes[parent]
        return ()

    # -- statements --------------------------------------------------------------------------------

    def _statement(self, statement: nodes.Statement, scope: str) -> None:
        match statement:
            case nodes.Let(name=name, value=value):
                self._expression(value, scope)
                if name in self._params:
                    raise TraceError(f"{name} is a parameter; LET cannot change it", statement.at)
                if name in self._counters:
                    raise TraceError(f"{name} is the counter of an enclosing loop", statement.at)
                if name not in self._variables:
                    self._new(name, statement.at)
                    self._variables.add(name)
            case nodes.Calc(mean=mean, std=std, cpu=cpu):
                self._expressions(scope, mean, std, cpu)
            case nodes.Message():
                scope = self._line_scope(statement.on, scope)
                self._expressions(scope, statement.size, statement.tag, statement.release)
                self._peer(statement.peer, scope)
            case nodes.SendRecv():
                scope = self._line_scope(statement.on, scope)
                self._expressions(scope, statement.size, statement.recv_size, statement.tag)
                self._peer(statement.to, scope)
                self._peer(statement.source, scope)
            case nodes.KeyOperation():
                scope = self._line_scope(statement.on, scope)
                self._expressions(scope, statement.key, statement.tag)
            case nodes.Wait(requests=requests):
                for name in requests:
                    if name not in self._requests:
                        close = did_you_mean(name, self._requests)
                        raise TraceError(
                            f"no ISEND, IRECV or PUT has the request name {name!r}{close}",
                            statement.at,
                        )
            case nodes.CollectiveCall(scope=named, size=size, root=root):
                if named:
                    self._known_scope(named, statement.at)
                    scope = named
                if size is not None:
                    self._expression(size, scope, peer=statement.name == "ALLTOALLV")
                self._expressions(scope, root)
            case nodes.For(counter=counter, range=range_, body=body):
                self._ranges((range_,), scope)
                self._new(counter, statement.at)
                self._counters.add(counter)
                self._block(body, scope)
                self._counters.remove(counter)
            case nodes.Repeat(count=count, body=body):
                self._expression(count, scope)
                self._block(body, scope)
            case nodes.If(branches=branches):
                for branch in branches:
                    self._expressions(scope, branch.condition)
                    self._block(branch.body, scope)
            case nodes.OnRanks(ranks=ranks, body=body):
                self._ranges(ranks, scope)
                self._block(body, scope)

    def _line_scope(self, on: nodes.On | None, scope: str) -> str:
        if on is None:
            return scope
        if on.number is not None:
            self._expression(on.number, scope)
            return scope
        self._known_scope(on.scope, on.at)
        return on.scope

    def _peer(self, peer: nodes.Peer, scope: str) -> None:
        match peer:
            case nodes.NullPeer():
                pass
            case nodes.Neighbour(axis=axis):
                self._known_axis(axis, scope, peer.at)
            case nodes.Coordinates(values=values):
                axes = self._axes[scope]
                if len(values) != len(axes):
                    raise TraceError(
                        f"at(…) has {len(values)} coordinates, but {scope} has "
                        f"{len(axes)} axes{': ' * bool(axes)}{', '.join(axes)}",
                        peer.at,
                    )
                self._expressions(scope, *values)
            case _:
                self._expression(peer, scope)

    def _ranges(self, ranges: Sequence[nodes.Range], scope: str) -> None:
        for range_ in ranges:
            self._expressions(scope, range_.first, range_.last, range_.step)

    # -- expressions -------------------------------------------------------------------------------

    def _expressions(self, scope: str, *values: nodes.Expression | None) -> None:
        for value in values:
            if value is not None:
                self._expression(value, scope)

    def _expression(self, node: nodes.Expression, scope: str, peer: bool = False) -> None:
        match node:
            case nodes.Name(name=name):
                self._name(name, node.at, scope, peer)
            case nodes.Unary(operand=operand):
                self._expression(operand, scope, peer)
            case nodes.Binary(left=left, right=right):
                self._expression(left, scope, peer)
                self._expression(right, scope, peer)
            case nodes.Call(function=function, arguments=arguments):
                if not self._scope_call(node, scope):
                    self._known_function(function, node.at)
                    for argument in arguments:
                        self._expression(argument, scope, peer)

    def _name(self, name: str, at: FilePosition, scope: str, peer: bool) -> None:
        variables = self._variables | self._params | self._counters
        if name in SCOPE_FUNCTIONS or name in self._axes[scope] or name in variables:
            return
        if name == PEER:
            if not peer:
                raise TraceError("peer is allowed only in the size of an ALLTOALLV", at)
            return
        owners = [owner for owner, axes in self._axes.items() if name in axes]
        if owners:
            raise TraceError(
                f"{name} is an axis of {', '.join(owners)}, but the scope here is {scope}; write "
                f"{name}({owners[0]})",
                at,
            )
        if name in self._axes:
            raise TraceError(f"{name} is a scope, not a value", at)
        known = [*variables, *self._axes[scope], *SCOPE_FUNCTIONS]
        raise TraceError(f"unknown name {name!r}{did_you_mean(name, known)}", at)

    def _scope_call(self, node: nodes.Call, scope: str) -> bool:
        """Check ``rank(grid)``, ``x(grid)``, ``dim(x)`` or ``dim(grid, x)``; else return False."""
        function, arguments = node.function, node.arguments
        is_axis = any(function in axes for axes in self._axes.values())
        if function == "dim":
            names = [arg.name for arg in arguments if isinstance(arg, nodes.Name)]
            if len(names) != len(arguments) or len(names) not in (1, 2):
                raise TraceError("dim takes an axis, or a scope and one of its axes", node.at)
            owner = scope if len(names) == 1 else names[0]
            self._known_scope(owner, node.at)
            self._known_axis(names[-1], owner, node.at)
            return True
        if function not in SCOPE_FUNCTIONS and not is_axis:
            return False
        if len(arguments) != 1 or not isinstance(arguments[0], nodes.Name):
            raise TraceError(f"{function}(…) takes the name of a scope", node.at)
        owner = arguments[0].name
        self._known_scope(owner, arguments[0].at)
        if is_axis:
            self._known_axis(function, owner, node.at)
        return True

    def _known_function(self, function: str, at: FilePosition) -> None:
        if function not in FUNCTIONS:
            known = [*FUNCTIONS, *SCOPE_FUNCTIONS, "dim"]
            raise TraceError(f"unknown function {function!r}{did_you_mean(function, known)}", at)

    def _known_scope(self, name: str, at: FilePosition) -> None:
        if name not in self._axes:
            close = did_you_mean(name, self._axes)
            raise TraceError(
                f"unknown scope {name!r}{close}; known scopes: {', '.join(self._axes)}", at
            )

    def _known_axis(self, axis: str, scope: str, at: FilePosition) -> None:
        axes = self._axes[scope]
        if not axes:
            raise TraceError(
                f"{scope} has no axis {axis} because it is not a grid; define one as in "
                f"SCOPE grid = CART {scope} (x: 4, y: 4), and enter it or add ON grid",
                at,
            )
        if axis not in axes:
            raise TraceError(
                wrong_name(f"{scope} has no axis", axis, axes, "it has"),
                at,
            )
