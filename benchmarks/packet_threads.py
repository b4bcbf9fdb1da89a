"""Two threads of the packet level against one, and a model of the cost of their windows.

Uniform traffic at 60 % of the capacity of 1,728 hosts, and an all-to-all of 1,024 hosts. Runs
with one and with two threads take turns; the least time of each counts. Wants a quiet machine.

The model of a run on k threads is ::

    longest_hops(k) * hop + letters(k) / k * letter + windows(k) * meeting(k)

`longest_hops` sums over windows the packet-hops of the part that has most of them: it contains
all imbalance, also that of chance. It, `letters` and `windows` are counted in runs with k threads,
for which a machine needs no k processors. `hop` is measured with one thread. A meeting of two is
measured; it is taken to grow in proportion to the number of threads, which all add to one counter.
`letter` is the time of two cache lines that pass from one processor to another. It is assumed that
all processors are as quick as the first, whatever the others do: memory is not a bottleneck.
"""

from __future__ import annotations

import time

import numpy as np

import weft
from weft.kernels.lean import lean_njit
from weft.kernels.teams import Team, meet
from weft.sim.packet.result import PacketResult
from weft.workload.sources import open_loop

LOAD, RATE_GBPS, SIZE_BYTES, HEADER_BYTES = 0.6, 32.0, 2048, 26
TREE, DURATION_NS = "xgft:3;12,12,12;1,12,12,rate=4xQDR", 200_000.0
EXCHANGE, RANKS = "xgft:2;32,32;1,32,rate=4xQDR", 1024
ROUNDS, MEETINGS = 5, 20_000
LETTER_NS = 200.0
PREDICTED = (2, 4, 16, 64)


@lean_njit(nogil=True)
def _meetings(barrier, members, count):
    for _ in range(count):
        if not meet(barrier, members):
            return np.int64(0)
    return np.int64(count)


def meeting_ns() -> float:
    """Return the time of a meeting of two threads."""
    with Team(2) as team:
        took = []
        for count in (10, *[MEETINGS] * ROUNDS):
            began = time.perf_counter()
            team.run(_meetings, [(team.barrier, 2, count)] * 2)
            took.append((time.perf_counter() - began) / count)
    return 1e9 * min(took[1:])


def main() -> None:
    """Print times, and the model beside them."""
    meeting = meeting_ns()
    print(f"a meeting of two threads: {meeting:.0f} ns")
    tree, pair = weft.fabric(TREE), weft.fabric(EXCHANGE)
    payload = LOAD * SIZE_BYTES / (SIZE_BYTES + HEADER_BYTES)
    uniform = open_loop(
        tree.num_hosts, "uniform", load=payload, rate_gbps=RATE_GBPS, size=SIZE_BYTES,
        duration_ns=DURATION_NS, seed=1,
    )  # fmt: skip
    exchange = weft.collective_workload(f"alltoall:size={SIZE_BYTES}", RANKS)
    for name, fabric, work in (
        (f"{tree.num_hosts:,} hosts, {LOAD:.0%} load", tree, uniform),
        (f"all-to-all of {RANKS:,} hosts", pair, exchange),
    ):
        routes = weft.route(fabric, "dmodk")

        def run(threads: int, limit_ns: float | None = None) -> PacketResult:
            result = weft.simulate(
                fabric, routes, work, level="packet", threads=threads, max_time_ns=limit_ns  # noqa: B023
            )  # fmt: skip
            assert isinstance(result, PacketResult)
            return result

        run(1, 100.0)
        run(2, 100.0)
        runs = [[run(threads) for threads in (1, 2)] for _ in range(ROUNDS)]
        one, two = (min(each, key=lambda result: result.run_s) for each in zip(*runs, strict=True))
        assert (one.arrived_ps == two.arrived_ps).all()
        hop_ns = 1e9 * one.run_s / one.num_hops
        print(
            f"{name}: 1 thread {one.run_s:.2f} s, {hop_ns:.0f} ns a packet-hop; "
            f"2 threads {two.run_s:.2f} s, {one.run_s / two.run_s:.2f} times as fast"
        )
        for threads in PREDICTED:
            result = two if threads == 2 else run(threads)
            counts = result.windows
            took = counts["longest_hops"] * hop_ns
            took += counts["letters"] / threads * LETTER_NS
            took += counts["windows"] * meeting * threads / 2
            hops = result.num_hops / counts["windows"]
            measured = f", measured {one.run_s / two.run_s:.2f}" if threads == 2 else ""
            print(
                f"  {threads:2d} threads: {hops:,.0f} packet-hops in a window, balance "
                f"{result.num_hops / counts['longest_hops'] / threads:.2f}, "
                f"{counts['letters'] / result.num_hops:.2f} letters a packet-hop: "
                f"model {1e9 * one.run_s / took:.1f} times as fast{measured}"
            )
