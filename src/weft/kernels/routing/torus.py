"""Detection of the dimensions of a torus by its squares; dimension-order tables with their SLs."""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.copies import copy_values
from weft.kernels.lean import lean_njit


class TorusArrays(NamedTuple):
    """One torus or mesh, whose rows are numbered within it."""

    #: int32, uint8, uint8 [dimensions]: size; whether the wrap-around cables are used; the SL bit
    #: that marks a path that crosses the dateline.
    radix: Any
    ring: Any
    sl_bit: Any
    #: int32 [rows, dimensions], [dimensions], [product of radix]: the row at the coordinates c is
    #: grid[sum(c * stride)], -1 where the switch is missing.
    coordinate: Any
    stride: Any
    grid: Any
    #: int32 [rows, 2 dimensions]: neighbour down (2 d) and up (2 d + 1) dimension d, or -1; and the
    #: number of steps possible in that direction.
    step: Any
    reach: Any
    #: int32 [rows]: the number of each row in the fabric.
    rows: Any
    #: int64 [rows]: number of hosts that send through each row.
    sources: Any
    #: uint8 [rows]: direction of ties towards the first destination of each row; the directions for
    #: its further adapters alternate.
    parity: Any
    #: int32, int32 and float64, CSR over row * 2 dimensions + group: the ports of parallel cables,
    #: and the cost of one flow: 1 / (rate in Gbit/s).
    group_offset: Any
    group_port: Any
    group_cost: Any


class TorusSpace(NamedTuple):
    """Work space of `torus_tables`, initially 0; the first number of two is the side of a tie."""

    #: uint8 [dimensions, largest radix], int8 and int64 [2, rows], int64 [2]: directions, groups
    #: and flows of the paths to one target, and the first destination with these paths.
    up: Any
    chosen: Any
    flows: Any
    first: Any
    #: uint8 and uint8 [destinations]: side of each listed destination; SL bits of one dimension.
    side: Any
    share: Any
    #: uint8 and int32 [rows]: see `_repair_steps`.
    state: Any
    trail: Any
    #: float64 [ports], int64 [2, groups]: load of each parallel cable; the next one of each group
    #: to adapters and to switches.
    load: Any
    next_cable: Any


@njit(cache=True, inline="always")
def _root(edge, parent, flip):
    """Return the representative of an edge's class, and whether the edge points against it."""
    turned = np.uint8(0)
    while parent[edge] != edge:
        turned ^= flip[edge]
        edge = parent[edge]
    return edge, turned


@njit(cache=True)
def _unite(one, other, against, parent, flip):
    """Join the classes of two edges; return 1 on a conflict, else 0.

    `against` is 1 if the edges point in opposite directions. The edge of the smaller number stays
    the representative, so that the result does not depend on the order of the calls.
    """
    a, turned_a = _root(one, parent, flip)
    b, turned_b = _root(other, parent, flip)
    turned = turned_a ^ turned_b ^ against
    if a == b:
        return turned
    if a > b:
        a, b = b, a
    parent[b] = a
    flip[b] = turned
    return np.uint8(0)


@njit(cache=True)
def _next_common(x, y, a, b, offset, other):
    """Return where rows a and b list their next common neighbour, from x and y on.

    The first number is that of the end of a's list if there is none.
    """
    while x < offset[a + 1] and y < offset[b + 1]:
        if other[x] == other[y]:
            return x, y
        if other[x] < other[y]:
            x += 1
        else:
            y += 1
    return np.int64(offset[a + 1]), y


@lean_njit()
def unite_squares(offset, other, edge, parent, flip):
    """Put opposite sides of every square of a simple graph in one class.

    `offset`, `other`, `edge`: int32 CSR over rows: the neighbours, ascending, and the undirected
    edge to each. An edge points from its lower row to its higher one. `parent`, int32 [edges],
    changed in place: representative of each edge's class, initially 0, 1, 2, ... `flip`, uint8
    [edges], changed in place: 1 where an edge points against its representative, initially 0.

    Returns the number of conflicts: each is an edge that is parallel to its own reverse.
    """
    conflicts = 0
    for v in range(len(offset) - 1):
        for i in range(offset[v], offset[v + 1]):
            a = other[i]
            for j in range(i + 1, offset[v + 1]):
                b = other[j]
                x, y = _next_common(offset[a], offset[b], a, b, offset, other)
                while x < offset[a + 1]:
                    w = other[x]
                    if w != v:
                        conflicts += _unite(
                            edge[i], edge[y], np.uint8((v > a) != (b > w)), parent, flip
                        )
                        conflicts += _unite(
                            edge[j], edge[x], np.uint8((v > b) != (a > w)), parent, flip
                        )
                    x, y = _next_common(x + 1, y + 1, a, b, offset, other)
    for e in range(len(parent)):
        root, turned = _root(e, parent, flip)
        parent[e] = root
        flip[e] = turned
    return conflicts


