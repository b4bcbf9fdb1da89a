"""`weft report`: the results of a study as a page, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import check_files, check_folder, console
from weft.cli.option_types import FIRST, OUTPUT, File, Folder, Name, Pair
from weft.cli.study_text import show_study
from weft.core.errors import InputError

#: Suffixes of pages.
PAGES = (".html", ".htm")
#: Exit status if no run is complete.
NO_RESULT = 1


def report_command(
    store: Annotated[Path, Parameter(help="Folder of the study's results.")],
    /,
    *,
    study: Annotated[
        Name | None, FIRST(help="Name of the study, if the folder holds several.")
    ] = None,
    out: Annotated[
        File | None, FIRST(help="Write a page that opens in any browser (.html).")
    ] = None,
    files: Annotated[
        Folder | None,
        OUTPUT(help="Write tables (Parquet, CSV, LaTeX) and figures into this folder."),
    ] = None,
    measure: Annotated[
        tuple[Name, ...], FIRST(help="Only these measures, the main one first.")
    ] = (),
    baseline: Annotated[
        tuple[Pair, ...],
        OUTPUT(help="Compare with the runs of these values of axes: AXIS=VALUE."),
    ] = (),
    where: Annotated[
        tuple[Pair, ...],
        OUTPUT(help="Only runs of these values: AXIS=VALUE, several of an axis for either."),
    ] = (),
) -> int:
    """Answer what a study asks: the best by each measure, with intervals, tables and figures.

    Example: `weft report engines.study --out report.html`
    """
    check_files(("--out", out, PAGES))
    check_folder("--files", files)
    from weft.report.study_summary import chosen, summary
    from weft.study.data import study_data

    wanted = _assigned("--where", where)
    fixed = _assigned("--baseline", baseline)
    twice = next((axis for axis, values in fixed.items() if len(values) > 1), None)
    if twice is not None:
        raise InputError(f"--baseline: axis {twice} is given twice; expected one value")
    data = chosen(
        study_data(store, study),
        measure,
        {axis: values[0] for axis, values in fixed.items()} or None,
        wanted,
    )
    made = summary(data)
    show_study(made, console())
    if out is not None:
        from weft.report.study_page import write_study_page

        size = write_study_page(data, out)
        print(f"page: {out} ({size / 1e6:.1f} MB)")
    if files is not None:
        from weft.report.study_files import write_study_files

        print(f"files: {len(write_study_files(data, files))} in {files}")
    return 0 if any(made.keys) else NO_RESULT


def _assigned(option: str, texts: Sequence[str]) -> dict[str, list[str]]:
    """Return axis -> values of texts such as ``engine=minhop``."""
    found: dict[str, list[str]] = {}
    for text in texts:
        axis, equals, value = text.partition("=")
        if not equals or not axis:
            raise InputError(f"{option} {text}: expected AXIS=VALUE")
        found.setdefault(axis.strip(), []).append(value.strip())
    return found
