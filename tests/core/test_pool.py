"""Runs over several processes: their results, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.pool_tasks import (
    Deadly,
    SlowToLoad,
    add,
    count_down,
    count_tasks,
    die,
    fail,
    fill,
    fork_and_die,
    join,
    linger,
    linger_and_tell,
    linger_in_part,
    log_and_wait,
    strike,
)
from tests.processes import PATIENCE_S

from weft.core.errors import InputError
from weft.core.pool import TRIES, Ended, Workers, cores, held_signals, run_all, time_left


def interrupt_at(number: int) -> Callable[[int, int], None]:
    def tell(ready: int, tasks: int) -> None:
        if ready == number:
            raise KeyboardInterrupt

    return tell


@pytest.mark.parametrize("processes", [1, 2, 9])
def test_results_are_in_the_order_of_the_tasks(processes: int) -> None:
    counts_seen: list[tuple[int, int]] = []
    result = run_all(add, 10, range(5), processes, lambda *counts: counts_seen.append(counts))
    assert result == ([10, 11, 12, 13, 14], True)
    assert counts_seen[0] == (0, 5)
    assert counts_seen[-1] == (5, 5)
    assert counts_seen == sorted(counts_seen)


@pytest.mark.parametrize("processes", [1, 2])
def test_no_tasks_give_a_complete_empty_result(processes: int) -> None:
    assert run_all(add, 10, [], processes) == ([], True)


def test_tasks_of_a_kind_are_done_by_one_process() -> None:
    with Workers(linger_and_tell, None, 2, kind=lambda number: number // 4) as workers:
        by = {ended.number: ended.value for ended in workers.run(enumerate(range(80)))}
    processes = [{by[4 * kind + each] for each in range(4)} for kind in range(20)]
    assert len(set.union(*processes)) == 2
    # Only the last tasks are shared, by the process that has nothing else to do.
    assert sum(len(each) > 1 for each in processes) <= 1


def test_every_process_has_one_copy_of_shared_data() -> None:
    shared: list[int] = []
    results, complete = run_all(count_tasks, shared, range(20), 2)
    assert complete
    assert shared == []
    for process in {process for _, process in results}:
        assert process != os.getpid()
        mine = [count for count, by in results if by == process]
        assert sorted(mine) == list(range(1, len(mine) + 1))


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interrupt_leaves_the_results_so_far(processes: int) -> None:
    results, complete = run_all(linger, None, [0, 1, 2], processes, interrupt_at(1))
    assert results == [-1, None, None]
    assert not complete
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_a_task_ends_the_run(processes: int) -> None:
    with pytest.raises(InputError, match="no way"):
        run_all(fail, None, range(3), processes)
    assert not multiprocessing.active_children()


def test_worker_processes_that_die_raise_one_error() -> None:
    with pytest.raises(InputError, match="worker processes died"):
        run_all(die, None, range(3), 2)
    assert not multiprocessing.active_children()


def ends(workers: Workers, tasks: list[Any]) -> dict[int, Ended]:
    with workers:
        return {each.number: each for each in workers.run(enumerate(tasks))}


def test_a_task_is_tried_again_when_its_worker_is_killed(tmp_path: Path) -> None:
    found = ends(Workers(strike, tmp_path / "once", 2), [0, 0, 0])
    assert [found[number].value for number in range(3)] == ["survived"] * 3


def test_a_task_that_kills_every_worker_is_given_up_and_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "once").touch()
    found = ends(Workers(strike, tmp_path / "once", 2), [0, signal.SIGKILL, 0, 0])
    assert [found[number].value for number in (0, 2, 3)] == ["survived"] * 3
    assert f"SIGKILL (is there enough memory?) in each of {TRIES} tries" in found[1].died


def test_the_death_of_a_worker_is_noticed_while_a_process_that_it_forked_lives(
    tmp_path: Path,
) -> None:
    with Workers(fork_and_die, tmp_path, 1) as workers:
        (ended,) = workers.run(iter([(0, 0)]))
    assert "SIGKILL" in ended.died
    forked = [int(path.name) for path in tmp_path.iterdir()]
    assert len(forked) == TRIES
    for process in forked:  # raises if it has ended: then nothing was tested
        os.kill(process, signal.SIGKILL)


def test_a_worker_finishes_its_task_when_it_is_terminated(tmp_path: Path) -> None:
    (tmp_path / "once").touch()
    found = ends(Workers(strike, tmp_path / "once", 1), [signal.SIGTERM] * 5)
    assert [found[number].value for number in range(5)] == ["survived"] * 5


def test_tasks_over_their_time_or_memory_are_ended_and_others_are_not() -> None:
    found = ends(Workers(linger, None, 1, limit_s=3.0), [0, 1, 0])
    assert [found[number].over for number in range(3)] == ["", "time", ""]
    assert found[1].wall_s >= 3.0
    found = ends(Workers(fill, None, 1, limit_bytes=300 << 20), [1, 400 << 20, 1])
    assert [found[number].over for number in range(3)] == ["", "memory", ""]
    assert (found[0].value, found[2].value) == (1, 1)


def test_what_tasks_have_in_common_is_cut_once() -> None:
    tasks = ["a common", "a", "a own", "b own", "b", "c fails", "c own", "c"]
    workers = Workers(linger_in_part, None, 1, limit_s=3.0, kind=lambda task: task[0])
    found = ends(workers, tasks)
    over = [tasks[number] for number in range(8) if found[number].over == "time"]
    assert over == ["a common", "a", "a own", "b own", "c own"]
    assert [tasks[number] for number in range(8) if found[number].wall_s > 2.9] == [
        "a common", "b own", "c own",
    ]  # fmt: skip


def test_a_task_knows_how_much_time_it_has_left() -> None:
    assert time_left() == float("inf")
    found = ends(Workers(count_down, None, 1, limit_s=600), [0, 1])
    assert all(500 < found[number].value <= 600 for number in range(2))
    assert ends(Workers(count_down, None, 1), [0])[0].value == float("inf")


def test_the_preparation_of_a_process_is_not_time_of_its_task() -> None:
    found = ends(Workers(add, 1, 1, limit_s=3.0), [SlowToLoad(0), 1])
    assert [found[number].value for number in range(2)] == [1, 2]


def test_a_task_is_not_blamed_for_the_time_of_the_one_before(tmp_path: Path) -> None:
    with Workers(log_and_wait, tmp_path, 1) as workers:

        def end_late() -> None:
            (worker,) = workers._workers
            if (tmp_path / "begun1").exists() and not (tmp_path / "go").exists():
                worker.over, worker.task_over = "time", 0
                worker.process.kill()
                (tmp_path / "go").touch()

        found = list(workers.run(iter([(1, 1)]), end_late))
    assert [(each.value, each.over) for each in found] == [(1, "")]


def test_no_task_is_begun_after_finish(tmp_path: Path) -> None:
    with Workers(log_and_wait, tmp_path, 1) as workers:

        def tick() -> None:
            if (tmp_path / "begun0").exists() and len(workers._workers[0].tasks) == 2:
                workers.finish()
                (tmp_path / "go").touch()

        assert [each.value for each in workers.run(enumerate(range(4)), tick)] == [0]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["begun0", "go"]


def test_large_tasks_and_results_do_not_wait_for_each_other() -> None:
    """Each is more than a connection holds."""
    large = "x" * (4 << 20)
    found = ends(Workers(join, large, 1), [large] * 3)
    assert [len(found[number].value) for number in range(3)] == [2 * len(large)] * 3


@pytest.mark.parametrize(
    ("how", "number", "text"),
    [(os._exit, 1, "if __name__"), (signal.raise_signal, signal.SIGKILL, "ended by SIGKILL")],
)
def test_workers_that_die_before_they_begin_are_not_started_for_ever(
    how: Callable[[int], Any], number: int, text: str
) -> None:
    with pytest.raises(InputError, match=text), Workers(add, Deadly(how, number), 1) as workers:
        list(workers.run(enumerate(range(3))))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("when", ["before", "after", "in an error"])
def test_held_signals_are_raised_in_the_end(when: str) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_signals() as watch:  # noqa: PT012
        if when == "after":
            watch(None)
        signal.raise_signal(signal.SIGINT)
        done.append(when)
        if when == "before":
            watch(None)
            done.append("too much")
        if when == "in an error":
            raise InputError("no way")
    assert done == [when]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_cores_are_at_least_one_and_at_most_those_of_the_machine() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


#: Program that signals its process group after the first task, as terminals and batch systems do.
SIGNALLED = """
import os, signal, sys
from tests.core.pool_tasks import linger
from weft.core.signals import ended_by, stoppable
from weft.core.pool import run_all

number = int(sys.argv[1])
with stoppable():
    results, complete = run_all(
        linger, None, [0, 1, 2], int(sys.argv[2]), lambda ready, _: ready and os.killpg(0, number)
    )
print(results, complete, *ended_by())
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, "interrupted 130"), (signal.SIGTERM, "terminated 143")]
)
def test_a_signal_to_all_processes_ends_the_run(
    number: signal.Signals, ending: str, processes
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", SIGNALLED, str(int(number)), str(processes)],
        check=False, capture_output=True, text=True, start_new_session=True, timeout=PATIENCE_S,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert child.stdout == f"[-1, None, None] False {ending}\n"
    assert child.stderr == ""
