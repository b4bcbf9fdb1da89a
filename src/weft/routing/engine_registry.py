"""The registry of routing engines, and what they share.

An engine is added by a file with one function::

    @engine("mine")
    def mine(fabric: Fabric, *, depth: int = 2) -> Routes: ...

It raises `NotApplicable` with the reason when the fabric does not fit. The fact ``deadlock_free``
is about the engine's options but those that the fact ``deadlock_with`` lists with their values: see
`never_deadlocks`. What `weft.routing.validation.validate` finds decides for each fabric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import InputError, NotApplicable
from weft.core.frozen import read_only
from weft.core.registry import Registry
from weft.fabrics import Fabric, check_fabric
from weft.kernels.routes.all_to_all import all_to_all_table_loads
from weft.kernels.routing.peaks import lower_peaks
from weft.kernels.routing.tables import balanced_tables, counted_tables
from weft.routes import Routes

engine = Registry("routing engine", "weft.routing.engines", "weft.engines", pipeline=("fabric",))
_engines = engine  # where a parameter has the name

#: InfiniBand's limit: an LMC is three bits.
MAX_LMC = 7

#: What a port's or path's load counts: the flows of host pairs, or as OpenSM the destinations.
Balance = Literal["flows", "opensm"]

#: After three passes shuffled and faulty fat trees come within 1 % of the bisection bandwidth
#: that D-mod-K gives complete ones; one pass loses 10 %, and more hardly help.
PASSES = 3

#: Rounds of lowering the worst load afterwards; most fabrics need fewer.
PEAK_ROUNDS = 64


def route(fabric: Fabric, engine: str | Sequence[str], **options: Any) -> Routes:
    """Route a fabric.

    Parameters
    ----------
    fabric
        What to route.
    engine
        An engine, by name or with options as in ``"updn:roots=center"``, or several: the first
        that fits is used, as OpenSM does, and the refusals of those before it stand in the result.
    **options
        More options; with several engines each must take them all.

    Returns
    -------
    Routes
        With engine, options and refusals recorded.

    Raises
    ------
    NotApplicable
        When no engine fits; the text gives every reason.
    InputError
        On an unknown engine or option, a bad value, what is no fabric, or an engine of one's own
        that gives no routes.
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
            routes: Routes = entry.function(fabric, **arguments)
        except NotApplicable as reason:
            refusals.append((entry.name, str(reason)))
            continue
        if not isinstance(routes, Routes):
            raise InputError(
                f"routing engine {entry.name} gave {type(routes).__name__} instead of Routes"
            )
        defaults = {name: option.default for name, option in entry.options.items()}
        return replace(
            routes, options={**defaults, **arguments}, refusals=(*routes.refusals, *refusals)
        )
    raise NotApplicable("; ".join(f"{name}: {reason}" for name, reason in refusals))


def never_deadlocks(spec: str) -> bool:
    """Whether an engine, by name or with options, is meant to be free of deadlock on any fabric.

    Raises
    ------
    InputError
        On an unknown engine or option, or a bad value.
    """
    entry, given = _engines.parse(spec)
    bound = _engines.bind(entry, given)
    unsafe = entry.facts.get("deadlock_with", {})
    return bool(entry.facts.get("deadlock_free")) and not any(
        bound.get(name) == value for name, value in unsafe.items()
    )


def check_lmc(fabric: Fabric, lmc: int) -> None:
    """Refuse an LMC that InfiniBand does not have.

    Raises
    ------
    InputError
        When it is not 0 to 7.
    """
    if not 0 <= lmc <= MAX_LMC:
        raise InputError(f"lmc must be 0 to {MAX_LMC}, not {lmc}")


def empty_table(fabric: Fabric, lmc: int = 0) -> NDArray[np.unsignedinteger[Any]]:
    """A table of `TableRoutes` with no path anywhere.

    Raises
    ------
    NotApplicable
        When the fabric has nothing that forwards.
    """
    graph = fabric.graph
    if graph.num_rows == 0:
        raise NotApplicable(f"{fabric.name} has no switch")
    shape = (fabric.num_destinations << lmc, graph.num_rows)
    dtype = graph.port_dtype
    graph.need_memory(shape[0], dtype.itemsize, "ports")
    return np.full(shape, np.iinfo(dtype).max, dtype=dtype)


