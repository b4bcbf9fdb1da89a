"""Every number that the contention-graph paper prints for its model."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import weft
from weft.sim.flow.contention.model import PAPER_INVERSE_BANDWIDTH, predict_steps
from weft_papers.contention.study import Printed, contention_model, draw_graph

SIZE = 20_971_520
#: Communications a to f of figure 3.
FIGURE_3 = ([0, 0, 0, 4, 4, 6], [1, 2, 3, 1, 5, 5])
FIGURE_4A = ([0, 0, 3, 4, 5], [1, 2, 1, 1, 2])
FIGURE_4B = ([0, 0, 3, 4, 5], [1, 2, 1, 1, 1])


def printed(result, expected: list[float], decimals: int) -> None:
    """Assert equality within one unit of the last printed digit, as the paper truncates some."""
    np.testing.assert_allclose(result, expected, rtol=0, atol=1.0001 * 10.0**-decimals)


@pytest.mark.parametrize(
    ("sources", "destinations", "expected"),
    [
        ([0, 0, 0], [1, 2, 3], [3, 3, 3]),
        ([1, 1, 2, 2], [0, 3, 0, 3], [2, 2, 2, 2]),
        ([0, 0, 0, 3, 3], [1, 2, 3, 1, 2], [4, 4, 4, 2.66, 2.66]),
        ([0, 0, 3, 4], [1, 2, 1, 2], [4, 4, 1.33, 1.33]),
    ],
)
def test_figure_2(sources, destinations, expected) -> None:
    printed(weft.penalties(sources, destinations), expected, 2)


def test_figure_3() -> None:
    steps = predict_steps(*FIGURE_3, SIZE)
    assert len(steps.end_s) == 3
    nothing = np.nan
    printed(steps.penalty[0], [3.5, 3.5, 3.5, 3.33, 3.33, 1.5], 2)
    printed(steps.penalty[1], [3.5, 3.5, 3.5, 2.33, 2.33, nothing], 2)
    printed(steps.penalty[2], [3, 3, 3, nothing, nothing, nothing], 2)
    np.testing.assert_allclose(steps.end_s, [0.0160590, 0.0297984, 0.0363749], rtol=5e-6)
    # The bandwidth is printed with four digits; a value that rounds to these gives all six times.
    ends = predict_steps(*FIGURE_3, SIZE, 0, 5.10502e-10).end_s
    assert [f"{end:.6g}" for end in ends] == ["0.016059", "0.0297984", "0.0363749"]
    # Numbers of bytes are printed with six significant digits.
    printed(steps.remaining_bytes[0], [11983700] * 3 + [11534300] * 2 + [0], -2)
    printed(steps.remaining_bytes[1], [4294170] * 3 + [0] * 3, -1)
    assert not steps.remaining_bytes[2].any()
    printed(SIZE - steps.remaining_bytes[0, 0], 8987820, -2)
    times = [0.0363749] * 3 + [0.0297984] * 2 + [0.016059]
    np.testing.assert_allclose(weft.predict(*FIGURE_3, SIZE), times, rtol=5e-6)
    printed(weft.predict([0], [1], SIZE), [0.010706], 6)


def test_figure_4() -> None:
    steps = predict_steps(*FIGURE_4A, SIZE)
    printed(steps.completion_s, [0.036132] * 2 + [0.026765] * 2 + [0.013382], 6)
    assert [list(dict.fromkeys(column)) for column in steps.penalty[:, 0:1].T] == [[5, 4, 2]]
    np.testing.assert_array_equal(steps.penalty[:2, 2:4], 2.5)
    # Printed as 1.5, which contradicts the printed time.
    assert steps.penalty[0, 4] == 1.25
    steps = predict_steps(*FIGURE_4B, SIZE)
    printed(steps.completion_s, [0.043894] * 2 + [0.037471] * 3, 6)
    np.testing.assert_array_equal(steps.penalty[:, :2], [[5, 5], [2, 2]])
    np.testing.assert_array_equal(steps.penalty[0, 2:], 3.5)


@pytest.mark.parametrize(("m", "n"), [(1, 4), (4, 1), (2, 2), (3, 5), (5, 3), (7, 2)])
def test_complete_bipartite_graphs(m: int, n: int) -> None:
    """m senders to n receivers each have penalty n, or m + n - 1 if m > n (eq. 4 as printed)."""
    sources, destinations = np.repeat(np.arange(m), n), np.tile(np.arange(n) + m, m)
    expected = m + n - 1 if m > n else n
    np.testing.assert_allclose(weft.penalties(sources, destinations), expected, rtol=1e-14)


def test_sizes_and_starts_of_each_edge() -> None:
    alone = SIZE * PAPER_INVERSE_BANDWIDTH
    # Half of the first is sent alone before the second starts; then both have half the rate.
    result = weft.predict([0, 0], [1, 2], [SIZE, SIZE / 4], [0, alone / 2])
    np.testing.assert_allclose(result, [1.25 * alone, alone], rtol=1e-12)
    # Time passes over a gap; no edge is active before 10 s.
    result = weft.predict([0, 0], [1, 1], [SIZE, 0], [10, 3])
    np.testing.assert_allclose(result, [10 + alone, 3], rtol=1e-12)
    result = weft.predict([7], [-3], 2**40, inverse_bandwidth_s_per_byte=2.0**-30)
    np.testing.assert_allclose(result, [1024], rtol=1e-12)


def test_edges_that_end_together_end_in_one_step() -> None:
    sources, destinations = np.repeat(np.arange(9), 9), np.tile(np.arange(9) + 9, 9)
    steps = predict_steps(sources, destinations, 1000, 0.1)
    assert len(steps.end_s) == 1
    assert len(set(steps.completion_s)) == 1


def test_equal_edges_end_together_in_any_order() -> None:
    """Sums of penalties in another order differ in the last bit; this must not add a step."""
    random = np.random.default_rng(3)
    for _ in range(30):
        source = random.integers(6, size=16)
        destination = (source + random.integers(1, 6, size=16)) % 6
        once = predict_steps(source, destination, 1000, 0.1)
        other = random.permutation(16)
        both = predict_steps(
            [*source, *(source[other] + 6)], [*destination, *(destination[other] + 6)], 1000, 0.1
        )
        assert len(both.end_s) == len(once.end_s)
        np.testing.assert_allclose(both.completion_s[:16], once.completion_s, rtol=1e-12)


def test_a_start_within_rounding_of_an_end_adds_no_step() -> None:
    # The first edge ends at 0.3, the second starts one bit later, the third lasts throughout.
    late = np.nextafter(3 * 0.1, 1)
    steps = predict_steps([0, 0, 5], [1, 2, 6], [3, 3, 30], [0, late, 0], 0.1)
    np.testing.assert_allclose(steps.end_s, [0.3, 0.6, 3.0], rtol=1e-15)
    np.testing.assert_array_equal(steps.penalty[1:, :2], [[np.nan, 1], [np.nan, np.nan]])


def test_empty_graph() -> None:
    assert weft.penalties([], []).shape == (0,)
    assert weft.predict([], [], 5).shape == (0,)
    assert predict_steps([], [], []).penalty.shape == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [1], 5), "destinations: expected whole numbers, 2 of them, not 1"),
        (([0, 1], [2, 1], 5), "edge 1 is a loop at node 1"),
        (([0.5], [1], 5), "sources: expected whole numbers, not 0.5"),
        (([0], ["b"], 5), "destinations: expected whole numbers, not 'b'"),
        (([[0]], [[1]], 5), "sources: expected whole numbers, a list"),
        (([2**63], [1], 5), "sources: 9.22e.18 is out of range"),
        (([2**64], [1], 5), "sources: a number is too large"),
        (([True], [1], 5), "sources: expected whole numbers, not True"),
        (([0], [1], -1), "sizes in bytes: -1 is out of range"),
        (([0, 0], [1, 2], [1, float("nan")]), "sizes in bytes: nan at index 1 is out of range"),
        (([0], [1], float("inf")), "sizes in bytes: inf is out of range"),
        (([0], [1], 2**63), "edge 0: a size of 9.22337e.18 bytes is too large"),
        (([0], [1], 10**400), "sizes in bytes: a number is too large"),
        (([0], [1], "5"), "sizes in bytes: expected numbers, not '5'"),
        (([0, 0], [1, 2], [1, 2, 3]), "sizes in bytes: expected one number or 2"),
        (([0], [1], 5, -1.0), "starts in seconds: -1 is out of range"),
        (([0], [1], 5, [1.0, 2.0]), "starts in seconds: expected one number or 1"),
        (([0], [1], 5, 0, 0), "inverse bandwidth in s per byte must be a finite number above 0"),
        (([0], [1], 5, 0, float("nan")), "inverse bandwidth"),
        (([0], [1], 5, 0, "1"), "inverse bandwidth"),
        (([0, 0], [1, 2], 2**62, 0, 1e308), "too large for 64-bit numbers"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, message) -> None:
    with pytest.raises(weft.InputError, match=message.replace("^", r"\^")):
        weft.predict(*arguments)


def test_coefficients_are_checked() -> None:
    for wrong in (
        {"in_weight": -1}, {"out_weight": float("nan")}, {"back_pressure": 1.5},
        {"balanced_weight": 2}, {"in_exponent": "1"}, {"in_weight": True},
    ):  # fmt: skip
        with pytest.raises(weft.InputError, match=next(iter(wrong))):
            weft.PenaltyModel(**wrong)
    with pytest.raises(weft.InputError, match="must be a PenaltyModel"):
        weft.penalties([0], [1], model="infiniband")  # type: ignore[arg-type]


def test_a_network_without_back_pressure() -> None:
    """In the last graph of figure 2, each communication is delayed only at its own receiver."""
    alone = weft.PenaltyModel(back_pressure=0.0)
    result = weft.penalties([0, 0, 0, 3], [1, 2, 4, 1], model=alone)
    np.testing.assert_allclose(result, [4, 3, 3, 1 + 1 / 3], rtol=1e-14)


# -- the study -----------------------------------------------------------------------------------


def test_every_printed_number_agrees_except_the_inconsistent_one() -> None:
    study = contention_model(edges=2, graphs=2, shapes=2)
    assert len(study.numbers) == 96
    differing = [number for number in study.numbers if not number.agrees]
    assert [(n.figure, n.edge, n.printed, n.ours) for n in differing] == [("4 A", "e", "1.5", 1.25)]
    table = study.printed
    assert table["agrees"].sum() == 95
    assert table["difference"].abs().max() < 100
    # With a penalty of 1.5, two more of the paper's own times would be wrong.
    text = " ".join(study.text().split())
    assert "95 of 96 printed numbers agree" in text
    assert "no, see 1" in text
    first_step = 1.5
    sent = first_step / 5 + (2.5 - first_step) / 4
    assert (2.5 + (1 - sent) * 2) * 0.01070596 == pytest.approx(0.036400, abs=1e-6)


def test_a_number_that_is_off_does_not_agree() -> None:
    assert Printed("3", "a", 1, "penalty", "3.33", 10 / 3).agrees
    assert not Printed("3", "a", 1, "penalty", "3.33", 3.345).agrees
    assert not Printed("3", "a", 1, "penalty", "3.5", 3.43 + 0.2).agrees
    assert not Printed("3", "a", 1, "bytes left", "11983700", 11983900).agrees
    assert not Printed("3", "a", 1, "bytes left", "4294170", 4294190).agrees
    assert not Printed("3", "a", 1, "time", "0.0297984", 0.029799).agrees


def test_times_of_small_graphs_are_a_few_fractions() -> None:
    study = contention_model(edges=1, graphs=1, shapes=3)
    rows = study.shapes.rows()
    assert [row[1:3] for row in rows] == [(1, 1), (5, 2), (18, 7)]
    assert rows[2][3] == "1, 4/3, 3/2, 2, 5/2, 8/3, 3"


def test_random_graphs_follow_from_the_seed() -> None:
    first = contention_model(edges=4, graphs=5, shapes=1, seed=3)
    again = contention_model(edges=4, graphs=5, shapes=1, seed=3)
    other = contention_model(edges=4, graphs=5, shapes=1, seed=4)
    assert_frame_equal(first.times, again.times)
    assert not first.times.equals(other.times)
    assert first.times.height == 5 * (1 + 2 + 3 + 4)
    assert first.times.select("source", "destination").max_horizontal().max() < 9
    spread = first.spread
    assert spread["edges"].to_list() == [1, 2, 3, 4]
    assert (spread["min"] <= spread["median"]).all()
    assert (spread["median"] <= spread["max"]).all()
    group = first.times.filter(pl.col("edges") == 4)["time"]
    assert spread["max"][3] == group.max()
    # More graphs do not change the existing ones.
    more = contention_model(edges=4, graphs=6, shapes=1, seed=3).times
    assert_frame_equal(more.filter(pl.col("graph") < 5), first.times)


def test_no_node_of_a_random_graph_has_more_edges_than_cores() -> None:
    for seed in range(20):
        for ends in draw_graph(16, 4, [seed]):
            assert np.bincount(ends).max() <= 8


def test_study_writes_figure_and_tables(tmp_path) -> None:
    study = contention_model(edges=2, graphs=3, shapes=2, out=tmp_path / "study")
    names = {path.name for path in study.files}
    assert {"figure5.png", "report.txt", "columns.csv", "printed.csv", "spread.parquet"} <= names
    assert all(path.stat().st_size for path in study.files)
    assert pl.read_parquet(tmp_path / "study" / "printed.parquet").height == 96
    assert (tmp_path / "study" / "report.txt").read_text() in study.text()


@pytest.mark.parametrize(
    "options",
    [{"edges": 0}, {"graphs": 0}, {"nodes": 1}, {"shapes": 7}, {"seed": -1}, {"edges": 37}],
)
def test_bad_options_of_the_study(options) -> None:
    with pytest.raises(weft.InputError, match=f"{next(iter(options))}|communications"):
        contention_model(**options)
