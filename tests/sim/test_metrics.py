"""Load metrics and the static analysis, compared with loads calculated by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.random_fabrics import random_fabric

from weft.core.columns import Column, frame
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder, NodeKind, Parts
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.common import metrics
from weft.sim.common.metrics import ecdf, load_metrics
from weft.sim.static import analysis
from weft.sim.static.analysis import StaticResult, analyse, analyse_all_to_all
from weft.sim.static.effective_bisection import bisection
from weft.workload import traffic

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from reference import columns_page


def chain() -> Fabric:
    """Build hosts a and b on leaf x, c and d on leaf y, and both leaves on one spine.

    Cables of hosts have 100 Gb/s, the cable from x to the spine 200, the cable from y 50.
    """
    build = FabricBuilder("chain", rate=100)
    leaves = build.switches(["x", "y"], level=1)
    spine = build.switches(["z"], level=2)
    hosts = build.hosts(["a", "b", "c", "d"], level=0)
    build.connect(hosts, leaves.repeat(2))
    build.connect(leaves[:1], spine, rate=200)
    build.connect(leaves[1:], spine, rate=50)
    return build.fabric()


def loads_by_name(result: StaticResult, column: str = "load") -> dict[str, float]:
    used = result.links.filter(pl.col("flows") > 0)
    return {
        f"{row['from_node']}{row['to_node']}": row[column] for row in used.iter_rows(named=True)
    }


# Sources and destinations of the flows a to c, b to d and a to b; a to d are hosts 0 to 3.
FLOWS = ([0, 1, 0], [2, 3, 1])


def test_the_injection_rate_is_that_of_hosts_only() -> None:
    build = FabricBuilder("a fast aggregation node")
    (switch,) = build.switches(["s"])
    build.connect([switch] * 2, build.hosts(["a", "b"]), rate=100)
    (node,) = build.hosts(["sharp"])
    build.connect([switch], [node], rate=400)
    parts = build.parts()
    parts.kind[node] = NodeKind.AUXILIARY
    fabric = Fabric.of(parts)
    assert bisection(fabric, route(fabric, "minhop"), samples=2).mean == 1.0


def test_link_loads_equal_those_by_hand() -> None:
    fabric = chain()
    result = analyse(fabric, route(fabric, "minhop"), *FLOWS)
    expected = {"ax": 2, "bx": 1, "xb": 1, "xz": 2, "zy": 2, "yc": 1, "yd": 1}
    assert loads_by_name(result, "flows") == expected
    # Loads are relative to 100 Gb/s: a link of twice the rate has half the load.
    assert loads_by_name(result) == expected | {"xz": 1.0, "zy": 4.0}
    assert result.host_rate_gbps == 100
    row = result.links.filter((pl.col("from_node") == "z") & (pl.col("to_node") == "y")).row(
        0, named=True
    )
    assert row["kind"] == "switch-switch"
    assert row["tier"] == "down 2-1"
    assert row["rate_gbps"] == 50
    link = row["link"]
    assert fabric.link_name(link) == f"z[{row['from_port']}] -> y[{row['to_port']}]"


def test_columns_of_flows_equal_those_by_hand() -> None:
    fabric = chain()
    result = analyse(fabric, route(fabric, "minhop"), *FLOWS)
    assert result.flows["contention"].to_list() == [4.0, 4.0, 2.0]
    assert result.flows["hops"].to_list() == [4, 4, 2]
    assert result.flows["routed"].to_list() == [True] * 3
    busiest = [fabric.link_name(link) for link in result.flows["busiest_link"]]
    assert [name.split("[")[0] for name in busiest] == ["z", "z", "a"]
    summary = result.summary.row(0, named=True)
    assert summary["flows"] == 3
    assert summary["unrouted"] == 0
    assert summary["unrouted_share"] == 0
    assert summary["contention_mean"] == pytest.approx(10 / 3)
    assert summary["contention_p50"] == summary["contention_max"] == 4
    assert summary["hops_mean"] == pytest.approx(10 / 3)
    assert summary["hops_max"] == 4
    assert repr(result) == (
        "StaticResult('minhop' on 'chain': 3 flows, 0 unrouted, largest load 4)"
    )


def test_metrics_of_scopes_equal_those_by_hand() -> None:
    fabric = chain()
    result = analyse(fabric, route(fabric, "minhop"), *FLOWS)
    rows = {row["scope"]: row for row in result.metrics.iter_rows(named=True)}
    assert list(rows) == [
        "all", "switch-switch", "host-switch", "switch-host",
        "up 0-1", "up 1-2", "down 1-0", "down 2-1",
    ]  # fmt: skip
    assert result.metrics["by"].to_list() == ["all"] + ["kind"] * 3 + ["tier"] * 4
    # The four links between switches carry 1 (x up), 0 (x down), 0 (y up) and 4 (y down).
    between = rows["switch-switch"]
    assert between["count"] == 4
    assert between["used"] == 0.5
    assert between["mean"] == 1.25
    assert between["cv"] == pytest.approx(np.sqrt((17 / 4) - 1.25**2) / 1.25)
    assert between["p50"] == 0.5
    assert between["p90"] == pytest.approx(1 + 0.7 * 3)
    assert between["p99"] == pytest.approx(1 + 0.97 * 3)
    assert between["max"] == 4
    assert rows["host-switch"]["mean"] == rows["up 0-1"]["mean"] == 0.75
    assert rows["switch-host"]["mean"] == rows["down 1-0"]["mean"] == 0.75
    assert rows["up 1-2"]["max"] == 1
    assert rows["down 2-1"]["max"] == 4
    assert rows["all"]["count"] == fabric.num_links == 12
    assert rows["all"]["used"] == pytest.approx(7 / 12)


def test_a_scope_has_a_cdf_of_loads() -> None:
    fabric = chain()
    result = analyse(fabric, route(fabric, "minhop"), *FLOWS)
    assert result.cdf("switch-switch").rows() == [(0.0, 0.5), (1.0, 0.75), (4.0, 1.0)]
    assert result.cdf()["share"].to_list()[-1] == 1.0
    with pytest.raises(InputError, match="no scope 'spines'; there are all, switch-switch"):
        result.cdf("spines")


def test_weights_scale_loads_and_contention() -> None:
    fabric = chain()
    routes = route(fabric, "minhop")
    result = analyse(fabric, routes, *FLOWS, weights=[3.0, 0.5, 0.0])
    assert loads_by_name(result, "flows") == {
        "ax": 3.0, "bx": 0.5, "xz": 3.5, "zy": 3.5, "yc": 3.0, "yd": 0.5,
    }  # fmt: skip
    assert result.flows["contention"].to_list() == [7.0, 7.0, 3.0]
    with pytest.raises(InputError, match="weight"):
        analyse(fabric, routes, *FLOWS, weights=-1.0)


def two_spines() -> Fabric:
    """Build `chain` with two spines, without levels and with all cables at 100 Gb/s."""
    build = FabricBuilder("two spines", rate=100)
    leaves = build.switches(["x", "y"])
    spines = build.switches(["z", "w"])
    hosts = build.hosts(["a", "b", "c", "d"])
    build.connect(hosts, leaves.repeat(2))
    build.connect(leaves.repeat(2), np.tile(spines, 2))
    return build.fabric()


def test_candidates_split_flows_and_leave_per_flow_columns_empty() -> None:
    fabric = two_spines()
    result = analyse(fabric, route(fabric, "ecmp"), *FLOWS)
    assert loads_by_name(result) == {
        "ax": 2, "bx": 1, "xb": 1, "yc": 1, "yd": 1,
        "xz": 1.0, "xw": 1.0, "zy": 1.0, "wy": 1.0,
    }  # fmt: skip
    for column in ("contention", "busiest_link", "hops"):
        assert result.flows[column].null_count() == 3
    assert result.flows["routed"].to_list() == [True] * 3
    summary = result.summary.row(0, named=True)
    assert summary["unrouted_share"] == 0
    assert summary["contention_max"] is None
    assert summary["hops_mean"] is None
    assert "tier" not in result.metrics["by"].to_list()


@pytest.mark.parametrize("engine", ["minhop", "ecmp"])
def test_flows_without_a_path_are_counted_and_load_nothing(engine: str) -> None:
    fabric = two_spines().without(switches=["z", "w"])
    result = analyse(fabric, route(fabric, engine), *FLOWS)
    assert loads_by_name(result) == {"ax": 1, "xb": 1}
    summary = result.summary.row(0, named=True)
    assert summary["unrouted"] == 2
    assert summary["unrouted_share"] == pytest.approx(2 / 3)
    if engine == "minhop":
        assert result.flows["routed"].to_list() == [False, False, True]
        assert result.flows["contention"].to_list() == [None, None, 1.0]
        assert result.flows["busiest_link"].null_count() == 2
        assert result.flows["hops"].to_list() == [None, None, 2]
        assert summary["contention_mean"] == 1.0
    else:
        assert result.flows["routed"].null_count() == 3


@pytest.mark.parametrize("engine", ["minhop", "ecmp"])
def test_hosts_without_a_cable_have_no_path_even_to_each_other(engine: str) -> None:
    fabric = two_spines().without(cables=["a[1]", "d[1]"])
    result = analyse(fabric, route(fabric, engine), [0, 1], [3, 2])
    assert result.summary["unrouted"].item() == 1
    if engine == "minhop":
        assert result.flows["routed"].to_list() == [False, True]


def test_a_host_that_sends_to_itself_loads_nothing() -> None:
    fabric = two_spines()
    result = analyse(fabric, route(fabric, "minhop"), [1], [1])
    row = result.flows.row(0, named=True)
    assert row == {
        "source": 1, "destination": 1, "routed": True, "contention": 0.0,
        "busiest_link": None, "hops": 0,
    }  # fmt: skip
    assert result.links["flows"].sum() == 0
    assert result.metrics["cv"].null_count() == len(result.metrics)


def test_an_analysis_without_flows_is_empty() -> None:
    fabric = two_spines()
    result = analyse(fabric, route(fabric, "minhop"), [], [])
    assert len(result.flows) == 0
    assert result.summary["unrouted_share"].item() is None
    assert result.metrics.row(0, named=True)["used"] == 0


def test_links_of_auxiliary_adapters_are_in_no_scope() -> None:
    parts = Parts.of(chain())
    parts.kind[parts.names.index("d")] = 2
    fabric = Fabric.of(parts)
    result = analyse(fabric, route(fabric, "minhop"), [0], [2])
    kinds = result.links["kind"].value_counts()
    assert kinds.filter(pl.col("kind") == "auxiliary")["count"].item() == 2
    assert result.metrics.filter(pl.col("scope") == "all")["count"].item() == 10
    assert result.metrics.filter(pl.col("scope") == "switch-host")["count"].item() == 3


@pytest.mark.parametrize("engine", ["minhop", "ecmp"])
def test_an_all_to_all_equals_its_list_of_flows(engine: str) -> None:
    fabric = chain()
    routes = route(fabric, engine)
    all_pairs = analyse_all_to_all(fabric, routes)
    listed = analyse(fabric, routes, *traffic(4, "all-to-all"))
    np.testing.assert_allclose(all_pairs.links["load"].to_numpy(), listed.links["load"].to_numpy())
    assert all_pairs.summary["flows"].item() == 12
    assert len(all_pairs.flows) == 0
    assert all_pairs.flows.schema == listed.flows.schema


@pytest.mark.parametrize("seed", range(6))
def test_columns_of_flows_and_links_agree_on_random_fabrics(seed: int) -> None:
    fabric = random_fabric(seed)
    random = np.random.default_rng(seed)
    sources, destinations = random.integers(0, fabric.num_hosts, (2, 60))
    result = analyse(fabric, route(fabric, "minhop"), sources, destinations)
    flows = result.flows
    # Each hop of each flow adds one flow to one link.
    assert result.links["flows"].sum() == flows["hops"].sum()
    assert result.summary["unrouted"].item() == (~flows["routed"]).sum()
    load = result.links["load"].to_numpy()
    moving = flows.filter(pl.col("busiest_link").is_not_null())
    np.testing.assert_array_equal(
        load[moving["busiest_link"].to_numpy()], moving["contention"].to_numpy()
    )
    assert set(moving["contention"]) <= set(load)
    assert moving["contention"].max() == load.max()


def test_load_metrics_equal_those_by_hand() -> None:
    row = load_metrics([0, 0, 1, 3]).row(0, named=True)
    assert row == {
        "count": 4, "used": 0.5, "mean": 1.0, "cv": pytest.approx(np.sqrt(1.5)),
        "p50": 0.5, "p90": pytest.approx(2.4), "p99": pytest.approx(2.94), "max": 3.0,
    }  # fmt: skip
    assert load_metrics(np.full(7, 5.0))["cv"].item() == 0
    assert load_metrics([0.0, 0.0])["cv"].item() is None
    assert load_metrics([]).row(0) == (0, *[None] * 7)


def test_the_empirical_distribution_equals_values_by_hand() -> None:
    assert ecdf([2, 1, 2, 5]).rows() == [(1.0, 0.25), (2.0, 0.75), (5.0, 1.0)]
    assert ecdf([]).rows() == []


@pytest.mark.parametrize("values", [[1.0, np.nan], [np.inf], [[1.0]], ["a"], [1j]])
def test_values_other_than_a_list_of_numbers_are_refused(values: object) -> None:
    for function in (load_metrics, ecdf):
        with pytest.raises(InputError, match="values of a distribution"):
            function(values)


def test_bad_flows_and_routes_of_another_fabric_are_refused() -> None:
    fabric = chain()
    routes = route(fabric, "minhop")
    with pytest.raises(InputError, match="sources: 4 is out of range; hosts of chain are 0 to 3"):
        analyse(fabric, routes, [4], [0])
    with pytest.raises(InputError, match="destinations: expected whole numbers, 2 of them, not 1"):
        analyse(fabric, routes, [0, 1], [2])
    with pytest.raises(InputError, match="another fabric"):
        analyse(two_spines(), routes, *FLOWS)
    with pytest.raises(NotApplicable, match="nothing gives no paths"):
        analyse(fabric, Routes("nothing", fabric.digest), *FLOWS)


def documented_frames() -> list[tuple[str, dict[str, Column], pl.DataFrame]]:
    fabric = chain()
    table = analyse(fabric, route(fabric, "minhop"), *FLOWS)
    candidates = analyse(fabric, route(fabric, "ecmp"), *FLOWS)
    rough = analyse(fabric, route(fabric, "minhop"), *FLOWS, per_flow=False)
    frames = []
    for result in (table, candidates, rough):
        frames += [
            ("links", analysis.LINK_COLUMNS, result.links),
            ("flows", analysis.FLOW_COLUMNS, result.flows),
            ("summary", analysis.SUMMARY_COLUMNS, result.summary),
            ("metrics", metrics.METRIC_COLUMNS, result.metrics),
        ]
    return [*frames, ("ecdf", metrics.ECDF_COLUMNS, table.cdf())]


def test_frames_have_the_documented_columns() -> None:
    text = columns_page()
    for name, columns, table in documented_frames():
        assert dict(table.schema) == {key: column.dtype() for key, column in columns.items()}
        for key, column in columns.items():
            row = f"| `{key}` | {column.dtype} | {column.unit} | {column.meaning} |"
            assert row in text, (name, key)


def test_nan_becomes_null_from_every_type_of_column() -> None:
    for data in (np.array([np.nan]), [float("nan")], pl.Series([np.nan])):
        table = frame(metrics.ECDF_COLUMNS, {"value": data, "share": [1.0]})
        assert table["value"].to_list() == [None]


def test_a_frame_must_have_its_columns() -> None:
    with pytest.raises(ValueError, match="share"):
        frame(metrics.ECDF_COLUMNS, {"value": [1.0]})
