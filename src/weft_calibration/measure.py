"""Measurement of contention graphs by ``mpirun -n 64 python -m weft_calibration.measure``.

The benchmark of section 3.3 of M. Martinasso and J.-F. Mehaut, "A contention-aware performance
model for HPC-based networks" (Euro-Par 2011): each communication of a graph has a sending and a
receiving process on the machines of its nodes; all communications start together and send messages
of one size. `docs/calibration.md` describes its use. Only this module needs mpi4py
(``pip install 'weft[mpi]'``).
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import cyclopts
import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from weft.core.errors import InputError, WeftError
from weft.core.registry import convert
from weft.core.units import Bytes
from weft_calibration.measure_plan import (
    GraphOptions,
    HostRanks,
    MeasuredGraph,
    bind,
    degrees,
    machines_of,
)
from weft_calibration.measurements import Measurement, write_measurements

#: Initial and largest time between the announcement of a common start and the start, in seconds.
_LEAD_S, _MOST_LEAD_S = 0.001, 0.05
#: Delay after the common start above which the announcement was too late, in seconds.
_LATE_S = 20e-6
#: Number of exchanges to compare the clocks of two processes; the fastest exchange is used.
_CLOCK_EXCHANGES = 5
#: Largest size of a message in bytes: MPI before version 4 has 32-bit counts.
_LARGEST_SIZE = 2**31 - 1
_CLOCK_TAG = 32_000


@dataclass(frozen=True)
class Protocol:
    """Parameters of the measurement of each graph."""

    size_bytes: int
    repetitions: int
    warmup: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; every process of an MPI job calls this.

    `arguments`: arguments of the command line; by default those of this process.

    Returns the exit status: 0, or 2 after invalid input, which is reported in one line on standard
    error.
    """
    is_first, mpi = True, None
    try:
        mpi = _load_mpi()
        is_first = mpi.COMM_WORLD.rank == 0
        if not is_first:
            sys.stdout = open("/dev/null", "w")  # noqa: SIM115 - help is printed once
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        return _fail(" ".join(str(error).split()), is_first)
    except WeftError as error:
        return _fail(str(error), is_first)
    except Exception:
        if mpi is None:
            raise
        # The other processes wait for this one, so end all of them.
        traceback.print_exc()
        mpi.COMM_WORLD.Abort(1)
    return 0


def _fail(text: str, is_first: bool) -> int:
    if is_first:
        print(f"weft: error: {text}", file=sys.stderr)
    return 2


def _load_mpi() -> Any:
    """Return mpi4py's MPI module, with MPI initialised."""
    try:
        import mpi4py

        mpi4py.rc.threads = False  # locks cost time and are not needed for one thread
        from mpi4py import MPI
    except ImportError as error:
        raise InputError(
            f"mpi4py cannot be imported ({error}); install it with: pip install 'weft[mpi]'"
        ) from None
    except RuntimeError as error:
        raise InputError(f"no MPI library can be loaded: {error}") from None
    return MPI


app = cyclopts.App(
    name="python -m weft_calibration.measure",
    help="Measure contention graphs on the machines of an MPI job, for weft calibrate.",
    help_format="markdown",
    version_flags=(),
    default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
)


