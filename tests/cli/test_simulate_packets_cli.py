"""`weft simulate --level packet`: output, tables, errors and early ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import pairwise

import polars as pl
import pytest
from tests.processes import PATIENCE_S
from tests.simulate_runs import TOLD, TREE, experiment, run

import weft
from weft.cli import main
from weft.core.signals import ended_by, stoppable
from weft.sim.options import RunSettings
from weft.sim.packet import Hardware, VlArbitration
from weft.study.experiment import check, read_experiment, resolved
from weft.study.experiment.result_tables import columns_of
from weft.study.experiment.run import perform
from weft.study.experiment.run_level import run_level
from weft.workload import load_workload

EXCHANGE = "alltoall:size=16KiB"
PACKET = (TREE, "--workload", EXCHANGE, "--level", "packet")

TWO = f"""
fabric = "{TREE}"
level = "packet"
trace = ["b:1:0", "a:0:2"]
[hardware]
mtu = "4KiB"
vlarb_high = "0:4,1:8"
vlarb_low = ["0:1"]
high_limit = 3
[[job]]
name = "a"
workload = "{EXCHANGE}"
ranks = 4
[[job]]
name = "b"
workload = "allreduce:size=64KiB,algorithm=ring"
ranks = 4
"""


def cells(out: str) -> list[list[str]]:
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in row] for row in rows]


def test_one_run_prints_the_results_of_python(capsys) -> None:
    status, out, err = run(capsys, *PACKET, "--engine", "dmodk")
    assert (status, err) == (0, "")
    fabric = weft.fabric(TREE)
    result = weft.simulate(
        fabric, weft.route(fabric, "dmodk"), load_workload(EXCHANGE, 16), level="packet"
    )
    assert f"Makespan: {result.makespan_ns / 1e3:.4g} us." in out
    counts = result.conservation
    assert (
        f"Conservation: {counts['injected_packets']:,} packets injected = "
        f"{counts['injected_packets']:,} delivered + 0 in flight; {counts['credits']:,} credits"
    ) in out
    assert f" in {result.num_hops:,} packet-hops" in out
    assert "policy deterministic" in out
    assert "hardware: mtu 2048 B; header 26 B; buffer 16384 B" in out
    assert "Order:" not in out


def test_fast_forward_says_what_it_skipped(capsys) -> None:
    large = "allreduce:size=4MiB,algorithm=ring"
    arguments = (TREE, "--workload", large, "--level", "packet", "--engine", "dmodk")
    _, full, _ = run(capsys, *arguments, "--fast-forward", "0")
    status, out, err = run(capsys, *arguments, "--fast-forward", "0.01")
    assert (status, err) == (0, "")
    skipped = [line for line in out.splitlines() if line not in full]
    assert re.fullmatch(
        r"Fast-forward: skipped \d\d\.\d% of packet-hops, error bound 0 of the makespan: .*",
        skipped[-1],
    )
    assert skipped[0].startswith("settings: ")
    assert len(skipped) == 2


def test_an_impossible_error_of_fast_forward_says_what_to_give(capsys) -> None:
    status, out, err = run(capsys, *PACKET, "--fast-forward", "2")
    assert (status, out) == (2, "")
    assert "--fast-forward: '2' does not fit: expected a share from 0 to 0.1" in err


def test_levels_and_policies_are_compared_in_one_table(capsys) -> None:
    status, out, err = run(
        capsys, TREE, "--workload", EXCHANGE, "--level", "static,flow,packet",
        "--engine", "dmodk,ecmp", "--policy", "ecmp,spray,flowlet:gap=1us",
    )  # fmt: skip
    assert (status, err) == (0, "")
    rows = [row[1:5] for row in cells(out)]
    # dmodk leaves no choice of paths and runs once; ecmp runs with each policy listed.
    assert rows == [
        ["dmodk", "static", "", ""],
        ["dmodk", "flow", "maxmin", ""],
        ["dmodk", "packet", "", "deterministic"],
        ["ecmp", "static", "", ""],
        ["ecmp", "flow", "maxmin", ""],
        ["ecmp", "packet", "", "ecmp"],
        ["ecmp", "packet", "", "spray"],
        ["ecmp", "packet", "", "flowlet:gap=1us"],
    ]


@pytest.mark.parametrize(
    ("engines", "policies", "runs"),
    [
        (("dmodk",), None, [("dmodk", "deterministic")]),
        (("ecmp",), None, [("ecmp", "ecmp")]),
        (("dmodk", "ecmp"), ("spray",), [("dmodk", "deterministic"), ("ecmp", "spray")]),
        (
            ("dmodk", "ecmp"), ("deterministic", "spray"),
            [("dmodk", "deterministic"), ("ecmp", "spray")],
        ),
        (("dmodk",), ("spray",), [("dmodk", "spray")]),
        (("ecmp",), ("deterministic",), [("ecmp", "deterministic")]),
    ],
)  # fmt: skip
def test_policies_apply_to_engines_that_leave_a_choice(engines, policies, runs) -> None:
    data = {"fabric": TREE, "level": "packet", "engine": engines, "job": [{"workload": "barrier"}]}
    experiment_checked = check(data if policies is None else {**data, "policy": policies})
    assert [(each.engine, each.policy) for each in experiment_checked.runs] == runs


def test_a_policy_that_does_not_match_the_engine_is_refused(capsys) -> None:
    for engine, policy in (("dmodk", "spray"), ("ecmp", "deterministic")):
        status, out, err = run(capsys, *PACKET, "--engine", engine, "--policy", policy)
        assert (status, out) == (2, "")
        assert f"{engine} leaves" in err
        assert policy in err


def test_reordering_is_reported_if_the_policy_allows_it(capsys, tmp_path) -> None:
    words = (*PACKET, "--engine", "ecmp", "--policy", "spray,ecmp", "--out", tmp_path)
    assert run(capsys, *words)[0] == 0
    runs = pl.read_parquet(tmp_path / "runs.parquet")
    assert runs["policy"].to_list() == ["spray", "ecmp"]
    assert runs["early_packets"][0] > 0
    assert runs["most_held_bytes"][0] > 0
    assert runs["reordering_ns"][0] > 0
    assert runs["early_packets"][1] is None
    assert runs["reordering_ns"][1] is None
    _, out, _ = run(capsys, *PACKET, "--engine", "ecmp", "--policy", "spray")
    assert f"Reordering: {runs['early_packets'][0]:,} packets arrived before a packet" in out


def test_tables_have_their_columns(capsys, tmp_path) -> None:
    words = ("--trace-message", "3:2", "--snapshot", "1us", "--out", tmp_path)
    assert run(capsys, *PACKET, *words)[0] == 0
    for name, columns in columns_of("packet").items():
        assert pl.read_parquet(tmp_path / f"{name}.parquet").columns == list(columns)
    hops = pl.read_parquet(tmp_path / "hops.parquet")
    assert hops.select("source_rank", "number").unique().rows() == [(3, 2)]
    messages = pl.read_parquet(tmp_path / "messages.parquet").filter(source_rank=3)
    assert hops["destination_rank"].unique().to_list() == [messages["destination_rank"][2]]
    assert hops["left_ns"].min() <= messages["left_ns"][2]
    runs, links = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("runs", "links"))
    assert runs["packet_hops"][0] == links["packets"].sum()
    series = pl.read_parquet(tmp_path / "series.parquet")["end_ns"].unique().to_list()
    assert len(series) > 5
    assert {later - earlier for earlier, later in pairwise(sorted(series))} == {1000.0}
    described = pl.read_csv(tmp_path / "columns.csv").filter(table="queues")
    assert described["column"].to_list() == list(columns_of("packet")["queues"])


def test_a_comparison_says_where_hops_and_series_go(capsys, tmp_path) -> None:
    words = ("--engine", "updn,dmodk", "--trace-message", "3:2", "--snapshot", "1us")
    note = "Only a single run prints hops and series; --out FOLDER writes them for several runs."
    assert note in run(capsys, *PACKET, *words)[1]
    assert note not in run(capsys, *PACKET, *words, "--out", tmp_path)[1]
    assert (tmp_path / "hops-2.parquet").exists()


def test_hops_of_one_message_are_printed(capsys) -> None:
    _, out, _ = run(capsys, *PACKET, "--trace-message", "3:2")
    assert "send to rank" in out
    assert re.search(r"from h3 to h\d+\n", out)
    for text, message in (
        ("3:99", "rank 3 sends 15 messages, numbered from 0"),
        ("16:0", "expected a rank from 0 to 15"),
        ("x:1:0", "unknown job 'x'"),
        ("3", "--trace-message: '3' does not fit: expected RANK:N"),
    ):
        status, out, err = run(capsys, *PACKET, "--trace-message", text)
        assert (status, out) == (2, "")
        assert message in err


def test_messages_of_several_jobs_are_traced_by_job(capsys, tmp_path) -> None:
    path = experiment(tmp_path, TWO)
    assert run(capsys, path, "--out", tmp_path / "out")[0] == 0
    hops = pl.read_parquet(tmp_path / "out" / "hops.parquet")
    traced = hops.select("job", "source_rank", "number").unique().sort("job").rows()
    assert traced == [("a", 0, 2), ("b", 1, 0)]
    path.write_text(TWO.replace('"b:1:0"', '"1:0"'))
    status, _, err = run(capsys, path)
    assert status == 2
    assert "trace 1:0: expected JOB:RANK:N with one of the jobs a, b" in err


def test_an_experiment_file_describes_the_hardware(tmp_path) -> None:
    path = experiment(tmp_path, TWO)
    settings = read_experiment(path)
    tables = VlArbitration(high=((0, 4), (1, 8)), low=((0, 1),), limit=3)
    assert settings.hardware.instance == Hardware(mtu_bytes=4096, vl_arbitration=tables)
    (tmp_path / "again.toml").write_text(resolved(settings))
    assert read_experiment(tmp_path / "again.toml") == settings


def test_hardware_options_override_the_experiment_file(capsys, tmp_path) -> None:
    path = experiment(tmp_path, TWO)
    _, out, _ = run(capsys, path, "--hardware", "mtu=1KiB,vlarb_high=1:8,0:4", "--level", "packet")
    assert "hardware: mtu 1024 B;" in out
    assert "vlarb_high 1:8, 0:4; vlarb_low 0:1; high_limit 3" in out


def test_one_switch_latency_serves_all_levels() -> None:
    data = {"fabric": TREE, "level": ["flow", "packet"], "job": [{"workload": "barrier"}]}
    for options, expected in (
        ({}, 100.0),
        ({"switch_latency": "50ns"}, 50.0),
        ({"hardware": {"switch_latency": "70ns"}}, 70.0),
        ({"hardware": {"switch_latency": "70ns"}, "switch_latency": 30}, 30.0),
    ):
        settings = check({**data, **options})
        flow, packet = (settings.options(run) for run in settings.runs)
        assert RunSettings(**flow).flow["switch_latency_ns"] == expected
        routes = weft.route(weft.fabric(TREE), "updn")
        assert RunSettings(**packet).packet(routes)["hardware"].switch_latency_ns == expected


def test_a_page_takes_snapshots_by_default(capsys, tmp_path) -> None:
    status, out, _ = run(capsys, *PACKET, "--html", tmp_path / "page.html")
    assert status == 0
    assert "snapshot 100 ns" in out
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_a_run_without_a_snapshot_has_no_page(capsys, tmp_path) -> None:
    page = tmp_path / "page.html"
    status, out, err = run(capsys, *PACKET, "--html", page, "--max-time", "0.5ns")
    assert (status, err) == (1, "")
    assert f"no page {page}: the run ends before the first snapshot" in out
    assert not page.exists()


def test_a_page_and_congestion_come_with_snapshots(capsys, tmp_path) -> None:
    page = tmp_path / "page.html"
    words = ("--engine", "ecmp", "--policy", "ecmp", "--snapshot", "500ns", "--html", page)
    status, out, _ = run(capsys, *PACKET, *words)
    assert status == 0
    assert f"page: {page}" in out
    assert re.search(r"Congestion over \d+ snapshots 500 ns apart:\nHot spot 1: ", out)
    assert "<html" in page.read_text()[:200]
    for more, message in (
        (("--snapshot", "1us", "--level", "flow"), "--html shows one run of the packet level"),
        (("--snapshot", "1us", "--engine", "updn,dmodk"), "--html shows one run"),
    ):
        words = (TREE, "--workload", "barrier", "--html", page)
        level = () if "flow" in more else ("--level", "packet")
        status, out, err = run(capsys, *words, *level, *more)
        assert (status, out) == (2, "")
        assert message in err or "--snapshot requires --level packet" in err


@pytest.mark.parametrize(
    ("suffix", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")]
)
def test_a_congestion_matrix_needs_no_snapshots(capsys, tmp_path, suffix, head) -> None:
    picture = tmp_path / f"matrix.{suffix}"
    status, out, _ = run(capsys, *PACKET, "--congestion-matrix", picture)
    assert status == 0
    assert f"congestion matrix: {picture}" in out
    assert "snapshot" not in out
    assert picture.read_bytes().startswith(head)


def test_a_congestion_matrix_of_several_runs_or_of_an_unknown_format_is_refused(
    capsys, tmp_path
) -> None:
    option = ("--congestion-matrix", tmp_path / "matrix.png")
    for words, message in (
        ((*PACKET, "--engine", "updn,dmodk", *option), "--congestion-matrix shows one run"),
        ((TREE, "--workload", "barrier", *option), "--congestion-matrix shows one run"),
        ((*PACKET, "--congestion-matrix", tmp_path / "a.jpg"), "a name that ends in .png or .svg"),
    ):
        status, out, err = run(capsys, *words)
        assert (status, out) == (2, "")
        assert message in err
    assert not list(tmp_path.iterdir())


def test_hardware_that_the_flow_level_does_not_know_needs_the_packet_level(capsys) -> None:
    words = (TREE, "--workload", "barrier", "--hardware")
    status, out, err = run(capsys, *words, "mtu=1KiB,queues=voq")
    assert (status, out) == (2, "")
    assert "--hardware queues goes with --level packet; the flow level takes mtu, header" in err
    status, out, _ = run(capsys, *words, "mtu=32KiB,buffer=64KiB,switch_latency=1us")
    assert status == 0
    assert "mtu 32768 B" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--policy", "spray"), ("--lids", "hash"),
        ("--snapshot", "1us"), ("--trace-message", "0:0"),
    ],
)  # fmt: skip
def test_packet_options_need_the_packet_level(capsys, words) -> None:
    status, out, err = run(capsys, TREE, "--workload", EXCHANGE, *words)
    assert (status, out) == (2, "")
    what = (
        "policy spray requires level" if words[0] == "--policy" else f"{words[0]} requires --level"
    )
    assert f"{what} packet" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hardware", "mtu=0"), "--hardware mtu: '0' does not fit: expected 1 or more"),
        (
            ("--max-time", "1e30s"),
            "--max-time: '1e30s' does not fit: expected at most 2.306e+15 ns",
        ),
        (("--snapshot", "1e30s"), "--snapshot: '1e30s' does not fit: expected at most"),
        (("--overhead", "1e20s"), "--overhead: '1e20s' does not fit: expected at most 3.603e+13"),
        (("--local-latency", "1e20s"), "--local-latency: '1e20s' does not fit: expected at most"),
        (("--switch-latency", "1e20s"), "--switch-latency: '1e20s' does not fit: expected"),
        (("--hardware", "mtu=4KiX"), "--hardware mtu: '4KiX' does not fit: '4KiX' is not a size"),
        (("--hardware", "mto=1"), "--hardware: unknown name 'mto' (did you mean 'mtu'?)"),
        (("--hardware", "mtu=1,mtu=2"), "--hardware: mtu is given twice"),
        (("--hardware", "voq"), "--hardware: 'voq' in 'voq': expected NAME=VALUE"),
        (("--hardware", "buffer=2KiB"), "a packet of 2048 + 26 bytes needs 33"),
        (("--hardware", "queues=vok"), "--hardware queues: 'vok' does not fit"),
        (("--hardware", "speedup=0"), "--hardware speedup: '0' does not fit"),
        (("--hardware", "adapter_gbps=-1"), "--hardware adapter_gbps: '-1' does not fit"),
        (("--hardware", "adapter_gbps=nan"), "--hardware adapter_gbps: 'nan' does not fit"),
        (("--hardware", "vlarb_low=0-4"), "entry 0 is '0-4'; expected a lane and a weight"),
        (("--hardware", "high_limit=4"), "high_limit needs a table of lanes"),
        (("--hardware", "vlarb_low=1:4"), "VL 0 has no weight above 0 in any table"),
        (("--policy", "sprai"), "unknown policy 'sprai' (did you mean 'spray'?)"),
        (("--policy", "flowlet:gab=1"), "has no option 'gab' (did you mean 'gap'?)"),
        (("--lids", "frist"), "--lids: 'frist' does not fit"),
        (("--snapshot=-1us",), "--snapshot: '-1us' does not fit"),
        (("--snapshot", "0"), "--snapshot: '0' does not fit: expected a positive time"),
    ],
)
def test_bad_arguments_give_one_line_and_status_2(capsys, words, message) -> None:
    status, out, err = run(capsys, *PACKET, *words)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_errors_in_the_hardware_name_the_line(tmp_path) -> None:
    for old, new, message in (
        ('mtu = "4KiB"', "mtu = -1", r"x\.toml:6: hardware, mtu: -1 does not fit"),
        ('mtu = "4KiB"', "mto = 1", r"x\.toml:6: hardware: unknown key 'mto' \(did you mean 'mtu'"),
        ('mtu = "4KiB"', 'mtu = "1MiB"', r"x\.toml:5: hardware: a buffer of 16384 bytes holds"),
        ("high_limit = 3", "high_limit = 300", r"x\.toml:9: hardware, high_limit: 300 does not"),
        ('"0:4,1:8"', '"0:4,15:8"', r"x\.toml:5: hardware: vlarb_high: .* 15:8: the lane must be"),
    ):
        assert TWO.count(old) == 1
        path = experiment(tmp_path, TWO.replace(old, new))
        with pytest.raises(weft.InputError, match=message):
            read_experiment(path)


@pytest.mark.parametrize("limit", [("--max-time", "2us"), ("--max-seconds", "1e-9")])
def test_a_run_that_stops_early_keeps_partial_results(capsys, tmp_path, limit) -> None:
    words = (TREE, "--workload", "alltoall:size=256KiB", "--level", "packet", "--out", tmp_path)
    status, out, _ = run(capsys, *words, *limit)
    assert status == 1
    assert "run 1 (partial): stopped" in out
    assert "; the result is partial" in out
    assert "Makespan" not in out
    runs = pl.read_parquet(tmp_path / "runs.parquet")
    assert runs["status"].to_list() == ["partial"]
    assert runs["makespan_ns"].null_count() == 1
    if limit[0] == "--max-time":
        assert runs["end_ns"].to_list() == [2000.0]
    messages = pl.read_parquet(tmp_path / "messages.parquet")
    assert messages["arrived_ns"].null_count() > 0
    flying = runs["in_flight_packets"][0]
    assert re.search(rf"= [\d,]+ delivered \+ {flying:,} in flight", out)


def test_an_interrupt_keeps_partial_results(capsys, tmp_path, monkeypatch) -> None:
    """The interrupt arrives while progress is shown, in the second of three runs."""

    def interrupted(*arguments, **options):
        *others, at, expected, dry = arguments

        def watch(doing, progress=None):
            at(doing, progress)
            if others[1].number == 2 and progress is not None:
                raise KeyboardInterrupt

        return run_level(*others, watch, expected, dry)

    monkeypatch.setattr("weft.study.experiment.run.run_level", interrupted)
    words = (TREE, "--workload", "alltoall:size=1MiB", "--ranks", 4, "--level", "packet")
    status, out, err = run(
        capsys, *words, "--engine", "updn,dmodk,minhop", "--out", tmp_path / "out"
    )
    assert status == 130
    assert "run 2 (partial): interrupted, at " in out
    assert re.search(
        r"weft: interrupted: run 2 of 3 \(dmodk\), at .*; 1 more not run$", err.strip()
    )
    runs = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert runs["status"].to_list() == ["complete", "partial", "not run"]
    assert not list((tmp_path / "out").glob(".unfinished*"))


def test_ctrl_c_ends_a_long_run_with_part_of_a_result(tmp_path) -> None:
    folder = tmp_path / "results"
    words = ["simulate", "xgft:2;8,8;1,8", "--workload", "alltoall:size=1MiB", "--level", "packet"]
    with subprocess.Popen(
        [sys.executable, "-c", TOLD, *words, "--out", str(folder), "--progress"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "100"},
    ) as child:  # fmt: skip
        assert child.stderr is not None
        progress = ""
        while "of simulated time" not in progress and (line := child.stderr.readline()):
            progress += line
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE_S)
    assert "of simulated time" in progress
    assert child.returncode == 130
    assert "weft: interrupted: at " in err
    assert "run 1 (partial): interrupted, at " in out
    assert pl.read_parquet(folder / "runs.parquet")["status"].to_list() == ["partial"]


def test_every_command_handles_termination_signals(monkeypatch) -> None:
    handlers = []
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(
        "weft.cli.app.program",
        lambda *given: lambda *words, **options: handlers.append(signal.getsignal(signal.SIGTERM)),
    )
    assert weft.cli.main(["list"]) == 0
    assert handlers[0] is not before
    assert signal.getsignal(signal.SIGTERM) is before
    for number, ended in (
        (signal.SIGTERM, ("terminated", 143)), (signal.SIGINT, ("interrupted", 130)),
    ):  # fmt: skip
        with pytest.raises(KeyboardInterrupt), stoppable():
            signal.raise_signal(number)
        assert ended_by() == ended


def test_a_deadlock_names_its_buffers(capsys) -> None:
    words = ("torus:5,hosts=2", "--workload", "alltoall:size=256KiB", "--level", "packet")
    status, out, err = run(capsys, *words, "--engine", "minhop", "--hardware", "buffer=4KiB")
    assert (status, out) == (2, "")
    assert "the network is deadlocked after" in err
    assert "full buffers wait for each other in a cycle" in err
    status, out, _ = run(
        capsys, *words, "--engine", "minhop,dfsssp", "--hardware", "buffer=4KiB", "--ranks", 10
    )
    assert status == 1
    assert [row[-1] for row in cells(out) if row[0] in {"1", "2"}]
    assert "run 1 (failed): the network is deadlocked" in out


def test_perform_runs_an_experiment_from_python() -> None:
    data = {
        "fabric": TREE, "level": "packet", "engine": ["dmodk"], "max_time": 1000,
        "job": [{"workload": EXCHANGE}],
    }  # fmt: skip
    (outcome,) = perform(check(data))
    assert outcome.status == "partial"
    assert outcome.result.end_ps == 1_000_000
    assert not outcome.result.complete


#: Program that prints the kernels that are still compiled by runs after `weft warmup`.
AFTER_WARMUP = """
import importlib, pkgutil
import weft, weft.kernels.packet, weft.sim.packet.policies
from numba.core.dispatcher import Dispatcher
from weft.kernels.parts import ENTRIES
from weft.cli.warmup import warm_packets
from weft.sim.packet import CongestionControl, Hardware
from weft.workload import load_workload

