"""CELLIA as the KNS paper describes it: fabrics, routings, placements and what the hardware does.

What the paper does not say is taken from data sheets or assumed; docs/kns-infiniband.md says which
is which, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routes import TableRoutes, VirtualLanes
from weft.routing import route
from weft.routing.engines.updn import roots_by_distance
from weft.routing.structure.kns import find_kns
from weft.sim.packet import Hardware
from weft.studies.kns.lash_lanes import DUMPED, unpacked
from weft.workload.placement import place

Engines = Literal["opensm", "weft"]
Placement = Literal["linear", "random"]

HOSTS = 36
#: Cores of a node's Xeon E5-2630v3, and so most ranks of a node that the paper can have run.
CORES = 8
#: Virtual lanes for data of CELLIA's adapters and switches (section 4.2).
DATA_LANES = 8

#: One of InfiniScale IV's ports holds some 32 KiB for each of so many lanes.
BUFFER_BYTES = 32768
#: Packets that leave an input port at a time.
SPEEDUP = 2
#: Of processors at either end of a message.
OVERHEAD_NS = 300.0
ADAPTER_LATENCY_NS = 250.0
SWITCH_LATENCY_NS = 100.0
#: Within a node ranks copy through memory that they share.
LOCAL_GBPS, LOCAL_LATENCY_NS = 40.0, 400.0
EAGER_BYTES = 16384


@dataclass(frozen=True)
class Network:
    """A fabric of the study.

    Parameters
    ----------
    name
        Short, for tables and figures.
    spec
        What to build.
    engines
        Label -> routing.
    hardware
        What differs from CELLIA's.
    shuffle
        Seed by which nodes, GUIDs and ports are permuted, None for cables in order.
    """

    name: str
    spec: str
    engines: Mapping[str, str]
    hardware: Mapping[str, float] = field(default_factory=dict)
    shuffle: int | None = None


KNS, TREE = "KNS", "tree"
#: What the paper measured: figures 9 to 17 have these, in this order.
PAPER_ENGINES = {
    KNS: ("updn", "lash", "dfsssp", "hdor"),
    TREE: ("updn", "lash", "dfsssp", "ftree"),
}
#: How cables, ports and addresses are ordered -> seed that permutes them, None as the topology
#: counts. A site has some order, which the paper does not give; the first is the headline.
CABLES: Mapping[str, int | None] = {"shuffled": 1, "shuffled again": 2, "in order": None}
#: Roots of updn on the tree. The paper names "the root node"; OpenSM's own search finds three.
ROOTS: Mapping[str, str] = {
    "one root": "updn",
    "another root": "updn-other",
    "three roots": "updn-3",
}
#: Dragonfly and KNS whose adapters route: what the paper only wishes for (sections 4.4 and 6).
ADAPTERS, SLOW_ADAPTERS, DRAGONFLY = "KNS-adapters", "KNS-adapters-100ns", "dragonfly"


def cabled(network: str, cables: str) -> str:
    """Name of the KNS or the tree with another order of its cables."""
    return network if cables == next(iter(CABLES)) else f"{network} {cables}"


_KNS_SPEC, _TREE_SPEC = "kns:k=6,n=2,rate=4xQDR", "cellia:nodes=36,rate=4xQDR"
_BOTH = {"lash": "lash", "dfsssp": "dfsssp", "dfsssp-few": "dfsssp"}
_KNS_ENGINES = {
    "updn": "updn:roots=center",
    **_BOTH,
    "hdor": "hdor",
    **{f"hdor-{lanes}": f"hdor:lanes={lanes}" for lanes in (2, 4, 8)},
}
#: {0} and {1} are the first two of the roots that OpenSM's search finds.
_TREE_ENGINES = {
    "updn": "updn:roots={0}",
    "updn-other": "updn:roots={1}",
    "updn-3": "updn",
    **_BOTH,
    "ftree": "ftree",
}
NETWORKS: Mapping[str, Network] = {
    network.name: network
    for network in (
        *(
            Network(cabled(name, cables), spec, engines, shuffle=seed)
            for cables, seed in CABLES.items()
            for name, spec, engines in (
                (KNS, _KNS_SPEC, _KNS_ENGINES),
                (TREE, _TREE_SPEC, _TREE_ENGINES),
            )
        ),
        Network(
            ADAPTERS,
            f"{_KNS_SPEC},router=adapter",
            {"hdor": "hdor", "hdor-8": "hdor:lanes=8"},
            {"forward_latency_ns": 0.0, "adapter_gbps": 32.0},
        ),
        Network(
            SLOW_ADAPTERS,
            f"{_KNS_SPEC},router=adapter",
            {"hdor": "hdor"},
            {"forward_latency_ns": SWITCH_LATENCY_NS, "adapter_gbps": 32.0},
        ),
        Network(
            DRAGONFLY,
            "dragonfly:p=2,a=3,h=2,g=6,rate=4xQDR",
            {"updn": "updn:roots=center", "lash": "lash", "dfsssp": "dfsssp"},
        ),
    )
}
#: Shuffled over all data lanes as OpenSM's dfsssp does with the lanes that it need not have.
_SPREAD = frozenset({"dfsssp"})


def hardware(network: str) -> Hardware:
    """Switches and adapters of a network: 4xQDR, IS5022 switches, MTU 2048."""
    return Hardware(
        mtu_bytes=2048,
        buffer_bytes=BUFFER_BYTES,
        switch_latency_ns=SWITCH_LATENCY_NS,
        speedup=SPEEDUP,
        adapter_latency_ns=ADAPTER_LATENCY_NS,
        **NETWORKS[network].hardware,  # type: ignore[arg-type]
    )


@lru_cache(maxsize=16)
def fabric(network: str) -> Fabric:
    """The fabric of a network."""
    made = build(NETWORKS[network].spec)
    shuffle = NETWORKS[network].shuffle
    return made if shuffle is None else made.shuffled(shuffle)


def longest_latency_us(network: str, size_bytes: int = 8) -> float:
    """Time of a message that meets no other, were it to pass every switch once.

    Parameters
    ----------
    network
        Which.
    size_bytes
        Payload, of one packet.
    """
    made, parts = fabric(network), hardware(network)
    latency = made.num_switches * parts.switch_latency_ns
    latency += (made.num_switches + 1) * float(made.cable_latency_ns.max())
    wire_ns = (size_bytes + parts.header_bytes) * 8 / float(made.link_rate_gbps.min())
    return (2 * (OVERHEAD_NS + parts.adapter_latency_ns) + latency + wire_ns) / 1e3


@lru_cache(maxsize=96)
def routes(network: str, engine: str, engines: Engines = "opensm") -> TableRoutes:
    """Routes of a network by a label of its engines.

    Parameters
    ----------
    network, engine
        Which.
    engines
        ``opensm``: tables and lanes as OpenSM 3.3.23 makes them, as far as they can be known
        (`updn` and `dfsssp` entry by entry, `lash` as it was dumped from one, `ftree` and `hdor`
        are the same anyway; `dfsssp` draws the lane of each path, here with a fixed seed).
        ``weft``: weft's own, which share the cables better and take fewer lanes.
    """
    made_for = fabric(network)
    if engines == "opensm" and engine == "lash" and network in DUMPED:
        return _dumped_lash(network)
    spec = NETWORKS[network].engines[engine]
    if "{" in spec:
        spec = spec.format(*(made_for.node_names[row] for row in roots_by_distance(made_for)))
    name = spec.partition(":")[0]
    if engines == "opensm" and name in {"updn", "dfsssp"}:
        spec += f"{',' if ':' in spec else ':'}balance=opensm"
    made = route(made_for, spec)
    assert isinstance(made, TableRoutes)
    if engines == "opensm" and engine in _SPREAD:
        return spread_lanes(made_for, made, DATA_LANES)
    return made


def spread_lanes(fabric: Fabric, routes: TableRoutes, lanes: int, seed: int = 0) -> TableRoutes:
    """Hand lanes that are left over to those that carry most paths, as OpenSM's dfsssp does.

    A lane's paths are drawn at random over the lanes that it has been given. Part of the paths of
    a lane without deadlocks has none either.

    Parameters
    ----------
    fabric, routes
        What to change; SL i must be VL i.
    lanes
        How many there are.
    seed
        Of the draws. OpenSM draws anew whenever a path is asked for.
    """
    rows, ends = fabric.graph.num_rows, fabric.num_destinations
    base = np.broadcast_to(routes.sl, (rows, ends)).astype(np.int64)
    needed = routes.num_vls
    if needed >= lanes:
        return routes
    sources = fabric.graph.destination_row[: fabric.num_host_endpoints]
    paths = np.bincount(base[sources][:, : fabric.num_host_endpoints].ravel(), minlength=needed)
    split = np.ones(needed, dtype=np.int64)
    for _ in range(lanes - needed):
        split[np.argmax(paths / split)] += 1
    first = np.concatenate([[0], np.cumsum(split)])
    draw = np.random.default_rng(seed).integers(0, 2**32, (rows, ends))
    return replace(
        routes,
        sl=(first[base] + draw % split[base]).astype(np.uint8),
        lanes=VirtualLanes.uniform(range(lanes)),
        notes=(*routes.notes, f"needs {needed} lanes, spread over {lanes}"),
    )


def _dumped_lash(network: str) -> TableRoutes:
    """OpenSM's lash on one of CELLIA's fabrics."""
    made_for = fabric(network)
    ports, levels = (_digits(lines) for lines in unpacked(DUMPED[network]))
    # Its tables for hosts; those for switches, which no message goes to, are those of minhop.
    other = route(made_for, "minhop:balance=opensm")
    assert isinstance(other, TableRoutes)
    table = other.table.copy()
    table[: len(ports)] = ports
    hosts = made_for.num_host_endpoints
    sl = np.zeros((made_for.graph.num_rows, made_for.num_destinations), dtype=np.uint8)
    sl[np.unique(made_for.graph.destination_row[:hosts]), :hosts] = levels
    return replace(
        other,
        engine="lash",
        table=table,
        sl=sl,
        lanes=VirtualLanes.uniform(range(int(sl.max()) + 1)),
        options={},
        notes=("as OpenSM 3.3.23 programmed it",),
    )


def _digits(lines: Sequence[str]) -> NDArray[np.uint8]:
    return np.array([[int(digit) for digit in line] for line in lines], dtype=np.uint8)


@lru_cache(maxsize=16)
def _in_order(network: str) -> tuple[int, ...]:
    """Hosts of a network in the order of its coordinates, line by line or leaf by leaf."""
    made = fabric(network)
    hosts = np.arange(made.num_hosts)
    if NETWORKS[network].shuffle is None:
        return tuple(hosts.tolist())
    rows = made.graph.destination_row[: len(hosts)]
    if NETWORKS[network].spec == _KNS_SPEC:
        kns = find_kns(made)
        place = np.full((made.graph.num_rows, 2), -1)
        place[kns.routers] = kns.coordinates
        order = np.lexsort(place[rows].T)
    else:
        # Leaves of a group share their middle switches.
        first = np.full(made.graph.num_rows, made.graph.num_rows)
        np.minimum.at(first, made.graph.edge_tail, made.graph.edge_row)
        order = np.lexsort((hosts, rows, first[rows]))
    return tuple(order.tolist())


def hosts_of(
    network: str, placement: Placement, ranks_per_node: int, seed: int
) -> NDArray[np.int32]:
    """Host of each rank: in order, or each rank on a random core of the whole machine.

    Parameters
    ----------
    network
        Which; hosts of all have the same order, that of their coordinates.
    placement
        ``linear``: node by node. ``random``: drawn with `seed`, the same for every run.
    ranks_per_node
        Ranks of each node.
    seed
        Of the random placement.
    """
    spec = "linear" if placement == "linear" else f"random:seed={seed},over=seats"
    return place(
        fabric(network),
        HOSTS * ranks_per_node,
        spec,
        ranks_per_host=ranks_per_node,
        hosts=np.array(_in_order(network)),
    )


def check_ranks(ranks_per_node: int) -> None:
    """Refuse numbers of ranks that the nodes have no cores for.

    Raises
    ------
    InputError
        With what there is.
    """
    if not 1 <= ranks_per_node <= CORES:
        raise InputError(
            f"a node has {CORES} cores and runs 1 to {CORES} ranks, not {ranks_per_node}"
        )
