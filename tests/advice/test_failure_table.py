"""The N−1 table: each row is what `compare` says of the fabric without what failed."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from tests.random_fabrics import random_fabric

from weft import UnroutedWarning, analyse, compare, fabric, route, validate
from weft.advice.comparison import EngineOutcome
from weft.advice.watch.traffic import PairTraffic
from weft.advice.what_if.failures import Failure, each_cable, each_switch, failure_table
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing.reroute import opensm_reroute
from weft.routing.routes import TableRoutes
from weft.sim.static.effective_bisection import bisection

SAMPLES = 7
#: Machines, machines with several adapters, and structures that engines refuse in part.
FABRICS = {
    "leaf-spine": lambda: fabric("leaf-spine:5;3;4"),
    "fat tree with faults": lambda: fabric("xgft:3;2,3,3;1,2,2").with_faults(cables=4, seed=3),
    "shuffled": lambda: fabric("fat-tree:4").shuffled(5),
    "torus": lambda: fabric("torus:3x3;hosts=2"),
    "dragonfly": lambda: fabric("dragonfly:2;3;1"),
    "random": lambda: random_fabric(2, others=2),
    "other random": lambda: random_fabric(9, switches=9, loopbacks=1),
}


def expected(
    base: Fabric, failure: Failure, routes: TableRoutes | str, reroute: str
) -> dict[str, object]:
    """Return the row of `compare` on the failed fabric."""
    failed = failure.of(base)
    if isinstance(routes, str):
        table = compare(failed, [routes], [], samples=SAMPLES, seed=4).table
    else:
        left = routes.on(base, failed)
        if reroute:
            left = opensm_reroute(base, routes, failed, reroute)
        outcome = EngineOutcome(
            "left", "", routes=left, validation=validate(failed, left),
            bisection=bisection(failed, left, SAMPLES, 4),
        )  # fmt: skip
        table = compare(failed, [], [], samples=SAMPLES, seed=4, others=[outcome]).table
    rows = table.select("unrouted", "deadlock", "max_load", "p99_load", "ebb").rows(named=True)
    return rows[0] if rows else {}


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize(
    "engine", ["minhop:balance=opensm", "updn:balance=opensm", "dnup:balance=opensm", "dor"]
)
@pytest.mark.parametrize("after", ["anew", "unchanged", "sweep"])
def test_rows_are_those_of_compare(name: str, engine: str, after: str) -> None:
    base = FABRICS[name]()
    failures = [*each_switch(base), *each_cable(base)]
    chosen = np.random.default_rng(1).choice(len(failures), size=8, replace=False)
    failures = [Failure(), *(failures[at] for at in chosen)]
    routes: TableRoutes | str = engine
    reroute = engine.partition(":")[0] if after == "sweep" else ""
    if after == "sweep" and base.forwards[base.host_nodes].any():
        with pytest.raises(NotApplicable, match="only for switches"):
            failure_table(base, failures, routes, reroute=reroute, samples=0, processes=1)
        return
    if after != "anew":
        routes = route(base, engine)
    table = failure_table(
        base, failures, routes, reroute=reroute, samples=SAMPLES, seed=4, processes=1
    )
    for failure, row in zip(failures, table.rows(named=True), strict=True):
        for column, value in expected(base, failure, routes, reroute).items():
            assert row[column] == value, (failure, column)


@pytest.mark.parametrize("reroute", ["", "minhop"])
def test_demand_is_that_of_the_static_level(reroute: str) -> None:
    base = fabric("xgft:3;2,3,3;1,2,2").with_faults(cables=4, seed=3)
    random = np.random.default_rng(0)
    flows = random.choice(base.num_hosts, size=(2, 40)).astype(np.int32)
    demand = PairTraffic(flows[0], flows[1], random.choice([10.0, 25.0, 40.0], size=40))
    routes = route(base, "minhop:balance=opensm")
    failures = [*each_switch(base), *each_cable(base)[:9]]
    table = failure_table(
        base, failures, routes, reroute=reroute, samples=0, demand=demand, processes=1
    )
    for failure, row in zip(failures, table.rows(named=True), strict=True):
        failed = failure.of(base)
        left = routes.on(base, failed)
        if reroute:
            left = opensm_reroute(base, routes, failed, reroute)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnroutedWarning)
            found = analyse(failed, left, *flows, weights=demand.gbps)
        links = found.links.filter(pl.col("kind") == "switch-switch")
        assert row["demand_load"] == (links["flows"] / links["rate_gbps"]).max()
        lost = demand.gbps[~found.flows["routed"].to_numpy()].sum()
        assert row["demand_lost_gbps"] == pytest.approx(lost, abs=1e-9)


def test_hosts_cut_off_and_their_machines() -> None:
    base = fabric("leaf-spine:4;1;3")
    table = failure_table(base, each_switch(base), "minhop", samples=0, processes=1)
    # Without the spine, the hosts of one leaf stay together; which of them counts as not cut.
    assert table["hosts_cut"].to_list() == [3, 3, 3, 3, 9]
    assert table["machines_cut"].to_list() == [3, 3, 3, 3, 9]
    assert table["ebb"].null_count() == 5


def test_any_number_of_processes_gives_the_same_table() -> None:
    base = fabric("leaf-spine:4;2;3")
    failures = each_cable(base) * 3
    one, two = (
        failure_table(base, failures, "updn", samples=3, processes=number) for number in (1, 2)
    )
    assert one.equals(two)


def test_refusals_are_rows() -> None:
    base = fabric("leaf-spine:2;1;2")
    table = failure_table(base, [Failure((2,))], "updn:roots=spine0", samples=0, processes=1)
    assert "spine0" in table["refusal"][0]
    assert table["unrouted"][0] is None


def test_wrong_input_is_refused() -> None:
    base = fabric("leaf-spine:2;1;2")
    with pytest.raises(InputError, match="unknown routing engine"):
        failure_table(base, each_switch(base), "upsidedown")
    with pytest.raises(InputError, match="another fabric"):
        failure_table(base, [], route(fabric("leaf-spine:2;1;3"), "updn"))
    with pytest.raises(NotApplicable, match="no forwarding tables"):
        failure_table(base, [], route(base, "ecmp"))


def test_a_demand_of_hosts_that_do_not_exist_is_refused() -> None:
    base = fabric("leaf-spine:2;1;2")
    wrong = PairTraffic(np.array([0]), np.array([9]), np.array([1.0]))
    with pytest.raises(InputError, match="destinations"):
        failure_table(base, each_switch(base), "updn", demand=wrong)
