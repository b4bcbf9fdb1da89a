"""What a scenario does to the tables in place, to those of OpenSM's next sweep, and to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from weft.advice.alternatives import IN_PLACE
from weft.advice.compare import compare, judge, runs_table
from weft.advice.comparison import ENGINE_COLUMNS, Comparison, EngineOutcome, PatternFit
from weft.advice.what_if.figures import Remains
from weft.advice.what_if.scenario import Changed, Scenario
from weft.core.columns import Column, frame_of_rows
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.report.comparison_data import PatternRun
from weft.routing import engine, route
from weft.routing.reroute import opensm_reroute
from weft.routing.routes import TableRoutes
from weft.routing.validation.replacement import Replacement
from weft.routing.validation.validate import Validation, validate

#: Engines of weft that are tried besides OpenSM's.
ENGINES = ("minhop", "updn", "dmodk")
#: Name of the tables of OpenSM's next sweep among the outcomes of engines.
SWEEP = "OpenSM's next sweep"
PATTERNS = ("all-to-all", "random-permutation", "shift")

_SHOWN = [name for name in ENGINE_COLUMNS if name not in ("engine", "routing", "nvidia_sm")]
#: Columns of `WhatIf.table`: the state now, then each way of routing after the changes.
WHAT_IF_COLUMNS = {
    "routes": Column(pl.String, "", "The tables in place, or the engine of the tables after it"),
    "state": Column(
        pl.String, "", "now, unchanged (until the next sweep), sweep (OpenSM's own), or other"
    ),
    "machines_cut": Column(pl.Int64, "", "Machines that no cables connect any more"),
    "hosts_cut": Column(pl.Int64, "", "Adapters that no cables connect any more"),
    "pairs_lost": Column(pl.Int64, "pairs", "Ordered host pairs that cables connect, without path"),
    **{name: ENGINE_COLUMNS[name] for name in _SHOWN},
    "bandwidth_left": Column(pl.Float64, "share", "ebb, relative to that of the tables now"),
    "entries_changed": Column(
        pl.Int64, "", "Entries that differ from the tables in place (null: not tables)"
    ),
    "pairs_moved": Column(
        pl.Int64, "pairs", "Ordered host pairs with another path than now (null: not tables)"
    ),
}


@dataclass(frozen=True, eq=False)
class InPlace:
    """The tables of a fabric now, and the engine with which OpenSM makes new ones."""

    routes: TableRoutes
    checked: Validation
    #: Engine of OpenSM, with its options.
    engine: str

    @classmethod
    def of(
        cls,
        fabric: Fabric,
        spec: str,
        tables: TableRoutes | None = None,
        checked: Validation | None = None,
    ) -> InPlace:
        """Return given tables, or those of OpenSM's first sweep with an engine.

        Raises
        ------
        InputError
            If the engine is unknown, gives no tables or does not fit the fabric.
        """
        entry, given = engine.parse(spec)
        if tables is None:
            own = entry.facts.get("as_opensm", entry.name)
            try:
                routes = route(fabric, entry.text({**engine.parse(own)[1], **given}))
            except NotApplicable as error:
                raise InputError(f"{spec} gives no tables of {fabric.name}: {error}") from None
            if not isinstance(routes, TableRoutes):
                raise InputError(f"{spec} gives no forwarding tables; expected another engine")
            tables = routes
        return cls(tables, validate(fabric, tables) if checked is None else checked, spec)

    def swept(self, fabric: Fabric, after: Fabric) -> TableRoutes | str:
        """Return the tables of OpenSM's next sweep, or why they are not known."""
        try:
            return opensm_reroute(fabric, self.routes, after, self.engine)
        except (InputError, NotApplicable) as reason:
            return str(reason)


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What a scenario does.

    Parameters
    ----------
    changed
        The scenario, and the fabric before and after it.
    place
        The tables in place.
    before, after
        Comparison of no engines with the tables in place on the fabric now; and of engines with
        these tables and those of OpenSM's next sweep, on the fabric after the scenario.
    table
        Frame of `WHAT_IF_COLUMNS`: first the state now, then what is worst.
    """

    changed: Changed
    place: InPlace
    before: Comparison
    after: Comparison
    table: pl.DataFrame

    def with_runs(
        self, before: Sequence[PatternRun], after: Sequence[PatternRun], text: str
    ) -> WhatIf:
        """Return the same with loads of further traffic, which `text` describes."""
        results = [
            replace(
                result,
                runs=(*result.runs, *more),
                runs_table=pl.concat((result.runs_table, runs_table(result.fabric, more))),
                pattern_fits=result.pattern_fits | {run.pattern: PatternFit(text) for run in more},
            )
            for result, more in ((self.before, before), (self.after, after))
        ]
        return replace(self, before=results[0], after=results[1])

    @property
    def now(self) -> EngineOutcome:
        """The tables in place on the fabric now."""
        return self.before.outcomes[0]

    @property
    def refusals(self) -> dict[str, str]:
        """Why engines do not fit the fabric after the scenario."""
        return {each.name: each.refusal for each in self.after.outcomes if each.refusal}

    @property
    def settled(self) -> tuple[Fabric, InPlace]:
        """The fabric after the scenario, and its tables: those of OpenSM's sweep if it has some."""
        outcome = self.outcome(SWEEP)
        if outcome is None or outcome.routes is None:
            outcome = self.outcome(IN_PLACE)
        assert outcome is not None
        assert isinstance(outcome.routes, TableRoutes)
        assert outcome.validation is not None
        return self.changed.after, InPlace(outcome.routes, outcome.validation, self.place.engine)

    def outcome(self, name: str) -> EngineOutcome | None:
        """Return the outcome of this name after the scenario; None if there is none."""
        return next((each for each in self.after.outcomes if each.name == name), None)