def destination_ports(fabric: Fabric) -> NDArray[np.int32]:
    """Port by which the row that a destination hangs from sends to it, 0 when it is the row."""
    link = fabric.graph.destination_link
    ports = np.zeros(len(link), dtype=np.int32)
    hanging = np.flatnonzero(link >= 0)
    ports[hanging] = fabric.link_from_port[link[hanging]]
    return ports


def row_sources(fabric: Fabric) -> NDArray[np.int64]:
    """Hosts that send through each row first (their first endpoint), int64 [rows]."""
    endpoints = fabric.host_endpoint[fabric.host_endpoint >= 0]
    rows = fabric.graph.destination_row[endpoints]
    counts = np.bincount(rows[rows >= 0], minlength=fabric.graph.num_rows)
    return counts.astype(np.int64)


def sending_rows(fabric: Fabric) -> NDArray[np.int32]:
    """Rows that hosts send through, by whichever of their ports, ascending."""
    rows = fabric.graph.destination_row[: fabric.num_host_endpoints]
    return np.unique(rows[rows >= 0])


def row_adapters(fabric: Fabric) -> NDArray[np.int64]:
    """Adapter ports, of hosts or not, that hang from each row, int64 [rows]."""
    rows = fabric.graph.destination_row[: fabric.num_endpoints]
    counts = np.bincount(rows[rows >= 0], minlength=fabric.graph.num_rows)
    return counts.astype(np.int64)


def components(fabric: Fabric) -> NDArray[np.int32]:
    """Number of the connected part that each row is in, int32 [rows]."""
    graph = fabric.graph
    matrix = csr_array(
        (np.ones(len(graph.edge_row), dtype=np.uint8), graph.edge_row, graph.edge_offset),
        shape=(graph.num_rows, graph.num_rows),
    )
    label: NDArray[np.int32] = connected_components(matrix, directed=False)[1]
    return label


def destinations_by_row(
    fabric: Fabric, destinations: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """CSR over rows of the given destinations, in their order; unreachable ones are left out."""
    rows = fabric.graph.destination_row[destinations]
    hanging = destinations[rows >= 0]
    rows = rows[rows >= 0]
    offset = np.zeros(fabric.graph.num_rows + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=fabric.graph.num_rows), out=offset[1:])
    return offset, hanging[np.argsort(rows, kind="stable")].astype(np.int32)


def fill_balanced(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    *,
    edge_up: NDArray[np.uint8] | None = None,
    lmc: int = 0,
    passes: int = PASSES,
    destinations: NDArray[np.integer[Any]] | None = None,
) -> None:
    """Fill tables with balanced shortest paths; see `weft.kernels.routing.tables.balanced_tables`.

    Parameters
    ----------
    fabric
        What to route.
    table
        Of `empty_table`, changed in place.
    edge_up
        uint8 [edges]: keep to up*/down* paths of this order; None for any shortest path.
    lmc
        As the table's.
    passes
        How often each destination's tree is chosen; the first time the later ones are not there.
    destinations
        Which to fill, all when left out.
    """
    graph = fabric.graph
    if destinations is None:
        destinations = np.arange(fabric.num_destinations)
    offset, listed = destinations_by_row(fabric, destinations)
    load = np.zeros(len(graph.edge_row), dtype=np.int64)
    balanced_tables(
        graph.edge_offset, graph.edge_row, graph.edge_port, *_order(edge_up), _edge_cost(fabric),
        graph.row_base, graph.slot_edge, _part_sizes(fabric), row_sources(fabric), offset, listed,
        destination_ports(fabric), fabric.num_endpoints, lmc, passes,
        int(np.iinfo(table.dtype).max), load, table,
    )  # fmt: skip
    if passes > 1 and lmc == 0:
        _lower(fabric, table, offset, listed, load, edge_up)


def _order(edge_up: NDArray[np.uint8] | None) -> tuple[NDArray[np.uint8], bool]:
    return (np.zeros(0, dtype=np.uint8), False) if edge_up is None else (edge_up, True)


