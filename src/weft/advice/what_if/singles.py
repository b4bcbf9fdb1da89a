"""The failure of each part of a kind in turn: until OpenSM's next sweep, and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from weft.advice.watch.traffic import PairTraffic
from weft.advice.what_if.evaluate import ENGINES, InPlace
from weft.advice.what_if.failures import (
    FAILURE_COLUMNS,
    Failure,
    each_cable,
    each_switch,
    failure_table,
)
from weft.advice.what_if.figures import Remains
from weft.advice.what_if.pairs import WorstPairs, worst_pairs
from weft.core.columns import Column, frame_of_rows
from weft.core.errors import InputError
from weft.core.pool import cores, run_all
from weft.fabrics import Fabric
from weft.routing import engine

#: Number of failures, worst first, for which other engines are tried: of those that cut off none.
WORST = 5
#: Number of hosts from which these are judged in several processes.
_LARGE = 1_000
#: Kind of failures of two parts at the same time.
PAIRS = "each-pair"
#: Random bisections of each failure.
SAMPLES = 100

_LOST = Column(pl.Int64, "pairs", "Ordered host pairs that cables connect, but that have no path")
_UNTIL = " (until OpenSM's next sweep)"
_UNTIL_SWEEP = ("deadlock", "max_load", "ebb", "demand_lost_gbps")
#: Columns of `Singles.table`. Without a suffix, figures are those after OpenSM's next sweep.
SINGLE_COLUMNS = {
    **{name: FAILURE_COLUMNS[name] for name in ("failed", "switches", "cables")},
    **{name: FAILURE_COLUMNS[name] for name in ("machines_cut", "hosts_cut")},
    "pairs_lost_until": _LOST._replace(meaning=_LOST.meaning + _UNTIL),
    **{
        f"{name}_until": FAILURE_COLUMNS[name]._replace(
            meaning=FAILURE_COLUMNS[name].meaning + _UNTIL
        )
        for name in _UNTIL_SWEEP
    },
    "pairs_lost": _LOST,
    **{name: FAILURE_COLUMNS[name] for name in ("deadlock", "max_load", "p99_load", "ebb")},
    "demand_load": FAILURE_COLUMNS["demand_load"],
    "bandwidth_left": Column(pl.Float64, "share", "ebb, relative to that before the failure"),
    **{name: FAILURE_COLUMNS[name] for name in ("routed_by", "refusal")},
}
#: Columns of `Singles.engines`.
OTHER_COLUMNS = {
    "failed": FAILURE_COLUMNS["failed"],
    "engine": Column(pl.String, "", "Engine that routes what is left"),
    "pairs_lost": _LOST,
    **{name: FAILURE_COLUMNS[name] for name in ("deadlock", "max_load", "ebb", "refusal")},
}


@dataclass(frozen=True, eq=False)
class Singles:
    """Failures of which each happens by itself.

    Parameters
    ----------
    fabric
        The fabric before each of them.
    engine
        Engine with which OpenSM routes, without options.
    kinds
        What fails in turn, of `EACH`.
    failures
        The failures, worst first.
    now
        Figures before any of them: columns of `FAILURE_COLUMNS`.
    table, engines
        Frames of `SINGLE_COLUMNS`, worst first, and of `OTHER_COLUMNS` for the `WORST` failures
        that cut off no host.
    """

    fabric: Fabric
    engine: str
    kinds: tuple[str, ...]
    failures: tuple[Failure, ...]
    now: Mapping[str, Any]
    table: pl.DataFrame
    engines: pl.DataFrame
    #: Pairs of failures; None if they were not asked for.
    pairs: WorstPairs | None = None

    @property
    def worst_whole(self) -> int:
        """Index of the worst failure that cuts off no host, or else of the worst."""
        return int((self.table["hosts_cut"] == 0).arg_max() or 0)


def singles(
    fabric: Fabric,
    place: InPlace,
    kinds: Sequence[str],
    engines: Sequence[str] = ENGINES,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    demand: PairTraffic | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Singles:
    """Return what the failure of each switch or cable does.

    Each row has the figures that `weft.compare` gives on the fabric without what failed.

    Parameters
    ----------
    fabric, place
        The fabric before, and its tables.
    kinds
        What fails in turn, of `EACH`.
    engines
        Engines that are tried for the `WORST` failures that cut off no host.
    samples, seed
        Number and seed of the random bisections.
    demand
        What the running jobs send.
    progress
        As for `failure_table`.

    Raises
    ------
    InputError
        If the fabric has no such parts.
    """
    found = [
        failure
        for kind, each in (("each-switch", each_switch), ("each-cable", each_cable))
        if kind in kinds or PAIRS in kinds
        for failure in each(fabric)
    ]
    if not found:
        raise InputError(f"{', '.join(kinds)}: {fabric.name} has no cables between switches")
    options: dict[str, Any] = {
        "samples": samples, "seed": seed, "demand": demand, "progress": progress
    }  # fmt: skip
    judged = [Failure(), *found]
    stale = swept = failure_table(fabric, judged, place.routes, **options)
    name = engine.parse(place.engine)[0].name
    if name != "file":
        options["reroute"] = place.engine
        swept = failure_table(fabric, judged, place.routes, **options)
    until, after = stale.rows(named=True), swept.rows(named=True)
    now = until[0]
    apart = [_disconnected(fabric, judged[0])]
    for each, row in zip(found, until[1:], strict=True):
        same = row["hosts_cut"] == now["hosts_cut"]
        apart.append(apart[0] if same else _disconnected(fabric, each))
    rows = [
        _row(one, two, now, cut)
        for one, two, cut in zip(until[1:], after[1:], apart[1:], strict=True)
    ]
    order = sorted(range(len(rows)), key=lambda at: harm(rows[at]), reverse=True)
    # Routes cannot help machines without a cable.
    first = [at for at in order if not rows[at]["hosts_cut"]][:WORST]
    tasks = [(other, at) for other in engines for at in first]
    # Workers take seconds to start, in which a small fabric is judged.
    processes = cores() if fabric.num_hosts >= _LARGE else 1
    results, complete = run_all(_judge_anew, (fabric, found, samples, seed), tasks, processes, None)
    if not complete:
        raise KeyboardInterrupt
    others = []
    for (other, at), judged_anew in zip(tasks, results, strict=True):
        row = judged_anew or {}
        lost = None if row["unrouted"] is None else row["unrouted"] - apart[at + 1]
        others.append((row["failed"], other, lost, *(row[key] for key in [*OTHER_COLUMNS][3:])))
    pairs = None
    if PAIRS in kinds:
        pairs = worst_pairs(fabric, found, swept[1:], place.routes, **options)
    return Singles(
        fabric, name, tuple(kinds), tuple(found[at] for at in order), now,
        frame_of_rows(SINGLE_COLUMNS, [tuple(rows[at].values()) for at in order]),
        frame_of_rows(OTHER_COLUMNS, others), pairs,
    )  # fmt: skip


def _judge_anew(
    known: tuple[Fabric, Sequence[Failure], int, int],
    task: tuple[str, int],
    watch: Callable[[Any], None],
) -> dict[str, Any]:
    """Return the figures of an engine after a failure."""
    fabric, failures, samples, seed = known
    watch(None)
    other, at = task
    return failure_table(
        fabric, [failures[at]], other, samples=samples, seed=seed, processes=1
    ).row(0, named=True)


def _disconnected(fabric: Fabric, failure: Failure) -> int:
    """Return the number of pairs that no cables connect after a failure."""
    parts = (np.array(numbers, dtype=np.int64) for numbers in (failure.switches, failure.cables))
    return Remains(fabric, *parts).disconnected


def _row(
    until: Mapping[str, Any], after: Mapping[str, Any], now: Mapping[str, Any], apart: int
) -> dict[str, Any]:
    def lost(row: Mapping[str, Any]) -> int | None:
        return None if row["unrouted"] is None else row["unrouted"] - apart

    left = after["ebb"] / now["ebb"] if after["ebb"] is not None and now["ebb"] else None
    values = {
        **until, **after, "pairs_lost_until": lost(until), "pairs_lost": lost(after),
        **{f"{name}_until": until[name] for name in _UNTIL_SWEEP},
        "bandwidth_left": left,
        # Machines that had no cable before are not cut off by a failure.
        **{name: until[name] - now[name] for name in ("machines_cut", "hosts_cut")},
    }  # fmt: skip
    return {name: values[name] for name in SINGLE_COLUMNS}


def harm(row: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the sort key of a failure, as `weft.advice.what_if.evaluate.harm`.

    What OpenSM's next sweep leaves counts before what is lost until then.
    """
    ebb, until = (1.0 if row[name] is None else row[name] for name in ("ebb", "ebb_until"))
    return (
        row["machines_cut"], row["hosts_cut"], row["refusal"] is not None,
        row["pairs_lost"] or 0, bool(row["deadlock"]), -ebb,
        row["pairs_lost_until"] or 0, bool(row["deadlock_until"]), -until,
    )  # fmt: skip
