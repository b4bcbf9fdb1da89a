"""Racks and cable lengths: small fabrics by hand, and invariants of every plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.random_fabrics import random_fabric

from weft.advice.machine_room import CostPlan, RoomLayout, cables, cost
from weft.advice.machine_room.cost_plan import POSITION_COLUMNS, RACK_COLUMNS, SUMMARY_COLUMNS
from weft.advice.machine_room.equipment import equipment
from weft.advice.machine_room.room_options import UNIT_M
from weft.core.columns import Column
from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder, Parts
from weft.fabrics.load import fabric as load


def pair(rate: str = "4xHDR") -> Fabric:
    """Return hosts a and b on switch x, c and d on switch y, and a cable from x to y."""
    build = FabricBuilder("pair", rate=rate)
    switches = build.switches(["x", "y"], ports=8)
    hosts = build.hosts(["a", "b", "c", "d"])
    build.connect(hosts, switches.repeat(2))
    build.connect(switches[:1], switches[1:])
    return build.fabric()


def by_ends(result: CostPlan, column: str) -> dict[str, Any]:
    return {
        "".join(sorted(row["from_node"] + row["to_node"])): row[column]
        for row in result.cables.iter_rows(named=True)
    }


def positions(result: CostPlan) -> dict[str, tuple[str, int]]:
    return {name: (rack, unit) for name, _, rack, unit, _ in result.positions.rows()}


# -- by hand ---------------------------------------------------------------------------------------


def test_two_racks_by_hand() -> None:
    result = cost(pair(), rack_units=4)
    # A rack of 4U holds a switch on top and its two hosts below.
    assert positions(result) == {
        "x": ("A01", 4), "a": ("A01", 3), "b": ("A01", 2),
        "y": ("A02", 4), "c": ("A02", 3), "d": ("A02", 2),
    }  # fmt: skip
    # Cables to hosts span one U or two U. The cable between switches runs from the middle of U4 up
    # to the tray at 4U + 0.3 m, along it for 0.6 m, and down again. Every cable has 0.4 m of slack.
    near, next_to = 0.04445 + 0.4, 2 * 0.04445 + 0.4
    over = 2 * (0.5 * 0.04445 + 0.3) + 0.6 + 0.4
    assert by_ends(result, "route_m") == {
        "ax": round(near, 3), "cy": round(near, 3),
        "bx": round(next_to, 3), "dy": round(next_to, 3), "xy": round(over, 3),
    }  # fmt: skip
    assert over == pytest.approx(1.64445)
    assert by_ends(result, "length_m") == {"ax": 0.5, "bx": 0.5, "cy": 0.5, "dy": 0.5, "xy": 2.0}
    assert set(by_ends(result, "kind").values()) == {"copper"}
    cable = result.fabric.find_cable("x[3]")
    assert result.fabric.cable_length_m[cable] == 2.0
    assert result.fabric.cable_latency_ns[cable] == 10.0
    assert result.fabric.digest == pair().digest
    assert result.cable_m == 4.0


def test_a_cable_sold_in_exactly_the_needed_length_is_used() -> None:
    exact = (0.04445 + 0.4, 2 * 0.04445 + 0.4, 2 * (0.5 * 0.04445 + 0.3) + 0.6 + 0.4)
    for hair in (0.0, 5e-10, -5e-10):  # rounding errors
        sold = tuple(length + hair for length in exact)
        result = cost(pair(), layout=RoomLayout(rack_units=4, cable_lengths_m=sold))
        bought = result.fabric.cable_length_m
        assert sorted(bought) == sorted([sold[0]] * 2 + [sold[1]] * 2 + [sold[2]])
    short = cost(
        pair(), layout=RoomLayout(rack_units=4, cable_lengths_m=(exact[0] - 1e-6, *exact[1:]))
    )
    assert sorted(short.fabric.cable_length_m) == sorted([exact[1]] * 4 + [exact[2]])
    with pytest.raises(InputError, match="longest cable sold"):
        cost(pair(), layout=RoomLayout(rack_units=4, cable_lengths_m=(*exact[:2], exact[2] - 1e-6)))


def test_two_rows_by_hand() -> None:
    result = cost(pair(), rack_units=4, racks_per_row=1)
    assert result.racks["rack"].to_list() == ["A01", "B01"]
    assert result.racks["y_m"].to_list() == [0.0, 2.1]
    over = 2 * (0.5 * 0.04445 + 0.3) + 2.1 + 0.4
    assert by_ends(result, "route_m")["xy"] == round(over, 3) == 3.144
    assert by_ends(result, "length_m")["xy"] == 5
    assert by_ends(result, "kind")["xy"] == "optical"


@pytest.mark.parametrize(
    ("rate", "options", "kind"),
    [
        ("4xHDR", {}, "copper"),
        ("4xNDR", {}, "copper"),
        ("4xXDR", {}, "optical"),
        ("4xHDR", {"copper_m": 1.5}, "optical"),
        ("4xXDR", {"copper_m": 2}, "copper"),
        ("4xHDR", {"slack_m": 1.0}, "optical"),
        ("4xQDR", {"slack_m": 5.0}, "copper"),
    ],
)
def test_copper_reaches_as_far_as_the_rate_allows(
    rate: str, options: dict[str, Any], kind: str
) -> None:
    result = cost(pair(rate), rack_units=4, **options)
    assert by_ends(result, "kind")["xy"] == kind


def test_a_rate_without_a_name_has_four_lanes() -> None:
    fabric = pair().degraded(range(5), 800.0)
    assert cost(fabric, rack_units=4).cables["kind"].to_list().count("optical") == 1
    assert cost(fabric.degraded(range(5), 400.0), rack_units=4).cables["kind"].n_unique() == 1


def test_a_fabric_that_fits_into_one_rack_has_one() -> None:
    result = cost(load("xgft:2;2,2;1,1"))
    (rack,) = result.racks.rows(named=True)
    assert rack["role"] == "mixed"
    # From the top: the switch of the upper level, the leaves and the hosts, without gaps.
    order = [name for name, _ in sorted(positions(result).items(), key=lambda item: -item[1][1])]
    level = result.fabric.level
    assert [int(level[result.fabric.find_node(name)]) for name in order] == [2, 1, 1, 0, 0, 0, 0]
    assert rack["units_used"] == 7
    assert rack["units_free"] == 35
    assert rack["cables_within"] == 6
    assert rack["cables_out"] == 0


def test_summary_counts_by_hand() -> None:
    result = cost(pair(), rack_units=4)
    rows = {row["item"]: row for row in result.summary.iter_rows(named=True)}
    assert {item: row["count"] for item, row in rows.items()} == {
        "8-port switch": 2, "1-port host adapter": 4,
        "0.5 m copper 4xHDR": 4, "2 m copper 4xHDR": 1, "rack": 2,
    }  # fmt: skip
    assert rows["8-port switch"]["ports_used"] == 6
    assert rows["8-port switch"]["ports_free"] == 10
    assert rows["1-port host adapter"]["ports_free"] == 0
    assert result.summary["cost"].null_count() == len(rows)


# -- placement -------------------------------------------------------------------------------------


def test_switches_without_hosts_stand_in_the_middle_or_at_the_end() -> None:
    fabric = load("xgft:2;12,8;1,6")
    middle = cost(fabric, rack_units=13)
    # Eight racks of 13U for the leaves and one with six spines.
    assert middle.racks["role"].to_list().count("switches") == 1
    end = cost(fabric, rack_units=13, core="end", racks_per_row=9)
    assert end.racks["role"].to_list() == ["mixed"] * 8 + ["switches"]
    row = cost(fabric, rack_units=13, racks_per_row=9)
    assert row.racks["role"].to_list() == ["mixed"] * 4 + ["switches"] + ["mixed"] * 4
    assert row.cable_m < end.cable_m


def test_kns_routers_stand_beside_their_hosts_and_lines_at_the_row_ends() -> None:
    fabric = load("kns:k=6,n=2")
    result = cost(fabric, core="row-ends", racks_per_row=2, hosts_per_rack=12, order="number")
    assert result.leaves == "beside"
    assert result.racks["role"].to_list() == ["mixed", "switches"] * 3
    at = positions(result)
    for link in fabric.links[fabric.links["kind"] == 1]:
        host, router = fabric.node_names[link["from_node"]], fabric.node_names[link["to_node"]]
        assert at[host] == (at[router][0], at[router][1] - 1)
    # A line of the first dimension connects routers of one rack: the line's switch is in the row of
    # that rack.
    first = {name: at[name][0] for name in fabric.node_names if name.startswith("s0.")}
    for name, rack in first.items():
        node = fabric.find_node(name)
        routers = fabric.link_to[fabric.link_from == node]
        assert {at[fabric.node_names[router]][0][0] for router in routers} == {rack[0]}


def test_cellia_has_two_cabinets_of_nodes_and_one_of_switches() -> None:
    # Section 3.3 of the KNS paper: 8-port half-width switches, three cabinets, copper at QDR.
    fabric = load("kns:k=6,n=2,rate=4xQDR")
    result = cost(fabric, leaves="separate", hosts_per_rack=25, switches_per_unit=2)
    assert result.racks["role"].to_list() == ["hosts", "switches", "hosts"]
    assert result.racks["hosts"].to_list() == [25, 0, 11]
    assert result.racks["switches"].to_list() == [0, 48, 0]
    assert result.racks["units_used"].to_list() == [25, 24, 11]
    assert set(result.cables["kind"]) == {"copper"}


def test_hosts_per_rack_and_chassis() -> None:
    fabric = load("xgft:2;8,4;1,2")
    result = cost(fabric, hosts_per_rack=8)
    assert sorted(result.racks["hosts"]) == [0, 8, 8, 8, 8]
    dense = cost(fabric, hosts_per_rack=8, chassis_units=2, hosts_per_chassis=4)
    # A rack holds a switch of 1U and two chassis of 2U for eight hosts.
    assert sorted(dense.racks["units_used"]) == [2, 5, 5, 5, 5]
    hosts = dense.positions.filter(pl.col("kind") == "host")
    assert set(hosts["units"]) == {2}
    assert hosts.group_by("rack", "unit").len()["len"].to_list() == [4] * 8


def test_a_leaf_with_more_hosts_than_a_rack_stands_in_the_middle_of_them() -> None:
    result = cost(load("xgft:1;30;1"), rack_units=12)
    assert result.racks["hosts"].to_list() == [10, 10, 10]
    assert result.racks["switches"].to_list() == [0, 1, 0]


def test_a_switch_may_be_as_high_as_a_rack() -> None:
    result = cost(load("xgft:1;30;1"), rack_units=10, switch_units=10)
    assert result.racks["switches"].to_list() == [1, 0, 0, 0]
    assert result.racks["hosts"].to_list() == [0, 10, 10, 10]


def test_the_height_of_a_switch_grows_with_its_ports() -> None:
    fabric = load("xgft:1;100;1")
    result = cost(fabric, ports_per_unit=30, rack_units=40)
    switch = result.positions.filter(pl.col("kind") == "switch").row(0, named=True)
    assert switch["units"] == 4
    with pytest.raises(InputError, match=r"has 100 ports and needs 50 U, more than a rack of 42 U"):
        cost(fabric, ports_per_unit=2)


def test_multi_homed_hosts_stand_with_the_switch_of_their_first_port() -> None:
    fabric = load("bcube:k=4,n=2")
    result = cost(fabric, rack_units=5)
    at = positions(result)
    for host in fabric.host_nodes.tolist():
        link = fabric.port_link[fabric.port_offset[host]]
        home = fabric.node_names[fabric.link_to[link]]
        assert at[fabric.node_names[host]][0] == at[home][0]


def rails(described: dict[str, tuple[str, int]]) -> Fabric:
    """Return adapters of these descriptions and system GUIDs, cabled alternately to two leaves."""
    build = FabricBuilder("rails")
    switches = build.switches(["x", "y"], ports=8)
    adapters = build.hosts(list(described))
    build.connect(adapters, switches[np.arange(len(adapters)) % 2])
    build.connect(switches[:1], switches[1:])
    parts = build.parts()
    for node, (description, system) in zip(adapters, described.values(), strict=True):
        parts.descriptions[node] = description
        parts.system_guid[node] = system
    return Fabric.of(parts)


@pytest.mark.parametrize(
    ("described", "machines"),
    [
        # Adapters match by their host name; ports of a dual-port card match by their system GUID.
        ({"a": ("n1 mlx5_0", 0), "b": ("n1 mlx5_1", 0), "c": ("n2 mlx5_0", 0)}, ["ab", "c"]),
        ({"a": ("x", 7), "b": ("y", 7), "c": ("z", 8), "d": ("z", 0)}, ["ab", "c", "d"]),
        # Both rules apply: a and c match by their host name, b and c by their system GUID.
        ({"a": ("n1 HCA-1", 1), "b": ("?", 2), "c": ("n1 HCA-2", 2)}, ["abc"]),
        # Neither a name that many machines share nor an adapter model's name identifies a machine.
        ({"a": ("localhost mlx5_0", 0), "b": ("localhost mlx5_0", 0)}, ["a", "b"]),
        ({"a": ("MT4115 ConnectX", 0), "b": ("MT4115 ConnectX", 0)}, ["a", "b"]),
    ],
)
def test_adapters_of_one_machine_are_one_host(
    described: dict[str, tuple[str, int]], machines: list[str]
) -> None:
    result = cost(rails(described))
    hosts = result.positions.filter(pl.col("kind") == "host")
    spots = hosts.group_by("rack", "unit", maintain_order=True).agg(pl.col("node").str.join())
    assert spots["node"].to_list() == machines
    assert result.num_hosts == result.racks["hosts"].sum() == len(machines)
    # The rack holds two switches and one U per machine; every adapter is bought.
    assert result.racks["units_used"].to_list() == [2 + len(machines)]
    adapters = result.summary.filter(pl.col("category") == "adapter").row(0, named=True)
    assert adapters["count"] == len(described)
    head = result.text().splitlines()[0]
    several = len(machines) < len(described)
    hosts_text = f"{len(machines)} hosts" + f" with {len(described)} adapters" * several
    assert head == f"rails: {hosts_text}, 2 switches, {len(described) + 1} cables"


def test_a_machine_belongs_to_the_switch_that_most_of_its_cables_lead_to() -> None:
    # Machine n has two of its three adapters on x. Machine m has one on x and one on y: the first,
    # on x, counts.
    names = ["n HCA-1", "m HCA-1", "n HCA-2", "m HCA-2", "?", "n HCA-3"]
    switch = [1, 0, 0, 1, 1, 0]
    build = FabricBuilder("two")
    switches = build.switches(["x", "y"])
    build.connect(build.hosts(names), switches[switch])
    gear = equipment(build.fabric(), RoomLayout())
    nodes = dict(zip(names, gear.fabric.host_nodes.tolist(), strict=True))
    assert {name: gear.node_unit[node] for name, node in nodes.items()} == {
        "n HCA-1": 0, "n HCA-2": 0, "n HCA-3": 0, "m HCA-1": 0, "m HCA-2": 0, "?": 1,
    }  # fmt: skip
    assert [group.hosts for group in gear.groups] == [
        (nodes["n HCA-1"], nodes["m HCA-1"]), (nodes["?"],),
    ]  # fmt: skip
    # The cables between units are those from n and m to y.
    assert gear.unit_matrix().toarray().tolist() == [[0, 2], [2, 0]]


def test_rails_of_a_machine_run_from_its_place() -> None:
    # Four machines of two rails each fill two racks. Each machine is placed with the leaf of its
    # first rail, and both of its cables start at its own unit.
    names = [f"n{i // 2} mlx5_{i % 2}" for i in range(8)]
    result = cost(rails({name: (name, 0) for name in names}), rack_units=4, hosts_per_rack=2)
    assert sorted(result.racks["hosts"]) == [0, 2, 2]
    ends = result.cables.filter(pl.col("to_node").str.contains("mlx5")).select(
        "to_node", "to_rack", "to_unit"
    )
    other = result.cables.filter(pl.col("from_node").str.contains("mlx5")).select(
        to_node="from_node", to_rack="from_rack", to_unit="from_unit"
    )
    starts = {name: place for name, *place in [*ends.rows(), *other.rows()]}
    for i in range(4):
        assert starts[f"n{i} mlx5_0"] == starts[f"n{i} mlx5_1"]
    assert len({tuple(place) for place in starts.values()}) == 4


def chassis() -> Fabric:
    """Return switches x and y of one chassis with three cables, and an aggregation node."""
    build = FabricBuilder("chassis")
    switches = build.switches(["x", "y", "z"], ports=12)
    hosts = build.hosts([f"h{i}" for i in range(6)])
    build.connect(hosts, switches.repeat(2))
    build.connect(switches[:1], switches[1:2], cables=3)
    build.connect(switches[:1], switches[2:])
    sharp = build.hosts(["sharp"])
    build.connect(switches[:1], sharp)
    parts = build.parts()
    parts.kind[sharp] = 2
    parts.system_guid[switches[:2]] = 0xABC
    return Fabric.of(parts)


def test_cables_inside_a_chassis_are_not_bought() -> None:
    fabric = chassis()
    result = cost(fabric)
    inside = result.cables.filter(pl.col("kind") == "internal")
    assert len(inside) == 4
    assert set(inside["length_m"]) == {0.0}
    assert inside["number"].to_list() == list(range(8, 12))
    assert set(result.fabric.cable_latency_ns[inside["cable"].to_numpy()]) == {0.0}
    at = positions(result)
    assert at["x"] == at["y"] == at["sharp"] != at["z"]
    rows = {row["item"]: row for row in result.summary.iter_rows(named=True)}
    # 24 ports minus 7 ends of internal cables; the ports in use lead to four hosts and z.
    box = rows["17-port switch, 2 in one chassis"]
    assert (box["count"], box["ports_used"], box["ports_free"]) == (1, 5, 12)
    assert rows["connection inside a chassis or switch"]["count"] == 4
    assert result.racks["switches"].sum() == 2
    assert "7 (7 copper)" in result.text()


def test_known_lengths_are_kept() -> None:
    parts = Parts.of(pair())
    parts.length_m[:] = np.nan
    parts.length_m[0] = 12.5
    fabric = Fabric.of(parts)
    result = cost(fabric, rack_units=4)
    row = result.cables.filter(pl.col("cable") == 0).row(0, named=True)
    assert (row["length_m"], row["route_m"], row["kind"]) == (12.5, None, "optical")
    assert result.fabric.cable_length_m[0] == 12.5
    assert "1 known in advance and kept" in result.text()


# -- every plan ------------------------------------------------------------------------------------

SPECS = [
    "kary-n-tree:k=4,n=3", "xgft:2;4,4;1,2;1,2", "kns:k=4,n=2", "kns:k=16,n=2,s=2,d=8",
    "kns:k=4,n=2,router=adapter", "dragonfly:p=2,a=4,h=2", "torus:dims=4x4x2", "bcube:k=4,n=2",
    "jellyfish:switches=20,degree=5,hosts=3", "slimfly:q=5", "hypercube:n=4", "xgft:1;60;1",
]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {},
    {"leaves": "top", "rack_units": 20, "core": "end"},
    {"leaves": "beside", "rack_units": 10, "chassis_units": 2, "hosts_per_chassis": 4},
    {"leaves": "separate", "rack_units": 16, "switches_per_unit": 2, "hosts_per_rack": 7},
    {"leaves": "top", "rack_units": 12, "core": "row-ends", "switch_units": 2},
    {"leaves": "separate", "rack_units": 9, "core": "row-ends", "order": "cables"},
]


def check(fabric: Fabric, result: CostPlan, layout: RoomLayout) -> None:
    """Check every invariant of a plan from its frames alone."""
    assert sorted(result.cables["cable"]) == list(range(fabric.num_cables))
    assert result.cables["number"].to_list() == list(range(1, fabric.num_cables + 1))
    for row in result.cables.iter_rows(named=True):
        ends = {f"{row[e + '_node']}[{row[e + '_port']}]" for e in ("from", "to")}
        assert ends == set(fabric.cable_name(row["cable"]).split(" -- "))

    # Each unit of a rack holds at most one box, all boxes fit, and the racks list their contents.
    held: dict[tuple[str, int], set[tuple[int, int]]] = {}
    spots = result.positions.filter(pl.col("kind") != "auxiliary")
    assert len(spots) == fabric.num_switches + fabric.num_hosts
    for _, _, rack, unit, units in spots.rows():
        assert unit >= 1
        assert unit + units - 1 <= layout.rack_units
        for u in range(unit, unit + units):
            held.setdefault((rack, u), set()).add((unit, units))
    assert all(len(boxes) == 1 for boxes in held.values())
    for row in result.racks.iter_rows(named=True):
        taken = sum(rack == row["rack"] for rack, _ in held)
        assert row["units_used"] == taken <= layout.rack_units
        assert row["units_free"] == layout.rack_units - taken
        here = spots.filter(pl.col("rack") == row["rack"])
        assert (here["kind"] == "host").sum() == row["hosts"]
        assert layout.hosts_per_rack is None or row["hosts"] <= layout.hosts_per_rack
        shared = here.filter(pl.col("kind") == "host").group_by("unit").len()["len"].max() or 0
        assert shared <= layout.hosts_per_chassis
    assert result.racks["rack"].n_unique() == len(result.racks)
    assert set(spots["rack"]) == set(result.racks["rack"])

    # Recompute the length of each cable.
    at = {name: (rack, unit - 1 + units / 2) for name, _, rack, unit, units in spots.rows()}
    floor = {row["rack"]: (row["x_m"], row["y_m"]) for row in result.racks.iter_rows(named=True)}
    for row in result.cables.iter_rows(named=True):
        (rack_a, a), (rack_b, b) = at[row["from_node"]], at[row["to_node"]]
        if rack_a == rack_b:
            path_m = abs(a - b) * UNIT_M
        else:
            (xa, ya), (xb, yb) = floor[rack_a], floor[rack_b]
            up = 2 * layout.tray_m + (2 * layout.rack_units - a - b) * UNIT_M
            path_m = up + abs(xa - xb) + abs(ya - yb)
        assert row["route_m"] == pytest.approx(path_m + layout.slack_m, abs=6e-4)
        sold = [m for m in layout.cable_lengths_m if m >= path_m + layout.slack_m - 1e-6]
        assert row["length_m"] == sold[0]
    cables_of = result.summary.filter(pl.col("category") == "cable")
    assert cables_of["count"].sum() == fabric.num_cables
    switches = result.summary.filter(pl.col("category") == "switch")
    assert switches["count"].sum() == fabric.num_switches
    used = np.bincount(fabric.link_from, minlength=fabric.num_nodes)[: fabric.num_switches].sum()
    assert switches["ports_used"].sum() == used
    np.testing.assert_array_equal(
        result.fabric.cable_latency_ns, result.fabric.cable_length_m * 5.0
    )
    assert np.all(result.fabric.cable_length_m > 0)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_plan_is_sound(spec: str, options: dict[str, Any]) -> None:
    fabric = load(spec)
    result = cost(fabric, **options)
    check(fabric, result, RoomLayout(**options))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("options", OPTIONS[::2], ids=str)
def test_plans_of_random_fabrics_are_sound(seed: int, options: dict[str, Any]) -> None:
    fabric = random_fabric(seed, switches=9, hosts=25)
    check(fabric, cost(fabric, **options), RoomLayout(**options))


@pytest.mark.parametrize("spec", SPECS[:4])
def test_plans_of_shuffled_and_degraded_fabrics_are_sound(spec: str) -> None:
    fabric = load(spec).shuffled(3).with_faults(cables=5, switches=2, seed=1)
    check(fabric, cost(fabric), RoomLayout())


def test_the_plan_of_a_real_fabric_without_labels_is_sound(shared: Path) -> None:
    fabric = load(shared / "fabrics" / "psmn-x5.ibnetdiscover")
    result = cost(fabric)
    check(fabric, result, RoomLayout())
    assert result.text().count("\n") > 10


@pytest.mark.parametrize("spec", ["dragonfly:p=2,a=4,h=2", "torus:dims=4x4x2", "kns:k=4,n=2"])
def test_the_default_order_has_the_shortest_cables(spec: str) -> None:
    fabric = load(spec)
    options = {"rack_units": 12}
    names = ["number", "coordinates", "coordinates-reversed", "cables"]
    totals = {name: cost(fabric, order=name, **options).cable_m for name in names}
    best = cost(fabric, **options)
    assert best.cable_m == min(totals.values())
    assert totals[best.order] == best.cable_m


def test_connected_switches_and_hosts_share_racks_without_labels() -> None:
    # In each of six pods, three leaves share middle switches. Four hosts and a leaf take 5U, so a
    # rack of 15U holds the leaves of a pod. Shuffling scatters the pods, but cables reveal them.
    fabric = load("xgft:3;4,3,6;1,3,1")
    shuffled = fabric.shuffled(1)
    scattered = cost(shuffled, rack_units=15, order="number")
    result = cost(shuffled, rack_units=15, order="cables")
    ideal = cost(fabric, rack_units=15, order="number")
    assert result.cable_m < scattered.cable_m
    assert result.cable_m <= 1.1 * ideal.cable_m


def test_equal_input_gives_equal_plans() -> None:
    fabric = load("kns:k=4,n=2")
    one, two = cost(fabric), cost(fabric)
    for name in ("cables", "summary", "racks", "positions"):
        assert getattr(one, name).equals(getattr(two, name))
    assert one.text() == two.text()


def test_fabrics_of_only_switches_or_only_hosts_have_plans() -> None:
    build = FabricBuilder("bare")
    build.switches(["x", "y"], ports=4)
    result = cost(build.fabric())
    assert len(result.cables) == 0
    assert result.racks["switches"].to_list() == [2]
    assert "cables   0, 0 m" in result.text()

    build = FabricBuilder("hosts alone")
    a, b = build.hosts(["a", "b"], forwards=True)
    build.connect([a], [b])
    result = cost(build.fabric())
    check(build.fabric(), result, RoomLayout())


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rack_unit": 42}, r"a cost plan has no 'rack_unit' \(did you mean 'rack_units'\?\)"),
        ({"rack_units": 0}, "rack_units: 0 does not fit: expected 1 or more"),
        ({"rack_units": "many"}, "rack_units: 'many' does not fit"),
        (
            {"rack_units": 10**12},
            "rack_units: 1.* does not fit: expected 1000000 or less",
        ),
        ({"hosts_per_rack": 0}, "hosts_per_rack: 0 does not fit: expected 1 or more"),
        ({"slack_m": -1}, "slack_m: -1 does not fit: expected 0 or more"),
        ({"tray_m": float("nan")}, "tray_m: nan does not fit"),
        ({"rack_pitch_m": "1e308"}, "rack_pitch_m: .* does not fit: expected 1000000 or less"),
        ({"rack_pitch_m": "inf"}, "rack_pitch_m: .* does not fit: expected 1000000 or less"),
        ({"copper_m": -0.5}, "copper_m: -0.5 does not fit: expected 0 or more"),
        ({"leaves": "bottom"}, "leaves: 'bottom' does not fit"),
        ({"core": "roof"}, "core: 'roof' does not fit"),
        ({"cable_lengths_m": ()}, "cable_lengths_m must be lengths above 0 m"),
        ({"cable_lengths_m": "2,1"}, "cable_lengths_m must be lengths above 0 m"),
        ({"cable_lengths_m": "0,1"}, "cable_lengths_m must be lengths above 0 m"),
        ({"cable_lengths_m": "1,1e308"}, "cable_lengths_m must be lengths .* at most 1,000,000 m"),
        ({"cable_lengths_m": "1,x"}, "cable_lengths_m: .x. does not fit: expected a number"),
        ({"switch_units": 50}, "switch_units is 50, more than a rack of 42 U"),
        ({"chassis_units": 50}, "chassis_units is 50, more than a rack of 42 U"),
        ({"switch_units": 2, "switches_per_unit": 2}, "requires switch_units = 1"),
        ({"order": "coordinates"}, "pair has switches or hosts without coordinates"),
    ],
)
def test_bad_options_give_one_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        cost(pair(), **options)


def test_a_route_longer_than_any_cable_sold_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"cable x\[3\] -- y\[3\] needs 1\.6 m, but the longest cable sold is 1 m"
    ):
        cost(pair(), rack_units=4, cable_lengths_m="0.5,1")


def test_rows_too_short_for_racks_at_their_ends_are_refused() -> None:
    with pytest.raises(InputError, match="do not fit at the ends of rows of 1 racks"):
        cost(load("xgft:2;8,8;1,4"), rack_units=9, core="row-ends", racks_per_row=1)


def test_either_a_layout_or_its_options_are_accepted() -> None:
    layout = RoomLayout(rack_units=4)
    assert cost(pair(), layout=layout).layout == layout
    with pytest.raises(InputError, match="not both: rack_units"):
        cost(pair(), layout=layout, rack_units=5)
    assert RoomLayout(rack_units="40", cable_lengths_m="1,2.5") == replace(  # type: ignore[arg-type]
        RoomLayout(), rack_units=40, cable_lengths_m=(1.0, 2.5)
    )


def test_a_fabric_without_nodes_is_refused() -> None:
    with pytest.raises(InputError, match="neither switches nor hosts"):
        cost(FabricBuilder("empty").fabric())


# -- columns ---------------------------------------------------------------------------------------


def test_frames_have_the_documented_columns() -> None:
    result = cost(chassis())
    described: list[tuple[dict[str, Column], pl.DataFrame]] = [
        (cables.CABLE_COLUMNS, result.cables),
        (SUMMARY_COLUMNS, result.summary),
        (RACK_COLUMNS, result.racks),
        (POSITION_COLUMNS, result.positions),
    ]
    for columns, table in described:
        assert dict(table.schema) == {key: column.dtype() for key, column in columns.items()}
