"""Statistics of repeated runs against scipy, closed forms and simulated coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from weft.report.statistics import averaged, compared, holm, pareto_front, spread

NAN = np.nan


def table(rows: int = 7, seeds: int = 6, missing: float = 0.0, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = np.exp(random.normal(random.normal(3, 1, (rows, 1)), 0.2, (rows, seeds)))
    values[random.random(values.shape) < missing] = NAN
    return values


def test_spread_is_that_of_scipy_without_missing_values() -> None:
    values = table(rows=40, missing=0.3)
    values[3] = NAN
    values[4] = [5, NAN, NAN, NAN, NAN, NAN]
    found = spread(values)
    for i, row in enumerate(values):
        known = row[np.isfinite(row)]
        assert found.number[i] == len(known)
        if not len(known):
            assert np.isnan([found.mean[i], found.half[i], found.median[i], found.most[i]]).all()
            continue
        expected = (known.mean(), np.median(known), known.min(), known.max())
        assert (found.mean[i], found.median[i], found.least[i], found.most[i]) == pytest.approx(
            expected
        )
        if len(known) == 1:
            assert np.isnan(found.half[i])
        else:
            low, high = stats.t.interval(0.95, len(known) - 1, known.mean(), stats.sem(known))
            assert found.half[i] == pytest.approx((high - low) / 2)


def test_paired_and_welch_comparisons_are_those_of_scipy_on_logarithms() -> None:
    x, y = table(seed=1), table(seed=2)
    x[1, :3], y[1, 3:] = NAN, NAN  # no common seed
    x[2, :4] = NAN  # two seeds, both common
    x[3, 2:], y[3, :1] = NAN, NAN  # one common seed, and one seed of x is not common
    x[4, 1:] = NAN  # a single run
    x[5, :2], y[5, 4:] = NAN, NAN  # two common seeds of four: few for a paired test
    found = compared(x, y)
    assert found.test.tolist() == ["paired", "Welch", "paired", "Welch", "", "Welch", "paired"]
    for i, test in enumerate(found.test):
        a, b = np.log(x[i]), np.log(y[i])
        both = np.isfinite(a - b)
        if test == "paired":
            expected = stats.ttest_rel(a[both], b[both])
            centre = np.mean((a - b)[both])
        elif test == "Welch":
            a, b = a[np.isfinite(a)], b[np.isfinite(b)]
            expected = stats.ttest_ind(a, b, equal_var=False)
            centre = None if both.any() else a.mean() - b.mean()
        else:
            assert found.ratio[i] == pytest.approx(np.exp((a - b)[both].mean()))
            assert np.isnan([found.p[i], found.low[i], found.high[i]]).all()
            continue
        interval = expected.confidence_interval(0.95)
        if centre is not None:
            assert found.ratio[i] == pytest.approx(np.exp(centre))
            assert found.low[i] == pytest.approx(np.exp(interval.low))
            assert found.high[i] == pytest.approx(np.exp(interval.high))
            assert found.p[i] == pytest.approx(expected.pvalue)


def test_values_that_are_not_positive_are_compared_by_differences() -> None:
    x, y = table(seed=1) - 20, table(seed=2) - 20
    found = compared(x, y)
    assert np.isnan(found.ratio).all()
    assert found.p == pytest.approx(stats.ttest_rel(x, y, axis=1).pvalue)


def test_runs_without_variation_differ_exactly_or_not_at_all() -> None:
    x = np.array([[0.1, 0.1, 0.1], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3, 0.3]])
    y = np.array([[0.2, 0.2, 0.2], [0.3, 0.3, 0.3], [0.3, 0.3, 0.3]])
    found = compared(x, y)
    assert found.ratio == pytest.approx([0.5, 1, 1])
    assert found.low == pytest.approx(found.ratio)
    assert found.p.tolist() == [0, 1, 1]


def test_holm_by_hand() -> None:
    p = np.array([0.01, NAN, 0.04, 0.03, 0.005])
    assert holm(p) == pytest.approx([0.03, NAN, 0.06, 0.06, 0.02], nan_ok=True)
    assert holm(np.array([NAN])).tolist() == pytest.approx([NAN], nan_ok=True)


def test_intervals_cover_as_often_as_they_say_and_holm_errs_as_rarely() -> None:
    random = np.random.default_rng(3)
    trials, seeds = 4000, 5
    # Runs of a seed share most of their noise, as those of the same traffic do.
    shared = random.normal(0, 0.3, (trials, seeds))
    x = np.exp(1.0 + shared + random.normal(0, 0.05, (trials, seeds)))
    y = np.exp(0.9 + shared + random.normal(0, 0.05, (trials, seeds)))
    found = compared(x, y)
    inside = (found.low <= np.exp(0.1)) & (np.exp(0.1) <= found.high)
    assert inside.mean() == pytest.approx(0.95, abs=0.012)  # 3.5 standard errors
    # Pairing removes the noise that runs share.
    lonely = compared(np.roll(x, 1, axis=0), y)
    assert np.median(found.high / found.low - 1) < 0.5 * np.median(lonely.high / lonely.low - 1)
    plain = random.normal(7, 2, (trials, seeds))
    half = spread(plain)
    assert (np.abs(half.mean - 7) <= half.half).mean() == pytest.approx(0.95, abs=0.012)
    # Without any difference, a family of ten comparisons has an error in at most 5 % of cases.
    errors = 0
    families = 1000
    for family in np.exp(random.normal(0, 0.1, (families, 11, seeds))):
        p = compared(family[1:], np.broadcast_to(family[0], (10, seeds))).p
        errors += bool((holm(p) <= 0.05).any())
    assert errors / families < 0.05 + 3 * (0.05 * 0.95 / families) ** 0.5
    assert errors > 0


def test_averages_are_geometric_over_the_combinations_that_all_rows_have() -> None:
    cube = np.array(
        [
            [[1.0, 2.0], [4.0, 8.0], [NAN, NAN]],
            [[2.0, 2.0], [8.0, 2.0], [5.0, 5.0]],
        ]
    )
    average, combinations, filled = averaged(cube)
    assert average == pytest.approx(np.array([[2.0, 4.0], [4.0, 2.0]]))
    assert (combinations, filled) == (2, 0)
    # A missing run counts as the (geometric) mean of the other seeds of its point.
    cube = np.exp(np.random.default_rng(1).normal(0, 1, (2, 3, 4)))
    whole, _, _ = averaged(cube)
    cube[0, 1, 2] = NAN
    average, combinations, filled = averaged(cube)
    assert (combinations, filled) == (3, 1)
    others = np.exp(np.log(cube[0, 1, [0, 1, 3]]).mean())
    expected = (cube[0, 0, 2] * cube[0, 2, 2] * others) ** (1 / 3)
    assert average[0, 2] == pytest.approx(expected)
    whole[0, 2] = expected
    assert average == pytest.approx(whole)
    # A seed with fewer than half of its runs has no average.
    cube[0, 0, 2] = NAN
    average, _, filled = averaged(cube)
    assert np.isnan(average[0, 2])
    assert filled == 2
    average, combinations, _ = averaged(np.full((2, 3, 4), NAN))
    assert np.isnan(average).all()
    assert combinations == 0


def test_arithmetic_averages_if_a_value_is_not_positive() -> None:
    average, _, _ = averaged(np.array([[[0.0], [4.0]], [[1.0], [2.0]]]))
    assert average.tolist() == [[2.0], [1.5]]


@pytest.mark.parametrize("lower_x", [True, False])
@pytest.mark.parametrize("lower_y", [True, False])
def test_pareto_front_by_definition(lower_x: bool, lower_y: bool) -> None:
    random = np.random.default_rng(5)
    # Small whole numbers: many points are equal in one or both.
    x, y = random.integers(0, 6, 60).astype(float), random.integers(0, 6, 60).astype(float)
    x[7], y[8] = NAN, NAN
    front = pareto_front(x, y, lower_x, lower_y)
    a, b = (x if lower_x else -x), (y if lower_y else -y)
    for i in range(60):
        known = np.isfinite(a[i]) and np.isfinite(b[i])
        worse = any(
            a[j] <= a[i] and b[j] <= b[i] and (a[j] < a[i] or b[j] < b[i]) for j in range(60)
        )
        assert front[i] == (known and not worse)
