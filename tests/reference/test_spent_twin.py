"""Where the time of ranks goes, against a search of each moment's reason."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import weft
from tests.random_workloads import random_workload
from weft.workload import Kind, Workload, WorkloadBuilder

SEEDS = range(20)


def random_program(seed: int) -> Workload:
    """Return calculations on several processors that wait for ends and starts of others."""
    random = np.random.default_rng(seed)
    builder = WorkloadBuilder(4)
    ops: list[np.ndarray] = []
    for step in range(25):
        builder.phase(f"part {random.integers(4)}")
        with builder.stream(f"stream {random.integers(3)}"):
            ranks = np.arange(4)
            if random.random() < 0.3:
                builder.sendrecv(ranks, (ranks + 1) % 4, 30_000, (ranks - 1) % 4, 30_000, tag=step)
                continue
            times = random.integers(0, 4, 4) * 1000.0
            ops.append(builder.calc(ranks, times, cpu=int(random.integers(3))))
        if len(ops) > 3:
            on = ops[int(random.integers(len(ops) - 1))]
            builder.requires(ops[-1], on, start=bool(random.random() < 0.5))
    return builder.build()


def plain(result: weft.FlowResult) -> tuple[np.ndarray, np.ndarray]:
    """Return the time of each phase and its late part, ns of all ranks."""
    work, begin, end = result.workload, result.posted_ns, result.ended_ns
    own, late = np.zeros((2, len(work.phase_names)))
    starts = work.dep_on_start if len(work.dep_on_start) else np.zeros(len(work.dep), dtype=bool)

    def cause(op: int) -> tuple[int, float]:
        edges = range(work.dep_offset[op], work.dep_offset[op + 1])
        times = [(begin if starts[at] else end)[work.dep[at]] for at in edges]
        if not times:
            return -1, 0.0
        return int(work.dep[edges[int(np.argmax(times))]]), max(times)

    for rank in range(work.num_ranks):
        ops = np.arange(work.op_offset[rank], work.op_offset[rank + 1])
        calcs = [op for op in ops if work.kind[op] == Kind.CALC and end[op] > begin[op]]
        last = ops[np.argmax(end[ops])]
        marks = np.unique(np.concatenate([[0.0], begin, end]))
        for low, high in pairwise(marks):
            if low >= end[last]:
                break
            running = [op for op in calcs if begin[op] <= low < end[op]]
            if running:
                top = max(running, key=lambda op: work.cpu[op] if len(work.cpu) else 0)
                own[work.phase[top]] += high - low
                continue
            later = [op for op in calcs if begin[op] >= high]
            at = int(min(later, key=lambda op: begin[op])) if later else int(last)
            before, since = cause(at)
            while since >= high:
                at = before
                before, since = cause(at)
            own[work.phase[at]] += high - low
            other = int(work.match[at])
            late[work.phase[at]] += (high - low) * (other >= 0 and begin[other] >= high)
    return own, late


@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [random_program, random_workload])
def test_times_of_phases_have_the_reason_of_each_moment(make: object, seed: int) -> None:
    work = make(seed)  # type: ignore[operator]
    fabric = weft.fabric("xgft:2;2,4;1,2")
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), work, level="flow")
    own, late = plain(result)
    used = [len(np.unique(work.rank[work.phase == at])) for at in range(len(own))]
    rows = {row["phase"]: row for row in result.phases().to_dicts()}
    for at, name in enumerate(work.phase_names):
        if used[at]:
            row = rows[name]
            assert row["exposed_ns"] * used[at] == pytest.approx(own[at], abs=1e-6)
            assert row["late_ns"] * used[at] == pytest.approx(late[at], abs=1e-6)
    ends = np.zeros(work.num_ranks)
    np.maximum.at(ends, work.rank, result.ended_ns)
    named = zip(work.phase_names, used, strict=True)
    total = sum(rows[name]["exposed_ns"] * ranks for name, ranks in named if ranks)
    assert total == pytest.approx(ends.sum())
