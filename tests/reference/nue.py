"""Reference implementations of nue's kernels with networkx, dictionaries and sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx

NextChannel = dict[int, int]


@dataclass
class Channels:
    """Links between rows: tail, head, reverse and cost of each, and the links leaving each row."""

    tail: list[int]
    head: list[int]
    reverse: list[int]
    cost: list[float]
    rows: int
    leaving: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.leaving = [[] for _ in range(self.rows)]
        for channel, row in enumerate(self.tail):
            self.leaving[row].append(channel)


class Lane:
    """The admitted dependencies of one lane, which stay acyclic."""

    def __init__(self, channels: Channels) -> None:
        self.used = nx.DiGraph()
        self.used.add_nodes_from(range(len(channels.tail)))

    def admit(self, before: int, after: int) -> bool:
        if not self.used.has_edge(before, after):
            if nx.has_path(self.used, after, before):
                return False
            self.used.add_edge(before, after)
        return True


def admit_tree(
    channels: Channels, lane: Lane, tree: NextChannel, senders: set[int], goals: set[int]
) -> None:
    """Admit the dependencies of the paths along a tree from all senders to all goals."""

    def up(row: int) -> list[int]:
        path = []
        while row in tree:
            path.append(tree[row])
            row = channels.head[tree[row]]
        return path

    for source in senders | goals:
        for goal in goals:
            climb, descent = up(source), up(goal)
            while climb and descent and climb[-1] == descent[-1]:
                climb.pop()
                descent.pop()
            path = climb + [channels.reverse[c] for c in reversed(descent)]
            for before, after in pairwise(path):
                assert lane.admit(before, after)


def grow(
    channels: Channels, lane: Lane, goal: int, load: list[int]
) -> tuple[dict[int, int], NextChannel, list[int]]:
    """Return hops and next channel of each reached row, and the rows as they were reached."""
    hops, chosen, cost, listed = {goal: 0}, {}, {goal: 0.0}, [goal]
    level = 0
    frontier = [goal]
    while frontier:
        level += 1
        reached: list[int] = []
        neighbours = [channels.head[c] for row in frontier for c in channels.leaving[row]]
        waiting = []
        for row in dict.fromkeys(neighbours):
            if row in hops:
                continue
            offers = sorted(
                (cost[channels.head[c]] + load[c] * channels.cost[c], c)
                for c in channels.leaving[row]
                if hops.get(channels.head[c]) == level - 1
            )
            for price, c in offers:
                onward = chosen.get(channels.head[c])
                if onward is None or lane.admit(c, onward):
                    hops[row], chosen[row], cost[row] = level, c, price
                    reached.append(row)
                    break
            else:
                waiting.append(row)
        for row in waiting:
            if reroute_one(channels, lane, row, level, hops, chosen, cost, load):
                reached.append(row)
        listed += reached
        frontier = reached
    return hops, chosen, listed


def reroute_one(
    channels: Channels,
    lane: Lane,
    row: int,
    level: int,
    hops: dict[int, int],
    chosen: NextChannel,
    cost: dict[int, float],
    load: list[int],
) -> bool:
    """Return whether moving a neighbour to another minimal path made an unreached row reachable."""
    for c in channels.leaving[row]:
        middle = channels.head[c]
        if level < 2 or hops.get(middle) != level - 1:
            continue
        for onward in channels.leaving[middle]:
            if hops.get(channels.head[onward]) != level - 2 or onward == chosen[middle]:
                continue
            needed = [(c, onward)]
            if channels.head[onward] in chosen:
                needed.append((onward, chosen[channels.head[onward]]))
            needed += [
                (channels.reverse[out], onward)
                for out in channels.leaving[middle]
                if hops.get(channels.head[out]) == level
                and chosen[channels.head[out]] == channels.reverse[out]
            ]
            before = lane.used.copy()
            if all(lane.admit(*pair) for pair in needed):
                chosen[middle] = onward
                cost[middle] = cost[channels.head[onward]] + load[onward] * channels.cost[onward]
                hops[row], chosen[row] = level, c
                cost[row] = cost[middle] + load[c] * channels.cost[c]
                return True
            lane.used = before
    return False


def share(
    channels: Channels,
    lanes: list[Lane],
    goals: list[int],
    sources: list[int],
    weight: list[int],
    distance: list[list[int]],
    preset: dict[int, int],
) -> dict[int, int]:
    """Return the lane of each goal, and admit the dependencies of its tree in that lane."""
    load = [0] * len(channels.tail)
    lane_of = dict(preset)
    for goal in goals:
        if goal not in lane_of:
            ranked = []
            for number, lane in enumerate(lanes):
                trial = Lane(channels)
                trial.used = lane.used.copy()
                hops, _, _ = grow(channels, trial, goal, load)
                counting = [r for r in range(channels.rows) if weight[r] and distance[goal][r] >= 0]
                if all(row in hops for row in counting):
                    excess = sum(weight[r] * (hops[r] - distance[goal][r]) for r in counting)
                    ranked.append((excess, number))
            lane_of[goal] = min(ranked)[1] if ranked else len(lanes) - 1
        _, chosen, listed = grow(channels, lanes[lane_of[goal]], goal, load)
        flow = {row: sources[row] for row in listed}
        for row in reversed(listed[1:]):
            load[chosen[row]] += flow[row]
            flow[channels.head[chosen[row]]] += flow[row]
    return lane_of


def ascending(
    channels: Channels, order: list[int], goal: int, counting: set[int]
) -> tuple[dict[int, int], dict[int, int], NextChannel]:
    """Return three dicts by row for ascending paths to a goal: hops, index of first channel, pin.

    A pin is the only channel that a row may take so that other rows have a path.
    """
    end = len(order)
    highest = {goal: end}
    while True:
        better = {}
        for c, position in enumerate(order):
            row, head = channels.tail[c], channels.head[c]
            if row != goal and highest.get(head, -1) > position > highest.get(row, -1):
                better[row] = max(position, better.get(row, -1))
        if not better:
            break
        highest.update(better)
    at = {position: c for c, position in enumerate(order)}
    pins: NextChannel = {}
    while True:
        hops, latest = {goal: 0}, {goal: end}
        level, frontier = 0, {goal}
        while frontier:
            level += 1
            offers: dict[int, int] = {}
            for c, position in enumerate(order):
                row, head = channels.tail[c], channels.head[c]
                if (
                    row not in hops
                    and head in frontier
                    and position < latest[head]
                    and pins.get(row, c) == c
                ):
                    offers[row] = max(position, offers.get(row, -1))
            for row, position in offers.items():
                hops[row], latest[row] = level, position
            frontier = set(offers)
        stuck = False
        for lost in sorted(counting - set(hops)):
            row = lost
            while row in highest and row != goal:
                head = channels.head[at[highest[row]]]
                if latest.get(head, -1) > highest[row]:
                    break
                stuck |= head not in pins
                pins[head] = at[highest[head]]
                row = head
        if not stuck:
            return hops, latest, pins


def tables(
    channels: Channels,
    order: dict[int, list[int]],
    destinations: list[tuple[int, bool]],
    sources: list[int],
    counting: dict[int, set[int]],
    passes: int,
    even_passes: int,
) -> list[NextChannel]:
    """Return the channel of each row towards each destination, with balanced loads.

    `destinations` are (goal, whether it has load), with ascending goals. `order[goal]`
    has the index of each channel in the order of the goal's lane.
    """
    load = [0] * len(channels.tail)
    lines: list[NextChannel] = [{} for _ in destinations]
    best: tuple[float, list[NextChannel]] | None = None
    for iteration in range(passes):
        power = 4 if iteration >= even_passes else 1
        for number, (goal, weighs) in enumerate(destinations):
            if iteration and not weighs:
                continue
            position = order[goal]
            hops, latest, pins = ascending(channels, position, goal, counting[goal])
            for row, path in _paths(channels, lines[number], goal):
                for c in path:
                    load[c] -= sources[row]
            rows = sorted(hops, key=lambda row: hops[row])[1:]
            offers = {
                row: [
                    c
                    for c in channels.leaving[row]
                    if hops.get(channels.head[c]) == hops[row] - 1
                    and position[c] < latest[channels.head[c]]
                    and pins.get(row, c) == c
                ]
                for row in rows
            }
            cost = {goal: 0.0}
            for row in rows:
                cost[row] = min(
                    cost[channels.head[c]] + (load[c] * channels.cost[c]) ** power
                    for c in offers[row]
                )
            entered: dict[int, int] = {}
            line: NextChannel = {}
            for row in reversed(rows):
                _, line[row] = min(
                    (cost[channels.head[c]] + (load[c] * channels.cost[c]) ** power, c)
                    for c in offers[row]
                    if position[c] > entered.get(row, -1)
                )
                head = channels.head[line[row]]
                entered[head] = max(entered.get(head, -1), position[line[row]])
            lines[number] = line
            if weighs:
                for row, path in _paths(channels, line, goal):
                    for c in path:
                        load[c] += sources[row]
        worst = max(amount * price for amount, price in zip(load, channels.cost, strict=True))
        if best is None or worst * sum(load) < best[0]:
            best = (worst * sum(load), [dict(line) for line in lines])
    assert best is not None
    return best[1]


def _paths(channels: Channels, line: NextChannel, goal: int) -> list[tuple[int, list[int]]]:
    """Return (row, all channels of its path to the goal) for each row but the goal."""
    result = []
    for start in line:
        row, path = start, []
        while row != goal:
            path.append(line[row])
            row = channels.head[line[row]]
        result.append((start, path))
    return result
