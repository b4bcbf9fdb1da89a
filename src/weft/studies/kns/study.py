"""The KNS topology and Hybrid-DOR on InfiniBand: what CELLIA's paper measured, packet by packet.

The machine, the routings, the placements and the benchmarks of section 4, simulated; figures 9 to
17 and table 2 drawn anew, and each claim beside our figures. `docs/kns-infiniband.md` tells the
readings, the assumptions and the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.core.arguments import whole_number
from weft.core.errors import InputError
from weft.core.files import make_folder
from weft.core.pool import check_processes
from weft.core.registry import did_you_mean
from weft.studies.claims import ClaimResult
from weft.studies.kns.benchmarks import BENCHMARKS
from weft.studies.kns.claims import OF_APPLICATIONS, OF_HPCC, OF_MESSAGES
from weft.studies.kns.evidence import Evidence, every_choice, hold
from weft.studies.kns.frames import (
    lanes_frame,
    results_frame,
    runs_frame,
)
from weft.studies.kns.machine import CORES, Engines, check_ranks
from weft.studies.kns.report import KnsStudy
from weft.studies.kns.runs import Level, Measured, Run, Setting, measure_all, study_runs
from weft.studies.paper_registry import paper

if TYPE_CHECKING:
    pass

CLAIMS = (*OF_MESSAGES, *OF_HPCC, *OF_APPLICATIONS)


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
    out: Path | None = None,
) -> KnsStudy:
    """The KNS topology and Hybrid-DOR on InfiniBand, beside a slimmed fat tree.

    Ctrl-C ends it with the runs that were made by then.

    Parameters
    ----------
    ranks_per_node
        Ranks of each of the 36 nodes, 1 to 8; several are run one after the other. Figures and
        claims of the first come first.
    benchmarks
        Only these; all when left out.
    engines
        opensm: tables and lanes as OpenSM 3.3.23 makes them. weft: weft's own engines.
    level
        packet, or flow: without packets, buffers and lanes, as a quick look.
    seed
        Of the first random placement; the others have those that follow.
    placements
        Random placements; values at random are means over them, with 95 % intervals.
    choices
        Also vary what the paper leaves open: the order of cables, the roots of updn on the tree,
        the grid of PTRANS, the time that processors take in Graph500. The verdict is that of most
        choices. Orders of cables are varied with the first number of ranks alone, unless `full`.
    beyond
        Also what the paper only wished for: hdor with lanes, adapters that route, a dragonfly.
    full
        Larger sizes, some fifteen times as many packets.
    processes
        Worker processes, as many as there are cores when left out. The result does not depend on
        it.
    out
        Folder for figures and tables; nothing is written without it.

    Raises
    ------
    InputError
        On parameters that make no study, or a folder that cannot be written to.
    KeyboardInterrupt
        When it comes before any run was made.
    """
    chosen = _check(ranks_per_node, benchmarks, seed, placements, processes)
    if out is not None:
        make_folder(out)  # before the work, not after it
    runs = study_runs(
        ranks_per_node, chosen, seeds=range(seed, seed + placements), beyond=beyond,
        choices=choices, full=full,
    )  # fmt: skip
    measured = measure_all(runs, Setting(level, engines, full), processes)
    if not measured:
        raise KeyboardInterrupt
    return KnsStudy(
        parameters={
            "ranks_per_node": ranks_per_node, "benchmarks": chosen, "engines": engines,
            "level": level, "seed": seed, "placements": placements, "choices": choices,
            "beyond": beyond, "full": full,
        },
        results=results_frame(measured),
        runs=runs_frame(measured, full),
        lanes=lanes_frame(engines),
        claims=_claims(measured, runs, ranks_per_node, choices),
        asked=len(runs),
    ).written(out)  # fmt: skip


def _claims(
    measured: Sequence[Measured], asked: Sequence[Run], ranks_per_node: Sequence[int], whole: bool
) -> dict[int, tuple[ClaimResult, ...]]:
    return {
        ranks: tuple(hold(CLAIMS, Evidence.of(measured, ranks, asked), every_choice(ranks, whole)))
        for ranks in ranks_per_node
    }


def _check(
    ranks_per_node: Sequence[int],
    benchmarks: Sequence[str],
    seed: int,
    placements: int,
    processes: int | None,
) -> tuple[str, ...]:
    if not ranks_per_node or len(set(ranks_per_node)) < len(ranks_per_node):
        raise InputError(f"ranks_per_node must be different numbers, not {ranks_per_node}")
    for ranks in ranks_per_node:
        check_ranks(ranks)
    for name in benchmarks:
        if name not in BENCHMARKS:
            raise InputError(
                f"unknown benchmark {name!r}{did_you_mean(name, BENCHMARKS)}; there are "
                f"{', '.join(BENCHMARKS)}"
            )
    whole_number(seed, "seed")
    if placements < 1:
        raise InputError(f"there must be at least 1 random placement, not {placements}")
    check_processes(processes)
    return tuple(name for name in BENCHMARKS if not benchmarks or name in benchmarks)
