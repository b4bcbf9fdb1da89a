"""Coefficients of a network technology as a small TOML file, as a calibration writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from weft.contention.coefficients import PenaltyModel
from weft.core.arguments import finite_number
from weft.core.errors import InputError
from weft.core.files import parse_toml, read_text, write_text
from weft.core.registry import did_you_mean

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
