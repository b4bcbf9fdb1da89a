"""Fabric and FabricBuilder: numbering, names, faults and copies."""

from __future__ import annotations

import numpy as np
import pytest
from tests.random_fabrics import random_fabric

from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder, LinkKind, NodeKind, Parts
from weft.fabrics.faults import Faults
from weft.fabrics.topology import build


def small() -> Fabric:
    builder = FabricBuilder("small", rate="4xQDR")
    a, b = builder.switches(["a", "b"], ports=8)
    builder.connect([a], [b], cables=2)
    builder.connect([a, b], builder.hosts(["h0", "h1"]), rate="4xDDR", length_m=[1.0, 3.0])
    return builder.fabric()


def edges(fabric: Fabric) -> set[frozenset[tuple[str, int]]]:
    names = fabric.node_names
    return {
        frozenset({(names[tail], port), (names[head], there)})
        for tail, port, head, there, _ in fabric.links.tolist()
    }


def test_numbers_ports_links_and_rates() -> None:
    fabric = small()
    assert (fabric.num_switches, fabric.num_hosts, fabric.num_cables) == (2, 2, 4)
    assert fabric.links.dtype.names == ("from_node", "from_port", "to_node", "to_port", "kind")
    assert fabric.links[5].tolist() == (2, 1, 0, 3, LinkKind.HOST_SWITCH)
    assert np.array_equal(fabric.links["from_node"], fabric.link_from)
    reverse = np.arange(fabric.num_links) ^ 1
    assert np.array_equal(fabric.link_from[reverse], fabric.link_to)
    assert np.array_equal(fabric.link_from_port[reverse], fabric.link_to_port)
    assert fabric.link_rate_gbps.tolist() == [32.0] * 4 + [16.0] * 4
    assert fabric.cable_latency_ns.tolist() == [10.0, 10.0, 5.0, 15.0]
    assert fabric.cable_name(2) == "a[3] -- h0[1]"
    assert repr(fabric) == "Fabric('small': 2 hosts, 2 switches, 4 cables)"
    assert fabric.find_cable("b[2]") == 1
    assert fabric.find_node("0x200001") == 1


def test_arrays_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        small().link_from[0] = 3
    fabric = random_fabric(0)
    graph = fabric.graph
    derived = [getattr(fabric, name) for name in ("num_ports", "links", "link_kind")]
    derived += [fabric.endpoint_node, fabric.endpoint_port, fabric.host_endpoint]
    derived += [graph.edge_of_link, graph.slot_edge, graph.edge_tail]
    derived += [value for value in vars(graph).values() if isinstance(value, np.ndarray)]
    for array in derived:
        assert not array.flags.writeable


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_fabric_give_the_same_fabric(seed: int) -> None:
    fabric = random_fabric(seed)
    again = Fabric.of(Parts.of(fabric))
    assert again.digest == fabric.digest
    for key, value in vars(fabric).items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, getattr(again, key), equal_nan=value.dtype.kind == "f")


@pytest.mark.parametrize("seed", range(20))
def test_graph_agrees_with_the_links(seed: int) -> None:
    fabric = random_fabric(seed)
    graph = fabric.graph
    pairs = {
        (int(graph.row_node[graph.edge_tail[e]]), int(graph.row_node[graph.edge_row[e]]), int(link))
        for e, link in enumerate(graph.edge_link)
    }
    assert pairs == {
        (int(fabric.link_from[link]), int(fabric.link_to[link]), link)
        for link in range(fabric.num_links)
        if fabric.forwards[fabric.link_from[link]] and fabric.forwards[fabric.link_to[link]]
    }
    for d in range(fabric.num_endpoints):
        node = int(fabric.endpoint_node[d])
        if fabric.forwards[node]:
            assert graph.row_node[graph.destination_row[d]] == node
            assert graph.destination_link[d] == -1
        elif graph.destination_row[d] >= 0:
            link = int(graph.destination_link[d])
            assert fabric.link_to[link] == node
            assert fabric.link_to_port[link] == fabric.endpoint_port[d]
            assert fabric.link_from[link] == graph.row_node[graph.destination_row[d]]


def test_faults_change_what_they_name() -> None:
    fabric = small()
    without = fabric.without(cables=["a[1]"])
    assert edges(fabric) - edges(without) == {frozenset({("a", 1), ("b", 1)})}
    split = fabric.without(switches=["b"])
    assert split.node_names == ("a", "h0", "h1")
    assert split.host_endpoint.tolist() == [0, -1]
    slow = fabric.degraded(["h1[1]", 0], "1xSDR")
    assert slow.cable_rate_gbps.tolist() == [2.0, 32.0, 16.0, 2.0]
    assert fabric.cable_rate_gbps[0] == 32.0