@app.default
def measure_command(
    *,
    out: Annotated[
        Path | None, Parameter(help="File of measurements to write (comma-separated).")
    ] = None,
    graphs: Annotated[GraphOptions, Parameter(name="*")] = GraphOptions(),  # noqa: B008 - frozen
    size: Annotated[str, Parameter(help="Size of every message, in bytes or as 20MiB.")] = "20MiB",
    repetitions: Annotated[int, Parameter(help="Measured runs of each graph.")] = 20,
    warmup: Annotated[int, Parameter(help="Runs of each graph before the measured ones.")] = 3,
    share_machines: Annotated[
        bool,
        Parameter(help="Let nodes of a graph share machines, for a trial without a cluster."),
    ] = False,
    machine_names: Annotated[
        bool, Parameter(help="Write the names of the machines into the file.")
    ] = False,
    plan: Annotated[
        bool, Parameter(help="Print the required machines and processes, and measure nothing.")
    ] = False,
) -> None:
    """Measure contention graphs, with two processes for each communication."""
    mpi = _load_mpi()
    world = mpi.COMM_WORLD
    machines = machines_of(world.allgather(mpi.Get_processor_name()))
    job: tuple[list[tuple[MeasuredGraph, list[tuple[int, int]]]], Protocol] | str | None = None
    if world.rank == 0:
        # Broadcast errors of this process before the other processes wait for its next broadcast.
        try:
            protocol = _protocol(convert(size, Bytes, "--size"), repetitions, warmup)
            selected = graphs.graphs(protocol.size_bytes)
            if plan:
                print(_needs(selected))
            else:
                _check_output(out)
                job = [(g, bind(g, machines, share_machines)) for g in selected], protocol
        except WeftError as error:
            job = str(error)
    job = world.bcast(job, root=0)
    if isinstance(job, str):
        raise InputError(job)
    if job is None:
        return
    bound, protocol = job
    measured = _run(mpi, bound, protocol)
    failure: str | None = None
    if world.rank == 0:
        assert out is not None
        facts = _facts(mpi, machines, protocol, share_machines, machine_names)
        try:
            write_measurements(out, measured, {**facts, **graphs.facts()})
            print(f"{len(measured)} graphs: {out}")
        except WeftError as error:
            failure = str(error)
    failure = world.bcast(failure, root=0)
    if failure is not None:
        raise InputError(failure)


def _check_output(out: Path | None) -> None:
    """Refuse an output file that cannot be written, before hours of measuring."""
    if out is None:
        raise InputError("expected --out with the file to write, or --plan")
    if out.is_dir():
        raise InputError("expected a file, not a folder", file=out)
    if not os.access(out.resolve().parent, os.W_OK):
        raise InputError("its folder does not exist or is not writable", file=out)


def _protocol(size: int, repetitions: int, warmup: int) -> Protocol:
    if not 1 <= size <= _LARGEST_SIZE:
        raise InputError(f"--size: {size} bytes; expected 1 to {_LARGEST_SIZE}")
    if repetitions < 1 or warmup < 0:
        raise InputError(
            f"{repetitions} repetitions after {warmup} warm-up runs; expected at least 1 "
            "repetition and 0 warm-up runs"
        )
    return Protocol(size, repetitions, warmup)


def _needs(graphs: Sequence[MeasuredGraph]) -> str:
    machines = max(max(degrees(graph)) for graph in graphs) + 1
    processes = max(max(degrees(graph).values()) for graph in graphs)
    edges = max(len(graph.sources) for graph in graphs)
    return (
        f"graphs: {len(graphs)}, edges of the largest: {edges}, machines: {machines}, "
        f"processes on each: {processes}"
    )


def _facts(
    mpi: Any, machines: Sequence[HostRanks], protocol: Protocol, shared: bool, named: bool
) -> dict[str, object]:
    """Return the metadata of the run, for the lines before the table."""
    import mpi4py

    facts: dict[str, object] = {
        "program": "weft_calibration.measure",
        "weft": version("weft"),
        "mpi4py": mpi4py.__version__,
        "mpi": mpi.Get_library_version().strip().rstrip("\0").splitlines()[0],
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "processes": mpi.COMM_WORLD.size,
        "machines": len(machines),
        "shared_machines": "yes" if shared else "no",
        "size_bytes": protocol.size_bytes,
        "repetitions": protocol.repetitions,
        "warmup": protocol.warmup,
    }
    if named:
        facts["machine_names"] = " ".join(machine.name for machine in machines)
    return facts


def _run(
    mpi: Any, bound: Sequence[tuple[MeasuredGraph, list[tuple[int, int]]]], protocol: Protocol
) -> list[Measurement]:
    """Measure all graphs; return the results on rank 0, and an empty list on other ranks."""
    world = mpi.COMM_WORLD
    buffer = np.ones(protocol.size_bytes, dtype=np.uint8)
    measured: list[Measurement] = []
    last_report = time.monotonic()
    for number, (graph, ends) in enumerate(bound):
        role = next((edge for edge, pair in enumerate(ends) if world.rank in pair), None)
        active = world.Split(mpi.UNDEFINED if role is None else 0, world.rank)
        rows: NDArray[np.float64] | None = None
        if role is not None:
            runner = _Runner(mpi, active, world, ends[role], role, buffer)
            runner.run(protocol.warmup)
            rows = runner.run(protocol.repetitions)
            active.Free()
        gathered = world.gather(rows, root=0)
        if world.rank == 0:
            measured.append(_measurement(graph, ends, gathered, protocol))
            if time.monotonic() - last_report > 10:
                last_report = time.monotonic()
                print(f"weft: {number + 1} of {len(bound)} graphs", file=sys.stderr, flush=True)
    return measured


