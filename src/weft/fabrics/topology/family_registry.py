"""The registry of topologies, and the syntax of their specs.

A spec is ``family:arguments``. Arguments are key=value pairs separated by commas; a value may be
a list (``m=6,6,6``) or dimensions (``4x4x4``). The leading arguments of a family may also be
positional, separated by semicolons: ``xgft:3;6,6,6;1,6,6`` is ``xgft:h=3,m=6,6,6,w=1,6,6``.
Every family has the keys `rate` (all cables), `host_rate` (cables to hosts) and `attached` (number
of hosts that are built, spread evenly; the other host ports stay free) besides its own.

A family that `weft.fabrics.topology.sizing` can size has two more facts. `sizings` maps names of
machines to functions of a number of hosts and of ports of a switch, which yield parameters of the
family; `engines` names the routing engines that suit the family, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.core.registry import Entry, Registry, convert
from weft.core.units import parse_rate
from weft.fabrics import Fabric, FabricBuilder, NodeKind, Parts, variants
from weft.fabrics.builder import MAX_PORTS
from weft.fabrics.parts import set_rate

topology = Registry(
    "topology", "weft.fabrics.topology", "weft.topologies",
    common={
        "hosts": "Number of hosts of each switch.",
        "cables": "Number of parallel cables between neighbours.",
    },
)  # fmt: skip

_COMMON = ("rate", "host_rate", "attached")

#: Number of hosts and of ports of a switch -> parameters of machines, also of too small ones.
Sizing = Callable[[int, int], Iterator[Mapping[str, Any]]]

#: Largest number of nodes, and largest number of cables, of a generated fabric, which must fit in
#: memory.
MOST = 20_000_000


@dataclass(frozen=True)
class ClosedForm:
    """Properties of a topology from the literature, independent of how weft builds it."""

    #: Number of hosts, of switches, and of cables; cables to hosts are included.
    hosts: int
    switches: int
    cables: int
    #: Largest number of hops of a minimal path between two hosts, or None.
    diameter: int | None = None
    #: Number of cables of the smallest cut between two halves of the hosts, cables to hosts
    #: included (half sizes differ by one if the number of hosts is odd); None where not proven.
    bisection_cables: int | None = None
    #: Number of ports of the largest switch, or None.
    radix: int | None = None
    #: Source of the numbers.
    source: str = ""


def build(spec: str) -> Fabric:
    """Build the fabric that a spec describes."""
    entry, bound, common = _bound(spec)
    try:
        builder = entry.function(**bound)
    except InputError as error:
        raise InputError(f"{spec}: {error}") from None
    return _finish(builder, spec, entry, bound, common)


def check_spec(spec: str) -> None:
    """Refuse a spec with an unknown family, option or rate; build nothing."""
    for key, value in _bound(spec)[2].items():
        if key == "attached":
            convert(value, int, f"{spec}: attached")
        else:
            parse_rate(value)


def _bound(spec: str) -> tuple[Entry, dict[str, Any], dict[str, str]]:
    """Return the family of a spec, its parameters, and the keys that every family has."""
    entry, arguments = topology.parse(spec)
    common = {key: arguments.pop(key) for key in _COMMON if key in arguments}
    return entry, topology.bind(entry, arguments), common


def _finish(
    builder: FabricBuilder,
    spec: str,
    entry: Entry,
    bound: Mapping[str, Any],
    common: Mapping[str, str],
) -> Fabric:
    if not isinstance(builder, FabricBuilder):
        raise InputError(
            f"topology {entry.name} returned {type(builder).__name__}; expected a FabricBuilder"
        )
    parts: Parts = builder.parts(entry.name, entry.complete(bound))
    parts.name = spec
    for node in np.flatnonzero(parts.ports > MAX_PORTS)[:1]:
        raise InputError(
            f"{spec}: {parts.names[node]} would have {parts.ports[node]:,} ports; "
            f"expected at most {MAX_PORTS:,}"
        )
    if "rate" in common:
        set_rate(parts, np.arange(len(parts.a_node)), common["rate"])
    if "host_rate" in common:
        host = parts.kind == NodeKind.HOST
        set_rate(
            parts, np.flatnonzero(host[parts.a_node] | host[parts.b_node]), common["host_rate"]
        )
    fabric = Fabric.of(parts)
    if "attached" not in common:
        return fabric
    hosts = convert(common["attached"], int, f"{spec}: attached")
    try:
        return Fabric.of(variants.with_hosts(fabric, hosts))
    except InputError as error:
        raise InputError(f"{spec}: {error}") from None


def format_spec(family: str, parameters: Mapping[str, Any]) -> str:
    """Return the spec of a family with parameters.

    Parameters
    ----------
    family
        Name of a topology.
    parameters
        Parameters as in `Fabric.parameters`; a parameter equal to its default is left out.

    Returns
    -------
    str
        ``family:key=value,…``, for `build`.
    """
    usual = topology[family].complete({})
    return topology[family].text({k: v for k, v in parameters.items() if v != usual[k]})


def closed_form(fabric: Fabric) -> ClosedForm | None:
    """Return the closed form of a generated fabric, or None if it was read or altered."""
    if not fabric.family:
        return None
    formula = topology[fabric.family].facts.get("closed_form")
    if formula is None:
        return None
    form: ClosedForm = formula(**fabric.parameters)
    counts = (fabric.num_hosts, fabric.num_switches, fabric.num_cables)
    return form if counts == (form.hosts, form.switches, form.cables) else None


def need(condition: bool | np.bool_, message: str) -> None:
    """Refuse impossible parameters."""
    if not condition:
        raise InputError(message)


def at_least(least: int, **values: int | Sequence[int]) -> None:
    """Refuse parameters below `least` or above `MOST`; every value of a list is checked."""
    for name, value in values.items():
        need(not isinstance(value, Sequence) or len(value) > 0, f"{name} must not be empty")
        for number in value if isinstance(value, Sequence) else (value,):
            need(number >= least, f"{name} must be at least {least}, not {number}")
            need(number <= MOST, f"{name} must be at most {MOST:,}, not {number}")


def check_size(form: ClosedForm) -> None:
    """Refuse a fabric of fewer than two hosts, or of more than `MOST` nodes or cables."""
    need(form.hosts >= 2, "this fabric would have one host; expected two or more")
    need(
        max(form.hosts + form.switches, form.cables) <= MOST,
        f"this fabric would have {_count(form.hosts)} hosts, {_count(form.switches)} switches and "
        f"{_count(form.cables)} cables; expected at most {MOST:,} nodes and {MOST:,} cables",
    )


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"over 10^{len(str(number)) - 1}"
