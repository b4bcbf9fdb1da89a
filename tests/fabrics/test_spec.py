"""The syntax of topology specs."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.fabrics import FabricBuilder, LinkKind
from weft.fabrics.topology import build, closed_form, format_spec, topology


@pytest.mark.parametrize(
    ("spec", "family", "expected"),
    [
        ("fat-tree:k=8", "fat-tree", {"k": "8"}),
        ("fat-tree:8", "fat-tree", {"k": "8"}),
        (" fat-tree : k = 8 ", "fat-tree", {"k": "8"}),
        ("k-ary-fat-tree:8", "fat-tree", {"k": "8"}),
        ("dragonfly+:p=1,leaves=2", "megafly", {"p": "1", "leaves": "2"}),
        ("cellia", "cellia", {}),
        ("cellia:", "cellia", {}),
        (
            "xgft:3;6,6,6;1,6,6",
            "xgft",
            {"h": "3", "m": ["6", "6", "6"], "w": ["1", "6", "6"]},
        ),
        (
            "pgft:h=2,m=4,4,w=1,2,p=1,2",
            "xgft",
            {"h": "2", "m": ["4", "4"], "w": ["1", "2"], "p": ["1", "2"]},
        ),
        ("torus:4x4x4", "torus", {"dims": ["4", "4", "4"]}),
        ("torus:4,4,4", "torus", {"dims": ["4", "4", "4"]}),
        ("torus:dims=4x4,hosts=2", "torus", {"dims": ["4", "4"], "hosts": "2"}),
        ("torus:4x4;hosts=2", "torus", {"dims": ["4", "4"], "hosts": "2"}),
        ("kns:6;2;rate=4xEDR", "kns", {"k": "6", "n": "2", "rate": "4xEDR"}),
        ("hyperx:4x4;1,2", "hyperx", {"S": ["4", "4"], "K": ["1", "2"]}),
    ],
)
def test_specs_are_split_into_family_and_arguments(spec, family, expected):
    entry, arguments = topology.parse(spec)
    assert (entry.name, arguments) == (family, expected)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "unknown topology ''"),
        ("fat-tree:\nk=4", "is not a topology; expected one line"),
        ("fattree:k=4", "unknown topology 'fattree' (did you mean 'fat-tree'?)"),
        ("fat-tree:k=4,k=8", "k is given twice"),
        ("fat-tree:4;k=8", "k is given twice"),
        ("fat-tree:k=", "'k=' is not a key=value pair"),
        ("fat-tree:=4", "'=4' is not a key=value pair"),
        ("fat-tree:4k=4", "'4k=4' is not a key=value pair"),
        ("fat-tree:k=4,,hosts=2", ": empty argument"),
        ("fat-tree:4;", ": empty argument"),
        ("fat-tree:4;2", "unexpected positional argument '2'; fat-tree takes k"),
        (
            "kns:6,2",
            "one value, not the 2 of '6,2'; separate arguments by semicolons, as in kns:6;2",
        ),
        ("torus:hosts=2,4x4", "hosts takes one value, not the 2 of '2,4x4'"),
        ("fat-tree:k=4,pods=2", "no option 'pods'; it takes k, hosts, cables"),
        ("fat-tree:k=4,cable=2", "(did you mean 'cables'?)"),
        ("fat-tree", "topology 'fat-tree' needs k"),
        ("kns", "topology 'kns' needs k, n"),
        ("fat-tree:k=four", "option k: 'four' does not fit"),
        ("fat-tree:k=4.5", "option k: '4.5' does not fit"),
        ("torus:4xx4", "option dims"),
        ("fat-tree:k=4,rate=fast", "unknown rate 'fast'"),
        ("fat-tree:k=4,rate=-1", "a rate in Gb/s must be a finite number above 0, not -1.0"),
        ("fat-tree:k=4,host_rate=0", "a rate in Gb/s must be a finite number above 0, not 0.0"),
        ("fat-tree:k=" + "9" * 5000, "option k"),
    ],
)
def test_malformed_specs_are_refused_with_one_line(spec, reason):
    with pytest.raises(InputError) as error:
        build(spec)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_rates_are_set_for_all_cables_and_for_those_to_hosts():
    fabric = build("leaf-spine:leaves=2,spines=2,hosts=2,rate=4xNDR,host_rate=25")
    host = fabric.link_kind[0::2] != LinkKind.SWITCH_SWITCH
    assert set(fabric.cable_rate_gbps[host].tolist()) == {25.0}
    assert set(fabric.cable_rate_gbps[~host].tolist()) == {400.0}
    assert fabric.name == "leaf-spine:leaves=2,spines=2,hosts=2,rate=4xNDR,host_rate=25"


def test_parameters_hold_the_defaults_too():
    fabric = build("kns:k=3,n=2")
    assert fabric.parameters == {
        "k": 3, "n": 2, "s": None, "d": None, "hosts": 1, "cables": 1, "router": "switch",
    }  # fmt: skip


def test_written_specs_leave_defaults_out():
    assert format_spec("kns", build("kns:k=3,n=2,cables=1").parameters) == "kns:k=3,n=2"
    assert format_spec("torus", {"dims": (4, 3), "hosts": 2}) == "torus:dims=4,3,hosts=2"
    assert format_spec("cellia", {"nodes": 45}) == "cellia"


def test_altered_fabrics_and_files_have_no_closed_form():
    fabric = build("torus:3x3")
    assert closed_form(fabric).cables == 27
    assert closed_form(fabric.without(cables=[20])) is None
    assert closed_form(fabric.shuffled(1)) is None
    assert closed_form(fabric.degraded([20], "4xSDR")) is not None


def test_a_plugin_family_needs_no_closed_form():
    def star(hosts: int) -> FabricBuilder:
        """Build a switch with hosts."""
        make = FabricBuilder("")
        make.connect(
            make.switches(["hub"]).repeat(hosts), make.hosts([f"h{i}" for i in range(hosts)])
        )
        return make

    topology("test-star", positional=("hosts",), examples=("test-star:4",))(star)
    try:
        fabric = build("test-star:4")
        assert (fabric.num_hosts, fabric.num_switches, fabric.num_cables) == (4, 1, 4)
        assert closed_form(fabric) is None
        assert np.array_equal(fabric.link_from_port[0::2], [1, 2, 3, 4])
    finally:
        del topology._entries["test-star"]
