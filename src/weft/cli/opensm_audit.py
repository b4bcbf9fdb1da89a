"""`weft opensm audit`: what is wrong in a running subnet, from what its OpenSM dumped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from weft.cli.common import announced_compile, check_files, console
from weft.core.errors import STANDARD_INPUT, InputError
from weft.core.files import write_text
from weft.fabrics.load import fabric as load_fabric
from weft.opensm.audit import audit


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
    json_: Annotated[
        str | None,
        Parameter(
            name="--json",
            allow_leading_hyphen=True,
            help="Write the result as JSON; '-' for the terminal.",
        ),
    ] = None,
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
    to_terminal = json_ in STANDARD_INPUT  # what stands for the terminal here
    if not to_terminal:
        check_files(("--json", json_, ()))
    with announced_compile():
        made = None if fabric is None else load_fabric(fabric, format=format, names=names)
        found = audit([path, *more], made, management=management)
    if to_terminal:
        print(json.dumps(found.as_json(), indent=2))
    else:
        console().print(escape(found.text()), soft_wrap=True)
        if json_ is not None:
            write_text(json_, json.dumps(found.as_json(), indent=2) + "\n")
    if not found.ok:
        return 1
    return 3 if found.open else 0
