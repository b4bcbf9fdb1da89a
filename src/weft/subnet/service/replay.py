"""Replay of logs: decisions, those of other rules, and simulation of packets on granted paths."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric, LinkKind
from weft.routing.routes import PathRoutes
from weft.sim.keys.alternatives import InstalledKey, alternatives, index_of_link
from weft.sim.keys.choice import Choice, Criterion
from weft.sim.keys.make import keys
from weft.sim.keys.network import key_network
from weft.sim.keys.routes import KeyedRoutes
from weft.sim.keys.routing_key import RoutingKey
from weft.sim.keys.scheduler import Done, Leave, Place, Request, Scheduler
from weft.sim.simulate import simulate
from weft.sim.static.loads import relative_loads
from weft.subnet.service.ledger import (
    BASE,
    Decision,
    Event,
    Ledger,
    Left,
    Refused,
    Requested,
    Snapshot,
    WhileMissing,
    scheduler_name,
)
from weft.subnet.service.log import answer_json, read_line, read_log
from weft.subnet.service.makers import seed_of
from weft.subnet.service.store import check_version, log_lines
from weft.workload import WorkloadBuilder

#: First bytes of a file of SQLite.
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class Recorded:
    """A log to replay."""

    #: Each event, and its decision as JSON.
    lines: Iterable[tuple[Event, str]]
    #: Settings of the service by name, as far as the file has them.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: `Fabric.digest`; empty if the file does not have it.
    digest: str = ""


def recorded(path: Path) -> Recorded:
    """Read a file with lines of ``GET /v1/log``, or a store, which is only read."""
    try:
        with path.open("rb") as stream:
            store = stream.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    if not store:
        return Recorded(read_log(path))
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        meta = dict(database.execute("SELECT name, value FROM meta"))
    except sqlite3.Error as error:
        raise InputError(f"cannot be read as a store of weft serve: {error}", file=path) from None
    check_version(meta, path)

    def lines() -> Iterator[tuple[Event, str]]:
        try:
            for number, text in log_lines(database):
                yield read_line(text, path, number)
        except sqlite3.Error as error:
            raise InputError(f"is damaged: {error}", file=path) from None
        finally:
            database.close()

    return Recorded(lines(), meta, meta.get("fabric", ""))


class Course:
    """Most flows on a link while keys are held, over time."""

    def __init__(self) -> None:
        self.largest = 0
        self._sum = self._held_ns = 0

    @property
    def mean(self) -> float:
        """Mean over the time in which keys are held; 0 if there is none."""
        return self._sum / self._held_ns if self._held_ns else 0.0

    @property
    def held_s(self) -> float:
        """Time in which keys are held, in s."""
        return self._held_ns / 1e9

    def add(self, loads: NDArray[np.int32], duration_ns: int) -> None:
        """Add a time with these loads; a grant counts for the largest even if it takes none."""
        most = int(loads.max(initial=0))
        self.largest = max(self.largest, most)
        self._held_ns += duration_ns
        self._sum += most * duration_ns


@dataclass(frozen=True, eq=False)
class Moment:
    """A set of granted keys."""

    #: When it began.
    time_ns: int
    #: Each granted key and the number of its alternative, by application and phase.
    paths: Mapping[tuple[str, str], tuple[InstalledKey, int]]
    #: int32 [loads]: flows on each link, as `Ledger.loads`.
    loads: NDArray[np.int32]

    @property
    def contention(self) -> int:
        """Most flows on a link."""
        return int(self.loads.max(initial=0))


@dataclass(frozen=True)
class Replayed:
    """What a log says."""

    #: Number of events, and of those whose decision is another one than recorded.
    events: int
    different: int
    #: Number of granted requests, and of those that got the base routes because their key was not
    #: ready; these count nowhere else.
    requests: int
    on_base: int
    #: For ``recorded`` (the decisions of the log), ``base`` (the base routes instead) and each
    #: further choice.
    courses: Mapping[str, Course]
    #: Distinct sets of granted keys with the most flows on a link, the most first.
    moments: tuple[Moment, ...]


def _follow(
    state: Scheduler,
    event: Event,
    answer: Decision,
    key_of: Callable[[str, str], tuple[RoutingKey, tuple[NDArray[np.int32], ...]]],
) -> None:
    """Handle what an event means for another rule.

    `event`, `answer`: an event, and what it changed with the recorded rule. `key_of`: returns a key
    and its alternatives.
    """
    time_ns = float(event.time_ns)
    for granted in answer.ended:
        if granted.alternative != BASE:
            state.handle(Done(time_ns, scheduler_name(granted.application, granted.phase)))
    # A snapshot has the grants of before the log.
    new = event.grants if isinstance(event, Snapshot) else answer.granted
    for granted in new if isinstance(event, Requested | Snapshot) else ():
        name = scheduler_name(granted.application, granted.phase)
        if granted.alternative == BASE or name in state.granted:
            continue
        if name not in state.keys:
            key, columns = key_of(granted.application, granted.phase)
            state.handle(Place(time_ns, key, columns if state.choice == "installed" else ()))
        state.handle(Request(time_ns, name))
    if isinstance(event, Left):
        for name in [n for n in state.keys if n.startswith(f"{event.application}/")]:
            state.handle(Leave(time_ns, name))


def replay(
    fabric: Fabric,
    log: Iterable[tuple[Event, str]],
    choices: Sequence[Choice] = (),
    *,
    criterion: Criterion = "max",
    while_missing: WhileMissing = "wait",
    num_alternatives: int = 4,
    seed: int = 0,
    most_moments: int = 5,
) -> Replayed:
    """Repeat the decisions in a log, also with other rules for the same requests.

    - `fabric`: the whole fabric.
    - `log`: each event, and its decision as JSON, from the first event of a store or log on.
    - `choices`: rules as for `Scheduler`. Their keys are made from their flows on the whole fabric,
      as the service makes them, but without regard to LIDs.
    - `criterion`, `while_missing`: settings of the service, as for `Ledger`.
    - `num_alternatives`, `seed`: settings of the other rules' keys, as in
      `weft.subnet.service.makers.MakerSettings`.
    """
    network = key_network(fabric)
    ledger = Ledger(network, criterion=criterion, while_missing=while_missing)
    others = {
        choice: Scheduler(network, choice=choice, criterion=criterion, keep_log=False)
        for choice in choices
    }
    courses = {name: Course() for name in ("recorded", "base", *others)}
    made: dict[tuple[str, str], tuple[RoutingKey, tuple[NDArray[np.int32], ...]]] = {}

    def key_of(application: str, name: str) -> tuple[RoutingKey, tuple[NDArray[np.int32], ...]]:
        if (application, name) not in made:
            phases = ledger.application(application).phases
            phase, first = phases[name], seed + seed_of(application)
            key = keys(
                fabric, phase.sources, phase.destinations, first="random",
                name=scheduler_name(application, name), seed=first + list(phases).index(name),
            )  # fmt: skip
            made[application, name] = key, tuple(alternatives(key, num_alternatives, seed))
        return made[application, name]

    moments: dict[frozenset[tuple[str, str, int, int]], Moment] = {}
    events = different = requests = on_base = 0
    for event, decision in log:
        events += 1
        loads = [ledger.loads, ledger.base_loads, *(other.loads for other in others.values())]
        if any(granted.alternative != BASE for granted in ledger.grants.values()):
            # The state between the event before and this one.
            for course, each in zip(courses.values(), loads, strict=True):
                course.add(each, event.time_ns - ledger.now_ns)
        try:
            answer = ledger.handle(event)
        except (Refused, LookupError) as error:  # a link that the fabric does not have
            raise InputError(
                f"event {events} of the log contradicts the fabric or the events before it: "
                f"{error}; a log begins with the first event of a store or with a snapshot"
            ) from None
        different += answer_json(answer) != decision
        for other in others.values():
            _follow(other, event, answer, key_of)
        if isinstance(event, Left):
            made = {at: key for at, key in made.items() if at[0] != event.application}
        if isinstance(event, Requested):
            requests += 1
            on_base += answer.granted[0].alternative == BASE
            for course, each in zip(courses.values(), loads, strict=True):
                course.add(each, 0)
            _keep(moments, ledger, most_moments)
    found = sorted(moments.values(), key=lambda moment: -moment.contention)
    return Replayed(events, different, requests, on_base, courses, tuple(found))


def _keep(moments: dict[frozenset[Any], Moment], ledger: Ledger, most: int) -> None:
    """Keep the present set of grants if it is among those with the most flows on a link."""
    contention = int(ledger.loads.max(initial=0))
    least = min(moments.values(), key=lambda moment: moment.contention, default=None)
    if not most or (len(moments) == most and least and contention <= least.contention):
        return
    paths = {}
    for at, granted in ledger.grants.items():
        key = ledger.phase(*at).key
        if granted.alternative != BASE and key is not None:
            paths[at] = key, granted.alternative
    grants = (ledger.grants[at] for at in paths)
    name = frozenset((g.application, g.phase, g.alternative, g.generation) for g in grants)
    if not name or name in moments:
        return
    moments[name] = Moment(ledger.now_ns, paths, ledger.loads.copy())
    if len(moments) > most:
        del moments[next(each for each, moment in moments.items() if moment is least)]


# -- packets -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Twin:
    """A moment at the packet level, where all flows send one message each at the same time."""

    moment: Moment
    #: Number of flows, those between the same two hosts of a key counted once.
    flows: int
    #: [links]: flows on each link between switches, 0 on others, as the ledger predicts them and as
    #: the messages' bytes on the link say.
    predicted: NDArray[np.int64]
    simulated: NDArray[np.float64]
    #: Most flows on a link, links at hosts included, each divided by the rate of the link over that
    #: of hosts: the least slowdown of long messages.
    predicted_slowdown: float
    #: Time until the last message has arrived, divided by that of the slowest message alone.
    slowdown: float

    @property
    def differing(self) -> int:
        """Number of links on which the two numbers of flows differ."""
        return int((self.predicted != self.simulated).sum())


def simulated(fabric: Fabric, moment: Moment, size_bytes: int = 1 << 18) -> Twin:
    """Send one message for each flow of all granted keys at the packet level.

    `fabric`: the whole fabric.
    """
    parts = [_paths(fabric, *granted) for granted in moment.paths.values()]
    none = np.zeros(0, np.int64)
    nowhere = PathRoutes("none", fabric.digest, none, np.zeros(1, np.int64), none.astype(np.int32))
    routes = KeyedRoutes(
        f"{len(parts)} granted keys", fabric.digest, nowhere, tuple(part for part, _ in parts)
    )
    builder = WorkloadBuilder(fabric.num_hosts, name="granted keys")
    for number, (_, pairs) in enumerate(parts, 1):
        for source, destination in pairs.tolist():
            builder.put(source, destination, size_bytes, tag=number)
    workload = builder.build()
    # The tag of a message is the number of its key, which KeyedRoutes selects by the LID offset.
    result = simulate(
        fabric, routes, workload, np.arange(fabric.num_hosts), level="packet", handshake=False,
        lids=workload.tag,
    )  # fmt: skip
    wire_bytes = result.wire_bytes.sum(1)[: fabric.num_links]
    at_source = fabric.link_kind == LinkKind.HOST_SWITCH
    count = len(workload.messages)
    found = wire_bytes / (wire_bytes[at_source].sum() / count)
    between = fabric.link_kind == LinkKind.SWITCH_SWITCH
    predicted = np.zeros(fabric.num_links, dtype=np.int64)
    index = index_of_link(key_network(fabric))
    predicted[index >= 0] = moment.loads[index[index >= 0]]
    load = relative_loads(fabric, np.where(between, predicted, found))
    return Twin(
        moment, count, predicted, np.where(between, found, 0.0), float(load.max()),
        float(result.makespan_ns / result.alone_ns().max()),
    )  # fmt: skip


def _paths(
    fabric: Fabric, key: InstalledKey, alternative: int
) -> tuple[PathRoutes, NDArray[np.int32]]:
    """Return the paths of an alternative as source routes, and their hosts, int32 [pairs, 2]."""
    begin, links = key.links(alternative)
    flow = key.moving[key.sources[key.moving] != key.destinations[key.moving]]
    hosts = np.stack((key.sources[flow], key.destinations[flow]), axis=1)
    ends = fabric.host_endpoint[hosts].astype(np.int64)
    pair = ends[:, 0] * fabric.num_host_endpoints + ends[:, 1]
    order = np.argsort(pair)
    count = np.diff(begin)[flow[order]]
    offset = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
    at = np.repeat(begin[flow[order]] - offset[:-1], count) + np.arange(offset[-1])
    edges = fabric.graph.edge_of_link[links[at]].astype(np.int32)
    return PathRoutes(key.name, fabric.digest, pair[order], offset, edges), hosts
