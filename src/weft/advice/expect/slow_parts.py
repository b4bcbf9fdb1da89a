"""Sparse robust fit: the fewest slow parts of a fabric that explain the shortfalls of its paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import t as student

Floats = NDArray[np.float64]
#: A part is named if one among all parts of a healthy fabric would look so slow this rarely.
_CHANCE = 0.01
#: Least loss of a figure by a part that is named. Smaller ones are those of the model: with noise
#: of 0.3 %, one fault in nine otherwise has an innocent second suspect, of 0.2 to 0.5 %.
_LEAST = 0.03
#: A residual counts as at most this many standard deviations: one wrong figure is no evidence.
_MOST_SIGMAS = 5.0
#: A part explains the figures nearly as well if its likelihood is at least exp(-this / 2) times.
_AS_WELL = 6.0
#: Least noise of a figure: benchmarks print three or four digits.
_ROUNDING = 5e-4
#: Quantiles of the shortfalls of the figures of a part at which its effect is sought.
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
_MOST_PARTS = 32


@dataclass(frozen=True)
class SlowPart:
    """A part that explains shortfalls."""

    #: Its number, and the parts that explain the figures nearly as well, the best one first.
    part: int
    others: tuple[int, ...]
    #: Effect and its standard error: logarithm, or time.
    effect: float
    error: float
    #: Number of figures that it slows, and probability of such a part on a healthy fabric.
    figures: int
    chance: float


@dataclass(frozen=True, eq=False)
class PathParts:
    """Which parts are on the path of which figure.

    Parameters
    ----------
    figure, part
        int64 [entries]: figure and part of each entry, ascending by part, then by figure.
    weight
        float64 [entries]: if parts act as ``slowest``, the headroom of the part for this figure:
        the logarithm of its rate by the rate in use; as ``sum``, the factor of its effect.
    figures, parts
        Numbers of figures and of parts.
    act
        How the parts of a path act together: a bandwidth is that of the ``slowest`` part, a latency
        the ``sum`` of all.
    """

    figure: NDArray[np.int64]
    part: NDArray[np.int64]
    weight: Floats
    figures: int
    parts: int
    act: Literal["slowest", "sum"]

    def explained(self, parts: list[int], effects: Floats) -> Floats:
        """Return the shortfall of each figure due to these parts, float64 [figures]."""
        total = np.zeros(self.figures)
        for part, effect in zip(parts, effects, strict=True):
            its = slice(*np.searchsorted(self.part, (part, part + 1)))
            of = self.figure[its]
            total[of] = self._with(total[of], self.weight[its], effect)
        return total

    def _with(self, before: Floats, weight: Floats, effect: Any) -> Any:
        added: Floats = before + weight * effect
        return added if self.act == "sum" else np.maximum(before, effect - weight)

    def gains(self, shortfall: Floats, before: Floats, sigma: float) -> tuple[Floats, Floats]:
        """Return what each part alone explains beyond `before`, and its effect, float64 [parts].

        It is the decrease of the squared residuals, each at most `_MOST_SIGMAS`, in `sigma`.
        """
        bound = (_MOST_SIGMAS * sigma) ** 2
        was, short = before[self.figure], shortfall[self.figure]
        missing = np.minimum((short - was) ** 2, bound)
        own = short + self.weight
        if self.act == "sum":
            own = (short - was) / np.maximum(self.weight, 1e-12)
        order = np.lexsort((own, self.part))
        count = np.bincount(self.part, minlength=self.parts)
        first = np.cumsum(count) - count
        gain, best = np.zeros(self.parts), np.zeros(self.parts)
        for quantile in _QUANTILES:
            effect = own[order[first + np.floor(quantile * (count - 1) + 0.5).astype(np.int64)]]
            for _ in range(2):  # then at the mean of the figures near it
                effect = np.maximum(effect, 0.0)
                becomes = self._with(was, self.weight, effect[self.part])
                left = np.minimum((short - becomes) ** 2, bound)
                now = np.bincount(self.part, missing - left)
                best = np.where(now > gain, effect, best)
                gain = np.maximum(now, gain)
                near = (np.abs(short - becomes) < 3 * sigma) & (becomes > was)
                number = np.bincount(self.part, near)
                mean = np.bincount(self.part, near * own) / np.maximum(number, 1)
                effect = np.where(number > 0, mean, effect)
        return gain / sigma**2, best


def baseline(shortfall: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of the figures without slow parts.

    They begin as those of the fastest interval that holds a fifth of the figures and is at most
    twice as long as the shortest one: many figures may be slow. Figures within three standard
    deviations join them.
    """
    ordered = np.sort(shortfall)
    fifth = -(-len(ordered) // 5)
    width = ordered[fifth:] - ordered[:-fifth]
    first = int(np.flatnonzero(width <= 2 * width.min() + _ROUNDING)[0])
    centre = float(np.median(ordered[first : first + fifth]))
    sigma = float(width[first])
    for _ in range(50):
        near = ordered[np.abs(ordered - centre) <= 3 * max(sigma, _ROUNDING)]
        # Within three of them, a normal distribution has 0.987 of its standard deviation.
        centre, sigma = float(np.mean(near)), float(np.std(near)) / 0.987
    return centre, max(sigma, _ROUNDING)


def slow_parts(parts: PathParts, shortfall: Floats) -> tuple[list[SlowPart], Floats, float]:
    """Return slow parts, the one that explains most first; what they explain; and the noise.

    They are added one by one, each the one that explains most, as long as chance does not explain
    it (Student's distribution, all parts counted); then those that the others explain are removed.

    `shortfall` [figures]: what each figure lacks beyond the `baseline`.
    """
    chosen: list[int] = []
    effects, sigma = np.zeros(0), baseline(shortfall)[1]
    while len(chosen) < min(_MOST_PARTS, parts.figures // 2):
        gain, effect = parts.gains(shortfall, parts.explained(chosen, effects), sigma)
        part = int(np.argmax(gain))
        if part in chosen or _chance(parts, gain[part], len(chosen)) > _CHANCE:
            break
        chosen.append(part)
        effects, _ = _fitted(parts, shortfall, chosen, np.append(effects, effect[part]), sigma)
        sigma = min(sigma, _noise(shortfall - parts.explained(chosen, effects)))
    sigma = _noise(shortfall - parts.explained(chosen, effects))
    tested: list[tuple[float, int, tuple[int, ...], float]] = []
    for part in list(chosen):
        at = chosen.index(part)
        others, their = chosen[:at] + chosen[at + 1 :], np.delete(effects, at)
        gain, _ = parts.gains(shortfall, parts.explained(others, their), sigma)
        chance = _chance(parts, gain[part], len(others))
        lost = parts.explained([part], effects[at : at + 1]).max()
        if chance > _CHANCE or lost < _LEAST:
            chosen, effects = others, their
            continue
        near = np.flatnonzero(gain >= gain[part] - _AS_WELL)
        ranked = near[np.argsort(-gain[near], kind="stable")].tolist()
        tested.append((gain[part], part, tuple(p for p in ranked if p not in chosen), chance))
    if not chosen:
        return [], np.zeros(parts.figures), sigma
    effects, slope = _fitted(parts, shortfall, chosen, effects, sigma)
    found = []
    for _, part, near_parts, chance in sorted(tested, reverse=True):
        its = slope[:, chosen.index(part)]
        error = sigma / np.sqrt(max(np.sum(its**2), 1e-12))
        effect_of = float(effects[chosen.index(part)])
        found.append(
            SlowPart(part, near_parts, effect_of, float(error), int(np.sum(its != 0)), chance)
        )
    return found, parts.explained(chosen, effects), sigma


def _noise(residual: Floats) -> float:
    """Return the standard deviation of most residuals."""
    return max(float(np.median(np.abs(residual))) / 0.6745, _ROUNDING)


def _chance(parts: PathParts, gain: float, already: int) -> float:
    """Return the probability that one of the parts of a healthy fabric explains so much."""
    # The median of n residuals determines their scale as well as the squares of 0.37 n.
    freedom = max(0.37 * parts.figures - already - 1, 1.0)
    return float(min(parts.parts * student.sf(np.sqrt(max(gain, 0.0)), freedom), 1.0))


def _fitted(
    parts: PathParts, shortfall: Floats, chosen: list[int], effects: Floats, sigma: float
) -> tuple[Floats, Floats]:
    """Return the effects of the chosen parts, fitted together, and the slope of each figure."""
    fit = least_squares(
        lambda at: (shortfall - parts.explained(chosen, at)) / sigma,
        effects, bounds=(0.0, np.inf), loss="soft_l1", f_scale=2.0, max_nfev=20,
    )  # fmt: skip
    moved = [parts.explained(chosen, fit.x + step) for step in 1e-6 * np.eye(len(chosen))]
    slope = (np.transpose(moved) - parts.explained(chosen, fit.x)[:, None]) / 1e-6
    return np.asarray(fit.x), np.where(slope > 1e-3 * slope.max(axis=0), slope, 0.0)
