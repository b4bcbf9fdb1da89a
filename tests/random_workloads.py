"""Random workloads for tests: any program that terminates, from a seed."""

from __future__ import annotations

import numpy as np

from weft.workload import Workload, WorkloadBuilder


def random_workload(
    seed: int, *, ranks: int = 6, steps: int = 40, largest_bytes: int = 60_000
) -> Workload:
    """Return messages in one order common to all ranks, so that no rank waits forever.

    Some messages block at one end. A message blocks at both ends only if its rendezvous can
    complete. There are calculations, puts with and without a release time, waits for some or for
    all operations, tags and communicators.
    """
    random = np.random.default_rng(seed)
    builder = WorkloadBuilder(ranks, name=f"random {seed}")
    comms = [0, builder.communicator(range(ranks), "other")]
    for step in range(steps):
        builder.phase(f"part {step % 3}")
        what = random.random()
        rank = int(random.integers(ranks))
        if what < 0.2:
            builder.calc(rank, float(random.uniform(0, 3000)))
            continue
        source, target = (int(end) for end in random.integers(ranks, size=2))
        size = int(random.integers(largest_bytes)) * int(random.random() > 0.1)
        tag, comm = int(random.integers(3)), comms[int(random.integers(2))]
        if what < 0.3:
            builder.put(source, target, size, release_ns=float(random.choice([0, 500, 4000])))
        elif what < 0.5 and source != target:
            builder.send(source, target, size, tag, comm)
            builder.recv(target, source, size + 5, tag, comm)
        elif what < 0.6:
            ends = np.arange(ranks)
            shift = int(random.integers(ranks))
            builder.sendrecv(
                ends, (ends + shift) % ranks, size, (ends - shift) % ranks, size, tag, comm
            )
        else:
            sent = builder.isend(source, target, size, tag, comm)
            got = builder.irecv(target, source, size, tag, comm)
            if random.random() < 0.3:
                builder.wait(source, sent)
            if random.random() < 0.3 and source != target:
                builder.wait(target, got)
        if random.random() < 0.1:
            builder.waitall([rank])
    builder.waitall()
    return builder.build()
