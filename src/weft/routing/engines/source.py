"""source: routes that are given, pair by pair, as lists of output ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.core.files import read_text
from weft.fabrics import Fabric
from weft.fabrics.formats.records import lines_of, shown
from weft.routes import PathRoutes, Routes
from weft.routing.engine_registry import engine, provenance

#: Pairs of endpoints for which source routes are kept; 4,096 hosts have that many.
MAX_PAIRS = 1 << 24

_PORTS = re.compile(r"\d{1,9}(,\d{1,9})*", re.ASCII)


@engine("source", deadlock_free=False, lmc=False, paths=True, needs="paths")
def source(fabric: Fabric, *, paths: str = "") -> Routes:
    """Source routes read from a file, for any fabric.

    Parameters
    ----------
    fabric
        The fabric that the file is about.
    paths
        The file; see `read_paths` for its format.

    Raises
    ------
    NotApplicable
        When no file is named.
    InputError
        When it cannot be read, or a line does not fit the fabric.
    """
    if not paths:
        raise NotApplicable("source routes come from a file; name it with paths=FILE")
    return read_paths(fabric, read_text(paths), paths)


def check_pairs(fabric: Fabric) -> None:
    """Refuse fabrics that are too large for a path per pair.

    Raises
    ------
    NotApplicable
        With the number of pairs, when it is above `MAX_PAIRS`.
    """
    pairs = fabric.num_host_endpoints**2
    if pairs > MAX_PAIRS:
        raise NotApplicable(
            f"{fabric.name} has {pairs:,} pairs of host ports; source routes are kept for at most "
            f"{MAX_PAIRS:,}"
        )


def read_paths(fabric: Fabric, text: str, file: str = "paths") -> PathRoutes:
    """Read source routes.

    A line is ``SOURCE DESTINATION PORTS``: two hosts by name or GUID and the output ports along
    the way, the source's own first, separated by commas. This is InfiniBand's direct route, whose
    leading 0 may stand there too; ``H00 H07 1,3,2`` leaves H00 by port 1, the next switch by port
    3 and the last one by port 2. A host that forwards and is its own first switch counts its port
    likewise. ``#`` begins a comment. Pairs that are not named have no route.

    Parameters
    ----------
    fabric
        Where the paths lead.
    text
        What the file holds.
    file
        Its name, for messages.

    Raises
    ------
    InputError
        With the line: an unknown host, a port without a cable, a path that ends elsewhere or
        meets a node twice, a pair that comes twice.
    NotApplicable
        When the fabric is too large.
    """
    sources, destinations, offset, ports, lines = [], [], [0], [], []
    for number, line in enumerate(lines_of(text), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 3:
            raise InputError(
                f"a path is SOURCE DESTINATION PORT,PORT,…, not {shown(' '.join(words))}",
                file=file,
                line=number,
            )
        if not _PORTS.fullmatch(words[2]):
            raise InputError(
                f"{shown(words[2])} is no list of ports, such as 1,3,2", file=file, line=number
            )
        hops = [int(word) for word in words[2].split(",")]
        try:
            sources.append(_host(fabric, words[0]))
            destinations.append(_host(fabric, words[1]))
        except InputError as error:
            raise InputError(error.message, file=file, line=number) from None
        ports += hops[1:] if hops[0] == 0 else hops
        offset.append(len(ports))
        lines.append(number)
    try:
        return source_routes(fabric, sources, destinations, offset, ports)
    except _PathError as error:
        raise InputError(error.message, file=file, line=lines[error.path]) from None


def write_paths(fabric: Fabric, routes: PathRoutes) -> str:
    """The text that `read_paths` reads, a line for each path in order of source, destination.

    Raises
    ------
    InputError
        When the routes were made for another fabric, or carry service levels, which the format
        has no room for.
    """
    routes.check(fabric)
    if np.any(routes.sl):
        raise InputError("a file of paths has no room for service levels")
    return "".join(f"{line}\n" for line in _lines(fabric, routes))


def _lines(fabric: Fabric, routes: PathRoutes) -> Iterator[str]:
    graph = fabric.graph
    yield f"# source routes of {fabric.name} by {routes.engine}: output ports from the source on"
    names = [_written(fabric, int(node)) for node in fabric.endpoint_node]
    out_port = fabric.endpoint_port
    for i, key in enumerate(routes.pair.tolist()):
        source, destination = divmod(key, fabric.num_host_endpoints)
        if source == destination:
            continue
        edges = routes.edge[routes.offset[i] : routes.offset[i + 1]]
        ports = graph.edge_port[edges].tolist()
        if graph.destination_link[source] >= 0:
            ports.insert(0, int(out_port[source]))
        last = graph.destination_link[destination]
        if last >= 0:
            ports.append(int(fabric.link_from_port[last]))
        yield f"{names[source]} {names[destination]} {','.join(map(str, ports))}"


def _written(fabric: Fabric, node: int) -> str:
    """A host's name, or its GUID when a line could not hold the name."""
    name = fabric.node_names[node]
    plain = len(name.split()) == 1 and "#" not in name and fabric.find_node(name) == node
    return name if plain else f"0x{int(fabric.node_guid[node]):016x}"


