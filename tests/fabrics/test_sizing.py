"""Machines sized for a number of hosts: rules of the literature, and numbers by hand."""

from itertools import product

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.fabrics.topology import build
from weft.fabrics.topology.sizing import Machine, machine_names, machines_for, ports_of
from weft.fabrics.topology.xgft import xgft_counts


def machine(name: str, hosts: int, radix: int) -> Machine:
    (found,), _ = machines_for(hosts, radix, "4xNDR", [name])
    return found


def parameters(name: str, hosts: int, radix: int) -> dict[str, object]:
    return dict(build(machine(name, hosts, radix).spec).parameters)


@pytest.mark.parametrize(("hosts", "radix"), [(40, 16), (72, 36), (500, 40), (1024, 64)])
def test_machines_are_as_large_as_announced(hosts: int, radix: int):
    machines, refused = machines_for(hosts, radix, "4xHDR")
    assert {each.name for each in machines} | refused.keys() == set(machine_names())
    assert [m.form.switches for m in machines] == sorted(m.form.switches for m in machines)
    for each in machines:
        fabric = build(each.spec)
        assert fabric.num_hosts == hosts == each.hosts
        assert fabric.num_switches == each.form.switches
        assert fabric.num_cables == each.form.cables - (each.places - hosts)
        assert fabric.num_ports[: fabric.num_switches].max() <= radix
        assert each.form.hosts == each.places >= hosts
        assert set(fabric.cable_rate_gbps.tolist()) == {200.0}


def test_hosts_are_left_out_evenly():
    spec = machine("fat-tree-3:1", 1024, 64).spec
    assert spec.endswith("attached=1024")
    fabric = build(spec)
    below = fabric.link_from[fabric.link_to >= fabric.num_switches]
    count = np.bincount(below, minlength=fabric.num_switches)
    assert sorted(set(count.tolist())) == [0, 46, 47]


@pytest.mark.parametrize("ratio", [1, 2, 3])
@pytest.mark.parametrize("hosts", [500, 1024, 3000, 10_000])
def test_only_leaf_switches_are_oversubscribed_and_exactly(ratio: int, hosts: int):
    tree = parameters(f"fat-tree-{ratio}:1", hosts, 64)
    m, w, p = tree["m"], tree["w"], tree["p"]
    assert m[0] == ratio * w[1] * p[1]
    if len(m) == 3:  # as many cables up as down at the middle level
        assert m[1] * p[1] == w[2] * p[2]


@pytest.mark.parametrize(
    ("hosts", "radix", "switches"),
    # 2-level trees of full bisection have 3k/2 switches and k²/2 hosts, 3-level trees 5k²/4
    # switches and k³/4 hosts (Al-Fares et al. 2008).
    [(2048, 64, 96), (32, 8, 12), (128, 8, 80), (65_536, 64, 5120), (64, 64, 1)],
)
def test_full_fat_trees_have_the_numbers_of_the_literature(hosts, radix, switches):
    found = machine("fat-tree-1:1", hosts, radix)
    assert (found.form.switches, found.places) == (switches, hosts)


@pytest.mark.parametrize("ratio", [1, 2, 3])
@pytest.mark.parametrize("hosts", [9, 13, 24, 31])
def test_no_two_level_tree_has_fewer_switches(ratio: int, hosts: int):
    radix = 8
    best = min(
        xgft_counts(2, (ratio * w * p, leaves), (1, w), (1, p)).switches
        for w, p, leaves in product(range(1, 9), range(1, 9), range(2, 9))
        if ratio * w * p * leaves >= hosts and (ratio + 1) * w * p <= radix and leaves * p <= radix
    )
    assert machine(f"fat-tree-{ratio}:1", hosts, radix).form.switches == best


def test_the_largest_tree_is_named_when_none_fits():
    machines, refused = machines_for(65_537, 64, "4xNDR", ["fat-tree-1:1"])
    assert not machines
    assert refused == {
        "fat-tree-1:1": "switches of 64 ports cannot connect 65,537 hosts; the largest has 65,536"
    }


def test_one_switch_is_one_machine():
    machines, refused = machines_for(40, 64, "4xNDR", ["fat-tree"])
    assert [each.name for each in machines] == ["fat-tree-1:1"]
    assert set(refused.values()) == {"the same machine as fat-tree-1:1"}


