"""`weft report`: what it prints and writes, and errors for invalid input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.studies import FABRICS, study, with_failures

import weft.study.data
from weft.cli import main


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    data = with_failures(study())
    monkeypatch.setattr(weft.study.data, "study_data", lambda folder, name=None: data)
    monkeypatch.setenv("COLUMNS", "140")


def test_prints_the_answer_first_and_writes_a_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", "store", "--out", str(page)]) == 0
    out = capsys.readouterr().out
    flat = " ".join(out.split())
    assert f"Makespan (lower is better): {FABRICS[0]} · dfsssp is best on average" in flat
    assert (
        flat.index("is best on average")
        < flat.index("The study runs")
        < flat.index("Best makespan")
    )
    assert "Accepted load (" not in flat  # the other answers are folded
    assert "Other measures (--measure NAME): accepted_load, cost_usd." in flat
    assert "does not fit │ 10 │ nue needs 2 lanes; the fabric has 1" in flat
    assert f"page: {page} (0." in out
    assert "<strong>" in page.read_text()


def test_measures_baseline_and_parts(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--measure", "cost_usd", "--baseline", f"fabric={FABRICS[1]}", "--where", "load=0.6",
        "--where", "engine=minhop", "--where", "engine=nue",
    ]  # fmt: skip
    assert main(["report", "store", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["measure"] for row in found["points"]} == {"cost_usd"}
    assert {row["engine"] for row in found["points"]} == {"minhop", "nue"}
    ratios = {row["fabric"]: row["ratio"] for row in found["points"] if row["ratio"]}
    assert ratios[FABRICS[0]] == pytest.approx(52 / 31)
    assert "The baseline is fabric" in found["question"]


def test_no_complete_run_is_exit_status_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only = ["--where", f"fabric={FABRICS[3]}", "--where", "engine=nue"]
    assert main(["report", "store", *only]) == 1
    assert "0 of 10 runs are complete: 10 do not fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--where", "engine"], "--where engine: expected AXIS=VALUE"),
        (["--where", "engin=nue"], "has no axis 'engin' (did you mean 'engine'?)"),
        (["--measure", "time"], "has no measure 'time'"),
        (["--baseline", "load=0.3", "--baseline", "load=0.6"], "axis load is given twice"),
        (["--out", "page.pdf"], "expected a name that ends in .html or .htm"),
        (["--out", "no/page.html"], "/no does not exist"),
        (["--files", "pyproject.toml"], "is not a folder"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "store", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
