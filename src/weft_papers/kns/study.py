"""The KNS topology and Hybrid-DOR on InfiniBand: the measurements on CELLIA at the packet level.

The machine, routings, placements and benchmarks of section 4 are simulated; figures 9 to 17 and
table 2 are reproduced, and each claim is tested. `docs/kns-infiniband.md` describes the
interpretation of the paper, the assumptions and the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from rich.console import RenderableType

from weft.core.arguments import whole_number
from weft.core.errors import InputError
from weft.core.files import make_folder
from weft.core.pool import check_processes
from weft.core.registry import wrong_name
from weft.study.runs.typed import IN_MEMORY, Results
from weft_papers.claim_report import claim_parts, claims_table, explained, verdict_counts
from weft_papers.claims import ClaimResult
from weft_papers.kns import tables as table
from weft_papers.kns.benchmarks import BENCHMARKS
from weft_papers.kns.claims import OF_APPLICATIONS, OF_HPCC, OF_MESSAGES
from weft_papers.kns.evidence import KnsEvidence, every_choice, hold
from weft_papers.kns.machine import CORES, Engines, check_ranks
from weft_papers.kns.plots import figures as drawn
from weft_papers.kns.runs import KnsParameters, Level, begin_order, measure, study_runs
from weft_papers.paper_registry import paper
from weft_papers.reported_study import ReportedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = (*OF_MESSAGES, *OF_HPCC, *OF_APPLICATIONS)


@dataclass(frozen=True, eq=False, repr=False)
class KnsStudy(ReportedStudy):
    """Result of the study."""

    width = 150
    title = "KNS on InfiniBand, on CELLIA's 36 nodes"
    columns = table.TABLES

    #: Frames of the tables.
    results: pl.DataFrame
    runs: pl.DataFrame
    lanes: pl.DataFrame
    #: Ranks per node -> the paper's claims with the findings under every choice.
    claims: Mapping[int, tuple[ClaimResult, ...]]

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table with one row per number of ranks and claim."""
        return table.claims_frame(self.claims)

    @property
    def choices_frame(self) -> pl.DataFrame:
        """Table with one row per claim and choice."""
        return table.choices_frame(self.claims)

    def how(self) -> str:
        """Return one line with the parameters of the study."""
        options = self.parameters
        tables = "OpenSM 3.3.23's tables" if options["engines"] == "opensm" else "weft's own tables"
        last = options["seed"] + options["placements"] - 1
        seeds = f"seeds {options['seed']} to {last}" if last > options["seed"] else f"seed {last}"
        return (
            f"{super().how()}{options['level']} level, {tables}, random placements of {seeds}"
            f"{', larger sizes' if options['full'] else ''}"
        )

    def result_parts(self) -> Iterator[RenderableType]:
        """Yield lanes and all metrics."""
        yield table.lanes_table(self.lanes)
        yield from table.result_tables(self.results)
        beyond = table.beyond_table(self.results, self.parameters["ranks_per_node"][0])
        if beyond is not None:
            yield beyond

    def claim_parts(self) -> Iterator[RenderableType]:
        """Yield the claims, each with its verdicts by number of ranks per node."""
        headings = {
            "section": 8, "the paper says": 22,
            "measured for the headline choice (linear -> random)": 38,
            **{f"{ranks} per node: deciding value\n(claimed range)": 15 for ranks in self.claims},
        }  # fmt: skip
        comments = (
            explained(each, table.by_verdict(each), where=f"; {ranks} per node")
            for ranks, results in self.claims.items()
            for each in results
        )
        yield from claim_parts(claims_table(headings, table.claim_rows(self.claims)), comments)

    def figures(self) -> Iterable[tuple[str, Figure]]:
        """Return the figures with complete data."""
        return drawn(self.results, self.parameters["ranks_per_node"][0], self.how())

    def __repr__(self) -> str:
        verdicts = verdict_counts(self.claims_frame["verdict"])
        return f"KnsStudy({self.parameters['level']} level: {verdicts or 'no claims'})"


