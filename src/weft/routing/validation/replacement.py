"""Replacement of the tables of a running subnet: what it changes, and by which steps it is safe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing.engine_registry import row_sources
from weft.routing.routes import TableRoutes
from weft.routing.routes.mixed_tables import MixedTables, detour
from weft.routing.routes.tables import distinct_lids
from weft.routing.validation.deadlock import CreditLoop, credit_loops
from weft.routing.validation.validate import reached_rows

#: Columns of `Replacement.switches`.
SWITCH_COLUMNS = {
    "switch": Column(pl.String, "", "name of the switch"),
    "guid": Column(pl.String, "", "node GUID of the switch"),
    "entries": Column(pl.Int64, "", "entries of its forwarding table that change"),
}
#: Columns of `Replacement.hosts`. A pair is a source and this host; an LMC's LIDs count together.
HOST_COLUMNS = {
    "host": Column(pl.String, "", "name of the host that packets are sent to"),
    "moved_pairs": Column(pl.Int64, "", "pairs with a path before and after, which changes"),
    "gained_pairs": Column(pl.Int64, "", "pairs that have a path only after"),
    "lost_pairs": Column(pl.Int64, "", "pairs that have a path only before"),
}
#: Maximum number of entries of the tables that are followed at a time.
_CHUNK = 1 << 24


@dataclass(frozen=True, eq=False)
class Replacement:
    """The tables of a fabric, and those by which they are replaced.

    Raises `InputError` if the two have different LMCs: then LIDs of ports change, too.
    """

    fabric: Fabric
    before: TableRoutes
    after: TableRoutes

    def __post_init__(self) -> None:
        if self.before.lmc != self.after.lmc:
            raise InputError(
                f"the present tables have LMC {self.before.lmc}, the new ones {self.after.lmc}; "
                "with another LMC the LIDs of ports change, and no connection remains"
            )

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """Whether each entry changes, bool [all LIDs, switches]."""
        return np.asarray(self.before.table != self.after.table)

    @cached_property
    def switches(self) -> pl.DataFrame:
        """Switches with entries that change, most entries first; see `SWITCH_COLUMNS`."""
        entries = self.changed.sum(axis=0)
        order = np.argsort(-entries, kind="stable")[: np.count_nonzero(entries)].tolist()
        data = {
            "switch": [self.fabric.node_names[switch] for switch in order],
            "guid": [f"{self.fabric.node_guid[switch]:#018x}" for switch in order],
            "entries": entries[order],
        }
        return frame(SWITCH_COLUMNS, data)

    @cached_property
    def hosts(self) -> pl.DataFrame:
        """Pairs whose path changes, by the host packets are sent to; see `HOST_COLUMNS`."""
        fabric, lmc = self.fabric, self.before.lmc
        hosts = np.flatnonzero(fabric.host_endpoint >= 0)
        ends = fabric.host_endpoint[hosts]
        counts = np.zeros((3, len(ends)), dtype=np.int64)
        rows = fabric.graph.num_rows
        for first in range(0, len(ends), size := max(1, (_CHUNK // rows) >> lmc)):
            some = ends[first : first + size].astype(np.int32)
            moved = np.zeros((len(some), rows), dtype=np.bool_)
            routed = np.ones((2, len(some), rows), dtype=np.bool_)
            for lid in range(1 << lmc):
                one, other = (
                    TableRoutes(each.engine, fabric.digest, table=each.table[lid :: 1 << lmc])
                    for each in (self.before, self.after)
                )
                routed &= [reached_rows(fabric, each, some) for each in (one, other)]
                moved |= _moved(fabric, one, other, some)
            # A host does not send to itself.
            sources = np.tile(row_sources(fabric), (len(some), 1))
            sources[np.arange(len(some)), fabric.graph.destination_row[some]] -= 1
            for count, kind in zip(
                counts,
                (moved & routed[0] & routed[1], routed[1] & ~routed[0], routed[0] & ~routed[1]),
                strict=True,
            ):
                count[first : first + size] = (kind * sources).sum(axis=1)
        names = [fabric.host_names[host] for host in hosts.tolist()]
        return frame(HOST_COLUMNS, dict(zip(HOST_COLUMNS, (names, *counts), strict=True)))

    @property
    def steps(self) -> list[TableRoutes]:
        """Tables to load one after the other; only the new ones if no way is safe."""
        return self._way[0]

    @property
    def refusal(self) -> str:
        """Why packets can deadlock meanwhile, whatever is loaded first; empty if a way is safe."""
        return self._way[1]

    @cached_property
    def _way(self) -> tuple[list[TableRoutes], str]:
        try:
            return loading_steps(self.fabric, self.before, self.after), ""
        except NotApplicable as refusal:
            return [self.after], str(refusal)

    def facts(self) -> dict[str, int | bool]:
        """Return the numbers of entries, switches, pairs and steps, and whether a way is safe."""
        pairs = {name: int(self.hosts[name].sum()) for name in [*HOST_COLUMNS][1:]}
        counts = {"entries": int(self.changed.sum()), "switches": self.switches.height, **pairs}
        return {**counts, "steps": len(self.steps), "safe": not self.refusal}

    def text(self) -> list[str]:
        """Return what changes, and whether it is safe, as one line each."""
        facts = self.facts()
        safe = "safe: no mixture of present and new entries loses packets or deadlocks"
        if self.refusal:
            loops, _ = credit_loops(self.fabric, self.before)
            safe = "no safer than the present tables, which can deadlock, too"
            if not loops:
                safe = "NOT SAFE; load them while no job runs"
            lane = " (if all packets share one lane)" if self.after.num_vls > 1 else ""
            safe += f": {self.refusal}{lane}"
        elif len(self.steps) > 1:
            safe = (
                f"safe in {len(self.steps)} steps, with other tables between; mixtures of the "
                "present and the new entries could lose packets or deadlock"
            )
        return [
            f"{facts['entries']:,} entries change, in {facts['switches']:,} of "
            f"{self.changed.shape[1]:,} switches",
            f"{facts['moved_pairs']:,} pairs of hosts get another path, {facts['gained_pairs']:,} "
            f"gain a path, {facts['lost_pairs']:,} lose their path",
            f"while loading: {safe}",
        ]


def _moved(
    fabric: Fabric, before: TableRoutes, after: TableRoutes, endpoints: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return whether an entry on the path changes, bool [endpoints, rows]; the tables have LMC 0.

    A path changes if and only if an entry on the previous path does. Paths are followed from all
    rows at once: after n rounds a row knows about the first 2**n entries of its path.
    """
    graph = fabric.graph
    moved: NDArray[np.bool_] = before.table[endpoints] != after.table[endpoints]
    rows = np.arange(graph.num_rows)
    slot = graph.row_base[:-1] + before.table[endpoints].astype(np.int64)
    known = slot < graph.row_base[1:]
    link = np.where(known, graph.row_link[np.where(known, slot, 0)], -1)
    head = np.where(link >= 0, graph.link_row[link], -1)
    following = np.where(head >= 0, head, rows)
    for _ in range(int(graph.num_rows).bit_length()):
        moved |= np.take_along_axis(moved, following, axis=1)
        following = np.take_along_axis(following, following, axis=1)
    return moved


