"""The coefficients of the contention-graph model, which describe a network technology.

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

where rho' is the largest penalty among those other edges, computed only from their conflicts with
sources that have one outgoing edge. The default coefficients give equation 4 of M. Martinasso and
J.-F. Mehaut, "A contention-aware performance model for HPC-based networks" (Euro-Par 2011), for
InfiniBand. A calibration writes the coefficients as a small TOML file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, create_model

from weft.core.arguments import finite_number
from weft.core.errors import InputError, in_file
from weft.core.files import read_text, write_text
from weft.core.toml_lines import read_table
from weft.kernels.flow.contention_steps import Coefficients

#: Largest coefficient, far above that of any network. Products with degrees of graphs stay finite.
MAX_COEFFICIENT = 1_000_000


@dataclass(frozen=True)
class PenaltyModel:
    """Coefficients of one network technology; the defaults are InfiniBand's.

    Parameters
    ----------
    out_offset, out_weight
        Sharing of the sending adapter: penalty `out_offset` + `out_weight` * out-degree, at least
        1. InfiniBand: 0 and 1, equal shares. An `out_weight` below 1 means that a single
        communication does not fill the adapter.
    in_weight
        Weight of the demand of other communications at the receiving adapter (rule c). InfiniBand:
        1.
    in_exponent
        Exponent of the demand at a receiver: n ** -`in_exponent` for a communication whose source
        has n outgoing communications. InfiniBand: 1, the fair share of the sending adapter; at 0
        all communications into a node have the same demand.
    full_rate_weight
        Weight of rule b: the delay of a source's only communication by slower communications at its
        receiver. InfiniBand: 1, the communication gets exactly the rate that the slowest of the
        others leaves.
    balanced_weight
        Part of rule c's sum that applies where the sources into a node share their adapters as much
        as the receiver is shared (rule a), 0 to 1. InfiniBand: 0.
    back_pressure
        Part of a communication's delay that also delays the other communications of its source, 0
        to 1. InfiniBand: 1, because an adapter without credits blocks all its communications; at 0
        they are independent, like connections with their own windows.

    Raises
    ------
    InputError
        If a coefficient is not a finite number in its range (at most 1,000,000).
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
            most = 1 if field.name in ("balanced_weight", "back_pressure") else MAX_COEFFICIENT
            if abs(value) > most:
                raise InputError(f"{field.name} must be at most {most:,}, not {value:g}")

    def coefficients(self) -> Coefficients:
        """Return the coefficients for kernels."""
        return Coefficients(*(float(getattr(self, field.name)) for field in fields(self)))


#: Equation 4 of the paper as printed.
INFINIBAND = PenaltyModel()


_BANDWIDTH = "inverse_bandwidth_s_per_byte"
_NAMES = tuple(field.name for field in fields(PenaltyModel))


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


_Number = Annotated[float, Field(allow_inf_nan=False)] | None
_Inverse = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
_numbers: dict[str, Any] = dict.fromkeys(_NAMES, (_Number, None))
_Coefficients: Any = create_model("Coefficients", __base__=_Table, **_numbers)
_numbers[_BANDWIDTH] = _Number, None
_Uncertainty: Any = create_model("Uncertainty", __base__=_Table, **_numbers)


class _File(_Table):
    inverse_bandwidth_s_per_byte: _Inverse = None
    coefficients: _Coefficients = _Coefficients()
    uncertainty: _Uncertainty = _Uncertainty()


class NetworkCoefficients(NamedTuple):
    """The contents of a file of coefficients."""

    #: The coefficients; a coefficient that is not in the file has its default.
    model: PenaltyModel
    #: Inverse bandwidth alpha; None if it is not in the file.
    inverse_bandwidth_s_per_byte: float | None
    #: Standard errors of the fitted coefficients and of alpha, by name.
    uncertainty: Mapping[str, float]


def write_coefficients(
    path: str | Path,
    model: PenaltyModel,
    inverse_bandwidth_s_per_byte: float,
    uncertainty: Mapping[str, float] | None = None,
    comment: str = "",
) -> None:
    """Write coefficients as TOML, atomically."""
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

    `path`: a TOML file with `inverse_bandwidth_s_per_byte`, a table `coefficients` or both, and
    optionally a table `uncertainty`.
    """
    file = read_table(_File, read_text(path), path)
    if file.model_fields_set <= {"uncertainty"}:
        raise InputError(f"the file has neither {_BANDWIDTH} nor coefficients", file=path)
    with in_file(path):
        model = PenaltyModel(**file.coefficients.model_dump(exclude_none=True))
    alpha, uncertainty = file.inverse_bandwidth_s_per_byte, file.uncertainty
    return NetworkCoefficients(model, alpha, uncertainty.model_dump(exclude_none=True))
