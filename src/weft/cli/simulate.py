"""`weft simulate`: how long an application takes on a fabric with a placement."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from weft.cli.common import ProgressDisplay, announced_compile, check_files, check_folder, console
from weft.cli.option_types import OUTPUT, RUNS
from weft.cli.options import options_of
from weft.cli.simulate_options import JOB, NO_OPTIONS, WORDS, RunOptions
from weft.cli.simulate_text import reasons, show, show_forecasts
from weft.core.errors import InputError
from weft.core.pool import held_signals
from weft.core.settings import settings
from weft.core.signals import ended_by
from weft.fabrics.faults import Faults
from weft.fabrics.judged import Judged
from weft.fabrics.load import Source
from weft.sim.common.progress import TOLD_S, Forecast
from weft.sim.methods import CHOOSING
from weft.study.experiment import Experiment, check, read_experiment
from weft.study.experiment.result_tables import brief
from weft.study.experiment.run import ExperimentStage, perform
from weft.study.experiment.run_level import Outcome
from weft.study.experiment.spec import FABRIC, OutputPart
from weft.study.experiment.store import ResultWriter

#: Statuses of runs that have a result.
KNOWN = frozenset({"complete", "partial"})
#: Exit status when a run stopped early or failed, or no engine fits.
NOT_WHOLE = 1
#: Default time between snapshots for a page; it is doubled during long runs.
SNAPSHOT_NS = 100.0
#: Seconds before progress is shown, and between progress lines if standard error is not a terminal.
QUIET_S, LINE_S = 1.0, 5.0

_FABRIC = [item for item in FABRIC if item.flag != "--hosts"]  # which is an option of the job
FabricAndHosts: Any = options_of("FabricAndHosts", [*_FABRIC, *settings(Faults)])
NO_FAULTS = FabricAndHosts()


def simulate_command(
    fabric: Annotated[
        str,
        Parameter(
            help="An experiment file (.toml), or a fabric: a file or a spec such as "
            "'xgft:3;6,6,6;1,6,6'."
        ),
    ],
    /,
    *,
    run: RunOptions = NO_OPTIONS,
    options: FabricAndHosts = NO_FAULTS,
    progress: Annotated[
        bool, OUTPUT(help="Print progress even if standard error is not a terminal.")
    ] = False,
    dry_run: Annotated[
        bool, RUNS(help="Print how long each run will take and how much memory; run nothing.")
    ] = False,
) -> int:
    """Run a workload on a routed fabric and print how long it takes.

    Options that are given several times are compared: each combination is one run. The exit status
    is 1 if a run stops early or fails, or if no engine fits.

    Example: `weft simulate fat-tree:k=4 --workload allreduce:size=64KiB --level packet`
    """
    job, changes, written = run.keys()
    of_file = fabric.endswith(".toml")
    if of_file:
        of_job = [item.flag for item in run.given().values() if item in JOB]
        clash = [*of_job, *options.flags()]
        if clash:
            tables = (("job", JOB), ("fabric", FABRIC), ("faults", settings(Faults)))
            key = next(
                f"{table}.{item.key}" for table, items in tables for item in items
                if item.flag == clash[0]
            )  # fmt: skip
            raise InputError(
                f"{clash[0]} requires a fabric, but {fabric} is an experiment file: set {key} there"
            )
        data = read_experiment(fabric).model_dump(exclude_unset=True)
        for key in WORDS:
            if key in changes:
                changes[key] = {**data.get(key, {}), **changes[key]}
    else:
        if "workload" not in job:
            raise InputError("nothing to run: expected --workload or an experiment file (.toml)")
        data = {
            "fabric": {
                **options.build(Source, source=fabric).table(),
                **options.build(Judged).table(),
            },
            "faults": options.build(Faults).table(),
            "job": [{"name": "job", **job}],
        }
    output = {**data.get("output", {}), **written}
    if "folder" in written:
        check_folder("--out", output["folder"])
    if output.get("html") is not None and "snapshot" not in {**data, **changes}:
        changes["snapshot"] = SNAPSHOT_NS
    experiment = check({**data, **changes, "output": output}, flags=True)
    if experiment.output.folder is None:
        for key in ("format", "messages"):
            if key in written:
                flag = next(item.flag for item in settings(OutputPart) if item.key == key)
                raise InputError(f"{flag} requires --out FOLDER")
    run.check_levels(experiment.level)
    named = {
        item.key: f"{fabric}: output.{item.key}"
        if of_file and item.key not in written
        else item.flag
        for item in settings(OutputPart)
    }
    _check_output(experiment, named)
    if dry_run:
        return show_forecasts(perform(experiment, dry=True), console())
    return _run(experiment, progress)


def _check_output(experiment: Experiment, named: Mapping[str, str]) -> None:
    """Refuse output that cannot be written, before any run starts.

    `named`: key of the output -> option, or key of the experiment file, that names it.
    """
    output = experiment.output
    check_folder(named["folder"], output.folder)
    files: dict[str, tuple[str, ...]] = {"html": (), "congestion_matrix": ()}
    if output.congestion_matrix is not None:
        from weft.report.load_curves import SUFFIXES

        files["congestion_matrix"] = tuple(SUFFIXES)
    check_folder(named["counters"], output.counters)
    if output.counters is not None and any(Path(output.counters).glob("*")):
        raise InputError(f"{named['counters']}: {output.counters} is not empty")
    check_files(*((named[key], getattr(output, key), suffixes) for key, suffixes in files.items()))
    levels = {"html": ("packet",), "congestion_matrix": CHOOSING, "counters": ("packet",)}
    for key, fit in levels.items():
        shown = sum(run.level in fit for run in experiment.runs)
        if getattr(output, key) is not None and shown != 1:
            raise InputError(
                f"{named[key]} shows one run: expected exactly one run at --level "
                f"{' or '.join(fit)}"
            )


def _run(experiment: Experiment, wanted: bool) -> int:
    """Perform the runs, print them, and save them if an output folder is given."""
    stage = ExperimentStage(len(experiment.runs))
    kept: list[Path] = []
    try:
        return _runs(experiment, wanted, stage, kept)
    except KeyboardInterrupt:
        word, status = ended_by()
        result = f"results are in {kept[0].parent}" if kept else "no result is kept"
        print(f"weft: {word}: {stage.text()}; {result}", file=sys.stderr)
        return status


def _runs(experiment: Experiment, wanted: bool, stage: ExperimentStage, kept: list[Path]) -> int:
    outcomes: list[Outcome] = []
    shown: list[Outcome] = []
    folder, page = experiment.output.folder, experiment.output.html
    matrix, counters = experiment.output.congestion_matrix, experiment.output.counters
    store = None if folder is None else ResultWriter(folder, experiment)
    try:

        def add(outcome: Outcome) -> None:
            with held_signals():  # an interrupt does not save half a run
                if store is not None:
                    store.add(outcome)
                wanted_result = {page, matrix, counters} != {None}
                if wanted_result and outcome.result is not None and outcome.run.level in CHOOSING:
                    shown.append(outcome)
                # Tables of several runs are printed from rows, so free the arrays.
                outcomes.append(brief(outcome) if stage.runs > 1 else outcome)

        try:
            with announced_compile(), _Watch(wanted) as watch:
                for outcome in perform(experiment, watch=watch.update, stage=stage):
                    add(outcome)
        except KeyboardInterrupt:
            if not any(outcome.status in KNOWN for outcome in outcomes):
                raise
            stage.interrupted = True
        if stage.interrupted:
            for outcome in _not_done(experiment, stage, len(outcomes)):
                add(outcome)
        known = any(outcome.status in KNOWN for outcome in outcomes)
        if store is not None and known:
            with held_signals():
                kept += store.keep()
        if known:
            show(experiment, outcomes, console())
        else:
            for line in reasons(outcomes):
                print(f"weft: {line}", file=sys.stderr)
        if kept:
            print(f"results: {folder} ({', '.join(path.name for path in kept)})")
    finally:
        if store is not None:
            store.close()
    for outcome in shown:
        from weft.report.matrix_picture import plot_congestion_matrix
        from weft.report.simulation_page import title_of, write_simulation_page
        from weft.sim.packet.port_counters import port_counters, write_readings

        result = outcome.result
        if matrix is not None:
            figure = plot_congestion_matrix(result.congestion_matrix(), title=title_of(result))
            figure.write(matrix, format=Path(matrix).suffix[1:].lower())
            print(f"congestion matrix: {matrix}")
        if outcome.run.level != "packet":
            continue
        if counters is not None:
            begin = experiment.output.counters_begin
            count = write_readings(port_counters(result, begin), counters)
            print(f"counters: {counters} ({count} readings)")
        if page is None:
            continue
        if result.snapshots is None or not len(result.snapshots.time_ps):
            print(f"no page {page}: the run ends before the first snapshot")
            continue
        write_simulation_page(result, page)
        print(f"page: {page}")
    if stage.interrupted:
        word, status = ended_by()
        number = sum(outcome.status == "not run" for outcome in outcomes)
        left = f"; {number} more not run" * (number > 0)
        print(f"weft: {word}: {stage.text()}{left}", file=sys.stderr)
        return status
    fine = {"complete", "does not fit"}
    any_complete = any(o.status == "complete" for o in outcomes)
    return 0 if any_complete and all(o.status in fine for o in outcomes) else NOT_WHOLE


def _not_done(experiment: Experiment, stage: ExperimentStage, done: int) -> list[Outcome]:
    """Return outcomes of the unfinished runs after an interrupt; the first may have started."""
    word, _ = ended_by()
    return [
        Outcome(run, "stopped", f"{word}, {stage.where()}; there is no result")
        if run == stage.run
        else Outcome(run, "not run", word)
        for run in experiment.runs[done:]
    ]


class _Watch(ProgressDisplay):
    """Display of an experiment's progress: a bar on a terminal, else lines if requested."""

    def __init__(self, wanted: bool):
        super().__init__(QUIET_S, LINE_S)
        self._quiet = not (wanted or self._terminal)
        if not self._terminal:
            self._next = 0.0
        self._told: Forecast | None = None

    def update(self, stage: ExperimentStage) -> None:
        """Show the stage of the experiment, and once what a run that takes long is expected to."""
        told = stage.forecast
        if told is not None and told is not self._told and told.most_s >= TOLD_S:
            self._told = told
            whose = stage.whose() or "the run"
            print(f"weft: {whose} is expected to take {told.text()}", file=sys.stderr)
        self.show(stage.outlook(), stage.share, None if stage.progress is None else 1.0)
