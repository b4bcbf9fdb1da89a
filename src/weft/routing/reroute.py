"""The tables of OpenSM after a failure or a repair: its next sweep, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing.engine_registry import empty_table, route
from weft.routing.engine_registry import engine as engines
from weft.routing.engines.as_opensm import fall_back, minhop_as_opensm
from weft.routing.engines.dfsssp import dfsssp_as_opensm
from weft.routing.engines.dnup import dnup_as_opensm
from weft.routing.engines.dor import dor_in_place
from weft.routing.engines.ftree import UnsteadyError, ftree_as_opensm
from weft.routing.engines.updn import updn_as_opensm
from weft.routing.opensm.lids import refuse_inside
from weft.routing.opensm.ports import common
from weft.routing.routes import TableRoutes

#: Engines that keep present entries, or whose fallback does, and what routes as they do.
_FROM_PRESENT: dict[str, Callable[..., TableRoutes]] = {
    "minhop": minhop_as_opensm,
    "updn": updn_as_opensm,
    "dnup": dnup_as_opensm,
    "dor": dor_in_place,
    "dfsssp": dfsssp_as_opensm,
}
#: Engines of OpenSM that weft has in another form, without the same tables.
OTHERWISE = ("lash", "nue")


def opensm_reroute(
    before: Fabric,
    routes: TableRoutes,
    after: Fabric,
    engine: str,
    *,
    sm: str | int | None = None,
) -> TableRoutes:
    """Predict the tables that switches have after OpenSM's next sweep.

    Parameters
    ----------
    before
        The fabric of `routes`.
    routes
        The tables that the switches have.
    after
        The fabric with failures or repairs. Nodes and ports are those of `before` by their GUIDs.
    engine
        The engine that OpenSM runs, with its options, as in ``updn`` or
        ``updn:root_guid_file=roots.guids``. With ``file``, the tables stay as loaded.
    sm
        Node on which OpenSM runs, by number, name or GUID; by default, a node of the largest
        connected part of `after`. Switches that OpenSM does not reach keep their tables.

    Returns
    -------
    TableRoutes
        Routes of `after`. If OpenSM falls back to minhop, these are its tables, and ``refusals``
        has the reason. If the engine is one of `OTHERWISE`, they are those of weft's engine, and
        ``notes`` says that the entries differ.

    Raises
    ------
    NotApplicable
        If OpenSM's tables differ from run to run (ftree with cables within a level), weft's engine
        cannot route the fabric, or the seeds of ``torus-2QoS:conf=FILE`` have failed.
    InputError
        If OpenSM has no such engine, or an option is invalid or contradicts `routes`.

    Notes
    -----
    OpenSM computes everything anew in each sweep but for one rule: ``minhop``, ``updn``, ``dnup``,
    ``dor`` and the fallback to minhop keep a present entry if its port still has the fewest hops,
    and count it like a new one. So the tables depend on all failures before. If a port has come up
    that OpenSM reaches, by a repair or an addition, no entry is kept. Other engines keep none. LIDs
    stay.
    """
    routes.check(before)
    refuse_inside(after)
    entry, given = engines.parse(engine)
    whole = after.whole
    kept = routes.on(before, whole)
    if entry.name == "file":
        result = kept
    else:
        spec = entry.name if entry.name in OTHERWISE else entry.facts.get("as_opensm")
        if spec is None:
            raise InputError(f"OpenSM has no engine {entry.name}")
        fixed = {**engines.parse(spec)[1], "lmc": routes.lmc}
        for name, value in fixed.items():
            if str(given.get(name, value)) != str(value):
                raise InputError(f"OpenSM's {entry.name} has {name}={value}, not {given[name]}")
        options = {**given, **fixed}
        reached, row = _reached(whole, sm), whole.graph.node_row[whole.link_from]
        came_up = not _there(before, whole)[(row >= 0) & reached[row]].all()
        present = empty_table(whole, routes.lmc) if came_up else kept.table.copy()
        result = _swept(whole, present, entry, options)
        if not reached.all():
            result = replace(result, table=np.where(reached, result.table, kept.table))
    if whole is not after:
        result = result.renumbered(whole, after, after.destination_of_whole)
    return result


def _swept(
    fabric: Fabric, present: NDArray[np.unsignedinteger[Any]], entry: Any, options: dict[str, Any]
) -> TableRoutes:
    """Return the routes of an engine of OpenSM, from the present tables."""
    lmc = options["lmc"]
    if not entry.facts["lmc"]:
        del options["lmc"]
        if lmc:
            reason = f"{entry.name} does not support LMC {lmc}"
            return fall_back(fabric, entry.name, reason, lmc=lmc, table=present)
    defaults = {name: option.default for name, option in entry.options.items()}
    bound = defaults | engines.bind(entry, options)
    if again := _FROM_PRESENT.get(entry.name):
        own = {name: value for name, value in bound.items() if name in signature(again).parameters}
        return again(fabric, present, **own)
    try:
        if entry.name == "ftree":
            return ftree_as_opensm(fabric, **bound)[0]
        result = route(fabric, entry.name, **options)
    except InputError as error:
        if "conf" not in options:
            raise
        raise NotApplicable(f"the torus has lost its seeds: {error}") from None
    except NotApplicable as reason:
        if entry.name != "ftree" or isinstance(reason, UnsteadyError):
            raise
        return fall_back(fabric, entry.name, str(reason), lmc=lmc, table=present)
    assert isinstance(result, TableRoutes)
    if entry.name in OTHERWISE:
        note = f"paths of weft's {entry.name}; the entries of OpenSM's differ"
        return replace(result, notes=(*result.notes, note))
    if result.engine != entry.name:
        return fall_back(fabric, *result.refusals[-1], lmc=lmc, table=present)
    return result


def _there(before: Fabric, after: Fabric) -> NDArray[np.bool_]:
    """Return whether each link of a fabric is also there in another one, bool [links]."""
    if not before.num_links:
        return np.zeros(after.num_links, dtype=np.bool_)
    here, there = common(after.node_guid, before.node_guid)
    node = np.full(after.num_nodes, -1, dtype=np.int64)
    node[here] = there
    tail, port = node[after.link_from], after.link_from_port.astype(np.int64)
    known = (tail >= 0) & (port <= before.num_ports[tail])
    link = before.port_link[np.where(known, before.port_offset[tail] + port - 1, 0)]
    to = before.link_to[link] == node[after.link_to]
    same: NDArray[np.bool_] = (
        known & (link >= 0) & to & (before.link_to_port[link] == after.link_to_port)
    )
    return same


def _reached(fabric: Fabric, sm: str | int | None) -> NDArray[np.bool_]:
    """Return the rows that the subnet manager reaches, bool [rows]."""
    label = fabric.graph.components
    if sm is None:
        parts = np.bincount(label).argmax()
    else:
        node = fabric.find_node(sm) if isinstance(sm, str) else sm
        rows = fabric.graph.destination_row[: fabric.num_endpoints][fabric.endpoint_node == node]
        parts = label[rows[rows >= 0]]
    reached: NDArray[np.bool_] = np.isin(label, parts)
    return reached
