"""Penalties from times: round trips with the model, and cases computed by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.model import penalties, predict
from weft_calibration.measurements import Measurement
from weft_calibration.recovery import PENALTY_COLUMNS, as_text, recover_penalties
from weft_calibration.shapes import all_shapes, random_graph, smaller_shapes

SIZE = 20 * 2**20
ALPHA = 5.105e-10
ETHERNET = PenaltyModel(0.3, 0.6, 0.8, 0.5, 0.7, 0.4, 0.6)


def measured(edges, model=INFINIBAND, name=None) -> Measurement:
    sources, destinations = zip(*edges, strict=True)
    times = predict(sources, destinations, SIZE, 0.0, ALPHA, model=model)
    return Measurement(name or as_text(edges), sources, destinations, SIZE, times)


def by_hand(edges, times, name="g") -> Measurement:
    return Measurement(name, *zip(*edges, strict=True), 1_000, np.array(times))


ALONE = by_hand([(0, 1)], [1.0], "alone")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", [INFINIBAND, ETHERNET], ids=["infiniband", "other"])
def test_predicted_times_of_hundreds_of_random_graphs_give_the_penalties_back(model) -> None:
    graphs, shapes = [], {}
    for number in range(200):
        sources, destinations = random_graph(3 + number % 4, 5, (11, number))
        graphs.append(list(zip(sources, destinations, strict=True)))
        shapes |= dict.fromkeys(smaller_shapes(sources, destinations))
    measurements = [measured(edges, model, f"r{n}") for n, edges in enumerate(graphs)]
    measurements += [measured(form, model) for form in shapes]
    assert len(measurements) > 400
    result = recover_penalties(measurements, tolerance=1e-11)
    assert result.inverse_bandwidth_s_per_byte == pytest.approx(ALPHA, rel=1e-12)
    for graph, rho in zip(measurements, result.penalties, strict=True):
        expected = penalties(graph.sources, graph.destinations, model=model)
        np.testing.assert_allclose(rho, expected, rtol=1e-9, atol=0, err_msg=graph.name)


def test_three_communications_that_end_one_after_the_other_by_hand() -> None:
    """Two smaller graphs give their own penalties; the paper's equations give the third's.

    In the graph 0->1 0->2 3->1, edge 3->1 ends first, at 1.5. Then 0->1 and 0->2 have penalty 2, so
    each sends (2.5 - 1.5) / 2 = 1/2 of its bytes in the second step. Edge 0->1 ends last and sends
    (2.75 - 2.5) / 1 = 1/4 of its bytes alone.
    """
    pair = by_hand([(0, 1), (0, 2)], [2.0, 2.0], "pair")
    graph = by_hand([(0, 1), (0, 2), (3, 1)], [2.75, 2.5, 1.5])
    result = recover_penalties([graph, ALONE, pair]).penalties
    np.testing.assert_allclose(result[0], [1.5 / (1 - 1 / 2 - 1 / 4), 1.5 / (1 - 1 / 2), 1.5])
    np.testing.assert_allclose(result[2], [2, 2])


def test_edges_that_end_within_the_tolerance_end_in_one_step() -> None:
    """0->1 and 0->2 end within 1 %: both count as ended at 2.005, after a second step of 0.505."""
    graph = by_hand([(0, 1), (0, 2), (3, 1)], [2.01, 2.0, 1.5])
    pair = by_hand([(0, 1), (0, 2)], [2.0, 2.0], "pair")
    together = recover_penalties([graph, ALONE, pair]).penalties[0]
    np.testing.assert_allclose(together, [1.5 / (1 - 0.505 / 2)] * 2 + [1.5])
    apart = recover_penalties([graph, ALONE, pair], tolerance=0.001).penalties[0]
    np.testing.assert_allclose(apart, [1.5 / (1 - 0.25 - 0.01), 1.5 / (1 - 0.25), 1.5])


def test_times_of_equivalent_edges_and_of_graphs_of_one_shape_are_averaged() -> None:
    first = by_hand([(0, 1), (0, 2)], [1.8, 2.0], "first")
    second = by_hand([(7, 3), (7, 5)], [2.2, 2.4], "second")
    result = recover_penalties([ALONE, first, second], tolerance=0.0)
    for rho in result.penalties[1:]:
        np.testing.assert_allclose(rho, [2.1, 2.1])


def test_components_of_a_graph_are_treated_separately() -> None:
    both = by_hand([(0, 1), (2, 3), (4, 5), (4, 6)], [1.0, 1.2, 2.2, 2.2], "both")
    result = recover_penalties([both])
    assert result.inverse_bandwidth_s_per_byte == pytest.approx(1.1e-3)
    np.testing.assert_allclose(result.penalties[0], [1, 1, 2, 2])


def test_graphs_above_max_edges_are_left_out() -> None:
    measurements = [measured(form) for form in all_shapes(3)]
    large = measured([(0, 1), (0, 2), (3, 1), (4, 1)])
    result = recover_penalties([*measurements, large], max_edges=3)
    assert np.isnan(result.penalties[-1]).all()
    frame = result.frame()
    assert frame.columns == list(PENALTY_COLUMNS)
    assert frame["penalty"].null_count() == 4
    assert frame.height == sum(graph.num_edges for graph in measurements) + 4


@pytest.mark.parametrize(
    ("measurements", "message"),
    [
        ([], "there are no measurements"),
        ([by_hand([(0, 1), (0, 2)], [2, 2])], "also measure the graph 0->1"),
        (
            [ALONE, by_hand([(0, 1), (0, 2), (3, 1)], [2.75, 2.5, 1.5], "odd one")],
            "graph 'odd one': when other communications of 0->1 0->2 3->1 have ended, 0->1 0->2 "
            "remain, but no graph of the shape 0->1 0->2 was measured",
        ),
        (
            [ALONE, by_hand([(0, 1), (1, 2)], [1.0, 2.5], "noisy")],
            "graph 'noisy': with the penalties of the smaller graphs, 1->2 of 0->1 1->2 sends 1.5 "
            "times its size in the steps after the first",
        ),
        (
            [ALONE, replace(by_hand([(0, 1), (0, 2)], [2, 2], "two"), size_bytes=[1_000, 2_000])],
            "graph 'two' is not static-synchronous: its sizes are 1000 to 2000 bytes",
        ),
        (
            [ALONE, replace(by_hand([(0, 1), (0, 2)], [2, 2], "two"), start_s=[0.0, 0.2])],
            "graph 'two' is not static-synchronous: its communications started 0.2 s apart",
        ),
        (
            [ALONE, replace(by_hand([(0, 1), (0, 2)], [2, 2], "two"), size_bytes=2_000)],
            "graph 'two' has messages of 2000 bytes and graph 'alone' of 1000",
        ),
    ],
)
def test_data_that_leave_penalties_undetermined_are_refused_by_name(measurements, message) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        recover_penalties(measurements)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -0.1}, "tolerance must be at least 0"),
        ({"tolerance": float("nan")}, "tolerance must be at least 0"),
        ({"start_tolerance": 1.0}, "start_tolerance must be"),
        ({"max_edges": 0}, "max_edges must be at least 1"),
    ],
)
def test_options_out_of_range_are_refused(options, message) -> None:
    with pytest.raises(InputError, match=message):
        recover_penalties([ALONE], **options)


def test_no_graph_small_enough_is_an_error() -> None:
    with pytest.raises(InputError, match="no measured graph has 1 edges or fewer"):
        recover_penalties([by_hand([(0, 1), (0, 2)], [2, 2])], max_edges=1)
