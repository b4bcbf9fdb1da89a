"""All figures of forwarding tables at once, for many tables that differ little."""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.copies import copy_values
from weft.kernels.routes.walk import consumes


class Senders(NamedTuple):
    """The hosts that send, by the rows to which they are attached."""

    #: int32 [starts]: rows with ports of hosts; the endpoint there, -1 if there are several.
    row: Any
    endpoint: Any
    #: int64 [rows]: number of hosts whose first endpoint is at the row.
    hosts: Any


@njit(cache=True)
def tally_tables(
    table, lids, weighs, graph, slot_edge, senders, sign, loads, waits
):  # fmt: skip
    """Add what all hosts send to each listed LID to the loads and to the dependencies of edges.

    Loads are those of delivered flows, as of `weft.kernels.routes.all_to_all`; dependencies those
    of paths as far as they lead, as of `weft.kernels.routes.dependencies` on one lane.

    - `table`, uint8 or uint16 [LIDs, rows]: output ports, with an LMC of 0.
    - `lids`, int32: destinations, each attached to a row.
    - `weighs`, uint8 [len(lids)]: whether flows to the LID count in loads and in the result.
    - `slot_edge`: as in `Graph`, and -1 for edges that failed.
    - `senders`: parts of `Senders`.
    - `sign`: 1, or -1 to subtract what was added before.
    - `loads`, int64 [edges], `waits`, int32 [dependencies]: flows on each edge, and number of LIDs
      for which packets wait along each dependency, numbered as by `first_dependency` of `Graph`;
      changed in place.

    Returns the number of flows that arrive.
    """
    row_base, row_link, edge_row = graph.row_base, graph.row_link, graph.edge_row
    edge_offset, first_dependency = graph.edge_offset, graph.first_dependency
    starts, endpoints, hosts = senders.row, senders.endpoint, senders.hosts
    rows = len(row_base) - 1
    leaving, following = np.empty((2, rows), dtype=np.int32)
    seen = np.full(rows, -1, dtype=np.int32)
    arrives = np.empty(rows, dtype=np.bool_)
    stack, order = np.empty((2, rows), dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    delivered = np.int64(0)
    for i in range(len(lids)):
        lid = lids[i]
        line = table[lid]
        goal, last = graph.destination_row[lid], graph.destination_link[lid]
        for row in range(rows):
            slot = row_base[row] + line[row]
            edge = slot_edge[slot] if slot < row_base[row + 1] else -1
            leaving[row] = edge
            following[row] = edge_row[edge] if edge >= 0 else -1
        slot = row_base[goal] + line[goal]
        delivers = consumes(line[goal], goal, goal, last) or (
            last >= 0 and slot < row_base[goal + 1] and row_link[slot] == last
        )
        # Rows in an order in which each one comes after the row to which it sends.
        count = 0
        for s in range(len(starts)):
            if endpoints[s] == lid:
                continue
            row = starts[s]
            depth = 0
            while row >= 0 and seen[row] != i:
                seen[row] = i
                arrives[row] = delivers and row == goal
                stack[depth] = row
                depth += 1
                row = following[row]
            while depth > 0:
                depth -= 1
                row = stack[depth]
                order[count] = row
                count += 1
                flow[row] = hosts[row]
                after = following[row]
                if after >= 0:
                    arrives[row] = arrives[row] or arrives[after]
                    if leaving[after] >= 0:
                        edge = leaving[row]
                        waits[first_dependency[edge] + leaving[after] - edge_offset[after]] += sign
        if not weighs[i] or not delivers or seen[goal] != i:
            continue
        flow[goal] -= 1
        for k in range(count - 1, -1, -1):
            row = order[k]
            if arrives[row] and row != goal:
                loads[leaving[row]] += sign * flow[row]
                flow[following[row]] += flow[row]
        delivered += flow[goal]
    return delivered


class Shares(NamedTuple):
    """Flows of bisections by present tables, from which those of few changes are computed."""

    #: int32 [samples * edges], float64 [samples * flows]: flows on each edge, and their shares.
    loads: Any
    shares: Any
    #: int32 [samples * flows + 1], int32: edges of the path of flow f are [first[f], first[f + 1]).
    first: Any
    edges: Any


@njit(cache=True)
def table_shares(
    table, graph, slot_edge, sources, destinations, order, host_cost, edge_cost, loads, shares
):
    """Fill the share of the injection rate that each flow gets, as `mean_shares` does.

    - `table`, `slot_edge`: as in `tally_tables`.
    - `sources`, `destinations`, int32 [samples, flows]: endpoints; -1 for a host without a cable.
      No endpoint sends or receives two flows of a sample.
    - `order`, int32 [samples * flows]: indices of the flows, sorted by destination, so that the
      entries of one LID stay in the L1 cache.
    - `host_cost`, float64 [endpoints]: injection rate over the rate of the endpoint's cable; 0 for
      an endpoint that forwards.
    - `edge_cost`, float64 [edges]: injection rate over the rate of the edge.
    - `loads`, int32 [samples * edges]: filled with the flows on each edge.
    - `shares`, float64 [samples, flows]: filled with the shares, 0 for flows that do not arrive.
    """
    loads[:] = 0
    edges, flows = len(graph.edge_row), sources.shape[1]
    for k in order:
        sample, f = k // flows, k % flows
        source, target = sources[sample, f], destinations[sample, f]
        shares[sample, f] = 0.0
        if source >= 0 and target >= 0:
            shares[sample, f] = _add_path(
                table[target], graph, slot_edge, source, target, 1, loads, sample * edges
            )
    for k in order:
        sample, f = k // flows, k % flows
        if shares[sample, f] > 0:
            source, target = sources[sample, f], destinations[sample, f]
            shares[sample, f] = _share(
                table[target], graph, slot_edge, source, target, host_cost, edge_cost, loads,
                sample * edges,
            )  # fmt: skip


@njit(cache=True)
def list_paths(table, graph, slot_edge, sources, destinations, known):
    """Fill `first` and `edges` of `Shares`, given `shares`; arguments as in `table_shares`."""
    count, flows = 0, sources.shape[1]
    for k in range(len(known.shares)):
        sample, f = k // flows, k % flows
        known.first[k] = count
        if known.shares[k] > 0:
            source, target = sources[sample, f], destinations[sample, f]
            row = graph.destination_row[source]
            while row != graph.destination_row[target]:
                edge = slot_edge[graph.row_base[row] + table[target, row]]
                known.edges[count] = edge
                count += 1
                row = graph.edge_row[edge]
    known.first[len(known.shares)] = count


@njit(cache=True)
def changed_means(
    table, graph, slot_edge, sources, destinations, moved, known, host_cost, edge_cost, means
):
    """Fill the mean share of each sample after a change of few paths.

    - `moved`, bool [LIDs]: destinations to which a path may differ from the known one.
    - `known`: parts of `Shares`, with the same costs.
    - `means`, float64 [samples].
    - Others as in `table_shares`.
    """
    count, flows = len(graph.edge_row), sources.shape[1]
    known_loads, shares, first, edges = known.loads, known.shares, known.first, known.edges
    loads = np.empty(count, dtype=np.int32)
    differs = np.empty(count, dtype=np.bool_)
    arrives = np.empty(flows, dtype=np.int8)
    for sample in range(len(sources)):
        copy_values(loads, known_loads[sample * count : (sample + 1) * count], count)
        for f in range(flows):
            source, target, k = sources[sample, f], destinations[sample, f], sample * flows + f
            arrives[f] = -1
            if source >= 0 and target >= 0 and moved[target]:
                for at in range(first[k], first[k + 1]):
                    loads[edges[at]] -= 1
                arrives[f] = _add_path(table[target], graph, slot_edge, source, target, 1, loads, 0)
        for e in range(count):
            differs[e] = loads[e] != known_loads[sample * count + e]
        total = 0.0
        for f in range(flows):
            k = sample * flows + f
            share, anew = shares[k], arrives[f] > 0
            if arrives[f] == 0:
                share = 0.0
            elif arrives[f] < 0:
                for at in range(first[k], first[k + 1]):
                    if differs[edges[at]]:
                        anew = True
                        break
            if anew:
                source, target = sources[sample, f], destinations[sample, f]
                share = _share(
                    table[target], graph, slot_edge, source, target, host_cost, edge_cost, loads, 0
                )
            total += share
        means[sample] = total / flows


@njit(cache=True)
def _share(line, graph, slot_edge, source, target, host_cost, edge_cost, loads, base):
    """Return the share of a flow that arrives; `base` is the place of its sample in `loads`."""
    worst = max(host_cost[source], host_cost[target])
    row, goal = graph.destination_row[source], graph.destination_row[target]
    while row != goal:
        edge = slot_edge[graph.row_base[row] + line[row]]
        worst = max(worst, loads[base + edge] * edge_cost[edge])
        row = graph.edge_row[edge]
    return 1.0 / worst


@njit(cache=True)
def add_paths(table, graph, slot_edge, sources, destinations, weights, loads):
    """Add the weight of each flow between endpoints that arrives to the loads of its path.

    - `table`, `slot_edge`: as in `tally_tables`.
    - `sources`, `destinations`, int32 [flows]: endpoints; -1 for a host without a cable.
    - `weights`, float64 [flows], `loads`, float64 [edges]: weights, and loads in their unit,
      changed in place.

    Returns the weight of the flows that do not arrive.
    """
    lost = 0.0
    for f in range(len(sources)):
        source, target, arrives = sources[f], destinations[f], False
        if source >= 0 and target >= 0:
            line = table[target]
            arrives = _add_path(line, graph, slot_edge, source, target, weights[f], loads, 0)
        if not arrives:
            lost += weights[f]
    return lost


@njit(cache=True)
def _add_path(line, graph, slot_edge, source, target, weight, loads, base):
    """Add a weight to the loads of the path between two endpoints; return whether it arrives."""
    row_base, edge_row = graph.row_base, graph.edge_row
    goal, last = graph.destination_row[target], graph.destination_link[target]
    row, hops, limit = graph.destination_row[source], 0, len(row_base)
    while True:
        port = line[row]
        slot = row_base[row] + port
        if consumes(port, row, goal, last):
            return True
        edge = slot_edge[slot] if slot < row_base[row + 1] else -1
        if edge < 0 or hops == limit:
            break
        loads[base + edge] += weight
        hops += 1
        row = edge_row[edge]
    if (
        edge < 0
        and row == goal
        and last >= 0
        and slot < row_base[row + 1]
        and graph.row_link[slot] == last
    ):
        return True
    row = graph.destination_row[source]
    for _ in range(hops):
        edge = slot_edge[row_base[row] + line[row]]
        loads[base + edge] -= weight
        row = edge_row[edge]
    return False
