"""Formatting of trace programs in their canonical form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.workload.trace import nodes
from weft.workload.trace.expressions import COMPARISONS, LEVELS, NOT, SIGN

_ATOM = 9


def format_program(program: nodes.TraceProgram) -> str:
    """Return the text of a program; parsing it gives an equal program.

    Keywords are in capitals, blocks are indented by two spaces, words separated by one space.
    """
    return "".join(line + "\n" for line in _lines(program.statements, ""))


def _lines(statements: Sequence[nodes.Statement], indent: str) -> Iterator[str]:
    for statement in statements:
        yield from _statement(statement, indent)


def _commented(line: str, comment: str) -> str:
    if not comment:
        return line
    return f"{line}  # {comment}" if line.strip() else f"{line}# {comment}"


def _statement(statement: nodes.Statement, indent: str) -> Iterator[str]:
    deeper = indent + "  "
    end = indent + "END"
    match statement:
        case nodes.Blank():
            yield _commented(indent, statement.comment) if statement.comment else ""
        case nodes.For(counter=counter, range=range_, body=body):
            yield _commented(f"{indent}FOR {counter} = {_range(range_)}", statement.comment)
            yield from _lines(body, deeper)
            yield _commented(end, statement.end_comment)
        case nodes.Repeat(count=count, body=body):
            yield _commented(f"{indent}REPEAT {expression(count)}", statement.comment)
            yield from _lines(body, deeper)
            yield _commented(end, statement.end_comment)
        case nodes.If(branches=branches):
            word = "IF"
            for branch in branches:
                head = word if branch.condition is not None else "ELSE"
                if branch.condition is not None:
                    head += f" {expression(branch.condition)}"
                yield _commented(indent + head, branch.comment)
                yield from _lines(branch.body, deeper)
                word = "ELIF"
            yield _commented(end, statement.end_comment)
        case nodes.OnRanks(ranks=ranks, body=body, single=True):
            (line,) = _statement(body[0], "") if not _is_block(body[0]) else ("",)
            if line:
                yield f"{indent}{_rank_list(ranks)}: {line}"
            else:
                first, *rest = _statement(body[0], indent)
                yield f"{indent}{_rank_list(ranks)}: {first.lstrip()}"
                yield from rest
        case nodes.OnRanks(ranks=ranks, body=body):
            yield _commented(f"{indent}{_rank_list(ranks)}:", statement.comment)
            yield from _lines(body, deeper)
            yield _commented(end, statement.end_comment)
        case _:
            yield _commented(indent + line_of(statement), statement.comment)


def _is_block(statement: nodes.Statement) -> bool:
    if isinstance(statement, nodes.OnRanks) and statement.single:
        return _is_block(statement.body[0])
    return isinstance(statement, nodes.Block)


def line_of(statement: nodes.Statement) -> str:
    """Return the text of a one-line statement, without its comment."""
    match statement:
        case nodes.Title(text=text):
            return f'NAME "{text}"'
        case nodes.RankCount(count=count):
            return f"RANKS {expression(count)}"
        case nodes.Seed(value=value):
            return f"SEED {expression(value)}"
        case nodes.Param(name=name, value=value):
            return f"PARAM {name} = {expression(value)}"
        case nodes.Let(name=name, value=value):
            return f"LET {name} = {expression(value)}"
        case nodes.Communicator(number=number, text=text):
            return f"COMMUNICATOR {expression(number)}" + (f' "{text}"' if text else "")
        case nodes.DefineScope(name=name, definition=definition):
            return f"SCOPE {name} = {_definition(definition)}"
        case nodes.EnterScope(name=name):
            return f"SCOPE {name}"
        case nodes.SetPhase(text=text):
            return f'PHASE "{text}"'
        case nodes.Calc(mean=mean, std=std, cpu=cpu):
            line = f"CALC {expression(mean)}{_option('STD', std)}{_option('CPU', cpu)}"
            return line + _after(statement.after)
        case nodes.Message(verb=verb, size=size):
            direction = "FROM" if verb in ("RECV", "IRECV") else "TO"
            line = f"{verb} {expression(size)} {direction} {_peer(statement.peer)}"
            line += _option("TAG", statement.tag) + _on(statement.on)
            line += _option("RELEASE", statement.release)
            line += f" AS {statement.request}" if statement.request else ""
            return line + _after(statement.after)
        case nodes.SendRecv(size=size):
            line = f"SENDRECV {expression(size)} TO {_peer(statement.to)}"
            if statement.recv_size is not None:
                line += f", {expression(statement.recv_size)}"
            line += f" FROM {_peer(statement.source)}"
            return line + _option("TAG", statement.tag) + _on(statement.on)
        case nodes.Wait(requests=requests):
            return f"WAIT {', '.join(requests)}" if requests else "WAITALL"
        case nodes.KeyOperation(verb=verb, key=key, tag=tag):
            line = f"{verb} KEY {expression(key)}{_option('TAG', tag)}{_on(statement.on)}"
            return line + _after(statement.after)
        case nodes.CollectiveCall(name=name, size=size, root=root):
            line = name + ("" if size is None else f" {expression(size)}") + _option("ROOT", root)
            if statement.scope:
                line += f" {statement.scope}" if size is None else f" ON {statement.scope}"
            return line + (f" USING {statement.algorithm}" if statement.algorithm else "")
    raise TypeError(f"{type(statement).__name__} is not a one-line statement")


def _option(word: str, value: nodes.Expression | None) -> str:
    return "" if value is None else f" {word} {expression(value)}"


def _on(on: nodes.On | None) -> str:
    if on is None:
        return ""
    return f" ON {on.scope}" if on.number is None else f" COMM {expression(on.number)}"


def _after(after: tuple[nodes.Dependency, ...] | None) -> str:
    if after is None:
        return ""
    named = [f"{one.back} START" if one.start else str(one.back) for one in after]
    return f" AFTER {', '.join(named) or 'NOTHING'}"


def _peer(peer: nodes.Peer) -> str:
    match peer:
        case nodes.NullPeer():
            return "NULL"
        case nodes.Neighbour(sign=sign, axis=axis):
            return sign + axis
        case nodes.Coordinates(values=values):
            return f"at({', '.join(map(expression, values))})"
    text = expression(peer)
    return f"({text})" if text.startswith("-") else text  # a sign would begin an axis


def _range(range_: nodes.Range) -> str:
    text = expression(range_.first)
    if range_.last is not None:
        text += f"..{expression(range_.last)}"
    return text + _option("BY", range_.step)


def _rank_list(ranks: Sequence[nodes.Range]) -> str:
    text = ", ".join(map(_range, ranks))
    if text[0].isdigit() or text[0] in "(.":
        return text
    # Parentheses, because a line that begins with a name would be a statement.
    first = ranks[0]
    head = f"({expression(first.first)})" + _range(first)[len(expression(first.first)) :]
    return ", ".join([head, *map(_range, ranks[1:])])


def _definition(definition: nodes.Definition) -> str:
    parent = definition.parent
    match definition:
        case nodes.Cart(axes=axes, dims=dims, periodic=periodic):
            sizes = ", ".join(
                f"{axis}: {'AUTO' if dim is None else expression(dim)}"
                for axis, dim in zip(axes, dims, strict=True)
            )
            closed = f" PERIODIC ({', '.join(periodic)})" if periodic else ""
            return f"CART {parent} ({sizes}){' PERIODIC' if periodic is None else closed}"
        case nodes.Sub(axes=axes):
            return f"SUB {parent} ({', '.join(axes)})"
        case nodes.Split(color=color, key=key):
            return f"SPLIT {parent} BY {expression(color)}{_option('KEY', key)}"
        case nodes.Where(condition=condition):
            return f"WHERE {parent} {expression(condition)}"
        case nodes.Listed(ranks=ranks):
            return f"LIST {parent} [{', '.join(map(_range, ranks))}]"
    return f"DUP {parent}"


def expression(value: nodes.Expression, level: int = 1) -> str:
    """Return the text of an expression, in parentheses if its precedence is below `level`."""
    match value:
        case nodes.Number(text=text):
            return text
        case nodes.Name(name=name):
            return name
        case nodes.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(expression, arguments))})"
        case nodes.Unary(operator="not", operand=operand):
            own, text = NOT, f"not {expression(operand, NOT)}"
        case nodes.Unary(operand=operand):
            own, text = SIGN, f"-{expression(operand, SIGN)}"
        case nodes.Binary(operator=operator, left=left, right=right):
            own = LEVELS[operator]
            if operator == "**":
                low, high = _ATOM, SIGN
            else:
                low, high = own + (operator in COMPARISONS), own + 1
            text = f"{expression(left, low)} {operator} {expression(right, high)}"
    return f"({text})" if own < level else text
