"""Fat-tree routing as OpenSM's `ftree` does it: down and up from each destination in turn."""

import numpy as np

from weft.kernels.cache import njit

#: A row that the current destination has not reached yet.
UNSET = 65535

# Columns of a frame of the walk upwards.
_ROW, _FROM, _MAIN, _CREDIT, _HOPS, _PHASE, _NEXT, _GROUP, _PORT, _MADE = range(10)
_FRAME = 10
# Phases of such a frame: what it does when it comes up again.
_ENTER, _SECONDARY, _SIBLINGS, _BACK_DOWN, _ROOT = range(5)


#: A row on the way down, the next of its groups, whether an adapter gained below it, and the group
#: and port by which it went on.
FRAME = np.dtype(
    [(name, np.int32) for name in ("row", "next_group", "made", "group", "port")], align=True
)


@njit(cache=True)
def _sort_by_load(order, start, stop, count, place):
    """Sort groups by count, then place, keeping the order of equals; they mostly are in order."""
    for i in range(start + 1, stop):
        group = order[i]
        j = i
        while j > start:
            before = order[j - 1]
            if count[before] < count[group] or (
                count[before] == count[group] and place[before] <= place[group]
            ):
                break
            order[j] = before
            j -= 1
        order[j] = group


@njit(cache=True)
def _least(group, port_start, used):
    """Port of a group that is used least, of equals the first."""
    best = port_start[group]
    for port in range(best + 1, port_start[group + 1]):
        if used[port] < used[best]:
            best = port
    return best


@njit(cache=True)
def _idle(row, hops, with_siblings, start, family, served, changed):
    """Nobody below a row at this distance gains by it, and its groups are in order."""
    if changed[row] or served[family[row]] > hops:
        return False
    return not with_siblings or start[3 * row + 2] == start[3 * row + 1]


@njit(cache=True)
def _pass_by(row, start, adapters, turn):
    """Do what a walk down from an idle row would: whether it has adapters."""
    if adapters[row] == 0:
        return False
    turn[row] += 1
    if turn[row] == start[3 * row + 1] - start[3 * row]:
        turn[row] = 0
    return True


@njit(cache=True)
def _go_down(
    root, came_from, first_hops, with_siblings, start, order, head, place, port_start, remote_port,
    group_up, port_up, changed, turn, adapters, family, served, hops, line, stack,
):  # fmt: skip
    """Give every row below `root` that gains by it the way up to it; whether any adapter gained.

    Rows below are met group by group, least loaded first. Loads grow only on ways that end at a
    row with adapters. Rows of one family have the same rows below them: where one of them was no
    farther from the target, the others have nothing to give.
    """
    depth = 0
    stack[0].row = root
    stack[0].next_group = -1
    entering = True
    made = False
    while True:
        row = stack[depth].row
        down = start[3 * row]
        siblings = start[3 * row + 1]
        stop = start[3 * row + 2]
        if entering:
            entering = False
            made = False
            count = siblings - down
            if count == 0:
                k = stop = down
            else:
                if changed[row]:
                    _sort_by_load(order, down, siblings, group_up, place)
                    changed[row] = False
                if stop > siblings:
                    _sort_by_load(order, siblings, stop, group_up, place)
                if not with_siblings:
                    stop = siblings
                k = down
                if stop == siblings and served[family[row]] <= first_hops + depth:
                    made = adapters[row] > 0
                    k = stop
        else:
            k = stack[depth].next_group
            made = stack[depth].made != 0
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
                made = True
                continue
            if hops[other] <= further or (depth == 0 and other == came_from):
                continue
            port = port_start[group]
            if port_start[group + 1] > port + 1:
                port = _least(group, port_start, port_up)
            line[other] = remote_port[port]
            hops[other] = further
            if not _idle(other, further, with_siblings, start, family, served, changed):
                below = other
                break
            if _pass_by(other, start, adapters, turn):
                made = True
                group_up[group] += 1
                port_up[port] += 1
                changed[row] = True
        if below >= 0:
            stack[depth].next_group = k
            stack[depth].made = made
            stack[depth].group = group
            stack[depth].port = port
            depth += 1
            stack[depth].row = below
            entering = True
            continue
        served[family[row]] = min(served[family[row]], first_hops + depth)
        if made and siblings > down:
            turn[row] += 1
            if turn[row] == siblings - down:
                turn[row] = 0
        if depth == 0:
            return made
        depth -= 1
        if made:
            stack[depth].made = 1
            group_up[stack[depth].group] += 1
            port_up[stack[depth].port] += 1
            changed[stack[depth].row] = True


