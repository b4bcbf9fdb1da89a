"""nue's kernels against their reference implementations on random fabrics."""

from __future__ import annotations

import inspect
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import nue as twin
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.kernels.routing import ascending
from weft.kernels.routing import nue as kernels
from weft.kernels.routing.distances import UNREACHED
from weft.routing.engine_registry import row_sources
from weft.routing.engines import nue as engine


def channels_of(fabric: Fabric) -> twin.Channels:
    graph = fabric.graph
    return twin.Channels(
        tail=graph.edge_tail.tolist(),
        head=graph.edge_row.tolist(),
        reverse=graph.edge_of_link[graph.edge_link ^ 1].tolist(),
        cost=(1.0 / fabric.link_rate_gbps[graph.edge_link]).tolist(),
        rows=graph.num_rows,
    )


class Recorder:
    """Wrapper of a kernel that keeps its arguments, and copies of them from before the call."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.names = kernel, list(inspect.signature(kernel.py_func).parameters)

    def __call__(self, *arguments: Any) -> Any:
        self.after = dict(zip(self.names, arguments, strict=True))
        self.before = {
            name: a.copy() if isinstance(a, np.ndarray) else a for name, a in self.after.items()
        }
        return self.kernel(*arguments)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("management", [False, True])
@pytest.mark.parametrize(("lanes", "divide"), [(1, False), (3, False), (2, True)])
@pytest.mark.parametrize("name", [*range(6), "torus:3x3", "dragonfly:a=3,h=1,p=1"])
def test_lanes_and_tables_agree_with_the_reference(
    name: int | str, lanes: int, divide: bool, management: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = load(name) if isinstance(name, str) else random_fabric(name, switches=9, others=2)
    shared, tabled = Recorder(kernels.share_lanes), Recorder(ascending.ordered_tables)
    monkeypatch.setattr(engine, "share_lanes", shared)
    monkeypatch.setattr(engine, "ordered_tables", tabled)
    problem = engine._Problem.of(fabric, management)
    served = problem.orders()[-1]
    result = problem.route(served, lanes, 0, 5, divide=divide)
    channels = channels_of(fabric)
    graph = fabric.graph
    sources = row_sources(fabric).tolist()
    weight = problem.weight.tolist()
    distance = np.where(
        problem.distances == UNREACHED, -1, problem.distances.astype(np.int64)
    ).tolist()

    # Lanes: the same goals and dependencies in each, and an order consistent with them.
    goals, preset = shared.before["goals"].tolist(), shared.before["lane"]
    tree = {row: channel for row, channel in enumerate(problem.parent.tolist()) if channel >= 0}
    senders = {row for row in range(channels.rows) if weight[row]}
    lanes_expected = [twin.Lane(channels) for _ in range(lanes)]
    for number, lane in enumerate(lanes_expected):
        own = [g for g in goals if preset[g] == number or (not divide and number == lanes - 1)]
        for part in set(problem.root.tolist()):
            inside = {r for r in range(channels.rows) if problem.root[r] == part}
            if set(own) & inside:
                twin.admit_tree(channels, lane, tree, senders & inside, set(own) & inside)
    expected = twin.share(
        channels, lanes_expected, goals, sources, weight, distance,
        {g: int(preset[g]) for g in set(goals) if preset[g] >= 0},
    )  # fmt: skip
    state, order, channel_at, lane_of = (
        shared.after[name] for name in ("state", "order", "channel_at", "lane")
    )
    assert {g: int(lane_of[g]) for g in set(goals)} == expected
    for number, lane in enumerate(lanes_expected):
        used = set()
        for before, row in enumerate(channels.head):
            for after in channels.leaving[row]:
                which = graph.first_dependency[before] + after - graph.edge_offset[row]
                if state[number, which] == kernels.USED:
                    used.add((before, after))
                    assert order[number, before] < order[number, after]
        assert used == set(lane.used.edges)
        assert nx.is_directed_acyclic_graph(lane.used)
        assert np.array_equal(channel_at[number][order[number]], np.arange(len(channels.tail)))

    # Tables: the same entries.
    rows = graph.destination_row
    listed = [d for d in np.lexsort((rows,)) if rows[d] >= 0]
    channel_order = tabled.before["order"]
    lines = twin.tables(
        channels,
        {g: channel_order[result.lane[g]].tolist() for g in range(channels.rows)},
        [(int(rows[d]), bool(d < fabric.num_endpoints)) for d in listed],
        sources,
        {g: {r for r in senders if distance[g][r] >= 0} for g in range(channels.rows)},
        5,
        ascending.EVEN_PASSES,
    )
    for d, line in zip(listed, lines, strict=True):
        for row, channel in line.items():
            assert result.table[d, row] == graph.edge_port[channel]
