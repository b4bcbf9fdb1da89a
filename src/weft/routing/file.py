"""file: forwarding tables out of a file, as OpenSM's engine of that name takes them."""

from __future__ import annotations

from weft.errors import NotApplicable
from weft.fabrics import Fabric
from weft.opensm.lfts import read_lfts
from weft.routes import Routes
from weft.routing.base import engine


@engine("file", deadlock_free=False, lmc=False)
def file(fabric: Fabric, *, lfts_file: str = "", lmc: int | None = None) -> Routes:
    """Forwarding tables out of a file, as OpenSM, ibroute or dump_fts dump them.

    Parameters
    ----------
    fabric
        What the tables are of; hosts that forward have none.
    lfts_file
        The dump: OpenSM's ``-U``. Required here, where OpenSM would silently route by minhop.
    lmc
        LMC; left out, the file's.

    Raises
    ------
    NotApplicable
        Without a file, or when a host forwards.
    InputError
        When the file is not of this fabric, or broken; see `weft.opensm.lfts.read_lfts`.
    """
    if not lfts_file:
        raise NotApplicable(
            "needs the file with the tables, as in file:lfts_file=opensm-lfts.dump; OpenSM would "
            "route by minhop without"
        )
    return read_lfts(fabric, lfts_file, lmc=lmc)
