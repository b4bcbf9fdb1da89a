"""Each mistake on the command line gives one error line, without Python's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import pytest
from cyclopts import App

from weft.cli import main
from weft.cli.app import attached, program
from weft.cli.app import commands as known
from weft.cli.common import FabricOptions
from weft.cli.cost import LayoutOptions
from weft.cli.options import type_of
from weft.cli.place_io import PlaceIoOptions
from weft.cli.simulate_options import RunOptions
from weft.cli.sweep import SweepOptions

TREE = "xgft:2;4,4;1,4"
#: A complete packet-level command, for tests that add one option.
PACKETS = ("simulate", TREE, "--workload", "barrier", "--level", "packet")


def failure(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one error line of a command line that fails."""
    status = main(words)
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("weft: error: ")
    return line.removeprefix("weft: error: ")


def commands() -> Iterator[tuple[str, ...]]:
    for name in known():
        command = program([name])[name]
        inner = [word for word in command if not word.startswith("-")]
        yield from ((name, word) for word in inner) if inner else [(name,)]


def command(*words: str) -> App:
    app = program(words)
    for word in words:
        app = app[word]
    return app


#: Type of an option -> what is expected of it.
EXPECTED = {
    "number": "a number",
    "whole number": "a whole number",
    "number or share": "a whole number, or a share such as 2%",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_numeric_option_refuses_other_text(capsys, words: tuple[str, ...]) -> None:
    """Values are checked before any work: the named fabric does not exist."""
    arguments = [each for each in command(*words).assemble_argument_collection() if each.parse]
    numbers = {
        argument.name: "whole number" if int in kinds else "number"
        for argument in arguments
        if {int, float} & (kinds := {argument.hint, *get_args(argument.hint)})
    }
    if words[0] == "topologies":
        numbers["--random-cables"] = "number or share"
    names = {name for argument in arguments for name in argument.names}
    tables = {
        "simulate": RunOptions, "sweep": SweepOptions, "cost": LayoutOptions,
        "place-io": PlaceIoOptions,
    }  # fmt: skip
    settings = tables.get(words[0])
    for item in (*FabricOptions.items.values(), *(settings.items.values() if settings else ())):
        if item.flag in names and type_of(item) in EXPECTED:
            numbers[item.flag] = type_of(item)
    needed = {
        "export": ("--engine", "x", "--out", "x"), "rehearse": ("--engine", "minhop"),
        "simulate": ("--workload", "barrier"), "keys": ("--workload", "barrier"),
        "replay": ("log",), "place-io": ("--io-nodes", "2"), "expect": ("--fabric", "nothing"),
        "watch": ("nothing", "nothing"), "what-if": ("--drain", "nothing"),
    }.get(words[-1], ())  # fmt: skip
    fabric = {"topologies": (), "check": ("nothing", "nothing")}.get(words[0], ("nothing",))
    for name, kind in numbers.items():
        for value in ("abc", "", *(("1.5", "1e3", "-0.5") if kind != "number" else ())):
            hosts = ("--hosts", "8") if words[0] == "topologies" and name != "--hosts" else ()
            message = failure(capsys, *words, *fabric, *needed, *hosts, name, value)
            assert message == f"{name}: {value!r} does not fit: expected {EXPECTED[kind]}"
    if words[0] in {"simulate", "cost", "compare", "place-io"}:
        assert len(numbers) >= 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["weave"], "unknown command 'weave' (did you mean 'sweep'?); expected one of audit, cal"),
        (["--hlep"], "weft has no option '--hlep' (did you mean '--help'?)"),
        (["route", TREE, "--engine"], "--engine needs a value; "),
        (
            ["trace", "format", "x", "--check", "-o", "y"],
            "--check writes nothing, so --output cannot",
        ),
        (["trace", "format", "x", "--check", "-i"], "--check writes nothing, so --in-place"),
        (
            ["sweep", TREE, "--plot", "x.png", "--also", "no.csv"],
            "no.csv: cannot be read: it is not a file",
        ),
        (["opensm", "liev"], "unknown opensm command 'liev' (did you mean 'live'?); expected "),
        (["info"], "weft info needs FABRIC; see 'weft info --help'"),
        (["opensm", "export", TREE], "weft opensm export needs --engine; see 'weft opensm exp"),
        (["info", TREE, "x"], "weft info: unexpected argument 'x'; "),
        (["compare", TREE, "--sample", "3"], "weft compare has no option '--sample' (did you mean"),
        (["compare", TREE, "--sample=3"], "weft compare has no option '--sample' (did you mean"),
        (["compare", TREE, "--seed", "1", "--seed", "2"], "--seed is given twice"),
        (["compare", TREE, "--seed"], "--seed needs a value; see 'weft compare --help'"),
        (["compare", TREE, "--seed", "--timing"], "--seed needs a value; "),
        (["compare", TREE, "--engines", "--timing"], "--engines needs a value; "),
        (
            ["compare", TREE, "--timing=maybe"],
            "--timing: 'maybe' does not fit: the option takes",
        ),
        (
            ["cost", TREE, "--core", "midle"],
            "expected 'middle', 'end' or 'row-ends' (did you mean 'middle'?)",
        ),
        (
            ["sweep", TREE, "--level", "static"],
            "--level: 'static' does not fit: expected 'flow', 'packet' or 'flit'",
        ),
        (
            ["sweep", TREE, "--warmup", "abc"],
            "--warmup: 'abc' does not fit: 'abc' is not a duration",
        ),
        (["info", TREE, "--fault-seed", "3"], "--fault-seed requires --random-cables or --random"),
        ([*PACKETS, "--fault-seed", "3"], "--fault-seed requires --random-cables or --random"),
        (["info", TREE, "--format", "abc"], "unknown readable format 'abc'; expected one of "),
        ([*PACKETS, "--workload-format", "goll"], "format 'goll' (did you mean 'goal'?)"),
        ([*PACKETS, "--trace-message", "3"], "--trace-message: '3' does not fit: expected RANK:N"),
        (
            [*PACKETS, "--trace-message", "0:0", "--trace-message", "a"],
            "--trace-message: 'a' does not fit: expected RANK:N",
        ),
        ([*PACKETS, "--local-gbps", "inf"], "--local-gbps: 'inf' does not fit: expected a finite"),
    ],
)
def test_a_mistake_is_named_with_what_was_expected(capsys, words: list[str], says: str) -> None:
    message = failure(capsys, *words)
    assert says in message
    assert not re.search(r"\(.*,\)|<class|NoneType|Input should|\bint\b|\bstr\b", message)


