"""Load sweeps, searches for the saturation load, `weft sweep` and its figure."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from tests.processes import PATIENCE_S, wait_for

import weft
from weft.core.errors import InputError, NotApplicable
from weft.report.load_curves import load_curves, write_load_curves
from weft.sim.packet import Hardware
from weft.sim.sweep import SATURATION_COLUMNS, SWEEP_COLUMNS, saturation_load, sweep
from weft.sim.sweep import settings as sweeps
from weft.sim.sweep.series import ends_first
from weft.sim.sweep.settings import LoadSeries, TrafficSettings, resolved

#: Four hosts and two uplinks per leaf: uniform traffic saturates at 2 / (4 * 12 / 15) = 0.625.
TREE = "xgft:2;4,4;1,2"
SHORT = {"level": "flow", "measure": "20us"}


@pytest.fixture(scope="module")
def tree():
    return weft.fabric(TREE)


@pytest.fixture(scope="module")
def swept(tree) -> pl.DataFrame:
    return sweep(
        tree, ["dmodk", "updn"], loads=(0.2, 0.8), level="flow", measure="60us", processes=1
    )


def test_a_row_for_each_engine_and_load_with_every_column(swept) -> None:
    assert dict(swept.schema) == {name: column.dtype for name, column in SWEEP_COLUMNS.items()}
    assert swept.select("engine", "load").rows() == [
        ("dmodk", 0.2), ("dmodk", 0.8), ("updn", 0.2), ("updn", 0.8),
    ]  # fmt: skip
    assert swept["status"].to_list() == ["complete"] * 4
    assert swept["saturated"].to_list() == [False, True] * 2
    assert swept["offered_load"].to_list() == pytest.approx([0.2, 0.8] * 2, rel=0.05)
    row = swept.row(0, named=True)
    assert row["accepted_load"] == pytest.approx(row["offered_load"], rel=0.02)
    assert row["latency_min_ns"] <= row["latency_p50_ns"] <= row["latency_p95_ns"]
    assert row["latency_p95_ns"] <= row["latency_p99_ns"] <= row["latency_p99_9_ns"]
    assert row["latency_p99_9_ns"] <= row["latency_max_ns"]
    # A packet of 2,048 bytes and a header at 200 Gb/s crosses two cables and one switch, or four
    # cables and three switches.
    assert row["latency_min_ns"] == pytest.approx((2048 + 26) * 8 / 200 + 2 * 10 + 100)


def test_traffic_is_equal_for_all_engines_and_differs_by_load(swept) -> None:
    assert swept["offered_load"][0] == swept["offered_load"][2]
    assert swept["seed"][0] == swept["seed"][2] != swept["seed"][1]


def test_destinations_depend_on_the_load_if_drawn_per_message(tree) -> None:
    uniform = resolved(tree, TrafficSettings(pattern="uniform", measure="20us"))
    one, other = (uniform.workload(16, 0.5, seed) for seed in (1, 2))
    assert (one.name, other.name) == tuple(
        f"open loop uniform:seed={seed} at 0.5 of 200 Gb/s" for seed in (1, 2)
    )
    length = min(len(one.peer), len(other.peer))
    assert np.mean(one.peer[:length] == other.peer[:length]) < 0.5
    fixed = resolved(tree, TrafficSettings(pattern="uniform:seed=3", measure="20us"))
    assert "uniform:seed=3 at" in fixed.workload(16, 0.5, 1).name
    for pattern in ("random-permutation", "hot-spot:fraction=1"):
        same = resolved(tree, TrafficSettings(pattern=pattern, measure="20us"))
        ends = [np.unique(same.workload(16, 0.9, seed).peer) for seed in (1, 2)]
        assert np.array_equal(*ends)


def test_repeated_loads_run_once(tree) -> None:
    table = sweep(tree, "dmodk", loads=(0.4, 0.1, 0.4), processes=1, **SHORT)
    assert table["load"].to_list() == [0.1, 0.4]


def test_sources_that_send_nothing_do_not_count(tree) -> None:
    # Half of the hosts send to the other half. The load is a mean over the senders only.
    table = sweep(tree, "dmodk", loads=(0.2,), pattern="bisect", processes=1, **SHORT)
    assert table["offered_load"][0] == pytest.approx(0.2, rel=0.15)


def test_the_result_does_not_depend_on_processes(tree) -> None:
    settings = {"loads": (0.2, 0.4, 0.6), **SHORT}
    alone = sweep(tree, "dmodk", processes=1, **settings)
    assert alone.equals(sweep(tree, "dmodk", processes=2, **settings))


def test_the_saturation_load_is_the_capacity_of_the_uplinks(tree) -> None:
    table = saturation_load(
        tree, ["dmodk", "hdor"], resolution=0.03, processes=1, level="flow", measure="60us"
    )
    assert dict(table.schema) == {name: column.dtype for name, column in SATURATION_COLUMNS.items()}
    row = table.row(0, named=True)
    assert row["saturated_load"] - row["sustained_load"] <= 0.03
    assert row["saturation_load"] == pytest.approx(0.625, abs=0.05)
    assert row["runs"] == 7
    assert table.row(1, named=True)["status"] == "does not fit"
    free = saturation_load(
        weft.fabric("xgft:1;4;1"), "dmodk", highest=0.5, processes=1, **SHORT
    ).row(0, named=True)
    assert (free["sustained_load"], free["saturated_load"], free["runs"]) == (0.5, None, 1)


def test_an_interrupt_keeps_finished_runs_and_marks_the_others(tree, monkeypatch) -> None:
    def measure_once(*arguments: object) -> object:
        if arguments[2] == 0.4:
            raise KeyboardInterrupt
        return measure_load(*arguments)

    measure_load = sweeps.measure_load
    monkeypatch.setattr(sweeps, "measure_load", measure_once)
    table = sweep(tree, "dmodk", loads=(0.2, 0.4, 0.6), processes=1, **SHORT)
    assert table["load"].to_list() == [0.2, 0.4, 0.6]
    assert table["status"].to_list() == ["complete", "interrupted", "complete"]
    assert table["latency_mean_ns"].null_count() == 1
    assert table["reason"].to_list()[1] == "the sweep was interrupted"


@pytest.mark.parametrize("number", [*range(1, 12), 1000])
def test_the_first_loads_of_a_sweep_are_spread_over_its_range(number: int) -> None:
    order = ends_first(number)
    assert sorted(order) == list(range(number))
    assert order[:2] == [0, number - 1][:number]
    for known in range(2, number):
        gaps = np.diff(sorted(order[:known]))
        assert max(gaps) <= 2 * (min(gaps) + 1)
    assert ends_first(9) == [0, 8, 4, 2, 6, 1, 3, 5, 7]


def test_failed_runs_are_rows_unless_all_runs_fail(tree, monkeypatch) -> None:
    def fail(*arguments: object) -> object:
        if arguments[2] in bad:
            raise InputError("no way")
        return measure_load(*arguments)

    measure_load = sweeps.measure_load
    monkeypatch.setattr(sweeps, "measure_load", fail)
    bad = {0.4}
    table = sweep(tree, "dmodk", loads=(0.2, 0.4), processes=1, **SHORT)
    assert table.select("status", "reason").rows() == [("complete", None), ("failed", "no way")]
    bad = {0.2, 0.4}
    with pytest.raises(InputError, match="no way"):
        sweep(tree, "dmodk", loads=(0.2, 0.4), processes=1, **SHORT)


def test_an_unsuitable_engine_is_a_row_beside_others_and_an_error_alone(tree) -> None:
    table = sweep(tree, ["hdor", "dmodk"], loads=(0.2,), processes=1, **SHORT)
    assert table["status"].to_list() == ["does not fit", "complete"]
    with pytest.raises(NotApplicable, match="hdor"):
        sweep(tree, "hdor", loads=(0.2,), processes=1, **SHORT)


def test_default_windows_have_the_documented_lengths() -> None:
    for spec, times in (("xgft:2;4,4;1,2", 4000), ("xgft:2;8,8;1,8", 1562.5)):
        traffic = resolved(weft.fabric(spec), TrafficSettings(size=4096))
        assert traffic.measure_ns == pytest.approx(times * 4096 * 8 / 200)
        assert traffic.warmup_ns == traffic.cooldown_ns == traffic.measure_ns / 4
        assert traffic.drain_ns == 10 * traffic.stop_ns


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loads": ()}, "loads must not be empty"),
        ({"loads": (0.0,)}, "load must be at least"),
        ({"loads": ("high",)}, "a load must be a number"),
        ({"processes": 0}, "processes must be at least 1, not 0"),
        ({"level": "cell"}, "unknown level 'cell'"),
        ({"level": "static"}, "the static level has no load"),
        ({"policy": "ecmp"}, "the flow level has no policy; the packet and the flit level have it"),
        ({"measure": "0s"}, "measure: '0s' does not fit: expected a number greater than 0"),
        ({"warmup": "soon"}, "warmup: 'soon'"),
        ({"size": 0}, "size: 0 does not fit: expected 1 or more"),
        ({"seed": -1}, "seed: -1 does not fit: expected 0 or more"),
        ({"interarrival": "bursty"}, "interarrival: 'bursty' does not fit"),
        ({"rate_gbps": 0.0}, "rate_gbps: 0.0 does not fit: expected a number greater than 0"),
        ({"pattern": "unifrom"}, "unknown"),
        ({"sise": 3}, "a sweep at the flow level has no 'sise' (did you mean 'size'?)"),
        ({"hardware": 3}, "hardware: 3 does not fit: expected a Hardware"),
        ({"loads": 0.1}, "loads must be a list of numbers, not 0.1"),
        ({"processes": 1.5}, "processes must be a whole number, not 1.5"),
        ({"drain": "1e30s", "level": "packet"}, "warmup, measure, cooldown and drain are 1e+39 ns"),
        ({"seed": "x"}, "seed: 'x' does not fit: expected a whole number"),
        ({"seed": 1.5}, "seed: 1.5 does not fit: expected a whole number"),
        ({"rate_gbps": "a"}, "rate_gbps: 'a' does not fit: expected a number"),
        ({"rate_gbps": float("nan")}, "rate_gbps"),
        ({"policy": 3, "level": "packet"}, "policy must be one value or a list, not 3"),
        ({"pattern": 3}, "pattern: 3 does not fit: expected text"),
        ({"overhead": 1}, "has no 'overhead' (did you mean 'overhead_ns'?)"),
        ({"lids": "hash"}, "has no lids; the packet level has it"),
        ({"snapshot_ns": 1, "level": "packet"}, "packet level has no 'snapshot_ns'"),
        ({"overhead_ns": "x"}, "overhead_ns: 'x' does not fit"),
    ],
)
def test_bad_settings_are_refused(tree, settings, message) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        sweep(tree, "dmodk", **{"level": "flow", "loads": (0.1,), **settings})


def test_bad_engines_and_resolutions_are_refused(tree) -> None:
    with pytest.raises(InputError, match="routes must be one value or a list, not 3"):
        sweep(tree, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="routes must be an engine by name or Routes, not 3"):
        sweep(tree, [3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="resolution: 'fine' does not fit"):
        saturation_load(tree, resolution="fine")  # type: ignore[arg-type]


def test_options_of_the_simulator_take_effect(tree) -> None:
    settings = {"loads": (0.2,), "measure": "10us", "processes": 1}
    plain, late = (
        sweep(tree, "dmodk", **options, **settings)["latency_min_ns"][0]
        for options in ({}, {"overhead_ns": 500})
    )
    assert late > plain + 499


def test_the_default_policy_depends_on_the_routes(tree) -> None:
    settings = {"loads": (0.1,), "measure": "5us", "processes": 1}
    table = sweep(tree, ["dmodk", "ecmp"], **settings)
    assert table.select("engine", "policy").rows() == [
        ("dmodk", "deterministic"), ("ecmp", "ecmp"),
    ]  # fmt: skip
    ugal = sweep(weft.fabric("dragonfly:p=1,a=2,h=1"), "ugal", **settings)
    assert ugal["policy"].to_list() == ["ugal"]


def test_sweeps_with_different_hardware_are_separate_curves(tree) -> None:
    settings = {"loads": (0.1, 0.2), "measure": "5us", "processes": 1}
    usual = sweep(tree, "dmodk", **settings)
    other = sweep(tree, "dmodk", hardware=Hardware(queues="voq"), **settings)
    assert {*usual["hardware"], *other["hardware"]} == {"usual", "queues=voq"}
    labels = [text.get_text() for text in load_curves([usual, other]).legends[0].get_texts()]
    assert labels == ["default hardware", "queues=voq"]
    assert sweep(tree, "dmodk", level="flow", **settings)["hardware"].to_list() == [None] * 2


# -- the command -----------------------------------------------------------------------------------

WORDS = ("sweep", TREE, "--engine", "dmodk", "--level", "flow", "--measure", "20us")


def sweep_command(capsys, *words: object) -> tuple[int, str, str]:
    from weft.cli import main

    status = main([*WORDS, *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command_prints_writes_and_draws(capsys, tmp_path) -> None:
    table, plot = tmp_path / "sweep.csv", tmp_path / "curves.png"
    status, out, err = sweep_command(
        capsys, "--loads", "0.2:0.8:0.3", "--output", table, "--plot", plot, "--processes", 1
    )
    assert (status, err) == (0, "")
    assert "uniform, messages of 2,048 B, load 1 is 200 Gb/s; level flow" in out
    rows = [line for line in out.splitlines() if re.match(r"│ +\d", line)]
    assert len(rows) == 3
    assert "saturated" in rows[2]
    assert re.search(r"dmodk: sustains 0\.(49|5)", out)
    assert pl.read_csv(table)["load"].to_list() == [0.2, 0.5, 0.8]
    assert plot.read_bytes().startswith(b"\x89PNG")
    # The command draws the table of an earlier sweep beside a new sweep.
    other = tmp_path / "both.svg"
    status, _, err = sweep_command(
        capsys, "--loads", "0.2,0.3", "--also", table, "--plot", other, "--seed", 4
    )
    assert (status, err) == (0, "")
    assert other.read_bytes().startswith(b"<?xml")
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["both.svg", "curves.png", "sweep.csv"]


def test_the_command_reports_failures_and_unsuitable_engines_once(capsys, monkeypatch) -> None:
    def fail(*arguments: object) -> object:
        if arguments[2] > 0.3:
            raise InputError("no way")
        return measure_load(*arguments)

    measure_load = sweeps.measure_load
    monkeypatch.setattr(sweeps, "measure_load", fail)
    status, out, _ = sweep_command(
        capsys, "--engine", "hdor", "--loads", "0.2,0.4,0.5", "--processes", 1
    )
    assert status == 0
    assert "dmodk: failed at 0.400 (and 1 more): no way" in out
    assert re.search(r"dmodk: sustains 0\.(19|2)", out)
    assert out.count("does not fit") == 1
    assert "hdor: does not fit: s1-0 and s1-1 share two lines" in out


def test_the_command_finds_the_saturation_load(capsys) -> None:
    status, out, _ = sweep_command(capsys, "--loads", "0.3", "--saturation", "0.2")
    assert status == 0
    assert "Saturation" in out
    assert re.search(r"dmodk +│ +0\.\d+ │ +0\.\d+ │ +0\.\d+ │ +4 │", out)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--loads", "0.9:0.1:0.1"), "--load 0.9:0.1:0.1: expected FIRST:LAST:STEP"),
        (("--loads", "0.1:0.2"), "expected FIRST:LAST:STEP"),
        (("--loads", "low"), "expected FIRST:LAST:STEP or numbers"),
        (("--loads", "0.1:0.9:1e-9"), "expected at most 1,000 loads"),
        (("--loads", "-0.1"), "load must be at least"),
        (("--hardware", "quueues=voq"), "did you mean"),
        (("--hardware", "speedup=0"), "--hardware: speedup: '0' does not fit: expected 1 or more"),
        (("--hardware", "mtu=1KiB,buffer=512"), "a packet of 1024 + 26 bytes needs 17"),
        (("--hardware", "speedup=1", "--hardware", "speedup=1"), "given twice"),
        (("--hardware", "queues=voq"), "--hardware queues goes with --level packet"),
        (("--policy", "ecmp"), "--policy requires --level packet"),
        (("--sharing", "fair"), "--sharing: 'fair' does not fit: expected 'maxmin', 'penalty' or"),
        (("--plot", "curves.gif"), "expected a name that ends in .png"),
        (("--output", "sweep.txt"), "expected a name that ends in .csv"),
        (("--output", "/nowhere/sweep.csv"), "does not exist"),
        (("--also", "sweep.csv"), "--also requires --plot"),
        (("--also", "none.csv", "--plot", "p.png"), "cannot be read"),
        (("--saturation", "0"), "a resolution must be"),
        (("--size", "0"), "--size: '0' does not fit: expected 1 or more"),
        (("--pattern", "unifrom"), "unknown traffic pattern"),
    ],
)
def test_bad_input_is_one_error_and_status_2(capsys, words, message) -> None:
    status, out, err = sweep_command(capsys, *words)
    assert status == 2
    assert err.count("\n") == 1
    assert message in err
    assert "│" not in out or "--saturation" in words


def test_a_table_without_the_columns_of_a_sweep_is_refused(capsys, tmp_path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    status, _, err = sweep_command(capsys, "--also", other, "--plot", tmp_path / "p.png")
    assert status == 2
    assert "has no column fabric" in err


#: Runs the command, and interrupts its process group as soon as one run is over.
INTERRUPTED = """
import os, signal
from weft.cli import main, sweep as command

