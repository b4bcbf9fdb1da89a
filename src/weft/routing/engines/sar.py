"""sar: paths and lanes as of dfsssp, but balanced over the flows of given jobs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.files import read_text
from weft.fabrics import Fabric, check_fabric
from weft.fabrics.formats.flows import read_flows
from weft.routing.engine_registry import PASSES, Passes, empty_table, engine, fill_balanced
from weft.routing.lane_assignment import MaxVls, assign_lanes, check_vls, in_lanes
from weft.routing.routes import TableRoutes


@engine("sar", deadlock_free=True, lmc=False, needs="flows")
def sar(
    fabric: Fabric,
    *,
    flows: str = "",
    passes: Passes = PASSES,
    max_vls: MaxVls = 8,
    management: bool = False,
) -> TableRoutes:
    """Route on minimal paths balanced over the flows of jobs, with lanes against deadlock.

    Parameters
    ----------
    fabric
        Any fabric.
    flows
        Name of a file of flows, one line ``SOURCE DESTINATION`` each: the pairs of hosts that
        communicate, such as all pairs within each job.
    passes
        Number of times that the paths to each destination are chosen.
    max_vls, management
        As for `dfsssp`.

    Raises
    ------
    NotApplicable
        If no file is given, the fabric has no row, or the search finds no assignment to `max_vls`
        lanes.
    InputError
        If an option is out of range, or the file cannot be read or has an invalid line.

    Notes
    -----
    See `sar_routes`, which makes these routes from arrays.
    """
    if not flows:
        raise NotApplicable(
            "engine sar reads the flows of the jobs from a file; specify it with flows=FILE"
        )
    ends = read_flows(fabric, read_text(flows), flows)
    return sar_routes(fabric, *ends, passes=passes, max_vls=max_vls, management=management)


def sar_routes(
    fabric: Fabric,
    sources: ArrayLike,
    destinations: ArrayLike,
    *,
    passes: int = PASSES,
    max_vls: MaxVls = 8,
    management: bool = False,
) -> TableRoutes:
    """Return scheduling-aware routes: tables that are balanced over given flows.

    All pairs of hosts have a path. Pairs that are not listed decide only between paths that are
    equally good for the listed pairs.

    Parameters
    ----------
    fabric
        Any fabric.
    sources, destinations
        Host numbers, one entry per flow. A pair that is listed n times counts n times.
    passes, max_vls, management
        As for the engine ``sar``.

    Raises
    ------
    InputError
        If a host does not exist, the numbers of sources and destinations differ, or an option is
        out of range.
    NotApplicable
        In the cases of the engine ``sar``.

    Notes
    -----
    The idea is that of Domke and Hoefler, "Scheduling-Aware Routing for Supercomputers", SC 2016:
    routes that follow the present state of the batch system. The details are not theirs: the caller
    gives the flows, and each destination's paths are chosen again after all others, as in `dfsssp`.

    Examples
    --------
    >>> import weft
    >>> fabric = weft.fabric("xgft:2;4,4;1,2")
    >>> routes = weft.sar_routes(fabric, [0, 1], [4, 8])
    >>> weft.link_loads(fabric, routes, [0, 1], [4, 8]).max()
    1
    """
    check_fabric(fabric)
    check_vls(max_vls)
    if passes < 1:
        raise InputError(f"passes must be at least 1, not {passes}")
    source = fabric.host_numbers(sources, "sources")
    destination = fabric.host_numbers(destinations, "destinations", count=len(source))
    table = empty_table(fabric)
    flows = _flows(fabric, source, destination)
    fill_balanced(fabric, table, passes=passes, flows=flows)
    sl, lanes = assign_lanes(fabric, table, lmc=0, max_vls=max_vls, management=management)
    return in_lanes("sar", fabric, table, sl, lanes)


def _flows(
    fabric: Fabric, source: NDArray[np.int64], destination: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the number of flows from each row to each endpoint, int64 [endpoints, rows]."""
    graph = fabric.graph
    graph.need_memory(fabric.num_endpoints, 16, "flows")
    ends = [fabric.host_endpoint[hosts] for hosts in (source, destination)]
    row = graph.destination_row[ends[0]]
    used = (source != destination) & (ends[0] >= 0) & (ends[1] >= 0) & (row >= 0)
    flows = np.zeros((fabric.num_endpoints, graph.num_rows), dtype=np.int64)
    np.add.at(flows, (ends[1][used], row[used]), 1)
    return flows