def test_dragonflies_are_balanced_and_trimmed():
    # Figure 5 of Kim et al. 2008: p = h = 2, a = 4, 72 hosts.
    full = parameters("dragonfly", 72, 7)
    assert (full["p"], full["a"], full["h"], full["g"]) == (2, 4, 2, 9)
    trimmed = parameters("dragonfly", 10_000, 64)
    assert (trimmed["p"], trimmed["a"], trimmed["h"], trimmed["g"]) == (16, 32, 16, 20)


def test_a_full_megafly_has_as_many_groups_as_global_ports_and_one():
    found = parameters("megafly", 272, 8)
    assert [found[key] for key in ("p", "leaves", "spines", "h", "g", "cables")] == [
        4, 4, 4, 4, 17, 1,
    ]  # fmt: skip


def test_the_slim_fly_of_the_paper():
    # Besta and Hoefler 2014: q = 5 is the Hoffman-Singleton graph, 50 switches, k' = 7, p = 4.
    found = machine("slim-fly", 200, 11)
    assert (found.spec, found.form.switches) == ("slim-fly:q=5,hosts=4,rate=4xNDR", 50)


@pytest.mark.parametrize("hosts", [40, 500, 1024, 10_000])
def test_hyperx_has_full_bisection_in_every_dimension(hosts: int):
    found = parameters("hyperx", hosts, 64)
    assert min(found["S"]) * found["K"][0] >= 2 * found["T"]
    assert max(found["S"]) - min(found["S"]) <= 1


def test_the_torus_of_gordon():
    assert machine("torus", 1024, 36).spec == "torus:dims=4,4,4,hosts=16,cables=3,rate=4xNDR"
    small = parameters("torus", 200, 36)
    assert len(small["dims"]) == 2


@pytest.mark.parametrize("hosts", [40, 1024])
def test_kns_routers_have_no_more_hosts_than_cables_to_a_line(hosts: int):
    found = parameters("kns", hosts, 64)
    assert found["hosts"] <= found["cables"]


@pytest.mark.parametrize(("hosts", "radix"), [(500, 64), (1024, 64), (300, 16)])
def test_jellyfish_has_the_switches_of_the_full_fat_tree(hosts: int, radix: int):
    found = machine("jellyfish", hosts, radix)
    assert found.form.switches == machine("fat-tree-1:1", hosts, radix).form.switches


def test_names_of_groups_and_unknown_names():
    names = [each.name for each in machines_for(1024, 64, "4xNDR", ["fat-tree", "torus"])[0]]
    assert sorted(names) == ["fat-tree-1:1", "fat-tree-2:1", "fat-tree-3:1", "torus"]
    with pytest.raises(InputError, match=r"unknown machine 'tours' \(did you mean 'torus'"):
        machines_for(1024, 64, "4xNDR", ["tours"])


@pytest.mark.parametrize(
    ("hosts", "radix", "rate", "reason"),
    [
        (1, 64, "4xNDR", "the number of hosts must be"),
        (10, 1, "4xNDR", "the number of ports of a switch must be"),
        (10, 64, "fast", "unknown rate 'fast'"),
        ("10", 64, "4xNDR", "the number of hosts must be a whole number"),
    ],
)
def test_wrong_numbers_are_refused(hosts, radix, rate, reason):
    with pytest.raises(InputError, match=reason):
        machines_for(hosts, radix, rate)


@pytest.mark.parametrize(
    ("rate", "ports"),
    [("4xQDR", 36), ("EDR", 36), ("4xHDR", 40), ("2xNDR", 64), ("4xXDR", 144), (100, 64)],
)
def test_usual_switches_of_a_rate(rate, ports):
    assert ports_of(rate) == ports


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("ring:4,attached=5", "attached must be at least 2 and at most 4"),
        ("ring:4,attached=1", "attached must be at least 2 and at most 4"),
        ("ring:4,attached=few", "attached: 'few' does not fit"),
        ("bcube:n=2,k=1,attached=3", "hosts forward"),
    ],
)
def test_wrong_numbers_of_attached_hosts_are_refused(spec, reason):
    with pytest.raises(InputError, match=reason) as error:
        build(spec)
    assert spec in str(error.value)
