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
holds for InfiniBand. A calibration writes them as a small TOML file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from weft.core.arguments import finite_number
from weft.core.errors import InputError
from weft.core.files import parse_toml, read_text, write_text
from weft.core.registry import did_you_mean
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


_BANDWIDTH = "inverse_bandwidth_s_per_byte"
_NAMES = tuple(field.name for field in fields(PenaltyModel))
_TABLES = ("coefficients", "uncertainty")


class NetworkCoefficients(NamedTuple):
    """What a file of coefficients holds.

    Attributes
    ----------
    model
        The coefficients; those that the file leaves out are InfiniBand's.
    inverse_bandwidth_s_per_byte
        alpha, None when the file does not say.
    uncertainty
        Standard errors of the two by name, of those that were fitted.
    """

    model: PenaltyModel
    inverse_bandwidth_s_per_byte: float | None
    uncertainty: Mapping[str, float]


def write_coefficients(
    path: str | Path,
    model: PenaltyModel,
    inverse_bandwidth_s_per_byte: float,
    uncertainty: Mapping[str, float] | None = None,
    comment: str = "",
) -> None:
    """Write coefficients as TOML, under a temporary name that is then renamed.

    Parameters
    ----------
    path
        The file.
    model, inverse_bandwidth_s_per_byte
        What was calibrated.
    uncertainty
        Standard errors by name.
    comment
        One line to put above.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    lines = [f"# {' '.join(comment.split())}"] if comment else []
    lines += [f"{_BANDWIDTH} = {_toml(inverse_bandwidth_s_per_byte)}", "", "[coefficients]"]
    lines += [f"{name} = {_toml(getattr(model, name))}" for name in _NAMES]
    if uncertainty:
        lines += ["", "[uncertainty]"]
        lines += [f"{name} = {_toml(value)}" for name, value in uncertainty.items()]
    write_text(path, "\n".join(lines) + "\n")


def _toml(value: float) -> str:
    return repr(float(value))


def read_coefficients(path: str | Path) -> NetworkCoefficients:
    """Read a file of coefficients.

    Parameters
    ----------
    path
        A TOML file with `inverse_bandwidth_s_per_byte` and a table `coefficients`, each optional,
        and perhaps a table `uncertainty`.

    Raises
    ------
    InputError
        When the file is no TOML, or a name or value is unknown or impossible.
    """
    found = parse_toml(read_text(path), path)
    for name in found:
        if name not in (_BANDWIDTH, *_TABLES):
            expected = (_BANDWIDTH, *_TABLES)
            raise InputError(
                f"unknown entry {name!r}{did_you_mean(name, expected)}; expected "
                f"{', '.join(expected)}",
                file=path,
            )
    if not any(name in found for name in (_BANDWIDTH, "coefficients")):
        raise InputError(f"has neither {_BANDWIDTH} nor coefficients", file=path)
    alpha = None
    if _BANDWIDTH in found:
        alpha = _number(found[_BANDWIDTH], _BANDWIDTH, path)
        if alpha <= 0:
            raise InputError(f"{_BANDWIDTH} must be above 0, not {alpha}", file=path)
    values = _table(found, "coefficients", _NAMES, path)
    try:
        model = PenaltyModel(**values)
    except InputError as error:
        raise InputError(error.message, file=path) from None
    return NetworkCoefficients(
        model, alpha, _table(found, "uncertainty", (_BANDWIDTH, *_NAMES), path)
    )


def _table(
    found: Mapping[str, object], table: str, names: tuple[str, ...], path: str | Path
) -> dict[str, float]:
    values = found.get(table, {})
    if not isinstance(values, dict):
        raise InputError(f"{table} must be a table of numbers", file=path)
    for name in values:
        if name not in names:
            raise InputError(
                f"{table}: unknown coefficient {name!r}{did_you_mean(name, names)}; expected "
                f"some of {', '.join(names)}",
                file=path,
            )
    return {name: _number(value, name, path) for name, value in values.items()}


def _number(value: object, name: str, path: str | Path) -> float:
    try:
        return finite_number(value, name, -math.inf)
    except InputError as error:
        raise InputError(error.message, file=path) from None