class _Runner:
    """One process, which sends or receives the messages of one edge of a graph.

    - `mpi`: mpi4py's MPI module.
    - `active`: communicator of the processes of this graph.
    - `world`: communicator of the ranks in `ends`.
    - `ends`: sender and receiver of this process's edge.
    """

    def __init__(
        self,
        mpi: Any,
        active: Any,
        world: Any,
        ends: tuple[int, int],
        edge: int,
        buffer: NDArray[np.uint8],
    ):
        self._mpi, self._active, self._world = mpi, active, world
        self._ends, self._edge, self._buffer = ends, edge, buffer
        self._sends = world.rank == ends[0]
        self._lead = _LEAD_S

    def run(self, repetitions: int) -> NDArray[np.float64]:
        """Return the start delay (sender) or completion time (receiver) of each repetition [s]."""
        values = np.zeros(repetitions)
        index = 0
        while index < repetitions:
            value, delay = self._once()
            late = self._active.allreduce(delay, op=self._mpi.MAX)
            if late > _LATE_S and self._lead < _MOST_LEAD_S:
                self._lead *= 2  # all processes have the same value
                continue
            values[index] = value
            index += 1
        return values

    def _once(self) -> tuple[float, float]:
        """Run the communication once; return the value for `run`, and the start delay."""
        offset = self._clock_offset()
        request = None
        if not self._sends:
            request = self._world.Irecv(self._buffer, source=self._ends[0], tag=self._edge)
        self._active.Barrier()
        now = self._mpi.Wtime
        # The common start on the clock of the first process, converted to this process's clock.
        start = self._active.bcast(now() + self._lead, root=0) + offset
        time.sleep(max(start - now() - _LEAD_S, 0.0))
        while now() < start:
            pass
        delay = now() - start
        if request is None:
            self._world.Send(self._buffer, dest=self._ends[1], tag=self._edge)
            return delay, delay
        request.Wait()
        return now() - start, delay

    def _clock_offset(self) -> float:
        """Return the clock of this process minus that of the first one [s]."""
        active, now = self._active, self._mpi.Wtime
        if active.rank:
            for _ in range(_CLOCK_EXCHANGES):
                active.recv(source=0, tag=_CLOCK_TAG)
                active.send(now(), dest=0, tag=_CLOCK_TAG)
            offset: float = active.recv(source=0, tag=_CLOCK_TAG)
            return offset
        for other in range(1, active.size):
            best, offset = np.inf, 0.0
            for _ in range(_CLOCK_EXCHANGES):
                before = now()
                active.send(None, dest=other, tag=_CLOCK_TAG)
                remote = active.recv(source=other, tag=_CLOCK_TAG)
                after = now()
                if after - before < best:
                    best, offset = after - before, remote - (before + after) / 2
            active.send(offset, dest=other, tag=_CLOCK_TAG)
        return 0.0


def _measurement(
    graph: MeasuredGraph,
    ends: Sequence[tuple[int, int]],
    gathered: Sequence[NDArray[np.float64] | None],
    protocol: Protocol,
) -> Measurement:
    """Return the statistics of the repetitions of one graph."""
    starts = np.array([gathered[sender] for sender, _ in ends])
    times = np.array([gathered[receiver] for _, receiver in ends])
    lower, median, upper = np.quantile(times, [0.25, 0.5, 0.75], axis=1)
    edges = len(ends)
    return Measurement(
        graph.name,
        np.array(graph.sources),
        np.array(graph.destinations),
        np.full(edges, protocol.size_bytes),
        median,
        np.median(starts, axis=1),
        {
            "lower_s": lower,
            "upper_s": upper,
            "min_s": times.min(axis=1),
            "max_s": times.max(axis=1),
            "repetitions": np.full(edges, float(protocol.repetitions)),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
