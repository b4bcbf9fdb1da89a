"""Slurm's topology.yaml is valid by Slurm's rules, and both of its files are read as Slurm does."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import FormatWarning, write_fabric
from weft.fabrics.formats import slurm as module
from weft.fabrics.formats.hostlist import expand
from weft.fabrics.formats.read_write import read_file
from weft.fabrics.formats.slurm import (
    is_topologies,
    parse_topologies,
    read_topologies,
    write,
    write_yaml,
)
from weft.fabrics.topology import build


def loaded(fabric: Fabric, **options: Any) -> dict[str, Any]:
    """Return the topologies that are written, by name, as any YAML library reads them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        items = yaml.safe_load(write_yaml(fabric, **options))
    for item in items:
        assert list(item)[:2] == ["topology", "cluster_default"]
        assert len(item) == 3
    assert [item["cluster_default"] for item in items] == [True] + [False] * (len(items) - 1)
    return {item["topology"]: item[list(item)[2]] for item in items}


def blocks_by_slurms_rules(block: dict[str, Any]) -> dict[str, list[str]]:
    """Return the nodes of blocks, after the checks that Slurm's plugin makes when it starts."""
    base, *others = block["block_sizes"]
    assert base > 0
    for size in others:
        times = size // base
        assert times * base == size
        assert times in [2**level for level in range(16)]
    names = [each["block"] for each in block["blocks"]]
    assert len(set(names)) == len(names)
    nodes = {each["block"]: expand(each["nodes"]) for each in block["blocks"]}
    assert all(len(set(group)) >= base for group in nodes.values())
    every = [node for group in nodes.values() for node in group]
    assert len(every) == len(set(every))
    return nodes


TREES = ["xgft:2;3,2;1,2", "xgft:3;4,4,4;1,4,4", "torus:3x3", "dragonfly:a=4,g=5,h=1,p=2"]


