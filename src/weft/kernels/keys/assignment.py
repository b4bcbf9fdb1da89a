"""Assignment of the colours of a routing key to the planes of a folded Clos network.

Stages, subtrees, planes and prefixes are those of `weft.routing.structure.folded_clos`. The flows
of a key that have the same colours up to a stage form a *group*; the next stage divides group ``g``
into the groups ``g * planes + p``. To assign a key is to choose a plane for each group, with
different planes for the groups of one parent. Loads are stored for each stage in the order (side,
subtree, prefix, column), with side 0 for links upwards and 1 for links downwards.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.copies import copy_values
from weft.kernels.hashing import splitmix64

#: Cost of a choice that is not allowed; sums of it stay finite.
FORBIDDEN = 1e18


class Stages(NamedTuple):
    """Dimensions of all stages of a network, each array int64 [stages] unless stated."""

    #: Numbers of planes, of parallel cables to a parent, and of subtrees.
    planes: Any
    parallel: Any
    subtrees: Any
    #: int64 [stages + 1]: number of prefixes, the product of the planes of all stages below.
    prefixes: Any
    #: int64 [stages + 1]: first load of each stage.
    load_base: Any
    #: int64 [stages + 1]: first group into which each stage divides.
    group_base: Any


class Groups(NamedTuple):
    """Flow counts of a key: how many flows each of its groups sends from and to each subtree."""

    #: int32 [groups + 1]: first count of each group, with the groups of all stages in sequence.
    offset: Any
    #: int32 [counts]: 0 (flows from the subtree) or 1 (flows to it), the parallel cable, the
    #: subtree and the number of flows.
    side: Any
    cable: Any
    subtree: Any
    flows: Any


@njit(cache=True)
def load_index(stages, stage, side, subtree, prefix, column):
    """Return the index of the load of a link."""
    width = stages.planes[stage] * stages.parallel[stage]
    line = (side * stages.subtrees[stage] + subtree) * stages.prefixes[stage] + prefix
    return stages.load_base[stage] + line * width + column


@njit(cache=True)
def gather_groups(stages, group, cable, from_subtree, to_subtree):
    """Count the flows of each group from and to each subtree.

    `stages`: dimensions of the network. `group`, `cable`, `from_subtree`, `to_subtree`, int32
    [flows, stages]: group to which each flow belongs after a stage, -1 for a flow that does not use
    the stage; its parallel cable; and the subtrees of its two ends.

    Returns the flow counts, sorted by group, side, cable and subtree.
    """
    flows, depth = group.shape
    total = stages.group_base[depth]
    offset = np.zeros(total + 1, dtype=np.int32)
    room = 0
    for stage in range(depth):
        for flow in range(flows):
            if group[flow, stage] >= 0:
                room += 2
    side_of = np.empty(room, dtype=np.int32)
    cable_of = np.empty(room, dtype=np.int32)
    subtree_of = np.empty(room, dtype=np.int32)
    flows_of = np.empty(room, dtype=np.int32)
    count = 0
    for stage in range(depth):
        base = stages.group_base[stage]
        parallel, subtrees = stages.parallel[stage], stages.subtrees[stage]
        # One number for group, side, cable and subtree, in this order of significance.
        codes = np.empty(2 * flows, dtype=np.int64)
        used = 0
        for flow in range(flows):
            if group[flow, stage] >= 0:
                line = np.int64(group[flow, stage]) * 2
                codes[used] = (line * parallel + cable[flow, stage]) * subtrees + (
                    from_subtree[flow, stage]
                )
                codes[used + 1] = ((line + 1) * parallel + cable[flow, stage]) * subtrees + (
                    to_subtree[flow, stage]
                )
                used += 2
        codes = codes[:used]
        codes.sort()
        for at in range(used):
            if at and codes[at] == codes[at - 1]:
                flows_of[count - 1] += 1
                continue
            rest, subtree = divmod(codes[at], subtrees)
            line, cable_of[count] = divmod(rest, parallel)
            subtree_of[count] = subtree
            side_of[count] = line % 2
            flows_of[count] = 1
            count += 1
            offset[base + line // 2 + 1] = count
    for at in range(total):
        offset[at + 1] = max(offset[at + 1], offset[at])
    return Groups(
        offset, side_of[:count].copy(), cable_of[:count].copy(), subtree_of[:count].copy(),
        flows_of[:count].copy(),
    )  # fmt: skip


@njit(cache=True)
def _costs(stages, groups, loads, weight, limit, stage, group, prefix, cost, largest):
    """Compute the cost of a group on each plane, and the largest load that it causes there.

    The cost is the increase of the sum of squared loads, or `FORBIDDEN` if a cable is missing or a
    load would exceed `limit`. The load of a missing cable is infinite. Both results are written,
    as float64 [planes].
    """
    planes = stages.planes[stage]
    width = planes * stages.parallel[stage]
    for p in range(planes):
        cost[p] = 0.0
        largest[p] = 0.0
    at_group = stages.group_base[stage] + group
    for at in range(groups.offset[at_group], groups.offset[at_group + 1]):
        line = groups.side[at] * stages.subtrees[stage] + groups.subtree[at]
        first = (line * stages.prefixes[stage] + prefix) * width + groups.cable[at] * planes
        first += stages.load_base[stage]
        flows = groups.flows[at]
        # Slices, because their indices are known to be positive, which lets the loop be vectorised.
        own, each = loads[first : first + planes], weight[first : first + planes]
        for p in range(planes):
            load = (own[p] + flows) * each[p] if each[p] >= 0.0 else np.inf
            largest[p] = max(largest[p], load)
            increase = flows * (2.0 * own[p] + flows) * each[p] * each[p]
            cost[p] += increase if load <= limit and load < np.inf else FORBIDDEN
    for p in range(planes):
        cost[p] = min(cost[p], FORBIDDEN)


@njit(cache=True)
def assign(cost, rows, columns, of_row):
    """Assign each row to a column of its own with the least sum of costs.

    `cost`, float64 [at least rows, at least columns]. `rows`, `columns`: numbers of rows and
    columns to use; at most as many rows as columns. `of_row`, int64 [at least rows], written:
    column of each row.

    Shortest augmenting paths with potentials (Jonker and Volgenant 1987), O(rows^2 columns).
    """
    row_price = np.zeros(rows + 1)
    column_price = np.zeros(columns + 1)
    # Rows and columns from 1; column 0 stands for the row that is being assigned.
    owner = np.zeros(columns + 1, dtype=np.int64)
    before = np.zeros(columns + 1, dtype=np.int64)
    least = np.empty(columns + 1)
    done = np.empty(columns + 1, dtype=np.bool_)
    for row in range(1, rows + 1):
        owner[0] = row
        least[:] = np.inf
        done[:] = False
        column = 0
        while True:
            done[column] = True
            now = owner[column]
            step, following = np.inf, 0
            for other in range(1, columns + 1):
                if not done[other]:
                    value = cost[now - 1, other - 1] - row_price[now] - column_price[other]
                    if value < least[other]:
                        least[other] = value
                        before[other] = column
                    if least[other] < step:
                        step, following = least[other], other
            for other in range(columns + 1):
                if done[other]:
                    row_price[owner[other]] += step
                    column_price[other] -= step
                else:
                    least[other] -= step
            column = following
            if owner[column] == 0:
                break
        while column:
            owner[column] = owner[before[column]]
            column = before[column]
    total = 0.0
    for column in range(1, columns + 1):
        if owner[column]:
            of_row[owner[column] - 1] = column - 1
            total += cost[owner[column] - 1, column - 1]
    return total


@njit(cache=True)
def best_planes(stages, groups, loads, weight, limit, plane):
    """Choose planes with the least sum of squared loads among those with all loads up to a limit.

    - `stages`, `groups`: dimensions of the network, and flow counts of the key.
    - `loads`, int32 [loads]: present number of flows on each link.
    - `weight`, float64 [loads]: load that a flow adds, the injection rate divided by the rate of
      the link; negative for a missing cable.
    - `limit`: largest load, in units of `weight`.
    - `plane`, int32 [groups], written: the plane of each group, -1 for groups without flows.

    Returns the increase of the sum of squared loads, `FORBIDDEN` or more if no choice meets the
    limit; the largest load that the choice causes, infinite if no choice meets the limit; a lower
    bound on this load for any choice (some group alone causes at least this load on every plane);
    and the smallest load above the limit that any group causes on any plane.

    Dynamic programming over the stages from the top. For each parent group and each prefix at which
    it may be, a linear assignment gives its groups planes; the costs include those of the best
    choice at the stages above. The result is thus the best of all assignments.
    """
    depth = len(stages.planes)
    plane[:] = -1
    # Best cost of all stages from the current one up, by parent group and prefix.
    above = np.zeros((stages.prefixes[depth], stages.prefixes[depth]))
    most = 0
    for stage in range(depth):
        most = max(most, stages.prefixes[stage] * stages.prefixes[stage + 1])
    choice = np.full((depth, most), -1, dtype=np.int32)
    least = np.full(stages.group_base[depth], np.inf)
    following = np.inf
    for stage in range(depth - 1, -1, -1):
        planes, prefixes = stages.planes[stage], stages.prefixes[stage]
        base = stages.group_base[stage]
        here = np.zeros((prefixes, prefixes))
        cost = np.empty((planes, planes))
        largest = np.empty(planes)
        member = np.empty(planes, dtype=np.int64)
        of_row = np.empty(planes, dtype=np.int64)
        for parent in range(prefixes):
            count = 0
            for p in range(planes):
                group = base + parent * planes + p
                if groups.offset[group + 1] > groups.offset[group]:
                    member[count] = parent * planes + p
                    count += 1
            if count == 0:
                continue
            for prefix in range(prefixes):
                for at in range(count):
                    _costs(
                        stages, groups, loads, weight, limit, stage, member[at], prefix,
                        cost[at], largest,
                    )  # fmt: skip
                    for p in range(planes):
                        least[base + member[at]] = min(least[base + member[at]], largest[p])
                        following = min(following, largest[p] if largest[p] > limit else np.inf)
                    for p in range(planes if stage + 1 < depth else 0):
                        value = cost[at, p] + above[member[at], prefix * planes + p]
                        cost[at, p] = min(value, FORBIDDEN)
                here[parent, prefix] = assign(cost, count, planes, of_row)
                for at in range(count):
                    choice[stage, prefix * stages.prefixes[stage + 1] + member[at]] = of_row[at]
        above = here
    prefix_of = np.zeros(1, dtype=np.int64)
    worst, lowest = 0.0, 0.0
    for stage in range(depth):
        planes = stages.planes[stage]
        total = stages.prefixes[stage + 1]
        after = np.zeros(total, dtype=np.int64)
        cost, largest = np.empty(planes), np.empty(planes)
        for group in range(total):
            at = stages.group_base[stage] + group
            if groups.offset[at + 1] > groups.offset[at]:
                prefix = prefix_of[group // planes]
                chosen = choice[stage, prefix * total + group]
                plane[at] = chosen
                after[group] = prefix * planes + chosen
                _costs(stages, groups, loads, weight, limit, stage, group, prefix, cost, largest)
                worst = max(worst, largest[chosen])
                lowest = max(lowest, least[at])
        prefix_of = after
    if above[0, 0] >= FORBIDDEN:
        worst = np.inf
    return above[0, 0], worst, lowest, following


@njit(cache=True)
def shifted_planes(stages, groups, loads, weight, by_maximum, plane):
    """Choose planes group by group, like the fine-grained shift of the Routing Keys paper.

    The group with the most flows takes the plane that is best for it, then the group with the
    second most flows takes the best of the other planes, and so on, from the lowest stage up.

    `stages`, `groups`, `loads`, `weight`, `plane`: as for `best_planes`. `by_maximum`: whether the
    best plane is the one with the smallest maximum of the loads of the group's links, with ties
    broken by the increase of the sum of squared loads. Otherwise this increase alone decides.

    Returns whether every group found a plane without missing cables. If not, some entries of
    `plane` are still -1.
    """
    depth = len(stages.planes)
    plane[:] = -1
    prefix_of = np.zeros(1, dtype=np.int64)
    for stage in range(depth):
        planes, base = stages.planes[stage], stages.group_base[stage]
        after = np.zeros(stages.prefixes[stage + 1], dtype=np.int64)
        flows = np.empty(planes, dtype=np.int64)
        taken = np.empty(planes, dtype=np.bool_)
        cost, largest = np.empty(planes), np.empty(planes)
        for parent in range(stages.prefixes[stage]):
            prefix = prefix_of[parent]
            for p in range(planes):
                group = base + parent * planes + p
                flows[p] = 0
                for at in range(groups.offset[group], groups.offset[group + 1]):
                    if groups.side[at] == 0:
                        flows[p] += groups.flows[at]
                taken[p] = False
            while True:
                heaviest = np.argmax(flows)
                if flows[heaviest] == 0:
                    break
                flows[heaviest] = 0
                group = parent * planes + heaviest
                best, best_load, best_cost = np.int64(-1), np.inf, FORBIDDEN
                _costs(stages, groups, loads, weight, np.inf, stage, group, prefix, cost, largest)
                for p in range(planes):
                    load = largest[p] if by_maximum else 0.0
                    if taken[p] or cost[p] >= FORBIDDEN:
                        continue
                    if load < best_load or (load == best_load and cost[p] < best_cost):
                        best, best_load, best_cost = np.int64(p), load, cost[p]
                if best < 0:
                    return False
                taken[best] = True
                plane[base + group] = best
                after[group] = prefix * planes + best
        prefix_of = after
    return True


@njit(cache=True)
def least_limit(stages, groups, loads, weight, plane):
    """Find the smallest limit that `best_planes` can meet, and set the planes for this limit.

    Returns the limit; infinite if every choice uses a missing cable.
    """
    # The choice without a limit is kept if no other has a smaller largest load.
    _, most, limit, _ = best_planes(stages, groups, loads, weight, np.inf, plane)
    unlimited = plane.copy()
    while limit < most < np.inf:
        increase, _, _, following = best_planes(stages, groups, loads, weight, limit, plane)
        if increase < FORBIDDEN:
            return limit
        limit = following
    copy_values(plane, unlimited, len(plane))
    return most


@njit(cache=True)
def least_loaded_path(stages, loads, weight, price, from_subtree, to_subtree, depth, limit, column):
    """Find the path of one flow with the least increase of the sum of squared loads and prices.

    - `stages`, `loads`, `weight`, `limit`: as for `best_planes`.
    - `price`, float64 [loads]: cost of each link in addition to the increase.
    - `from_subtree`, `to_subtree`, int32 [stages]: subtrees of the two ends at each stage.
    - `depth`: number of stages that the flow uses.
    - `column`, int32 [stages], written: column of the cable at each stage.

    Returns the cost; `FORBIDDEN` or more if no path meets the limit.
    """
    # Cost of the stages up to the current one, by prefix, and the column that leads there.
    before = np.zeros(1)
    taken = np.full((depth, stages.prefixes[depth]), -1, dtype=np.int32)
    for stage in range(depth):
        planes = stages.planes[stage]
        width = planes * stages.parallel[stage]
        after = np.full(stages.prefixes[stage + 1], 2 * FORBIDDEN)
        for prefix in range(stages.prefixes[stage]):
            if before[prefix] >= FORBIDDEN:
                continue
            for c in range(width):
                value = before[prefix]
                for side in range(2):
                    subtree = from_subtree[stage] if side == 0 else to_subtree[stage]
                    index = load_index(stages, stage, side, subtree, prefix, c)
                    each = weight[index]
                    if each < 0.0 or (loads[index] + 1) * each > limit:
                        value = 2 * FORBIDDEN
                        break
                    value += (2.0 * loads[index] + 1.0) * each * each + price[index]
                at = prefix * planes + c % planes
                if value < after[at]:
                    after[at] = value
                    taken[stage, at] = c
        before = after
    at = np.int64(np.argmin(before))
    total = before[at]
    for stage in range(depth - 1, -1, -1):
        column[stage] = taken[stage, at]
        at //= stages.planes[stage]
    return total


@njit(cache=True)
def move_flow(stages, from_subtree, to_subtree, depth, column, sign, loads):
    """Add `sign` to the loads on the path of a flow; see `least_loaded_path`."""
    prefix = np.int64(0)
    for stage in range(depth):
        planes = stages.planes[stage]
        for side in range(2):
            subtree = from_subtree[stage] if side == 0 else to_subtree[stage]
            loads[load_index(stages, stage, side, subtree, prefix, column[stage])] += sign
        prefix = prefix * planes + column[stage] % planes


@njit(cache=True)
def improve_paths(stages, loads, weight, from_subtree, to_subtree, depth, column, bound, rounds):
    """Route flows without a path, and reroute flows on links with loads above a bound.

    A flow is rerouted if this lowers the largest load on its path. If loads above the bound remain
    nevertheless, the flows on these links are rerouted by negotiated congestion (`_negotiate`).

    - `stages`, `weight`: as for `best_planes`.
    - `loads`, int32 [loads], changed: loads of these flows.
    - `from_subtree`, `to_subtree`, `column`, int32 [flows, stages]: subtrees of the ends, and
      column of the cable at each stage, which is changed. A flow whose first column is -1 has no
      path yet.
    - `depth`, int32 [flows]: number of stages that each flow uses.
    - `bound`: largest load on the path of a flow up to which it is not rerouted.
    - `rounds`: largest number of passes over all flows, and then of rounds of negotiation.

    Returns the index of the first flow for which there is no path, or -1.
    """
    flows = len(depth)
    price = np.zeros(len(loads))
    trial = np.empty(len(stages.planes), dtype=np.int32)
    for flow in range(flows):
        if depth[flow] and column[flow, 0] < 0:
            cost = least_loaded_path(
                stages, loads, weight, price, from_subtree[flow], to_subtree[flow], depth[flow],
                np.inf, column[flow],
            )  # fmt: skip
            if cost >= FORBIDDEN:
                return flow
            move_flow(
                stages, from_subtree[flow], to_subtree[flow], depth[flow], column[flow], 1, loads
            )
    for _ in range(rounds):
        changed = False
        for flow in range(flows):
            d = depth[flow]
            if d == 0:
                continue
            worst = _largest_load(
                stages, loads, weight, from_subtree[flow], to_subtree[flow], d, column[flow]
            )
            if worst <= bound:
                continue
            move_flow(stages, from_subtree[flow], to_subtree[flow], d, column[flow], -1, loads)
            cost = least_loaded_path(
                stages, loads, weight, price, from_subtree[flow], to_subtree[flow], d,
                worst * (1 - 1e-9), trial,
            )  # fmt: skip
            if cost < FORBIDDEN:
                copy_values(column[flow], trial, d)
                changed = True
            move_flow(stages, from_subtree[flow], to_subtree[flow], d, column[flow], 1, loads)
        if not changed:
            break
    if rounds:
        _negotiate(
            stages, loads, weight, price, from_subtree, to_subtree, depth, column, bound, rounds
        )
    return -1


@njit(cache=True)
def first_fit_path(
    stages, reserved, weight, from_subtree, to_subtree, depth, demand, limit, pair, column
):
    """Find the first path of one flow whose links all have room for it.

    The paths are ordered by their columns, the lowest stage most significant.

    - `stages`, `weight`: as for `best_planes`.
    - `reserved`, int64 [loads]: sum of the demands of the flows on each link.
    - `from_subtree`, `to_subtree`, `depth`, `column`: as for `least_loaded_path`.
    - `limit`: largest sum of demands, times `weight`, that a link may have.
    - `pair`: number whose hash gives the first column to try at each stage; -1 to begin with column
      0.

    Returns whether there is such a path.
    """
    prefix = np.zeros(depth + 1, dtype=np.int64)
    tried = np.zeros(depth, dtype=np.int64)
    stage = 0
    while 0 <= stage < depth:
        planes = stages.planes[stage]
        width = planes * stages.parallel[stage]
        if tried[stage] == width:
            tried[stage] = 0
            stage -= 1
            continue
        begin = np.int64(0)
        if pair >= 0:
            begin = np.int64(splitmix64(splitmix64(pair) + stage) % np.uint64(width))
        c = (begin + tried[stage]) % width
        tried[stage] += 1
        fits = True
        for side in range(2):
            subtree = from_subtree[stage] if side == 0 else to_subtree[stage]
            index = load_index(stages, stage, side, subtree, prefix[stage], c)
            each = weight[index]
            fits = fits and each >= 0.0 and (reserved[index] + demand) * each <= limit
        if fits:
            column[stage] = c
            prefix[stage + 1] = prefix[stage] * planes + c % planes
            stage += 1
    return stage == depth


@njit(cache=True)
def first_fit(
    stages, reserved, weight, from_subtree, to_subtree, depth, demand, limit, pair, column
):
    """Place flows one after the other, each on the first path with room, else on a hashed path.

    `stages`, `reserved`, `weight`, `limit`: as for `first_fit_path`; the demands are added to
    `reserved`. `from_subtree`, `to_subtree`, `depth`, `column`: as for `improve_paths`. `demand`,
    int64 [flows]: demand of each flow. `pair`, int64 [flows]: number that stands for the two ends
    of each flow, for the hash. Returns the number of flows that are on a hashed path.
    """
    hashed = 0
    for flow in range(len(depth)):
        if depth[flow] == 0:
            continue
        ends = (from_subtree[flow], to_subtree[flow])
        if not first_fit_path(
            stages, reserved, weight, ends[0], ends[1], depth[flow], demand[flow], limit,
            np.int64(-1), column[flow],
        ):  # fmt: skip
            hashed += 1
            first_fit_path(
                stages, reserved, weight, ends[0], ends[1], depth[flow], demand[flow], np.inf,
                pair[flow], column[flow],
            )  # fmt: skip
        move_flow(stages, ends[0], ends[1], depth[flow], column[flow], demand[flow], reserved)
    return hashed


@njit(cache=True)
def _largest_load(stages, loads, weight, from_subtree, to_subtree, depth, column):
    """Return the largest load on the path of a flow; see `least_loaded_path`."""
    worst = 0.0
    prefix = np.int64(0)
    for stage in range(depth):
        for side in range(2):
            subtree = from_subtree[stage] if side == 0 else to_subtree[stage]
            index = load_index(stages, stage, side, subtree, prefix, column[stage])
            worst = max(worst, loads[index] * weight[index])
        prefix = prefix * stages.planes[stage] + column[stage] % stages.planes[stage]
    return worst


@njit(cache=True)
def _negotiate(
    stages, loads, weight, price, from_subtree, to_subtree, depth, column, bound, rounds
):
    """Reroute flows on links with loads above a bound; in each round, the prices of these rise.

    Keep the paths with the smallest largest load. The parameters are those of `improve_paths`.

    Negotiated congestion (PathFinder, McMurchie and Ebeling 1995).
    """
    most = (loads * weight).max()
    kept, kept_loads = column.copy(), loads.copy()
    for _ in range(rounds):
        if most <= bound:
            break
        for index in range(len(loads)):
            if loads[index] * weight[index] > bound:
                price[index] += weight[index] * weight[index]
        for flow in range(len(depth)):
            d = depth[flow]
            ends = from_subtree[flow], to_subtree[flow]
            if d == 0 or _largest_load(stages, loads, weight, *ends, d, column[flow]) <= bound:
                continue
            move_flow(stages, *ends, d, column[flow], -1, loads)
            least_loaded_path(stages, loads, weight, price, *ends, d, np.inf, column[flow])
            move_flow(stages, *ends, d, column[flow], 1, loads)
        now = (loads * weight).max()
        if now < most:
            most = now
            for flow in range(len(column)):
                copy_values(kept[flow], column[flow], len(kept[flow]))
            copy_values(kept_loads, loads, len(loads))
    for flow in range(len(column)):
        copy_values(column[flow], kept[flow], len(kept[flow]))
    copy_values(loads, kept_loads, len(loads))


@njit(cache=True)
def columns_of(stages, group, cable, plane, column):
    """Write the columns of the flows, and return whether every flow has all planes that it needs.

    `stages`: dimensions of the network. `group`, `cable`: as for `gather_groups`. `plane`, int32
    [groups]: plane of each group, -1 if it has none. `column`, int32 [flows, stages], written; -1
    for a stage that the flow does not use, or whose group has no plane.
    """
    flows, depth = group.shape
    complete = True
    for flow in range(flows):
        for stage in range(depth):
            column[flow, stage] = -1
            if group[flow, stage] >= 0:
                chosen = plane[stages.group_base[stage] + group[flow, stage]]
                if chosen >= 0:
                    column[flow, stage] = cable[flow, stage] * stages.planes[stage] + chosen
                else:
                    complete = False
    return complete


@njit(cache=True)
def drop_broken(stages, weight, from_subtree, to_subtree, depth, column):
    """Set the first column of each flow whose path uses a missing cable to -1.

    `stages`, `weight`: as for `best_planes`. `from_subtree`, `to_subtree`, `depth`, `column`: as
    for `improve_paths`.
    """
    for flow in range(len(depth)):
        prefix = np.int64(0)
        sound = True
        for stage in range(depth[flow]):
            c = column[flow, stage]
            up = load_index(stages, stage, 0, from_subtree[flow, stage], prefix, c)
            down = load_index(stages, stage, 1, to_subtree[flow, stage], prefix, c)
            sound = sound and weight[up] >= 0.0 and weight[down] >= 0.0
            prefix = prefix * stages.planes[stage] + c % stages.planes[stage]
        if not sound:
            column[flow, 0] = -1


@njit(cache=True)
def add_flows(stages, from_subtree, to_subtree, depth, column, sign, loads):
    """Add flows to the loads, or remove them; leave out flows without a path.

    `stages`: dimensions of the network. `from_subtree`, `to_subtree`, `depth`, `column`: as for
    `improve_paths`. `sign`: 1 to add, -1 to remove. `loads`, int32 [loads], changed.
    """
    for flow in range(len(depth)):
        if depth[flow] and column[flow, 0] >= 0:
            move_flow(
                stages, from_subtree[flow], to_subtree[flow], depth[flow], column[flow], sign,
                loads,
            )  # fmt: skip


@njit(cache=True)
def best_alternative(start, load, flows, loads, weight, by_maximum):
    """Return the alternative of a key that gives its links the least loads; of equals the first.

    - `start`, int64 [alternatives + 1]: first entry of each alternative in `load` and `flows`.
    - `load`, `flows`, int32: links that an alternative uses, and its flows on each.
    - `loads`, int32 [loads]: flows of the other keys.
    - `weight`, float64 [loads]: load that a flow adds.
    - `by_maximum`: whether the largest load counts first, and then the sum of squared loads that
      the key adds; otherwise only this sum counts.

    Returns the number of the alternative.
    """
    best = np.int64(0)
    least, least_squares = np.inf, np.inf
    for number in range(len(start) - 1):
        largest, squares = 0.0, 0.0
        for at in range(start[number], start[number + 1]):
            before = loads[load[at]] * weight[load[at]]
            after = before + flows[at] * weight[load[at]]
            largest = max(largest, after)
            squares += after * after - before * before
        if not by_maximum:
            largest = 0.0
        if largest < least or (largest == least and squares < least_squares):
            best, least, least_squares = np.int64(number), largest, squares
    return best


@njit(cache=True)
def path_edges(stages, edge, from_subtree, to_subtree, depth, column):
    """List the edges of each flow's path, upwards and then downwards.

    `stages`: dimensions of the network. `edge`, int32 [loads]: edge of each load. `from_subtree`,
    `to_subtree`, `depth`, `column`: as for `improve_paths`. Returns int64 [flows + 1] and int32.
    """
    flows = len(depth)
    offset = np.zeros(flows + 1, dtype=np.int64)
    for flow in range(flows):
        offset[flow + 1] = offset[flow] + 2 * depth[flow]
    edges = np.empty(offset[flows], dtype=np.int32)
    for flow in range(flows):
        prefix = np.int64(0)
        for stage in range(depth[flow]):
            planes, c = stages.planes[stage], column[flow, stage]
            up = load_index(stages, stage, 0, from_subtree[flow, stage], prefix, c)
            down = load_index(stages, stage, 1, to_subtree[flow, stage], prefix, c)
            edges[offset[flow] + stage] = edge[up]
            edges[offset[flow + 1] - 1 - stage] = edge[down]
            prefix = prefix * planes + c % planes
    return offset, edges
