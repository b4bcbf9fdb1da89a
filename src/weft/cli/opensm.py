"""`weft opensm`: the real OpenSM as judge and as target."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter
from rich.markup import escape

from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    Whole,
    announced_compile,
    check_folder,
    console,
)
from weft.cli.machine_output import emit
from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load_fabric
from weft.opensm.audit import audit
from weft.opensm.export import check_lids, check_target, export
from weft.opensm.files.lids import MAX_LMC
from weft.opensm.live.processes import check_limit
from weft.opensm.live.subnet import TIMEOUT_S, Subnet, live
from weft.routes import Routes
from weft.routing import engine as _engines
from weft.routing import route


def audit_command(
    path: Annotated[
        Path, Parameter(help="Folder of OpenSM's dumps, or one of the files.", name="PATH")
    ],
    /,
    *more: Annotated[Path, Parameter(help="More folders or files.")],
    fabric: Annotated[
        str | None,
        Parameter(
            help="The fabric, as from ibnetdiscover; what opensm-subnet.lst says if left out."
        ),
    ] = None,
    format: Annotated[str | None, Parameter(help="Format of the fabric's file.")] = None,
    names: Annotated[Path | None, Parameter(help="A node-name-map with labels.")] = None,
    management: Annotated[
        bool, Parameter(help="Take traffic of switches into the deadlock proof.")
    ] = False,
) -> int:
    """Say what is wrong in a subnet: lost pairs, loops, deadlocks, fallbacks, overloaded cables.

    Reads opensm-lfts.dump, opensm-sl2vl.dump, opensm.log, guid2lid, opensm-subnet.lst, opensm.conf
    and qos-policy.conf, as many as there are; `opensm -D 0x43` dumps. The exit status is 1 when
    something is wrong, and 3 when nothing is but the files do not tell whether the routes can
    deadlock.
    """
    for option, value in (("--format", format), ("--names", names)):
        if value is not None and fabric is None:
            raise InputError(f"{option} goes with --fabric")
    with announced_compile():
        made = None if fabric is None else load_fabric(fabric, format=format, names=names)
        found = audit([path, *more], made, management=management)
    emit(**found.as_json())
    console().print(escape(found.text()), soft_wrap=True)
    if not found.ok:
        return 1
    return 3 if found.open else 0


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


opensm_app = cyclopts.App(
    name="opensm",
    help="Try the real OpenSM on a simulated fabric, load tables into it, and check what it does.",
    help_format="markdown",
)
opensm_app.command(live_command, name="live")
opensm_app.command(export_command, name="export")
opensm_app.command(audit_command, name="audit")
