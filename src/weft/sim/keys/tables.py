"""Routing keys in InfiniBand: forwarding tables in which a LID offset selects a key's path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import whole_number
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.keys.tables import give_offsets
from weft.routing.opensm.ports import MAX_LID, MAX_LMC
from weft.routing.routes import Routes, TableRoutes
from weft.sim.keys.alternatives import InstalledKey, links_in
from weft.sim.keys.network import KeyNetwork
from weft.sim.keys.routing_key import RoutingKey


@dataclass(frozen=True, eq=False)
class KeyTables:
    """Forwarding tables of routing keys."""

    #: Tables with an LMC. LID offset 0 of each host has the base routes.
    routes: TableRoutes
    #: For each key int32 [flows]: LID offset of the destination that gives a flow its path; 0 for a
    #: flow within a leaf switch, -1 if no LID was left for the flow.
    offset: tuple[NDArray[np.int32], ...]

    def lids(
        self, keys: Sequence[RoutingKey], base: NDArray[np.integer[Any]]
    ) -> list[NDArray[np.int64]]:
        """Return the LID to which each flow of each key is sent.

        `base`, int [endpoints]: first LID of each endpoint.
        """
        return [
            base[key.endpoints[1]].astype(np.int64) + np.maximum(offset, 0)
            for key, offset in zip(keys, self.offset, strict=True)
        ]

    @property
    def entries(self) -> int:
        """Entries of the forwarding table of each switch."""
        return len(self.routes.table)


def key_tables(
    fabric: Fabric, base: Routes, keys: Sequence[RoutingKey], lmc: int | None = None
) -> KeyTables:
    """Return tables in which a LID of its destination gives each flow of each key its path.

    A flow gets the first LID whose entries do not contradict its path. Flows to one destination can
    thus share a LID if their paths agree at every switch that both cross. A switch that no path to
    a LID crosses has the entry of the base routes for it; these also lead up and then down.

    `base`: routes of the first LID, without LMC, that go up and then down, such as those of
    ``dmodk``. `lmc`: LMC of the tables, with which LIDs may not suffice for all flows; by default
    the smallest with which they do.
    """
    base.check(fabric)
    if not isinstance(base, TableRoutes):
        raise NotApplicable(f"OpenSM loads forwarding tables, but {base.engine} has none")
    if base.lmc:
        raise InputError("the base routes of routing keys must not have an LMC")
    if base.num_vls > 1:
        raise NotApplicable(
            f"routing keys use one virtual lane; the {base.engine} routes use {base.num_vls}"
        )
    for key in keys:
        if key.fabric.digest != fabric.digest:
            raise InputError(f"key {key.name} is for another fabric than {fabric.name}")
    most = most_lmc(fabric)
    if lmc is not None:
        whole_number(lmc, "lmc", 1)
        if lmc > most:
            raise NotApplicable(f"{fabric.name} has room for an LMC of {most}, not {lmc}")
    paths = [key.paths for key in keys]
    starts = np.cumsum([0, *(len(edges) for _, edges in paths)])
    parts = [begin[1:] + start for (begin, _), start in zip(paths, starts[:-1], strict=True)]
    offset = np.concatenate([np.zeros(1, np.int64), *parts])
    edge = np.concatenate([np.zeros(0, np.int32), *(edges for _, edges in paths)])
    destination = np.concatenate([np.zeros(0, np.int32), *(key.endpoints[1] for key in keys)])
    chosen = np.zeros(len(destination), dtype=np.int32)
    graph = fabric.graph
    for size in range(min(1, most), most + 1) if lmc is None else (lmc,):
        graph.need_memory(fabric.num_destinations << size, 2, "ports")
        table = np.repeat(base.table, 1 << size, axis=0)
        taken = np.zeros(table.shape, dtype=np.bool_)
        left = give_offsets(destination, offset, edge, graph.parts, size, table, taken, chosen)
        if left < 0 or lmc is not None:
            ends = np.cumsum([0, *(len(key.sources) for key in keys)])
            name = f"{base.engine} with {len(keys)} routing key{'s' * (len(keys) != 1)}"
            routes = replace(
                base, table=table, lmc=size, engine=name, sl=np.zeros((), np.uint8),
                options={**base.options, "lmc": size},
            )  # fmt: skip
            return KeyTables(
                routes,
                tuple(chosen[low:high].copy() for low, high in pairwise(ends.tolist())),
            )
    host = fabric.node_names[int(fabric.endpoint_node[destination[left]])]
    raise NotApplicable(
        f"the paths of keys to {host} need more than {1 << most} LIDs; {fabric.name} has room for "
        f"an LMC of {most} ({MAX_LID:,} unicast LIDs; an LMC is at most {MAX_LMC})"
    )


def most_lmc(fabric: Fabric) -> int:
    """Return the largest LMC for which the unicast LIDs suffice, at most 7."""
    for lmc in range(MAX_LMC, 0, -1):
        # The LIDs of an endpoint begin at a multiple of their number; switches have one LID each.
        if (fabric.num_endpoints + 1 << lmc) + fabric.num_switches <= MAX_LID:
            return lmc
    return 0


def enough_lmc(network: KeyNetwork) -> int:
    """Return an LMC with which all paths up the network to a destination have a LID of their own.

    In a network of two levels with single cables no flow of any keys then lacks a LID. Elsewhere a
    flow takes the first LID that fits and not always the best one; twice the number of paths was
    enough in all networks and patterns that were tried. The result does not exceed `most_lmc`.
    """
    stages = network.stages
    paths = int((stages.planes * stages.parallel).prod())
    if len(stages.planes) > 1 or (stages.parallel > 1).any():
        paths *= 2
    return min(paths.bit_length(), most_lmc(network.fabric))


#: Entries of tables on paths: destination, LID offset, row, and output port, int64 each.
Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def entries_of(fabric: Fabric, whole: Fabric, key: InstalledKey) -> Entries:
    """Return the table entries of the paths of a key that have a LID of their own.

    `fabric`, `key`, `whole`: as for `installed_tables`.

    Raises `NotApplicable` if a path leads over a cable that is missing, or to a host without a
    cable.
    """
    present = np.zeros(whole.num_links, dtype=np.bool_)
    present[links_in(fabric, whole)] = True
    row_of_node = np.full(fabric.num_nodes, -1, dtype=np.int64)
    row_of_node[fabric.graph.row_node] = np.arange(fabric.graph.num_rows)
    count = np.diff(key.offset)
    destination = np.tile(fabric.host_endpoint[key.destinations], key.num_alternatives)
    own = (key.lid_offset.reshape(-1) > 0) & (count > 0)
    links = key.link[np.repeat(own, count)]
    if (destination[own] < 0).any() or not present[links].all():
        raise NotApplicable(f"key {key.name} uses cables that are missing")
    return (
        np.repeat(destination[own], count[own]).astype(np.int64),
        np.repeat(key.lid_offset.reshape(-1)[own], count[own]).astype(np.int64),
        row_of_node[whole.link_from[links]],
        whole.link_from_port[links].astype(np.int64),
    )


def installed_tables(
    fabric: Fabric, base: TableRoutes, keys: Sequence[InstalledKey], lmc: int, whole: Fabric
) -> TableRoutes:
    """Return tables with the paths of installed keys at the LIDs that these name.

    `fabric`: the fabric, or what is left of it. `base`: its routes of the first LID, on one virtual
    lane and without LMC. All other entries of a LID are those of the first LID, too. `keys`: the
    keys. Those with one destination must agree where they use the same LID. `whole`: the fabric
    with all cables, whose links the keys name.
    """
    fabric.graph.need_memory(fabric.num_destinations << lmc, 2, "ports")
    table = np.repeat(base.table, 1 << lmc, axis=0)
    every = []
    for key in keys:
        destination, offset, rows, port = entries_of(fabric, whole, key)
        line = (destination << lmc) + offset
        table[line, rows] = port
        every.append((key, line, rows, port))
    for key, line, rows, port in every:
        if (table[line, rows] != port).any():
            raise NotApplicable(f"another key needs other paths at the LIDs of key {key.name}")
    return replace(
        base, table=table, lmc=lmc, sl=np.zeros((), np.uint8),
        engine=f"{base.engine} with {len(keys)} routing key{'s' * (len(keys) != 1)}"
        if keys else base.engine,
        options={**base.options, "lmc": lmc},
    )  # fmt: skip
