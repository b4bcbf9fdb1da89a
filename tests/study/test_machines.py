"""Runs that describe machines: engines, parts, cost, and results of the levels."""

import polars as pl
import pytest

from weft.advice.machine_room import Prices
from weft.core.errors import InputError, NotApplicable, OutOfMemory
from weft.fabrics.topology.sizing import machines_for
from weft.study.machines import (
    HIGHER,
    LOWER,
    MACHINE_COLUMNS,
    MachineRun,
    _of_routes,
    describe_machine,
    fabric_figures,
    routed,
)

TREE = "xgft:2;4,4;1,2,rate=4xNDR"


def test_a_tree_by_hand():
    found = describe_machine(MachineRun(TREE))
    assert found.keys() == MACHINE_COLUMNS.keys()
    assert found["engine"] == "dmodk"
    assert (found["hosts"], found["switches"], found["ports"], found["cables"]) == (16, 6, 6, 24)
    assert found["copper_cables"] + found["optical_cables"] == 24
    assert found["diameter"] == 4
    # Three hosts are at 2 hops, the other twelve at 4.
    assert found["mean_hops"] == pytest.approx((3 * 2 + 12 * 4) / 15)
    # Four cables separate two pairs of leaf switches with eight hosts each.
    assert found["bisection"] == 0.5
    # 4 * 12 flows leave a leaf switch over two cables; a host sends 15 flows.
    assert found["uniform"] == pytest.approx(15 / 24)
    assert found["makespan_ns"] is found["saturation"] is found["cost"] is None


def test_throughput_is_what_hosts_send_over_time():
    # Every host sends 1 MiB to the host of the next leaf switch: two flows on each cable up.
    run = MachineRun("xgft:2;4,4;1,2,rate=100", workload="pattern:pattern=shift,offset=4,size=1MiB")
    found = describe_machine(run)
    expected_ns = 2 * 8 * 2**20 / 100
    assert found["makespan_ns"] == pytest.approx(expected_ns, rel=0.02)
    assert found["throughput_gbps"] == pytest.approx(8 * 2**20 / found["makespan_ns"])


@pytest.mark.parametrize(
    ("routing", "engines"),
    [
        ("static", {
            "fat-tree-1:1": "ftree", "fat-tree-2:1": "ftree", "fat-tree-3:1": "ftree",
            "torus": "torus-2QoS", "hyperx": "dor", "kns": "hdor", "dragonfly": "dfsssp",
            "megafly": "dfsssp", "slim-fly": "dfsssp", "jellyfish": "dfsssp",
        }),
        ("adaptive", {
            "fat-tree-1:1": "ecmp", "fat-tree-2:1": "ecmp", "fat-tree-3:1": "ecmp",
            "torus": "ecmp", "hyperx": "ugal", "kns": "ecmp", "dragonfly": "ugal",
            "megafly": "ecmp", "slim-fly": "ugal", "jellyfish": "ugal",
        }),
    ],
)  # fmt: skip
def test_every_machine_has_valid_routes_of_the_engine_that_suits_it(routing, engines):
    machines, _ = machines_for(41, 16, "4xNDR")
    found = {
        each.name: describe_machine(MachineRun(each.spec, routing=routing)) for each in machines
    }
    assert {name: row["engine"] for name, row in found.items()} == engines
    assert {row["routing"] for row in found.values()} == {routing}
    assert all(1 <= row["lanes"] <= 8 for row in found.values())


def test_an_engine_without_valid_routes_is_refused():
    with pytest.raises(NotApplicable, match="minhop: its routes are not valid"):
        describe_machine(MachineRun("torus:5x5", engine="minhop"))
    with pytest.raises(NotApplicable, match="not a fat tree"):
        describe_machine(MachineRun("torus:5x5", engine="dmodk"))


