"""Tests of a paper's claims on measurements repeated over seeds.

A claim is a set of comparisons: quantities with one value per seed whose mean must be in a range.
The claim *holds* when the 95 % confidence interval (Student t over the seeds) of every comparison
is inside its range: each comparison is tested at 5 %, and the error probability of the whole claim
is then at most 5 % (intersection-union test). It *does not hold* when at least one interval is
entirely outside its range. For this the intervals are widened, so that they cover all means of the
claim at the same time with a probability of 95 % (Bonferroni). Otherwise it is *undecided*.

A comparison may state the values that the model can produce on any fabric with any routes. If these
are all outside the range, the model does not contain the effect that the paper describes, and the
verdict is *cannot tell*. The verdict is also *cannot tell* if the mean is in its range, but the
range is only a necessary condition of the claim.

A claim is tested on several bases. If the bases are choices that the paper leaves open, `vote`
gives the verdict of more than half of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.core.student import CONFIDENCE, student_t

E = TypeVar("E")

#: Differences up to this value count as rounding.
NOTHING = 1e-12
ANYTHING = (-math.inf, math.inf)
Range = tuple[float, float]
Wanted = Literal["below", "above", "zero"] | Range
#: Named ranges: a difference below, above or equal to zero.
_SIDES: Mapping[str, Range] = {
    "below": (-math.inf, -NOTHING), "above": (NOTHING, math.inf), "zero": (-NOTHING, NOTHING),
}  # fmt: skip


class Verdict(StrEnum):
    """Outcome of the test of a claim."""

    HOLDS = "holds"
    UNDECIDED = "undecided"
    FAILS = "does not hold"
    CANNOT_TELL = "cannot tell"
    NOT_MEASURED = "not measured"


class NotMeasured(Exception):
    """A claim needs a measurement that an interrupt prevented."""


class OutOfScope(Exception):
    """A claim needs a measurement that the options of the study exclude."""


def interval(values: NDArray[Any], axis: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mean over the axis of repetitions and the half width of its 95 % interval.

    The half width is that of Student's t, and 0 for a single repetition.
    """
    count = values.shape[axis]
    if count == 1:
        return values.mean(axis=axis), np.zeros_like(values.mean(axis=axis))
    spread = values.std(axis=axis, ddof=1) / np.sqrt(count)
    return values.mean(axis=axis), spread * student_t(count - 1)


def show(values: NDArray[Any]) -> str:
    """Format the mean and its 95 % half width, to two digits of the half width."""
    return plus_minus(*(float(number) for number in interval(values)))


def plus_minus(mean: float, half: float) -> str:
    """Format a mean and a half width, to two digits of the half width, at most 5 decimals."""
    if half <= NOTHING:
        return f"{mean:.4g}"
    places = int(np.clip(1 - np.floor(np.log10(half)), 0, 5))
    return f"{mean:.{places}f}±{half:.{places}f}"


