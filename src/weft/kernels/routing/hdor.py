"""Shortest paths over routers and lines that keep to an order of dimensions where possible.

Rows are routers or switches of lines. The search treats each line as one node; line l is node
``rows + l``. A joint is the set of parallel cables between a router and one switch of a line. The
joints of a node are ``of_node[node_offset[node]:node_offset[node + 1]]`` of `Joints`.

The switches of line l are ``switches[start[l]:start[l + 1]]`` of `Lines`; rank[row] is a switch's
index among them. From ``base[t]`` on, three arrays describe the path of every switch of t's line
to t inside the line. `hops` is its length. `down` is 1 for a path that only leads down, 0 for one
that leads up first, and `ANY_EDGE` for one over any edges. `order` lists the ranks of the switches,
nearest to t first.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import UNREACHED, updown

ANY_EDGE = 2


class Lines(NamedTuple):
    """Lines of switches; see the module."""

    #: int32, int32 and int64 [rows]: line of each row, -1 for a router; index of the row among the
    #: switches of its line; start of the row's entries in `hops`, `down` and `order`.
    of_row: Any
    rank: Any
    base: Any
    #: int32 CSR over lines: the switches.
    start: Any
    switches: Any
    #: uint16, uint8 and int32: paths between the switches of a line; see the module.
    hops: Any
    down: Any
    order: Any
    #: uint8 and float64 [edges]: 1 for an edge that leads up in a line, and 1 / (rate in Gbit/s).
    up: Any
    cost: Any


class Joints(NamedTuple):
    """Joints of routers and lines; all int32."""

    #: CSR over nodes: the joints of each node; at a router, in the order of dimensions.
    node_offset: Any
    of_node: Any
    #: [joints]: router, line, and the switch of the line.
    router: Any
    line: Any
    switch: Any
    #: CSR over joints: the edges from the router to the line.
    edge_offset: Any
    edges: Any
    #: [lines]: index of the line's dimension in the order of dimensions.
    position: Any


@njit(cache=True)
def inner_paths(
    graph, edge_up, line_start, rank, line_of, has_joints, inner_base, inner_hops, inner_down,
    inner_order, unreached,
):  # fmt: skip
    """Find the legal paths inside lines; see the module.

    If a switch has no legal path to the target, as between two top switches, its path leads over
    any edges to the nearest switch that has a legal path. No path from a router crosses such a
    switch.

    - `graph`, `edge_up`, uint8 [edges]: the graph of the cables inside lines, and 1 for an edge
      that leads up. Its vertices are the entries of `Lines.switches`.
    - `line_start`, int32 [lines + 1]: vertices of each line.
    - `rank`, `line_of`, `has_joints`, `inner_base`, int32, int32, uint8 and int64 [vertices]: index
      in the line, line, whether the switch has joints, and the start of its entries in the next
      three arrays.
    - `inner_hops`, `inner_down`, `inner_order`, uint16, uint8 and int32: filled with `hops`, `down`
      and `order` of `Lines`.
    - `unreached`, int64 [lines]: filled with the number of pairs of switches that have joints but
      no legal path between them.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    vertices = len(rank)
    hops = np.empty(vertices, dtype=np.uint16)
    down = np.empty(vertices, dtype=np.uint8)
    queue = np.empty(vertices, dtype=np.int32)
    unreached[:] = 0
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
        count = updown(graph, edge_up, target, size, hops, down, queue)
        if has_joints[target] and count < size:
            for other in range(first, first + size):
                if has_joints[other] and hops[other] == UNREACHED:
                    unreached[line] += 1
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
    """Connect the vertices without a legal path to the nearest that have one; see `inner_paths`."""
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
    graph, lines, joints, target_rows, targets, sources, passes, load, steps, turns, table
):  # fmt: skip
    """Fill the forwarding tables of all destinations, in the order of their rows.

    A turn against the order leads from a line to a line whose dimension is not later. Of the paths
    over the fewest lines, a path with the fewest such turns is used. If there are several, a router
    takes the earliest dimension, and a line takes the joint with the least quotient of flows and
    rate; only flows that leave the line with such a turn are counted. Of parallel cables, and of
    the legal paths inside a line, the least loaded is used. The flows of every tree are added to
    the loads, except flows to switches.

    - `lines`, `joints`: `Lines` and `Joints`.
    - `target_rows`, int32: target rows, in the order in which their trees are chosen.
    - `targets`: parts of `weft.kernels.routing.tables.TableTargets`.
    - `sources`, int64 [rows]: number of hosts that send through each row.
    - `passes`: how often each tree is chosen. On every pass but the first, a tree keeps its joints,
      which `steps` stores, but its cables and its paths inside lines are chosen again.
    - `load`, int64 [edges]: zeros, filled with the flows of each edge.
    - `steps`, int32 [rows, nodes]: scratch; [0, nodes] for a single pass.
    - `turns`, uint8 [rows, rows]: filled with the number of turns against the order on the path
      from the second row to the first; at most 255, which also means "no path".
    - `table`, uint8 or uint16 [destinations, rows]: filled with ports.
    """
    # Reading a field of a tuple in a loop would update a reference count each time.
    node_offset, of_node, line_of = joints.node_offset, joints.of_node, joints.line
    router_of, switch_of = joints.router, joints.switch
    candidates, candidate_offset = joints.edges, joints.edge_offset
    of_slot, row_base, back = graph.slot_edge, graph.row_base, graph.edge_back
    port, target_offset, destinations = graph.edge_port, targets.offset, targets.destination
    line_start, cost = lines.start, lines.cost
    rows = len(graph.edge_offset) - 1
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
    # The rate of each joint, and the number of flows so far that leave a line by this joint and
    # turn against the order.
    width = np.zeros(len(router_of), dtype=np.float64)
    strays = np.zeros(len(router_of), dtype=np.float64)
    for j in range(len(router_of)):
        for k in range(candidate_offset[j], candidate_offset[j + 1]):
            width[j] += 1.0 / cost[candidates[k]]
    num_targets = len(target_rows)
    for tree in range(passes * num_targets):
        round_, g = tree // num_targets, target_rows[tree % num_targets]
        if round_ and destinations[target_offset[g]] >= targets.num_endpoints:
            continue  # The only destination is the switch: its paths carry no load and stay.
        root = g if lines.of_row[g] < 0 else rows + lines.of_row[g]
        count = _search(joints, root, rows, hops, queue)
        if round_ == 0:
            _choose(joints, queue, count, rows, hops, width, strays, step, against)
            if passes > 1:
                for node in range(nodes):  # a slice would take seconds to compile
                    steps[g, node] = step[node]
            _note_turns(lines, queue, count, rows, against, turns[g])
        else:
            for node in range(nodes):
                step[node] = steps[g, node]
        for i in range(count):
            flow[queue[i]] = sources[queue[i]] if queue[i] < rows else 0
        for i in range(count - 1, 0, -1):
            node = queue[i]
            j = step[node]
            flow[rows + line_of[j] if node < rows else router_of[j]] += flow[node]
        for t in range(target_offset[g], target_offset[g + 1]):
            d = destinations[t]
            weighs = d < targets.num_endpoints
            if round_ and not weighs:
                continue
            line_d = table[d]
            if round_ == 0:
                line_d[:] = targets.no_path
                line_d[g] = targets.port[d]
            for i in range(count):
                node = queue[i]
                leave = node if node < rows else g
                if i > 0:
                    j = step[node]
                    if node >= rows:
                        leave = switch_of[j]
                    if round_:
                        load[of_slot[row_base[leave] + line_d[leave]]] -= flow[node]
                    best = _lightest(
                        candidates, candidate_offset[j], candidate_offset[j + 1],
                        back, node >= rows, flow[node], load, cost,
                    )  # fmt: skip
                    line_d[leave] = port[best]
                    if weighs:
                        load[best] += flow[node]
                    if weighs and round_ == 0 and node >= rows and against[node] > 0:
                        strays[j] += flow[node]
                line = node - rows
                if line < 0 or line_start[line + 1] - line_start[line] == 1:
                    continue
                for k in range(node_offset[node], node_offset[node + 1]):
                    j = of_node[k]
                    router = router_of[j]
                    if hops[router] > hops[node] and step[router] == j:
                        inner_flow[switch_of[j]] += flow[router]
                _inside(
                    graph, lines, leave, line, round_ > 0, weighs, load, inner_cost, inner_flow,
                    passing, chosen, line_d,
                )  # fmt: skip


