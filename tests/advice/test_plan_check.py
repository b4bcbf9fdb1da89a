"""Cable plans against fabrics: every difference is named, and none is invented."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

import weft
from weft.advice.plan_check.chains import Move, chains
from weft.advice.plan_check.check import PlanCheck, check
from weft.core.units import parse_rate
from weft.fabrics import Fabric
from weft.fabrics.cabling import Cabling, End, cabling_of
from weft.fabrics.formats.cable_plan import read_plan
from weft.fabrics.parts import Parts

Cables = set[frozenset[tuple[str, int]]]


def pairs_of(fabric: Fabric) -> Cables:
    """Return the cables of a fabric as sets of two ports."""
    names = fabric.node_names
    ends = [
        (names[node], int(port))
        for node, port in zip(fabric.link_from, fabric.link_from_port, strict=True)
    ]
    return {frozenset(ends[at : at + 2]) for at in range(0, len(ends), 2)}


def repaired(found: Cables, result: PlanCheck) -> Cables:
    """Return the cables after the work that a result lists."""
    after = set(found)
    for row in result.table().iter_rows(named=True):
        here, peer = (row["node"], row["port"]), (row["peer_node"], row["peer_port"])
        if row["kind"] in ("missing cable", "absent device"):
            after.add(frozenset((here, peer)))
        elif row["kind"] in ("additional cable", "additional device"):
            after.remove(frozenset((here, peer)))
    moved = [row for each in result.differences for row in each.rows if "right_node" in row]
    wrong = {
        frozenset(((row["node"], row["port"]), (row["peer_node"], row["peer_port"])))
        for row in moved
    }
    assert wrong <= after
    after -= wrong
    return after | {
        frozenset(((row["right_node"], row["right_port"]), (row["peer_node"], row["peer_port"])))
        for row in moved
    }


# -- chains ------------------------------------------------------------------------------------


def matching(rng: random.Random, ports: list[End]) -> dict[End, End]:
    shuffled = rng.sample(ports, 2 * rng.randint(0, len(ports) // 2))
    pairs = list(zip(shuffled[::2], shuffled[1::2], strict=True))
    return {**dict(pairs), **{b: a for a, b in pairs}}


def most_moves(planned: Mapping[End, End], found: Mapping[End, End]) -> int:
    """Return the largest number of wrong cables that become planned ones by one plug each."""
    graph = networkx.Graph()
    for end in planned:
        if end in found and planned[end] != found[end]:
            graph.add_edge(
                ("planned", *sorted((end, planned[end]))), ("found", *sorted((end, found[end])))
            )
    return len(networkx.max_weight_matching(graph, maxcardinality=True))


@pytest.mark.parametrize("seed", range(200))
def test_chains_lead_to_the_plan_with_the_fewest_moves(seed: int) -> None:
    rng = random.Random(seed)
    ports = [(device, port) for device in range(rng.randint(1, 4)) for port in range(1, 6)]
    planned, found = matching(rng, ports), matching(rng, ports)
    now = dict(found)

    def cost(move: Move) -> float:
        return float(move.wrong[0] != move.right[0])

    def unplug(a: End, b: End) -> None:
        assert now.pop(a) == b
        assert now.pop(b) == a

    count = 0
    for chain in chains(planned, found, cost):
        for a, b in chain.additional:
            unplug(a, b)
        free = [now.pop(move.wrong) for move in chain.moves if chain.closed]
        assert free == [move.kept for move in chain.moves if chain.closed]
        for kept, wrong, right in chain.moves:
            if not chain.closed:
                unplug(kept, wrong)
            assert right not in now
            now[kept], now[right] = right, kept
        count += len(chain.moves)
        for a, b in chain.missing:
            assert a not in now
            assert b not in now
            now[a], now[b] = b, a
    assert now == planned
    assert count == most_moves(planned, found)


# -- known faults ------------------------------------------------------------------------------


class Faults:
    """A fabric with faults, each of which concerns cables of its own, and what is expected."""

    def __init__(self, fabric: Fabric, seed: int):
        self._parts = Parts.of(fabric)
        self._rng = random.Random(seed)
        self._gone: set[int] = set()
        self._fresh = self._rng.sample(range(fabric.num_cables), fabric.num_cables)
        self.expected: dict[str, set[frozenset[Any]]] = defaultdict(set)

    def _ends(self, cable: int) -> list[tuple[str, int]]:
        parts = self._parts
        return [
            (parts.names[parts.a_node[cable]], int(parts.a_port[cable])),
            (parts.names[parts.b_node[cable]], int(parts.b_port[cable])),
        ]

    def card(self, wraps: bool) -> None:
        """Shift plugs of a switch by one port, the last one to a new port or to the first."""
        parts = self._parts
        ends = np.stack((parts.a_node, parts.b_node))
        switch = int(self._rng.choice(np.flatnonzero(np.bincount(ends.ravel()) >= 8)))
        sides, cables = np.nonzero(ends == switch)
        ports = np.where(sides == 0, parts.a_port[cables], parts.b_port[cables])
        order = np.argsort(ports)
        first = 0 if wraps else self._rng.randrange(len(order) - 4)
        block = order[first:]
        parts.ports[switch] += not wraps
        right = ports[block].copy()
        wrong = np.roll(right, -1) if wraps else right + 1
        self.expected["shifted cables"].add(
            frozenset(
                ((parts.names[switch], w), (parts.names[switch], r))
                for w, r in zip(wrong.tolist(), right.tolist(), strict=True)
            )
        )
        for at, port in zip(block, wrong, strict=True):
            (parts.a_port if sides[at] == 0 else parts.b_port)[cables[at]] = port
        self._fresh = [c for c in self._fresh if switch not in ends[:, c]]

    def swap(self) -> None:
        parts = self._parts
        one, two = self._fresh.pop(), self._fresh.pop()
        self.expected["swapped cables"].add(frozenset(self._ends(one) + self._ends(two)))
        for values in (parts.b_node, parts.b_port):
            values[[one, two]] = values[[two, one]]

    def remove(self) -> None:
        cable = self._fresh.pop()
        self.expected["missing cable"].add(frozenset(self._ends(cable)))
        self._gone.add(cable)

    def slow(self) -> None:
        cable, parts = self._fresh.pop(), self._parts
        kind, rate = self._rng.choice([("narrower cable", "1xHDR"), ("slower cable", "4xEDR")])
        parts.rate_gbps[cable], parts.rate_code[cable] = parse_rate(rate)
        self.expected[kind].add(frozenset(self._ends(cable)))

    def fabric(self) -> Fabric:
        kept = np.setdiff1d(np.arange(len(self._parts.a_node)), list(self._gone))
        parts = self._parts
        for name in (
            "a_node",
            "a_port",
            "b_node",
            "b_port",
            "rate_gbps",
            "rate_code",
            "length_m",
            "latency_ns",
        ):
            setattr(parts, name, getattr(parts, name)[kept])
        return Fabric.of(parts)


def named(result: PlanCheck) -> dict[str, set[frozenset[Any]]]:
    """Return the differences of a result as `Faults` expects them."""
    differences: dict[str, set[frozenset[Any]]] = defaultdict(set)
    for each in result.differences:
        rows = each.rows
        if each.kind == "shifted cables":
            parts = [((r["node"], r["port"]), (r["right_node"], r["right_port"])) for r in rows]
        else:
            parts = [
                (r[n], r[p])
                for r in rows
                for n, p in (("node", "port"), ("peer_node", "peer_port"))
            ]
        assert frozenset(parts) not in differences[each.kind]
        differences[each.kind].add(frozenset(parts))
    return differences


def faulty(fabric: Fabric, seed: int, swaps: int, missing: int, slower: int) -> Faults:
    faults = Faults(fabric, seed)
    faults.card(wraps=seed % 2 == 1)
    for fault, number in ((faults.swap, swaps), (faults.remove, missing), (faults.slow, slower)):
        for _ in range(number):
            fault()
    return faults


def plan_of(fabric: Fabric, path: Path) -> Cabling:
    weft.cost(fabric, cable_lengths_m=[1000]).write_cables(path)
    return read_plan(path.read_text(), path.name, {})


#: Planned fabrics of random cases.
SPECS = (
    "xgft:2;12,12;1,12", "xgft:3;6,6,12;1,6,6", "dragonfly:p=4,a=8,h=4", "torus:6x6x6,hosts=6",
    "leaf-spine:leaves=12,spines=8,hosts=16", "hyperx:S=6x6,T=6",
)  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(1000))
def test_every_fault_of_a_random_case_is_named_and_none_invented(seed: int) -> None:
    fabric = weft.fabric(SPECS[seed % len(SPECS)])
    rng = random.Random(seed)
    faults = faulty(fabric, seed, *(rng.randint(0, 12) for _ in range(3)))
    found = faults.fabric()
    result = check(cabling_of(fabric), cabling_of(found))
    assert named(result) == faults.expected
    assert repaired(pairs_of(found), result) == pairs_of(fabric)


def test_a_plan_of_ten_thousand_cables(tmp_path: Path) -> None:
    fabric = weft.fabric("xgft:3;12,12,24;1,12,12")
    assert fabric.num_cables > 10_000
    plan = plan_of(fabric, tmp_path / "plan.csv")
    faults = faulty(fabric, 1, 40, 20, 10)
    result = check(plan, cabling_of(faults.fabric()))
    assert {kind: len(each) for kind, each in named(result).items()}["swapped cables"] == 40
    assert named(result) == faults.expected


@pytest.mark.parametrize("seed", range(40))
def test_the_work_leads_to_the_plan_whatever_differs(seed: int) -> None:
    """Faults share ports here, switches are absent or new, and other cables are additional."""
    fabric = weft.fabric("xgft:2;6,6;1,6")
    rng = random.Random(seed)
    parts = Parts.of(fabric)
    parts.ports = parts.ports + 3
    ends = [*zip(parts.a_node.tolist(), parts.a_port.tolist(), strict=True)]
    ends += zip(parts.b_node.tolist(), parts.b_port.tolist(), strict=True)
    free = [(node, int(n)) for node, ports in enumerate(parts.ports) for n in (ports, ports - 1)]
    for _ in range(rng.randint(0, 60)):
        one, two = rng.randrange(len(ends)), rng.randrange(len(ends) + len(free))
        other = free if two >= len(ends) else ends
        two %= len(ends)
        if two < len(other):
            ends[one], other[two] = other[two], ends[one]
    half = len(ends) // 2
    (parts.a_node, parts.a_port), (parts.b_node, parts.b_port) = (
        np.array(side, dtype=np.int32).T for side in (ends[:half], ends[half:])
    )
    for node in rng.sample(range(fabric.num_switches), rng.randint(0, 3)):
        parts.names[node] = parts.descriptions[node] = f"new{node}"
    found = Fabric.of(parts)
    if rng.random() < 0.5:
        found = found.without(switches=[0])
    result = check(cabling_of(fabric), cabling_of(found))
    assert repaired(pairs_of(found), result) == pairs_of(fabric)
    same = pairs_of(found) & pairs_of(fabric)
    assert result.same_cables == len(same)
