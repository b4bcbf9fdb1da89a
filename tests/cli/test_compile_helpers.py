"""Helper processes that compile in parallel with a command, and end with it."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.processes import PATIENCE_S

from weft.cli import compile_helpers as helpers
from weft.cli import main, study_progress, warmup
from weft.cli.app import commands

ROOT = Path(__file__).parents[2]


def test_every_core_but_one_has_a_helper_and_all_helpers_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):
        def __init__(self, words: list[str], **options: int):
            super().__init__(words, **options)
            started.append(self)

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(helpers.subprocess, "Popen", Noted)
    monkeypatch.setattr(helpers, "cores", lambda: 3)
    with pytest.raises(KeyboardInterrupt), helpers.compile_helpers("routes") as begin:  # noqa: PT012
        assert not started
        begin()
        begin()
        raise KeyboardInterrupt
    assert [each.args[-3:] for each in started] == [["routes", "0", "2"], ["routes", "1", "2"]]
    assert all(each.returncode is not None for each in started)
    monkeypatch.setattr(helpers, "cores", lambda: 1)
    with helpers.compile_helpers("routes") as begin:
        begin()
    assert len(started) == 2


def test_a_helper_ends_when_the_process_that_started_it_is_gone(tmp_path: Path) -> None:
    """A killed process closes its end of the pipe."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    helper = subprocess.Popen(
        [sys.executable, "-m", "weft.cli.warmup", "packets,routes", "0", "1"],
        env=environment, stdin=subprocess.PIPE,
    )  # fmt: skip
    with pytest.raises(subprocess.TimeoutExpired):
        helper.wait(2)
    assert helper.stdin is not None
    helper.stdin.close()
    assert helper.wait(PATIENCE_S) == 0


def test_a_helper_with_nothing_left_to_compile_exits_with_status_0() -> None:
    """The helper's other thread still waits for the pipe to close."""
    code = "from weft.cli import warmup; warmup.PARTS['routes'] = lambda: (); "
    code += "warmup.help_compile('routes', 0, 1)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as helper:
        assert helper.wait(PATIENCE_S) == 0


def ran(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Return the names of the parts that `weft warmup` runs, in order."""
    done: list[str] = []
    for name in warmup.PARTS:
        monkeypatch.setitem(warmup.PARTS, name, partial(iter, [partial(done.append, name)]))
    monkeypatch.setattr(helpers, "cores", lambda: 1)
    assert main(["warmup", *words]) == 0
    return done


def test_warmup_compiles_what_the_commands_need_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch) == [name for name in warmup.PARTS if name != "routes"]
    assert ran(monkeypatch, "--for", "predict") == ["contention"]
    assert ran(monkeypatch, "--for", "compare,route", "--for", "info") == [
        "comparisons", "routes", "rare",
    ]  # fmt: skip
    assert ran(monkeypatch, "--for", "simulate") == ["packets", "flits", "routes", "flows"]
    assert ran(monkeypatch, "--for", "list, doctor") == []
    assert ran(monkeypatch, "--for", "trace,convert") == ["programs"]
    assert ran(monkeypatch, "--for", "paper") == list(warmup.ALL)
    assert set(warmup.NEEDS) <= set(commands())


def test_warmup_refuses_unknown_commands_before_it_compiles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["warmup", "--for", "compare,simulat"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "weft: error: --for: unknown command 'simulat' (did you mean 'simulate'?); expected one of "
    )
    assert error.count("\n") == 1


def test_warmup_says_how_much_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study_progress, "LINE_S", 0.0)
    monkeypatch.setattr(warmup, "Display", partial(study_progress.Display, 0.0))
    ran(monkeypatch, "--for", "simulate")
    assert capsys.readouterr().err.splitlines() == [
        f"weft: {left} of 4 groups of kernels left" for left in (4, 3, 2, 1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["convert", "allreduce:size=8", "--ranks", "4", "--to", "goal"],
        ["trace", "check", "examples/stencil.trace", "--ranks", "64"],
        ["cost", "torus:4x4"],
        ["predict", "examples/contention_graph.txt"],
        ["flits", "torus:4x4", "--routing", "dor"],
        ["route", "fat-tree:k=4", "updn"],
        ["sweep", "xgft:2;4,4;1,4", "--engine", "dmodk", "--loads", "0.2", "--measure", "20us"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_compiles_nothing_after_its_warmup(tmp_path: Path, words: list[str]) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    sizes = []
    for run in (["warmup", "--for", words[0]], words):
        ran = [sys.executable, "-m", "weft", *run]
        subprocess.run(ran, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        sizes.append(len(list((tmp_path / "cache").rglob("*.nbc"))))
    assert sizes[0] == sizes[1]
