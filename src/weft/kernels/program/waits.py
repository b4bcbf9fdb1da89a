"""What the time of each rank is spent on: calculations, or waits for something else."""

from __future__ import annotations

import numpy as np

from weft.kernels.lean import lean_njit


@lean_njit()
def spent(program, calc_offset, calcs, phase, cpu, posted, ended, until, running, own, late):
    """Divide the time until the last operation of each rank has ended among phases.

    While calculations run, time belongs to the phase of that on the last processor. Else it
    belongs to what the next calculation, or the end of the rank, waits for: of the dependencies of
    an operation, the last one to be fulfilled is its cause; the time from there to the end of the
    operation belongs to the phase of the operation, the time before to its cause, and so on.

    `program`: the arrays `op_offset`, `dep_offset`, `dep`, `dep_on_start` and `match` of a
    `weft.workload.Workload`. `calc_offset`, int64 [ranks + 1], and `calcs`, int64: calculations of
    each rank that take time, by begin. `cpu`: int64 [calcs]: the processor of each, numbered
    without gaps. `posted`, `ended`: float64 [ops] in ns, below 0 for events that did not happen.
    `until`, `running`: float64 and int64 [processors], work space.

    Adds to `own`, float64 [phases], ns of all ranks; and to `late`, float64 [phases], the part in
    which the other side of a message was not posted.
    """
    op_offset, dep_offset, dep, on_start, match = program
    for rank in range(len(op_offset) - 1):
        last = op_offset[rank]
        if last == op_offset[rank + 1]:
            continue  # the rank has no operations
        for op in range(op_offset[rank], op_offset[rank + 1]):
            if ended[op] > ended[last]:
                last = op
        for processor in range(len(until)):
            until[processor] = 0.0
        now = 0.0
        for at in range(calc_offset[rank], calc_offset[rank + 1] + 1):
            is_end = at == calc_offset[rank + 1]
            op = np.int64(last) if is_end else calcs[at]
            begin = ended[op] if is_end else posted[op]
            # What runs until this calculation begins.
            while now < begin:
                busy = len(until) - 1
                while busy >= 0 and until[busy] <= now:
                    busy -= 1
                if busy < 0:
                    break
                then = min(begin, until[busy])
                own[running[busy]] += then - now
                now = then
            # What it waited for while nothing ran.
            time = begin
            while op >= 0 and time > now:
                cause = np.int64(-1)
                since = 0.0
                for edge in range(dep_offset[op], dep_offset[op + 1]):
                    before = np.int64(dep[edge])
                    free = ended[before]
                    if len(on_start) and on_start[edge]:
                        free = posted[before]
                    if cause < 0 or free > since:
                        cause, since = before, free
                start = max(since, now)
                own[phase[op]] += max(time - start, 0.0)
                other = np.int64(match[op])
                if other >= 0:
                    late[phase[op]] += max(min(posted[other], time) - start, 0.0)
                op, time = cause, min(time, since)
            now = max(now, begin)
            if not is_end:
                until[cpu[at]], running[cpu[at]] = ended[calcs[at]], phase[calcs[at]]
