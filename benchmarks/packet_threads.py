"""Two threads of the packet level against one, and a model of the cost of their windows.

Uniform traffic at 60 % of the capacity of 1,728 hosts, and an all-to-all of 1,024 hosts. Runs
with one and with two threads take turns; the least time of each counts. Wants a quiet machine: how
much of their processors the threads of the quickest run had is printed beside its time. With less
than nine tenths, the machine was not quiet, and two threads had as little of it as one.

The model of a run on k threads is ::

    set-up(k) + longest_hops(k) * hop(k) + letters(k) / k * letter + windows(k) * meeting(k)

`longest_hops` sums over windows the packet-hops of the part that has most of them: it contains
all imbalance, also that of chance. It, `letters` and `windows` are counted in runs with k threads,
for which a machine needs no k processors; `set-up` is the time of such a run up to its first
messages. `hop` is measured with one thread on a fabric of the size of a part, of which more fits
into the caches of its processor; parts below a quarter are taken to be as quick as a quarter. A
meeting of two, and a letter (a cache line that one processor writes and another reads) are
measured. A meeting is taken to grow in proportion to the number of threads, which all add to one
counter and read what all others tell. It is assumed that all processors are as quick as the first,
whatever the others do: memory is not a bottleneck.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

import weft
from weft.kernels.lean import lean_njit
from weft.kernels.teams import Team, meet
from weft.sim.packet.result import PacketResult
from weft.workload import Workload
from weft.workload.sources import open_loop

LOAD, RATE_GBPS, SIZE_BYTES, HEADER_BYTES = 0.6, 32.0, 2048, 26
PODS, DURATION_NS = 12, 200_000.0
LEAVES = 32
ROUNDS, LETTERS = 3, 256
#: A tenth of a second and more: threads that begin on one processor are soon moved apart.
EXCHANGES, EXCHANGES_OF_LETTERS = 1_000_000, 20_000
PREDICTED = (2, 4, 16, 64)
QUICKEST = 4  # parts
BEGIN_NS, LAST_NS = 100.0, 1e12


@lean_njit(nogil=True)
def _exchanges(barrier, boxes, member, letters, count):
    total = np.int64(member)
    for _ in range(count):
        for letter in range(letters):
            boxes[member, letter, 0] = total
        if not meet(barrier, 2):
            return np.int64(-1)
        for letter in range(letters):
            total += boxes[1 - member, letter, 0]
        if not meet(barrier, 2):
            return np.int64(-1)
    return total


def exchange_ns(letters: int, exchanges: int) -> float:
    """Return the time in which two threads write and read letters of a line, and meet twice."""
    boxes = np.zeros((2, LETTERS, 8), dtype=np.int64)
    with Team(2) as team:
        took = []
        for count in (10, *[exchanges] * ROUNDS):
            began = time.perf_counter()
            own = [(team.barrier, boxes, member, letters, count) for member in range(2)]
            team.run(_exchanges, own)
            took.append((time.perf_counter() - began) / count)
    return 1e9 * min(took[1:])


def uniform(parts: int) -> tuple[weft.Fabric, Workload]:
    """Return uniform traffic on a three-level fat tree, or on one of `parts` equal parts of it."""
    tree = weft.fabric(f"xgft:3;12,12,{PODS // parts};1,12,12,rate=4xQDR")
    payload = LOAD * SIZE_BYTES / (SIZE_BYTES + HEADER_BYTES)
    return tree, open_loop(
        tree.num_hosts, "uniform", load=payload, rate_gbps=RATE_GBPS, size=SIZE_BYTES,
        duration_ns=DURATION_NS, seed=1,
    )  # fmt: skip


def all_to_all(parts: int) -> tuple[weft.Fabric, Workload]:
    """Return an all-to-all of a two-level fat tree, or of one of `parts` equal parts of it."""
    pair = weft.fabric(f"xgft:2;32,{LEAVES // parts};1,32,rate=4xQDR")
    return pair, weft.collective_workload(f"alltoall:size={SIZE_BYTES}", pair.num_hosts)


class Timed(NamedTuple):
    """What counts of a run: keeping whole results would take fresh memory for each run."""

    run_s: float
    #: Part of its processors that it had.
    share: float
    hops: int
    windows: dict[str, int]
    #: Sum of the times of all arrivals.
    arrivals: int


def timed(
    fabric: weft.Fabric, work: Workload, threads: int, limit_ns: float | None = None
) -> Timed:
    """Run a workload up to a time."""
    routes = weft.route(fabric, "dmodk")
    began, used = time.perf_counter(), time.process_time()
    result = weft.simulate(
        fabric, routes, work, level="packet", threads=threads, max_time_ns=limit_ns
    )
    assert isinstance(result, PacketResult)
    expected = time.perf_counter() - began + (threads - 1) * result.run_s
    share = (time.process_time() - used) / expected
    arrivals = int(result.arrived_ps.sum())
    return Timed(result.run_s, share, result.num_hops, dict(result.windows), arrivals)


def quickest(fabric: weft.Fabric, work: Workload, threads: int, limit_ns: float) -> Timed:
    """Return the quickest of some runs."""
    return min(timed(fabric, work, threads, limit_ns) for _ in range(ROUNDS))


def main() -> None:
    """Print times, and the model beside them."""
    meeting = exchange_ns(0, EXCHANGES) / 2
    letter = (exchange_ns(LETTERS, EXCHANGES_OF_LETTERS) - 2 * meeting) / LETTERS
    print(f"two threads: {meeting:.0f} ns a meeting, {letter:.0f} ns a letter")
    for name, of in ((f"uniform traffic at {LOAD:.0%}", uniform), ("all-to-all", all_to_all)):
        fabric, work = of(1)
        timed(fabric, work, 1, BEGIN_NS)
        timed(fabric, work, 2, BEGIN_NS)
        runs = [[timed(fabric, work, threads) for threads in (1, 2)] for _ in range(ROUNDS)]
        one, two = map(min, zip(*runs, strict=True))
        assert one.arrivals == two.arrivals
        setup = {
            threads: quickest(fabric, work, threads, BEGIN_NS).run_s for threads in (1, *PREDICTED)
        }
        hop_ns = {1: 1e9 * (one.run_s - setup[1]) / one.hops}
        for parts in (2, QUICKEST):
            took, begin = (quickest(*of(parts), 1, limit) for limit in (LAST_NS, BEGIN_NS))
            hop_ns[parts] = 1e9 * (took.run_s - begin.run_s) / took.hops
        print(
            f"{name}, {fabric.num_hosts:,} hosts: 1 thread {one.run_s:.2f} s with "
            f"{one.share:.0%} of a processor, {hop_ns[1]:.0f} ns a packet-hop "
            f"({hop_ns[2]:.0f} on half of the fabric, {hop_ns[QUICKEST]:.0f} on a quarter); "
            f"2 threads {two.run_s:.2f} s with {two.share:.0%} of two, "
            f"{one.run_s / two.run_s:.2f} times as fast"
        )
        for threads in PREDICTED:
            run = two if threads == 2 else timed(fabric, work, threads)
            counts, hops = run.windows, run.hops
            took_ns = counts["longest_hops"] * hop_ns[min(threads, QUICKEST)]
            took_ns += counts["letters"] / threads * letter
            took_ns += counts["windows"] * meeting * threads / 2
            modelled = one.run_s / (setup[threads] + 1e-9 * took_ns)
            measured = f", measured {one.run_s / two.run_s:.2f}" if threads == 2 else ""
            print(
                f"  {threads:2d} threads: {1e3 * setup[threads]:.0f} ms of set-up, "
                f"{hops / counts['windows']:,.0f} packet-hops in a window, balance "
                f"{hops / counts['longest_hops'] / threads:.2f}, "
                f"{counts['letters'] / hops:.2f} letters a packet-hop: "
                f"model {modelled:.1f} times as fast{measured}"
            )
