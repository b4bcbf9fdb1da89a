"""Flags of every command (--json, --quiet, --verbose), completion, and `weft doctor`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli import main

ROOT = Path(__file__).parents[2]
TREE = "xgft:2;2,2;1,2"
COMMANDS = {
    "list policies": "policies",
    "list minhop": "minhop",
    f"info {TREE}": "fabric",
    f"route {TREE} dmodk": "valid",
    f"compare {TREE} --engine minhop --samples 2": "engines",
    f"simulate {TREE} --workload barrier": "runs",
    f"simulate {TREE} --workload barrier --engine minhop,dmodk": "runs",
    f"cost {TREE}": "summary",
    f"predict {ROOT}/examples/contention_graph.txt": "edges",
    f"trace check {ROOT}/examples/stencil.trace --ranks 8": "messages",
    f"sweep {TREE} --loads 0.1 --measure 20us": "loads",
    "doctor": "versions",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_json_is_all_of_standard_output(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", *words.split()]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results[COMMANDS[words]]


def test_numbers_in_json_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    main(["simulate", TREE, "--workload", "alltoall:size=1KiB", "--json"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    main(["simulate", TREE, "--workload", "alltoall:size=1KiB"])
    assert run["makespan_ns"] > 0
    assert run["status"] == "complete"
    assert "makespan_ns" not in capsys.readouterr().out  # the flag holds for one command


def test_a_failing_command_prints_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "nothing:1", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("weft: error: ")


def test_quiet_leaves_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    slow = ["compare", TREE, "--engine", "minhop", "--samples", "2", "--timing"]
    main(slow)
    assert "routed in" in capsys.readouterr().err
    main([*slow, "--quiet"])
    assert capsys.readouterr().err == ""
    assert main(["info", "nothing:1", "--quiet"]) == 2
    assert "error" in capsys.readouterr().err


def test_verbose_prints_a_traceback_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info", "nothing:1", "--verbose"])
    assert "Traceback" in capsys.readouterr().err


def test_flags_after_two_dashes_belong_to_another_program() -> None:
    from weft.cli.output import split_flags

    flags, rest = split_flags(["--json", "opensm", "live", "ring:6", "--", "ls", "--quiet"])
    assert flags == {"--json"}
    assert rest == ["opensm", "live", "ring:6", "--", "ls", "--quiet"]


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(each, marks=pytest.mark.slow) for each in ("zsh", "fish"))]
)
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.cli.app import commands

    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in commands())
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_doctor_names_missing_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "not installed: weft opensm live needs it (Debian package opensm)" in printed
    assert sys.executable in printed
    assert main(["--json", "doctor"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"]["encoding"]


@pytest.mark.parametrize("words", [["--help"], ["list", "policies"]], ids=" ".join)
def test_no_color_and_pipes_turn_colours_off(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(words) == 0
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(words) == 0
    assert "\x1b" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(words) == 0
    assert not re.search(r"\x1b\[[\d;]*(3[0-7]|9[0-7]|38)[;m]", capsys.readouterr().out)
