"""source: routes read from a file, as lists of output ports per pair of hosts."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.core.files import read_text
from weft.fabrics import Fabric
from weft.fabrics.formats.host_words import host_number
from weft.fabrics.formats.records import lines_of, shown
from weft.routing.engine_registry import engine
from weft.routing.routes import PathRoutes, Routes

#: Maximum number of pairs of endpoints for source routes: as many as 4,096 hosts have.
MAX_PAIRS = 1 << 24

_PORTS = re.compile(r"\d{1,9}(,\d{1,9})*", re.ASCII)


@engine("source", deadlock_free=False, lmc=False, paths=True, needs="paths")
def source(fabric: Fabric, *, paths: str = "") -> Routes:
    """Read source routes for any fabric from a file.

    Parameters
    ----------
    fabric
        Fabric of the paths.
    paths
        Name of the file; see `read_paths` for its format.

    Raises
    ------
    NotApplicable
        If no file is given.
    InputError
        If the file cannot be read, or a line is invalid for the fabric.
    """
    if not paths:
        raise NotApplicable("source routes are read from a file; specify it with paths=FILE")
    return read_paths(fabric, read_text(paths), paths)


def check_pairs(fabric: Fabric) -> None:
    """Refuse fabrics that are too large for one path per pair of host ports."""
    pairs = fabric.num_host_endpoints**2
    if pairs > MAX_PAIRS:
        raise NotApplicable(
            f"{fabric.name} has {pairs:,} pairs of host ports; source routes support at most "
            f"{MAX_PAIRS:,}"
        )


def read_paths(fabric: Fabric, text: str, file: str = "paths") -> PathRoutes:
    """Read source routes.

    A line is ``SOURCE DESTINATION PORTS``: two hosts by name or GUID and the output ports along
    the path, the source's port first, separated by commas. This is InfiniBand's directed route,
    whose leading 0 is also accepted; ``H00 H07 1,3,2`` leaves H00 by port 1, the next switch by
    port 3 and the last one by port 2. The list begins with the source's port even if the source
    forwards. ``#`` begins a comment. Pairs that the file does not contain have no route.
    """
    sources, destinations, offset, ports, lines = [], [], [0], [], []
    for number, line in enumerate(lines_of(text), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        wrong = partial(InputError, file=file, line=number)
        if len(words) != 3:
            found = shown(" ".join(words))
            raise wrong(f"expected SOURCE DESTINATION PORT,PORT,…, not {found}")
        if not _PORTS.fullmatch(words[2]):
            raise wrong(f"{shown(words[2])} is not a list of ports such as 1,3,2")
        hops = [int(word) for word in words[2].split(",")]
        try:
            sources.append(host_number(fabric, words[0]))
            destinations.append(host_number(fabric, words[1]))
        except InputError as error:
            raise wrong(error.message) from None
        ports += hops[1:] if hops[0] == 0 else hops
        offset.append(len(ports))
        lines.append(number)
    try:
        return source_routes(fabric, sources, destinations, offset, ports)
    except _PathError as error:
        raise InputError(error.message, file=file, line=lines[error.path]) from None


def source_routes(
    fabric: Fabric,
    sources: ArrayLike,
    destinations: ArrayLike,
    offset: ArrayLike,
    ports: ArrayLike,
    *,
    sl: ArrayLike = 0,
) -> PathRoutes:
    """Return source routes from the output ports along each path.

    Parameters
    ----------
    fabric
        Fabric of the paths.
    sources, destinations
        Numbers of the source and destination hosts, each [paths]. A pair of adapter ports has at
        most one path.
    offset
        [paths + 1]: path ``i`` leaves its nodes by ``ports[offset[i]:offset[i + 1]]``.
    ports
        Output ports of all paths; each path begins with the source's port.
    sl
        Service level: one value for all paths, or an array [paths].

    Returns
    -------
    PathRoutes
        The given paths.

    Raises
    ------
    InputError
        If a host does not exist, a port has no cable, a path does not end at its destination or
        visits a node twice, or a pair of ports occurs twice.
    NotApplicable
        If the fabric is too large.

    Examples
    --------
    >>> import weft
    >>> fabric = weft.fabric("xgft:2;2,2;1,2")
    >>> weft.source_routes(fabric, [0, 0], [1, 2], [0, 2, 6], [1, 2, 1, 4, 2, 1])
    PathRoutes('source': 2 source routes, up to 2 links between switches)
    """
    check_pairs(fabric)
    start = fabric.host_numbers(sources, "sources")
    end = fabric.host_numbers(destinations, "destinations", count=len(start))
    first = whole_numbers(offset, "offsets", low=0, shape=(len(start) + 1,))
    hops = whole_numbers(ports, "ports", low=0)
    if first[0] != 0 or first[-1] != len(hops) or np.any(np.diff(first) < 0):
        raise InputError(f"the offsets must ascend from 0 to {len(hops)}, the number of ports")
    links = _follow(fabric, start, end, first, hops)
    pair = _pairs(fabric, start, end, first, links)
    order = np.argsort(pair, kind="stable")
    repeated = np.flatnonzero(np.diff(pair[order]) == 0)
    if len(repeated):
        path = int(order[repeated + 1].min())
        raise _PathError(path, f"{_ends(fabric, start[path], end[path])} already has a path")
    edge = fabric.graph.edge_of_link[links]
    path_of = np.repeat(np.arange(len(pair)), np.diff(first))
    inner = edge >= 0
    counts = np.bincount(path_of[inner], minlength=len(pair))[order]
    levels = whole_numbers(sl, "service levels", low=0, high=15, each=len(pair))
    rank = np.empty(len(pair), dtype=np.int64)
    rank[order] = np.arange(len(pair))
    by_pair = np.argsort(rank[path_of[inner]], kind="stable")
    return PathRoutes(
        "source",
        fabric.digest,
        pair=pair[order],
        offset=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        edge=edge[inner][by_pair].astype(np.int32),
        sl=(levels[order] if np.ndim(sl) else levels.max(initial=0)).astype(np.uint8),
    )


class _PathError(InputError):
    """An error in one of the given paths, with the path's index."""

    def __init__(self, path: int, message: str):
        self.path = path
        super().__init__(message)