def test_random_faults_are_seeded_and_spare_host_cables() -> None:
    fabric = build("xgft:2;4,4;1,4")
    one = fabric.with_faults(cables=3, switches=1, seed=5)
    assert one.digest == fabric.with_faults(cables=3, switches=1, seed=5).digest
    assert one.digest != fabric.with_faults(cables=3, switches=1, seed=6).digest
    only_cables = fabric.with_faults(cables=3, seed=1)
    assert only_cables.num_cables == fabric.num_cables - 3
    assert (only_cables.host_endpoint >= 0).all()


@pytest.mark.parametrize(
    ("share", "removed"),
    [("100%", 16), ("50%", 8), ("50.0%", 8), ("28.1%", 4), ("28.2%", 5), ("9.375%", 2), ("1%", 1)],
)
def test_a_share_of_random_faults_is_rounded_and_at_least_one(share: str, removed: int) -> None:
    fabric = build("xgft:2;4,4;1,4")
    some = fabric.with_faults(cables=share, seed=3)
    assert fabric.num_cables - some.num_cables == removed
    assert some.digest == fabric.with_faults(cables=removed, seed=3).digest
    assert f"without {removed} of 16 cables between switches (" in some.name
    # A share of switches is one of all, and cables are drawn after named faults.
    assert fabric.with_faults(switches="12.5%").num_switches == 7
    left = Faults(cables=("s1-0[5]", "s1-0[6]", "s1-0[7]", "s1-0[8]"), random_cables="50%")
    assert left.of(fabric).num_cables == fabric.num_cables - 4 - 6
    # A name that states a share states all random faults.
    both = fabric.with_faults(cables=share, switches=1, seed=3)
    assert both.name.endswith(" and 1 of 8 switches (seed 3)")
    # Of no cables, a share is none.
    assert build("xgft:1;4;1").with_faults(cables=share).num_cables == 4


