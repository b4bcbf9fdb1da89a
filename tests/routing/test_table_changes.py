"""Tables that outlive a change of their fabric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

import weft
from weft.fabrics.additions import Addition
from weft.routing.routes import TableRoutes
from weft.routing.routes.virtual_lanes import VirtualLanes


def tables(fabric: weft.Fabric, engine: str = "minhop") -> TableRoutes:
    routes = weft.route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    return routes


def path(fabric: weft.Fabric, routes: TableRoutes, row: int, lid: int) -> list[int] | None:
    """Return the ports from a row to a destination, one entry after the other; None if lost."""
    taken: list[int] = []
    for _ in range(64):
        port = int(routes.table[lid, row])
        if port == routes.no_path:
            return None
        link = fabric.graph.row_link[fabric.graph.row_base[row] + port]
        if link < 0:
            return [*taken, row, port] if port == 0 else None
        taken += [row, port]
        row = int(fabric.graph.link_row[link])
        if row < 0:
            return taken
    return None


@pytest.mark.parametrize("engine", ["minhop", "lash", "minhop:lmc=1"])
@given(seed=st.integers(0, 2**20))
@settings(max_examples=examples(12), deadline=None)
def test_pairs_keep_their_paths_unless_a_part_is_gone(engine: str, seed: int) -> None:
    fabric = weft.fabric("xgft:2;4,3;1,3").shuffled(seed)
    routes = tables(fabric, engine)
    failed = fabric.with_faults(cables=2, switches=1, seed=seed)
    stale = routes.on(fabric, failed)
    stale.check(failed)
    old_node = {int(guid): node for node, guid in enumerate(fabric.node_guid)}
    for host in range(fabric.num_hosts):
        end = int(failed.host_endpoint[host])
        if end < 0:
            continue
        for row in range(failed.graph.num_rows):
            old_row = old_node[int(failed.node_guid[row])]
            was = path(fabric, routes, old_row, int(fabric.host_endpoint[host]) << routes.lmc)
            now = path(failed, stale, row, end << routes.lmc)
            assert was is not None
            if now is not None:
                renamed = [old_node[int(failed.node_guid[r])] for r in now[0::2]]
                assert (renamed, now[1::2]) == (was[0::2], was[1::2])
            else:  # some part of the path is gone
                parts = zip(was[0::2], was[1::2], strict=True)
                names = {f"{fabric.node_names[r]}[{p}]" for r, p in parts}
                left = {
                    f"{failed.node_names[n]}[{p}]"
                    for n, p in zip(failed.link_from, failed.link_from_port, strict=True)
                }
                assert names - left


def test_new_parts_have_no_entries_and_lanes_of_others_stay() -> None:
    build = weft.FabricBuilder("pair")
    top = build.switches(["top"], ports=8)
    leaves = build.switches(["leaf1", "leaf2"], ports=4)
    build.connect(leaves, np.repeat(top, 2))
    build.connect(leaves, build.hosts(["a", "b"]))
    fabric = build.fabric()
    rows, ports = 3, np.diff(fabric.graph.row_base)
    base = np.append(0, np.cumsum(ports.astype(np.int64) ** 2)[:-1])
    lanes = VirtualLanes(
        np.arange(16 * rows, dtype=np.uint8).reshape(rows, 16) % 15,
        np.repeat(np.arange(rows), ports**2).astype(np.int32), base, ports.astype(np.int32),
    )  # fmt: skip
    routes = replace(tables(fabric), lanes=lanes, sl=np.ones((rows, 5), np.uint8))
    grown = Addition.parse("leaf3: 1 host, 1 uplink to top").of(fabric)
    stale = routes.on(fabric, grown)
    stale.check(grown)
    new = grown.find_node("leaf3")
    assert (stale.table[:, new] == stale.no_path).all()
    assert (stale.table[grown.num_endpoints - 1] == stale.no_path).all()
    assert [int(stale.lanes.index[stale.lanes.base[row]]) for row in range(4)] == [0, 1, 2, 3]
    assert stale.on(grown, fabric).table.tolist() == routes.table.tolist()
