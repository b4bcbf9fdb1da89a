"""Writing GOAL, the schedule language of LogGOPSim; see `weft.workload.formats.goal`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics.formats.format_registry import printable
from weft.workload.formats.goal import ANY, MAX_NS
from weft.workload.formats.workload_format_registry import workload_writer
from weft.workload.workload import Kind, Workload


@workload_writer("goal", suffixes=(".goal",))
def write(workload: Workload, *, whole_ns: bool = False) -> str:
    """GOAL schedules, the text form that LogGOPSim and its relatives take.

    All that a workload waits for is written out, so that reading gives the same again. GOAL knows
    no communicators: a tag on one, and a tag that GOAL takes for any tag, becomes a number that
    is not in use, one for each, so that the same messages match; comments at the top name them.

    Parameters
    ----------
    workload
        What to write.
    whole_ns
        Round the durations of calculations to nanoseconds, as GOAL has no others.

    Raises
    ------
    NotApplicable
        On a put, a routing key, a release time, or a calculation that does not last whole
        nanoseconds: GOAL has none of these.
    """
    durations = _durations(workload, whole_ns)
    _check(workload)
    tags, renamed = _tags(workload)
    lines = [f"// {printable(workload.name)}"] if workload.name else []
    lines += [f"// {text}" for text in renamed]
    lines += [f"num_ranks {workload.num_ranks}", ""]
    kind, peer, size = (a.tolist() for a in (workload.kind, workload.peer, workload.size_bytes))
    cpu = workload.cpu.tolist() if len(workload.cpu) else None
    offset, dep_offset = workload.op_offset.tolist(), workload.dep_offset.tolist()
    dep, on_start = workload.dep.tolist(), workload.dep_on_start.tolist()
    for rank in range(workload.num_ranks):
        lines.append(f"rank {rank} {{")
        first = offset[rank]
        late: list[str] = []
        for op in range(first, offset[rank + 1]):
            label = f"l{op - first}"
            if kind[op] == Kind.SEND:
                lines.append(f"{label}: send {size[op]}b to {peer[op]} tag {tags[op]}")
            elif kind[op] == Kind.RECV:
                lines.append(f"{label}: recv {size[op]}b from {peer[op]} tag {tags[op]}")
            else:
                on = f" cpu {cpu[op]}" if cpu and cpu[op] else ""
                lines.append(f"{label}: calc {durations[op]}{on}")
            for at in range(dep_offset[op], dep_offset[op + 1]):
                word = "irequires" if on_start and on_start[at] else "requires"
                # LogGOPSim wants a label to be there before it is named.
                where = lines if dep[at] < op else late
                where.append(f"{label} {word} l{dep[at] - first}")
        lines += [*late, "}", ""]
    return "\n".join(lines)


def _durations(workload: Workload, whole_ns: bool) -> list[int]:
    durations = workload.duration_ns
    whole = np.rint(durations)
    broken = np.flatnonzero(whole != durations)
    if len(broken) and not whole_ns:
        raise NotApplicable(
            f"{_first(workload, broken)}: GOAL has whole nanoseconds only; the option whole_ns "
            "rounds"
        )
    long = np.flatnonzero(whole > MAX_NS)
    if len(long):
        raise NotApplicable(f"{_first(workload, long)} is longer than 2^53 ns")
    return whole.astype(np.int64).tolist()  # type: ignore[no-any-return]


def _check(workload: Workload) -> None:
    kinds = {
        Kind.PUT: "GOAL has no message without a receive",
        Kind.KEY_REQUEST: "GOAL has no routing keys",
        Kind.KEY_DONE: "GOAL has no routing keys",
    }
    for kind, why in kinds.items():
        ops = np.flatnonzero(workload.kind == kind)
        if len(ops):
            raise NotApplicable(f"{_first(workload, ops)}: {why}")
    released = np.flatnonzero(workload.release_ns)
    if len(released):
        op = int(released[0])
        raise NotApplicable(
            f"{workload.describe(op)} does not start before {workload.release_ns[op]:g} ns; "
            "GOAL has no release times"
        )


def _first(workload: Workload, ops: NDArray[np.int64]) -> str:
    more = f" (and {len(ops) - 1} more)" if len(ops) > 1 else ""
    return workload.describe(int(ops[0])) + more


def _tags(workload: Workload) -> tuple[list[int], list[str]]:
    """Tags of all operations in GOAL, and what those that are not kept as they are were before."""
    tags = workload.tag.view(np.uint32).astype(np.int64)
    message = (workload.kind == Kind.SEND) | (workload.kind == Kind.RECV)
    moved = np.flatnonzero(message & ((workload.comm != 0) | (tags == ANY)))
    if not len(moved):
        return tags.tolist(), []
    kept = set(np.unique(tags[message & (workload.comm == 0)]).tolist())
    pairs, of = np.unique(
        np.stack([workload.comm[moved], workload.tag[moved]]), axis=1, return_inverse=True
    )
    free = (number for number in range(ANY) if number not in kept)
    names = [next(free) for _ in range(pairs.shape[1])]
    tags[moved] = np.array(names, dtype=np.int64)[of.reshape(-1)]
    said = [
        f"tag {name} is tag {tag} of communicator {printable(workload.comm_names[comm])}"
        for name, (comm, tag) in zip(names, pairs.T.tolist(), strict=True)
    ]
    return tags.tolist(), said
