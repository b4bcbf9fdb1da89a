"""Measured values of the KNS study, indexed for its claims.

The paper leaves open the order of its cables, the root of updn, the grid of PTRANS, the processor
time per edge of Graph500, and the smallest difference that matters. Each has several plausible
values; a `KnsChoice` has one value for each. For each number of ranks per node, a claim is judged
under every choice that changes the values that the claim uses; `weft_papers.claims.vote` gives the
majority verdict.

Three rules give the range of values that the model can produce, for all claims:

- If the network takes at most a share s of the time of a benchmark in any of its runs, two runs
  differ by at most a factor of 1 / (1 - s).
- A benchmark reports the same value under any placement if it sends one message at a time and the
  same number between all pairs of ranks, or if it draws at random which ranks exchange messages.
- The latency of a single message is at most the latency on a path that visits every switch once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft_papers import claims
from weft_papers.claims import (
    ANYTHING,
    Claim,
    ClaimComparison,
    ClaimFinding,
    ClaimResult,
    NotMeasured,
    OutOfScope,
    Range,
    interval,
)
from weft_papers.kns import machine
from weft_papers.kns.benchmarks import BENCHMARKS, METRICS
from weft_papers.kns.runs import PLACEMENTS, KnsRun, KnsRunResult

#: Largest relative difference between values that count as the same, or as similar.
SAME, SIMILAR = 0.05, 0.10
#: Relative difference that counts as "better": `SAME`, or a difference visible in a bar chart.
BETTER: Mapping[str, float] = {"by 5 %": SAME, "by 1 %": 0.01}

#: All placements as repetitions of one measurement, for metrics independent of the placement.
EITHER = "any placement"

Floats = NDArray[np.float64]
#: Network, engine, placement, metric, variant of the benchmark.
Key = tuple[str, str, str, str, str]
_OF_METRIC = {name: each for each in BENCHMARKS.values() for name in each.metrics}


@dataclass(frozen=True)
class KnsChoice:
    """One value for each parameter that the paper leaves open."""

    #: Number of ranks per node; a vote counts the choices with the same number.
    ranks_per_node: int
    #: Order of cables, ports and addresses (`machine.CABLES`).
    cables: str
    #: Roots of updn on the tree (`machine.ROOTS`).
    roots: str
    #: Variants of PTRANS and of Graph500.
    grid: str
    pace: str
    #: Smallest difference that counts as better (`BETTER`).
    better: str

    def __str__(self) -> str:
        return ", ".join(str(getattr(self, axis)) for axis in AXES if getattr(self, axis))


AXES = tuple(axis.name for axis in fields(KnsChoice))[1:]


def every_choice(ranks_per_node: int, all_choices: bool = True) -> tuple[KnsChoice, ...]:
    """Return all choices, the headline choice first; or, if not `all_choices`, only this one."""
    variants = {
        each.axis: list(each.variants_at(ranks_per_node))
        for each in BENCHMARKS.values()
        if each.axis
    }
    options = [machine.CABLES, machine.ROOTS, variants["grid"], variants["pace"], BETTER]
    every = [KnsChoice(ranks_per_node, *each) for each in product(*map(list, options))]
    return tuple(every if all_choices else every[:1])


@dataclass(frozen=True)
class Ratio:
    """Ratio of two values."""

    #: Description of the two values.
    label: str
    #: float64 [seeds]: one ratio for each placement for which both values exist.
    values: Floats
    #: Range of all values that the model can produce.
    possible: Range = ANYTHING
    #: Reason for the range.
    because: str = ""

    @property
    def mean(self) -> float:
        """Mean over the placements."""
        return float(self.values.mean())

    def within(self, wanted: Range) -> ClaimComparison:
        """Return the condition that the ratio is in a range, ends included."""
        return ClaimComparison.of(
            self.label, self.values, wanted, possible=self.possible, because=self.because
        )


@dataclass(frozen=True)
class KnsEvidence:
    """All values with one number of ranks per node, under a choice."""

    #: Key -> float64 [seeds]: one value for each placement, by ascending seed.
    values: Mapping[Key, Floats]
    #: Choice by which `get` selects keys; None until `at` is called.
    choice: KnsChoice | None = None
    #: Keys that were not measured because of an interrupt.
    missing: frozenset[Key] = frozenset()
    #: Metric -> largest share of the time that the network takes in any run.
    shares: Mapping[str, float] = field(default_factory=dict)
    #: Metric that the placement cannot change -> reason.
    unplaced: Mapping[str, str] = field(default_factory=dict)
    #: Metrics with at most one measured message in flight at a time.
    alone: frozenset[str] = frozenset()
    #: Choice -> keys and thresholds that a claim has used under this choice.
    reads: dict[KnsChoice, set[Any]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls, measured: Sequence[KnsRunResult], ranks_per_node: int, asked: Sequence[KnsRun] = ()
    ) -> KnsEvidence:
        """Collect the values of the runs with a number of ranks per node; `asked` are all runs."""
        here = [each for each in measured if each.run.ranks_per_node == ranks_per_node]
        values: dict[Key, dict[int, float]] = {}
        shares: dict[str, float] = {}
        crowded: set[str] = set()
        unequal: set[str] = set()
        for each in here:
            for name, value in each.values.items():
                values.setdefault(_key(each.run, name), {})[each.run.seed] = value
                shares[name] = max(shares.get(name, 0.0), each.network_share)
                crowded |= {name} if each.at_once > 1 else set()
                unequal |= set() if each.every_pair else {name}
        done = {each.run for each in here}
        missing = frozenset(
            _key(run, name)
            for run in asked
            if run.ranks_per_node == ranks_per_node and run not in done
            for name in BENCHMARKS[run.benchmark].metrics
        )
        unplaced = {}
        for name in shares:
            if _OF_METRIC[name].draws:
                unplaced[name] = (
                    "the benchmark itself draws at random which ranks exchange, so that its "
                    "traffic has the same distribution under random and linear placement"
                )
            elif name not in crowded | unequal:
                unplaced[name] = (
                    "only one message is in flight at a time, so that there is no contention, and "
                    "all ordered pairs of hosts are measured under any placement"
                )
        return cls(
            {
                key: np.array([by_seed[seed] for seed in sorted(by_seed)])
                for key, by_seed in values.items()
                if key not in missing
            },
            missing=missing,
            shares=shares,
            unplaced=unplaced,
            alone=frozenset(shares) - crowded,
        )

    def at(self, choice: KnsChoice, note: bool = False) -> KnsEvidence:
        """Return the evidence under a choice; `note` records the keys and thresholds used."""
        reads = self.reads if note else {}
        reads.setdefault(choice, set())
        return replace(self, choice=choice, reads=reads)

    def filled(self) -> KnsEvidence:
        """Return the evidence with a placeholder for each missing value."""
        values = {**dict.fromkeys(self.missing, np.ones(1)), **self.values}
        return replace(self, values=values, missing=frozenset())

    @property
    def ranks_per_node(self) -> int:
        """Ranks of each node under the choice."""
        return self._chosen.ranks_per_node

    @property
    def better(self) -> float:
        """Smallest relative difference that counts as better under the choice."""
        self._note(self._chosen.better)
        return BETTER[self._chosen.better]

    @property
    def _chosen(self) -> KnsChoice:
        assert self.choice is not None, "evidence needs a choice; call at() first"
        return self.choice

    def _note(self, what: Any) -> None:
        self.reads.setdefault(self._chosen, set()).add(what)

    def get(self, metric: str, network: str, engine: str, placement: str) -> Floats:
        """Return one value for each placement, float64 [seeds]."""
        if placement == EITHER:
            each = [self.get(metric, network, engine, placed) for placed in PLACEMENTS]
            return np.concatenate(each)
        chosen, axis = self._chosen, _OF_METRIC[metric].axis
        if network in machine.PAPER_ENGINES:
            if (network, engine) == (machine.TREE, "updn"):
                engine = machine.ROOTS[chosen.roots]
            network = machine.cabled(network, chosen.cables)
        variant = str(getattr(chosen, axis)) if axis else ""
        key = network, engine, placement, metric, variant
        self._note(key)
        if key in self.values:
            return self.values[key]
        name = f"{metric} {variant}".strip()
        absent = f"{name} on {network}, {engine}, {placement}"
        raise (NotMeasured if key in self.missing else OutOfScope)(absent)

    def all(
        self,
        metric: str,
        network: str,
        placements: Iterable[str] = PLACEMENTS,
        engines: Sequence[str] | None = None,
    ) -> Floats:
        """Return the values of a metric on a network, float64 [engines x placements, seeds]."""
        values = [
            self.get(metric, network, engine, placement)
            for engine in engines or machine.PAPER_ENGINES[network]
            for placement in placements
        ]
        return np.stack(np.broadcast_arrays(*values))

    def ratio(self, metric: str, one: tuple[str, str, str], other: tuple[str, str, str]) -> Ratio:
        """Return the ratio of two values, each of a network, engine and placement."""
        named = [
            " ".join(part for part, counterpart in zip(a, b, strict=True) if part != counterpart)
            for a, b in ((one, other), (other, one))
        ]
        shared = " ".join(part for part, same in zip(one, other, strict=True) if part == same)
        label = f"{metric}, {shared}{': ' if shared else ''}{named[0]} / {named[1]}"
        over, under = self.get(metric, *one), self.get(metric, *other)
        if one[2] == other[2]:  # the same placement has the same seeds
            both = min(len(over), len(under))
            over, under = over[:both], under[:both]
        share = self.shares.get(metric, 1.0)
        if one[:2] == other[:2] and metric in self.unplaced:
            return Ratio(label, over / under, (1.0, 1.0), self.unplaced[metric])
        if share < 1:
            reason = f"the network takes at most {100 * share:.2g} % of the time of {metric}"
            return Ratio(label, over / under, (1 - share, 1 / (1 - share)), reason)
        return Ratio(label, over / under)

    def show(self, metric: str, network: str, digits: int = 3) -> str:
        """Format the values of the paper's routings of a network as linear -> random placement."""
        unit = METRICS[metric].unit
        values = ", ".join(
            f"{engine} "
            + " -> ".join(
                shown(self.get(metric, network, engine, placement), digits)
                for placement in PLACEMENTS
            )
            for engine in machine.PAPER_ENGINES[network]
        )
        return f"{network}: {values} {unit}".rstrip()

    def both(self, metric: str, digits: int = 3) -> str:
        """Return `show` of the KNS and of the tree."""
        return "; ".join(self.show(metric, network, digits) for network in machine.PAPER_ENGINES)


