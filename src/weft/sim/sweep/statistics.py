"""Statistics of a series that is correlated in time: batch means, trends, transients, overload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

#: Numbers of batches that are tried, most first: neighbours are merged while they are correlated.
#: Fewer than 8 make Student's t wide, more than some 30 bring nothing (Schmeiser 1982).
BATCHES = (32, 16, 8)
#: A mean of fewer observations has no interval.
FEWEST = 10 * BATCHES[-1]
CONFIDENCE = 0.95
#: Above this correlation of neighbours an interval cannot be mended.
_MOST_LAG1 = 0.9
#: Standard normal quantile of the test whether neighbours are correlated, at 95 % on one side.
_Z = 1.645
#: MSER looks for the end of a transient in the first half: what is later rests on too little.
_MSER_PART = 2


def student_t(degrees: int, confidence: float = CONFIDENCE, *, sides: int = 2) -> float:
    """Quantile of Student's t that leaves 1 - confidence outside, on one side or on both."""
    return float(stdtrit(degrees, 1 - (1 - confidence) / sides))


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval by batch means.

    Parameters
    ----------
    mean
        Of all observations; NaN without any.
    half_width
        Of the 95 % interval, widened for correlation that is left; NaN where `few`.
    plain_half_width
        The same had batches been independent.
    batches
        How many the interval rests on; 0 where `few`.
    lag1
        Correlation of neighbouring batches; NaN where `few`.
    few
        There are too few observations, or too many batches without any.
    correlated
        Even the fewest batches are correlated, so the run is short for its fluctuations.
    """

    mean: float
    half_width: float
    plain_half_width: float
    batches: int
    lag1: float
    few: bool
    correlated: bool


def batch_sums(
    at: NDArray[np.float64], value: NDArray[np.float64], begin: float, end: float, batches: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and number of the observations in each of equally long batches of [begin, end).

    Parameters
    ----------
    at, value
        float64 [observations]: when and what; those outside are left out.
    begin, end
        The window.
    batches
        How many.

    Returns
    -------
    float64 [batches], twice.
    """
    inside = (at >= begin) & (at < end)
    number = ((at[inside] - begin) / (end - begin) * batches).astype(np.int64)
    number = np.minimum(number, batches - 1)  # a time just below the end may round up to it
    count = np.bincount(number, minlength=batches).astype(np.float64)
    sums = np.bincount(number, weights=value[inside], minlength=batches)
    return sums.astype(np.float64), count


def batch_means(
    at: NDArray[np.float64], value: NDArray[np.float64], begin: float, end: float
) -> Interval:
    """Mean of what is observed in a window, with an interval that minds correlation.

    Batches are equal in time, so they differ in their numbers of observations; the mean is a ratio
    of sums, and its variance that of the residuals (sum of a batch - mean times its number). From
    32 on, neighbours are merged as long as their lag-1 correlation is significant, down to 8. The
    interval is Student's t, times sqrt((1 + r) / (1 - r)) for the correlation r that is left when
    that is positive, as of an autoregressive process of first order.

    Parameters
    ----------
    at, value
        float64 [observations]: when and what; those outside the window are left out.
    begin, end
        The window.

    Returns
    -------
    Interval
    """
    sums, counts = batch_sums(at, value, begin, end, BATCHES[0])
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
    """By how much an interval is wider for the correlation of neighbours, when positive."""
    left = min(max(lag1, 0.0), _MOST_LAG1)
    return float(np.sqrt((1 + left) / (1 - left)))


def _lag1(residual: NDArray[np.float64]) -> float:
    """Lag-1 correlation of residuals, whose mean is 0; 0 where they do not vary."""
    square = float(np.square(residual).sum())
    return float((residual[1:] * residual[:-1]).sum() / square) if square > 0 else 0.0


def _correlated(lag1: float, batches: int) -> bool:
    # Of independent batches the estimate has about mean -1/n and variance 1/n.
    return bool(lag1 > -1 / batches + _Z / np.sqrt(batches))


@dataclass(frozen=True)
class Trend:
    """A straight line through batch means.

    Parameters
    ----------
    slope
        Change for each unit of time; NaN with fewer than 3 batches.
    half_width
        Of its 95 % interval on both sides, widened for correlation of neighbours; NaN alike.
    grows
        The slope is above 0 with 95 % confidence on one side, had the batches been independent.
    """

    slope: float
    half_width: float
    grows: bool

    @property
    def beyond(self) -> bool:
        """The slope is above its interval."""
        return self.slope > self.half_width


