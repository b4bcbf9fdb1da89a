"""What a trace says of waits: behind others of its queue, and for the link."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import polars as pl
import pytest

import weft
from weft.workload import WorkloadBuilder


def traced(**hardware: object) -> weft.PacketResult:
    """Ranks of two leaves to one host, each of them also to another."""
    fabric = weft.fabric("xgft:2;4,4;1,2")
    builder = WorkloadBuilder(16, name="crossing")
    for rank in range(8):
        builder.put(rank, 8, 15_000)
        builder.put(rank, 9 + rank % 7, 15_000)
    work = builder.build()
    return weft.simulate(
        fabric, weft.route(fabric, "dmodk"), work,
        hardware=weft.Hardware(buffer_bytes=4096, mtu_bytes=1024, **hardware),
        trace=work.messages.tolist(), level="packet",
    )  # fmt: skip


@pytest.mark.parametrize("queues", ["input", "voq"])
def test_waits_behind_others_are_those_of_the_queues_order(queues: str) -> None:
    result = traced(queues=queues)
    ways: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
    for row in result.hop.tolist():
        ways[row[0], row[1]].append(tuple(row))
    lined: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for way in ways.values():
        way.sort(key=lambda row: row[5])
        assert way[0][7] == way[0][4]
        for came, gone in pairwise(way):
            queue = (came[2], came[3], *((gone[2],) if queues == "voq" else ()))
            lined[queue].append((came[5], *gone))
    behind = 0
    for rows in lined.values():
        rows.sort()
        before = 0
        for _, _, _, _, _, ready, left, _, first in rows:
            assert first == max(ready, before)
            behind += first - ready
            before = left
    table = result.hops()
    assert table["behind_ns"].sum() == pytest.approx(behind / 1000)
    assert behind > 0
    assert table.filter(pl.col("behind_ns") > pl.col("wait_ns")).is_empty()


def test_queues_for_each_link_take_the_wait_behind_others_away_that_input_queues_cause() -> None:
    alone, shared = (traced(queues=kind).hops()["behind_ns"].sum() for kind in ("voq", "input"))
    assert alone < shared
