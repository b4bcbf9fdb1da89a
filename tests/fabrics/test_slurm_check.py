"""A check of Slurm's files finds each planted fault, and nothing in what weft writes."""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path

import pytest
from tests.topology_examples import SPECS

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import FormatWarning, read_file
from weft.fabrics.formats.hostlist import expand
from weft.fabrics.formats.slurm import parse_topologies, read_topologies, write, write_yaml
from weft.fabrics.formats.slurm_check import SlurmFinding, check_topologies
from weft.fabrics.topology import build

TREE = "xgft:3;3,2,2;1,2,2"


def findings(text: str, fabric: Fabric) -> list[SlurmFinding]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return check_topologies(parse_topologies(text, "f"), fabric)


def written(fabric: Fabric) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return write(fabric)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("spec", SPECS)
def test_what_weft_writes_agrees_with_the_fabric(spec: str) -> None:
    fabric = build(spec)
    try:
        assert findings(written(fabric), fabric) == []
    except NotApplicable:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        text = write_yaml(fabric, topologies=("tree", "block", "flat"))
    assert findings(text, fabric) == []


def test_what_weft_writes_of_faulty_trees_agrees_with_them() -> None:
    tree = build("xgft:3;3,3,3;1,3,3")
    for seed in range(20):
        fabric = tree.with_faults(cables=25, switches=7, seed=seed)
        assert findings(written(fabric), fabric) == []


def test_each_moved_host_is_named() -> None:
    """Hosts are moved at random; each one that has left the majority of its line is reported."""
    fabric = build("xgft:3;6,3,2;1,2,2")
    lines = written(fabric).splitlines()
    leaves = [at for at, line in enumerate(lines) if "Nodes=" in line]
    for seed in range(30):
        rng = random.Random(seed)
        source, target = rng.sample(range(len(leaves)), 2)
        moved = rng.sample(range(6 * source, 6 * source + 6), rng.randint(1, 2))
        texts = list(lines)
        for leaf in (source, target):
            hosts = [n for n in range(6 * leaf, 6 * leaf + 6) if n not in moved]
            hosts += moved if leaf == target else []
            name = texts[leaves[leaf]].split()[0]
            texts[leaves[leaf]] = f"{name} Nodes={','.join(f'h{n}' for n in hosts)}"
        [finding] = findings("\n".join(texts), fabric)
        assert finding.severity == "warning"
        assert finding.line == leaves[target] + 1
        text, _, hosts = finding.text.rpartition(": ")
        assert text == f"s1-{target}: cabled to s1-{source}, unlike most hosts there"
        assert expand(hosts) == [f"h{n}" for n in sorted(moved)]


