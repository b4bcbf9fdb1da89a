"""Every topology, written to and read from every format."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
from tests.topology_examples import SPECS

from weft.core.errors import NotApplicable
from weft.fabrics.formats import FormatWarning, reader, writer
from weft.fabrics.formats.hostlist import expand
from weft.fabrics.topology import build


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        yield


@pytest.mark.sampled(16)
@pytest.mark.parametrize("spec", SPECS)
def test_formats_survive_a_round_trip(spec: str) -> None:
    fabric = build(spec)
    for entry in reader:
        if entry.name not in writer.names():
            continue
        again = entry.function(writer[entry.name].function(fabric), "file").fabric()
        # A file does not record which hosts forward; the writer warns about it.
        same = np.array_equal(again.forwards, fabric.forwards)
        assert same == (not fabric.forwards[fabric.host_nodes].any())
        assert (again.digest == fabric.digest) == same
        assert np.array_equal(again.node_guid, fabric.node_guid)
        assert np.array_equal(again.port_link, fabric.port_link)
        assert again.node_names == fabric.node_names
        assert np.array_equal(again.cable_rate_gbps, fabric.cable_rate_gbps)
        assert np.array_equal(again.link_to, fabric.link_to)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("spec", SPECS)
def test_graphml_has_all_nodes_and_cables(spec: str) -> None:
    fabric = build(spec)
    graph = nx.parse_graphml(writer["graphml"].function(fabric), force_multigraph=True)
    assert len(graph) == fabric.num_nodes
    assert graph.number_of_edges() == fabric.num_cables


@pytest.mark.parametrize("spec", SPECS)
def test_a_slurm_file_has_all_hosts_below_one_switch(spec: str) -> None:
    """The file has one top switch, since each example is connected."""
    fabric = build(spec)
    try:
        text = writer["slurm"].function(fabric)
    except NotApplicable:
        assert not fabric.num_switches
        return
    children: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.removeprefix("SwitchName=").partition(" ")
            children[name] = expand(rest.partition("=")[2])
    below = {child for group in children.values() for child in group}
    tops = set(children) - below
    assert len(tops) == 1, tops
    assert set(fabric.host_names) <= below
