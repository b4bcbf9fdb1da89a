"""Shortest paths chosen together with their lanes, one destination switch after the other."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import bfs, next_edges
from weft.kernels.routing.lane_assignment import add_path, flip_dependency, insert_dependency
from weft.kernels.routing.tables import carry


@njit(cache=True)
def layered_paths(
    graph, edge_cost, counts, flow_from, flow_to, frugal, position, load, chosen, lane_of,
    search, lanes,
):  # fmt: skip
    """Choose the edge by which each row sends to each other row, and the lane of the path.

    From the target outwards, every row takes a shortest path in the lowest lane that accepts one
    without a cycle. Of the paths that this lane accepts, the least loaded so far is used; if
    `frugal`, paths whose dependencies the lane already contains have precedence.

    - `counts`, `position`: as in `weft.kernels.routing.lane_assignment.fit_paths`.
    - `edge_cost`, float64 [edges]: cost of one flow on the edge.
    - `flow_from`, `flow_to`, int64 [rows]: row r sends flow_from[r] * flow_to[t] flows to target
      row t.
    - `frugal`: whether to prefer paths whose dependencies a lane already contains.
    - `load`, int64 [edges]: flows on each edge, changed in place.
    - `chosen`, int32 [targets, rows]: filled with the edge by which each row sends; -1 where there
      is no path.
    - `lane_of`, uint8 [targets, rows]: filled with the lane of each path, the number of lanes if
      none accepts it.
    - `search`, `lanes`: parts of `weft.kernels.routing.distances.Search` and of
      `weft.kernels.routing.lane_assignment.Dependencies`.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    first_dependency, held, barred = graph.first_dependency, lanes.held, lanes.barred
    hops, queue, first, options = search.hops, search.queue, search.first, search.edges
    cost = search.cost
    rows = len(edge_offset) - 1
    edges, max_lanes = len(edge_row), len(position)
    costs = np.empty(edges, dtype=np.float64)
    held_by = np.empty(rows, dtype=np.uint16)
    barred_from = np.empty(rows, dtype=np.uint16)
    everything = np.uint16((1 << max_lanes) - 1)
    for goal in range(rows):
        ahead = chosen[goal]
        ahead[:] = -1
        lane_of[goal, :] = 0
        count = bfs(edge_offset, edge_row, goal, hops, queue)
        next_edges(graph, search.down, False, search, count)
        cost[goal] = 0.0
        held_by[goal] = everything
        barred_from[goal] = 0
        for i in range(1, count):
            row = queue[i]
            _sort_by_cost(options, first[i], first[i + 1], edge_row, edge_cost, load, cost, costs)
            needed = counts[row] and flow_to[goal]
            lane_found, best = _first_lane(
                row, first[i], first[i + 1], needed, frugal, ahead, graph, position, held_by,
                barred_from, search, lanes,
            )  # fmt: skip
            ahead[row] = best
            nearer = edge_row[best]
            cost[row] = cost[nearer] + load[best] * edge_cost[best]
            held_by[row], barred_from[row] = held_by[nearer], barred_from[nearer]
            if nearer != goal:
                wait = first_dependency[best] + ahead[nearer] - edge_offset[nearer]
                held_by[row] &= held[wait]
                barred_from[row] |= barred[wait]
            if needed:
                lane_of[goal, row] = lane_found
        carry(search, count, ahead, edge_row, flow_from, load, flow_to[goal])


