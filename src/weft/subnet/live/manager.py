"""A running OpenSM that loads tables: what it sees, and safe replacement of its tables."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.core.files import write_bytes
from weft.fabrics import Fabric, check_fabric
from weft.fabrics.formats import FormatWarning
from weft.fabrics.formats.subnet_list import DiscoveredSubnet, read_seen
from weft.routing.opensm.lfts import lft_bytes, read_lfts
from weft.routing.opensm.lids import Lids, read_guid2lid
from weft.routing.opensm.osm_log import Sweep, is_foreign, last_error, sweeps
from weft.routing.opensm.ports import common, destination_name, port_guids, refuse_forwarding_hosts
from weft.routing.opensm.tables_folder import DUMP, SUBNET
from weft.routing.routes import Routes, TableRoutes
from weft.routing.routes.tables import distinct_lids
from weft.routing.validation.replacement import loading_steps
from weft.routing.validation.validate import validate
from weft.subnet.export import CACHE
from weft.subnet.live.daemon import DaemonFiles, Process, read_daemon
from weft.subnet.live.processes import check_limit, log_text, wait_for
from weft.subnet.live.sweep_log import GIVEN_UP, START, Mark, SweepLog
from weft.subnet.live.verify import (
    compare_cables,
    compared,
    differences,
    lids_of,
    unknown_cables,
    verify_tables,
)

#: Time limit in seconds for a sweep.
TIMEOUT_S = 120.0
#: Time limit in seconds for dumps that OpenSM is writing, and time between two attempts to read.
_WRITING_S = 2.0
_POLL_S = 0.02
#: Seconds to wait for a further sweep, at least, if the tables are not those of the file: a sweep
#: that was under way may have read the file before it was replaced.
_FURTHER_S = 1.0

_NO_SWEEP = Sweep(engine="", failed=(), up=False, errors=())

_T = TypeVar("_T")


@dataclass(frozen=True)
class Loaded:
    """Result of `Manager.load`."""

    #: Number of table entries that were compared with OpenSM's dump.
    entries: int
    #: Number of tables that were loaded one after the other, 1 to 3.
    steps: int
    #: Seconds from signals to OpenSM to the ends of its sweeps.
    sweep_s: float
    #: Seconds of the whole call.
    total_s: float


@dataclass(frozen=True, eq=False)
class _View:
    """The subnet in OpenSM's last dumps: fabric, LIDs, and cables that are not in the fabric."""

    fabric: Fabric
    lids: Lids
    seen: DiscoveredSubnet
    unknown: list[tuple[int, int, int, int]]


