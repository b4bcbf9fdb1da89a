"""The figures of one pass over forwarding tables: those of the validator and the static level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.random_fabrics import random_fabric

from weft import fabric, route
from weft.advice.what_if.failures import each_cable
from weft.advice.what_if.figures import FailureTraffic, Remains, Whole, figures


@pytest.mark.parametrize("seed", range(40))
def test_tables_with_wrong_entries(seed: int) -> None:
    base = random_fabric(seed, switches=7, hosts=12, others=seed % 3, loopbacks=seed % 2)
    routes = route(base, "minhop:balance=opensm")
    random = np.random.default_rng(seed)
    table = routes.table.copy()
    wrong = random.random(table.shape) < (0.0, 0.05, 0.4)[seed % 3]
    ports = np.append(np.arange(base.graph.max_port + 2), routes.no_path)
    table[wrong] = random.choice(ports, size=int(wrong.sum()))
    routes, traffic = replace(routes, table=table), FailureTraffic.of(base, 9, seed)
    assert Whole(Remains(base), table, traffic).figures() == figures(base, routes, traffic)


@pytest.mark.parametrize("spec", ["leaf-spine:12;6;6", "torus:4x4;hosts=3", "dragonfly:3;4;2"])
@pytest.mark.parametrize("anew", [False, True])
def test_what_a_failure_does_not_touch_is_not_followed_again(spec: str, anew: bool) -> None:
    base = fabric(spec)
    table, traffic = route(base, "minhop:balance=opensm").table, FailureTraffic.of(base, 20, 1)
    whole, less = Whole(Remains(base), table, traffic), 0
    for failure in each_cable(base)[::3]:
        remains = Remains(base, cables=np.array(failure.cables))
        new = table
        if anew:
            new = table.copy()
            lids = np.random.default_rng(0).choice(base.num_host_endpoints, size=3)
            new[lids] = new[lids][:, ::-1]
        found = whole.figures_after(remains, new)
        assert found == Whole(remains, new, traffic).figures()
        less += found["ebb"] < whole.figures()["ebb"]
    assert less
    assert "known" in whole.__dict__  # paths of before were used
