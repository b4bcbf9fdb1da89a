"""The keeper of keys: it makes the keys of applications, installs them, and watches the subnet.

It tells the service (`weft.subnet.service.service`) by events; the service knows nothing of it.
Keys are made in one process and installed by another meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.sim.keys.alternatives import InstalledKey
from weft.subnet.service import makers
from weft.subnet.service.installer import Installer
from weft.subnet.service.ledger import (
    Application,
    Event,
    Failed,
    KeyState,
    Made,
    Rebased,
    Refused,
    Withdrawn,
)
from weft.subnet.service.service import TICK_S, Service
from weft.subnet.service.workers import Worker

log = logging.getLogger("weft.serve")
#: Seconds after which tables that could not be loaded are tried again.
_RETRY_S = 10.0


class Keeper:
    """Keeps the keys of a service's applications in the subnet.

    `installer`: where tables are installed; None without a subnet manager.
    """

    def __init__(self, service: Service, installer: Installer | None = None) -> None:
        self.service = service
        self.installer = installer
        self._subnet = service.subnet
        self._subnet.managed = installer is not None
        self._subnet.proved = installer is None
        # Long work on the keys of one application does not hold up the next application.
        self._makers = Worker("makes keys", makers.initialise, service.fabric, service.settings)
        self._installing = asyncio.Lock()
        #: Whether keys or tables are not yet those of what OpenSM sees, and when to try again.
        self._unsettled = False
        self._try_again = 0.0
        #: Whether keys with flows on the base routes are yet to be withdrawn, since these changed.
        self._base_changed = False
        #: Missing cables for which the ledger has the base routes; None if this is not known.
        self._based: tuple[int, ...] | None = None
        #: int [hosts]: base LIDs that OpenSM has now.
        self._lids = np.zeros(0, dtype=np.int64)

    async def start(self) -> None:
        """Start the service, the making of keys that are not made yet, and the watch."""
        await self.service.start()
        self.service.spawn(self._makers.start())
        if self.installer is not None:
            await self._attach()
            self.service.spawn(self.service.every_tick(self._look))
            # Beside the watch, which does not wait for the process that makes keys.
            self.service.spawn(self.service.every_tick(self._follow_base))
        self.service.spawn(self._keep_making())
        self._make_missing()

    async def stop(self) -> None:
        """End the service, and all tasks and processes; the state is in the store."""
        await self.service.stop()
        self._makers.close()
        if self.installer is not None:
            self.installer.close()

    # -- keys --------------------------------------------------------------------------------

    def _make_missing(self) -> None:
        """Make all keys that are not ready, for example after a restart."""
        for name, application in self.service.ledger.applications.items():
            if any(phase.state is not KeyState.READY for phase in application.phases.values()):
                self.service.unmade.put_nowait(name)

    async def _keep_making(self) -> None:
        """Make and install the keys of applications, all that wait at once."""
        while True:
            names = {await self.service.unmade.get()}
            while not self.service.unmade.empty():
                names.add(self.service.unmade.get_nowait())
            try:
                done = await self._make(sorted(names))
            except WeftError:  # recorded; the tables may be there, but nothing was offered
                await asyncio.sleep(TICK_S)
                done = False
            except Exception:
                log.exception("keys could not be made")
                await self._give_up(names)
                done = True
            for name in () if done else names:
                self.service.unmade.put_nowait(name)

    async def _make(self, names: Sequence[str]) -> bool:
        """Make, install and offer the keys of applications that are not ready.

        Returns False if cables died or came back meanwhile, so that it has to be done again.
        """
        missing = self._subnet.missing
        made: list[tuple[Application, makers.MadeKey]] = []
        failed: list[tuple[Application, str, str]] = []
        for name in names:
            application = self.service.ledger.applications.get(name)
            if application is None:
                continue
            wanted = {
                phase.name: (phase.sources, phase.destinations)
                for phase in application.phases.values()
                if phase.state is not KeyState.READY
            }
            try:
                results = await self._makers.run(
                    makers.make,
                    wanted,
                    missing,
                    makers.seed_of(name),
                    [phase.key for phase in application.phases.values() if phase.key is not None],
                    limit_s=self.service.rules.make_limit_s,
                )
            except WeftError as error:
                results = [(phase, str(error)) for phase in wanted]
            for each in results:
                if isinstance(each, makers.MadeKey):
                    made.append((application, each))
                else:
                    failed.append((application, *each))
        # The lock also covers the offer: the next installation includes only keys of the ledger.
        async with self._installing:
            if made and self.installer is not None and missing == self._subnet.missing:
                made, refused = await self._install_keys(made)
                failed += refused
            if missing != self._subnet.missing:
                return False
            await self._offer(missing, made, failed)
        return missing == self._subnet.missing

    async def _install_keys(
        self, made: list[tuple[Application, makers.MadeKey]]
    ) -> tuple[list[tuple[Application, makers.MadeKey]], list[tuple[Application, str, str]]]:
        """Install keys; if that fails, those of one application after the other.

        Returns keys that are in the tables now, and phases without, with the reason.
        """
        ready = list(self._ready().values())
        error = await self._install([*ready, *(each.key for _, each in made)])
        if error is None:
            return made, []
        names = dict.fromkeys(application.name for application, _ in made)
        done: list[tuple[Application, makers.MadeKey]] = []
        failed: list[tuple[Application, str, str]] = []
        for name in names:
            mine = [each for each in made if each[0].name == name]
            if len(names) > 1:
                error = await self._install([*ready, *(each.key for _, each in [*done, *mine])])
            if error is None:
                done += mine
                continue
            failed += [(application, each.phase, str(error)) for application, each in mine]
            if not isinstance(error, NotApplicable | InputError):
                # Not a matter of these keys: tried again with the next look at the subnet.
                self._unsettled, self._try_again = True, time.monotonic() + _RETRY_S
        return done, failed

    async def _give_up(self, names: Iterable[str]) -> None:
        """Record that the keys of applications cannot be made because of an error in the code."""
        reason = "an error in weft serve; its log has the details"
        failed = [
            (application, phase.name, reason)
            for application in self.service.ledger.applications.values()
            for phase in application.phases.values()
            if application.name in names and phase.state is KeyState.MAKING
        ]
        with contextlib.suppress(WeftError):
            await self._offer(self._subnet.missing, [], failed)

    async def _offer(
        self,
        missing: tuple[int, ...],
        made: Sequence[tuple[Application, makers.MadeKey]],
        failed: Sequence[tuple[Application, str, str]],
    ) -> None:
        """Record keys as ready or failed, unless cables or the application have left meanwhile."""
        events: list[tuple[Application, Callable[[int], Event]]] = [
            (
                application,
                partial(
                    Made, application=application.name, phase=each.phase, key=each.key,
                    base=each.base,
                ),
            )
            for application, each in made
        ]  # fmt: skip
        events += [
            (application, partial(Failed, application=application.name, phase=phase, reason=reason))
            for application, phase, reason in failed
        ]
        for application, event in events:
            # Decided in the event's turn, since earlier events may wait, too.
            def still(
                now_ns: int,
                application: Application = application,
                event: Callable[[int], Event] = event,
            ) -> Event | None:
                same = self.service.is_here(application) and missing == self._subnet.missing
                return event(now_ns) if same else None

            with contextlib.suppress(Refused):
                await self.service.do(still)

    # -- the subnet --------------------------------------------------------------------------

    async def _attach(self) -> None:
        """Learn the LIDs and missing cables of the subnet, and load the tables of ready keys."""
        assert self.installer is not None
        stored = self.service.store.subnet()
        if stored is not None:
            self._subnet.base_lid = np.array(stored.base_lid)
        moved = await self._moved()
        seen = await self.installer.look()
        self._subnet.missing = seen.missing if seen is not None else ()
        self._base_changed = self._subnet.missing != (stored.missing if stored else ())
        await self._withdraw(moved)
        async with self._installing:
            await self._settle()

    async def _withdraw(self, moved: NDArray[np.bool_]) -> None:
        """Withdraw the keys that can no longer be used; see `_affected`."""
        reason = self._missing_text()
        if moved.any():
            reason = f"{int(moved.sum())} hosts have other LIDs; {reason}"

        def event(now_ns: int) -> Event | None:
            keys = self._affected(self._subnet.missing, moved)
            return Withdrawn(now_ns, keys, reason) if keys else None

        await self.service.do(event)
        self._subnet.base_lid = self._lids
        # Only now: a restart in between withdraws the keys.
        await self.service.remember(self._subnet.missing, self._lids)
        self._base_changed = False

    def _missing_text(self) -> str:
        if not self._subnet.missing:
            return "all cables are connected"
        names = [self.service.fabric.cable_name(cable) for cable in self._subnet.missing]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"cables without connection: {', '.join(names[:5])}{more}"

    async def _settle(self) -> bool:
        """Load the tables of all ready keys; return whether OpenSM has exactly these.

        If the keys do not fit the routes that are left, all are withdrawn, since the routes of all
        pairs come first.
        """
        ready = self._ready()
        error = await self._install(list(ready.values()))
        if isinstance(error, NotApplicable) and ready and await self._install([]) is None:
            reason = str(error)

            def event(now_ns: int) -> Event | None:
                keys = tuple(self._ready())
                return Withdrawn(now_ns, keys, reason) if keys else None

            await self.service.do(event)
            error = None
        self._unsettled = error is not None
        self._try_again = time.monotonic() + _RETRY_S
        if not self._unsettled and not self._subnet.proved:
            self._subnet.proved = True
            async with self.service.changed:
                self.service.changed.notify_all()
        return not self._unsettled

    async def _follow_base(self) -> None:
        """Record the present base routes of ready keys after a change, or say why this failed."""
        if self._unsettled or self._subnet.missing == self._based:
            return
        try:
            await self._rebase()
        except WeftError as error:
            log.error("base routes: %s", error)
            self.service.problems["base routes"] = f"keys have earlier base routes: {error}"
            await asyncio.sleep(_RETRY_S)
        else:
            self.service.problems.pop("base routes", None)

    async def _rebase(self) -> None:
        """Record the present base routes of the keys that have stayed, if they have changed."""
        missing, ready = self._subnet.missing, self._ready()
        flows = [(phase, key.sources, key.destinations) for (_, phase), key in ready.items()]
        found = []
        if flows:
            limit_s = self.service.rules.make_limit_s
            found = await self._makers.run(makers.base_paths, flows, missing, limit_s=limit_s)
        for (name, phase), base in zip(ready, found, strict=True):
            # Decided in the event's turn, since the key may have been withdrawn meanwhile.
            def event(
                now_ns: int, name: str = name, phase: str = phase, base: InstalledKey = base
            ) -> Event | None:
                application = self.service.ledger.applications.get(name)
                known = None if application is None else application.phases.get(phase)
                if (
                    known is None or known.key is not ready[name, phase] or known.base is None
                    or missing != self._subnet.missing or _same_paths(known.base, base)
                ):  # fmt: skip
                    return None
                return Rebased(now_ns, name, phase, known.key, base)

            with contextlib.suppress(Refused):
                await self.service.do(event)
        # Otherwise once more: the ledger may have been read from the store again meanwhile.
        now = self._ready()
        if all(now.get(at) is key for at, key in ready.items()):
            self._based = missing

    def _ready(self) -> dict[tuple[str, str], InstalledKey]:
        """Return the ready keys by application and phase."""
        return {
            (application.name, phase.name): phase.key
            for application in self.service.ledger.applications.values()
            for phase in application.phases.values()
            if phase.key is not None
        }

    async def _install(self, keys: Sequence[InstalledKey]) -> WeftError | None:
        """Load the tables of some keys.

        Returns why this failed; None if OpenSM has exactly these tables.
        """
        assert self.installer is not None
        try:
            loaded = await self.installer.install(keys, self._subnet.missing)
        except WeftError as error:
            self.service.problems["subnet"] = str(error)
            self.service.counters.failed_loads.inc()
            log.error("%s", error)
            return error
        self.service.problems.pop("subnet", None)
        self._subnet.reloads += 1
        self._subnet.last_reload_s = loaded.total_s
        self.service.counters.load_s.observe(loaded.total_s)
        return None

    async def _look(self) -> None:
        """Look for cables that died or came back; if there are any, replace keys and tables."""
        assert self.installer is not None
        try:
            seen = await self.installer.look()
        except WeftError as error:
            self._cannot(error)
            return
        start = time.monotonic()
        if seen is not None:
            other_cables = seen.missing != self._subnet.missing
            if other_cables or seen.restarted or not seen.intact:
                self._unsettled, self._try_again = True, 0.0
            self._base_changed |= other_cables
            self._subnet.missing = seen.missing
            # Entries that lead to a cable are gone with it; only the keys on it are withdrawn.
            self._subnet.proved &= seen.intact or other_cables
        again = self._unsettled and start >= self._try_again
        if seen is None and not again:
            return
        try:
            moved = await self._moved()
        except WeftError as error:
            self._cannot(error)
            return
        if not again and not moved.any():
            return
        self._unsettled = True
        if seen is not None:
            what = "has restarted" if seen.restarted else "has a changed subnet"
            what = what if seen.intact else "has replaced the tables"
            log.warning("OpenSM %s: %s", what, self._missing_text())
        await self._withdraw(moved)
        async with self._installing:
            settled = await self._settle()
        if settled:
            seconds = time.monotonic() - start
            log.warning("all pairs of hosts have routes again after %.2f s", seconds)
        self._make_missing()

    def _cannot(self, error: WeftError) -> None:
        """Say why the subnet cannot be looked at; its tables are compared when it can."""
        if self.service.problems.get("subnet") != str(error):
            log.error("%s", error)
        self.service.problems["subnet"] = str(error)
        self._unsettled = True

    async def _moved(self) -> NDArray[np.bool_]:
        """Return which hosts have other LIDs than before, also before a restart."""
        assert self.installer is not None
        self._lids = await self.installer.lids()
        before = self._lids if self._subnet.base_lid is None else self._subnet.base_lid
        moved: NDArray[np.bool_] = self._lids != before
        return moved

    def _affected(
        self, missing: tuple[int, ...], moved: NDArray[np.bool_]
    ) -> tuple[tuple[str, str], ...]:
        """Return the ready keys whose paths, or LIDs of whose hosts (`moved`), have changed."""
        dead = np.zeros(self.service.fabric.num_links, dtype=np.bool_)
        for cable in missing:
            dead[2 * cable : 2 * cable + 2] = True
        at_host = self.service.fabric.graph.destination_link
        affected = []
        for application in self.service.ledger.applications.values():
            ends = self.service.fabric.host_endpoint[application.hosts]
            lost = bool(dead[at_host[ends[ends >= 0]]].any())
            lost |= bool(moved[application.hosts].any())
            for phase in application.phases.values():
                key = phase.key
                if key is None:
                    continue
                # Flows without a LID of their own follow the base routes.
                on_base = (key.lid_offset == 0) & (
                    np.diff(key.offset).reshape(key.lid_offset.shape) > 0
                )
                on_base &= self._base_changed
                if lost or dead[key.link].any() or on_base.any():
                    affected.append((application.name, phase.name))
        return tuple(affected)


def _same_paths(one: InstalledKey, other: InstalledKey) -> bool:
    """Return whether flows have the same paths."""
    return np.array_equal(one.link, other.link) and np.array_equal(one.offset, other.offset)
