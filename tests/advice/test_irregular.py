"""Missing, degraded and uneven parts of a fabric, as `weft info` reports them."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.advice.compare import compare
from weft.advice.describe import describe
from weft.advice.faults import NAMED, fault_rows, fault_table, faults
from weft.cli import main
from weft.fabrics import FabricBuilder
from weft.fabrics.formats import read_file, write_fabric
from weft.fabrics.topology import build
from weft.report.comparison_page import write_comparison_page

TREE = "xgft:3;4,4,4;1,4,4;1,1,2"


def irregularities(fabric):
    return fault_rows(faults(fabric))


@pytest.mark.parametrize(
    ("spec", "cable", "name", "text"),
    [
        ("leaf-spine:leaves=8,spines=4,hosts=8,cables=2", "leaf2[10]", "missing cables (1)",
         "leaf2 -- spine0: 1 of 2"),
        ("leaf-spine:leaves=4,spines=2,hosts=3", "leaf2[4]", "missing cables (1)",
         "leaf2 -- spine0: 0 of 1"),
        (TREE, "s2-1[6]", "missing cables (1)", "s2-1 -- s3-0: 1 of 2"),
        ("torus:5x5", "s0.1[2]", "missing cables (1)", "s0.1 -- s1.1: 0 of 1"),
        ("mesh:6x6", "s1.2[2]", "missing cables (1)", "s1.2 -- s1.3: 0 of 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_missing_cable_is_named_by_its_ends(spec, cable, name, text, shuffled):
    fabric = build(spec)
    number = fabric.find_cable(cable)
    ends = {fabric.node_names[fabric.link_from[2 * number + end]] for end in (0, 1)}
    fabric = fabric.without(cables=[cable])
    ((heading, detail),) = irregularities(fabric.shuffled(3) if shuffled else fabric)
    assert heading == name
    first, _, second = detail.partition(":")[0].partition(" -- ")
    if shuffled:
        assert detail.partition(":")[2] == text.partition(":")[2]
        return
    assert {first, second} == ends
    assert detail.partition(":")[2] == text.partition(":")[2]


def test_a_missing_cable_is_named_beside_an_idle_leaf_or_hosts_on_a_spine():
    fabric = build("xgft:3;4,4,4;1,4,4")
    idle = [f"h{host}[1]" for host in range(4)]
    found = dict(irregularities(fabric.without(cables=["s2-1[5]", *idle])))
    assert found["missing cables (1)"] == "s2-1 -- s3-1: 0 of 1"
    builder = FabricBuilder("storage")
    low = builder.switches([f"leaf{i}" for i in range(6)])
    high = builder.switches(["spine0", "spine1"])
    builder.connect(low, high[[0] * 6])
    builder.connect(low[1:], high[[1] * 5])
    builder.connect(low.repeat(5), builder.hosts([f"h{i}" for i in range(30)]))
    builder.connect(high[:1], builder.hosts(["storage"]))
    assert irregularities(builder.fabric()) == [("missing cables (1)", "leaf0 -- spine1: 0 of 1")]


@pytest.mark.parametrize("cable", ["leaf2[10]", "leaf2[1]"])
def test_a_slow_cable_is_named_with_the_rate_of_its_peers(cable):
    fabric = build("leaf-spine:leaves=8,spines=4,hosts=8,cables=2").degraded([cable], "1xHDR")
    name = fabric.cable_name(fabric.find_cable(cable))
    assert irregularities(fabric) == [("degraded cables (1)", f"{name} at 1xHDR, not 4xHDR")]
    assert ("degraded cables (1)", f"{name} at 1xHDR, not 4xHDR") in describe(fabric)


@pytest.mark.parametrize("which", ["between groups", "within groups"])
def test_equally_slow_cables_of_one_kind_are_not_irregular(which):
    fabric = build("dragonfly:p=2,a=4,h=2")
    slow = []
    for cable in range(fabric.num_cables):
        ends = [fabric.node_names[end[2 * cable]] for end in (fabric.link_from, fabric.link_to)]
        if all(end.startswith("s") for end in ends):
            within = len({end.partition(".")[0] for end in ends}) == 1
            if within == (which == "within groups"):
                slow.append(cable)
    assert irregularities(fabric.degraded(slow, "4xEDR")) == []
    # If only two of these cables are slow, they are irregular.
    (entry,) = irregularities(fabric.degraded(slow[:2], "4xEDR"))
    assert entry[0] == "degraded cables (2)"


def test_a_slow_cable_beside_a_parallel_one_is_named():
    pair = build("leaf-spine:leaves=2,spines=1,hosts=2,cables=2").degraded(["leaf0[3]"], "4xSDR")
    assert "leaf0[3] -- spine0[1] at 4xSDR" in dict(irregularities(pair))["degraded cables (1)"]


def leaves(uplinks, rate_of_last="4xHDR", hosts_at="4xHDR"):
    """Build leaf switches with the given numbers of uplinks; n uplinks go to the first n spines."""
    builder = FabricBuilder("leaves")
    low = builder.switches([f"leaf{i}" for i in range(len(uplinks))])
    high = builder.switches([f"spine{i}" for i in range(max(uplinks))])
    for leaf, count in enumerate(uplinks):
        rate = rate_of_last if leaf == len(uplinks) - 1 else "4xHDR"
        builder.connect([low[leaf]] * count, high[:count], rate=rate)
    hosts = builder.hosts([f"h{i}" for i in range(3 * len(uplinks))])
    builder.connect(low.repeat(3), hosts, rate=hosts_at)
    return builder.fabric()


@pytest.mark.parametrize("cable", ["s1-2[3] -- s2-0[3]", "s2-1[4] -- s3-0[2]"])
def test_the_only_uplink_of_a_switch_is_compared_with_those_of_others(cable):
    fabric = build("xgft:3;2,3,4;1,1,1").degraded([cable.partition(" ")[0]], "1xHDR")
    assert irregularities(fabric) == [("degraded cables (1)", f"{cable} at 1xHDR, not 4xHDR")]


def test_leaf_switches_with_fewer_or_slower_uplinks_are_named():
    entries = irregularities(leaves([4, 4, 4, 4, 1]))
    assert entries == [("leaf switches with uneven uplinks (1)", "leaf4: 1 of 4 uplinks")]
    # A last leaf switch of an older generation has as many uplinks as the others, but slower ones.
    entries = irregularities(leaves([4, 4, 4, 4, 4], "4xEDR"))
    assert entries == [("leaf switches with uneven uplinks (1)", "leaf4: 400 of 800 Gb/s")]
    # Adapters that are all slower than the uplinks are not irregular.
    assert irregularities(leaves([4, 4, 4, 4], hosts_at="4xEDR")) == []
    # If all leaf switches differ, none is irregular.
    assert irregularities(leaves([1, 2, 3, 4])) == []


def test_only_the_first_few_are_named_and_all_are_counted():
    tree = build("leaf-spine:leaves=12,spines=8,hosts=4")
    missing = [f"leaf{i}[{5 + i % 8}]" for i in range(10)]
    ((name, text),) = irregularities(tree.without(cables=missing))
    assert name == "missing cables (10)"
    assert len(text.splitlines()) == NAMED + 1
    assert text.endswith(f"and {10 - NAMED} more")


def test_the_bundled_cluster_has_known_irregularities():
    example = Path(__file__).parents[2] / "examples" / "cluster.ibnetdiscover"
    assert irregularities(read_file(example)) == [
        ("degraded cables (1)", "spine3[3] -- leaf2[21] at 1xHDR, not 4xEDR"),
        ("missing cables (1)", "leaf3 -- spine2: 1 of 2"),
        ("leaf switches with uneven uplinks (1)", "leaf-storage: 4 of 8 uplinks"),
    ]


def test_adapters_of_a_real_cluster_at_the_full_speed_of_their_model_are_not_degraded(shared):
    entries = dict(irregularities(read_file(shared / "fabrics/psmn-x5.ibnetdiscover")))
    assert entries == {
        "leaf switches with uneven uplinks (2)":
            "S-0008f10500200b50: 2 of 4 switches above\n"
            "Voltaire 4036 # 4036-8BBA: 4 of 12 uplinks",
        "adapters without a host name (1)":
            "89 adapters: H-003048c707b60000, H-003048c748c60000, H-003048c74bb20000 and 86 more",
    }  # fmt: skip


def with_models(fabric, models):
    """Return the fabric with the device ids of some nodes."""
    device = np.zeros(fabric.num_nodes, dtype=np.uint32)
    for name, model in models.items():
        device[fabric.find_node(name)] = model
    return replace(fabric, device_id=device)


def test_adapters_are_compared_with_adapters_of_their_model():
    fabric = leaves([4, 4, 4, 4])
    slow = fabric.degraded(["h0[1]"], "4xEDR")
    assert [name for name, _ in irregularities(slow)] == ["degraded cables (1)"]
    # The only adapter of another model may be at its full speed.
    assert irregularities(with_models(slow, {"h0": 0x1003})) == []
    # Others of this model, at other switches, are faster.
    elsewhere = with_models(slow, {"h0": 0x1003, "h3": 0x1003, "h6": 0x1003})
    assert [name for name, _ in irregularities(elsewhere)] == ["degraded cables (1)"]
    # As are others at the same switch, even if more at another switch are as slow.
    here = with_models(
        fabric.degraded(["h0[1]", "h3[1]", "h4[1]", "h5[1]"], "4xEDR"),
        {"h0": 1, "h1": 1, "h2": 1, "h3": 1, "h4": 1, "h5": 1},
    )
    assert [name for name, _ in irregularities(here)] == ["degraded cables (1)"]


@pytest.mark.parametrize(
    ("models", "slow"),
    [
        (["h0", "h1"], ["h0"]), (["h0", "h1", "h3", "h4"], ["h0", "h1"]),
        (["h0", "h1", "h3", "h4"], ["h0", "h3"]),
    ],
)  # fmt: skip
def test_adapters_of_which_half_are_slow_are_not_degraded(models, slow):
    fabric = leaves([4, 4, 4, 4]).degraded([f"{name}[1]" for name in slow], "2xHDR")
    assert irregularities(with_models(fabric, dict.fromkeys(models, 9))) == []


def test_a_tie_at_a_switch_is_decided_by_the_same_model_at_others():
    fabric = leaves([4, 4, 4, 4]).degraded(["h0[1]"], "2xHDR")
    models = dict.fromkeys(["h0", "h1", "h3", "h4", "h5"], 9)
    ((name, text),) = irregularities(with_models(fabric, models))
    assert name == "degraded cables (1)"
    assert text.endswith("at 2xHDR, not 4xHDR")


def test_cables_between_switches_are_compared_by_model_and_level():
    """Uplinks to the only spine of an older model are as slow as that model."""
    fabric = leaves([4, 4, 4, 4])
    old = fabric.degraded([f"leaf{i}[2]" for i in range(4)], "4xEDR")
    assert irregularities(with_models(old, {"spine1": 0xBD36})) == []
    one = fabric.degraded(["leaf0[2]"], "4xEDR")
    for models in ({}, {f"spine{i}": 0xBD36 for i in range(4)}):
        assert [name for name, _ in irregularities(with_models(one, models))] == [
            "degraded cables (1)"
        ]


def test_one_adapter_of_a_model_is_not_degraded(shared):
    assert faults(read_file(shared / "cases/fdr_adapter_on_edr.ibnetdiscover")) == []


def test_every_missing_cable_is_a_row_with_its_ports(shared):
    table = fault_table(faults(read_file(shared / "cases/many_missing.ibnetdiscover")))
    assert table["kind"].to_list() == ["missing cable"] * 9
    assert table.rows()[6][2:8] == ("leaf6", 4, "spine1", 7, "0", "2")
    assert table.rows()[7][2:8] == ("leaf6", 7, "spine1", 15, "0", "2")


def test_ports_of_missing_cables_are_those_of_the_removed_ones():
    tree = build("leaf-spine:leaves=12,spines=8,hosts=4,cables=2")
    missing = [f"leaf{i}[{5 + i}]" for i in range(10)]
    ends = set()
    for port in missing:
        link = 2 * tree.find_cable(port)
        ends.add((tree.node_names[tree.link_from[link]], int(tree.link_from_port[link]),
                  tree.node_names[tree.link_to[link]], int(tree.link_to_port[link])))  # fmt: skip
    found = faults(tree.without(cables=missing))
    assert {(f.node, f.port, f.peer, f.peer_port) for f in found} == ends


def test_parallel_missing_cables_are_counted_one_by_one():
    tree = build("leaf-spine:leaves=24,spines=4,hosts=4,cables=3")
    ports = [f"leaf{i}[{5 + k}]" for i in range(8) for k in (0, 4)]
    ((name, text),) = irregularities(tree.without(cables=ports))
    assert name == "missing cables (16)"
    assert text.splitlines()[0] == "leaf0 -- spine0: 1 of 3"
    assert text.endswith(f"and {16 - 2 * NAMED} more")


def test_hosts_apart_from_the_others_are_errors():
    fabric = build("leaf-spine:leaves=3,spines=2,hosts=3").without(cables=["leaf2[4]", "leaf2[5]"])
    apart = [fault for fault in faults(fabric) if fault.kind == "disconnected host"]
    assert [fault.node for fault in apart] == ["h2.0", "h2.1", "h2.2"]
    assert {fault.severity for fault in apart} == {"error"}


def test_all_faults_are_listed_and_the_status_of_an_audit_tells_the_worst(tmp_path, capsys):
    tree = build("leaf-spine:leaves=12,spines=8,hosts=4")
    cut = tree.without(cables=[f"leaf{i}[{5 + i % 8}]" for i in range(10)])
    path, rows = str(tmp_path / "cut.ibnetdiscover"), tmp_path / "faults.csv"
    write_fabric(cut, path, "ibnetdiscover")
    assert main(["info", path]) == 0
    assert "and 4 more" in capsys.readouterr().out
    assert main(["info", path, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["faults"]) == 10
    assert len(result["fabric"]["missing cables"].splitlines()) == 10
    assert result["fabric"]["switch ports"] == "20 switches with 12 ports"
    assert main(["audit", path, "--findings", str(rows)]) == 1
    with rows.open() as stream:
        listed = list(csv.DictReader(stream))
    assert [int(row["port"]) for row in listed] == [fault["port"] for fault in result["faults"]]
    assert main(["audit", path, "--fail-on", "never"]) == 0
    # An uneven leaf switch may be intended: a warning.
    path = str(tmp_path / "uneven.ibnetdiscover")
    write_fabric(leaves([4, 4, 4, 4, 1]), path, "ibnetdiscover")
    for fail_on, status in (("error", 0), ("warning", 1), ("note", 1), ("never", 0)):
        assert main(["audit", path, "--fail-on", fail_on]) == status


def test_the_page_of_a_comparison_lists_all_faults(tmp_path):
    tree = build("leaf-spine:leaves=12,spines=8,hosts=2")
    cut = tree.without(cables=[f"leaf{i}[{3 + i % 8}]" for i in range(10)])
    result = compare(cut, ["minhop"], ["shift"], samples=2)
    page = tmp_path / "page.html"
    write_comparison_page(result, page)
    text = page.read_text()
    assert text.count("<td>missing cable</td>") == 10
    assert "10 parts differ from most of their peers" in text
