"""Finding the steps of a torus by its squares, and dimension-order tables with their SLs."""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True, inline="always")
def _root(edge, parent, flip):
    """Representative of an edge's class, and whether the edge points against it."""
    turned = np.uint8(0)
    while parent[edge] != edge:
        turned ^= flip[edge]
        edge = parent[edge]
    return edge, turned


@njit(cache=True)
def _unite(one, other, against, parent, flip):
    """Join two classes, `against` telling whether the edges point opposite ways; 1 on a conflict.

    The smaller number stays the representative, so that the result is the same in any order.
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
def unite_squares(offset, other, edge, parent, flip):
    """Put opposite sides of every square of a simple graph in one class; return the conflicts.

    offset, other, edge: CSR over rows of the neighbours, ascending, and the undirected edge to
    each; an edge points from its lower row to its higher one. parent and flip, one per edge, start
    as own number and 0; afterwards flip says whether an edge points against its representative
    parent. A conflict is an edge that would be parallel to its own reverse.
    """
    conflicts = 0
    for v in range(len(offset) - 1):
        for i in range(offset[v], offset[v + 1]):
            a = other[i]
            for j in range(i + 1, offset[v + 1]):
                b = other[j]
                x = offset[a]
                y = offset[b]
                while x < offset[a + 1] and y < offset[b + 1]:
                    if other[x] < other[y]:
                        x += 1
                    elif other[x] > other[y]:
                        y += 1
                    else:
                        w = other[x]
                        if w != v:
                            conflicts += _unite(
                                edge[i], edge[y], np.uint8((v > a) != (b > w)), parent, flip
                            )
                            conflicts += _unite(
                                edge[j], edge[x], np.uint8((v > b) != (a > w)), parent, flip
                            )
                        x += 1
                        y += 1
    for e in range(len(parent)):
        root, turned = _root(e, parent, flip)
        parent[e] = root
        flip[e] = turned
    return conflicts


@njit(cache=True)
def edge_meets(offset, other, one, two, square, strong):
    """List the pairs of edges that meet at each row, numbers being those of the CSR.

    square: they are two sides of a square; strong: they are not, but each is with the same third
    edge. Room for every pair of neighbours of every row is needed; returns how many there are.
    """
    widest = 0
    for v in range(len(offset) - 1):
        widest = max(widest, offset[v + 1] - offset[v])
    joined = np.zeros((widest, widest), dtype=np.uint8)
    found = 0
    for v in range(len(offset) - 1):
        first = offset[v]
        degree = offset[v + 1] - first
        for i in range(degree):
            a = other[first + i]
            for j in range(i):
                b = other[first + j]
                x = offset[a]
                y = offset[b]
                joined[i, j] = 0
                while x < offset[a + 1] and y < offset[b + 1]:
                    if other[x] < other[y]:
                        x += 1
                    elif other[x] > other[y]:
                        y += 1
                    else:
                        if other[x] != v:
                            joined[i, j] = 1
                            break
                        x += 1
                        y += 1
                joined[j, i] = joined[i, j]
        for i in range(degree):
            for j in range(i):
                one[found] = first + j
                two[found] = first + i
                square[found] = joined[i, j]
                strong[found] = 0
                if not joined[i, j]:
                    for k in range(degree):
                        if k not in (i, j) and joined[i, k] and joined[j, k]:
                            strong[found] = 1
                            break
                found += 1
    return found


@njit(cache=True, inline="always")
def _ring_way(source, target, radix, ring, tie_up):
    """Direction (1 up, 0 down) of the shorter way on a ring or line."""
    direct = abs(target - source)
    around = radix - direct
    up = target > source
    if ring and (around < direct or (around == direct and radix > 2 and tie_up != up)):
        up = not up
    return 1 if up else 0


@njit(cache=True)
def _choose_ways(target, radix, ring, ties, tie_up, coordinate, stride, grid, step, reach, way):
    """Group 2 d + (1 up, 0 down) by which each row sends towards a target row, -1 for none.

    As OpenSM's torus-2QoS: on the first dimension that differs go towards the switch where the
    way turns, by the shorter direction or, when that is cut, by the other; when that switch is
    missing, as far as the shorter direction goes. When there is no progress, try the next one.
    """
    dimensions = len(radix)
    for row in range(len(way)):
        way[row] = -1
        here = 0
        for d in range(dimensions):
            here += coordinate[row, d] * stride[d]
        for d in range(dimensions):
            a = coordinate[row, d]
            b = coordinate[target, d]
            if a == b:
                continue
            up = _ring_way(a, b, radix[d], ring[d], tie_up if ties else b > a)
            turning = grid[here + (b - a) * stride[d]]
            forward = (b - a) % radix[d]
            if turning >= 0:
                length = forward if up else radix[d] - forward
                if reach[row, 2 * d + up] >= length:
                    way[row] = 2 * d + up
                elif reach[row, 2 * d + 1 - up] >= radix[d] - length:
                    way[row] = 2 * d + 1 - up
            elif step[row, 2 * d + up] >= 0:
                way[row] = 2 * d + up
            if way[row] >= 0:
                break


@njit(cache=True)
def _mend_ways(target, step, last_first, way, state, trail):
    """Send rows that do not arrive to a neighbour that does; return the rows mended.

    Rows next to those that arrive come first. The neighbours are tried from the first dimension to
    the last, or from the last to the first.
    """
    rows = len(way)
    state[:] = 0
    state[target] = 2
    for start in range(rows):
        length = 0
        row = start
        while state[row] == 0:
            state[row] = 1
            trail[length] = row
            length += 1
            if way[row] < 0:
                break
            row = step[row, way[row]]
        fate = 2 if state[row] == 2 else 3
        for i in range(length):
            state[trail[i]] = fate
    mended = 0
    changed = True
    while changed:
        changed = False
        for row in range(rows):
            if state[row] != 3:
                continue
            for turn in range(step.shape[1]):
                group = step.shape[1] - 1 - turn if last_first else turn
                near = step[row, group]
                if near >= 0 and state[near] == 2:
                    way[row] = group
                    trail[mended] = row
                    mended += 1
                    state[row] = 4
                    changed = True
                    break
        for row in range(rows):
            if state[row] == 4:
                state[row] = 2
    return mended


@njit(cache=True)
def torus_tables(
    radix, ring, balanced, whole, last_first, coordinate, stride, grid, step, reach, rows,
    group_offset, group_port, group_cost, order, parity, list_offset, listed, listed_port,
    first_switch, sources, sl_bit, table, sl,
):  # fmt: skip
    """Fill tables and SLs of one torus or mesh; return how many ways to a row were mended.

    Rows here are numbered within the torus; rows[r] is the row of the fabric.

    radix, ring [dimensions]: switches of each, and whether the way round counts.
    balanced: share ties of an even ring between both ways, and parallel cables by flows; else as
        OpenSM, the way that does not cross the dateline, and cables in turn.
    whole: nothing is missing, so that every way arrives; otherwise last_first is for `_mend_ways`.
    coordinate [rows, dimensions], stride [dimensions], grid: the row at sum(coordinate * stride)
        is grid of that, -1 where it is missing.
    step, reach [rows, 2 dimensions]: neighbour down and up each dimension or -1; how many steps
        lead on that way.
    group_offset, group_port, group_cost: CSR over row * 2 dimensions + group of the ports of
        parallel cables, and the load of one flow.
    order: target rows in turn. parity: of each row, which tie its destinations take first.
    list_offset, listed, listed_port: CSR over rows of what hangs from each, switches having
        numbers from first_switch, and the port to it.
    sources [rows]: hosts that send through each row.
    sl_bit [dimensions]: value of the SL bit that says that the dateline is crossed.
    """
    count = len(rows)
    groups = step.shape[1]
    dimensions = len(radix)
    ties = False
    for d in range(dimensions):
        if balanced and ring[d] and radix[d] > 2 and radix[d] % 2 == 0:
            ties = True
    parallel = False
    for g in range(len(group_offset) - 1):
        if group_offset[g + 1] - group_offset[g] > 1:
            parallel = True
    way = np.empty((2, count), dtype=np.int8)
    levels = np.empty((2, count), dtype=np.uint8)
    flows = np.zeros((2, count), dtype=np.int64)
    known = np.zeros(2, dtype=np.uint8)
    state = np.zeros(count, dtype=np.uint8)
    trail = np.empty(count, dtype=np.int32)
    load = np.zeros(len(group_port), dtype=np.float64)
    turns = np.zeros((2, len(group_offset)), dtype=np.int64)
    mended = 0
    for o in range(count):
        target = order[o]
        known[:] = 0
        adapters = 0
        for k in range(list_offset[target], list_offset[target + 1]):
            destination = listed[k]
            switch = destination >= first_switch
            side = 0
            if ties:
                side = (parity[target] + (0 if switch else adapters)) & 1
            if not switch:
                adapters += 1
            line = way[side]
            if not known[side]:
                known[side] = 1
                _choose_ways(
                    target, radix, ring, ties, side == 0, coordinate, stride, grid, step, reach,
                    line,
                )  # fmt: skip
                if not whole:
                    mended += _mend_ways(target, step, last_first, line, state, trail)
                for row in range(count):
                    level = 0
                    for d in range(dimensions):
                        a = coordinate[row, d]
                        b = coordinate[target, d]
                        if a != b and ring[d]:
                            up = _ring_way(a, b, radix[d], True, (side == 0) if ties else b > a)
                            if (up == 1) != (b > a):
                                level |= sl_bit[d]
                    levels[side, row] = level
                if parallel and balanced:
                    flows[side, :] = 0
                    for row in range(count):
                        at = row
                        while at != target and line[at] >= 0:
                            flows[side, at] += sources[row]
                            at = step[at, line[at]]
            for row in range(count):
                sl[rows[row], destination] |= levels[side, row]
                if row == target:
                    table[destination, rows[row]] = listed_port[k]
                    continue
                if line[row] < 0:
                    continue
                group = row * groups + line[row]
                first = group_offset[group]
                width = group_offset[group + 1] - first
                pick = first
                if width > 1:
                    if balanced and not switch:
                        for i in range(first + 1, first + width):
                            if load[i] < load[pick]:
                                pick = i
                        load[pick] += flows[side, row] * group_cost[pick]
                    else:
                        pick = first + turns[1 if switch else 0, group] % width
                        turns[1 if switch else 0, group] += 1
                table[destination, rows[row]] = group_port[pick]
    return mended
