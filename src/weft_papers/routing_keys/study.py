"""Routing Keys: ARK and NRK against D-mod-K, CONGA and other routings, at the packet level.

Figures 4 and 6 to 9 are reproduced, and each claim is tested. Beyond the paper, the study covers
the latency of the scheduler, kinds of keys, the LMC, placement, and missing cables. The paper does
not print the sizes of figure 4, the distribution of mixed sizes, the utilization of figure 9,
the numbers of iterations, or the settings of switches and of CONGA; `runs.CHOICES` varies what
matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.core.arguments import whole_number
from weft.core.errors import InputError
from weft.core.files import make_folder
from weft.core.pool import check_processes
from weft.core.registry import did_you_mean
from weft.study.runs.typed import IN_MEMORY, Results
from weft_papers.claims import hold
from weft_papers.paper_registry import paper
from weft_papers.routing_keys import contention
from weft_papers.routing_keys.frames import contention_frame, runs_frame, summary_frame
from weft_papers.routing_keys.report import KeyStudy
from weft_papers.routing_keys.runs import (
    CHOICES,
    PAPER,
    RoutingKeysRun,
    RoutingKeysRunResult,
    measure,
    study_runs,
)
from weft_papers.routing_keys.verdicts import CLAIMS, RoutingKeysEvidence

FIGURES = ("4", "6", "7", "8", "9", "latency", "keys", "lmc", "placement", "faults")
#: Hosts of the largest network of figure 4, by default and in a quick study.
MOST_HOSTS, QUICK_HOSTS = 40_000, 2_500


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
    processes
        Number of worker processes; by default one per core. The result does not depend on it.
    results
        Where the results of runs are kept, and who is told of the progress.
    out
        Folder for figures and tables; without it no files are written.

    Raises
    ------
    InputError
        If a parameter is out of range, or the folder cannot be written to.
    KeyboardInterrupt
        If it arrives before any run is complete.
    """
    seeds = (3 if quick else 5) if seeds is None else seeds
    _check(seeds, figures, hosts, seed, processes)
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
        runs=runs_frame(measured),
        summary=summary_frame(measured),
        contention=contention_frame(flows),
        claims=hold(CLAIMS, evidence, tuple(tested)),
        asked=len(runs) + sizes,
        done=len(measured) + len(flows),
    )


def _check(
    seeds: int, figures: Sequence[str], hosts: int, seed: int, processes: int | None
) -> None:
    if seeds < 2:
        raise InputError(f"an interval needs at least 2 seeds, not {seeds}")
    if not figures:
        raise InputError(f"expected one or more figures of {', '.join(FIGURES)}")
    for name in figures:
        if name not in FIGURES:
            raise InputError(
                f"unknown figure {name!r}{did_you_mean(name, FIGURES)}; expected some of "
                f"{', '.join(FIGURES)}"
            )
    whole_number(hosts, "hosts", 400, 250_000)
    whole_number(seed, "the first seed")
    check_processes(processes)
