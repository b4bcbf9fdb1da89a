"""Whether one source or one destination among many falls behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.sim.sweep.statistics import BATCHES, batch_sums, batch_trend, student_t

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
