"""`weft opensm export`: routes of weft as a folder that OpenSM loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    announced_compile,
)
from weft.fabrics import Fabric
from weft.opensm.export import check_lids, check_target, export
from weft.opensm.files.lids import MAX_LMC
from weft.routing import engine as _engines
from weft.routing import route


def export_command(
    fabric: FabricArgument,
    /,
    *,
    engines: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--engine", "-e"],
            help="Engine of weft, as in 'updn:roots=center'; of several the first that fits.",
        ),
    ],
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="Folder to write.")],
    options: FabricOptions = NO_OPTIONS,
    install: Annotated[
        Path | None,
        Parameter(help="Where the folder will be on OpenSM's machine; the same place."),
    ] = None,
    sm_host: Annotated[
        str | None, Parameter(help="Host that OpenSM will run on, name or GUID.")
    ] = None,
    management: Annotated[
        bool, Parameter(help="Take traffic of switches into the deadlock proof.")
    ] = False,
    force: Annotated[bool, Parameter(help="Write tables that are not valid, too.")] = False,
    overwrite: Annotated[
        bool, Parameter(help="Replace a folder that holds other things than an export.")
    ] = False,
) -> int:
    """Write forwarding tables, LIDs and service levels as files that OpenSM loads.

    Prints what an administrator then runs. Tables that the validator rejects are refused.
    """
    check_target(out, overwrite)
    with announced_compile():
        made = options.load(fabric)
        if sm_host is not None:
            made.find_node(sm_host)
        _check_lids(made, engines)
        routes = route(made, engines)
        written = export(
            made,
            routes,
            out,
            install=install,
            sm_host=sm_host,
            management=management,
            force=force,
            overwrite=overwrite,
        )
    for name, reason in routes.refusals:
        print(f"{name} does not fit: {reason}", file=sys.stderr)
    if not written.validation.ok_where_connected:
        print(
            "weft: warning: THESE TABLES ARE NOT VALID, and were written all the same: "
            + "; ".join(written.validation.findings()),
            file=sys.stderr,
        )
    names = ", ".join(sorted(entry.name for entry in written.folder.iterdir()))
    print(f"{written.validation.text().splitlines()[0]}\nwritten to {out}: {names}\n")
    print(written.commands, end="")
    return 0


def _check_lids(fabric: Fabric, names: tuple[str, ...]) -> None:
    """Refuse LMCs with too many LIDs before anything is routed, unless an engine has another.

    Raises
    ------
    NotApplicable
        With the LIDs that the engine of the lowest LMC needs.
    """
    lmcs = []
    for name in names:
        entry, given = _engines.parse(name)
        lmcs.append(_engines.bind(entry, given).get("lmc"))
    asked = [lmc for lmc in lmcs if isinstance(lmc, int)]
    if asked and len(asked) == len(lmcs) and 0 <= min(asked) <= MAX_LMC:
        check_lids(fabric, min(asked))