CASES = {
    "a host that is gone": (
        r"Nodes=h\[0-2\]", "Nodes=h[0-2],h99", "warning",
        "s1-0: not in xgft:3;3,2,2;1,2,2: h99",
    ),
    "a host left out": (
        r"Nodes=h\[0-2\]", "Nodes=h[0-1]", "warning",
        "1 host of xgft:3;3,2,2;1,2,2 not listed: h2",
    ),
    "a host listed twice": (
        r"Nodes=h\[3-5\]", "Nodes=h[2-5]", "warning", "s1-1: also listed at s1-0: h2",
    ),
    "leaf switches of two pods exchanged": (
        r"(Switches=)s1-\[0-1\](.*Switches=)s1-\[2-3\]", r"\1s1-[0,2]\2s1-[1,3]", "note",
        "s2-0: nothing in the fabric is above just its leaf switches s1-[0,2]",
    ),
    "no top": (
        r"SwitchName=s3-0.*\n", "", "warning",
        "no line joins what cables join, and Slurm runs no job across it: s2-[0,2]",
    ),
    "a loop": (
        r"Switches=s1-\[0-1\]", "Switches=s1-[0-1],s3-0", "error",
        "no tree: a loop of switches, or more than 20 levels: s2-0,s3-0",
    ),
    "a switch below itself": (
        r"Switches=s1-\[0-1\]", "Switches=s1-[0-1],s2-0", "error",
        "no tree: a loop of switches, or more than 20 levels: s2-0,s3-0",
    ),
    "a switch that is not listed": (
        r"Switches=s1-\[0-1\]", "Switches=s1-[0-1],s9", "error",
        "s2-0: s9 is no switch of the file",
    ),
    "a switch of two parents": (
        r"Switches=s2-\[0,2\]", "Switches=s1-1,s2-[0,2]", "warning",
        "s1-1 is below several switches: s2-0,s3-0",
    ),
    "nodes and switches": (
        r"Nodes=h\[0-2\]", "Nodes=h[0-2] Switches=s1-1", "error",
        "s1-0 lists nodes and switches; Slurm takes one of them",
    ),
    "a switch there twice": (
        r"\Z", "SwitchName=s1-1\n", "error", "s1-1 is there twice",
    ),
    "an upper switch there twice": (
        r"\Z", "SwitchName=s3-0 Switches=s2-0\n", "error", "s3-0 is there twice",
    ),
    "a long name": (
        r"\Z", f"SwitchName={'x' * 65}\n", "error", f"{'x' * 65} is longer than 64 characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_fault_is_found(case: str) -> None:
    pattern, new, severity, text = CASES[case]
    fabric = build(TREE)
    file = written(fabric)
    changed = re.sub(pattern, new, file, count=1, flags=re.DOTALL if "two pods" in case else 0)
    assert changed != file
    found = findings(changed, fabric)
    assert (severity, text) in [(each.severity, each.text) for each in found]
    errors = [each.text for each in found if each.severity == "error"]
    assert errors == ([text] if severity == "error" else [])


def test_a_top_that_joins_what_no_cable_joins_is_an_error() -> None:
    maker = FabricBuilder("two")
    switches = maker.switches(["a", "b"], ports=4)
    maker.connect(switches.repeat(2), maker.hosts([f"h{i}" for i in range(4)]))
    text = "SwitchName=a Nodes=h[0-1]\nSwitchName=b Nodes=h[2-3]\nSwitchName=t Switches=a,b\n"
    found = findings(text, maker.fabric())
    assert [(each.severity, each.line) for each in found] == [("error", 3), ("note", 3)]
    assert found[0].text == "t joins switches without a path: a, b"
    blocks = "BlockName=x Nodes=h[0,2]\nBlockName=y Nodes=h[1,3]\n"
    found = findings(blocks, maker.fabric())
    assert [(each.severity, each.line) for each in found] == [
        ("error", 1), ("error", 2), ("note", 1), ("note", 1),
    ]  # fmt: skip
    assert found[2].text == "the hosts of a are in several blocks: x,y"


def test_blocks_that_slurm_refuses() -> None:
    fabric = build("xgft:2;4,2;1,1")
    text = "BlockName=a Nodes=h[0-3]\nBlockName=b Nodes=h[4-6]\nBlockName=b Nodes=h7\n"
    assert [each[:2] for each in findings(text + "BlockSizes=4,12\n", fabric)] == [
        ("error", "block size 12 is not a power of two, up to 2^15, times the base 4"),
        ("error", "b has 3 nodes, fewer than the base 4"),
        ("error", "b is there twice"),
        ("error", "b has 1 node, fewer than the base 4"),
        ("note", "the hosts of s1-1 are in several blocks: b"),
    ]


def test_topologies_of_one_name() -> None:
    text = "- topology: a\n  flat: true\n- topology: a\n  flat: true\n"
    assert findings(text, build("xgft:1;2;1")) == [("error", "another topology is named 'a'", 3)]


def test_what_is_not_checked_is_said() -> None:
    text = "- topology: a\n  ring:\n    rings: []\n"
    [finding] = findings(text, build("xgft:1;2;1"))
    assert finding.severity == "note"
    assert finding.text == "topology 'a' is not checked: it is neither a tree nor blocks"


def test_hosts_that_do_not_compute_may_be_absent() -> None:
    fabric = build("xgft:1;3;1").renamed({0x100000: "oss1", 0x100002: "node2"})
    found = findings("SwitchName=leaf Nodes=h2\n", fabric)
    assert [(each.severity, each.text.rpartition(": ")[2]) for each in found] == [
        ("warning", "node2"), ("note", "oss1"),
    ]  # fmt: skip


def test_hosts_are_known_by_any_of_their_names() -> None:
    fabric = build("xgft:1;3;1").renamed({0x100000: "n1 HCA-1", 0x100002: "n1 HCA-2"})
    assert findings("SwitchName=leaf Nodes=n1,h2\n", fabric) == []
    assert findings("SwitchName=leaf Nodes=H-0000000000100000,h2\n", fabric) == []


def test_the_file_of_a_real_cluster_has_a_loop(shared: Path) -> None:
    """Its administrators listed all neighbours of each upper switch, also those on its level."""
    folder = shared / "fabrics"
    fabric = read_file(folder / "psmn-x5.ibnetdiscover", names=folder / "psmn-x5.node-name-map")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        found = check_topologies(read_topologies(folder / "psmn-x5.slurm-topology.conf"), fabric)
    assert [each.line for each in found if each.severity == "error"] == [3]
    assert found[0].text.startswith("no tree: a loop of switches")
    # All hosts are listed, and at the right switches.
    assert {each.text.split(" is below ")[1][:7] for each in found[1:]} == {"several"}
