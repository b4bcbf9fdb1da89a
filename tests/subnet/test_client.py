"""The client of `weft serve` against a real service, and against wrong answers."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S, wait_for
from tests.serve_runs import Served, free_port, serving
from tests.serve_services import FABRIC

from weft.client import Client, RoutesWarning, ServiceError
from weft.core.errors import InputError, WeftError
from weft.subnet.service import models

CALLS = ("health", "state", "place", "advise", "application", "remove", "key", "request", "done",
         "renew", "changes")  # fmt: skip


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url, served.admin_token) as found:
        yield found
        with served.client() as other:
            for application in other.state().applications:
                other.remove(application.name)


def test_importing_the_client_is_light() -> None:
    program = (
        "import sys, weft.client; names = ('numpy', 'numba', 'fastapi', 'httpx', 'polars');"
        "print([n for n in names if n in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["[]"]


def test_every_call_and_parameter_is_described() -> None:
    for name in (*CALLS, "hold", "phase", "close"):
        assert inspect.getdoc(getattr(Client, name))
    for parameter in list(inspect.signature(Client.__init__).parameters)[1:]:
        assert f"\n    {parameter}\n" in (Client.__doc__ or "")


def test_every_address_of_the_interface_has_a_call(served: Served) -> None:
    document = httpx.get(f"{served.url}/v1/openapi.json").json()
    offered = {
        (method.upper(), path.format(application="A", phase="P"))
        for path, methods in document["paths"].items()
        if path.startswith("/v1/")
        for method in methods
    }
    sent = set()

    def note(request: httpx.Request) -> httpx.Response:
        sent.add((request.method, request.url.path))
        return httpx.Response(503)

    client = Client("http://x", transport=httpx.MockTransport(note))
    arguments: dict[str, tuple[Any, ...]] = {
        "health": (), "state": (), "place": ("A",), "advise": (1,), "key": ("A", "P"),
        "request": ("A", "P"), "done": ("A", "P"),
    }  # fmt: skip
    for name in CALLS:
        named = {"num_hosts": 1, "workload": "w"} if name == "place" else {}
        with pytest.raises(ServiceError):
            getattr(client, name)(*arguments.get(name, ("A",)), **named)
    # The list of applications is in the state; the log is for 'weft keys replay'.
    assert offered - sent == {("GET", "/v1/applications"), ("GET", "/v1/log")}
    assert sent <= offered


def test_an_application_from_placement_to_removal(client: Client, served: Served) -> None:
    health = client.health()
    assert (health.fabric, health.hosts, health.problems) == (FABRIC, 16, [])
    advice = client.advise(4, hosts=[f"h{n}" for n in range(6)], phases={"a": "shift:offset=1"})
    assert len(advice.placements[0].hosts) == 4
    phases = {"a": [(0, 2), (1, 3)], "b": "shift:offset=1"}
    placed = client.place("job", hosts=("h0", "h1", "h2", "h3"), phases=phases)
    assert isinstance(placed, models.Placed)
    assert placed.hosts == ["h0", "h1", "h2", "h3"]
    grant = client.request("job", "a", lease_s=50, wait_s=PATIENCE_S, paths=True)
    assert [(p.source, p.destination) for p in grant.paths] == phases["a"]
    assert grant.lease_s == 50
    key = client.key("job", "a")
    assert key.granted
    assert key.alternatives_paths[grant.alternative].paths == grant.paths
    assert [each.phase for each in client.renew("job").grants] == ["a"]
    assert [each.kind for each in client.changes("job", wait_s=PATIENCE_S).changes] == ["ready"] * 2
    assert [each.phase for each in client.state().grants] == ["a"]
    assert client.done("job", "a").phase == "a"
    assert not client.application("job").keys[0].granted
    assert client.remove("job") is None
    with pytest.raises(ServiceError, match="there is no application job") as caught:
        client.application("job")
    assert (caught.value.status, caught.value.code) == (404, "unknown_application")
    assert repr(pickle.loads(pickle.dumps(caught.value))) == repr(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).code == "unknown_application"


def test_environment_and_tokens(
    client: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = client.place("job", num_hosts=2, phases={"a": [(0, 1)]}).token
    for name, value in (("URL", served.url + "/"), ("TOKEN", token), ("APPLICATION", "job")):
        monkeypatch.setenv(f"WEFT_{name}", value)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Client() as own:
        assert own.request(None, "a", wait_s=PATIENCE_S).application == "job"
        own.done(None, "a")
        with pytest.raises(ServiceError, match="does not give the right") as caught:
            own.state()
        assert caught.value.status == 403
    monkeypatch.delenv("WEFT_TOKEN")
    with Client() as own, pytest.raises(ServiceError) as caught:
        own.application(None)
    assert (caught.value.status, caught.value.code) == (401, "no_token")
    monkeypatch.delenv("WEFT_APPLICATION")
    with Client() as own, pytest.raises(InputError, match="WEFT_APPLICATION"):
        own.application(None)


def test_a_phase_holds_its_key_beyond_the_lease_and_returns_it(client: Client) -> None:
    client.place("job", num_hosts=2, phases={"a": [(0, 1)]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with client.phase("job", "a", lease_s=5, wait_s=PATIENCE_S, paths=True) as held:
            first = held.grant.until_ns
            wait_for(lambda: held.grant.until_ns > first)
            assert held.lost == ""
            assert held.grant.paths  # also of a renewed grant
    assert not client.application("job").keys[0].granted
    with pytest.raises(ZeroDivisionError), client.phase("job", "a"):
        raise ZeroDivisionError
    assert not client.application("job").keys[0].granted
    assert not [thread for thread in threading.enumerate() if thread.name == "weft-lease"]


def test_a_phase_that_loses_its_key_warns(client: Client, served: Served) -> None:
    client.place("job", num_hosts=2, phases={"a": [(0, 1)]})

    held = client.hold("job", "a", lease_s=3, wait_s=PATIENCE_S)
    with served.client() as other:
        other.done("job", "a")
        other.request("job", "a")
    wait_for(lambda: held.lost)
    with pytest.warns(RoutesWarning, match="job no longer held the key of phase a at its end"):
        held.done()
    assert held.lost == "the service has withdrawn it, or its lease has ended"
    assert client.application("job").keys[0].granted  # to the other one
    client.done("job", "a")
    with (
        served.client() as other,
        pytest.warns(RoutesWarning, match="there is no application job"),
        client.phase("job", "a"),
    ):
        other.remove("job")


def test_answers_of_something_else_are_one_clear_error() -> None:
    def outcome(answer: Any) -> WeftError:
        found = Client("http://x", transport=httpx.MockTransport(answer), timeout_s=7)
        with pytest.raises(WeftError) as caught:
            found.health()
        found.close()
        return caught.value

    proxy = outcome(lambda _: httpx.Response(502, text="<html>Bad Gateway"))
    assert isinstance(proxy, ServiceError)
    assert (proxy.status, proxy.code) == (502, "unknown")
    assert str(proxy) == "HTTP status 502: <html>Bad Gateway"
    other = outcome(lambda _: httpx.Response(200, json={"weft": "1"}))
    assert str(other) == "the answer of http://x is not one of weft serve: fabric: Field required"

    def slow(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    assert str(outcome(slow)) == "cannot reach weft serve at http://x: no answer within 7 s"
    away = Client(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(WeftError, match=r"^cannot reach weft serve at http://127\.0\.0\.1:"):
        away.health()
    away.close()
    # A later version of the service may answer more than this client knows.
    more = {"weft": "2", "fabric": "f", "hosts": 1, "problems": [], "mood": "good"}
    newer = Client("http://x", transport=httpx.MockTransport(
        lambda _: httpx.Response(200, json=more)
    ))  # fmt: skip
    assert newer.health().hosts == 1
    newer.close()


def test_waiting_calls_extend_the_time_limit_and_requests_are_minimal() -> None:
    seen: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(503)

    client = Client("http://x", "t", transport=httpx.MockTransport(note), timeout_s=5)
    for call in (
        lambda: client.request("A", "x+", wait_s=20),
        lambda: client.changes("A", 3, wait_s=7),
        lambda: client.place("A", num_hosts=2, phases={"p": [(0, 1)], "q": "shift"}),
    ):
        with pytest.raises(ServiceError):
            call()
    request, changes, place = seen
    assert [each.extensions["timeout"]["read"] for each in seen] == [25, 12, 5]
    assert {each.headers["authorization"] for each in seen} == {"Bearer t"}
    assert request.url.raw_path == b"/v1/applications/A/keys/x%2B/request"
    assert dict(changes.url.params) == {"after": "3", "wait_s": "7"}
    assert json.loads(place.content) == {
        "name": "A", "num_hosts": 2,
        "phases": [{"name": "p", "flows": [[0, 1]]}, {"name": "q", "pattern": "shift"}],
    }  # fmt: skip


def test_a_lost_answer_does_not_lose_the_key(served: Served) -> None:
    lose: list[str] = []

    class Lossy(httpx.BaseTransport):
        """Passes requests on, and loses the answers to some."""

        def __init__(self) -> None:
            self.wire = httpx.HTTPTransport()

        def close(self) -> None:
            self.wire.close()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = self.wire.handle_request(request)
            response.read()
            if lose and request.url.path.endswith(lose[0]):
                raise httpx.ReadError(f"lost {lose.pop()}")
            return response

    with served.client() as other:
        other.place("job", num_hosts=2, phases={"a": [(0, 1)]})
        served.wait_ready("job")
        client = Client(served.url, served.admin_token, transport=Lossy())
        for _ in range(2):
            lose[:] = ["/request"]
            with pytest.raises(WeftError, match="lost /request"):
                client.request("job", "a")
            granted = client.request("job", "a", paths=True)
            assert granted.paths
            with pytest.raises(ServiceError, match="already holds"):  # now it is known
                client.request("job", "a")
            lose[:] = ["/done"]
            with pytest.raises(WeftError, match="lost /done"):
                client.done("job", "a", since_ns=granted.since_ns)
            # Somebody else has it now, so the return is not sent to the wrong grant.
            later = other.request("job", "a")
            with pytest.raises(ServiceError, match="by a later grant"):
                client.done("job", "a", since_ns=granted.since_ns)
            assert other.request("job", "a", again=True).since_ns == later.since_ns
            other.done("job", "a")
        other.remove("job")
        client.close()


def test_a_key_that_could_not_be_returned_is_returned_again() -> None:
    calls: list[str] = []
    grant = {
        "application": "a", "phase": "p", "alternative": 0, "generation": 1, "since_ns": 5,
        "lease_s": 60, "until_ns": 9, "contention": 1, "base_contention": 1,
    }  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(f"{request.url.path[-7:]} {request.content.decode()}")
        if len(calls) == 2:
            raise httpx.ReadError("reset")
        return httpx.Response(200, json=grant)

    with Client("http://x", transport=httpx.MockTransport(answer)) as client:
        held = client.hold("a", "p")
        with pytest.raises(WeftError, match="reset"):
            held.done()
        held.done()
        held.done()
        assert calls == ["request {}", *['/p/done {"since_ns":5}'] * 2]
        assert client.request("a", "p").since_ns == 5
        assert calls[-1] == "request {}"


def test_an_interrupted_request_may_be_sent_again() -> None:
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        raise KeyboardInterrupt

    with Client("http://x", transport=httpx.MockTransport(answer)) as client:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                client.request("a", "p")
    assert bodies == [b"{}", b'{"again":true}']


def test_an_error_does_not_show_the_token() -> None:
    with Client("http://x", " secret\n", transport=httpx.MockTransport(
        lambda request: httpx.Response(200, json={
            "weft": request.headers["authorization"], "fabric": "", "hosts": 1, "problems": [],
        })
    )) as client:  # fmt: skip
        assert client.health().weft == "Bearer secret"
    for token in ("sec ret", "sec\nret", "secr\x00t"):
        with pytest.raises(InputError) as caught:
            Client("http://x", token)
        assert "sec" not in str(caught.value)


def test_an_answer_that_cannot_be_unpacked_is_one_error() -> None:
    def packed(_: httpx.Request) -> httpx.Response:
        headers = {"content-encoding": "gzip"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(b"no gzip"))

    with (
        Client("http://x", transport=httpx.MockTransport(packed)) as client,
        pytest.raises(WeftError, match="cannot reach weft serve"),
    ):
        client.health()


def test_wrong_arguments_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    def never(_: httpx.Request) -> httpx.Response:
        raise AssertionError

    client = Client("http://x", transport=httpx.MockTransport(never))
    for call in (
        lambda: client.application("a/../b"),
        lambda: client.key("a", ".."),
        lambda: client.place("a b", num_hosts=1, workload="w"),
        lambda: client.place("a", hosts=["h0"], num_hosts=1, workload="w"),
        lambda: client.place("a", num_hosts=0, workload="w"),
        lambda: client.place("a", num_hosts=1, phases={"p": [(0, -1)]}),
        lambda: client.request("a", "p", lease_s=-1),
        lambda: client.request("a", "p", wait_s=1e9),
    ):
        with pytest.raises(InputError):
            call()
    (tmp_path / "bad.pem").write_text("no certificate")
    for arguments, named in (
        (("x:1",), {}),
        (("http://x",), {"timeout_s": 0}),
        (("http://x", "tök€n"), {}),
        (("http://x:port",), {}),
        (("https://x",), {"ca_file": tmp_path / "none.pem"}),
        (("https://x",), {"ca_file": tmp_path / "bad.pem"}),
    ):
        with pytest.raises(InputError):
            Client(*arguments, **named)  # type: ignore[arg-type]


def test_the_certificate_of_a_site_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = (
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=weft "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    )
    require_tools("openssl")
    subprocess.run(command.split(), capture_output=True, check=True)
    with serving("xgft:2;2,2;1,2", tmp_path, tls=(certificate, key)) as service:
        with (
            Client(service.url) as client,
            pytest.raises(WeftError, match=r"CERTIFICATE_VERIFY.*WEFT_CA_FILE"),
        ):
            client.health()
        monkeypatch.setenv("WEFT_CA_FILE", str(certificate))
        with Client(service.url) as client:
            assert client.health().hosts == 4


def test_a_missing_httpx_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(WeftError, match=r"needs httpx: pip install 'weft\[serve\]'"):
        Client()
