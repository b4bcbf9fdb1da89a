"""Measured values of the KNS study at hand, and how its claims are held against them.

Runs are deterministic, so there is no noise to test against. A claim is turned into conditions,
each a number that has to lie in a range. It *holds* when all do, and *does not hold* when one does
not. Where conditions are necessary only, because what the benchmark reports depends on more than
the network, meeting them decides nothing: *cannot tell*. Where a study was interrupted before a run
that a claim needs, it is *not measured*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from weft.papers import kns_machine as machine
from weft.papers.kns_benchmarks import BENCHMARKS, METRICS
from weft.papers.kns_runs import PLACEMENTS, Measured, Run

#: Values are the same when they are within so much of each other, and similar within so much.
SAME, SIMILAR = 0.05, 0.10
#: One is better than another by at least this much; less would not show in a bar chart.
BETTER = 0.01


class Verdict(StrEnum):
    """Whether a claim survives."""

    HOLDS = "holds"
    FAILS = "does not hold"
    CANNOT_TELL = "cannot tell"
    NOT_MEASURED = "not measured"


class NotMeasured(Exception):
    """A claim needs a run that was not made."""


@dataclass(frozen=True)
class Condition:
    """A number and where it has to lie.

    Parameters
    ----------
    label
        What the number is.
    value
        It.
    low, high
        Range, ends included.
    """

    label: str
    value: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def margin(self) -> float:
        """How far inside the range it lies, in parts of the bound; negative outside."""
        sides = [
            (self.value - self.low) / max(abs(self.low), 1e-12),
            (self.high - self.value) / max(abs(self.high), 1e-12),
        ]
        return min(side for side in sides if not math.isnan(side))

    @property
    def met(self) -> bool:
        """Whether it lies there."""
        return self.low <= self.value <= self.high

    def __str__(self) -> str:
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"at least {self.low:.4g}")
        if self.high < math.inf:
            bounds.append(f"at most {self.high:.4g}")
        return f"{self.label}: {self.value:.4g} (claimed {' and '.join(bounds)})"


@dataclass(frozen=True)
class Basis:
    """On what a claim is judged.

    Parameters
    ----------
    ranks_per_node
        Ranks of each node.
    shuffled
        Whether nodes, addresses and ports are in random order, or as the topology counts them.
    """

    ranks_per_node: int
    shuffled: bool = False

    def __str__(self) -> str:
        return f"{self.ranks_per_node} a node{', shuffled' * self.shuffled}"


@dataclass(frozen=True)
class Evidence:
    """All values of one basis.

    Parameters
    ----------
    values
        (network, engine, placement, metric) -> value; shuffled networks under the names of those
        in order.
    basis
        Which.
    missing
        What an interrupt kept from being measured, keys as of the values.
    """

    values: Mapping[tuple[str, str, str, str], float]
    basis: Basis
    missing: frozenset[tuple[str, str, str, str]] = frozenset()

    @classmethod
    def of(cls, measured: Sequence[Measured], basis: Basis, asked: Sequence[Run] = ()) -> Evidence:
        """Those of the runs that belong to a basis.

        Parameters
        ----------
        measured
            All that was measured.
        basis
            Which of it counts.
        asked
            Runs that were to be made; those of `measured` when left out.
        """
        renamed = {other: name for name, other in machine.SHUFFLED.items()}
        tidy = {name: name for name in machine.NETWORKS if name not in renamed}
        names = renamed if basis.shuffled else tidy

        def key(run: Run, metric: str) -> tuple[str, str, str, str]:
            return names[run.network], run.engine, run.placement, metric

        def counts(run: Run) -> bool:
            return run.ranks_per_node == basis.ranks_per_node and run.network in names

        values = {
            key(each.run, name): value
            for each in measured
            if counts(each.run)
            for name, value in each.values.items()
        }
        wanted = {
            key(run, name)
            for run in asked
            if counts(run)
            for name in BENCHMARKS[run.benchmark].metrics
        }
        return cls(values, basis, frozenset(wanted - values.keys()))

    def filled(self) -> Evidence:
        """With some number for each that is missing: tells what a whole study would know."""
        values = {**dict.fromkeys(self.missing, 1.0), **self.values}
        return replace(self, values=values, missing=frozenset())

    @property
    def ranks_per_node(self) -> int:
        """Ranks of each node."""
        return self.basis.ranks_per_node

    def get(self, metric: str, network: str, engine: str, placement: str) -> float:
        """One value.

        Raises
        ------
        NotMeasured
            When that was not run.
        """
        try:
            return self.values[network, engine, placement, metric]
        except KeyError:
            raise NotMeasured(f"{metric} on {network}, {engine}, {placement}") from None

    def all(
        self,
        metric: str,
        network: str,
        placements: Iterable[str] = PLACEMENTS,
        engines: Sequence[str] | None = None,
    ) -> list[float]:
        """Values of the paper's routings of a network, engine by engine."""
        return [
            self.get(metric, network, engine, placement)
            for engine in engines or machine.PAPER_ENGINES[network]
            for placement in placements
        ]

    def ratio(
        self, metric: str, one: tuple[str, str, str], other: tuple[str, str, str]
    ) -> tuple[str, float]:
        """What is compared, in words, and one over other: each network, engine, placement."""
        named = [
            " ".join(part for part, twin in zip(a, b, strict=True) if part != twin)
            for a, b in ((one, other), (other, one))
        ]
        shared = " ".join(part for part, twin in zip(one, other, strict=True) if part == twin)
        label = f"{metric}, {shared}{': ' if shared else ''}{named[0]} / {named[1]}"
        return label, self.get(metric, *one) / self.get(metric, *other)

    def show(self, metric: str, network: str, digits: int = 3) -> str:
        """Linear -> random of each of the paper's routings of a network, in words."""
        unit = METRICS[metric].unit
        shown = ", ".join(
            f"{engine} "
            + " -> ".join(
                f"{self.get(metric, network, engine, placement):.{digits}g}"
                for placement in PLACEMENTS
            )
            for engine in machine.PAPER_ENGINES[network]
        )
        return f"{network}: {shown} {unit}".rstrip()

    def both(self, metric: str, digits: int = 3) -> str:
        """`show` of the KNS and the tree."""
        return "; ".join(self.show(metric, network, digits) for network in machine.PAPER_ENGINES)


