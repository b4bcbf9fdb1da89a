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
#: Whose commands follow one another; test_evening.py runs them.
EVENING = ROOT / "docs/guides/evening.md"
COMMANDS = {
    words: None
    for page in PAGES
    if page != EVENING
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for words in re.findall(r"^\$ weft (.*)$", block, re.MULTILINE)
}

#: Beginnings of commands that take seconds; others of these commands remain.
SLOW = (
    "topologies --hosts 1024", "place-io 'xgft:2;4,4;1,4'", "compare 'xgft:2;8,8;1,4' --samples",
    "compare 'dragonfly:p=4,a=4,h=2' --samples", "compare examples/cluster.ibnetdiscover --samples",
)  # fmt: skip
#: Runs each program in a folder of its own and in a fork of a process that has imported weft, so
#: that plug-ins which one registers do not reach another. Prints the programs that fail.
RUN_EACH = """
import os, pathlib, sys, types

def load():
    import weft
    return [getattr(weft, name) for name in weft.__all__]

load()
for path in map(pathlib.Path, sys.argv[1:]):
    if os.fork() == 0:
        os.chdir(path.parent)
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(path.read_text(), str(path), "exec"), vars(sys.modules["__main__"]))
        sys.exit()
    if os.wait()[1]:
        print(path)
"""


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


def test_python_of_the_pages_runs(tmp_path: Path) -> None:
    programs = []
    for page in PAGES[1:]:
        if python_of(page):
            folder = tmp_path / page.stem
            folder.mkdir()
            (folder / "examples").symlink_to(ROOT / "examples")
            programs.append(folder / "page.py")
            programs[-1].write_text(python_of(page))
    assert len(programs) >= 5
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_EACH, *map(str, programs)],
        env={**os.environ, "MPLBACKEND": "agg"}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, [line for line in ran.stdout.splitlines() if "page.py" in line]) == (
        0, [],
    ), ran.stderr  # fmt: skip


def test_the_readme_is_short_and_its_pages_exist() -> None:
    assert len(README.splitlines()) < 150
    assert len(COMMANDS) > 20
    for page in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / page).is_file(), page
