"""Evaluation of expressions for many ranks at once: one number for all of them, or an array."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.registry import did_you_mean
from weft.workload.trace import nodes
from weft.workload.trace.errors import FilePosition, TraceError
from weft.workload.trace.quantities import LIMIT, PLAIN, quantity
from weft.workload.trace.scopes import Ints, Scope

Scalar = bool | int | float
_WHAT = {"": "a plain number", "bytes": "a size", "time": "a time"}


class Value(NamedTuple):
    """A number or truth value for all ranks, or an array with one value per rank."""

    data: Any
    unit: str = PLAIN

    @property
    def is_array(self) -> bool:
        """Whether there is one value per rank."""
        return isinstance(self.data, np.ndarray)

    @property
    def is_truth(self) -> bool:
        """Whether the value is a truth value, not a number."""
        return self.data.dtype == np.bool_ if self.is_array else isinstance(self.data, bool)


@dataclass
class Variable:
    """An assigned value: one for all ranks, or int64, float64 or bool [world ranks]."""

    value: Value
    #: bool [world ranks]: whether the rank has a value; None if all ranks have one.
    known: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Context:
    """The ranks for which an expression is evaluated, and the meaning of names."""

    #: int64, world ranks, all in the scope; duplicates are possible.
    ranks: Ints
    #: The communicator of ``rank``, ``size`` and the axes.
    scope: Scope
    #: All defined scopes.
    scopes: Mapping[str, Scope]
    #: All assigned variables.
    variables: Mapping[str, Variable]
    #: Further values, such as ``peer``.
    extra: Mapping[str, Value] = field(default_factory=dict)

    def only(self, mask: NDArray[np.bool_]) -> Context:
        """Return the same context for some of the ranks."""
        extra = {
            name: Value(value.data[mask] if value.is_array else value.data, value.unit)
            for name, value in self.extra.items()
        }
        return Context(self.ranks[mask], self.scope, self.scopes, self.variables, extra)

    def rank_text(self, bad: NDArray[np.bool_] | bool) -> str:
        """Return `` on rank 3`` for the first bad rank; empty if `bad` is not per rank."""
        if isinstance(bad, np.ndarray) and bad.ndim and len(self.ranks):
            return f" on rank {self.ranks[int(np.argmax(bad))]}"
        return ""


def evaluate(node: nodes.Expression, context: Context) -> Value:
    """Return the value of an expression."""
    match node:
        case nodes.Number(text=text):
            return Value(*quantity(text))
        case nodes.Name(name=name):
            return _name(name, node.at, context)
        case nodes.Unary(operator="not", operand=operand):
            truth = condition(operand, context)
            return Value(~truth if isinstance(truth, np.ndarray) else not truth)
        case nodes.Unary(operand=operand):
            value = number(operand, context)
            return _checked(Value(-value.data, value.unit), node.at, context)
        case nodes.Binary(operator="and" | "or" as word, left=left, right=right):
            return _lazy(word, left, right, context)
        case nodes.Binary():
            return _binary(node, context)
        case nodes.Call(function="choose", arguments=(test, one, other)):
            return _choose(test, one, other, node.at, context)
        case nodes.Call():
            return _call(node, context)
    raise TypeError(f"{type(node).__name__} is not an expression")


def number(node: nodes.Expression, context: Context) -> Value:
    """Return the value of a numeric expression."""
    value = evaluate(node, context)
    if value.is_truth:
        raise TraceError("expected a number, found a condition", nodes.begin(node))
    return value


def condition(node: nodes.Expression, context: Context) -> bool | NDArray[np.bool_]:
    """Return the value of a condition."""
    value = evaluate(node, context)
    if not value.is_truth:
        raise TraceError(
            "expected a condition such as rank == 0, found a number", nodes.begin(node)
        )
    truth: bool | NDArray[np.bool_] = value.data
    return truth


def integer(node: nodes.Expression, context: Context, what: str, unit: str = PLAIN) -> Any:
    """Return the value of an expression as an integer: an int, or int64 [ranks]."""
    value = number(node, context)
    _fits(value, what, unit, nodes.begin(node))
    if value.is_array and value.data.dtype.kind == "i":
        return value.data
    if isinstance(value.data, int):
        return value.data
    data = np.asarray(value.data, dtype=np.float64)
    bad = data != np.floor(data)
    if np.any(bad):
        shown = float(data[bad][0]) if data.ndim else float(data)
        raise TraceError(
            f"{what} is {shown:g}{context.rank_text(bad)}; it must be an integer: use // or "
            "round(…)",
            nodes.begin(node),
        )
    return data.astype(np.int64) if data.ndim else int(data)


def real(node: nodes.Expression, context: Context, what: str, unit: str) -> Any:
    """Return the value of an expression as a real number, with the given unit or without a unit."""
    value = number(node, context)
    _fits(value, what, unit, nodes.begin(node))
    return value.data


def same_everywhere(node: nodes.Expression, context: Context, what: str, unit: str = PLAIN) -> int:
    """Return the value of an expression as one integer, which must be equal on all ranks."""
    value = integer(node, context, what, unit)
    if isinstance(value, np.ndarray):
        if len(value) and np.any(value != value[0]):
            other = int(np.argmax(value != value[0]))
            raise TraceError(
                f"{what} must be the same on all ranks; it is {value[0]} on rank "
                f"{context.ranks[0]} and {value[other]} on rank {context.ranks[other]}",
                nodes.begin(node),
            )
        return int(value[0]) if len(value) else 0
    return int(value)


def common_unit(*values: Value) -> str | None:
    """Return the unit of values, some of which may be plain numbers; None if units differ."""
    units = {value.unit for value in values} - {PLAIN} or {PLAIN}
    return units.pop() if len(units) == 1 else None


def _fits(value: Value, what: str, unit: str, at: FilePosition) -> None:
    if value.unit not in (PLAIN, unit):
        raise TraceError(f"{what} is {_WHAT[unit]}, not {_WHAT[value.unit]}", at)


# -- names -----------------------------------------------------------------------------------------


def _name(name: str, at: FilePosition, context: Context) -> Value:
    if name in context.extra:
        return context.extra[name]
    if name in ("rank", "size", *context.scope.axes):
        return _in_scope(name, context.scope, context.ranks)
    variable = context.variables.get(name)
    if variable is None:
        known = [*context.variables, *context.extra, *context.scope.axes, "rank", "size"]
        raise TraceError(f"{name!r} has no value{did_you_mean(name, known)}", at)
    value = variable.value
    if variable.known is not None:
        missing = ~variable.known[context.ranks]
        if missing.any():
            raise TraceError(f"{name} has no value{context.rank_text(missing)}", at)
    return Value(value.data[context.ranks], value.unit) if value.is_array else value


def _in_scope(name: str, scope: Scope, ranks: Ints) -> Value:
    if name == "rank":
        return Value(scope.local[ranks])
    if name == "size":
        return Value(len(scope.ranks) if scope.num_groups == 1 else scope.size(ranks))
    return Value(scope.coordinates(ranks)[scope.axes.index(name)])


def scope_value(function: str, scope: Scope, at: FilePosition, context: Context) -> Value:
    """Return ``rank``, ``size`` or a coordinate in a named scope."""
    missing = scope.group[context.ranks] < 0
    if missing.any():
        raise TraceError(
            f"{function}({scope.name}){context.rank_text(missing)}: the rank is not in this scope",
            at,
        )
    return _in_scope(function, scope, context.ranks)


# -- arithmetic ------------------------------------------------------------------------------------


def _checked(value: Value, at: FilePosition, context: Context) -> Value:
    """Return the value if it fits in 64 bits and is finite."""
    data = value.data
    if isinstance(data, np.ndarray):
        bad = ~np.isfinite(data) if data.dtype.kind == "f" else np.zeros(0, dtype=np.bool_)
        if bad.any():
            raise TraceError(f"the value is not finite{context.rank_text(bad)}", at)
    elif isinstance(data, int):
        if not -LIMIT < data < LIMIT:
            raise TraceError("the value does not fit in 64 bits", at)
    elif not math.isfinite(data):
        raise TraceError("the value is not finite", at)
    return value


def _binary(node: nodes.Binary, context: Context) -> Value:
    left, right = evaluate(node.left, context), evaluate(node.right, context)
    symbol = node.operator
    if left.is_truth or right.is_truth:
        both = left.is_truth and right.is_truth
        if not (both and symbol in ("==", "!=")):
            raise TraceError(f"{symbol} needs numbers, not conditions", node.at)
    unit = _unit(symbol, left.unit, right.unit, node.at)
    if symbol in _COMPARE:
        truth = _COMPARE[symbol](left.data, right.data)
        return Value(truth if isinstance(truth, np.ndarray) else bool(truth))
    if symbol in ("/", "//", "%"):
        zero = np.asarray(right.data) == 0
        if zero.any():
            raise TraceError(f"division by zero{context.rank_text(zero)}", node.at)
    if symbol == "**":
        return _checked(_power(left, right, node.at, context), node.at, context)
    calculate = _ARITHMETIC[symbol]
    if symbol in ("+", "-", "*") and (left.is_array or right.is_array):
        a, b = np.asarray(left.data), np.asarray(right.data)
        if a.dtype.kind == b.dtype.kind == "i":
            near = calculate(a.astype(np.float64), b.astype(np.float64))
            _refuse_overflow(near, node.at, context)
    with np.errstate(all="ignore"):
        return _checked(Value(calculate(left.data, right.data), unit), node.at, context)


def _refuse_overflow(near: Any, at: FilePosition, context: Context) -> None:
    """Raise an error if an integer near a real number does not fit in 64 bits."""
    bad = ~(np.abs(near) < LIMIT - 2048)
    if bad.any():
        raise TraceError(f"the value does not fit in 64 bits{context.rank_text(bad)}", at)


def _power(left: Value, right: Value, at: FilePosition, context: Context) -> Value:
    a, b = left.data, right.data
    if left.is_array or right.is_array:
        base, exponent = np.asarray(a), np.asarray(b)
        with np.errstate(all="ignore"):
            near = np.power(base.astype(np.float64), exponent.astype(np.float64))
            integers = base.dtype.kind == "i" and exponent.dtype.kind == "i"
            if integers and np.all(exponent >= 0):
                _refuse_overflow(near, at, context)
                return Value(np.power(base, exponent))
        return Value(near)
    if isinstance(a, int) and isinstance(b, int) and b >= 0:
        if abs(a) > 1 and b > 63:
            raise TraceError("the value does not fit in 64 bits", at)
        return Value(a**b)
    try:
        power = float(a) ** float(b)
    except (OverflowError, ZeroDivisionError):
        raise TraceError("the value is not finite", at) from None
    if isinstance(power, complex):
        raise TraceError("a root of a negative number is not defined", at)
    return Value(power)


def _unit(symbol: str, left: str, right: str, at: FilePosition) -> str:
    """Return the unit of the result."""
    if symbol in ("+", "-", "%") or symbol in _COMPARE:
        if left and right and left != right:
            raise TraceError(f"{_WHAT[left]} and {_WHAT[right]} are incompatible", at)
        return left or right
    if symbol == "*":
        if left and right:
            raise TraceError(f"{_WHAT[left]} times {_WHAT[right]} has no unit here", at)
        return left or right
    if symbol == "**":
        if left or right:
            raise TraceError("powers are defined only for plain numbers", at)
        return PLAIN
    if right and left != right:
        raise TraceError(f"{_WHAT[left]} divided by {_WHAT[right]} has no unit here", at)
    return PLAIN if right else left


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
#: For one number (``round``: half to even), and for an array.
_ROUND: dict[str, tuple[Callable[[Any], int], Callable[[Any], Any]]] = {
    "floor": (math.floor, np.floor),
    "ceil": (math.ceil, np.ceil),
    "round": (round, np.rint),
}


# -- expressions evaluated for some ranks only -----------------------------------------------------


def _lazy(word: str, left: nodes.Expression, right: nodes.Expression, context: Context) -> Value:
    """Evaluate ``and`` or ``or``; evaluate the right side only for the ranks that need it."""
    first = condition(left, context)
    decided = word == "or"
    if isinstance(first, bool):
        return Value(first) if first == decided else Value(condition(right, context))
    open_ = first != decided
    result = first.copy()
    if open_.any():
        result[open_] = condition(right, context.only(open_))
    return Value(result)


def _choose(
    test: nodes.Expression,
    one: nodes.Expression,
    other: nodes.Expression,
    at: FilePosition,
    context: Context,
) -> Value:
    truth = condition(test, context)
    if isinstance(truth, bool):
        return evaluate(one if truth else other, context)
    parts = [
        (mask, evaluate(node, context.only(mask)))
        for mask, node in ((truth, one), (~truth, other))
        if mask.any()
    ]
    unit = common_unit(*(value for _, value in parts))
    if unit is None or len({value.is_truth for _, value in parts}) > 1:
        raise TraceError("choose(…) takes two values of the same type and unit", at)
    kind = np.result_type(*(np.asarray(value.data).dtype for _, value in parts))
    result = np.empty(len(context.ranks), dtype=kind)
    for mask, value in parts:
        result[mask] = value.data
    return Value(result, unit)


# -- functions -------------------------------------------------------------------------------------


def _call(node: nodes.Call, context: Context) -> Value:
    name, arguments = node.function, node.arguments
    first = arguments[0] if arguments else None
    if isinstance(first, nodes.Name) and first.name in context.scopes:
        scope = context.scopes[first.name]
        if name == "dim" and len(arguments) == 2 and isinstance(arguments[1], nodes.Name):
            return Value(scope.dims[scope.axes.index(arguments[1].name)])
        return scope_value(name, scope, node.at, context)
    if name == "dim" and isinstance(first, nodes.Name):
        return Value(context.scope.dims[context.scope.axes.index(first.name)])
    values = [number(argument, context) for argument in arguments]
    unit = common_unit(*values)
    if unit is None:
        raise TraceError(f"{name}(…) takes values of the same unit", node.at)
    data = [value.data for value in values]
    if name in ("min", "max"):
        return Value(_extreme(name, data), unit)
    if name == "xor":
        return _xor(node, values)
    if name in ("sqrt", "log2"):
        low = np.asarray(data[0]) < 0 if name == "sqrt" else np.asarray(data[0]) <= 0
        if low.any():
            raise TraceError(
                f"{name} of a number that is too small{context.rank_text(low)}", node.at
            )
        result = np.sqrt(data[0]) if name == "sqrt" else np.log2(data[0])
        return Value(result if values[0].is_array else float(result))
    if name == "abs":
        return _checked(Value(abs(data[0]), unit), node.at, context)
    return Value(_rounded(name, data[0], node.at, context), unit)


def _extreme(name: str, data: list[Any]) -> Any:
    if not any(isinstance(item, np.ndarray) for item in data):
        return min(data) if name == "min" else max(data)
    return reduce(np.minimum if name == "min" else np.maximum, data)


def _xor(node: nodes.Call, values: list[Value]) -> Value:
    data = [value.data for value in values]
    if any(np.asarray(item).dtype.kind != "i" or np.any(np.asarray(item) < 0) for item in data):
        raise TraceError("xor takes integers of 0 or more", node.at)
    return Value(data[0] ^ data[1], PLAIN)


def _rounded(name: str, data: Any, at: FilePosition, context: Context) -> Any:
    """Evaluate ``floor``, ``ceil`` or ``round`` (half to even)."""
    if np.asarray(data).dtype.kind == "i":
        return data
    _refuse_overflow(np.asarray(data), at, context)
    of_number, of_array = _ROUND[name]
    return of_array(data).astype(np.int64) if isinstance(data, np.ndarray) else of_number(data)
