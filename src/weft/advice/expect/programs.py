"""What benchmarks run: workload and hosts of a measured value, and the figure that a run gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.measured.measurements import POINT_TO_POINT
from weft.sim.simulate import Result
from weft.workload import Workload, WorkloadBuilder, load_workload
from weft.workload.collectives import COLLECTIVES, Sizes
from weft.workload.places import Places

#: Bytes of the answer to a window of messages in osu_bw, and of a request to read.
_ANSWER_BYTES, _REQUEST_BYTES = 4, 16
#: Messages under way at once where a log does not say.
_WINDOW = 64


class Program(NamedTuple):
    """A run of a benchmark."""

    workload: Workload
    #: int32 [ranks]: host of each rank.
    hosts: NDArray[np.int32]
    #: Function that returns the benchmark's figure, in ns or Gb/s, from the result of the run.
    figure: Callable[[Result], float]


def program_of(
    fabric: Fabric, row: dict[str, Any], library: str = "", per_machine: int | None = None
) -> Program:
    """Return what a benchmark runs for a row of `Measurements.frame`.

    Latencies and bandwidths are between the machines that the row names, else between the first and
    the last machine. Collectives run on all machines; of each, the first processors have ranks.

    Parameters
    ----------
    fabric
        The fabric.
    row
        Names and values of the row.
    library
        MPI library whose rules choose algorithms. Default: that of `collective_workload`.
    per_machine
        Ranks on each machine of logs that do not say it. Default: one for each host.

    Raises
    ------
    InputError
        If the log has other ranks or machines than the fabric.
    """
    size = int(row["size_bytes"])
    hosts = [np.array(group) for group in fabric.machines.values()]
    if row["operation"] in POINT_TO_POINT:
        first, last = _ends(fabric, row, hosts)
        count = row["pairs"]
        if row["operation"] == "latency":
            reads = row["program"] == "ib_read_lat"
            work = _pingpong(count, _REQUEST_BYTES if reads else size, size)
            part = 1.0 if reads else 0.5
            figure = lambda result: part * float(result.makespan_ns)  # noqa: E731
        else:
            window = min(row["window"] or _WINDOW, _WINDOW)
            both = row["operation"] == "bibandwidth"
            streams = row["program"].startswith("ib_")
            work = (_stream if streams else _windows)(count, size, window, both)
            figure = _stream_gbps if streams else _windows_gbps(count * window * size * (1 + both))
        return Program(work, _placed([first, last], count), figure)
    nodes = row["nodes"] or len(hosts)
    ranks = row["ranks"] or nodes * (per_machine or len(hosts[0]))
    each = ranks // nodes
    if nodes != len(hosts) or each * nodes != ranks:
        raise InputError(
            f"the log is of {ranks:,} ranks on {nodes:,} machines, and {fabric.name} has "
            f"{len(hosts):,} machines; expected the same number of machines, with as many ranks on "
            "each, such as by --hosts",
            file=row["source"], line=row["line"],
        )  # fmt: skip
    placed = _placed(hosts, each)
    if row["benchmark"] == "nccl-tests":
        if each > len(hosts[0]):
            raise InputError(
                f"the log is of {each} GPUs on each machine, and machines of {fabric.name} have "
                f"{len(hosts[0])} processors; expected a fabric with --node",
                file=row["source"], line=row["line"],
            )  # fmt: skip
        spec = f"nccl:{row['operation']},size={size}"
    else:
        spec = _mpi(row["operation"], size, ranks, library)
    work = load_workload(spec, ranks, places=Places.of(fabric, placed))
    return Program(work, placed, lambda result: float(result.makespan_ns))  # type: ignore[arg-type]


def _mpi(operation: str, size: int, ranks: int, library: str) -> str:
    """Return the spec of an MPI collective; sizes of reduce-scatter are those of all blocks."""
    options = [] if COLLECTIVES[operation].sizes is Sizes.NONE else [f"size={size}"]
    if operation == "reduce-scatter":
        options = [f"size={-(-size // ranks)}"]
    options += [f"library={library}"] * bool(library)
    return ":".join([operation, *[",".join(options)] * bool(options)])


def _ends(
    fabric: Fabric, row: dict[str, Any], hosts: list[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the hosts of the two machines of a run."""
    if len(hosts) < 2:
        raise InputError(f"{fabric.name} has one machine; expected two or more")
    named = {fabric.machine_names[group[0]]: group for group in hosts}
    pair = named.get(row["from_machine"]), named.get(row["to_machine"])
    return (hosts[0], hosts[-1]) if pair[0] is None or pair[1] is None else pair  # type: ignore[return-value]


def _placed(machines: list[NDArray[np.int64]], each: int) -> NDArray[np.int32]:
    """Return the hosts of ranks, `each` on a machine: one per host, else in blocks of ranks."""
    at = np.arange(each)
    return np.concatenate(
        [group[at if each <= len(group) else at * len(group) // each] for group in machines]
    ).astype(np.int32)


def _pingpong(pairs: int, there_bytes: int, back_bytes: int) -> Workload:
    builder = WorkloadBuilder(2 * pairs, name="ping-pong")
    one, other = np.split(np.arange(2 * pairs), 2)
    builder.send(one, other, there_bytes)
    builder.recv(one, other, back_bytes)
    builder.recv(other, one, there_bytes)
    builder.send(other, one, back_bytes)
    return builder.build()


def _windows(pairs: int, size: int, window: int, both: bool) -> Workload:
    """Return a window of messages, at whose end the receiver answers."""
    builder = WorkloadBuilder(2 * pairs, name="window")
    one, other = np.split(np.arange(2 * pairs), 2)
    for _ in range(window):
        builder.irecv(other, one, size)
        builder.isend(one, other, size)
        if both:
            builder.irecv(one, other, size)
            builder.isend(other, one, size)
    builder.waitall(np.arange(2 * pairs))
    builder.send(other, one, _ANSWER_BYTES, tag=1)
    builder.recv(one, other, _ANSWER_BYTES, tag=1)
    return builder.build()


def _windows_gbps(total_bytes: int) -> Callable[[Result], float]:
    return lambda result: 8.0 * total_bytes / float(result.makespan_ns)  # type: ignore[arg-type]


def _stream(pairs: int, size: int, window: int, both: bool) -> Workload:
    """Return puts that follow one another without end."""
    builder = WorkloadBuilder(2 * pairs, name="stream")
    one, other = np.split(np.arange(2 * pairs), 2)
    for _ in range(2 * window):
        builder.put(one, other, size)
        if both:
            builder.put(other, one, size)
    return builder.build()


def _stream_gbps(result: Result) -> float:
    """Return the rate at which messages arrive, without the time until the first arrives."""
    messages = result.messages()
    arrived = messages["arrived_ns"].sort()
    sent = 8.0 * messages["size_bytes"].to_numpy()
    return float(sent[1:].sum() / (arrived[-1] - arrived[0]))
