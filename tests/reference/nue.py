"""Plain twins of nue's kernels: networkx says what is acyclic, and maps and sets do the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx

Ways = dict[int, int]


@dataclass
class Channels:
    """Directed cables between rows: tail, head, reverse and cost of each, and those of each row."""

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
    """The used dependencies of one lane, which stay acyclic."""

    def __init__(self, channels: Channels) -> None:
        self.used = nx.DiGraph()
        self.used.add_nodes_from(range(len(channels.tail)))

    def admit(self, before: int, after: int) -> bool:
        if not self.used.has_edge(before, after):
            if nx.has_path(self.used, after, before):
                return False
            self.used.add_edge(before, after)
        return True


def plant(channels: Channels, lane: Lane, tree: Ways, senders: set[int], goals: set[int]) -> None:
    """Admit what the ways along a tree from all senders to all goals need."""

    def up(row: int) -> list[int]:
        way = []
        while row in tree:
            way.append(tree[row])
            row = channels.head[tree[row]]
        return way

    for source in senders | goals:
        for goal in goals:
            climb, descent = up(source), up(goal)
            while climb and descent and climb[-1] == descent[-1]:
                climb.pop()
                descent.pop()
            way = climb + [channels.reverse[c] for c in reversed(descent)]
            for before, after in pairwise(way):
                assert lane.admit(before, after)


def grow(
    channels: Channels, lane: Lane, goal: int, load: list[int]
) -> tuple[dict[int, int], Ways, list[int]]:
    """Hops and channel of each row that is reached, and the rows in the order they were."""
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
            if turn_one(channels, lane, row, level, hops, chosen, cost, load):
                reached.append(row)
        listed += reached
        frontier = reached
    return hops, chosen, listed


def turn_one(
    channels: Channels,
    lane: Lane,
    row: int,
    level: int,
    hops: dict[int, int],
    chosen: Ways,
    cost: dict[int, float],
    load: list[int],
) -> bool:
    """Turn a neighbour of a row that is stuck to another of its shortest ways, if that helps."""
    for c in channels.leaving[row]:
        middle = channels.head[c]
        if level < 2 or hops.get(middle) != level - 1:
            continue
        for way in channels.leaving[middle]:
            if hops.get(channels.head[way]) != level - 2 or way == chosen[middle]:
                continue
            needed = [(c, way)]
            if channels.head[way] in chosen:
                needed.append((way, chosen[channels.head[way]]))
            needed += [
                (channels.reverse[out], way)
                for out in channels.leaving[middle]
                if hops.get(channels.head[out]) == level
                and chosen[channels.head[out]] == channels.reverse[out]
            ]
            before = lane.used.copy()
            if all(lane.admit(*pair) for pair in needed):
                chosen[middle] = way
                cost[middle] = cost[channels.head[way]] + load[way] * channels.cost[way]
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
    given: dict[int, int],
) -> dict[int, int]:
    """Lane of each goal; the lanes get the dependencies that the goals' trees need."""
    load = [0] * len(channels.tail)
    place = dict(given)
    for goal in goals:
        if goal not in place:
            ranked = []
            for number, lane in enumerate(lanes):
                trial = Lane(channels)
                trial.used = lane.used.copy()
                hops, _, _ = grow(channels, trial, goal, load)
                counting = [r for r in range(channels.rows) if weight[r] and distance[goal][r] >= 0]
                if all(row in hops for row in counting):
                    excess = sum(weight[r] * (hops[r] - distance[goal][r]) for r in counting)
                    ranked.append((excess, number))
            place[goal] = min(ranked)[1] if ranked else len(lanes) - 1
        _, chosen, listed = grow(channels, lanes[place[goal]], goal, load)
        flow = {row: sources[row] for row in listed}
        for row in reversed(listed[1:]):
            load[chosen[row]] += flow[row]
            flow[channels.head[chosen[row]]] += flow[row]
    return place


def ascending(
    channels: Channels, order: list[int], goal: int, counting: set[int]
) -> tuple[dict[int, int], dict[int, int], Ways]:
    """Hops, highest place of a first channel, and pins of all rows on ascending ways to a goal."""
    end = len(order)
    highest = {goal: end}
    while True:
        better = {}
        for c, place in enumerate(order):
            row, head = channels.tail[c], channels.head[c]
            if row != goal and highest.get(head, -1) > place > highest.get(row, -1):
                better[row] = max(place, better.get(row, -1))
        if not better:
            break
        highest.update(better)
    at = {place: c for c, place in enumerate(order)}
    pins: Ways = {}
    while True:
        hops, latest = {goal: 0}, {goal: end}
        level, frontier = 0, {goal}
        while frontier:
            level += 1
            offers: dict[int, int] = {}
            for c, place in enumerate(order):
                row, head = channels.tail[c], channels.head[c]
                if (
                    row not in hops
                    and head in frontier
                    and place < latest[head]
                    and pins.get(row, c) == c
                ):
                    offers[row] = max(place, offers.get(row, -1))
            for row, place in offers.items():
                hops[row], latest[row] = level, place
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
) -> list[Ways]:
    """Channel of each row towards each (goal, whether it weighs), balanced; goals ascending.

    order gives each goal the places of the channels in its lane.
    """
    load = [0] * len(channels.tail)
    lines: list[Ways] = [{} for _ in destinations]
    best: tuple[float, list[Ways]] | None = None
    for turn in range(passes):
        power = 4 if turn >= even_passes else 1
        for number, (goal, weighs) in enumerate(destinations):
            if turn and not weighs:
                continue
            place = order[goal]
            hops, latest, pins = ascending(channels, place, goal, counting[goal])
            for row, way in _ways(channels, lines[number], goal):
                for c in way:
                    load[c] -= sources[row]
            rows = sorted(hops, key=lambda row: hops[row])[1:]
            offers = {
                row: [
                    c
                    for c in channels.leaving[row]
                    if hops.get(channels.head[c]) == hops[row] - 1
                    and place[c] < latest[channels.head[c]]
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
            line: Ways = {}
            for row in reversed(rows):
                _, line[row] = min(
                    (cost[channels.head[c]] + (load[c] * channels.cost[c]) ** power, c)
                    for c in offers[row]
                    if place[c] > entered.get(row, -1)
                )
                head = channels.head[line[row]]
                entered[head] = max(entered.get(head, -1), place[line[row]])
            lines[number] = line
            if weighs:
                for row, way in _ways(channels, line, goal):
                    for c in way:
                        load[c] += sources[row]
        worst = max(amount * price for amount, price in zip(load, channels.cost, strict=True))
        if best is None or worst * sum(load) < best[0]:
            best = (worst * sum(load), [dict(line) for line in lines])
    assert best is not None
    return best[1]


def _ways(channels: Channels, line: Ways, goal: int) -> list[tuple[int, list[int]]]:
    """Each row of a line with all channels of its way."""
    found = []
    for start in line:
        row, way = start, []
        while row != goal:
            way.append(line[row])
            row = channels.head[line[row]]
        found.append((start, way))
    return found
