"""What a comparison gives: verdicts, loads, and in words the best engine and what to set."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column
from weft.core.html import html_table
from weft.core.words import few
from weft.fabrics import Fabric, rates_text
from weft.fabrics.topology.measures import diameter
from weft.opensm.files.osm_log import NEED_QOS
from weft.report.comparison_data import EngineVerdict, Page, PatternRun
from weft.routes import Routes, TableRoutes
from weft.routing import engine
from weft.routing.engine_registry import never_deadlocks
from weft.routing.engines.updn import chosen_roots, roots_by_distance
from weft.routing.validation.validate import Validation
from weft.sim.static.effective_bisection import Bisection

#: Shares by which static tables must be better than what OpenSM computes itself to be worth what
#: they give up: in bisection bandwidth, or in the most loaded link under all-to-all. A leaf switch
#: with 20 uplinks loses the first with one cable, and static tables leave the pairs whose path used
#: it without any. The second is larger because it is about a single link and a single pattern.
GAIN = 0.05
PEAK_GAIN = 0.25

#: Columns of `Comparison.table`, one row per engine that fits.
ENGINE_COLUMNS = {
    "engine": Column(pl.String, "", "routing engine, with the options given"),
    "valid": Column(
        pl.Boolean, "", "all pairs that cables connect routed, no forwarding loop, no credit loop"
    ),
    "unrouted": Column(pl.Int64, "pairs", "ordered host pairs without a path"),
    "deadlock": Column(pl.Int64, "", "credit loops: sets of channels that can wait for each other"),
    "lanes": Column(pl.Int64, "", "virtual lanes in use"),
    "mean hops": Column(pl.Float64, "links", "mean path of a host pair, cables to hosts included"),
    "max hops": Column(pl.Int64, "links", "longest path of a host pair"),
    "minimal": Column(pl.Float64, "share", "paths that are shortest ones"),
    "ebb": Column(
        pl.Float64, "share", "effective bisection bandwidth: mean share of the injection rate"
    ),
    "ebb low": Column(pl.Float64, "share", "lower end of its 95 % interval"),
    "ebb high": Column(pl.Float64, "share", "upper end of its 95 % interval"),
    "max load": Column(
        pl.Float64,
        "flows",
        "all-to-all: most on a link between forwarding nodes, over its relative rate",
    ),
    "p99 load": Column(pl.Float64, "flows", "all-to-all: 99th percentile of the same"),
    "cv": Column(pl.Float64, "ratio", "all-to-all: standard deviation over mean of the same"),
    "used": Column(
        pl.Float64, "share", "all-to-all: links between forwarding nodes that carry anything"
    ),
}

#: Columns of `Comparison.runs_table`, one row per engine and pattern that ran.
RUN_COLUMNS = {
    "engine": ENGINE_COLUMNS["engine"],
    "pattern": Column(pl.String, "", "traffic pattern"),
    "contention": Column(
        pl.Float64, "flows", "most that shares one link, over the link's relative rate"
    ),
    "unrouted": Column(pl.Float64, "share", "flows without a path"),
    "hottest": Column(pl.String, "", "the link between forwarding nodes that carries most, if any"),
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one engine: routes and verdict, or the reason of its refusal.

    `carried` says how OpenSM can have the routes, as `weft.opensm.lane_files.carried` gives it.
    """

    name: str
    summary: str
    refusal: str = ""
    routes: Routes | None = None
    validation: Validation | None = None
    bisection: Bisection | None = None
    route_s: float = 0.0
    carried: str = ""

    @property
    def serves(self) -> bool:
        """It routes, safely, every pair that cables connect, and there are such pairs."""
        found = self.validation
        return found is not None and found.ok_where_connected and bool(found.hops.any())


@dataclass(frozen=True)
class Gain:
    """By how much one engine is better than another.

    Parameters
    ----------
    bandwidth
        Effective bisection bandwidth: mean over the other's, less 1.
    low, high
        95 % interval of that, from the differences in each random bisection, which are the same
        for all engines; NaN for a single one.
    peak, other_peak
        All-to-all: flows on the most loaded link between forwarding nodes, of this engine and of
        the other. They are exact.
    """

    bandwidth: float
    low: float
    high: float
    peak: float
    other_peak: float

    @property
    def significant(self) -> bool:
        """`GAIN` is below the interval of the bandwidth, or the peak is lower by `PEAK_GAIN`."""
        return self.low >= GAIN or self.peak <= (1 - PEAK_GAIN) * self.other_peak


