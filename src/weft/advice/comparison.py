"""Result of a comparison: verdicts, loads, the best engine, and a recommendation in words."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.faults import fault_table, faults
from weft.core.columns import Column
from weft.core.html import html_table
from weft.core.words import few
from weft.fabrics import Fabric, rates_text
from weft.fabrics.rails import machine_facts
from weft.fabrics.topology.measures import diameter
from weft.report.comparison_data import EngineVerdict, Page, PatternRun
from weft.routing import engine
from weft.routing.engine_registry import never_deadlocks
from weft.routing.engines.as_opensm import detected_roots
from weft.routing.engines.updn import chosen_roots
from weft.routing.opensm.osm_log import NEED_QOS
from weft.routing.routes import Routes, TableRoutes
from weft.routing.validation.validate import Validation
from weft.sim.static.effective_bisection import Bisection

#: Static tables are recommended if their gain over OpenSM's own tables is at least `GAIN` in
#: bisection bandwidth, or `PEAK_GAIN` in contention of the most loaded link under all-to-all.
#: Static tables do not reroute after a failure, and a leaf switch with 20 uplinks loses `GAIN` when
#: one cable fails. `PEAK_GAIN` is larger because it concerns a single link and a single pattern.
GAIN = 0.05
PEAK_GAIN = 0.25

#: Columns of `Comparison.table`, one row per engine that fits.
ENGINE_COLUMNS = {
    "engine": Column(pl.String, "", "Routing engine, with its given options"),
    "routing": Column(
        pl.String, "", "static: one path per pair and LID; adaptive: switches choose among ports"
    ),
    "nvidia_sm": Column(
        pl.String, "", "routing_engine of NVIDIA's subnet manager that routes so (null: none)"
    ),
    "valid": Column(
        pl.Boolean, "", "Whether all connected pairs are routed, without forwarding or credit loop"
    ),
    "unrouted": Column(pl.Int64, "pairs", "Ordered host pairs without a path"),
    "deadlock": Column(
        pl.Int64, "", "Credit loops: sets of channels that can wait for each other in a cycle"
    ),
    "lanes": Column(pl.Int64, "", "Number of virtual lanes in use"),
    "mean_hops": Column(pl.Float64, "links", "Mean hops between hosts (links to hosts included)"),
    "max_hops": Column(pl.Int64, "links", "Most hops between hosts (links to hosts included)"),
    "minimal": Column(pl.Float64, "share", "Share of paths that are minimal"),
    "ebb": Column(
        pl.Float64, "share", "Effective bisection bandwidth: mean share of the injection rate"
    ),
    "ebb_low": Column(pl.Float64, "share", "Lower limit of the 95 % interval of ebb"),
    "ebb_high": Column(pl.Float64, "share", "Upper limit of the 95 % interval of ebb"),
    "static_ebb": Column(
        pl.Float64, "share", "ebb of the static fallback of adaptive routes (null: none)"
    ),
    "max_load": Column(
        pl.Float64,
        "flows",
        "Largest contention of a link between forwarding nodes (all-to-all)",
    ),
    "p99_load": Column(
        pl.Float64,
        "flows",
        "99th percentile of contention of links between forwarding nodes (all-to-all)",
    ),
    "cv": Column(
        pl.Float64,
        "ratio",
        "Contention of links between forwarding nodes: standard deviation over mean (all-to-all)",
    ),
    "used": Column(
        pl.Float64,
        "share",
        "Share of links between forwarding nodes that carry flows (all-to-all)",
    ),
}

#: Columns of `Comparison.runs_table`, one row per engine and pattern that ran.
RUN_COLUMNS = {
    "engine": ENGINE_COLUMNS["engine"],
    "pattern": Column(pl.String, "", "Traffic pattern"),
    "contention": Column(
        pl.Float64, "flows", "Largest contention of a link: its flows over its relative rate"
    ),
    "static_contention": Column(
        pl.Float64, "flows", "Contention of the static fallback of adaptive routes (null: none)"
    ),
    "unrouted": Column(pl.Float64, "share", "Share of flows without a path"),
    "busiest_link": Column(
        pl.String, "", "Link between forwarding nodes with the largest contention (null: no flows)"
    ),
}


#: Columns that the page shows as a badge (validity) or in its answer.
_NOT_ON_PAGE = ("valid", "nvidia_sm", "static_ebb")

#: Columns that do not count when the figures of two engines are compared.
_NO_FIGURES = (
    "engine", "busiest_link", "routing", "nvidia_sm", "static_ebb", "static_contention",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class EngineOutcome:
    """Outcome of one engine: routes and validation, or the reason why it does not fit.

    `opensm_use` says how OpenSM can use the routes, see `weft.routing.lane_files.opensm_use`, and
    `nvidia_sm` how NVIDIA's subnet manager routes so; `static_bisection` is that of the fallback.
    """

    name: str
    summary: str
    refusal: str = ""
    routes: Routes | None = None
    validation: Validation | None = None
    bisection: Bisection | None = None
    static_bisection: Bisection | None = None
    route_s: float = 0.0
    opensm_use: str = ""
    nvidia_sm: str = ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes of the routes, NVIDIA's setting, and why OpenSM falls back to another engine."""
        if self.routes is None:
            return ()
        theirs = [] if self.routes.settled or not self.nvidia_sm else [self.nvidia_sm]
        return (
            *self.routes.notes,
            *(f"in NVIDIA's subnet manager: routing_engine {name}" for name in theirs),
            *(reason for _, reason in self.routes.refusals),
        )

    @property
    def serves(self) -> bool:
        """Whether the routes are valid for all connected pairs, and there are such pairs."""
        checked = self.validation
        return checked is not None and checked.ok_where_connected and bool(checked.hops.any())


