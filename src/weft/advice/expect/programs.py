"""What benchmarks run: workload and hosts of a measured value, and the figure that a run gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.measured.measurements import POINT_TO_POINT
from weft.workload import Workload, WorkloadBuilder, load_workload
from weft.workload.collectives import COLLECTIVES, Sizes
from weft.workload.places import Places

#: Bytes of the answer to a window of messages in osu_bw, and of a request to read.
_ANSWER_BYTES, _REQUEST_BYTES = 4, 16
#: Messages under way at once where a log does not say, and most that are run.
_WINDOW = 64
#: Most ranks on a machine.
_MOST_RANKS = 4096


class BenchmarkRun(NamedTuple):
    """A run of a benchmark."""

    workload: Workload
    #: int32 [ranks]: host of each rank.
    hosts: NDArray[np.int32]
    #: Function that returns the benchmark's figure, in ns or Gb/s, from the result of the run.
    figure: Callable[[Any], float]
    #: What is assumed about the log; else empty.
    note: str = ""


def program_of(
    fabric: Fabric, row: dict[str, Any], library: str = "", per_machine: int | None = None
) -> BenchmarkRun:
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
        MPI library whose rules choose algorithms. Default: those of `collective_workload`.
    per_machine
        Ranks on each machine of logs that do not say it. Default: one for each host.

    Raises
    ------
    InputError
        If the log has other ranks or machines than the fabric.
    """
    hosts = {name: np.array(group) for name, group in fabric.machines.items()}
    if row["operation"] in POINT_TO_POINT:
        ends, note = [row["from_machine"], row["to_machine"]], ""
        if not {*ends} <= {*hosts}:
            ends = [*hosts][:: max(len(hosts) - 1, 1)]
            note = f"logs that name no machines of {fabric.name}: run from {' to '.join(ends)}"
        if len(ends) < 2:
            raise InputError(f"{fabric.name} has one machine; expected two or more")
        run = _point_to_point(row, _placed([hosts[name] for name in ends], row["pairs"]))
        return run._replace(note=note)
    nodes = row["nodes"] or len(hosts)
    ranks = row["ranks"] or nodes * (per_machine or len(next(iter(hosts.values()))))
    each, most = ranks // nodes, min(map(len, hosts.values()))
    gpus = row["benchmark"] == "nccl-tests"
    most = most if gpus else _MOST_RANKS  # a GPU has one rank
    if nodes != len(hosts) or each * nodes != ranks or each > most:
        inside = f" of {count_text(most, 'processor')}" * gpus
        needs_model = gpus and most == 1 < each
        model = "; --node says what is in a machine, such as dgx-h100" * needs_model
        raise InputError(
            f"the log is of {ranks:,} ranks on {nodes:,} machines, and {fabric.name} has "
            f"{len(hosts):,} machines{inside}; expected as many machines, "
            f"chosen by --hosts, and as many ranks on each{model}"
        )
    placed = _placed(list(hosts.values()), each)
    name, size = row["operation"], row["size_bytes"]
    if not gpus and name not in COLLECTIVES:
        raise InputError(f"{name} is no collective of MPI; expected the suite nccl-tests")
    if gpus:
        spec = f"nccl:{'broadcast' if name == 'bcast' else name},size={size}"
    elif COLLECTIVES[name].sizes is Sizes.NONE:
        spec = f"{name}:library={library}" if library else name
    else:
        # The size of reduce-scatter is that of all blocks.
        size = -(-size // ranks) if name == "reduce-scatter" else size
        spec = f"{name}:size={size}" + f",library={library}" * bool(library)
    work = load_workload(spec, ranks, places=Places.of(fabric, placed))
    guess = f"logs that do not say their ranks: {each:,} on each of {nodes:,} machines"
    note = "" if row["ranks"] else guess
    return BenchmarkRun(work, placed, lambda result: float(result.makespan_ns), note)


def _placed(machines: list[NDArray[np.int64]], each: int) -> NDArray[np.int32]:
    """Return the hosts of ranks, `each` on a machine: one per host, else in blocks of ranks."""
    at = np.arange(each)
    return np.concatenate(
        [group[at if each <= len(group) else at * len(group) // each] for group in machines]
    ).astype(np.int32)


def _point_to_point(row: dict[str, Any], hosts: NDArray[np.int32]) -> BenchmarkRun:
    """Return a ping-pong; or a window of messages and its answer; or, of perftest, a stream."""
    size, both = int(row["size_bytes"]), row["operation"] == "bibandwidth"
    streams, window = row["program"].startswith("ib_"), min(row["window"] or _WINDOW, _WINDOW)
    builder = WorkloadBuilder(len(hosts), name=row["operation"])
    one, other = np.split(np.arange(len(hosts)), 2)
    if row["operation"] == "latency":
        reads = row["program"] == "ib_read_lat"
        there_bytes, part = (_REQUEST_BYTES, 1.0) if reads else (size, 0.5)
        builder.send(one, other, there_bytes)
        builder.recv(one, other, size)
        builder.recv(other, one, there_bytes)
        builder.send(other, one, size)
        return BenchmarkRun(builder.build(), hosts, lambda result: part * float(result.makespan_ns))
    for _ in range(window * (1 + streams)):
        for source, target in ((one, other), (other, one))[: 1 + both]:
            if streams:
                builder.put(source, target, size)
            else:
                builder.irecv(target, source, size)
                builder.isend(source, target, size)
    if not streams:
        builder.waitall(np.arange(len(hosts)))
        builder.send(other, one, _ANSWER_BYTES, tag=1)
        builder.recv(one, other, _ANSWER_BYTES, tag=1)
    bits = 8.0 * size

    def gbps(result: Any) -> float:
        if not streams:
            count = len(result.workload.messages) - len(one)  # without answers
            return bits * count / float(result.makespan_ns)
        # The time until the first message arrives is none of a long stream.
        arrived = result.messages()["arrived_ns"].sort()
        return bits * (len(arrived) - 1) / float(arrived[-1] - arrived[0])

    return BenchmarkRun(builder.build(), hosts, gbps)
