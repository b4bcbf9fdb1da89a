"""`weft keys`: routing keys for the flows of a workload or of a file."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from rich.markup import escape
from rich.table import Table

from weft.cli.common import (
    ALL_HOSTS,
    FabricArgument,
    JudgedOptions,
    announced_compile,
    check_files,
    console,
)
from weft.cli.option_types import (
    FIRST,
    OUTPUT,
    ROUTING,
    RUNS,
    WORKLOAD,
    Engine,
    File,
    Folder,
    Name,
    Placed,
    Whole,
    Workload,
)
from weft.cli.output import emit
from weft.core.errors import InputError
from weft.core.files import read_text, write_text
from weft.fabrics.formats.flows import read_flows
from weft.report.key_page import write_key_page
from weft.routing import route
from weft.routing.opensm.lids import predict_lids
from weft.sim.keys import RoutingKey, keys
from weft.sim.keys.files import read_keys, write_keys
from weft.sim.keys.key_set import workload_keys
from weft.sim.keys.make import Colours, Method
from weft.sim.keys.network import key_network
from weft.sim.keys.tables import key_tables
from weft.subnet.export import check_target
from weft.subnet.export import export as export_routes
from weft.workload import load_workload

#: Largest number of paths that are printed.
MOST_PATHS = 50


def keys_command(
    fabric: FabricArgument,
    /,
    *,
    workload: Annotated[
        Workload | None,
        FIRST(
            help="A workload as for 'weft simulate', such as cartesian or transpose. Each key that "
            "it requests, or each phase, is one key."
        ),
    ] = None,
    ranks: Annotated[
        Whole | None,
        WORKLOAD(help="Number of ranks of the workload; by default, one per host with keys."),
    ] = None,
    placement: Annotated[Placed, WORKLOAD(help="Placement of the ranks.")] = "linear",
    flows: Annotated[
        File | None,
        FIRST(help="A file of flows, one line SOURCE DESTINATION each, instead of a workload."),
    ] = None,
    read: Annotated[
        File | None, FIRST(help="A file of keys, as --out writes it, instead of a workload.")
    ] = None,
    method: Annotated[
        Method, ROUTING(help="exact: the fewest colours possible; greedy: as in the paper.")
    ] = "exact",
    colours: Annotated[
        Colours, ROUTING(help="fewest, or all: spread the flows over all switches above.")
    ] = "fewest",
    name: Annotated[
        Name | None, WORKLOAD(help="Name of the key of a file of flows; by default A.")
    ] = None,
    seed: Annotated[Whole, RUNS(help="Seed of the keys.")] = 0,
    paths: Annotated[bool, OUTPUT(help="Print the path of each flow.")] = False,
    out: Annotated[File | None, FIRST(help="File to write the keys to.")] = None,
    report: Annotated[File | None, OUTPUT(help="Write one self-contained HTML page.")] = None,
    export: Annotated[
        Folder | None,
        OUTPUT(
            help="Folder for OpenSM's engine file; a LID of the destination selects a flow's path."
        ),
    ] = None,
    engine: Annotated[
        Engine, ROUTING(help="Engine of the routes to the first LID of each host, for --export.")
    ] = "dmodk",
    overwrite: Annotated[
        bool, OUTPUT(help="Replace the folder of --export even if it holds other files.")
    ] = False,
    options: JudgedOptions = ALL_HOSTS,
) -> int:
    """Give the flows of an application paths that share few links (routing keys).

    The exit status is 1 if a key has more contention than the lower bound for any routing.

    Example: `weft keys 'xgft:2;4,4;1,4' --workload transpose`
    """
    if [workload, flows, read].count(None) != 2:
        raise InputError("expected one of --workload, --flows and --read")
    if workload is None and ranks is not None:
        raise InputError("--ranks requires --workload; a file of flows or keys names hosts")
    if workload is None and placement != "linear":
        raise InputError("--placement requires --workload; a file of flows or keys names hosts")
    if read is not None and (method != "exact" or colours != "fewest" or seed):
        raise InputError("--method, --colours and --seed are for new keys; --read has keys already")
    if flows is None and name is not None:
        raise InputError("--name requires --flows; other keys have names already")
    check_files(("--out", out, ()), ("--report", report, ()))
    if export is not None:
        check_target(export, overwrite)
    with announced_compile():
        loaded = options.load(fabric)
        made: tuple[RoutingKey, ...]
        note = ""
        left_out = key_network(loaded).clos.left_out
        if flows is not None:
            ends = read_flows(loaded, read_text(flows), str(flows))
            made = (
                keys(loaded, *ends, method=method, colours=colours, name=name or "A", seed=seed),
            )
        elif read is not None:
            made = read_keys(loaded, read_text(read), str(read))
        else:
            assert workload is not None
            most = len(key_network(loaded).hosts)
            work = load_workload(workload, most if ranks is None else ranks)
            several = workload_keys(
                loaded, work, placement, method=method, colours=colours, seed=seed
            )
            made = several.keys
            if len(work.phase_names) == 1 and not several.requested:
                note = "The workload has no phases; all its messages are taken as concurrent."
        reached = [key.contention <= key.contention_bound * (1 + 1e-9) for key in made]
        if export is not None:
            tables = key_tables(loaded, route(loaded, [engine]), made)
            whole, number = loaded.whole, loaded.destination_of_whole
            base = predict_lids(whole, lmc=tables.routes.lmc).base[number]
            text = write_keys(loaded, made, tables.lids(made, base))
            every = tables.routes.renumbered(loaded, whole, np.argsort(number))
            export_routes(whole, every, export, overwrite=overwrite, keys=text)
    if out is not None:
        write_text(out, write_keys(loaded, made))
    if report is not None:
        write_key_page(loaded, made, report)
    emit(
        keys=lambda: [
            {
                "name": key.name, "flows": len(key.sources), "colours": key.num_colours,
                "worst": key.worst, "bound": key.bound, "contention": key.contention,
                "contention_bound": key.contention_bound, "method": key.method,
            }
            for key in made
        ],
    )  # fmt: skip
    screen = console()
    screen.print(_table(made))
    for key, least in zip(made, reached, strict=True):
        if not least:
            screen.print(
                f"{escape(key.name)}: flows can send {key.contention:.3g} times the rate of the "
                f"most loaded link; the lower bound is {key.contention_bound:.3g}", soft_wrap=True,
            )  # fmt: skip
    if left_out:
        emit(left_out=left_out)
        screen.print(
            "Keys are for the largest part that is a folded Clos network: without "
            f"{escape(left_out)}.", soft_wrap=True,
        )  # fmt: skip
    if note:
        screen.print(note)
    for key in made if paths else ():
        for line in key.lines()[:MOST_PATHS]:
            screen.print(escape(line), soft_wrap=True)
        if len(key.sources) > MOST_PATHS:
            screen.print(f"… and {len(key.sources) - MOST_PATHS} more paths of {escape(key.name)}")
    if out is not None:
        screen.print(
            f"Wrote {len(made)} {'key' if len(made) == 1 else 'keys'} to {escape(str(out))}."
        )
    if report is not None:
        screen.print(f"report: {escape(str(report))}")
    if export is not None:
        screen.print(
            f"Wrote {escape(str(export))} for OpenSM: LMC {tables.routes.lmc}, {tables.entries:,} "
            "entries per switch; keys.txt lists the LID to which each flow must be sent.",
            soft_wrap=True,
        )  # fmt: skip
    return 0 if all(reached) else 1


def _table(made: tuple[RoutingKey, ...]) -> Table:
    # Where links differ in rate from hosts or from one another, loads say more than flow numbers.
    rates = any((key.contention, key.contention_bound) != (key.worst, key.bound) for key in made)
    table = Table("key", title="Routing keys", title_justify="left")
    for heading in ("flows", "colours", "most flows on a link", "lower bound"):
        table.add_column(heading, justify="right")
    for heading in ("largest load", "lower bound") if rates else ():
        table.add_column(heading, justify="right")
    for key in made:
        cells = [f"{v:,}" for v in (len(key.sources), key.num_colours, key.worst, key.bound)]
        loads = [f"{v:.3g}" for v in (key.contention, key.contention_bound)] if rates else []
        table.add_row(escape(key.name), *cells, *loads)
    return table
