"""Prediction of OpenSM's tables after a failure; `tests/oracle` compares it with OpenSM itself."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.judged import Judged
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.reroute import opensm_reroute
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.subnet.live.opensm_conf import torus_text


def tables(fabric: Fabric, engine: str = "minhop:balance=opensm") -> TableRoutes:
    routes = route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    return routes


TREE = load("xgft:2;4,4;1,4")


@pytest.mark.parametrize("engine", ["minhop", "dor"])
def test_entries_stay_that_still_lead_on_shortest_paths(engine: str) -> None:
    before = tables(TREE)
    after = TREE.without(cables=["s1-0[5]"])
    routes = opensm_reroute(TREE, before, after, engine)
    graph, hops = after.graph, after.graph.hops().astype(int)
    rows = np.arange(graph.num_rows)
    for destination, goal in enumerate(graph.destination_row):
        ports = before.table[destination]
        links = graph.row_link[graph.row_base[:-1] + ports]
        nearer = (links >= 0) & (hops[goal][graph.link_row[links]] == hops[goal] - 1)
        stays = nearer | (rows == goal)
        assert np.array_equal(routes.table[destination] == ports, stays)
    assert not np.array_equal(routes.table, tables(after).table)
    assert validate(after, routes).ok


def test_a_repair_makes_all_entries_anew() -> None:
    after = TREE.without(cables=["s1-0[5]"])
    routes = opensm_reroute(after, tables(after), TREE, "minhop")
    assert np.array_equal(routes.table, tables(TREE).table)


def test_tables_depend_on_the_order_of_failures() -> None:
    ports = ["s1-0[5]", "s1-1[6]"]
    start, both = tables(TREE), TREE.without(cables=ports)
    results = [opensm_reroute(TREE, start, both, "minhop")]
    for port in ports:
        first = TREE.without(cables=[port])
        between = opensm_reroute(TREE, start, first, "minhop")
        results.append(opensm_reroute(first, between, both, "minhop"))
    assert all(validate(both, result).ok for result in results)
    assert len({result.table.tobytes() for result in results}) == 3


@pytest.mark.parametrize("lmc", [0, 1])
def test_switches_out_of_reach_keep_their_tables(lmc: int) -> None:
    before = tables(TREE, f"minhop:balance=opensm;lmc={lmc}")
    leaf = TREE.find_node("s1-0")
    after = TREE.without(cables=[f"s1-0[{port}]" for port in range(5, 9)])
    routes = opensm_reroute(TREE, before, after, "minhop")
    assert np.array_equal(routes.table[:, leaf], before.table[:, leaf])
    lines = np.repeat(after.graph.destination_row == leaf, 1 << lmc)
    assert (routes.table[lines][:, np.arange(after.num_switches) != leaf] == 255).all()
    inside = opensm_reroute(TREE, before, after, "minhop", sm=TREE.node_names[TREE.host_nodes[0]])
    others = np.arange(after.num_switches) != leaf
    assert np.array_equal(inside.table[:, others], before.table[:, others])


@pytest.mark.parametrize("engine", ["minhop", "updn", "dnup", "dor", "sssp", "dfsssp", "ftree"])
def test_a_part_that_is_cut_off_changes_nothing_in_the_rest(engine: str) -> None:
    fabric = load("xgft:2;4,8;1,4").shuffled(3)
    leaf = int(fabric.graph.destination_row[0])
    links = (fabric.link_from == leaf) & (fabric.link_kind == 0)
    cut = fabric.without(cables=(np.flatnonzero(links) // 2).tolist())
    gone = fabric.without(switches=[leaf])
    parts = [opensm_reroute(fabric, tables(fabric), after, engine) for after in (cut, gone)]
    ours, theirs = parts[0].on(cut, gone).table, parts[1].table
    assert np.array_equal(ours, theirs)


def test_a_repair_out_of_reach_changes_nothing() -> None:
    lost = ["s1-1[6]", *(f"s1-0[{port}]" for port in range(5, 9))]
    apart, less = TREE.without(cables=lost), TREE.without(cables=[*lost, "s1-0[1]"])
    routes = opensm_reroute(TREE, tables(TREE), less, "minhop")
    again = opensm_reroute(less, routes, apart, "minhop")
    assert np.array_equal(again.table, routes.on(less, apart).table)
    assert not np.array_equal(again.table, tables(apart).table)


def test_the_file_engine_changes_nothing() -> None:
    before = tables(TREE, "dmodk")
    after = TREE.without(cables=["s1-0[5]"], switches=["s2-3"])
    routes = opensm_reroute(TREE, before, after, "file")
    kept = [TREE.find_node(name) for name in after.node_names[: after.num_switches]]
    lines = np.r_[: TREE.num_endpoints, TREE.num_endpoints + np.array(kept)]
    assert np.array_equal(routes.table, before.table[lines][:, kept])
    assert validate(after, routes).num_unrouted_pairs > 0


@pytest.mark.parametrize(
    ("engine", "used"),
    [("ftree", "minhop"), ("updn", "updn"), ("dnup", "dnup"), ("sssp", "sssp"),
     ("dfsssp:max_vls=1", "dfsssp")],
)  # fmt: skip
def test_an_engine_that_refuses_falls_back_to_minhop(engine: str, used: str) -> None:
    fabric = load("xgft:3;4,4,4;1,2,2")
    cable = int(np.flatnonzero(fabric.link_kind[::2] == 0)[-1])
    after = fabric.without(cables=[cable])
    routes = opensm_reroute(fabric, tables(fabric), after, engine)
    assert routes.engine == used
    assert bool(routes.refusals) == (used == "minhop")
    assert validate(after, routes).ok_where_connected


def test_a_fallback_keeps_entries_of_the_other_engine() -> None:
    fabric = load("xgft:3;4,4,4;1,2,2")
    cable = int(np.flatnonzero(fabric.link_kind[::2] == 0)[-1])
    after, before = fabric.without(cables=[cable]), tables(fabric, "ftree")
    routes = opensm_reroute(fabric, before, after, "ftree")
    changed = np.count_nonzero(routes.table != before.table)
    assert changed < np.count_nonzero(tables(after).table != before.table) / 2


def test_dfsssp_with_too_few_lanes_keeps_entries_too() -> None:
    fabric = load("torus:5x5x5").shuffled(0)
    before = tables(fabric, "dfsssp:balance=opensm")
    assert before.engine == "minhop"
    after = fabric.without(cables=[0])
    routes = opensm_reroute(fabric, before, after, "dfsssp")
    assert routes.engine == "minhop"
    changed = np.count_nonzero(routes.table != before.table)
    assert 0 < changed < routes.table.size / 100


def test_an_engine_without_lmc_falls_back() -> None:
    before = tables(TREE, "minhop:balance=opensm;lmc=1")
    after = TREE.without(cables=["s1-0[5]"])
    routes = opensm_reroute(TREE, before, after, "ftree")
    assert (routes.engine, routes.lmc) == ("minhop", 1)
    assert "does not support LMC 1" in routes.refusals[0][1]


@pytest.mark.parametrize("engine", ["lash", "nue"])
def test_engines_with_other_tables_say_so(engine: str) -> None:
    after = TREE.without(cables=["s1-0[5]"])
    routes = opensm_reroute(TREE, tables(TREE), after, engine)
    assert "the entries of OpenSM's differ" in routes.notes[-1]


def test_judged_hosts_do_not_change_the_tables() -> None:
    few = Judged(",".join(TREE.host_names[:3])).of(TREE)
    after = few.without(cables=["s1-0[5]"])
    routes = opensm_reroute(few, tables(few), after, "minhop")
    whole = opensm_reroute(TREE, tables(TREE), TREE.without(cables=["s1-0[5]"]), "minhop")
    assert np.array_equal(np.sort(routes.table, axis=0), np.sort(whole.table, axis=0))
    routes.check(after)


def test_a_torus_whose_seed_failed_is_not_predicted(tmp_path: Path) -> None:
    torus, conf = load("torus:5x5,hosts=1"), tmp_path / "torus-2QoS.conf"
    conf.write_text(torus_text(torus))
    seeds = [
        int(np.flatnonzero(torus.node_guid == int(guid, 16))[0])
        for guid in re.findall("0x[0-9a-f]+", conf.read_text())[::4]
    ]
    engine = f"torus-2QoS:conf={conf}"
    before = tables(torus, f"{engine};balance=opensm")
    with pytest.raises(NotApplicable, match="lost its seeds"):
        opensm_reroute(torus, before, torus.without(switches=seeds), engine)
    off = np.flatnonzero(np.isin(torus.link_from, seeds[:1]) & (torus.link_kind == 0)) // 2
    for left in (torus.without(switches=seeds[:1]), torus.without(cables=off.tolist())):
        assert opensm_reroute(torus, before, left, engine).engine == "torus-2QoS"
    after = torus.without(cables=[int(np.flatnonzero(torus.link_kind[::2] == 0)[-1])])
    assert opensm_reroute(torus, before, after, engine).engine == "torus-2QoS"
    with pytest.raises(InputError, match="qos_level"):
        opensm_reroute(torus, before, after, "torus-2QoS:qos_level=2")


def test_wrong_input_is_refused() -> None:
    after = TREE.without(cables=["s1-0[5]"])
    before = tables(TREE)
    with pytest.raises(InputError, match="OpenSM has no engine dmodk"):
        opensm_reroute(TREE, before, after, "dmodk")
    for option in ("balance=flows", "lmc=1"):
        with pytest.raises(InputError, match="OpenSM's minhop has "):
            opensm_reroute(TREE, before, after, f"minhop:{option}")
    with pytest.raises(InputError, match="another fabric"):
        opensm_reroute(after, before, TREE, "minhop")
    with pytest.raises(InputError, match="no node"):
        opensm_reroute(TREE, before, after, "minhop", sm="nobody")


def test_tables_that_differ_from_run_to_run_are_not_predicted() -> None:
    build = FabricBuilder("joined")
    spines, leaves = build.switches(["a", "b"]), build.switches(["c", "d", "e"])
    for spine in spines:
        for leaf in leaves:
            build.connect([spine], [leaf])
    build.connect(leaves[:1], leaves[1:2])
    for number, leaf in enumerate(leaves):
        build.connect([leaf] * 3, build.hosts([f"h{number}.{k}" for k in range(3)]))
    fabric = build.fabric()
    with pytest.raises(NotApplicable, match="run to run"):
        opensm_reroute(fabric, tables(fabric), fabric.without(cables=[0]), "ftree")
