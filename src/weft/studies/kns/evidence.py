"""Measured values of the KNS study at hand, and what its claims ask of them.

The paper leaves open how its cables were ordered, which root updn had, on which grid PTRANS ran,
how fast processors follow edges, and what difference counts. Each has defensible values, and a
`Choice` is one of each. A claim is judged for every choice that changes what it reads, with the
same ranks on a node, and `weft.studies.claims.vote` gives the verdict of the majority.

Which values the model can give at all comes from three rules, whichever claim asks:

- The network takes at most a share s of the time of a benchmark, in any run of it. Two runs of it
  then differ by no more than a factor of 1 / (1 - s).
- A benchmark that sends one message at a time, and as many between all pairs of ranks, or that
  draws at random which ranks exchange, reports the same under any placement.
- One message at a time takes no longer than through every switch once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.studies import claims
from weft.studies.claims import (
    ANYTHING,
    Claim,
    ClaimResult,
    Comparison,
    Finding,
    NotMeasured,
    OutOfScope,
    Range,
    interval,
)
from weft.studies.kns import machine
from weft.studies.kns.benchmarks import BENCHMARKS, METRICS
from weft.studies.kns.runs import PLACEMENTS, Measured, Run

#: Values are the same when they are within so much of each other, and similar within so much.
SAME, SIMILAR = 0.05, 0.10
#: What "better" means: more than what counts as the same, or as much as a bar chart shows.
BETTER: Mapping[str, float] = {"by 5 %": SAME, "by 1 %": 0.01}

#: All placements as repetitions of one measurement, for what reports the same under any.
EITHER = "any placement"

Floats = NDArray[np.float64]
#: Network, engine, placement, metric, variant of the benchmark.
Key = tuple[str, str, str, str, str]
_OF_METRIC = {name: each for each in BENCHMARKS.values() for name in each.metrics}


@dataclass(frozen=True)
class Choice:
    """One value for each thing that the paper leaves open.

    Parameters
    ----------
    ranks_per_node
        Ranks of each node; choices are compared within one number of them.
    cables
        Order of cables, ports and addresses (`kns_machine.CABLES`).
    roots
        Of updn on the tree (`kns_machine.ROOTS`).
    grid, pace
        Variant of PTRANS and of Graph500.
    better
        What one value has to be more than another (`BETTER`).
    """

    ranks_per_node: int
    cables: str
    roots: str
    grid: str
    pace: str
    better: str

    def __str__(self) -> str:
        return ", ".join(str(getattr(self, axis)) for axis in AXES if getattr(self, axis))


AXES = tuple(axis.name for axis in fields(Choice))[1:]


def every_choice(ranks_per_node: int, whole: bool = True) -> tuple[Choice, ...]:
    """All combinations for a number of ranks, the headline first; it alone when not `whole`."""
    variants = {
        each.axis: list(each.variants_at(ranks_per_node))
        for each in BENCHMARKS.values()
        if each.axis
    }
    options = [machine.CABLES, machine.ROOTS, variants["grid"], variants["pace"], BETTER]
    every = [Choice(ranks_per_node, *each) for each in product(*map(list, options))]
    return tuple(every if whole else every[:1])


@dataclass(frozen=True)
class Ratio:
    """One value over another.

    Parameters
    ----------
    label
        What is compared, in words.
    values
        float64 [seeds]: one for each placement that both have.
    possible
        Range in which the model can put it.
    because
        Why.
    """

    label: str
    values: Floats
    possible: Range = ANYTHING
    because: str = ""

    @property
    def mean(self) -> float:
        """Over the placements."""
        return float(self.values.mean())

    def within(self, low: float = -math.inf, high: float = math.inf) -> Comparison:
        """The condition that it lies in a range, ends included."""
        return Comparison.of(
            self.label, self.values, (low, high), possible=self.possible, because=self.because
        )


@dataclass(frozen=True)
class Evidence:
    """All values with one number of ranks on a node, under a choice.

    Parameters
    ----------
    values
        Key -> float64 [seeds]: one for each placement, by rising seed.
    choice
        How keys are read; None for all.
    missing
        What an interrupt kept from being measured.
    shares
        Metric -> most of its time that the network takes in any run.
    unplaced
        Metric -> why no placement can matter, where that is so.
    alone
        Metrics of which one message is under way at a time.
    reads
        Choice -> keys and thresholds that a claim has read under it.
    """

    values: Mapping[Key, Floats]
    choice: Choice | None = None
    missing: frozenset[Key] = frozenset()
    shares: Mapping[str, float] = field(default_factory=dict)
    unplaced: Mapping[str, str] = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    reads: dict[Choice, set[Any]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls, measured: Sequence[Measured], ranks_per_node: int, asked: Sequence[Run] = ()
    ) -> Evidence:
        """Those of the runs with so many ranks on a node.

        Parameters
        ----------
        measured
            All that was measured.
        ranks_per_node
            Which of it counts.
        asked
            Runs that were to be made; those of `measured` when left out.
        """
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
        made = {each.run for each in here}
        missing = frozenset(
            _key(run, name)
            for run in asked
            if run.ranks_per_node == ranks_per_node and run not in made
            for name in BENCHMARKS[run.benchmark].metrics
        )
        unplaced = {}
        for name in shares:
            if _OF_METRIC[name].draws:
                unplaced[name] = (
                    "the benchmark itself draws at random which ranks exchange, so that ranks "
                    "placed at random meet no others than ranks in order"
                )
            elif name not in crowded | unequal:
                unplaced[name] = (
                    "one message is under way at a time, so that none meets another, and all "
                    "ordered pairs of hosts are measured under any placement"
                )
        return cls(
            {
                key: np.array([found[seed] for seed in sorted(found)])
                for key, found in values.items()
                if key not in missing
            },
            missing=missing,
            shares=shares,
            unplaced=unplaced,
            alone=frozenset(shares) - crowded,
        )

    def at(self, choice: Choice, note: bool = False) -> Evidence:
        """Itself under a choice.

        Parameters
        ----------
        choice
            Which.
        note
            Whether to note what is read.
        """
        reads = self.reads if note else {}
        reads.setdefault(choice, set())
        return replace(self, choice=choice, reads=reads)

    def filled(self) -> Evidence:
        """With some number for each that is missing: tells what a whole study would know."""
        values = {**dict.fromkeys(self.missing, np.ones(1)), **self.values}
        return replace(self, values=values, missing=frozenset())

    @property
    def ranks_per_node(self) -> int:
        """Ranks of each node."""
        return self._chosen.ranks_per_node

    @property
    def better(self) -> float:
        """By how much a value has to exceed another to be better."""
        self._note(self._chosen.better)
        return BETTER[self._chosen.better]

    @property
    def _chosen(self) -> Choice:
        assert self.choice is not None, "evidence is read under a choice"
        return self.choice

    def _note(self, what: Any) -> None:
        self.reads.setdefault(self._chosen, set()).add(what)

    def get(self, metric: str, network: str, engine: str, placement: str) -> Floats:
        """float64 [seeds]: one value for each placement.

        Raises
        ------
        NotMeasured
            When an interrupt came before that.
        OutOfScope
            When it was not to be run.
        """
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
        """float64 [engines x placements, seeds]: values of the paper's routings of a network."""
        found = [
            self.get(metric, network, engine, placement)
            for engine in engines or machine.PAPER_ENGINES[network]
            for placement in placements
        ]
        return np.stack(np.broadcast_arrays(*found))

    def ratio(self, metric: str, one: tuple[str, str, str], other: tuple[str, str, str]) -> Ratio:
        """One value over another, each of a network, engine and placement."""
        named = [
            " ".join(part for part, twin in zip(a, b, strict=True) if part != twin)
            for a, b in ((one, other), (other, one))
        ]
        shared = " ".join(part for part, twin in zip(one, other, strict=True) if part == twin)
        label = f"{metric}, {shared}{': ' if shared else ''}{named[0]} / {named[1]}"
        over, under = self.get(metric, *one), self.get(metric, *other)
        if one[2] == other[2]:  # of the same placements, which have the same seeds
            both = min(len(over), len(under))
            over, under = over[:both], under[:both]
        share = self.shares.get(metric, 1.0)
        if one[:2] == other[:2] and metric in self.unplaced:
            return Ratio(label, over / under, (1.0, 1.0), self.unplaced[metric])
        if share < 1:
            reason = f"the network takes {100 * share:.2g} % of the time of {metric} at most"
            return Ratio(label, over / under, (1 - share, 1 / (1 - share)), reason)
        return Ratio(label, over / under)

    def show(self, metric: str, network: str, digits: int = 3) -> str:
        """Linear -> random of each of the paper's routings of a network, in words."""
        unit = METRICS[metric].unit
        found = ", ".join(
            f"{engine} "
            + " -> ".join(
                shown(self.get(metric, network, engine, placement), digits)
                for placement in PLACEMENTS
            )
            for engine in machine.PAPER_ENGINES[network]
        )
        return f"{network}: {found} {unit}".rstrip()

    def both(self, metric: str, digits: int = 3) -> str:
        """`show` of the KNS and the tree."""
        return "; ".join(self.show(metric, network, digits) for network in machine.PAPER_ENGINES)