@njit(cache=True)
def _first_lane(
    row, start, stop, needed, frugal, ahead, graph, position, held_by, barred_from, search, lanes
):
    """Return the first lane that accepts a path from a row, and the path's first edge.

    The edges of the paths are the options from `start` up to `stop`. The lane is the number of
    lanes if none accepts a path. `needed`: whether the path needs a lane.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    first_dependency, held, barred = graph.first_dependency, lanes.held, lanes.barred
    options, goal = search.edges, search.queue[0]
    for lane in range(len(position)):
        bit = np.uint16(1 << lane)
        for attempt in range(2 if frugal else 1):
            for k in range(start, stop):
                edge = options[k]
                nearer = edge_row[edge]
                is_held, is_barred = held_by[nearer], barred_from[nearer]
                if nearer != goal:
                    wait = first_dependency[edge] + ahead[nearer] - edge_offset[nearer]
                    is_held &= held[wait]
                    is_barred |= barred[wait]
                if is_held & bit:
                    return lane, edge
                if is_barred & bit or (frugal and attempt == 0):
                    continue
                if needed:
                    ahead[row] = edge
                    if add_path(row, lane, ahead, graph, position[lane], lanes) <= 0:
                        continue
                return lane, edge
    return len(position), options[start]


@njit(cache=True)
def _sort_by_cost(options, start, stop, edge_row, edge_cost, load, cost, costs):
    """Sort options[start:stop] by the cost of the path over each edge, cheapest first (stable)."""
    for k in range(start, stop):
        edge = options[k]
        price = cost[edge_row[edge]] + load[edge] * edge_cost[edge]
        j = k
        while j > start and costs[j - 1] > price:
            options[j] = options[j - 1]
            costs[j] = costs[j - 1]
            j -= 1
        options[j] = edge
        costs[j] = price


@njit(cache=True)
def spread_paths(
    graph, edge_cost, lids, lid_row, counts, flow_from, position, passes, load, table, lane_of,
    search,
):  # fmt: skip
    """Choose the paths to each LID again, among those that lead forward in the order of some lane.

    - `edge_cost`, `counts`, `flow_from`: as in `layered_paths`.
    - `lids`, `lid_row`, int32: LIDs as indices in the table, and row of each; LIDs at one row are
      consecutive.
    - `position`, int32 [lanes, edges]: each edge's position in the order of each lane.
    - `passes`: how often the paths to each LID are chosen.
    - `load`, int64 [edges]: flows on each edge, changed in place.
    - `table`, uint8 or uint16 [all lids, rows]: paths that each lead forward in some lane. The
      paths to a LID are replaced by less loaded paths if these, too, lead forward from all rows
      that need a lane.
    - `lane_of`, uint8 [lids, rows]: filled with the lowest lane in whose order the path leads
      forward; 0 for a path that needs no lane.
    - `search`: as in `layered_paths`.
    """
    edge_offset, edge_row, edge_port = graph.edge_offset, graph.edge_row, graph.edge_port
    row_base, slot_edge = graph.row_base, graph.slot_edge
    hops, queue, ahead = search.hops, search.queue, search.chosen
    rows = len(row_base) - 1
    before = np.empty(rows, dtype=np.int32)
    lanes = np.empty(rows, dtype=np.uint16)
    count = 0
    for round_ in range(passes + 1):
        goal = -1
        for i in range(len(lids)):
            line = table[lids[i]]
            if lid_row[i] != goal:
                goal = lid_row[i]
                count = bfs(edge_offset, edge_row, goal, hops, queue)
                next_edges(graph, search.down, False, search, count)
            for k in range(1, count):
                before[queue[k]] = slot_edge[row_base[queue[k]] + line[queue[k]]]
            if round_ == passes:
                _forward_lanes(queue, count, edge_row, position, before, lanes)
                lane_of[i, :] = 0
                for k in range(count):
                    if counts[queue[k]]:
                        lane_of[i, queue[k]] = _lowest(lanes[queue[k]])
                continue
            carry(search, count, before, edge_row, flow_from, load, -1)
            chosen = before
            if _cheapest_forward(search, count, edge_row, edge_cost, counts, position, load, lanes):
                chosen = ahead
                for k in range(1, count):
                    line[queue[k]] = edge_port[ahead[queue[k]]]
            carry(search, count, chosen, edge_row, flow_from, load, 1)


@njit(cache=True)
def _cheapest_forward(search, count, edge_row, edge_cost, counts, position, load, lanes):
    """Choose the edge of every row but the first; paths that lead forward in a lane are preferred.

    Return False if a row that needs a lane has no path that leads forward.
    """
    queue, first, options = search.queue, search.first, search.edges
    cost, ahead = search.cost, search.chosen
    goal = queue[0]
    cost[goal] = 0.0
    lanes[goal] = (1 << len(position)) - 1
    for k in range(1, count):
        row = queue[k]
        least = np.inf
        best = -1
        best_lanes = np.uint16(0)
        for j in range(first[k], first[k + 1]):
            edge = options[j]
            nearer = edge_row[edge]
            here = cost[nearer] + load[edge] * edge_cost[edge]
            if best >= 0 and here >= least and best_lanes:
                continue
            forward = lanes[nearer]
            if nearer != goal:
                forward &= _forward(position, edge, ahead[nearer])
            # A path that leads forward in some lane is better than a cheaper one that does not.
            if best < 0 or (forward and (here < least or not best_lanes)) or (
                not forward and not best_lanes and here < least
            ):  # fmt: skip
                best, least, best_lanes = edge, here, forward
        if counts[row] and not best_lanes:
            return False
        ahead[row] = best
        cost[row] = least
        lanes[row] = best_lanes
    return True


@njit(cache=True)
def _forward_lanes(queue, count, edge_row, position, ahead, lanes):
    """Fill the lanes, as bits, in whose order each row's path leads forward."""
    goal = queue[0]
    lanes[goal] = (1 << len(position)) - 1
    for k in range(1, count):
        row = queue[k]
        nearer = edge_row[ahead[row]]
        lanes[row] = lanes[nearer]
        if nearer != goal:
            lanes[row] &= _forward(position, ahead[row], ahead[nearer])


