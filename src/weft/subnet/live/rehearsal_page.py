"""The page of a rehearsal: its moments, its verdict, and the fabric."""

from __future__ import annotations

from weft.advice.comparison import fabric_facts
from weft.report.comparison_data import EngineVerdict, Page, PageSection, PatternRun
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.loads import relative_loads
from weft.subnet.live.rehearsal import MOMENT_COLUMNS, Rehearsal

_PATTERN = "all-to-all"


def rehearsal_page(rehearsal: Rehearsal) -> Page:
    """Return the data of the page of a rehearsal."""
    first = 1 + len(rehearsal.problems) + len(rehearsal.risks)
    answer, lines = rehearsal.text()[:first], rehearsal.text()[first:]
    units = {
        name: f" ({column.unit})" if column.unit else "" for name, column in MOMENT_COLUMNS.items()
    }
    moments = tuple(
        {
            f"{name.replace('_', ' ').removesuffix(' s')}{units[name]}": "" if value is None
            else f"{value:.2f}" if isinstance(value, float)
            else f"{value:,}" if isinstance(value, int) else value
            for name, value in row.items()
        }
        for row in rehearsal.table().iter_rows(named=True)
    )  # fmt: skip
    fabric, change = rehearsal.fabric, rehearsal.change
    runs, engines = [], []
    for name, routes in (("present tables", change.before), ("new tables", change.after)):
        judged = validate(fabric, routes)
        engines.append(
            EngineVerdict(
                name, routes.engine, ok=judged.ok_where_connected, findings=(*judged.findings(),)
            )
        )
        flows = all_to_all_loads(fabric, routes).per_link
        runs.append(PatternRun(name, _PATTERN, flows, relative_loads(fabric, flows)))
    return Page(
        fabric, f"Rehearsal of new tables of {fabric.name}",
        fabric_facts(fabric), {}, (*engines,), {_PATTERN: "one flow between each two hosts"},
        (*runs,),
        notes=tuple(map(_sentence, (*lines, *change.text()))),
        notes_title="Worst moment, and what changes", answer=" ".join(map(_sentence, answer)),
        sections=(PageSection("Moments", moments),),
    )  # fmt: skip


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."
