"""Placement: the host of each rank by every strategy, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import reader, writer
from weft.fabrics.formats.hostlist import compress
from weft.fabrics.load import fabric as load
from weft.workload.placement import place

TREE = load("xgft:2;4,4;1,4")  # leaf l has the hosts h4l to h4l+3
TORUS = load("torus:4x3")


def names(fabric: Fabric, hosts: np.ndarray) -> list[str]:
    return [fabric.host_names[host] for host in hosts]


def test_linear_takes_hosts_in_the_order_given() -> None:
    assert place(TREE, 3).tolist() == [0, 1, 2]
    assert place(TREE, 3, hosts=[9, 2, 5]).tolist() == [9, 2, 5]
    assert place(TREE, 3, hosts="h[7-9]").tolist() == [7, 8, 9]
    assert place(TREE, 2, hosts=["h7", "h3"]).tolist() == [7, 3]


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (None, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]),
        ("block", [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]),
        ("cyclic", [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]),
        ("plane=2", [0, 0, 1, 1, 2, 2, 0, 0, 1, 1]),
    ],
)
def test_distributions_fill_hosts_as_slurm_does(distribution, expected) -> None:
    placed = place(TREE, 10, ranks_per_host=4, distribution=distribution)
    assert placed.tolist() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distribution": "cycle"}, r"unknown distribution 'cycle' \(did you mean 'cyclic'\?\)"),
        ({"distribution": "plane=0"}, "unknown distribution 'plane=0'"),
        ({"distribution": "plane=3", "ranks_per_host": 4}, "needs a multiple of 3 .* not 4"),
        ({"ranks_per_host": 0}, "ranks per host must be 1 to"),
    ],
)
def test_bad_distributions_are_refused(options, message) -> None:
    with pytest.raises(InputError, match=message):
        place(TREE, 4, **options)


def test_placement_by_coordinates_follows_the_axes() -> None:
    assert names(TORUS, place(TORUS, 5, "coordinates")) == ["h0.0", "h1.0", "h2.0", "h3.0", "h0.1"]
    swapped = place(TORUS, 5, "coordinates:axes=1,0")
    assert names(TORUS, swapped) == ["h0.0", "h0.1", "h0.2", "h1.0", "h1.1"]
    # Omitted axes follow the given ones, and hosts of one switch stay together.
    pairs = load("torus:2x2x2;hosts=2")
    assert names(pairs, place(pairs, 5, "coordinates:axes=2")) == [
        "h0.0.0.0", "h0.0.0.1", "h0.0.1.0", "h0.0.1.1", "h1.0.0.0",
    ]  # fmt: skip


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1)])
def test_consecutive_hosts_of_a_snake_are_neighbours(axes) -> None:
    torus = load("mesh:4x3x5")
    placed = place(torus, 60, "coordinates", axes=axes, snake=True)
    where = torus.coordinates[torus.num_switches + placed]
    assert (np.abs(np.diff(where, axis=0)).sum(axis=1) == 1).all()
    assert (where[:4, axes[0]] == np.arange(4)).all()


def test_hosts_without_coordinates_use_those_of_their_switch() -> None:
    bare = TORUS.coordinates.copy()
    bare[TORUS.num_switches :] = -1
    from dataclasses import replace

    placed = place(replace(TORUS, coordinates=bare), 12, "coordinates:axes=1")
    assert placed.tolist() == place(TORUS, 12, "coordinates:axes=1").tolist()
    bare = np.full_like(bare, -1)
    with pytest.raises(NotApplicable, match=r"host h0\.0 has no coordinates"):
        place(replace(TORUS, coordinates=bare), 12, "coordinates")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("coordinates:axes=2", "there is no axis 2; axes are 0 to 1"),
        ("coordinates:axes=-1", "there is no axis -1"),
        ("coordinates:axes=1,1", "axis 1 is named twice"),
    ],
)
def test_bad_axes_are_refused(spec, message) -> None:
    with pytest.raises(InputError, match=message):
        place(TORUS, 4, spec)


def test_placement_by_coordinates_refuses_fabrics_without_coordinates() -> None:
    with pytest.raises(NotApplicable, match="has no coordinates"):
        place(load("jellyfish:switches=8,degree=3,hosts=3"), 4, "coordinates")


def test_block_and_cyclic_placement_over_leaves() -> None:
    assert place(TREE, 6, "cyclic").tolist() == [0, 4, 8, 12, 1, 5]
    assert place(TREE, 6, "cyclic:size=2").tolist() == [0, 1, 4, 5, 8, 9]
    assert place(TREE, 10, "block:size=2").tolist() == [0, 1, 4, 5, 8, 9, 12, 13, 2, 3]
    # Leaves come in the order of their first host in the list.
    mixed = [13, 0, 5, 12, 1, 4]
    assert place(TREE, 6, "block", hosts=mixed).tolist() == [13, 12, 0, 1, 5, 4]
    assert place(TREE, 6, "block:order=number", hosts=mixed).tolist() == [0, 1, 5, 4, 13, 12]
    assert place(TREE, 6, "cyclic", hosts=mixed).tolist() == [13, 0, 5, 12, 1, 4]
    uneven = [0, 4, 5, 8, 9, 10]
    assert place(TREE, 6, "block:order=most", hosts=uneven).tolist() == [8, 9, 10, 4, 5, 0]
    assert place(TREE, 6, "cyclic", hosts=uneven).tolist() == [0, 4, 8, 5, 9, 10]


def test_leaves_in_random_order_keep_their_hosts_together() -> None:
    placed = place(TREE, 16, "block:order=random,seed=5")
    assert (placed.reshape(4, 4) // 4 == placed.reshape(4, 4)[:, :1] // 4).all()
    assert placed.tolist() != list(range(16))


def test_cyclic_placement_refuses_hosts_that_forward() -> None:
    with pytest.raises(NotApplicable, match="forwards packets itself"):
        place(load("bcube:n=3,k=1"), 4, "cyclic")
    with pytest.raises(InputError, match="size must be at least 1 host, not 0"):
        place(TREE, 4, "cyclic:size=0")


def test_random_placement_over_seats_separates_consecutive_ranks() -> None:
    by_host = place(TREE, 64, "random:seed=4", ranks_per_host=4)
    by_seat = place(TREE, 64, "random:seed=4,over=seats", ranks_per_host=4)
    assert np.bincount(by_host).tolist() == np.bincount(by_seat).tolist() == [4] * 16
    assert np.count_nonzero(np.diff(by_host)) == 15
    assert np.count_nonzero(np.diff(by_seat)) > 40
    with pytest.raises(InputError, match="over=seats gives the host of each rank"):
        place(TREE, 4, "random:over=seats", distribution="cyclic")


# -- named hosts -----------------------------------------------------------------------------


def test_ranks_take_hosts_in_the_order_of_the_list() -> None:
    assert place(TREE, 4, "hosts:h[10-12,3]").tolist() == [10, 11, 12, 3]
    assert place(TREE, 2, "hosts:h[10-12,3],h0").tolist() == [10, 11]
    assert place(TREE, 2, "hosts", list=("h[0-14/7]",)).tolist() == [0, 7]
    everyone = compress(TREE.host_names)
    assert sorted(place(TREE, 16, f"hosts:{everyone}").tolist()) == list(range(16))
    guid = f"{int(TREE.node_guid[TREE.num_switches + 5]):#x}"
    assert place(TREE, 1, f"hosts:{guid}").tolist() == [5]


def machines(*descriptions: str) -> Fabric:
    """Return a fabric, read from text, of one switch and adapters with these descriptions."""
    build = FabricBuilder("machines")
    adapters = build.hosts([f"a{number}" for number in range(len(descriptions))])
    build.connect(build.switches(["s"], ports=40).repeat(len(adapters)), adapters)
    text = writer["ibnetdiscover"].function(fabric=build.fabric())
    for number, description in enumerate(descriptions):
        text = text.replace(f'"a{number}"', f'"{description}"')
    return reader["ibnetdiscover"].function(text=text, file="machines").fabric()


def test_the_name_of_a_machine_names_all_its_adapters() -> None:
    fabric = machines("n1 mlx5_0", "n2 mlx5_0", "n1 mlx5_1", "n2 mlx5_1", "n3 HCA-1")
    assert fabric.machines == {"n1": [0, 2], "n2": [1, 3], "n3": [4]}
    assert place(fabric, 5, "hosts:n[3,1-2]").tolist() == [4, 0, 2, 1, 3]
    assert place(fabric, 2, hosts="n2").tolist() == [1, 3]
    assert place(fabric, 2, 'hosts:"n2 mlx5_1",n1 mlx5_0').tolist() == [3, 0]
    with pytest.raises(InputError, match="host n1 is named twice, the first time as n1 mlx5_0"):
        place(fabric, 2, "hosts:n1 mlx5_0,n1")
    with pytest.raises(InputError, match="host n1 mlx5_1 is given twice"):
        place(fabric, 2, hosts="n1,n1 mlx5_1")


def test_ranks_of_a_rank_file_divide_the_adapters_of_a_machine(tmp_path: Path) -> None:
    fabric = machines("n1 mlx5_0", "n1 mlx5_1", "n2 HCA-1")
    assert place(fabric, 3, write(tmp_path, "n1\nn2\nn1\n")).tolist() == [0, 2, 1]
    assert place(fabric, 2, write(tmp_path, "rank 1=n1\nrank 0=n2\n")).tolist() == [2, 0]
    with pytest.raises(InputError, match="n1 has 2 adapters"):
        fabric.find_node("n1")


def test_adapters_without_a_machine_name_are_separate_machines() -> None:
    fabric = machines("localhost HCA-1", "localhost HCA-1", "x", "ConnectX", "ConnectX")
    assert [len(adapters) for adapters in fabric.machines.values()] == [1] * 5
    with pytest.raises(InputError, match="no host 'localhost'"):
        place(fabric, 1, hosts="localhost")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hosts:h[0-20]", r"no host 'h16' in .*\(did you mean 'h6'"),
        ("hosts:h[0-2],h1", "host h1 is named twice"),
        ("hosts:h0", r"4 ranks do not fit on the 1 hosts of the list, one rank each: 1 fit"),
        ("hosts:h[0-", "brackets do not match"),
        ("hosts:h[[0]]", "brackets inside brackets"),
        ("hosts:s1.0", "s1.0 is a switch, not a host"),
        ("hosts:0xdead", "no host '0xdead'"),
    ],
)
def test_bad_host_lists_are_refused(spec, message) -> None:
    spec = spec.replace("s1.0", TREE.node_names[0])
    message = message.replace("s1.0", TREE.node_names[0])
    with pytest.raises(InputError, match=message):
        place(TREE, 4, spec)


def write(folder: Path, text: str) -> str:
    path = folder / "ranks"
    path.write_text(text)
    return f"file:{path}"


@pytest.mark.parametrize(
    "text",
    [
        "h5\nh0\n\n# a comment\nh5 # twice\n",
        "rank 0=h5 slot=0\nrank 1=h0 slot=1:0-2,4\nrank 2=h5 slot=p1:1\n",
        "rank 2 = h5\nrank 1 = h0 slots=3\n# x\nrank 0=h5\n",
        "rank 1=+n0\nrank 0=h5\nrank 2=+n5",
    ],
)
def test_rank_files(tmp_path, text) -> None:
    assert place(TREE, 3, write(tmp_path, text)).tolist() == [5, 0, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h0\nh1\nh77\n", r"ranks:3: placement file: no host 'h77'"),
        ("h0\nh1 slots=2\nh2\n", r"ranks:2: .*'h1 slots=2' is not a host"),
        ("h0\nh1\n", r"ranks: placement file: rank 2 has no host; .* for 2 of 3 ranks"),
        ("h0\nh1\nh2\n\nh3\n", r"ranks:5: .*rank 3 does not exist; there are 3 ranks"),
        ("rank 0=h0\nrank 2=h1\n", r"rank 1 has no host"),
        ("rank 0=h0\nrank 0=h1\n", r"ranks:2: .*rank 0 already has a host, in line 1"),
        ("rank 0=h0\nh1\n", r"ranks:2: .*expected rank N=HOST"),
        ("rank 0=h0\nrank x=h1\n", r"ranks:2: .*expected rank N=HOST"),
        ("rank 0=h0 slot=\n", r"ranks:1: .*expected rank N=HOST"),
        ("rank 0=+n16\n", r"ranks:1: .*\+n16 does not exist among the 16 hosts of"),
        ("rank 999999999999=h0\n", r"ranks:1: .*is too large"),
    ],
)
def test_bad_rank_files_are_refused(tmp_path, text, message) -> None:
    with pytest.raises(InputError, match=message):
        place(TREE, 3, write(tmp_path, text))


def test_rank_files_keep_to_the_allowed_hosts_and_ranks_per_host(tmp_path) -> None:
    spec = write(tmp_path, "h1\nh2\nh1\n")
    with pytest.raises(InputError, match=r":2: .*host h2 is not among the hosts that may be used"):
        place(TREE, 3, spec, hosts="h[0-1]")
    with pytest.raises(InputError, match="host h1 has 2 ranks; expected at most 1 per host"):
        place(TREE, 3, spec, ranks_per_host=1)
    with pytest.raises(InputError, match="a rank file gives the host of each rank"):
        place(TREE, 3, spec, distribution="block")
    with pytest.raises(InputError, match="cannot be read"):
        place(TREE, 3, "file:/no/such/file")


# -- host numbers, and errors common to all placements ----------------------------------------


def test_a_list_of_host_numbers_is_a_placement() -> None:
    assert place(TREE, 3, [5, 5, 0]).tolist() == [5, 5, 0]
    numbers = np.array([1, 2, 3])
    placed = place(TREE, 3, numbers)
    numbers[0] = 9
    assert placed.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ([0, 1], "is for 2 ranks, and there are 3"),
        ([0, -1, 2], "rank 1 has no host"),
        ([0, 16, 2], "16 at index 1 is out of range; hosts of .* are 0 to 15"),
        ([0.0, 1.0, 2.0], "expected whole numbers"),
        ([[0, 1, 2]], "expected whole numbers"),
    ],
)
def test_bad_host_numbers_are_refused(hosts, message) -> None:
    with pytest.raises(InputError, match=message):
        place(TREE, 3, hosts)


def test_host_numbers_keep_to_the_allowed_hosts_and_ranks_per_host() -> None:
    with pytest.raises(InputError, match="host h2 of rank 1 is not among the hosts that may be"):
        place(TREE, 3, [0, 2, 1], hosts="h[0-1]")
    with pytest.raises(InputError, match="host h5 has 2 ranks; expected at most 1"):
        place(TREE, 3, [0, 5, 5], ranks_per_host=1)
    with pytest.raises(InputError, match="a list of host numbers gives the host of each rank"):
        place(TREE, 1, [0], distribution="block")


def test_the_error_for_too_many_ranks_says_how_many_fit() -> None:
    with pytest.raises(InputError, match=r"17 ranks .* 16 hosts of xgft.*, one rank each: 16 fit"):
        place(TREE, 17)
    with pytest.raises(InputError, match=r"50 ranks .* 16 hosts of .*, 3 ranks each: 48 fit"):
        place(TREE, 50, "random", ranks_per_host=3)
    with pytest.raises(InputError, match=r"5 ranks .* 4 hosts that may be used"):
        place(TREE, 5, hosts="h[0-3]")


@pytest.mark.parametrize("ranks", [0, -1, 2**40, 2.5, True])
def test_bad_numbers_of_ranks_are_refused(ranks) -> None:
    with pytest.raises(InputError, match="the number of ranks must be"):
        place(TREE, ranks)


def test_hosts_without_a_cable_are_left_out_or_refused(tmp_path) -> None:
    cable = TREE.cable_name(0).split(" -- ")
    loose = TREE.without(cables=[cable[0]])
    (host,) = np.flatnonzero(loose.host_endpoint < 0)
    name = loose.host_names[host]
    assert host not in place(loose, 15)
    with pytest.raises(InputError, match=r"15 hosts of .* that have a cable \(of 16\).*15 fit"):
        place(loose, 16)
    for spec in (f"hosts:{name}", write(tmp_path, name), [host]):
        with pytest.raises(InputError, match=f"host {name} has no cable"):
            place(loose, 1, spec)
    with pytest.raises(InputError, match=f"host {name} has no cable"):
        place(loose, 1, hosts=[host])


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ("h[0-1],h0", "host h0 is given twice"),
        ([0, 99], "allowed hosts: 99 at index 1 is out of range"),
        ("h[0-99]", "no host 'h16'"),
    ],
)
def test_bad_allowed_hosts_are_refused(hosts, message) -> None:
    with pytest.raises(InputError, match=message):
        place(TREE, 2, hosts=hosts)


def test_unknown_placements_are_named() -> None:
    with pytest.raises(InputError, match=r"unknown placement 'liner' \(did you mean 'linear'\?\)"):
        place(TREE, 2, "liner")
    with pytest.raises(InputError, match="seed is also given as an option"):
        place(TREE, 2, "random:seed=1", seed=2)
    with pytest.raises(InputError, match="has no option 'seed'"):
        place(TREE, 2, [0, 1], seed=2)


def test_placements_that_keep_few_ranks_apart() -> None:
    assert place(TREE, 3, "last").tolist() == [13, 14, 15]
    assert place(TREE, 4, "last", ranks_per_host=2).tolist() == [14, 14, 15, 15]
    assert place(TREE, 3, "strided").tolist() == [0, 5, 10]
    assert place(TREE, 2, "strided", hosts=[9, 2, 5, 7]).tolist() == [9, 5]
    # One position further on each leaf, or the next free one.
    assert place(TREE, 2, "spread").tolist() == [0, 9]
    assert place(TREE, 4, "spread").tolist() == [0, 5, 10, 15]
    assert place(TREE, 6, "spread").tolist() == [0, 5, 10, 15, 1, 9]
    assert place(TREE, 6, "spread:positions=same").tolist() == [0, 4, 8, 12, 1, 9]
    # One leaf is as far from another as the next one.
    assert place(TREE, 5, "apart").tolist() == [0, 4, 8, 12, 1]
    # On a ring of 8, the opposite host, and then those half-way between.
    assert place(load("ring:8"), 4, "apart").tolist() == [0, 4, 2, 6]


def test_spread_uses_fast_or_central_hosts_first() -> None:
    slow = TREE.degraded([f"h{host}[1]" for host in range(8)], "4xQDR")
    assert place(slow, 4, "spread:among=fastest").tolist() == [8, 13, 10, 15]
    assert set(place(slow, 9, "spread:among=fastest").tolist()) > set(range(8, 16))
    # The middle of a mesh of 5 switches in a row, then its neighbours.
    row = load("mesh:5")
    assert place(row, 1, "spread:among=central").tolist() == [2]
    assert set(place(row, 3, "spread:among=central").tolist()) == {1, 2, 3}
