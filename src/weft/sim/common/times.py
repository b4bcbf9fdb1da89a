"""Times in whole picoseconds, and the longest ones whose sums fit into 64 bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.workload import Workload

PS_PER_NS = 1000
#: Longest latency, 10 hours.
LONGEST_NS = 2**55 / 1000
#: Longest time of a run, 26 days; longest calculation, release time or message without contention,
#: 13 days.
LONGEST_RUN_PS, LONGEST_WAIT_PS = 2**61, 2**60
#: Longest times among the options of a run, ns.
LONGEST_OPTIONS_NS = {
    "overhead_ns": LONGEST_NS, "local_latency_ns": LONGEST_NS,
    "max_time_ns": LONGEST_RUN_PS / 1000, "snapshot_ns": LONGEST_RUN_PS / 1000,
}  # fmt: skip


def picoseconds(nanoseconds: Any) -> NDArray[np.int64]:
    """Return times in whole ps, rounded to the nearest."""
    if not np.any(nanoseconds):
        return np.zeros(np.shape(nanoseconds), dtype=np.int64)  # untouched zeros take no memory
    return np.rint(np.asarray(nanoseconds, dtype=np.float64) * PS_PER_NS).astype(np.int64)


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse times of a run that are too long."""
    for name, longest in LONGEST_OPTIONS_NS.items():
        given = options.get(name)
        if given is not None and not given <= longest:
            raise InputError(
                f"{name} must be at most {longest:.4g}, not {given:g}: times are counted in "
                "picoseconds"
            )


def check_latencies(fabric: Fabric) -> None:
    """Refuse latencies of cables that are too large."""
    latency = np.asarray(fabric.cable_latency_ns, dtype=np.float64)
    wrong = np.flatnonzero(~((latency >= 0) & (latency <= LONGEST_NS)))
    if len(wrong):
        cable = int(wrong[0])
        raise InputError(
            f"the cable {fabric.cable_name(cable)} has a latency of {latency[cable]:g} ns; "
            f"expected 0 to {LONGEST_NS:g}"
        )


def placed(workload: Workload, op: int, place: NDArray[np.int64] | None) -> str:
    """Return an operation in words; `place`: as for `check_durations`."""
    if place is None:
        return workload.describe(op)
    return f"operation {place[op]} of rank {workload.rank[op]}"


def check_durations(workload: Workload, place: NDArray[np.int64] | None = None) -> None:
    """Refuse calculations that take too long, and operations that begin too late.

    `place`: numbers of operations in the programs of their ranks, if `workload` has only some.
    """
    for what, times in (("takes", workload.duration_ns), ("begins at", workload.release_ns)):
        long = np.flatnonzero(~(np.asarray(times) * 1000.0 <= LONGEST_WAIT_PS))
        if len(long):
            op = int(long[0])
            raise InputError(
                f"{placed(workload, op, place)} {what} {times[op]:g} ns; at most "
                f"{LONGEST_WAIT_PS / 1000:.4g} ns are simulated"
            )
