"""What a replacement of tables changes, against paths that are followed one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.validation.replacement import Replacement


def tables(fabric: Fabric, engine: str) -> TableRoutes:
    routes = route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    return routes


def path(fabric: Fabric, routes: TableRoutes, source: int, lid: int) -> list[int]:
    """Return the links of a path from a host to a LID; empty if it does not arrive."""
    goal = int(fabric.endpoint_node[lid >> routes.lmc])
    slot = fabric.port_offset[fabric.num_switches + source]
    links = [int(fabric.port_link[slot])]
    while (node := int(fabric.link_to[links[-1]])) != goal:
        port = int(routes.table[lid, node]) if node < fabric.num_switches else 0
        known = 0 < port <= fabric.num_ports[node] and len(links) <= fabric.num_switches
        link = int(fabric.port_link[fabric.port_offset[node] + port - 1]) if known else -1
        if link < 0:
            return []
        links.append(link)
    return links


def broken(routes: TableRoutes, random: np.random.Generator) -> TableRoutes:
    """Return tables in which some entries lead nowhere, back, or anywhere."""
    table = routes.table.copy()
    at = random.random(table.shape) < 0.03
    table[at] = random.integers(1, 6, size=int(at.sum()))
    table[random.random(table.shape) < 0.02] = routes.no_path
    return replace(routes, table=table)


@pytest.mark.parametrize(
    ("spec", "one", "other"),
    [
        ("torus:4x3", "minhop", "updn:roots=center"),
        ("torus:4x3", "minhop:lmc=1", "updn:roots=center,lmc=1"),
        ("leaf-spine:leaves=4,spines=2,hosts=3", "minhop", "updn"),
    ],
)
def test_pairs_that_move_are_those_whose_links_differ(spec: str, one: str, other: str) -> None:
    fabric = load(spec)
    for seed in range(3):
        random = np.random.default_rng(seed)
        ends = [broken(tables(fabric, engine), random) for engine in (one, other)]
        change = Replacement(fabric, *ends)
        wanted = []
        lmc = ends[0].lmc
        for host in range(fabric.num_hosts):
            counts = [0, 0, 0]
            first = int(fabric.host_endpoint[host]) << lmc
            for source in set(range(fabric.num_hosts)) - {host}:
                lids = range(first, first + (1 << lmc))
                paths = [[path(fabric, each, source, lid) for lid in lids] for each in ends]
                before, after = (all(map(bool, each)) for each in paths)
                kinds = before and after and paths[0] != paths[1], after > before, before > after
                counts = [count + kind for count, kind in zip(counts, kinds, strict=True)]
            wanted.append((fabric.host_names[host], *counts))
        assert change.hosts.rows() == wanted
        assert sum(change.facts()[f"{kind}_pairs"] for kind in ("moved", "gained", "lost")) > 10
        entries = (ends[0].table != ends[1].table).sum(axis=0)
        found = dict(zip(change.switches["switch"], change.switches["entries"], strict=True))
        names = fabric.node_names
        assert found == {names[s]: n for s, n in enumerate(entries.tolist()) if n}
        assert change.facts()["entries"] == entries.sum()


def test_another_lmc_is_refused() -> None:
    ring = load("ring:5")
    with pytest.raises(InputError, match=r"have LMC 0, the new ones 1; .* the LIDs of ports"):
        Replacement(ring, tables(ring, "minhop"), tables(ring, "minhop:lmc=1"))


def test_the_text_says_whether_loading_is_safe() -> None:
    tree, torus = load("xgft:2;4,4;1,4"), load("torus:4x4")
    safe = Replacement(tree, tables(tree, "dmodk"), tables(tree, "updn:roots=center"))
    assert "safe: no mixture of present and new" in safe.text()[-1]
    loops = Replacement(torus, tables(torus, "updn:roots=center"), tables(torus, "lash"))
    assert "while loading: NOT SAFE; load them while no job runs: while" in loops.text()[-1]
    assert len(loops.steps) == 1
    before = Replacement(
        load("torus:5x5"), *(tables(load("torus:5x5"), e) for e in ("dor", "lash"))
    )
    assert "no safer than the present tables, which can deadlock, too: " in before.text()[-1]
    assert "(if all packets share one lane)" in before.text()[-1]
