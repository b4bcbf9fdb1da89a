"""Placements that name the hosts: a Slurm host list, and a rank file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, in_file
from weft.core.files import read_text
from weft.fabrics.formats.hostlist import expand
from weft.workload.placement.placement_registry import MAX_RANKS, PlacementRequest, placement

#: Line of an Open MPI rank file: rank 3=node07 slot=1:0-2
_RANK = re.compile(r"rank\s+(\d{1,12})\s*=\s*(\S+)(?:\s+slots?\s*=\s*(\S.*))?", re.ASCII)
#: Relative host of an Open MPI rank file, an index into the allocation: +n4
_RELATIVE = re.compile(r"\+n(\d{1,12})", re.ASCII)


@placement("hosts", explicit=True, positional=("list",), verbatim=("list",))
def hosts(request: PlacementRequest, *, list: tuple[str, ...]) -> NDArray[np.int32]:
    """Hosts of a Slurm host list such as ``node[001-036],login2``, in the order of the list.

    If the list has more hosts than needed, the first ones are used.

    Parameters
    ----------
    list
        Names or GUIDs, each at most once; brackets hold numbers: ``n[1-3,7]``, ``n[001-036]``,
        ``n[0-14/2]``, ``rack[0-3]n[0-9]``. The name of a machine with several adapters
        denotes all its adapters; a name in double quotes is literal.

    Raises
    ------
    InputError
        If a host is unknown, not allowed or named twice, or the ranks need more hosts.
    """
    # Commas separate the values of an option as well as the items of a host list.
    names = expand(",".join(list))
    seen: dict[int, str] = {}
    for name in names:
        for number in request.hosts_of(name):
            if number in seen:
                also = "" if seen[number] == name else f", the first time as {seen[number]}"
                raise InputError(f"host {name} is named twice{also}")
            seen[number] = name
    listed = request.among(np.array([*seen], dtype=np.int32))
    return listed.fill(listed.hosts, "hosts of the list")


@placement("file", explicit=True, positional=("path",))
def file(request: PlacementRequest, *, path: str) -> NDArray[np.int32]:
    """Hosts from a rank file: Open MPI's ``rank N=HOST slot=…``, or one host per line.

    In a file of one host per line, the n-th host runs rank n, counted from 0. ``#`` begins a
    comment; empty lines are ignored. Slots bind a rank to cores and are ignored. ``+n4`` is the
    fifth allowed host. Ranks of a machine with several adapters use these in turn.

    Parameters
    ----------
    path
        Path of the file.

    Raises
    ------
    InputError
        If a host is unknown or not allowed, a rank is listed twice or does not exist, or a line has
        neither form; the error gives the line. Also if a rank has no host.
    """
    request.refuse_distribution("a rank file")
    placed = np.full(request.num_ranks, -1, dtype=np.int32)
    line_of: dict[int, int] = {}
    of_name: dict[tuple[int, ...], list[int]] = {}
    ranked: bool | None = None
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if ranked is None:
            ranked = re.match(r"rank\s", line) is not None
        with in_file(path, number):
            rank, name = _entry(line, ranked, len(line_of))
            if rank in line_of:
                raise InputError(f"rank {rank} already has a host, in line {line_of[rank]}")
            if rank >= request.num_ranks:
                raise InputError(
                    f"rank {rank} does not exist; there are {request.num_ranks:,} ranks, from 0"
                )
            several = tuple(_hosts(request, name))
            of_name.setdefault(several, []).append(rank)
            placed[rank] = several[0]
        line_of[rank] = number
    for adapters, ranks in of_name.items():
        for turn, rank in enumerate(sorted(ranks)):
            placed[rank] = adapters[turn % len(adapters)]
    missing = np.flatnonzero(placed < 0)
    if len(missing):
        raise InputError(
            f"rank {missing[0]} has no host; the file has hosts for {len(line_of):,} of "
            f"{request.num_ranks:,} ranks",
            file=Path(path),
        )
    return placed


def _entry(line: str, ranked: bool, next_rank: int) -> tuple[int, str]:
    """Return the rank and the host of a line."""
    if not ranked:
        if len(line.split()) != 1 or "=" in line:
            raise InputError(f"{line[:60]!r} is not a host; expected one name per line")
        return next_rank, line
    match = _RANK.fullmatch(line)
    if not match:
        raise InputError(f"{line[:60]!r}: expected rank N=HOST slot=…")
    if int(match[1]) >= MAX_RANKS:
        raise InputError(f"rank {match[1]} is too large; expected at most {MAX_RANKS - 1:,}")
    return int(match[1]), match[2]


def _hosts(request: PlacementRequest, name: str) -> list[int]:
    """Return the adapters that a name of a rank file denotes, in the order of the devices."""
    relative = _RELATIVE.fullmatch(name)
    if not relative:
        return request.hosts_of(name)
    if int(relative[1]) >= len(request.hosts):
        raise InputError(
            f"{name} does not exist among the {len(request.hosts):,} {request.offered}"
        )
    host = int(request.hosts[int(relative[1])])
    if request.adapters is None:
        return [host]
    fabric = request.fabric
    ours = request.adapters[~fabric.apart(request.adapters, np.array(host))].tolist()
    return sorted(ours, key=lambda adapter: int(fabric.ordinal_of_host[adapter]))