def test_whole_numbers_of_any_type_count_faults() -> None:
    for count in (2, 2.0, np.int64(2), "2"):
        assert Faults(random_cables=count).random_cables == 2  # type: ignore[arg-type]
    for wrong in (True, 2.5, float("nan"), float("inf"), -1.0, None):
        with pytest.raises(InputError, match=r"^random_cables: "):
            Faults(random_cables=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0%", "200%", "x%", "2 %", " 2%", "1e1%", "%", "-1%", "2.5"])
def test_a_wrong_share_is_refused(text: str) -> None:
    message = f"^random_cables: '{text}' does not fit: expected a (whole number, or a )?share "
    with pytest.raises(InputError, match=message):
        Faults(random_cables=text)
    with pytest.raises(InputError, match=r"^the number of cables between switches: "):
        build("xgft:2;4,4;1,4").with_faults(cables=text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.without(cables=["a[9]"]), "a has ports 1 to 8, not 9"),
        (lambda f: f.without(cables=["a[8]"]), "no cable is plugged into"),
        (lambda f: f.without(cables=["a"]), "is not a port"),
        (lambda f: f.without(cables=[4]), "cables: 4 is out of range; cables of small are 0 to 3"),
        (lambda f: f.without(switches=["h0"]), "is not a switch"),
        (lambda f: f.without(switches=["0xzz"]), "not a GUID"),
        (lambda f: f.with_faults(cables=3), "cannot remove 3 cables between switches"),
        (lambda f: f.with_faults(switches=-1), "number of switches must be at least 0, not -1"),
        (lambda f: f.with_faults(cables=1, seed=-1), "seed must be at least 0, not -1"),
        (lambda f: f.shuffled(-3), "seed must be at least 0, not -3"),
        (lambda f: f.degraded([0], "4xFOO"), "unknown rate"),
        (lambda f: f.degraded([0], 0.0), "must be a finite number above 0"),
        (lambda f: f.find_node("aa"), "no node"),
    ],
)
def test_impossible_changes_are_refused(change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        change(small())


@pytest.mark.parametrize("spec", ["xgft:3;3,3,3;1,2,3", "xgft:2;4,4;1,4;1,2"])
def test_shuffling_keeps_the_wiring_and_forgets_the_labels(spec: str) -> None:
    import networkx as nx

    fabric = build(spec)
    shuffled = fabric.shuffled(7)
    assert shuffled.digest == fabric.shuffled(7).digest != fabric.shuffled(8).digest
    assert (shuffled.level == -1).all()
    assert not shuffled.coordinates.size
    assert not shuffled.family
    assert sorted(shuffled.node_guid.tolist()) == sorted(fabric.node_guid.tolist())

    def graph(of: Fabric) -> nx.Graph:
        plain = nx.Graph()
        for node in range(of.num_nodes):
            plain.add_node(node, kind=int(of.node_kind[node]))
        for a, b in zip(of.link_from[::2].tolist(), of.link_to[::2].tolist(), strict=True):
            plain.add_edge(a, b)
        return plain

    assert nx.is_isomorphic(
        graph(fabric), graph(shuffled), node_match=lambda a, b: a["kind"] == b["kind"]
    )


def test_nodes_and_cables_that_conflict_are_refused() -> None:
    twins = FabricBuilder("twins")
    twins.switches(["a", "a"])
    with pytest.raises(InputError, match="two nodes are named 'a'"):
        twins.fabric()
    plugged = FabricBuilder("plugged twice")
    a, b = plugged.switches(["a", "b"], ports=4)
    plugged.connect([a, a], [b, b], a_ports=[1, 1], b_ports=[1, 2])
    with pytest.raises(InputError, match=r"two cables are plugged into a\[1\]"):
        plugged.fabric()
    small_switch = FabricBuilder("too small")
    a, b = small_switch.switches(["a", "b"], ports=[1, 4])
    small_switch.connect([a], [b], cables=2)
    with pytest.raises(InputError, match="a has 1 ports, but a cable uses port 2"):
        small_switch.fabric()
    parts = Parts.of(small())
    parts.guid[1] = parts.guid[0]
    with pytest.raises(InputError, match="a and b have the same GUID 0x200000"):
        Fabric.of(parts)


def test_names_lengths_and_lids_of_changed_fabrics() -> None:
    fabric = small()
    named = fabric.renamed({0x200000: "left", 0x99: "nobody"})
    assert named.node_names == ("left", "b", "h0", "h1")
    measured = fabric.with_lengths(np.array([10.0, np.nan, 1.0, 2.0]))
    assert measured.cable_latency_ns.tolist() == [50.0, 10.0, 5.0, 10.0]
    parts = Parts.of(fabric)
    parts.lid = {(0, 0): (4, 0), (2, 1): (8, 2)}
    with_lids = Fabric.of(parts)
    assert with_lids.lid.tolist() == [8, 0, 4, 0]
    assert with_lids.lmc.tolist() == [2, 0, 0, 0]
    assert with_lids.without(switches=["b"]).lid.tolist() == [8, 4]
    assert with_lids.shuffled(0).lid.sum() == 0


def test_endpoints_are_ports_or_hosts_that_forward() -> None:
    builder = FabricBuilder("kinds")
    a, b = builder.switches(["a", "b"])
    dual = builder.hosts(["dual"])
    router = builder.hosts(["router"], forwards=True)
    builder.hosts(["alone"])
    builder.connect([a, b], np.repeat(dual, 2))
    builder.connect([a, b], np.repeat(router, 2))
    fabric = builder.fabric()
    assert fabric.endpoint_node.tolist() == [2, 2, 3]
    assert fabric.endpoint_port.tolist() == [1, 2, 1]
    assert fabric.host_endpoint.tolist() == [0, 2, -1]
    assert fabric.num_destinations == 5
    assert fabric.graph.num_rows == 3


def test_aggregation_nodes_do_not_count_as_hosts() -> None:
    builder = FabricBuilder("with an aggregation node")
    (switch,) = builder.switches(["s"])
    adapters = builder.hosts(["h", "sharp", "i"])
    builder.connect([switch] * 3, adapters)
    parts = builder.parts()
    parts.kind[adapters[1]] = NodeKind.AUXILIARY
    fabric = Fabric.of(parts)
    assert fabric.num_hosts == 2
    assert fabric.host_names == ("h", "i")
    assert fabric.node_names[-1] == "sharp"
    assert fabric.num_endpoints == 3


def test_nodes_are_found_by_every_name_that_files_give_them() -> None:
    fabric = small()
    for text in ("b", "0x200001", "0x0000000000200001", "S-0000000000200001"):
        assert fabric.find_node(text) == 1
    with pytest.raises(InputError, match=r"no node 'B' in small \(did you mean 'b'\?\)"):
        fabric.find_node("B")
    with pytest.raises(InputError, match="no node of small has the GUID 0x99"):
        fabric.find_node("S-0000000000000099")
    assert fabric.without(switches="b").digest == fabric.without(switches=["b"]).digest
    assert fabric.without(cables=0).digest == fabric.without(cables=["a[1]"]).digest
