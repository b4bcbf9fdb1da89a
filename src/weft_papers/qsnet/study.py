"""QsNET: the measurements of Petrini et al. 2003 on a 64-node cluster, at the flit level.

Figures 9 to 19 and table 1 are reproduced, and each claim is tested (figure 20 sums up figure 19).
The paper does not print the length of time slices of DMA, the rule of ageing, or what limits an
adapter that sends and receives; `runs.CHOICES` varies these. `runs.MECHANISMS` changes mechanisms
that the paper describes, to see what they cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import RenderableType

from weft.core.files import make_folder
from weft.study.runs.typed import IN_MEMORY, Results
from weft_papers.claims import hold
from weft_papers.paper_registry import paper
from weft_papers.qsnet import tables as table
from weft_papers.qsnet.claims import CLAIMS, QsNetEvidence
from weft_papers.qsnet.plots import figures as drawn
from weft_papers.qsnet.runs import (
    CHOICES,
    FIGURES,
    MECHANISMS,
    PAPER,
    QsNetRun,
    QsNetRunResult,
    measure,
    study_runs,
)
from weft_papers.reported_study import ChoiceStudy, check_choice_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class QsNetStudy(ChoiceStudy):
    """Result of the study."""

    title = "QsNET at the flit level"
    columns = table.TABLES

    #: Frames of the tables.
    runs: pl.DataFrame
    summary: pl.DataFrame
    printed: pl.DataFrame
    nodes: pl.DataFrame
    matrices: pl.DataFrame

    def result_parts(self) -> Iterator[RenderableType]:
        """Yield printed numbers beside the measured ones, also those of other settings."""
        if len(self.printed):
            yield table.printed_table(self.printed)
        kinds = (
            (CHOICES, "Settings that the paper leaves open"),
            (MECHANISMS, "Changed mechanisms"),
        )
        for several, title in kinds:
            names = tuple(dict.fromkeys((PAPER, *several)))
            if len(self.printed.filter(pl.col("choice").is_in(names[1:]))):
                yield table.variants_table(self.printed, names, title)
                lines = (f"  {name}: {choice.about}" for name, choice in several.items())
                yield "\n".join(lines) + "\n"

    def figures(self) -> Iterable[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return drawn(self.summary, self.nodes, self.matrices, self.how())


@paper("qsnet", aliases=("quadrics",))
def qsnet_evaluation(
    *,
    seeds: int | None = None,
    figures: tuple[str, ...] = tuple(FIGURES),
    choices: bool = True,
    quick: bool = False,
    seed: int = 0,
    processes: int | None = None,
    results: Results = IN_MEMORY,
    out: Path | None = None,
) -> QsNetStudy:
    """Quadrics network QsNET on 4 to 64 nodes: pings, patterns, hot spots and I/O traffic.

    After Ctrl-C the result contains the runs completed so far.

    Parameters
    ----------
    seeds
        Number of repetitions, each with its own messages; by default 5, or 3 if quick. Choices and
        mechanisms have the first three.
    figures
        Figures 9 to 19; table 1 is part of 17 and 18.
    choices
        Whether to vary what the paper leaves open, and to change mechanisms, at some points.
    quick
        Whether to simulate less time at fewer points, with no variation.
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
    if out is not None:
        make_folder(out)  # fails before the computation
    varied = choices and not quick
    runs = study_runs(figures, range(seed, seed + seeds), choices=varied, quick=quick)
    known = results.of(
        "qsnet", measure, None, runs, processes, alone=lambda run: replace(run, figure=""),
        # All points with the first seed, then with the second one: an interrupt leaves whole seeds.
        first=lambda run: (run.choice != PAPER, run.seed),
    )  # fmt: skip
    measured = list(known.values())
    if not measured:
        raise KeyboardInterrupt
    options = {"seeds": seeds, "figures": figures, "choices": varied, "quick": quick, "seed": seed}
    return made(options, runs, measured).written(out)


def made(
    options: dict[str, Any], runs: Sequence[QsNetRun], measured: Sequence[QsNetRunResult]
) -> QsNetStudy:
    """Return the study of the measurements of the planned runs."""
    evidence = QsNetEvidence.of(measured, runs)
    tested = tuple(CHOICES) if options["choices"] else (PAPER,)
    every = (*tested, *MECHANISMS) if options["choices"] else tested
    return QsNetStudy(
        parameters=options,
        runs=table.runs_frame(measured),
        summary=table.summary_frame(measured),
        printed=table.printed_frame(evidence, every),
        nodes=table.nodes_frame(evidence, every),
        matrices=table.matrices_frame(evidence),
        claims=hold(CLAIMS, evidence, tested),
        asked=len(runs),
        done=len(measured),
    )