class PatternFit(NamedTuple):
    """A traffic pattern, and how it fits the hosts of a fabric."""

    summary: str
    #: Why it does not fit; empty if it fits.
    refusal: str = ""
    #: Sentence about the hosts that it takes; empty if it takes all.
    some_hosts: str = ""

    @property
    def text(self) -> str:
        """The description, or why the pattern does not fit."""
        return self.refusal or f"{self.summary} {self.some_hosts}".rstrip()


@dataclass(frozen=True)
class Gain:
    """Gain of one engine over another."""

    #: Relative gain in the mean effective bisection bandwidth.
    bandwidth: float
    #: 95 % interval of `bandwidth`, from the differences in each random bisection (all engines have
    #: the same bisections); NaN for a single bisection.
    low: float
    high: float
    #: Largest contention of a link between forwarding nodes under all-to-all, of this engine and of
    #: the other; exact.
    peak: float
    other_peak: float

    @property
    def significant(self) -> bool:
        """Whether `low` is at least `GAIN`, or the peak is lower by at least `PEAK_GAIN`."""
        lower = self.peak < self.other_peak
        return self.low >= GAIN or (lower and self.peak <= (1 - PEAK_GAIN) * self.other_peak)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of engines on one fabric.

    Parameters
    ----------
    fabric
        The fabric.
    outcomes
        Engines that fit, best first, then those that do not fit. Engines with equal loads are
        ordered by freedom from deadlock on any fabric, number of lanes, and `CLASSIC`.
    pattern_fits
        Pattern -> its description, and how it fits the fabric.
    runs
        Loads of every engine and every pattern that fit.
    table, runs_table
        Frames of `ENGINE_COLUMNS` and `RUN_COLUMNS`.
    notes
        Notes on the method.
    """

    fabric: Fabric
    outcomes: tuple[EngineOutcome, ...]
    pattern_fits: dict[str, PatternFit]
    runs: tuple[PatternRun, ...]
    table: pl.DataFrame
    runs_table: pl.DataFrame
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def faults(self) -> pl.DataFrame:
        """Faults of the fabric: a frame of `weft.advice.faults.FAULT_COLUMNS`."""
        return fault_table(faults(self.fabric))

    @property
    def patterns(self) -> dict[str, str]:
        """Pattern -> its description, or why it does not fit the fabric."""
        fits = self.pattern_fits.items()
        return {spec: f"n/a: {fit.text}" if fit.refusal else fit.text for spec, fit in fits}

    @property
    def best_of_opensm(self) -> EngineOutcome | None:
        """The best valid engine of OpenSM itself, or None."""
        return next(iter(self.valid_of_opensm), None)

    @property
    def valid_of_opensm(self) -> tuple[EngineOutcome, ...]:
        """Valid engines of OpenSM itself, best first."""
        return tuple(o for o in self.outcomes if o.serves and is_own(o))

    @property
    def best(self) -> EngineOutcome | None:
        """The valid engine of highest bisection bandwidth, preferably one that OpenSM can load.

        An engine with source routes, candidates, or lanes that OpenSM cannot load is best only if
        no valid engine has tables that OpenSM can load.
        """
        return next(iter(self.candidates), None)

    @property
    def candidates(self) -> tuple[EngineOutcome, ...]:
        """Valid engines that OpenSM can load, or else all valid engines; the first is `best`."""
        valid = tuple(outcome for outcome in self.outcomes if outcome.serves)
        return tuple(o for o in valid if o.opensm_use) or valid

    @property
    def recommended(self) -> EngineOutcome | None:
        """The best engine of OpenSM itself, which reroutes after failures.

        It is `best` instead if the gain of `best` is significant or no engine of OpenSM is valid.
        """
        best, theirs = self.best, self.best_of_opensm
        if best is None or theirs is None:
            return best
        return best if self.gain(best, theirs).significant else theirs

    def gain(self, of: EngineOutcome, over: EngineOutcome) -> Gain:
        """Return the gain of one engine over another, both with routes."""
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
        # Without cables between switches no load is known, and none is larger than another.
        peaks = [
            float(
                self.table.row(by_predicate=pl.col("engine") == o.name, named=True)["max_load"] or 0
            )
            for o in (of, over)
        ]
        return Gain(*share, *peaks)

    def equals(
        self, of: EngineOutcome, among: Sequence[EngineOutcome]
    ) -> tuple[EngineOutcome, ...]:
        """Return the engines in `among` with the same figures, including those of each pattern."""
        return tuple(o for o in among if o is not of and self._figures(o) == self._figures(of))

    def _figures(self, outcome: EngineOutcome) -> tuple[object, ...]:
        mine = pl.col("engine") == outcome.name
        rows = (
            table.filter(mine).drop(*_NO_FIGURES, strict=False).rows()
            for table in (self.table, self.runs_table)
        )
        return tuple(rows)

    def __repr__(self) -> str:
        best = self.best
        verdict = f"best: {best.name}" if best else "none is valid"
        return f"Comparison({self.fabric.name!r}: {len(self.outcomes)} engines, {verdict})"

    def __str__(self) -> str:
        return f"{best_and_why(self)}\n{self.table}"

    def _repr_html_(self) -> str:
        rows = [
            [cell_text(name, value) for name, value in row.items()]
            for row in self.table.iter_rows(named=True)
        ]
        best = f"; best: {self.best.name}" if self.best else ""
        return html_table(f"Engines on {self.fabric.name}{best}", self.table.columns, rows)

    def page(self) -> Page:
        """Return the comparison as data of a page."""
        answer = " ".join([best_and_why(self), *recommendation(self), *adaptive_gains(self)])
        return replace(self.tables(), answer=answer, best=self.best.name if self.best else "")

    def tables(self) -> Page:
        """Return the data of a page that names no best engine."""
        return Page(
            fabric=self.fabric,
            title=f"Routing engines on {self.fabric.name}",
            facts=fabric_facts(self.fabric),
            columns={
                name: f"{column.meaning} [{column.unit}]" if column.unit else column.meaning
                for name, column in ENGINE_COLUMNS.items()
                if name not in _NOT_ON_PAGE
            },
            engines=tuple(self._verdict(outcome) for outcome in self.outcomes),
            patterns={spec: fit.text for spec, fit in self.pattern_fits.items()},
            runs=self.runs,
            notes=self.notes,
            faults=tuple(self.faults.iter_rows(named=True)),
        )

    def _verdict(self, outcome: EngineOutcome) -> EngineVerdict:
        if outcome.validation is None:
            return EngineVerdict(outcome.name, outcome.summary, refusal=outcome.refusal)
        row = self.table.row(by_predicate=pl.col("engine") == outcome.name, named=True)
        return EngineVerdict(
            outcome.name,
            outcome.summary,
            ok=outcome.validation.ok_where_connected,
            findings=(*outcome.validation.findings(), *outcome.remarks),
            cells={name: cell_text(name, row[name]) for name in row if name not in _NOT_ON_PAGE},
        )


def cell_text(column: str, value: object) -> str:
    """Return a value of the engine table as text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        if column in {"minimal", "used"}:
            return f"{value:.1%}"
        small = column.startswith(("ebb", "cv", "static_ebb"))
        digits = 3 if small else 2 if abs(value) < 1000 else 0
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def contention_text(run: PatternRun) -> str:
    """Return the largest contention of a run, and the share of its flows without a path."""
    text = f"{run.load.max(initial=0.0):,.4g}"
    return text + f" ({run.unrouted_share:.1%} unrouted)" if run.unrouted_share else text


