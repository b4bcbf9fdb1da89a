"""Holding a paper's claims against measurements repeated over seeds.

A claim is turned into comparisons: quantities, one value per seed, whose mean must be below zero,
above it, or zero throughout. It *holds* when every comparison's 95 % interval (Student t over the
seeds) lies on the claimed side: as all have to, each is tested at 5 % and the claim as a whole errs
no more often (an intersection-union test). It *does not hold* when one is a flat tie or lies on the
other side. There a single one is enough, so that its interval is widened to cover all comparisons
of the claim together with 95 % (Bonferroni). Else it is *undecided*.
"""

from __future__ import annotations

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


class Verdict(StrEnum):
    """Whether a claim survives the measurement."""

    HOLDS = "holds"
    UNDECIDED = "undecided"
    FAILS = "does not hold"


def interval(values: NDArray[Any], axis: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and half width of its 95 % interval over one axis, by Student's t.

    Parameters
    ----------
    values
        At least two repetitions along `axis`.
    axis
        Of the repetitions.
    """
    count = values.shape[axis]
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
        Of the difference over the seeds: mean and half width of its 95 % interval.
    wanted
        Side on which the difference has to lie.
    seeds
        How many there were.
    """

    label: str
    mean: float
    half: float
    wanted: Literal["below", "above", "zero"]
    seeds: int

    @classmethod
    def of(
        cls, label: str, values: NDArray[Any], wanted: Literal["below", "above", "zero"]
    ) -> Comparison:
        """From one difference per seed."""
        mean, half = interval(np.asarray(values, dtype=np.float64))
        if wanted == "zero":
            # Sameness is no matter of noise: the largest deviation speaks.
            mean = np.abs(values).max()
        return cls(label, float(mean), float(half), wanted, len(values))

    @property
    def margin(self) -> float:
        """How far on the claimed side the mean lies; negative on the other."""
        return {"below": -self.mean, "above": self.mean, "zero": -abs(self.mean)}[self.wanted]

    @property
    def strength(self) -> float:
        """`margin` in half widths of the interval: comparable between quantities."""
        return self.margin / max(self.half, NOTHING)

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
        if self.wanted == "zero":
            return Verdict.HOLDS if abs(self.mean) <= NOTHING else Verdict.FAILS
        if self.half <= NOTHING:
            return Verdict.HOLDS if self.margin > NOTHING else Verdict.FAILS
        if self.margin > self.half:
            return Verdict.HOLDS
        alone, together = -stdtrit(
            self.seeds - 1, (1 - CONFIDENCE) / 2 / np.array([1, comparisons])
        )
        contradicts = self.margin < -self.half * together / alone
        return Verdict.FAILS if contradicts else Verdict.UNDECIDED

    def __str__(self) -> str:
        if self.wanted == "zero":
            return f"{self.label}: {self.mean:.3g}"
        return f"{self.label}: {self.mean:+.3g} ± {self.half:.2g}"


_SEVERITY = {Verdict.HOLDS: 0, Verdict.UNDECIDED: 1, Verdict.FAILS: 2}


@dataclass(frozen=True)
class Finding:
    """What became of a claim on one way to count load.

    Parameters
    ----------
    verdict
        Of all comparisons together.
    deciding
        The comparison that fails, or comes closest to it.
    measured
        The numbers that the claim is about, with intervals.
    comparisons
        How many there were.
    against
        Those that do not hold or are undecided.
    """

    verdict: Verdict
    deciding: Comparison
    measured: str
    comparisons: int
    against: tuple[Comparison, ...]


def judge(comparisons: Sequence[Comparison], measured: str) -> Finding:
    """All conditions of a claim together."""
    count = len(comparisons)
    worst = max(comparisons, key=lambda each: (_SEVERITY[each.among(count)], -each.strength))
    against = tuple(each for each in comparisons if each.verdict is not Verdict.HOLDS)
    return Finding(worst.among(count), worst, measured, count, against)


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
    compare: Callable[[E, str], Sequence[Comparison]]
    measured: Callable[[E, str], str]
    comment: Callable[[E, Mapping[str, Finding]], str]


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
    findings: Mapping[str, Finding]
    comment: str


def hold(claims: Sequence[Claim[E]], evidence: E, bases: Sequence[str]) -> tuple[ClaimResult, ...]:
    """Test every claim on every basis."""
    results = []
    for claim in claims:
        findings = {
            basis: judge(claim.compare(evidence, basis), claim.measured(evidence, basis))
            for basis in bases
        }
        results.append(
            ClaimResult(
                claim.id,
                claim.section,
                claim.says,
                claim.test,
                findings,
                claim.comment(evidence, findings),
            )
        )
    return tuple(results)
