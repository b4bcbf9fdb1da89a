"""Measurements from files and folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from weft.core.columns import frame
from weft.core.errors import InputError
from weft.core.files import read_text
from weft.fabrics.formats.read_write import files_of
from weft.measured.formats.measurement_format_registry import MeasuredValue, measurement_reader
from weft.measured.measurements import MEASUREMENT_COLUMNS, Measurements

#: Colours of terminals and other control characters, which are no part of values and names.
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FIELDS = [each.name for each in fields(MeasuredValue)]


def read_measurements(paths: str | Path | Sequence[str | Path]) -> Measurements:
    """Read what benchmarks measured.

    Parameters
    ----------
    paths
        Files and folders: logs of nccl-tests, of the OSU micro-benchmarks and of perftest, and CSV;
        recognised by their contents. Files of a folder that are none of these are passed over.

    Returns
    -------
    Measurements
        One or more values.

    Raises
    ------
    InputError
        If a file cannot be read, is in no known format, is cut, or is given twice; or a folder has
        no logs.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    data: dict[str, list[object]] = {name: [] for name in MEASUREMENT_COLUMNS}
    seen: set[Path] = set()
    for path in listed:
        folder = Path(path).is_dir()
        found = False
        for file in files_of(Path(path), warns=True) if folder else [Path(path)]:
            text = _CONTROL.sub("", read_text(file))
            form = next((each for each in measurement_reader if each.facts["sniff"](text)), None)
            if form is None and folder:
                continue
            if form is None:
                expected = ", ".join(measurement_reader.names())
                raise InputError(
                    f"is no log that weft reads; expected one of {expected}", file=file
                )
            if file.resolve() in seen:
                raise InputError("is given twice; its values would count as repeated", file=file)
            seen.add(file.resolve())
            rows = form.function(text, str(file))
            found = True
            for row in rows:
                row.benchmark = row.benchmark or form.name
            data["source"] += [str(file)] * len(rows)
            for name in _FIELDS:
                data[name] += [getattr(row, name) for row in rows]
        if folder and not found:
            raise InputError("has no log of a benchmark", file=path)
    return Measurements(frame(MEASUREMENT_COLUMNS, data))
