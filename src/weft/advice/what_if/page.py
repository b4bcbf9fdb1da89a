"""The page of a scenario: its figures, the failures of single parts, and loads on the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.advice.alternatives import IN_PLACE
from weft.advice.comparison import cell_text, fabric_facts
from weft.advice.what_if.evaluate import SWEEP, WHAT_IF_COLUMNS, WhatIf
from weft.advice.what_if.failures import Failure
from weft.advice.what_if.singles import SINGLE_COLUMNS, WORST, Singles
from weft.advice.what_if.words import kinds_text
from weft.fabrics import Fabric
from weft.report.comparison_data import (
    EngineVerdict,
    LinkUsers,
    Mark,
    Page,
    PageSection,
    PatternRun,
    Words,
)

NOW = "now"
#: Failures that the page lists.
_LISTED = 1000
#: Columns of the table of routes on the page.
_FIGURES = (
    "machines_cut", "pairs_lost", "deadlock", "bandwidth_left", "ebb", "max_load", "mean_hops",
    "max_hops", "lanes", "entries_changed", "pairs_moved", "unrouted",
)  # fmt: skip
#: Columns of the table of failures on the page, with their headings.
_HEADINGS = {
    "failed": "fails", "machines_cut": "machines cut off",
    "pairs_lost_until": "pairs lost until the sweep", "pairs_lost": "pairs lost after it",
    "deadlock": "credit loops after it", "ebb_until": "ebb until", "ebb": "ebb after",
    "bandwidth_left": "bandwidth left", "max_load": "largest load",
    "demand_lost_gbps_until": "Gb/s of jobs lost until", "demand_load": "load by jobs after",
    "routed_by": "routed by",
}  # fmt: skip


def what_if_page(
    shown: WhatIf,
    single: Singles | None,
    said: Sequence[str],
    notes: Sequence[str],
    *,
    example: bool = False,
) -> Page:
    """Return the data of the page.

    `shown`: the scenario on the drawing. `single`: failures of single parts. `said`: the answer, in
    sentences. `notes`: what is to be known of the tables in place. `example`: whether the scenario
    is only one of the single failures.
    """
    changed, drawn = shown.changed, shown.changed.grown
    verdicts = {each.name: each for each in shown.after.outcomes}
    engines = []
    for row in shown.table.iter_rows(named=True):
        outcome = shown.now if row["state"] == "now" else verdicts[row["routes"]]
        assert outcome.validation is not None
        engines.append(
            EngineVerdict(
                NOW if row["state"] == "now" else row["routes"],
                outcome.summary,
                ok=row["valid"],
                findings=(*outcome.validation.findings(), *outcome.remarks),
                cells={name: value_text(name, row[name]) for name in _FIGURES},
            )
        )
    engines += [
        EngineVerdict(name, verdicts[name].summary, refusal=refusal)
        for name, refusal in shown.refusals.items()
    ]  # fmt: skip
    runs = [
        *(_on(drawn, changed.before, run, NOW) for run in shown.before.runs),
        *(_on(drawn, changed.after, run, run.engine) for run in shown.after.runs),
    ]
    marks, text = _marks(shown, single)
    title = f"What if {changed.title}"
    if example and single is not None:
        text = f"The loads are those if {changed.title}. {text}"
        title = f"What if a single {kinds_text(single)} of {drawn.name} fails"
    best = SWEEP if any(run.engine == SWEEP for run in runs) else IN_PLACE
    return Page(
        fabric=drawn,
        title=title,
        facts=fabric_facts(drawn),
        columns={name: WHAT_IF_COLUMNS[name].meaning for name in _FIGURES},
        engines=tuple(engines),
        patterns=shown.after.patterns,
        runs=tuple(runs),
        notes=(*notes, *shown.after.notes),
        answer=" ".join(said),
        best=best,
        sections=() if single is None else (_section(single),),
        words=Words(
            engine="Routing",
            engines_title="The state now, and each way of routing after the change, worst first",
        ),
        marks=tuple(marks),
        marks_text=text,
    )


def value_text(name: str, value: object) -> str:
    """Return a value of `WHAT_IF_COLUMNS` or `SINGLE_COLUMNS` as text."""
    if name == "bandwidth_left" and isinstance(value, float):
        return f"{value:.0%}"
    return cell_text(name, value)


def _section(single: Singles) -> PageSection:
    assert _HEADINGS.keys() <= SINGLE_COLUMNS.keys()
    shown = {
        name: heading for name, heading in _HEADINGS.items()
        if single.now["demand_load"] is not None or not name.startswith("demand")
    }  # fmt: skip
    count, rows = len(single.table), single.table.head(_LISTED).iter_rows(named=True)
    return PageSection(
        "Failures of single parts, worst first",
        tuple(
            {heading: value_text(name, row[name]) for name, heading in shown.items()}
            for row in rows
        ),
        f"The {_LISTED:,} worst of {count:,}." if count > _LISTED else "",
    )


def _marks(shown: WhatIf, single: Singles | None) -> tuple[list[Mark], str]:
    """Return marks of what changes and of the worst failures, and what they mean."""
    changed, drawn = shown.changed, shown.changed.grown
    marks: list[Mark] = []
    texts = []
    for gone, word in ((changed.failed, "fails"), (changed.drained, "is drained")):
        if gone.labels:
            marks += [Mark(node=int(switch), fails=True) for switch in gone.switches]
            marks += [Mark(cable=int(cable), fails=True) for cable in gone.cables]
            texts.append(f"A cross marks what {word}.")
    for port in changed.scenario.slow:
        marks.append(Mark(cable=drawn.find_cable(port), text="slow"))
    for switch in np.setdiff1d(drawn.node_guid[: drawn.num_switches], changed.before.node_guid):
        marks.append(Mark(node=drawn.find_node(f"{int(switch):#x}"), text="new"))
    if single is not None:
        for rank, failure in enumerate(single.failures[:WORST], 1):
            marks.append(_mark(drawn, single.fabric, failure, str(rank)))
        texts.append("Numbered rings mark the worst failures of single parts.")
    return marks, " ".join(dict.fromkeys(texts))


def _mark(drawn: Fabric, fabric: Fabric, failure: Failure, text: str) -> Mark:
    """Return the mark of a failure of another fabric than the one drawn."""
    if failure.switches:
        return Mark(node=drawn.find_node(fabric.node_names[failure.switches[0]]), text=text)
    link = 2 * failure.cables[0]
    tail = drawn.find_node(fabric.node_names[fabric.link_from[link]])
    slot = drawn.port_offset[tail] + int(fabric.link_from_port[link]) - 1
    return Mark(cable=int(drawn.port_link[slot]) >> 1, text=text)


def _on(drawn: Fabric, of: Fabric, run: PatternRun, name: str) -> PatternRun:
    """Return a run on a fabric as one on the fabric that is drawn, which has all its parts."""
    order = np.argsort(drawn.node_guid)
    node = order[np.searchsorted(drawn.node_guid[order], of.node_guid)]
    slots = drawn.port_offset[node[of.link_from]] + of.link_from_port.astype(np.int64) - 1
    link = drawn.port_link[slots]

    def spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
        whole = np.zeros(drawn.num_links)
        whole[link] = values
        return whole

    def renumbered(users: LinkUsers) -> LinkUsers:
        rankings = (users.pairs, users.sources, users.destinations)
        return LinkUsers(*(replace(each, nodes=node[each.nodes]) for each in rankings))

    return replace(
        run, engine=name, flows=spread(run.flows), load=spread(run.load),
        users={int(link[at]): renumbered(users) for at, users in run.users.items()},
    )  # fmt: skip