@dataclass(frozen=True, eq=False)
class Comparison:
    """Engines compared on one fabric.

    Parameters
    ----------
    fabric
        What they were compared on.
    outcomes
        Engines that fit, best first, then those that refused. Of equals those come first that
        cannot deadlock on any fabric, then those of fewer lanes, then those of `CLASSIC`.
    patterns
        Pattern -> what it is, or why it does not exist here.
    runs
        Loads of every engine that fits under every pattern that exists.
    table, runs_table
        Frames of `ENGINE_COLUMNS` and `RUN_COLUMNS`.
    notes
        How it was made.
    """

    fabric: Fabric
    outcomes: tuple[Outcome, ...]
    patterns: dict[str, str]
    runs: tuple[PatternRun, ...]
    table: pl.DataFrame
    runs_table: pl.DataFrame
    notes: tuple[str, ...] = field(default=())

    @property
    def best_of_opensm(self) -> Outcome | None:
        """The valid engine of highest bisection bandwidth among what OpenSM itself computes."""
        return next(iter(self.valid_of_opensm), None)

    @property
    def valid_of_opensm(self) -> tuple[Outcome, ...]:
        """Valid engines among what OpenSM itself computes, best first."""
        theirs = {e.facts["as_opensm"] for e in engine if "as_opensm" in e.facts}
        return tuple(
            o for o in self.outcomes if o.serves and (o.name in theirs or o.carried == "own")
        )

    @property
    def best(self) -> Outcome | None:
        """The valid engine of highest bisection bandwidth; one that a subnet manager can load.

        Tables that OpenSM can have are preferred to source routes, open choices and lanes that it
        cannot carry, which come first only where no such tables are valid.
        """
        return next(iter(self.candidates), None)

    @property
    def candidates(self) -> tuple[Outcome, ...]:
        """Valid engines of which `best` is the first: those that OpenSM can have, or else all."""
        valid = tuple(outcome for outcome in self.outcomes if outcome.serves)
        return tuple(o for o in valid if o.carried) or valid

    @property
    def recommended(self) -> Outcome | None:
        """What to set: the best engine that OpenSM computes itself, which follows failures.

        Another one only where its gain over that one is significant, or OpenSM has none.
        """
        best, theirs = self.best, self.best_of_opensm
        if best is None or theirs is None:
            return best
        return best if self.gain(best, theirs).significant else theirs

    def gain(self, of: Outcome, over: Outcome) -> Gain:
        """By how much one engine is better than another, both with routes."""
        assert of.bisection is not None
        assert over.bisection is not None
        mean = over.bisection.mean
        difference = replace(
            of.bisection, per_sample=of.bisection.per_sample - over.bisection.per_sample
        )
        share = [
            value / mean if mean else float("nan")
            for value in (difference.mean, *difference.interval)
        ]
        peaks = [
            float(self.table.row(by_predicate=pl.col("engine") == o.name, named=True)["max load"])
            for o in (of, over)
        ]
        return Gain(*share, *peaks)

    def equals(self, of: Outcome, among: Sequence[Outcome]) -> tuple[Outcome, ...]:
        """The other engines whose every figure, contention under each pattern too, is the same."""
        return tuple(o for o in among if o is not of and self._figures(o) == self._figures(of))

    def _figures(self, outcome: Outcome) -> tuple[object, ...]:
        mine = pl.col("engine") == outcome.name
        rows = (
            table.filter(mine).drop("engine", "hottest", strict=False).rows()
            for table in (self.table, self.runs_table)
        )
        return tuple(rows)

    def _repr_html_(self) -> str:
        rows = [
            [cell_text(name, value) for name, value in row.items()]
            for row in self.table.iter_rows(named=True)
        ]
        best = f"; best: {self.best.name}" if self.best else ""
        return html_table(f"Engines on {self.fabric.name}{best}", self.table.columns, rows)

    def page(self) -> Page:
        """The comparison as a page to draw."""
        return Page(
            fabric=self.fabric,
            title=f"Routing engines on {self.fabric.name}",
            facts=_facts(self.fabric),
            columns={
                name: f"{column.meaning} [{column.unit}]" if column.unit else column.meaning
                for name, column in ENGINE_COLUMNS.items()
                if name != "valid"
            },
            engines=tuple(self._verdict(outcome) for outcome in self.outcomes),
            patterns=self.patterns,
            runs=self.runs,
            notes=self.notes,
            answer=" ".join([best_and_why(self), *recommendation(self)]),
            best=self.best.name if self.best else "",
        )

    def _verdict(self, outcome: Outcome) -> EngineVerdict:
        if outcome.validation is None:
            return EngineVerdict(outcome.name, outcome.summary, refusal=outcome.refusal)
        row = self.table.row(by_predicate=pl.col("engine") == outcome.name, named=True)
        notes = outcome.routes.notes if outcome.routes else ()
        return EngineVerdict(
            outcome.name,
            outcome.summary,
            ok=outcome.validation.ok_where_connected,
            findings=(*outcome.validation.findings(), *notes),
            # The page has a badge for validity.
            cells={name: cell_text(name, row[name]) for name in row if name != "valid"},
        )


