"""The registry of routing engines, and the functions that they share.

An engine is a file with one function::

    @engine("mine")
    def mine(fabric: Fabric, *, depth: int = 2) -> Routes: ...

The function raises `NotApplicable` with the reason if it cannot route the fabric. Where an option
asks for what OpenSM does, it returns the routes of the engine that OpenSM falls back to, with that
engine's name and options, and the reason in ``refusals``. The fact
``deadlock_free`` of an engine holds for all values of its options except those that the fact
``deadlock_with`` lists: see `never_deadlocks`. Whether the routes of one fabric can deadlock is
checked by `weft.routing.validation.validate`. The fact ``policy`` names the usual policy of
candidates, and ``nvidia`` the ``routing_engine`` of NVIDIA's subnet manager that routes so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from weft.core.errors import InputError, NotApplicable
from weft.core.frozen import read_only
from weft.core.registry import Registry
from weft.fabrics import Fabric, check_fabric
from weft.kernels.parts import StateParts
from weft.kernels.routes.all_to_all import all_to_all_table_loads
from weft.kernels.routing.candidates import shortest_path_sets
from weft.kernels.routing.distances import search_space
from weft.kernels.routing.peaks import lower_peaks
from weft.kernels.routing.tables import TableTargets, balanced_tables, counted_tables
from weft.routing.machines import extended
from weft.routing.routes import Routes

engine = Registry("routing engine", "weft.routing.engines", "weft.engines", pipeline=("fabric",))
_engines = engine  # `route` has a parameter of this name

#: Unit in which the load of a port is counted: flows of host pairs, or destinations as in OpenSM.
Balance = Literal["flows", "opensm"]

#: Three passes bring shuffled and faulty fat trees within 1 % of the bisection bandwidth that
#: D-mod-K reaches on complete ones; with one pass 10 % is lost, and more than three gain little.
PASSES = 3
#: Type of the option: a signal cannot end the kernel that does all passes.
Passes = Annotated[int, Field(ge=1, le=100)]

#: Maximum number of rounds that lower the largest load after the passes; most fabrics need fewer.
PEAK_ROUNDS = 64


def route(fabric: Fabric, engine: str | Sequence[str], **options: Any) -> Routes:
    """Route a fabric.

    Parameters
    ----------
    fabric
        Fabric to route. If only some of its hosts are judged, its tables are still those of all.
    engine
        Name of an engine, optionally with options as in ``"updn:roots=center"``, or a sequence of
        such names: as in OpenSM, the first engine that can route the fabric is used. The result
        records why the engines before it could not route the fabric.
    **options
        Further options; every named engine must accept all of them.

    Returns
    -------
    Routes
        The routes, with the engine, its options and the refusals of other engines.

    Raises
    ------
    NotApplicable
        If no engine can route the fabric; the message gives every reason.
    InputError
        If an engine or option is unknown, a value is invalid, `fabric` is not a fabric, or a
        user's engine does not return routes.
    """
    check_fabric(fabric)
    names = [engine] if isinstance(engine, str) or not isinstance(engine, Sequence) else engine
    if not names:
        raise InputError("no routing engine was named")
    parsed = [_engines.parse(name) for name in names]
    entries = [entry for entry, _ in parsed]
    bound = [_engines.bind(entry, {**given, **options}) for entry, given in parsed]
    refusals: list[tuple[str, str]] = []
    for entry, arguments in zip(entries, bound, strict=True):
        try:
            routes: Routes = entry.function(fabric.subnet, **arguments)
        except NotApplicable as reason:
            refusals.append((entry.name, str(reason)))
            continue
        if not isinstance(routes, Routes):
            raise InputError(
                f"routing engine {entry.name} returned {type(routes).__name__} instead of Routes"
            )
        defaults = {name: option.default for name, option in entry.options.items()}
        if fabric.machine_model is not None:
            try:
                routes = extended(fabric.whole, routes)
            except NotApplicable as reason:
                refusals.append((entry.name, str(reason)))
                continue
        if fabric.whole is not fabric:
            routes = routes.renumbered(fabric.whole, fabric, fabric.destination_of_whole)
        return replace(
            routes,
            options=routes.options or {**defaults, **arguments},
            refusals=(*refusals, *routes.refusals),
        )
    text = "; ".join(f"{name}: {reason}" for name, reason in refusals)
    raise NotApplicable(text, refusals[0][1] if len(refusals) == 1 else "")


def never_deadlocks(spec: str) -> bool:
    """Return whether an engine with its options is designed to be deadlock-free on any fabric."""
    entry, given = _engines.parse(spec)
    bound = _engines.bind(entry, given)
    unsafe = entry.facts.get("deadlock_with", {})
    return bool(entry.facts.get("deadlock_free")) and not any(
        bound.get(name) == value for name, value in unsafe.items()
    )


def empty_table(fabric: Fabric, lmc: int = 0) -> NDArray[np.unsignedinteger[Any]]:
    """Return a table for `TableRoutes` in which every entry is "no path"."""
    graph = fabric.graph
    if graph.num_rows == 0:
        raise NotApplicable(f"{fabric.name} has no switch")
    shape = (fabric.num_destinations << lmc, graph.num_rows)
    dtype = graph.port_dtype
    graph.need_memory(shape[0], dtype.itemsize, "ports")
    return np.full(shape, np.iinfo(dtype).max, dtype=dtype)


def destination_ports(fabric: Fabric) -> NDArray[np.int32]:
    """Return the port at which each destination is attached to its row, 0 for rows themselves."""
    link = fabric.graph.destination_link
    ports = np.zeros(len(link), dtype=np.int32)
    attached = np.flatnonzero(link >= 0)
    ports[attached] = fabric.link_from_port[link[attached]]
    return ports


def row_sources(fabric: Fabric) -> NDArray[np.int64]:
    """Return the number of hosts whose first endpoint is at each row, int64 [rows]."""
    return _at_rows(fabric, fabric.host_endpoint[fabric.host_endpoint >= 0])


def _at_rows(fabric: Fabric, endpoints: NDArray[np.int32] | slice) -> NDArray[np.int64]:
    rows = fabric.graph.destination_row[endpoints]
    return np.bincount(rows[rows >= 0], minlength=fabric.graph.num_rows)


def sending_rows(fabric: Fabric) -> NDArray[np.int32]:
    """Return the rows that any host port is attached to, ascending."""
    rows = fabric.graph.destination_row[: fabric.num_host_endpoints]
    return np.unique(rows[rows >= 0])


def row_adapters(fabric: Fabric) -> NDArray[np.int64]:
    """Return the number of adapter ports (of hosts and others) at each row, int64 [rows]."""
    return _at_rows(fabric, slice(fabric.num_endpoints))


def destinations_by_row(
    fabric: Fabric, destinations: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the given destinations of each row, in the given order, as CSR offsets and values."""
    rows = fabric.graph.destination_row[destinations]
    attached = destinations[rows >= 0]
    rows = rows[rows >= 0]
    offset = np.zeros(fabric.graph.num_rows + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=fabric.graph.num_rows), out=offset[1:])
    return offset, attached[np.argsort(rows, kind="stable")].astype(np.int32)