def best_and_why(result: Comparison) -> str:
    """Return the best engine and the reasons, in a few sentences."""
    best = result.best
    if best is None or best.bisection is None or best.validation is None:
        return "No engine gives valid routes on this fabric; see the table of engines."
    share = best.bisection
    text = (
        f"Best engine: {best.name}. It routes every connected pair without a credit loop, and "
        f"random bisections get {share.mean:.1%} of the injection rate "
        f"({share.mean_gbps:.1f} Gb/s per host)"
    )
    means = [(o, o.bisection.mean) for o in result.outcomes if o.serves and o.bisection]
    rivals = [(o, mean) for o, mean in means if o in result.candidates and o is not best]
    left = [o for o, mean in rivals if mean == share.mean]
    behind = [(o, mean) for o, mean in rivals if mean < share.mean]
    if left:
        text += f", the same as with {_few(left)}"
    elif behind:
        other, mean = behind[0]
        near = mean >= share.interval[0]
        text += f", more than with any other valid engine; next is {other.name} with {mean:.1%}" + (
            ", which is within the 95 % interval" if near else ""
        )
    text += "."
    rows = {row["engine"]: row for row in result.table.rows(named=True)}
    measures: tuple[tuple[str, Callable[[EngineOutcome], object]], ...] = (
        (
            "its largest contention under all-to-all is smaller than with {}",
            lambda o: rows[o.name]["max_load"],
        ),
        ("it is deadlock-free on any fabric, unlike {}", lambda o: never_deadlocks(o.name)),
        ("it needs fewer virtual lanes than {}", lambda o: rows[o.name]["lanes"]),
    )
    reasons = []
    for reason, key in measures:
        same = [o for o in left if key(o) == key(best)]
        if len(same) < len(left):
            reasons.append(reason.format(_few([o for o in left if o not in same])))
        left = same
    if reasons:
        text += f" It is ranked first because {'; '.join(reasons)}."
    if left:
        text += f" {_few(left)} {'are' if len(left) > 1 else 'is'} equal in these figures."
    return text + no_tables(result)


