"""`weft opensm live`: a command or a shell on a simulated fabric that the real OpenSM manages."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    Whole,
    announced_compile,
    check_folder,
)
from weft.core.errors import InputError
from weft.opensm.live.processes import check_limit
from weft.opensm.live.subnet import TIMEOUT_S, Subnet, live
from weft.routes import Routes
from weft.routing import route


def live_command(
    fabric: FabricArgument,
    /,
    *command: Annotated[
        str, Parameter(help="Command and its arguments, after '--'; a shell when left out.")
    ],
    options: FabricOptions = NO_OPTIONS,
    engine: Annotated[
        str | None,
        Parameter(help="Engine of weft, as in 'updn:roots=center'; OpenSM loads its tables."),
    ] = None,
    real: Annotated[
        str | None, Parameter(help="OpenSM's own engine; minhop when nothing is named.")
    ] = None,
    tables: Annotated[
        Path | None, Parameter(help="Folder of 'weft opensm export', or an LFT dump.")
    ] = None,
    lmc: Annotated[Whole | None, Parameter(help="LMC of OpenSM; that of the tables.")] = None,
    qos: Annotated[
        bool, Parameter(help="Let OpenSM program lanes, which it does by itself if need be.")
    ] = False,
    sm_host: Annotated[
        str | None, Parameter(help="Host that OpenSM runs on, name or GUID.")
    ] = None,
    option: Annotated[
        tuple[str, ...],
        Parameter(help="A setting of opensm.conf, such as root_guid_file=FILE; repeatable."),
    ] = (),
    timeout: Annotated[
        float, Parameter(help="Seconds that the subnet may take to come up.")
    ] = TIMEOUT_S,
    command_timeout: Annotated[
        float | None, Parameter(help="Seconds that the command may take.")
    ] = None,
    keep: Annotated[
        Path | None, Parameter(help="Folder for OpenSM's log and dumps, left behind.")
    ] = None,
) -> int:
    """Run a command, or a shell, on the fabric in a simulator that the real OpenSM manages.

    `ibnetdiscover`, `ibtracert`, `saquery` and scripts that call them work as on the real fabric.
    `--engine` routes with weft and loads the tables into OpenSM; `--real` lets OpenSM route. The
    exit status is that of the command, 1 when it is 0 and host pairs have no path, and 2 when the
    subnet is not what it should be. Everything ends with the command.
    """
    if sum(given is not None for given in (engine, real, tables)) > 1:
        raise InputError("give one of --engine (weft's), --real (OpenSM's own) and --tables")
    for limit in (timeout, command_timeout):
        if limit is not None:
            check_limit(limit)
    check_folder("--keep", keep)
    made = options.load(fabric)
    routes: Routes | None = None
    if engine is not None:
        with announced_compile():
            routes = route(made, engine)
    start = time.monotonic()
    with live(
        made,
        real,
        routes=routes,
        tables=tables,
        lmc=lmc,
        qos=True if qos else None,
        sm_host=sm_host,
        options=settings(option),
        timeout_s=timeout,
        keep=keep,
    ) as subnet:
        took = time.monotonic() - start
        what = "OpenSM's own"
        if routes is not None or tables is not None:
            what = f"tables of {tables}" if routes is None else f"tables of weft's {engine}"
        end = f"up in {took:.1f} s, all {subnet.pairs:,} host pairs have a path"
        if subnet.problems:
            end = f"but {'; '.join(subnet.problems)}"
        print(f"weft: {_banner(subnet, what)}, {end}", file=sys.stderr)
        for note in subnet.notes:
            print(f"weft: {note}", file=sys.stderr)
        if not os.access(".", os.W_OK):
            print(
                "weft: warning: programs of infiniband-diags make a folder where they run, and "
                f"{os.getcwd()} cannot be written; run them in another",
                file=sys.stderr,
            )
        if not command:
            print("weft: a shell on this fabric; leave it with 'exit'", file=sys.stderr)
        status = subnet.run_in_terminal(
            command or (os.environ.get("SHELL") or "/bin/sh",), timeout_s=command_timeout
        )
        if subnet.ended:
            print(f"weft: warning: {subnet.ended} before the command did", file=sys.stderr)
        return status or int(bool(subnet.problems))


def _banner(subnet: Subnet, what: str) -> str:
    fabric = subnet.fabric
    return (
        f"OpenSM {subnet.version} on a simulated {fabric.name} ({fabric.num_hosts} hosts, "
        f"{fabric.num_switches} switches) routes with {subnet.engine} ({what})"
    )


def settings(texts: tuple[str, ...]) -> dict[str, str]:
    """Settings of opensm.conf, given as ``name=value``; files by their absolute path.

    Raises
    ------
    InputError
        When there is no ``=`` in one.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(
                f"--option {text}: expected name=value, such as root_guid_file=roots.guids"
            )
        if os.path.exists(value):
            value = os.path.abspath(value)
        found[name.strip()] = value
    return found
