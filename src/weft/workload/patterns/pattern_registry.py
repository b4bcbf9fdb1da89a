"""The registry of traffic patterns, and the functions that they share.

weft passes the number of hosts, `num_hosts`; other parameters of a pattern are its options.
Entries have two facts: `source`, where the literature defines the pattern, and `binary`, true for
patterns that permute the bits of a host number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import MAX_INT32, whole_number
from weft.core.errors import InputError, NotApplicable
from weft.core.frozen import FrozenArrays
from weft.core.registry import Registry

pattern = Registry(
    "traffic pattern", "weft.workload.patterns", "weft.patterns", pipeline=("num_hosts",)
)

#: Largest number of flows of a pattern: an all-to-all of 8,192 hosts, 1 GB of pairs.
MAX_FLOWS = 2**26


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(FrozenArrays):
    """One phase of communication: a set of concurrent flows.

    It unpacks into sources and destinations: ``analyse(fabric, routes, *traffic(64, "shift"))``.

    Parameters
    ----------
    sources, destinations
        int64 [flows]: source and destination host of each flow; a flow may be listed several times.
    spec
        Spec of the pattern with all its options, which `traffic` accepts.
    """

    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    spec: str = ""

    def __post_init__(self) -> None:
        for name in ("sources", "destinations"):
            hosts = np.ascontiguousarray(getattr(self, name), dtype=np.int64)
            object.__setattr__(self, name, hosts)
        super().__post_init__()
        if self.sources.ndim != 1 or self.sources.shape != self.destinations.shape:
            raise ValueError("a pattern must return as many destinations as sources")

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return iter((self.sources, self.destinations))

    def __repr__(self) -> str:
        return f"Pairs({self.spec!r}: {len(self)} flows)"


def traffic(num_hosts: int, spec: str, **options: Any) -> Pairs:
    """Return the flows of a pattern over hosts 0 to num_hosts - 1.

    A host never sends to itself: where a pattern maps a host to itself, that flow is left out.

    Parameters
    ----------
    spec
        A pattern's name, with or without options: ``"shift"``, ``"shift:offset=3"``.
    **options
        Options of the pattern, in addition to those in the spec.

    Raises
    ------
    InputError
        If a pattern or option is unknown, or a value is wrong for any number of hosts.
    NotApplicable
        When the pattern does not exist for this number of hosts; the message gives the number and
        the reason.
    """
    entry, given = pattern.parse(spec, options)
    bound = pattern.bind(entry, given)
    whole_number(num_hosts, f"{entry.name}: the number of hosts", 0, MAX_INT32)
    if num_hosts < 2:
        raise NotApplicable(f"{entry.name} needs at least 2 hosts, and there are {num_hosts}")
    try:
        flows: Pairs = entry.function(num_hosts, **bound)
    except InputError as error:
        raise InputError(f"{entry.name}: {error}") from None
    moves = flows.sources != flows.destinations
    if not moves.any():
        raise NotApplicable(f"{entry.name} of {num_hosts} hosts lets each host send to itself")
    if not moves.all():
        flows = Pairs(flows.sources[moves], flows.destinations[moves])
    return replace(flows, spec=entry.text(entry.complete(bound)))


# -- helpers of patterns ---------------------------------------------------------------------------


def permutation(destinations: NDArray[np.int64]) -> Pairs:
    """Return one flow from every host to its entry of `destinations`."""
    return Pairs(np.arange(len(destinations)), destinations)


def need(condition: bool, message: str) -> None:
    """Refuse a value that is wrong for any number of hosts."""
    if not condition:
        raise InputError(message)


def check_flows(name: str, num_hosts: int, flows: int) -> None:
    """Refuse more flows than fit in memory."""
    if flows > MAX_FLOWS:
        raise NotApplicable(
            f"{name} of {num_hosts} hosts has {flows:,} flows; expected at most {MAX_FLOWS:,}"
        )


def grid(name: str, num_hosts: int, dims: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the number of hosts in each dimension; without `dims` there is one dimension."""
    if dims is None:
        return (num_hosts,)
    need(len(dims) > 0 and min(dims) >= 1, "every one of dims must be at least 1")
    if prod(dims) != num_hosts:
        raise NotApplicable(
            f"{name} over {'x'.join(map(str, dims))} needs {prod(dims)} hosts, "
            f"and there are {num_hosts}"
        )
    return dims


def listed_hosts(
    name: str, option: str, hosts: tuple[int, ...], num_hosts: int
) -> NDArray[np.int64]:
    """Return the hosts that an option lists, ascending."""
    need(len(hosts) > 0, f"{option} must name at least one host")
    need(len(set(hosts)) == len(hosts), f"{option} names one host twice")
    need(min(hosts) >= 0, f"{option} must be 0 or more, not {min(hosts)}")
    if max(hosts) >= num_hosts:
        raise NotApplicable(
            f"{name} at host {max(hosts)} needs {max(hosts) + 1} hosts, and there are {num_hosts}"
        )
    return np.array(sorted(hosts), dtype=np.int64)


def generator(seed: int) -> np.random.Generator:
    """Return a random number generator with this seed."""
    need(seed >= 0, f"seed must be at least 0, not {seed}")
    return np.random.default_rng(seed)
