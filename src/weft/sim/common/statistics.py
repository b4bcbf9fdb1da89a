"""Statistics of a series with correlation in time: batch means, trends, transients, backlogs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.student import CONFIDENCE, student_t

#: Numbers of batches, largest first: neighbours are merged while they are correlated. For fewer
#: than 8 batches, Student's t is wide; more than about 30 batches do not help (Schmeiser 1982).
BATCHES = (32, 16, 8)
#: Smallest number of observations for an interval.
FEWEST = 10 * BATCHES[-1]
#: Correlation of neighbours above which an interval is not widened further.
_MOST_LAG1 = 0.9
#: Standard normal quantile of the one-sided test, at 95 %, whether neighbours are correlated.
_Z = 1.645
#: MSER searches only the first half for the end of a transient, because too few means remain later.
_MSER_PART = 2


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval by batch means."""

    #: Mean of all observations; NaN if there are none.
    mean: float
    #: Half of the 95 % interval, widened for the remaining correlation; NaN if `few`.
    half_width: float
    #: Half of the 95 % interval for independent batches, not widened.
    plain_half_width: float
    #: Number of batches of the interval; 0 if `few`.
    batches: int
    #: Correlation of neighbouring batches; NaN if `few`.
    lag1: float
    #: Whether there are too few observations, or too many batches without observations.
    few: bool
    #: Whether batches are correlated even at their smallest number: the run is too short.
    correlated: bool