def cell_text(column: str, value: object) -> str:
    """A value of the engine table as people read it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        if column in {"minimal", "used"}:
            return f"{value:.1%}"
        digits = 3 if column.startswith(("ebb", "cv")) else 2 if abs(value) < 1000 else 0
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def best_and_why(result: Comparison) -> str:
    """Which engine is best and by what, in a few sentences."""
    best = result.best
    if best is None or best.bisection is None or best.validation is None:
        return "No engine gives valid routes on this fabric; the table of engines says why."
    share = best.bisection
    text = (
        f"Best engine: {best.name}. It routes every pair that cables connect without a credit "
        f"loop, and random bisections get {share.mean:.1%} of the injection rate "
        f"({share.mean_gbps:.1f} Gb/s a host)"
    )
    means = [(o, o.bisection.mean) for o in result.outcomes if o.serves and o.bisection]
    rivals = [(o, mean) for o, mean in means if o in result.candidates and o is not best]
    left = [o for o, mean in rivals if mean == share.mean]
    behind = [(o, mean) for o, mean in rivals if mean < share.mean]
    if left:
        text += f", as they do with {_few(left)}"
    elif behind:
        other, mean = behind[0]
        near = mean >= share.interval[0]
        text += f", more than with any other valid engine; next is {other.name} with {mean:.1%}" + (
            ", which lies within the 95 % interval" if near else ""
        )
    text += "."
    rows = {row["engine"]: row for row in result.table.rows(named=True)}
    measures: tuple[tuple[str, Callable[[Outcome], object]], ...] = (
        (
            "its busiest link under all-to-all carries less than with {}",
            lambda o: rows[o.name]["max load"],
        ),
        ("it is free of deadlock on any fabric, unlike {}", lambda o: never_deadlocks(o.name)),
        ("it needs fewer virtual lanes than {}", lambda o: rows[o.name]["lanes"]),
    )
    reasons = []
    for reason, key in measures:
        same = [o for o in left if key(o) == key(best)]
        if len(same) < len(left):
            reasons.append(reason.format(_few([o for o in left if o not in same])))
        left = same
    if reasons:
        text += f" It comes first because {'; '.join(reasons)}."
    if left:
        text += f" By these measures {_few(left)} {'are' if len(left) > 1 else 'is'} as good."
    return text + no_tables(result)


def no_tables(result: Comparison) -> str:
    """A sentence on a better engine that no subnet manager can load; nothing where none is."""
    best = result.best
    if best is None or best.bisection is None:
        return ""
    for outcome in result.outcomes:
        found = outcome.bisection
        if outcome.serves and found and found.mean > best.bisection.mean:
            lacks = "with lanes" if isinstance(outcome.routes, TableRoutes) else "by paths"
            return f" {outcome.name} gets {found.mean:.1%}, but {lacks} that OpenSM cannot load."
    return ""


def _few(outcomes: Sequence[Outcome], most: int = 3) -> str:
    """Names of a few engines, and how many more there are."""
    names = [outcome.name for outcome in outcomes]
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def recommendation(result: Comparison) -> list[str]:
    """What to set in OpenSM, and what that gives up; nothing where OpenSM cannot route."""
    fabric, best, theirs = result.fabric, result.best, result.best_of_opensm
    if best is None or fabric.graph.num_rows > fabric.num_switches:
        return []
    gain = "" if theirs is None else _gain(result, best, theirs)
    if theirs is not None and result.recommended is theirs:
        line = f"Recommended: {_own(fabric, theirs)}. It routes again when a cable or switch fails"
        if not never_deadlocks(theirs.name):
            line += "; that nothing can deadlock is proven for the fabric as it is, not for then"
        line += "."
        if best not in result.valid_of_opensm and best.carried:
            line += f" Static tables of weft's {best.name} would not, "
            line += (
                "and are no better by any figure."
                if best in result.equals(theirs, result.candidates)
                else f"for {gain}. They would be recommended from {GAIN:.0%} more bandwidth or a "
                f"{PEAK_GAIN:.0%} lower load of that link on."
            )
        return [line]
    if not best.carried:
        return []
    export = f"weft opensm export FABRIC --engine {shlex.quote(best.name)} --out DIR"
    lines = [f"Recommended: static tables of weft's {best.name}: {export}."]
    if theirs is not None:
        lines[0] += f" Over OpenSM's own {engine.parse(theirs.name)[0].name} they give {gain}."
    elif any(o.name == engine.parse(o.name)[0].facts.get("as_opensm") for o in result.outcomes):
        lines[0] += " No engine compared that OpenSM computes itself is valid."
    else:
        lines[0] += " No engine that OpenSM computes itself was compared."
    lines.append(
        "Given up: OpenSM keeps to static tables when a cable or switch fails. Pairs whose path "
        "went there have none until new tables are exported and loaded, and OpenSM still reports "
        "SUBNET UP."
    )
    if theirs is not None:
        lines.append(f"To keep that: {_own(fabric, theirs)}.")
    return lines


def _own(fabric: Fabric, outcome: Outcome) -> str:
    """How OpenSM is told to route with an engine of its own."""
    name = engine.parse(outcome.name)[0].name
    if name == "torus-2QoS":
        command = f"weft opensm export FABRIC --engine {shlex.quote(outcome.name)} --out DIR"
        return f"OpenSM's own {name}, with the configuration of {command}"
    settings, command, more = [f"routing_engine {name}"], f"opensm -R {name}", ""
    if name in NEED_QOS:
        settings.append("qos TRUE")
        command += " -Q"
    if name == "updn":
        rows = roots_taken(fabric, outcome)
        names = few([fabric.node_names[fabric.graph.row_node[row]] for row in rows])
        if np.array_equal(rows, roots_by_distance(fabric)):
            more = f", which finds the roots itself: {len(rows)}, {names}"
        else:
            settings.append("root_guid_file FILE")
            command += " -a FILE"
            more = (
                f", where FILE names {len(rows)} roots, {names}, as weft compare FABRIC --roots "
                "FILE writes them"
            )
    return f"OpenSM's own {name}: {', '.join(settings)} in opensm.conf ({command}){more}"


def roots_taken(fabric: Fabric, outcome: Outcome) -> NDArray[np.int32]:
    """Rows of the roots that an engine ``updn`` takes, ascending."""
    options = engine.bind(*engine.parse(outcome.name))
    named = {key: options[key] for key in ("roots", "root_guid_file") if key in options}
    return chosen_roots(fabric, **named)[0]


def _gain(result: Comparison, best: Outcome, over: Outcome) -> str:
    found = result.gain(best, over)
    text = f"{found.bandwidth:+.1%} bisection bandwidth"
    if not math.isnan(found.low):
        text += f" (95 % interval {found.low:+.1%} to {found.high:+.1%})"
    if found.peak == found.other_peak:
        return f"{text} and the same load of the most loaded link under all-to-all"
    return (
        f"{text} and {found.peak:,.4g} instead of {found.other_peak:,.4g} flows on the most loaded "
        "link under all-to-all"
    )


def _facts(fabric: Fabric) -> tuple[tuple[str, str], ...]:
    span = diameter(fabric)
    facts = [
        ("hosts", f"{fabric.num_hosts:,}"),
        ("switches", f"{fabric.num_switches:,}"),
        ("cables", f"{fabric.num_cables:,}"),
        ("rates", rates_text(fabric)),
        ("diameter", "split" if span is None else f"{span} links between hosts"),
    ]
    alone = int((fabric.host_endpoint < 0).sum())
    if alone:
        facts.append(("hosts without a cable", f"{alone:,}"))
    return tuple(facts)
