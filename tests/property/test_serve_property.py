"""The HTTP interface against a plain model of it, written from its documentation."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples
from tests.serve_services import ROOT, Caller, Time, served, tick, without_processes

from weft.subnet.service import models
from weft.subnet.service.service import Rules

HOSTS = [f"h{number}" for number in range(6)]
NAMES = ["a", "b", "c"]
PHASES = ["p", "q"]
MOST = 2
TICK_S = 0.001
right_hosts = st.lists(st.sampled_from(HOSTS), min_size=1, max_size=3, unique=True)
any_hosts = st.lists(st.sampled_from([*HOSTS, "h99"]), min_size=1, max_size=4)
hosts = st.one_of(right_hosts, right_hosts, any_hosts)
#: Whose token is sent; None for that of the application, or the administrator's.
who = st.one_of(st.none(), st.none(), st.sampled_from(["", "wrong", ROOT, *NAMES]))
flows = st.one_of(
    st.just([(0, 0)]), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4)
)


@dataclass
class Application:
    """What the model knows of an application: its hosts, phases, token, and grants."""

    hosts: list[str]
    phases: list[str]
    token: str
    #: For each granted key the length of the lease and its end, in ms of the model's time.
    grants: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Alternative and time of each grant, which a restart does not change.
    answers: dict[str, tuple[int, int]] = field(default_factory=dict)


class ServiceModel(RuleBasedStateMachine):
    """Random calls of several applications, right and wrong ones, and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        without_processes(self.patch)
        tick(self.patch, TICK_S)
        self.clock = Time(self.patch)
        self.folder = tempfile.TemporaryDirectory()
        self.stack = ExitStack()
        self.required = True
        self.known: dict[str, Application] = {}
        self.now_ms = 0

    @initialize(required=st.booleans())
    def start(self, required: bool) -> None:
        self.required = required
        self._open()
        self.place(None, "a", ["h0", "h4"], {"p": [(0, 1)], "q": [(1, 0)]})

    def _open(self) -> None:
        rules = Rules(most_applications=MOST, lease_s=5.0)
        path = Path(self.folder.name) / "store"
        self.caller, self.service = self.stack.enter_context(
            served(path, rules, required=self.required)
        )

    def teardown(self) -> None:
        self.stack.close()
        self.patch.undo()
        self.folder.cleanup()

    # -- the model -------------------------------------------------------------------------------

    def _token(self, who: str) -> str:
        """Return the token of an application that there is, or a text that is none."""
        if who in NAMES:
            return self.known[who].token if who in self.known else "none"
        return who

    def _denied(self, who: str, *owners: str) -> tuple[int, str] | None:
        """Return how a request of somebody is refused, if only some may send it."""
        if not self.required:
            return None
        if not who:
            return 401, "no_token"
        if who == ROOT or (who in owners and who in self.known):
            return None
        return 403, "not_yours"

    def _unknown(self, name: str, phase: str | None = None) -> tuple[int, str] | None:
        if name not in self.known:
            return 404, "unknown_application"
        if phase is not None and phase not in self.known[name].phases:
            return 404, "unknown_phase"
        return None

    def _expect(
        self, refusal: tuple[int, str] | None, who: str, method: str, path: str, body: Any = None
    ) -> httpx.Response | None:
        """Send a request that is refused in this way, or answered; return the answer if it is."""
        if refusal is not None:
            refused = self.caller.refused(method, path, body, token=self._token(who))
            assert refused[:2] == refusal, refused
            assert refused[2]
            return None
        answer = self.caller.call(method, path, body, token=self._token(who))
        assert answer.status_code < 300, answer.text
        return answer

    # -- requests --------------------------------------------------------------------------------

    @rule(
        who=who, name=st.sampled_from(NAMES), hosts=hosts,
        phases=st.dictionaries(st.sampled_from(PHASES), flows, min_size=1, max_size=2),
    )  # fmt: skip
    def place(
        self, who: str | None, name: str, hosts: list[str], phases: dict[str, list[tuple[int, int]]]
    ) -> None:
        who = ROOT if who is None else who
        taken = {host for each in self.known.values() for host in each.hosts}
        bad = self._denied(who)
        if bad is None and "h99" in hosts:
            bad = 422, "unknown_host"
        elif bad is None and len(self.known) >= MOST:
            bad = 429, "too_many_applications"
        elif bad is None and name in self.known:
            bad = 409, "name_taken"
        elif bad is None:
            # The first host that is wrong decides.
            for number, host in enumerate(hosts):
                if host in taken:
                    bad = 409, "host_taken"
                elif host in hosts[:number]:
                    bad = 422, "host_twice"
                if bad:
                    break
            else:
                if any(rank >= len(hosts) for ends in phases.values() for f in ends for rank in f):
                    bad = 422, "unknown_rank"
        body = {
            "name": name, "hosts": hosts,
            "phases": [{"name": phase, "flows": ends} for phase, ends in phases.items()],
        }  # fmt: skip
        answer = self._expect(bad, who, "POST", "/v1/applications", body)
        if answer is None:
            return
        placed = models.Placed.model_validate_json(answer.content)
        self.known[name] = Application(hosts, list(phases), placed.token)
        assert placed.hosts == hosts
        assert [key.flows for key in placed.keys] == [len(ends) for ends in phases.values()]
        self.caller.until(lambda: all(key["state"] == "ready" for key in self._keys(name)))

    def _keys(self, name: str) -> Any:
        return self.caller.call("GET", f"/v1/applications/{name}", token=ROOT).json()["keys"]

    @rule(who=who, name=st.sampled_from(NAMES))
    def remove(self, who: str | None, name: str) -> None:
        who = name if who is None else who
        bad = self._denied(who, name) or self._unknown(name)
        if self._expect(bad, who, "DELETE", f"/v1/applications/{name}") is not None:
            del self.known[name]

    @rule(
        who=who, name=st.sampled_from(NAMES), phase=st.sampled_from([*PHASES, "r"]),
        lease_s=st.sampled_from([None, 1, 2.5, 30]), paths=st.booleans(),
    )  # fmt: skip
    def request(
        self, who: str | None, name: str, phase: str, lease_s: float | None, paths: bool
    ) -> None:
        who = name if who is None else who
        bad = self._denied(who, name) or self._unknown(name, phase)
        if bad is None and phase in self.known[name].grants:
            bad = 409, "in_use"
        body = {"lease_s": lease_s, "paths": paths}
        path = f"/v1/applications/{name}/keys/{phase}/request"
        answer = self._expect(bad, who, "POST", path, body)
        if answer is None:
            return
        grant = models.Grant.model_validate_json(answer.content)
        lease_ms = int((lease_s or 5.0) * 1000)
        assert (grant.application, grant.phase) == (name, phase)
        assert grant.until_ns - grant.since_ns == lease_ms * 10**6
        assert (grant.paths is not None) == paths
        self.known[name].grants[phase] = lease_ms, self.now_ms + lease_ms
        self.known[name].answers[phase] = grant.alternative, grant.since_ns

    @rule(
        who=who, name=st.sampled_from(NAMES), phase=st.sampled_from([*PHASES, "r"]),
    )  # fmt: skip
    def done(self, who: str | None, name: str, phase: str) -> None:
        who = name if who is None else who
        bad = self._denied(who, name) or self._unknown(name, phase)
        if bad is None and phase not in self.known[name].grants:
            bad = 409, "not_held"
        path = f"/v1/applications/{name}/keys/{phase}/done"
        if self._expect(bad, who, "POST", path) is not None:
            del self.known[name].grants[phase]

    @rule(who=who, name=st.sampled_from(NAMES))
    def renew(self, who: str | None, name: str) -> None:
        who = name if who is None else who
        bad = self._denied(who, name) or self._unknown(name)
        answer = self._expect(bad, who, "POST", f"/v1/applications/{name}/renew")
        if answer is None:
            return
        held = self.known[name].grants
        assert {each["phase"] for each in answer.json()["grants"]} == set(held)
        for phase, (lease_ms, until_ms) in held.items():
            held[phase] = lease_ms, max(until_ms, self.now_ms + lease_ms)

    @rule(who=who)
    def look(self, who: str | None) -> None:
        who = ROOT if who is None else who
        for path in ("/v1/applications", "/v1/state", "/v1/log"):
            self._expect(self._denied(who), who, "GET", path)

    # -- requests that are right -----------------------------------------------------------------

    def _keys_of(self, *, granted: bool) -> list[tuple[str, str]]:
        return [
            (name, phase)
            for name, each in self.known.items()
            for phase in each.phases
            if (phase in each.grants) == granted
        ]

    @precondition(lambda self: self._keys_of(granted=False))
    @rule(pick=st.integers(0, 9), lease_s=st.sampled_from([1, 2.5]))
    def request_one(self, pick: int, lease_s: float) -> None:
        free = self._keys_of(granted=False)
        self.request(None, *free[pick % len(free)], lease_s, True)

    @precondition(lambda self: self._keys_of(granted=True))
    @rule(pick=st.integers(0, 9))
    def return_one(self, pick: int) -> None:
        held = self._keys_of(granted=True)
        self.done(None, *held[pick % len(held)])

    @precondition(lambda self: self.known)
    @rule(pick=st.integers(0, 9), remove=st.sampled_from([False] * 5 + [True]))
    def renew_or_remove_one(self, pick: int, remove: bool) -> None:
        name = sorted(self.known)[pick % len(self.known)]
        (self.remove if remove else self.renew)(None, name)

    @precondition(lambda self: len(self.known) < MOST)
    @rule(number=st.integers(1, 2))
    def place_one(self, number: int) -> None:
        taken = {host for each in self.known.values() for host in each.hosts}
        name = next(name for name in NAMES if name not in self.known)
        free = [host for host in HOSTS if host not in taken]
        self.place(None, name, free[:number], {"p": [(0, number - 1)]})

    # -- time and restarts -----------------------------------------------------------------------

    @rule(ms=st.sampled_from([400, 900, 900, 1900]), back_s=st.sampled_from([0, 0, 0, 100]))
    def time_passes(self, ms: int, back_s: int) -> None:
        # A long time is no jump of the clock, as both clocks show it.
        self.clock.pass_s(ms / 1000)
        self.clock.wall_ns -= back_s * 10**9
        # Time of the service is a little later than the model's, by 1 ns for each event.
        self.clock.steady_ns += 10**5
        self.clock.wall_ns += 10**5
        self.now_ms += ms
        self.caller.wait(asyncio.sleep(3 * TICK_S))
        for each in self.known.values():
            over = [phase for phase, (_, until) in each.grants.items() if until <= self.now_ms]
            for phase in over:
                del each.grants[phase]

    @rule(down_ms=st.sampled_from([0, 3000]))
    def restart(self, down_ms: int) -> None:
        self.stack.close()
        self.clock.pass_s(down_ms / 1000)
        self.now_ms += down_ms
        self._open()
        for each in self.known.values():  # nobody could renew meanwhile
            for phase, (lease_ms, until_ms) in each.grants.items():
                each.grants[phase] = lease_ms, max(until_ms, self.now_ms + lease_ms)

    @precondition(lambda self: hasattr(self, "caller"))
    @invariant()
    def state_is_that_of_the_model(self) -> None:
        state = models.State.model_validate_json(
            self.caller.call("GET", "/v1/state", token=ROOT).content
        )
        assert {each.name: each.hosts for each in state.applications} == {
            name: each.hosts for name, each in self.known.items()
        }
        assert {(each.application, each.phase) for each in state.grants} == {
            (name, phase) for name, each in self.known.items() for phase in each.grants
        }
        for grant in state.grants:
            answers = self.known[grant.application].answers
            assert (grant.alternative, grant.since_ns) == answers[grant.phase]
        for each in state.applications:
            assert [key.state for key in each.keys] == ["ready"] * len(each.keys)
        times = [
            json.loads(line)["time_ns"]
            for line in self.caller.call("GET", "/v1/log", token=ROOT).text.splitlines()
        ]
        assert times == sorted(set(times))


