"""Holding a paper's claims against measurements repeated over seeds.

A claim is turned into comparisons: quantities, one value per seed, whose mean must lie in a range.
It *holds* when the 95 % interval (Student t over the seeds) of each lies there: as all have to,
each is tested at 5 % and the claim as a whole errs no more often (an intersection-union test). It
*does not hold* when one lies outside. There a single one is enough, so that its interval is widened
to cover all comparisons of the claim together with 95 % (Bonferroni). Else it is *undecided*.

A comparison may say which values the model can give at all, whatever is built or routed. Where
those lie outside the range, the model has no part in what the paper saw, and it *cannot tell*. The
same where meeting the range is necessary and not sufficient.

A claim is tested on several bases. Where these are choices that the paper leaves open, `vote` gives
the verdict of more than half of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # Student's t; scipy.stats takes long to import

E = TypeVar("E")

CONFIDENCE = 0.95
#: Differences up to this are rounding, not a finding.
NOTHING = 1e-12
ANYTHING = (-math.inf, math.inf)
Range = tuple[float, float]
#: Ranges with a name: a difference on one side of zero, or none at all.
_SIDES: Mapping[str, Range] = {
    "below": (-math.inf, -NOTHING), "above": (NOTHING, math.inf), "zero": (-NOTHING, NOTHING),
}  # fmt: skip


class Verdict(StrEnum):
    """Whether a claim survives the measurement."""

    HOLDS = "holds"
    UNDECIDED = "undecided"
    FAILS = "does not hold"
    CANNOT_TELL = "cannot tell"
    NOT_MEASURED = "not measured"


class NotMeasured(Exception):
    """A claim needs what an interrupt kept from being measured."""


class OutOfScope(Exception):
    """A claim needs what the study was not asked to measure."""


def interval(values: NDArray[Any], axis: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and half width of its 95 % interval over one axis, by Student's t.

    Parameters
    ----------
    values
        Repetitions along `axis`; a single one stands for itself, with a width of 0.
    axis
        Of the repetitions.
    """
    count = values.shape[axis]
    if count == 1:
        return values.mean(axis=axis), np.zeros_like(values.mean(axis=axis))
    spread = values.std(axis=axis, ddof=1) / np.sqrt(count)
    return values.mean(axis=axis), spread * stdtrit(count - 1, (1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class Comparison:
    """One condition of a claim.

    Parameters
    ----------
    label
        What is compared, and where.
    mean, half
        Of the quantity over the seeds: mean and half width of its 95 % interval.
    wanted
        Range in which it has to lie, ends included.
    seeds
        How many there were.
    possible
        Range in which the model can put it at all.
    settles
        Whether lying in the range is sufficient, too.
    because
        Why the model can give no other value, or why the range is not sufficient.
    """

    label: str
    mean: float
    half: float
    wanted: Range
    seeds: int
    possible: Range = ANYTHING
    settles: bool = True
    because: str = ""

    @classmethod
    def of(
        cls,
        label: str,
        values: NDArray[Any],
        wanted: Literal["below", "above", "zero"] | Range,
        *,
        possible: Range = ANYTHING,
        settles: bool = True,
        because: str = "",
    ) -> Comparison:
        """From one value per seed: a range, or on which side of zero it has to lie."""
        mean, half = interval(np.asarray(values, dtype=np.float64))
        if wanted == "zero":
            # Sameness is no matter of noise: the largest deviation speaks.
            mean, half = np.abs(values).max(), np.zeros(())
        where = _SIDES[wanted] if isinstance(wanted, str) else wanted
        return cls(label, float(mean), float(half), where, len(values), possible, settles, because)

    @property
    def margin(self) -> float:
        """How far inside the range the mean lies; negative outside."""
        return min(self.mean - self.wanted[0], self.wanted[1] - self.mean)

    @property
    def strength(self) -> float:
        """`margin` in half widths of the interval: comparable between quantities."""
        return self.margin / max(self.half, NOTHING)

    @property
    def impossible(self) -> bool:
        """Whether the model can put it nowhere in the range."""
        return self.possible[1] < self.wanted[0] or self.possible[0] > self.wanted[1]

    @property
    def forced(self) -> bool:
        """Whether the model can put it nowhere else."""
        inside = self.wanted[0] <= self.possible[0] and self.possible[1] <= self.wanted[1]
        return inside and self.possible != ANYTHING

    @property
    def verdict(self) -> Verdict:
        """Of this condition alone."""
        return self.among(1)

    def among(self, comparisons: int) -> Verdict:
        """Of this condition as one of several that a claim could fall by.

        Parameters
        ----------
        comparisons
            How many there are.
        """
        if self.impossible:
            return Verdict.CANNOT_TELL
        met = Verdict.HOLDS if self.settles else Verdict.CANNOT_TELL
        if self.margin >= self.half or self.forced:
            return met
        if self.half <= NOTHING:
            return Verdict.FAILS
        alone, together = -stdtrit(
            self.seeds - 1, (1 - CONFIDENCE) / 2 / np.array([1, comparisons])
        )
        contradicts = self.margin < -self.half * together / alone
        return Verdict.FAILS if contradicts else Verdict.UNDECIDED

    def __str__(self) -> str:
        if self.wanted == _SIDES["zero"]:
            return f"{self.label}: {self.mean:.3g}"
        if self.wanted in _SIDES.values():
            return f"{self.label}: {self.mean:+.3g} ± {self.half:.2g}"
        low, high = self.wanted
        bounds = [f"at least {low:.4g}"] * (low > -math.inf)
        bounds += [f"at most {high:.4g}"] * (high < math.inf)
        shown = f"{self.label}: {self.mean:.4g}" + f" ± {self.half:.2g}" * (self.half > 0)
        return f"{shown} (claimed {' and '.join(bounds)})"


#: What a claim as a whole says when its comparisons differ: the last of theirs.
_SEVERITY = (Verdict.HOLDS, Verdict.UNDECIDED, Verdict.CANNOT_TELL, Verdict.FAILS)


@dataclass(frozen=True)
class Finding:
    """What became of a claim on one basis.

    Parameters
    ----------
    verdict
        Of all comparisons together.
    measured
        The numbers that the claim is about, with intervals.
    conditions
        The comparisons; none where it was not measured.
    """

    verdict: Verdict
    measured: str
    conditions: tuple[Comparison, ...]

    @property
    def comparisons(self) -> int:
        """How many there were."""
        return len(self.conditions)

    @property
    def deciding(self) -> Comparison:
        """The comparison that fails, or comes closest to it; there must be one."""
        return max(
            self.conditions,
            key=lambda each: (_SEVERITY.index(each.among(self.comparisons)), -each.strength),
        )

    @property
    def against(self) -> tuple[Comparison, ...]:
        """Those that do not hold, cannot be told or are undecided."""
        return tuple(each for each in self.conditions if each.verdict is not Verdict.HOLDS)

    @property
    def because(self) -> str:
        """Why nothing else could come out of the deciding comparison; empty where it could."""
        if not self.conditions:
            return ""
        worst = self.deciding
        told = worst.forced or self.verdict is Verdict.CANNOT_TELL
        return worst.because if told else ""


def judge(comparisons: Sequence[Comparison], measured: str) -> Finding:
    """All conditions of a claim together."""
    count = len(comparisons)
    worst = max((each.among(count) for each in comparisons), key=_SEVERITY.index)
    return Finding(worst, measured, tuple(comparisons))


@dataclass(frozen=True)
class Vote:
    """What several choices say of a claim.

    Parameters
    ----------
    verdict
        That of more than half of all choices; else undecided, or not measured where what is
        missing could decide it.
    counts
        Verdict -> choices that give it, most first.
    """

    verdict: Verdict
    counts: Mapping[Verdict, int]

    def __str__(self) -> str:
        total = sum(self.counts.values())
        if self.verdict in self.counts:
            return f"{self.counts[self.verdict]} of {total} choices"
        return ", ".join(f"{name} {count} of {total}" for name, count in self.counts.items())


def vote(findings: Mapping[Any, Finding]) -> Vote:
    """The verdict of the majority of choices, each of which counts alike."""
    counts = dict(Counter(each.verdict for each in findings.values()).most_common())
    first = next(iter(counts))
    if 2 * counts[first] > len(findings):
        return Vote(first, counts)
    missing = Verdict.NOT_MEASURED in counts
    return Vote(Verdict.NOT_MEASURED if missing else Verdict.UNDECIDED, counts)


@dataclass(frozen=True)
class Claim(Generic[E]):
    """A statement of a paper and how it is tested.

    Parameters
    ----------
    id
        Short name, stable over versions.
    section
        Where the paper says it.
    says
        What the paper says, in our words.
    test
        Which comparisons it is turned into.
    compare
        (evidence, basis) -> comparisons.
    measured
        (evidence, basis) -> the numbers to show.
    comment
        (evidence, findings by basis) -> why it comes out so.
    """

    id: str
    section: str
    says: str
    test: str
    compare: Callable[[E, Any], Sequence[Comparison]]
    measured: Callable[[E, Any], str]
    comment: Callable[[E, Mapping[Any, Finding]], str]


@dataclass(frozen=True)
class ClaimResult:
    """A claim beside what was measured.

    Parameters
    ----------
    id, section, says, test
        As of the `Claim`.
    findings
        Basis (a way to count load) -> what came out; the paper's own basis first.
    comment
        Why.
    """

    id: str
    section: str
    says: str
    test: str
    findings: Mapping[Any, Finding]
    comment: str


def headline(result: ClaimResult) -> Finding:
    """What came out on the first basis on which anything was measured, else the first."""
    found = result.findings.values()
    return next((each for each in found if each.conditions), next(iter(found)))


def spread_over(result: ClaimResult) -> tuple[float | None, float | None]:
    """Least and largest value, over all bases, of the condition that decides on each."""
    means = [each.deciding.mean for each in result.findings.values() if each.conditions]
    return (min(means), max(means)) if means else (None, None)


def reason(result: ClaimResult) -> str:
    """Why nothing else could come out, on the first basis where that is so; empty where none is."""
    return next((each.because for each in result.findings.values() if each.because), "")


def hold(claims: Sequence[Claim[E]], evidence: E, bases: Sequence[Any]) -> tuple[ClaimResult, ...]:
    """Test every claim on every basis; what the study was not asked to measure is left out.

    Parameters
    ----------
    claims, evidence
        What to test, and by what.
    bases
        On what.
    """
    results = []
    for claim in claims:
        findings = {}
        for basis in bases:
            try:
                compared = claim.compare(evidence, basis)
                findings[basis] = judge(compared, claim.measured(evidence, basis))
            except NotMeasured as why:
                findings[basis] = Finding(Verdict.NOT_MEASURED, f"not measured: {why}", ())
            except OutOfScope:
                continue
        if findings:
            comment = claim.comment(evidence, findings)
            results.append(
                ClaimResult(claim.id, claim.section, claim.says, claim.test, findings, comment)
            )
    return tuple(results)