@njit(cache=True)
def _note_turns(lines, queue, count, rows, against, turns):
    """Fill the number of turns of every row's path; all switches of a line have the same number."""
    turns[:] = 255
    for i in range(count):
        node = queue[i]
        capped = min(against[node], 255)
        if node < rows:
            turns[node] = capped
        else:
            for k in range(lines.start[node - rows], lines.start[node - rows + 1]):
                turns[lines.switches[k]] = capped


@njit(cache=True)
def _search(joints, root, rows, hops, queue):
    """Search routers and lines breadth first; return how many nodes the queue lists."""
    hops[:] = -1
    hops[root] = 0
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        for k in range(joints.node_offset[node], joints.node_offset[node + 1]):
            j = joints.of_node[k]
            other = rows + joints.line[j] if node < rows else joints.router[j]
            if hops[other] < 0:
                hops[other] = hops[node] + 1
                queue[tail] = other
                tail += 1
    return tail


@njit(cache=True)
def _choose(joints, queue, count, rows, hops, width, strays, step, against):
    """Choose the next joint of every node but the first; see `hdor_tables`."""
    step[queue[0]] = -1
    against[queue[0]] = 0
    for i in range(1, count):
        node = queue[i]
        of_router = node < rows
        fewest = np.int32(2**30)
        least = np.inf
        best = -1
        for k in range(joints.node_offset[node], joints.node_offset[node + 1]):
            j = joints.of_node[k]
            other = rows + joints.line[j] if of_router else joints.router[j]
            if hops[other] != hops[node] - 1:
                continue
            turned = against[other]
            burden = 0.0
            if not of_router:
                if (
                    step[other] >= 0
                    and joints.position[joints.line[step[other]]] <= joints.position[node - rows]
                ):
                    turned += 1
                burden = strays[j] / width[j]
            if turned < fewest or (turned == fewest and burden < least):
                fewest, least, best = turned, burden, j
        step[node] = best
        against[node] = fewest


