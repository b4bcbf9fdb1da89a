"""Routing keys in a real subnet: ibtracert on the LID of each flow follows the path of the key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.oracle.tools import require_tools

import weft
from weft.sim.keys import RoutingKey
from weft.sim.keys.tables import key_tables

pytestmark = pytest.mark.oracle


def check_live(fabric: weft.Fabric, keys: Sequence[RoutingKey]) -> int:
    """Load the tables of keys into OpenSM and compare each path; return the number of flows."""
    require_tools("opensm", "ibsim", "ibtracert")
    tables = key_tables(fabric, weft.route(fabric, "dmodk"), keys)
    flows = 0
    with weft.live(fabric, routes=tables.routes) as subnet:
        assert not len(subnet.differences(tables.routes))
        for key, offsets in zip(keys, tables.offset, strict=True):
            begin, edges = key.paths
            heads = fabric.graph.row_node[fabric.graph.edge_row[edges]]
            start = fabric.graph.destination_row[key.endpoints[0]]
            for flow, (source, destination) in enumerate(
                zip(key.sources.tolist(), key.destinations.tolist(), strict=True)
            ):
                ends = fabric.num_switches + source, fabric.num_switches + destination
                path = subnet.trace(*ends, offset=int(offsets[flow]))
                between = heads[begin[flow] : begin[flow + 1]].tolist()
                assert list(path) == [ends[0], int(start[flow]), *between, ends[1]]
                flows += 1
    return flows


def test_flows_of_figure_2_take_the_paths_of_their_keys() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    one = weft.keys(fabric, [0, 1], [4, 8])
    other = weft.keys(fabric, [2], [12], name="B")
    assert check_live(fabric, [one, other]) == 3


@pytest.mark.slow
def test_flows_of_216_hosts_on_three_levels_take_the_paths_of_their_keys() -> None:
    fabric = weft.fabric("xgft:3;6,6,6;1,6,6")
    random = np.random.default_rng(1)
    ends = np.arange(216), random.permutation(216)
    moving = ends[0] != ends[1]
    key = weft.keys(fabric, ends[0][moving], ends[1][moving])
    assert key.worst == 1
    assert check_live(fabric, [key]) == int(moving.sum())