def _key(run: Run, metric: str) -> Key:
    return run.network, run.engine, run.placement, metric, run.variant


def shown(values: Floats, digits: int = 3) -> str:
    """Mean with the half width of its interval, where there is any."""
    mean, half = interval(values)
    text = f"{mean:.{digits}g}"
    return f"{text}±{half:.2g}" if half > 0.5 * 10.0**-digits * abs(mean) else text


def spread(values: Floats) -> Floats:
    """By how much the largest along the first axis exceeds the least, in parts of it."""
    found: Floats = values.max(axis=0) / values.min(axis=0) - 1
    return found


Conditions = Callable[[Evidence], Sequence[Comparison]]


def each_routing(
    make: Callable[[Evidence, str, str], Comparison],
    networks: Sequence[str] = (machine.KNS, machine.TREE),
) -> Conditions:
    """A condition for each of the paper's routings of some networks."""
    return lambda evidence: [
        make(evidence, network, engine)
        for network in networks
        for engine in machine.PAPER_ENGINES[network]
    ]


def spread_of(metric: str, network: str, within: float) -> Conditions:
    """All values of a network, routings and placements, within so much of each other."""
    return lambda evidence: [
        Comparison.of(
            f"{metric}, {network}: most over least, less 1",
            spread(evidence.all(metric, network)),
            (-math.inf, within),
        )
    ]


