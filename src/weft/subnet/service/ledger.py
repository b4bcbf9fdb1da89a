"""The ledger: which application has which hosts and keys, and who holds a grant.

A pure state machine: events go in, answers come out. It has no clock, network or disk; times are in
the events. The scheduler of the simulators (`weft.sim.keys.scheduler`) decides its grants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.sim.keys.alternatives import Alternatives, InstalledKey
from weft.sim.keys.choice import Criterion
from weft.sim.keys.network import KeyNetwork
from weft.sim.keys.scheduler import Done, Leave, Place, Request, Scheduler

#: What a request does while the tables of its key are not installed.
WhileMissing = Literal["wait", "base"]
#: Number of the alternative of a grant that uses the base routes.
BASE = -1


class Refused(Exception):
    """An event that is refused and has changed nothing.

    `code`: stable name of the reason, such as ``unknown_application``. `message`: a sentence for
    the user.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class KeyState(StrEnum):
    """State of the key of a phase."""

    MAKING = "making"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, eq=False)
class Announced:
    """An application has been placed on hosts, and names its phases."""

    #: Time of the event, and name of the application.
    time_ns: int
    application: str
    #: Host of each rank.
    hosts: tuple[int, ...]
    #: For each phase the ranks of its flows, int [2, flows]: sources and destinations.
    phases: Mapping[str, NDArray[np.integer[Any]]]


@dataclass(frozen=True, eq=False)
class Made:
    """The paths of the key of a phase are in the forwarding tables."""

    #: Time of the event, and names.
    time_ns: int
    application: str
    phase: str
    #: The paths.
    key: InstalledKey
    #: Links of the base routes for each flow, for comparison (one alternative).
    base: InstalledKey


@dataclass(frozen=True, eq=False)
class Rebased(Made):
    """The base routes of the flows of a key have changed, and its paths have not.

    It has the paths, too, so that a log can begin with it.
    """


@dataclass(frozen=True)
class Failed:
    """The key of a phase cannot be made or installed."""

    time_ns: int
    application: str
    phase: str
    reason: str


@dataclass(frozen=True)
class Requested:
    """An application begins a phase and asks for its key (RODRequest)."""

    #: Time of the event, and names.
    time_ns: int
    application: str
    phase: str
    #: Time after which the key is given back unless the application renews it.
    lease_ns: int
    #: Whether the forwarding tables are known to have the made keys.
    installed: bool = True


@dataclass(frozen=True)
class KeyGivenBack:
    """An application has ended a phase and gives its key back (RODDone)."""

    time_ns: int
    application: str
    phase: str


@dataclass(frozen=True)
class Renewed:
    """An application is alive: the leases of its grants begin anew."""

    time_ns: int
    application: str


@dataclass(frozen=True)
class Expired:
    """Time has passed: grants whose lease has ended are given back."""

    time_ns: int


@dataclass(frozen=True)
class Withdrawn:
    """Keys can no longer be used, because a cable on their paths is dead; they are made again."""

    time_ns: int
    keys: tuple[tuple[str, str], ...]
    reason: str


@dataclass(frozen=True)
class Left:
    """An application has ended; its hosts are free."""

    time_ns: int
    application: str


@dataclass(frozen=True)
class Granted:
    """A key in use."""

    #: Names.
    application: str
    phase: str
    #: Number of the alternative; `BASE` for the base routes.
    alternative: int
    #: How many times the key had been made when it was granted.
    generation: int
    #: Time of the grant, length of its lease, and end of the lease.
    since_ns: int
    lease_ns: int
    until_ns: int


@dataclass(frozen=True)
class Snapshot:
    """The whole state, together with the `Announced` and `Made` events of what is there.

    A log can begin with these events and a snapshot. Among other events it changes nothing.
    """

    time_ns: int
    #: Application, phase, state, reason and generation of each key.
    keys: tuple[tuple[str, str, KeyState, str, int], ...]
    #: The grants, in their order.
    grants: tuple[Granted, ...]


