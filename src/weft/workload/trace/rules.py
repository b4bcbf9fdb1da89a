"""Rules by which numbers of a statement depend on the rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.workload.trace import nodes
from weft.workload.trace.scopes import Ints

_RANK, _SIZE = nodes.Name("rank"), nodes.Name("size")


@dataclass(frozen=True)
class Rule:
    """A number as a function of the rank."""

    #: ``fixed``: independent of the rank. ``relative``: rank + d. ``ring``: (rank + d) % size.
    #: ``mirror``: d - rank. ``xor``: xor(rank, d). ``grid``: the rank d steps further along one
    #: periodic axis of a grid. ``affine``: a + b * rank.
    kind: str
    #: Numbers of the rule that may grow in a loop.
    numbers: tuple[float, ...]
    #: Numbers that must be constant: the stride and the extent of an axis, or b.
    fixed: tuple[int, ...] = ()

    #: How many numbers of each kind may grow.
    COUNTS: ClassVar[dict[str, int]] = {
        "fixed": 1, "relative": 1, "ring": 1, "mirror": 1, "xor": 1, "grid": 1, "affine": 1,
    }  # fmt: skip

    @staticmethod
    def expression(
        kind: str, fixed: tuple[int, ...], values: Sequence[nodes.Expression]
    ) -> nodes.Expression:
        """Return the rule as an expression, given its numbers."""
        (value,) = values
        match kind:
            case "fixed":
                return value
            case "relative":
                return _plus(_RANK, value)
            case "ring":
                if value == nodes.Number("0"):
                    return _RANK
                return nodes.Binary("%", _plus(_RANK, value), _SIZE)
            case "mirror":
                return nodes.Binary("-", value, _RANK)
            case "xor":
                return nodes.Call("xor", (_RANK, value))
            case "affine":
                return _plus(value, _times(fixed[0], _RANK))
        stride, extent = fixed
        # Replace the coordinate along the axis by the coordinate d steps further.
        along = nodes.Binary("//", _RANK, nodes.Number(str(stride))) if stride > 1 else _RANK
        size = nodes.Number(str(extent))
        moved = nodes.Binary("%", _plus(along, value), size)
        own = nodes.Binary("%", along, size)
        steps: nodes.Expression = nodes.Binary("-", moved, own)
        if stride > 1:
            steps = nodes.Binary("*", steps, nodes.Number(str(stride)))
        return nodes.Binary("+", _RANK, steps) if stride > 1 else _plus_all(_RANK, moved, own)


def _plus(left: nodes.Expression, right: nodes.Expression) -> nodes.Expression:
    """Return a sum, or a difference if the right side is negative."""
    if right == nodes.Number("0"):
        return left
    if isinstance(right, nodes.Unary):
        return nodes.Binary("-", left, right.operand)
    if isinstance(right, nodes.Binary) and right.operator in ("+", "-"):
        return nodes.Binary(right.operator, _plus(left, right.left), right.right)
    return nodes.Binary("+", left, right)


def _plus_all(
    first: nodes.Expression, plus: nodes.Expression, minus: nodes.Expression
) -> nodes.Expression:
    return nodes.Binary("-", nodes.Binary("+", first, plus), minus)


def _times(factor: int, value: nodes.Expression) -> nodes.Expression:
    if factor in (1, -1):
        return value if factor == 1 else nodes.Unary("-", value)
    product = nodes.Binary("*", nodes.Number(str(abs(factor))), value)
    return product if factor > 0 else nodes.Unary("-", product)


def rule_of_peers(ranks: Ints, peers: Ints, num_ranks: int) -> Rule | None:
    """Return the rule of the peers of ranks, or None."""
    if np.all(peers == peers[0]):
        return Rule("fixed", (int(peers[0]),))
    away = peers - ranks
    # If all ranks are in the group, the only constant distance without wrap-around is 0. The ring
    # rule includes distance 0 and allows the distance to grow in a loop.
    if np.all(away == away[0]) and len(ranks) < num_ranks:
        return Rule("relative", (int(away[0]),))
    around = away % num_ranks
    if np.all(around == around[0]):
        return Rule("ring", (int(around[0]),))
    bits = peers ^ ranks
    if np.all(bits == bits[0]):
        return Rule("xor", (int(bits[0]),))
    sums = peers + ranks
    if np.all(sums == sums[0]):
        return Rule("mirror", (int(sums[0]),))
    return _along_axis(ranks, peers)


def _along_axis(ranks: Ints, peers: Ints) -> Rule | None:
    """Return the rule of peers at a fixed distance along a periodic axis of any stride, or None."""
    away = np.unique(peers - ranks)
    if len(away) != 2 or away[0] >= 0 or away[1] <= 0:
        return None
    back, ahead = int(-away[0]), int(away[1])
    common = int(np.gcd(back, ahead))
    for stride in range(common, 0, -1):
        if common % stride:
            continue
        extent, steps = (back + ahead) // stride, ahead // stride
        here = ranks // stride % extent
        if np.all(ranks + ((here + steps) % extent - here) * stride == peers):
            # The shorter direction around the ring determines the sign.
            return Rule(
                "grid", (steps if 2 * steps <= extent else steps - extent,), (stride, extent)
            )
    return None


def rule_of_values(ranks: Ints, values: NDArray[np.generic]) -> Rule | None:
    """Return the rule of the sizes, tags, times or keys of ranks, or None."""
    if np.all(values == values[0]):
        return Rule("fixed", (values[0].item(),))
    if values.dtype.kind != "i" or len(ranks) < 3:
        return None
    numbers: Ints = values.astype(np.int64)
    slope, rest = divmod(int(numbers[1] - numbers[0]), int(ranks[1] - ranks[0]))
    base = int(numbers[0]) - slope * int(ranks[0])
    # Beyond 2^53 the sum may overflow when it is evaluated.
    if rest or max(abs(base), abs(slope) * int(ranks[-1])) >= 2**53:
        return None
    if np.any(base + slope * ranks != numbers):
        return None
    return Rule("affine", (base,), (slope,))
