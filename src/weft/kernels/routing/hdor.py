"""Shortest ways over routers and lines that keep to an order of dimensions where they can.

Rows are routers or switches of lines. A line as a whole is one more node: number ``rows + l``. A
joint is a router's way into a line: the parallel cables between the router and one switch of the
line. Those of a node are ``node_joint[node_offset[node]:node_offset[node + 1]]``.

The switches of line l are ``line_switch[line_start[l]:line_start[l + 1]]``, and rank[row] is a
switch's number among them. From ``inner_base[t]`` on, three arrays tell for every switch of t's
line how it reaches t inside the line: the hops, whether the way only goes down (1), goes up first
(0) or takes what edges there are (`ANY_EDGE`), and in `inner_order` their ranks, nearest first.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import UNREACHED, updown

ANY_EDGE = 2


@njit(cache=True)
def inner_ways(
    edge_offset, edge_row, edge_up, line_start, rank, line_of, has_joints, inner_base,
    inner_hops, inner_down, inner_order, lost,
):  # fmt: skip
    """Find the legal ways inside lines; see the module.

    edge_offset, edge_row and edge_up are a graph of the cables inside lines alone, whose vertices
    are the entries of line_switch; rank, line_of, has_joints and inner_base are theirs, too.
    lost[l] becomes the number of pairs of switches with joints of line l between which the order
    of the edges allows no way. Where there is none, as between two tops, the way leads by any
    edges to the nearest switch that has one: such a switch is on no way that comes from a router.
    """
    vertices = len(rank)
    hops = np.empty(vertices, dtype=np.uint16)
    down = np.empty(vertices, dtype=np.uint8)
    queue = np.empty(vertices, dtype=np.int32)
    lost[:] = 0
    for target in range(vertices):
        line = line_of[target]
        first = line_start[line]
        size = line_start[line + 1] - first
        base = inner_base[target]
        if size == 1:
            inner_hops[base] = 0
            inner_down[base] = 1
            inner_order[base] = 0
            continue
        count = updown(edge_offset, edge_row, edge_up, target, size, hops, down, queue)
        if has_joints[target] and count < size:
            for other in range(first, first + size):
                if has_joints[other] and hops[other] == UNREACHED:
                    lost[line] += 1
        count = _extend(edge_offset, edge_row, hops, down, queue, count)
        for i in range(size):
            inner_hops[base + i] = hops[first + i]
            inner_down[base + i] = down[first + i]
        filled = 0
        distance = 0
        while filled < count:
            for i in range(count):
                if hops[queue[i]] == distance:
                    inner_order[base + filled] = rank[queue[i]]
                    filled += 1
            distance += 1


@njit(cache=True)
def _extend(edge_offset, edge_row, hops, down, queue, count):
    """Join the vertices that have no legal way to the nearest that do; see `inner_ways`."""
    head = 0
    while head < count:
        row = queue[head]
        head += 1
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if hops[other] == UNREACHED:
                hops[other] = hops[row] + 1
                down[other] = ANY_EDGE
                queue[count] = other
                count += 1
    return count


@njit(cache=True)
def hdor_tables(
    edge_offset,
    edge_row,
    edge_port,
    edge_back,
    edge_up,
    edge_cost,
    row_base,
    slot_edge,
    line_of,
    line_start,
    line_switch,
    rank,
    inner_base,
    inner_hops,
    inner_down,
    inner_order,
    node_offset,
    node_joint,
    joint_router,
    joint_line,
    joint_switch,
    joint_edge_offset,
    joint_edge,
    position,
    row_sources,
    target_rows,
    target_offset,
    target_destination,
    destination_port,
    num_endpoints,
    passes,
    no_path,
    load,
    steps,
    turns,
    table,
):
    """Fill the lines of all destinations, by the rows that they hang from in order of target_rows.

    Each way crosses the fewest lines that it can. Of these it takes one with the fewest turns
    against the order, from a line to one of no later dimension; of these a router takes the
    earliest dimension, and a line the way out that has least such traffic so far. Of parallel
    cables, and of the legal ways inside a line, the one is taken that carries least.

    position[l] is the place of line l's dimension in the order. node_joint lists a router's joints
    by it. joint_edge holds a joint's edges from the router to the line, edge_back the edge back
    over the same cable. The flows of every tree are added to the loads, one per host of
    row_sources; ways to switches (d >= num_endpoints) weigh nothing. On every pass but the first
    a tree keeps its joints, which steps[g] remembers, but its cables and its ways inside lines
    are taken out and chosen anew. turns[g, r] becomes the turns against the order on the way from
    row r to row g, 255 at most or when there is no way.
    """
    rows = len(edge_offset) - 1
    nodes = len(node_offset) - 1
    hops = np.empty(nodes, dtype=np.int32)
    queue = np.empty(nodes, dtype=np.int32)
    step = np.empty(nodes, dtype=np.int32)
    against = np.empty(nodes, dtype=np.int32)
    flow = np.empty(nodes, dtype=np.int64)
    inner_cost = np.empty(rows, dtype=np.float64)
    inner_flow = np.zeros(rows, dtype=np.int64)
    passing = np.zeros(rows, dtype=np.int64)
    chosen = np.empty(rows, dtype=np.int32)
    # The rate of each joint, and the flows against the order that leave a line by it so far.
    width = np.zeros(len(joint_router), dtype=np.float64)
    strays = np.zeros(len(joint_router), dtype=np.float64)
    for j in range(len(joint_router)):
        for k in range(joint_edge_offset[j], joint_edge_offset[j + 1]):
            width[j] += 1.0 / edge_cost[joint_edge[k]]
    for turn in range(passes):
        for g in target_rows:
            if turn and target_destination[target_offset[g]] >= num_endpoints:
                continue  # only the switch itself: its ways weigh nothing and stay
            root = g if line_of[g] < 0 else rows + line_of[g]
            count = _search(
                root, rows, node_offset, node_joint, joint_router, joint_line, hops, queue
            )
            if turn == 0:
                _choose(
                    queue, count, rows, hops, node_offset, node_joint, joint_router, joint_line,
                    position, width, strays, step, against,
                )  # fmt: skip
                if passes > 1:
                    steps[g] = step
                _note_turns(queue, count, rows, line_start, line_switch, against, turns[g])
            else:
                step[:] = steps[g]
            for i in range(count):
                flow[queue[i]] = row_sources[queue[i]] if queue[i] < rows else 0
            for i in range(count - 1, 0, -1):
                node = queue[i]
                j = step[node]
                flow[rows + joint_line[j] if node < rows else joint_router[j]] += flow[node]
            for t in range(target_offset[g], target_offset[g + 1]):
                d = target_destination[t]
                weighs = d < num_endpoints
                if turn and not weighs:
                    continue
                line_d = table[d]
                if turn == 0:
                    line_d[:] = no_path
                    line_d[g] = destination_port[d]
                for i in range(count):
                    node = queue[i]
                    leave = node if node < rows else g
                    if i > 0:
                        j = step[node]
                        if node >= rows:
                            leave = joint_switch[j]
                        if turn:
                            load[slot_edge[row_base[leave] + line_d[leave]]] -= flow[node]
                        best = _lightest(
                            joint_edge, joint_edge_offset[j], joint_edge_offset[j + 1],
                            edge_back, node >= rows, flow[node], load, edge_cost,
                        )  # fmt: skip
                        line_d[leave] = edge_port[best]
                        if weighs:
                            load[best] += flow[node]
                            if turn == 0 and node >= rows and against[node] > 0:
                                strays[j] += flow[node]
                    line = node - rows
                    if line < 0 or line_start[line + 1] - line_start[line] == 1:
                        continue
                    for k in range(node_offset[node], node_offset[node + 1]):
                        j = node_joint[k]
                        router = joint_router[j]
                        if hops[router] > hops[node] and step[router] == j:
                            inner_flow[joint_switch[j]] += flow[router]
                    _inside(
                        leave, line, turn > 0, line_start, line_switch, line_of, rank, inner_base,
                        inner_hops, inner_down, inner_order, edge_offset, edge_row, edge_port,
                        row_base, slot_edge, edge_up, edge_cost, weighs, load, inner_cost,
                        inner_flow, passing, chosen, line_d,
                    )  # fmt: skip


@njit(cache=True)
def _note_turns(queue, count, rows, line_start, line_switch, against, turns):
    """Write the turns of every row's way, those of a line for all its switches."""
    turns[:] = 255
    for i in range(count):
        node = queue[i]
        found = min(against[node], 255)
        if node < rows:
            turns[node] = found
        else:
            for k in range(line_start[node - rows], line_start[node - rows + 1]):
                turns[line_switch[k]] = found


