"""KNS, the k-ary n-direct s-indirect family, and its member BCube."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.wiring import (
    MOST_LEVELS,
    from_mixed_radix,
    labels,
    level_pairs,
    mixed_radix,
)


@dataclass(frozen=True)
class Line:
    """The indirect network of one line: a PGFT whose leaves are the routers of the line."""

    m: tuple[int, ...]
    w: tuple[int, ...]
    p: tuple[int, ...]

    @property
    def stages(self) -> int:
        """Number of stages of switches."""
        return len(self.m)


def _line(k: int, s: int | None, d: int | None, cables: int) -> Line:
    """Return the network of d-port switches that connects k routers by `cables` cables each."""
    ends = k * cables
    ports = ends if d is None else d
    if ends <= ports:
        need(s in (None, 1), f"s must be 1, because one switch of {ports} ports connects a line")
        return Line((k,), (1,), (cables,))
    half = ports // 2
    need(ports >= 4, f"d must be at least 4 for a line of {ends} cables, not {ports}")
    need(ports % 2 == 0, f"d must be even, because half the ports lead up, not {ports}")
    stages = 2
    while 2 * half**stages < ends:
        stages += 1
    holds = f"lines of {2 * half ** (stages - 1) + 1} to {2 * half**stages} cables"
    need(
        s in (None, stages),
        f"s must be {stages} for k = {k}: {stages} stages of {ports}-port switches connect "
        f"{holds}, and this line has {ends}",
    )
    need(
        half % cables == 0,
        f"cables must divide d/2 = {half}, the ports of a switch that lead down, not {cables}",
    )
    block = half // cables * half ** (stages - 2)
    need(
        k % block == 0,
        f"k must be a multiple of {block}, the routers below one switch of stage {stages - 1}, "
        f"not {k}",
    )
    blocks = k // block
    # A switch below the top has half its ports up. Use the most parallel cables that the ports of a
    # top switch allow, so that the number of top switches is smallest.
    copies = max(c for c in range(1, half + 1) if half % c == 0 and blocks * c <= ports)
    middle = stages - 2
    return Line(
        (half // cables, *(half,) * middle, blocks),
        (1, *(half,) * middle, half // copies),
        (cables, *(1,) * middle, copies),
    )


Router = Literal["switch", "adapter"]


def _kns_counts(
    k: int,
    n: int,
    s: int | None = None,
    d: int | None = None,
    hosts: int = 1,
    cables: int = 1,
    router: Router = "switch",
) -> ClosedForm:
    at_least(2, k=k, d=k * cables if d is None else d)
    at_least(1, n=n, s=1 if s is None else s, hosts=hosts, cables=cables)
    need(n <= MOST_LEVELS, f"n must be at most {MOST_LEVELS}, not {n}")
    need(
        router == "switch" or hosts == 1,
        f"hosts must be 1 if the host's adapter is the router, not {hosts}",
    )
    line = _line(k, s, d, cables)
    ends, ports = k * cables, k * cables if d is None else d
    stages = line.stages
    # Every stage of a line has `ends` cables below it. A switch below the top has d/2 ports down;
    # a top switch has m p ports down, with m and p of the last stage.
    tops = ends // (line.m[-1] * line.p[-1])
    per_line = (stages - 1) * (2 * ends // ports) + tops
    routers = k**n
    switched = router == "switch"
    return ClosedForm(
        hosts=routers * hosts,
        switches=n * k ** (n - 1) * per_line + (routers if switched else 0),
        cables=n * routers * stages * cables + (routers * hosts if switched else 0),
        diameter=2 * n * stages + (2 if switched else 0),
        radix=max(ports, hosts + n * cables if switched else 0),
        source="Peñaranda et al. 2016; KNS on InfiniBand, sections 2.2 and 3.4",
    )


def _sized_kns(hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield KNS of two to four dimensions whose lines are one switch each.

    A router has at most as many hosts as cables to each of its lines, so that the switches of a
    dimension can carry all traffic: the papers' routers have one host and one cable to each line
    (Peñaranda et al. 2016), here with the same number of copies of both.
    """
    for n in range(2, 5):
        for cables in range(1, radix // (n + 1) + 1):
            for k in range(2, radix // cables + 1):
                per_router = min(-(-hosts // k**n), cables)
                yield {"k": k, "n": n, "hosts": per_router, "cables": cables}
                if k**n * cables >= hosts:
                    break


@topology(
    "kns",
    positional=("k", "n", "s", "d"),
    examples=(
        "kns:k=6,n=2",
        "kns:k=4,n=2",
        "kns:k=3,n=3,hosts=2,cables=2",
        "kns:k=16,n=2,s=2,d=8",
        "kns:k=12,n=1,s=3,d=4",
        "kns:k=8,n=2,s=2,d=4",
        "kns:k=6,n=2,d=4,cables=2",
        "kns:k=4,n=2,router=adapter",
        "kns:k=8,n=2,d=4,router=adapter",
        "kns:k=3,n=2,d=8",
    ),
    closed_form=_kns_counts,
    sizings={"kns": _sized_kns},
    engines=("hdor",),
)
def kns(
    k: int,
    n: int,
    s: int | None = None,
    d: int | None = None,
    hosts: int = 1,
    cables: int = 1,
    router: Router = "switch",
) -> FabricBuilder:
    """KNS: k^n routers on a grid, each line of k routers connected by a small indirect network.

    Each of the n k^(n-1) lines has one switch if its cables fit d ports, else a fat tree of s
    stages of d-port switches with full bisection. A switch below the top has half its ports down
    and half up. A top switch has all ports down, and uses as many as possible for parallel cables:
    k = 16 with d = 8 needs four leaf switches with four routers each and two top switches, with
    two cables between each leaf and each top switch.

    Names are the paper's, with dots for its brackets: router ``r{r(n-1)}…{r1}.{r0}``, and line
    switch ``s{i}.{p}`` of a line in dimension i, where p is the number formed by the other digits
    of its routers. If a line has several stages, its switches are ``s{i}.{p}.{stage}.{number}``.
    Coordinate i is digit i, so dimension 0 is the last digit of a name and varies fastest; a line
    switch has -1 in the dimension of its line.

    Ports of a router: its hosts, then `cables` ports for each dimension in order. Ports of a line
    switch: down in the order of the nodes below, repeated for each parallel cable, then up.

    Parameters
    ----------
    k
        Number of routers in each dimension.
    n
        Number of dimensions.
    s
        Number of stages of each line; by default computed from k and d.
    d
        Number of ports of a line switch; by default enough for one stage.
    hosts
        Number of hosts of each router.
    cables
        Number of parallel cables between a router and each of its lines.
    router
        ``switch``: the router is a switch with hosts, as InfiniBand requires. ``adapter``: the
        host's adapter forwards, so a host has n ports (times `cables`) and there is no router.

    Raises
    ------
    InputError
        If s stages of d-port switches cannot connect k routers evenly, or a value is too small.
    """
    check_size(_kns_counts(k, n, s, d, hosts, cables, router))
    return lines_of(k, n, _line(k, s, d, cables), d or 0, hosts if router == "switch" else 0)


def lines_of(k: int, n: int, line: Line, ports: int, hosts: int) -> FabricBuilder:
    """Build k^n routers and their lines.

    `k`, `n`: number of routers in each dimension, number of dimensions. `ports`: number of ports of
    a line switch; 0 for the number of its cables. `hosts`: number of hosts of each router; 0 if the
    routers are the hosts.
    """
    coords = mixed_radix(np.arange(k**n), (k,) * n)
    names = labels("", *coords.T[::-1])
    build = FabricBuilder("", dimensions=n)
    if hosts:
        routers = build.switches(["r" + name for name in names], coordinates=coords)
        suffixes = [""] if hosts == 1 else [f".{i}" for i in range(hosts)]
        terminals = build.hosts(
            [f"h{name}{suffix}" for name in names for suffix in suffixes],
            coordinates=np.repeat(coords, hosts, axis=0),
        )
        build.connect(np.repeat(routers, hosts), terminals)
    else:
        routers = build.hosts(["h" + name for name in names], coordinates=coords, forwards=True)
    for dimension in range(n):
        _add_lines(build, routers, coords, dimension, k, line, ports)
    return build


def _add_lines(
    build: FabricBuilder,
    routers: NDArray[np.int32],
    coords: NDArray[np.int64],
    dimension: int,
    k: int,
    line: Line,
    ports: int,
) -> None:
    """Add the k^(n-1) lines of a dimension; switches are added by stage, then by line."""
    n = coords.shape[1]
    others = np.delete(coords, dimension, axis=1)
    position = from_mixed_radix(others, (k,) * (n - 1))
    lines = k ** (n - 1)
    members = np.empty((lines, k), dtype=np.int32)
    members[position, coords[:, dimension]] = routers
    line_coords = np.insert(mixed_radix(np.arange(lines), (k,) * (n - 1)), dimension, -1, axis=1)

    below = members
    for stage in range(1, line.stages + 1):
        count = prod(line.m[stage:]) * prod(line.w[:stage])
        number = np.arange(lines * count)
        columns = [np.full(len(number), dimension), number // count]
        if line.stages > 1:
            columns += [np.full(len(number), stage), number % count]
        here = build.switches(
            labels("s", *columns), ports=ports, coordinates=np.repeat(line_coords, count, axis=0)
        ).reshape(lines, count)
        child, parent = level_pairs(line.m, line.w, stage)
        for _ in range(line.p[stage - 1]):
            build.connect(here[:, parent], below[:, child])
        below = here


def _bcube_counts(n: int, k: int) -> ClosedForm:
    at_least(2, n=n)
    at_least(0, k=k)
    need(k < MOST_LEVELS, f"k must be below {MOST_LEVELS}, not {k}")
    return ClosedForm(
        hosts=n ** (k + 1),
        switches=(k + 1) * n**k,
        cables=(k + 1) * n ** (k + 1),
        diameter=2 * (k + 1),
        radix=n,
        source="Guo et al. 2009",
    )


@topology(
    "bcube",
    positional=("n", "k"),
    examples=("bcube:n=4,k=1", "bcube:n=2,k=3", "bcube:n=3,k=2", "bcube:n=5,k=0"),
    closed_form=_bcube_counts,
)
def bcube(n: int, k: int) -> FabricBuilder:
    """BCube_k: n^(k+1) hosts with k + 1 ports each, connected by k + 1 levels of n-port switches.

    Hosts forward. BCube is the KNS with k + 1 dimensions of size n whose routers are the hosts'
    adapters. Host ``h{ak}…{a0}`` and switch ``s{level}.{number}`` are connected if the digits of
    the host without digit `level` form that number. Coordinate i is digit i, -1 for a switch of
    level i. Host port i + 1 leads to level i; switch port a + 1 leads to the host with the digit a
    at the switch's level.

    Parameters
    ----------
    n
        Number of ports of a switch.
    k
        Number of levels of switches, minus one.

    Raises
    ------
    InputError
        If n is below 2 or k is below 0.
    """
    check_size(_bcube_counts(n, k))
    return lines_of(n, k + 1, Line((n,), (1,), (1,)), 0, 0)
