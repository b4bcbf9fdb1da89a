"""`weft route`: one engine, checked."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    announced_compile,
    console,
)
from weft.cli.machine_output import emit
from weft.cli.options import split_names
from weft.routing import route
from weft.routing.validation.validate import validate


def route_command(
    fabric: FabricArgument,
    /,
    *engines: Annotated[
        str, Parameter(help="Engines in order of preference, as in 'dmodk updn:roots=center'.")
    ],
    engine: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--engine", "--engines"],
            help="The same, as other commands take them; after those without it.",
            consume_multiple=(1, None),
        ),
    ] = (),
    options: FabricOptions = NO_OPTIONS,
    management: Annotated[
        bool, Parameter(help="Take traffic of switches into the deadlock proof.")
    ] = False,
) -> int:
    """Route with the first engine that fits (minhop if none is named); print what is found.

    The exit status is 1 when the routes are not valid.
    """
    names = [name for text in (*engines, *engine) for name in split_names(text)]
    with announced_compile():
        made = options.load(fabric)
        routes = route(made, names or ("minhop",))
        found = validate(made, routes, management=management)
    emit(
        engine=routes.engine, options=routes.options, refusals=dict(routes.refusals),
        notes=routes.notes, valid=found.ok, findings=found.findings(),
        unrouted_pairs=found.num_unrouted_pairs, deadlock=found.deadlock, lanes=found.lanes,
        pairs_by_hops=found.hops,
    )  # fmt: skip
    out = console()
    for name, reason in routes.refusals:
        out.print(escape(f"{name} does not fit: {reason}"), soft_wrap=True)
    for note in routes.notes:
        out.print(escape(note), soft_wrap=True)
    out.print(escape(found.text()), soft_wrap=True)
    return 0 if found.ok else 1