modules = [
    importlib.import_module(package.__name__ + "." + each.name)
    for package in (weft.kernels.packet, weft.sim.packet.policies)
    for each in pkgutil.iter_modules(package.__path__)
]

def compiled():
    called = {str((entry.py_func, entry.signatures)) for entry in ENTRIES.values()}
    return called | {
        (module.__name__, name, str(signature))
        for module in modules
        for name, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher) and kernel.__module__ == module.__name__
        for signature in kernel.signatures
    }

for part in warm_packets():
    part()
before = compiled()
assert len(before) >= 4
work = load_workload("alltoall:size=20000", 4)
tree = weft.fabric("xgft:2;2,2;1,2")
wide = Hardware(queues="voq", adapter_gbps=50.0, congestion_control=CongestionControl())
for engine, policy, options in (
    ("dmodk", "deterministic", {"hardware": wide}),
    ("updn:lmc=1", "deterministic", {"lids": "hash"}),
    ("smodk", "deterministic", {}), ("ecmp", "flowlet", {"trace": work.messages[:3].tolist()}),
    ("ecmp", "conga", {"snapshot_ns": 100.0}), ("valiant", "valiant", {}), ("ugal", "ugal", {}),
):
    fabric = weft.fabric("dragonfly:p=1,a=2,h=1") if engine in ("valiant", "ugal") else tree
    found = weft.simulate(
        fabric, weft.route(fabric, engine), load_workload("alltoall:size=20000", fabric.num_hosts),
        policy=policy, **options, level="packet",
    )
    found.messages()
source = load_workload("open-loop:load=0.1,rate_gbps=100,duration=5us", 4)
weft.simulate(tree, weft.route(tree, "dmodk"), source, level="packet")
print(sorted(compiled() - before))
"""


def test_warmup_compiles_the_packet_level() -> None:
    process = subprocess.run(
        [sys.executable, "-c", AFTER_WARMUP], capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"


def test_threads_are_printed_and_a_wrong_number_is_refused(capsys, tmp_path) -> None:
    status, out, _ = run(capsys, *PACKET, "--threads", "2")
    assert status == 0
    assert "\nThreads: 2.\n" in out
    _, one, _ = run(capsys, *PACKET, "--threads", "1")
    assert "Threads:" not in one
    status, _, err = run(capsys, *PACKET, "--threads", "0")
    assert (status, err) == (2, "weft: error: --threads: '0' does not fit: expected 1 or more\n")
    study = tmp_path / "study.toml"
    study.write_text(
        'command = "simulate"\nfabric = "xgft:2;2,2;1,2"\nlevel = "packet"\nthreads = 2\n'
        '[[job]]\nworkload = "barrier"\n'
    )
    assert main(["study", str(study)]) == 2
    assert "a study uses the processors for several runs at a time" in capsys.readouterr().err