TestServiceModel = ServiceModel.TestCase
TestServiceModel.settings = settings(
    max_examples=examples(30), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)


# -- bodies that are wrong -----------------------------------------------------------------------

texts = st.one_of(
    st.text(max_size=20), st.sampled_from(["\ud800", "\0", "a\u2028b", "ä", "x" * 300, "𝔘" * 5])
)
numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([10**400, -(10**30), 2**63, 1e308, -0.0])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "name", "hosts", "num_hosts", "phases", "workload", "lease_s", "wait_s", "paths", "flows",
    "pattern",
]  # fmt: skip
bodies = st.one_of(
    values,
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=4),
    st.fixed_dictionaries(
        {"name": st.just("z") | texts},
        optional={
            "hosts": st.lists(st.sampled_from(HOSTS) | texts, max_size=3),
            "num_hosts": st.integers(-1, 20) | numbers,
            "phases": st.lists(
                st.fixed_dictionaries(
                    {"name": st.just("p") | texts},
                    optional={
                        "flows": st.lists(st.tuples(numbers, numbers), max_size=2),
                        "pattern": st.sampled_from(["ring", "shift:offset=x", ":", "a=b"]) | texts,
                    },
                ),
                max_size=2,
            ),
            "workload": st.sampled_from(["cartesian", "cartesian:dims=99,keys=true"]) | texts,
        },
    ),
)
raw = st.one_of(
    bodies.map(lambda value: json.dumps(value).encode()),
    bodies.map(lambda value: json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b'{"num_hosts": 1, "\\ud800": 1}', b'{"\\ud800": 1}', b"[" * 100_000,
            b'{"a":' * 5000, b"9" * 5000, b"NaN", b'{"lease_s": NaN}', b"\xff\xfe{}",
            b'{"wait_s": 1e999}', b'{"lease_s": 1e-300}', b'{"name": "a", "name": "b"}', b"{} {}",
        ]
    ),
)  # fmt: skip
METHODS = [
    ("POST", "/v1/applications"), ("POST", "/v1/advice"),
    ("POST", "/v1/applications/a/keys/p/request"), ("POST", "/v1/applications/a/keys/p/done"),
    ("POST", "/v1/applications/a/renew"), ("GET", "/v1/state"),
]  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a client of a service with application a."""
    with pytest.MonkeyPatch.context() as patch:
        without_processes(patch)
        with served(tmp_path_factory.mktemp("service") / "store") as (caller, running):
            caller.place("a", ["h8", "h12"], p="ring")
            yield caller, running


@given(
    where=st.sampled_from(METHODS), content=raw,
    kind=st.sampled_from(["application/json", "application/json", "text/plain", "a/b; charset=x"]),
)  # fmt: skip
@settings(max_examples=examples(200))
def test_whatever_is_sent_there_is_one_answer_or_one_error(
    service: Any, where: tuple[str, str], content: bytes, kind: str
) -> None:
    caller, running = service
    method, path = where
    if b"wait_s" in content:  # none of these tests waits
        content = content.replace(b"wait_s", b"wait_x")
    _one_answer(caller, method, path, content=content, headers={"content-type": kind})
    for name in set(running.ledger.applications) - {"a"}:
        assert caller.call("DELETE", f"/v1/applications/{name}").status_code == 204
    for phase in {phase for _, phase in running.ledger.grants}:
        assert caller.call("POST", f"/v1/applications/a/keys/{phase}/done").status_code == 200


names = st.text(max_size=200).filter(lambda text: "/" not in text) | texts


@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "PATCH"]),
    parts=st.lists(st.sampled_from(["v1", "applications", "a", "keys", "p", "log"]) | names),
    query=st.dictionaries(
        st.sampled_from(["after", "limit", "wait_x"]) | texts, texts | st.integers().map(str)
    ),
    token=st.binary(max_size=30),
)  # fmt: skip
@settings(max_examples=examples(150))
def test_whatever_the_address_there_is_one_answer_or_one_error(
    service: Any, method: str, parts: list[str], query: dict[str, str], token: bytes
) -> None:
    caller, running = service
    clean = {
        key.encode(errors="replace").decode(): value.encode(errors="replace").decode()
        for key, value in query.items()
    }
    path = "/".join(quote(part.encode(errors="replace"), "") for part in parts)
    headers = {b"authorization": b"Bearer " + token}
    _one_answer(caller, method, f"http://weft/{path}", params=clean, headers=headers)
    if "a" not in running.ledger.applications:  # it was a right address
        caller.place("a", ["h8", "h12"], p="ring")


def _one_answer(caller: Caller, method: str, path: str, **more: Any) -> None:
    if more["headers"].get("content-type"):
        answer = caller.call(method, path, **more)
    else:
        answer = caller.wait(caller._client.request(method, path, **more))
    assert answer.status_code < 300 or 400 <= answer.status_code < 500, answer.text
    if answer.status_code >= 400 and method != "HEAD":
        error = models.Error.model_validate_json(answer.content).error
        assert error.status == answer.status_code
        assert error.message
        assert len(error.message) <= 2000
