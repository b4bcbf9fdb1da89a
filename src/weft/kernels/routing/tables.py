"""Forwarding tables: greedy balancing over shortest paths, and D-mod-K."""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.lean import lean_njit
from weft.kernels.routing.distances import UNREACHED, VECTOR, bfs, next_edges, updown

#: Blocks of fewer rows are searched row by row.
NARROW = 4


class TableTargets(NamedTuple):
    """The destinations for which kernels fill tables."""

    #: int32 CSR over rows: the destinations of each row, endpoints first.
    offset: Any
    destination: Any
    #: int32 [destinations]: output port at the destination's row; 0 if the destination is a row.
    port: Any
    #: Destinations from this number on are switches and add no load.
    num_endpoints: Any
    #: LID mask control.
    lmc: Any
    #: The port that means "no path", the largest value of the table's type.
    no_path: Any


@lean_njit()
def balanced_tables(
    graph, edge_up, ordered, edge_cost, component_size, row_sources, targets, passes, load, table,
    search,
):  # fmt: skip
    """Fill the entries of the destinations listed for each row with least loaded shortest paths.

    Each destination gets a tree of paths. From the target outwards, every row takes the path with
    the least sum of load times cost over its edges; of equal paths, the one by the lowest port.
    Then the tree's flows, one from each host, are added to the loads, so that later trees avoid
    these edges. On every pass but the first, the flows of each tree are subtracted before its paths
    are chosen again. If the LMC is above 0, a path first of all avoids edges that other LIDs of the
    same destination use.

    - `edge_up`, uint8 [edges]: 1 for an edge that leads up; empty unless `ordered`.
    - `ordered`: whether paths are the shortest up*/down* paths instead of the shortest ones.
    - `edge_cost`, float64 [edges]: 1 / (rate in Gbit/s).
    - `component_size`, int32 [rows]: number of rows connected to the row.
    - `row_sources`, int64 [1, rows]: number of hosts that send through the row to every
      destination, or int64 [endpoints, rows]: number of flows that the row sends to each endpoint.
    - `targets`: parts of `TableTargets`.
    - `passes`: largest number of passes; the last is one that changes no load.
    - `load`, int64 [edges]: flows on each edge; initially zeros, changed in place.
    - `table`, uint8 or uint16 [lids, rows]: output ports, changed in place.
    - `search`: parts of `weft.kernels.routing.distances.Search`.
    """
    target_offset, target_destination = targets.offset, targets.destination
    num_endpoints, lmc, queue = targets.num_endpoints, targets.lmc, search.queue
    rows = len(graph.edge_offset) - 1
    reached, chosen, before = search.reached, search.choice, search.chosen
    moved = True
    senders = np.int64(0)
    for row in range(rows):
        senders += row_sources[0, row]
    # Each LID offset is balanced separately, because a flow uses only one offset.
    for round_ in range(passes << lmc):
        offset = round_ & ((1 << lmc) - 1)
        again = round_ >= (1 << lmc)
        if offset == 0:
            if not moved:
                break
            moved = not again
        for g in range(rows):
            if target_offset[g] == target_offset[g + 1]:
                continue
            if again and target_destination[target_offset[g]] >= num_endpoints:
                continue  # The only destination is the switch: its paths carry no load and stay.
            count = search_from(g, graph, edge_up, ordered, component_size[g], search)
            blocks = _arrange(search, count, graph, edge_cost, load)
            for t in range(target_offset[g], target_offset[g + 1]):
                d = target_destination[t]
                line = table[(d << lmc) + offset]
                weighs = d < num_endpoints
                sources = row_sources[d % len(row_sources)]
                if again:
                    if not weighs:
                        continue
                    _read(line, graph, search, count)
                    _carry(search, count, sources, load, edge_cost, -1)
                if lmc == 0:
                    _cheapest(search, blocks)
                else:
                    lids = 1 << lmc if again else offset
                    _unlike(
                        table, d << lmc, lids, offset, search, count, graph, load, edge_cost,
                        senders,
                    )  # fmt: skip
                if not again:
                    line[:] = targets.no_path
                    line[g] = targets.port[d]
                for i in range(1, count):
                    if again and chosen[i] != before[i]:
                        moved |= reached[i].flow != 0 or lmc > 0
                    at = reached[i].at + chosen[i] * reached[i].step
                    line[queue[i]] = graph.edge_port[search.edge[at]]
                if weighs:
                    _carry(search, count, sources, load, edge_cost, 1)


