"""Names of hosts that requests give."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from weft.fabrics import FabricBuilder
from weft.subnet.service.ledger import Refused
from weft.subnet.service.service import Service
from weft.subnet.service.views import host_numbers


def test_machines_with_one_adapter_are_hosts() -> None:
    builder = FabricBuilder("cluster")
    (switch,) = builder.switches(["leaf"], ports=8)
    names = ["node1 mlx5_0", "node2 mlx5_0", "node2 mlx5_1", "login"]
    builder.connect([switch] * 4, builder.hosts(names))
    fabric = builder.fabric()
    assert host_numbers(fabric, ["login", "node1", "node1 mlx5_0", "node2 mlx5_1"]) == [3, 0, 0, 2]
    # Each rank that names a machine gets an adapter of its own.
    assert host_numbers(fabric, ["node2", "login", "node2"]) == [1, 3, 2]
    with pytest.raises(Refused, match="node2 is named 3 times and has 2 adapters"):
        host_numbers(fabric, ["node2"] * 3)
    assert host_numbers(fabric, ["node2", "node1"], wholes=True) == [1, 2, 0]
    with pytest.raises(Refused, match=r"cluster has no host node3 \(did you mean"):
        host_numbers(fabric, ["node3"])


def test_applications_are_placed_on_free_machines_that_compute() -> None:
    builder = FabricBuilder("cluster")
    names = ["gpu1 mlx5_0", "gpu1 mlx5_1", "gpu2 mlx5_0", "gpu2 mlx5_1", "x1", "oss1", "ufm1"]
    builder.connect(builder.switches(["leaf"], ports=8).repeat(7), builder.hosts(names))
    ledger = SimpleNamespace(applications={"one": SimpleNamespace(hosts=[1])})
    service = SimpleNamespace(fabric=builder.fabric(), ledger=ledger)
    assert Service.free_hosts(service) == [2, 3, 4]
    assert Service.free_hosts(service, every_role=True) == [2, 3, 4, 5, 6]
