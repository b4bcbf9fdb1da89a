"""Contract of every registered routing engine, on the examples of every topology."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.random_fabrics import random_fabric
from tests.topology_examples import EXAMPLES, marks

from weft.core.errors import InputError, NotApplicable
from weft.core.registry import Entry
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build
from weft.routing import engine, route
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.effective_bisection import bisection

#: A tree, and fabrics that need lanes: rings, a random graph, groups.
LANE_SPECS = (
    "xgft:2;2,2;1,2",
    "ring:6",
    "torus:4x3",
    "dragonfly:p=1,a=3,h=2,g=4,arrangement=palmtree",
    "hyperx:3x3;2;2",
    "jellyfish:switches=10,degree=3,hosts=1",
)
#: Fabrics with more switches are routed without shuffling or faults. Engines with lanes, which
#: take from ten seconds to minutes for such fabrics, route them only in the slow tests.
LARGE = 500


def lanes(entry: Entry) -> bool:
    """Return whether the engine separates traffic by lanes."""
    return "max_vls" in entry.options


def cases() -> Iterator[Any]:
    """Yield every engine on every example."""
    for family, spec in EXAMPLES:
        large = build(spec).num_switches > LARGE
        for entry in engine:
            slow = marks(family, spec) or ([pytest.mark.slow] if large and lanes(entry) else [])
            yield pytest.param(spec, entry, marks=slow, id=f"{spec}-{entry.name}")


CASES = list(cases())


def fabrics(spec: str) -> list[Fabric]:
    fabric = build(spec)
    if fabric.num_switches > LARGE:
        return [fabric]
    variants = [fabric, fabric.shuffled(1)]
    between = int((fabric.link_kind == 0).sum()) // 2
    if fabric.num_switches > 2 and between > 2:
        variants.append(fabric.with_faults(cables=2, switches=1, seed=1))
    return variants


def attempt(fabric: Fabric, entry: Entry) -> Routes | None:
    """Return routes, or None if the engine rejects the fabric; updn is retried with a root."""
    try:
        return route(fabric, entry.name)
    except NotApplicable as reason:
        assert str(reason).startswith(f"{entry.name}: ")  # noqa: PT017
        assert len(str(reason)) > len(entry.name) + 10  # noqa: PT017
    return route(fabric, "updn", roots="center") if entry.name == "updn" else None


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("spec", "entry"), CASES)
def test_an_engine_routes_a_fabric_or_gives_a_reason(entry: Entry, spec: str) -> None:
    for fabric in fabrics(spec):
        routes = attempt(fabric, entry)
        if routes is None:
            continue
        result = validate(fabric, routes)
        assert result.num_unrouted_pairs == result.num_disconnected_pairs, result.text()
        assert result.num_loops == 0, result.text()
        if entry.facts["deadlock_free"]:
            assert not result.credit_loops, result.text()
        assert result.lanes <= (entry.options["max_vls"].default if lanes(entry) else 1)
        assert isinstance(routes, kind(entry))
        again = attempt(fabric, entry)
        for one, other in ((vars(routes), vars(again)),):
            for key, value in one.items():
                if isinstance(value, np.ndarray):
                    assert np.array_equal(value, other[key]), key
        loads = all_to_all_loads(fabric, routes)
        assert loads.unrouted == result.num_unrouted_pairs
        share = bisection(fabric, routes, samples=3)
        assert 0 <= share.mean <= 1


@pytest.mark.parametrize("entry", [e for e in engine if e.facts["lmc"]], ids=lambda e: e.name)
def test_all_lids_of_an_endpoint_are_reached(entry: Entry) -> None:
    fabric = build("xgft:2;4,4;1,4")
    routes = route(fabric, entry.name, lmc=2)
    assert isinstance(routes, TableRoutes)
    assert routes.lmc == 2
    assert validate(fabric, routes).ok


def kind(entry: Entry) -> type[Routes]:
    """Return the kind of an engine's routes: tables unless its entry states another."""
    if entry.facts.get("candidates"):
        return CandidateRoutes
    return PathRoutes if entry.facts.get("paths") else TableRoutes


