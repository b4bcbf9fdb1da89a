"""Commands and Python of the README, the tutorial and the guides run."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/tutorial.md",
    *sorted((ROOT / "docs/guides").glob("*.md")),
]
COMMANDS = {
    words: None
    for page in PAGES
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for words in re.findall(r"^\$ weft (.*)$", block, re.MULTILINE)
}

#: Beginnings of commands that take many seconds.
SLOW = ("topologies --hosts 1024", "place-io 'xgft:2;4,4;1,4'")


def python_of(page: Path) -> str:
    """Return the Python blocks of a page as one program."""
    return "\n".join(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.slow] if words.startswith(SLOW) else [])
        for words in COMMANDS
    ],
)
def test_commands_succeed(words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(words)) == 0
    printed = capsys.readouterr()
    assert printed.out.strip()
    assert "error" not in printed.err
    for option in ("--report", "--plot", "--html", "--out"):
        if f"{option} " in words:
            name = words.partition(f"{option} ")[2].split()[0]
            assert os.path.getsize(folder / name) > 0


def test_python_of_the_readme_gives_what_is_shown(folder: Path) -> None:
    (listing,) = re.findall(r"^```python\n((?:.*\n)*?)```$", README, re.MULTILINE)
    shown = doctest.DocTestParser().get_doctest(listing, {}, "README", "README.md", 0)
    result = doctest.DocTestRunner().run(shown)
    assert result.attempted >= 7
    assert result.failed == 0


@pytest.mark.parametrize("page", [each for each in PAGES[1:] if python_of(each)], ids=str)
def test_python_of_the_pages_runs(page: Path, folder: Path) -> None:
    """Run in a new process: plug-ins that a page registers must not reach other tests."""
    words = [sys.executable, "-W", "error", "-c", python_of(page)]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    ran = subprocess.run(
        words, check=False, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


def test_the_readme_is_short_and_its_pages_exist() -> None:
    assert len(README.splitlines()) < 150
    assert len(COMMANDS) > 20
    for page in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / page).is_file(), page
