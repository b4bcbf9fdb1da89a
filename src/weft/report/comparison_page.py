"""`write_comparison_page`: a comparison as one self-contained HTML file.

The page holds all its data and makes no network requests; its content security policy forbids
them. The drawing is a canvas and the chart is SVG, without a plotting library, which would be
larger than most pages.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from weft.core.files import write_text
from weft.fabrics import Fabric
from weft.report.comparison_data import LinkUsers, Page, PatternRun, Ranking
from weft.report.layout import Layout, layout
from weft.report.packing import coded, packed
from weft.report.parts import drawing_facts, fabric_blob
from weft.report.render import render_page
from weft.report.summary import (
    STATISTICS,
    LinkScope,
    busiest_links,
    curve,
    default_run,
    rounded,
    scope_of,
    statistics,
    usable_links,
    user_line,
)

SCRIPTS = (
    "common.js", "data.js", "view.js", "drawing.js", "chart.js", "panels.js", "app.js", "main.js",
)  # fmt: skip


class HasPage(Protocol):
    """A comparison, such as the result of `weft.compare`."""

    def page(self) -> Page:
        """Return the data of its page."""


def write_comparison_page(comparison: HasPage | Page, path: str | Path) -> None:
    """Write a comparison as one HTML file, atomically.

    Parameters
    ----------
    comparison
        Result of `weft.compare`.
    path
        The file; it needs no network and no other files.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    page = comparison if isinstance(comparison, Page) else comparison.page()
    write_text(path, render(page))


def render(page: Page) -> str:
    """Return a comparison as the text of an HTML file; equal pages give equal text."""
    fabric = page.fabric
    for run in page.runs:
        _check(fabric, run)
    scope = scope_of(fabric)
    drawing = layout(fabric)
    opening = default_run(page)
    blobs = {"weft-fabric": fabric_blob(fabric, drawing)}
    blobs |= {f"weft-run-{number}": _run_blob(run) for number, run in enumerate(page.runs)}
    return render_page(
        "page.html",
        ("style.css",),
        SCRIPTS,
        _data(page, scope, drawing, opening),
        blobs,
        title=page.title,
        facts=page.facts,
        notes=page.notes,
        page=page,
        # The engine is the heading of each row, not a column.
        columns={name: text for name, text in page.columns.items() if name.lower() != "engine"},
        ran={run.engine for run in page.runs},
        fitting=[verdict for verdict in page.engines if not verdict.refusal],
        refused=[verdict for verdict in page.engines if verdict.refusal],
        patterns=_patterns(page),
        statistics=STATISTICS,
        busiest=_plain_busiest(fabric, opening, scope),
        default_run=opening,
        load_text="A load of 1 is one flow on a link with the rate of the fastest host cable "
        f"({fabric.host_rate_gbps:g} Gb/s); flows on a link share its rate.",
    )


def _check(fabric: Fabric, run: PatternRun) -> None:
    for name, values in (("flows", run.flows), ("load", run.load)):
        if np.shape(values) != (fabric.num_links,):
            raise ValueError(f"{name} of {run.engine} must have {fabric.num_links} values")
        if not np.all(np.isfinite(values)) or np.min(values, initial=0.0) < 0:
            raise ValueError(f"{name} of {run.engine} must be finite and not negative")


def _patterns(page: Page) -> list[dict[str, Any]]:
    ran = {run.pattern for run in page.runs}
    return [
        {"name": name, "text": text, "ran": name in ran} for name, text in page.patterns.items()
    ]


def _plain_busiest(
    fabric: Fabric, run: PatternRun | None, scope: LinkScope
) -> list[dict[str, str]]:
    """Return the list of most loaded links for a browser without scripts."""
    if run is None:
        return []
    return [
        {
            "name": fabric.link_name(link),
            "load": f"{run.load[link]:.4g}",
            "flows": f"{run.flows[link]:.4g}",
            "users": user_line(fabric, run.users.get(link)),
        }
        for link in busiest_links(run.load, scope.links)
    ]


def _data(
    page: Page, scope: LinkScope, drawing: Layout, opening: PatternRun | None
) -> dict[str, Any]:
    fabric = page.fabric
    ran = {run.engine for run in page.runs}
    return {
        "engines": [
            {"name": e.name, "ran": e.name in ran, "refused": bool(e.refusal)} for e in page.engines
        ],
        "patterns": _patterns(page),
        "runs": [_run_facts(fabric, run, scope) for run in page.runs],
        "defaultRun": -1 if opening is None else [run is opening for run in page.runs].index(True),
        "scope": scope.name,
        "words": asdict(page.words),
        "scopeIsAll": scope.all_links,
        "marks": [asdict(mark) for mark in page.marks],
        "marksText": page.marks_text,
        **drawing_facts(fabric, drawing),
    }


def _run_facts(fabric: Fabric, run: PatternRun, scope: LinkScope) -> dict[str, Any]:
    load = run.load[scope.links]
    return {
        "engineName": run.engine,
        "patternName": run.pattern,
        "unrouted": rounded(run.unrouted_share, 6),
        "stats": {
            key: None if value is None else rounded(value)
            for key, value in statistics(load).items()
        },
        "cdf": curve(load),
        "topScope": rounded(load.max(initial=0.0)),
        "topAll": rounded(run.load.max(initial=0.0)),
        "busiest": busiest_links(run.load, scope.links),
        "busiestAll": busiest_links(run.load, usable_links(fabric)),
        "noUsers": run.no_users,
    }


def _run_blob(run: PatternRun) -> str:
    same = np.array_equal(run.flows, run.load)
    arrays = coded("load", run.load) | ({} if same else coded("flows", run.flows))
    users = [_users(link, users) for link, users in sorted(run.users.items())]
    return packed(arrays, {"sameAsLoad": same, "users": users})


def _users(link: int, users: LinkUsers) -> dict[str, Any]:
    def rows(of: Ranking) -> list[list[int]]:
        return np.column_stack((of.nodes, of.flows)).tolist()  # type: ignore[no-any-return]

    return {
        "link": int(link),
        "pairs": rows(users.pairs),
        "sources": rows(users.sources),
        "destinations": rows(users.destinations),
        "pairCount": users.pairs.count,
        "sourceCount": users.sources.count,
        "destinationCount": users.destinations.count,
    }
