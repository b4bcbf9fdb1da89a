"""Statistics of repeated runs: intervals, comparisons paired by seed, averages, Pareto fronts.

Values are float64 [points, seeds] with NaN where a run has no result. Intervals have a confidence
of `weft.core.student.CONFIDENCE` and are by Student's distribution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.student import student_t, two_sided_p

#: Standard deviation, relative to the mean, that is rounding and not variation.
_ROUNDING = 1e-12

Array = NDArray[np.float64]


class Spread(NamedTuple):
    """Number of values, mean, half-width of its interval, median, least and largest, [points].

    Without values all but `number` are NaN; `half` is NaN for values without variation, too.
    """

    number: NDArray[np.int64]
    mean: Array
    half: Array
    median: Array
    least: Array
    most: Array


class Average(NamedTuple):
    """Number of values, mean, and the ends of its interval, [points].

    The mean is geometric, or arithmetic if a value is not positive. It is NaN without values, the
    ends also for values without variation.
    """

    number: NDArray[np.int64]
    mean: Array
    low: Array
    high: Array


class ReferenceComparison(NamedTuple):
    """Points compared with a reference, [points]."""

    #: Ratio to the reference and the ends of its interval: geometric means, by the mean of the
    #: differences of logarithms. NaN if a value is not positive; the ends are NaN too without a
    #: test.
    ratio: Array
    low: Array
    high: Array
    #: p-value of a two-sided t-test of no difference, of logarithms if there is a ratio, else of
    #: the values; NaN without a test.
    p: Array
    #: ``paired`` (by seed, if two seeds are common), ``Welch``, or empty: without repeated runs, or
    #: without variation, of which Student's distribution says nothing.
    test: NDArray[np.str_]
    #: Number of common seeds of a paired test, else of values of both together.
    number: NDArray[np.int64]


def spread(values: Array) -> Spread:
    """Return count, mean and other statistics of each row."""
    count, mean, deviation = _moments(values)
    half = _quantile(count - 1) * deviation / np.sqrt(np.maximum(count, 1))
    half = np.where(deviation > 0, half, np.nan)
    ordered = np.sort(values, axis=1)  # NaN last
    rows, last = np.arange(len(values)), np.maximum(count - 1, 0)
    median = (ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2
    return Spread(count, mean, half, median, ordered[:, 0], ordered[rows, last])


def average(values: Array, ratios: bool | None = None) -> Average:
    """Return the mean of each row with its interval: that of the ratios in `compared`.

    `values`, float64 [points, seeds]. `ratios`: whether there are ratios, so that the mean is
    geometric. Default: if all are positive.
    """
    ratios = are_positive(values) if ratios is None else ratios
    found = spread(np.log(values) if ratios else values)
    ends = found.mean, found.mean - found.half, found.mean + found.half
    return Average(found.number, *(map(np.exp, ends) if ratios else ends))


def compared(
    values: Array, reference: Array, by_seed: bool = True, ratios: bool | None = None
) -> ReferenceComparison:
    """Compare each row of values with the row of a reference of the same shape.

    Without `by_seed`, common seeds are not paired; `ratios` as in `average`.
    """
    if ratios is None:
        ratios = are_positive(values) and are_positive(reference)
    x, y = (np.log(values), np.log(reference)) if ratios else (values, reference)
    pairs, paired_mean, deviation = _moments(x - y if by_seed else np.full_like(x, np.nan))
    (count_x, mean_x, s_x), (count_y, mean_y, s_y) = _moments(x), _moments(y)
    paired = pairs >= 2
    with np.errstate(invalid="ignore", divide="ignore"):
        part_x, part_y = s_x**2 / count_x, s_y**2 / count_y
        freedom = (part_x + part_y) ** 2 / (part_x**2 / (count_x - 1) + part_y**2 / (count_y - 1))
        freedom = np.where(paired, pairs - 1, freedom)
        welch = ~paired & (np.minimum(count_x, count_y) >= 2)
        centre = np.where((pairs > 0) & ~welch, paired_mean, mean_x - mean_y)
        error = np.where(paired, deviation / np.sqrt(pairs), np.sqrt(part_x + part_y))
        # Differences by rounding only are none.
        nought = _ROUNDING * (1.0 if ratios else np.maximum(np.abs(mean_x), np.abs(mean_y)))
        centre = np.where(np.abs(centre) <= nought, 0.0, centre)
        tested = (paired | welch) & (error > nought)
        t = np.where(tested, np.abs(centre) / error, np.nan)
    p = two_sided_p(t, np.where(tested, freedom, 1))
    half = np.where(tested, _quantile(freedom) * error, np.nan)
    test = np.where(tested, np.where(paired, "paired", "Welch"), "")
    number = np.where(welch, count_x + count_y, pairs)
    if not ratios:
        absent = np.full(len(values), np.nan)
        return ReferenceComparison(absent, absent, absent, p, test, number)
    ends = np.exp(centre - half), np.exp(centre + half)
    return ReferenceComparison(np.exp(centre), *ends, p, test, number)


def are_positive(values: Array) -> bool:
    """Return whether all values are positive, so that they have ratios and geometric means."""
    return bool(np.all(values[np.isfinite(values)] > 0))


def holm(p: Array, family: int = 0) -> Array:
    """Return p-values adjusted by Holm's method for all that are not NaN.

    `family`: number of tests of which these are a part, such as those of all pairs if each p-value
    compares with the best. Default: their own number.
    """
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p, kind="stable")[: int(np.isfinite(p).sum())]
    factors = max(family, len(order)) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def averaged(cube: Array, ratios: bool | None = None) -> tuple[Array, int, NDArray[np.int64]]:
    """Average over the combinations of other axes in which every row has a value.

    The average is the geometric mean, or the arithmetic mean if a value is not positive. A seed for
    which a row lacks one of these combinations has no average.

    `cube`, float64 [rows, combinations, seeds]. `ratios`: as in `average`.

    Returns float64 [rows, seeds]; the number of combinations that are averaged; and int64 [rows]:
    number of missing values among them.
    """
    known = np.isfinite(cube)
    kept = known.any(axis=2).all(axis=0)
    part = cube[:, kept]
    if not kept.any():
        return np.full((len(cube), cube.shape[2]), np.nan), 0, np.zeros(len(cube), dtype=np.int64)
    ratios = are_positive(cube) if ratios is None else ratios
    mean = (np.log(part) if ratios else part).mean(axis=1)
    missing = (~known[:, kept]).sum(axis=(1, 2))
    return np.exp(mean) if ratios else mean, int(kept.sum()), missing


def pareto_front(x: Array, y: Array, lower_x: bool, lower_y: bool) -> NDArray[np.bool_]:
    """Return which points no other point is at least as good as in both and better in one.

    `x`, `y`, float64 [points]: points with NaN are not on the front.
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
    if not known.any():
        return np.full(known.shape, np.nan)
    return np.where(known, student_t(np.where(known, freedom, 1)), np.nan)
