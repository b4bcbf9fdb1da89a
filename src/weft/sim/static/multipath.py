"""Static loads of flows that are split over queue pairs and flowlets, and hashed at each switch.

A flow of load 1 is divided into equal parts, one for each queue pair (QP) and flowlet epoch. If
there are several candidates, the header of a part is hashed, so each part takes one path. There is
no time: the loads of all epochs are added up.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import MAX_INT32, one_of, whole_number, whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.parts import StateParts
from weft.kernels.routes.dependencies import Sets
from weft.kernels.routes.multipath import (
    CRC,
    IDEAL,
    NUMBERED,
    STUCK,
    TOO_MANY_PATHS,
    Hashing,
    flow_key,
    hashed_counts,
    linear_codes,
)
from weft.routing.routes import CandidateRoutes, Routes
from weft.routing.routes.flows import EndpointFlows, endpoint_out
from weft.sim.static.loads import host_flows

HashName = Literal["ideal", "md5", "linear", "crc", "crc-polarised", "crc-offset"]

#: Factors of the codes of source, destination, QP and epoch. The weighted sum modulo the number of
#: paths selects the path, as in the program published with Kenzi 2026.
PATH_FACTORS = (1315423911, 2654435761, 97531, 19260817)

#: Size of source, destination, protocol and the two ports of an IPv4 packet.
FIVE_TUPLE_BYTES = 13
#: Number of bits by which ``crc-offset`` rotates the hash from one tree level to the next.
ROTATION_PER_LEVEL = 8

_SWITCH_SEEDS = 0x5EED_0F_5317C4


class Scheme(StrEnum):
    """Ways to divide a flow into parts that are hashed separately."""

    ECMP = "ecmp"
    FLOWLET = "flowlet"
    E_ECMP = "e-ecmp"
    FLOWLET_E_ECMP = "flowlet-e-ecmp"

    @property
    def label(self) -> str:
        """Name of the scheme in the literature."""
        return _LABELS[self]

    def parts(self, qps: int, epochs: int) -> tuple[int, int]:
        """Return the numbers of QPs and epochs that the scheme uses.

        Parameters
        ----------
        qps, epochs
            Number of available queue pairs of each flow, and of flowlet epochs of each queue pair.
        """
        spatial = self in (Scheme.E_ECMP, Scheme.FLOWLET_E_ECMP)
        temporal = self in (Scheme.FLOWLET, Scheme.FLOWLET_E_ECMP)
        return (qps if spatial else 1), (epochs if temporal else 1)


_LABELS = {
    Scheme.ECMP: "ECMP",
    Scheme.FLOWLET: "Flowlet-only",
    Scheme.E_ECMP: "e-ECMP",
    Scheme.FLOWLET_E_ECMP: "Flowlet-based e-ECMP",
}


@dataclass(frozen=True)
class HashFunction:
    """A hash function that chooses among candidates."""

    #: Name in options.
    name: HashName
    #: Kind of computation, as defined in `weft.kernels.routes.multipath`.
    kind: int
    #: Description in one line.
    summary: str
    #: Whether paths are selected by MD5 digests of names, without a seed.
    by_name: bool = False
    #: Whether every switch has its own CRC seed.
    own_seed: bool = False
    #: Whether every tree level uses other bits of the CRC.
    own_offset: bool = False


HASHES = {
    function.name: function
    for function in (
        HashFunction(
            "ideal",
            IDEAL,
            "an independent, uniform choice at every switch for each flow, QP and epoch",
        ),
        HashFunction(
            "md5",
            NUMBERED,
            "path number = weighted sum of the MD5 of source, destination, QP and epoch, modulo "
            "the number of paths (the program published with Kenzi 2026)",
            by_name=True,
        ),
        HashFunction(
            "linear",
            NUMBERED,
            "like md5, but from random numbers of the hosts and the numbers of QP and epoch (an "
            "earlier version of Kenzi's program)",
        ),
        HashFunction(
            "crc",
            CRC,
            "CRC-32 of the RoCEv2 five-tuple modulo the candidates; each switch has its own seed",
            own_seed=True,
        ),
        HashFunction(
            "crc-polarised",
            CRC,
            "CRC-32 of the RoCEv2 five-tuple modulo the candidates; one seed for all switches",
        ),
        HashFunction(
            "crc-offset",
            CRC,
            "like crc, but each tree level rotates the CRC by its own offset before the modulo",
            own_seed=True,
            own_offset=True,
        ),
    )
}


@dataclass(frozen=True, eq=False)
class MultipathLoads:
    """Loads of the links for several splits of the same flows."""

    #: (QPs, epochs) of each split.
    splits: tuple[tuple[int, int], ...]
    #: float64 [splits, links]: loads in flows; 1 is one entire flow.
    per_link: NDArray[np.float64]
    #: Number of flows, and number of flows without a path, which add no load.
    flows: int
    unrouted: int


def multipath_loads(
    fabric: Fabric,
    routes: Routes,
    sources: ArrayLike,
    destinations: ArrayLike,
    splits: Sequence[tuple[int, int]],
    *,
    hash: HashName = "ideal",
    seed: int = 0,
) -> MultipathLoads:
    """Return the load of each directed link if flows are divided into separately hashed parts.

    Part (q, e) of a flow takes the same path in all splits, so one pass computes all splits and
    their results are comparable.

    Parameters
    ----------
    fabric, routes
        The fabric, and the candidates to choose from.
    sources, destinations
        Host numbers of equal length; a flow from a host to itself adds no load.
    splits
        (QPs, epochs) of each split, such as ``Scheme.E_ECMP.parts(8, 20)``; each part of a flow has
        the load 1 / (QPs * epochs).
    hash
        Name of one of `HASHES`.
    seed
        Seed of the choices of ``ideal``, of the hosts' numbers of ``linear``, and of the source
        ports and switches' seeds of the CRC hashes. It has no effect on ``md5``, which hashes the
        names of the hosts.

    Raises
    ------
    InputError
        If the hash is unknown, a split has less than one part, a host number does not exist, the
        routes belong to another fabric, or candidates do not reach a destination.
    NotApplicable
        If the routes leave no choice, or a pair has more than 2^61 paths and the hash is ``md5`` or
        ``linear``.
    """
    routes.check(fabric)
    if not isinstance(routes, CandidateRoutes):
        raise NotApplicable(f"{routes.engine} leaves no choice of paths to a hash")
    if routes.num_intermediates:
        raise NotApplicable(
            f"{routes.engine} draws intermediates, which a hash at a switch cannot choose"
        )
    one_of(hash, get_args(HashName), "hash")
    parts = whole_numbers(splits, "splits [QPs, epochs]", low=1, high=MAX_INT32, shape=(None, 2))
    seed = whole_number(seed, "seed", 0, 2**64 - 1)
    function = HASHES[hash]
    flows = host_flows(fabric, sources, destinations)
    graph = fabric.graph
    out = endpoint_out(fabric)
    offset, grouped, unrouted = _by_target(fabric, flows)
    splits = [(qps, epochs) for qps, epochs in parts.tolist()]
    bin_of, members = _bins(splits)
    codes = _path_codes(fabric, function, seed, bin_of.shape)
    counts = np.zeros((int(bin_of.max()) + 1, len(graph.edge_row)), dtype=np.int64)
    sets = Sets(routes.set_id, routes.set_offset, routes.set_edge)
    hashing = Hashing(function.kind, *_switch_settings(fabric, function, seed), *codes)
    status, flow = hashed_counts(
        StateParts(sets), graph.parts, out, offset, grouped, flows.sources, flows.destinations,
        bin_of, StateParts(hashing), np.uint64(seed), counts, unrouted,
    )  # fmt: skip
    if status == TOO_MANY_PATHS:
        raise NotApplicable(
            f"the {hash} hash cannot number the paths of {_pair(fabric, flows, flow)}"
        )
    if status == STUCK:
        raise InputError(
            f"{routes.engine} candidates from {_pair(fabric, flows, flow)} lead into a dead end or "
            "a loop"
        )
    per_link = np.zeros((len(splits), fabric.num_links))
    for i, (qps, epochs) in enumerate(splits):
        per_link[i, graph.edge_link] = counts[members[i]].sum(axis=0) / (qps * epochs)
    moving = np.flatnonzero(~unrouted & (flows.sources != flows.destinations))
    for ends in (out[flows.sources[moving]], graph.destination_link[flows.destinations[moving]]):
        per_link += np.bincount(ends[ends >= 0], minlength=fabric.num_links)
    return MultipathLoads(tuple(splits), per_link, len(flows.sources), int(unrouted.sum()))


def _pair(fabric: Fabric, flows: EndpointFlows, flow: int) -> str:
    ends = fabric.endpoint_node[[flows.sources[flow], flows.destinations[flow]]]
    return " to ".join(fabric.node_names[node] for node in ends)


def _by_target(
    fabric: Fabric, flows: EndpointFlows
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    """Return the flows in CSR form by the row of their destination.

    The third array, bool [flows], is true for flows without such a row.
    """
    graph = fabric.graph
    known = (flows.sources >= 0) & (flows.destinations >= 0)
    rows = np.where(known, graph.destination_row[flows.destinations], -1)
    moving = np.flatnonzero((rows >= 0) & (flows.sources != flows.destinations))
    offset = np.zeros(graph.num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows[moving], minlength=graph.num_rows), out=offset[1:])
    grouped = moving[np.argsort(rows[moving], kind="stable")].astype(np.int32)
    return offset, grouped, rows < 0


def _bins(
    splits: Sequence[tuple[int, int]],
) -> tuple[NDArray[np.int32], list[NDArray[np.int64]]]:
    """Return the fewest rectangles of (QP, epoch) from which every split can be composed.

    Returns int32 [QPs, epochs]: the rectangle that contains each part, -1 for parts of no split;
    and the rectangles of each split.
    """
    qps = np.unique([split[0] for split in splits])
    epochs = np.unique([split[1] for split in splits])
    needed = np.zeros((len(qps), len(epochs)), dtype=bool)
    for q, e in splits:
        needed[: np.searchsorted(qps, q) + 1, : np.searchsorted(epochs, e) + 1] = True
    number = np.full(needed.shape, -1, dtype=np.int32)
    number[needed] = np.arange(needed.sum(), dtype=np.int32)
    members = [
        number[: np.searchsorted(qps, q) + 1, : np.searchsorted(epochs, e) + 1]
        .ravel()
        .astype(np.int64)
        for q, e in splits
    ]
    row = np.searchsorted(qps, np.arange(1, qps[-1] + 1))
    column = np.searchsorted(epochs, np.arange(1, epochs[-1] + 1))
    return np.ascontiguousarray(number[np.ix_(row, column)]), members


def _path_codes(
    fabric: Fabric, function: HashFunction, seed: int, parts: tuple[int, ...]
) -> list[NDArray[np.uint32]]:
    """Return the codes of sources, destinations, QPs and epochs times their factors.

    Each array is uint32 [items, limbs], with the lowest 32 bits of a number first.
    """
    if function.kind != NUMBERED:
        return [np.zeros((0, 0), dtype=np.uint32)] * len(PATH_FACTORS)
    qps, epochs = (range(count) for count in parts)
    if function.by_name:
        names = _md5(fabric.node_names)[fabric.endpoint_node]
        plain = [names, names, _md5(tuple(map(str, qps))), _md5(tuple(map(str, epochs)))]
    else:
        hosts = linear_codes(np.uint64(seed), len(fabric.endpoint_node))
        each = (hosts, hosts, np.array(qps), np.array(epochs))
        plain = [codes.astype(np.uint32)[:, None] for codes in each]
    return [_times(codes, factor) for codes, factor in zip(plain, PATH_FACTORS, strict=True)]


@lru_cache(maxsize=16)
def _md5(names: tuple[str, ...]) -> NDArray[np.uint32]:
    """Return the MD5 of each name as a number of four limbs, lowest first, uint32 [names, 4]."""
    digests = (hashlib.md5(name.encode(), usedforsecurity=False).digest()[::-1] for name in names)
    return np.frombuffer(b"".join(digests), dtype="<u4").reshape(-1, 4)


def _times(limbs: NDArray[np.uint32], factor: int) -> NDArray[np.uint32]:
    """Multiply numbers of 32-bit limbs by a 32-bit factor, uint32 [numbers, limbs + 1]."""
    product = np.empty((len(limbs), limbs.shape[1] + 1), dtype=np.uint32)
    carry = np.zeros(len(limbs), dtype=np.uint64)
    for limb in range(limbs.shape[1]):
        carry += limbs[:, limb].astype(np.uint64) * np.uint64(factor)
        product[:, limb] = carry & np.uint64(0xFFFFFFFF)
        carry >>= np.uint64(32)
    product[:, -1] = carry
    return product


def switch_seeds(fabric: Fabric, seed: int) -> NDArray[np.uint32]:
    """Return the initial CRC value of each row, uint32 [rows]."""
    key = np.uint64((seed ^ _SWITCH_SEEDS) % 2**64)
    drawn = [int(flow_key(key, row)) >> 32 for row in range(fabric.graph.num_rows)]
    return np.array(drawn, dtype=np.uint32)


def _switch_settings(
    fabric: Fabric, function: HashFunction, seed: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return the mask and the rotation that turn a CRC of seed 0 into the hash of each row.

    The mask is combined by exclusive or. A CRC is affine: another seed changes the CRC of every
    header by the same mask.
    """
    graph = fabric.graph
    mask = np.zeros(graph.num_rows, dtype=np.uint32)
    rotation = np.zeros(graph.num_rows, dtype=np.uint8)
    seeds = switch_seeds(fabric, seed)
    if function.own_seed:
        blank = bytes(FIVE_TUPLE_BYTES)
        plain = zlib.crc32(blank)
        mask[:] = [zlib.crc32(blank, int(start)) ^ plain for start in seeds]
    if function.own_offset:
        level: NDArray[Any] = fabric.level[graph.row_node].astype(np.int64)
        # Each switch without a level has a random rotation.
        rotation[:] = np.where(level >= 0, level * ROTATION_PER_LEVEL, seeds % 32) % 32
    return mask, rotation