def above(ratio: Ratio, by: float) -> Comparison:
    """A ratio at least so much above 1."""
    return ratio.within(low=1 + by)


def below(ratio: Ratio, by: float) -> Comparison:
    """A ratio at least so much below 1."""
    return ratio.within(high=1 - by)


def alike(ratio: Ratio, within: float = SAME) -> Comparison:
    """A ratio within so much of 1, either way."""
    return ratio.within(1 / (1 + within), 1 + within)


def kept(ratio: Ratio, within: float = SAME) -> Comparison:
    """A ratio not more than so much below 1."""
    return ratio.within(low=1 / (1 + within))


def level(
    label: str, values: Floats, low: float, high: float = math.inf, *, because: str
) -> Comparison:
    """A level that the network alone does not settle: necessary, not sufficient."""
    return Comparison.of(label, values, (low, high), settles=False, because=because)


def against_linear(evidence: Evidence, metric: str, network: str, engine: str) -> Ratio:
    """A metric at random over that in order."""
    return evidence.ratio(metric, (network, engine, "random"), (network, engine, "linear"))


def claim(
    name: str,
    section: str,
    says: str,
    test: str,
    conditions: Conditions,
    measured: Callable[[Evidence], str],
    comment: Callable[[Evidence, Finding], str],
) -> Claim[Evidence]:
    """A claim whose parts see evidence under a choice; its comment tells of the first measured."""

    def compare(evidence: Evidence, choice: Choice) -> Sequence[Comparison]:
        at = evidence.at(choice, note=True)
        try:
            found = conditions(at)
            measured(evidence.at(choice))
        except NotMeasured:
            # Of what is missing, would a whole study know all?
            conditions(at.filled())
            measured(at.filled())
            raise
        return found

    def why(evidence: Evidence, findings: Mapping[Choice, Finding]) -> str:
        for choice, finding in findings.items():
            if finding.conditions:
                return comment(evidence.at(choice), finding)
        return "The study was interrupted before its runs."

    return Claim(
        name, section, says, test, compare,
        lambda evidence, choice: measured(evidence.at(choice)), why,
    )  # fmt: skip


def hold(
    claimed: Sequence[Claim[Evidence]], evidence: Evidence, every: Sequence[Choice]
) -> Iterator[ClaimResult]:
    """Test each claim under every choice that changes what it reads."""
    for each in claimed:
        reading = replace(evidence, reads={})
        for result in claims.hold([each], reading, every):
            distinct: dict[frozenset[Any], Choice] = {}
            for choice in result.findings:
                distinct.setdefault(frozenset(reading.reads[choice]), choice)
            yield replace(
                result, findings={found: result.findings[found] for found in distinct.values()}
            )
