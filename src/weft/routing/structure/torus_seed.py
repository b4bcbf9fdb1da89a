"""Coordinates of a torus from a torus-2QoS.conf, and a torus-2QoS.conf for a given torus."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, NodeKind
from weft.routing.engine_registry import row_adapters
from weft.routing.opensm.torus_conf import AXES, PORTGROUP_MAX_PORTS, SeedLink, TorusConf, TorusSeed
from weft.routing.structure.torus import Torus


def seeded(fabric: Fabric, tori: list[Torus], conf: TorusConf) -> Torus:
    """Return the torus in three dimensions with the coordinates that a torus-2QoS.conf gives.

    `fabric`, `tori`: the fabric and the result of `find_tori`, not folded. `conf`: the
    configuration. The first seed whose switches all exist determines directions and origin.
    """
    seed, rows = _present(fabric, conf)
    origin = next(iter(rows.values()))[0]
    torus = next(part for part in tori if origin in part.rows)
    index = {int(row): at for at, row in enumerate(torus.rows)}
    start = torus.coordinate[index[origin]]
    columns: list[NDArray[np.int32]] = []
    left = {d for d, size in enumerate(torus.radix) if size > 1}
    for axis, size, wrap, shift in zip(AXES, conf.radix, conf.wraps, seed.datelines, strict=True):
        column = np.zeros(len(torus.rows), dtype=np.int32)
        if size > 1:
            directions = {
                sign: _direction(fabric, torus, start, index, conf, seed.links[axis + sign], head)
                for sign in "pm"
                for _, head in [rows.get(axis + sign, (-1, -1))]
                if head >= 0
            }
            column = _column(torus, start, conf, axis, size, wrap, directions, seed)
            left -= {d for d, _ in directions.values()}
        columns.append((column - shift) % size)
    if left:
        raise InputError(
            f"specifies {_size_text(conf)}, but the fabric is a {torus.folded().text()}",
            file=conf.file,
        )
    coordinate = np.stack(columns, axis=1).astype(np.int32)
    return replace(torus, radix=conf.radix, wraps=conf.wraps, coordinate=coordinate)


def _size_text(conf: TorusConf) -> str:
    return " ".join(
        f"{size}{'t' if wrap else 'm' if size > 2 else ''}"
        for size, wrap in zip(conf.radix, conf.wraps, strict=True)
    )


def _present(fabric: Fabric, conf: TorusConf) -> tuple[TorusSeed, dict[str, tuple[int, int]]]:
    """Return the first seed whose switches all exist with cables, and the rows of its links."""
    joined = np.diff(fabric.graph.edge_offset) > 0
    row_of = {
        int(fabric.node_guid[node]): int(fabric.graph.node_row[node])
        for node in np.flatnonzero(fabric.node_kind == NodeKind.SWITCH)
        if joined[fabric.graph.node_row[node]]
    }
    first: InputError | None = None
    for seed in conf.seeds:
        used = {
            direction: link
            for direction, link in seed.links.items()
            if conf.radix[AXES.index(direction[0])] > 1
        }
        for direction, link in used.items():
            for guid in (link.tail_guid, link.head_guid):
                if guid not in row_of and first is None:
                    first = InputError(
                        f"{direction}_link names {guid:#x}, which is not a switch of {fabric.name}",
                        file=conf.file,
                        line=link.line or None,
                    )
        link_rows = {
            direction: (row_of.get(link.tail_guid, -1), row_of.get(link.head_guid, -1))
            for direction, link in used.items()
        }
        if link_rows and all(min(rows) >= 0 for rows in link_rows.values()):
            return seed, link_rows
    if first is None:
        raise InputError("has no seed: each dimension needs a link such as xp_link", file=conf.file)
    raise first


def _direction(
    fabric: Fabric,
    torus: Torus,
    start: NDArray[np.int32],
    index: dict[int, int],
    conf: TorusConf,
    link: SeedLink,
    head: int,
) -> tuple[int, int]:
    """Return the dimension and direction (1 or -1) of a seed's neighbour."""
    if head in index:
        step = torus.coordinate[index[head]] - start
        moved = np.flatnonzero(step)
        if len(moved) == 1:
            d = int(moved[0])
            if abs(step[d]) == 1:
                return d, int(step[d])
            if torus.wraps[d] and abs(step[d]) == torus.radix[d] - 1:
                return d, -int(np.sign(step[d]))
    raise InputError(
        f"switches {link.tail_guid:#x} and {link.head_guid:#x} are not neighbours in {fabric.name}",
        file=conf.file,
        line=link.line or None,
    )


