"""Several jobs on one fabric, combined into one workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.frozen import FrozenArrays
from weft.core.registry import did_you_mean
from weft.fabrics import Fabric, check_fabric
from weft.workload.placement import place
from weft.workload.placement.placement_registry import MAX_RANKS, allowed_hosts, is_explicit
from weft.workload.rolled import RolledWorkload
from weft.workload.workload import Kind, Multicast, TrainingStep, Workload

#: Whether ranks of several jobs may run on one host.
Overlap = Literal["refuse", "share"]
_OVERLAPS = ("refuse", "share")

#: Kinds of operations that have a communicator.
_ON_COMM = (Kind.SEND, Kind.RECV, Kind.KEY_REQUEST, Kind.KEY_DONE)
#: Largest number of operations of all jobs; operation numbers have 32 bits.
_MAX_OPS = 2**31 - 2
#: Latest start of a job in ns; double precision is coarser than 1 ns for larger numbers.
_LATEST_NS = 2.0**52


@dataclass(frozen=True, eq=False)
class Job:
    """Workload with its placement and start time."""

    #: Programs of the job's ranks.
    workload: Workload | RolledWorkload
    #: Name in messages and results; it has no colon, and names of several jobs must differ.
    name: str = "job"
    #: Placement of the job's ranks: a name with options, or the host number of each rank.
    placement: str | ArrayLike = "linear"
    #: Arguments of `weft.workload.placement.place`, which describes them.
    ranks_per_host: int | None = None
    distribution: str | None = None
    hosts: str | Sequence[str] | ArrayLike | None = None
    #: Start time of the job.
    start_ns: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class JobMix(FrozenArrays):
    """Jobs as one workload: the ranks of the first job, then those of the second and so on."""

    #: Operations of all jobs. Each job has its own communicators, including one for its world, so
    #: that messages of different jobs never match.
    workload: Any
    #: int32 [ranks]: host of each rank.
    hosts: NDArray[np.int32]
    #: int32 [ranks]: index of each rank's job.
    job: NDArray[np.int32]
    #: int64 [jobs + 1]: ranks of job ``j`` are ``first_rank[j]:first_rank[j + 1]``.
    first_rank: NDArray[np.int64]
    #: int64 [jobs + 1]: phases of job ``j`` are ``first_phase[j]:first_phase[j + 1]``.
    first_phase: NDArray[np.int64]
    #: Names of the jobs, and of their workloads.
    names: tuple[str, ...]
    workloads: tuple[str, ...]
    #: float64 [jobs]: start time of each job.
    start_ns: NDArray[np.float64]
    #: Assumptions that the readers of the workload files made.
    notes: tuple[str, ...] = field(default=())
    #: Step of training of each job, None for other jobs.
    steps: tuple[TrainingStep | None, ...] = field(default=())

    @cached_property
    def rank_in_job(self) -> NDArray[np.int32]:
        """int32 [ranks]: number of each rank within its job."""
        ranks = np.arange(self.workload.num_ranks) - self.first_rank[self.job]
        return ranks.astype(np.int32)

    def __repr__(self) -> str:
        jobs = ", ".join(
            f"{name} of {count} ranks"
            for name, count in zip(self.names, np.diff(self.first_rank).tolist(), strict=True)
        )
        return f"JobMix({jobs})"


def combine(jobs: Sequence[Job], fabric: Fabric, *, overlap: Overlap = "refuse") -> JobMix:
    """Place jobs one after another and combine them into one workload.

    With ``refuse``, a placement that picks hosts (linear, random, coordinates, block, cyclic) picks
    among the hosts without ranks of an earlier job; a placement that names hosts (a rank file, a
    host list, numbers) is refused if it names a host in use. With ``share``, every job is placed as
    if it were alone.

    `jobs`: jobs, in the order of their placement. `overlap`: ``refuse`` a host with ranks of two
    jobs, or let them ``share`` it.

    Returns the jobs as one workload; a single job keeps its communicators and phases.
    """
    placed = place_jobs(jobs, fabric, overlap=overlap)
    counts = [job.workload.num_ranks for job in jobs]
    return JobMix(
        workload=_merged(jobs),
        hosts=np.concatenate(placed),
        job=np.repeat(np.arange(len(jobs), dtype=np.int32), counts),
        first_rank=_starts(counts),
        first_phase=_starts([len(job.workload.phase_names) for job in jobs]),
        names=tuple(job.name for job in jobs),
        workloads=tuple(job.workload.name for job in jobs),
        start_ns=np.array([job.start_ns for job in jobs], dtype=np.float64),
        notes=tuple(
            f"{job.name}: {note}" if len(jobs) > 1 else note
            for job in jobs
            for note in job.workload.notes
        ),
        steps=tuple(job.workload.step for job in jobs),
    )


def place_jobs(
    jobs: Sequence[Job], fabric: Fabric, *, overlap: Overlap = "refuse"
) -> list[NDArray[np.int32]]:
    """Return the hosts of the ranks of jobs, placed one after another as by `combine`.

    Only the numbers of ranks and operations of the workloads are used.

    Returns int32 [ranks] for each job.
    """
    check_fabric(fabric)
    if overlap not in _OVERLAPS:
        raise InputError(
            f"unknown overlap {overlap!r}{did_you_mean(str(overlap), _OVERLAPS)}; expected refuse "
            "or share"
        )
    _check(jobs)
    placed: list[NDArray[np.int32]] = []
    user = np.full(fabric.num_hosts, -1, dtype=np.int32)  # index of the first job on each host
    for number, job in enumerate(jobs):
        try:
            hosts = _placed(job, fabric, user, jobs, overlap)
        except InputError as error:
            text = f"job {job.name}: {error.message}" if len(jobs) > 1 else error.message
            raise InputError(text, file=error.file, line=error.line) from None
        except NotApplicable as reason:
            raise NotApplicable(f"job {job.name}: {reason}") from None
        mine = np.unique(hosts)
        user[mine] = np.where(user[mine] < 0, number, user[mine])
        placed.append(hosts)
    return placed


def _check(jobs: Sequence[Job]) -> None:
    if not jobs:
        raise InputError("there is no job")
    seen: set[str] = set()
    for job in jobs:
        if not job.name or ":" in job.name or not job.name.isprintable():
            raise InputError(f"{job.name!r} is not a job name; expected one line without a colon")
        if job.name in seen:
            raise InputError(f"two jobs are called {job.name!r}; names of jobs must differ")
        seen.add(job.name)
        start = job.start_ns
        if not isinstance(start, int | float | np.number) or not 0 <= start <= _LATEST_NS:
            raise InputError(
                f"job {job.name}: a start at {start} ns is not possible; expected 0 to "
                f"{_LATEST_NS:.3g} ns"
            )
    ranks = sum(job.workload.num_ranks for job in jobs)
    rolled = [job for job in jobs if isinstance(job.workload, RolledWorkload)]
    if rolled and (len(jobs) > 1 or jobs[0].start_ns):
        raise NotApplicable(f"{rolled[0].workload.name} is rolled: it runs alone, from time 0")
    ops = sum(job.workload.num_ops for job in jobs if job not in rolled)
    for count, most, what in ((ranks, MAX_RANKS, "ranks"), (ops, _MAX_OPS, "operations")):
        if count > most:
            raise InputError(f"the jobs have {count:,} {what} together; expected at most {most:,}")


def _placed(
    job: Job, fabric: Fabric, user: NDArray[np.int32], jobs: Sequence[Job], overlap: Overlap
) -> NDArray[np.int32]:
    """Return the hosts of a job's ranks; `user` is the first job on each host, or -1."""
    options: dict[str, Any] = {
        "ranks_per_host": job.ranks_per_host,
        "distribution": job.distribution,
    }
    allowed = allowed_hosts(fabric, job.hosts)
    count = job.workload.num_ranks
    machine = fabric.machine_of_host
    busy = user >= 0
    taken = np.isin(machine[allowed], machine[busy])
    if overlap == "share" or is_explicit(job.placement):
        hosts = place(fabric, count, job.placement, hosts=job.hosts, **options)
        if overlap == "refuse":
            _refuse_shared(job, fabric, hosts, user, jobs)
        return hosts
    options["earlier"] = [np.flatnonzero(user == number) for number in range(user.max() + 1)]
    if not taken.any():
        return place(fabric, count, job.placement, hosts=job.hosts, **options)
    theirs = user[busy & np.isin(machine, machine[allowed])]
    others = ", ".join(jobs[number].name for number in np.unique(theirs))
    what = f"hosts of {fabric.name}" if job.hosts is None else "hosts that it may use"
    offered = f"{what} without other jobs ({np.count_nonzero(taken):,} have ranks of {others})"
    return place(fabric, count, job.placement, hosts=allowed[~taken], offered=offered, **options)


