"""Start of the `weft` program: its imports, Ctrl-C during imports, and --help."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import PATIENCE_S

from weft.cli import main
from weft.cli.app import COMMANDS, commands, program

#: Runs `weft` and sends a signal just before a module is imported.
SIGNALLED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{sent})

sys.meta_path.insert(0, Finder())
signal.signal(signal.{sent}, {handler})
from weft.cli import main
raise SystemExit(main())
"""


def python(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *words], capture_output=True, text=True, check=False
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("module", ["cyclopts", "weft.cli.listing", "numba"])
@pytest.mark.parametrize(
    ("sent", "handler", "status", "word"),
    [
        ("SIGINT", "signal.default_int_handler", 130, "interrupted"),
        ("SIGTERM", "signal.SIG_DFL", 143, "terminated"),
    ],
)
def test_a_signal_while_modules_are_imported_prints_one_line(
    module: str, sent: str, handler: str, status: int, word: str
) -> None:
    text = SIGNALLED.format(module=module, sent=sent, handler=handler)
    result = python(text, "list", "engines")
    assert (result.returncode, result.stdout, result.stderr) == (status, "", f"weft: {word}\n")


def test_ctrl_c_within_exec_gives_a_status_and_no_signal(tmp_path: Path) -> None:
    """Python records an interrupt within exec and then ends a module run with -m by the signal."""
    (tmp_path / "sitecustomize.py").write_text(
        "import weft.cli.app as app\n"
        "from weft.core.signals import stoppable\n"
        "def info(words, known):\n"
        "    return lambda *words, **options: exec('raise KeyboardInterrupt')\n"
        "app.program = info\n"
    )
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    result = apart("-m", "weft", "info", "ring:4", PYTHONPATH=path)
    assert result == (130, "", "weft: interrupted\n")


def test_a_process_that_ignores_ctrl_c_keeps_ignoring_it() -> None:
    result = python(
        SIGNALLED.format(module="cyclopts", sent="SIGINT", handler="signal.SIG_IGN"), "--version"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "0.1.0\n", "")


def test_a_command_restores_the_signal_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("sys.argv", ["weft", "--version"])
    assert main() == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_help_imports_no_command() -> None:
    text = (
        "import sys; from weft.cli import main; main(['--help']);"
        "print([name for name in ('numpy', 'numba', 'polars', 'pydantic') if name in sys.modules])"
    )
    result = python(text)
    assert result.stdout.splitlines()[-1] == "[]"
    for name, (_, summary) in commands().items():
        assert f"│ {name} " in result.stdout
        assert summary.split()[-1] in result.stdout


def test_a_command_of_a_plug_in_replaces_none_of_weft(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = dict.fromkeys(("route", "mine"), ("their_module:command", "Do it."))
    monkeypatch.setattr("weft.cli.app.extensions", lambda group, kind: theirs.items())
    assert commands()["route"] == COMMANDS["route"]
    assert commands()["mine"] == theirs["mine"]


@pytest.mark.parametrize("name", commands())
def test_help_of_a_command_agrees_with_the_list_of_commands(name: str, capsys) -> None:
    command = program([name])[name]
    described = (command.help or inspect.getdoc(command.default_command) or "").replace("`", "")
    assert described.partition("\n")[0] == commands()[name][1]
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert " ".join(described.split())[:200] in " ".join(out.split())


def apart(*words: str, **environment: str) -> tuple[int, str, str]:
    """Return status and output of weft in a separate process; options of Python come first."""
    result = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        env={**os.environ, **environment},
    )  # fmt: skip
    return result.returncode, result.stdout, result.stderr


def test_characters_outside_the_output_encoding_are_replaced(tmp_path: Path) -> None:
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    odd = tmp_path / "naïve\N{SNOWMAN}.net"
    assert main(["convert", "ring:4", "--to", "ibsim", "-o", str(odd)]) == 0
    status, out, err = apart("-m", "weft", "info", str(odd), **plain)
    assert (status, err) == (0, "")
    assert "8 x 4x" in out
    assert "naive?.net" in out.replace("\n", "")


def test_commands_work_without_docstrings() -> None:
    status, out, err = apart("-OO", "-m", "weft", "cost", "ring:4")
    assert (status, err) == (0, "")
    assert "cables" in out


@pytest.mark.parametrize("columns", ["1", "2", "39", "9" * 12])
@pytest.mark.parametrize("words", [["trace", "--help"], ["list", "minhop"], ["info", "ring:4"]])
def test_commands_accept_any_terminal_width(
    words: list[str], columns: str, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(words) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= min(int(columns) + 100, 10_000)
    assert os.environ["COLUMNS"] == columns


@pytest.mark.parametrize("columns", ["0", "-3", "x", ""])
def test_an_invalid_width_is_ignored(capsys, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["list", "engines"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) == 140
