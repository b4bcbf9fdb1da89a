"""The page of a rehearsal: its moments, its verdict, and the fabric."""

from __future__ import annotations

from weft.advice.comparison import fabric_facts
from weft.report.comparison_data import Page, PageSection
from weft.subnet.live.rehearsal import COLUMNS, Rehearsal


def rehearsal_page(rehearsal: Rehearsal) -> Page:
    """Return the data of the page of a rehearsal."""
    verdict, *lines = rehearsal.text()
    units = {name: f" ({column.unit})" if column.unit else "" for name, column in COLUMNS.items()}
    moments = tuple(
        {
            f"{name.replace('_', ' ').removesuffix(' s')}{units[name]}": "" if value is None
            else f"{value:.2f}" if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in rehearsal.table().iter_rows(named=True)
    )  # fmt: skip
    return Page(
        rehearsal.fabric, f"Rehearsal of new tables of {rehearsal.fabric.name}",
        fabric_facts(rehearsal.fabric), {}, (), {}, (),
        notes=tuple(f"{line[0].upper()}{line[1:]}." for line in (*lines, *rehearsal.change.text())),
        notes_title="Worst moment, and what changes", answer=f"{verdict[0].upper()}{verdict[1:]}.",
        sections=(PageSection("Moments", moments),) if moments else (),
    )  # fmt: skip
