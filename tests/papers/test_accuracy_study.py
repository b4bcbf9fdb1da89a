"""The study of predictions beside measurements: rules, tables, a small run, the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weft.core.errors import InputError
from weft_papers.accuracy import tables
from weft_papers.accuracy.runs import MACHINES, routed, rule_of_thumb
from weft_papers.accuracy.study import AccuracyStudy, accuracy
from weft_papers.paper_registry import paper

PROJECT = Path(__file__).parents[2]
SHARED = PROJECT.parent / "shared" / "measured"
DANE = "on-premises/dane"


def row(**values: Any) -> dict[str, Any]:
    usual = {"system": DANE, "benchmark": "osu", "ranks": 1024, "each": 16, "ping_ns": 1000.0}
    return usual | values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # 25 bytes take a nanosecond at 200 Gb/s.
        ({"operation": "latency", "size_bytes": 25_000}, 2000.0),
        ({"operation": "bandwidth", "size_bytes": 25_000}, 8 * 25_000 / 2000),
        ({"operation": "allreduce", "size_bytes": 0}, 10 * 1000.0),
        ({"operation": "allreduce", "size_bytes": 2_500_000}, 20 * 1000 + 2 * 100_000),
        # Two adapters of 50 bytes a nanosecond for each of ten machines.
        ({"operation": "allreduce", "size_bytes": 2000}, 2 * 19 / 20 * 2000 / 100),
        ({"operation": "allgather", "size_bytes": 2000}, 19 / 20 * 2000 / 100),
        ({"operation": "alltoall", "size_bytes": 2000}, 19 / 20 * 2000 / 50),
        ({"operation": "sendrecv", "size_bytes": 2000}, 2000 / 50),
    ],
)  # fmt: skip
def test_the_rule_of_thumb_is_what_one_calculates(values: dict[str, Any], expected: float) -> None:
    if values["size_bytes"] == 2000:
        values |= {"system": "", "benchmark": "nccl-tests", "ranks": 20, "each": 2}
    assert rule_of_thumb(row(**values)) == pytest.approx(expected)


def test_errors_are_those_of_times() -> None:
    points = pl.DataFrame({
        "gbps": [None, 100.0], "value": [50.0, 100.0], "flow": [60.0, 80.0],
    })  # fmt: skip
    assert points.select(tables.error("flow")).to_series().to_list() == pytest.approx([20, 25])


def test_a_collective_is_pathological_beyond_ten_pings_a_step() -> None:
    points = pl.DataFrame({
        "operation": ["allreduce"] * 4 + ["latency"], "ranks": [1000] * 5,
        "own": [1.0, 1.0, None, 2.0, 1.0], "time_ns": [100.0, 101.0, 999.0, 101.0, 999.0],
    })  # fmt: skip
    found = points.select(tables.pathological("own")).to_series().to_list()
    assert found == [False, True, False, False, False]


def points_of(*parts: tuple[str, str, int, int, list[float]]) -> pl.DataFrame:
    """Return points by system, operation, machines and size, with ratios of predictions."""
    return pl.DataFrame([
        {
            "system": system, "operation": operation, "nodes": nodes, "each": 1, "library": "",
            "size_bytes": size, "gbps": None, "value": 100.0, "pathological": False,
            "flow": 100 * ratio, "packet": None, "fitted": 100 * ratio, "rule": 100 * ratio,
        }
        for system, operation, nodes, size, ratios in parts
        for ratio in ratios
    ], schema_overrides={"gbps": pl.Float64, "packet": pl.Float64}).with_columns(
        sizes=tables.size_class()
    )  # fmt: skip


def test_the_summary_has_large_sizes_of_nccl_and_all_of_mpi() -> None:
    points = points_of(
        ("", "allgather", 10, 127 * 2**20 + 80, [0.9] * 8 + [0.6] * 2),
        ("", "allgather", 10, 2**26, [9.0]),
        (DANE, "latency", 64, 8, [1.0, 1.1]), (DANE, "latency", 128, 8, [1.2]),
    )  # fmt: skip
    found = tables.summary(points).select("operation", "nodes", "points", "flow").rows()
    assert found == [
        ("allgather", 10, 10, "10.0 / 40.0"), ("latency", 64, 2, "5.0 / 9.0"),
        ("latency", 128, 1, "20.0 / 20.0"),
    ]  # fmt: skip


def test_errors_are_of_points_that_are_not_pathological() -> None:
    points = points_of((DANE, "allreduce", 64, 8, [1.5, 0.5, 1.1]), (DANE, "allreduce", 64, 8, [5]))
    sick = pl.Series([False] * 3 + [True])
    errors = tables.errors(points.with_columns(pathological=sick), "system")
    assert errors.select("points", "flow", "packet").row(0) == (3, "50.0 / 50.0", None)
    assert "null" not in tables.markdown(errors)


def test_fabrics_have_the_machines_and_rates_that_were_measured() -> None:
    for system, machine in MACHINES.items():
        built, _ = routed(system, 10 if machine.node else 32)
        assert len(built.machines) == (10 if machine.node else 32)
        assert built.cable_rate_gbps.min() == machine.gbps


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with a few measurements of NCCL and of OSU's programs."""
    folder = tmp_path / "measured"
    folder.mkdir()
    (folder / "nccl.csv").write_text(
        "collective,nodes,gpus_per_node,size_bytes,time_us\nsendrecv,10,8,1048576,90\n"
    )
    lines = ["benchmark,measure,system,nodes,size_bytes,value"]
    for nodes in (16, 32):
        lines += [f"latency,latency_us,{DANE},{nodes},{2**k},{1.5 + 2**k / 2e4}" for k in range(16)]
    lines += [
        f"allreduce,avg_latency_us,{DANE},16,8,30",
        f"allreduce,avg_latency_us,{DANE},16,16,999",
    ]
    (folder / "osu.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_small_study(measured: Path, tmp_path: Path) -> None:
    study = accuracy(measured=measured, processes=1, out=tmp_path / "out")
    assert isinstance(study, AccuracyStudy)
    names = {path.name for path in study.files}
    assert {"summary.md", "errors.md", "points-h100.md", "points-dane.md", "points.csv"} <= names
    assert {"h100-sendrecv.png", "dane-latency.png", "dane-allreduce.png"} <= names
    points = study.points
    assert len(points) == 1 + 32 + 2 * len(MACHINES[DANE].libraries)
    assert points["flow"].null_count() == points["packet"].null_count() == 0
    assert points["fitted"].null_count() == 1  # NCCL
    assert points.filter("pathological")["size_bytes"].unique().to_list() == [16]
    assert "1 channel a peer" in points["choice"][0]
    # The same latencies on machines with more switches between them are not explained.
    fits = tables.summary(points).filter(operation="latency")["fitted"]
    assert [float(each.partition(" ")[0]) > 10 for each in fits] == [False, True]


def test_bad_parameters(measured: Path) -> None:
    with pytest.raises(InputError, match="expected measured"):
        accuracy()
    with pytest.raises(InputError, match="unknown operation 'alreduce'"):
        accuracy(measured=measured, operations=("alreduce",))
    (measured / "other.csv").write_text(
        "operation,size_bytes,time_us,nodes,system\nlatency,8,1,2,x\n"
    )
    with pytest.raises(InputError, match="unknown system 'x'"):
        accuracy(measured=measured)
    assert paper["measured"].function is accuracy


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="no measurements")
def test_the_page_has_the_figures_of_this_version() -> None:
    text = (PROJECT / "docs" / "accuracy" / "points-h100.md").read_text()
    study = accuracy(measured=SHARED, operations=("reduce-scatter", "sendrecv"), packet=False)
    new = tables.points_text(study.points.filter(system=""))
    for line in tables.markdown(new.select("operation", "each", "size_bytes", "flow %")).split(
        "\n"
    ):
        if "reduce-scatter" in line or "sendrecv" in line:
            *place, error = line.strip("| ").split("|")
            at = [each.strip() for each in place]
            rows = [[c.strip() for c in each.split("|")] for each in text.split("\n")]
            assert any({*at, error.strip()} <= {*each} for each in rows), line