@njit(cache=True)
def _forward(position, edge, following):
    bits = np.uint16(0)
    for lane in range(len(position)):
        if position[lane, edge] < position[lane, following]:
            bits |= np.uint16(1 << lane)
    return bits


@njit(cache=True)
def _lowest(bits):
    lane = 0
    while lane < 15 and not bits & (1 << lane):
        lane += 1
    return lane


@njit(cache=True)
def widen_orders(graph, targets, counts, sources, table, lids, lane_of, position, search, lanes):
    """Change the order of each lane so that more shortest paths lead forward in it.

    Every dependency of a shortest path from a source to a target is added to each lane in which it
    closes no cycle.

    - `targets`, int32: target rows.
    - `counts`, `search`, `lanes`: as in `layered_paths`.
    - `sources`, uint8 [rows]: 1 for rows at which paths begin.
    - `table`, `lids`: as in
      `weft.kernels.routing.lane_assignment.fit_paths`, with the present paths.
    - `lane_of`, uint8 [lids, rows]: the lanes of the present paths.
    - `position`, int32 [lanes, edges]: each edge's position in the order of each lane, changed in
      place. The dependencies of the present paths lead forward before and after.
    """
    edge_offset, edge_row, row_base = graph.edge_offset, graph.edge_row, graph.row_base
    slot_edge, first_dependency = graph.slot_edge, graph.first_dependency
    hops, queue, first, options = search.hops, search.queue, search.first, search.edges
    rows = len(row_base) - 1
    queue_index = np.empty(rows, dtype=np.int32)
    reached = np.empty(rows, dtype=np.uint8)
    held = lanes.held
    tried = np.zeros(len(held), dtype=np.uint8)
    for i in range(len(lids)):
        line = table[lids[i]]
        for start in range(rows):
            row = start
            before = -1
            while counts[start]:
                slot = row_base[row] + line[row]
                edge = slot_edge[slot] if slot < row_base[row + 1] else -1
                if edge < 0:
                    break
                if before >= 0:
                    wait = first_dependency[before] + edge - edge_offset[row]
                    if not held[wait] & np.uint16(1 << lane_of[i, start]):
                        flip_dependency(before, edge, lane_of[i, start], graph, lanes)
                before = edge
                row = edge_row[edge]
    for t in range(len(targets)):
        goal = targets[t]
        count = bfs(edge_offset, edge_row, goal, hops, queue)
        next_edges(graph, search.down, False, search, count)
        for k in range(count):
            queue_index[queue[k]] = k
            reached[queue[k]] = sources[queue[k]]
        for k in range(count - 1, 0, -1):
            if not reached[queue[k]]:
                continue
            for j in range(first[k], first[k + 1]):
                edge = options[j]
                nearer = edge_row[edge]
                reached[nearer] = 1
                at = queue_index[nearer]
                for m in range(first[at], first[at + 1]):
                    wait = first_dependency[edge] + options[m] - edge_offset[nearer]
                    if tried[wait]:
                        continue
                    tried[wait] = 1
                    _add_where_it_fits(edge, options[m], wait, graph, position, lanes)


@njit(cache=True)
def _add_where_it_fits(edge, following, wait, graph, position, lanes):
    """Add a dependency to each lane in which it closes no cycle."""
    for lane in range(len(position)):
        if lanes.held[wait] & np.uint16(1 << lane):
            continue
        if insert_dependency(edge, following, lane, graph, position[lane], lanes) > 0:
            flip_dependency(edge, following, lane, graph, lanes)
