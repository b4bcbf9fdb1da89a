"""A real `weft serve` under load that is killed at random instants, and what must be left of it."""

from __future__ import annotations

import http.client
import json
import random
import socket
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import PATIENCE_S, Starter, end, left_of, state_of, wait_for
from tests.serve_ledgers import replay
from weft import fabric
from weft.sim.keys.network import key_network
from weft.subnet.service.ledger import Ledger
from weft.subnet.service.log import read_log

FABRIC = "xgft:2;4,4;1,4"
HOLDERS = 4
PHASES = [f"p{number}" for number in range(4)]
#: The log begins anew again and again during a run.
KEEP_LOG_S = 1.0
#: Leases do not end during a run.
LEASE_S = 86400.0
Answer = tuple[int, Any]


class Lost(Exception):
    """The service died before its answer."""


@dataclass
class Client:
    """A connection to the service, with a token."""

    port: int
    token: str
    connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        """Return status and answer of a request; raise `Lost` if there is none."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(
                    "127.0.0.1", self.port, timeout=PATIENCE_S
                )
            text = None if body is None else json.dumps(body)
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            self.connection.request(method, path, text, headers)
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise Lost from None
        return answer.status, json.loads(content) if content else None

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None


#: What the service imports, and routes that it makes.
_PREPARE = f"""
import uvicorn, uvloop, weft.cli.serve, weft.subnet.service.http
from weft import fabric
from weft.subnet.service.makers import base_routes
base_routes(fabric({FABRIC!r}), ("dmodk", "updn"))
"""


class Process:
    """A `weft serve` in a session of its own."""

    def __init__(self, starter: Starter, store: Path, port: int) -> None:
        self.output = store.parent / "output"
        self.output.touch()
        arguments = ["serve", FABRIC, "--store", str(store), "--port", str(port), "--tokens"]
        arguments += ["--keep-log", str(KEEP_LOG_S / 86400)]
        self.pid = starter.start(arguments, self.output)
        starter.last = [self.pid]
        self.port = port

    def wait_ready(self) -> None:
        """Wait until the service answers."""

        def answers() -> bool:
            assert state_of(self.pid), self.said()
            with suppress(Lost), closing(Client(self.port, "")) as client:
                return client.call("GET", "/v1/health")[0] == 200
            return False

        wait_for(answers, self.said)

    def said(self) -> str:
        """Return what it has printed."""
        return self.output.read_text()

    def administrator_token(self) -> str:
        """Return the administrator's token, which it prints at its first start."""
        return next(line.rpartition(" ")[2] for line in self.said().splitlines() if "token" in line)

    def kill(self, *, group: bool) -> None:
        """Kill it at once; its workers too, or they must see it themselves."""
        end(self.pid, group=group)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@dataclass
class Holder:
    """A client that requests, returns and renews the keys of one application.

    `held` has the last answer for each phase: a grant, or None after a return. `asked` has the
    phase whose request or return was not answered.
    """

    name: str
    client: Client
    rng: random.Random
    held: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(PHASES))
    asked: tuple[str, str] | None = None
    answers: int = 0
    lost: int = 0

    def run(self, stop: threading.Event) -> None:
        """Send requests until the service is dead."""
        while not stop.is_set():
            phase = self.rng.choice(PHASES)
            kind = self.rng.choices(["request", "done", "renew"], [5, 5, 1])[0]
            root = f"/v1/applications/{self.name}"
            path = f"{root}/renew" if kind == "renew" else f"{root}/keys/{phase}/{kind}"
            self.asked = None if kind == "renew" else (kind, phase)
            body = {"lease_s": LEASE_S, "wait_s": 30.0} if kind == "request" else None
            try:
                status, answer = self.client.call("POST", path, body)
            except Lost:
                self.lost += 1
                return
            self.asked = None
            self.answers += 1
            before = self.held[phase]
            if kind == "request":
                assert status == (200 if before is None else 409), (status, answer)
                if status == 200:
                    self.held[phase] = answer
            elif kind == "done":
                assert status == (409 if before is None else 200), (status, answer)
                self.held[phase] = None
            else:
                assert status == 200
                held = {each["phase"]: each["alternative"] for each in answer["grants"]}
                assert held == {p: g["alternative"] for p, g in self.held.items() if g}

    def check(self, present: dict[str, Any]) -> None:
        """Compare what the service has after a restart with what was answered before."""
        for phase in PHASES:
            grant, before = present.get(phase), self.held[phase]
            asked = self.asked[0] if self.asked and self.asked[1] == phase else None
            if before is not None and asked != "done":
                assert grant is not None, f"lost: {self.name} {phase}, granted as {before}"
            if before is None and asked != "request":
                assert grant is None, f"invented: {self.name} {phase} {grant}"
            if before is not None and grant is not None:
                for what in ("alternative", "since_ns"):
                    assert grant[what] == before[what], f"changed: {self.name} {phase} {what}"
            self.held[phase] = grant
        self.asked = None


