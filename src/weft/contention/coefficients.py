"""The coefficients of the contention-graph model: what tells one network technology from another.

With out(v) and in(v) the numbers of edges that leave and enter a node, the penalty of an edge
e = (s, d) is

    rho(e)  = own(e) + back_pressure * (max of own over the edges of s  -  own(e))
    own(e)  = max(1, out_offset + out_weight * out(s) + k(e))

    c(e)    = sum of 1 / out(s'')**in_exponent over the edges (s'', d) with s'' != s
    C(e)    = c(e) + back_pressure * (sum of c over the other edges of s)

    k(e)    = 0                                  where no other source sends to d            (a)
            = balanced_weight * in_weight * C(e) where in(d) <= out(s) and every source that
                                                 sends to d has out(s) outgoing edges        (a)
            = full_rate_weight / (rho' - 1)      where out(s) = 1 and all other edges into d
                                                 come from sources with out > 1; at most
                                                 in_weight * C(e)                            (b)
            = in_weight * C(e)                   otherwise                                   (c)

where rho' is the largest penalty among those other edges, reckoned with conflicts with sources of
one outgoing edge alone. All coefficients at their defaults give equation 4 of M. Martinasso and
J.-F. Mehaut, "A contention-aware performance model for HPC-based networks" (Euro-Par 2011), as it
holds for InfiniBand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from weft.core.arguments import finite_number
from weft.core.errors import InputError
from weft.kernels.flow.contention_steps import Coefficients

#: Far above any network's: products with the degrees of any graph stay finite.
MOST_COEFFICIENT = 1_000_000


@dataclass(frozen=True)
class PenaltyModel:
    """Coefficients of one network technology; the defaults are InfiniBand's.

    Parameters
    ----------
    out_offset, out_weight
        The share of the sending adapter: `out_offset` + `out_weight` * out-degree, at least 1.
        InfiniBand: 0 and 1, a fair share each. An `out_weight` below 1 says that one communication
        alone does not fill the adapter.
    in_weight
        Weight of the demand that other communications put on the receiving adapters (rule c).
        InfiniBand: 1.
    in_exponent
        A communication whose source has n outgoing ones demands n ** -`in_exponent` of a
        receiver. InfiniBand: 1, its fair share of the sending adapter; at 0 every communication
        into a node counts the same, whatever else its source does.
    full_rate_weight
        Weight of rule b: what a source's only communication loses to slower ones at its receiver.
        InfiniBand: 1, it takes exactly what the largest of them leaves.
    balanced_weight
        Part of rule c's sum that stays where the sources into a node share their adapters as much
        as the receiver is shared (rule a), 0 to 1. InfiniBand: 0.
    back_pressure
        How far one delayed communication delays the others of its source, 0 to 1. InfiniBand: 1,
        as an adapter without credits holds everything back; 0 lets every communication wait
        alone, as connections with windows of their own do.

    Raises
    ------
    InputError
        When a coefficient is no finite number or lies outside its range (at most 1,000,000).
    """

    out_offset: float = 0.0
    out_weight: float = 1.0
    in_weight: float = 1.0
    in_exponent: float = 1.0
    full_rate_weight: float = 1.0
    balanced_weight: float = 0.0
    back_pressure: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            low = -math.inf if field.name == "out_offset" else 0.0
            value = finite_number(getattr(self, field.name), field.name, low)
            object.__setattr__(self, field.name, value)
            most = 1 if field.name in ("balanced_weight", "back_pressure") else MOST_COEFFICIENT
            if abs(value) > most:
                raise InputError(f"{field.name} must be at most {most:,}, not {value:g}")

    def coefficients(self) -> Coefficients:
        """The coefficients as kernels take them."""
        return Coefficients(*(float(getattr(self, field.name)) for field in fields(self)))


#: Equation 4 of the paper as printed.
INFINIBAND = PenaltyModel()
