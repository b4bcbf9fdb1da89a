"""Placements whose text names the hosts: a Slurm host list, and a rank file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.fabrics.formats.hostlist import expand
from weft.workload.placement.placement_registry import MAX_RANKS, Room, placement

#: Open MPI's: rank 3=node07 slot=1:0-2
_RANK = re.compile(r"rank\s+(\d{1,12})\s*=\s*(\S+)(?:\s+slots?\s*=\s*(\S.*))?", re.ASCII)
#: Its number of a host in the allocation: +n4
_RELATIVE = re.compile(r"\+n(\d{1,12})", re.ASCII)


@placement("hosts", explicit=True, positional=("list",), verbatim=("list",))
def hosts(room: Room, *, list: tuple[str, ...]) -> NDArray[np.int32]:
    """Hosts of a Slurm host list such as ``node[001-036],login2``, in its order.

    A list of more hosts than the ranks need is an allocation of which the first are used.

    Parameters
    ----------
    room
        The hosts and how many ranks.
    list
        Names or GUIDs, each once, with numbers in brackets: ``n[1-3,7]``, ``n[001-036]``,
        ``n[0-14/2]``, ``rack[0-3]n[0-9]``. The name of a machine with several adapters stands for
        all of them; a name in double quotes is taken as it is.

    Raises
    ------
    InputError
        On an unknown host, one named twice or not allowed, or fewer hosts than the ranks need.
    """
    # Commas part the items of an option as well as those of a host list.
    names = expand(",".join(list))
    seen: dict[int, str] = {}
    for name in names:
        for number in room.hosts_of(name):
            if number in seen:
                also = "" if seen[number] == name else f", the first time as {seen[number]}"
                raise InputError(f"host {name} is named twice{also}")
            seen[number] = name
    return room.fill(np.array([*seen], dtype=np.int32), "hosts of the list")


@placement("file", explicit=True, positional=("path",))
def file(room: Room, *, path: str) -> NDArray[np.int32]:
    """Hosts from a rank file: Open MPI's ``rank N=HOST slot=…``, or one host a line.

    In a file of one host a line, line after line is rank after rank. ``#`` begins a comment, and
    empty lines count for nothing. Slots say which cores a rank is bound to, which no network can
    tell; they are read and make no difference. ``+n4`` is the fifth of the hosts offered.

    Parameters
    ----------
    room
        The hosts and how many ranks.
    path
        The file.

    Raises
    ------
    InputError
        With the line, on an unknown host, one that is not allowed, a rank that is named twice or
        does not exist, or a line of neither form; and when a rank has no host, or the file is for
        another number of ranks.
    """
    room.refuse_distribution("a rank file")
    placed = np.full(room.num_ranks, -1, dtype=np.int32)
    line_of: dict[int, int] = {}
    ranked: bool | None = None
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if ranked is None:
            ranked = re.match(r"rank\s", line) is not None
        try:
            rank, name = _entry(line, ranked, len(line_of))
            if rank in line_of:
                raise InputError(f"rank {rank} has its host on line {line_of[rank]} already")
            if rank >= room.num_ranks:
                raise InputError(
                    f"this is the host of rank {rank}, and there are {room.num_ranks:,} ranks"
                )
            placed[rank] = _host(room, name)
        except InputError as error:
            raise InputError(error.message, file=path, line=number) from None
        line_of[rank] = number
    lost = np.flatnonzero(placed < 0)
    if len(lost):
        raise InputError(
            f"rank {lost[0]} has no host; the file has hosts for {len(line_of):,} of "
            f"{room.num_ranks:,} ranks",
            file=Path(path),
        )
    return placed


def _entry(line: str, ranked: bool, next_rank: int) -> tuple[int, str]:
    """Rank and host of a line."""
    if not ranked:
        if len(line.split()) != 1 or "=" in line:
            raise InputError(f"{line[:60]!r} is no host; expected one name on each line")
        return next_rank, line
    match = _RANK.fullmatch(line)
    if not match:
        raise InputError(f"{line[:60]!r}: expected rank N=HOST slot=…")
    if int(match[1]) >= MAX_RANKS:
        raise InputError(f"rank {match[1]} is more than {MAX_RANKS - 1:,}")
    return int(match[1]), match[2]


def _host(room: Room, name: str) -> int:
    relative = _RELATIVE.fullmatch(name)
    if not relative:
        return room.host(name)
    if int(relative[1]) >= len(room.hosts):
        raise InputError(f"{name} does not exist among the {len(room.hosts):,} {room.offered}")
    return int(room.hosts[int(relative[1])])