@njit(cache=True)
def _route(
    target, main, credit, first_hops, dummy, rank, is_leaf, start, order, head, place, port_start,
    remote_port, group_up, port_up, group_down, port_down, changed, turn, adapters, family, served,
    hops, line, no_path, stack, frames,
):  # fmt: skip
    """Route one destination from the row that it hangs from.

    From each row the ways of the rows below are set first, then the least loaded group up is
    taken, which counts on the main path, and from there the same; all other groups up follow as
    secondary ways, then cables within the level.
    """
    depth = 0
    frames[0, _ROW] = target
    frames[0, _FROM] = -1
    frames[0, _MAIN] = main
    frames[0, _CREDIT] = credit
    frames[0, _HOPS] = first_hops
    frames[0, _PHASE] = _ENTER
    made = False
    returned = False
    while True:
        frame = frames[depth]
        row = frame[_ROW]
        above = frame[_HOPS] + 1
        down = start[3 * row]
        siblings = start[3 * row + 1]
        up = start[3 * row + 2]
        stop = start[3 * row + 3]
        if returned:
            returned = False
            if made:
                frame[_MADE] = 1
                if frame[_PHASE] == _SIBLINGS:
                    group_down[frame[_GROUP]] += 1
                    port_down[frame[_PORT]] += 1
        group = 0
        port = 0
        push = -1
        push_main = 0
        push_credit = frame[_CREDIT]
        if frame[_PHASE] == _ENTER:
            frame[_MADE] = _go_down(
                row, frame[_FROM], frame[_HOPS], not dummy, start, order, head, place,
                port_start, remote_port, group_up, port_up, changed, turn, adapters, family, served,
                hops, line, stack,
            )  # fmt: skip
            if rank[row] == 0:
                frame[_PHASE] = _ROOT
                frame[_NEXT] = siblings - down if frame[_CREDIT] == 0 else 0
                if frame[_CREDIT] > 0 and siblings > down:
                    turn[row] += 1
                    if turn[row] == siblings - down:
                        turn[row] = 0
                    frame[_PORT] = turn[row]
            else:
                _sort_by_load(order, up, stop, group_down, place)
                frame[_PHASE] = _SECONDARY
                frame[_NEXT] = up
                frame[_GROUP] = order[up]
                if frame[_MAIN]:
                    group = order[up]
                    port = port_start[group]
                    if port_start[group + 1] > port + 1:
                        port = _least(group, port_start, port_down)
                    group_down[group] += 1
                    port_down[port] += 1
                    push = head[group]
                    push_main = 1
                    if line[push] == no_path or above < hops[push]:
                        line[push] = remote_port[port]
                        hops[push] = above
                    frame[_NEXT] = up + 1
        if frame[_PHASE] == _ROOT:
            while push < 0 and frame[_NEXT] < siblings - down:
                # With turns left a root goes down again, from where it left off.
                push = head[order[down + frame[_PORT]]]
                push_main = frame[_MAIN]
                push_credit = frame[_CREDIT] - 1
                frame[_PORT] += 1
                if frame[_PORT] == siblings - down:
                    frame[_PORT] = 0
                frame[_NEXT] += 1
            if push < 0:
                made = frame[_MADE] != 0
                if depth == 0:
                    return
                depth -= 1
                returned = True
                continue
        if push < 0 and frame[_PHASE] == _SECONDARY:
            while frame[_NEXT] < stop:
                group = order[frame[_NEXT]]
                frame[_NEXT] += 1
                other = head[group]
                if line[other] == no_path or above < hops[other]:
                    if (
                        frame[_CREDIT] == 0
                        and rank[other] == 0
                        and _idle(other, above, not dummy, start, family, served, changed)
                    ):
                        port = port_start[group]
                        if port_start[group + 1] > port + 1:
                            port = _least(group, port_start, port_down)
                        line[other] = remote_port[port]
                        hops[other] = above
                        if _pass_by(other, start, adapters, turn):
                            frame[_MADE] = 1
                        continue
                    push = other
                    break
            if push < 0:
                frame[_PHASE] = _SIBLINGS
                frame[_NEXT] = siblings
                if up > siblings:
                    _sort_by_load(order, siblings, up, group_down, place)
            else:
                port = port_start[group]
                if port_start[group + 1] > port + 1:
                    port = _least(group, port_start, port_down)
        if push < 0 and frame[_PHASE] == _SIBLINGS:
            while frame[_NEXT] < up:
                group = order[frame[_NEXT]]
                frame[_NEXT] += 1
                other = head[group]
                if line[other] == no_path or above < hops[other]:
                    push = other
                    break
            if push < 0:
                frame[_PHASE] = _BACK_DOWN
                frame[_NEXT] = down
                if frame[_CREDIT] == 0 or is_leaf[row]:
                    frame[_NEXT] = siblings
            else:
                port = port_start[group]
                if port_start[group + 1] > port + 1:
                    port = _least(group, port_start, port_down)
                frame[_PORT] = port
        if push < 0:
            while push < 0 and frame[_NEXT] < siblings:
                push = head[order[frame[_NEXT]]]
                push_main = 1
                push_credit = frame[_CREDIT] - 1
                frame[_NEXT] += 1
            if push < 0:
                made = frame[_MADE] != 0
                if depth == 0:
                    return
                depth -= 1
                returned = True
                continue
        elif push_main == 0 and frame[_PHASE] != _ROOT:
            line[push] = remote_port[port]
            hops[push] = above
        depth += 1
        child = frames[depth]
        child[_ROW] = push
        child[_FROM] = row
        child[_MAIN] = push_main
        child[_CREDIT] = push_credit
        child[_HOPS] = above
        child[_PHASE] = _ENTER


