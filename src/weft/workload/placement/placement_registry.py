"""The registry of placements, and the classes and functions that they share.

weft passes a `PlacementRequest`; other parameters of a placement are its options.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_number
from weft.core.counts import count_text
from weft.core.errors import InputError, NotApplicable
from weft.core.frozen import read_only
from weft.core.registry import Registry, did_you_mean
from weft.fabrics import Fabric, check_fabric
from weft.fabrics.formats.hostlist import expand
from weft.fabrics.judged import hosts_named

#: Fact of a placement: `explicit`, true if the user names the hosts of the ranks.
placement = Registry(
    "placement", "weft.workload.placement", "weft.placements", pipeline=("request",)
)
_placements = placement  # alias for functions with a parameter of this name

#: Largest number of ranks; the programs of more ranks do not fit in memory.
MAX_RANKS = 2**26

_PLANE = re.compile(r"plane=([1-9]\d{0,8})", re.ASCII)


@dataclass(frozen=True, eq=False)
class PlacementRequest:
    """Allowed hosts and number of ranks of a placement.

    Parameters
    ----------
    fabric
        Fabric of the hosts.
    num_ranks
        Number of ranks to place.
    hosts
        int32 [allowed]: hosts that may be used, each once, in the order of use; see `adapters`.
    offered
        Description of `hosts` in messages: ``"free hosts of torus:4x4"``.
    ranks_per_host
        Maximum number of ranks per host; None if not given, which means 1.
    distribution
        Distribution of consecutive ranks over the hosts; None if not given, which means ``block``.
    earlier
        Hosts of each job that has been placed before; no host of their machines is in `hosts`.
    adapters
        Hosts that may be used, if `hosts` has only the first one of each machine: `fill` divides
        the ranks of a machine among all of these. None if `hosts` has all.
    """

    fabric: Fabric
    num_ranks: int
    hosts: NDArray[np.int32]
    offered: str
    ranks_per_host: int | None = None
    distribution: str | None = None
    earlier: tuple[NDArray[np.integer[Any]], ...] = ()
    adapters: NDArray[np.int32] | None = None

    @property
    def every_host(self) -> NDArray[np.int32]:
        """All hosts that may be used."""
        return self.hosts if self.adapters is None else self.adapters

    @cached_property
    def _allowed(self) -> frozenset[int]:
        return frozenset(self.every_host.tolist())

    def among(self, hosts: NDArray[np.integer[Any]]) -> PlacementRequest:
        """Return the request for these hosts only, in this order.

        Parameters
        ----------
        hosts
            Host numbers, each at most once. If the number of ranks per host is given and some are
            adapters of one machine, the machine counts as one host.
        """
        listed: NDArray[np.int32] = hosts.astype(np.int32)
        machine = self.fabric.machine_of_host[listed]
        first = np.sort(np.unique(machine, return_index=True)[1])
        if self.ranks_per_host is None or len(first) == len(listed):
            return replace(self, hosts=listed, adapters=None)
        return replace(self, hosts=listed[first], adapters=listed)

    @property
    def max_ranks_per_host(self) -> int:
        """Maximum number of ranks per host."""
        return 1 if self.ranks_per_host is None else self.ranks_per_host

    @property
    def hosts_needed(self) -> int:
        """Smallest number of hosts that can run the ranks."""
        return -(-self.num_ranks // self.max_ranks_per_host)

    def fill(self, order: NDArray[np.integer[Any]], what: str = "") -> NDArray[np.int32]:
        """Return the host of each rank; ranks use the first hosts of `order`, as few as possible.

        Parameters
        ----------
        order
            Hosts in the order of use, each at most once.
        what
            Description of the hosts in the error message; `offered` when left out.

        Returns
        -------
        ndarray
            int32 [num_ranks].

        Raises
        ------
        InputError
            When there are more ranks than the hosts may run.
        """
        self.need(len(order), what)
        used = order[: self.hosts_needed]
        rank = np.arange(self.num_ranks, dtype=np.int64)
        run = _run(self.distribution, self.max_ranks_per_host)
        # Groups of `run` consecutive ranks go round robin over the hosts.
        turn, index = np.divmod(rank // run, max(len(used), 1))
        return self.seat(used[index], turn * run + rank % run)

    def seat(
        self, hosts: NDArray[np.integer[Any]], number: NDArray[np.integer[Any]]
    ) -> NDArray[np.int32]:
        """Return the hosts of ranks: the adapters of a machine take turns, rail by rail.

        Parameters
        ----------
        hosts
            For each rank, a host of `hosts`.
        number
            Number of the rank among the ranks of this host, from 0.
        """
        if self.adapters is None:
            return hosts.astype(np.int32)
        machine = self.fabric.machine_of_host
        ours = machine[self.adapters]
        order = self.adapters[np.lexsort((self.fabric.ordinal_of_host[self.adapters], ours))]
        _, first, count = np.unique(machine[order], return_index=True, return_counts=True)
        at = np.searchsorted(machine[order][first], machine[hosts])
        seats: NDArray[np.int32] = order[first[at] + number % count[at]]
        return seats

    def need(self, hosts: int, what: str = "") -> None:
        """Refuse to place more ranks than this number of hosts may run.

        Raises
        ------
        InputError
            When there are more ranks; the message gives the number that fit.
        """
        fit = hosts * self.max_ranks_per_host
        if self.num_ranks > fit:
            most = self.max_ranks_per_host
            each = "one rank each" if most == 1 else f"{most} ranks each"
            where = f"the {hosts:,} {what or self.offered}"
            if self.adapters is not None:
                where = f"the {count_text(hosts, 'machine')} of the {what or self.offered}"
            raise InputError(f"{self.num_ranks:,} ranks do not fit on {where}, {each}: {fit:,} fit")

    def refuse_distribution(self, what: str) -> None:
        """Refuse a distribution where the placement itself gives the host of each rank.

        Raises
        ------
        InputError
            When a distribution was given.
        """
        if self.distribution is not None:
            raise InputError(
                f"{what} gives the host of each rank; distribution {self.distribution} is not "
                "possible with it"
            )

    def hosts_of(self, name: str) -> list[int]:
        """Return the host of this name or GUID, or all hosts of a machine or role.

        Raises
        ------
        InputError
            When there is no such host, or a host has no cable or is not allowed.
        """
        hosts = find_hosts(self.fabric, name)
        if not self._allowed.issuperset(hosts):
            raise InputError(f"host {name} is not among the {self.offered}")
        return hosts


def _run(distribution: str | None, ranks_per_host: int) -> int:
    """Return how many consecutive ranks are on one host before the next rank is on another."""
    if distribution is None or distribution == "block":
        return ranks_per_host
    if distribution == "cyclic":
        return 1
    plane = _PLANE.fullmatch(distribution) if isinstance(distribution, str) else None
    if not plane:
        raise InputError(
            f"unknown distribution {distribution!r}"
            f"{did_you_mean(str(distribution), ['block', 'cyclic', 'plane'])}; expected block, "
            "cyclic, or plane=N with a number of ranks"
        )
    run = int(plane[1])
    if ranks_per_host % run:
        raise InputError(
            f"distribution {distribution} needs a multiple of {run} as ranks per host, not "
            f"{ranks_per_host}"
        )
    return run


def place(
    fabric: Fabric,
    num_ranks: int,
    spec: str | ArrayLike = "linear",
    *,
    ranks_per_host: int | None = None,
    distribution: str | None = None,
    hosts: str | Sequence[str] | ArrayLike | None = None,
    offered: str | None = None,
    earlier: Sequence[ArrayLike] = (),
    **options: Any,
) -> NDArray[np.int32]:
    """Return the host of each rank.

    Parameters
    ----------
    fabric
        Fabric of the hosts.
    num_ranks
        Number of ranks to place.
    spec
        A placement, by name or with options: ``"linear"``, ``"random:seed=3"``,
        ``"hosts:node[001-036]"``; or the host number of each rank.
    ranks_per_host
        Maximum number of ranks per host. If left out, it is 1, or unlimited for a placement that
        itself gives the host of each rank. If given, it is the number per machine: ranks of a
        machine with several adapters use its adapters in turn, in the order of the devices.
    distribution
        Distribution of consecutive ranks over the hosts in use, as in Slurm: ``block`` (the
        default) fills a host before the next one, ``cyclic`` assigns one rank to each host in
        round-robin order, and ``plane=N`` assigns N ranks at a time. Placements that themselves
        give the host of each rank do not allow a distribution.
    hosts
        Hosts that may be used, in the order of use: a Slurm host list, names or GUIDs, or numbers.
        If left out, all hosts with a cable.
    offered
        Description of `hosts` in messages.
    earlier
        Hosts of each job that runs already; ranks are placed on other hosts, of other machines.
    **options
        Options of the placement, in addition to those in the spec.

    Returns
    -------
    ndarray
        int32 [num_ranks], read-only.

    Raises
    ------
    InputError
        If a placement, option or host is unknown, a host has no cable, a rank has no host, or the
        ranks do not fit.
    NotApplicable
        When the fabric lacks what the placement needs; the message gives the reason.
    """
    check_fabric(fabric)
    whole_number(num_ranks, "the number of ranks", 1, MAX_RANKS)
    if ranks_per_host is not None:
        whole_number(ranks_per_host, "ranks per host", 1, MAX_RANKS)
    allowed = allowed_hosts(fabric, hosts)
    if offered is None:
        offered = f"hosts of {fabric.name}"
        if hosts is not None:
            offered = "hosts that may be used"
        elif len(allowed) < fabric.num_hosts:
            offered += f" that have a cable (of {fabric.num_hosts:,})"
    _run(distribution, ranks_per_host or 1)
    request = PlacementRequest(
        fabric, int(num_ranks), allowed, offered, ranks_per_host, distribution
    )
    if len(earlier):
        used = tuple(fabric.host_numbers(each, "hosts of earlier jobs") for each in earlier)
        machine = fabric.machine_of_host
        taken = np.isin(machine[allowed], machine[np.concatenate(used)])
        request = replace(request, hosts=allowed[~taken], earlier=used)
    request = request.among(request.hosts)
    if not isinstance(spec, str):
        request.refuse_distribution("a list of host numbers")
        if options:
            raise InputError(f"a list of host numbers has no option {next(iter(options))!r}")
        return _checked(
            request, _numbers(fabric, spec, "hosts of the ranks"), "the placement given"
        )
    entry, given = _placements.parse(spec, options)
    bound = _placements.bind(entry, given)
    try:
        placed = entry.function(request, **bound)
    except InputError as error:
        text = f"placement {entry.name}: {error.message}"
        raise InputError(text, file=error.file, line=error.line) from None
    except NotApplicable as reason:
        raise NotApplicable(f"placement {entry.name}: {reason}") from None
    return _checked(request, placed, f"placement {entry.name}")


def is_explicit(spec: str | ArrayLike) -> bool:
    """Return whether a placement names its hosts instead of picking among the allowed hosts."""
    return not isinstance(spec, str) or bool(_placements.parse(spec)[0].facts.get("explicit"))


def allowed_hosts(
    fabric: Fabric, hosts: str | Sequence[str] | ArrayLike | None = None
) -> NDArray[np.int32]:
    """Return the hosts that may be used, checked; all hosts with a cable by default.

    `hosts`: a Slurm host list, names or GUIDs, or numbers; each at most once.

    Returns int32 host numbers.
    """
    if hosts is None:
        return np.flatnonzero(fabric.host_endpoint >= 0).astype(np.int32)
    if isinstance(hosts, str):
        hosts = expand(hosts)
    if isinstance(hosts, Sequence) and any(isinstance(host, str) for host in hosts):
        listed = [number for name in hosts for number in find_hosts(fabric, str(name))]
        numbers = np.array(listed, dtype=np.int32)
    else:
        numbers = _numbers(fabric, hosts, "allowed hosts")
    values, counts = np.unique(numbers, return_counts=True)
    if counts.max(initial=1) > 1:
        repeated = fabric.host_names[values[counts > 1][0]]
        raise InputError(f"host {repeated} is given twice among the hosts that may be used")
    _need_cables(fabric, numbers)
    return numbers


def find_hosts(fabric: Fabric, name: str) -> list[int]:
    """Return the number of the host of this name or GUID, or of all hosts of a machine or role."""
    numbers = hosts_named(fabric, name)
    _need_cables(fabric, np.array(numbers))
    return numbers


def _numbers(fabric: Fabric, hosts: Any, what: str) -> NDArray[np.int32]:
    """Return host numbers, checked to be whole and to exist, or to be -1."""
    return fabric.host_numbers(hosts, what, low=-1).astype(np.int32)


def _need_cables(fabric: Fabric, hosts: NDArray[np.integer[Any]]) -> None:
    if hosts.min(initial=0) < 0:
        raise InputError(f"-1 is not a host of {fabric.name}")
    uncabled = hosts[fabric.host_endpoint[hosts] < 0]
    if len(uncabled):
        raise InputError(f"host {fabric.host_names[uncabled[0]]} has no cable")


def host_of_rank(fabric: Fabric, num_ranks: int, placement: str | ArrayLike) -> NDArray[np.int32]:
    """Return the host of each rank, int32 [ranks]."""
    if isinstance(placement, str):
        return place(fabric, num_ranks, placement)
    hosts = fabric.host_numbers(placement, "hosts of the ranks", count=num_ranks)
    return hosts.astype(np.int32)


def _checked(request: PlacementRequest, placed: NDArray[Any], what: str) -> NDArray[np.int32]:
    """Return the hosts of the ranks as a read-only array, checked against the request."""
    placed = np.array(placed, dtype=np.int32)
    if placed.shape != (request.num_ranks,):
        raise InputError(
            f"{what} is for {len(placed):,} ranks, and there are {request.num_ranks:,}"
        )
    missing = np.flatnonzero(placed < 0)
    if len(missing):
        raise InputError(f"{what}: rank {missing[0]} has no host")
    _need_cables(request.fabric, placed)
    names = request.fabric.host_names
    forbidden = np.flatnonzero(~np.isin(placed, request.every_host))
    if len(forbidden):
        raise InputError(
            f"{what}: host {names[placed[forbidden[0]]]} of rank {forbidden[0]} is not among the "
            f"{request.offered}"
        )
    if request.ranks_per_host is not None:
        machine = request.fabric.machine_of_host[placed]
        load = np.bincount(machine)
        if load.max() > request.ranks_per_host:
            most = int(load.argmax())
            host = placed[machine == most][0]
            several = request.fabric.adapters_of_host[host] > 1
            whose = f"the machine of {names[host]}" if several else f"host {names[host]}"
            raise InputError(
                f"{what}: {whose} has {load[most]} ranks; expected at most "
                f"{request.ranks_per_host} per host"
            )
    return read_only(placed)
