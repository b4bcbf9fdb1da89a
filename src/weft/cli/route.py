"""`weft route`: route with one engine and validate the routes."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from weft.cli.common import (
    ALL_HOSTS,
    FabricArgument,
    JudgedOptions,
    announced_compile,
    console,
)
from weft.cli.option_types import FIRST, ROUTING, Engine
from weft.cli.options import split_names
from weft.cli.output import emit
from weft.routing import route
from weft.routing.validation.validate import validate


def route_command(
    fabric: FabricArgument,
    /,
    *engines: Annotated[
        str, Parameter(help="Engines in order of preference, as in 'dmodk updn:roots=center'.")
    ],
    engine: Annotated[
        tuple[Engine, ...],
        FIRST(
            name=["--engine", "--engines"],
            help="More engines, which are tried after those given as arguments.",
            consume_multiple=(1, None),
        ),
    ] = (),
    options: JudgedOptions = ALL_HOSTS,
    management: Annotated[
        bool, ROUTING(help="Include paths from and to switches in the deadlock proof.")
    ] = False,
) -> int:
    """Route with the first engine that fits (default: minhop) and print the validation.

    The exit status is 1 if the routes are not valid.

    Example: `weft route kns:k=6,n=2 hdor`
    """
    names = [name for text in (*engines, *engine) for name in split_names(text)]
    with announced_compile():
        loaded = options.load(fabric)
        routes = route(loaded, names or ("minhop",))
        validation = validate(loaded, routes, management=management)
    emit(
        engine=routes.engine, options=routes.options, refusals=dict(routes.refusals),
        notes=routes.notes, valid=validation.ok, findings=validation.findings,
        unrouted_pairs=validation.num_unrouted_pairs, deadlock=validation.deadlock,
        lanes=validation.lanes, pairs_by_hops=validation.hops,
    )  # fmt: skip
    out = console()
    for name, reason in routes.refusals:
        out.print(escape(f"{name} does not fit: {reason}"), soft_wrap=True)
    for note in routes.notes:
        out.print(escape(note), soft_wrap=True)
    out.print(escape(validation.text()), soft_wrap=True)
    return 0 if validation.ok else 1