@paper("kns-infiniband", aliases=("kns",))
def kns_infiniband(
    *,
    ranks_per_node: tuple[int, ...] = (1, CORES),
    benchmarks: tuple[str, ...] = (),
    engines: Engines = "opensm",
    level: Level = "packet",
    seed: int = 1,
    placements: int = 5,
    choices: bool = True,
    beyond: bool = True,
    full: bool = False,
    processes: int | None = None,
    results: Results = IN_MEMORY,
    out: Path | None = None,
) -> KnsStudy:
    """The KNS topology and Hybrid-DOR on InfiniBand, compared with a slimmed fat tree.

    After Ctrl-C the result contains the runs completed so far.

    Parameters
    ----------
    ranks_per_node
        Numbers of ranks on each of the 36 nodes, 1 to 8. Figures and claims of the first number
        are printed first.
    benchmarks
        Names of benchmarks; by default all.
    engines
        opensm: tables and lanes of OpenSM 3.3.23. weft: weft's own engines.
    level
        packet, or flow: faster, but without packets, buffers and lanes.
    seed
        Seed of the first random placement; the next placements have the next numbers.
    placements
        Number of random placements; results are means over them, with 95 % intervals.
    choices
        Whether to vary what the paper leaves open: the order of cables, the roots of updn on the
        tree, the grid of PTRANS, the processor time in Graph500. The verdict is that of most
        choices. Orders of cables are varied with the first number of ranks only, unless `full`.
    beyond
        Whether to run the paper's future work: hdor with lanes, routing adapters, a dragonfly.
    full
        Whether to use larger sizes, with about 15 times as many packets.

    Raises
    ------
    InputError
        If a parameter is out of range, or the folder cannot be written to.
    KeyboardInterrupt
        If an interrupt arrives before any run is complete.
    """
    chosen = _check(ranks_per_node, benchmarks, seed, placements, processes)
    if out is not None:
        make_folder(out)  # fails before the computation
    runs = study_runs(
        ranks_per_node, chosen, seeds=range(seed, seed + placements), beyond=beyond,
        choices=choices, full=full,
    )  # fmt: skip
    setting = KnsParameters(level, engines, full)
    known = results.of("kns-infiniband", measure, setting, runs, processes, first=begin_order)
    measured = list(known.values())
    if not measured:
        raise KeyboardInterrupt
    return KnsStudy(
        parameters={
            "ranks_per_node": ranks_per_node, "benchmarks": chosen, "engines": engines,
            "level": level, "seed": seed, "placements": placements, "choices": choices,
            "beyond": beyond, "full": full,
        },
        results=table.results_frame(measured),
        runs=table.runs_frame(measured, full),
        lanes=table.lanes_frame(engines),
        claims={
            ranks: tuple(
                hold(CLAIMS, KnsEvidence.of(measured, ranks, runs), every_choice(ranks, choices))
            )
            for ranks in ranks_per_node
        },
        asked=len(runs),
        done=len(measured),
    ).written(out)  # fmt: skip


def _check(
    ranks_per_node: Sequence[int],
    benchmarks: Sequence[str],
    seed: int,
    placements: int,
    processes: int | None,
) -> tuple[str, ...]:
    if not ranks_per_node or len(set(ranks_per_node)) < len(ranks_per_node):
        raise InputError(
            f"expected one or more different numbers as ranks_per_node, not {ranks_per_node}"
        )
    for ranks in ranks_per_node:
        check_ranks(ranks)
    for name in benchmarks:
        if name not in BENCHMARKS:
            raise InputError(wrong_name("unknown benchmark", name, BENCHMARKS))
    whole_number(seed, "seed")
    if placements < 1:
        raise InputError(f"expected at least 1 random placement, not {placements}")
    check_processes(processes)
    return tuple(name for name in BENCHMARKS if not benchmarks or name in benchmarks)