@pytest.mark.parametrize("spec", TREES)
def test_the_tree_is_that_of_topology_conf(spec: str) -> None:
    fabric = build(spec)
    switches = loaded(fabric)["tree"]["switches"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        lines = [line.split() for line in write(fabric).splitlines() if line[0] != "#"]
    keys = {"nodes": "Nodes", "children": "Switches"}
    assert lines == [
        [f"SwitchName={each['switch']}", *(f"{keys[k]}={each[k]}" for k in each if k in keys)]
        for each in switches
    ]


def test_blocks_are_the_hosts_below_each_switch_of_a_tier() -> None:
    fabric = build("xgft:3;3,4,2;1,2,2")
    leaves = blocks_by_slurms_rules(loaded(fabric, topologies=("block",))["block"])
    assert list(leaves.values()) == [[f"h{3 * n + k}" for k in range(3)] for n in range(8)]
    assert loaded(fabric, topologies=("block",))["block"]["block_sizes"] == [3, 12, 24]
    pods = loaded(fabric, topologies=("block",), tier=2)["block"]
    assert [len(group) for group in blocks_by_slurms_rules(pods).values()] == [12, 12]
    whole = loaded(fabric, topologies=("block",), tier=3)["block"]
    assert len(blocks_by_slurms_rules(whole)) == 1


def test_a_block_size_stands_for_blocks_below_one_switch() -> None:
    """Slurm joins blocks in the order of the file, so each group of them has a switch above it."""
    fabric = build("xgft:3;2,4,4;1,1,1").shuffled(seed=3)
    leaf = {}
    for link in range(fabric.num_links):
        if fabric.link_from[link] >= fabric.num_switches:
            leaf[fabric.node_names[fabric.link_from[link]]] = int(fabric.link_to[link])
    up = {}
    for name in leaf:
        heads = fabric.link_to[fabric.link_from == leaf[name]].tolist()
        [up[leaf[name]]] = [n for n in heads if n < fabric.num_switches]
    block = loaded(fabric, topologies=("block",))["block"]
    assert block["block_sizes"] == [2, 8, 32]
    groups = list(blocks_by_slurms_rules(block).values())
    for first in range(0, 16, 4):
        hosts = [host for group in groups[first : first + 4] for host in group]
        assert len({up[leaf[host]] for host in hosts}) == 1


def test_no_size_is_made_up_where_pods_differ() -> None:
    maker = FabricBuilder("uneven")
    leaves = maker.switches([f"s{i}" for i in range(5)], ports=8)
    tops = maker.switches(["a", "b", "top"], ports=8)
    maker.connect(leaves.repeat(2), maker.hosts([f"h{i}" for i in range(10)]))
    maker.connect(tops[[0, 0, 1, 1, 1]], leaves)
    maker.connect(tops[[0, 1]], tops[[2, 2]])
    assert loaded(maker.fabric(), topologies=("block",))["block"]["block_sizes"] == [2]
    # With one leaf switch of a pod left, consecutive blocks are not those of the other pods.
    fabric = build("xgft:3;2,2,3;1,2,2").without(switches=["s1-3"])
    assert loaded(fabric, topologies=("block",))["block"]["block_sizes"] == [2]


def test_blocks_below_the_base_size_are_left_out() -> None:
    maker = FabricBuilder("small")
    leaves = maker.switches(["a", "b", "c"], ports=8)
    top = maker.switches(["top"], ports=8)
    maker.connect(leaves[[0, 0, 0, 1, 1, 2]], maker.hosts([f"h{i}" for i in range(6)]))
    maker.connect(leaves, top.repeat(3))
    options: dict[str, Any] = {"topologies": ("block",), "block_sizes": (2, 4)}
    with pytest.warns(FormatWarning, match="1 block with fewer than 2 nodes, of 1 node in all"):
        text = write_yaml(maker.fabric(), **options)
    [item] = yaml.safe_load(text)
    assert blocks_by_slurms_rules(item["block"]) == {"a": ["h0", "h1", "h2"], "b": ["h3", "h4"]}
    assert item["block"]["block_sizes"] == [2, 4]
    with pytest.raises(NotApplicable, match="no block has the 9 nodes"):
        write_yaml(maker.fabric(), topologies=("block",), block_sizes=(9,))


def test_hosts_that_do_not_compute_are_in_no_block() -> None:
    """Slurm does not count nodes that it does not know, and refuses blocks that are then small."""
    tree = build("xgft:2;2,3;1,1")
    guids = tree.node_guid[tree.host_nodes].tolist()
    fabric = tree.renamed({guids[0]: "oss1", guids[2]: "login1", guids[3]: "login2"})
    with pytest.warns(FormatWarning, match="3 hosts of other roles than compute are in no block"):
        text = write_yaml(fabric, topologies=("block",))
    [item] = yaml.safe_load(text)
    assert blocks_by_slurms_rules(item["block"]) == {"s1-0": ["h1"], "s1-2": ["h4", "h5"]}
    assert item["block"]["block_sizes"] == [1, 2]
    everything = dict(zip(guids, [f"oss{n}" for n in range(6)], strict=True))
    with pytest.raises(NotApplicable, match="no host computes"):
        loaded(tree.renamed(everything), topologies=("block",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_sizes": (0,)}, "block size 0; expected 1 or more"),
        ({"block_sizes": (4, 12)}, "block size 12 is not a power of two"),
        ({"block_sizes": (4, 4)}, "block size 4 is not larger than 4"),
        ({"block_sizes": (1, 2**16)}, "block size 65536 is not a power of two"),
        ({"tier": 0}, "tier 0; expected 1 or more"),
        ({"topologies": ()}, "one or more kinds, each once"),
        ({"topologies": ("tree", "tree")}, "one or more kinds, each once"),
        ({"root": "a b"}, "not a name that Slurm accepts"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_yaml(build("xgft:1;2;1"), **options)


def test_faulty_trees_have_valid_blocks_and_a_top_for_each_part() -> None:
    tree = build("xgft:3;3,3,3;1,3,3")
    for seed in range(10):
        fabric = tree.with_faults(cables=25, switches=7, seed=seed)
        for tier in (1, 2):
            found = loaded(fabric, topologies=("tree", "block"), tier=tier)
            inside = blocks_by_slurms_rules(found["block"])
            nodes = {
                node
                for each in found["tree"]["switches"]
                if "nodes" in each
                for node in expand(each["nodes"])
            }
            assert {node for group in inside.values() for node in group} == nodes


def test_parts_that_no_cable_joins_have_no_common_top() -> None:
    maker = FabricBuilder("two")
    switches = maker.switches(["a", "b"], ports=4)
    maker.connect(switches.repeat(2), maker.hosts([f"h{i}" for i in range(4)]))
    assert [each["switch"] for each in loaded(maker.fabric())["tree"]["switches"]] == ["a", "b"]


def test_names_that_yaml_takes_for_something_else_stay_names() -> None:
    fabric = build("xgft:1;4;1").renamed(
        {0x200000: "1e3", 0x100000: "007", 0x100002: "true", 0x100004: "null", 0x100006: "0x1F"}
    )
    found = loaded(fabric, topologies=("tree", "block"))
    [switch] = found["tree"]["switches"]
    assert switch["switch"] == "1e3"
    assert sorted(expand(switch["nodes"])) == ["007", "0x1F", "null", "true"]
    assert found["block"]["blocks"][0]["block"] == "1e3"
    [tree, _] = parse_topologies(write_yaml(fabric, topologies=("tree", "block")), "f")
    assert sorted(tree.nodes) == ["007", "0x1F", "null", "true"]


def test_the_documented_example_is_the_writers_output() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    text = write_yaml(build("xgft:2;3,2;1,2"), topologies=("block",))
    assert text.partition("\n")[2] in page


# -- reading ---------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    fabric = build("xgft:3;2,4,4;1,2,2")
    path = tmp_path / "topology.yaml"
    write_fabric(fabric, path, topologies=("block", "tree", "flat"))
    block, tree, flat = read_topologies(path)
    assert [each.topology for each in (block, tree, flat)] == ["block", "tree", "flat"]
    assert [each.cluster_default for each in (block, tree, flat)] == [True, False, False]
    assert block.block is not None
    assert block.block.block_sizes == (2, 8, 32)
    assert tree.nodes == block.nodes == [f"h{n}" for n in range(32)]
    assert flat.nodes == []
    write_fabric(fabric, tmp_path / "topology.conf")
    [conf] = read_topologies(tmp_path / "topology.conf")
    assert conf.tree is not None
    assert tree.tree is not None
    assert [(s.name, s.nodes, s.children) for s in conf.tree.switches] == [
        (s.name, s.nodes, s.children) for s in tree.tree.switches
    ]
    text = path.read_text().splitlines()
    for switch in tree.tree.switches:
        assert text[switch.line - 1] == f'    - switch: "{switch.name}"'
    # Keys may be in any order, and then the kind of the file is still known.
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text())))
    assert path.read_text().startswith("- block:")
    assert is_topologies(path.read_text())
    assert [each.nodes for each in read_topologies(path)] == [block.nodes, tree.nodes, []]
    with pytest.raises(InputError, match="is a topology file of Slurm"):
        read_file(path)


def test_topology_conf_is_read_as_slurm_does() -> None:
    text = (
        "# comment\n\nswitchname=s0 NODES=n[1-2],x  linkspeed=100 # more\n"
        'SwitchName="s1" \\\n  Nodes=n3\nSwitchName=top Switches=s[0-1]\nSwitchName=idle\n'
    )
    [topology] = parse_topologies(text, "f")
    assert topology.tree is not None
    assert [(s.name, s.nodes, s.children, s.line) for s in topology.tree.switches] == [
        ("s0", ("n1", "n2", "x"), (), 3),
        ("s1", ("n3",), (), 4),
        ("top", (), ("s0", "s1"), 6),
        ("idle", (), (), 7),
    ]
    [topology] = parse_topologies("BlockName=b Nodes=n[1-4]\nBlockSizes=2,4\n", "f")
    assert topology.block is not None
    assert topology.block.block_sizes == (2, 4)
    assert topology.nodes == ["n1", "n2", "n3", "n4"]


TREE = "- topology: a\n  tree:\n    switches:\n    - switch: s\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (TREE + "      nodez: n[1-3]\n", 4, "nodez: unknown key"),
        (TREE + "      nodes: n[1-\n", 4, "brackets do not match"),
        (TREE + "      nodes: [n1, n2]\n", 4, "expected a host list"),
        (TREE + "      line: 3\n", 4, "unknown key line"),
        (TREE + "    - nodes: n1\n", 5, "switch: is missing"),
        ("- topology: a\n  tree:\n    switches: []\n", 3, "expected one item or more"),
        ("- topology: a\n  flat: true\n  tree: {}\n", 3, "switches: is missing"),
        ("- topology: a\n", 1, "expected one of tree, block, flat"),
        (TREE + "  flat: true\n", 1, "expected one of tree, block, flat"),
        ("- topology: a\n  topology: b\n  flat: true\n", 1, "a key is there twice"),
        ("- topology: a\n  cluster_default: maybe\n  flat: true\n", 1, "expected true or false"),
        ("- topology: a\n  block:\n    block_sizes: [x]\n    blocks:\n    - block: b\n", 3,
         "whole number"),
        ("topology: a\n", 1, "expected a list"),
        ("[]\n", None, "expected one item or more"),
        ("- topology: a\n  tree: [\n", 3, "is not valid YAML"),
        ("- &a topology\n- *a\n", 2, "has an alias of YAML"),
        ("[" * 30 + "]" * 30, 1, "is nested too deeply"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", 1, "switches and blocks"),
        ("SwitchName=a Nodes=n1 what\n", 1, "expected key=value, found 'what'"),
        ("SwitchName=a Nodes=n1 nodes=n2\n", 1, "a key is there twice"),
        ("SwitchName=a\nSwitchName=b Node=n1\n", 2, "node: unknown key"),
        ("SwitchName=a Nodes=n[1-9\n", 1, "brackets do not match"),
        ("BlockName=b Nodes=n1\nBlockSizes=4,x\n", 1, "whole number"),
        ("BlockSizes=4\n", 1, "expected one item or more"),
        ("Include other.conf\nSwitchName=a\n", 1, "expected key=value"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_refused_by_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_topologies(text, "f")
    assert (caught.value.file, caught.value.line) == ("f", line)


def test_many_ranges_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HOSTS", 100)
    text = "".join(f"SwitchName=s{n} Nodes=a{n}n[1-60]\n" for n in range(2))
    with pytest.raises(InputError, match="at most 100 names in a file"):
        parse_topologies(text, "f")


def test_without_pyyaml_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InputError, match=r"pip install 'weft\[yaml\]'"):
        parse_topologies("- topology: a\n", "f")
    assert write_yaml(build("xgft:1;2;1"))
    assert parse_topologies("SwitchName=a\n", "f")
