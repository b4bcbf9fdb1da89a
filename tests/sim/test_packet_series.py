"""Time series of links, queues and ranks at the packet level."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from tests.packet_states import slot_run

from weft.core.columns import Column
from weft.core.errors import InputError
from weft.fabrics.topology import build
from weft.routing import route
from weft.sim.packet import Hardware
from weft.sim.packet.series import (
    CABLE_SERIES_COLUMNS,
    LINK_SERIES_COLUMNS,
    QUEUE_SERIES_COLUMNS,
    cable_series,
    link_series,
    queue_series,
)
from weft.sim.packet.timelines import (
    SPAN_COLUMNS,
    TIMELINE_COLUMNS,
    joined,
    rank_spans,
    timelines,
)
from weft.sim.simulate import simulate
from weft.workload import WorkloadBuilder

TREE = build("xgft:2;4,4;1,2")
ROUTES = route(TREE, "minhop")


def exchange(size=30_000):
    builder = WorkloadBuilder(16)
    for rank in range(16):
        program = builder.rank(rank)
        program.calc(700.0 + 10.5 * rank)
        program.isend((rank + 5) % 16, size)
        program.recv((rank - 5) % 16, size)
        program.put(0, 9_000) if rank else None
    return builder.build()


@pytest.fixture(scope="module", params=[None, 25.0], ids=["fast", "slow adapters"])
def result(request):
    """Simulate an exchange, with adapters as fast as cables of 200 Gb/s and with slow adapters."""
    return simulate(
        TREE, ROUTES, exchange(), snapshot_ns=500, eager_bytes=0,
        hardware=Hardware(adapter_gbps=request.param), level="packet",
    )  # fmt: skip


def test_series_of_links_add_up_to_the_counters(result):
    series = link_series(result)
    assert list(series.columns) == list(LINK_SERIES_COLUMNS)
    last = int(result.snapshots.time_ps[-1])
    spans = (series["end_ns"] - series["begin_ns"]).to_numpy()
    busy = series.with_columns(busy=pl.col("utilisation") * spans)
    sums = busy.group_by("link", maintain_order=True).agg(
        pl.col("busy", "wire_bytes", "wait_ns").sum()
    )
    assert sums["link"].to_list() == list(range(TREE.num_links))
    shots = result.snapshots
    assert np.allclose(sums["busy"] * 1e3, shots.busy_ps[-1])
    assert np.array_equal(sums["wire_bytes"], shots.wire_bytes[-1].sum(axis=1))
    assert np.allclose(sums["wait_ns"] * 1e3, shots.wait_ps[-1].sum(axis=1))
    assert series["utilisation"].is_between(0, 1).all()
    assert series["held_share"].is_between(0, 1).all()
    assert series["end_ns"].max() == last / 1e3
    assert series["begin_ns"].min() == 0


def test_a_link_that_always_sends_has_utilisation_1_and_its_full_rate():
    builder = WorkloadBuilder(16)
    builder.put(4, 0, 2_000_000)
    run = simulate(TREE, ROUTES, builder.build(), snapshot_ns=10_000, level="packet")
    link = run.busy_ps.argmax()
    series = link_series(run, [int(link)])
    middle = series.slice(1, len(series) - 2)
    assert np.allclose(middle["utilisation"], 1.0)
    rate = TREE.link_rate_gbps[link]
    one_packet = (2048 + 26) * 8 / 10_000
    assert np.allclose(middle["throughput_gbps"], rate, atol=one_packet)
    assert middle["waiting"].sum() == 0


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_a_slow_adapter_uses_its_share_of_each_link(share):
    builder = WorkloadBuilder(16)
    builder.put(4, 0, 2_000_000)
    rate = float(TREE.link_rate_gbps[0])
    hardware = Hardware(adapter_gbps=share * rate)
    run = simulate(
        TREE, ROUTES, builder.build(), snapshot_ns=10_000, hardware=hardware, level="packet"
    )
    one_packet = (2048 + 26) * 8 / rate / 10_000
    for link in np.flatnonzero(run.busy_ps).tolist():
        middle = link_series(run, [link]).slice(1, len(run.snapshots.time_ps) - 4)
        assert len(middle) > 5
        assert np.allclose(middle["utilisation"], share, atol=one_packet)
        assert np.allclose(middle["throughput_gbps"], share * rate, atol=one_packet * rate)


def test_series_of_queues_add_up_to_those_of_links():
    run = slot_run(TREE, exchange(), lanes=2)
    links = link_series(run)
    queues = queue_series(run)
    assert list(queues.columns) == list(QUEUE_SERIES_COLUMNS)
    assert len(queues) == 2 * len(links)
    assert queues["vl"].to_list()[:4] == [0, 1, 0, 1]
    for name in ("wire_bytes", "wait_ns", "waiting"):
        both = queues[name].to_numpy().reshape(-1, 2).sum(axis=1)
        assert np.allclose(both, links[name])
    shots = run.snapshots
    assert np.array_equal(queues["held_credits"], shots.held.ravel())
    assert np.allclose(queues["held_share"], shots.held.ravel() / run.hardware.buffer_credits)
    waits = shots.wants.ravel() >= 0
    assert np.array_equal(queues["why"].is_not_null(), waits)
    assert np.array_equal(queues["wants_link"].drop_nulls(), shots.wants.ravel()[waits])
    assert np.array_equal(queues["wants_vl"].drop_nulls(), shots.wants_vl.ravel()[waits])
    assert set(queues["why"].drop_nulls()) == {"link busy", "no credits"}


def test_series_of_some_links_are_part_of_those_of_all(result):
    some = [7, 3]
    every = link_series(result)
    chosen = link_series(result, some)
    assert chosen["link"].to_list()[:4] == [7, 3, 7, 3]
    for link in some:
        assert chosen.filter(pl.col("link") == link).equals(every.filter(pl.col("link") == link))
    assert queue_series(result, []).is_empty()


def test_values_of_a_cable_are_those_of_its_busier_link(result):
    cables = cable_series(result)
    assert list(cables.columns) == list(CABLE_SERIES_COLUMNS)
    links = link_series(result)
    use = links["utilisation"].to_numpy().reshape(-1, 2)
    held = links["held_share"].to_numpy().reshape(-1, 2)
    assert np.allclose(cables["utilisation"], use.max(axis=1))
    assert np.allclose(cables.select("forth", "back"), use)
    assert np.allclose(cables["held_share"], held.max(axis=1))
    assert np.array_equal(
        cables["wire_bytes"], links["wire_bytes"].to_numpy().reshape(-1, 2).sum(1)
    )
    assert cables["name"][0] == TREE.cable_name(0)


def test_a_snapshot_at_the_start_ends_no_interval(result):
    assert result.snapshots.time_ps[0] == 0
    assert len(link_series(result, [0])) == len(result.snapshots.time_ps) - 1


def test_a_run_shorter_than_an_interval_has_no_rows():
    short = simulate(TREE, ROUTES, exchange(), level="packet", snapshot_ns=1e9)
    for series in (link_series, queue_series, cable_series):
        assert series(short).is_empty()


@pytest.mark.parametrize("links", [[48], [-1], [0.5], [[1]]])
def test_links_that_do_not_exist_are_refused(result, links):
    with pytest.raises(InputError, match="link"):
        link_series(result, links)


def test_series_need_snapshots(result):
    with pytest.raises(InputError, match="snapshot_ns"):
        link_series(replace(result, snapshots=None))


# -- ranks -----------------------------------------------------------------------------------------


def test_timelines_have_every_operation(result):
    work = result.workload
    table = timelines(result)
    assert list(table.columns) == list(TIMELINE_COLUMNS)
    assert len(table) == work.num_ops
    assert table["rank"].to_list() == work.rank.tolist()
    assert table["operation"][:4].to_list() == [0, 1, 2, 0]
    calc = table.filter(pl.col("kind") == "calculation")
    assert calc["peer"].null_count() == calc["left_ns"].null_count() == len(calc) == 16
    assert np.allclose(calc["ended_ns"] - calc["posted_ns"], 700 + 10.5 * np.arange(16))
    assert np.allclose(calc["wait_ns"], 0, atol=1e-3)
    receives = table.filter(pl.col("kind") == "receive")
    assert np.allclose(receives["wait_ns"], receives["ended_ns"] - receives["posted_ns"])
    assert (receives["ended_ns"] >= receives["arrived_ns"]).all()
    ops = np.flatnonzero(work.kind == 2)
    assert np.allclose(receives["left_ns"] * 1e3, result.left_ps[work.match[ops]])
    sends = table.filter(pl.col("kind").is_in(["send", "put"]))
    assert np.allclose(sends["wait_ns"], sends["left_ns"] - sends["posted_ns"])
    assert (sends["wait_ns"] >= 0).all()


def test_spans_of_a_state_do_not_overlap(result):
    spans = rank_spans(result)
    assert list(spans.columns) == list(SPAN_COLUMNS)
    assert (spans["end_ns"] > spans["begin_ns"]).all()
    for _, mine in spans.group_by("rank", "state"):
        begin, end = mine["begin_ns"].to_numpy(), mine["end_ns"].to_numpy()
        assert (begin[1:] > end[:-1]).all()
    computing = spans.filter(pl.col("state") == "computing")
    assert np.allclose(computing["end_ns"] - computing["begin_ns"], 700 + 10.5 * np.arange(16))
    waits = timelines(result).filter(pl.col("kind") == "receive")
    receiving = spans.filter(pl.col("state") == "receiving")
    assert np.allclose(receiving["end_ns"], waits["ended_ns"])


def test_spans_of_a_stopped_run_end_with_it():
    run = simulate(
        TREE,
        ROUTES,
        exchange(),
        snapshot_ns=500,
        eager_bytes=0,
        max_time_ns=2_000,
        level="packet",
    )
    assert not run.complete
    spans = rank_spans(run)
    assert spans["end_ns"].max() == run.end_ps / 1e3
    table = timelines(run)
    assert table["ended_ns"].null_count() > 0
    assert table.filter(pl.col("posted_ns").is_null())["wait_ns"].null_count() > 0


@pytest.mark.parametrize("seed", range(10))
def test_joined_spans_cover_the_same_times(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 40))
    group = random.integers(0, 4, count)
    begin = random.integers(0, 60, count)
    end = begin + random.integers(1, 10, count)
    spans_joined = list(zip(*(each.tolist() for each in joined(group, begin, end)), strict=True))
    assert spans_joined == sorted(spans_joined)

    def cover(spans):
        return {(g, t) for g, b, e in spans for t in range(b, e)}

    assert cover(spans_joined) == cover(
        zip(group.tolist(), begin.tolist(), end.tolist(), strict=True)
    )
    for (g, _, e), (h, b, _) in pairwise(spans_joined):
        assert g != h or b > e


def test_all_columns_are_described():
    for columns in (
        LINK_SERIES_COLUMNS, CABLE_SERIES_COLUMNS, QUEUE_SERIES_COLUMNS, TIMELINE_COLUMNS,
        SPAN_COLUMNS,
    ):  # fmt: skip
        for column in columns.values():
            assert isinstance(column, Column)
            assert column.meaning


def test_occupancy_is_relative_to_the_buffer_of_the_hardware():
    run = simulate(
        TREE,
        ROUTES,
        exchange(),
        snapshot_ns=500,
        hardware=Hardware(buffer_bytes=4352),
        level="packet",
    )
    assert queue_series(run)["held_share"].max() > 0.9
