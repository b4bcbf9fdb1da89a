"""Flows split equally over all candidates of each row: the expected loads of an ideal hash."""

import numpy as np

from weft.kernels.cache import njit


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
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
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
            if state[row] == 0:
                done = finish_order(
                    row, g, set_id, set_offset, set_edge, edge_row, state, order, done, stack,
                    cursor,
                )  # fmt: skip
        # `order` lists each row after the rows that it sends to; reversed, it leads to the target.
        for i in range(done - 1, -1, -1):
            row = order[i]
            state[row] = 0
            share = amount[row]
            amount[row] = 0.0
            if row == g:
                continue
            choice = set_id[g, row]
            first, last = set_offset[choice], set_offset[choice + 1]
            share /= last - first
            for k in range(first, last):
                e = set_edge[k]
                loads[edge_link[e]] += share
                amount[edge_row[e]] += share
    return unrouted


@njit(cache=True)
def finish_order(
    root, g, set_id, set_offset, set_edge, edge_row, state, order, done, stack, cursor
):
    """Append to `order` the rows that root can send through, each after the rows that it sends to.

    state, order, stack and cursor have one element per row. done is the number of rows in order;
    all other rows have state 0. Return the new number of rows in order.
    """
    stack[0] = root
    depth = 1
    state[root] = 1
    cursor[root] = set_offset[set_id[g, root]] if root != g else 0
    while depth:
        row = stack[depth - 1]
        stop = set_offset[set_id[g, row] + 1] if row != g else 0
        if cursor[row] < stop:
            other = edge_row[set_edge[cursor[row]]]
            cursor[row] += 1
            if state[other] == 0:
                state[other] = 1
                cursor[other] = set_offset[set_id[g, other]] if other != g else 0
                stack[depth] = other
                depth += 1
        else:
            depth -= 1
            order[done] = row
            done += 1
    return done


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
    worst, state = np.zeros(rows), np.zeros(rows, dtype=np.uint8)
    order, stack = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
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
                done = finish_order(
                    row, g, set_id, set_offset, set_edge, edge_row, state, order, done, stack,
                    cursor,
                )  # fmt: skip
            for k in range(known, done):
                here = order[k]
                worst[here] = 0.0
                choice = set_id[g, here] if here != g else -1
                first = set_offset[choice] if choice >= 0 else 0
                for j in range(first, set_offset[choice + 1] if choice >= 0 else 0):
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