@njit(cache=True)
def _arrange(search, count, graph, edge_cost, load):
    """Arrange the choices of the rows reached by blocks; return the number of blocks.

    A block is a sequence of rows that choose between the same heads. Its choices lie in the order
    of the heads, and for each head in the order of the rows, so that the choice of all its rows is
    arithmetic on vectors.
    """
    queue, first, edges, edge_row = search.queue, search.first, search.edges, graph.edge_row
    reached, place, price, head, edge = (
        search.reached, search.choice, search.price, search.head, search.edge,
    )  # fmt: skip
    for i in range(count):
        place[queue[i]] = i
        reached[i].row = queue[i]
    blocks, base, i = 0, 0, 1
    while i < count:
        size = first[i + 1] - first[i]
        stop = i + 1
        while stop < count and first[stop + 1] - first[stop] == size:
            k = 0
            while k < size and edge_row[edges[first[stop] + k]] == edge_row[edges[first[i] + k]]:
                k += 1
            if k < size:
                break
            stop += 1
        step = stop - i
        if step >= NARROW:
            step = (step + VECTOR - 1) // VECTOR * VECTOR
        for k in range(size):
            head[first[i] + k] = place[edge_row[edges[first[i] + k]]]
        for v in range(stop - i):
            row = reached[i + v]
            row.block, row.at, row.step = first[i], base + v, step
            for k in range(size):
                e, at = edges[first[i + v] + k], base + k * step + v
                edge[at] = e
                price[at] = load[e] * edge_cost[e]
        search.block[blocks] = i
        blocks += 1
        base += size * step
        i = stop
    return blocks


@njit(cache=True)
def search_from(goal, graph, edge_up, ordered, component_size, search):
    """Search the shortest paths to a row, up*/down* if `ordered`; return the number of rows.

    The queue lists the rows nearest first; see `weft.kernels.routing.distances.next_edges`.
    """
    if ordered:
        count = updown(graph, edge_up, goal, component_size, search.hops, search.down, search.queue)
        _sort_by_hops(search, count)
    else:
        count = bfs(
            graph.edge_offset, graph.edge_row, goal, search.hops, search.queue, component_size
        )
    next_edges(graph, edge_up, ordered, search, count)
    return count


@njit(cache=True)
def _read(line, graph, search, count):
    """Set the choices, present and earlier ones, to those of a line of the table."""
    first, edges, queue = search.first, search.edges, search.queue
    for i in range(1, count):
        e = graph.slot_edge[graph.row_base[queue[i]] + line[queue[i]]]
        # Edges ascend, so this is the choice if no edge is left out, else a later one.
        k = min(e - edges[first[i]], first[i + 1] - first[i] - 1)
        while edges[first[i] + k] > e:
            k -= 1
        search.choice[i] = search.chosen[i] = k


