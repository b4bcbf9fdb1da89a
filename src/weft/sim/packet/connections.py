"""Route, connection and queue pair of each message of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.hashing import uniforms
from weft.kernels.program import operations as program
from weft.kernels.program.dag import by_key
from weft.routing.routes import Routes
from weft.sim.common.programs import numbered
from weft.sim.common.programs import queue_pairs as program_pairs
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.message_routes import MessageRoutes, message_paths
from weft.sim.packet.network import PacketNetwork
from weft.workload import Workload

Lids = Literal["first", "hash", "spread"]


@dataclass(frozen=True, eq=False)
class Connections:
    """Routes, connections and queue pairs of messages."""

    #: Routes of pairs of hosts.
    message_routes: MessageRoutes
    #: int32 [ops]: route of each send and put, and of the answer that a receive sends in a
    #: rendezvous; `LOCAL` within a machine and for other operations.
    route: NDArray[np.int32]
    #: int32 [ops]: connection of each message; messages of one connection arrive in order.
    connection: NDArray[np.int32]
    #: int32 [ops]: queue pair of each message; the same array as `connection` if equal to it.
    pair: NDArray[np.int32]
    #: Number of queues of each pair, whose messages wait and arrive in order: two if the requests
    #: and answers of a rendezvous do not share a queue with its data.
    num_queues: int
    #: Numbers of connections and of queue pairs.
    num_connections: int
    num_pairs: int
    #: int64 [routes], ascending: source host x number of hosts + destination host, shifted by the
    #: LMC, plus the LID offset.
    pairs: NDArray[np.int64]

    @property
    def several_paths(self) -> bool:
        """Whether messages of one connection use several routes (for example ``lids="spread"``)."""
        remote = self.route != program.LOCAL
        route, connection = self.route[remote], self.connection[remote]
        one = np.empty(self.num_connections, dtype=np.int32)
        one[connection] = route
        return bool((one[connection] != route).any())


def connect(
    fabric: Fabric,
    routes: Routes,
    network: PacketNetwork,
    workload: Workload,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
    *,
    per_pair: int,
    lids: Lids | ArrayLike,
    further_pairs: NDArray[np.int64] | None,
) -> Connections:
    """Return routes, connections and queue pairs of the messages between hosts.

    - `fabric`, `routes`, `network`, `workload`: the fabric, its routes, its network at the packet
      level, and the workload.
    - `hosts` [ranks]: host of each rank.
    - `options`: as in `run_packets`.
    - `per_pair`: number of queue pairs of each pair of ranks; messages of the pair use them round
      robin.
    - `lids`: LID of the destination to which each message is sent: the ``first``, one selected by a
      ``hash`` of the ranks, all LIDs of the destination round robin (``spread``), or an offset from
      the first LID for each operation.
    - `further_pairs`: more routes, as in `Connections.pairs`.
    """
    hardware: Hardware = options["hardware"]
    between = program_pairs(fabric, workload, hosts, options["eager_bytes"], options["handshake"])
    num_queues = between.queues(options["rendezvous"])
    ops, source, target, pairs, number, _ = between
    del between
    # A workload may have millions of messages: arrays are created only if needed, and deleted
    # early.
    earlier = np.zeros(0, dtype=np.int64)
    lmc = routes.lmc
    if per_pair > 1 or (lmc and isinstance(lids, str) and lids == "spread"):
        earlier = _rank_among_equals(number, len(pairs))
    connection = number * per_pair + earlier % per_pair if per_pair > 1 else number
    key = source.astype(np.int64)
    key *= fabric.num_hosts
    key += target
    key <<= lmc
    key += _offsets(lids, ops, workload.num_ops, pairs, number, earlier, lmc, options["seed"])
    bound = fabric.num_hosts**2 << lmc
    if further_pairs is not None:
        key = np.concatenate((key, further_pairs))
    keys, route = numbered(key, bound)
    route = route[: len(ops)]
    del key, earlier
    back = np.zeros(len(keys), dtype=np.int32)
    if hardware.congestion_control is not None:  # destinations send notifications back
        keys, route, back = _with_ways_back(keys, route, fabric.num_hosts, lmc, bound)
    start, end = np.divmod(keys >> lmc, fabric.num_hosts)
    message_routes = message_paths(
        fabric, routes, network, start.astype(np.int32), end.astype(np.int32),
        ports=options["ports"], lid_offset=keys & (1 << lmc) - 1 if lmc else 0,
    )  # fmt: skip
    del start, end
    message_routes.routes["back"] = back
    pair = connection
    num_pairs = len(pairs) * per_pair
    if hardware.queue_pairs == "host":
        pair, num_pairs = source, fabric.num_hosts

    def spread(values: NDArray[Any], nothing: int = 0) -> NDArray[np.int32]:
        """Expand values of `ops` to all operations."""
        every = np.full(workload.num_ops, nothing, dtype=np.int32)
        every[ops] = values
        return every

    connection_of = spread(connection)
    return Connections(
        message_routes, num_queues=num_queues, num_connections=len(pairs) * per_pair,
        num_pairs=max(num_pairs, 1), pairs=keys,
        route=spread(route, program.LOCAL), connection=connection_of,
        pair=connection_of if pair is connection else spread(pair),
    )  # fmt: skip


def _with_ways_back(
    keys: NDArray[np.int64], route: NDArray[np.int32], hosts: int, lmc: int, bound: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Add reverse routes: return all keys, the messages' routes, and the reverse of each route."""
    source, target = np.divmod(keys >> lmc, hosts)
    every, index = numbered(np.concatenate([keys, (target * hosts + source) << lmc]), bound)
    back = np.zeros(len(every), dtype=np.int32)
    back[index[: len(keys)]] = index[len(keys) :]
    return every, index[route], back


def _rank_among_equals(number: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return for each entry the number of equal entries before it."""
    offset, order = by_key(number, count)
    earlier = np.empty(len(number), dtype=np.int64)
    earlier[order] = np.arange(len(number)) - np.repeat(offset[:-1], np.diff(offset))
    return earlier


def _offsets(
    lids: Lids | ArrayLike,
    ops: NDArray[np.int32],
    num_ops: int,
    pairs: NDArray[np.int64],
    number: NDArray[np.int32],
    earlier: NDArray[np.int64],
    lmc: int,
    seed: int,
) -> NDArray[Any] | int:
    """Return the LID offset of each message, or one offset for all messages."""
    count = 1 << lmc
    if isinstance(lids, str):
        if lids not in get_args(Lids):
            raise InputError(f"unknown lids {lids!r}; there are {', '.join(get_args(Lids))}")
        if lids != "first" and not lmc:
            raise NotApplicable(
                f"lids {lids!r} chooses among the LIDs of an LMC, and these routes have no LMC; an "
                "engine's option lmc sets it"
            )
        if lids == "hash":
            drawn = np.empty(len(pairs))
            uniforms(np.uint64(seed), pairs, np.zeros_like(pairs), drawn)
            return (drawn * count).astype(np.int64)[number]
        return earlier % count if lids == "spread" else 0
    given = whole_numbers(lids, "lids of the operations", shape=(num_ops,))
    return whole_numbers(given[ops], "lids", low=0, high=count - 1, of=f"offsets of LMC {lmc}")