def targets_of(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    lmc: int = 0,
    destinations: NDArray[np.integer[Any]] | None = None,
) -> StateParts:
    """Return the given destinations, by default all, as kernels that fill a table take them."""
    if destinations is None:
        destinations = np.arange(fabric.num_destinations)
    listed, no_path = destinations_by_row(fabric, destinations), int(np.iinfo(table.dtype).max)
    ports, endpoints = destination_ports(fabric), fabric.num_endpoints
    return StateParts(TableTargets(*listed, ports, endpoints, lmc, no_path))


def fill_balanced(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    *,
    edge_up: NDArray[np.uint8] | None = None,
    lmc: int = 0,
    passes: int = PASSES,
    destinations: NDArray[np.integer[Any]] | None = None,
    flows: NDArray[np.int64] | None = None,
) -> None:
    """Fill tables with balanced minimal paths; see `weft.kernels.routing.tables.balanced_tables`.

    - `table`: table from `empty_table`, changed in place.
    - `edge_up` [edges]: 1 for edges that go up, to allow only up*/down* paths; None for any minimal
      path.
    - `passes`: number of times that each destination's tree is chosen. The first pass takes only
      the loads of earlier trees into account, each later pass the loads of all other trees.
    - `destinations`: destinations to fill, by default all.
    - `flows` [endpoints, rows]: flows that each row sends to each endpoint, if these are to be
      balanced instead of one flow for each pair of hosts. Pairs of hosts then break ties.
    """
    graph = fabric.graph
    targets = targets_of(fabric, table, lmc, destinations)
    load = np.zeros(len(graph.edge_row), dtype=np.int64)
    sources = row_sources(fabric)[None]
    # One flow weighs more than all pairs of hosts on a link.
    weight = max(1, fabric.num_hosts) ** 2
    balanced_tables(
        graph.parts, *_order(edge_up), _edge_cost(fabric), _part_sizes(fabric),
        sources if flows is None else flows * weight + sources, targets, passes, load, table,
        search_space(graph.num_rows, len(graph.edge_row)),
    )  # fmt: skip
    if flows is not None:
        load, sources = load // weight, flows
    if passes > 1 and lmc == 0:
        _lower_peaks(fabric, table, sources, targets, load, edge_up)


def _order(edge_up: NDArray[np.uint8] | None) -> tuple[NDArray[np.uint8], bool]:
    return (np.zeros(0, dtype=np.uint8), False) if edge_up is None else (edge_up, True)


def _edge_cost(fabric: Fabric) -> NDArray[np.float64]:
    cost: NDArray[np.float64] = 1.0 / fabric.link_rate_gbps[fabric.graph.edge_link]
    return cost