@dataclass
class Placer:
    """A client that places and removes applications.

    `tokens` has the applications whose placement was answered.
    """

    client: Client
    rng: random.Random
    tokens: dict[str, str] = field(default_factory=dict)
    asked: tuple[str, str] | None = None
    count: int = 0
    placed: int = 0
    lost: int = 0

    def run(self, stop: threading.Event) -> None:
        """Send requests until the service is dead."""
        while not stop.is_set():
            if len(self.tokens) < 4 and (not self.tokens or self.rng.random() < 0.6):
                name, self.count = f"t{self.count}", self.count + 1
                body = {
                    "name": name, "num_hosts": 2,
                    "phases": [{"name": "p", "flows": [[0, 1], [1, 0]]}],
                }  # fmt: skip
                asked = ("POST", "/v1/applications", body)
            else:
                name = self.rng.choice(sorted(self.tokens))
                asked = ("DELETE", f"/v1/applications/{name}", None)
            self.asked = asked[0], name
            try:
                status, answer = self.client.call(*asked)
            except Lost:
                self.lost += 1
                return
            self.asked = None
            if asked[0] == "POST":
                assert status == 201, answer
                self.tokens[name] = answer["token"]
                self.placed += 1
            else:
                assert status == 204, answer
                del self.tokens[name]

    def check(self, present: set[str]) -> None:
        """Compare as `Holder.check`; try the tokens, and remove applications without answer."""
        kind, name = self.asked or ("", "")
        may = {name} if self.asked else set()
        assert present | may >= set(self.tokens), f"lost: {set(self.tokens) - present}"
        assert present <= set(self.tokens) | may, f"invented: {present - set(self.tokens)}"
        if kind == "POST" and name in present:
            assert self.client.call("DELETE", f"/v1/applications/{name}")[0] == 204
        self.tokens = {each: token for each, token in self.tokens.items() if each in present}
        for each, token in self.tokens.items():
            with closing(Client(self.client.port, token)) as own:
                assert own.call("GET", f"/v1/applications/{each}")[0] == 200
        self.asked = None


def run_kills(folder: Path, kills: int, seed: int, *, fork: bool) -> dict[str, float]:
    """Kill a service under load again and again; check all that it had answered.

    Parameters
    ----------
    folder
        For the store and what the service prints.
    kills, seed
        Number of kills under load; some more hit the start. Seed of all that is random.
    fork
        As for `Starter`.

    Returns
    -------
    dict
        Counts of what happened.
    """
    with closing(Starter(_PREPARE if fork else "", fork=fork)) as starter:
        return _run_kills(starter, folder, kills, random.Random(seed), fork=fork)