def _refuse_shared(
    job: Job,
    fabric: Fabric,
    hosts: NDArray[np.int32],
    user: NDArray[np.int32],
    jobs: Sequence[Job],
) -> None:
    machine = fabric.machine_of_host
    shared = np.flatnonzero(np.isin(machine[hosts], machine[user >= 0]))
    if len(shared):
        host = int(hosts[shared[0]])
        if user[host] < 0:  # another adapter of the machine
            host = int(np.flatnonzero((user >= 0) & (machine == machine[host]))[0])
        raise InputError(
            f"rank {shared[0]} is on host {fabric.host_names[host]}, where job "
            f'{jobs[int(user[host])].name} runs; jobs share hosts only with overlap "share"'
        )


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _merged(jobs: Sequence[Job]) -> Any:
    """Return one workload of all jobs, each with ranks, communicators and phases of its own."""
    parts: list[Any] = [job.workload for job in jobs]
    if len(jobs) == 1:
        return replace(parts[0], release_ns=_releases(jobs[0])) if jobs[0].start_ns else parts[0]
    ranks = _starts([part.num_ranks for part in parts])
    ops = _starts([part.num_ops for part in parts])
    deps = _starts([len(part.dep) for part in parts])
    # Communicator 0 has the ranks of all jobs; no job uses it.
    comms = 1 + _starts([len(part.comm_names) for part in parts])
    phases = _starts([len(part.phase_names) for part in parts])
    trees = _starts([int(part.tree.max(initial=-1)) + 1 for part in parts])

    def offsets(name: str, shifts: NDArray[np.int64]) -> NDArray[np.int64]:
        arrays = [getattr(part, name)[:-1] for part in parts]
        moved = [array + shift for array, shift in zip(arrays, shifts, strict=False)]
        return np.concatenate([*moved, shifts[-1:]])

    def shifted(name: str, shifts: NDArray[np.int64] | None) -> list[NDArray[Any]]:
        """Return an array of all parts; entries of 0 or more get the shift of their part."""
        arrays = [getattr(part, name) for part in parts]
        if shifts is None:
            return arrays
        return [
            np.where(array < 0, array, array + shift.astype(array.dtype))
            for array, shift in zip(arrays, shifts, strict=False)
        ]

    def joined(name: str, shifts: NDArray[np.int64] | None = None) -> NDArray[Any]:
        return np.concatenate(shifted(name, shifts))

    def optional(
        name: str, fill: Any, length: str, shifts: NDArray[np.int64] | None = None
    ) -> NDArray[Any]:
        """Concatenate an optional array, filled in parts without it; empty if no part has it."""
        arrays = shifted(name, shifts)
        if not any(len(array) for array in arrays):
            return np.asarray(arrays[0])
        return np.concatenate(
            [
                array if len(array) else np.full(len(getattr(part, length)), fill, array.dtype)
                for part, array in zip(parts, arrays, strict=True)
            ]
        )

    late = any(job.start_ns for job in jobs)
    release = optional("release_ns", 0.0, "kind")
    if late:
        release = np.concatenate([_releases(job) for job in jobs])
    return Workload(
        name=", ".join(job.name for job in jobs),
        op_offset=offsets("op_offset", ops),
        kind=joined("kind"),
        peer=joined("peer", ranks),
        size_bytes=joined("size_bytes"),
        tag=joined("tag"),
        comm=np.concatenate(
            [
                np.where(np.isin(part.kind, _ON_COMM), part.comm + np.int32(first), part.comm)
                for part, first in zip(parts, comms, strict=False)
            ]
        ),
        duration_ns=joined("duration_ns"),
        phase=joined("phase", phases),
        phase_names=tuple(
            f"{job.name}: {name}" if name else job.name
            for job in jobs
            for name in job.workload.phase_names
        ),
        dep_offset=offsets("dep_offset", deps),
        dep=joined("dep", ops),
        dep_on_start=optional("dep_on_start", False, "dep"),
        match=joined("match", ops),
        release_ns=release,
        cpu=optional("cpu", 0, "kind"),
        multicast=optional("multicast", Multicast.NONE, "kind"),
        tree=optional("tree", -1, "kind", trees),
        comm_names=(
            "all jobs",
            *(f"{job.name}: {name}" for job in jobs for name in job.workload.comm_names),
        ),
    )


def _releases(job: Job) -> NDArray[np.float64]:
    """Return the earliest start of each operation of a job, relative to time 0 of all jobs.

    The start of the job delays only operations without dependencies and those with a release time;
    all other operations depend on these.
    """
    part: Any = job.workload
    release = part.release_ns if len(part.release_ns) else np.zeros(part.num_ops)
    delayed = (release > 0) | (np.diff(part.dep_offset) == 0)
    return np.where(delayed, release + job.start_ns, release)