class Manager:
    """A running OpenSM that loads tables with its engine ``file``.

    - `fabric`: the expected fabric, with all cables.
    - `files`: files through which OpenSM is used.
    - `timeout_s`: time limit in seconds for each sweep.
    - `engine`: OpenSM's routing engine; `load` needs ``file``.
    """

    def __init__(
        self,
        fabric: Fabric,
        files: DaemonFiles,
        process: Process,
        *,
        lmc: int,
        timeout_s: float = TIMEOUT_S,
        engine: str = "file",
    ):
        check_fabric(fabric)
        refuse_forwarding_hosts(fabric)
        check_limit(timeout_s)
        self.fabric = fabric
        self.lmc = lmc
        self.files = files
        self.process = process
        self.timeout_s = timeout_s
        self.engine = engine
        self.last_sweep = _NO_SWEEP
        self._log = SweepLog(files.log)
        #: Position in the log after the last sweep that was awaited.
        self._end = START
        self._changed = True
        #: What the last dumps contain, and the tables in them, if they have been read.
        self._view: _View | None = None
        self._held: tuple[Fabric, TableRoutes] | None = None
        #: The tables that `load` loaded last.
        self._loaded: tuple[Fabric, TableRoutes] | None = None

    @classmethod
    def from_conf(
        cls,
        fabric: Fabric,
        conf: str | Path,
        *,
        pid: int | str | Path,
        cache: str | Path = CACHE,
        log: str | Path | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Manager:
        """Return the OpenSM that runs with a configuration file.

        - `fabric`: the expected fabric, with all cables.
        - `pid`: OpenSM's process id, or the path of a file that contains it.
        - `cache`: folder of ``guid2lid``, OpenSM's ``OSM_CACHE_DIR``.
        - `log`: OpenSM's log, if its command line names another one than opensm.conf, as Debian's
          does.
        - `timeout_s`: time limit in seconds for each sweep.
        """
        files, process, lmc = read_daemon(Path(conf), pid, Path(cache), log)
        return cls(fabric, files, process, lmc=lmc, timeout_s=timeout_s)

    # -- what OpenSM sees --------------------------------------------------------------------

    def lids(self) -> Lids:
        """Return the LIDs of all ports of `fabric` from guid2lid, 0 for ports without an entry."""
        return lids_of(self.fabric, read_guid2lid(self.files.guid2lid))

    def changed(self) -> bool:
        """Return whether OpenSM has swept since the last `present` or `load`.

        Only new lines of the log are read. The result is true before the first `present`.
        """
        if self._log.new_sweep():
            self._changed, self._view, self._held = True, None, None
        return self._changed

    def present(self) -> Fabric:
        """Return the fabric without the cables that OpenSM did not discover in its last sweep.

        Switches and hosts that are gone stay in the fabric, without cables.

        Raises `WeftError` if OpenSM's dumps cannot be read.
        """
        view = self._look()
        if view.unknown:
            raise InputError(unknown_cables(self.fabric, view.unknown))
        self._changed = False
        return view.fabric

    def intact(self) -> bool:
        """Return whether OpenSM programmed the tables that `load` loaded last in its last sweep.

        It did not if somebody replaced the file, or if another engine took the place of ``file``.
        The result is true before the first `load`.
        """
        if self._loaded is None:
            return True
        view, programmed = self._look(), self._tables()
        wanted = self._loaded[1].on(self._loaded[0], view.fabric)
        return not len(differences(view.fabric, view.lids, wanted, programmed))

    def _look(self) -> _View:
        """Return what the last dumps contain."""
        self.changed()
        if self._view is None:
            path = self.files.dumps / SUBNET
            seen = _once_written(lambda: read_seen(path), _is_whole)
            whole = np.ones(self.fabric.num_destinations, dtype=np.bool_)
            missing, unknown = compare_cables(self.fabric, seen, whole)
            fabric = self.fabric.without(cables=missing) if missing else self.fabric
            lids = lids_of(fabric, read_guid2lid(self.files.guid2lid))
            base = [seen.lid.get(guid, 0) for guid in port_guids(fabric).tolist()]
            there = np.array(base, dtype=np.int32)
            differ = np.flatnonzero((there > 0) & (there != lids.base))
            if len(differ):
                port = int(differ[0])
                raise WeftError(
                    f"{len(differ)} ports have other LIDs than in {self.files.guid2lid}, for "
                    f"example {destination_name(fabric, port)}: {there[port]} instead of "
                    f"{lids.base[port]}"
                )
            self._view = _View(fabric, Lids(there, lids.lmc), seen, unknown)
        return self._view

    def _tables(self) -> TableRoutes:
        """Return the tables of the switches that OpenSM sees, for the fabric that it sees."""
        view = self._look()
        if self._held is None:
            path = self.files.dumps / DUMP

            def read() -> TableRoutes:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FormatWarning)
                    return read_lfts(view.fabric, path, lids=view.lids, lmc=self.lmc)

            self._held = view.fabric, _once_written(read)
        fabric, tables = self._held
        return tables.on(fabric, view.fabric)

    # -- sweeps ------------------------------------------------------------------------------

    def sweep_again(self) -> Sweep:
        """Make OpenSM discover the subnet, read its files and route again."""
        mark = self._log.mark()
        self._hang_up()
        return self.await_sweep(mark, "OpenSM did not finish its sweep")

    def _hang_up(self) -> None:
        if not self.process.ended():
            try:
                os.kill(self.process.pid, signal.SIGHUP)
            except ProcessLookupError:
                pass  # it has just ended
            except OSError as error:
                raise WeftError(f"no signal can be sent to OpenSM: {error.strerror}") from None

    def await_sweep(
        self, mark: Mark, what: str, *outputs: Path, timeout_s: float | None = None
    ) -> Sweep:
        """Wait for the end of a sweep that is logged after a mark, and check its engine.

        `mark`: end of the log before the sweep; `START` for a new log. `what`: text for the message
        that says what did not happen. `*outputs`: further files in which OpenSM may say why.
        `timeout_s`: time limit in seconds, by default that of the manager.
        """
        log = self.files.log

        def done() -> bool:
            text, _, _ = self._log.since(mark)
            return GIVEN_UP in text or any(sweep.up for sweep in sweeps(text))

        def hint() -> str:
            if not is_foreign(log_text(log)):
                return ""
            return (
                f"; the format of {log.name} differs from that of OpenSM 3.3, so weft cannot tell "
                "whether the subnet is up"
            )

        limit = self.timeout_s if timeout_s is None else timeout_s
        wait_for(done, self.process.ended, [log, *outputs], limit, what, hint)
        text, self._end, _ = self._log.since(mark)
        found = [_NO_SWEEP, *sweeps(text)]
        self.last_sweep = next((sweep for sweep in found if sweep.up), found[-1])
        if self.last_sweep.engine != self.engine:
            reason = dict(self.last_sweep.failed).get(self.engine) or last_error(text)
            raise NotApplicable(
                f"OpenSM's {self.engine} refuses {self.fabric.name}"
                f"{': ' + reason if reason else ''}; it fell back to "
                f"{self.last_sweep.engine or 'none'}"
            )
        return self.last_sweep

    # -- loading -----------------------------------------------------------------------------

    def load(self, fabric: Fabric, routes: Routes) -> Loaded:
        """Replace the tables of all switches, and read them back.

        The routes must connect all pairs of hosts that cables connect, to all their LIDs, and be
        free of deadlock.

        OpenSM programs one switch after the other. Meanwhile a packet may meet previous entries at
        some switches and new ones at others. No such mixture can deadlock and, if the present
        tables connect all pairs, none loses a packet. If need be, other tables are loaded first:
        entries that no path uses are replaced before, or kept until after, those of paths.

        If a cable fails or is plugged in meanwhile, the new tables stay, and `changed` is true.

        `fabric`: the fabric of the routes: `present`, or `present` without further cables.
        `routes`: forwarding tables on one virtual lane, with the LMC of OpenSM.

        Raises `NotApplicable` if nothing was changed, because the tables do not fit OpenSM, are not
        valid, or can deadlock with the present ones; and `WeftError`, which says whether the
        previous tables are back.
        """
        begin = time.monotonic()
        view = self._look()
        tables = self._checked(fabric, routes, view)
        previous = self._tables()
        try:
            steps = loading_steps(view.fabric, previous, tables)
        except NotApplicable as refusal:
            raise NotApplicable(f"the {tables.engine} routes were not loaded: {refusal}") from None
        texts = [lft_bytes(view.fabric, step, lids=view.lids) for step in steps]
        if ended := self.process.ended():
            raise WeftError(f"OpenSM does not run ({ended}); nothing was changed")
        lfts = self.files.lfts
        try:
            backup = lfts.read_bytes() if lfts.exists() else None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=lfts) from None
        write_bytes(lfts, texts[0])
        entries, sweep_s, before = 0, 0.0, previous
        try:
            for text, step in zip(texts, steps, strict=True):
                if step is not steps[0]:
                    write_bytes(lfts, text)
                entries, seconds = self._exchange(view, before, step)
                sweep_s += seconds
                before = step
        except WeftError as failure:
            state = self._go_back(view, before, previous, backup)
            raise WeftError(f"{failure}; {state}") from None
        self._loaded = view.fabric, tables
        return Loaded(entries, len(steps), sweep_s, time.monotonic() - begin)

    def _checked(self, fabric: Fabric, routes: Routes, view: _View) -> TableRoutes:
        """Return the tables for the fabric that OpenSM sees, if they may be loaded; see `load`."""
        if self.engine != "file":
            raise InputError(
                f"OpenSM routes with its own engine {self.engine}; start it with the engine file"
            )
        if not isinstance(routes, TableRoutes):
            raise NotApplicable(f"OpenSM loads forwarding tables, but {routes.engine} has none")
        routes.check(fabric)
        if routes.lmc != self.lmc:
            raise InputError(f"OpenSM has LMC {self.lmc}, but the routes LMC {routes.lmc}")
        if routes.sl.any() or routes.lanes.tables[:, 0].any():
            raise NotApplicable(
                f"the {routes.engine} routes use service levels or lanes other than 0, which "
                "OpenSM's file of tables cannot hold"
            )
        if view.unknown:
            raise InputError(unknown_cables(self.fabric, view.unknown))
        tables = routes.on(fabric, view.fabric)
        if not validate(view.fabric, *distinct_lids(tables)).ok_where_connected:
            judged = validate(view.fabric, tables)
            raise NotApplicable(
                f"the {routes.engine} routes were not loaded, since they are not valid on the "
                f"cables that OpenSM sees: {'; '.join(judged.findings())}"
            )
        return tables

    def _exchange(self, view: _View, old: TableRoutes, new: TableRoutes) -> tuple[int, float]:
        """Make OpenSM load the file; return the number of compared entries and seconds of sweep.

        Raises `WeftError` if OpenSM fails, or programs other entries than those of `new`.
        """
        begin = time.monotonic()
        sweep = self.sweep_again()
        sweep_s = time.monotonic() - begin
        try:
            return self._compare(view, new, sweep), sweep_s
        except WeftError as failure:
            # A sweep that was under way may have read the file before it was replaced. Then the
            # switches still have the old tables, and the sweep of the signal follows at once.
            try:
                self._compare(view, old, sweep)
                limit = max(_FURTHER_S, 2 * sweep_s)
                sweep = self.await_sweep(self._end, "no further sweep", timeout_s=limit)
            except WeftError:
                raise failure from None
            return self._compare(view, new, sweep), time.monotonic() - begin

    def _compare(self, view: _View, tables: TableRoutes, sweep: Sweep) -> int:
        """Compare LIDs and tables with OpenSM's dumps; return the number of compared entries."""
        now = self._look()
        # LIDs must be those of before, since flows are sent to them.
        base = now.lids.base.copy()
        old, new = common(port_guids(view.fabric), port_guids(now.fabric))
        both = (base[new] > 0) & (view.lids.base[old] > 0)
        base[new[both]] = view.lids.base[old[both]]
        lids = Lids(base, now.lids.lmc)
        spans = read_guid2lid(self.files.guid2lid)
        given = tables.on(view.fabric, now.fabric)
        dump = self.files.dumps / DUMP
        found = _once_written(
            lambda: verify_tables(now.fabric, now.seen, spans, dump, sweep, lids, given)
        )
        self._held = now.fabric, found
        self._changed = now.fabric.digest != view.fabric.digest or bool(now.unknown)
        return compared(now.fabric, lids, self.lmc)

    def _go_back(
        self, view: _View, new: TableRoutes, previous: TableRoutes, backup: bytes | None
    ) -> str:
        """Restore the previous file and tables; return text about the state of the subnet."""
        try:
            if backup is None:
                self.files.lfts.unlink(missing_ok=True)
            else:
                write_bytes(self.files.lfts, backup)
        except (WeftError, OSError) as error:
            return f"the previous file could not be restored ({error})"
        try:
            if not self.process.ended():
                self._exchange(view, new, previous)
                return "the previous file is back, and the switches have its tables again"
        except WeftError as error:
            if not self.process.ended():
                return (
                    "the previous file is back, but the switches may have tables that lose pairs: "
                    f"{error}"
                )
        return (
            f"OpenSM does not run ({self.process.ended()}); the previous file is back, but the "
            "switches may have some entries of the new tables"
        )


def _once_written(read: Callable[[], _T], whole: Callable[[_T], bool] = lambda _: True) -> _T:
    """Read a file of OpenSM, again if OpenSM is writing it."""
    deadline = time.monotonic() + _WRITING_S
    while True:
        late = time.monotonic() > deadline
        try:
            value = read()
        except InputError:
            if late:
                raise
        else:
            if late or whole(value):
                return value
        time.sleep(_POLL_S)


def _is_whole(seen: DiscoveredSubnet) -> bool:
    """Return whether each cable is listed from both ends, as it is unless the end is missing."""
    return all((*end[2:], *end[:2]) in seen.cables for end in seen.cables)
