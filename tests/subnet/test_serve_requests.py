"""Requests that meet other requests, bodies of all kinds, and what may be seen when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.processes import PATIENCE_S
from tests.serve_services import ROOT, Caller, served, without_processes

from weft.core.errors import WeftError
from weft.subnet.service import direct, http, models
from weft.subnet.service.ledger import Announced, Withdrawn
from weft.subnet.service.service import Service
from weft.subnet.service.store import StoreFailed

Two = tuple[Caller, Service, str]
A = "/v1/applications/a"
PLACE = {"name": "a", "hosts": ["h1", "h5"], "phases": [{"name": "p", "flows": [[0, 1]]}]}


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    """Yield a service that requires tokens, with application a, and its token."""
    without_processes(monkeypatch)
    with served(tmp_path / "store", required=True) as (caller, service):
        yield caller, service, caller.place("a", ["h0", "h4"], p="ring")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Yield a service as `one`, for requests that change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        without_processes(patch)
        with served(tmp_path_factory.mktemp("store") / "store", required=True) as (caller, service):
            yield caller, service, caller.place("a", ["h0", "h4"], p="ring")


# -- names that are used again -----------------------------------------------------------------


@pytest.mark.parametrize("what", ["request", "done"])
def test_a_slow_body_does_not_reach_a_later_application_of_the_same_name(
    one: Two, what: str
) -> None:
    caller, service, old = one

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        headers = {"Authorization": f"Bearer {ROOT}"}
        client = caller._client
        await client.delete(A, headers=headers)
        await client.post("/v1/applications", json=PLACE, headers=headers)
        body = {"wait_s": 5}
        answer = await client.post(f"{A}/keys/p/request", json=body, headers=headers)
        assert answer.status_code == 200
        if what == "request":
            await client.post(f"{A}/keys/p/done", headers=headers)
        yield b"}"

    refused = caller.refused("POST", f"{A}/keys/p/{what}", token=old, content=slow())
    assert refused[:2] == (403, "not_yours")
    assert len(service.ledger.grants) == (what == "done")


def _replaced(service: Service) -> list[Any]:
    """Return events that put another application in the place of `a` within one batch."""
    return [
        service.leave("a"),
        service.do(lambda now: Announced(now, "a", (1, 5), {"p": [[0], [1]]})),  # type: ignore[dict-item]
    ]


@pytest.mark.parametrize("call", ["request", "give_back", "renew", "leave"])
def test_a_call_in_the_queue_does_not_reach_a_later_application(one: Two, call: str) -> None:
    caller, service, _ = one
    caller.call("POST", f"{A}/keys/p/request", token=ROOT)

    async def run() -> list[Any]:
        calls: dict[str, Callable[[], Any]] = {
            "request": lambda: service.request("a", "p", None, 0),
            "give_back": lambda: service.give_back("a", "p"),
            "renew": lambda: service.renew("a"),
            "leave": lambda: service.leave("a"),
        }
        return await asyncio.gather(*_replaced(service), calls[call](), return_exceptions=True)

    *_, last = caller.wait(run())
    assert getattr(last, "code", None) == "unknown_application"
    assert "a" in service.ledger.applications


def test_changes_of_a_later_application_are_not_told(one: Two) -> None:
    caller, service, old = one

    async def run() -> tuple[Any, str]:
        path = f"{A}/changes?after={service.version}&wait_s=0.5"
        headers = {"Authorization": f"Bearer {old}"}
        waiting = asyncio.create_task(caller._client.get(path, headers=headers))
        await asyncio.sleep(0.01)
        await asyncio.gather(*_replaced(service))
        answer = (await waiting).json()
        async with asyncio.timeout(PATIENCE_S):
            while not service.changes.get("a"):
                await asyncio.sleep(0.001)
        return answer, service.changes["a"][0].kind

    answer, kind = caller.wait(run())
    assert answer["changes"] == []
    assert kind == "ready"


def test_paths_are_those_of_the_grant_although_the_key_is_withdrawn_meanwhile(
    one: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, service, token = one
    record = service.store.record
    loop = caller._runner.get_loop()
    tasks = []
    expected = caller.call("GET", f"{A}/keys/p", token=token).json()["alternatives_paths"]

    def withdrawn() -> None:
        event = service.do(lambda now: Withdrawn(now, (("a", "p"),), "test"))
        tasks.append(loop.create_task(event))

    def slow(*arguments: Any) -> None:
        record(*arguments)
        if not tasks:
            loop.call_soon_threadsafe(withdrawn)

    monkeypatch.setattr(service.store, "record", slow)
    monkeypatch.setattr(caller.keeper, "_make_missing", lambda: None)
    # The phase is looked at after the grant: by then there is no key any more.
    body = {"paths": True}
    answer = caller.call("POST", f"{A}/keys/p/request", body, token=token).json()
    assert answer["paths"] == expected[answer["alternative"]]["paths"]
    assert any(each["path_bits"] for each in answer["paths"])


@pytest.mark.parametrize("leaves", [False, True])
def test_a_client_that_leaves_while_it_waits_gets_no_key(
    one: Two, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    caller, service, _ = one
    makers, go_on = caller.keeper._makers, asyncio.Event()
    make = makers.run

    async def slow(*arguments: Any, **more: Any) -> Any:
        await go_on.wait()
        return await make(*arguments, **more)

    monkeypatch.setattr(makers, "run", slow)
    caller.call("POST", "/v1/applications", {**PLACE, "name": "b"}, token=ROOT)
    path = "/v1/applications/b/keys/p/request"
    messages = [{"type": "http.request", "body": b'{"wait_s": 60}'}]
    sent: list[Any] = []

    async def run() -> None:
        left = asyncio.Event()

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": path, "query_string": b"",
            "headers": [(b"authorization", f"Bearer {ROOT}".encode())],
        }  # fmt: skip
        app = caller._client._transport.app  # type: ignore[attr-defined]
        asking = asyncio.create_task(app(scope, receive, send))
        async with asyncio.timeout(PATIENCE_S):
            while not service.changed._waiters:  # type: ignore[attr-defined]
                await asyncio.sleep(0.001)
            if leaves:
                left.set()
                await asking
            go_on.set()
            await asking
            while service.ledger.phase("b", "p").state != "ready":
                await asyncio.sleep(0.001)

    caller.wait(run())
    assert (("b", "p") in service.ledger.grants) is not leaves
    assert sent[0]["status"] == (400 if leaves else 200)


# -- what may be seen --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/v1/state", "/v1/applications", A, f"{A}/keys/p", "/metrics", "/v1/state?after=0"]
)
@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_shown_before_it_is_on_the_disk(
    one: Two, monkeypatch: pytest.MonkeyPatch, path: str, fails: bool
) -> None:
    caller, service, _ = one
    headers = {"Authorization": f"Bearer {ROOT}"}
    record, reached, go_on = service.store.record, asyncio.Event(), threading.Event()
    loop = caller._runner.get_loop()

    def slow(*arguments: Any) -> None:
        loop.call_soon_threadsafe(reached.set)
        assert go_on.wait(PATIENCE_S)
        if fails:
            raise StoreFailed("the disk is full")
        record(*arguments)

    monkeypatch.setattr(service.store, "record", slow)

    async def run() -> tuple[str, int]:
        asked = asyncio.create_task(caller._client.post(f"{A}/keys/p/request", headers=headers))
        await reached.wait()
        seen = asyncio.create_task(caller._client.get(path, headers=headers))
        await asyncio.wait([seen], timeout=0.05)
        on_disk = go_on.is_set()
        early = seen.done() and not on_disk
        go_on.set()
        assert not early
        return (await seen).text, (await asked).status_code

    text, status = caller.wait(run())
    assert status == (507 if fails else 200)
    granted = (
        "weft_keys_in_use 1.0" in text or '"granted":true' in text.replace(" ", "")
    )  # fmt: skip
    assert granted is not fails


# -- bodies ------------------------------------------------------------------------------------


def test_large_bodies_are_read_in_another_process_with_the_same_answers(
    one: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, service, _ = one
    read: list[type] = []
    run = service._answers.run

    async def counted(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        if function is direct.parsed:
            read.append(arguments[0])
        return await run(function, *arguments, **more)

    monkeypatch.setattr(service._answers, "run", counted)
    answers = []
    for space in (b"", b" " * direct.LARGE_BODY):
        for body in (
            b"{", b"[]", b"\xff", b'{"num_hosts": 2, "x": 1}', b'{"name": "b"}',
            b'{"name": "b", "hosts": ["h1"], "phases": [{"name": "p", "flows": [[0, -1]]}]}',
            b'{"name": "b", "hosts": ["h1"], "phases": [{"name": "p", "flows": [[0, 1]]}]}',
            b'{"name": "b", "num_hosts": 2, "phases": [{"name": "p", "flows": [[0, 1]]}]}',
        ):  # fmt: skip
            for path in ("/v1/applications", "/v1/advice"):
                answer = caller.call("POST", path, token=ROOT, content=space + body)
                content = answer.json()
                if answer.status_code == 201:
                    caller.call("DELETE", "/v1/applications/b", token=ROOT)
                    content.pop("token")
                answers.append((answer.status_code, content))
    half = len(answers) // 2
    for small, large in zip(answers[:half], answers[half:], strict=True):
        if small[1].get("error", {}).get("code") == "bad_json":  # at another column
            assert (large[0], large[1]["error"]["code"]) == (400, "bad_json")
        else:
            assert small == large
    assert {status for status, _ in answers} == {201, 400, 422}
    assert read == [models.ApplicationRequest, models.AdviceRequest] * (half // 2)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "bad_json"), (b"\xff\xfe", 400, "bad_json"), (b"[" * 10**4, 400, "bad_json"),
        (b"[]", 422, "wrong_value"), (b'"x"', 422, "wrong_value"), (b"7", 422, "wrong_value"),
        (b'{"name": 1, "since_ns": 1, "lease_s": 1, "num_hosts": 1}', 422, "wrong_value"),
        (b'{"x": 1}', 422, "wrong_value"), (b'{"lease_s": NaN}', 422, "wrong_value"),
        (b'{"lease_s": 1e999}', 422, "wrong_value"), (b'{"lease_s": "\\ud800"}', 400, "bad_json"),
        (b'{"since_ns": 1.5}', 422, "wrong_value"), (b'{"\\u0000": 1}', 422, "wrong_value"),
        (b'{"since_ns": ' + b"9" * 5000 + b"}", 400, "bad_json"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "path", ["/v1/applications", "/v1/advice", f"{A}/keys/p/request", f"{A}/keys/p/done"]
)
def test_every_wrong_body_is_one_error(
    untouched: Two, path: str, body: bytes, status: int, code: str
) -> None:
    caller, service, _ = untouched
    for kind in ("application/json", "text/plain; charset=x", "", None):
        headers = {} if kind is None else {"Content-Type": kind}
        refused = caller.refused("POST", path, token=ROOT, content=body, headers=headers)
        assert refused[:2] == (status, code), refused
    assert not service.ledger.grants
    assert list(service.ledger.applications) == ["a"]


def test_a_field_that_is_given_twice_is_refused(one: Two) -> None:
    caller, service, token = one
    for body, name in (
        (b'{"lease_s": 1, "lease_s": 2}', "lease_s"),
        (b'{"paths": true, "p\\u0061ths": 0}', "paths"),
    ):
        refused = caller.refused("POST", f"{A}/keys/p/request", token=token, content=body)
        assert refused == (422, "wrong_value", f"{name} is given twice")
    body = b'{"num_hosts": 2, "phases": [{"name": "p", "flows": [], "flows": [[0, 1]]}]}'
    refused = caller.refused("POST", "/v1/advice", token=ROOT, content=body)
    assert refused == (422, "wrong_value", "flows is given twice")
    assert not service.ledger.grants


def test_the_log_comes_in_parts_of_bounded_length(
    one: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, service, _ = one
    whole = caller.call("GET", "/v1/log", token=ROOT).text.splitlines()
    assert len(whole) == service.version >= 2
    monkeypatch.setattr(http, "_LOG_CHARACTERS", len(whole[0]))
    parts: list[str] = []
    while part := caller.call("GET", f"/v1/log?after={len(parts)}", token=ROOT).text.splitlines():
        assert len(part) == 1
        parts += part
    assert parts == whole


def test_the_description_names_bodies_answers_and_tokens(one: Two) -> None:
    caller, *_ = one
    described = caller.call("GET", "/v1/openapi.json").json()
    bodies = {
        path: operations["post"]["requestBody"]["content"]["application/json"]["schema"]
        for path, operations in described["paths"].items()
        if "requestBody" in operations.get("post", {})
    }
    assert {path.rpartition("/")[2] for path in bodies} == {
        "applications", "advice", "request", "done"
    }  # fmt: skip
    for operations in described["paths"].values():
        for operation in operations.values():
            assert operation["security"] == [{"HTTPBearer": []}]
            (good,) = (each for status, each in operation["responses"].items() if status < "3")
            assert "content" in good or "204" in operation["responses"]
            assert {"4XX", "5XX"} < set(operation["responses"])


@pytest.mark.parametrize("hosts", [{"hosts": ["h1", "h2"]}, {"num_hosts": 2}])
def test_a_wrong_rank_in_flows_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hosts: dict[str, Any]
) -> None:
    without_processes(monkeypatch)
    phases = [{"name": "p", "flows": [[0, 1]]}, {"name": "q", "flows": [[1, 0], [0, 2]]}]
    with served(tmp_path / "serve.sqlite") as (caller, service):
        asked = [("/v1/applications", {"name": "a", **hosts, "phases": phases})]
        if "num_hosts" in hosts:
            asked.append(("/v1/advice", {**hosts, "phases": phases}))
        for address, body in asked:
            assert caller.refused("POST", address, body) == (
                422, "unknown_rank",
                "phase q: flow 1 of flows names rank 2; expected 0 to 1",
            )  # fmt: skip
        assert service.ledger.applications == {}


def test_an_answer_that_takes_too_long_is_to_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_processes(monkeypatch)
    with served(tmp_path / "serve.sqlite") as (caller, _):

        def advise(*arguments: Any) -> Any:
            raise WeftError("the process that reads phases did not finish within 60 s")

        monkeypatch.setattr("weft.subnet.service.makers.advise", advise)
        answer = caller.call("POST", "/v1/applications", {**PLACE, "hosts": None, "num_hosts": 2})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert answer.json()["error"]["code"] == "unavailable"
