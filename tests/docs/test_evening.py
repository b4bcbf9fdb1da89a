"""The guide of an evening: its commands, one after the other, print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.oracle.tools import require_tools

from weft.cli import main

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/evening.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
#: Command and what the guide shows of its output, in order.
STEPS = [
    (command, shown)
    for block in BLOCKS
    for command, shown in re.findall(r"^\$ weft (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
]


def pattern_of(shown: str) -> str:
    """Return a regular expression of what is shown, in order; … stands for any text of a line."""
    lines = [re.escape(" ".join(line.split())) for line in shown.splitlines()]
    return r"[\s\S]*?".join(lines).replace(r"\ …", "…").replace("…", ".*?")


@pytest.mark.oracle
@pytest.mark.slow
def test_the_commands_of_the_evening_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    require_tools("opensm", "ibsim", "ibswitches")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert len(STEPS) >= 8
    for command, shown in STEPS:
        assert main(shlex.split(command)) == 0, command
        printed = capfd.readouterr()
        lines = f"{printed.out}\n{printed.err}".splitlines()
        text = "\n".join(" ".join(line.split()) for line in lines)
        assert re.search(pattern_of(shown), text), f"{command}:\n{shown}\n{printed.out}"
