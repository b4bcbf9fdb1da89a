"""`weft audit`: what is wrong with a fabric and its subnet manager, worst first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from weft.cli.common import (
    EVERY_HOST,
    TABLES,
    FailOnOption,
    HostOptions,
    announced_compile,
    check_files,
    console,
)
from weft.cli.option_types import FABRIC, FIRST, OUTPUT, ROUTING, File, Format, Source
from weft.cli.output import emit, given
from weft.core.columns import write_table
from weft.core.files import write_text
from weft.core.severity import fails
from weft.fabrics.judged import Judged
from weft.fabrics.load import fabric as load_fabric
from weft.subnet.audit import audit


def audit_command(
    path: Annotated[
        Path,
        Parameter(
            help="Folder or file: the fabric (ibnetdiscover, ibdiagnet2, …), names, or what the "
            "subnet manager wrote.",
            name="PATH",
        ),
    ],
    /,
    *more: Annotated[Path, Parameter(help="More folders or files.")],
    fabric: Annotated[
        Source | None, FIRST(help="A file or spec of the fabric, instead of those among the paths.")
    ] = None,
    format: Annotated[Format | None, FABRIC(help="Format of the fabric's file.")] = None,
    names: Annotated[File | None, FABRIC(help="A node-name-map with labels.")] = None,
    management: Annotated[
        bool, ROUTING(help="Include paths from and to switches in the deadlock proof.")
    ] = False,
    judged: HostOptions = EVERY_HOST,
    fail_on: FailOnOption = None,
    findings: Annotated[
        File | None,
        OUTPUT(help="Write the findings, one row for each item, to this .csv or .parquet file."),
    ] = None,
    metrics: Annotated[
        File | None, OUTPUT(help="Write findings and loads as text that Prometheus reads (.prom).")
    ] = None,
    report: Annotated[
        File | None,
        OUTPUT(help="Write a page with the findings, the fabric and its loads (.html)."),
    ] = None,
) -> int:
    """Report what is wrong with a fabric, its tables and its subnet manager, worst first.

    Reads whatever is there: fabrics in any format, and OpenSM's tables, lanes, LIDs, log, settings
    and policy, in folders or single files; what several files say of the fabric is merged. Each
    finding has a severity, what it costs and what to do. What could not be judged is listed at the
    end, with the evidence that is missing. The exit status is 1 if there are errors (see
    --fail-on), and 2 if a file cannot be read.

    Example: `weft audit examples/cluster.ibnetdiscover`
    """
    check_files(
        ("--findings", findings, TABLES),
        ("--metrics", metrics, ()),
        ("--report", report, (".html", ".htm")),
    )
    with announced_compile():
        loaded = None if fabric is None else load_fabric(fabric, format=format, names=names)
        result = audit(
            [path, *more],
            loaded,
            format=format,
            names=names,
            management=management,
            judged=judged.build(Judged),
        )
    if given("--json"):
        emit(**result.as_json())
    console().print(escape(result.text()), soft_wrap=True)
    if findings is not None:
        write_table(result.table(), findings)
    if metrics is not None:
        from weft.subnet.audit_metrics import metrics_text

        write_text(metrics, metrics_text(result))
    if report is not None:
        from weft.report.comparison_page import write_comparison_page
        from weft.subnet.audit_page import audit_page

        write_comparison_page(audit_page(result), report)
    return int(fails((finding.severity for finding in result.findings), fail_on or "error"))