@lean_njit()
def adjacent_edges(offset, other, one, two, square, strong, joined):
    """List the pairs of edges that meet at each row.

    `offset`, `other`: as in `unite_squares`. `one`, `two`, int32, filled: the edges of each pair,
    as indices in `other`. There must be room for every pair of neighbours of every row. `square`,
    `strong`, uint8, filled: `square` is 1 if the edges are two sides of a square; `strong` is 1 if
    they are not, but each of them is in a square with a common third edge. `joined`, bool [most
    neighbours, most neighbours]: work space. Returns the number of pairs.
    """
    count = 0
    for v in range(len(offset) - 1):
        first = offset[v]
        degree = offset[v + 1] - first
        for i in range(degree):
            a = other[first + i]
            for j in range(i):
                b = other[first + j]
                x, y = _next_common(offset[a], offset[b], a, b, offset, other)
                if x < offset[a + 1] and other[x] == v:
                    x, y = _next_common(x + 1, y + 1, a, b, offset, other)
                joined[i, j] = x < offset[a + 1]
                joined[j, i] = joined[i, j]
        for i in range(degree):
            for j in range(i):
                one[count] = first + j
                two[count] = first + i
                square[count] = joined[i, j]
                strong[count] = 0
                for k in range(0 if joined[i, j] else degree):
                    if k not in (i, j) and joined[i, k] and joined[j, k]:
                        strong[count] = 1
                        break
                count += 1
    return count


@njit(cache=True, inline="always")
def _ring_direction(source, target, radix, ring, tie_up):
    """Return the direction (1 up, 0 down) of the shorter path on a ring or line."""
    direct = abs(target - source)
    around = radix - direct
    up = target > source
    if ring and (around < direct or (around == direct and radix > 2 and tie_up != up)):
        up = not up
    return 1 if up else 0


@njit(cache=True)
def _choose_steps(target, torus, ties, tie_up, whole, up, chosen):
    """Choose the group of cables by which each row sends to a target row, -1 for none.

    Group 2 d leads down and group 2 d + 1 up dimension d. As in OpenSM's torus-2QoS, the path leads
    along the first dimension in which row and target differ, to the switch where it turns into the
    next dimension. It takes the shorter direction, or the other one if the shorter one is cut. If
    the switch of the turn is missing, the path takes the shorter direction as far as there are
    cables. If no step is possible, the next dimension is tried.

    `whole`: whether all paths can lead in the direction that `_ring_direction` gives. `up`, uint8
    [dimensions, largest radix]: work space.
    """
    radix, coordinate, stride = torus.radix, torus.coordinate, torus.stride
    grid, step, reach = torus.grid, torus.step, torus.reach
    dimensions = len(radix)
    for d in range(dimensions):
        b = coordinate[target, d]
        for a in range(radix[d]):
            up[d, a] = _ring_direction(a, b, radix[d], torus.ring[d], tie_up if ties else b > a)
        up[d, b] = 2
    for row in range(len(chosen)):
        chosen[row] = -1
        for d in range(dimensions):
            a = coordinate[row, d]
            way = up[d, a]
            if way > 1:
                continue
            if whole:
                chosen[row] = 2 * d + way
                break
            b = coordinate[target, d]
            at = (b - a) * stride[d]
            for other in range(dimensions):
                at += coordinate[row, other] * stride[other]
            if grid[at] >= 0:
                length = (b - a if way else a - b) % radix[d]
                if reach[row, 2 * d + way] >= length:
                    chosen[row] = 2 * d + way
                elif reach[row, 2 * d + 1 - way] >= radix[d] - length:
                    chosen[row] = 2 * d + 1 - way
            elif step[row, 2 * d + way] >= 0:
                chosen[row] = 2 * d + way
            if chosen[row] >= 0:
                break


@njit(cache=True)
def _repair_steps(target, step, last_first, chosen, state, trail):
    """Let rows without a path send to a neighbour that has one.

    Rows next to rows with a path come first. The neighbours are tried from the first dimension to
    the last or, if `last_first`, in reverse.
    """
    rows = len(chosen)
    for row in range(rows):
        state[row] = 0
    state[target] = 2
    for start in range(rows):
        length = 0
        row = start
        while state[row] == 0:
            state[row] = 1
            trail[length] = row
            length += 1
            if chosen[row] < 0:
                break
            row = step[row, chosen[row]]
        fate = 2 if state[row] == 2 else 3
        for i in range(length):
            state[trail[i]] = fate
    changed = True
    while changed:
        changed = False
        for row in range(rows):
            if state[row] != 3:
                continue
            for attempt in range(step.shape[1]):
                group = step.shape[1] - 1 - attempt if last_first else attempt
                near = step[row, group]
                if near >= 0 and state[near] == 2:
                    chosen[row] = group
                    state[row] = 4
                    changed = True
                    break
        for row in range(rows):
            if state[row] == 4:
                state[row] = 2