def no_tables(result: Comparison) -> str:
    """Return a sentence on a better engine that OpenSM cannot load; empty if there is none."""
    best = result.best
    if best is None or best.bisection is None:
        return ""
    for outcome in result.outcomes:
        ebb = outcome.bisection
        if outcome.serves and ebb and ebb.mean > best.bisection.mean:
            if outcome.nvidia_sm:
                return (
                    f" {outcome.name} gets {ebb.mean:.1%}, with NVIDIA's subnet manager: "
                    f"routing_engine {outcome.nvidia_sm}."
                )
            what = "with lanes" if isinstance(outcome.routes, TableRoutes) else "on paths"
            return f" {outcome.name} gets {ebb.mean:.1%}, but {what} that OpenSM cannot load."
    return ""


def _few(outcomes: Sequence[EngineOutcome], most: int = 3) -> str:
    """Return the names of the first engines, and the number of the others."""
    names = [outcome.name for outcome in outcomes]
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def is_opensms(spec: str) -> bool:
    """Return whether a spec is an engine of OpenSM itself, perhaps with a list of roots."""
    entry, given = engine.parse(spec)
    lists = entry.facts.get("lists", ())
    own = entry.facts.get("as_opensm")
    plain = {name: value for name, value in given.items() if name not in lists}
    return own is not None and plain == engine.parse(own)[1]