def _ends(fabric: Fabric, source: int, destination: int) -> str:
    names = fabric.host_names
    return f"{names[source]} to {names[destination]}"


def _follow(
    fabric: Fabric,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    offset: NDArray[np.int64],
    ports: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the links along each path, following all paths one hop at a time."""
    node = fabric.host_nodes[sources].astype(np.int64)
    goal = fabric.host_nodes[destinations]
    links = np.full(len(ports), -1, dtype=np.int64)
    visited = np.full(len(ports) + len(node), -1, dtype=np.int64)
    length = np.diff(offset)
    wrong: dict[int, str] = {}
    visited[offset[:-1] + np.arange(len(node))] = node
    for step in range(int(length.max(initial=0))):
        path = np.flatnonzero((length > step) & (node >= 0))
        at, port = node[path], ports[offset[path] + step]
        exists = (port >= 1) & (port <= fabric.num_ports[at])
        slot = np.where(exists, fabric.port_offset[at] + port - 1, 0)
        link = np.where(exists, fabric.port_link[slot] if len(fabric.port_link) else -1, -1)
        passes = (step == 0) | fabric.forwards[at]
        for bad in path[(link < 0) | ~passes].tolist():
            name = fabric.node_names[node[bad]]
            text = f"port {ports[offset[bad] + step]} of {name} has no cable"
            if step and not fabric.forwards[node[bad]]:
                text = f"the path continues after {name}, which does not forward"
            wrong.setdefault(bad, text)
        links[offset[path] + step] = link
        node[path] = np.where((link >= 0) & passes, fabric.link_to[link], -1)
        visited[offset[path] + path + step + 1] = node[path]
    for late in np.flatnonzero((node >= 0) & (node != goal)).tolist():
        ends = f"{fabric.node_names[node[late]]}, not at {fabric.node_names[goal[late]]}"
        wrong.setdefault(late, f"the path ends at {ends}")
    for own in np.flatnonzero(sources == destinations).tolist():
        wrong[own] = "a path from a host to itself is not allowed"
    owner = np.repeat(np.arange(len(node)), length + 1)
    by_node = np.lexsort((visited, owner))
    same = (np.diff(owner[by_node]) == 0) & (np.diff(visited[by_node]) == 0)
    for k in by_node[np.flatnonzero(same)].tolist():
        if visited[k] >= 0:
            name = fabric.node_names[visited[k]]
            wrong.setdefault(int(owner[k]), f"the path visits {name} twice")
    if wrong:
        first = min(wrong)
        raise _PathError(
            first, f"{_ends(fabric, int(sources[first]), int(destinations[first]))}: {wrong[first]}"
        )
    return links


def _pairs(
    fabric: Fabric,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    offset: NDArray[np.int64],
    links: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the endpoints of each path as in `PathRoutes.pair`, int64 [paths]."""
    graph = fabric.graph
    endpoint_of_link = np.full(fabric.num_links + 1, -1, dtype=np.int64)
    attached = np.flatnonzero(graph.destination_link[: fabric.num_host_endpoints] >= 0)
    endpoint_of_link[graph.destination_link[attached]] = attached
    ends: list[NDArray[Any]] = []
    for hosts, index, reverse in ((sources, offset[:-1], 1), (destinations, offset[1:] - 1, 0)):
        # A host that forwards is one endpoint; otherwise the link's adapter port is the endpoint.
        forwards = fabric.forwards[fabric.host_nodes[hosts]]
        cable = endpoint_of_link[links[index] ^ reverse] if len(links) else -1
        end = np.where(forwards, fabric.host_endpoint[hosts], cable)
        for path in np.flatnonzero(end < 0)[:1].tolist():
            text = _ends(fabric, int(sources[path]), int(destinations[path]))
            raise _PathError(path, f"{text}: the path crosses no switch")
        ends.append(end)
    pair: NDArray[np.int64] = ends[0] * fabric.num_host_endpoints + ends[1]
    return pair
