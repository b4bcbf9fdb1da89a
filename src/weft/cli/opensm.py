"""`weft opensm`: the real OpenSM as judge and as target."""

from __future__ import annotations

import cyclopts

from weft.cli.opensm_audit import audit_command
from weft.cli.opensm_export import export_command
from weft.cli.opensm_live import live_command

opensm_app = cyclopts.App(
    name="opensm",
    help="Try the real OpenSM on a simulated fabric, load tables into it, and check what it does.",
    help_format="markdown",
)
opensm_app.command(live_command, name="live")
opensm_app.command(export_command, name="export")
opensm_app.command(audit_command, name="audit")
