"""Studies on a real Dask cluster of several processes, which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.processes import Starter, end, state_of, wait_for
from tests.serve_kills import free_port
from tests.study_kills import children, rows
from tests.study_processes import Study, computed_here, log_of
from tests.study_runs import LOG, logged, prepared, quick_file, registered

from weft.study.runs.store import Store

#: Prints the address of a cluster and the processes of its workers, and ends with its input.
CLUSTER = """
import json, sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=None,
        host="127.0.0.1", silence_logs=50,
    ) as cluster:
        pids = [each.pid for each in cluster.workers.values()]
        print(json.dumps([cluster.scheduler_address, pids]), flush=True)
        sys.stdin.read()
"""
#: Seconds to wait for a scheduler in these tests.
CONNECT_S = 2.0


@contextmanager
def cluster(
    folder: Path, workers: int, log: Path
) -> Iterator[tuple[subprocess.Popen[str], str, list[int]]]:
    """Yield the process of a cluster, the address of the scheduler and the worker processes."""
    script = folder / "cluster.py"
    script.write_text(CLUSTER)
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, str(script), str(workers)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": root, LOG: str(log)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        address, pids = json.loads(process.stdout.readline())
        yield process, address, pids
    finally:
        process.communicate()


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    log = tmp_path_factory.mktemp("log") / "log"
    also = f"import weft.study.runs.executors; weft.study.runs.executors._CONNECT_S = {CONNECT_S}\n"
    with closing(Starter(prepared(log) + also, fork=True)) as starter:
        yield starter


@pytest.fixture(scope="module")
def two(
    starter: Starter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, list[int]]]:
    """Return the address of a cluster of two workers, and their processes."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2, log_of(starter)) as (_, address, pids):
        yield address, pids


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered():
        yield


def test_results_are_the_same_when_a_worker_is_killed(
    starter: Starter, two: tuple[str, list[int]], tmp_path: Path
) -> None:
    address, pids = two
    study = Study(starter, quick_file(tmp_path, 20, seconds=0.1), "--scheduler", address)
    study.wait(lambda: study.stored() > 5)
    end(pids[0])
    assert "exit status 1" in study.wait_end()
    assert rows(study.store) == computed_here(study.file, tmp_path / "here")


@pytest.mark.slow
def test_runs_over_their_limits_are_recorded_and_others_go_on(
    starter: Starter, two: tuple[str, list[int]], tmp_path: Path
) -> None:
    # The limit is far above what a run without a wait takes on any machine.
    file = quick_file(tmp_path, 4, seconds=[0.0, 3600.0], keys="run_seconds = 6")
    study = Study(starter, file, "--scheduler", two[0])
    assert "exit status 1" in study.wait_end()
    with Store(study.store) as store:
        found = [(run.parameters["seconds"], run.status) for run in store.runs()]
    assert {status for seconds, status in found if seconds} == {"out of time"}
    assert {status for seconds, status in found if not seconds} == {"complete", "failed"}
    assert len(found) == 8


@pytest.mark.slow
def test_signals_finish_active_runs_and_end_them(
    starter: Starter, two: tuple[str, list[int]], tmp_path: Path
) -> None:
    address, pids = two
    study = Study(starter, quick_file(tmp_path, 60, seconds=0.2), "--scheduler", address)
    study.wait(lambda: study.stored() > 2)
    os.kill(study.pid, signal.SIGTERM)
    said = study.wait_end()
    assert "exit status 143" in said
    begun, _ = logged(study.log)
    # No run is lost: those that have begun are finished and stored, the others do not begin.
    assert len(rows(study.store)) == len(begun) < 60
    folder = tmp_path / "long"
    folder.mkdir()
    study = Study(starter, quick_file(folder, 6, seconds=3600.0), "--scheduler", address)
    study.wait(lambda: len(logged(study.log)[0]) >= 2)
    os.kill(study.pid, signal.SIGINT)
    study.wait(lambda: "finishing the active runs" in study.said)
    os.kill(study.pid, signal.SIGINT)
    assert "exit status 130" in study.wait_end()
    assert rows(study.store) == {}
    # The processes of the runs end, too.
    wait_for(lambda: not any(state_of(each) for pid in pids for each in children(pid)))


@pytest.mark.slow
def test_a_scheduler_that_goes_away_ends_the_study_and_its_results_are_kept(
    starter: Starter, tmp_path: Path
) -> None:
    with cluster(tmp_path, 1, log_of(starter)) as (process, address, pids):
        study = Study(starter, quick_file(tmp_path, 100, seconds=0.1), "--scheduler", address)
        study.wait(lambda: study.stored() > 2)
        os.killpg(process.pid, signal.SIGKILL)
        said = study.wait_end()
        for pid in pids:
            end(pid)
    assert "exit status 2" in said
    assert f"the Dask scheduler at {address} has gone" in said
    assert "Traceback" not in said, said
    here = computed_here(study.file, tmp_path / "here")
    assert rows(study.store).items() < here.items()


@pytest.mark.slow
def test_clusters_that_cannot_compute_are_refused(starter: Starter, tmp_path: Path) -> None:
    file = quick_file(tmp_path, 3)
    study = Study(starter, file, "--scheduler", f"tcp://127.0.0.1:{free_port()}")
    said = study.wait_end()
    assert "exit status 2" in said
    assert "no Dask scheduler answers at tcp://127.0.0.1:" in said
    assert "Traceback" not in said
    with cluster(tmp_path, 0, log_of(starter)) as (_, address, _):
        study = Study(starter, file, "--scheduler", address)
        assert f"the Dask scheduler at {address} has no workers" in study.wait_end()
    assert not study.store.exists()
