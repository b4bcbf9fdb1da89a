"""What the README shows is what a user sees."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from weft.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHOWN = re.findall(r"^```\n\$ weft (.*)\n((?:.*\n)*?)```$", README, re.MULTILINE)


@pytest.mark.parametrize(("words", "output"), SHOWN, ids=[words for words, _ in SHOWN])
def test_commands_print_what_is_shown(
    words: str,
    output: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    main(shlex.split(words))
    printed = capsys.readouterr().out.rstrip().splitlines()
    assert [line.rstrip() for line in printed] == output.rstrip().splitlines()


def test_python_gives_what_is_shown() -> None:
    (listing,) = re.findall(r"^```python\n((?:.*\n)*?)```$", README, re.MULTILINE)
    shown = doctest.DocTestParser().get_doctest(listing, {}, "README", "README.md", 0)
    found = doctest.DocTestRunner().run(shown)
    assert found.attempted >= 7
    assert found.failed == 0


def test_something_is_shown_and_every_page_is_there() -> None:
    assert len(SHOWN) == 3
    for page in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / page).is_file(), page
