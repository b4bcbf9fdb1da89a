"""Missing, degraded and uneven parts of a fabric, as `weft info` reports them."""

from pathlib import Path

import pytest

from weft.advice.describe import describe
from weft.advice.irregular import NAMED, irregularities
from weft.fabrics import FabricBuilder
from weft.fabrics.formats import read_file
from weft.fabrics.topology import build

TREE = "xgft:3;4,4,4;1,4,4;1,1,2"


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


def test_a_real_cluster_has_known_irregularities(shared):
    entries = dict(irregularities(read_file(shared / "fabrics/psmn-x5.ibnetdiscover")))
    assert entries == {
        "degraded cables (2)":
            "Voltaire 4036 # 4036-8BBA[11] -- H-003048c74e4a0000[1] at 4xDDR, not 4xQDR\n"
            "Voltaire 4036 # 4036-8BBA[29] -- H-003048c7488b0000[1] at 4xDDR, not 4xQDR",
        "leaf switches with uneven uplinks (2)":
            "S-0008f10500200b50: 2 of 4 switches above\n"
            "Voltaire 4036 # 4036-8BBA: 4 of 12 uplinks",
    }  # fmt: skip
