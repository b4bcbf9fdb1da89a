"""Mutated readings: an error or findings, but no traceback, negative rate or wrong port."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.counter_files import FORMATS, Values
from tests.ibdiagnet2_files import with_lids

import weft
from weft.core.errors import InputError
from weft.counters.counters import COUNTERS, Counters
from weft.counters.rates import RATE_COLUMNS, rates
from weft.counters.read import read_counters
from weft.fabrics.formats.format_registry import FormatWarning

TREE = with_lids(weft.fabric("xgft:2;2,2;1,2"))
#: Mutated readings of all formats together.
NUM_MUTATED = 20_000
UNIQUE = ("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts", "port_xmit_wait")
Random = np.random.Generator


def unique_values(step: int) -> Values:
    """Return values, those of traffic each different from all others."""
    random = np.random.default_rng(5)
    return {
        slot: {
            name: int(random.integers(2 if counter.bits < 32 else 1 << 28)) + 1000 * step
            if counter.bits in (0, 32) else 1
            for name, counter in COUNTERS.items()
        }
        for slot in range(len(TREE.port_link))
    }  # fmt: skip


def line_edit(change: Callable[[list[str], int, int], None]) -> Callable[[str, Random], str]:
    def edit(text: str, random: Random) -> str:
        lines = text.splitlines(keepends=True)
        one, other = random.integers(len(lines), size=2).tolist()
        change(lines, one, other)
        return "".join(lines)

    return edit


def alike(one: str, other: str) -> bool:
    """Return whether lines differ in numbers only, so that nobody can tell one from the other."""
    numbers = re.compile(r"0x[0-9a-f]+|[0-9]+|\.+")
    return numbers.sub("", one) == numbers.sub("", other)


def swap(lines: list[str], one: int, other: int) -> None:
    if not alike(lines[one], lines[other]):
        lines[one], lines[other] = lines[other], lines[one]


def cut_out(lines: list[str], one: int, other: int) -> None:
    one, other = min(one, other), max(one, other)
    if not alike(lines[one], lines[other]):
        del lines[one:other]


def rotate(lines: list[str], one: int, _: int) -> None:
    lines[:] = lines[one:] + lines[:one]


def replaced_at(text: str, at: int, count: int, new: str) -> str:
    return text[:at] + new + text[at + count :]


def digit(text: str, random: Random) -> str:
    """Change a digit, which is where ports and values are."""
    found = [match.start() for match in re.finditer(r"[0-9a-f](?=[0-9a-f\s\"\]]|$)", text)]
    at = found[random.integers(len(found))] if found else 0
    return replaced_at(text, at, 1, "0123456789abcdef"[random.integers(16)])


def character(text: str, random: Random) -> str:
    at = int(random.integers(len(text)))
    return replaced_at(text, at, int(random.integers(2)), random.choice([*'0:=#" \n\t-@é{}[]', ""]))


MUTATIONS: tuple[Callable[[str, Random], str], ...] = (
    digit, digit, digit, character,
    lambda text, random: text[: random.integers(len(text))],
    lambda text, random: text[random.integers(len(text)) :],
    line_edit(swap), line_edit(cut_out), line_edit(rotate),
    line_edit(lambda lines, one, other: lines.insert(one, lines[other])),
    line_edit(lambda lines, one, _: lines.pop(one)),
)  # fmt: skip


def check(path: Path, before: Counters, owner: dict[int, int]) -> bool:
    """Check what becomes of a reading; return whether it could be read."""
    try:
        after = read_counters(f"{path}@2026-01-01T00:00:10Z", TREE)
        found = rates(Counters.joined([before, after]))
    except InputError:
        return False
    for name in UNIQUE:
        for slot, value in after.frame.select("slot", name).iter_rows():
            assert owner.get(value, slot) == slot, f"{name} of another port"
    names = [name for name, each in RATE_COLUMNS.items() if each.dtype in (pl.Float64, pl.Int64)]
    for column in (each.frame[name] for each in found for name in names):
        assert not ((column < 0) | column.cast(pl.Float64).is_infinite()).any()
    return True


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "count", [NUM_MUTATED // 100, pytest.param(NUM_MUTATED, marks=pytest.mark.slow)]
)
def test_no_mutated_reading_is_believed(form: str, count: int, tmp_path: Path) -> None:
    writer, _ = FORMATS[form]
    first, second = unique_values(0), unique_values(1)
    text = writer(TREE, second)
    owner = {each[name]: slot for slot, each in second.items() for name in UNIQUE}
    path = tmp_path / "first"
    path.write_text(writer(TREE, first))
    random = np.random.default_rng([*FORMATS].index(form))
    read = 0
    number = -(-count // len(FORMATS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        before = read_counters(f"{path}@2026-01-01T00:00:00Z", TREE)
        assert check(path, before, {})
        for _ in range(number):
            mutated = text
            for _ in range(int(random.integers(1, 3))):
                if mutated:
                    mutated = MUTATIONS[random.integers(len(MUTATIONS))](mutated, random)
            path.write_text(mutated)
            read += check(path, before, owner)
    # Neither are all refused, nor are all believed.
    assert number / 20 < read < number
