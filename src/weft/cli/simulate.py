"""`weft simulate`: how long does my application take on this fabric, placed like this?"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import FrameType, TracebackType
from typing import Annotated, Any, Self

from cyclopts import Parameter
from numba.core import serialize
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from weft.cli.common import NO_FAULTS, FabricOptions, announced_compile, console
from weft.cli.simulate_text import reasons, show
from weft.errors import InputError
from weft.experiment import Experiment, check, read
from weft.experiment.run import Outcome, Stage, perform
from weft.experiment.store import Store
from weft.experiment.tables import brief

#: Exit status when a run stopped early or failed, or none fits.
NOT_WHOLE = 1
INTERRUPTED, TERMINATED = 130, 143
#: Seconds until a signal that came at a bad time comes again.
AGAIN_S = 0.02
#: File of what compiled code calls in Python.
UNPICKLE = serialize.__file__
#: The kernel of the flow level, which takes longest to compile.
FLOW_KERNEL = "flow_engine.run-"
#: Seconds before progress is shown at all, and between its lines where there is no terminal.
QUIET_S, LINE_S = 1.0, 5.0


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """The run, where no experiment file says it."""

    workload: Annotated[
        tuple[str, ...],
        Parameter(
            help="A collective, application or traffic pattern with options, such as "
            "'allreduce:size=1MiB', or a file or folder of traces; repeatable, to compare."
        ),
    ] = ()
    workload_format: Annotated[
        str | None, Parameter(help="Format of a workload file; its contents tell when left out.")
    ] = None
    workload_option: Annotated[
        tuple[str, ...],
        Parameter(help="Option of the workload or its format, NAME=VALUE; repeatable."),
    ] = ()
    ranks: Annotated[
        str | None, Parameter(help="Number of ranks; as many as the hosts take when left out.")
    ] = None
    placement: Annotated[
        tuple[str, ...],
        Parameter(
            help="Placement, with options as in 'random:seed=3'; repeatable. linear when left out."
        ),
    ] = ()
    ranks_per_host: Annotated[str | None, Parameter(help="Most ranks on one host: 1.")] = None
    distribution: Annotated[
        str | None,
        Parameter(help="How ranks fill hosts: block (when left out), cyclic or plane=N."),
    ] = None
    hosts: Annotated[
        str | None, Parameter(help="Hosts that may be used, as a list: 'node[001-036]'.")
    ] = None
    start: Annotated[str | None, Parameter(help="When the job starts, such as 10us: 0.")] = None
    engine: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--engine", "--engines"],
            help="Routing engine, with options as in 'updn:roots=center'; repeatable. minhop when "
            "left out; all for every one.",
            consume_multiple=True,
        ),
    ] = ()
    level: Annotated[
        tuple[str, ...],
        Parameter(help="Level of detail, flow (when left out) or static; repeatable."),
    ] = ()
    sharing: Annotated[
        tuple[str, ...],
        Parameter(
            help="How messages share links: maxmin (when left out), penalty or none; repeatable."
        ),
    ] = ()
    coefficients: Annotated[
        str | None,
        Parameter(help="File of coefficients for --sharing penalty that weft calibrate wrote."),
    ] = None
    tolerance: Annotated[
        str | None, Parameter(help="Relative error of times allowed for speed: 0.")
    ] = None
    eager: Annotated[
        str | None, Parameter(help="Largest message sent without asking its receiver: 16KiB.")
    ] = None
    no_handshake: Annotated[
        bool, Parameter(help="Larger ones need no request and answer before data leaves.")
    ] = False
    overhead: Annotated[
        str | None, Parameter(help="Time of the processor at either side of a message: 0.")
    ] = None
    switch_latency: Annotated[str | None, Parameter(help="Latency of a switch: 100ns.")] = None
    latency: Annotated[
        str | None, Parameter(help="Latency of every message, instead of that of its way.")
    ] = None
    local_gbps: Annotated[str | None, Parameter(help="Rate within a host, in Gb/s: 100.")] = None
    local_latency: Annotated[str | None, Parameter(help="Latency within a host: 200ns.")] = None
    multipath: Annotated[
        str | None,
        Parameter(help="Where routes leave a choice: split (when left out) or hash."),
    ] = None
    ports: Annotated[
        str | None, Parameter(help="Ports of hosts with several: first (when left out) or spread.")
    ] = None
    seed: Annotated[str | None, Parameter(help="Seed of the hash: 0.")] = None

    @property
    def of_job(self) -> list[str]:
        """Options given that say what runs, as on the command line."""
        names = ["--" + name.replace("_", "-") for name in _OF_JOB]
        return [name for name in _given(self) if name in names]

    @property
    def job(self) -> dict[str, Any]:
        """Keys of the job."""
        keys = {key: value for key, value in self._keys().items() if key in _OF_JOB}
        if "placement" in keys:
            keys["placement"] = tuple(part for text in self.placement for part in _split(text))
        if "workload_format" in keys:
            keys["format"] = keys.pop("workload_format")
        options = {}
        for text in keys.pop("workload_option", ()):
            name, equals, value = text.partition("=")
            if not (name and equals and value):
                raise InputError(f"--workload-option {text}: expected NAME=VALUE")
            if name in options:
                raise InputError(f"--workload-option {text}: {name} is given twice")
            options[name] = value
        return {**keys, "options": options} if options else keys

    @property
    def settings(self) -> dict[str, Any]:
        """Keys of the experiment besides its job."""
        keys = {key: value for key, value in self._keys().items() if key not in _OF_JOB}
        if keys.pop("no_handshake", False):
            keys["handshake"] = False
        for name in ("engine", "level", "sharing"):
            if name in keys:
                keys[name] = tuple(part for text in keys[name] for part in _split(text))
        return keys

    def _keys(self) -> dict[str, Any]:
        return {
            field.name: _number(field.name, getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


NO_OPTIONS = RunOptions()
_OF_JOB = (
    "workload", "workload_format", "workload_option", "ranks", "placement", "ranks_per_host",
    "distribution", "hosts", "start",
)  # fmt: skip
#: Where an option is no text: what makes a number of it.
_NUMBERS: dict[str, Any] = {
    "ranks": int, "ranks_per_host": int, "seed": int, "tolerance": float, "local_gbps": float,
}  # fmt: skip


def simulate_command(
    fabric: Annotated[
        str,
        Parameter(
            help="An experiment file that ends in .toml; or a fabric, as a file or a spec such as "
            "'xgft:3;6,6,6;1,6,6'."
        ),
    ],
    /,
    *,
    run: RunOptions = NO_OPTIONS,
    options: FabricOptions = NO_FAULTS,
    max_time: Annotated[
        str | None, Parameter(help="Stop a run at this simulated time, such as 10ms.")
    ] = None,
    max_seconds: Annotated[
        float | None, Parameter(help="Stop a run after so many seconds on the clock.")
    ] = None,
    out: Annotated[
        str | None,
        Parameter(help="Folder for tables of runs, jobs, phases, messages, ranks and links."),
    ] = None,
    csv: Annotated[bool, Parameter(help="Write tables as CSV rather than Parquet.")] = False,
    no_messages: Annotated[bool, Parameter(help="Write no table of single messages.")] = False,
    progress: Annotated[
        bool, Parameter(help="Say how far it is, also where standard error is no terminal.")
    ] = False,
) -> int:
    """Run a workload over a routed fabric and say how long it takes.

    Options given several times are compared: each combination is a run. The exit status is 1 when
    a run stops early or fails, or none fits.
    """
    changes = run.settings
    if fabric.endswith(".toml"):
        clash = [*run.of_job, *_given(options)]
        if clash:
            raise InputError(
                f"{clash[0]} goes with a fabric; {fabric} is an experiment, which says that itself"
            )
        data = read(fabric).model_dump(exclude_unset=True)
    else:
        data = _from_flags(fabric, run, options)
    changes |= {} if max_time is None else {"max_time": max_time}
    changes |= {} if max_seconds is None else {"max_seconds": max_seconds}
    output = dict(data.get("output", {}))
    if out is not None:
        if not out:
            raise InputError("--out: expected a folder, not an empty text")
        output["folder"] = out
    output |= {"format": "csv"} if csv else {}
    output |= {"messages": False} if no_messages else {}
    experiment = check({**data, **changes, "output": output}, flags=True)
    if (csv or no_messages) and experiment.output.folder is None:
        raise InputError(f"{'--csv' if csv else '--no-messages'} goes with --out FOLDER")
    return _run(experiment, progress)


def _given(options: Any) -> list[str]:
    """Names of the options of a group that were given, as on the command line."""
    return [
        "--" + field.name.replace("_", "-")
        for field in fields(options)
        if getattr(options, field.name) != field.default
    ]


def _from_flags(fabric: str, run: RunOptions, options: FabricOptions) -> dict[str, Any]:
    """Keys of an experiment: the fabric, its faults and the job that the command line says."""
    if not run.workload:
        raise InputError("nothing to run: give --workload, or an experiment file (.toml)")
    slow = {}
    for text in options.slow_cable:
        port, equals, rate = text.rpartition("=")
        if not equals:
            raise InputError(
                f"--slow-cable {text}: expected node[port]=RATE, such as leaf2[21]=1xHDR"
            )
        slow[port] = rate
    return {
        "fabric": {
            "source": fabric,
            "format": options.format,
            "names": None if options.names is None else str(options.names),
        },
        "faults": {
            "cables": options.fail_cable,
            "switches": options.fail_switch,
            "slow": slow,
            "random_cables": options.random_cables,
            "random_switches": options.random_switches,
            "seed": options.fault_seed,
        },
        "job": [{"name": "job", **run.job}],
    }


def _number(name: str, value: Any) -> Any:
    if name not in _NUMBERS:
        return value
    try:
        return _NUMBERS[name](value)
    except ValueError:
        kind = "a whole number" if _NUMBERS[name] is int else "a number"
        raise InputError(f"--{name.replace('_', '-')}: expected {kind}, not {value!r}") from None


def _split(text: str) -> list[str]:
    """Names of one word: in ``minhop,updn:roots=a,b`` commas part names before the colon only."""
    heads, colon, options = text.partition(":")
    *names, last = heads.split(",")
    return [*names, last + colon + options]


def _run(experiment: Experiment, wanted: bool) -> int:
    """Make the runs, print them, and keep them where a folder is named."""
    stage = Stage(len(experiment.runs))
    try:
        with _stoppable():
            return _runs(experiment, wanted, stage)
    except _Terminated:
        print(f"weft: terminated: {stage.text()}; no result is kept", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print(f"weft: interrupted: {stage.text()}; no result is kept", file=sys.stderr)
        return INTERRUPTED


def _runs(experiment: Experiment, wanted: bool, stage: Stage) -> int:
    outcomes: list[Outcome] = []
    folder = experiment.output.folder
    store = None if folder is None else Store(folder, experiment)
    try:
        kernel = FLOW_KERNEL if "flow" in experiment.level else ""
        with announced_compile(kernel), _Watch(wanted) as watch:
            for outcome in perform(experiment, watch=watch.see, stage=stage):
                if store is not None:
                    store.add(outcome)
                # What is printed of a run among several stands in rows; its arrays may go.
                outcomes.append(brief(outcome) if stage.runs > 1 else outcome)
        complete = [outcome for outcome in outcomes if outcome.status == "complete"]
        if complete:
            show(experiment, outcomes, console())
        else:
            for line in reasons(outcomes):
                print(f"weft: {line}", file=sys.stderr)
        if store is not None and complete:
            written = store.keep()
            print(f"results: {folder} ({', '.join(path.name for path in written)})")
    finally:
        if store is not None:
            store.close()
    whole = complete and all(o.status in {"complete", "does not fit"} for o in outcomes)
    return 0 if whole else NOT_WHOLE


class _Terminated(BaseException):
    """SIGTERM, which batch systems send before they kill."""


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM end what is under way, so that it tidies up, where that is safe.

    Compiled code calls back into Python as it returns, and does not look whether that failed: an
    exception raised there ends in a crash. A signal that comes just then is sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if returns_from_kernel(frame):
            threading.Timer(AGAIN_S, os.kill, (os.getpid(), number)).start()
        else:
            raise KeyboardInterrupt if number == signal.SIGINT else _Terminated

    # Whoever ignores a signal (nohup, a shell's background) goes on doing so.
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def returns_from_kernel(frame: FrameType | None) -> bool:
    """Whether a frame is, or was called by, what compiled code calls as it returns its results."""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("weft."):
        if frame.f_code.co_filename == UNPICKLE:
            return True
        frame = frame.f_back
    return False


class _Watch:
    """Shows how far an experiment is: a bar on a terminal, else a line now and then if wanted."""

    def __init__(self, wanted: bool):
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._wanted = wanted or self._terminal
        self._next = time.perf_counter() + (0.0 if wanted and not self._terminal else QUIET_S)
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def see(self, stage: Stage) -> None:
        """Take note of where the experiment is."""
        if not self._wanted or time.perf_counter() < self._next:
            return
        if not self._terminal:
            self._next = time.perf_counter() + LINE_S
            print(f"weft: {stage.text()}", file=sys.stderr)
            return
        if self._bar is None:
            self._bar = Progress(
                BarColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task("", total=None)
            self._bar.start()
        now = stage.progress
        task = self._bar.task_ids[0]
        self._bar.update(
            task,
            description=stage.text(),
            total=None if now is None else max(now.messages, 1),
            completed=0 if now is None else now.arrived,
        )
