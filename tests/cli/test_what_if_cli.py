"""`weft what-if`: its text, its tables in place, and input that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.fabrics.test_additions import clos

import weft
from weft.advice.what_if.evaluate import WHAT_IF_COLUMNS
from weft.advice.what_if.singles import SINGLE_COLUMNS
from weft.cli import main


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "clos.ibnetdiscover"
    weft.write_fabric(clos(), file)
    return file


def run(*words: object) -> int:
    return main(["what-if", *map(str, words), "--samples", "20"])


def test_the_answer_comes_first_and_the_figures_follow(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "figures.parquet"
    assert run(cluster, "--fail", "spine1", "--pattern", "shift", "--table", table) == 0
    text = capsys.readouterr().out
    assert text.startswith("If spine1 fails: until OpenSM's next sweep ")
    assert "OpenSM's next sweep" in text
    assert pl.read_parquet(table).columns == [*WHAT_IF_COLUMNS]
    assert run(cluster, "--fail", "spine1", "--pattern", "shift", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scenario"] == "spine1 fails"
    assert {row["routes"] for row in found["figures"]} >= {"the tables in place", "updn"}
    assert {row["pattern"] for row in found["patterns"]} == {"shift"}


def test_tables_and_engine_are_those_of_a_folder(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps = tmp_path / "dumps"
    assert main(["opensm", "export", str(cluster), "--engine", "updn", "--out", str(dumps)]) == 0
    capsys.readouterr()
    assert run(cluster, "--tables", dumps, "--engine", "updn", "--fail", "spine1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["state"]: row["routes"] for row in found["figures"]}
    assert rows["sweep"] == "OpenSM's next sweep"
    assert "after it (updn)" in found["answer"][0]
    assert found["notes"] == []
    # Tables of a fabric that has lost a switch since.
    assert run(cluster, "--fail-switch", "leaf4", "--tables", dumps, "--fail", "spine1") == 0
    assert "stale: tables of 1 switch not in the fabric: leaf4" in capsys.readouterr().out


def test_the_engine_of_an_export_is_that_of_its_opensm_conf(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["opensm", "export", str(cluster), "--engine", "updn", "--out", f"{tmp_path}/t"]) == 0
    )
    capsys.readouterr()
    assert run(cluster, "--tables", tmp_path / "t", "--fail", "spine1") == 0
    assert "If spine1 fails: 96 of 240 host pairs (40.0%) have no path" in capsys.readouterr().out


def test_failures_of_each_part_are_a_table(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "failures.csv"
    page = tmp_path / "page.html"
    words = ["--fail", "each-switch", "--engines", "updn", "--failures", table, "--report", page]
    assert run(cluster, *words) == 0
    assert "<title>What if a single switch of " in page.read_text()
    text = capsys.readouterr().out
    assert text.startswith("Of 6 failures of a single switch, 4 cut hosts off")
    assert pl.read_csv(table).columns == [*SINGLE_COLUMNS]
    assert run(cluster, "--fail", "each-switch", "--engines", "updn", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["failures"]) == 6
    assert found["figures"] is None


def test_running_jobs_are_read_from_slurm(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "squeue.txt"
    listed.write_text("JOBID|NAME|STATE|NODELIST\n7|cfd|RUNNING|node[01-06],gone1\n")
    assert run(cluster, "--fail", "leaf1", "--jobs", listed, "--pattern", "shift") == 0
    text = capsys.readouterr().out
    assert "1 running job loses machines: 7 (cfd)." in text
    assert "gone1 of job 7 (cfd)" in text
    assert "running jobs" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["xgft:1;4;1", "--fail", "each-cable"], "each-cable: xgft:1;4;1 has no cables between"),
        (["xgft:1;4;1", "--fail", "each-switch", "--report", "p.html"], "fewer than two hosts"),
        (["bcube:2;1", "--fail", "each-switch"], "OpenSM has forwarding tables only for switches"),
    ],
)
def test_fabrics_without_what_is_asked_are_one_error(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out


def test_the_only_switch_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("xgft:1;4;1", "--fail", "each-switch") == 0
    text = capsys.readouterr().out
    assert "1 cut hosts off, at worst s1-0: 4 machines." in text
    assert "(s1-0): no host is left." in text


@pytest.mark.parametrize("width", [80, 120])
def test_heads_of_tables_are_words_at_usual_widths(
    cluster: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(cluster, "--fail", "spine1", "--fail", "each-cable", "--pattern", "shift") == 0
    text = capsys.readouterr().out
    heads = {word for line in text.splitlines() if line.startswith("┃") for word in line.split()}
    assert {"deadlock", "bandwidth", "pairs", "lost", "until", "routes", "failed"} <= heads
    assert ("hops" in heads) == (width == 120)
    drawn = [line for line in text.splitlines() if line[:1] in set("┏┃┡│└")]
    assert max(map(len, drawn)) <= width
    assert all(line[-1] in "┓┃┩│┘" for line in drawn)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing changes"),
        (["--fail", "spine9"], "no switch, machine or cable 'spine9' in"),
        (["--fail", "spien1"], "(did you mean 'spine1'?)"),
        (["--fail", "leaf1[99]"], "leaf1 has ports 1 to 10, not 99"),
        (["--fail", "leaf*", "--fail", "spine*"], "fewer than two hosts"),
        (["--slow", "leaf1[1]"], "expected node[port]=RATE"),
        (["--slow", "leaf1[1]=9xHDR"], "9xHDR"),
        (["--add", "leaf9"], "names no switch to add"),
        (["--fail", "spine1", "--engine", "nothing"], "unknown routing engine 'nothing'"),
        (["--fail", "spine1", "--engine", "ecmp"], "ecmp gives no forwarding tables"),
        (["--fail", "spine1", "--tables", "nowhere"], "nowhere"),
        (["--fail", "spine1", "--workload", "shift"], "--workload needs --jobs"),
        (["--fail", "spine1", "--failures", "f.csv"], "--failures needs --fail each-switch"),
        (["--fail", "each-cable", "--table", "f.csv"], "--table needs a change"),
    ],
)
def test_bad_input_is_one_error(
    cluster: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cluster, *words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("weft: error") == 1
    assert not captured.out
