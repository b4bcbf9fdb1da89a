"""The flit level in `weft simulate` and experiment files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl
import pytest
from tests.cli.test_simulate_packets_cli import cells
from tests.simulate_runs import TREE, experiment, run

import weft
from weft import Router
from weft.study.experiment import check, read_experiment, resolved
from weft.study.experiment.result_tables import columns_of
from weft.study.experiment.run import perform
from weft.workload import load_workload

EXCHANGE = "alltoall:size=4KiB"
FLIT = (TREE, "--workload", EXCHANGE, "--level", "flit", "--engine", "dmodk")


def test_one_run_prints_the_results_of_python(capsys) -> None:
    words = ("--router", "lanes=2,buffer=40,switching=cut-through", "--hardware", "mtu=1KiB")
    status, out, err = run(capsys, *FLIT, *words)
    assert (status, err) == (0, "")
    fabric = weft.fabric(TREE)
    result = weft.simulate(
        fabric, weft.route(fabric, "dmodk"), load_workload(EXCHANGE, 16), level="flit",
        router=Router(lanes=2, buffer=40, switching="cut-through"),
        hardware=weft.Hardware(mtu_bytes=1024),
    )  # fmt: skip
    assert f"Flits: {result.flit_hops:,} flit-hops; a cycle is 2.56 ns; buffers hold 40 " in out
    assert "router: lanes 2; buffer 40;" in out
    assert "hardware: mtu 1024 B; header 26 B; adapter_latency 0 ns; control 64 B\n" in out
    assert f"Makespan: {result.makespan_ns / 1000:.4g} us." in out


def test_routings_need_no_engine_and_can_be_compared_with_engines(capsys, tmp_path: Path) -> None:
    words = ("torus:4x4", "--workload", EXCHANGE, "--level", "flit")
    status, out, _ = run(capsys, *words, "--routing", "dor,adaptive")
    assert status == 0
    assert [row[1] for row in cells(out)] == ["dor", "adaptive"]
    assert "(routing adaptive)" in out
    out_folder = tmp_path / "results"
    status, out, _ = run(
        capsys, *words, "--routing", "dor:ties=forward", "--engine", "minhop", "--out", out_folder
    )
    assert status == 0
    runs = pl.read_parquet(out_folder / "runs.parquet")
    assert runs["engine"].to_list() == ["minhop", None]
    assert runs["routing"].to_list() == [None, "dor:ties=forward"]
    assert runs["policy"].to_list() == ["deterministic", None]
    assert (runs["flit_hops"] > 0).all()
    for table in ("phases", "messages", "ranks", "links", "congestion"):
        frame = pl.read_parquet(out_folder / f"{table}-2.parquet")
        assert frame.columns == list(columns_of("flit")[table])
        assert len(frame)
    again = read_experiment(out_folder / "experiment.toml")
    assert [(each.engine, each.routing) for each in again.runs] == [
        ("minhop", None), (None, "dor:ties=forward"),
    ]  # fmt: skip


def test_levels_are_compared_and_a_routing_is_no_run_of_other_levels(capsys) -> None:
    status, out, _ = run(
        capsys, TREE, "--workload", EXCHANGE, "--level", "flow,flit", "--engine", "dmodk",
        "--routing", "nca-random", "--snapshot", "1us", "--level", "packet",
    )  # fmt: skip
    assert status == 0
    assert [row[1:4] for row in cells(out)] == [
        ["dmodk", "", "flow"], ["dmodk", "", "flit"], ["dmodk", "", "packet"],
        ["", "nca-random", "flit"],
    ]  # fmt: skip


def test_each_level_has_policies_of_its_own(capsys) -> None:
    policies = ("--engine", "dmodk,ecmp", "--policy", "flowlet,spray,par", "--level", "packet,flit")
    status, out, _ = run(capsys, TREE, "--workload", EXCHANGE, *policies)
    assert [row[1:4] for row in cells(out)] == [
        ["dmodk", "packet", "deterministic"], ["dmodk", "flit", "deterministic"],
        ["ecmp", "packet", "flowlet"], ["ecmp", "packet", "spray"],
        ["ecmp", "flit", "spray"], ["ecmp", "flit", "par"],
    ]  # fmt: skip
    assert status == 0
    assert "run 6 (does not fit): policy par sends packets via intermediates" in out
    status, _, err = run(capsys, *FLIT, "--policy", "flowlet")
    assert (status, err) == (
        2, "weft: error: the flit level has no policy flowlet; it has deterministic, adaptive, "
        "ecmp, par, spray, ugal, ugal-g, valiant\n",
    )  # fmt: skip


def test_files_have_a_table_of_routers(capsys, tmp_path: Path) -> None:
    text = f"""
