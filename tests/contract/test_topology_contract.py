"""Contract of every registered topology, checked on each of its examples."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from tests.topology_examples import EXAMPLES, SPECS, marks

from weft.advice.faults import faults
from weft.core.errors import InputError
from weft.fabrics import Fabric, LinkKind, NodeKind
from weft.fabrics.topology import ClosedForm, build, closed_form, format_spec, topology
from weft.fabrics.topology.measures import diameter, distance_counts

examples = pytest.mark.parametrize("spec", SPECS)

#: Up to this many hosts, networkx checks every pair; with more, only pairs of a few hosts.
FEW = 130


def formula(fabric: Fabric) -> ClosedForm:
    return topology[fabric.family].facts["closed_form"](**fabric.parameters)


def plain_distances(fabric: Fabric, hosts: list[int]) -> dict[tuple[int, int], int]:
    """Return the hops between hosts by networkx; paths avoid hosts that do not forward."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(fabric.num_nodes))
    for tail, head in zip(fabric.link_from.tolist(), fabric.link_to.tolist(), strict=True):
        if fabric.forwards[tail]:
            graph.add_edge(tail, head)
    around: dict[int, set[int]] = {}
    for tail, head in zip(fabric.link_from.tolist(), fabric.link_to.tolist(), strict=True):
        around.setdefault(tail, set()).add(head)
    result = {}
    for host in hosts:
        node = int(fabric.host_nodes[host])
        if fabric.forwards[node]:
            reached = nx.single_source_shortest_path_length(graph, node)
        else:
            first = around.get(node, set())
            reached = nx.multi_source_dijkstra_path_length(graph, first) if first else {}
            reached = {there: length + 1 for there, length in reached.items()}
        for other in range(fabric.num_hosts):
            there = int(fabric.host_nodes[other])
            if other != host and there in reached:
                result[host, other] = int(reached[there])
    return result


def test_every_family_registers_examples_and_a_formula():
    for entry in topology:
        assert entry.facts["examples"], entry.name
        assert callable(entry.facts["closed_form"]), entry.name
        assert entry.summary.endswith("."), entry.name


@examples
def test_numbers_of_hosts_switches_and_cables_are_those_of_the_literature(spec):
    fabric = build(spec)
    form = formula(fabric)
    assert (fabric.num_hosts, fabric.num_switches, fabric.num_cables) == (
        form.hosts,
        form.switches,
        form.cables,
    )
    assert form.source
    assert closed_form(fabric) == form


@examples
def test_distances_are_those_of_networkx_and_the_literature(spec):
    fabric = build(spec)
    hosts = range(fabric.num_hosts) if fabric.num_hosts <= FEW else range(0, fabric.num_hosts, 97)
    plain = plain_distances(fabric, list(hosts))
    assert len(plain) == len(hosts) * (fabric.num_hosts - 1), "the fabric is not connected"
    measured = diameter(fabric)
    expected = formula(fabric).diameter
    assert expected in (None, measured)
    if fabric.num_hosts <= FEW:
        assert measured == max(plain.values())
        counts = np.bincount(list(plain.values()))
        assert counts.tolist() == distance_counts(fabric).tolist()
    else:
        assert measured >= max(plain.values())


@examples
def test_cables_are_consistent_at_both_ends(spec):
    fabric = build(spec)
    link = np.arange(fabric.num_links)
    slot = fabric.port_offset[fabric.link_from] + fabric.link_from_port - 1
    assert np.array_equal(fabric.port_link[slot], link)
    assert np.array_equal(fabric.link_to, fabric.link_from[link ^ 1])
    assert np.array_equal(fabric.link_to_port, fabric.link_from_port[link ^ 1])
    assert (fabric.link_from != fabric.link_to).all()
    assert np.count_nonzero(fabric.port_link >= 0) == fabric.num_links


@examples
def test_ports_stay_within_the_radix(spec):
    fabric = build(spec)
    switches = fabric.node_kind == NodeKind.SWITCH
    used = np.bincount(fabric.link_from, minlength=fabric.num_nodes)
    assert (used <= fabric.num_ports).all()
    assert fabric.num_ports[switches].max() == formula(fabric).radix
    assert (used > 0).all(), "a node has no cable"


