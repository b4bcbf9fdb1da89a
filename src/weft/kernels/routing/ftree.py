"""Fat-tree routing as in OpenSM's `ftree`: searches from one destination after the other.

The ports of a row that lead to the same neighbour form a group.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.parts import parts
from weft.kernels.records import record_type

#: Hops of a row that the search from the current destination has not reached.
UNSET = 65535

# Phases of a frame of the search upwards: the part of the search that comes next.
_ENTER, _SECONDARY, _SIBLINGS, _BACK_DOWN, _ROOT = range(5)

#: A frame of the search downwards: the row, the row's next group to search, whether (`routed`) an
#: adapter below the row got a path, and the group and port that lead to the row of the next frame.
DOWN = record_type(row="i4", next_group="i4", routed="i4", group="i4", port="i4")
#: A frame of the search upwards: the row and the row before it, whether the row is on the main
#: path, how many more times the search may go down again from a root, the row's hops to the
#: destination, the phase, and the other fields as in `DOWN`.
UP = record_type(
    row="i4", came_from="i4", main="i4", credit="i4", hops="i4", phase="i4", next_group="i4",
    group="i4", port="i4", routed="i4",
)  # fmt: skip


class FatTreeArrays(NamedTuple):
    """A fat tree, as kernels take it."""

    #: int32 [rows]: OpenSM's rank, 0 at the roots; -1 for a row outside the tree.
    rank: Any
    #: bool [rows]: whether the row is a leaf switch.
    is_leaf: Any
    #: int32 [rows]: equal for rows that have the same rows below.
    family: Any
    #: int32 [3 rows + 1], int32 [groups]: order[start[3 r + i]:start[3 r + i + 1]] are row r's
    #: groups that lead down (i = 0, to adapters or rows of greater rank), to rows of the same rank
    #: (1), and up (2). `order` is changed in place.
    start: Any
    order: Any
    #: int32 [groups]: the row that the group leads to, -1 for an adapter.
    head: Any
    #: int32 [groups]: among equally loaded groups, that of the lowest position is first.
    position: Any
    #: int32 CSR over groups: for each port of a group, the port at the other end of the cable.
    port_start: Any
    remote_port: Any


class Work(NamedTuple):
    """Loads of a fat tree and work space of its searches."""

    #: int32 [groups], int32 [ports]: paths up and down over each group and port so far.
    group_up: Any
    group_down: Any
    port_up: Any
    port_down: Any
    #: bool [rows]: whether the order of the row's groups down is out of date.
    changed: Any
    #: int32 [rows]: OpenSM's counter of the row's groups down, and its groups to adapters.
    next_down: Any
    adapters: Any
    #: int32 [rows]: fewest hops at which a family was searched; uint16 [rows]: hops of each row.
    served: Any
    hops: Any
    #: Line of a table for absent hosts.
    line: Any
    #: Frames of the searches: `DOWN` and `UP`.
    stack: Any
    frames: Any


def work_space(tree: FatTreeArrays, most_credit: int, dtype: Any) -> Any:
    """Return the parts of a `Work` without loads.

    `most_credit`: largest credit of a job. `dtype`: type of the table.
    """
    rows, groups, ports = len(tree.rank), len(tree.head), len(tree.remote_port)
    group_up, group_down = np.zeros((2, groups), dtype=np.int32)
    port_up, port_down = np.zeros((2, ports), dtype=np.int32)
    next_down, adapters, served = np.zeros((3, rows), dtype=np.int32)
    directions = np.repeat(np.arange(3 * rows), np.diff(tree.start))
    to_adapter = directions[tree.head[tree.order] < 0]
    np.add.at(adapters, to_adapter[to_adapter % 3 == 0] // 3, 1)
    levels = int(tree.rank.max(initial=-1)) + 1
    return parts(
        Work(
            group_up, group_down, port_up, port_down, np.zeros(rows, dtype=np.bool_), next_down,
            adapters, served, np.empty(rows, dtype=np.uint16), np.empty(rows, dtype=dtype),
            np.zeros(rows + 2, dtype=DOWN),
            np.zeros(rows + levels * (most_credit + 1) + 2, dtype=UP),
        )
    )  # fmt: skip


@njit(cache=True)
def _sort_by_load(order, start, stop, count, position):
    """Sort groups by count, then position (by insertion, as they are mostly sorted already)."""
    for i in range(start + 1, stop):
        group = order[i]
        j = i
        while j > start:
            before = order[j - 1]
            if count[before] < count[group] or (
                count[before] == count[group] and position[before] <= position[group]
            ):
                break
            order[j] = before
            j -= 1
        order[j] = group


@njit(cache=True)
def _least(group, port_start, used):
    """Return the least used port of a group, the first if several are equal."""
    best = port_start[group]
    for port in range(best + 1, port_start[group + 1]):
        if used[port] < used[best]:
            best = port
    return best


@njit(cache=True)
def _idle(row, hops, with_siblings, tree, work):
    """Return whether a row's groups are sorted and no row below gets a shorter path via the row."""
    if work.changed[row] or work.served[tree.family[row]] > hops:
        return False
    return not with_siblings or tree.start[3 * row + 2] == tree.start[3 * row + 1]