@njit(cache=True)
def ftree_tables(
    rank, levels, is_leaf, start, order, head, place, port_start, remote_port, family,
    job_destination, job_row, job_port, job_main, job_credit, no_path, table,
):  # fmt: skip
    """Fill the lines of all destinations listed, in their order; OpenSM's `ftree`.

    The ports of row r form groups, one for each neighbour: order[start[3 r]:start[3 r + 1]] lead
    down (to adapters, with head -1, or rows of greater rank), up to start[3 r + 2] to rows of the
    same rank and up to start[3 r + 3] upwards. Group g has ports port_start[g] to
    port_start[g + 1], and remote_port[p] is the port at the other end of each. Of equally loaded
    groups the one of the lower place goes first. Rows of one family[r] have the same rows below.
    Rows of rank -1 take no part.

    Job j routes destination job_destination[j], or, when that is -1, one that is missing and only
    counts, from job_row[j], which sends to it by job_port[j], 0 when it is the row itself. Only
    main jobs (job_main) add to the loads on the way up; job_credit is how often a way may turn
    from down to up again.
    """
    rows = len(rank)
    groups = len(head)
    ports = len(remote_port)
    group_up = np.zeros(groups, dtype=np.int32)
    group_down = np.zeros(groups, dtype=np.int32)
    port_up = np.zeros(ports, dtype=np.int32)
    port_down = np.zeros(ports, dtype=np.int32)
    changed = np.zeros(rows, dtype=np.bool_)
    turn = np.zeros(rows, dtype=np.int32)
    adapters = np.zeros(rows, dtype=np.int32)
    for row in range(rows):
        for k in range(start[3 * row], start[3 * row + 1]):
            if head[order[k]] < 0:
                adapters[row] += 1
    served = np.empty(rows, dtype=np.int32)
    hops = np.empty(rows, dtype=np.uint16)
    scratch = np.empty(rows, dtype=table.dtype)
    stack = np.zeros(rows + 2, dtype=FRAME)
    deepest = 0
    for j in range(len(job_credit)):
        deepest = max(deepest, job_credit[j])
    frames = np.zeros((rows + levels * (deepest + 1) + 2, _FRAME), dtype=np.int32)
    for j in range(len(job_row)):
        target = job_row[j]
        dummy = job_destination[j] < 0
        line = scratch if dummy else table[job_destination[j]]
        line[:] = no_path
        hops[:] = UNSET
        served[:] = UNSET
        first = 0 if job_port[j] == 0 else 1
        hops[target] = first
        if not dummy:
            line[target] = job_port[j]
        _route(
            target, job_main[j], job_credit[j], first, dummy, rank, is_leaf, start, order, head,
            place, port_start, remote_port, group_up, port_up, group_down, port_down, changed,
            turn, adapters, family, served, hops, line, no_path, stack, frames,
        )  # fmt: skip
