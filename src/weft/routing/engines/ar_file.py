"""ar_file: adaptive routing tables from a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import warn
from weft.routing.engine_registry import engine
from weft.routing.opensm.dumps import load_tables
from weft.routing.opensm.ports import refuse_forwarding_hosts
from weft.routing.routes import Routes


@engine(
    "ar_file", deadlock_free=False, lmc=False, candidates=True, policy="adaptive",
    needs="far_file",
)  # fmt: skip
def ar_file(fabric: Fabric, *, far_file: str = "") -> Routes:
    """Read the adaptive routing tables of a subnet from ibdiagnet2.far.

    Parameters
    ----------
    fabric
        Fabric of the tables, with its LIDs; its hosts must not forward.
    far_file
        The tables, with groups of ports. It is required.

    Raises
    ------
    NotApplicable
        If there is no file, or a host forwards.
    InputError
        If the file is invalid, has errors such as a group of a port without a cable, or has no LID
        that is routed adaptively.
    """
    if not far_file:
        raise NotApplicable("needs the file with the tables, as in ar_file:far_file=ibdiagnet2.far")
    refuse_forwarding_hosts(fabric)
    loaded = load_tables(fabric, Path(far_file), {})
    for kind, text, _ in loaded.problems:
        if kind != "stale":
            raise InputError(text, file=far_file)
        warn(far_file, f"{text}; they were left out")
    routes = loaded.candidates(fabric)
    if routes is None:
        raise InputError(
            "has no LID that is routed adaptively; 'file:lfts_file=FILE' reads static tables",
            file=far_file,
        )
    return replace(
        routes, engine="ar_file", notes=(*routes.notes, f"adaptive tables from {far_file}")
    )