def recommendation(result: Comparison) -> list[str]:
    """Return how to configure OpenSM, and the drawbacks; empty if OpenSM cannot route."""
    fabric, best, theirs = result.fabric, result.best, result.best_of_opensm
    if best is None or fabric.graph.num_rows > fabric.num_switches:
        return []
    gain = "" if theirs is None else _gain(result, best, theirs)
    if theirs is not None and result.recommended is theirs:
        line = f"Recommended: {_own(fabric, theirs)}. OpenSM reroutes when a cable or switch fails"
        if not never_deadlocks(theirs.name):
            line += "; freedom from deadlock is proven for the present fabric only"
        line += "."
        if best not in result.valid_of_opensm and best.opensm_use:
            line += f" Static tables of weft's {best.name} are not rerouted, "
            line += (
                "and have the same figures."
                if best in result.equals(theirs, result.candidates)
                else f"and have {gain}. They are recommended if they give {GAIN:.0%} "
                f"more bandwidth or {PEAK_GAIN:.0%} fewer flows on the most loaded link."
            )
        return [line]
    if not best.opensm_use:
        return []
    export = f"weft opensm export FABRIC --engine {shlex.quote(best.name)} --out DIR"
    lines = [f"Recommended: static tables of weft's {best.name}: {export}."]
    if theirs is not None:
        lines[0] += f" Over OpenSM's own {engine.parse(theirs.name)[0].name} they give {gain}."
    elif any(is_opensms(o.name) for o in result.outcomes):
        lines[0] += " No compared engine of OpenSM itself is valid."
    else:
        lines[0] += " No engine of OpenSM itself was compared."
    lines.append(
        "Drawback: static tables do not change when a cable or switch fails. Pairs whose path "
        "crosses the failed part are disconnected until new tables are exported and loaded, and "
        "OpenSM still reports SUBNET UP."
    )
    if theirs is not None:
        lines.append(f"Alternative that reroutes: {_own(fabric, theirs)}.")
    return lines


def adaptive_gains(result: Comparison) -> list[str]:
    """Return what adaptive routes gain over their static fallback, bisections and patterns."""
    engines: dict[str, list[str]] = {}
    for outcome in result.outcomes:
        own, static = outcome.bisection, outcome.static_bisection
        if not outcome.serves or own is None or static is None:
            continue
        text = (
            f"adaptive routes get {own.mean:.1%} of the injection rate over random bisections, "
            f"their static fallback {static.mean:.1%}"
        )
        kinds: dict[str, list[str]] = {"lower": [], "higher": [], "the same": []}
        for run in result.runs:
            if run.engine != outcome.name or run.static_peak is None:
                continue
            peaks = [f"{peak:,.4g}" for peak in (run.load.max(initial=0.0), run.static_peak)]
            if peaks[0] == peaks[1]:
                kinds["the same"].append(run.pattern)
            else:
                kind = "lower" if run.load.max() < run.static_peak else "higher"
                kinds[kind].append(f"{run.pattern} ({' instead of '.join(peaks)})")
        listed = [f"{kind} under {', '.join(names)}" for kind, names in kinds.items() if names]
        if own.mean == static.mean and not kinds["lower"] and not kinds["higher"]:
            text = "adaptive routes have the figures of their static fallback"
        elif listed:
            text += f"; the largest contention of adaptive routes is {', '.join(listed)}"
        engines.setdefault(text, []).append(outcome.name)
    return [f"{', '.join(names)}: {text}." for text, names in engines.items()]