def _column(
    torus: Torus,
    start: NDArray[np.int32],
    conf: TorusConf,
    axis: str,
    size: int,
    wrap: bool,
    directions: dict[str, tuple[int, int]],
    seed: TorusSeed,
) -> NDArray[np.int32]:
    """Return coordinates on one axis, 0 at the seed's switch, ascending in the seed's direction."""
    line = seed.links[axis + next(iter(directions))].line or None
    wrong = partial(InputError, file=conf.file, line=line)
    dimensions = [d for d, _ in directions.values()]
    if size == 4 and wrap and len(dimensions) == 2 and dimensions[0] != dimensions[1]:
        if any(torus.radix[d] != 2 for d in dimensions):
            raise wrong(
                f"{axis}p_link and {axis}m_link are in different dimensions, of "
                f"{torus.radix[dimensions[0]]} and {torus.radix[dimensions[1]]} switches"
            )
        up, down = (
            torus.coordinate[:, directions[sign][0]] != start[directions[sign][0]] for sign in "pm"
        )
        quarter: NDArray[np.int32] = np.where(down, 3 - up.astype(np.int32), up).astype(np.int32)
        return quarter
    d = dimensions[0]
    if len(set(dimensions)) > 1:
        raise wrong(f"{axis}p_link and {axis}m_link are in different dimensions")
    length, ring = torus.radix[d], torus.wraps[d]
    if length > size or (length < size and ring) or (ring and not wrap):
        raise wrong(
            f"specifies a {'ring' if wrap else 'line'} of {size} for {axis}, but the fabric, a "
            f"{torus.folded().text()}, has a {'ring' if ring else 'line'} of {length} there"
        )
    sense = directions["p"][1] if "p" in directions else -directions["m"][1]
    column: NDArray[np.int32] = (sense * (torus.coordinate[:, d] - start[d])).astype(np.int32)
    return column


def configuration(fabric: Fabric, torus: Torus) -> TorusConf:
    """Return a torus-2QoS.conf with which OpenSM uses the coordinates of a torus.

    The file has two seeds without a common switch if the torus is large enough.

    `torus`: torus of at most three dimensions, for example from `Torus.folded`.
    """
    if len(torus.radix) > len(AXES):
        raise NotApplicable(f"OpenSM's torus-2QoS has three dimensions; this is a {torus.text()}")
    row_at = dict(zip(map(tuple, torus.coordinate.tolist()), torus.rows.tolist(), strict=True))
    seeds: list[TorusSeed] = []
    taken: set[int] = set()
    for at in sorted(row_at):
        candidate = _seed(fabric, torus, row_at, at, taken)
        if candidate is None:
            continue
        seeds.append(candidate[0])
        taken |= candidate[1]
        if len(seeds) == 2:
            break
    if not seeds:
        raise NotApplicable("no switch has a neighbour in each dimension to start from")
    room = len(AXES) - len(torus.radix)
    radix, wraps = (*torus.radix, *[1] * room), (*torus.wraps, *[False] * room)
    cables = np.unique(
        np.stack((fabric.graph.edge_tail, fabric.graph.edge_row)), axis=1, return_counts=True
    )[1]
    most = max(int(row_adapters(fabric).max(initial=0)) + 1, int(cables.max(initial=0)))
    return TorusConf(
        radix=(radix[0], radix[1], radix[2]),
        wraps=(wraps[0], wraps[1], wraps[2]),
        seeds=tuple(seeds),
        portgroup_max_ports=max(PORTGROUP_MAX_PORTS, most),
    )


def _seed(
    fabric: Fabric,
    torus: Torus,
    row_at: dict[tuple[int, ...], int],
    at: tuple[int, ...],
    taken: set[int],
) -> tuple[TorusSeed, set[int]] | None:
    """Return the seed at some coordinates and its rows, or None if a row is missing or taken."""
    row = row_at[at]
    guid = fabric.node_guid[fabric.graph.row_node]
    links: dict[str, SeedLink] = {}
    used = {row}
    for d, (axis, size, wrap) in enumerate(zip(AXES, torus.radix, torus.wraps, strict=False)):
        for sign, step in (("p", 1), ("m", -1)):
            other = list(at)
            other[d] = (at[d] + step) % size if wrap else at[d] + step
            near = row_at.get(tuple(other))
            if near is None or size < 2:
                continue
            if sign == "m" and axis + "p" in links and not (size == 4 and wrap):
                continue
            links[axis + sign] = SeedLink(int(guid[row]), int(guid[near]))
            used.add(near)
        given = sum(axis + sign in links for sign in "pm")
        if size > 1 and given < (2 if size == 4 and wrap else 1):
            return None
    if used & taken:
        return None
    shift = [-value for value in at] + [0] * (len(AXES) - len(at))
    return TorusSeed(links, (shift[0], shift[1], shift[2])), used


