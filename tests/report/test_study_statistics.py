"""Statistics of repeated runs against scipy, closed forms and simulated coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from weft.report.statistics import average, averaged, compared, holm, pareto_front, spread

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
    x[5, :2], y[5, 4:] = NAN, NAN  # two common seeds of four: one degree of freedom
    found = compared(x, y)
    assert found.test.tolist() == ["paired", "Welch", "paired", "Welch", "", "paired", "paired"]
    assert found.number.tolist() == [6, 6, 2, 7, 1, 2, 6]
    for i, test in enumerate(found.test):
        a, b = np.log(x[i]), np.log(y[i])
        both = np.isfinite(a - b)
        if test == "paired":
            expected = stats.ttest_rel(a[both], b[both])
            centre = np.mean((a - b)[both])
        elif test == "Welch":
            a, b = a[np.isfinite(a)], b[np.isfinite(b)]
            expected = stats.ttest_ind(a, b, equal_var=False)
            centre = a.mean() - b.mean()
        else:
            assert found.ratio[i] == pytest.approx(np.exp((a - b)[both].mean()))
            assert np.isnan([found.p[i], found.low[i], found.high[i]]).all()
            continue
        interval = expected.confidence_interval(0.95)
        assert found.ratio[i] == pytest.approx(np.exp(centre))
        assert found.low[i] == pytest.approx(np.exp(interval.low))
        assert found.high[i] == pytest.approx(np.exp(interval.high))
        assert found.p[i] == pytest.approx(expected.pvalue)


def test_values_that_are_not_positive_are_compared_by_differences() -> None:
    x, y = table(seed=1) - 20, table(seed=2) - 20
    found = compared(x, y)
    assert np.isnan(found.ratio).all()
    assert found.p == pytest.approx(stats.ttest_rel(x, y, axis=1).pvalue)


def test_a_deterministic_value_leaves_a_test_of_one_sample() -> None:
    x = table(seed=1, missing=0.2)
    found = compared(x, np.full_like(x, 20.0))
    for i, row in enumerate(np.log(x)):
        expected = stats.ttest_1samp(row[np.isfinite(row)], np.log(20.0))
        assert found.p[i] == pytest.approx(expected.pvalue)
        assert found.high[i] == pytest.approx(np.exp(expected.confidence_interval().high) / 20)


def test_the_mean_of_an_answer_is_that_of_its_ratios() -> None:
    # The arithmetic means and the geometric means are in another order.
    x, y = np.array([[1.0, 9.0]]), np.array([[4.0, 4.5]])
    assert x.mean() > y.mean()
    found, other = average(x), average(y)
    assert found.mean / other.mean == pytest.approx(compared(x, y).ratio)
    assert found.mean[0] == pytest.approx(3)
    low, high = stats.t.interval(0.95, 1, np.log(3), stats.sem(np.log(x[0])))
    assert np.log([found.low[0], found.high[0]]) == pytest.approx([low, high])
    assert average(np.array([[0.0, 4.0]])).mean.tolist() == [2.0]


def test_runs_without_variation_have_no_interval_and_no_test() -> None:
    x = np.array([[0.1, 0.1, 0.1], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3, 0.3]])
    y = np.array([[0.2, 0.2, 0.2], [0.3, 0.3, 0.3], [0.3, 0.3, 0.3]])
    found = compared(x, y)
    assert found.ratio == pytest.approx([0.5, 1, 1])
    assert np.isnan([found.low, found.high, found.p]).all()
    assert found.test.tolist() == ["", "", ""]
    assert np.isnan(spread(x).half[:2]).all()
    assert np.isnan(average(x).low[:2]).all()


def test_holm_by_hand() -> None:
    p = np.array([0.01, NAN, 0.04, 0.03, 0.005])
    assert holm(p) == pytest.approx([0.03, NAN, 0.06, 0.06, 0.02], nan_ok=True)
    assert holm(np.array([NAN])).tolist() == pytest.approx([NAN], nan_ok=True)
    assert holm(p, family=10) == pytest.approx([0.09, NAN, 0.28, 0.24, 0.05], nan_ok=True)


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
    errors, of_best = 0, 0
    families = 1000
    for family in np.exp(random.normal(0, 0.1, (families, 11, seeds))):
        p = compared(family[1:], np.broadcast_to(family[0], (10, seeds))).p
        errors += bool((holm(p) <= 0.05).any())
        best = family[average(family).mean.argmin()]
        p = compared(family, np.broadcast_to(best, family.shape)).p
        of_best += bool((holm(p, family=55) <= 0.05).any())
    most = 0.05 + 3 * (0.05 * 0.95 / families) ** 0.5
    assert 0 < errors / families < most
    assert 0 < of_best / families < most


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [4, 6, 10])
def test_intervals_cover_as_often_as_they_say_with_a_quarter_missing(seeds: int) -> None:
    random = np.random.default_rng(11)
    trials = 4000
    shared = random.normal(0, 0.3, (trials, 1, 2, seeds))
    own = random.normal(0, 0.1, (trials, 2, 2, seeds))
    effects = np.array([[0.0, 0.4], [0.2, 0.9]])  # [choices, conditions]
    cubes = np.exp(effects[:, :, None] + shared + own)
    cubes[random.random(cubes.shape) < 0.25] = NAN
    means = np.array([averaged(cube)[0] for cube in cubes])  # [trials, choices, seeds]
    found, against = average(means[:, 0]), compared(means[:, 1], means[:, 0])
    for name, low, high, true in (
        ("mean", found.low, found.high, np.exp(0.2)),
        ("ratio", against.low, against.high, np.exp(0.35)),
    ):
        known = np.isfinite(low)
        assert known.mean() > 0.3
        inside = ((low <= true) & (true <= high))[known]
        error = 3.5 * (0.95 * 0.05 / known.sum()) ** 0.5
        assert inside.mean() == pytest.approx(0.95, abs=error), name


def test_averages_are_geometric_over_the_combinations_that_all_rows_have() -> None:
    cube = np.array(
        [
            [[1.0, 2.0], [4.0, 8.0], [NAN, NAN]],
            [[2.0, 2.0], [8.0, 2.0], [5.0, 5.0]],
        ]
    )
    mean, combinations, missing = averaged(cube)
    assert mean == pytest.approx(np.array([[2.0, 4.0], [4.0, 2.0]]))
    assert (combinations, missing.tolist()) == (2, [0, 0])
    # A seed that lacks a run has no average; the other row keeps it.
    cube = np.exp(np.random.default_rng(1).normal(0, 1, (2, 3, 4)))
    whole, _, _ = averaged(cube)
    cube[0, 1, 2] = NAN
    mean, combinations, missing = averaged(cube)
    assert (combinations, missing.tolist()) == (3, [1, 0])
    assert np.isnan(mean[0, 2])
    whole[0, 2] = NAN
    assert mean == pytest.approx(whole, nan_ok=True)
    mean, combinations, _ = averaged(np.full((2, 3, 4), NAN))
    assert np.isnan(mean).all()
    assert combinations == 0


def test_arithmetic_averages_if_a_value_is_not_positive() -> None:
    mean, _, _ = averaged(np.array([[[0.0], [4.0]], [[1.0], [2.0]]]))
    assert mean.tolist() == [[2.0], [1.5]]


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
