"""`weft opensm`: export tables to OpenSM, and run OpenSM on simulated fabrics."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import cyclopts
from cyclopts import Parameter

from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    announced_compile,
    check_folder,
    opensm_settings,
)
from weft.cli.option_types import (
    FIRST,
    OUTPUT,
    ROUTING,
    SERVICE,
    Engine,
    File,
    Folder,
    Host,
    KeptFolder,
    OsmSettings,
    SmHost,
    Whole,
)
from weft.cli.rehearse import rehearse_command
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing import engine as _engines
from weft.routing import route
from weft.routing.opensm.ports import MAX_LMC
from weft.routing.routes import Routes, TableRoutes
from weft.sim.keys.tables import installed_tables
from weft.subnet.export import check_lids, check_target, export
from weft.subnet.live.processes import check_limit
from weft.subnet.live.subnet import TIMEOUT_S, Subnet, live


def export_command(
    fabric: FabricArgument,
    /,
    *,
    engines: Annotated[
        tuple[Engine, ...],
        FIRST(
            name=["--engine", "-e"],
            help="weft engine, as in 'updn:roots=center'. Repeatable; the first that fits is used.",
        ),
    ],
    out: Annotated[Folder, FIRST(name=["--out", "-o"], help="Folder to write.")],
    options: FabricOptions = NO_OPTIONS,
    lmc: Annotated[
        Whole | None,
        ROUTING(
            help="Give each host 2^LMC LIDs with the same routes, among which 'weft serve' later "
            "installs the paths of routing keys."
        ),
    ] = None,
    before: Annotated[
        File | None,
        FIRST(
            help="The present tables, an LFT dump or a folder with one: write them beside the new "
            "ones, with what changes."
        ),
    ] = None,
    install: Annotated[
        Folder | None,
        OUTPUT(help="Path of the folder on OpenSM's machine. Default: the path of --out."),
    ] = None,
    sm_host: Annotated[
        Host | None, SERVICE(help="Host that OpenSM will run on: name or GUID.")
    ] = None,
    management: Annotated[
        bool, ROUTING(help="Include paths from and to switches in the deadlock proof.")
    ] = False,
    force: Annotated[bool, OUTPUT(help="Write the tables even if they are not valid.")] = False,
    overwrite: Annotated[
        bool, OUTPUT(help="Replace the folder even if it holds files that are not an export.")
    ] = False,
) -> int:
    """Write forwarding tables, LIDs and service levels as files that OpenSM loads.

    Prints the commands that an administrator then runs. Invalid tables are refused.

    Example: `weft opensm export cluster.net --engine updn --out tables`
    """
    check_target(out, overwrite)
    with announced_compile():
        loaded = options.load(fabric)
        if sm_host is not None:
            loaded.find_node(sm_host)
        _check_lids(loaded, engines)
        routes = route(loaded, engines)
        if lmc is not None:
            routes = _with_lmc(loaded, routes, lmc)
        written = export(
            loaded,
            routes,
            out,
            install=install,
            sm_host=sm_host,
            management=management,
            force=force,
            overwrite=overwrite,
            before=before,
        )
    for name, reason in routes.refusals:
        print(f"{name} does not fit: {reason}", file=sys.stderr)
    if not written.validation.ok_where_connected:
        print(
            "weft: warning: THE WRITTEN TABLES ARE NOT VALID (--force): "
            + "; ".join(written.validation.findings()),
            file=sys.stderr,
        )
    names = ", ".join(sorted(entry.name for entry in written.folder.iterdir()))
    print(f"{written.validation.text().splitlines()[0]}\nwritten to {out}: {names}")
    print("\n".join([*(written.change.text() if written.change else []), ""]))
    print(written.commands, end="")
    return 0


def _with_lmc(fabric: Fabric, routes: Routes, lmc: int) -> Routes:
    """Return tables with the same routes to all LIDs of a host."""
    if not isinstance(routes, TableRoutes) or routes.lmc or routes.num_vls > 1:
        raise NotApplicable(
            f"--lmc needs forwarding tables with one virtual lane and no LMC of their own, which "
            f"those of {routes.engine} are not"
        )
    if not 1 <= lmc <= MAX_LMC:
        raise InputError(f"--lmc {lmc}: expected 1 to {MAX_LMC}")
    check_lids(fabric, lmc)
    return installed_tables(fabric, routes, [], lmc, fabric)


def _check_lids(fabric: Fabric, names: tuple[str, ...]) -> None:
    """Before routing, refuse LMCs that need too many LIDs, unless an engine has no fixed LMC."""
    lmcs = []
    for name in names:
        entry, given = _engines.parse(name)
        lmcs.append(_engines.bind(entry, given).get("lmc"))
    fixed = [lmc for lmc in lmcs if isinstance(lmc, int)]
    if fixed and len(fixed) == len(lmcs) and 0 <= min(fixed) <= MAX_LMC:
        check_lids(fabric, min(fixed))


def live_command(
    fabric: FabricArgument,
    /,
    *command: Annotated[
        str, Parameter(help="Command and its arguments, after '--'. Default: a shell.")
    ],
    options: FabricOptions = NO_OPTIONS,
    engine: Annotated[
        Engine | None,
        FIRST(help="weft engine, as in 'updn:roots=center'; OpenSM loads the tables."),
    ] = None,
    real: Annotated[Engine | None, FIRST(help="OpenSM's own engine. Default: minhop.")] = None,
    tables: Annotated[
        File | None, FIRST(help="Folder of 'weft opensm export', or an LFT dump.")
    ] = None,
    lmc: Annotated[
        Whole | None, ROUTING(help="OpenSM's LMC. Default: the LMC of the tables.")
    ] = None,
    qos: Annotated[
        bool, SERVICE(help="Let OpenSM program lanes even if the routes do not need lanes.")
    ] = False,
    sm_host: SmHost | None = None,
    option: OsmSettings = (),
    timeout: Annotated[
        float, SERVICE(help="Time limit of OpenSM's bring-up of the subnet, in seconds.")
    ] = TIMEOUT_S,
    command_timeout: Annotated[
        float | None, SERVICE(help="Time limit of the command, in seconds.")
    ] = None,
    keep: KeptFolder | None = None,
) -> int:
    """Run a command or a shell on a simulated fabric that the real OpenSM manages.

    `ibnetdiscover`, `ibtracert`, `saquery` and scripts that call them work as on a real fabric.
    `--engine` routes with weft and loads the tables into OpenSM; with `--real` OpenSM computes its
    tables. The exit status is that of the command; it is 1 if the command returns 0 but host pairs
    have no path, and 2 if the subnet differs from the fabric. OpenSM and the simulator end with the
    command.

    Example: `weft opensm live torus:4x4 --engine dfsssp -- ibnetdiscover`
    """
    if sum(given is not None for given in (engine, real, tables)) > 1:
        raise InputError("expected only one of --engine (weft), --real (OpenSM) and --tables")
    for limit in (timeout, command_timeout):
        if limit is not None:
            check_limit(limit)
    check_folder("--keep", keep)
    loaded = options.load(fabric)
    routes: Routes | None = None
    if engine is not None:
        with announced_compile():
            routes = route(loaded, engine)
    start = time.monotonic()
    with live(
        loaded,
        real,
        routes=routes,
        tables=tables,
        lmc=lmc,
        qos=True if qos else None,
        sm_host=sm_host,
        options=opensm_settings(option),
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
                "weft: warning: programs of infiniband-diags create a folder in the current "
                f"folder, but {os.getcwd()} is not writable; run them in another folder",
                file=sys.stderr,
            )
        if not command:
            print("weft: shell on the simulated fabric; type 'exit' to end it", file=sys.stderr)
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


opensm_app = cyclopts.App(
    name="opensm",
    help="Run the real OpenSM on a simulated fabric, and load tables into it.",
    help_format="markdown",
)
opensm_app.command(live_command, name="live")
opensm_app.command(export_command, name="export")
opensm_app.command(rehearse_command, name="rehearse")