def _key(run: KnsRun, metric: str) -> Key:
    return run.network, run.engine, run.placement, metric, run.variant


def shown(values: Floats, digits: int = 3) -> str:
    """Format the mean, with the half width of its interval unless that rounds to 0."""
    mean, half = interval(values)
    text = f"{mean:.{digits}g}"
    return f"{text}±{half:.2g}" if half > 0.5 * 10.0**-digits * abs(mean) else text


Conditions = Callable[[KnsEvidence], Sequence[ClaimComparison]]
#: Network and engine.
Routing = tuple[str, str]
#: What is claimed of a ratio -> smallest difference that counts -> the range.
_RANGES: Mapping[str, Callable[[float], Range]] = {
    "above": lambda by: (1 + by, math.inf), "below": lambda by: (-math.inf, 1 - by),
    "alike": lambda by: (1 / (1 + by), 1 + by), "kept": lambda by: (1 / (1 + by), math.inf),
}  # fmt: skip


def routings(*networks: str, without: str = "") -> list[Routing]:
    """Return the paper's routings of some networks, but for one engine."""
    return [
        (network, engine)
        for network in networks
        for engine in machine.PAPER_ENGINES[network]
        if engine != without
    ]


def rivals(network: str, engine: str) -> list[tuple[Routing, Routing]]:
    """Return an engine with each other routing of the paper on the same network."""
    return [((network, engine), other) for other in routings(network, without=engine)]


