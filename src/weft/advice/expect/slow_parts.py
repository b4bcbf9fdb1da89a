"""Sparse robust fit: the fewest slow parts of a fabric that explain the shortfalls of its paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import t as student

#: How parts of one path act together: a bandwidth is that of the slowest one, latencies add up.
Combination = Literal["slowest", "sum"]

#: A part is named if one among all parts of a healthy fabric would look so slow this rarely.
CHANCE = 0.01
#: A residual counts as at most this many standard deviations: a single wrong figure is no evidence.
_MOST_SIGMAS = 5.0
#: A part explains the figures as well as another one if its likelihood is at least exp(-this / 2).
_AS_WELL = 6.0
#: Least noise of a figure: measurements are printed with three or four digits.
_ROUNDING = 5e-4
#: Quantiles of the shortfalls of the figures of a part at which its effect is sought.
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
_MOST_PARTS = 32


@dataclass(frozen=True)
class SlowPart:
    """A part that explains shortfalls."""

    #: Its column, and the columns that explain the figures nearly as well, the best one first.
    column: int
    others: tuple[int, ...]
    #: Effect, and its standard error, as logarithm or share.
    effect: float
    error: float
    #: Number of figures with the part on their path, and probability of such a part by chance.
    figures: int
    chance: float


@dataclass(frozen=True, eq=False)
class Parts:
    """Which parts are on the path of which figure: a sparse matrix of figures and parts.

    Parameters
    ----------
    figure, column
        int64 [entries]: figure and part of each entry, ascending by part, then by figure.
    weight
        float64 [entries]: headroom of the part for this figure, as logarithm of its rate by the
        rate in use (``slowest``), or the weight of its effect (``sum``).
    figures, columns
        Numbers of figures and parts.
    combination
        How parts of one path act together.
    """

    figure: NDArray[np.int64]
    column: NDArray[np.int64]
    weight: NDArray[np.float64]
    figures: int
    columns: int
    combination: Combination

    def explained(self, columns: list[int], effects: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shortfall of each figure due to these parts, float64 [figures]."""
        total = np.zeros(self.figures)
        for column, effect in zip(columns, effects, strict=True):
            begin, end = np.searchsorted(self.column, (column, column + 1))
            of = self.figure[begin:end]
            total[of] = self._with(total[of], self.weight[begin:end], effect)
        return total

    def _with(self, before: NDArray[np.float64], weight: NDArray[np.float64], effect: object):  # type: ignore[no-untyped-def]
        if self.combination == "sum":
            return before + weight * effect
        return np.maximum(before, effect - weight)

    def gains(
        self, shortfall: NDArray[np.float64], before: NDArray[np.float64], sigma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what each part alone would explain in addition, and its effect.

        The gain is the decrease of the sum of squared residuals in units of `sigma`, each at most
        `_MOST_SIGMAS` squared; float64 [columns].
        """
        bound = (_MOST_SIGMAS * sigma) ** 2
        was = before[self.figure]
        short = shortfall[self.figure]
        missing = np.minimum((short - was) ** 2, bound)
        if self.combination == "sum":
            own = (short - was) / np.maximum(self.weight, 1e-12)
        else:
            own = short + self.weight
        order = np.lexsort((own, self.column))
        count = np.bincount(self.column, minlength=self.columns)
        first = np.cumsum(count) - count
        gain, best = np.zeros(self.columns), np.zeros(self.columns)
        for quantile in _QUANTILES:
            at = first + np.floor(quantile * (count - 1) + 0.5).astype(np.int64)
            effect = np.where(count > 0, own[order[np.minimum(at, len(own) - 1)]], 0.0)
            for _ in range(2):  # then at the mean of the figures near it
                effect = np.maximum(effect, 0.0)
                becomes = self._with(was, self.weight, effect[self.column])
                left = np.minimum((short - becomes) ** 2, bound)
                now = np.bincount(self.column, missing - left, minlength=self.columns)
                better = now > gain
                gain[better], best[better] = now[better], effect[better]
                near = (np.abs(short - becomes) < 3 * sigma) & (becomes > was)
                number = np.bincount(self.column, near, minlength=self.columns)
                total = np.bincount(self.column, near * own, minlength=self.columns)
                effect = np.where(number > 0, total / np.maximum(number, 1), effect)
        return gain / sigma**2, best


def baseline(shortfall: NDArray[np.float64]) -> tuple[float, float]:
    """Return centre and standard deviation of the figures without slow parts.

    They are those of the shortest interval that holds half of the figures, the fastest one of
    nearly equal length: half of the figures may have slow parts.
    """
    ordered = np.sort(shortfall)
    half = (len(ordered) + 1) // 2
    width = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
    first = int(np.flatnonzero(width <= 1.2 * width.min() + _ROUNDING)[0])
    centre = float(np.median(ordered[first : first + half]))
    # Half of the normal distribution is within 0.6745 standard deviations.
    sigma = max(float(width[first]) / 1.349, _ROUNDING)
    near = ordered[np.abs(ordered - centre) < 2.5 * sigma]
    return (float(np.mean(near)) if len(near) else centre), sigma


def slow_parts(parts: Parts, shortfall: NDArray[np.float64]) -> tuple[list[SlowPart], float]:
    """Return the slow parts, the one that explains most first, and the noise of a figure.

    Parts are added one by one, each the one that explains most, as long as chance does not explain
    it (Student's distribution, all parts counted); then those are removed that the others explain.

    Parameters
    ----------
    parts
        What is on the path of each figure.
    shortfall
        float64 [figures]: what each figure lacks beyond the `baseline`, as logarithm or share.
    """
    if parts.figures < 3 or not len(parts.figure):
        return [], float("nan")
    chosen: list[int] = []
    effects = np.zeros(0)
    _, sigma = baseline(shortfall)
    while len(chosen) < min(_MOST_PARTS, parts.figures // 2):
        gain, effect = parts.gains(shortfall, parts.explained(chosen, effects), sigma)
        column = int(np.argmax(gain))
        if column in chosen or _chance(parts, gain[column], len(chosen)) > CHANCE:
            break
        chosen, effects = [*chosen, column], np.append(effects, effect[column])
        effects = _refined(parts, shortfall, chosen, effects, sigma)
        sigma = min(sigma, _noise(shortfall - parts.explained(chosen, effects)))
    sigma = _noise(shortfall - parts.explained(chosen, effects))
    found: list[tuple[float, SlowPart]] = []
    for column in list(chosen):
        at = chosen.index(column)
        others, their = chosen[:at] + chosen[at + 1 :], np.delete(effects, at)
        gain, _ = parts.gains(shortfall, parts.explained(others, their), sigma)
        chance = _chance(parts, gain[column], len(others))
        if chance > CHANCE:
            chosen, effects = others, their
            continue
        near = np.flatnonzero(gain >= gain[column] - _AS_WELL)
        ranked = near[np.argsort(-gain[near], kind="stable")].tolist()
        error, figures = _error(parts, shortfall, chosen, effects, at, sigma)
        rest = tuple(other for other in ranked if other not in chosen)
        part = SlowPart(column, rest, float(effects[at]), error, figures, chance)
        found.append((float(gain[column]), part))
    return [part for _, part in sorted(found, key=lambda each: -each[0])], sigma


def _noise(residual: NDArray[np.float64]) -> float:
    """Return the standard deviation of most residuals."""
    return max(float(np.median(np.abs(residual))) / 0.6745, _ROUNDING)


def _chance(parts: Parts, gain: float, already: int) -> float:
    """Return the probability that one of the parts of a healthy fabric explains so much."""
    # The median of n residuals estimates their scale about as well as 0.37 n squares would.
    freedom = max(0.37 * parts.figures - already - 1, 1.0)
    return float(min(parts.columns * student.sf(np.sqrt(max(gain, 0.0)), freedom), 1.0))


def _refined(
    parts: Parts,
    shortfall: NDArray[np.float64],
    chosen: list[int],
    effects: NDArray[np.float64],
    sigma: float,
) -> NDArray[np.float64]:
    """Return the effects of the chosen parts, fitted together."""
    fit = least_squares(
        lambda at: (shortfall - parts.explained(chosen, at)) / sigma,
        effects, bounds=(0.0, np.inf), loss="soft_l1", f_scale=2.0, max_nfev=20,
    )  # fmt: skip
    return np.asarray(fit.x, dtype=np.float64)


def _error(
    parts: Parts,
    shortfall: NDArray[np.float64],
    chosen: list[int],
    effects: NDArray[np.float64],
    at: int,
    sigma: float,
) -> tuple[float, int]:
    """Return the standard error of an effect, and the number of figures that it determines."""
    step = effects.copy()
    step[at] *= 1 + 1e-6
    change = parts.explained(chosen, step) - parts.explained(chosen, effects)
    slope = change / (step[at] - effects[at])
    return float(sigma / np.sqrt(max(np.sum(slope**2), 1e-12))), int(np.count_nonzero(slope))
