"""`weft replay`: repeat the decisions in a log of `weft serve`, and try other rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from rich.table import Table

from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    announced_compile,
    console,
)
from weft.cli.option_types import FIRST, LEVELS, PACKET, ROUTING, RUNS, Whole
from weft.cli.output import emit
from weft.core.errors import InputError
from weft.sim.keys.choice import Choice, Criterion
from weft.subnet.service.ledger import WhileMissing
from weft.subnet.service.replay import Replayed, Twin, recorded, replay, simulated

#: Names of the courses that are not of a choice.
_ROWS = {"recorded": "as recorded", "base": "base routes"}


def replay_command(
    log: Annotated[
        Path,
        Parameter(help="A file with the lines of GET /v1/log, or a store; it is only read."),
    ],
    fabric: FabricArgument,
    /,
    *,
    choice: Annotated[
        tuple[Choice, ...],
        FIRST(
            help="Another rule to choose paths for the same requests, without missing cables. "
            "Repeatable."
        ),
    ] = (),
    level: Annotated[
        Literal["none", "packet"],
        LEVELS(
            help="packet: simulate one message for each flow of the keys held at the same time, "
            "on exactly the granted paths, and compare the flows on each link with the prediction."
        ),
    ] = "none",
    moments: Annotated[
        Whole, PACKET(help="Number of moments for --level packet, the most contended first.")
    ] = 5,
    criterion: Annotated[
        Criterion | None, ROUTING(help="As for the service. Default: that of the store, or max.")
    ] = None,
    while_missing: Annotated[
        WhileMissing | None,
        ROUTING(help="As for the service. Default: that of the store, or wait."),
    ] = None,
    alternatives: Annotated[
        Whole, ROUTING(help="Alternatives of each key, for --choice installed.")
    ] = 4,
    seed: Annotated[Whole, RUNS(help="Seed of the keys for --choice.")] = 0,
    options: FabricOptions = NO_OPTIONS,
) -> int:
    """Repeat the decisions in a log of 'weft serve', check them, and compare other rules.

    The exit status is 1 if a decision or a number of flows on a link differs.

    Example: `weft replay weft-serve.sqlite cluster.net --choice shift`
    """
    for name, value in (("--moments", moments), ("--alternatives", alternatives)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")
    with announced_compile():
        loaded = options.load(fabric)
    source = recorded(log)
    rules: dict[str, Any] = {}
    for name, given, usual in (
        ("criterion", criterion, "max"), ("while_missing", while_missing, "wait")
    ):  # fmt: skip
        stored = source.settings.get(name)
        if None not in (given, stored) and given != stored:
            raise InputError(f"was recorded with {name} {stored}, not {given}", file=log)
        rules[name] = given or stored or usual
    with announced_compile():
        if source.digest not in ("", loaded.digest):
            raise InputError(
                f"is the store of another fabric than {loaded.name}; give the one that weft serve "
                "was started with", file=log,
            )  # fmt: skip
        try:
            found = replay(
                loaded, source.lines, tuple(dict.fromkeys(choice)), **rules,
                num_alternatives=alternatives, seed=seed,
                most_moments=moments if level == "packet" else 0,
            )  # fmt: skip
        except InputError as error:
            raise InputError(error.message, file=error.file or log, line=error.line) from None
        twins = [simulated(loaded, moment) for moment in found.moments]
    _print(found, twins, level == "packet")
    return 1 if found.different or any(twin.differing for twin in twins) else 0


def _print(found: Replayed, twins: list[Twin], packets: bool) -> None:
    held_s = found.courses["recorded"].held_s
    emit(
        events=found.events, different=found.different, requests=found.requests,
        on_base=found.on_base, held_s=held_s,
        contention={
            name: {"mean": course.mean, "largest": course.largest}
            for name, course in found.courses.items()
        },
        moments=lambda: [_facts(twin) for twin in twins],
    )  # fmt: skip
    screen = console()
    same = (
        "all decisions are the same"
        if not found.different
        else f"{found.different:,} decisions differ from the recorded ones"
    )
    screen.print(f"{found.events:,} events; {same}.", soft_wrap=True)
    base = f", of which {found.on_base:,} on the base routes, which are not counted below"
    screen.print(
        f"{found.requests:,} granted requests{base if found.on_base else ''}; keys were held for "
        f"{held_s:,.1f} s.",
        soft_wrap=True,
    )
    table = Table("rule", title="Most flows on a link while keys are held", title_justify="left")
    for heading in ("mean over time", "largest"):
        table.add_column(heading, justify="right")
    for name, course in found.courses.items():
        table.add_row(_ROWS.get(name, name), f"{course.mean:.3f}", f"{course.largest:,}")
    screen.print(table)
    if packets:
        screen.print(_twin_table(twins))
        differing = sum(twin.differing for twin in twins)
        screen.print(
            "The simulated flows are as predicted on every link."
            if not differing
            else f"On {differing:,} links the simulated flows are not as predicted.",
            soft_wrap=True,
        )


def _facts(twin: Twin) -> dict[str, Any]:
    return {
        "time_ns": twin.moment.time_ns,
        "keys": ["/".join(at) for at in twin.moment.paths],
        "flows": twin.flows,
        "predicted": twin.moment.contention,
        "simulated": float(twin.simulated.max()),
        "differing_links": twin.differing,
        "predicted_slowdown": twin.predicted_slowdown,
        "slowdown": twin.slowdown,
    }


def _twin_table(twins: list[Twin]) -> Table:
    table = Table("began (UTC)", title="The most contended moments", title_justify="left")
    for heading in (
        "keys", "flows", "most on a link: predicted", "simulated", "links that differ",
        "slowdown: predicted", "simulated",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for twin in twins:
        table.add_row(
            str(np.datetime64(twin.moment.time_ns // 10**6, "ms")).replace("T", " "),
            f"{len(twin.moment.paths):,}", f"{twin.flows:,}", f"{twin.moment.contention:,}",
            f"{twin.simulated.max():g}", f"{twin.differing:,}", f"{twin.predicted_slowdown:.3g}",
            f"{twin.slowdown:.3g}",
        )  # fmt: skip
    return table