def loading_steps(fabric: Fabric, before: TableRoutes, after: TableRoutes) -> list[TableRoutes]:
    """Return tables to load one after the other; the last ones are the new tables.

    No mixture of consecutive tables can deadlock. If the previous and the new tables lose no
    packets, no mixture does; otherwise as few steps as possible are taken.

    Raises `NotApplicable` if some mixture can deadlock, whatever is loaded first.
    """

    def mixed(one: TableRoutes, other: TableRoutes) -> MixedTables:
        return MixedTables.of(*distinct_lids(one, other))

    lossless = not any(mixed(end, end).lost(fabric) for end in (before, after))
    loops: list[CreditLoop] = []
    for way in _ways(fabric, before, after):
        for one, other in pairwise([before, *way]):
            mixture = mixed(one, other)
            loops, _ = credit_loops(fabric, mixture)
            if loops or (lossless and mixture.lost(fabric)):
                break
        else:
            return way
    raise NotApplicable(
        "while switches have entries of both tables, packets can deadlock, for example "
        f"{loops[0].text(fabric)}"
    )


def _ways(fabric: Fabric, before: TableRoutes, after: TableRoutes) -> Iterator[list[TableRoutes]]:
    """Iterate over tables to load one after the other, the shortest way first."""
    yield [after]
    first, last = detour(fabric, before, after)
    yield from ([first, after], [last, after], [first, last, after])