@njit(cache=True)
def _cheapest(search, blocks):
    """Choose for every row but the first; rows and blocks are listed nearest first."""
    first, cost, chosen = search.first, search.costs, search.choice
    price, head = search.price, search.head
    cost[0] = 0.0
    for b in range(blocks):
        i = search.block[b]
        row, size = search.reached[i], first[i + 1] - first[i]
        if row.step < NARROW:
            for v in range(row.step):
                least, best = np.inf, 0
                for k in range(size):
                    here = cost[head[row.block + k]] + price[row.at + k * row.step + v]
                    if here < least:
                        least, best = here, k
                cost[i + v], chosen[i + v] = least, best
            continue
        # Vectors end behind the block, in values of later blocks, which are not known yet. Indices
        # without a sign are needed for vectors.
        at, q, step = np.uint64(row.at), np.uint64(i), np.uint64(row.step)
        onward = cost[head[row.block]]
        for v in range(step):
            cost[q + v] = onward + price[at + v]
            chosen[q + v] = 0
        # Two choices at a time, the last of an even number twice, which changes nothing.
        for k in range(1, size, 2):
            other = min(k + 1, size - 1)
            onward, beyond = cost[head[row.block + k]], cost[head[row.block + other]]
            one, two = at + step * np.uint64(k), at + step * np.uint64(other)
            for v in range(step):
                here, there = onward + price[one + v], beyond + price[two + v]
                least, best = cost[q + v], chosen[q + v]
                best = np.int32(k) if here < least else best
                least = min(here, least)
                chosen[q + v] = np.int32(other) if there < least else best
                cost[q + v] = min(there, least)


@njit(cache=True)
def _unlike(table, lid, lids, offset, search, count, graph, load, edge_cost, senders):
    """Choose as `_cheapest`, but other LIDs of the destination on an edge add to its cost."""
    reached, first, cost, chosen = search.reached, search.first, search.costs, search.choice
    cost[0] = 0.0
    for i in range(1, count):
        row = reached[i]
        least, best = np.inf, 0
        for k in range(first[i + 1] - first[i]):
            e = search.edge[row.at + k * row.step]
            twins = 0
            for other in range(lids):
                if other != offset and table[lid + other, row.row] == graph.edge_port[e]:
                    twins += 1
            here = cost[search.head[row.block + k]] + (load[e] + twins * senders) * edge_cost[e]
            if here < least:
                least, best = here, k
        cost[i], chosen[i] = least, best


@njit(cache=True)
def _carry(search, count, sources, load, edge_cost, sign):
    """Add the flows of a tree of choices to the loads (sign 1) or subtract them (sign -1)."""
    reached, chosen = search.reached, search.choice
    for i in range(count):
        reached[i].flow = sources[reached[i].row]
    for i in range(count - 1, 0, -1):
        row = reached[i]
        if row.flow:
            at = row.at + chosen[i] * row.step
            e = search.edge[at]
            load[e] += sign * row.flow
            search.price[at] = load[e] * edge_cost[e]
            reached[search.head[row.block + chosen[i]]].flow += row.flow


@njit(cache=True)
def carry(search, count, chosen, edge_row, sources, load, times):
    """Add a tree's flows to the loads a number of times, -1 to subtract them.

    queue[:count] lists the tree's rows, parents first; chosen[row] is the edge from a row, and
    sources[row] the number of flows that it sends to the tree's destination.
    """
    queue, flow = search.queue, search.flow
    for i in range(count):
        flow[queue[i]] = sources[queue[i]]
    for i in range(count - 1, 0, -1):
        row = queue[i]
        e = chosen[row]
        load[e] += times * flow[row]
        flow[edge_row[e]] += flow[row]


@njit(cache=True)
def _counted_edge(edges, count, graph, system, behind, table, line, offset, row):
    """Return the edge by which OpenSM sends from a row to LID offset `offset` of a destination.

    Of the first `count` edges, that with the least count to a system to which no earlier offset is
    sent; else to such a node; else that with the least count, and of these the least used. The
    search begins after the edge of the offset before, which decides between equals.

    - `edges`, int32: edges of the row, by port.
    - `system`, uint64 [rows]: system that each row belongs to.
    - `behind`, int64 [edges]: number of LIDs routed via each edge.
    - `table`, `line`: tables, and their line for offset 0 of the destination.
    """
    edge_row, row_base, slot_edge = graph.edge_row, graph.row_base, graph.slot_edge
    best = other_system = other_node = -1
    fewest = 1 << 30
    start = 0
    before = slot_edge[row_base[row] + table[line + offset - 1, row]]
    while start < count and edges[start] <= before:
        start += 1
    for k in range(count):
        edge = edges[(start + k) % count]
        times = 0
        known = False
        for line_before in range(line, line + offset):
            used = edge_row[slot_edge[row_base[row] + table[line_before, row]]]
            times += used == edge_row[edge]
            known |= system[used] == system[edge_row[edge]]
        if not known:
            if other_system < 0 or behind[edge] < behind[other_system]:
                other_system = edge
                fewest = 0
        elif times == 0 and (other_node < 0 or behind[edge] < behind[other_node]):
            other_node = edge
            fewest = 0
        if best < 0 or behind[edge] < behind[best]:
            best = edge
            fewest = min(fewest, times) if times > 0 else fewest
        elif 0 < times < fewest and behind[edge] == behind[best]:
            best = edge
            fewest = times
    if other_system >= 0:
        return other_system
    return other_node if other_node >= 0 else best