@njit(cache=True)
def _lightest(candidates, start, stop, back, backwards, more, load, cost):
    """Return the parallel edge with the least load times cost after `more` flows are added.

    If `backwards`, choose among the reverse edges of the candidates.
    """
    least = np.inf
    best = -1
    for k in range(start, stop):
        e = back[candidates[k]] if backwards else candidates[k]
        here = (load[e] + more) * cost[e]
        if here < least:
            least = here
            best = e
    return best


@njit(cache=True)
def _inside(
    graph, lines, leave, line, again, weighs, load, inner_cost, inner_flow, passing, chosen, line_d,
):  # fmt: skip
    """Route all flows inside a line to the switch `leave`, over the least loaded legal paths.

    inner_flow holds the flows that enter at each switch and is reset to 0. If `again`, the loads of
    the present paths in `line_d` are subtracted first.
    """
    base = lines.base[leave]
    first = lines.start[line]
    size = lines.start[line + 1] - first
    if again:
        for i in range(size):
            passing[lines.switches[first + i]] = inner_flow[lines.switches[first + i]]
        for i in range(size - 1, 0, -1):
            row = lines.switches[first + lines.order[base + i]]
            e = graph.slot_edge[graph.row_base[row] + line_d[row]]
            load[e] -= passing[row]
            passing[graph.edge_row[e]] += passing[row]
    inner_cost[leave] = 0.0
    for i in range(1, size):
        own = lines.order[base + i]
        row = lines.switches[first + own]
        least = np.inf
        best = -1
        for e in range(graph.edge_offset[row], graph.edge_offset[row + 1]):
            other = graph.edge_row[e]
            if lines.of_row[other] != line:
                continue
            ahead = base + lines.rank[other]
            if lines.hops[ahead] + 1 != lines.hops[base + own]:
                continue
            legal = lines.down[base + own] == ANY_EDGE
            if not legal and lines.up[e]:
                legal = lines.down[base + own] == 0 and lines.down[ahead] != ANY_EDGE
            elif not legal:
                legal = lines.down[base + own] == 1 and lines.down[ahead] == 1
            if not legal:
                continue
            here = inner_cost[other] + (load[e] + 1) * lines.cost[e]
            if here < least:
                least = here
                best = e
        inner_cost[row] = least
        chosen[row] = best
        line_d[row] = graph.edge_port[best]
    for i in range(size - 1, 0, -1):
        row = lines.switches[first + lines.order[base + i]]
        e = chosen[row]
        inner_flow[graph.edge_row[e]] += inner_flow[row]
        if weighs:
            load[e] += inner_flow[row]
        inner_flow[row] = 0
    inner_flow[leave] = 0