def ratios(
    pairs: Iterable[tuple[Routing, Routing]],
    claimed: str,
    *metrics: str,
    placements: Sequence[str] = PLACEMENTS,
    by: float | None = None,
) -> Conditions:
    """Return conditions on the ratios of one routing to another with the same placement.

    `pairs`, `metrics`, `placements`: the values, in the order of metrics, pairs and placements.
    `claimed`: key of `_RANGES`. `by`: smallest difference that counts; by default that of the
    choice.
    """
    ends = [
        (metric, (*one, placed), (*other, placed))
        for metric, (one, other), placed in product(metrics, pairs, placements)
    ]
    return lambda evidence: [
        evidence.ratio(*each).within(_RANGES[claimed](evidence.better if by is None else by))
        for each in ends
    ]


def random_over_linear(
    where: Iterable[Routing], claimed: str, *metrics: str, by: float | None = None
) -> Conditions:
    """Return conditions, as `ratios`, on values of random over those of linear placement."""
    every = list(product(metrics, where))
    return lambda evidence: [
        against_linear(evidence, metric, *routing).within(
            _RANGES[claimed](evidence.better if by is None else by)
        )
        for metric, routing in every
    ]


def levels(
    metric: str,
    where: Iterable[Routing],
    placements: Sequence[str],
    low: float,
    high: float = math.inf,
    *,
    because: str,
) -> Conditions:
    """Return the conditions that values are in a range: necessary, not sufficient for a claim."""
    every = list(product(where, placements))
    return lambda evidence: [
        ClaimComparison.of(
            f"{metric}, {network} {engine} {placed}, {METRICS[metric].unit}",
            evidence.get(metric, network, engine, placed), (low, high), settles=False,
            because=because,
        )
        for (network, engine), placed in every
    ]  # fmt: skip