fabric = "{TREE}"
engine = "dmodk"
level = "flit"
flit_size = "128B"
max_time = "2us"
[router]
lanes = 2
shared_buffer = 4
allocator = "islip"
[[job]]
name = "a"
workload = "{EXCHANGE}"
"""
    path = experiment(tmp_path, text)
    read = read_experiment(path)
    assert read.router.instance == Router(lanes=2, shared_buffer=4, allocator="islip")
    assert check(tomllib.loads(resolved(read))) == read
    (outcome,) = perform(read)
    assert outcome.status == "partial"
    assert "stopped, at 2 us of simulated time:" in outcome.reason
    assert isinstance(outcome.result, weft.FlitResult)
    assert outcome.result.router.lanes == 2
    assert outcome.result.cycle_ns == pytest.approx(5.12)
    # Options of the command line replace single keys of the table.
    status, out, _ = run(capsys, path, "--router", "lanes=8", "--max-time", "1ms")
    assert status == 0
    assert "router: lanes 8; shared_buffer 4;" in out


def test_a_run_draws_its_congestion_matrix(capsys, tmp_path: Path) -> None:
    file = tmp_path / "matrix.svg"
    status, out, _ = run(capsys, *FLIT, "--congestion-matrix", file)
    assert status == 0
    assert f"congestion matrix: {file}" in out
    assert file.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--router", "lanse=2"), "--router: unknown name 'lanse' (did you mean 'lanes'?)"),
        (("--router", "lanes"), "--router: 'lanes' in 'lanes': expected NAME=VALUE, such as lane"),
        (("--router", "lanes=2", "--router", "lanes=3"), "--router: lanes is given twice"),
        (("--router", "lanes=0"), "--router lanes: '0' does not fit: expected 1 or more"),
        (("--router", "switching=circuit"), "--router switching: 'circuit' does not fit"),
        (("--router", "input_speedup=9"), "--router: an input passes one flit of each lane"),
        (("--router", "buffer=2,switching=cut-through"),
         "cut-through needs buffers for a packet of 33 flits, not of 2"),
        (("--hardware", "queues=voq"), "--hardware queues goes with --level packet; the flit level "
         "takes mtu, header, buffer, control, adapter_latency"),
        (("--hardware", "switch_latency=1us"),
         "--hardware switch_latency goes with --level flow or packet; the flit level takes"),
        (("--snapshot", "1us"), "--snapshot requires --level packet"),
        (("--html", "x.html"), "--html shows one run: expected exactly one run at --level packet"),
        (("--policy", "nrk"), "the flit level has no policy nrk; it has deterministic, adaptive,"),
        (("--routing", "nowhere"), "unknown routing 'nowhere'"),
        (("--routing", "dor:tise=x"), "routing 'dor' has no option 'tise'"),
        (("--flit-size", "0"), "--flit-size: '0' does not fit: expected 1 or more"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(capsys, words: tuple[str, ...], message: str) -> None:
    status, out, err = run(capsys, *FLIT, *words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_settings_of_routers_need_the_flit_level(capsys) -> None:
    for words in (("--router", "lanes=2"), ("--routing", "dor"), ("--flit-size", "32B")):
        status, _, err = run(capsys, TREE, "--workload", EXCHANGE, *words)
        assert (status, err) == (2, f"weft: error: {words[0]} requires --level flit\n")