def nvidia_setting(spec: str) -> str:
    """Return the ``routing_engine`` of NVIDIA's subnet manager that routes so; empty if none."""
    entry = engine.parse(spec)[0]
    return str(entry.facts.get("nvidia", entry.name if is_opensms(spec) else ""))


def is_own(outcome: EngineOutcome) -> bool:
    """Return whether OpenSM computes the routes of an outcome with an engine of its own."""
    return is_opensms(outcome.name) or outcome.opensm_use == "own"


def change_to(fabric: Fabric, outcome: EngineOutcome) -> str:
    """Return how to make OpenSM use the routes of an outcome, and the drawbacks."""
    if is_own(outcome):
        return _own(fabric, outcome)
    command = f"weft opensm export FABRIC --engine {shlex.quote(outcome.name)} --out DIR"
    return (
        f"static tables of weft's {outcome.name}, which are not rerouted after a fault: {command}"
    )


def _own(fabric: Fabric, outcome: EngineOutcome) -> str:
    """Return how to configure OpenSM to route with an engine of its own."""
    # The routes name the engine that OpenSM falls back to.
    name = outcome.routes.engine if outcome.routes else engine.parse(outcome.name)[0].name
    if name == "torus-2QoS":
        command = f"weft opensm export FABRIC --engine {shlex.quote(outcome.name)} --out DIR"
        return f"OpenSM's own {name}, with the files of {command}"
    settings, command, more = [f"routing_engine {name}"], f"opensm -R {name}", ""
    if name in NEED_QOS:
        settings.append("qos TRUE")
        command += " -Q"
    if name == "updn":
        rows = roots_taken(fabric, outcome)
        names = few([fabric.node_names[fabric.graph.row_node[row]] for row in rows])
        if np.array_equal(rows, detected_roots(fabric)):
            more = f", which finds the {len(rows)} roots itself: {names}"
        else:
            settings.append("root_guid_file FILE")
            command += " -a FILE"
            more = (
                f", where FILE lists {len(rows)} root{'s' * (len(rows) > 1)} ({names}), written by "
                f"weft compare FABRIC --engine {shlex.quote(outcome.name)} --roots FILE"
            )
    return f"OpenSM's own {name}: {', '.join(settings)} in opensm.conf ({command}){more}"


def roots_taken(fabric: Fabric, outcome: EngineOutcome) -> NDArray[np.int32]:
    """Return the rows of the roots that an engine ``updn`` uses, ascending."""
    options = engine.bind(*engine.parse(outcome.name))
    named = {key: options[key] for key in ("roots", "root_guid_file") if key in options}
    if options.get("balance") == "opensm" and not named:
        return detected_roots(fabric)
    return chosen_roots(fabric, **named)[0]


def _gain(result: Comparison, best: EngineOutcome, over: EngineOutcome) -> str:
    gain = result.gain(best, over)
    text = f"{gain.bandwidth:+.1%} bisection bandwidth"
    if not math.isnan(gain.low):
        text += f" (95 % interval {gain.low:+.1%} to {gain.high:+.1%})"
    if gain.peak == gain.other_peak:
        return f"{text} and the same load of the most loaded link under all-to-all"
    return (
        f"{text} and {gain.peak:,.4g} instead of {gain.other_peak:,.4g} flows on the most loaded "
        "link under all-to-all"
    )


def fabric_facts(fabric: Fabric) -> tuple[tuple[str, str], ...]:
    """Return name and value of what a page says of a fabric."""
    span = diameter(fabric)
    facts = [
        ("hosts", f"{fabric.num_hosts:,}"),
        *machine_facts(fabric),
        ("switches", f"{fabric.subnet.num_switches:,}"),
        ("cables", f"{fabric.subnet.num_cables:,}"),
        ("rates", rates_text(fabric.subnet)),
        ("diameter", "disconnected" if span is None else f"{span} links between hosts"),
    ]
    alone = int((fabric.host_endpoint < 0).sum())
    if alone:
        facts.append(("hosts without a cable", f"{alone:,}"))
    return tuple(facts)