def what_if(
    fabric: Fabric,
    place: InPlace,
    scenario: Scenario,
    engines: Sequence[str] = ENGINES,
    patterns: Sequence[str] = PATTERNS,
    *,
    samples: int = 1000,
    seed: int = 0,
) -> WhatIf:
    """Return what a scenario does to a fabric, for each way of routing it.

    Each row of figures is that of `weft.compare` on the fabric after the scenario.

    Parameters
    ----------
    fabric
        The fabric now.
    place
        Its tables.
    scenario
        What changes.
    engines
        Engines to compare with OpenSM's next sweep.
    patterns, samples, seed
        As for `weft.compare`.

    Raises
    ------
    InputError
        If a part is not in the fabric, or fewer than two hosts are left.
    """
    changed = scenario.of(fabric)
    after = changed.after
    if Remains(after).disconnected == after.num_hosts * (after.num_hosts - 1):
        raise InputError(f"{changed.title}: fewer than two hosts of {fabric.name} are left")
    weigh = partial(judge, samples=samples, seed=seed)
    run = partial(compare, patterns=patterns, samples=samples, seed=seed)
    stale, swept = place.routes.on(fabric, after), place.swept(fabric, after)
    checked = validate(after, stale, levels_known=place.checked.levels_known)
    now = weigh(fabric, IN_PLACE, place.routes, checked=place.checked)
    others = [
        weigh(after, IN_PLACE, stale, checked=checked),
        EngineOutcome(SWEEP, "", refusal=swept)
        if isinstance(swept, str)
        else weigh(after, SWEEP, swept),
    ]
    before, result = run(fabric, [], others=[now]), run(after, engines, others=others)
    moves = {
        each.name: Replacement(after, stale, each.routes)
        for each in result.outcomes
        if isinstance(each.routes, TableRoutes) and each.routes.lmc == stale.lmc
    }
    return WhatIf(changed, place, before, result, _table(changed, before, result, moves))


def _table(
    changed: Changed,
    before: Comparison,
    after: Comparison,
    moves: Mapping[str, Replacement],
) -> pl.DataFrame:
    cut = len(changed.lost_machines), int(changed.lost_hosts.sum())
    rows: list[dict[str, Any]] = []
    for result, of_hosts in ((before, (0, 0)), (after, cut)):
        figures = {row["engine"]: row for row in result.table.iter_rows(named=True)}
        for outcome in result.outcomes:
            checked = outcome.validation
            if checked is None:
                continue
            row = figures[outcome.name]
            state = {IN_PLACE: "unchanged", SWEEP: "sweep"}.get(outcome.name, "other")
            state = "now" if result is before else state
            apart = checked.num_unrouted_pairs - checked.num_disconnected_pairs
            left = row["ebb"] / rows[0]["ebb"] if rows and rows[0]["ebb"] else None
            move = moves.get(outcome.name) if result is after else None
            moved = None
            if move is not None:
                moved = int((move.hosts["moved_pairs"] + move.hosts["gained_pairs"]).sum())
            rows.append(
                {
                    "routes": outcome.name, "state": state, "machines_cut": of_hosts[0],
                    "hosts_cut": of_hosts[1], "pairs_lost": apart,
                    **{name: row[name] for name in _SHOWN},
                    "bandwidth_left": left if rows else 1.0,
                    "entries_changed": move and int(move.changed.sum()), "pairs_moved": moved,
                }
            )  # fmt: skip
    first, *others = rows
    others.sort(key=harm, reverse=True)
    return frame_of_rows(WHAT_IF_COLUMNS, [tuple(row.values()) for row in (first, *others)])


def harm(row: Mapping[str, object]) -> tuple[float, ...]:
    """Return the sort key of a row: what is lost, the worse first counts.

    Machines without cables count first, then connected pairs without a path, then whether there
    is a credit loop, then the lost bandwidth.
    """
    machines, pairs, loops, ebb = (
        float(row[name] or 0)  # type: ignore[arg-type]
        for name in ("machines_cut", "pairs_lost", "deadlock", "ebb")
    )
    return machines, pairs, float(loops > 0), -ebb
