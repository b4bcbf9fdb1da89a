"""`weft list`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from weft.cli.common import console
from weft.formats import reader, writer
from weft.papers import paper
from weft.registry import Registry
from weft.routing import engine
from weft.topology import topology
from weft.workload import pattern

KINDS: dict[str, Registry] = {
    "engines": engine,
    "topologies": topology,
    "patterns": pattern,
    "readers": reader,
    "writers": writer,
    "papers": paper,
}


def list_command(
    kind: Annotated[
        Literal["engines", "topologies", "patterns", "readers", "writers", "papers"] | None,
        Parameter(help="What to list; everything when left out."),
    ] = None,
    /,
) -> int:
    """List engines, topologies, patterns, formats and papers with their options."""
    out = console()
    for name in [kind] if kind else KINDS:
        table = Table(title=name, title_justify="left")
        table.add_column("name")
        table.add_column("options")
        table.add_column("what it is")
        for entry in KINDS[name]:
            options = ", ".join(
                key if option.default is option.empty else f"{key}={_text(option.default)}"
                for key, option in entry.options.items()
            )
            label = " / ".join((entry.name, *entry.aliases))
            table.add_row(escape(label), escape(options), escape(entry.summary))
        out.print(table)
    return 0


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