def trend(at: NDArray[np.float64], mean: NDArray[np.float64]) -> Trend:
    """Slope of batch means over time, by least squares; batches without a mean (NaN) are left out.

    The interval is widened as that of `batch_means`, for the correlation of what the line leaves.

    Parameters
    ----------
    at, mean
        float64 [batches].

    Returns
    -------
    Trend
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
    half = student_t(degrees) * error * _widening(_lag1(rest))
    return Trend(slope, half, slope > student_t(degrees, sides=1) * error)


def batch_trend(
    at: NDArray[np.float64], value: NDArray[np.float64], begin: float, end: float, batches: int
) -> Trend:
    """Slope of what is observed in a window, by the means of so many equally long batches.

    Parameters
    ----------
    at, value
        float64 [observations]: when and what; those outside the window are left out.
    begin, end
        The window.
    batches
        How many.

    Returns
    -------
    Trend
    """
    sums, counts = batch_sums(at, value, begin, end, batches)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    middle = begin + (end - begin) / batches * (np.arange(batches, dtype=np.float64) + 0.5)
    return trend(middle, means.astype(np.float64))


def mser(at: NDArray[np.float64], value: NDArray[np.float64], group: int = 5) -> float:
    """When the transient at the start of a series ends, by the marginal standard error rule.

    MSER-5 (White 1997): of means of five observations each, so many are left out at the start that
    the squared standard error of the mean of the others is least.

    Parameters
    ----------
    at, value
        float64 [observations]: when, in ascending order, and what.
    group
        Observations in one mean. Of several independent sources it takes as many times five.

    Returns
    -------
    float
        Time of the first observation that is kept; NaN when there are fewer than 10 means, or when
        the least lies at the end of the first half, so that no end was seen.
    """
    groups = len(value) // group
    if groups < 10:
        return np.nan
    means = value[: groups * group].reshape(groups, group).mean(axis=1)
    # Sums over what is left after each number of means left out, from the end.
    means = means - means.mean()
    left = np.arange(groups, 0, -1)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(np.square(means)[::-1])[::-1]
    spread = np.maximum(squares - sums**2 / left, 0.0) / left.astype(np.float64) ** 2
    candidates = groups // _MSER_PART
    best = int(np.argmin(spread[: candidates + 1]))
    return np.nan if best == candidates else float(at[best * group])


#: Batches of the window, of which the second half is compared, and of all that sources send.
_WINDOW_BATCHES, _RUN_BATCHES = BATCHES[1], BATCHES[0]
#: A backlog is this many messages or more: fewer are on the way with nothing wrong.
_FEWEST_WAITING = 4
#: Share of the backlog in the middle of the window below which it must not fall after that.
_KEPT = 0.5
#: Share of what was born in the first half of the window and is missing at its end.
STARVED = 0.01
#: Median latencies after which a message that is missing starves.
_OVERDUE = 2.0


@dataclass(frozen=True)
class Messages:
    """Messages of a run.

    Parameters
    ----------
    born, arrived
        float64 [messages], ns: when each was offered, and when it had arrived; infinite where it
        never did.
    size
        float64 [messages], bytes.
    """

    born: NDArray[np.float64]
    arrived: NDArray[np.float64]
    size: NDArray[np.float64]

    def of(self, chosen: NDArray[np.bool_]) -> Messages:
        """Some of them."""
        return Messages(self.born[chosen], self.arrived[chosen], self.size[chosen])

    def under_way(self, at: float) -> NDArray[np.bool_]:
        """Bool [messages]: born before that and not there."""
        return (self.born < at) & (self.arrived >= at)

    def starve(self, begin: float, end: float) -> bool:
        """Of the bytes born in the first half of a window more than 1 % are missing at its end.

        They are older then than twice the median latency of what arrives in the window: where the
        way is long, others have not arrived either.
        """
        came = (self.arrived >= begin) & (self.arrived < end)
        usual = np.median((self.arrived - self.born)[came]) if came.any() else 0.0
        early = (self.born >= begin) & (self.born < (begin + end) / 2)
        late = early & (self.arrived >= end) & (end - self.born > _OVERDUE * usual)
        return bool(self.size[late].sum() > STARVED * self.size[early].sum())


@dataclass(frozen=True)
class Backlog:
    """The rank that has most under way in the middle of the window, and what becomes of it.

    Parameters
    ----------
    rank
        Which.
    stays
        Its backlog never falls below half of that, and in the second half of the window less
        arrives than sources offer on average.
    grows
        That, and the latency of what arrives grows, or some starve.
    """

    rank: int
    stays: bool
    grows: bool


def largest_backlog(
    messages: Messages,
    rank: NDArray[np.int64],
    begin: float,
    end: float,
    stop: float,
    bytes_per_ns: float | None = None,
) -> Backlog | None:
    """What becomes of the largest backlog of a rank, as a source or as a destination.

    While a backlog lasts, what arrives is all that can: it hardly varies, as the times at which
    messages are born do. It is compared with the mean rate of what is offered, since by chance a
    source may offer less for a while. A rank is chosen by the first half of the window and judged
    by the second one, so one test is made, however many ranks there are.

    Parameters
    ----------
    messages
        Of the run.
    rank
        int64 [messages]: whose each one is.
    begin, end, stop
        The window, and when sources stop.
    bytes_per_ns
        Mean rate of each rank; that of what was born in the run when left out, whose error then
        widens the interval.

    Returns
    -------
    Backlog
        None where nobody has one.
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
    came, _ = batch_sums(own.arrived, own.size, middle, end, half)
    missing = rate * length - came
    error = np.sqrt(missing.var(ddof=1) / half + variance * length**2)
    # Batches of equal numbers of messages have no variance; no less than a message may be missing.
    least = max(student_t(half - 1, sides=1) * error, float(own.size.mean()) / half)
    kept = min(
        own.size[own.under_way(middle + number * length)].sum() for number in range(1, half + 1)
    )
    stays = bool(missing.mean() > least and kept >= _KEPT * amount[chosen])
    slope = batch_trend(own.arrived, own.arrived - own.born, begin, end, _WINDOW_BATCHES)
    return Backlog(chosen, stays, stays and (slope.grows or own.starve(begin, end)))


def _rate(messages: Messages, stop: float) -> tuple[float, float]:
    """Bytes per ns that were born until sources stopped, and the variance of that mean."""
    born, _ = batch_sums(messages.born, messages.size, 0.0, stop, _RUN_BATCHES)
    rates = born * (_RUN_BATCHES / stop)
    return float(rates.mean()), float(rates.var(ddof=1)) / _RUN_BATCHES