def _run_kills(
    starter: Starter, folder: Path, kills: int, rng: random.Random, *, fork: bool
) -> dict[str, float]:
    store = folder / "store.sqlite"
    port = free_port()
    begin_s = time.monotonic()
    service = Process(starter, store, port)
    service.wait_ready()
    token = service.administrator_token()
    administrator = Client(port, token)
    holders = []
    for number in range(HOLDERS):
        phases = [
            {"name": name, "flows": [[0, 1], [1, 0]][: 1 + at % 2]}
            for at, name in enumerate(PHASES)
        ]
        body = {"name": f"w{number}", "phases": phases}
        body["hosts"] = [f"h{host}" for host in (number, number + 4)]
        status, placed = administrator.call("POST", "/v1/applications", body)
        assert status == 201, placed
        holders.append(
            Holder(placed["name"], Client(port, placed["token"]), random.Random(rng.random()))
        )
    for holder in holders:
        for phase in PHASES:
            path = f"/v1/applications/{holder.name}/keys/{phase}"
            assert holder.client.call("POST", f"{path}/request", {"wait_s": 60})[0] == 200
            assert holder.client.call("POST", f"{path}/done")[0] == 200
    # A worker needs about this time to start; only then are applications placed.
    long_s = time.monotonic() - begin_s
    placer = Placer(Client(port, token), random.Random(rng.random()))
    sessions, starts_s = [], 0.0
    for number in range(kills):
        stop = threading.Event()
        failures: list[BaseException] = []
        threads = [
            threading.Thread(target=_quietly, args=(each.run, stop, failures))
            for each in (*holders, placer)
        ]
        for thread in threads:
            thread.start()
        long = number % 10 == 5
        time.sleep(rng.uniform(0.8 * long_s, 1.5 * long_s) if long else rng.uniform(0.01, 0.5))
        service.kill(group=rng.random() < 0.5)
        stop.set()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]
        sessions.append(service.pid)
        if rng.random() < 0.1:  # killed while it starts
            service = Process(starter, store, port)
            time.sleep(rng.uniform(0.0, 0.3 if fork else 2.0))
            service.kill(group=False)
            sessions.append(service.pid)
        start_s = time.monotonic()
        service = Process(starter, store, port)
        service.wait_ready()
        starts_s += time.monotonic() - start_s
        administrator.close()
        status, state = administrator.call("GET", "/v1/state")
        assert status == 200
        present: dict[str, dict[str, Any]] = {each["name"]: {} for each in state["applications"]}
        for grant in state["grants"]:
            present[grant["application"]][grant["phase"]] = grant
        for holder in holders:
            holder.check(present.pop(holder.name))
        assert not any(present.values()), "a grant that nobody asked for"
        placer.client.close()
        placer.check(set(present))
        _check_database(store)
        if number % 50 == 49 or number == kills - 1:
            events, last = _check_replay(folder, store, administrator)
    assert service.said().count("The administrator's token") == 1
    service.kill(group=False)
    for each in (administrator, placer.client, *(holder.client for holder in holders)):
        each.close()
    wait_for(lambda: not any(map(left_of, (*sessions, service.pid))))
    return {
        "kills": len(sessions), "events": last, "in the log": events,
        "answers": sum(each.answers for each in holders),
        "answers lost": sum(each.lost for each in holders) + placer.lost,
        "placed": placer.placed, "placements asked": placer.count,
        "mean start s": starts_s / kills,
    }  # fmt: skip


def _quietly(run: Any, stop: threading.Event, failures: list[BaseException]) -> None:
    try:
        run(stop)
    except BaseException as error:  # raised by the main thread
        failures.append(error)


def _check_database(store: Path) -> None:
    reader = sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)
    assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    reader.close()


def _check_replay(folder: Path, store: Path, administrator: Client) -> tuple[int, int]:
    """Replay the log; compare decisions and the state that they lead to with the service's."""
    lines: list[str] = []
    while True:
        last = json.loads(lines[-1])["number"] if lines else 0
        with_token = {"Authorization": f"Bearer {administrator.token}"}
        connection = http.client.HTTPConnection("127.0.0.1", administrator.port, timeout=PATIENCE_S)
        connection.request("GET", f"/v1/log?after={last}&limit=10000", headers=with_token)
        text = connection.getresponse().read().decode()
        connection.close()
        if not text:
            break
        lines += text.splitlines(keepends=True)
    log = folder / "log.jsonl"
    log.write_text("".join(lines))
    ledger = Ledger(key_network(fabric(FABRIC)))
    events, different = replay(ledger, read_log(log))
    assert (events, different) == (len(lines), 0)
    reader = sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)
    stored = reader.execute("SELECT * FROM granted ORDER BY application, phase").fetchall()
    keys = reader.execute("SELECT application, phase, state, generation FROM key").fetchall()
    reader.close()
    assert stored == sorted(
        (
            each.application, each.phase, each.alternative, each.generation, each.since_ns,
            each.lease_ns, each.until_ns,
        )
        for each in ledger.grants.values()
    )  # fmt: skip
    # Keys that are made meanwhile are newer than the log.
    for name, phase, state, generation in keys:
        known = ledger.applications[name].phases[phase]
        assert known.generation <= generation
        assert known.state.value == state or state == "ready"
    assert {name for name, *_ in keys} == set(ledger.applications)
    return events, last