def test_prices_give_cost_and_power(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(
        'currency = "EUR"\n[[switch]]\nports = 8\nprice = 100\npower_w = 10\n'
        "[[adapter]]\nprice = 20\n"
    )
    found = describe_machine(MachineRun(TREE, prices=Prices.read(file)))
    assert (found["cost"], found["power_w"]) == (6 * 100 + 16 * 20, 60)
    assert found["cost_per_host"] == pytest.approx((6 * 100 + 16 * 20) / 16)


@pytest.mark.parametrize(
    ("routing", "engine", "policy"), [("static", "dmodk", None), ("adaptive", "ecmp", "adaptive")]
)
@pytest.mark.parametrize(("found", "expected"), [((0.4, 0.5, 0.45), 0.45), ((1.0, None, None), 1)])
def test_saturation_is_that_of_the_search_or_full_load(
    found, expected, routing, engine, policy, monkeypatch
):
    def search(fabric, routes, **options):
        assert (fabric.num_hosts, routes.engine) == (16, engine)
        assert options == {
            "level": "packet", "resolution": 0.05, "seed": 3, "processes": 1, "policy": policy,
        }  # fmt: skip
        names = ("sustained_load", "saturated_load", "saturation_load")
        return pl.DataFrame([found], schema=dict.fromkeys(names, pl.Float64), orient="row")

    monkeypatch.setattr("weft.study.machines.saturation_load", search)
    run = MachineRun(TREE, saturation="packet", routing=routing, seed=3)
    assert describe_machine(run)["saturation"] == expected


@pytest.mark.parametrize(
    ("step", "what", "left"),
    [
        ("cost", "lengths and costs of cables", {"cable_m", "copper_cables", "optical_cables"}),
        ("hops", "hops", {"diameter", "mean_hops"}),
        ("bisection_upper_bound", "bisection", {"bisection"}),
        ("route", "routes, and figures that need them",
         {"routing", "engine", "lanes", "uniform", "ebb", "contention_free_ns", "makespan_ns",
          "throughput_gbps"}),
        ("simulate", "times", {"contention_free_ns", "makespan_ns", "throughput_gbps"}),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_is_named_and_the_rest_is_there(step, what, left, monkeypatch):
    def refuse(*_, **options):
        raise OutOfMemory(f"{step} would take 1 TiB")

    run = MachineRun("torus:4x4", workload="allreduce:size=64KiB")
    whole = describe_machine(run)
    for cached in (routed, fabric_figures, _of_routes):
        cached.cache_clear()
    monkeypatch.setattr(f"weft.study.machines.{step}", refuse)
    found = describe_machine(run)
    for cached in (routed, fabric_figures, _of_routes):
        cached.cache_clear()
    given, reason = found.pop("not_computed").split(": ")
    assert given == what
    assert f"{step} would take 1 TiB" in reason
    assert whole.pop("not_computed") is None
    assert {name for name in whole if whole[name] != found[name]} == left


@pytest.mark.parametrize(("left_s", "known"), [((1e-9,), False), ((60, 1e-9), True)])
def test_a_simulation_that_would_take_too_long_does_not_begin(left_s, known, monkeypatch):
    left = iter(left_s)
    monkeypatch.setattr("weft.study.machines.time_left", lambda: next(left))
    monkeypatch.setattr("weft.sim.simulate.SMALL", 0)
    found = describe_machine(MachineRun(TREE, workload="allreduce:size=64KiB"))
    reason = "times: the simulation would take less than 1 s, 0 s are left"
    assert (found["not_computed"], found["engine"]) == (reason, "dmodk")
    assert (found["contention_free_ns"] is not None) == known
    assert found["makespan_ns"] is found["throughput_gbps"] is None


def test_a_run_does_not_depend_on_the_runs_before_it():
    first = MachineRun(TREE, workload="allreduce:size=64KiB", seed=1)
    before = describe_machine(first)
    describe_machine(MachineRun("ring:4", workload="allreduce:size=64KiB"))
    assert describe_machine(first) == before


def test_a_wrong_workload_is_an_error():
    with pytest.raises(InputError, match="allredcue"):
        describe_machine(MachineRun(TREE, workload="allredcue:size=1KiB"))


def test_what_is_better_is_a_column():
    assert set(LOWER) | set(HIGHER) < MACHINE_COLUMNS.keys()
    assert not set(LOWER) & set(HIGHER)