def _part_sizes(fabric: Fabric) -> NDArray[np.int32]:
    """Return the number of rows in the connected component of each row."""
    label = fabric.graph.components
    return np.bincount(label)[label].astype(np.int32)


def path_sets(
    fabric: Fabric, edge_up: NDArray[np.uint8] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return all minimal paths as sets of edges: `set_id`, `set_offset`, `set_edge` of candidates.

    `edge_up` [edges]: as for `fill_balanced`, whose paths are among these.
    """
    graph = fabric.graph
    if graph.num_rows == 0:
        raise NotApplicable(f"{fabric.name} has no switch")
    graph.need_memory(graph.num_rows, 4, "candidate sets")
    set_id = np.full((graph.num_rows, graph.num_rows), -1, dtype=np.int32)
    targets = np.arange(graph.num_rows, dtype=np.int32)
    search = search_space(graph.num_rows, len(graph.edge_row))
    offset, edges = shortest_path_sets(
        graph.parts, targets, *_order(edge_up), _part_sizes(fabric), set_id, search
    )
    return set_id, offset, edges


def _lower_peaks(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    sources: NDArray[np.int64],
    targets: StateParts,
    load: NDArray[np.int64],
    edge_up: NDArray[np.uint8] | None,
) -> None:
    graph = fabric.graph
    lower_peaks(
        graph.parts, *_order(edge_up), _edge_cost(fabric), _part_sizes(fabric), sources, targets,
        PEAK_ROUNDS, load, table, search_space(graph.num_rows, len(graph.edge_row)),
    )  # fmt: skip


def lower_worst_load(fabric: Fabric, table: NDArray[np.unsignedinteger[Any]]) -> None:
    """Replace trees of minimal paths to relieve the most loaded links of a table with LMC 0."""
    loads = edge_loads(fabric, table)
    targets = targets_of(fabric, table)
    _lower_peaks(fabric, table, row_sources(fabric)[None], targets, loads, None)


def edge_loads(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int = 0
) -> NDArray[np.int64]:
    """Return the load of each edge if every host sends to every host LID, int64 [edges]."""
    graph = fabric.graph
    ends = np.flatnonzero(graph.destination_row[: fabric.num_host_endpoints] >= 0)
    lids = ((ends[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1).astype(np.int32)
    loads = np.zeros(fabric.num_links, dtype=np.int64)
    all_to_all_table_loads(
        read_only(table.view()), lids, graph.destination_row[lids >> lmc],
        graph.destination_link[lids >> lmc], graph.parts, row_sources(fabric),
        int(np.iinfo(table.dtype).max), loads,
    )  # fmt: skip
    return loads[graph.edge_link]


def worst_load(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int = 0
) -> tuple[float, float]:
    """Return the largest ratio of load to rate, and the share of edges that reach it."""
    loads = edge_loads(fabric, table, lmc) * _edge_cost(fabric)
    if not len(loads):
        return 0.0, 0.0
    worst = float(loads.max())
    return worst, float((loads >= worst * (1 - 1e-9)).mean())


def opensm_targets(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int
) -> tuple[NDArray[np.int32], StateParts]:
    """Return the orders of target rows and of their destinations for `counted_tables`.

    OpenSM first routes to the switches with the most adapters. It orders switches with equally
    many by node GUID in network byte order, and the adapters of a switch by port. These orders
    reproduce its tables exactly.
    """
    graph = fabric.graph
    by_port = np.argsort(destination_ports(fabric), kind="stable")
    guid = fabric.node_guid[graph.row_node].byteswap()
    order = np.lexsort((guid, -row_adapters(fabric))).astype(np.int32)
    return order, targets_of(fabric, table, lmc, by_port)


def row_system(fabric: Fabric) -> NDArray[np.uint64]:
    """Return the system image GUID of each row, or else that of the node, uint64 [rows]."""
    system, guid = (each[fabric.graph.row_node] for each in (fabric.system_guid, fabric.node_guid))
    return np.where(system > 0, system, guid)


def fill_counted(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    lmc: int = 0,
    behind: NDArray[np.int64] | None = None,
) -> None:
    """Fill tables as OpenSM's port counters do; see `weft.kernels.routing.tables.counted_tables`.

    `behind` is the count of each edge before, int64 [edges].
    """
    graph = fabric.graph
    counted_tables(
        graph.parts, row_system(fabric), *opensm_targets(fabric, table, lmc),
        np.zeros(len(graph.edge_row), dtype=np.int64) if behind is None else behind, table,
        search_space(graph.num_rows, len(graph.edge_row)),
    )  # fmt: skip


def fill(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    balance: Balance,
    *,
    edge_up: NDArray[np.uint8] | None = None,
    lmc: int = 0,
    passes: int = PASSES,
) -> None:
    """Fill tables, balanced by flows or as by OpenSM; `edge_up` only applies to ``flows``."""
    if balance == "flows":
        fill_balanced(fabric, table, edge_up=edge_up, lmc=lmc, passes=passes)
    else:
        fill_counted(fabric, table, lmc)
