"""Numbers of thousands of digits, counts without end, and texts that no file can have as a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reading import reader_of

from weft.cli import main
from weft.core.errors import InputError
from weft.core.units import rate_code
from weft.core.words import natural_key
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.engine_registry import engine
from weft.routing.opensm.lft_lines import parse_dump
from weft.routing.opensm.qos import read_qos_policy
from weft.sim.flit.booksim.grammar import parse as parse_booksim
from weft.sim.flit.traffic import Load
from weft.study.experiment.toml_file import read_experiment
from weft.workload.formats import read_workload
from weft.workload.trace.parser import parse as parse_trace

read_list = reader_of("opensm-subnet")

#: More digits than int() accepts.
DIGITS = "9" * 5000
TREE = build("xgft:1;3;1")
END = (
    "{ SW Ports:08 SystemGUID:0000000000000001 NodeGUID:0000000000000001 "
    "PortGUID:0000000000000001 VenID:0 DevID:0 Rev:0 {a} LID:0001 PN:01 }"
)
LFTS = "Unicast lids [0-6] of switch Lid 2 guid 0x200000:\n0x0001 {}\n"


def in_file(read: Callable[[Path], object], text: str, folder: Path) -> object:
    path = folder / "text"
    path.write_text(text)
    return read(path)


QOS = "qos-levels\n qos-level\n name: DEFAULT\n sl: {}\n end-qos-level\nend-qos-levels\n"
READ: dict[str, tuple[Callable[[Path], object], str]] = {
    "rate": (lambda _: rate_code(f"{DIGITS}xHDR"), "unknown rate '9999"),
    "port of a table": (
        lambda _: parse_dump(LFTS.format(DIGITS), "f"),
        "expected a LID and a port",
    ),
    "width of a list": (
        lambda _: read_list(f"{END} {END} PHY={DIGITS}x LOG=ACT SPD=10\n", "f"),
        "f:1: unknown rate '9999",
    ),
    "service level": (
        lambda folder: in_file(lambda f: read_qos_policy(TREE, f), QOS.format(DIGITS), folder),
        "a service level must be 0 to 15, not '9999",
    ),
    "BookSim": (lambda _: parse_booksim(f"k = {DIGITS};", "f"), "the number 9999.* is too large"),
    "trace": (
        lambda _: parse_trace(f"CALC 1ns AFTER {DIGITS}\n"),
        "expected a number of operations back",
    ),
    "size in flits": (lambda _: Load(size=DIGITS), "expected a size in flits"),
    "port of a cable": (lambda _: TREE.find_cable(f"s1-0[{DIGITS}]"), "is not a port"),
}


@pytest.mark.parametrize("what", READ)
def test_a_number_of_thousands_of_digits_is_refused(what: str, tmp_path: Path) -> None:
    read, message = READ[what]
    with pytest.raises(InputError, match=message):
        read(tmp_path)


def test_long_numbers_in_names_are_ordered() -> None:
    names = [f"n{DIGITS}", "n10", "n2", "n02", "n", "n1" + "0" * 5000]
    assert sorted(names, key=natural_key) == ["n", "n2", "n02", "n10", names[0], names[-1]]


@pytest.mark.parametrize("name", [each.name for each in engine if "passes" in each.options])
def test_the_number_of_passes_has_a_bound(name: str) -> None:
    with pytest.raises(InputError, match="passes: '10000000000' does not fit: expected 100 or l"):
        route(TREE, f"{name}:passes=10000000000")


# -- names of files --------------------------------------------------------------------------------

LONG = "x" * 300


def test_a_long_workload_in_an_experiment_is_no_file_name(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f'fabric = "xgft:1;3;1"\n[[job]]\nworkload = "{LONG}"\n')
    assert read_experiment(path).job[0].workload == (LONG,)


def test_a_long_name_of_a_workload_file_is_refused() -> None:
    with pytest.raises(InputError, match="x: cannot be read: File name too long"):
        read_workload(LONG, "goal")


@pytest.mark.parametrize("words", [["audit", LONG], ["store", "ls", LONG]])
def test_a_long_file_name_is_not_an_error_of_the_output(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("weft: error: xxx")
    assert error.endswith(": File name too long\n")


def test_a_whole_number_of_an_option_is_shown_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "xgft:1;3;1", "--samples", DIGITS]) == 2
    error = capsys.readouterr().err
    assert "does not fit: expected a whole number" in error
    assert len(error) < 200
