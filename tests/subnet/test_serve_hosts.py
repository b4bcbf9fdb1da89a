"""Names of hosts that requests give."""

from __future__ import annotations

import pytest

from weft.fabrics import FabricBuilder
from weft.subnet.service.ledger import Refused
from weft.subnet.service.views import host_numbers


def test_machines_with_one_adapter_are_hosts() -> None:
    builder = FabricBuilder("cluster")
    (switch,) = builder.switches(["leaf"], ports=8)
    names = ["node1 mlx5_0", "node2 mlx5_0", "node2 mlx5_1", "login"]
    builder.connect([switch] * 4, builder.hosts(names))
    fabric = builder.fabric()
    assert host_numbers(fabric, ["login", "node1", "node1 mlx5_0", "node2 mlx5_1"]) == [3, 0, 0, 2]
    with pytest.raises(Refused, match="node2 has 2 adapters; expected one of node2 mlx5_0, node2"):
        host_numbers(fabric, ["node2"])
    with pytest.raises(Refused, match=r"cluster has no host node3 \(did you mean"):
        host_numbers(fabric, ["node3"])