def batch_sums(
    at: NDArray[np.float64], value: NDArray[np.float64], begin: float, end: float, batches: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sum and number of observations in each of the equally long batches of [begin, end).

    `at`, `value` [observations]: times and values; observations outside the window are left out.

    Returns two arrays, float64 [batches].
    """
    inside = (at >= begin) & (at < end)
    number = ((at[inside] - begin) / (end - begin) * batches).astype(np.int64)
    number = np.minimum(number, batches - 1)  # a time just below the end may be rounded up
    count = np.bincount(number, minlength=batches).astype(np.float64)
    sums = np.bincount(number, weights=value[inside], minlength=batches)
    return sums.astype(np.float64), count


def batch_means(
    at: NDArray[np.float64], value: NDArray[np.float64], begin: float, end: float
) -> Interval:
    """Return the mean of observations in a window, and an interval that allows for correlation.

    Batches have equal length in time and differ in their numbers of observations; the mean is a
    ratio of sums. Its variance is computed from the residuals: the sum of a batch minus the mean
    times the number of observations in the batch. Starting with 32 batches, neighbours are merged
    while their lag-1 correlation is significant, down to 8 batches. The interval uses Student's t,
    multiplied by sqrt((1 + r) / (1 - r)) if a positive correlation r remains, as for a first-order
    autoregressive process.

    `at`, `value` [observations]: times and values; those outside the window are left out.
    """
    return interval_of(*batch_sums(at, value, begin, end, BATCHES[0]))


def interval_of(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> Interval:
    """Return the mean and interval of `batch_means` from the sums and counts of batches.

    `sums`, `counts` [BATCHES[0]]: sum and number of observations of each batch.
    """
    total = counts.sum()
    mean = float(sums.sum() / total) if total else np.nan
    if total < FEWEST:
        return Interval(mean, np.nan, np.nan, 0, np.nan, True, False)
    for batches in BATCHES:
        if batches != len(sums):
            sums, counts = sums.reshape(-1, 2).sum(axis=1), counts.reshape(-1, 2).sum(axis=1)
        residual = sums - mean * counts
        lag1 = _lag1(residual)
        if not _correlated(lag1, batches):
            break
    if np.count_nonzero(counts) < batches / 2:
        return Interval(mean, np.nan, np.nan, 0, np.nan, True, False)
    error = np.sqrt(np.square(residual).sum() / (batches * (batches - 1))) / (total / batches)
    plain = student_t(batches - 1) * float(error)
    half = plain * _widening(lag1)
    return Interval(mean, half, plain, batches, lag1, False, _correlated(lag1, batches))


def _widening(lag1: float) -> float:
    """Return the factor by which positive correlation of neighbours widens an interval."""
    left = min(max(lag1, 0.0), _MOST_LAG1)
    return float(np.sqrt((1 + left) / (1 - left)))


def _lag1(residual: NDArray[np.float64]) -> float:
    """Return the lag-1 correlation of residuals, whose mean is 0; 0 if they do not vary."""
    square = float(np.square(residual).sum())
    return float((residual[1:] * residual[:-1]).sum() / square) if square > 0 else 0.0


def _correlated(lag1: float, batches: int) -> bool:
    # For n independent batches the estimate has approximately mean -1/n and variance 1/n.
    return bool(lag1 > -1 / batches + _Z / np.sqrt(batches))


@dataclass(frozen=True)
class Trend:
    """A straight line through batch means."""

    #: Change per unit of time; NaN if there are fewer than 3 batches.
    slope: float
    #: Half of the two-sided interval (by default, of 95 %), widened for correlation of neighbours;
    #: NaN if there are fewer than 3 batches.
    half_width: float
    #: Whether the slope is above 0 with the same confidence, one-sided, for independent batches.
    grows: bool

    @property
    def beyond(self) -> bool:
        """Whether the slope is larger than half of its interval."""
        return self.slope > self.half_width


def trend(
    at: NDArray[np.float64], mean: NDArray[np.float64], confidence: float = CONFIDENCE
) -> Trend:
    """Return the least-squares slope of batch means over time; means that are NaN are ignored.

    The interval is widened as in `batch_means`, for the correlation of the residuals.

    `at`, `mean` [batches]: times and means.
    """
    known = np.isfinite(mean)
    at, mean = at[known], mean[known]
    if len(at) < 3:
        return Trend(np.nan, np.nan, False)
    x = at - at.mean()
    square = float((x * x).sum())
    slope = float((x * mean).sum() / square)
    rest = mean - mean.mean() - slope * x
    degrees = len(at) - 2
    error = float(np.sqrt((rest * rest).sum() / degrees / square))
    half = student_t(degrees, confidence) * error * _widening(_lag1(rest))
    return Trend(slope, half, slope > student_t(degrees, confidence, sides=1) * error)


def batch_trend(
    at: NDArray[np.float64], value: NDArray[np.float64], begin: float, end: float, batches: int
) -> Trend:
    """Return the slope of observations in a window, from the means of equally long batches.

    `at`, `value` [observations]: times and values; those outside the window are left out.
    """
    sums, counts = batch_sums(at, value, begin, end, batches)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    middle = begin + (end - begin) / batches * (np.arange(batches, dtype=np.float64) + 0.5)
    return trend(middle, means.astype(np.float64))


def mser(at: NDArray[np.float64], value: NDArray[np.float64], group: int = 5) -> float:
    """Return the end of the initial transient of a series, by the marginal standard error rule.

    MSER-5 (White 1997): observations are averaged in groups of five, and the number of first groups
    to leave out is chosen such that the squared standard error of the mean of the other groups is
    smallest.

    `at`, `value` [observations]: times in ascending order, and values. `group`: number of
    observations in one group: five for each independent source.

    Returns the time of the first observation that is kept; NaN if there are fewer than 10 groups,
    or if the minimum is at the end of the first half, so that the transient may be longer.
    """
    groups = len(value) // group
    if groups < 10:
        return np.nan
    means = value[: groups * group].reshape(groups, group).mean(axis=1)
    # Cumulative sums from the end: entry n is the sum of the means without the first n.
    means = means - means.mean()
    left = np.arange(groups, 0, -1)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(np.square(means)[::-1])[::-1]
    spread = np.maximum(squares - sums**2 / left, 0.0) / left.astype(np.float64) ** 2
    candidates = groups // _MSER_PART
    best = int(np.argmin(spread[: candidates + 1]))
    return np.nan if best == candidates else float(at[best * group])


#: Number of batches of the window (the backlog test uses the second half of them), and number of
#: batches of the time for which sources send.
_WINDOW_BATCHES, _RUN_BATCHES = BATCHES[1], BATCHES[0]
#: Smallest number of messages of a backlog: fewer may be under way in any steady state.
_FEWEST_WAITING = 4
#: A backlog stays if it does not fall below this share of its value in the middle of the window.
_KEPT = 0.5
#: Messages starve if more than this share of the bytes generated in the first half of the window
#: has not arrived at the end of the window.
STARVED = 0.01
#: Smallest age of a starving message, divided by the median latency.
_OVERDUE = 2.0


@dataclass(frozen=True)
class Messages:
    """Messages of a run."""

    #: float64 [messages], ns: times at which messages were generated and arrived; infinite arrival
    #: for messages that never arrived.
    born: NDArray[np.float64]
    arrived: NDArray[np.float64]
    #: float64 [messages], bytes.
    size: NDArray[np.float64]

    def of(self, chosen: NDArray[np.bool_]) -> Messages:
        """Return the chosen messages."""
        return Messages(self.born[chosen], self.arrived[chosen], self.size[chosen])

    def under_way(self, at: float) -> NDArray[np.bool_]:
        """Return which messages were generated before a time but arrive later, bool [messages]."""
        return (self.born < at) & (self.arrived >= at)

    def starve(self, begin: float, end: float) -> bool:
        """Return whether messages starve in a window.

        Messages starve if more than 1 % of the bytes generated in the first half of the window
        belong to messages that have not arrived at the end of the window and are older than twice
        the median latency of messages that arrive in the window.
        """
        arriving = (self.arrived >= begin) & (self.arrived < end)
        usual = np.median((self.arrived - self.born)[arriving]) if arriving.any() else 0.0
        early = (self.born >= begin) & (self.born < (begin + end) / 2)
        late = early & (self.arrived >= end) & (end - self.born > _OVERDUE * usual)
        return bool(self.size[late].sum() > STARVED * self.size[early].sum())


@dataclass(frozen=True)
class Backlog:
    """Backlog of the rank with the most bytes under way in the middle of the window."""

    rank: int
    #: Whether, in the second half of the window, the rank's backlog stays at half or more of its
    #: value in the middle of the window, and less arrives than is offered on average.
    stays: bool
    #: Whether the backlog stays, and the latency of arriving messages grows or messages starve.
    grows: bool


def largest_backlog(
    messages: Messages,
    rank: NDArray[np.int64],
    begin: float,
    end: float,
    stop: float,
    bytes_per_ns: float | None = None,
) -> Backlog | None:
    """Test the largest backlog of any rank, as a source or as a destination.

    During a backlog the arrival rate is the rate of the bottleneck and nearly constant, whereas the
    rate at which messages are generated varies; arrivals are therefore compared with the mean
    offered rate. The rank is chosen in the first half of the window and tested in the second half,
    so that there is a single test for any number of ranks.

    `rank` [messages]: source or destination rank. `begin`, `end`, `stop`: the window, and the time
    at which sources stop. `bytes_per_ns`: mean rate of each rank; by default estimated from the
    messages generated in the run, with an error that widens the interval.

    Returns None if the largest backlog has fewer than four messages.
    """
    middle = (begin + end) / 2
    waits = messages.under_way(middle)
    if np.count_nonzero(waits) < _FEWEST_WAITING:
        return None
    amount = np.bincount(rank[waits], weights=messages.size[waits])
    chosen = int(amount.argmax())
    own = messages.of(rank == chosen)
    if np.count_nonzero(own.under_way(middle)) < _FEWEST_WAITING:
        return None
    half = _WINDOW_BATCHES // 2
    length = (end - middle) / half
    rate, variance = (bytes_per_ns, 0.0) if bytes_per_ns is not None else _rate(own, stop)
    arrived, _ = batch_sums(own.arrived, own.size, middle, end, half)
    missing = rate * length - arrived
    error = np.sqrt(missing.var(ddof=1) / half + variance * length**2)
    # The variance may be 0; at least one message must be missing.
    least = max(student_t(half - 1, sides=1) * error, float(own.size.mean()) / half)
    kept = min(
        own.size[own.under_way(middle + number * length)].sum() for number in range(1, half + 1)
    )
    stays = bool(missing.mean() > least and kept >= _KEPT * amount[chosen])
    slope = batch_trend(own.arrived, own.arrived - own.born, begin, end, _WINDOW_BATCHES)
    return Backlog(chosen, stays, stays and (slope.grows or own.starve(begin, end)))


def _rate(messages: Messages, stop: float) -> tuple[float, float]:
    """Return the mean bytes per ns generated until sources stop, and the variance of this mean."""
    born, _ = batch_sums(messages.born, messages.size, 0.0, stop, _RUN_BATCHES)
    rates = born * (_RUN_BATCHES / stop)
    return float(rates.mean()), float(rates.var(ddof=1)) / _RUN_BATCHES
