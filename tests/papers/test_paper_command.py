"""`weft paper`: the papers, and the options of each study."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from weft.cli import main
from weft.core.registry import Entry
from weft.study.runs.typed import Results
from weft_papers.commands import paper as paper_command
from weft_papers.paper_registry import paper as papers


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the output of a command, without the frames and line breaks of its tables."""
    assert main(words) == 0
    return " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())


def test_help_lists_the_papers(capsys) -> None:
    for words in (("paper", "--help"), ("paper",)):
        out = shown(capsys, *words)
        for entry in papers:
            assert entry.name in out
            assert " ".join(entry.summary.split()[:4]) in out


@pytest.mark.parametrize("entry", list(papers), ids=lambda entry: entry.name)
def test_help_of_a_paper_lists_its_options_as_weft_list_does(capsys, entry: Entry) -> None:
    helped = shown(capsys, "paper", entry.name, "--help")
    helped, _, _ = helped.partition("Every command also takes:")
    listed = shown(capsys, "list", "papers", entry.name)
    assert shown(capsys, "paper", entry.name, "--help") == shown(
        capsys, "paper", entry.aliases[0], "--help"
    ).replace(f"paper {entry.aliases[0]} ", f"paper {entry.name} ")
    assert len(entry.options) >= 5
    for name, option in entry.options.items():
        flag = "--" + name.replace("_", "-")
        match = re.search(rf" {flag} (?:[-A-Z]\S* )?(.*?)(?: \[| --[a-z]| Output --|$)", helped)
        assert match is not None, flag
        assert match[1] in listed
        assert len(match[1]) > 8
        default = option.default
        if default not in (None, ()) and default is not False:
            text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            assert re.search(rf" {flag} [^[]*(\[choices: [^]]*\] )?\[default: {text}\]", helped)


@pytest.fixture
def options_of_study(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the options that the KNS study is called with, without running it."""
    options: dict[str, Any] = {}

    class Made:
        files = (Path("a.csv"),)
        partial = ""

        def text(self) -> str:
            return "made\n\n"

    real = papers["kns-infiniband"].function

    @functools.wraps(real)
    def study(results: Results, **chosen: Any) -> Made:
        options.update(chosen)
        if results.store is not None:
            options["store"] = results.store
        return Made()

    entry = papers["kns-infiniband"]
    command = paper_command._command(Entry("kns", study, (), entry.facts))
    monkeypatch.setattr(paper_command.paper_app["kns"], "default_command", command)
    return options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {}),
        (("--full",), {"full": True}),
        (("--beyond", "False"), {"beyond": False}),
        (("--no-beyond", "--full", "yes"), {"beyond": False, "full": True}),
        (("--ranks-per-node", "1,8", "--seed", "0"), {"ranks_per_node": (1, 8), "seed": 0}),
        (("--benchmarks", "ebb,ptrans"), {"benchmarks": ("ebb", "ptrans")}),
        (("--level=flow", "--out", "x/y"), {"level": "flow", "out": Path("x/y")}),
        (("--store", "x/z"), {"store": Path("x/z")}),
    ],
)
def test_options_reach_the_study(
    capsys, options_of_study: dict[str, Any], words: tuple[str, ...], expected: dict[str, Any]
) -> None:
    assert shown(capsys, "paper", "kns", *words) == "made a.csv"
    assert options_of_study == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("myri",), "unknown paper 'myri'; expected one of accuracy, contention-model,"),
        (("kns", "--level", "flwo"), "--level: 'flwo' does not fit: expected 'packet' or 'flow'"),
        (("kns", "--ranks-per-node", "1,x"), "--ranks-per-node: 'x' does not fit: expected a whol"),
        (("kns", "--ful"), "weft paper kns has no option '--ful' (did you mean '--full'?)"),
        (("kns", "all"), "weft paper kns: unexpected argument 'all'"),
        (("multipath-ecmp", "--seeds", "none"), "--seeds: 'none' does not fit: expected a whole"),
        (("kns", "--out", ""), "--out: expected a path, not an empty text"),
        (("kns", "--store", ""), "--store: expected a path, not an empty text"),
        (("multipath-ecmp", "--store", __file__), "test_paper_command.py: cannot be written to"),
        (("contention-model", "--edges", "0"), "edges must be 1 to 200, not 0"),
    ],
)
def test_a_mistake_is_one_line(capsys, words: tuple[str, ...], says: str) -> None:
    assert main(["paper", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_store_that_is_not_written_is_said(capsys, tmp_path: Path) -> None:
    assert main(["paper", "contention-model", "--store", str(tmp_path / "none")]) == 0
    assert "none is not written: with these options no runs are kept" in capsys.readouterr().err
