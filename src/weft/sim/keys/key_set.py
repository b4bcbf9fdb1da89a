"""The keys of a workload: which messages belong to which key, and the requests of its ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.columns import Column, frame_of_rows
from weft.core.errors import InputError
from weft.core.frozen import FrozenArrays
from weft.core.registry import did_you_mean
from weft.fabrics import Fabric
from weft.sim.keys.make import Colours, First, Method, keys
from weft.sim.keys.network import key_network
from weft.sim.keys.routing_key import RoutingKey, flows_of
from weft.workload.placement import host_of_rank, place
from weft.workload.workload import Kind, Workload

#: Columns of `KeySet.table`.
KEY_COLUMNS = {
    "name": Column(pl.String, "", "Name of the key"),
    "flows": Column(pl.Int64, "", "Flows between hosts"),
    "colours": Column(pl.Int64, "", "Colours of the flows at the leaf switches"),
    "worst": Column(pl.Int64, "flows", "Largest number of flows on a link between switches"),
    "bound": Column(pl.Int64, "flows", "Lower bound on that number for any routing"),
}


@dataclass(frozen=True, eq=False, repr=False)
class KeySet(FrozenArrays):
    """Routing keys of a workload on a fabric, in order; iterable, and indexed by number or name.

    Parameters
    ----------
    keys
        One for each key that the workload requests, or for each phase if it requests none.
    of_op
        int32 [ops]: key of each message, and of each request and return of a key; -1 for messages
        that no key covers. Other operations have the key that their rank holds, or -1.
    instance
        int32 [ops]: how many times the rank requested the same key before the request that covers
        the operation; 0 for keys of phases.
    manager
        int32 [keys]: the lowest rank that requests the key; only its requests and returns go to the
        scheduler. -1 for keys of phases.
    """

    keys: tuple[RoutingKey, ...]
    of_op: NDArray[np.int32]
    instance: NDArray[np.int32]
    manager: NDArray[np.int32]

    @property
    def requested(self) -> bool:
        """Whether the workload requests its keys."""
        return bool((self.manager >= 0).any())

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[RoutingKey]:
        return iter(self.keys)

    def __getitem__(self, key: int | str) -> RoutingKey:
        if isinstance(key, int):
            return self.keys[key]
        names = [each.name for each in self.keys]
        if key not in names:
            raise InputError(f"there is no key {key}{did_you_mean(key, names)}")
        return self.keys[names.index(key)]

    def table(self) -> pl.DataFrame:
        """Return one row for each key; see `KEY_COLUMNS`."""
        rows = [(k.name, len(k.sources), k.num_colours, k.worst, k.bound) for k in self.keys]
        return frame_of_rows(KEY_COLUMNS, rows)

    def __repr__(self) -> str:
        worst = max((key.worst for key in self.keys), default=0)
        return f"KeySet({len(self.keys)} keys; at most {flows_of(worst)} of a key on a link)"


def workload_keys(
    fabric: Fabric,
    workload: Workload,
    placement: str | ArrayLike = "linear",
    *,
    method: Method = "exact",
    colours: Colours = "fewest",
    first: First = "random",
    seed: int = 0,
) -> KeySet:
    """Make the routing keys of a workload.

    A key covers the messages that a rank begins between the request of the key and its return. A
    workload without requests gets one key for the messages of each phase. Messages without data,
    such as those of barriers, and messages within a machine belong to no key.

    Parameters
    ----------
    fabric, workload
        The fabric and the workload.
    placement
        A placement by name, with options as in ``random:seed=3``, on hosts that can have keys; or
        the host number of each rank.
    method, colours, first
        As for `weft.keys`.
    seed
        Seed of the first key; that of each further key is larger by 1.

    Raises
    ------
    InputError
        If a rank requests a key while it holds another, or returns a key that it does not hold.
    NotApplicable
        If the fabric is not a folded Clos network.
    """
    network = key_network(fabric)
    if isinstance(placement, str) and network.clos.left_out:
        hosts = place(
            fabric, workload.num_ranks, placement, hosts=network.hosts,
            offered=f"hosts of the folded Clos network without {network.clos.left_out}",
        )  # fmt: skip
    else:
        hosts = host_of_rank(fabric, workload.num_ranks, placement)
    flows = keyed_flows(workload, hosts, fabric.machine_of_host)
    made = tuple(
        keys(
            fabric, *ends, method=method, colours=colours, first=first, name=name, seed=seed + at
        )
        for at, (name, ends) in enumerate(zip(flows.names, flows.ends, strict=True))
    )  # fmt: skip
    return KeySet(made, flows.of_op, flows.instance, flows.manager)


@dataclass(frozen=True, eq=False)
class KeyedFlows:
    """Flows of each key of a workload."""

    #: Name of each key.
    names: list[str]
    #: Sources and destinations of the flows of each key, each pair once, int64 [flows] each.
    ends: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    #: As in `KeySet`.
    of_op: NDArray[np.int32]
    instance: NDArray[np.int32]
    manager: NDArray[np.int32]


def keyed_flows(
    workload: Workload, hosts: NDArray[np.int32], machine: NDArray[np.int64]
) -> KeyedFlows:
    """Return the flows of each key that a workload requests, or of each phase if it requests none.

    `hosts` [ranks]: host of each rank. `machine` [hosts]: number of each host's machine.
    """
    requests = (workload.kind == Kind.KEY_REQUEST) | (workload.kind == Kind.KEY_DONE)
    if requests.any():
        number, instance, names, manager = _requested(workload, np.flatnonzero(requests))
    else:
        number, instance, names, manager = _phases(workload)
    sends = workload.messages
    source, destination = hosts[workload.rank[sends]], hosts[workload.peer[sends]]
    data = (workload.size_bytes[sends] > 0) & (number[sends] >= 0)
    data &= machine[source] != machine[destination]
    number[sends[~data]] = -1
    pair = source.astype(np.int64) << 32 | destination
    ends = []
    for at in range(len(names)):
        pairs = np.unique(pair[number[sends] == at])
        ends.append((pairs >> 32, pairs & 0xFFFFFFFF))
    return KeyedFlows(names, ends, number, instance, manager)


def _requested(
    workload: Workload, ops: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], list[str], NDArray[np.int32]]:
    """Return key and instance of each operation, and the names and managers of the keys."""
    pair = workload.comm[ops].astype(np.int64) << 32 | workload.tag[ops].astype(np.int64)
    known, key = np.unique(pair, return_inverse=True)
    rank = workload.rank[ops]
    begins = workload.kind[ops] == Kind.KEY_REQUEST
    # Requests and returns of a rank must alternate; each return names the key of its request.
    for first, end in _runs(rank):
        for at in range(first, end):
            odd = (at - first) % 2
            if begins[at] == bool(odd) or (odd and key[at] != key[at - 1]):
                what = "requests a key while it holds another" if begins[at] else "does not hold it"
                raise InputError(f"{workload.describe(int(ops[at]))}: the rank {what}")
    number = np.full(workload.num_ops, -1, dtype=np.int32)
    instance = np.zeros(workload.num_ops, dtype=np.int32)
    counts: dict[tuple[int, int], int] = {}
    manager = np.full(len(known), -1, dtype=np.int32)
    for at in np.flatnonzero(begins).tolist():
        mine = (int(rank[at]), int(key[at]))
        before = counts.get(mine, 0)
        counts[mine] = before + 1
        last = workload.op_offset[rank[at] + 1]
        if at + 1 < len(ops) and rank[at + 1] == rank[at]:
            last = ops[at + 1] + 1
        number[ops[at] : last] = key[at]
        instance[ops[at] : last] = before
        if manager[key[at]] < 0:
            manager[key[at]] = rank[at]
    names = [f"{workload.comm_names[int(pair >> 32)]}:{int(pair & 0xFFFFFFFF)}" for pair in known]
    return number, instance, names, manager


def _phases(
    workload: Workload,
) -> tuple[NDArray[np.int32], NDArray[np.int32], list[str], NDArray[np.int32]]:
    """Return the same as `_requested`, with one key for each phase that has messages."""
    used, number = np.unique(workload.phase[workload.messages], return_inverse=True)
    of_op = np.full(workload.num_ops, -1, dtype=np.int32)
    of_op[workload.messages] = number
    names = [workload.phase_names[at] or "outside phases" for at in used]
    return of_op, np.zeros(workload.num_ops, np.int32), names, np.full(len(used), -1, np.int32)


def _runs(values: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Return the first and the end index of each run of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    bounds = [0, *edges.tolist(), len(values)]
    return list(pairwise(bounds))
