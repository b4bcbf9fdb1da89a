"""Labels of Kubernetes nodes name the switches of each host, and are safe to run."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path

import pytest

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import FormatWarning
from weft.fabrics.formats.kubernetes import write
from weft.fabrics.topology import build


def labels(text: str) -> dict[str, dict[str, str]]:
    """Return the labels of each node."""
    head, *lines = text.splitlines()
    assert head == "#!/bin/sh"
    found = {}
    for line in lines:
        command, node, pairs = line.split()[:4], line.split()[4], line.split()[5:]
        assert command == ["kubectl", "label", "--overwrite", "node"]
        assert shlex.split(line) == line.split()
        found[node] = dict(pair.split("=") for pair in pairs)
    return found


def test_each_host_has_its_leaf_switch_and_those_above_it() -> None:
    fabric = build("xgft:3;2,2,2;1,1,1")
    prefix = "network.topology.nvidia.com/"
    found = labels(write(fabric))
    assert list(found) == [f"h{n}" for n in range(8)]
    for n in range(8):
        assert found[f"h{n}"] == {
            f"{prefix}leaf": f"s1-{n // 2}",
            f"{prefix}spine": f"s2-{n // 4}",
            f"{prefix}core": "s3-0",
        }
    tiers = labels(write(fabric, keys="tiers"))
    for node, switches in found.items():
        assert list(tiers[node]) == [f"fabric.topograph.run/tier-{n}" for n in range(3)]
        assert list(tiers[node].values()) == list(switches.values())


def test_the_documented_example_is_the_writers_output() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    assert "\n".join(write(build("xgft:2;3,2;1,2")).splitlines()[:2]) in page


def test_switches_that_are_made_up_for_slurm_are_no_label() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        found = labels(write(build("torus:3x3")))
    assert {len(switches) for switches in found.values()} == {1}


def test_a_fourth_tier_has_a_label_by_number_only() -> None:
    fabric = build("xgft:4;2,2,2,2;1,1,1,1")
    with pytest.warns(FormatWarning, match="1 of 4 tiers have no label"):
        write(fabric)
    assert {len(switches) for switches in labels(write(fabric, keys="tiers")).values()} == {4}


@pytest.mark.parametrize("name", ["A", "a_b", "$(reboot)", "a;b", "-x", "a..b"])
def test_names_that_kubernetes_refuses_are_left_out(name: str) -> None:
    fabric = build("xgft:1;2;1").renamed({0x100000: name})
    with pytest.warns(FormatWarning, match="1 host without labels"):
        assert list(labels(write(fabric))) == ["h1"]


def test_refusals() -> None:
    with pytest.raises(NotApplicable, match="accepts no name of a host"):
        write(build("xgft:1;2;1").renamed({0x100000: "A", 0x100002: "B"}))
    with pytest.raises(NotApplicable, match="'s_' is not a value of a label"):
        write(build("xgft:1;2;1").renamed({0x200000: "s_"}))
    with pytest.raises(NotApplicable, match="no host of f is cabled to a switch"):
        write(hostless())


def hostless() -> Fabric:
    maker = FabricBuilder("f")
    maker.connect(maker.switches(["a"]), maker.switches(["b"]))
    return maker.fabric()
