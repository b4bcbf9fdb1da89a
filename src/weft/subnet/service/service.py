"""The service: it gives events a time and an order, stores what they change, and answers.

One task handles all events in batches: it passes them to the ledger, commits the batch, and only
then answers. `weft.subnet.service.keeper` makes and installs the keys meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import WeftError
from weft.fabrics import Fabric
from weft.fabrics.roles import COMPUTING
from weft.sim.keys.alternatives import InstalledKey, load_decision
from weft.sim.keys.choice import Criterion
from weft.sim.keys.network import key_network
from weft.subnet.service import makers, models
from weft.subnet.service.clock import Clock
from weft.subnet.service.counters import ServiceCounters
from weft.subnet.service.ledger import (
    BASE,
    Announced,
    Application,
    Decision,
    Event,
    Expired,
    Failed,
    Granted,
    KeyGivenBack,
    KeyState,
    Ledger,
    Left,
    Made,
    Rebased,
    Refused,
    Renewed,
    Requested,
    WhileMissing,
    Withdrawn,
)
from weft.subnet.service.store import ServiceStore, StoreFailed
from weft.subnet.service.workers import Worker

T = TypeVar("T")
log = logging.getLogger("weft.serve")
#: Seconds between two searches for expired leases, and for changes of the subnet.
TICK_S = 0.5
#: Seconds between the removal of two parts of an old log, in which events are stored.
_BETWEEN_S = 0.05
#: Largest number of events in one transaction.
_BATCH = 256
#: Changes of an application that are remembered for clients that wait for them.
_CHANGES = 256


@dataclass(frozen=True)
class Rules:
    """Settings of the service."""

    #: As for `weft.sim.keys.choice.chosen_columns`.
    criterion: Criterion = "max"
    #: As for `weft.subnet.service.ledger.Ledger`.
    while_missing: WhileMissing = "wait"
    #: Lease of a grant unless the request names one.
    lease_s: float = 300.0
    #: Largest number of applications.
    most_applications: int = 1000
    #: Time limit in seconds for the keys of an application.
    make_limit_s: float = 3600.0
    #: Time limit in seconds for reading its phases, and for advice.
    answer_limit_s: float = 60.0
    #: Seconds after which the log begins anew; the log before is kept for as long again. None to
    #: keep all of it.
    keep_log_s: float | None = None


@dataclass
class KnownSubnet:
    """What is known of the subnet, which the keeper of keys says."""

    #: Whether tables are installed by a subnet manager.
    managed: bool = False
    #: Cables of the fabric that it does not see.
    missing: tuple[int, ...] = ()
    #: int [hosts]: base LIDs; None if not managed.
    base_lid: NDArray[np.integer[Any]] | None = None
    #: Whether its tables have been compared since the start; grants wait for that.
    proved: bool = True
    #: Number of times that tables were loaded, and seconds that the last took.
    reloads: int = 0
    last_reload_s: float | None = None


@dataclass(frozen=True, eq=False)
class Given:
    """A grant at the time of its decision."""

    granted: Granted
    #: The most flows of granted keys on a link of its paths; and the most on a link of its base
    #: routes if all keys took those.
    contention: int
    base_contention: int
    #: The application.
    application: Application
    #: Its key; None if that is not ready.
    key: InstalledKey | None


@dataclass(eq=False)
class _Command:
    """An event that waits for its turn."""

    make: Callable[[int], Event | None]
    view: Callable[[Decision], Any]
    done: asyncio.Future[Any]
    token: tuple[str, str] | None = None


class Service:
    """The running service.

    `fabric`: the whole fabric. `store`: the store, with the service's lock. `settings`: how keys
    are made.
    """

    def __init__(
        self, fabric: Fabric, store: ServiceStore, settings: makers.MakerSettings, rules: Rules
    ) -> None:
        self.fabric = fabric
        self.network = key_network(fabric)
        self.store = store
        self.settings = settings
        self.rules = rules
        self.counters = ServiceCounters()
        #: Text for the user about the clock, the store or the subnet; empty if all is well.
        self.problems: dict[str, str] = {}
        self.subnet = KnownSubnet()
        self.changed = asyncio.Condition()
        self.changes: dict[str, deque[models.Change]] = {}
        #: Number of the last event that is stored.
        self.version = store.last
        self._queue: asyncio.Queue[_Command] = asyncio.Queue()
        #: Held while the ledger is ahead of the store.
        self._storing = asyncio.Lock()
        #: Applications with keys that are not ready, for the keeper.
        self.unmade: asyncio.Queue[str] = asyncio.Queue()
        self._disk = ThreadPoolExecutor(1, "weft-store")
        self._answers = Worker("reads phases", makers.initialise, fabric, settings)
        self._stale = False
        #: Time of the last snapshot, once it is known.
        self._began_ns: int | None = None
        #: Whether events may be left that are not part of the log any more.
        self._trimming = True
        self._renew_all = True  # clients could not renew while the service was down
        self._tasks: set[asyncio.Task[Any]] = set()
        self._recover()
        self._clock = Clock(self.ledger.now_ns)

    # -- life --------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Set the ledger to what is stored."""
        ledger = Ledger(
            self.network, criterion=self.rules.criterion, while_missing=self.rules.while_missing
        )
        self.store.load(ledger)
        self.ledger = ledger
        self._stale = False

    async def start(self) -> None:
        """Start to handle events and to end leases."""
        # The first decision would wait until its compiled code is loaded.
        load_decision(self.network)
        self.spawn(self._write())
        self.spawn(self._answers.start())
        await self._look_at_clock()
        self.spawn(self.every_tick(self._end_leases))
        if self.rules.keep_log_s is not None:
            self.spawn(self.every_tick(self._trim_log))

    async def stop(self) -> None:
        """End the tasks and processes; the state is in the store."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._answers.close()
        self._disk.shutdown()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a task until the service stops; an error in it is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def over(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                log.error("a task of the service failed", exc_info=task.exception())

        task.add_done_callback(over)

    # -- events ------------------------------------------------------------------------------

    async def do(
        self,
        make: Callable[[int], Event | None],
        view: Callable[[Decision], T] | None = None,
        token: tuple[str, str] | None = None,
    ) -> T:
        """Handle an event in its turn, and return when what it changed is on the disk.

        `make`: returns the event for its time in ns; None only to read. `view`: called with the
        ledger's answer before any later event; its result is returned. `token`: name and token to
        store with the event.

        An event that the ledger refuses (`Refused`) or that cannot be stored (`StoreFailed`) has
        changed nothing.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(_Command(make, view or (lambda answer: answer), done, token))
        return await done

    async def remember(self, missing: tuple[int, ...], base_lid: NDArray[np.int64]) -> None:
        """Store what the subnet is like; see `ServiceStore.remember`."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._disk, self.store.remember, missing, base_lid.tolist())

    async def _write(self) -> None:
        """Handle events, batch by batch."""
        loop = asyncio.get_running_loop()
        waiting: deque[_Command] = deque()
        while True:
            if not waiting:
                waiting.append(await self._queue.get())
            while len(waiting) < _BATCH and not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            batch: list[tuple[Event, Decision]] = []
            tokens: dict[str, str] = {}
            results: list[tuple[_Command, Any, Exception | None]] = []
            broken = False
            async with self._storing:
                while waiting and not broken:
                    command = waiting.popleft()
                    try:
                        if self._stale:
                            self._recover()
                        event = command.make(self._clock.now_ns())
                        answer = Decision() if event is None else self.ledger.handle(event)
                        results.append((command, command.view(answer), None))
                        if event is not None and not _empty(event, answer):
                            batch.append((event, answer))
                        if command.token is not None:
                            tokens[command.token[0]] = command.token[1]
                    except Refused as refusal:  # it is raised to whoever asked
                        results.append((command, None, refusal))
                    except Exception as error:
                        # The event may have changed a part of the ledger. Those before it are
                        # stored, and the ledger is read again for those after it.
                        results.append((command, None, error))
                        broken = True
                if batch or tokens:
                    try:
                        with self.counters.commit_s.time():
                            await loop.run_in_executor(self._disk, self.store.record, batch, tokens)
                        self.problems.pop("store", None)
                    except Exception as error:
                        log.error("%s", error, exc_info=not isinstance(error, StoreFailed))
                        self.problems["store"] = str(error)
                        self._stale = True  # the ledger is ahead of the store
                        results = [(command, None, error) for command, *_ in results]
                        batch = []
                if self._stale or broken:
                    self._stale = True
                    with contextlib.suppress(WeftError):  # tried again before the next event
                        self._recover()
            for command, result, failure in results:
                if command.done.cancelled():
                    continue
                if failure is not None:
                    command.done.set_exception(failure)
                else:
                    command.done.set_result(result)
            if batch:
                self.version += len(batch)
                self.counters.stored(batch)
                await self._tell(batch)

    @contextlib.asynccontextmanager
    async def stored(self) -> AsyncIterator[None]:
        """Wait until all that the ledger has is on the disk; nothing changes it in the block."""
        async with self._storing:
            if self._stale:
                self._recover()
            yield

    async def _tell(self, batch: Sequence[tuple[Event, Decision]]) -> None:
        """Record the changes of applications, and wake those who wait for them."""
        told = False
        for event, answer in batch:
            changes: list[tuple[str, models.ChangeKind, str, str]]
            match event:
                case Announced():
                    self.unmade.put_nowait(event.application)
                    continue
                case Rebased():
                    continue
                case Made():
                    changes = [(event.application, "ready", event.phase, "")]
                case Failed():
                    changes = [(event.application, "failed", event.phase, event.reason)]
                case Withdrawn():
                    changes = [
                        (name, "withdrawn", phase, event.reason) for name, phase in event.keys
                    ]
                case Expired():
                    changes = [(g.application, "expired", g.phase, "") for g in answer.ended]
                case Left():
                    self.changes.pop(event.application, None)
                    told = True
                    continue
                case _:
                    continue
            for name, kind, phase, reason in changes:
                known = self.changes.setdefault(name, deque(maxlen=_CHANGES))
                known.append(
                    models.Change(number=self.version, kind=kind, phase=phase, reason=reason)
                )
                told = True
        if told:
            async with self.changed:
                self.changed.notify_all()

    async def every_tick(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something again and again, also after it has failed."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await step()
            except WeftError:
                pass  # recorded, and tried again
            except Exception:
                log.exception("a task of the service failed; it is tried again")

    async def _end_leases(self) -> None:
        """End the leases that are over; see that the store is there."""
        try:
            self.store.check_files()
        except StoreFailed as error:
            if self.problems.get("store") != str(error):
                log.error("%s", error)
            self.problems["store"] = str(error)
            raise
        await self._look_at_clock()
        now_ns = self._clock.now_ns()
        over = any(grant.until_ns <= now_ns for grant in self.ledger.grants.values())
        if over and not self._renew_all:
            await self.do(Expired)

    async def _trim_log(self) -> None:
        """Begin the log anew when it is old, and remove what is not part of it any more."""
        assert self.rules.keep_log_s is not None
        loop = asyncio.get_running_loop()
        if not self._trimming:
            if self._began_ns is None:
                self._began_ns = await loop.run_in_executor(self._disk, self.store.snapshot_ns)
            first_ns = self._began_ns
            now_ns = self._clock.now_ns()
            if first_ns is None or now_ns - first_ns < self.rules.keep_log_s * 1e9:
                return

            def event(now_ns: int) -> Event:
                return self.ledger.snapshot(now_ns)  # it may be another ledger by then

            await self.do(event)
            self._began_ns, self._trimming = None, True
        while self._trimming:
            self._trimming = await loop.run_in_executor(self._disk, self.store.trim)
            await asyncio.sleep(_BETWEEN_S)

    async def _look_at_clock(self) -> None:
        """Say how wrong the clock is; begin leases anew if clients could not renew in time."""
        problem = self._clock.problem()
        if problem and "clock" not in self.problems:
            log.warning("%s", problem)
        self.problems.pop("clock", None)
        if problem:
            self.problems["clock"] = problem
        self._renew_all |= self._clock.jumped()
        if self._renew_all:
            names = {application for application, _ in self.ledger.grants}
            found = await asyncio.gather(
                *(self.do(partial(Renewed, application=name)) for name in sorted(names)),
                return_exceptions=True,
            )
            # An application that has left since needs no renewal.
            self._renew_all = any(
                isinstance(each, Exception) and not isinstance(each, Refused) for each in found
            )

    # -- applications ------------------------------------------------------------------------

    async def announce(
        self,
        name: str,
        hosts: Sequence[int] | int,
        phases: Sequence[makers.PhaseSpec] | None,
        workload: str | None,
    ) -> str:
        """Place an application, begin to make its keys, and return its token.

        `hosts`: host of each rank, or a number of hosts. `phases`, `workload`: as for
        `weft.subnet.service.makers.expand`.
        """
        self._check_new(name, () if isinstance(hosts, int) else hosts)
        _check_ranks(hosts if isinstance(hosts, int) else len(hosts), phases)
        if isinstance(hosts, int):
            best, *_ = await self.advise(hosts, self.free_hosts(), phases, workload)
            chosen = best.hosts
        else:
            chosen = tuple(hosts)
        flows = await self._answers.run(
            makers.expand, len(chosen), phases, workload, limit_s=self.rules.answer_limit_s
        )
        token = secrets.token_urlsafe(32)

        def event(now_ns: int) -> Event:
            self._check_new(name, chosen)
            return Announced(now_ns, name, chosen, flows)

        try:
            await self.do(event, token=(name, token))
        except Refused as refusal:
            if isinstance(hosts, int) and refusal.code == "host_taken":  # meanwhile: choose others
                return await self.announce(name, hosts, phases, workload)
            raise
        return token

    def _check_new(self, name: str, hosts: Sequence[int]) -> None:
        """Refuse an application early, before work is done for it."""
        if len(self.ledger.applications) >= self.rules.most_applications:
            raise Refused(
                "too_many_applications",
                f"there are already {self.rules.most_applications} applications",
            )
        self.ledger.check_new(name, hosts)

    async def advise(
        self,
        num_hosts: int,
        free: Sequence[int],
        phases: Sequence[makers.PhaseSpec] | None,
        workload: str | None,
    ) -> list[makers.Advice]:
        """Compare placements on free hosts; see `weft.subnet.service.makers.advise`."""
        _check_ranks(num_hosts, phases)
        found: list[makers.Advice] = await self._answers.run(
            makers.advise,
            num_hosts,
            free,
            phases,
            workload,
            self.subnet.missing,
            limit_s=self.rules.answer_limit_s,
        )
        return found

    def free_hosts(self, *, every_role: bool = False) -> list[int]:
        """Return the hosts of machines that compute and on which no application runs.

        Machines of an unknown role compute. `every_role`: whether to return others as well.
        """
        machine, roles = self.fabric.machine_of_host, self.fabric.roles
        taken = {
            int(machine[host])
            for application in self.ledger.applications.values()
            for host in application.hosts
        }
        return [
            host
            for host, its in enumerate(machine.tolist())
            if its not in taken and (every_role or roles[host] in COMPUTING)
        ]

    def _lasting(self, application: str, make: Callable[[int], Event]) -> Callable[[int], Event]:
        """Return an event of the present application of a name, and not of a later one."""
        asked = self.ledger.applications.get(application)

        def event(now_ns: int) -> Event:
            # Another one may have come under the same name while the event waited.
            if asked is not None and not self.is_here(asked):
                raise Refused("unknown_application", f"application {application} has left")
            return make(now_ns)

        return event

    def is_here(self, application: Application) -> bool:
        """Return whether an application has not left."""
        # Times of events are unique: this says whether it is the same application.
        known = self.ledger.applications.get(application.name)
        return known is not None and known.since_ns == application.since_ns

    async def request(
        self,
        application: str,
        phase: str,
        lease_s: float | None,
        wait_s: float,
        *,
        again: bool = False,
    ) -> Given:
        """Grant the key of a phase.

        `application`, `phase`, `lease_s`, `wait_s`, `again`: as
        `weft.subnet.service.models.KeyRequest`.
        """
        lease_ns = int((lease_s or self.rules.lease_s) * 1e9)
        start = time.monotonic()
        until = start + wait_s

        def make(now_ns: int) -> Event:
            if again and (application, phase) in self.ledger.grants:
                return Renewed(now_ns, application)
            proved = self.subnet.proved
            if not proved and self.rules.while_missing == "wait":
                raise Refused(
                    "not_ready",
                    "the tables of OpenSM have not been compared since the service started, or "
                    "since OpenSM replaced them; /v1/health says why",
                )
            return Requested(now_ns, application, phase, lease_ns, proved)

        def view(answer: Decision) -> Given:
            return next(self._given(each) for each in answer.granted if each.phase == phase)

        event = self._lasting(application, make)
        while True:
            try:
                found = await self.do(event, view)
                self.counters.request_s.observe(time.monotonic() - start)
                if found.granted.until_ns == found.granted.since_ns + found.granted.lease_ns:
                    # A new grant, not one that was renewed.
                    self.counters.contended(found.contention, found.base_contention)
                return found
            except Refused as refusal:
                left_s = until - time.monotonic()
                if refusal.code != "not_ready" or left_s <= 0:
                    raise

            def decided() -> bool:
                known = self.ledger.applications.get(application)
                at = known.phases.get(phase) if known is not None else None
                return self.subnet.proved and (at is None or at.state is not KeyState.MAKING)

            await self._wait(decided, left_s)

    async def _wait(self, until: Callable[[], bool], most_s: float) -> None:
        """Wait for something that `_tell` tells."""
        with contextlib.suppress(TimeoutError):
            async with self.changed:
                await asyncio.wait_for(self.changed.wait_for(until), most_s)

    def _given(self, granted: Granted) -> Given:
        application = self.ledger.applications[granted.application]
        phase = application.phases[granted.phase]
        contention = base_contention = 0
        if granted.alternative != BASE and phase.flows is not None and phase.base_flows is not None:
            contention = phase.flows.largest(granted.alternative, self.ledger.loads)
            base_contention = phase.base_flows.largest(0, self.ledger.base_loads)
        return Given(granted, contention, base_contention, application, phase.key)

    @property
    def contention(self) -> tuple[int, int]:
        """Most flows on a link, with keys and with base routes for all granted keys."""
        ledger = self.ledger
        return int(ledger.loads.max(initial=0)), int(ledger.base_loads.max(initial=0))

    async def give_back(self, application: str, phase: str, since_ns: int | None = None) -> None:
        """Take back the key of a phase; only the grant of a time, if that is given."""

        def make(now_ns: int) -> Event:
            held = self.ledger.grants.get((application, phase))
            if held is not None and since_ns not in (None, held.since_ns):
                raise Refused(
                    "not_held", f"{application} holds the key of phase {phase} by a later grant"
                )
            return KeyGivenBack(now_ns, application, phase)

        await self.do(self._lasting(application, make))

    async def renew(self, application: str) -> list[Given]:
        """Begin the leases of an application's grants anew."""
        return await self.do(
            self._lasting(application, partial(Renewed, application=application)),
            lambda answer: [self._given(each) for each in answer.granted],
        )

    async def leave(self, application: str) -> None:
        """Remove an application."""
        await self.do(self._lasting(application, partial(Left, application=application)))

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function of a module in the process that reads phases."""
        return await self._answers.run(function, *arguments, limit_s=self.rules.answer_limit_s)

    async def wait_for_change(
        self, application: str, after: int, wait_s: float
    ) -> list[models.Change]:
        """Return the changes of an application after a number; wait until there is one."""
        asked = self.ledger.application(application)

        def found() -> list[models.Change]:
            known = self.changes.get(application, ()) if self.is_here(asked) else ()
            return [change for change in known if change.number > after]

        def over() -> bool:
            return bool(found()) or not self.is_here(asked)

        await self._wait(over, wait_s)
        return found()


def _check_ranks(num_ranks: int, phases: Sequence[makers.PhaseSpec] | None) -> None:
    """Refuse flows of ranks that an application does not have."""
    for name, flows in phases or ():
        if not isinstance(flows, str):
            ends = np.asarray(flows, dtype=np.int64).reshape(-1, 2)
            wrong = np.argwhere((ends < 0) | (ends >= num_ranks))
            if len(wrong):
                flow, end = wrong[0]
                raise Refused(
                    "unknown_rank",
                    f"phase {name}: flow {flow} of flows names rank {ends[flow, end]}; expected "
                    f"0 to {num_ranks - 1}",
                )


def _empty(event: Event, answer: Decision) -> bool:
    """Return whether an event has changed nothing and need not be stored."""
    return isinstance(event, Expired | Renewed) and not answer.granted and not answer.ended
