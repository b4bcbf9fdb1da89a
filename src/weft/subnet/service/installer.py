"""Installation of tables in OpenSM, in a process of its own, so that grants do not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import WeftError
from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes
from weft.sim.keys.alternatives import InstalledKey, links_in
from weft.sim.keys.tables import installed_tables
from weft.subnet.live.manager import Loaded, Manager
from weft.subnet.service.makers import base_routes
from weft.subnet.service.workers import Worker


@dataclass(frozen=True)
class Attachment:
    """Where a running OpenSM is; see `Manager.from_conf`."""

    #: Path of opensm.conf, the folder of guid2lid, and the log if opensm.conf does not name it.
    conf: Path
    #: Process id, or the file that contains it.
    pid: str
    cache: Path
    log: Path | None
    #: Time limit for a sweep.
    timeout_s: float

    def manager(self, fabric: Fabric) -> Manager:
        """Return the manager of a fabric; see `Manager.from_conf` for errors."""
        pid: int | str = int(self.pid) if self.pid.isdecimal() else self.pid
        return Manager.from_conf(
            fabric, self.conf, pid=pid, cache=self.cache, log=self.log, timeout_s=self.timeout_s
        )


@dataclass(frozen=True)
class Seen:
    """What OpenSM sees."""

    #: Cables of the fabric that it did not discover.
    missing: tuple[int, ...]
    #: Whether it is another process than before.
    restarted: bool
    #: Whether the switches have the tables that were loaded last.
    intact: bool = True


class Installer:
    """The worker process that loads tables into a running OpenSM.

    `fabric`: the whole fabric. `engines`: engines of the base routes; the first that fits is used.
    """

    def __init__(self, fabric: Fabric, attachment: Attachment, engines: Sequence[str]) -> None:
        manager = attachment.manager(fabric)
        self.lmc = manager.lmc
        self._worker = Worker(
            "loads tables into OpenSM", _attach, fabric, attachment, tuple(engines)
        )

    async def look(self) -> Seen | None:
        """Return what OpenSM sees; None if it has not swept since.

        Raises `WeftError` as `Manager.present`.
        """
        return await self._worker.run(_look)

    async def lids(self) -> NDArray[np.int64]:
        """Return the base LID of each host, 0 for hosts without one."""
        return await self._worker.run(_lids)

    async def install(self, keys: Sequence[InstalledKey], missing: tuple[int, ...]) -> Loaded:
        """Load tables with the paths of keys, and compare what OpenSM programmed.

        `keys`: all keys that shall be in the tables.

        Raises `WeftError` as `Manager.load`; the message says which tables the subnet has now.
        """
        return await self._worker.run(_install, list(keys), missing)

    def close(self) -> None:
        """End the process."""
        self._worker.close()


# -- in the worker process ---------------------------------------------------------------------


class _Worker:
    """The subnet manager of a worker process."""

    def __init__(self, fabric: Fabric, attachment: Attachment, engines: tuple[str, ...]) -> None:
        self.fabric = fabric
        self.engines = engines
        self.manager = attachment.manager(fabric)
        self._pid = self.manager.process.pid

    @lru_cache(maxsize=4)  # noqa: B019 - one worker lives as long as its process
    def present(self, missing: tuple[int, ...]) -> tuple[Fabric, TableRoutes]:
        """Return the fabric without some cables, and its base routes."""
        fabric = self.fabric.without(cables=missing) if missing else self.fabric
        return fabric, base_routes(fabric, self.engines)

    def look(self) -> Seen | None:
        """Return what OpenSM sees; None if it has not swept since."""
        if ended := self.manager.process.ended():
            raise WeftError(f"OpenSM does not run: {ended}")
        if not self.manager.changed():
            return None
        intact, pid = self.manager.intact(), self.manager.process.pid
        seen = np.zeros(self.fabric.num_links, dtype=np.bool_)
        seen[links_in(self.manager.present(), self.fabric)] = True
        # Only now: all that is seen is returned once.
        restarted, self._pid = self._pid != pid, pid
        return Seen(tuple(np.flatnonzero(~seen[0::2]).tolist()), restarted, intact)


_make: Callable[[], _Worker] | None = None


def _attach(fabric: Fabric, attachment: Attachment, engines: tuple[str, ...]) -> None:
    global _make  # noqa: PLW0603 - one per process
    # Not at once, since OpenSM may not run when a process replaces one that died.
    _make = cache(lambda: _Worker(fabric, attachment, engines))


def _here() -> _Worker:
    assert _make is not None  # set by `_attach`
    return _make()


def _look() -> Seen | None:
    return _here().look()


def _lids() -> NDArray[np.int64]:
    worker = _here()
    ends = worker.fabric.host_endpoint
    base = worker.manager.lids().base.astype(np.int64)
    return np.where(ends >= 0, base[ends], 0)


def _install(keys: list[InstalledKey], missing: tuple[int, ...]) -> Loaded:
    worker = _here()
    fabric, base = worker.present(missing)
    tables = installed_tables(fabric, base, keys, worker.manager.lmc, worker.fabric)
    return worker.manager.load(fabric, tables)