@njit(cache=True)
def _pass_by(row, tree, work):
    """Update an idle row's counter as a search would (`_idle`); return whether it has adapters."""
    start, next_down = tree.start, work.next_down
    if work.adapters[row] == 0:
        return False
    next_down[row] += 1
    if next_down[row] == start[3 * row + 1] - start[3 * row]:
        next_down[row] = 0
    return True


@njit(cache=True)
def _go_down(root, came_from, first_hops, with_siblings, tree, work, line):
    """Give every row below `root` the port towards `root` where that shortens the row's path.

    Return whether any adapter got a path. Groups are searched least loaded first. Loads grow only
    on paths that end at a row with adapters. Rows of one family have the same rows below: a row is
    skipped if a row of its family has been searched at the same or a smaller distance to the
    destination.
    """
    start, order, head, position = tree.start, tree.order, tree.head, tree.position
    port_start, remote_port, family = tree.port_start, tree.remote_port, tree.family
    group_up, port_up, changed = work.group_up, work.port_up, work.changed
    next_down, served, hops, stack = work.next_down, work.served, work.hops, work.stack
    depth = 0
    stack[0].row = root
    stack[0].next_group = -1
    entering = True
    routed = False
    while True:
        row = stack[depth].row
        down = start[3 * row]
        siblings = start[3 * row + 1]
        stop = start[3 * row + 2]
        if entering:
            entering = False
            routed = False
            count = siblings - down
            if count == 0:
                k = stop = down
            else:
                if changed[row]:
                    _sort_by_load(order, down, siblings, group_up, position)
                    changed[row] = False
                if stop > siblings:
                    _sort_by_load(order, siblings, stop, group_up, position)
                if not with_siblings:
                    stop = siblings
                k = down
                if stop == siblings and served[family[row]] <= first_hops + depth:
                    routed = work.adapters[row] > 0
                    k = stop
        else:
            k = stack[depth].next_group
            routed = stack[depth].routed != 0
            if not with_siblings:
                stop = siblings
        further = first_hops + depth + 1
        group = port = 0
        below = -1
        while k < stop:
            group = order[k]
            k += 1
            other = head[group]
            if other < 0:
                routed = True
                continue
            if hops[other] <= further or (depth == 0 and other == came_from):
                continue
            port = _least(group, port_start, port_up)
            line[other] = remote_port[port]
            hops[other] = further
            if not _idle(other, further, with_siblings, tree, work):
                below = other
                break
            if _pass_by(other, tree, work):
                routed = True
                group_up[group] += 1
                port_up[port] += 1
                changed[row] = True
        if below >= 0:
            stack[depth].next_group = k
            stack[depth].routed = routed
            stack[depth].group = group
            stack[depth].port = port
            depth += 1
            stack[depth].row = below
            entering = True
            continue
        served[family[row]] = min(served[family[row]], first_hops + depth)
        if routed and siblings > down:
            next_down[row] += 1
            if next_down[row] == siblings - down:
                next_down[row] = 0
        if depth == 0:
            return routed
        depth -= 1
        if routed:
            stack[depth].routed = 1
            group_up[stack[depth].group] += 1
            port_up[stack[depth].port] += 1
            changed[stack[depth].row] = True


