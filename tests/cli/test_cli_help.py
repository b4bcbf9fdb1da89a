"""Help of every command: groups of options, words for their values, and examples."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator

import cyclopts
import pytest

from weft.cli import main
from weft.cli.app import attached, commands, program
from weft.cli.option_types import GROUPS
from weft.core.settings import settings
from weft.fabrics.faults import Faults


def every_command(
    app: cyclopts.App, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], cyclopts.App]]:
    """Yield the words and the app of each command that runs something."""
    for name in app:
        if not name.startswith("-"):
            yield from every_command(app[name], (*path, name))
    if app.default_command is not None and path:
        yield path, app


COMMANDS = dict(every_command(program(tuple(commands()))))


def titles(app: cyclopts.App) -> dict[str, list[str]]:
    """Return option -> titles of its groups."""
    arguments = app.assemble_argument_collection()
    return {
        each.name: [group.name for group in each.parameter.group]
        for each in arguments
        if each.parse and each.name.startswith("-")
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_option_is_in_one_of_the_groups(words: tuple[str, ...]) -> None:
    known = [group.name for group in GROUPS.values()]
    assert {name: of for name, of in titles(COMMANDS[words]).items() if of[0] not in known} == {}
    assert all(len(of) == 1 for of in titles(COMMANDS[words]).values())


def test_the_options_of_a_fabric_are_in_the_same_group_of_every_command() -> None:
    flags = {item.flag for item in settings(Faults)}
    found = [
        of[0] for app in COMMANDS.values() for name, of in titles(app).items() if name in flags
    ]
    assert len(found) > 50
    assert set(found) == {"Fabric and faults"}


@pytest.mark.parametrize("columns", ["80", pytest.param("120", marks=pytest.mark.slow)])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_says_what_to_type(
    words: tuple[str, ...], columns: str, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main([*words, "--help"]) == 0
    out = capsys.readouterr().out
    assert not re.findall(r"\bSTR\b|--\S+ PATH\b", out)
    panels = re.findall(r"^╭─ (.+?) ─+╮$", out, re.MULTILINE)
    order = ["Arguments", *(group.name for group in GROUPS.values())]
    assert panels == [title for title in order if title in panels]


def test_the_most_used_options_of_simulate_come_first(capsys) -> None:
    assert main(["simulate", "--help"]) == 0
    first = capsys.readouterr().out.partition("─ Most used ─")[2].partition("╰")[0]
    names = re.findall(r"^│ (--[a-z]+)", first, re.MULTILINE)
    assert names == ["--workload", "--placement", "--engine", "--level", "--out"]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_has_an_example_that_parses(words: tuple[str, ...]) -> None:
    text = inspect.cleandoc(COMMANDS[words].help)
    (example,) = re.findall(r"^Example: `weft (.*)`$", text, re.MULTILINE)
    given = shlex.split(example)
    command, *_ = program(given).parse_args(attached(given), exit_on_error=False, print_error=False)
    assert command is COMMANDS[words].default_command


def test_the_help_of_opensm_says_what_each_of_its_commands_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["opensm", "--help"]) == 0
    listed = re.findall(r"^│ (\w+) +[A-Z]", capsys.readouterr().out, re.MULTILINE)
    assert listed == ["export", "live", "rehearse"]