def interrupted(*arguments, progress, **settings):
    def tell(ready, number):
        if ready == 1:
            os.killpg(0, signal.SIGINT)
    return sweep(*arguments, progress=tell, **settings)

sweep, command.sweep = command.sweep, interrupted
raise SystemExit(main())
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("processes", [1, 2])
def test_an_interrupted_command_writes_the_finished_runs(tmp_path, processes) -> None:
    table = tmp_path / "sweep.csv"
    # With two processes both runs start together, and the longer run is interrupted.
    fabric, window = ("xgft:2;8,8;1,8", "300us") if processes == 2 else (TREE, "20us")
    words = ["sweep", fabric, "--engine", "dmodk", "--level", "flow"]
    words += ["--loads", "0.01,0.9", "--measure", window]
    words += ["--processes", str(processes), "--output", str(table)]
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "COLUMNS": "120"},
    )
    out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert "weft: interrupted: 1 of 2 runs have no result" in err
    assert "Traceback" not in err
    assert "interrupted" in out
    assert sorted(pl.read_csv(table)["status"]) == ["complete", "interrupted"]
    # No worker process remains; the process that tracks semaphores ends a little later.
    wait_for(lambda: not has_process(child.pid))


def has_process(group: int) -> bool:
    """Return whether a process group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


# -- the figure ------------------------------------------------------------------------------------


def test_curves_are_labelled_by_their_differences_and_end_at_the_top(swept) -> None:
    figure = load_curves(swept)
    left, right = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dmodk", "updn"]
    assert TREE in figure.get_suptitle()
    assert left.get_yscale() == "log"
    top = left.get_ylim()[1]
    # For each of two curves: the mean, the tail, the rise to the top and the end of the rise.
    assert len(left.lines) == 8
    assert [line.get_ydata()[-1] for line in left.lines[2:4]] == [top, top]
    assert left.lines[0].get_ydata()[0] == pytest.approx(swept["latency_mean_ns"][0] / 1e3)
    assert right.lines[0].get_ydata()[1] == pytest.approx(swept["accepted_load"][1])
    assert [
        text.get_text() for text in load_curves(swept, ["one", "two"]).legends[0].get_texts()
    ] == ["one", "two"]


def test_figures_without_results_are_refused_and_equal_figures_are_equal_files(
    swept, tmp_path
) -> None:
    empty = swept.with_columns(pl.lit(None, dtype=pl.Float64).alias("offered_load"))
    for wrong in (empty, []):
        with pytest.raises(InputError, match="no run has a result"):
            load_curves(wrong)
    with pytest.raises(InputError, match="expected 2 labels, one per curve, not 1"):
        load_curves(swept, ["one"])
    with pytest.raises(InputError, match=r"\.png"):
        write_load_curves(swept, tmp_path / "curves.txt")
    one, other = tmp_path / "a.png", tmp_path / "b.png"
    write_load_curves(swept, one)
    write_load_curves([swept], other)
    assert one.read_bytes() == other.read_bytes()


def test_settings_are_checked_before_routing(tree) -> None:
    with pytest.raises(InputError, match="may be an empty list"):
        LoadSeries.of(tree, [], "flow", None, None, 0, {})
