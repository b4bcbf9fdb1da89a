from __future__ import annotations

import numpy as np
import pytest

from tests.reference.ftree import FatTree
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes

TREES = ["xgft:3;3,3,3;1,2,3", "xgft:2;4,4;1,2;1,3", "fat-tree:k=4", "cellia:nodes=45"]


def messy_tree(seed: int) -> Fabric:
    """Build levels joined at random by 1 to 3 cables, uneven leaves, and cables within levels."""
    random = np.random.default_rng(seed)
    build = FabricBuilder(f"messy {seed}")
    levels = [
        build.switches([f"s{level}.{i}" for i in range(random.integers(3, 6))])
        for level in range(random.integers(2, 5))
    ]
    for below, above in zip(levels[1:], levels, strict=False):
        for switch in random.permutation(below):
            for parent in random.choice(above, size=random.integers(1, len(above)), replace=False):
                build.connect([switch], [parent], cables=int(random.integers(1, 4)))
    for level in levels[seed % 3 : 2]:
        build.connect(level[:1], level[1:2])
    for number, leaf in enumerate(levels[-1]):
        hosts = build.hosts([f"h{number}.{i}" for i in range(random.integers(1, 5))])
        build.connect([leaf] * len(hosts), hosts)
    return build.fabric().shuffled(seed)


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("spec", TREES)
def test_complete_trees_agree_with_the_reference(spec: str, seed: int | None) -> None:
    fabric = load(spec) if seed is None else load(spec).shuffled(seed)
    routes = route(fabric, "ftree")
    assert isinstance(routes, TableRoutes)
    assert np.array_equal(routes.table, FatTree(fabric).route())


@pytest.mark.parametrize("seed", range(40))
def test_irregular_trees_agree_with_the_reference(seed: int) -> None:
    fabric = messy_tree(seed)
    twin = FatTree(fabric)
    roots = tuple(fabric.node_names[s] for s, rank in twin.rank.items() if rank == 0)
    try:
        routes = route(fabric, "ftree", pure=False)
    except NotApplicable as reason:
        assert any(word in str(reason) for word in ("level", "hops", "leaves"))  # noqa: PT017
        return
    assert isinstance(routes, TableRoutes)
    assert np.array_equal(routes.table, twin.route())
    named = route(fabric, "ftree", roots=roots)
    assert isinstance(named, TableRoutes)
    assert np.array_equal(named.table, routes.table)