@njit(cache=True)
def _least_counted(edges, count, behind, start, least):
    """Return the index of the first edge with the least count, and that count.

    `start`, `least`: the result of before, or `count` and -1: the least count never decreases, and
    edges before `start` have more.
    """
    while start < count and behind[edges[start]] > least:
        start += 1
    if start < count:
        return start, least
    least = behind[edges[0]]
    for k in range(1, count):
        least = min(least, behind[edges[k]])
    start = 0
    while behind[edges[start]] > least:
        start += 1
    return start, least


@njit(cache=True)
def count_lids(
    goal, turn, graph, system, hops, edge_hops, most, rows, edges, behind, targets, table
):
    """Fill the entries of some rows for the destinations of a row `goal` that are due in a turn.

    OpenSM first routes to LID offset 0 of all endpoints, then to all switches, which have one LID
    and are not counted, then to the other LID offsets of endpoints. Present entries that start a
    shortest path stay. Else see `_counted_edge`; for offset 0 it is the first edge with the least
    count.

    - `system`, `behind`: as in `_counted_edge`; `behind` is changed in place.
    - `hops` [rows], `edge_hops` [edges]: hops to the goal from each row, and by each edge; if there
      are none by edge, they are those of its head and 1.
    - `most`: rows with more hops have no path.
    - `rows`, int32: the rows.
    - `edges`, int32 [edges]: work space.
    - `targets`, `table`: as in `balanced_tables`.
    """
    edge_offset, edge_row, edge_port = graph.edge_offset, graph.edge_row, graph.edge_port
    row_base, slot_edge, destination = graph.row_base, graph.slot_edge, targets.destination
    lmc, by_edge, offset = targets.lmc, len(edge_hops) > 0, max(0, turn - 1)
    copies = 1 << lmc if turn == 1 else 1
    for row in rows:
        count = -1
        for t in range(targets.offset[goal], targets.offset[goal + 1]):
            if (destination[t] < targets.num_endpoints) == (turn == 1):
                continue
            lid = (destination[t] << lmc) + offset
            if row == goal or hops[row] > most:
                port = targets.port[destination[t]] if row == goal else targets.no_path
                for copy in range(copies):
                    table[lid + copy, row] = port
                continue
            slot = row_base[row] + table[lid, row]
            edge = slot_edge[slot] if slot < row_base[row + 1] else -1
            if edge >= 0:
                onward = edge_hops[edge] if by_edge else hops[edge_row[edge]] + 1
                if onward != hops[row]:
                    edge = -1
            if edge < 0:
                if count < 0:
                    count = 0
                    for e in range(edge_offset[row], edge_offset[row + 1]):
                        edges[count] = e
                        onward = edge_hops[e] if by_edge else hops[edge_row[e]] + 1
                        count += onward == hops[row]
                    start, least = count, np.int64(-1)
                if offset:
                    edge = _counted_edge(
                        edges, count, graph, system, behind, table, lid - offset, offset, row
                    )
                else:
                    start, least = _least_counted(edges, count, behind, start, least)
                    edge = edges[start]
            if turn != 1:
                behind[edge] += 1
            for copy in range(copies):
                table[lid + copy, row] = edge_port[edge]


