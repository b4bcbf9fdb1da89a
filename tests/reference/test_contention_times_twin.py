"""Completion times of many graphs in one call equal those of each graph alone."""

from __future__ import annotations

import numpy as np

from weft.kernels.flow.contention_steps import synchronous_times
from weft.sim.flow.contention import PenaltyModel
from weft.sim.flow.contention.model import predict
from weft_calibration.shapes import random_graph


def test_times_of_many_graphs_equal_those_of_each() -> None:
    random = np.random.default_rng(8)
    sources, destinations, nodes, offset, expected = [], [], [], [0], []
    model = PenaltyModel(0.2, 0.7, 0.9, 0.4, 1.1, 0.3, 0.8)
    for number in range(200):
        edges, many = int(random.integers(1, 8)), int(random.integers(2, 6))
        ends = random_graph(edges, many, (1, number))
        sources += ends[0]
        destinations += ends[1]
        nodes.append(1 + max(*ends[0], *ends[1]))
        offset.append(offset[-1] + edges)
        expected += predict(*ends, 1, 0.0, 1.0, model=model).tolist()
    result = np.zeros(len(expected))
    arrays = np.array(sources, dtype=np.int32), np.array(destinations, dtype=np.int32)
    synchronous_times(np.array(offset), *arrays, np.array(nodes), model.coefficients(), result)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