def spread(values: Sequence[float]) -> float:
    """By how much the largest exceeds the least, in parts of it."""
    return max(values) / min(values) - 1


Routing = Callable[["Evidence", str, str], "Condition"]


def each_routing(
    make: Routing, networks: Sequence[str] = (machine.KNS, machine.TREE)
) -> Callable[[Evidence], list[Condition]]:
    """A condition for each of the paper's routings of some networks."""
    return lambda evidence: [
        make(evidence, network, engine)
        for network in networks
        for engine in machine.PAPER_ENGINES[network]
    ]


def spread_of(metric: str, network: str, within: float) -> Callable[[Evidence], list[Condition]]:
    """All values of a network, routings and placements, within so much of each other."""
    return lambda evidence: [
        Condition(
            f"{metric}, {network}: most over least, less 1",
            spread(evidence.all(metric, network)),
            high=within,
        )
    ]


def above(label_and_ratio: tuple[str, float], by: float = BETTER) -> Condition:
    """A ratio at least so much above 1."""
    label, ratio = label_and_ratio
    return Condition(label, ratio, low=1 + by)


def below(label_and_ratio: tuple[str, float], by: float = BETTER) -> Condition:
    """A ratio at least so much below 1."""
    label, ratio = label_and_ratio
    return Condition(label, ratio, high=1 - by)


def alike(label_and_ratio: tuple[str, float], within: float = SAME) -> Condition:
    """A ratio within so much of 1, either way."""
    label, ratio = label_and_ratio
    return Condition(label, ratio, 1 / (1 + within), 1 + within)


def against_linear(evidence: Evidence, metric: str, network: str, engine: str) -> tuple[str, float]:
    """A metric at random over that in order."""
    return evidence.ratio(metric, (network, engine, "random"), (network, engine, "linear"))


@dataclass(frozen=True)
class Finding:
    """What became of a claim on one basis.

    Parameters
    ----------
    verdict
        Of all conditions together.
    measured
        The numbers that the claim is about.
    conditions
        All of them; none where it was not measured.
    """

    verdict: Verdict
    measured: str
    conditions: tuple[Condition, ...]

    @property
    def worst(self) -> Condition | None:
        """The condition that is furthest from being met, or closest to not being."""
        return min(self.conditions, key=lambda each: (each.met, each.margin), default=None)

    @property
    def against(self) -> tuple[Condition, ...]:
        """Conditions that are not met."""
        return tuple(each for each in self.conditions if not each.met)


@dataclass(frozen=True)
class Claim:
    """A statement of the paper and how it is tested.

    Parameters
    ----------
    id
        Short name, stable over versions.
    section
        Where the paper says it, with the figure.
    says
        What the paper says, in our words.
    test
        The conditions in words.
    conditions
        Evidence -> conditions.
    measured
        Evidence -> the numbers to show.
    comment
        Evidence and finding -> why it comes out so.
    decides
        Whether the conditions, when met, settle the claim.
    """

    id: str
    section: str
    says: str
    test: str
    conditions: Callable[[Evidence], Sequence[Condition]]
    measured: Callable[[Evidence], str]
    comment: Callable[[Evidence, Finding], str]
    decides: bool = True


@dataclass(frozen=True)
class ClaimResult:
    """A claim beside what was measured.

    Parameters
    ----------
    claim
        What the paper says.
    findings
        Basis -> what came out; those for which all that is needed was run.
    comments
        Basis -> why.
    """

    claim: Claim
    findings: Mapping[Basis, Finding]
    comments: Mapping[Basis, str]


def judge(claim: Claim, evidence: Evidence) -> Finding:
    """Hold a claim against the values of one basis.

    Raises
    ------
    NotMeasured
        When something that it needs was not run.
    """
    conditions = tuple(claim.conditions(evidence))
    verdict = Verdict.HOLDS if claim.decides else Verdict.CANNOT_TELL
    if not all(condition.met for condition in conditions):
        verdict = Verdict.FAILS
    return Finding(verdict, claim.measured(evidence), conditions)


def hold(claims: Sequence[Claim], evidence: Sequence[Evidence]) -> tuple[ClaimResult, ...]:
    """Hold every claim against every basis; claims for which nothing was to run are left out."""
    found = []
    for claim in claims:
        findings: dict[Basis, Finding] = {}
        comments: dict[Basis, str] = {}
        for values in evidence:
            judged = _judged(claim, values)
            if judged is not None:
                findings[values.basis], comments[values.basis] = judged
        if findings:
            found.append(ClaimResult(claim, findings, comments))
    return tuple(found)


def _judged(claim: Claim, values: Evidence) -> tuple[Finding, str] | None:
    """Finding and comment; None where the study does not make a run that these need."""
    try:
        finding = judge(claim, values)
        return finding, claim.comment(values, finding)
    except NotMeasured as why:
        if not values.missing or _judged(claim, values.filled()) is None:
            return None
        said = f"not measured: {why}"
        return Finding(Verdict.NOT_MEASURED, said, ()), "The study was interrupted before that run."