LANED = [entry for entry in engine if lanes(entry)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("entry", LANED, ids=lambda entry: entry.name)
@pytest.mark.parametrize("spec", LANE_SPECS)
def test_lanes_stay_within_max_vls_and_can_protect_management(entry: Entry, spec: str) -> None:
    fabric = build(spec)
    for most in (1, 2, 8):
        try:
            routes = route(fabric, entry.name, max_vls=most)
        except NotApplicable:
            continue
        result = validate(fabric, routes)
        assert result.lanes <= routes.num_vls <= most
        assert result.ok or not entry.facts["deadlock_free"]
    for wrong in (0, 16):
        with pytest.raises(InputError, match=f"max_vls: {wrong} does not fit: expected 1"):
            route(fabric, entry.name, max_vls=wrong)
    if "management" in entry.options:
        try:
            routes = route(fabric, entry.name, management=True)
        except NotApplicable:
            return
        result = validate(fabric, routes, management=True)
        assert result.ok or not entry.facts["deadlock_free"], result.text()
        assert result.lanes <= 8


@pytest.mark.parametrize("entry", list(engine), ids=lambda entry: entry.name)
def test_an_engine_is_documented(entry: Entry) -> None:
    assert entry.summary.endswith(".")
    assert entry.facts["deadlock_free"] in (True, False)


@pytest.mark.parametrize("entry", list(engine), ids=lambda entry: entry.name)
def test_degenerate_fabrics_are_routed_or_refused(entry: Entry) -> None:
    alone = FabricBuilder("no switch")
    alone.connect(alone.hosts(["a"]), alone.hosts(["b"]))
    bare = FabricBuilder("one bare switch")
    bare.switches(["s"])
    star = FabricBuilder("a star")
    (hub,) = star.switches(["s"], ports=300)
    star.connect([hub] * 3, star.hosts(["a", "b", "c"]), a_ports=[1, 254, 300])
    empty = FabricBuilder("nothing")
    for builder in (alone, bare, star, empty):
        fabric = builder.fabric()
        try:
            routes = route(fabric, entry.name)
        except NotApplicable:
            continue
        result = validate(fabric, routes)
        assert result.num_unrouted_pairs == result.num_disconnected_pairs
    with_many_ports = star.fabric()
    if entry.name in ("minhop", "dmodk", "ecmp"):
        routes = route(with_many_ports, entry.name)
        assert validate(with_many_ports, routes).ok
        assert all_to_all_loads(with_many_ports, routes).per_link.sum() == 12


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("entry", list(engine), ids=lambda entry: entry.name)
def test_random_fabrics_are_routed_as_far_as_they_are_connected(entry: Entry, seed: int) -> None:
    fabric = random_fabric(100 + seed, switches=12, hosts=20)
    routes = attempt(fabric, entry)
    if routes is not None:
        result = validate(fabric, routes)
        assert result.num_unrouted_pairs == result.num_disconnected_pairs


def soil_memory(random: np.random.Generator) -> None:
    """Leave garbage in freed memory, to expose a kernel that does not initialise its arrays."""
    junk = [random.integers(0, 255, size).astype(np.uint8) for size in range(1, 300, 3)]
    junk += [random.random(size) * 1e18 for size in range(1, 80)]
    junk += [random.integers(-(2**31), 2**31, size).astype(np.int32) for size in range(1, 80)]
    del junk


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "spec",
    ["minhop", "minhop:lmc=2", "minhop:balance=opensm", "updn:roots=center;lmc=1", "ecmp"],
)
def test_results_do_not_depend_on_prior_memory_contents(spec: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    fabric = random_fabric(seed)
    results = []
    for _ in range(12):
        soil_memory(random)
        routes = route(fabric, spec)
        table = routes.table if isinstance(routes, TableRoutes) else routes.set_id
        results.append((table, all_to_all_loads(fabric, routes).per_link))
    for table, loads in results[1:]:
        assert np.array_equal(table, results[0][0])
        assert np.array_equal(loads, results[0][1])
