"""Groups of ports compared with their definition, on any fabric, with faults and limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import adaptive as plain
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.engine_registry import row_adapters
from weft.routing.engines.adaptive_groups import adaptive_routes
from weft.routing.engines.updn import chosen_roots, up_edges
from weft.routing.routes import CandidateRoutes, TableRoutes
from weft.routing.routes.candidate_sets import grouped_routes
from weft.routing.validation.validate import validate

TREES = ("xgft:2;4,4;1,4", "xgft:3;2,3,4;1,2,3", "leaf-spine:leaves=5,spines=3,hosts=3,cables=2")


def groups(fabric: Fabric, routes: CandidateRoutes, target: int) -> dict[int, plain.Ports]:
    result = {}
    for row in range(fabric.graph.num_rows):
        number = routes.set_id[target, row]
        if number >= 0:
            edges = routes.set_edge[routes.set_offset[number] : routes.set_offset[number + 1]]
            assert (fabric.graph.edge_tail[edges] == row).all()
            result[row] = frozenset(fabric.graph.edge_port[edges].tolist())
    return result


def faulty_tree(seed: int) -> Fabric:
    fabric = build(TREES[seed % len(TREES)])
    return fabric.with_faults(cables=1 + seed % 3, seed=seed).shuffled(seed)


def assert_covers_the_fallback(fabric: Fabric, routes: CandidateRoutes) -> None:
    """Check that every port of the fallback is a candidate, so that one proof is for both."""
    assert routes.fallback is not None
    for lid, target in enumerate(fabric.graph.destination_row.tolist()):
        for row, ports in (groups(fabric, routes, target) if target >= 0 else {}).items():
            port = int(routes.fallback.table[lid, row])
            assert port in ports or port == routes.fallback.no_path


@pytest.mark.parametrize("seed", range(16))
def test_ar_updn_has_all_minimal_legal_ports(seed: int) -> None:
    fabric = random_fabric(seed) if seed % 2 else faulty_tree(seed)
    options = {"roots": ("center",)} if seed % 2 else {}
    routes = route(fabric, "ar_updn", **options)
    assert isinstance(routes, CandidateRoutes)
    roots = chosen_roots(fabric, options.get("roots", ()))[0].tolist()
    for target in range(fabric.graph.num_rows):
        expected = plain.legal_groups(fabric, roots, target)
        assert groups(fabric, routes, target) == {r: g for r, g in expected.items() if g}
    assert_covers_the_fallback(fabric, routes)
    assert np.array_equal(routes.fallback.table, route(fabric, "updn", **options).table)


@pytest.mark.parametrize("seed", [8, 9, 11, 17, 19, 25, 33, 44, 47])
def test_rows_that_can_only_go_down_do_so_if_others_had_no_path(seed: int) -> None:
    """With these roots, the shortest paths of some rows would leave others without a legal one."""
    fabric = random_fabric(seed)
    up = up_edges(fabric, np.array([0, 1], dtype=np.int32))
    routes = adaptive_routes(fabric, route(fabric, "minhop"), up, "any", 4095, 254)
    for target in range(fabric.graph.num_rows):
        expected = plain.legal_groups(fabric, [0, 1], target)
        assert groups(fabric, routes, target) == {r: g for r, g in expected.items() if g}


@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_ar_ftree_has_all_minimal_ports_up_and_down_a_tree(seed: int) -> None:
    fabric = faulty_tree(seed)
    routes = route(fabric, "ar_ftree", pure=False)
    assert isinstance(routes, CandidateRoutes)
    roots = chosen_roots(fabric)[0].tolist()
    for target in range(fabric.graph.num_rows):
        expected = plain.legal_groups(fabric, roots, target)
        assert groups(fabric, routes, target) == {r: g for r, g in expected.items() if g}
    assert_covers_the_fallback(fabric, routes)
    assert np.array_equal(routes.fallback.table, route(fabric, "ftree", pure=False).table)


@pytest.mark.parametrize("seed", range(40))
def test_ar_updn_cannot_deadlock_on_irregular_fabrics(seed: int) -> None:
    fabric = random_fabric(200 + seed, switches=14, hosts=24)
    routes = route(fabric, "ar_updn", roots="center", max_groups=seed % 4, max_ports=1 + seed % 3)
    result = validate(fabric, routes, management=True)
    assert not result.credit_loops, result.text()
    assert result.num_loops == 0
    assert result.num_unrouted_pairs == result.num_disconnected_pairs


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("most", "ports"), [(0, 254), (1, 254), (2, 3), (4095, 2), (4095, 1)])
def test_limits_keep_the_groups_that_serve_most(seed: int, most: int, ports: int) -> None:
    fabric = random_fabric(seed, switches=9, hosts=14) if seed % 2 else faulty_tree(seed)
    full = route(fabric, "ar_updn", roots="center")
    routes = route(fabric, "ar_updn", roots="center", max_groups=most, max_ports=ports)
    assert isinstance(full, CandidateRoutes)
    assert isinstance(routes, CandidateRoutes)
    adapters = row_adapters(fabric)
    before = [groups(fabric, full, g) for g in range(fabric.graph.num_rows)]
    after = [groups(fabric, routes, g) for g in range(fabric.graph.num_rows)]
    assert [each.keys() for each in before] == [each.keys() for each in after]
    for row in range(fabric.graph.num_rows):
        pairs = [(g, before[g][row], after[g][row]) for g in range(len(before)) if row in before[g]]
        assert all(new <= old and 1 <= len(new) <= ports for _, old, new in pairs)
        kept = {new for _, _, new in pairs if len(new) > 1}
        assert len(kept) <= most
        if ports < 254:
            whole = [new for _, old, new in pairs if len(old) > ports]
            assert most < 4095 or all(len(new) == ports for new in whole)
            continue
        served: Counter[plain.Ports] = Counter()
        for g, old, _ in pairs:
            served[old] += int(adapters[g]) if len(old) > 1 else 0
        useful = [served[group] for group in kept]
        assert all(
            served[old] <= min(useful, default=0) for _, old, new in pairs if old != new
        ) or (most == 0)
        single: Counter[tuple[plain.Ports, plain.Ports]] = Counter()
        for _, old, new in pairs:
            inside = [group for group in kept if group <= old]
            assert len(new) == max(map(len, inside), default=1 if new != old else len(new))
            single[old, new] += len(new) == 1 < len(old)
        if most == 0:
            for old in {old for old, _ in single if len(old) > 1}:
                counts = [single[old, frozenset((port,))] for port in old]
                assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("seed", range(12))
def test_tables_of_groups_give_the_ports_of_all_entries(seed: int) -> None:
    """Groups, static ports, ports without cables and LIDs of one switch that differ, at random."""
    random = np.random.default_rng(seed)
    fabric = random_fabric(seed, others=seed % 3)
    static = route(fabric, "minhop", lmc=seed % 2)
    assert isinstance(static, TableRoutes)
    rows = fabric.graph.row_node
    tables, number = [], np.full(static.table.shape, -1)
    for row, node in enumerate(rows):
        names = random.choice(500, size=int(random.integers(1, 5)), replace=False).tolist()
        last = int(fabric.num_ports[node])
        sizes = random.integers(1, last + 1, len(names))
        tables.append(
            {n: random.choice(np.arange(1, last + 1), k) for n, k in zip(names, sizes, strict=True)}
        )
        number[:, row] = random.choice([-1, *names], len(number))
    routes = grouped_routes(fabric, static, tables, number)
    assert routes.fallback is static
    for target in range(len(rows)):
        expected = plain.union_of_entries(fabric, static, tables, number, target)
        assert groups(fabric, routes, target) == expected
    routes.check(fabric)


def test_tables_of_groups_are_those_of_the_engine_that_made_them() -> None:
    fabric = build("xgft:3;2,3,4;1,2,3")
    given = route(fabric, "ar_updn")
    assert isinstance(given, CandidateRoutes)
    assert given.fallback is not None
    tables: list[dict[int, list[int]]] = [{} for _ in range(fabric.graph.num_rows)]
    number = np.full(given.fallback.table.shape, -1)
    for lid, target in enumerate(fabric.graph.destination_row.tolist()):
        for row, ports in groups(fabric, given, target).items():
            number[lid, row] = given.set_id[target, row]
            tables[row][int(number[lid, row])] = sorted(ports)
    routes = grouped_routes(fabric, given.fallback, tables, number)
    assert routes.notes == given.fallback.notes
    for target in range(fabric.graph.num_rows):
        assert groups(fabric, routes, target) == groups(fabric, given, target)
    number[0, 1] = 77
    with pytest.raises(InputError, match="switch s1-1 has no group 77 of ports"):
        grouped_routes(fabric, given.fallback, tables, number)
    tables[1][77] = [1, 200]
    with pytest.raises(InputError, match="group 77 of switch s1-1 has ports 1 to 200"):
        grouped_routes(fabric, given.fallback, tables, number)
    with pytest.raises(InputError, match="do not fit"):
        grouped_routes(fabric, given.fallback, tables[1:], number)
    levels = replace(given.fallback, sl=np.zeros(len(number), dtype=np.uint8))
    with pytest.raises(NotApplicable, match="one service level"):
        grouped_routes(fabric, levels, tables, number)
    tables[1][77] = [1]
    assert "different entries" in grouped_routes(fabric, given.fallback, tables, number).notes[-1]
