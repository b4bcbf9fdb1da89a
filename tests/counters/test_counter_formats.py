"""Readings of port counters in each format."""

from __future__ import annotations

import warnings
from pathlib import Path

import polars as pl
import pytest
from tests.counter_files import FORMATS, values_of
from tests.ibdiagnet2_files import with_lids

import weft
from weft.counters.counters import COUNTERS, Counters
from weft.counters.read import read_counters
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import FormatWarning

TREE = with_lids(weft.fabric("xgft:2;4,4;1,4"))
TIME = "2026-01-01T00:00:00Z"


def write(folder: Path, text: str, name: str = "reading.out") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def quietly(*paths: Path | str, fabric: Fabric = TREE, **options: bool) -> Counters:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return read_counters(list(paths), fabric, **options)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_each_port_its_counters(form: str, tmp_path: Path) -> None:
    writer, names = FORMATS[form]
    values = values_of(TREE)
    path = write(tmp_path, writer(TREE, values))
    read = quietly(f"{path}@{TIME}").frame
    assert read["slot"].to_list() == list(values)
    for name in COUNTERS:
        known = [each[name] for each in values.values()] if name in names else [None] * len(values)
        assert read[name].to_list() == known, name
    assert set(map(str, read["time"])) == {"2026-01-01 00:00:00+00:00"}
    assert len(read.filter(pl.col("reading") != pl.col("time"))) == 0
