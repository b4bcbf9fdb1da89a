"""The benchmark program, run by a real mpirun on this machine with small messages."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S

from weft_calibration.measurements import MEASUREMENT_COLUMNS, read_measurements
from weft_calibration.recovery import recover_penalties

pytestmark = pytest.mark.oracle


#: Runs the program with clocks that differ by 1,000 s from one process to the next.
SHIFTED = """
import sys
from types import SimpleNamespace
from mpi4py import MPI
from weft_calibration import measure

names = {name: getattr(MPI, name) for name in dir(MPI)}
rank = MPI.COMM_WORLD.rank
names["Wtime"] = lambda: MPI.Wtime() + 1000 * (rank % 3)
measure._load_mpi = lambda: SimpleNamespace(**names)
sys.exit(measure.main())
"""


def measure(processes: int, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    require_tools("mpirun")
    # Library threads and core binding only slow down processes that share cores.
    start = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes)]
    if os.geteuid() == 0:
        start.insert(1, "--allow-run-as-root")
    return subprocess.run(
        [*start, sys.executable, *words],
        cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.slow
def test_graphs_are_measured_into_one_file_for_the_calibration(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("pair: 0->1 0->2\n")
    run = measure(
        4, "-c", SHIFTED, "--graphs", "list.txt", "--size", "64KiB", "--repetitions", "5",
        "--warmup", "1", "--share-machines", "--machine-names", "--out", "m.csv", folder=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "2 graphs: m.csv" in run.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["list.txt", "m.csv"]
    result = read_measurements(tmp_path / "m.csv")
    facts = dict(result.metadata)
    assert facts["shared_machines"] == "yes"
    assert (facts["machines"], facts["processes"]) == ("1", "4")
    assert (facts["size_bytes"], facts["repetitions"], facts["warmup"]) == ("65536", "5", "1")
    assert "Open MPI" in facts["mpi"] or "MPICH" in facts["mpi"]
    assert {"weft", "mpi4py", "date", "machine_names"} <= facts.keys()
    alone, pair = result.measurements
    assert (alone.name, pair.name) == ("0->1", "pair")
    np.testing.assert_array_equal(pair.destinations, [1, 2])
    for graph in result.measurements:
        assert set(graph.statistics) | {
            "graph", "edge", "source", "destination", "size_bytes", "time_s", "start_s",
        } == set(MEASUREMENT_COLUMNS)  # fmt: skip
        order = ("min_s", "lower_s", "upper_s", "max_s")
        columns = np.array([graph.statistics[name] for name in order])
        assert (np.diff(columns, axis=0) >= 0).all()
        assert ((columns[1] <= graph.time_s) & (graph.time_s <= columns[2])).all()
        assert (graph.start_s >= 0).all()
        assert (graph.time_s < 500).all()  # offsets of clocks are not part of times
        assert (graph.statistics["repetitions"] == 5).all()
    # Processes that share cores start late; 0 therefore replaces the measured start times.
    together = [replace(graph, start_s=np.zeros(graph.num_edges)) for graph in result.measurements]
    recovered = recover_penalties(together)
    assert recovered.inverse_bandwidth_s_per_byte == alone.time_s[0] / 65536


@pytest.mark.slow
def test_a_bad_run_ends_all_processes_with_one_line_of_error(tmp_path: Path) -> None:
    program = ("-m", "weft_calibration.measure")
    run = measure(2, *program, "--all", "2", "--out", "m.csv", "--size", "1KiB", folder=tmp_path)
    assert run.returncode == 2
    assert run.stderr.count("weft: error:") == 1
    assert "graph '0->1' has a node 1 and needs 2 machines; there are 1" in run.stderr
    assert not list(tmp_path.iterdir())
