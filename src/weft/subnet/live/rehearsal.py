"""Rehearsal of new tables with the real OpenSM: loading, a failure meanwhile, and the way back.

At each moment the tables that the switches then hold are read from the switches, and followed over
the cables that are up. OpenSM's own view of the subnet is not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame_of_rows
from weft.core.counts import count_text
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, LinkKind
from weft.fabrics.named import named
from weft.routing.opensm.lids import read_guid2lid
from weft.routing.opensm.osm_log import NEED_QOS
from weft.routing.opensm.ports import port_guids
from weft.routing.opensm.tables_folder import GUID2LID, POLICY, read_tables
from weft.routing.routes import Routes, TableRoutes
from weft.routing.routes.mixed_tables import MixedTables
from weft.routing.routes.tables import distinct_lids
from weft.routing.validation.deadlock import CreditLoop, credit_loops
from weft.routing.validation.replacement import Replacement
from weft.routing.validation.validate import Validation, validate
from weft.subnet.live.running import sm_node
from weft.subnet.live.subnet import TIMEOUT_S, Subnet, live
from weft.subnet.live.verify import differences, lids_of

#: Parts that fail at random: a cable between switches, or a switch.
RANDOM, RANDOM_SWITCH = "random", "random-switch"
MOMENT_COLUMNS = {
    "moment": Column(pl.String, "", "what has just ended"),
    "took_s": Column(pl.Float64, "s", "time that it took, OpenSM's sweep included"),
    "changed_entries": Column(pl.Int64, "", "entries of the switches that it changed"),
    "changed_switches": Column(pl.Int64, "", "switches with such entries"),
    "lost_pairs": Column(pl.Int64, "", "ordered pairs of hosts that cables connect without a path"),
    "cut_off_pairs": Column(pl.Int64, "", "ordered pairs of hosts that no cables connect"),
    "deadlock": Column(
        pl.String, "", "whether the tables can deadlock; may: it depends on service levels"
    ),
    "between": Column(
        pl.String, "",
        "what can happen while the entries change one after the other: safe, loss, deadlock (on "
        "one lane) or, if packets are lost before or after it anyway, no deadlock; null if no "
        "entry changes",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class HeldTables:
    """What the switches hold at a moment."""

    name: str
    took_s: float
    #: The fabric with the cables that are up.
    fabric: Fabric
    #: The tables of `fabric` that the switches hold.
    routes: TableRoutes
    validation: Validation
    changed_entries: int
    changed_switches: int
    #: Credit loops, and number of entries that lose packets, while entries since the last moment
    #: change, on the present cables; None if the previous or the present tables lose some, too.
    loops_between: list[CreditLoop] = field(default_factory=list)
    lost_between: int | None = None

    @property
    def lost_pairs(self) -> int:
        """Number of ordered pairs of hosts that cables connect, but the tables do not."""
        return self.validation.num_unrouted_pairs - self.validation.num_disconnected_pairs

    def without_path(self) -> NDArray[np.int64]:
        """Return these pairs as numbers, source times hosts plus destination, int64 [pairs]."""
        source, target = self.validation.unrouted_connected_pairs.T
        return np.asarray(source * self.fabric.num_hosts + target)

    @property
    def deadlock(self) -> str:
        """Whether the tables can deadlock."""
        return self.validation.deadlock

    def row(self) -> tuple[Any, ...]:
        """Return the values of `MOMENT_COLUMNS`."""
        between = None
        if self.changed_entries:
            between = "no deadlock" if self.lost_between is None else "safe"
            between = "loss" if self.lost_between else between
            between = "deadlock" if self.loops_between else between
        return (
            self.name, self.took_s, self.changed_entries, self.changed_switches, self.lost_pairs,
            self.validation.num_disconnected_pairs, self.deadlock, between,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A rehearsed change; see `rehearse`."""

    fabric: Fabric
    #: The parts that failed.
    failed: tuple[str, ...]
    #: What changes, and the steps of loading.
    change: Replacement
    moments: tuple[HeldTables, ...]
    #: Why it is not safe to load the tables, or they cannot be taken back; empty if neither is so.
    problems: tuple[str, ...]
    #: What the failure costs, and what OpenSM's answers to it risk.
    risks: tuple[str, ...]
    #: Whether none of these is on the way back.
    returns: bool
    notes: tuple[str, ...]

    def table(self) -> pl.DataFrame:
        """Return a row for each moment; see `MOMENT_COLUMNS`."""
        return frame_of_rows(MOMENT_COLUMNS, [moment.row() for moment in self.moments])

    @cached_property
    def worst(self) -> HeldTables:
        """The first moment that can deadlock or, then, has the most pairs without a path."""
        return max(
            self.moments,
            key=lambda moment: (
                moment.deadlock != "no", moment.lost_pairs, moment.validation.num_unrouted_pairs,
            ),
        )  # fmt: skip

    @property
    def verdict(self) -> str:
        """Whether the tables are safe to load and to take back, in a few words."""
        if self.problems:
            return "NOT SAFE TO LOAD"
        if self.moments[0].deadlock != "no":
            return "no worse than the present tables, which can deadlock"
        if not self.returns:
            return "safe to load, but not to take back while the parts are failed"
        return "safe to load and to take back"

    def text(self) -> list[str]:
        """Return the verdict, and what it rests on, as one line each."""
        worst = self.worst
        return [
            self.verdict,
            *(f"problem: {problem}" for problem in self.problems),
            *(f"risk: {risk}" for risk in self.risks),
            f"worst moment: {worst.name}: {worst.lost_pairs:,} pairs without a path although "
            f"cables connect them, {worst.validation.num_disconnected_pairs:,} cut off; deadlock: "
            f"{worst.deadlock}",
            *self.notes,
        ]