def _edge_cost(fabric: Fabric) -> NDArray[np.float64]:
    cost: NDArray[np.float64] = 1.0 / fabric.link_rate_gbps[fabric.graph.edge_link]
    return cost


def _part_sizes(fabric: Fabric) -> NDArray[np.int32]:
    """Rows of the connected part that each row is in."""
    label = components(fabric)
    return np.bincount(label)[label].astype(np.int32)


def _lower(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    offset: NDArray[np.int32],
    listed: NDArray[np.int32],
    load: NDArray[np.int64],
    edge_up: NDArray[np.uint8] | None,
) -> None:
    graph = fabric.graph
    lower_peaks(
        graph.edge_offset, graph.edge_row, graph.edge_port, *_order(edge_up), _edge_cost(fabric),
        graph.edge_tail, graph.row_base, graph.slot_edge, _part_sizes(fabric),
        row_sources(fabric), offset, listed, fabric.num_endpoints, PEAK_ROUNDS, load, table,
    )  # fmt: skip


def lower_worst_load(fabric: Fabric, table: NDArray[np.unsignedinteger[Any]]) -> None:
    """Lead trees of shortest paths around the most loaded cables; the table has no LMC."""
    offset, listed = destinations_by_row(fabric, np.arange(fabric.num_destinations))
    _lower(fabric, table, offset, listed, edge_loads(fabric, table), None)


def edge_loads(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int = 0
) -> NDArray[np.int64]:
    """Flows of all host pairs, to all LIDs, over each edge, int64 [edges]."""
    graph = fabric.graph
    ends = np.flatnonzero(graph.destination_row[: fabric.num_host_endpoints] >= 0)
    lids = ((ends[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1).astype(np.int32)
    loads = np.zeros(fabric.num_links, dtype=np.int64)
    all_to_all_table_loads(
        read_only(table.view()), lids, graph.destination_row[lids >> lmc],
        graph.destination_link[lids >> lmc], graph.row_base, graph.row_link, graph.link_row,
        row_sources(fabric), int(np.iinfo(table.dtype).max), loads,
    )  # fmt: skip
    return loads[graph.edge_link]


def worst_load(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int = 0
) -> tuple[float, float]:
    """Largest of the edges' flows over their rates, and the share of edges that reach it."""
    loads = edge_loads(fabric, table, lmc) * _edge_cost(fabric)
    if not len(loads):
        return 0.0, 0.0
    worst = float(loads.max())
    return worst, float((loads >= worst * (1 - 1e-9)).mean())


def fill_counted(fabric: Fabric, table: NDArray[np.unsignedinteger[Any]]) -> None:
    """Fill tables as OpenSM's port counters do; see `weft.kernels.routing.tables.counted_tables`.

    OpenSM serves the switches with most adapters first, then by node GUID as the network orders
    its bytes, and the adapters of each by port. With these orders its tables come out entry by
    entry.
    """
    graph = fabric.graph
    offset, listed = destinations_by_row(fabric, np.arange(fabric.num_destinations))
    ports = destination_ports(fabric)
    listed = listed[np.lexsort((ports[listed], graph.destination_row[listed]))]
    guid = fabric.node_guid[graph.row_node].byteswap()
    counted_tables(
        graph.edge_offset, graph.edge_row, graph.edge_port,
        np.lexsort((guid, -row_adapters(fabric))).astype(np.int32), offset, listed, ports,
        fabric.num_endpoints, int(np.iinfo(table.dtype).max), table,
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
    """Fill tables by one of the two ways of balancing; `edge_up` is for ``flows``.

    Raises
    ------
    InputError
        When passes is below 1, or an LMC is asked for together with OpenSM's counting.
    """
    if passes < 1:
        raise InputError(f"passes must be at least 1, not {passes}")
    if balance == "flows":
        fill_balanced(fabric, table, edge_up=edge_up, lmc=lmc, passes=passes)
    elif lmc:
        raise InputError("balance=opensm goes with lmc=0 only")
    else:
        fill_counted(fabric, table)


def provenance(fabric: Fabric, name: str, **extra: Any) -> Mapping[str, Any]:
    """The fields that every engine gives to `Routes`."""
    return {"engine": name, "fabric_digest": fabric.digest, **extra}
