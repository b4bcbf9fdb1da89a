"""torus-2QoS: dimension-order routing with SLs and VLs that make rings deadlock-free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.parts import StateParts
from weft.kernels.routing import torus as kernels
from weft.kernels.routing.tables import TableTargets
from weft.routing.engine_registry import (
    Balance,
    destination_ports,
    empty_table,
    engine,
    row_sources,
)
from weft.routing.lane_assignment import MaxVls, assign_lanes
from weft.routing.opensm.torus_conf import AXES, TorusConf, read
from weft.routing.routes import NUM_SLS, Routes, TableRoutes, VirtualLanes
from weft.routing.structure.torus import Torus, find_tori
from weft.routing.structure.torus_seed import discovery_order, seeded, three_dimensions
from weft.routing.validation.deadlock import credit_loops

#: SL bit and VL bit that are set for quality of service level 1, and VL bit that is set after a
#: turn against the order of dimensions.
QOS_SL = 8
QOS_VL = 4
TURN_VL = 2


@engine("torus-2QoS", deadlock_free=True, lmc=False, as_opensm="torus-2QoS:balance=opensm")
def torus_2qos(
    fabric: Fabric,
    *,
    conf: str = "",
    balance: Balance = "flows",
    qos_level: int = 0,
    max_vls: MaxVls = 8,
    management: bool = False,
) -> Routes:
    """Route tori and meshes in dimension order as OpenSM's torus-2QoS, recognised without labels.

    Parameters
    ----------
    fabric
        A torus, mesh or mixture of up to six dimensions; switches and cables may be missing.
    conf
        A torus-2QoS.conf, whose seed and datelines then determine the coordinates.
    balance
        ``flows`` balances flows over parallel cables, and over the two directions to the opposite
        switch of an even ring; ``opensm`` uses OpenSM's directions, and its turns around missing
        parts.
    qos_level
        0 or 1: quality of service level of all traffic; 1 uses SLs 8 to 15 and VLs 4 to 7.
    max_vls
        Number of virtual lanes of the fabric, 1 to 15. Rings of four or more switches need 2, paths
        around missing switches 4, and quality of service 8.
    management
        Include paths from and to switches in the proof of deadlock freedom for degraded fabrics.

    Raises
    ------
    NotApplicable
        If the fabric is not a torus or mesh, or needs more lanes or SL bits than there are. If
        `balance` is ``opensm``, `conf` is given or `qos_level` is 1, the engine also refuses
        fabrics in which the SLs cannot prevent deadlock around missing parts.
    InputError
        If a value is invalid, or the configuration is invalid or of another fabric.

    Notes
    -----
    SL bit d is set if a path crosses the dateline of dimension d, the cable between the last and
    the first switch of a ring; such a path uses VL 1 in that dimension. If a ring is cut, paths use
    the other direction. If the switch at which a path would turn is missing, the path turns
    earlier, and after a turn against the order of dimensions the VL is 2 higher. A switch that
    still has no path sends via a neighbour with a path. The routes of a degraded fabric are proved
    deadlock-free; if the proof fails for every order of dimensions, lanes are assigned path by path
    as in `dfsssp`. Source: torus-2QoS(8); Dally and Seitz 1987.
    """
    if qos_level not in (0, 1):
        raise InputError(f"qos_level must be 0 or 1, not {qos_level}")
    if qos_level and max_vls < 2 * QOS_VL:
        raise NotApplicable(
            f"two quality of service levels need {2 * QOS_VL} virtual lanes; max_vls is {max_vls}"
        )
    empty_table(fabric)
    settings = _Settings(balance, qos_level, max_vls, management, read(conf) if conf else None)
    tori = find_tori(fabric)
    complete = all(torus.complete for torus in tori)
    if settings.conf is not None:
        tori = _as_configured(fabric, tori, settings.conf)
    reason = ""
    first: TableRoutes | None = None
    for layout, last_first in _layouts(tori, settings, complete):
        routes = _routed(fabric, layout, settings, complete, last_first)
        if complete:
            return routes
        cycles, lanes = credit_loops(fabric, routes, management=management)
        if not cycles and lanes <= max_vls:
            return routes
        first = first or routes
        reason = reason or (
            cycles[0].text(fabric) if cycles else f"{lanes} lanes, more than max_vls {max_vls}"
        )
    if first is not None and not (settings.as_opensm or settings.conf or qos_level):
        sl, lanes = assign_lanes(fabric, first.table, max_vls=max_vls, management=management)
        note = (
            "the SLs of torus-2QoS cannot prevent deadlock around the missing parts; paths are "
            f"assigned to {lanes} lanes one by one"
        )
        return replace(
            first, sl=sl, lanes=VirtualLanes.uniform(range(lanes)), notes=(*first.notes, note)
        )
    what = " and ".join(torus.text() for torus in tori if torus.radix)
    raise NotApplicable(f"paths around the missing parts of the {what} can deadlock: {reason}")


@dataclass(frozen=True)
class _Settings:
    balance: Balance
    qos_level: int
    max_vls: int
    management: bool
    conf: TorusConf | None

    @property
    def as_opensm(self) -> bool:
        return self.balance == "opensm"


def _as_configured(fabric: Fabric, tori: list[Torus], conf: TorusConf) -> list[Torus]:
    torus = seeded(fabric, tori, conf)
    others = [part for part in tori if part.rows[0] not in torus.rows]
    larger = next((part for part in others if len(part.rows) > 1), None)
    if larger is not None:
        name = fabric.node_names[fabric.graph.row_node[larger.rows[0]]]
        raise NotApplicable(f"{name} is not connected to the switches of the seed")
    return [torus, *others]


def _layouts(
    tori: list[Torus], settings: _Settings, complete: bool
) -> Iterator[tuple[list[Torus], bool]]:
    """Yield coordinates to try, each with the order for detours around missing parts.

    The order is True if such detours try the last dimension first, otherwise False. For
    complete tori only the first pair is needed; for degraded tori the pairs are tried in this
    order.
    """
    folded = [torus.folded() for torus in tori]
    if settings.conf is not None or settings.as_opensm:
        most = max(len(torus.radix) for torus in folded)
        if settings.conf is None and most > 3:
            raise NotApplicable(f"OpenSM's torus-2QoS has three dimensions, not {most}")
        layout = tori if settings.conf is not None else [three_dimensions(one) for one in folded]
        yield layout, False
        yield layout, True
        return
    if complete:
        # Two dimensions of two switches need one lane, a ring of four needs two.
        yield [two if any(one.wraps) else one for one, two in zip(tori, folded, strict=True)], False
        return
    variants = [folded]
    if any(len(one.radix) != len(two.radix) for one, two in zip(tori, folded, strict=True)):
        variants.append(tori)
    for variant in variants:
        for last in range(max(len(torus.radix) for torus in variant) - 1, -1, -1):
            for last_first in (False, True):
                yield [_with_last(torus, last) for torus in variant], last_first


def _with_last(torus: Torus, last: int) -> Torus:
    """Return the torus with the given dimension last in the order."""
    count = len(torus.radix)
    if last >= count:
        return torus
    order = [d for d in range(count) if d != last] + [last]
    return torus.arranged(order, [0] * count, [1] * count)


def _routed(
    fabric: Fabric, tori: list[Torus], settings: _Settings, complete: bool, last_first: bool
) -> TableRoutes:
    table = empty_table(fabric)
    sl = np.zeros((fabric.graph.num_rows, fabric.num_destinations), dtype=np.uint8)
    dimension = np.full(len(fabric.graph.row_link), -1, dtype=np.int8)
    bit = np.full(NUM_SLS, -1, dtype=np.int16)
    lanes = 1
    for torus in tori:
        dated = _dated(torus, settings)
        if any(dated):
            lanes = 2
        bits = _sl_bits(torus, dated, settings)
        bit[: len(bits)] = np.maximum(bit[: len(bits)], bits)
        _fill(fabric, torus, settings, complete, last_first, bits, table, sl, dimension)
    if lanes > settings.max_vls:
        raise NotApplicable(f"a ring needs {lanes} virtual lanes; max_vls is {settings.max_vls}")
    turns = settings.max_vls >= 2 * TURN_VL and (settings.as_opensm or not complete)
    levels = settings.max_vls >= 2 * QOS_VL and (settings.as_opensm or settings.qos_level == 1)
    if settings.qos_level:
        sl |= QOS_SL
    names = " and ".join(_as_folded(torus) for torus in tori)
    degraded = "" if complete else ", with missing parts"
    return TableRoutes(
        "torus-2QoS",
        fabric.digest,
        notes=(f"found a {names}{degraded}",),
        table=table,
        sl=sl,
        lanes=_lanes(fabric, dimension, bit, turns, levels)
        if lanes > 1 or turns or levels
        else VirtualLanes.uniform(),
    )


def _as_folded(torus: Torus) -> str:
    folded = torus.folded().text()
    return folded if folded == torus.text() else f"{folded}, laid out as a {torus.text()}"


def _dated(torus: Torus, settings: _Settings) -> list[bool]:
    """Return which dimensions use an SL bit for paths across their dateline.

    Rings of three cannot deadlock, since a path has at most one hop along them. They use an SL bit
    only with OpenSM's tables.
    """
    if settings.as_opensm:
        return [size > 2 for size in torus.radix]
    return [wrap and size > 3 for size, wrap in zip(torus.radix, torus.wraps, strict=True)]


def _sl_bits(torus: Torus, dated: list[bool], settings: _Settings) -> NDArray[np.int16]:
    """Return the SL bit of each dimension, int16 [dimensions].

    If there are fewer bits than dimensions, the entry of dimensions without a dateline is -1.
    """
    room = 3 if settings.qos_level or settings.as_opensm else 4
    if len(dated) <= room:
        return np.arange(len(dated), dtype=np.int16)
    if sum(dated) > room:
        raise NotApplicable(
            f"a {torus.text()} needs {sum(dated)} SL bits for the datelines of its rings; "
            f"there are {room}"
        )
    bits = np.full(len(dated), -1, dtype=np.int16)
    bits[dated] = np.arange(sum(dated))
    return bits


def _fill(
    fabric: Fabric,
    torus: Torus,
    settings: _Settings,
    complete: bool,
    last_first: bool,
    bits: NDArray[np.int16],
    table: NDArray[np.unsignedinteger[Any]],
    sl: NDArray[np.uint8],
    dimension: NDArray[np.int8],
) -> None:
    """Fill tables, SLs and the dimension of each port slot for the rows of one torus."""
    graph = fabric.graph
    count, size = len(torus.rows), len(torus.radix)
    radix = np.array(torus.radix, dtype=np.int32)
    stride = np.ones(size, dtype=np.int32)
    np.cumprod(radix[:-1], out=stride[1:])
    grid = np.full(prod(torus.radix), -1, dtype=np.int32)
    grid[torus.coordinate @ stride] = np.arange(count)

    index = np.full(graph.num_rows, -1, dtype=np.int32)
    index[torus.rows] = np.arange(count)
    tail, head = index[graph.edge_tail], index[graph.edge_row]
    edges = np.flatnonzero((tail >= 0) & (head >= 0) & (tail != head))
    tail, head = tail[edges], head[edges]
    moved = torus.coordinate[head] - torus.coordinate[tail]
    along = np.abs(moved).argmax(axis=1) if size else np.zeros(len(edges), dtype=np.int64)
    length = moved[np.arange(len(edges)), along] if size else np.zeros(0, dtype=np.int32)
    up = (length == 1) | ((length < -1) & (length == 1 - radix[along]))
    group = tail.astype(np.int64) * 2 * size + 2 * along + up
    dimension[graph.row_base[graph.edge_tail[edges]] + graph.edge_port[edges]] = along

    # OpenSM orders parallel cables by the port at the end with the lower coordinate.
    port = graph.edge_port[edges]
    far = fabric.link_to_port[graph.edge_link[edges]].astype(np.int32)
    order = np.lexsort((np.where(up | (not settings.as_opensm), port, far), group))
    offset = np.zeros(count * 2 * size + 1, dtype=np.int32)
    np.cumsum(np.bincount(group, minlength=count * 2 * size), out=offset[1:])
    step = np.full((count, 2 * size), -1, dtype=np.int32)
    step.reshape(-1)[group] = head
    ports = destination_ports(fabric)
    listed = np.flatnonzero(graph.destination_row >= 0)
    listed = listed[index[graph.destination_row[listed]] >= 0]
    at = index[graph.destination_row[listed]]
    listed = listed[np.lexsort((_port_ranks(ports, settings)[ports[listed]], at))].astype(np.int32)
    listed_offset = np.append(0, np.cumsum(np.bincount(at, minlength=count))).astype(np.int32)
    dated = _dated(torus, settings)
    ring = np.array([settings.as_opensm or wrap for wrap in torus.wraps], dtype=np.uint8)
    reach = _reach(step, radix)
    ties = not settings.as_opensm and bool(np.any((ring > 0) & (radix > 2) & (radix % 2 == 0)))
    parallel = bool((np.diff(offset) > 1).any())
    whole = torus.missing == 0 and bool(
        (reach[:, ::2] + reach[:, 1::2] == (radix - 1) * (1 + ring)).all()
    )
    given = kernels.TorusArrays(
        radix=radix,
        ring=ring,
        sl_bit=np.where(dated, 1 << np.maximum(bits, 0), 0).astype(np.uint8),
        coordinate=torus.coordinate,
        stride=stride,
        grid=grid,
        step=step,
        reach=reach,
        rows=torus.rows,
        sources=row_sources(fabric)[torus.rows],
        parity=(torus.coordinate.sum(axis=1) & 1).astype(np.uint8),
        group_offset=offset,
        group_port=port[order].astype(np.int32),
        group_cost=1.0 / fabric.link_rate_gbps[graph.edge_link[edges[order]]],
    )
    no_path = int(np.iinfo(table.dtype).max)
    targets = TableTargets(listed_offset, listed, ports, fabric.num_endpoints, 0, no_path)
    space = kernels.TorusSpace(
        up=np.zeros((size, max(torus.radix, default=0)), dtype=np.uint8),
        chosen=np.zeros((2, count), dtype=np.int8),
        flows=np.zeros((2, count), dtype=np.int64),
        first=np.zeros(2, dtype=np.int64),
        side=np.zeros(len(listed), dtype=np.uint8),
        share=np.zeros(sl.shape[1], dtype=np.uint8),
        state=np.zeros(count, dtype=np.uint8),
        trail=np.zeros(count, dtype=np.int32),
        load=np.zeros(len(order)),
        next_cable=np.zeros((2, len(offset)), dtype=np.int64),
    )
    kernels.torus_tables(
        StateParts(given), not settings.as_opensm, ties, parallel, whole, complete, last_first,
        _target_order(fabric, torus, settings, parallel), StateParts(targets), StateParts(space),
        table, sl,
    )  # fmt: skip


def _port_ranks(ports: NDArray[np.int32], settings: _Settings) -> NDArray[np.int64]:
    """Return the position of each port in the order in which a row's ports are targets."""
    order = list(settings.conf.port_order if settings.conf is not None else ())
    rank = len(order) + np.arange(1 + max(ports.max(initial=0), *order, 0))
    rank[order] = np.arange(len(order))
    return rank