@njit(cache=True)
def _search(root, rows, node_offset, node_joint, joint_router, joint_line, hops, queue):
    """Breadth-first search over routers and lines; returns how many nodes the queue lists."""
    hops[:] = -1
    hops[root] = 0
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        for k in range(node_offset[node], node_offset[node + 1]):
            j = node_joint[k]
            other = rows + joint_line[j] if node < rows else joint_router[j]
            if hops[other] < 0:
                hops[other] = hops[node] + 1
                queue[tail] = other
                tail += 1
    return tail


@njit(cache=True)
def _choose(
    queue, count, rows, hops, node_offset, node_joint, joint_router, joint_line,
    position, width, strays, step, against,
):  # fmt: skip
    """Choose the joint by which each node but the first goes on; see `hdor_tables`."""
    step[queue[0]] = -1
    against[queue[0]] = 0
    for i in range(1, count):
        node = queue[i]
        of_router = node < rows
        fewest = np.int32(2**30)
        least = np.inf
        best = -1
        for k in range(node_offset[node], node_offset[node + 1]):
            j = node_joint[k]
            other = rows + joint_line[j] if of_router else joint_router[j]
            if hops[other] != hops[node] - 1:
                continue
            turned = against[other]
            burden = 0.0
            if not of_router:
                if step[other] >= 0 and position[joint_line[step[other]]] <= position[node - rows]:
                    turned += 1
                burden = strays[j] / width[j]
            if turned < fewest or (turned == fewest and burden < least):
                fewest, least, best = turned, burden, j
        step[node] = best
        against[node] = fewest


