"""Waits of packets in a trace: behind others of their queue, and for the link."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import polars as pl
import pytest

import weft
from weft.workload import WorkloadBuilder


def traced(**hardware: object) -> weft.PacketResult:
    """Simulate ranks 0 to 7, each of which sends to host 8 and to one of hosts 9 to 15."""
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
def test_waits_behind_others_follow_from_the_order_of_queues(queues: str) -> None:
    result = traced(queues=queues)
    hops_of: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
    for row in result.hop.tolist():
        hops_of[row[0], row[1]].append(tuple(row))
    queues_rows: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for hops in hops_of.values():
        hops.sort(key=lambda row: row[5])
        assert hops[0][7] == hops[0][4]
        for arrival, departure in pairwise(hops):
            queue = (arrival[2], arrival[3], *((departure[2],) if queues == "voq" else ()))
            queues_rows[queue].append((arrival[5], *departure))
    behind = 0
    for rows in queues_rows.values():
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


def test_virtual_output_queues_reduce_waits_behind_others() -> None:
    alone, shared = (traced(queues=kind).hops()["behind_ns"].sum() for kind in ("voq", "input"))
    assert alone < shared
