"""Flows split equally over all candidates of each row: the expected loads of an ideal hash.

A *line* lists the sets by which rows send to one target (a row or an intermediate), -1 where paths
end. They also end at `goal`, if it is a row and not -1.
"""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def line_scratch(rows):
    """Return arrays for `finish_line`, one element per row: state (zeros), order, stack, cursor."""
    order, stack, cursor = np.empty((3, rows), dtype=np.int32)
    return np.zeros(rows, dtype=np.uint8), order, stack, cursor


@njit(cache=True, inline="always")
def span(line, goal, set_offset, row):
    """Return begin and end of the set of a row in `set_edge`; they are equal where paths end."""
    if row == goal or line[row] < 0:
        return 0, 0
    return set_offset[line[row]], set_offset[line[row] + 1]


@njit(cache=True)
def finish_line(root, goal, line, set_offset, set_edge, edge_row, scratch, done):
    """Append to the order the rows that root can send through, each after those that it sends to.

    `scratch`: arrays of `line_scratch`. `done`: number of rows in the order, which have state 2;
    all other rows have state 0. Return the new number of rows in the order, and a row on a cycle,
    or -1 if there is none.
    """
    state, order, stack, cursor = scratch
    stack[0] = root
    depth = 1
    state[root] = 1
    looping = -1
    cursor[root], _ = span(line, goal, set_offset, root)
    while depth:
        row = stack[depth - 1]
        _, stop = span(line, goal, set_offset, row)
        if cursor[row] < stop:
            other = edge_row[set_edge[cursor[row]]]
            cursor[row] += 1
            if state[other] == 1:
                looping = other
            elif state[other] == 0:
                state[other] = 1
                cursor[other], _ = span(line, goal, set_offset, other)
                stack[depth] = other
                depth += 1
        else:
            depth -= 1
            state[row] = 2
            order[done] = row
            done += 1
    return done, looping


@njit(cache=True)
def spread(goal, line, set_offset, set_edge, edge_row, scratch, done, amount, load, touched, count):
    """Split the amounts of the rows in an order equally at every row, down to where paths end.

    `scratch`, `done`: as in `finish_line`; states become 0. `amount`, float64 [rows]: becomes 0
    but where paths end. `load`, float64 [edges], changed in place. `touched`: filled, from `count`
    on, with the edges whose load was 0; None if they are not wanted. Return the new `count`.
    """
    state, order, _, _ = scratch
    # The order lists each row after the rows that it sends to; reversed, it leads to the target.
    for i in range(done - 1, -1, -1):
        row = order[i]
        state[row] = 0
        first, stop = span(line, goal, set_offset, row)
        if first == stop:
            continue
        share = amount[row] / (stop - first)
        amount[row] = 0.0
        for k in range(first, stop):
            edge = set_edge[k]
            if touched is not None and load[edge] == 0.0:
                touched[count] = edge
                count += 1
            load[edge] += share
            amount[edge_row[edge]] += share
    return count


@njit(cache=True)
def split_loads(
    set_id, set_offset, set_edge, graph, target_link, endpoint_out, group_offset, group_flow,
    sources, destinations, weights, loads,
):  # fmt: skip
    """Add each flow's weight, split equally over the candidates of every row, to the link loads.

    - `set_id`, `set_offset`, `set_edge`: attributes of `weft.routing.routes.CandidateRoutes`.
    - `target_link`, `endpoint_out`, int32 [destinations]: destination_link of the graph, and the
      link from the endpoint to its row, -1 if the endpoint is a row.
    - `group_offset`, `group_flow`: int64 and int32, CSR over rows: the flows to the destinations of
      each row.
    - `sources`, `destinations`, `weights`, int32, int32 and float64 [flows]: as in
      `weft.routing.routes.flows.EndpointFlows`.
    - `loads`, float64 [links]: load of each link in units of the weights, changed in place.

    Returns the number of flows without a path.
    """
    edge_row, edge_link, target_row = graph.edge_row, graph.edge_link, graph.destination_row
    link_row = graph.link_row
    rows = len(group_offset) - 1
    amount = np.zeros(rows, dtype=np.float64)
    load = np.zeros(len(edge_row), dtype=np.float64)
    scratch = line_scratch(rows)
    sets = (set_offset, set_edge, edge_row)
    unrouted = 0
    for g in range(rows):
        if group_offset[g] == group_offset[g + 1]:
            continue
        done = 0
        for i in range(group_offset[g], group_offset[g + 1]):
            f = group_flow[i]
            s, d = sources[f], destinations[f]
            out = endpoint_out[s]
            row = link_row[out] if out >= 0 else target_row[s]
            if row < 0 or (row != g and set_id[g, row] < 0):
                unrouted += 1
                continue
            weight = weights[f] if len(weights) else 1.0
            if out >= 0:
                loads[out] += weight
            if target_link[d] >= 0:
                loads[target_link[d]] += weight
            amount[row] += weight
            if scratch[0][row] == 0:
                done, _ = finish_line(row, g, set_id[g], *sets, scratch, done)
        spread(g, set_id[g], *sets, scratch, done, amount, load, None, 0)
        amount[g] = 0.0
    for edge in range(len(load)):
        loads[edge_link[edge]] += load[edge]
    return unrouted


@njit(cache=True)
def split_shares(
    set_id, set_offset, set_edge, graph, endpoint_out, group_offset, group_flow, sources,
    destinations, loads, shares,
):  # fmt: skip
    """Fill the share of the injection rate of flows that are split equally over all candidates.

    - `loads`, float64 [links]: load of each link by `split_loads`, whose arguments are the others,
      divided by the link's rate relative to the injection rate.
    - `shares`, float64 [flows]: changed in place; 1 over the largest of these loads among all links
      that the flow uses. Flows without a path keep their value.
    """
    edge_row, edge_link, target_row = graph.edge_row, graph.edge_link, graph.destination_row
    target_link, link_row = graph.destination_link, graph.link_row
    rows = len(group_offset) - 1
    worst = np.zeros(rows)
    scratch = line_scratch(rows)
    state, order, _, _ = scratch
    for g in range(rows):
        done = 0
        for i in range(group_offset[g], group_offset[g + 1]):
            f = group_flow[i]
            s, d = sources[f], destinations[f]
            out = endpoint_out[s]
            row = link_row[out] if out >= 0 else target_row[s]
            if row < 0 or (row != g and set_id[g, row] < 0):
                continue
            known = done
            if state[row] == 0:
                done, _ = finish_line(
                    row, g, set_id[g], set_offset, set_edge, edge_row, scratch, done
                )
            for k in range(known, done):
                here = order[k]
                worst[here] = 0.0
                first, stop = span(set_id[g], g, set_offset, here)
                for j in range(first, stop):
                    e = set_edge[j]
                    worst[here] = max(worst[here], loads[edge_link[e]], worst[edge_row[e]])
            slowest = worst[row]
            if out >= 0:
                slowest = max(slowest, loads[out])
            if target_link[d] >= 0:
                slowest = max(slowest, loads[target_link[d]])
            shares[f] = 1.0 / slowest if slowest > 0.0 else 0.0
        for k in range(done):
            state[order[k]] = 0