@njit(cache=True)
def _lightest(edges, start, stop, edge_back, backwards, more, load, edge_cost):
    """Of parallel edges the one that is fullest last with a flow more; backwards, of those back."""
    least = np.inf
    best = -1
    for k in range(start, stop):
        e = edge_back[edges[k]] if backwards else edges[k]
        here = (load[e] + more) * edge_cost[e]
        if here < least:
            least = here
            best = e
    return best


@njit(cache=True)
def _inside(
    leave, line, again, line_start, line_switch, line_of, rank, inner_base, inner_hops, inner_down,
    inner_order, edge_offset, edge_row, edge_port, row_base, slot_edge, edge_up, edge_cost, weighs,
    load, inner_cost, inner_flow, passing, chosen, line_d,
):  # fmt: skip
    """Send everything inside a line to the switch where it leaves, over the lightest legal ways.

    inner_flow holds what comes in at each switch and is left at 0. Again means that the line of
    the table and the loads hold ways already, to be taken out and chosen anew.
    """
    base = inner_base[leave]
    first = line_start[line]
    size = line_start[line + 1] - first
    if again:
        for i in range(size):
            passing[line_switch[first + i]] = inner_flow[line_switch[first + i]]
        for i in range(size - 1, 0, -1):
            row = line_switch[first + inner_order[base + i]]
            e = slot_edge[row_base[row] + line_d[row]]
            load[e] -= passing[row]
            passing[edge_row[e]] += passing[row]
    inner_cost[leave] = 0.0
    for i in range(1, size):
        own = inner_order[base + i]
        row = line_switch[first + own]
        least = np.inf
        best = -1
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if line_of[other] != line:
                continue
            ahead = base + rank[other]
            if inner_hops[ahead] + 1 != inner_hops[base + own]:
                continue
            legal = inner_down[base + own] == ANY_EDGE
            if not legal and edge_up[e]:
                legal = inner_down[base + own] == 0 and inner_down[ahead] != ANY_EDGE
            elif not legal:
                legal = inner_down[base + own] == 1 and inner_down[ahead] == 1
            if not legal:
                continue
            here = inner_cost[other] + (load[e] + 1) * edge_cost[e]
            if here < least:
                least = here
                best = e
        inner_cost[row] = least
        chosen[row] = best
        line_d[row] = edge_port[best]
    for i in range(size - 1, 0, -1):
        row = line_switch[first + inner_order[base + i]]
        e = chosen[row]
        inner_flow[edge_row[e]] += inner_flow[row]
        if weighs:
            load[e] += inner_flow[row]
        inner_flow[row] = 0
    inner_flow[leave] = 0