@njit(cache=True)
def _fill_sls(torus, ties, side, targets, share, sl):
    """Fill the SL of the path from each row to each destination.

    `side`, uint8 [destinations listed in `targets`]: 1 if their ties lead down, else 0. `share`,
    uint8 [destinations], initially 0: work space for the SL bits of one dimension, which are the
    same from all rows of one coordinate.
    """
    for d in range(len(torus.radix)):
        for a in range(torus.radix[d] if torus.ring[d] and torus.sl_bit[d] > 0 else 0):
            for target in range(len(torus.rows)):
                b = torus.coordinate[target, d]
                for k in range(targets.offset[target], targets.offset[target + 1]):
                    tie_up = side[k] == 0 if ties else b > a
                    up = _ring_direction(a, b, torus.radix[d], True, tie_up) == 1
                    crosses = a != b and up != (b > a)
                    share[targets.destination[k]] = torus.sl_bit[d] if crosses else 0
            for row in range(len(torus.rows)):
                if torus.coordinate[row, d] == a:
                    line = sl[torus.rows[row]]
                    for k in range(len(share)):
                        line[k] |= share[k]


@njit(cache=True)
def _count_flows(target, torus, chosen, waits, flows):
    """Fill the number of flows to a target row that each row sends or forwards.

    `waits`, int32 [rows]: work space for the number of neighbours whose flows are not yet known.
    """
    for row in range(len(flows)):
        flows[row] = torus.sources[row]
        waits[row] = 0
    for row in range(len(flows)):
        if chosen[row] >= 0:
            waits[torus.step[row, chosen[row]]] += 1
    for row in range(len(flows)):
        at = row
        while waits[at] == 0 and chosen[at] >= 0:
            waits[at] = -1
            near = torus.step[at, chosen[at]]
            flows[near] += flows[at]
            waits[near] -= 1
            at = near


@lean_njit()
def torus_tables(
    torus, balanced, ties, parallel, whole, complete, last_first, order, targets, space, table, sl
):
    """Fill the tables and SLs of one torus or mesh.

    - `torus`: parts of `TorusArrays`.
    - `balanced`: whether parallel cables are balanced by flows; otherwise, as in OpenSM, they are
      used round-robin.
    - `ties`: whether there are ties (both directions around an even ring are equally short) that
      use both directions; otherwise, as in OpenSM, their paths do not cross the dateline.
    - `parallel`, `whole`: whether there are parallel cables; see `_choose_steps`.
    - `complete`, `last_first`: whether all cables and switches exist, so that every path arrives;
      and, if some are missing, the order for `_repair_steps`.
    - `order`, int32 [rows]: order of the target rows.
    - `targets`: parts of `weft.kernels.routing.tables.TableTargets`, with the rows of the torus.
    - `table`, `sl`: uint8 or uint16, and uint8, [destinations, fabric rows] and [fabric rows,
      destinations]: changed in place.
    """
    step, rows = torus.step, torus.rows
    group_offset, group_port = torus.group_offset, torus.group_port
    count = len(rows)
    groups = step.shape[1]
    up, chosen, flows, first = space.up, space.chosen, space.flows, space.first
    sides, load, next_cable = space.side, space.load, space.next_cable
    for o in range(count):
        target = order[o]
        first[0] = first[1] = -1
        adapters = 0
        for k in range(targets.offset[target], targets.offset[target + 1]):
            destination = targets.destination[k]
            switch = destination >= targets.num_endpoints
            side = 0
            if ties:
                side = (torus.parity[target] + (0 if switch else adapters)) & 1
            sides[k] = side
            if not switch:
                adapters += 1
            line, ports = chosen[side], table[destination]
            if first[side] < 0:
                first[side] = destination
                _choose_steps(target, torus, ties, side == 0, whole, up, line)
                if not complete:
                    _repair_steps(target, step, last_first, line, space.state, space.trail)
                if parallel and balanced:
                    _count_flows(target, torus, line, space.trail, flows[side])
            elif not parallel:
                copy_values(ports, table[first[side]], len(ports))
                ports[rows[target]] = targets.port[destination]
                continue
            for row in range(count):
                if line[row] < 0:
                    continue
                group = row * groups + line[row]
                pick = group_offset[group]
                last = group_offset[group + 1] if parallel else pick + 1
                if last > pick + 1 and balanced and not switch:
                    least = load[pick]
                    for i in range(pick + 1, last):
                        pick = i if load[i] < least else pick  # without a branch
                        least = min(least, load[i])
                    load[pick] += flows[side, row] * torus.group_cost[pick]
                elif last > pick + 1:
                    turn = next_cable[1 if switch else 0, group]
                    next_cable[1 if switch else 0, group] = (
                        turn + 1 if turn + 1 < last - pick else 0
                    )
                    pick += turn
                ports[rows[row]] = group_port[pick]
            ports[rows[target]] = targets.port[destination]
    _fill_sls(torus, ties, sides, targets, space.share, sl)
