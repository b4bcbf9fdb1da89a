"""The lanes of dfsssp with OpenSM's balance, compared with the reference."""

from __future__ import annotations

import pytest

from tests.oracle.irregular import irregular
from tests.reference.dfsssp_lanes import lanes
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes

FABRICS = [load(spec).shuffled(1) for spec in ("torus:4x4", "kns:k=4,n=2", "ring:9")]


@pytest.mark.parametrize("fabric", [*FABRICS, *map(irregular, range(0, 40, 4))], ids=repr)
def test_lanes_agree_with_the_reference(fabric) -> None:
    routes = route(fabric, "dfsssp:balance=opensm")
    assert isinstance(routes, TableRoutes)
    needed, of = lanes(fabric, routes.table, 8)
    assert routes.num_vls == needed
    rows = fabric.graph.destination_row
    for (source, destination), lane in of.items():
        assert routes.sl[rows[source], destination] == lane
    few = route(fabric, "dfsssp:balance=opensm", max_vls=1)
    assert few.engine == ("dfsssp" if needed == 1 else "minhop")