@dataclass(frozen=True)
class ClaimComparison:
    """One condition of a claim."""

    #: The quantity, and the point at which it is compared.
    label: str
    #: Mean of the quantity over the seeds, and half width of its 95 % interval.
    mean: float
    half: float
    #: Range that must contain the mean, ends included.
    wanted: Range
    #: Number of seeds.
    seeds: int
    #: Range of all values that the model can produce.
    possible: Range = ANYTHING
    #: Whether a mean in the range is sufficient for the claim, not only necessary.
    settles: bool = True
    #: Why the model can produce no other value, or why the range is not sufficient.
    because: str = ""

    @classmethod
    def of(
        cls,
        label: str,
        values: NDArray[Any],
        wanted: Wanted,
        *,
        possible: Range = ANYTHING,
        settles: bool = True,
        because: str = "",
    ) -> ClaimComparison:
        """Compare one value per seed with a range or with zero."""
        mean, half = interval(np.asarray(values, dtype=np.float64))
        if wanted == "zero":
            # Equality must hold for every seed, so the largest deviation is compared.
            mean, half = np.abs(values).max(), np.zeros(())
        where = _SIDES[wanted] if isinstance(wanted, str) else wanted
        return cls(label, float(mean), float(half), where, len(values), possible, settles, because)

    @property
    def margin(self) -> float:
        """Distance of the mean from the nearest end of the range; negative outside."""
        return min(self.mean - self.wanted[0], self.wanted[1] - self.mean)

    @property
    def strength(self) -> float:
        """`margin` in half widths of the interval, comparable between quantities."""
        return self.margin / max(self.half, NOTHING)

    @property
    def impossible(self) -> bool:
        """Whether the model can produce no value in the range."""
        return self.possible[1] < self.wanted[0] or self.possible[0] > self.wanted[1]

    @property
    def forced(self) -> bool:
        """Whether the model can only produce values in the range."""
        inside = self.wanted[0] <= self.possible[0] and self.possible[1] <= self.wanted[1]
        return inside and self.possible != ANYTHING

    @property
    def verdict(self) -> Verdict:
        """Verdict on this condition alone."""
        return self.among(1)

    def among(self, comparisons: int) -> Verdict:
        """Return the verdict on this condition as one of several of a claim."""
        if self.impossible:
            return Verdict.CANNOT_TELL
        met = Verdict.HOLDS if self.settles else Verdict.CANNOT_TELL
        if self.margin >= self.half or self.forced:
            return met
        if self.half <= NOTHING:
            return Verdict.FAILS
        alone, together = student_t(
            self.seeds - 1, 1 - (1 - CONFIDENCE) / np.array([1, comparisons])
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


#: Of the verdicts on its comparisons, a claim gets the one that is last in this order.
_SEVERITY = (Verdict.HOLDS, Verdict.UNDECIDED, Verdict.CANNOT_TELL, Verdict.FAILS)


@dataclass(frozen=True)
class ClaimFinding:
    """Result of the test of a claim on one basis."""

    #: Verdict on all comparisons together.
    verdict: Verdict
    #: The numbers that the claim is about, with intervals.
    measured: str
    #: The comparisons; empty if the claim was not measured.
    conditions: tuple[ClaimComparison, ...]

    @property
    def comparisons(self) -> int:
        """Number of comparisons."""
        return len(self.conditions)

    @property
    def deciding(self) -> ClaimComparison:
        """The comparison that fails or is closest to failing; there must be at least one."""
        return max(
            self.conditions,
            key=lambda each: (_SEVERITY.index(each.among(self.comparisons)), -each.strength),
        )

    @property
    def against(self) -> tuple[ClaimComparison, ...]:
        """The comparisons whose own verdict is not `HOLDS`."""
        return tuple(each for each in self.conditions if each.verdict is not Verdict.HOLDS)

    @property
    def because(self) -> str:
        """Why the deciding comparison has only this result, or does not suffice; else empty."""
        if not self.conditions:
            return ""
        worst = self.deciding
        inevitable = worst.forced or self.verdict is Verdict.CANNOT_TELL
        return worst.because if inevitable else ""


def judge(comparisons: Sequence[ClaimComparison], measured: str) -> ClaimFinding:
    """Return the finding on all conditions of a claim together."""
    count = len(comparisons)
    worst = max((each.among(count) for each in comparisons), key=_SEVERITY.index)
    return ClaimFinding(worst, measured, tuple(comparisons))


@dataclass(frozen=True)
class Vote:
    """Verdict of several choices on a claim."""

    #: Verdict of more than half of all choices; otherwise *not measured* if some choices were not
    #: measured, else *undecided*.
    verdict: Verdict
    #: Verdict -> number of choices that give it, by descending number.
    counts: Mapping[Verdict, int]

    def __str__(self) -> str:
        total = sum(self.counts.values())
        if self.verdict in self.counts:
            return f"{self.counts[self.verdict]} of {total} choices"
        return ", ".join(f"{name} {count} of {total}" for name, count in self.counts.items())


def vote(findings: Mapping[Any, ClaimFinding]) -> Vote:
    """Return the verdict of the majority of the choices, with equal weights."""
    counts = dict(Counter(each.verdict for each in findings.values()).most_common())
    first = next(iter(counts))
    if 2 * counts[first] > len(findings):
        return Vote(first, counts)
    missing = Verdict.NOT_MEASURED in counts
    return Vote(Verdict.NOT_MEASURED if missing else Verdict.UNDECIDED, counts)


def explained_choices(
    fails: str = "", always: str | Callable[[Any], str] = "", *, undecided: bool = True
) -> Callable[[Any, Mapping[Any, ClaimFinding]], str]:
    """Return a comment that explains a result and lists the choices with another verdict.

    `fails`: explanation if the claim does not hold with the first choice. `always`: explanation of
    any result, or a function of the evidence, which is left out if some measurements are missing.
    `undecided`: whether `fails` also explains why the claim is undecided or cannot be told.
    """

    def comment(evidence: Any, findings: Mapping[Any, ClaimFinding]) -> str:
        first = next(iter(findings.values())).verdict
        others: dict[Verdict, list[str]] = {}
        for choice, each in findings.items():
            if each.verdict is not first:
                others.setdefault(each.verdict, []).append(choice)
        text = "; ".join(f"{verdict} with {', '.join(names)}" for verdict, names in others.items())
        failed = first is not Verdict.HOLDS if undecided else first is Verdict.FAILS
        parts = [fails] if failed else []
        with suppress(NotMeasured, OutOfScope):
            parts.append(always if isinstance(always, str) else always(evidence))
        parts += [f"Other choices: {text}."] if text else []
        return " ".join(filter(None, parts))

    return comment


#: (evidence, basis) -> the comparisons of a claim.
Compare = Callable[[E, Any], Sequence[ClaimComparison]]
#: (evidence, basis) -> quantities: label, and one value per seed.
Quantities = Callable[[E, Any], Iterable[tuple[str, NDArray[Any]]]]


@dataclass(frozen=True)
class Claim(Generic[E]):
    """Statement of a paper and its test."""

    #: Short name, stable over versions.
    id: str
    #: Section or figure of the paper.
    section: str
    #: The statement, paraphrased.
    says: str
    #: Description of the comparisons.
    test: str
    #: The comparisons; see `every`.
    compare: Compare[E]
    #: (evidence, basis) -> the numbers to show; by default those that are compared.
    measured: Callable[[E, Any], str] | None = None
    #: Explanation of the result, or (evidence, findings by basis) -> the explanation.
    comment: str | Callable[[E, Mapping[Any, ClaimFinding]], str] = explained_choices()  # noqa: RUF009

    def finding(self, evidence: E, basis: Any) -> ClaimFinding:
        """Test the claim on one basis."""
        compared = self.compare(evidence, basis)
        if self.measured is not None:
            return judge(compared, self.measured(evidence, basis))
        shown = (f"{each.label} {plus_minus(each.mean, each.half)}" for each in compared)
        return judge(compared, "; ".join(shown))


def every(*conditions: tuple[Quantities[E], Wanted]) -> Compare[E]:
    """Return the comparisons of quantities with the range in which all of them must be."""
    return lambda evidence, basis: [
        ClaimComparison.of(label, values, wanted)
        for quantities, wanted in conditions
        for label, values in quantities(evidence, basis)
    ]


@dataclass(frozen=True)
class ClaimResult:
    """Claim with the findings on it."""

    #: As in the `Claim`.
    id: str
    section: str
    says: str
    test: str
    #: Basis (a definition of the load of links) -> finding; the paper's own basis first.
    findings: Mapping[Any, ClaimFinding]
    #: Explanation of the result.
    comment: str


def headline(result: ClaimResult) -> ClaimFinding:
    """Return the finding on the first basis that was measured, or else on the first basis."""
    findings = result.findings.values()
    return next((each for each in findings if each.conditions), next(iter(findings)))


def spread_over(result: ClaimResult) -> tuple[float | None, float | None]:
    """Return the least and largest mean of the deciding conditions of all bases."""
    means = [each.deciding.mean for each in result.findings.values() if each.conditions]
    return (min(means), max(means)) if means else (None, None)


def reason(result: ClaimResult) -> str:
    """Return the first non-empty `because` of the findings, or an empty string."""
    return next((each.because for each in result.findings.values() if each.because), "")


def hold(claims: Sequence[Claim[E]], evidence: E, bases: Sequence[Any]) -> tuple[ClaimResult, ...]:
    """Test every claim on every basis whose measurements the options of the study include."""
    results = []
    for claim in claims:
        findings = {}
        for basis in bases:
            try:
                findings[basis] = claim.finding(evidence, basis)
            except NotMeasured as why:
                findings[basis] = ClaimFinding(Verdict.NOT_MEASURED, f"not measured: {why}", ())
            except OutOfScope:
                continue
        if findings:
            comment = claim.comment
            results.append(ClaimResult(
                claim.id, claim.section, claim.says, claim.test, findings,
                comment if isinstance(comment, str) else comment(evidence, findings),
            ))  # fmt: skip
    return tuple(results)