Event = (
    Announced | Made | Rebased | Failed | Requested | KeyGivenBack | Renewed | Expired | Withdrawn
    | Left
    | Snapshot
)  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """What an event has changed."""

    #: The grant that a request or a renewal made or prolonged.
    granted: tuple[Granted, ...] = ()
    #: Grants that ended, with the reason: ``done``, ``expired``, ``withdrawn`` or ``left``.
    ended: tuple[Granted, ...] = ()
    reason: str = ""


@dataclass(eq=False)
class Phase:
    """A phase of an application, and its key."""

    name: str
    sources: NDArray[np.int32]
    destinations: NDArray[np.int32]
    state: KeyState = KeyState.MAKING
    generation: int = 0
    reason: str = ""
    key: InstalledKey | None = None
    base: InstalledKey | None = None
    #: Loads of the alternatives, and of the base routes.
    flows: Alternatives | None = None
    base_flows: Alternatives | None = None


@dataclass(eq=False)
class Application:
    """An application: its hosts in order of rank, and its phases."""

    name: str
    hosts: NDArray[np.int32]
    since_ns: int
    phases: dict[str, Phase] = field(default_factory=dict)


class Ledger:
    """The state of the service.

    `network`: the network whose loads count. `criterion`: as for
    `weft.sim.keys.choice.chosen_columns`. `while_missing`: whether a request is refused (``wait``)
    or gets the ``base`` routes while its key is not ready.
    """

    def __init__(
        self,
        network: KeyNetwork,
        *,
        criterion: Criterion = "max",
        while_missing: WhileMissing = "wait",
    ) -> None:
        self.network = network
        self.while_missing = while_missing
        self.applications: dict[str, Application] = {}
        #: Grants by application and phase.
        self.grants: dict[tuple[str, str], Granted] = {}
        #: Number of flows on each link of the network if all granted keys took the base routes.
        self.base_loads = np.zeros(len(network.edge), dtype=np.int32)
        self.now_ns = 0
        self._scheduler = Scheduler(
            network, choice="installed", criterion=criterion, keep_log=False
        )
        self._taken: dict[int, str] = {}
        #: Whether there were other events than those before the snapshot that begins a log.
        self._begun = False

    @property
    def loads(self) -> NDArray[np.int32]:
        """Number of flows of the granted keys on each link, as `KeyNetwork.edge`."""
        return self._scheduler.loads

    # -- events ------------------------------------------------------------------------------

    def handle(self, event: Event) -> Decision:
        """Handle an event.

        Raises `Refused` if the event contradicts the state; the state is then unchanged.
        """
        if event.time_ns < self.now_ns:
            raise Refused(
                "clock_backwards",
                f"the event is {self.now_ns - event.time_ns} ns earlier than the one before",
            )
        answer = self._handle(event)
        self.now_ns = event.time_ns
        self._begun |= not isinstance(event, Announced | Made)
        return answer

    def _handle(self, event: Event) -> Decision:
        match event:
            case Requested():
                return self._request(event)
            case KeyGivenBack():
                self.phase(event.application, event.phase)
                if (event.application, event.phase) not in self.grants:
                    raise Refused(
                        "not_held",
                        f"{event.application} does not hold the key of phase {event.phase}",
                    )
                return self._end([(event.application, event.phase)], event.time_ns, "done")
            case Renewed():
                return self._renew(event)
            case Expired():
                over = [at for at, grant in self.grants.items() if grant.until_ns <= event.time_ns]
                return self._end(over, event.time_ns, "expired")
            case Announced():
                return self._announce(event)
            case Rebased() if self.phase(event.application, event.phase).key is not None:
                return self._rebase(event)
            case Made():
                return self._made(event)
            case Failed():
                phase = self._unmade(event.application, event.phase)
                phase.state, phase.reason = KeyState.FAILED, event.reason
                return Decision()
            case Withdrawn():
                return self._withdraw(event)
            case Left():
                return self._leave(event)
            case Snapshot():
                if event != self.snapshot(event.time_ns):
                    if self._begun:
                        raise Refused("other_state", "the state is not that of the snapshot")
                    self.restore(event.keys, event.grants)
                return Decision()

    def _announce(self, event: Announced) -> Decision:
        self.check_new(event.application, event.hosts)
        placed = Application(
            event.application, np.array(event.hosts, dtype=np.int32), event.time_ns
        )
        ranks = len(event.hosts)
        for name, flows in event.phases.items():
            ends = np.array(flows, dtype=np.int64).reshape(2, -1)
            wrong = ends[(ends < 0) | (ends >= ranks)]
            if len(wrong):
                raise Refused(
                    "unknown_rank", f"phase {name} names rank {wrong[0]}; expected 0 to {ranks - 1}"
                )
            placed.phases[name] = Phase(name, *placed.hosts[ends])
        self.applications[event.application] = placed
        self._taken |= dict.fromkeys(event.hosts, event.application)
        return Decision()

    def check_new(self, application: str, hosts: Iterable[int]) -> None:
        """Check the name and the hosts of an application that is to be announced."""
        if application in self.applications:
            raise Refused("name_taken", f"there is already an application {application}")
        names = self.network.fabric.host_names
        seen: set[int] = set()
        for host in hosts:
            if not 0 <= host < self.network.fabric.num_hosts:
                raise Refused("unknown_host", f"the fabric has no host {host}")
            owner = self._taken.get(host)
            if owner is not None:
                raise Refused("host_taken", f"host {names[host]} belongs to application {owner}")
            if host in seen:
                raise Refused("host_twice", f"host {names[host]} is named twice")
            seen.add(host)

    def _made(self, event: Made) -> Decision:
        phase = self._unmade(event.application, event.phase)
        scheduled = scheduler_name(event.application, event.phase)
        # The key itself, whose flows on links have been counted where it was made.
        self._scheduler.handle(Place(float(event.time_ns), event.key, name=scheduled))
        phase.state, phase.reason = KeyState.READY, ""
        phase.generation += 1
        phase.key, phase.base = event.key, event.base
        phase.flows = self._scheduler.alternatives(scheduled)
        phase.base_flows = Alternatives.of(self.network, event.base)
        return Decision()

    def _rebase(self, event: Rebased) -> Decision:
        phase = self.phase(event.application, event.phase)
        grant = self.grants.get((event.application, event.phase))
        counted = grant is not None and grant.alternative != BASE
        if counted:
            self._add_base(phase, -1)
        phase.base, phase.base_flows = event.base, Alternatives.of(self.network, event.base)
        if counted:
            self._add_base(phase, 1)
        return Decision()

    def _unmade(self, application: str, name: str) -> Phase:
        phase = self.phase(application, name)
        if phase.state is KeyState.READY:
            raise Refused("already_made", f"the key of phase {name} is already installed")
        return phase

    def _request(self, event: Requested) -> Decision:
        at = (event.application, event.phase)
        phase = self.phase(*at)
        if at in self.grants:
            raise Refused(
                "in_use", f"{event.application} already holds the key of phase {event.phase}"
            )
        alternative = BASE
        if phase.state is KeyState.READY and event.installed:
            name = scheduler_name(*at)
            (grant,) = self._scheduler.handle(Request(float(event.time_ns), name))
            alternative = grant.alternative
            self._add_base(phase, 1)
        elif self.while_missing == "wait":
            why = f": {phase.reason}" if phase.reason else ""
            code = "key_failed" if phase.state is KeyState.FAILED else "not_ready"
            what = "could not be made" if code == "key_failed" else "is not in the tables yet"
            raise Refused(code, f"the key of phase {event.phase} {what}{why}")
        granted = self.grants[at] = Granted(
            *at, alternative, phase.generation, event.time_ns, event.lease_ns,
            event.time_ns + event.lease_ns,
        )  # fmt: skip
        return Decision(granted=(granted,))

    def _renew(self, event: Renewed) -> Decision:
        application = self.application(event.application)
        renewed = []
        for phase in application.phases:
            old = self.grants.get((application.name, phase))
            if old is not None:
                until_ns = max(old.until_ns, event.time_ns + old.lease_ns)
                renewed.append(replace(old, until_ns=until_ns))
                self.grants[application.name, phase] = renewed[-1]
        return Decision(granted=tuple(renewed))

    def _withdraw(self, event: Withdrawn) -> Decision:
        phases = [self.phase(*at) for at in event.keys]
        answer = self._end(
            [at for at in event.keys if at in self.grants], event.time_ns, "withdrawn"
        )
        for at, phase in zip(event.keys, phases, strict=True):
            if phase.state is KeyState.READY:
                self._scheduler.handle(Leave(float(event.time_ns), scheduler_name(*at)))
            phase.state, phase.reason = KeyState.MAKING, event.reason
            phase.key = phase.base = phase.flows = phase.base_flows = None
        return answer

    def _leave(self, event: Left) -> Decision:
        application = self.application(event.application)
        mine = [at for at in self.grants if at[0] == application.name]
        answer = self._end(mine, event.time_ns, "left")
        for name, phase in application.phases.items():
            if phase.state is KeyState.READY:
                leaves = Leave(float(event.time_ns), scheduler_name(application.name, name))
                self._scheduler.handle(leaves)
        for host in application.hosts.tolist():
            del self._taken[host]
        del self.applications[application.name]
        return answer

    def _end(self, keys: Iterable[tuple[str, str]], time_ns: int, reason: str) -> Decision:
        ended = []
        for at in keys:
            grant = self.grants.pop(at)
            ended.append(grant)
            if grant.alternative != BASE:
                self._scheduler.handle(Done(float(time_ns), scheduler_name(*at)))
                self._add_base(self.phase(*at), -1)
        return Decision(ended=tuple(ended), reason=reason)

    # -- queries -----------------------------------------------------------------------------

    def application(self, name: str) -> Application:
        """Return an application."""
        if name not in self.applications:
            raise Refused("unknown_application", f"there is no application {name}")
        return self.applications[name]

    def phase(self, application: str, phase: str) -> Phase:
        """Return a phase of an application."""
        phases = self.application(application).phases
        if phase not in phases:
            raise Refused("unknown_phase", f"application {application} has no phase {phase}")
        return phases[phase]

    def _add_base(self, phase: Phase, sign: int) -> None:
        assert phase.base_flows is not None  # set with the key
        phase.base_flows.add(0, sign, self.base_loads)

    # -- recovery ----------------------------------------------------------------------------

    def snapshot(self, time_ns: int) -> Snapshot:
        """Return the event that brings a ledger with the same applications into this state."""
        keys = tuple(
            (name, phase.name, phase.state, phase.reason, phase.generation)
            for name, application in self.applications.items()
            for phase in application.phases.values()
        )
        return Snapshot(time_ns, keys, tuple(self.grants.values()))

    def restore(
        self, keys: Iterable[tuple[str, str, str, str, int]], grants: Iterable[Granted]
    ) -> None:
        """Bring a ledger in which applications were announced and keys made into a known state.

        `keys`, `grants`: as in `Snapshot`.
        """
        for application, name, state, reason, generation in keys:
            phase = self.phase(application, name)
            if (phase.state is KeyState.READY) != (state == KeyState.READY):
                raise Refused("other_state", f"the key of phase {name} of {application} is {state}")
            phase.state, phase.reason, phase.generation = KeyState(state), reason, generation
        for granted in grants:
            at = (granted.application, granted.phase)
            phase = self.phase(*at)
            if at in self.grants:
                raise Refused("in_use", f"the key of phase {granted.phase} is granted twice")
            if granted.alternative != BASE:
                self._scheduler.restore(scheduler_name(*at), granted.alternative)
                self._add_base(phase, 1)
            self.grants[at] = granted


def scheduler_name(application: str, phase: str) -> str:
    """Return the name of a key in the scheduler; names of applications have no slash."""
    return f"{application}/{phase}"
