"""Making of keys, in processes of their own, so that grants do not wait for it."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.fabrics import Fabric, LinkKind
from weft.kernels.keys.tables import give_offsets
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.routes.flows import EndpointFlows
from weft.sim.keys.alternatives import InstalledKey, alternatives, installed_key, links_in
from weft.sim.keys.key_set import keyed_flows
from weft.sim.keys.make import keys
from weft.sim.keys.network import key_network
from weft.sim.keys.routing_key import RoutingKey
from weft.sim.keys.tables import Entries, entries_of
from weft.workload.apps import application, application_workload
from weft.workload.patterns import traffic
from weft.workload.placement import place
from weft.workload.workload import Workload

#: Largest number of flows of an application.
MOST_FLOWS = 4_000_000
#: Placements that advice compares.
_PLACEMENTS = ("linear", "block:order=most", "isolated")
#: A phase: its name, and flows between ranks or a pattern.
PhaseSpec = tuple[str, Sequence[tuple[int, int]] | str]
#: Sources and destinations of flows, int32 [2, flows].
Ends = NDArray[np.int32]


@dataclass(frozen=True)
class MakerSettings:
    """How keys are made."""

    #: Engines of the base routes; the first that fits is used.
    engines: tuple[str, ...] = ("dmodk", "updn")
    #: LMC of the subnet.
    lmc: int = 7
    #: Largest number of alternatives of a key.
    alternatives: int = 4
    #: Seed of the keys.
    seed: int = 0


@dataclass(frozen=True, eq=False)
class MadeKey:
    """The key of a phase, ready for the tables."""

    #: Name of the phase.
    phase: str
    #: Its paths, and those of the base routes for the same flows.
    key: InstalledKey
    base: InstalledKey
    #: Flows of the first alternative for whose paths no LID was left, which take the base routes.
    without_lid: int


class _Maker:
    """The fabric and settings of a worker process."""

    def __init__(self, fabric: Fabric, settings: MakerSettings) -> None:
        self.fabric = fabric
        self.settings = settings

    @lru_cache(maxsize=4)  # noqa: B019 - one maker lives as long as its process
    def present(self, missing: tuple[int, ...]) -> tuple[Fabric, TableRoutes, NDArray[np.int32]]:
        """Return the fabric without some cables, its base routes, and links of `fabric` by edge."""
        fabric = self.fabric.without(cables=missing) if missing else self.fabric
        return (
            fabric,
            base_routes(fabric, self.settings.engines),
            links_in(fabric, self.fabric)[fabric.graph.edge_link],
        )


_maker: _Maker | None = None


def base_routes(fabric: Fabric, engines: Sequence[str]) -> TableRoutes:
    """Return tables of the first engine that fits a fabric."""
    routes = route(fabric, engines)
    if not isinstance(routes, TableRoutes) or routes.lmc or routes.num_vls > 1:
        raise NotApplicable(
            f"base routes must be forwarding tables with one virtual lane and no LMC, which those "
            f"of {routes.engine} are not"
        )
    return routes


def initialise(fabric: Fabric, settings: MakerSettings) -> None:
    """Prepare a worker process, so that the first request waits for no code and no base routes."""
    global _maker  # noqa: PLW0603 - one per process
    _maker = _Maker(fabric, settings)
    ends = np.arange(min(2, fabric.num_hosts), dtype=np.int32)
    with contextlib.suppress(WeftError):  # raised when something is asked for
        make({"": (ends[:1], ends[1:])}, (), 0)
        advise(len(ends), ends.tolist(), [("", [(0, len(ends) - 1)])], None, ())


def _present() -> _Maker:
    assert _maker is not None  # set by `initialise`
    return _maker


# -- phases ------------------------------------------------------------------------------------


def expand(
    num_ranks: int, phases: Sequence[PhaseSpec] | None, workload: str | None
) -> dict[str, Ends]:
    """Return the flows between ranks of each phase of an application."""
    if workload is not None:
        name = workload.partition(":")[0].strip()
        if name not in application:
            raise InputError(
                f"there is no workload {name!r}; expected one of 'weft list applications', not a "
                "file"
            )
        return _of_workload(application_workload(workload, num_ranks))
    found: dict[str, Ends] = {}
    for name, flows in phases or ():
        if name in found:
            raise InputError(f"there are two phases named {name}")
        if isinstance(flows, str):
            pairs = traffic(num_ranks, flows)
            found[name] = np.stack(tuple(pairs)).astype(np.int32)
        else:
            found[name] = np.array(flows, dtype=np.int32).reshape(-1, 2).T.copy()
        _few_enough(found)
    return found


def _of_workload(workload: Workload) -> dict[str, Ends]:
    """Return the flows of each key of a workload, or of each phase if it requests no keys."""
    ranks = np.arange(workload.num_ranks)
    flows = keyed_flows(workload, ranks.astype(np.int32), ranks)
    found: dict[str, Ends] = {}
    for text, ends in zip(flows.names, flows.ends, strict=True):
        # Names are parts of addresses.
        name = re.sub(r"[^A-Za-z0-9_.:+@-]", "_", text)[:128]
        name = name if name[0].isalnum() else f"phase{name}"
        if name in found:
            raise InputError(f"two phases of the workload would be named {name}")
        found[name] = np.stack(ends).astype(np.int32)
        _few_enough(found)
    return found


def _few_enough(phases: dict[str, Ends]) -> None:
    if sum(ends.shape[1] for ends in phases.values()) > MOST_FLOWS:
        raise InputError(f"an application has at most {MOST_FLOWS:,} flows")


# -- keys --------------------------------------------------------------------------------------


def seed_of(application: str) -> int:
    """Return the first seed of the keys of an application, which `make` adds to that of all."""
    return int.from_bytes(hashlib.sha256(application.encode()).digest()[:4], "big")


def make(
    phases: dict[str, tuple[NDArray[np.int32], NDArray[np.int32]]],
    missing: tuple[int, ...],
    first_seed: int,
    kept: Sequence[InstalledKey] = (),
) -> list[MadeKey | tuple[str, str]]:
    """Make the keys of an application.

    `phases`: hosts of the flows of each phase: sources and destinations. `first_seed`: seed of the
    first key; that of each further key is larger by 1. `kept`: keys of the application that stay in
    the tables.

    Returns the key of each phase, or why it has none.
    """
    maker = _present()
    settings = maker.settings
    found: dict[str, MadeKey | tuple[str, str]] = {}
    try:
        fabric, routes, links = maker.present(missing)
    except WeftError as error:
        return [(name, str(error)) for name in phases]
    made = {}
    for number, (name, ends) in enumerate(phases.items()):
        try:
            key = keys(
                fabric, *ends, first="random", name=name, seed=settings.seed + first_seed + number
            )
            made[name] = key, alternatives(key, settings.alternatives, settings.seed)
        except WeftError as error:
            found[name] = name, str(error)
    entries = []
    for stays in kept:
        with contextlib.suppress(NotApplicable):  # cables are missing: it is being withdrawn
            entries.append(entries_of(fabric, maker.fabric, stays))
    offsets = _lids(fabric, routes, list(made.values()), settings.lmc, entries)
    for (name, (key, columns)), lids in zip(made.items(), offsets, strict=True):
        base = _base_paths(fabric, routes, key.sources, key.destinations, links, name)
        installed = installed_key(key, columns[: len(lids)], lids, base, links)
        # Counted here, so that the service need not.
        _ = installed.used, base.used
        found[name] = MadeKey(name, installed, base, int((lids[0] < 0).sum()))
    return [found[name] for name in phases]


def base_paths(
    flows: Sequence[tuple[str, NDArray[np.int32], NDArray[np.int32]]], missing: tuple[int, ...]
) -> list[InstalledKey]:
    """Return the paths of the base routes for the flows of keys: name, sources and destinations."""
    fabric, routes, links = _present().present(missing)
    found = [
        _base_paths(fabric, routes, sources, destinations, links, name)
        for name, sources, destinations in flows
    ]
    for base in found:
        _ = base.used  # counted here, so that the service need not
    return found


def _lids(
    fabric: Fabric,
    routes: TableRoutes,
    made: Sequence[tuple[RoutingKey, list[NDArray[np.int32]]]],
    lmc: int,
    kept: Sequence[Entries],
) -> list[NDArray[np.int32]]:
    """Return the LID offset of each flow of each key and alternative.

    The first alternative of every key comes first. A further alternative is left out where a flow
    finds no LID. Hosts belong to one application, so that besides these keys only the kept ones of
    the same application, whose entries are given, send to these LIDs.

    Returns int32 [alternatives, flows] for each key; -1 for a flow of the first alternative that
    has no LID. Without an LMC all are 0: keys are only planned.
    """
    if not lmc:
        return [np.zeros((len(columns), len(key.sources)), np.int32) for key, columns in made]
    graph = fabric.graph
    hosts = np.unique(np.concatenate([np.zeros(0, np.int32), *(k.endpoints[1] for k, _ in made)]))
    table = np.repeat(routes.table[hosts], 1 << lmc, axis=0)
    taken = np.zeros(table.shape, dtype=np.bool_)
    for destination, offset, row, port in kept:
        near = np.isin(destination, hosts)
        line = (np.searchsorted(hosts, destination[near]) << lmc) + offset[near]
        table[line, row[near]], taken[line, row[near]] = port[near], True
    found: list[list[NDArray[np.int32]]] = [[] for _ in made]
    for number in range(max((len(columns) for _, columns in made), default=0)):
        for at, (key, columns) in enumerate(made):
            if number >= len(columns) or len(found[at]) < number:
                continue
            begin, edges = key.paths_on(columns[number])
            chosen = np.zeros(len(key.sources), dtype=np.int32)
            before = (table.copy(), taken.copy()) if number else None
            left = give_offsets(
                np.searchsorted(hosts, key.endpoints[1]).astype(np.int32), begin, edges,
                graph.parts, lmc, table, taken, chosen,
            )  # fmt: skip
            if left >= 0 and before is not None:
                table, taken = before
                continue
            found[at].append(chosen)
    return [np.stack(each) for each in found]


def _base_paths(
    fabric: Fabric,
    routes: TableRoutes,
    sources: NDArray[np.int32],
    destinations: NDArray[np.int32],
    links: NDArray[np.int32],
    name: str,
) -> InstalledKey:
    """Return the paths of the base routes between hosts, as one alternative."""
    ends = fabric.host_endpoint[sources], fabric.host_endpoint[destinations]
    count = len(sources)
    flows = EndpointFlows(
        *ends, np.zeros(0, np.int32), np.argsort(ends[1], kind="stable").astype(np.int32),
        np.zeros(0),
    )  # fmt: skip
    begin, link = routes.links(fabric, flows)
    between = fabric.link_kind[link] == LinkKind.SWITCH_SWITCH
    ends_at = np.concatenate([[0], np.cumsum(between)])[begin]
    edge = fabric.graph.edge_of_link[link[between]]
    return InstalledKey(
        name, sources, destinations, ends_at.astype(np.int64), links[edge],
        np.zeros((1, count), np.uint8),
    )  # fmt: skip


# -- advice ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Advice:
    """A placement of an application, and its contention."""

    #: The placement, and the host of each rank.
    placement: str
    hosts: tuple[int, ...]
    #: Most flows of one phase on a link, with routing keys and with the base routes.
    contention: float
    base_contention: float
    #: Number of leaf switches of the hosts.
    leaf_switches: int


def advise(
    num_ranks: int,
    free: Sequence[int],
    phases: Sequence[PhaseSpec] | None,
    workload: str | None,
    missing: tuple[int, ...],
) -> list[Advice]:
    """Compare placements of an application on free hosts, the best first.

    The best has the least contention with keys, then with the base routes, then the fewest leaf
    switches.
    """
    maker = _present()
    fabric, routes, links = maker.present(missing)
    network = key_network(fabric)
    able = set(network.hosts.tolist())
    free = [host for host in free if host in able]
    if len(free) < num_ranks:
        raise InputError(f"{num_ranks} hosts are wanted, but only {len(free)} are free")
    ranks = expand(num_ranks, phases, workload) if phases or workload else {}
    found: list[Advice] = []
    for name in _PLACEMENTS:
        try:
            hosts = place(fabric, num_ranks, name, hosts=np.array(free), offered="free hosts")
        except NotApplicable:
            continue
        if any(each.hosts == tuple(hosts.tolist()) for each in found):
            continue
        worst = base_worst = 0.0
        for phase, (sources, destinations) in ranks.items():
            ends = hosts[sources], hosts[destinations]
            worst = max(worst, keys(fabric, *ends, first="random", name=phase).contention)
            usual = _base_paths(fabric, routes, *ends, links, phase)
            base_worst = max(base_worst, usual.worst(0))
        rows = fabric.graph.destination_row[fabric.host_endpoint[hosts]]
        leaves = len(np.unique(network.clos.leaf_of_row[rows]))
        found.append(Advice(name, tuple(hosts.tolist()), worst, base_worst, leaves))
    return sorted(found, key=lambda a: (a.contention, a.base_contention, a.leaf_switches))
