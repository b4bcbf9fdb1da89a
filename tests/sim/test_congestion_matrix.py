"""The congestion matrix as a table: waits by input link, levels, sides, shares."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.packet_runs import PLAIN, D, L, R, fabric_of, puts, run
from tests.random_fabrics import random_fabric

import weft
from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.sim.common.congestion_matrix import CONGESTION_MATRIX_COLUMNS, congestion_matrix
from weft.sim.packet.result import PacketResult

#: Two leaf switches below one root: hosts 0 and 1 on s1, hosts 2 and 3 on s2.
TREE = fabric_of([1, 1, 2, 2], [(0, 1), (0, 2)])


def waits_ps(result: PacketResult) -> dict[str, int]:
    """Return name of a link -> total wait of its packets at the far end, where it is not 0."""
    matrix = result.congestion_matrix().filter(pl.col("wait_ns") > 0)
    return {
        name: round(ns * 1e3) for name, ns in zip(matrix["name"], matrix["wait_ns"], strict=True)
    }


def test_of_two_packets_for_one_output_the_later_waits_until_the_first_has_left() -> None:
    result = run(fabric_of([0, 0, 0]), puts(3, (0, 2, 1000), (1, 2, 1000)))
    assert waits_ps(result) == {"h1[1] -> s0[2]": D}
    matrix = result.congestion_matrix()
    assert matrix["share"].to_list() == [0.0, 1.0, 0.0]
    assert matrix["switch_wait_ns"].to_list() == [D / 1e3] * 3
    assert matrix["switch_share"].to_list() == [1.0] * 3


@pytest.mark.parametrize("queues", ["input", "voq"])
def test_waits_of_several_packets_add_up_by_input_link(queues: str) -> None:
    # Both inputs take turns, so the packets leave in the order 0, 1, 0, 1, one every D. The first
    # packets arrive together, and the second ones D later.
    hardware = replace(PLAIN, queues=queues)
    result = run(TREE, puts(4, (0, 2, 2000), (1, 2, 2000)), hardware)
    assert waits_ps(result) == {"h0[1] -> s1[1]": D, "h1[1] -> s1[2]": D + 2 * D}
    assert result.congestion_matrix()["share"].to_list() == pytest.approx(
        [0, 0, 0, 1 / 3, 1, 0, 0, 0]
    )


def test_a_packet_from_above_waits_at_the_lower_switch() -> None:
    # The packet of host 0 is routed at s2 after three cables and switches. Host 3 has then begun
    # to send its third packet, which is routed one cable and switch and 2 D after the start.
    result = run(TREE, puts(4, (0, 2, 1000), (3, 2, 3000)))
    wait = (L + R) + 3 * D - 3 * (L + R)
    assert waits_ps(result) == {"s0[2] -> s2[3]": wait}
    row = result.congestion_matrix().filter(pl.col("wait_ns") > 0)
    assert row.select("level", "column", "node_name", "side", "port").row(0) == (
        1, 1, "s2", "upper", 3,
    )  # fmt: skip


def test_waits_in_adapters_and_at_full_buffers_are_where_the_packets_are() -> None:
    # One packet fits into each buffer. Packets wait in h0 for credits: that is not in a switch.
    small = replace(PLAIN, buffer_bytes=1024)
    alone = run(TREE, puts(4, (0, 2, 5000)), small)
    assert alone.wait_ps.sum() > 0
    into = alone.fabric.link_to < alone.fabric.num_switches
    leaving = alone.fabric.link_from < alone.fabric.num_switches
    assert alone.buffer_wait_ps[into].sum() == alone.wait_ps[leaving].sum()
    assert not alone.buffer_wait_ps[~into].any()


@pytest.mark.parametrize("hardware", [{"queues": "voq"}, {"speedup": 2}, {"buffer_bytes": 4096}])
def test_waits_by_input_and_by_output_link_have_one_sum(hardware: dict[str, object]) -> None:
    fabric = build("xgft:2;4,4;1,2")
    work = weft.load_workload("alltoall:size=8KiB", 16)
    result = run(fabric, work, weft.Hardware(**hardware), lane_of=[n % 3 for n in range(16)])
    leaving = fabric.link_from < fabric.num_switches
    assert result.buffer_wait_ps.sum() == result.wait_ps[leaving].sum() > 0


# -- levels, sides and shares ----------------------------------------------------------------------


def shape(matrix: pl.DataFrame) -> list[tuple[int | None, list[tuple[int, int]]]]:
    """Return the level and the numbers of each block, (upper, lower), for every row of blocks."""
    rows: dict[int | None, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for level, column, side in matrix.select("level", "column", "side").rows():
        rows[level][column][("upper", "lower").index(side)] += 1
    return [
        (level, [tuple(blocks[column]) for column in range(len(blocks))])
        for level, blocks in rows.items()
    ]


def of(fabric: Fabric) -> pl.DataFrame:
    return congestion_matrix(fabric, np.zeros(fabric.num_links))


@pytest.mark.parametrize("labels", [True, False])
def test_rows_and_blocks_of_the_papers_tree(labels: bool) -> None:
    fabric = build("kary-n-tree:k=4,n=3")
    if not labels:
        fabric = fabric.shuffled(3)
    assert shape(of(fabric)) == [
        (3, [(0, 4)] * 16), (2, [(4, 4)] * 16), (1, [(4, 4)] * 16),
    ]  # fmt: skip


def test_rows_of_a_slimmed_and_of_a_broken_tree() -> None:
    slimmed = build("xgft:2;4,3;1,2")
    assert shape(of(slimmed)) == [(2, [(0, 3)] * 2), (1, [(2, 4)] * 3)]
    first_top = slimmed.find_node("s2-0")
    broken = slimmed.without(switches=[first_top])
    assert shape(of(broken)) == [(2, [(0, 3)]), (1, [(1, 4)] * 3)]


def test_sides_are_the_directions_of_the_labelled_levels() -> None:
    fabric = build("xgft:3;2,3,4;1,2,3")
    for row in of(fabric).iter_rows(named=True):
        tail, head = fabric.link_from[row["link"]], fabric.link_to[row["link"]]
        assert (row["node"], row["level"]) == (head, fabric.level[head])
        assert (row["side"] == "lower") == (fabric.level[tail] < fabric.level[head])
        assert row["port"] == fabric.link_to_port[row["link"]]


def test_columns_follow_the_names_in_natural_order() -> None:
    matrix = of(build("xgft:2;1,12;1,1")).filter(pl.col("level") == 1)
    names = matrix.unique("column").sort("column")["node_name"].to_list()
    assert names == [f"s1-{number}" for number in range(12)]


def test_a_fabric_without_levels_is_one_row_with_adapters_below() -> None:
    assert shape(of(build("torus:3x3"))) == [(None, [(4, 1)] * 9)]


def test_links_inside_hosts_that_forward_come_from_below() -> None:
    fabric = build("bcube:n=2,k=1")
    inside = 2 * fabric.num_hosts
    wait = np.zeros(fabric.num_links + inside)
    wait[fabric.num_links + 2] = 7.0  # from the adapter of host 1 into its node
    matrix = congestion_matrix(fabric, wait, np.arange(len(wait)).astype(str).astype(object))
    assert shape(matrix) == [(2, [(0, 2)] * 4), (1, [(2, 1)] * 4)]
    assert matrix.filter(pl.col("wait_ns") > 0).select("node", "port", "name", "side").row(0) == (
        int(fabric.host_nodes[1]), 0, str(fabric.num_links + 2), "lower",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_shares_are_over_the_most_loaded_link_and_switch(seed: int) -> None:
    fabric = random_fabric(seed)
    wait = np.random.default_rng(seed).integers(0, 50, fabric.num_links).astype(float)
    matrix = congestion_matrix(fabric, wait)
    assert list(matrix.columns) == list(CONGESTION_MATRIX_COLUMNS)
    adapter = fabric.node_kind[fabric.link_from] == weft.NodeKind.AUXILIARY
    into = np.flatnonzero(fabric.forwards[fabric.link_to] & ~adapter).tolist()
    assert sorted(matrix["link"]) == into
    sums: dict[int, float] = defaultdict(float)
    for link in into:
        sums[int(fabric.link_to[link])] += wait[link]
    for row in matrix.iter_rows(named=True):
        assert row["name"] == fabric.link_name(row["link"])
        assert row["wait_ns"] == wait[row["link"]]
        assert row["share"] == pytest.approx(wait[row["link"]] / wait[into].max())
        assert row["switch_wait_ns"] == sums[row["node"]]
        assert row["switch_share"] == pytest.approx(sums[row["node"]] / max(sums.values()))


def test_a_run_without_waits_has_shares_of_0() -> None:
    matrix = of(TREE)
    assert matrix["share"].to_list() == matrix["switch_share"].to_list() == [0.0] * 8


@pytest.mark.parametrize(
    ("wait", "wrong"),
    [
        ([1.0], "1 numbers; expected 12"),
        ([-1.0] * 12, "out of range"),
        ([np.nan] * 12, "out of range"),
    ],
)
def test_wrong_waits_are_refused(wait: list[float], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        congestion_matrix(TREE, wait)
