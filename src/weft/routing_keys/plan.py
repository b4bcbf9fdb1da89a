"""The keys of a workload: which messages belong to which key, and the requests of its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.frozen import FrozenArrays
from weft.fabrics import Fabric
from weft.routing_keys.make import Colours, Method, keys
from weft.routing_keys.routing_key import RoutingKey
from weft.workload.workload import Kind, Workload


@dataclass(frozen=True, eq=False)
class KeyPlan(FrozenArrays):
    """Routing keys of a workload on a fabric.

    Parameters
    ----------
    keys
        One key for each routing key that the workload requests, or for each phase if it requests
        none.
    of_op
        int32 [ops]: key of each message with data, and of each request and return of a key; -1 for
        other operations and for messages outside keys.
    instance
        int32 [ops]: how many requests of its key the rank made before the one that covers the
        operation; 0 for keys of phases.
    manager
        int32 [keys]: the rank whose requests and returns count, the lowest that requests the key;
        -1 for keys of phases.
    """

    keys: tuple[RoutingKey, ...]
    of_op: NDArray[np.int32]
    instance: NDArray[np.int32]
    manager: NDArray[np.int32]

    @property
    def requested(self) -> bool:
        """Whether the workload requests its keys."""
        return bool((self.manager >= 0).any())


def plan_keys(
    fabric: Fabric,
    workload: Workload,
    hosts: NDArray[np.int32],
    *,
    method: Method = "exact",
    colours: Colours = "fewest",
    seed: int = 0,
) -> KeyPlan:
    """Make the routing keys of a workload.

    A key covers the messages that a rank begins between the request of the key and its return. A
    workload without requests gets one key for the messages of each phase. Messages without data,
    such as those of barriers, belong to no key.

    Parameters
    ----------
    fabric, workload
        The fabric and the workload.
    hosts
        int32 [ranks]: host of each rank.
    method, colours
        As for `weft.keys`; the first switch of each key is random.
    seed
        Seed of the keys.

    Raises
    ------
    InputError
        If a rank requests a key while it holds another, or returns a key that it does not hold.
    NotApplicable
        If the fabric is not a folded Clos network.
    """
    requests = (workload.kind == Kind.KEY_REQUEST) | (workload.kind == Kind.KEY_DONE)
    if requests.any():
        number, instance, names, manager = _requested(workload, np.flatnonzero(requests))
    else:
        number, instance, names, manager = _phases(workload)
    sends = workload.messages
    source = hosts[workload.rank[sends]]
    destination = hosts[workload.peer[sends]]
    data = (workload.size_bytes[sends] > 0) & (source != destination) & (number[sends] >= 0)
    number[sends[~data]] = -1
    made: list[RoutingKey] = []
    for at, name in enumerate(names):
        pairs = np.unique(
            source[data & (number[sends] == at)].astype(np.int64) * fabric.num_hosts
            + destination[data & (number[sends] == at)]
        )
        ends = np.divmod(pairs, fabric.num_hosts)
        made.append(
            keys(
                fabric, *ends, method=method, colours=colours, first="random", name=name,
                seed=seed + at,
            )
        )  # fmt: skip
    return KeyPlan(tuple(made), number, instance, manager)


def _requested(
    workload: Workload, ops: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], list[str], NDArray[np.int32]]:
    """Return key and instance of each operation, and names and managers of the keys."""
    pair = workload.comm[ops].astype(np.int64) << 32 | workload.tag[ops].astype(np.int64)
    known, key = np.unique(pair, return_inverse=True)
    rank = workload.rank[ops]
    begins = workload.kind[ops] == Kind.KEY_REQUEST
    # Requests and returns of a rank must alternate, and name the same key.
    for first, end in _runs(rank):
        for at in range(first, end):
            odd = (at - first) % 2
            if begins[at] == bool(odd) or (odd and key[at] != key[at - 1]):
                what = "requests a key while it holds another" if odd else "holds no key"
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
    """Return the phases with messages as keys."""
    used, number = np.unique(workload.phase[workload.messages], return_inverse=True)
    of_op = np.full(workload.num_ops, -1, dtype=np.int32)
    of_op[workload.messages] = number
    names = [workload.phase_names[at] or "outside phases" for at in used]
    return of_op, np.zeros(workload.num_ops, np.int32), names, np.full(len(used), -1, np.int32)


def _runs(values: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Return first and end index of each run of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    bounds = [0, *edges.tolist(), len(values)]
    return list(pairwise(bounds))
