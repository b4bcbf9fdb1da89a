"""Routing Keys: ARK and NRK against D-mod-K, CONGA and other routings, at the packet level.

Figures 4 and 6 to 9 are reproduced, and each claim is tested. Beyond the paper, the study covers
the latency of the scheduler, kinds of keys, the LMC, placement, and missing cables. The paper does
not print the sizes of figure 4, the distribution of mixed sizes, the utilization of figure 9,
the numbers of iterations, or the settings of switches and of CONGA; `runs.CHOICES` varies what
matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import RenderableType

from weft.core.arguments import whole_number
from weft.core.files import make_folder
from weft.study.runs.typed import IN_MEMORY, Results
from weft_papers.claims import hold
from weft_papers.paper_registry import paper
from weft_papers.reported_study import ChoiceStudy, check_choice_study
from weft_papers.routing_keys import contention
from weft_papers.routing_keys import tables as table
from weft_papers.routing_keys.claims import CLAIMS, RoutingKeysEvidence
from weft_papers.routing_keys.plots import figures as drawn
from weft_papers.routing_keys.runs import (
    CHOICES,
    PAPER,
    POINTS,
    RoutingKeysRun,
    RoutingKeysRunResult,
    measure,
    study_runs,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = ("4", *POINTS)
#: Hosts of the largest network of figure 4, by default and in a quick study.
MOST_HOSTS, QUICK_HOSTS = 40_000, 2_500


@dataclass(frozen=True, eq=False, repr=False)
class KeyStudy(ChoiceStudy):
    """Result of the study; `asked` and `done` count each network of figure 4 as a run."""

    title = "Routing Keys on folded Clos networks"
    columns = table.TABLES

    #: Frames of the tables.
    runs: pl.DataFrame
    summary: pl.DataFrame
    contention: pl.DataFrame

    def fewer_seeds(self) -> str:
        """Return a note on figure 9."""
        seeds = self.parameters["seeds"]
        return f", {max(5, seeds // 2)} of them in figure 9" if seeds > 5 else ""

    def result_parts(self) -> Iterator[RenderableType]:
        """Yield the tables of the figures."""
        if len(self.contention):
            yield table.contention_table(self.contention)
        yield from table.time_tables(self.summary)

    def figures(self) -> Iterable[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return drawn(self.summary, self.contention, self.how())


@paper("routing-keys", aliases=("keys",))
def routing_keys(
    *,
    seeds: int | None = None,
    figures: tuple[str, ...] = FIGURES,
    choices: bool = True,
    hosts: int = MOST_HOSTS,
    quick: bool = False,
    seed: int = 0,
    processes: int | None = None,
    results: Results = IN_MEMORY,
    out: Path | None = None,
) -> KeyStudy:
    """Routing keys (ARK, NRK) on folded Clos networks, compared with D-mod-K and CONGA.

    After Ctrl-C the result contains the runs completed so far.

    Parameters
    ----------
    seeds
        Number of repetitions, each with its own placement, sizes, orders and start times; by
        default 5, or 3 if quick. Figure 9 has the first 5 of them, or the first half if that is
        more.
    figures
        Figures 4, 6, 7, 8 and 9; beyond the paper: latency (of the scheduler), keys (kinds of
        keys), lmc (LIDs for the keys' paths), placement, faults (missing cables).
    choices
        Whether to vary what the paper leaves open, at some points of figures 6 to 8.
    hosts
        Largest number of hosts in figure 4, from 400 to 250,000.
    quick
        Whether to use 216 hosts in all figures at the packet level, fewer points, at most 2,500
        hosts in figure 4, and no variation of what the paper leaves open.
    seed
        First seed; the others follow it.

    Raises
    ------
    InputError
        If a parameter is out of range, or the folder cannot be written to.
    KeyboardInterrupt
        If it arrives before any run is complete.
    """
    seeds = (3 if quick else 5) if seeds is None else seeds
    check_choice_study(seeds, figures, FIGURES, seed, processes)
    whole_number(hosts, "hosts", 400, 250_000)
    if out is not None:
        make_folder(out)  # fails before the computation
    numbers = range(seed, seed + seeds)
    most = min(hosts, QUICK_HOSTS) if quick else hosts
    sizes = [
        contention.Size(radix, each)
        for radix in contention.RADIXES
        if "4" in figures and radix**2 <= most
        for each in numbers
    ]
    runs = study_runs(figures, numbers, choices=choices and not quick, quick=quick)
    # Large networks first, so that processes end at about the same time.
    flows = results.of(
        "routing-keys-sizes", contention.measure, None, sizes, processes,
        first=lambda size: -size.radix,
    )  # fmt: skip
    # The longest runs first, and runs on one fabric together.
    known = results.of(
        "routing-keys", measure, None, runs if len(flows) == len(sizes) else (), processes,
        first=lambda run: (-len(run.tree), -run.iterations, run.missing, run.seed),
        alone=lambda run: replace(run, figure=""),
    )  # fmt: skip
    measured = list(known.values())
    if not flows and not measured:
        raise KeyboardInterrupt
    options = {
        "seeds": seeds, "figures": figures, "choices": choices, "hosts": most, "quick": quick,
        "seed": seed,
    }  # fmt: skip
    return made(options, runs, measured, flows, len(sizes)).written(out)


def made(
    options: dict[str, Any],
    runs: Sequence[RoutingKeysRun],
    measured: Sequence[RoutingKeysRunResult],
    flows: dict[contention.Size, dict[str, int]],
    sizes: int,
) -> KeyStudy:
    """Return the study of all measurements, of `runs` planned runs and `sizes` planned networks."""
    numbers = range(options["seed"], options["seed"] + options["seeds"])
    evidence = RoutingKeysEvidence.of(measured, runs, flows, numbers)
    tested = CHOICES if options["choices"] and not options["quick"] else (PAPER,)
    return KeyStudy(
        parameters=options,
        runs=table.runs_frame(measured),
        summary=table.summary_frame(measured),
        contention=table.contention_frame(flows),
        claims=hold(CLAIMS, evidence, tuple(tested)),
        asked=len(runs) + sizes,
        done=len(measured) + len(flows),
    )
