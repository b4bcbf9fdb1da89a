"""The page of an audit: its findings, the fabric, and the loads of the tables in place."""

from __future__ import annotations

from dataclasses import replace

from weft.advice.alternatives import IN_PLACE
from weft.advice.comparison import fabric_facts
from weft.report.comparison_data import Page, PageSection, PatternRun
from weft.subnet.audit import Audit

_PATTERN = "all-to-all"


def audit_page(audit: Audit) -> Page:
    """Return the data of the page of an audit."""
    findings = tuple(
        {
            "severity": row["severity"], "kind": row["kind"],
            "what": row["text"] if row["item"] is None else row["item"],
            "lost Gb/s": row["lost_gbps"], "costs": row["cost"], "what to do": row["action"],
        }
        for row in audit.table().iter_rows(named=True)
    )  # fmt: skip
    head, *_ = audit.text().split("\n", 1)
    runs: tuple[PatternRun, ...] = ()
    if audit.loads is not None:
        flows = audit.loads * audit.fabric.link_rate_gbps / audit.fabric.host_rate_gbps
        runs = (PatternRun(IN_PLACE, _PATTERN, flows, audit.loads),)
    page = (
        Page(audit.fabric, "", fabric_facts(audit.fabric), {}, (), {}, ())
        if audit.comparison is None
        else audit.comparison.tables()
    )
    return replace(
        page,
        title=f"Audit of {audit.fabric.name}",
        patterns={_PATTERN: "one flow between each two hosts"} if runs else {},
        runs=runs,
        notes=(*audit.notes, *(f"Not judged: {each}." for each in audit.unknown)),
        notes_title="Facts, and what could not be judged",
        answer=f"{head}.",
        best=IN_PLACE if runs else "",
        faults=(),
        sections=(PageSection("Findings", findings),) if findings else (),
    )