@njit(cache=True)
def _route(target, main, credit, first_hops, dummy, tree, work, line, no_path):
    """Route one destination from the row that it is attached to.

    At each row the ports of the rows below are set first. Then the main path leads up through the
    least loaded group, whose load grows by one, and the row above is treated the same way. After
    that, the search follows the other upward groups as secondary paths, then the groups to rows of
    the same rank.
    """
    rank, start, order, head = tree.rank, tree.start, tree.order, tree.head
    position, port_start, remote_port = tree.position, tree.port_start, tree.remote_port
    group_down, port_down, next_down = work.group_down, work.port_down, work.next_down
    hops, frames = work.hops, work.frames
    depth = 0
    frames[0].row = target
    frames[0].came_from = -1
    frames[0].main = main
    frames[0].credit = credit
    frames[0].hops = first_hops
    frames[0].phase = _ENTER
    routed = False
    returned = False
    while True:
        frame = frames[depth]
        row = frame.row
        above = frame.hops + 1
        down = start[3 * row]
        siblings = start[3 * row + 1]
        up = start[3 * row + 2]
        stop = start[3 * row + 3]
        if returned:
            returned = False
            if routed:
                frame.routed = 1
                if frame.phase == _SIBLINGS:
                    group_down[frame.group] += 1
                    port_down[frame.port] += 1
        group = 0
        port = 0
        push = -1
        push_main = 0
        push_credit = frame.credit
        if frame.phase == _ENTER:
            frame.routed = _go_down(row, frame.came_from, frame.hops, not dummy, tree, work, line)
            if rank[row] == 0:
                frame.phase = _ROOT
                frame.next_group = siblings - down if frame.credit == 0 else 0
                if frame.credit > 0 and siblings > down:
                    next_down[row] += 1
                    if next_down[row] == siblings - down:
                        next_down[row] = 0
                    frame.port = next_down[row]
            else:
                _sort_by_load(order, up, stop, group_down, position)
                frame.phase = _SECONDARY
                frame.next_group = up
                frame.group = order[up]
                if frame.main:
                    group = order[up]
                    port = _least(group, port_start, port_down)
                    group_down[group] += 1
                    port_down[port] += 1
                    push = head[group]
                    push_main = 1
                    if line[push] == no_path or above < hops[push]:
                        line[push] = remote_port[port]
                        hops[push] = above
                    frame.next_group = up + 1
        if frame.phase == _ROOT:
            while push < 0 and frame.next_group < siblings - down:
                # While `credit` is above 0, search down again through the root's next group.
                push = head[order[down + frame.port]]
                push_main = frame.main
                push_credit = frame.credit - 1
                frame.port += 1
                if frame.port == siblings - down:
                    frame.port = 0
                frame.next_group += 1
            if push < 0:
                routed = frame.routed != 0
                if depth == 0:
                    return
                depth -= 1
                returned = True
                continue
        if push < 0 and frame.phase == _SECONDARY:
            while frame.next_group < stop:
                group = order[frame.next_group]
                frame.next_group += 1
                other = head[group]
                if line[other] != no_path and above >= hops[other]:
                    continue
                at_root = frame.credit == 0 and rank[other] == 0
                if not at_root or not _idle(other, above, not dummy, tree, work):
                    push = other
                    break
                port = _least(group, port_start, port_down)
                line[other] = remote_port[port]
                hops[other] = above
                if _pass_by(other, tree, work):
                    frame.routed = 1
            if push < 0:
                frame.phase = _SIBLINGS
                frame.next_group = siblings
                if up > siblings:
                    _sort_by_load(order, siblings, up, group_down, position)
            else:
                port = _least(group, port_start, port_down)
        if push < 0 and frame.phase == _SIBLINGS:
            while frame.next_group < up:
                group = order[frame.next_group]
                frame.next_group += 1
                other = head[group]
                if line[other] == no_path or above < hops[other]:
                    push = other
                    break
            if push < 0:
                frame.phase = _BACK_DOWN
                frame.next_group = down
                if frame.credit == 0 or tree.is_leaf[row]:
                    frame.next_group = siblings
            else:
                port = _least(group, port_start, port_down)
                frame.port = port
        if push < 0:
            while push < 0 and frame.next_group < siblings:
                push = head[order[frame.next_group]]
                push_main = 1
                push_credit = frame.credit - 1
                frame.next_group += 1
            if push < 0:
                routed = frame.routed != 0
                if depth == 0:
                    return
                depth -= 1
                returned = True
                continue
        elif push_main == 0 and frame.phase != _ROOT:
            line[push] = remote_port[port]
            hops[push] = above
        depth += 1
        child = frames[depth]
        child.row = push
        child.came_from = row
        child.main = push_main
        child.credit = push_credit
        child.hops = above
        child.phase = _ENTER


@njit(cache=True)
def ftree_tables(
    tree, work, job_destination, job_row, job_port, job_main, job_credit, no_path, table
):
    """Fill the table entries of the destination of each job, as OpenSM's `ftree` does.

    A job is one destination to route.

    - `tree`, `work`: parts of `FatTreeArrays` and `Work`.
    - `job_destination`, `job_row`, `job_port`, int32 [jobs]: the destination (-1 for an absent host
      that is routed only to count its load), its row, and the row's port to it (0 if the
      destination is the row itself).
    - `job_main`, `job_credit`, int32 [jobs]: whether the job adds to the loads upwards, and how
      many times its paths may go up again after they have gone down.
    - `no_path`: the port that means "no path".
    - `table`, uint8 or uint16 [destinations, rows]: output ports, changed in place.
    """
    for j in range(len(job_row)):
        target = job_row[j]
        dummy = job_destination[j] < 0
        line = work.line if dummy else table[job_destination[j]]
        line[:] = no_path
        work.hops[:] = UNSET
        work.served[:] = UNSET
        first = 0 if job_port[j] == 0 else 1
        work.hops[target] = first
        if not dummy:
            line[target] = job_port[j]
        _route(target, job_main[j], job_credit[j], first, dummy, tree, work, line, no_path)