def spread_of(metric: str, network: str, within: float) -> Conditions:
    """Return the condition that all values of a network are within a relative difference."""

    def compared(evidence: KnsEvidence) -> list[ClaimComparison]:
        values = evidence.all(metric, network)
        spread = values.max(axis=0) / values.min(axis=0) - 1
        label = f"{metric}, {network}: largest over smallest, minus 1"
        return [ClaimComparison.of(label, spread, (-math.inf, within))]

    return compared


def against_linear(evidence: KnsEvidence, metric: str, network: str, engine: str) -> Ratio:
    """Return a metric under random placement divided by that under linear placement."""
    return evidence.ratio(metric, (network, engine, "random"), (network, engine, "linear"))


def claim(
    name: str,
    section: str,
    says: str,
    test: str,
    conditions: Conditions,
    measured: Callable[[KnsEvidence], str],
    comment: str | Callable[[KnsEvidence, ClaimFinding], str],
) -> Claim[KnsEvidence]:
    """Return a claim; its functions get the evidence under a choice, `comment` also a finding."""

    def compare(evidence: KnsEvidence, choice: KnsChoice) -> Sequence[ClaimComparison]:
        at = evidence.at(choice, note=True)
        try:
            comparisons = conditions(at)
            measured(evidence.at(choice))
        except NotMeasured:
            # Raises OutOfScope if the complete study would not measure the claim either.
            conditions(at.filled())
            measured(at.filled())
            raise
        return comparisons

    def why(evidence: KnsEvidence, findings: Mapping[KnsChoice, ClaimFinding]) -> str:
        for choice, finding in findings.items():
            if finding.conditions:
                at = evidence.at(choice)
                try:
                    return comment if isinstance(comment, str) else comment(at, finding)
                except NotMeasured:
                    return "The study was interrupted before runs that explain this result."
        return "The study was interrupted before the runs of this claim."

    return Claim(
        name, section, says, test, compare,
        lambda evidence, choice: measured(evidence.at(choice)), why,
    )  # fmt: skip


def hold(
    claimed: Sequence[Claim[KnsEvidence]], evidence: KnsEvidence, every: Sequence[KnsChoice]
) -> Iterator[ClaimResult]:
    """Test each claim under every choice that changes the values it uses."""
    for each in claimed:
        reading = replace(evidence, reads={})
        for result in claims.hold([each], reading, every):
            distinct: dict[frozenset[Any], KnsChoice] = {}
            for choice in result.findings:
                distinct.setdefault(frozenset(reading.reads[choice]), choice)
            yield replace(
                result, findings={choice: result.findings[choice] for choice in distinct.values()}
            )
