"""Sites to compare: placements of the I/O nodes and of the compute job, and a local search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.advice.io_nodes.candidates import ALL, SEARCH, Candidate
from weft.advice.io_nodes.loads import SiteLoads
from weft.advice.io_nodes.settings import SEEDS, IoSettings, Site
from weft.core.arguments import whole_number
from weft.core.errors import InputError, NotApplicable
from weft.core.words import few
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.workload.placement import place, placement
from weft.workload.placement.placement_registry import allowed_hosts

#: Placement of I/O nodes whose hosts are given.
GIVEN = "given"
#: Role of hosts that get neither I/O nodes nor jobs, unless they are listed.
MANAGER = "subnet-manager"
#: A uniform pattern needs two ranks.
FEWEST_RANKS = 2

Hosts = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Roles:
    """Hosts that are given, and numbers of hosts to place, for each role."""

    #: The fabric and what is asked.
    fabric: Fabric
    chosen: IoSettings
    #: Hosts, or their number; None for the default of a job.
    io: Hosts | int
    compute: Hosts | int | None
    clients: Hosts | int | None

    @classmethod
    def of(cls, fabric: Fabric, chosen: IoSettings) -> Roles:
        """Return the roles, checked: hosts exist, and there are enough for all."""
        fewest = {"io_nodes": 1, "compute": FEWEST_RANKS, "clients": 1}
        given: dict[str, Any] = {
            name: _hosts(fabric, getattr(chosen, name), name, least)
            for name, least in fewest.items()
        }
        roles = cls(fabric, chosen, *given.values())
        roles.check(given)
        return roles

    def check(self, given: dict[str, Any]) -> None:
        """Refuse hosts with two roles, and more hosts than there are."""
        listed = {name: each for name, each in given.items() if isinstance(each, np.ndarray)}
        names = list(listed)
        for at, one in enumerate(names):
            for other in names[at + 1 :]:
                both = np.intersect1d(listed[one], listed[other])
                if len(both) and not (self.chosen.shared and one == "io_nodes"):
                    hint = ", unless I/O nodes may run jobs" if one == "io_nodes" else ""
                    raise InputError(
                        f"{few([self.fabric.host_names[host] for host in both])}: listed for both "
                        f"{one} and {other}; expected different hosts{hint}"
                    )
        there = self._machines(self._everywhere)
        need = {name: each if isinstance(each, int) else self._machines(each)
                for name, each in given.items() if each is not None}  # fmt: skip
        if self.chosen.shared:
            jobs = need.get("compute", FEWEST_RANKS) + need.get("clients", 0)
            wanted = max(need["io_nodes"], jobs)
        else:
            wanted = sum(need.values()) + (0 if "compute" in need else FEWEST_RANKS)
        if wanted > there:
            asked = ", ".join(f"{name} {count:,}" for name, count in need.items())
            rest = "" if "compute" in need else f", and {FEWEST_RANKS} hosts for a job"
            managed = MANAGER in self.fabric.roles
            raise InputError(
                f"{asked}{rest}: {wanted:,} hosts are needed, and {self.fabric.name} has {there:,} "
                f"with a cable{' and without a subnet manager' * managed}"
            )

    @property
    def offered(self) -> Hosts:
        """Hosts on which I/O nodes may be placed."""
        hosts = self._everywhere
        if self.chosen.shared:
            return hosts
        listed = [each for each in (self.compute, self.clients) if isinstance(each, np.ndarray)]
        return self._apart(hosts, np.concatenate(listed)) if listed else hosts

    @property
    def _everywhere(self) -> Hosts:
        """Hosts with a cable, except those of subnet managers."""
        hosts = allowed_hosts(self.fabric)
        free = [host for host in hosts.tolist() if self.fabric.roles[host] != MANAGER]
        return np.array(free, dtype=np.int32)

    def _machines(self, hosts: Hosts) -> int:
        return len(np.unique(self.fabric.machine_of_host[hosts]))

    def _apart(self, hosts: Hosts, others: Hosts) -> Hosts:
        """Return the hosts that are in no machine of the others."""
        machine = self.fabric.machine_of_host
        return hosts[~np.isin(machine[hosts], machine[others])]

    def firsts(self, hosts: Hosts) -> Hosts:
        """Return the first host of each machine."""
        first = np.unique(self.fabric.machine_of_host[hosts], return_index=True)[1]
        return hosts[np.sort(first)]

    def wholes(self, firsts: Hosts, among: Hosts) -> Hosts:
        """Return the hosts among some that are in the machines of `firsts`, in this order."""
        machine = self.fabric.machine_of_host
        at = {int(each): number for number, each in enumerate(machine[firsts].tolist())}
        turn = np.array([at.get(each, -1) for each in machine[among].tolist()], dtype=np.int64)
        order = np.argsort(turn, kind="stable")
        return among[order[turn[order] >= 0]]

    def placements(self) -> Iterator[tuple[str, Hosts | NotApplicable]]:
        """Yield the name and the hosts of each placement of the I/O nodes, or why there is none."""
        if isinstance(self.io, np.ndarray):
            yield GIVEN, np.sort(self.io)
            return
        seed = self.chosen.seed
        extra = [f"random:seed={(seed + number) % SEEDS}" for number in range(self.chosen.randoms)]
        for spec in dict.fromkeys((*self.chosen.placements, *extra)):
            try:
                yield spec, np.sort(self._place(self.io, spec, self.offered))
            except NotApplicable as reason:
                yield spec, reason

    @property
    def compute_placements(self) -> tuple[str, ...]:
        """Placements of the compute job; `ALL` if there is no choice."""
        return tuple(dict.fromkeys(self.chosen.compute_placements)) if self._mapped else (ALL,)

    @property
    def _mapped(self) -> bool:
        return isinstance(self.compute, int) or (
            self.compute is None and isinstance(self.clients, int)
        )

    def site(self, io: Hosts, compute_placement: str) -> Site:
        """Return the hosts of all roles."""
        left = self._everywhere
        if not self.chosen.shared:
            left = self._apart(left, io)
        compute, clients = self.compute, self.clients
        if isinstance(clients, np.ndarray):
            left = self._apart(left, clients)
        if compute is None and isinstance(clients, int):
            compute = self._machines(left) - clients
        if isinstance(compute, int):
            compute = self._place(compute, compute_placement, left)
        elif compute is None:
            compute = left
        left = self._apart(left, compute)
        if isinstance(clients, int):
            clients = self.wholes(self.firsts(left)[:clients], left)
        elif clients is None:
            # A job that uses all hosts does its own I/O.
            clients = left if len(left) else compute
        return Site(io, clients, compute)

    def _place(self, count: int, spec: str, hosts: Hosts) -> Hosts:
        entry, given = placement.parse(spec)
        seeded = "seed" in entry.options and "seed" not in given
        options: dict[str, Any] = {"seed": self.chosen.seed} if seeded else {}
        chosen = place(self.fabric, count, spec, hosts=self.firsts(hosts), **options)
        return self.wholes(chosen, hosts)


def _hosts(fabric: Fabric, given: Any, name: str, least: int) -> Hosts | int | None:
    if given is None:
        return None
    if isinstance(given, int):
        return whole_number(given, name, least)
    try:
        hosts = allowed_hosts(fabric, given)
    except InputError as error:
        raise InputError(f"{name}: {error.message}") from None
    if len(hosts) < least:
        raise InputError(f"{name}: {len(hosts)} hosts are listed; expected at least {least}")
    return hosts


def named_candidates(roles: Roles, routes: Routes) -> tuple[list[Candidate], dict[str, str]]:
    """Return a candidate for all different hosts, and why some placements do not fit."""
    found: dict[tuple[bytes, ...], tuple[dict[str, None], dict[str, None], Site]] = {}
    refused: dict[str, str] = {}
    for first, io in roles.placements():
        if isinstance(io, NotApplicable):
            refused[first] = str(io)
            continue
        for second in roles.compute_placements:
            try:
                site = roles.site(io, second)
            except NotApplicable as reason:
                refused[second] = str(reason)
                continue
            key = site.io.tobytes(), np.sort(site.clients).tobytes(), site.compute.tobytes()
            names, others, _ = found.setdefault(key, ({}, {}, site))
            names[first] = others[second] = None
    if not found:
        raise NotApplicable("; ".join(refused.values()))
    return [
        Candidate(tuple(names), tuple(others), SiteLoads(roles.fabric, routes, site, roles.chosen))
        for names, others, site in found.values()
    ], refused


def searched(roles: Roles, routes: Routes, start: Candidate) -> Candidate | None:
    """Return a better candidate than `start`, found by moves; None if there is none.

    A move puts one I/O node on another host; it is kept if the clients get more bandwidth, or as
    much with evener loads on the cables between switches.
    """
    if isinstance(roles.io, np.ndarray):
        return None
    draw = np.random.default_rng([roles.chosen.seed, 2])
    everywhere = roles.offered
    offered, best, others = roles.firsts(everywhere), start.loads, start.compute_placements[:1]
    for _ in range(roles.chosen.moves):
        io = roles.firsts(best.site.io)
        free = offered[~np.isin(offered, io)]
        if not len(free):
            break
        moved = io.copy()
        moved[draw.integers(len(io))] = free[draw.integers(len(free))]
        site = roles.site(np.sort(roles.wholes(moved, everywhere)), others[0])
        other = SiteLoads(roles.fabric, routes, site, roles.chosen)
        if other.better(best):
            best = other
    return None if best is start.loads else Candidate((SEARCH,), others, best)
