"""Ten thousand random keys on trees of two and three levels, by the static level."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import weft
from weft.kernels.keys.assignment import add_flows
from weft.sim.keys import RoutingKey, keys
from weft.sim.keys.choice import chosen_columns
from weft.sim.keys.network import key_network

pytestmark = pytest.mark.slow

#: Number of keys by tree, complete and slimmed.
SPECS = {
    "xgft:2;4,6;1,4": 2000, "xgft:2;8,6;1,5": 2000, "xgft:3;4,4,4;1,4,4": 2000,
    "xgft:3;3,4,3;1,3,4": 2000, "xgft:3;6,4,3;1,4,2": 2000,
}  # fmt: skip


def cost(key: RoutingKey, column: np.ndarray, loads: np.ndarray, criterion: str) -> float:
    """Return the largest load on the links of a key, or the increase of squared loads."""
    added = np.zeros_like(loads)
    add_flows(key.network.stages, *key.subtrees, key.depth, column, 1, added)
    total = (loads + added).astype(np.int64)
    if criterion == "max":
        return float(total[added > 0].max(initial=0))
    return float((total**2).sum() - (loads.astype(np.int64) ** 2).sum())


@pytest.mark.parametrize(("spec", "cases"), SPECS.items())
def test_keys_keep_their_promises(
    spec: str, cases: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric = weft.fabric(spec)
    network, hosts = key_network(fabric), fabric.num_hosts
    widths = [stage.width for stage in network.clos.stages]
    subtrees = [len(stage.edge) for stage in network.clos.stages]
    # Whether each switch above the leaves has as many cables upwards as downwards.
    full = all(
        low <= high * width
        for (low, high), width in zip(pairwise(subtrees), widths[1:], strict=True)
    )
    count: Counter[str] = Counter()
    for case in range(cases):
        random = np.random.default_rng(case)
        flows = int(random.integers(1, hosts + 1))
        # Every second case has at most one flow from and to each host.
        ends = np.stack(
            [random.permutation(hosts)[:flows] for _ in range(2)]
            if case % 2
            else [random.integers(0, hosts, flows) for _ in range(2)]
        )
        key, greedy = (keys(fabric, *ends, method=each) for each in ("exact", "greedy"))  # type: ignore[arg-type]
        pairs = np.unique(ends[:, ends[0] != ends[1]], axis=1)
        loads = weft.link_loads(fabric, key.routes, *pairs)[fabric.graph.edge_link]
        assert loads.max(initial=0) == key.worst >= key.bound
        leaf = fabric.graph.destination_row[fabric.host_endpoint[pairs]]
        apart = leaf[0] != leaf[1]
        degree = max(np.bincount(each[apart], minlength=1).max() for each in leaf)
        assert key.num_colours == degree
        if full and degree <= widths[0]:
            assert key.worst == min(degree, 1)
            count["free of contention"] += 1
        if len(widths) == 1:
            assert key.worst == -(-degree // widths[0])
        count["greedy has more colours"] += greedy.num_colours > degree
        count["greedy has more contention"] += greedy.worst > key.worst
        assert key.worst == key.bound
        present = random.integers(0, 4, len(network.edge)).astype(np.int32)
        for criterion in ("max", "variance"):
            shift, best = (
                cost(key, chosen_columns(key, present, choice, criterion), present, criterion)  # type: ignore[arg-type]
                for choice in ("shift", "optimum")
            )
            assert best <= shift
            count[f"optimum better by {criterion}"] += best < shift
    with capsys.disabled():
        print(f"\n{spec}, {cases:,} keys: " + ", ".join(f"{k} {n:,}" for k, n in count.items()))
