"""Workloads at the static level: the messages of each phase together."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.sim.static.analysis import analyse
from weft.sim.static.phases import (
    LINK_COLUMNS,
    MESSAGE_COLUMNS,
    PHASE_COLUMNS,
    TOGETHER,
    analyse_workload,
)
from weft.workload import Workload, WorkloadBuilder

TREE = load("xgft:2;4,4;1,4")
ROUTES = route(TREE, "dmodk")


def two_phases(ranks: int = 16) -> Workload:
    """A shift by one, then a gather to rank 0."""
    builder = WorkloadBuilder(ranks)
    every = np.arange(ranks)
    builder.phase("shift")
    builder.sendrecv(every, (every + 1) % ranks, 1000, (every - 1) % ranks, 1000)
    builder.phase("idle")
    builder.calc(every, 1.0)
    builder.phase("gather")
    builder.put(every, 0, 5000)
    return builder.build()


def test_phases_are_analysed_one_by_one_and_together() -> None:
    result = analyse_workload(TREE, ROUTES, two_phases(), np.arange(16))
    shift, gather, both = result.phases().iter_rows(named=True)
    assert (shift["phase"], gather["phase"], both["phase"]) == ("shift", "gather", TOGETHER)
    assert (shift["messages"], shift["size_bytes"], shift["local_bytes"]) == (16, 16000, 0)
    assert (gather["messages"], gather["size_bytes"], gather["local_bytes"]) == (16, 80000, 5000)
    # 15 messages of 5,000 bytes arrive at host 0 via its cable.
    into = int(TREE.graph.destination_link[TREE.host_endpoint[0]])
    assert gather["busiest_link"] == into
    assert gather["busiest_bytes"] == 75000
    assert gather["bound_ns"] == 75000 * 8 / TREE.link_rate_gbps[into]
    assert gather["max_contention"] == gather["mean_contention"] == 15
    assert (both["busiest_bytes"], both["max_contention"]) == (76000, 16)
    carried = result.links().filter(link=into).row(0, named=True)
    assert (carried["carried_bytes"], carried["messages"], carried["max_load"]) == (76000, 16, 15)


def test_a_phase_equals_the_analysis_of_its_flows() -> None:
    hosts = np.random.default_rng(5).permutation(16)
    work = two_phases()
    result = analyse_workload(TREE, ROUTES, work, hosts)
    shift = analyse(TREE, ROUTES, hosts, np.roll(hosts, -1))
    mine = result.messages().filter(phase="shift")
    assert mine["contention"].to_list() == shift.flows["contention"].to_list()
    assert mine["hops"].to_list() == shift.flows["hops"].to_list()
    gather = analyse(TREE, ROUTES, hosts, np.full(16, hosts[0]), weights=np.full(16, 5000.0))
    total = 1000 * shift.links["flows"].to_numpy() + gather.links["flows"].to_numpy()
    np.testing.assert_allclose(result.links()["carried_bytes"].to_numpy(), total)


def test_messages_within_a_host_load_no_link() -> None:
    result = analyse_workload(TREE, ROUTES, two_phases(4), [3, 3, 3, 3])
    assert result.links()["carried_bytes"].sum() == 0
    assert result.messages()["contention"].to_list() == [0] * 8
    row = result.phases().row(0, named=True)
    assert row["busiest_link"] is None
    assert row["mean_contention"] is None
    assert row["local_bytes"] == row["size_bytes"] == 4000


def test_slow_links_weigh_more() -> None:
    slow = TREE.degraded([0], "1xHDR")
    result = analyse_workload(slow, route(slow, "minhop"), two_phases(), np.arange(16))
    row = result.phases().filter(phase="gather").row(0, named=True)
    assert row["max_contention"] == 15 * 4


def test_candidates_split_messages_which_then_have_no_contention() -> None:
    result = analyse_workload(TREE, route(TREE, "ecmp"), two_phases(), np.arange(16))
    assert result.messages()["contention"].null_count() == 32
    assert result.phases()["mean_contention"].null_count() == 3
    # A message to another leaf is split over four spines.
    assert (result.links()["messages"] * 4 % 1).sum() == 0
    assert 0.25 in result.links()["messages"].to_list()


def test_frames_have_the_columns_that_are_described() -> None:
    result = analyse_workload(TREE, ROUTES, two_phases(), np.arange(16))
    for table, columns in (
        (result.phases(), PHASE_COLUMNS),
        (result.messages(), MESSAGE_COLUMNS),
        (result.links(), LINK_COLUMNS),
    ):
        assert table.schema == {name: column.dtype for name, column in columns.items()}
        assert all(column.meaning for column in columns.values())


def test_messages_without_a_path_and_ranks_without_a_host_are_refused() -> None:
    cable = TREE.cable_name(0).split(" -- ")[0]
    loose = TREE.without(cables=[cable])
    host = int(np.flatnonzero(loose.host_endpoint < 0)[0])
    hosts = np.roll(np.arange(16), -host)
    for engine, message in (
        ("minhop", r"no path from h\d+ to h\d+ in the minhop"),
        ("ecmp", "2 p"),
    ):
        with pytest.raises(InputError, match=message):
            analyse_workload(loose, route(loose, engine), two_phases(), hosts)
    with pytest.raises(InputError, match="16 of them, not 4 of them"):
        analyse_workload(TREE, ROUTES, two_phases(), [0, 1, 2, 3])
    with pytest.raises(InputError, match="are 0 to 15"):
        analyse_workload(TREE, ROUTES, two_phases(1), [16])
    with pytest.raises(InputError, match="another fabric"):
        analyse_workload(loose, ROUTES, two_phases(), hosts)
