"""Rails of machines with several adapters, and the machines that deviate."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine_fabrics import rail_fabric

from weft.advice.describe import describe
from weft.advice.faults import faults
from weft.fabrics import FabricBuilder
from weft.fabrics.rails import machine_kinds


def texts(fabric, kind):
    return [fault.text for fault in faults(fabric) if fault.kind == kind]


def row(fabric, name="machines"):
    return dict(describe(fabric)).get(name)


def at_leaves(leaf_of, machines=8, adapters=4, leaves=4, name="gpu{0} mlx5_{1}"):
    """Return a fabric in which `leaf_of` gives the leaf switch of an adapter of a machine."""
    build = FabricBuilder("wired")
    switches = build.switches([f"leaf{number}" for number in range(leaves)])
    spine = build.switches(["spine"])
    build.connect(switches, spine.repeat(leaves))
    for machine in range(machines):
        hosts = build.hosts([name.format(machine, adapter) for adapter in range(adapters)])
        build.connect([switches[leaf_of(machine, adapter)] for adapter in range(adapters)], hosts)
    return build.fabric()


def test_rails_are_the_leaf_switches_of_a_device() -> None:
    fabric = rail_fabric(machines=12, adapters=8, per_group=6)
    (kind,) = machine_kinds(fabric)
    assert kind.rails == tuple((f"mlx5_{number}",) for number in range(8))
    assert row(fabric) == "12 machines of 8 adapters, rail-optimised, 8 rails"
    assert row(fabric, "roles") == "12 compute"
    assert not [fault for fault in faults(fabric) if "adapter" in fault.kind]
    # Two adapters of a machine may share a rail.
    (kind,) = machine_kinds(at_leaves(lambda machine, adapter: adapter % 2, leaves=2))
    assert kind.rails == (("mlx5_0", "mlx5_2"), ("mlx5_1", "mlx5_3"))


@pytest.mark.parametrize(
    "leaf_of",
    [
        lambda machine, adapter: machine % 4,  # a leaf switch for each machine
        lambda machine, adapter: (machine + adapter) % 4,  # each port at each leaf switch
        lambda machine, adapter: 0,
    ],
)
def test_other_wirings_are_not_rail_optimised(leaf_of) -> None:
    fabric = at_leaves(leaf_of)
    assert row(fabric) == "8 machines of 4 adapters, not rail-optimised"
    assert not [fault for fault in faults(fabric) if "adapter" in fault.kind]


def test_random_wirings_are_not_rail_optimised() -> None:
    for seed in range(20):
        leaf = np.random.default_rng(seed).integers(0, 4, (40, 4))
        (kind,) = machine_kinds(at_leaves(lambda m, a, leaf=leaf: leaf[m, a], machines=40))
        assert len(kind.rails) <= 1, seed
        assert not kind.swaps, seed


def test_an_absent_leaf_switch_is_one_finding() -> None:
    fabric = rail_fabric(absent=((1, 2),))
    assert texts(fabric, "absent leaf switch") == [
        "4 machines (gpu[04-07]) have no mlx5_2: all machines at leaf1-[0-1,3]"
    ]
    assert not texts(fabric, "missing adapter")
    assert row(fabric) == "8 machines of 4 adapters, rail-optimised, 4 rails"
    # Also if its adapters are known, but have no cable.
    cables = [f"leaf1-2[{port}]" for port in range(3, 7)]
    whole = rail_fabric()
    assert len(texts(whole.without(cables=cables), "absent leaf switch")) == 1
    assert len(texts(whole.without(cables=cables[:3]), "absent leaf switch")) == 0
    # Two of four groups without their leaf switch of different rails.
    fabric = rail_fabric(machines=32, adapters=8, per_group=8, absent=((1, 2), (3, 5)))
    found = texts(fabric, "absent leaf switch")
    assert [text.partition(":")[0] for text in found] == [
        "8 machines (gpu[08-15]) have no mlx5_2", "8 machines (gpu[24-31]) have no mlx5_5",
    ]  # fmt: skip
    assert row(fabric).startswith("32 machines of 8 adapters")


def test_one_adapter_left_is_known_by_the_names_of_other_machines() -> None:
    wired = {"machines": 16, "adapters": 2, "name": "n{machine:02d}-ib{adapter}"}
    fabric = rail_fabric(**wired, lacking=((5, 0),))
    assert texts(fabric, "missing adapter") == ["n05: 1 of 2 adapters, without ib0"]
    assert fabric.machines["n05"] == [10]
    fabric = rail_fabric(**wired, absent=((1, 0),))
    assert texts(fabric, "absent leaf switch") == [
        "4 machines (n[04-07]) have no ib0: all machines at leaf1-1"
    ]
    # Without a machine of several adapters, names keep what follows the host name.
    fabric = rail_fabric(**wired, lacking=tuple((machine, 0) for machine in range(16)))
    assert "n05-ib1" in fabric.machines


def test_a_machine_with_fewer_adapters_is_named() -> None:
    fabric = rail_fabric(lacking=((3, 1), (6, 0), (6, 3)))
    assert texts(fabric, "missing adapter") == [
        "gpu03: 3 of 4 adapters, without mlx5_1", "gpu06: 2 of 4 adapters, without mlx5_0, mlx5_3",
    ]  # fmt: skip
    assert not texts(fabric, "absent leaf switch")
    # If the machines of a kind do not agree, none deviates.
    some = rail_fabric(lacking=tuple((machine, 1) for machine in (0, 2, 4, 6)))
    assert not texts(some, "missing adapter")


def test_adapters_on_the_rail_of_another_are_named() -> None:
    assert texts(rail_fabric(swapped=(5, 1, 2)), "swapped adapters") == [
        "gpu05: mlx5_1 at leaf1-2, mlx5_2 at leaf1-1: have each other's rail"
    ]
    moved = at_leaves(lambda machine, adapter: 0 if (machine, adapter) == (6, 3) else adapter)
    assert texts(moved, "swapped adapters") == ["gpu6: mlx5_3 at leaf0: on another rail"]
    assert row(moved) == "8 machines of 4 adapters, rail-optimised, 4 rails"


def test_kinds_differ_by_name_and_role() -> None:
    build = FabricBuilder("kinds")
    leaves = build.switches(["a", "b"])
    for number in range(6):
        build.connect(leaves, build.hosts([f"gpu{number} mlx5_{each}" for each in range(2)]))
        build.connect(leaves[:1], build.hosts([f"oss{number}"]))
    fabric = build.fabric()
    assert row(fabric) == (
        "6 machines of 2 adapters, rail-optimised, 2 rails\n6 machines of 1 adapter"
    )
    assert row(fabric, "roles") == "6 compute, 6 storage"
    assert not texts(fabric, "missing adapter")


def test_nothing_is_said_of_the_rails_of_one_machine() -> None:
    assert row(rail_fabric(machines=1)) == "1 machine of 4 adapters"
    # Of two machines with each other's cables, neither is the usual one.
    pair = rail_fabric(machines=2, per_group=2, swapped=(1, 0, 1))
    assert not texts(pair, "swapped adapters")


def test_ports_of_an_adapter_are_told_apart() -> None:
    build = FabricBuilder("two ports")
    leaves = build.switches([f"leaf{number}" for number in range(4)])
    for number in range(6):
        hosts = build.hosts([f"gpu{number} mlx5_{each}" for each in range(2)])
        build.connect(leaves, hosts.repeat(2))
    (kind,) = machine_kinds(build.fabric())
    assert kind.adapters == 2
    assert kind.rails == (
        ("mlx5_0 port 1",), ("mlx5_0 port 2",), ("mlx5_1 port 1",), ("mlx5_1 port 2",),
    )  # fmt: skip


def test_names_of_one_word_join_adapters_only_if_they_can() -> None:
    fabric = rail_fabric(name="gpu{machine}-ib{adapter}")
    assert fabric.machines["gpu3"] == [12, 13, 14, 15]
    assert row(fabric).splitlines() == [
        "8 machines of 4 adapters, rail-optimised, 4 rails",
        "joined by names of one word, such as gpu0-ib0",
    ]
    alone = rail_fabric(adapters=1, name="gpu{machine}-ib{adapter}")
    assert list(alone.machines) == list(alone.host_names)
    # A host has the name that the adapters would have in common.
    build = FabricBuilder("names")
    hosts = build.hosts(["n1-ib0", "n1-ib1", "n1"])
    build.connect(build.switches(["s"]).repeat(3), hosts)
    assert len(build.fabric().machines) == 3


def test_fabrics_of_one_adapter_a_machine_have_neither_rows_nor_findings() -> None:
    fabric = rail_fabric(adapters=1)
    assert row(fabric) is None
    assert row(fabric, "roles") is None
    assert not machine_kinds(fabric)


def test_adapters_without_a_host_name_are_counted_once() -> None:
    fabric = at_leaves(lambda machine, adapter: 0, name="MT4123 ConnectX6 {0} {1}", machines=2)
    assert texts(fabric, "unnamed adapters") == [
        "8 adapters: MT4123 ConnectX6 0 0, MT4123 ConnectX6 0 1, MT4123 ConnectX6 0 2 and 5 more"
    ]
    assert not texts(rail_fabric(name="mt{machine} mlx5_{adapter}"), "unnamed adapters")