def _reach(step: NDArray[np.int32], radix: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return how many hops are possible from each row in each direction, int32 [rows, directions].

    Hops around a ring end before they reach the row again.
    """
    reach = np.zeros(step.shape, dtype=np.int32)
    group = np.arange(step.shape[1])
    at = np.repeat(np.arange(len(step), dtype=np.int32)[:, None], len(group), axis=1)
    for hop in range(1, radix.max(initial=1)):
        at = np.where((at >= 0) & (hop < radix[group // 2]), step[at, group], -1)
        reach += at >= 0
    return reach


def _target_order(
    fabric: Fabric, torus: Torus, settings: _Settings, parallel: bool
) -> NDArray[np.int32]:
    """Return the rows in the order in which the paths to them are chosen, int32 [rows].

    The first coordinate varies fastest, unless OpenSM's order is required.
    """
    if not torus.radix:
        return np.zeros(len(torus.rows), dtype=np.int32)
    if settings.as_opensm and parallel and len(torus.radix) == len(AXES):
        return discovery_order(fabric, torus, settings.conf)
    return np.lexsort(torus.coordinate.T).astype(np.int32)


def _lanes(
    fabric: Fabric, dimension: NDArray[np.int8], bit: NDArray[np.int16], turns: bool, levels: bool
) -> VirtualLanes:
    """Return the SL-to-VL table of each (row, input port, output port).

    It depends only on the dimensions of the two ports.
    """
    graph = fabric.graph
    dimensions = int(dimension.max(initial=-1)) + 1
    sl = np.arange(NUM_SLS)
    level = (sl & QOS_SL != 0).astype(np.uint8) if levels else np.zeros(NUM_SLS, dtype=np.uint8)
    # Two tables for each dimension, without and with a turn against the order; then one for
    # ports to adapters, on which OpenSM's two quality of service levels use VLs 0 and 1.
    tables = np.empty((2 * dimensions + 1, NUM_SLS), dtype=np.uint8)
    for d in range(dimensions):
        dateline = (sl >> bit[d]) & 1 if bit[d] >= 0 else np.zeros(NUM_SLS, dtype=np.int64)
        tables[2 * d] = dateline + QOS_VL * level
        tables[2 * d + 1] = tables[2 * d] + (TURN_VL if turns else 0)
    tables[-1] = level
    ports = np.diff(graph.row_base)
    base = np.zeros(len(ports), dtype=np.int64)
    np.cumsum(ports[:-1].astype(np.int64) ** 2, out=base[1:])
    index = np.empty(int((ports.astype(np.int64) ** 2).sum()), dtype=np.int32)
    for width in np.unique(ports):
        rows = np.flatnonzero(ports == width)
        own = dimension[graph.row_base[rows, None] + np.arange(width)]
        against = own[:, :, None] > own[:, None, :]
        onward = np.where(own >= 0, 2 * own, 2 * dimensions)[:, None, :]
        table = onward + (against & (own >= 0)[:, None, :])
        index[base[rows, None] + np.arange(width**2)] = table.reshape(len(rows), -1)
    return VirtualLanes(tables, index, base, ports.astype(np.int32))