def source_routes(
    fabric: Fabric,
    sources: ArrayLike,
    destinations: ArrayLike,
    offset: ArrayLike,
    ports: ArrayLike,
    *,
    sl: ArrayLike = 0,
) -> PathRoutes:
    """Source routes from the output ports along each path.

    Parameters
    ----------
    fabric
        Where the paths lead.
    sources, destinations
        Host numbers, [paths] each; each pair of ports once.
    offset
        [paths + 1]: path ``i`` leaves its nodes by ``ports[offset[i]:offset[i + 1]]``.
    ports
        Output ports, the source's own first.
    sl
        Service level, one for all or [paths].

    Returns
    -------
    PathRoutes
        Those paths and no others.

    Raises
    ------
    InputError
        On a host that does not exist, a port without a cable, a path that ends elsewhere or meets
        a node twice, or a pair of ports that comes twice.
    NotApplicable
        When the fabric is too large.

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
    again = np.flatnonzero(np.diff(pair[order]) == 0)
    if len(again):
        path = int(order[again + 1].min())
        raise _PathError(path, f"{_ends(fabric, start[path], end[path])} has a path already")
    edge = fabric.graph.edge_of_link[links]
    path_of = np.repeat(np.arange(len(pair)), np.diff(first))
    inner = edge >= 0
    counts = np.bincount(path_of[inner], minlength=len(pair))[order]
    levels = whole_numbers(sl, "service levels", low=0, high=15, each=len(pair))
    place = np.empty(len(pair), dtype=np.int64)
    place[order] = np.arange(len(pair))
    by_pair = np.argsort(place[path_of[inner]], kind="stable")
    return PathRoutes(
        **provenance(fabric, "source"),
        pair=pair[order],
        offset=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        edge=edge[inner][by_pair].astype(np.int32),
        sl=(levels[order] if np.ndim(sl) else levels.max(initial=0)).astype(np.uint8),
    )


class _PathError(InputError):
    """What is wrong with one of the paths given."""

    def __init__(self, path: int, message: str):
        self.path = path
        super().__init__(message)


def _ends(fabric: Fabric, source: int, destination: int) -> str:
    names = fabric.host_names
    return f"{names[source]} to {names[destination]}"


def _host(fabric: Fabric, text: str) -> int:
    node = fabric.find_node(text)
    host = node - fabric.num_switches
    if not 0 <= host < fabric.num_hosts:
        raise InputError(f"{fabric.node_names[node]} is no host")
    return host


def _follow(
    fabric: Fabric,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    offset: NDArray[np.int64],
    ports: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Links along each path, all paths one step at a time.

    Raises
    ------
    _PathError
        For the first path that leads nowhere, elsewhere or in a circle.
    """
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
        there = (port >= 1) & (port <= fabric.num_ports[at])
        slot = np.where(there, fabric.port_offset[at] + port - 1, 0)
        link = np.where(there, fabric.port_link[slot] if len(fabric.port_link) else -1, -1)
        passes = (step == 0) | fabric.forwards[at]
        for bad in path[(link < 0) | ~passes].tolist():
            name = fabric.node_names[node[bad]]
            text = f"port {ports[offset[bad] + step]} of {name} has no cable"
            if step and not fabric.forwards[node[bad]]:
                text = f"the path goes on after {name}, which does not forward"
            wrong.setdefault(bad, text)
        links[offset[path] + step] = link
        node[path] = np.where((link >= 0) & passes, fabric.link_to[link], -1)
        visited[offset[path] + path + step + 1] = node[path]
    for late in np.flatnonzero((node >= 0) & (node != goal)).tolist():
        ends = f"{fabric.node_names[node[late]]}, not in {fabric.node_names[goal[late]]}"
        wrong.setdefault(late, f"the path ends in {ends}")
    for own in np.flatnonzero(sources == destinations).tolist():
        wrong[own] = "a host needs no path to itself"
    owner = np.repeat(np.arange(len(node)), length + 1)
    by_node = np.lexsort((visited, owner))
    same = (np.diff(owner[by_node]) == 0) & (np.diff(visited[by_node]) == 0)
    for k in by_node[np.flatnonzero(same)].tolist():
        if visited[k] >= 0:
            name = fabric.node_names[visited[k]]
            wrong.setdefault(int(owner[k]), f"the path meets {name} twice")
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
    """Number of the pair of endpoints that each path joins."""
    graph = fabric.graph
    endpoint_of_link = np.full(fabric.num_links + 1, -1, dtype=np.int64)
    hanging = np.flatnonzero(graph.destination_link[: fabric.num_host_endpoints] >= 0)
    endpoint_of_link[graph.destination_link[hanging]] = hanging
    ends: list[NDArray[Any]] = []
    for hosts, place, turn in ((sources, offset[:-1], 1), (destinations, offset[1:] - 1, 0)):
        # A host that forwards is one endpoint; of any other the cable tells which it is.
        whole = fabric.forwards[fabric.host_nodes[hosts]]
        cable = endpoint_of_link[links[place] ^ turn] if len(links) else -1
        end = np.where(whole, fabric.host_endpoint[hosts], cable)
        for path in np.flatnonzero(end < 0)[:1].tolist():
            text = _ends(fabric, int(sources[path]), int(destinations[path]))
            raise _PathError(path, f"{text}: the path meets no switch")
        ends.append(end)
    pair: NDArray[np.int64] = ends[0] * fabric.num_host_endpoints + ends[1]
    return pair