@pytest.mark.parametrize("equals", [False, True])
@pytest.mark.parametrize(
    ("words", "option", "value", "says"),
    [
        (PACKETS, "--snapshot", "-1us", "expected a positive time"),
        (PACKETS, "--max-time", "-1", "expected a positive time"),
        (PACKETS, "--start", "-.5ms", "expected a positive time"),
        (PACKETS, "--eager", "-4KiB", "expected a positive number of bytes"),
        (PACKETS, "--seed", "-1", "expected 0 or more"),
        (PACKETS, "--ranks", "-3", "expected 1 or more"),
        (PACKETS, "--max-seconds", "-1", "expected a number greater than 0"),
        (("sweep", TREE), "--loads", "-0.1:0.9:0.1", "0 < FIRST"),
        (("sweep", TREE), "--size", "-2KiB", "expected a positive number of bytes"),
        (("sweep", TREE), "--drain", "-2ms", "expected a positive time"),
        (("compare", TREE), "--samples", "-2x", "expected a whole number"),
        (("paper", "contention-model"), "--edges", "-3x", "does not fit"),
    ],
)
def test_a_negative_value_is_checked_by_its_option(
    capsys, words: tuple[str, ...], option: str, value: str, says: str, equals: bool
) -> None:
    message = failure(capsys, *words, *([f"{option}={value}"] if equals else [option, value]))
    assert says in message


def test_only_negative_numbers_and_booleans_are_joined_to_their_option_by_equals() -> None:
    words = ["a", "--b", "-1us", "--c=1", "-2", "--d", "-inf", "--e", "-x", "-3", "--", "--f", "-4"]
    assert attached(words) == [
        "a", "--b=-1us", "--c=1", "-2", "--d=-inf", "--e", "-x", "-3", "--", "--f", "-4",
    ]  # fmt: skip
    assert attached(["no", "--a", "No", "yes", "--b", "none"]) == [
        "no", "--a=No", "yes", "--b", "none",
    ]  # fmt: skip
    assert attached([]) == []


def test_layouts_have_help_for_each_option(capsys) -> None:
    main(["cost", "--help"])
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--chassis-units INT Height of a host chassis in U, and its number of hosts: " in out
    assert "--row-spacing-m FLOAT Distance between adjacent racks in a row, and between" in out
    assert "Repeatable. Default: 0.5, 1, 1.5, 2, 3, 5, 7," in out