def rehearse(
    fabric: Fabric,
    routes: Routes,
    *,
    before: str | Path | None = None,
    engine: str = "minhop",
    fail: Sequence[str] = (RANDOM,),
    at: int | None = None,
    seed: int = 0,
    sm_host: str | int | None = None,
    options: Mapping[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
    keep: str | Path | None = None,
    look: Callable[[Subnet, HeldTables], None] | None = None,
) -> Rehearsal:
    """Load tables on a simulated fabric, let a part fail meanwhile, go back, and repair it.

    Parameters
    ----------
    fabric, routes
        The fabric and the new forwarding tables.
    before
        The present tables, which OpenSM loads with its engine ``file``: an LFT dump, or a folder
        with one. None if an engine of OpenSM computes them.
    engine
        That engine of OpenSM.
    fail
        Parts that fail together, as for `weft.fabrics.named.named`: switches, machines, cables as
        ``node[port]``; ``random`` for a cable between switches, ``random-switch`` for a switch.
    at
        Number of the step of loading after which they fail, from 1 on; by default the middle one.
    seed
        Seed of random parts.
    sm_host, options, timeout_s, keep
        As for `weft.live`; by default OpenSM runs on a host that does not fail.
    look
        Called at each moment with the subnet.

    Returns
    -------
    Rehearsal
        The moments: before; after each step of loading, up to that of the failure; after the
        failure; after OpenSM's sweep; after each step back; after the repair.

    Raises
    ------
    NotApplicable
        If OpenSM cannot load the tables, or its engine refuses the fabric at the start.
    InputError
        If a part or step does not exist, or the tables are of another fabric or have another LMC.
    """
    routes.check(fabric)
    if not isinstance(routes, TableRoutes):
        raise NotApplicable(f"OpenSM loads forwarding tables, but {routes.engine} has none")
    names, ports = _failing(fabric, fail, seed)
    if before is not None and POLICY in read_tables(Path(before)).files:
        raise NotApplicable(
            f"the present tables in {before} use service levels, which OpenSM's engine file cannot "
            "go back to; give the engine of OpenSM that computed them"
        )
    with live(
        fabric,
        None if before is not None else engine,
        tables=before,
        lmc=routes.lmc if before is None else None,
        sm_host=_manager_host(fabric, ports, names, sm_host),
        options=options,
        timeout_s=timeout_s,
        keep=keep,
    ) as subnet:
        trial = _Trial(subnet, routes, look)
        trial.note("before")
        change = Replacement(fabric, trial.held, routes)
        at = (len(change.steps) + 1) // 2 if at is None else at
        if not 1 <= at <= len(change.steps):
            steps = count_text(len(change.steps), "step")
            raise InputError(f"the tables are loaded in {steps}; there is no step {at}")
        first, of = trial.moments[0], f" of {len(change.steps)}"
        for number, step in enumerate(change.steps[:at], 1):
            trial.load(step, f"load, step {number}{of}" if len(change.steps) > 1 else "load")
        loaded = trial.moments[1:]
        trial.note(f"failure of {', '.join(names)}", lambda: subnet.unlink(*ports, sweep=False))
        trial.note("OpenSM's sweep", subnet.manager.sweep_again, may_fall_back=True)
        trial.back(None if before is not None else engine, first.routes)
        trial.note("repair", lambda: subnet.relink(*ports), may_fall_back=True)
        faults = [
            (moment in loaded, fault)
            for earlier, moment in pairwise(trial.moments)
            for fault in _faults(first, earlier, moment)
        ]
        way_back = [*pairwise(trial.moments)][len(loaded) + 2 : -1]
        returns = not any(_faults(first, *each) for each in way_back)
        last = trial.moments[-1].routes.table
        differ = int(np.count_nonzero(last != first.routes.table))
        if differ:
            entries = count_text(differ, "entry")
            text = f"after the repair, {entries} differ from those of before"
            if before is None:  # OpenSM's engines may keep entries of the time of the failure
                trial.notes.append(text)
            else:
                faults.append((True, text))
        return Rehearsal(
            fabric, names, change, tuple(trial.moments),
            problems=tuple(fault for ours, fault in faults if ours),
            risks=tuple(fault for ours, fault in faults if not ours),
            returns=returns, notes=tuple(trial.notes),
        )  # fmt: skip


class _Trial:
    """A subnet whose tables are read at each moment."""

    def __init__(
        self,
        subnet: Subnet,
        after: TableRoutes,
        look: Callable[[Subnet, HeldTables], None] | None,
    ):
        self.subnet, self.after, self.look = subnet, after, look
        self.moments: list[HeldTables] = []
        self.notes: list[str] = [*subnet.notes]
        #: The tables that OpenSM loaded, with their lanes; None if its own engine computed them.
        self.loaded: TableRoutes | None = None
        self._own_lanes = subnet.engine in (*NEED_QOS, "nue")
        #: What the switches hold, as tables of the whole fabric.
        self.held = subnet.lfts()

    def note(
        self,
        name: str,
        action: Callable[[], object] = lambda: None,
        *,
        may_fall_back: bool = False,
    ) -> None:
        """Do something, and add the moment after it.

        `may_fall_back`: whether OpenSM may use another engine than its own one, with a note.
        """
        start = time.monotonic()
        try:
            action()
        except NotApplicable as refusal:
            if not may_fall_back:
                raise
            self.notes.append(f"{name}: {refusal}")
        took_s = time.monotonic() - start
        subnet, earlier = self.subnet, self.held
        whole, fabric = subnet.initial_fabric, subnet.fabric
        self._read(fabric)
        lids = lids_of(whole, read_guid2lid(subnet.folder / GUID2LID))
        changed = differences(whole, lids, earlier, self.held)
        one, other = (each.on(whole, fabric) for each in (earlier, self.held))
        loops: list[CreditLoop] = []
        lost = None
        if len(changed):
            mixture = MixedTables.of(*distinct_lids(one, other))
            loops, _ = credit_loops(fabric, mixture)
            if not any(MixedTables.of(each, each).lost(fabric) for each in (one, other)):
                lost = mixture.lost(fabric)
        known = not (self._own_lanes if self.loaded is None else self.loaded.num_vls > 1)
        if self.loaded is self.after and np.array_equal(port_guids(fabric), port_guids(whole)):
            with_lanes = replace(self.after, fabric_digest=fabric.digest)
            if np.array_equal(other.table, with_lanes.table):
                other, known = with_lanes, True
        moment = HeldTables(
            name, took_s, fabric, other, validate(fabric, other, levels_known=known), len(changed),
            len(np.unique(changed[:, 1])), loops, lost,
        )  # fmt: skip
        self.moments.append(moment)
        if self.look is not None:
            self.look(subnet, moment)

    def _read(self, fabric: Fabric) -> None:
        """Read the tables of the switches in OpenSM's reach; the others keep theirs."""
        label = fabric.graph.components
        own = np.flatnonzero(fabric.endpoint_node == self.subnet.manager_node)[0]
        rows = np.flatnonzero(label == label[fabric.graph.destination_row[own]])
        self.held = _laid_over(
            self.held, self.subnet.initial_fabric, self.subnet.lfts(), fabric, rows
        )

    def load(self, step: TableRoutes, name: str) -> None:
        """Let OpenSM load tables of the whole fabric."""
        subnet = self.subnet
        self.loaded = step
        if subnet.engine == "file" and self.after.num_vls == 1:
            self.note(name, lambda: subnet.reload(step))
        else:
            self.note(name, lambda: subnet.restart(step))

    def back(self, engine: str | None, first: TableRoutes) -> None:
        """Go back to the engine of before or, without one, to the tables of before."""
        subnet = self.subnet
        if engine is None:
            whole, fabric = subnet.initial_fabric, subnet.fabric
            ends = (each.on(whole, fabric) for each in (self.held, first))
            steps = Replacement(fabric, *ends).steps
            for number, step in enumerate(steps, 1):
                of = f", step {number} of {len(steps)}" if len(steps) > 1 else ""
                self.load(_laid_over(first, whole, step, fabric, slice(None)), f"back{of}")
            return
        self.loaded = None
        self.note(f"back to {engine}", lambda: subnet.restart(engine), may_fall_back=True)


def _laid_over(
    tables: TableRoutes, whole: Fabric, part: TableRoutes, fabric: Fabric, rows: Any
) -> TableRoutes:
    """Return tables of the whole fabric with the entries of `part`, of `fabric`, in some rows."""
    there = np.isin(port_guids(whole), port_guids(fabric))
    lines = np.repeat(there, 1 << tables.lmc)[:, None]
    own = np.zeros(tables.table.shape[1], dtype=np.bool_)
    own[rows] = True
    table = np.where(lines & own, part.on(fabric, whole).table, tables.table)
    return replace(tables, table=table)


def _faults(first: HeldTables, earlier: HeldTables, moment: HeldTables) -> list[str]:
    """Return what is worse at a moment, or just before it, than before the change.

    `first`, `earlier`: the moments before the change, and before `moment`.
    """
    faults = []
    known = np.union1d(first.without_path(), earlier.without_path())
    lost = np.setdiff1d(moment.without_path(), known)
    if len(lost):
        ends = divmod(int(lost[0]), first.fabric.num_hosts)
        source, target = (first.fabric.host_names[host] for host in ends)
        faults.append(
            f"after {moment.name}, {count_text(len(lost), 'pair')} without a path that had one "
            f"before and that cables connect, for example {source} to {target}"
        )
    if moment.deadlock != "no" and first.deadlock == "no":
        loop = moment.validation.credit_loops[0].text(moment.fabric)
        faults.append(
            f"after {moment.name}, packets {moment.deadlock} deadlock, for example {loop}"
        )
    if moment.loops_between and earlier.deadlock == moment.deadlock == "no":
        loop = moment.loops_between[0].text(moment.fabric)
        faults.append(
            f"during {moment.name}, while entries change, packets can deadlock, for example {loop}"
        )
    if moment.lost_between:
        faults.append(
            f"during {moment.name}, while entries change, packets can be lost at "
            f"{count_text(moment.lost_between, 'entry')}"
        )
    return faults


def _failing(
    fabric: Fabric, parts: Sequence[str], seed: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of failing parts, and a port of each of their cables."""
    random = np.random.default_rng(seed)
    between = 2 * np.flatnonzero(fabric.link_kind[::2] == LinkKind.SWITCH_SWITCH)
    if RANDOM in parts and not len(between):
        raise InputError(f"{fabric.name} has no cable between switches that could fail")

    def port(link: int) -> str:
        return fabric.port_name(int(fabric.link_from[link]), int(fabric.link_from_port[link]))

    drawn = {
        RANDOM: lambda: port(random.choice(between)),
        RANDOM_SWITCH: lambda: fabric.node_names[int(random.integers(fabric.num_switches))],
    }
    failed = named(fabric, [drawn[part]() if part in drawn else part for part in parts])
    of_switches = np.flatnonzero(np.isin(fabric.link_from, failed.switches)) >> 1
    links = 2 * np.union1d(failed.cables, of_switches)
    if not len(links):
        raise InputError(f"no cable fails: {', '.join(failed.labels) or 'nothing'} has none")
    return failed.labels, tuple(map(port, links.tolist()))


def _manager_host(
    fabric: Fabric, ports: Sequence[str], names: Sequence[str], sm_host: str | int | None
) -> int:
    """Return the host on which OpenSM runs, by default in the largest part that is left."""
    left = fabric.without(cables=ports)
    if sm_host is None:
        part = left.graph.components
        aside = left.graph.row_node[part != np.bincount(part).argmax()]
        cables = np.flatnonzero(np.isin(left.link_from, aside)) >> 1
        return sm_node(left.without(cables=np.unique(cables).tolist()), None)
    own = sm_node(fabric, sm_host)
    if not (left.endpoint_node == own).any():
        raise InputError(
            f"the failure of {', '.join(names)} cuts off {fabric.node_names[own]}, on which OpenSM "
            "runs; choose another host for it"
        )
    return own