@njit(cache=True)
def due(goal, turn, targets):
    """Return whether a row has destinations that `count_lids` routes to in a turn."""
    for t in range(targets.offset[goal], targets.offset[goal + 1]):
        if (targets.destination[t] < targets.num_endpoints) == (turn != 1):
            return True
    return False


@njit(cache=True)
def counted_tables(graph, system, row_order, targets, behind, table, search):
    """Fill tables as OpenSM does, by the number of LIDs already routed via each port.

    Rows are targets in row_order, with their destinations in the listed order. Every row sends by a
    port that starts a shortest path; see `count_lids`.

    - `system`, `behind`: as in `_counted_edge`; `behind` is changed in place.
    - `row_order`, int32 [rows]: the rows, in the order in which they are targets.
    - `targets`, `search`: as in `balanced_tables`.
    - `table`, uint8 or uint16 [LIDs, rows]: output ports, changed in place. Entries that start a
      shortest path stay.
    """
    hops, edges = search.hops, search.edges
    rows = np.arange(len(hops)).astype(np.int32)
    for turn in range((1 << targets.lmc) + 1):
        for goal in row_order:
            if due(goal, turn, targets):
                bfs(graph.edge_offset, graph.edge_row, goal, hops, search.queue)
                count_lids(
                    goal, turn, graph, system, hops, edges[:0], UNREACHED - 1, rows, edges,
                    behind, targets, table,
                )  # fmt: skip


@njit(cache=True)
def _sort_by_hops(search, count):
    """Sort the first `count` rows of the queue by hops (stable)."""
    queue, hops, sorted_rows, buckets = search.queue, search.hops, search.first, search.choice
    buckets[:] = 0
    for i in range(count):
        buckets[hops[queue[i]] + 1] += 1
    for h in range(len(hops)):
        buckets[h + 1] += buckets[h]
    for i in range(count):
        position = buckets[hops[queue[i]]]
        buckets[hops[queue[i]]] += 1
        sorted_rows[position] = queue[i]
    for i in range(count):
        queue[i] = sorted_rows[i]


@njit(cache=True)
def dmodk_tables(
    rank, row_start, row_end, child_size, divisor, up_offset, up_port, down_offset, down_port,
    down_parallel, targets, table,
):  # fmt: skip
    """Fill the tables of all endpoints by D-mod-K.

    Endpoints below a row are reached by down port ``child * parallel + copy``; all others by up
    port ``rank // divisor`` modulo the number of up ports. LID offsets shift the rank, so that
    the LIDs of one endpoint use different paths.

    - `rank`, int32 [endpoints]: index of each endpoint in the order of the tree's leaves.
    - `row_start`, `row_end`, int32 [rows]: range of the `rank` of the endpoints below the row.
    - `child_size`, int64 [rows]: number of endpoints below each child of the row.
    - `divisor`, int64 [rows]: divisor of the rank for up ports and for parallel down ports.
    - `up_offset`, `up_port`, `down_offset`, `down_port`: int32 CSR over rows: up ports, and down
      ports by child.
    - `down_parallel`, int64 [rows]: number of parallel cables to each child.
    - `targets`: parts of `TableTargets`.
    - `table`, uint8 or uint16 [endpoints << lmc, rows]: output ports, changed in place.
    """
    lmc = targets.lmc
    for d in range(len(rank)):
        own = rank[d]
        for offset in range(1 << lmc):
            line = table[(d << lmc) + offset]
            for r in range(len(row_start)):
                if row_start[r] <= own < row_end[r]:
                    parallel = down_parallel[r]
                    child = (own - row_start[r]) // child_size[r]
                    copy = ((own + offset) // divisor[r]) % parallel
                    line[r] = down_port[down_offset[r] + child * parallel + copy]
                else:
                    up_ports = up_offset[r + 1] - up_offset[r]
                    if up_ports == 0:
                        line[r] = targets.no_path
                    else:
                        q = ((own + offset) // divisor[r]) % up_ports
                        line[r] = up_port[up_offset[r] + q]
