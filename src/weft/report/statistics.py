"""Statistics of repeated runs: intervals, comparisons paired by seed, averages, Pareto fronts.

Values are float64 [points, seeds] with NaN where a run has no result. Intervals have a confidence
of `CONFIDENCE` and are by Student's distribution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

#: Confidence of intervals; a difference is significant if its p-value is at most 1 - CONFIDENCE.
CONFIDENCE = 0.95
#: Standard deviation, relative to the mean, that is rounding and not variation.
_ROUNDING = 1e-12

Array = NDArray[np.float64]


class Spread(NamedTuple):
    """Number of values, mean, half-width of its interval, median, least and largest, [points].

    Without values all but `number` are NaN; `half` is NaN for a single value too.
    """

    number: NDArray[np.int64]
    mean: Array
    half: Array
    median: Array
    least: Array
    most: Array


class Comparison(NamedTuple):
    """Points compared with a reference, [points].

    Parameters
    ----------
    ratio, low, high
        Ratio to the reference and the ends of its interval: geometric means, by the mean of the
        differences of logarithms. NaN if a value is not positive; the ends are NaN too without
        repeated runs.
    p
        p-value of a two-sided t-test of no difference, of logarithms if there is a ratio, else of
        the values; NaN without repeated runs.
    test
        ``paired`` (by seed, if three seeds are common, or all of two), ``Welch``, or empty.
    """

    ratio: Array
    low: Array
    high: Array
    p: Array
    test: NDArray[np.str_]


def spread(values: Array) -> Spread:
    """Return count, mean and other statistics of each row."""
    count, mean, deviation = _moments(values)
    half = _quantile(count - 1) * deviation / np.sqrt(np.maximum(count, 1))
    ordered = np.sort(values, axis=1)  # NaN last
    rows, last = np.arange(len(values)), np.maximum(count - 1, 0)
    median = (ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2
    return Spread(count, mean, half, median, ordered[:, 0], ordered[rows, last])


def compared(values: Array, reference: Array) -> Comparison:
    """Compare each row of values with the row of a reference of the same shape."""
    known = np.concatenate([values, reference])
    ratios = bool(np.all(known[np.isfinite(known)] > 0))
    x, y = (np.log(values), np.log(reference)) if ratios else (values, reference)
    pairs, paired_mean, deviation = _moments(x - y)
    (count_x, mean_x, s_x), (count_y, mean_y, s_y) = _moments(x), _moments(y)
    least = np.minimum(count_x, count_y)
    paired, welch = (pairs >= 2) & (pairs >= np.minimum(least, 3)), least >= 2
    with np.errstate(invalid="ignore", divide="ignore"):
        part_x, part_y = s_x**2 / count_x, s_y**2 / count_y
        freedom = (part_x + part_y) ** 2 / (part_x**2 / (count_x - 1) + part_y**2 / (count_y - 1))
        # Without any variation the formula is 0/0.
        freedom = np.where(part_x + part_y > 0, freedom, count_x + count_y - 2)
        centre = np.where(pairs > 0, paired_mean, mean_x - mean_y)
        error = np.where(paired, deviation / np.sqrt(pairs), np.sqrt(part_x + part_y))
        freedom = np.where(paired, pairs - 1, freedom)
        error = np.where(paired | welch, error, np.nan)
        # Differences by rounding only are none.
        nought = _ROUNDING * (1.0 if ratios else np.maximum(np.abs(mean_x), np.abs(mean_y)))
        centre = np.where(np.abs(centre) <= nought, 0.0, centre)
        error = np.where(error <= nought, 0.0, error)
        t = np.where(error > 0, np.abs(centre) / error, np.where(centre == 0, 0.0, np.inf))
    p = np.where(paired | welch, 2 * stats.t.sf(t, np.maximum(freedom, 1)), np.nan)
    half = _quantile(freedom) * error
    test = np.where(paired, "paired", np.where(welch, "Welch", ""))
    if not ratios:
        absent = np.full(len(values), np.nan)
        return Comparison(absent, absent, absent, p, test)
    return Comparison(np.exp(centre), np.exp(centre - half), np.exp(centre + half), p, test)


def holm(p: Array) -> Array:
    """Return p-values adjusted by Holm's method for all that are not NaN."""
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p, kind="stable")[: int(np.isfinite(p).sum())]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def averaged(cube: Array) -> tuple[Array, int, int]:
    """Average over the combinations of other axes in which every row has a value.

    The average is the geometric mean, or the arithmetic mean if a value is not positive. A missing
    value counts as the mean of the other seeds of its row and combination, but a seed for which a
    row lacks more than half of the combinations has no average.

    Parameters
    ----------
    cube
        float64 [rows, combinations, seeds].

    Returns
    -------
    ndarray
        float64 [rows, seeds].
    int
        Number of combinations that are averaged.
    int
        Number of missing values among them.
    """
    known = np.isfinite(cube)
    ratios = bool(np.all(cube[known] > 0))
    kept = known.any(axis=2).all(axis=0)
    part, known = cube[:, kept], known[:, kept]
    if not kept.any():
        return np.full((len(cube), cube.shape[2]), np.nan), 0, 0
    logs = np.log(part) if ratios else part
    usual = np.where(known, logs, 0.0).sum(axis=2) / known.sum(axis=2)
    mean = np.where(known, logs, usual[:, :, None]).mean(axis=1)
    mean[known.mean(axis=1) < 0.5] = np.nan
    return np.exp(mean) if ratios else mean, int(kept.sum()), int((~known).sum())


def pareto_front(x: Array, y: Array, lower_x: bool, lower_y: bool) -> NDArray[np.bool_]:
    """Return which points no other point is at least as good as in both and better in one.

    Parameters
    ----------
    x, y
        float64 [points]; points with NaN are not on the front.
    lower_x, lower_y
        Whether lower values are better.
    """
    at = np.stack([x if lower_x else -x, y if lower_y else -y])
    front = np.zeros(at.shape[1], dtype=bool)
    order = np.lexsort((at[1], at[0]))
    order = order[np.isfinite(at[:, order]).all(axis=0)]
    least = np.inf
    for point in order:
        # Equal points are on the front together.
        twin = front.any() and bool(np.any((at[:, front] == at[:, [point]]).all(axis=0)))
        if at[1, point] < least or twin:
            front[point] = True
            least = at[1, point]
    return front


def _moments(values: Array) -> tuple[NDArray[np.int64], Array, Array]:
    """Return count, mean and standard deviation of each row, without NaN."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan)
        squares = np.where(known, (values - mean[:, None]) ** 2, 0.0).sum(axis=1)
        deviation = np.sqrt(squares / np.where(count > 1, count - 1, np.nan))
    deviation = np.where(deviation <= _ROUNDING * np.maximum(np.abs(mean), 1e-300), 0.0, deviation)
    return count, mean, deviation


def _quantile(freedom: NDArray[Any]) -> Array:
    """Return the quantile of Student's distribution for an interval; NaN without a degree."""
    known = freedom > 0
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, np.where(known, freedom, 1))
    result: Array = np.where(known, quantile, np.nan)
    return result
