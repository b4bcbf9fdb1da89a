"""Slurm topology files are trees; on a real cluster, leaves equal its administrators' leaves."""

from __future__ import annotations

import warnings
from itertools import chain
from pathlib import Path

import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import FormatWarning, read_file, write_fabric
from weft.fabrics.formats.hostlist import expand
from weft.fabrics.formats.slurm import write
from weft.fabrics.topology import build


def parse(text: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the nodes of each leaf switch, and the switches below each other switch."""
    nodes: dict[str, list[str]] = {}
    switches: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, children = line.split()
        key, _, value = children.partition("=")
        name = name.removeprefix("SwitchName=")
        assert name not in nodes
        assert name not in switches
        {"Nodes": nodes, "Switches": switches}[key][name] = expand(value)
    return nodes, switches


def check_tree(text: str) -> set[str]:
    """Assert Slurm's rules for trees; return the names of the top switches."""
    nodes, switches = parse(text)
    listed = [node for group in nodes.values() for node in group]
    assert len(listed) == len(set(listed))
    below = [child for group in switches.values() for child in group]
    assert len(below) == len(set(below)), "a switch has two parents"
    assert set(below) <= set(nodes) | set(switches)
    assert all(len(group) > 1 for group in switches.values())
    tops = (set(nodes) | set(switches)) - set(below)
    seen: set[str] = set()
    ahead = list(tops)
    while ahead:
        name = ahead.pop()
        seen.add(name)
        ahead += switches.get(name, [])
    assert seen == set(nodes) | set(switches), "a loop of switches"
    return tops


def quiet(fabric: Fabric, **options: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return write(fabric, **options)


def test_a_two_level_tree_has_a_line_per_leaf_switch_and_a_root() -> None:
    assert write(build("xgft:2;3,2;1,2")) == (
        "# topology.conf of xgft:2;3,2;1,2, by weft\n"
        "SwitchName=s1-0 Nodes=h[0-2]\n"
        "SwitchName=s1-1 Nodes=h[3-5]\n"
        "# s2-0 also represents s2-1\n"
        "SwitchName=s2-0 Switches=s1-[0-1]\n"
    )


def test_a_three_level_tree_keeps_its_pods() -> None:
    nodes, switches = parse(write(build("xgft:3;4,4,4;1,4,4")))
    assert len(nodes) == 16
    assert sorted(map(len, switches.values())) == [4] * 5
    assert check_tree(write(build("xgft:3;4,4,4;1,4,4"))) == {"s3-0"}


def test_the_real_cluster_has_the_administrators_leaves(shared: Path, tmp_path: Path) -> None:
    folder = shared / "fabrics"
    fabric = read_file(folder / "psmn-x5.ibnetdiscover", names=folder / "psmn-x5.node-name-map")
    target = tmp_path / "topology.conf"
    write_fabric(fabric, target)
    check_tree(target.read_text())
    nodes, switches = parse(target.read_text())
    theirs, their_switches = parse((folder / "psmn-x5.slurm-topology.conf").read_text())
    assert {leaf: sorted(group) for leaf, group in nodes.items()} == {
        leaf: sorted(group) for leaf, group in theirs.items()
    }
    # The administrators' file lists all neighbours of every upper switch, on any level. The leaf
    # switches that weft lists below a switch are among that switch's neighbours.
    for name, children in switches.items():
        reached = set(their_switches[name])
        assert {child for child in children if child in nodes} <= reached
    assert set(switches) <= set(their_switches)


def test_leaf_to_leaf_cables_are_left_out_with_a_warning() -> None:
    maker = FabricBuilder("triangle")
    switches = maker.switches(["a", "b", "c"], ports=8)
    maker.connect(switches, maker.hosts(["h1", "h2", "h3"]))
    maker.connect(switches, switches[[1, 2, 0]], cables=2)
    with pytest.warns(FormatWarning, match="6 cables not between successive tiers"):
        text = write(maker.fabric())
    assert "SwitchName=fabric Switches=a,b,c" in text
    assert check_tree(text) == {"fabric"}
    assert "SwitchName=top Switches=a,b,c" in quiet(maker.fabric(), root="top")


def test_each_disconnected_part_gets_a_root() -> None:
    maker = FabricBuilder("pieces")
    switches = maker.switches([f"s{i}" for i in range(5)], ports=8)
    maker.connect(switches, maker.hosts([f"h{i}" for i in range(5)]))
    maker.connect(switches[[0, 2]], switches[[1, 3]])
    text = quiet(maker.fabric())
    assert "SwitchName=fabric0 Switches=s[0-1]" in text
    assert "SwitchName=fabric1 Switches=s[2-3]" in text
    assert check_tree(text) == {"fabric0", "fabric1", "s4"}


def test_switches_whose_leaves_overlap_in_part_are_left_out() -> None:
    maker = FabricBuilder("overlap")
    leaves = maker.switches(["a", "b", "c"], ports=8)
    upper = maker.switches(["x", "y", "z"], ports=8)
    maker.connect(leaves, maker.hosts(["h1", "h2", "h3"]))
    maker.connect(upper[[0, 0, 1, 1, 2]], leaves[[0, 1, 1, 2, 2]])
    with pytest.warns(FormatWarning) as caught:
        text = write(maker.fabric())
    assert "1 switch above only one leaf: z" in str(caught[0].message)
    assert "1 switch whose leaves overlap in part with another's: y" in str(caught[0].message)
    assert check_tree(text) == {"fabric"}
    assert "SwitchName=x Switches=a,b\n" in text


def test_switches_above_nested_sets_of_leaves_form_a_tree() -> None:
    maker = FabricBuilder("nested")
    leaves = maker.switches(["a", "b", "c", "d", "e"], ports=8)
    upper = maker.switches(["all", "two"], ports=8)
    maker.connect(leaves, maker.hosts(["h1", "h2", "h3", "h4", "h5"]))
    maker.connect(upper[[0, 0, 0, 0, 0, 1, 1]], leaves[[0, 1, 2, 3, 4, 0, 1]])
    text = write(maker.fabric())
    assert "SwitchName=two Switches=a,b\n" in text
    assert "SwitchName=all Switches=c,d,e,two\n" in text
    assert check_tree(text) == {"all"}


@pytest.mark.parametrize("hosts", ["", "spine1"])
def test_missing_cables_and_hosts_on_a_spine_leave_all_leaves_under_one_switch(hosts: str) -> None:
    maker = FabricBuilder("uplinks")
    leaves = maker.switches([f"leaf{i}" for i in range(4)], ports=8)
    spines = maker.switches([f"spine{i}" for i in range(3)], ports=8)
    maker.connect(leaves.repeat(2), maker.hosts([f"h{i}" for i in range(8)]))
    for leaf in range(4):
        for spine in range(3):
            if (leaf, spine) not in {(1, 2), (2, 0), (3, 1)}:
                maker.connect(leaves[[leaf]], spines[[spine]])
    if hosts:
        maker.connect(spines[[1]], maker.hosts(["storage"]))
    text = write(maker.fabric())
    nodes, switches = parse(text)
    assert switches == {"spine0": sorted([*nodes], key=lambda name: (name[:4] != "leaf", name))}
    assert nodes.get("spine1", []) == (["storage"] if hosts else [])
    assert check_tree(text) == {"spine0"}


def test_hosts_on_several_switches_are_listed_once() -> None:
    fabric = build("xgft:2;4,4;2,2")
    with pytest.warns(FormatWarning, match="further leaf switches of 16 hosts"):
        text = write(fabric)
    nodes, _ = parse(text)
    assert sorted(chain(*nodes.values())) == sorted(fabric.host_names)
    check_tree(text)


def test_adapters_of_one_host_are_one_node() -> None:
    fabric = build("xgft:1;3;1").renamed(
        {0x100000: "n1 HCA-1", 0x100002: "n1 HCA-2", 0x100004: "n2 mlx5_0"}
    )
    assert "Nodes=n[1-2]\n" in write(fabric)


def test_names_that_slurm_cannot_take_become_guids() -> None:
    fabric = build("xgft:1;2;1").renamed({0x200000: "a # b", 0x100000: "x y"})
    assert write(fabric).endswith("SwitchName=S-0000000000200000 Nodes=H-0000000000100000,h1\n")


def test_hosts_without_a_switch_cause_a_warning() -> None:
    fabric = build("xgft:2;2,2;1,1").without(cables=["h0[1]"])
    with pytest.warns(FormatWarning, match="1 host without a cable to a switch: h0"):
        nodes, _ = parse(write(fabric))
    assert [*chain(*nodes.values())] == ["h1", "h2", "h3"]


def test_a_second_plane_is_left_out_with_a_warning() -> None:
    maker = FabricBuilder("planes")
    switches = maker.switches(["a", "b"], ports=4)
    hosts = maker.hosts(["h1", "h2"], ports=2)
    maker.connect(switches[[0, 0, 1, 1]], hosts[[0, 1, 0, 1]])
    with pytest.warns(FormatWarning) as caught:
        assert write(maker.fabric()).endswith("SwitchName=a Nodes=h[1-2]\n")
    assert "1 switch without a path to a leaf: b" in str(caught[0].message)


def test_refusals() -> None:
    maker = FabricBuilder("pair")
    maker.connect(maker.hosts(["a"]), maker.hosts(["b"]))
    with pytest.raises(NotApplicable, match="no host of pair is cabled to a switch"):
        write(maker.fabric())
    with pytest.raises(InputError, match="not a name that Slurm accepts"):
        write(build("xgft:1;2;1"), root="a b")
    fabric = build("xgft:1;2;1").renamed({0x200000: "fabric"})
    assert "SwitchName=fabric Nodes" in write(fabric)
    maker = FabricBuilder("f")
    switches = maker.switches(["fabric", "b"])
    maker.connect(switches, maker.hosts(["h1", "h2"]))
    maker.connect(switches[:1], switches[1:])
    with pytest.raises(NotApplicable, match="choose another root"):
        quiet(maker.fabric())


def test_files_of_faulty_trees_are_trees() -> None:
    tree = build("xgft:3;3,3,3;1,3,3")
    for seed in range(10):
        fabric = tree.with_faults(cables=20, switches=6, seed=seed)
        try:
            text = quiet(fabric)
        except NotApplicable:
            continue
        check_tree(text)


def test_the_documented_example_is_the_writers_output() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    assert write(build("xgft:3;3,3,2;1,2,2")).partition("\n")[2] in page