@examples
def test_hosts_have_the_lowest_ports_of_their_switch(spec):
    fabric = build(spec)
    down = fabric.link_kind == LinkKind.SWITCH_HOST
    host_switches = fabric.link_from[down]
    across = np.isin(fabric.link_from, host_switches) & (fabric.link_kind == LinkKind.SWITCH_SWITCH)
    highest = np.zeros(fabric.num_nodes, dtype=int)
    np.maximum.at(highest, host_switches, fabric.link_from_port[down])
    assert (fabric.link_from_port[across] > highest[fabric.link_from[across]]).all()
    if not fabric.forwards[fabric.host_nodes].any():
        count = np.bincount(host_switches, minlength=fabric.num_nodes)
        assert np.array_equal(highest, count)


@examples
def test_names_and_guids_are_unique(spec):
    fabric = build(spec)
    assert len(set(fabric.node_names)) == fabric.num_nodes
    assert len(np.unique(fabric.node_guid)) == fabric.num_nodes
    assert all(fabric.find_node(name) == node for node, name in enumerate(fabric.node_names[:50]))


@examples
def test_the_spec_can_be_written_and_read_again(spec):
    fabric = build(spec)
    text = format_spec(fabric.family, fabric.parameters)
    again = build(text)
    assert again.digest == fabric.digest
    assert again.node_names == fabric.node_names
    assert again.parameters == fabric.parameters
    assert format_spec(again.family, again.parameters) == text
    assert topology.parse(text)[0].name == fabric.family


@examples
def test_coordinates_and_levels_are_labelled_throughout(spec):
    fabric = build(spec)
    hosts = fabric.coordinates[fabric.host_nodes]
    assert (hosts >= 0).all()
    tree = bool((fabric.level >= 0).any())
    if tree:
        assert (fabric.level[fabric.host_nodes] == 0).all()
        step = fabric.level[fabric.link_to].astype(int) - fabric.level[fabric.link_from]
        assert set(np.abs(step).tolist()) == {1}
        complete = np.column_stack((fabric.level, fabric.coordinates))
        assert len(np.unique(complete, axis=0)) == fabric.num_nodes
    elif not fabric.forwards[fabric.host_nodes].any():
        up = fabric.link_kind == LinkKind.HOST_SWITCH
        assert np.array_equal(
            fabric.coordinates[fabric.link_from[up]], fabric.coordinates[fabric.link_to[up]]
        )


@examples
def test_the_same_spec_gives_the_same_fabric(spec):
    first, second = build(spec), build(spec)
    assert first.digest == second.digest
    assert first.node_names == second.node_names


@examples
def test_faults_remove_exactly_what_they_name(spec):
    fabric = build(spec)
    lost = list(range(0, fabric.num_cables, max(1, fabric.num_cables // 5)))
    less = fabric.without(cables=lost)
    assert less.num_cables == fabric.num_cables - len(lost)
    assert (less.num_hosts, less.num_switches) == (fabric.num_hosts, fabric.num_switches)
    assert closed_form(less) is None
    gone = fabric.num_switches - 1
    plugged = int(np.count_nonzero(fabric.link_from == gone))
    less = fabric.without(switches=[gone])
    assert less.num_switches == fabric.num_switches - 1
    assert less.num_cables == fabric.num_cables - plugged


@examples
def test_shuffling_keeps_the_wiring(spec):
    fabric = build(spec)
    mixed = fabric.shuffled(3)
    assert (mixed.num_hosts, mixed.num_switches, mixed.num_cables) == (
        fabric.num_hosts,
        fabric.num_switches,
        fabric.num_cables,
    )
    assert np.array_equal(np.sort(mixed.num_ports), np.sort(fabric.num_ports))
    assert distance_counts(mixed).tolist() == distance_counts(fabric).tolist()
    assert closed_form(mixed) is None


@pytest.mark.parametrize(
    ("family", "spec"),
    [pytest.param(entry.name, spec, marks=marks(entry, spec)) for entry, spec in EXAMPLES],
)
def test_unknown_options_are_refused(family, spec):
    separator = "," if ":" in spec else ":"
    with pytest.raises(InputError, match=f"topology '{family}' has no option 'colour'"):
        build(f"{spec}{separator}colour=red")


@pytest.mark.parametrize("family", topology.names())
def test_a_missing_argument_is_named(family):
    required = [
        name for name, option in topology[family].options.items() if option.default is option.empty
    ]
    if not required:
        assert build(family).num_hosts > 1
        return
    with pytest.raises(InputError, match=required[0]):
        build(family)


@pytest.mark.sampled(35)
@examples
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_pristine_fabric_lacks_nothing(spec, shuffled):
    fabric = build(spec)
    assert faults(fabric.shuffled(5) if shuffled else fabric) == []
