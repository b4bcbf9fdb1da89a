"""Reference implementation of hashing over candidates, with lists of all paths and zlib's CRC."""

from __future__ import annotations

import hashlib
import zlib
from fractions import Fraction

import numpy as np

from weft.fabrics import Fabric
from weft.routing.routes import CandidateRoutes

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(state: int) -> int:
    z = (state + GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def flowlet_hash(seed: int, flow: int, qp: int, epoch: int) -> int:
    state = splitmix64((seed + flow * GOLDEN) & MASK)
    return splitmix64(state ^ (qp << 32 | epoch))


def switch_seed(seed: int, row: int) -> int:
    return splitmix64(((seed ^ 0x5EED_0F_5317C4) + row * GOLDEN) & MASK) >> 32


def candidates(fabric: Fabric, routes: CandidateRoutes, row: int, goal: int) -> list[int]:
    chosen = routes.set_id[goal, row]
    if chosen < 0:
        return []
    return [
        int(e) for e in routes.set_edge[routes.set_offset[chosen] : routes.set_offset[chosen + 1]]
    ]


def md5(name: object) -> int:
    return int(hashlib.md5(str(name).encode(), usedforsecurity=False).hexdigest(), 16)


def all_paths(fabric: Fabric, routes: CandidateRoutes, row: int, goal: int) -> list[list[int]]:
    """Return every path as its links, in the order of a search that tries lower ports first."""
    if row == goal:
        return [[]]
    return [
        [int(fabric.graph.edge_link[edge]), *rest]
        for edge in candidates(fabric, routes, row, goal)
        for rest in all_paths(fabric, routes, int(fabric.graph.edge_row[edge]), goal)
    ]


def five_tuple(source: int, destination: int, source_port: int) -> bytes:
    address = 0x0A000001
    return b"".join(
        (
            (address + source).to_bytes(4, "big"),
            (address + destination).to_bytes(4, "big"),
            bytes([17]),
            source_port.to_bytes(2, "big"),
            (4791).to_bytes(2, "big"),
        )
    )


def rotated(value: int, shift: int) -> int:
    return ((value >> shift) | (value << (32 - shift))) & 0xFFFFFFFF


def part_path(
    fabric: Fabric,
    routes: CandidateRoutes,
    hash: str,
    seed: int,
    flow: int,
    ends: tuple[int, int],
    part: tuple[int, int],
) -> list[int]:
    """Return the links between switches on the path of one part of a flow."""
    graph = fabric.graph
    source, destination = ends
    out = graph.destination_link[source]
    row = int(graph.destination_row[source] if out < 0 else graph.link_row[out ^ 1])
    goal = int(graph.destination_row[destination])
    if hash in ("md5", "linear"):
        paths = all_paths(fabric, routes, row, goal)
        if hash == "md5":
            names = [fabric.node_names[fabric.endpoint_node[end]] for end in ends]
            code = [md5(each) for each in (*names, *part)]
        else:
            code = [splitmix64((seed ^ (end * GOLDEN)) & MASK) >> 33 for end in ends] + [*part]
        factors = (1315423911, 2654435761, 97531, 19260817)
        return paths[sum(a * b for a, b in zip(code, factors, strict=True)) % len(paths)]
    value = flowlet_hash(seed, flow, *part)
    port = 0xC000 | value >> 50
    links = []
    while row != goal:
        edges = candidates(fabric, routes, row, goal)
        if hash == "ideal":
            pick = (value >> 32) * len(edges) >> 32
            if len(edges) > 1:
                value = splitmix64(value)
        else:
            own_seed = 0 if hash == "crc-polarised" else switch_seed(seed, row)
            code32 = zlib.crc32(five_tuple(source, destination, port), own_seed)
            if hash == "crc-offset":
                level = int(fabric.level[graph.row_node[row]])
                code32 = rotated(code32, (8 * level if level >= 0 else own_seed) % 32)
            pick = code32 % len(edges)
        links.append(int(graph.edge_link[edges[pick]]))
        row = int(graph.edge_row[edges[pick]])
    return links


def loads(
    fabric: Fabric,
    routes: CandidateRoutes,
    hash: str,
    seed: int,
    hosts: list[tuple[int, int]],
    split: tuple[int, int],
) -> tuple[np.ndarray, int]:
    """Return the load of each directed link, and the number of flows without a path."""
    graph = fabric.graph
    total = [Fraction(0)] * fabric.num_links
    unrouted = 0
    for flow, (a, b) in enumerate(hosts):
        if a == b:
            unrouted += fabric.host_endpoint[a] < 0
            continue
        ends = int(fabric.host_endpoint[a]), int(fabric.host_endpoint[b])
        if min(ends) < 0 or not _connected(fabric, routes, *ends):
            unrouted += 1
            continue
        out, last = (int(graph.destination_link[end]) for end in ends)
        if out >= 0:
            total[out ^ 1] += 1
        if last >= 0:
            total[last] += 1
        share = Fraction(1, split[0] * split[1])
        for qp in range(split[0]):
            for epoch in range(split[1]):
                for link in part_path(fabric, routes, hash, seed, flow, ends, (qp, epoch)):
                    total[link] += share
    return np.array([float(load) for load in total]), int(unrouted)


def _connected(fabric: Fabric, routes: CandidateRoutes, source: int, destination: int) -> bool:
    start, goal = (int(fabric.graph.destination_row[end]) for end in (source, destination))
    return min(start, goal) >= 0 and (start == goal or routes.set_id[goal, start] >= 0)
