"""Fits of coefficients to times: other interconnects, noise, and too few measurements."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from weft.cli import main
from weft.core.errors import InputError
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.coefficients import read_coefficients, write_coefficients
from weft.sim.flow.contention.model import predict
from weft_calibration.fit import (
    COEFFICIENTS,
    EDGE_ERROR_COLUMNS,
    ERROR_COLUMNS,
    _Problem,
    errors_by_edge,
    errors_by_size,
    fit,
)
from weft_calibration.measurements import Measurement, read_measurements, write_measurements
from weft_calibration.recovery import as_text, survey
from weft_calibration.shapes import all_shapes, random_graph

SIZE = 20 * 2**20
ALPHA = 5.105e-10
#: Coefficients inside their ranges, and coefficients partly at the limits of their ranges.
OTHER = PenaltyModel(0.3, 0.6, 0.8, 0.5, 0.7, 0.4, 0.6)
WINDOWS = PenaltyModel(0.0, 1.0, 0.6, 0.0, 0.5, 1.0, 0.0)


@cache
def shapes(max_edges: int):
    return list(all_shapes(max_edges))


def measured(model, max_edges=4, noise=0.0, seed=0, graphs=None) -> list[Measurement]:
    random = np.random.default_rng(seed)
    result = []
    for number, edges in enumerate(graphs or shapes(max_edges)):
        sources, destinations = zip(*edges, strict=True)
        times = predict(sources, destinations, SIZE, 0.0, ALPHA, model=model)
        times *= 1 + noise * random.standard_normal(len(times))
        name = f"{number}: {as_text(edges)}"
        result.append(Measurement(name, sources, destinations, SIZE, times))
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", [INFINIBAND, OTHER, WINDOWS], ids=["ib", "other", "windows"])
def test_exact_times_give_the_coefficients_back(model) -> None:
    result = fit(measured(model))
    assert result.inverse_bandwidth_s_per_byte == pytest.approx(ALPHA, rel=1e-6)
    np.testing.assert_allclose(result.model.coefficients(), model.coefficients(), atol=2e-6)
    assert result.residual < 1e-6
    assert result.errors["max_error"].max() < 1e-3


@pytest.mark.parametrize(
    "model",
    [pytest.param(INFINIBAND, id="ib", marks=pytest.mark.slow), pytest.param(OTHER, id="other")],
)
def test_noise_of_one_percent_leaves_coefficients_within_their_stated_errors(model) -> None:
    """Over several seeds, errors divided by stated errors stay within a normal distribution."""
    scores, stated = [], []
    for seed in range(3):
        result = fit(measured(model, noise=0.01, seed=seed))
        assert list(result.uncertainty) == ["inverse_bandwidth_s_per_byte", *COEFFICIENTS]
        error = [
            result.inverse_bandwidth_s_per_byte - ALPHA,
            *np.subtract(result.model.coefficients(), model.coefficients()),
        ]
        stated.append(list(result.uncertainty.values()))
        scores.append(np.array(error) / stated[-1])
        assert 0.008 < result.residual < 0.012
    scores = np.abs(scores)
    assert (scores < 2).mean() > 0.85
    assert scores.max() < 4
    assert np.sqrt((scores**2).mean()) > 0.4  # stated errors are not far too large
    assert np.max(np.array(stated)[:, 1:]) < 0.05
    assert 1e-4 < np.array(stated)[:, 0].min() / ALPHA < 5e-3


def test_changes_of_the_search_vector_become_changes_of_coefficients() -> None:
    data = survey(measured(OTHER, max_edges=2), start_tolerance=0.0)
    for fitted in (list(COEFFICIENTS), ["out_weight"], ["out_offset", "in_weight"]):
        problem = _Problem(data, fitted, OTHER)
        start = problem.vector(OTHER)
        change = np.linspace(0.01, 0.02, len(start))
        moved = problem.model(start + change)
        expected = [getattr(moved, name) - getattr(OTHER, name) for name in fitted]
        np.testing.assert_allclose((problem.to_model() @ change)[1:], expected)


@pytest.mark.slow
@pytest.mark.parametrize("model", [INFINIBAND, OTHER], ids=["ib", "other"])
def test_stated_errors_hold_over_many_seeds(model) -> None:
    scores = []
    for seed in range(40):
        result = fit(measured(model, noise=0.01, seed=seed))
        error = [
            result.inverse_bandwidth_s_per_byte - ALPHA,
            *np.subtract(result.model.coefficients(), model.coefficients()),
        ]
        scores.append(np.array(error) / list(result.uncertainty.values()))
    scores = np.array(scores)
    assert np.sqrt((scores**2).mean(axis=0)).max() < 1.25
    assert (np.abs(scores) < 2).mean(axis=0).min() >= 0.85


def test_bandwidth_can_come_from_one_communication_alone() -> None:
    """The noise of this one measurement enters the stated errors of bandwidth and coefficients."""
    exact = fit(measured(OTHER), fit_bandwidth=False)
    np.testing.assert_allclose(exact.model.coefficients(), OTHER.coefficients(), atol=2e-6)
    scores = []
    for seed in range(4):
        graphs = measured(OTHER, noise=0.01, seed=seed)
        result = fit(graphs, fit_bandwidth=False)
        alone = graphs[0].time_s[0] / SIZE
        assert result.inverse_bandwidth_s_per_byte == pytest.approx(alone, rel=1e-6)
        stated = np.array(list(result.uncertainty.values()))
        assert 0.008 < stated[0] / ALPHA < 0.02
        error = [
            result.inverse_bandwidth_s_per_byte - ALPHA,
            *np.subtract(result.model.coefficients(), OTHER.coefficients()),
        ]
        scores.append(np.array(error) / stated)
    scores = np.abs(scores)
    assert scores.max() < 3
    assert np.sqrt((scores**2).mean()) > 0.4
    fitted = fit(graphs)
    assert fitted.uncertainty["out_weight"] < result.uncertainty["out_weight"] / 2


def test_coefficients_can_be_held_fixed() -> None:
    start = PenaltyModel(0.3, 0.6, 0.8, 0.5, 0.7, 0.1, 0.2)
    names = ["back_pressure", "balanced_weight"]
    result = fit(measured(OTHER), coefficients=names, model=start)
    np.testing.assert_allclose(result.model.coefficients(), OTHER.coefficients(), atol=2e-6)
    assert sorted(result.uncertainty) == [*names, "inverse_bandwidth_s_per_byte"]


def test_a_fit_to_small_graphs_predicts_larger_random_ones() -> None:
    large = []
    for number in range(40):
        ends = random_graph(5 + number % 2, 5, (3, number))
        large.append(list(zip(*ends, strict=True)))
    all_of_them = measured(OTHER, noise=0.005, graphs=[*shapes(4), *large])
    with pytest.raises(InputError, match=r"have ended, .* remain, but no graph of the shape"):
        fit(all_of_them)
    result = fit(all_of_them, max_edges=4)
    assert result.errors["edges"].to_list() == [1, 2, 3, 4, 5, 6]
    assert result.errors.filter(result.errors["edges"] > 4)["max_error"].max() < 5


def test_errors_by_size_agree_with_values_computed_by_hand() -> None:
    graphs = [
        Measurement("a", [0], [1], 1_000, [1.25]),
        Measurement("b", [0, 0], [1, 2], 1_000, [2.0, 2.5]),
        Measurement("c", [0, 2], [1, 3], 1_000, [1.0, 0.8]),
    ]
    result = errors_by_size(graphs, INFINIBAND, 1e-3)
    assert result.columns == list(ERROR_COLUMNS)
    assert result.to_dicts() == [
        {
            "edges": 1, "graphs": 1, "times": 1, "mean_error": pytest.approx(20),
            "max_mean_error": pytest.approx(20), "max_error": pytest.approx(20),
            "worst_graph": "a",
        },
        {
            "edges": 2, "graphs": 2, "times": 4, "mean_error": pytest.approx(45 / 4),
            "max_mean_error": pytest.approx(12.5), "max_error": pytest.approx(25),
            "worst_graph": "c",
        },
    ]  # fmt: skip
    edges = errors_by_edge(graphs, INFINIBAND, 1e-3)
    assert edges.columns == list(EDGE_ERROR_COLUMNS)
    np.testing.assert_allclose(edges["error"], [-20, 0, -20, 0, 25], atol=1e-9)
    for function in (errors_by_size, errors_by_edge):
        with pytest.raises(InputError, match="there are no measurements"):
            function([], INFINIBAND, 1e-3)


def test_errors_of_figure_4_are_those_printed_in_the_paper() -> None:
    """Times are those printed in the paper, with errors of -3 % in graph A and -6 % in graph B."""
    a = Measurement(
        "A", [0, 0, 3, 4, 5], [1, 2, 1, 1, 2], SIZE,
        [0.036328, 0.036326, 0.027653, 0.027651, 0.013413],
    )  # fmt: skip
    b = Measurement(
        "B", [0, 0, 3, 4, 5], [1, 2, 1, 1, 1], SIZE,
        [0.045236, 0.045228, 0.040073, 0.040072, 0.040071],
    )  # fmt: skip
    error = errors_by_edge([a, b], INFINIBAND, ALPHA)["error"].to_numpy()
    np.testing.assert_array_equal(error.round(), [-1, -1, -3, -3, 0, -3, -3, -6, -6, -6])


@pytest.mark.parametrize(
    ("graphs", "options", "message"),
    [
        (shapes(2), {}, "7 different penalties were measured, too few for 7 coefficients and the"),
        (shapes(3), {}, "do not determine balanced_weight; measure graphs of more shapes"),
        (
            [form for form in shapes(4) if len({s for s, _ in form}) == 1],
            {"coefficients": ["out_weight", "in_weight"]},
            "do not determine in_weight;",
        ),
        (shapes(1), {"coefficients": ["in_weight"]}, "1 different penalties"),
        (shapes(1), {"coefficients": []}, "1 times are too few for standard errors of 1 fitted"),
        (shapes(2), {"coefficients": ["inweight"]}, "unknown coefficient 'inweight'.*in_weight"),
        (shapes(2), {"model": PenaltyModel(out_offset=0.5)}, "out_weight is 1.5; expected at most"),
        (shapes(2)[1:], {}, "also measure the graph 0->1"),
    ],
)  # fmt: skip
def test_data_that_do_not_determine_the_coefficients_are_refused(graphs, options, message) -> None:
    with pytest.raises(InputError, match=message):
        fit(measured(INFINIBAND, graphs=graphs), **options)


def test_a_coefficient_without_effect_on_any_time_is_named() -> None:
    """If rule b stays below its bound in all graphs, the times do not determine its weight."""
    model = PenaltyModel(0.0, 1.0, 0.1, 1.0, 1.0, 0.5, 1.0)
    with pytest.raises(InputError, match="do not determine full_rate_weight"):
        fit(measured(model))


def test_command_prints_coefficients_and_errors_and_writes_a_file_for_predict(
    tmp_path, capsys
) -> None:
    file, out, rho = tmp_path / "m.csv", tmp_path / "network.toml", tmp_path / "rho.csv"
    write_measurements(file, measured(OTHER, max_edges=4), {"shared_machines": "yes"})
    assert main(["calibrate", str(file), "--out", str(out), "--penalties", str(rho)]) == 0
    shown = capsys.readouterr()
    assert "several nodes ran on one machine, so these are not times of a network" in shown.err
    for text in ("back_pressure", "standard error", "91", "364", str(out), str(rho)):
        assert text in shown.out
    network = read_coefficients(out)
    np.testing.assert_allclose(network.model.coefficients(), OTHER.coefficients(), atol=2e-6)
    assert network.inverse_bandwidth_s_per_byte == pytest.approx(ALPHA, rel=1e-6)
    assert set(network.uncertainty) == {"inverse_bandwidth_s_per_byte", *COEFFICIENTS}
    assert rho.read_text().startswith("graph,edge,source,destination,penalty\n")
    graph = tmp_path / "graph.txt"
    graph.write_text("size 20MiB\ninverse-bandwidth 1\na: 0 -> 1\nb: 0 -> 2\nc: 3 -> 1\n")
    assert main(["predict", str(graph), "--coefficients", str(out)]) == 0
    expected = predict([0, 0, 3], [1, 2, 1], SIZE, 0.0, ALPHA, model=OTHER)
    shown_times = capsys.readouterr().out
    assert all(f"{time:.4g}" in shown_times for time in expected), (expected, shown_times)


def test_command_holds_coefficients_and_starts_from_a_file(tmp_path, capsys) -> None:
    file, start = tmp_path / "m.csv", tmp_path / "start.toml"
    write_measurements(file, measured(OTHER, max_edges=4))
    start.write_text("[coefficients]\nbalanced_weight = 0.4\nout_offset = 0.3\nout_weight = 0.6\n")
    names = ["in_weight", "in_exponent", "full_rate_weight", "back_pressure"]
    words = [word for name in names for word in ("--fit", name)]
    assert main(["calibrate", str(file), "--start", str(start), *words]) == 0
    shown = capsys.readouterr().out
    assert shown.count("fixed") == 3
    assert (
        main(["calibrate", str(file), "--start", str(start), *words, "--measured-bandwidth"]) == 0
    )
    assert "5.105e-10" in capsys.readouterr().out
    assert main(["calibrate", str(file), "--max-edges", "2"]) == 2
    assert "too few for 7 coefficients" in capsys.readouterr().err


def test_written_coefficients_are_read_as_the_same(tmp_path) -> None:
    file = tmp_path / "c.toml"
    write_coefficients(file, OTHER, 1.25e-10, {"in_weight": 0.01}, "of\nours")
    assert file.read_text().startswith("# of ours\n")
    assert read_coefficients(file) == (OTHER, 1.25e-10, {"in_weight": 0.01})
    file.write_text("[coefficients]\nin_weight = 2\n")
    assert read_coefficients(file) == (PenaltyModel(in_weight=2.0), None, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a = ", "is not valid TOML"),
        ("# nothing\n", "has neither"),
        ("inverse_bandwith_s_per_byte = 1", "did you mean 'inverse_bandwidth_s_per_byte'"),
        (
            "inverse_bandwidth_s_per_byte = 0",
            "_per_byte: 0 does not fit: expected .* greater",
        ),
        ("inverse_bandwidth_s_per_byte = 'fast'", "'fast' does not fit: expected a number"),
        ("coefficients = 3", "3 does not fit: expected a table"),
        (
            "[coefficients]\nin_wait = 1",
            ":2: coefficients: unknown key 'in_wait'",
        ),
        (
            "[coefficients]\nin_weight = nan",
            ":2: coefficients, in_weight: nan does not fit",
        ),
        ("[coefficients]\nin_weight = true", "in_weight: True does not fit: expected a number"),
        (
            "[coefficients]\nin_weight = -1",
            "c.toml: in_weight must be a finite number of",
        ),
        ("[coefficients]\n[uncertainty]\nx = 1", ":3: uncertainty: unknown key 'x'"),
    ],
)
def test_wrong_files_of_coefficients_are_refused(text, message, tmp_path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_coefficients(file)


def test_written_measurements_can_be_calibrated_without_changes(tmp_path) -> None:
    file = tmp_path / "m.csv"
    graphs = measured(OTHER, noise=0.01, seed=5, max_edges=3)
    write_measurements(file, graphs)
    names = ["out_weight", "in_weight"]
    direct, read = (
        fit(graphs, coefficients=names),
        fit(read_measurements(file).measurements, coefficients=names),
    )
    assert direct.model == read.model
    assert direct.uncertainty == read.uncertainty
