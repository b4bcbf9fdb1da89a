"""ar_updn: adaptive Up*/Down* routing, the default of NVIDIA's subnet manager."""

from __future__ import annotations

from pathlib import Path

from weft.fabrics import Fabric
from weft.routing.engine_registry import PASSES, Passes, engine
from weft.routing.engines.adaptive_groups import (
    MOST_GROUPS,
    MOST_PORTS,
    MaxGroups,
    MaxPorts,
    adaptive_routes,
)
from weft.routing.engines.updn import chosen_roots, up_edges, updn
from weft.routing.routes import Routes, TableRoutes


@engine(
    "ar_updn", deadlock_free=True, lmc=False, candidates=True, policy="adaptive",
    nvidia="ar_updn",
)  # fmt: skip
def ar_updn(
    fabric: Fabric,
    *,
    roots: tuple[str, ...] = (),
    root_guid_file: Path | None = None,
    max_groups: MaxGroups = MOST_GROUPS,
    max_ports: MaxPorts = MOST_PORTS,
    passes: Passes = PASSES,
) -> Routes:
    """Route adaptively by Up*/Down*: every output link on a minimal legal path is a candidate.

    A switch has a group of ports for each set of destination switches that it reaches over the same
    ports. The forwarding tables of `updn` are the fallback for packets that may not choose.

    Parameters
    ----------
    fabric
        Any fabric.
    roots, root_guid_file
        As for `updn` with ``balance=flows``.
    max_groups
        Number of groups of a switch, such as ``group_cap`` in the section AR_INFO of ibdiagnet.
        Groups that serve the most adapters come first. A destination switch without a group takes
        the largest group whose ports all lead to it on minimal legal paths; if there is none, one
        of these ports, in turn.
    max_ports
        Number of ports of a group. Different destination switches take different ones of more
        ports.
    passes
        As for `updn`, for the fallback.

    Raises
    ------
    NotApplicable
        If no root is found, or the roots leave hosts without a legal path.
    InputError
        If a root is not a switch of the fabric, or a limit is out of range.

    Notes
    -----
    Source: NVIDIA's manuals, algorithm TREE: all ports with minimal hops are in one group. They are
    silent on what happens beyond the limits.
    """
    fallback = updn(fabric, roots=roots, root_guid_file=root_guid_file, passes=passes)
    assert isinstance(fallback, TableRoutes)
    up = up_edges(fabric, chosen_roots(fabric, roots, root_guid_file)[0])
    return adaptive_routes(fabric, fallback, up, "ar_updn", max_groups, max_ports)