def three_dimensions(torus: Torus) -> Torus:
    """Return the torus padded to OpenSM's three dimensions by dimensions of one switch."""
    room = max(0, len(AXES) - len(torus.radix))
    return replace(
        torus,
        radix=(*torus.radix, *[1] * room),
        wraps=(*torus.wraps, *[False] * room),
        coordinate=np.pad(torus.coordinate, ((0, 0), (0, room))),
    )


def discovery_order(fabric: Fabric, torus: Torus, conf: TorusConf | None) -> NDArray[np.int32]:
    """Return indices of `Torus.rows` in the order in which OpenSM discovers the switches.

    OpenSM routes destinations in this order, and so assigns them to parallel cables.

    `fabric`, `torus`: the fabric and its torus of three dimensions, from `seeded` or
    `three_dimensions`. `conf`: configuration whose seed is the start of the search; None for the
    origin.

    Starting with the switches of the seed, all cubes of up to eight switches are searched with x
    varying fastest, repeatedly until no cube gains a switch. Switches not reached are last.
    """
    size = torus.radix
    index = dict(zip(map(tuple, torus.coordinate.tolist()), range(len(torus.rows)), strict=True))
    discovered: dict[tuple[int, ...], None] = {}
    seed = None if conf is None else _present(fabric, conf)[0]
    start = [0, 0, 0] if seed is None else [-shift for shift in seed.datelines]
    for d, axis in enumerate(AXES):
        both = size[d] == 4 and torus.wraps[d]
        for sign, step in (("p", 1), ("m", -1)):
            given = sign == "p" or both if seed is None else axis + sign in seed.links
            if size[d] > 1 and given:
                for far in (0, step):
                    at = list(start)
                    at[d] += far
                    discovered.setdefault(tuple(a % n for a, n in zip(at, size, strict=True)))
    numbers = [n for n in range(8) if not any(n >> d & 1 and size[d] == 1 for d in range(3))]
    cells = np.indices(size[::-1]).reshape(3, -1)[::-1].T
    first = cells[(np.array(torus.wraps) | (cells < np.maximum(size, 2) - 1)).all(axis=1)]
    corners = (first[:, None] + (np.array(numbers)[:, None] >> np.arange(3) & 1)) % size
    cubes = [dict(zip(numbers, map(tuple, each), strict=True)) for each in corners.tolist()]
    known = 0
    while known < len(discovered):
        known = len(discovered)
        for cube in cubes:
            while _search(torus, index, cube, discovered):
                pass
        cubes = [cube for cube in cubes if not discovered.keys() >= set(cube.values())]
    order = [index[at] for at in discovered if at in index]
    rest = sorted(set(range(len(torus.rows))) - set(order))
    return np.array(order + rest, dtype=np.int32)


def _search(
    torus: Torus,
    index: dict[tuple[int, ...], int],
    cube: dict[int, tuple[int, ...]],
    discovered: dict[tuple[int, ...], None],
) -> bool:
    """Discover one more corner of a cube from known ones; return whether one was found.

    Three known corners of a square give the fourth. Otherwise a known neighbour gives a corner if
    the switch behind the neighbour, in a straight line, is also known.
    """
    unknown = [n for n, at in cube.items() if at not in discovered and at in index]
    if not unknown or len(cube) - len(unknown) < len(cube).bit_length() - 1:
        return False
    known = {n for n, at in cube.items() if at in discovered}
    for n in unknown:
        near = [1 << d for d in range(3) if n ^ 1 << d in known]
        if any(n ^ one ^ two in known for one, two in combinations(near, 2)):
            discovered[cube[n]] = None
            return True
    for n in unknown if len(cube) == 4 else unknown[::-1]:
        for d in range(3):
            if n ^ 1 << d in known and _goes_straight_on(torus, cube, n, d, discovered):
                discovered[cube[n]] = None
                return True
    return False


def _goes_straight_on(
    torus: Torus,
    cube: dict[int, tuple[int, ...]],
    corner: int,
    along: int,
    discovered: dict[tuple[int, ...], None],
) -> bool:
    """Return whether OpenSM can tell which cable of one known neighbour leads to a corner.

    If the neighbour is on a ring of four in another dimension, two more switches of this ring must
    be known, since the ring looks like a square.
    """
    base = cube[corner ^ 1 << along]
    behind = list(base)
    behind[along] = (2 * base[along] - cube[corner][along]) % torus.radix[along]
    if tuple(behind) not in discovered:
        return False
    for d in range(3):
        if d == along or torus.radix[d] == 1:
            continue
        if cube[corner ^ 1 << along ^ 1 << d] not in discovered:
            return False
        if torus.radix[d] == 4 and torus.wraps[d]:
            ring = [(*base[:d], (base[d] + step) % 4, *base[d + 1 :]) for step in (1, 2, 3)]
            if sum(at in discovered for at in ring) < 2:
                return False
    return True
