"""Switches that are added to a fabric, and the names of parts."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.core.errors import InputError
from weft.fabrics import rate_text
from weft.fabrics.additions import Addition
from weft.fabrics.named import named


def clos(ports: int = 12) -> weft.Fabric:
    """Return 4 leaves with 4 hosts each, and two cables of twice their rate to each of 2 spines."""
    build = weft.FabricBuilder("clos", rate="4xHDR")
    spines = build.switches(["spine1", "spine2"], ports=ports)
    leaves = build.switches([f"leaf{n}" for n in range(1, 5)], ports=10)
    hosts = build.hosts([f"node{n:02d}" for n in range(1, 17)])
    build.connect(leaves.repeat(4), hosts)
    for spine in spines:
        build.connect(leaves, [spine] * 4, cables=2, rate="4xNDR")
    return build.fabric()


def test_a_new_switch_has_the_ports_and_rates_of_its_peers() -> None:
    old = clos()
    new = Addition.parse("leaf5: 3 hosts, 2 uplinks to each spine, 1 uplink to spine1").of(old)
    leaf = new.find_node("leaf5")
    assert (new.num_hosts, new.num_switches, new.num_ports[leaf]) == (19, 7, 10)
    links = new.port_link[new.port_offset[leaf] :][:8]
    texts = [
        rate_text(new.cable_rate_gbps[link >> 1], new.cable_rate_code[link >> 1]) for link in links
    ]
    assert texts == ["4xHDR"] * 3 + ["4xNDR"] * 5
    heads = [new.node_names[node] for node in new.link_to[links]]
    assert sorted(heads[3:]) == ["spine1"] * 3 + ["spine2"] * 2
    # Old parts are what they were, and new ones take the lowest free ports.
    kept = new.without(switches=["leaf5"])
    assert np.array_equal(kept.node_guid[kept.find_node("node01")], old.node_guid[6])
    assert {int(p) for p in new.link_to_port[links[3:]]} == {9, 10, 11}
    assert len(set(new.node_guid.tolist()) | set(new.port_guid.tolist())) >= new.num_nodes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4 hosts", "names no switch to add"),
        ("leaf5: 4 hots", "'4 hots' is neither hosts nor uplinks"),
        ("leaf5: 4 hosts", "has no uplinks"),
        ("leaf4: 1 host, 1 uplink to each spine", "has it already"),
        ("leaf5: 1 host, 1 uplink to each spien", "no switch of clos is called 'spien'"),
        ("leaf5: 1 host, 1 uplink to spine9", "no node 'spine9'"),
        ("leaf5: 1 host, 1 uplink to node01", "node01 is not a switch"),
        ("leaf5: 9 hosts, 1 uplink to each spine", "needs 11 ports for 9 hosts and 2 uplinks"),
        ("leaf5: 1 host, 5 uplinks to spine2", "spine2 has 4 free ports of 12; 5 are needed"),
        ("top: 1 host, 1 uplink to each leaf", "no switch with cables to leaf1"),
    ],
)
def test_what_cannot_be_added_is_an_error(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Addition.parse(text).of(clos())


def test_names_are_switches_machines_cables_lists_and_patterns() -> None:
    fabric = clos()
    found = named(fabric, ["spine[1-2]", "leaf1[1]", "node0[3-4]", "node1?"])
    assert found.switches.tolist() == [0, 1]
    assert found.labels[:5] == ("spine1", "spine2", "leaf1[1]", "node03", "node04")
    hosts = {int(fabric.link_to[2 * cable]) for cable in found.cables.tolist()}
    assert {fabric.node_names[node] for node in hosts} == {
        "node01", "node03", "node04", *(f"node{n}" for n in range(10, 17)),
    }  # fmt: skip
    # A cable of a switch that is named is not named again.
    assert named(fabric, ["leaf1", "leaf1[1]"]).cables.tolist() == []
    with pytest.raises(InputError, match=r"'spine3' in clos \(did you mean"):
        named(fabric, ["spine1,spine3"])
    with pytest.raises(InputError, match="no cable is plugged into leaf1"):
        named(fabric, ["leaf1[10]"])
