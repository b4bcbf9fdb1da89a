"""Who may do what: tokens, limits, and requests that try to get around them."""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.core.pool_tasks import nothing, take
from tests.processes import PATIENCE_S, left_of, state_of, wait_for
from tests.serve_services import FABRIC, ROOT, Caller, served, without_processes

from weft.cli import main
from weft.core.errors import InputError, WeftError
from weft.subnet.service import access as access_module
from weft.subnet.service.access import MONITOR, SMALL_BODY, RequestLimits
from weft.subnet.service.direct import parsed
from weft.subnet.service.service import Rules, Service
from weft.subnet.service.workers import Worker, memory_limit

pytestmark = pytest.mark.usefixtures("_no_processes")
Served = tuple[Caller, Service, str, str]


@pytest.fixture
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    without_processes(monkeypatch)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Served]:
    """Yield a service that requires tokens, with applications a and b, and their tokens."""
    with served(tmp_path / "store", required=True) as (caller, service):
        tokens = [caller.place(name, hosts, p="ring") for name, hosts in HOSTS.items()]
        yield caller, service, *tokens  # type: ignore[misc]


HOSTS = {"a": ["h0", "h4"], "b": ["h1", "h5"]}
PLACE = {"name": "c", "hosts": ["h2"], "phases": [{"name": "p", "flows": []}]}
#: Requests that belong to an application, in an order in which its owner may send them.
OWN = [
    ("GET", "/v1/applications/a", 200),
    ("GET", "/v1/applications/a/keys/p", 200),
    ("POST", "/v1/applications/a/keys/p/request", 200),
    ("POST", "/v1/applications/a/renew", 200),
    ("GET", "/v1/applications/a/changes", 200),
    ("POST", "/v1/applications/a/keys/p/done", 200),
    ("DELETE", "/v1/applications/a", 204),
]
ADMINISTRATOR = [
    ("GET", "/v1/applications", None, 200),
    ("POST", "/v1/applications", PLACE, 201),
    ("POST", "/v1/advice", {"num_hosts": 2}, 200),
    ("GET", "/v1/state", None, 200),
    ("GET", "/v1/log", None, 200),
]
NOT_YOURS = (403, "not_yours", "this token does not give the right to this")


def test_every_address_is_checked_here(two: Served) -> None:
    caller, *_ = two
    paths = caller.call("GET", "/v1/openapi.json").json()["paths"]
    known = {
        (method.upper(), path.format(application="a", phase="p"))
        for path, methods in paths.items()
        for method in methods
    }
    here = {(method, path) for method, path, *_ in (*OWN, *ADMINISTRATOR)}
    assert known - here == {("GET", "/v1/health")}


@pytest.mark.parametrize(("method", "path", "_status"), OWN)
def test_a_token_opens_only_its_own_application(
    two: Served, method: str, path: str, _status: int
) -> None:
    caller, service, _, other = two
    before = dict(service.ledger.grants), set(service.ledger.applications)
    assert caller.refused(method, path)[:2] == (401, "no_token")
    assert caller.refused(method, path, token=other) == NOT_YOURS
    assert caller.refused(method, path, token="x" * 43) == NOT_YOURS
    assert caller.refused(method, path, token=other + "x") == NOT_YOURS
    assert caller.refused(method, path, headers={"Authorization": f"Basic {ROOT}"})[0] == 401
    # The answer does not tell whether there is such an application.
    assert caller.refused(method, path.replace("s/a", "s/z"), token=other) == NOT_YOURS
    assert (dict(service.ledger.grants), set(service.ledger.applications)) == before


@pytest.mark.parametrize("administrator", [False, True])
def test_owner_and_administrator_may_do_it(two: Served, administrator: bool) -> None:
    caller, _, own, _ = two
    for method, path, status in OWN:
        answer = caller.call(method, path, token=ROOT if administrator else own)
        assert answer.status_code == status, answer.text
    # The token ends with the application.
    assert caller.refused("GET", "/v1/applications/a", token=own) == NOT_YOURS
    assert caller.refused("GET", "/v1/applications/a", token=ROOT)[0] == 404


@pytest.mark.parametrize(("method", "path", "body", "status"), ADMINISTRATOR)
def test_only_the_administrator_may_do_the_rest(
    two: Served, method: str, path: str, body: object, status: int
) -> None:
    caller, _, own, _ = two
    assert caller.refused(method, path, body)[:2] == (401, "no_token")
    assert caller.refused(method, path, body, token=own) == NOT_YOURS
    assert caller.call(method, path, body, token=ROOT).status_code == status


def test_the_monitor_sees_the_state_and_changes_nothing(two: Served) -> None:
    caller, service, *_ = two
    service.store.record([], {MONITOR: "m"})
    layer = caller._client._transport.app.middleware_stack  # type: ignore[attr-defined]
    while not hasattr(layer, "_access"):
        layer = getattr(layer, "app", None) or layer._app
    layer._access.add(MONITOR, "m")
    before = dict(service.ledger.grants), set(service.ledger.applications)
    seen = {"/v1/state", "/metrics"}
    for path in seen:
        assert caller.call("GET", path, token="m").status_code == 200
    others = [(method, path, None) for method, path, _ in OWN]
    for method, path, body in [*others, *(each[:3] for each in ADMINISTRATOR)]:
        if path not in seen:
            assert caller.refused(method, path, body, token="m") == NOT_YOURS
    assert (dict(service.ledger.grants), set(service.ledger.applications)) == before


def test_words_about_problems_need_a_token(two: Served) -> None:
    caller, service, own, _ = two
    service.problems["subnet"] = "/etc/opensm/weft cannot be read"
    for token in ("", own):
        problems = caller.call("GET", "/v1/health", token=token).json()["problems"]
        assert problems == ["a problem with the subnet"]
    problems = caller.call("GET", "/v1/health", token=ROOT).json()["problems"]
    assert problems == ["/etc/opensm/weft cannot be read"]


@pytest.mark.parametrize("query", ["after=9223372036854775808", "after=-1", "limit=0", "limit=1e3"])
def test_numbers_that_the_store_cannot_have_are_refused(two: Served, query: str) -> None:
    caller, *_ = two
    refused = caller.refused("GET", f"/v1/log?{query}", token=ROOT)
    assert refused[:2] == (422, "wrong_value")


def test_tokens_are_valid_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path / "store", required=True) as (caller, _):
        token = caller.place("a", HOSTS["a"], p="ring")
        gone = caller.place("b", HOSTS["b"], p="ring")
        caller.call("DELETE", "/v1/applications/b", token=gone)
    with served(tmp_path / "store", required=True) as (caller, _):
        assert caller.call("GET", "/v1/applications/a", token=token).status_code == 200
        assert caller.refused("GET", "/v1/applications/b", token=gone) == NOT_YOURS
        new = caller.place("b", HOSTS["b"], p="ring")
        assert caller.refused("GET", "/v1/applications/b", token=gone) == NOT_YOURS
        assert caller.call("GET", "/v1/applications/b", token=new).status_code == 200


def test_all_hashes_are_compared_in_full(two: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    caller, _, own, other = two
    counted: list[int] = []

    def compare(one: bytes, two: bytes) -> bool:
        counted.append(len(one))
        return hmac.compare_digest(one, two)

    monkeypatch.setattr(access_module.hmac, "compare_digest", compare)
    numbers = set()
    for token in (own, other, ROOT, "x"):
        counted.clear()
        caller.call("GET", "/v1/applications/a", token=token)
        assert set(counted) == {32}
        numbers.add(len(counted))
    assert len(numbers) == 1


# -- addresses ---------------------------------------------------------------------------------

TRICKS = [
    "/v1/applications/a%2Fkeys%2Fp", "/v1/applications/b/../a", "/v1/applications/b/%2E%2E/a",
    "/v1/applications//a", "/v1/applications/a/", "/v1//applications/a", "//v1/applications/a",
    "/v1/applications/a%00", "/v1/applications/a%0A", "/v1/applications/A",
    "/v1/applications/b%2F..%2Fa", "/v1/applications/%61/keys/p", "/v1/applications/a;b/keys/p",
    "/v1/applications/b?application=a", "/v1/applications/b%3F/keys/p", "/v1/applications/%FF",
    "/v1/applications/.", "/v1/applications/%2F", "/V1/applications/a", "/v1/applications/a b",
]  # fmt: skip


@pytest.mark.sampled(10)
@pytest.mark.parametrize("path", TRICKS)
def test_no_way_of_writing_an_address_opens_another_application(two: Served, path: str) -> None:
    caller, service, _, other = two
    for method, more in [("GET", ""), ("DELETE", ""), ("POST", "/request"), ("POST", "/done")]:
        answer = caller.call(method, path + more, token=other)
        if answer.status_code < 400:
            assert method in ("GET", "DELETE")
            assert "?" in path  # it is the application of the token
            continue
        assert answer.json()["error"]["code"] in (
            "not_yours", "unknown_address", "method_not_allowed", "wrong_value",
            "unknown_application",
        )  # fmt: skip
    assert "a" in service.ledger.applications
    assert not service.ledger.grants


@pytest.mark.parametrize("name", ["keys", "renew", "changes", "applications", "v1", "request"])
def test_an_application_may_be_named_like_a_part_of_an_address(two: Served, name: str) -> None:
    caller, _, own, _ = two
    token = caller.place(name, ["h2", "h6"], keys="ring", request="ring")
    for phase in ("keys", "request"):
        root = f"/v1/applications/{name}/keys/{phase}"
        assert caller.refused("POST", f"{root}/request", token=own) == NOT_YOURS
        assert caller.call("POST", f"{root}/request", token=token).json()["phase"] == phase
        assert caller.call("GET", root, token=token).json()["granted"]
        assert caller.call("POST", f"{root}/done", token=token).status_code == 200


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "a\n", "ä", "a" * 129, "\0"])
def test_names_that_would_be_other_addresses_are_refused(two: Served, name: str) -> None:
    caller, *_ = two
    refused = caller.refused("POST", "/v1/applications", {**PLACE, "name": name}, token=ROOT)
    assert refused[:2] == (422, "wrong_value")
    assert refused[2].startswith("name: ")


def test_an_empty_body_and_null_are_the_defaults(two: Served) -> None:
    caller, _, own, _ = two
    for body in (b"", b" ", b"null", b"{}"):
        path = "/v1/applications/a/keys/p"
        answer = caller.call("POST", f"{path}/request", token=own, content=body)
        assert answer.json()["lease_s"] == 300
        assert caller.call("POST", f"{path}/done", token=own).status_code == 200


def test_other_methods_are_told_which_there_are(two: Served) -> None:
    caller, *_ = two
    answer = caller.call("PUT", "/v1/applications/a", token=ROOT)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) <= {"GET", "DELETE"}


# -- limits ------------------------------------------------------------------------------------


async def parts(size: int, most: int = 1_000_000) -> AsyncIterator[bytes]:
    """Yield a body in parts, so that its length is not announced; no more than some are read."""
    yield b'{"name": "'
    for number in range(size // 1000):
        assert number * 1000 <= most
        yield b"x" * 1000
    yield b'"}'


@pytest.mark.parametrize("path", ["/v1/applications", "/v1/applications/a/keys/p/request"])
def test_a_body_that_is_too_large_is_refused_however_it_comes(tmp_path: Path, path: str) -> None:
    limits = RequestLimits(body_bytes=100_000)
    with served(tmp_path / "store", required=True, limits=limits) as (caller, service):
        token = caller.place("a", HOSTS["a"], p="ring")
        expected = (413, "too_large", "the body is larger than 100,000 bytes")
        large = {"content": b" " * 100_001, "headers": {"content-type": "application/json"}}
        assert caller.refused("POST", path, token=ROOT, **large) == expected
        large["content"] = parts(10**9, most=101_000)
        assert caller.refused("POST", path, token=ROOT, **large) == expected
        # Only the administrator needs large bodies; others are refused before they are read.
        small = (413, "too_large", f"the body is larger than {SMALL_BODY:,} bytes")
        for each in (token, "", "x"):
            large["content"] = b" " * 70_000
            assert caller.refused("POST", path, token=each, **large) == small
            large["content"] = parts(10**9, most=70_000)
            refused = caller.refused("POST", path, token=each, **large)
            # With a token that is not right it need not be read at all.
            right = each == token and path != "/v1/applications"
            assert refused == small or (not right and refused[0] in (401, 403))
        assert not service.ledger.grants
        assert set(service.ledger.applications) == {"a"}
        for length in ("-1", "1e9", "9" * 5000, ""):
            headers = {"content-length": length}
            assert caller.refused("POST", path, token=ROOT, headers=headers)[0] == 413
        large["content"] = b" " * 99_990 + b"{}"
        assert caller.refused("POST", "/v1/applications", token=ROOT, **large)[0] == 422


def test_each_client_may_send_a_burst_and_then_a_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(access_module.time, "monotonic", lambda: now[0])
    with served(tmp_path / "store", limits=RequestLimits(requests_per_s=10)) as (caller, _):

        def sent(address: str, number: int) -> int:
            app = caller._client._transport.app  # type: ignore[attr-defined]
            transport = httpx.ASGITransport(app, client=(address, 1))
            client = httpx.AsyncClient(transport=transport, base_url="http://weft")
            return sum(
                caller.wait(client.get("/v1/health")).status_code == 200 for _ in range(number)
            )

        assert sent("10.0.0.1", 15) == 10
        assert sent("10.0.0.2", 15) == 10
        now[0] += 0.5
        assert sent("10.0.0.1", 15) == 5
        # Many other addresses do not let a client begin anew.
        assert sum(sent(f"10.1.{high}.{low}", 1) for high in range(4) for low in range(256)) == 1024
        assert sent("10.0.0.1", 3) == 0
        # A site with IPv6 has 2^64 addresses, which are one client.
        assert sum(sent(f"2001:db8::{each:x}", 1) for each in range(20)) == 10
        assert sent("2001:db8:0:1::1", 1) == 1
        assert sent("fe80::1%eth0", 1) == 1
        # Those who have been quiet are forgotten.
        now[0] += 2.0
        assert sent("10.0.0.1", 15) == 10
        layer = caller._client._transport.app.middleware_stack  # type: ignore[attr-defined]
        while not hasattr(layer, "_left"):
            layer = getattr(layer, "app", None) or layer._app
        assert set(layer._left) == {"10.0.0.1"}
    with served(tmp_path / "slow", limits=RequestLimits(requests_per_s=0.5)) as (caller, _):
        assert caller.call("GET", "/v1/health").status_code == 200
        assert caller.refused("GET", "/v1/health")[:2] == (429, "too_many_requests")
        now[0] += 2.0
        assert caller.call("GET", "/v1/health").status_code == 200


def test_the_number_of_applications_is_limited(tmp_path: Path) -> None:
    with served(tmp_path / "store", Rules(most_applications=1)) as (caller, _):
        caller.place("a", HOSTS["a"], p="ring")
        refused = caller.refused("POST", "/v1/applications", PLACE)
        assert refused == (429, "too_many_applications", "there are already 1 applications")
        assert caller.call("DELETE", "/v1/applications/a").status_code == 204
        caller.place("b", HOSTS["b"], p="ring")


def test_pages_of_other_sites_are_refused_where_no_token_is_needed(tmp_path: Path) -> None:
    own = ("localhost", "127.0.0.1", "[::1]")
    path = "/v1/applications/a"
    for host in ("127.0.0.1:8973", "LOCALHOST", "[::1]:8973"):
        store = tmp_path / host
        with served(store, hosts=own, client_host=host.lower()) as (caller, _):
            caller.place("a", HOSTS["a"], p="ring")
            same = {"Host": host, "Origin": f"http://{host}"}
            assert caller.call("GET", path, headers=same).status_code == 200
            for headers in (
                {"Host": host, "Origin": "http://evil.example"},
                {"Host": host, "Origin": "null"},
                {"Host": "evil.example", "Origin": "http://evil.example"},
                {"Host": "evil.example"},
                {"Host": "127.0.0.1.evil.example:8973"},
                {"Host": ""},
            ):
                for method in ("GET", "DELETE"):
                    assert caller.refused(method, path, headers=headers)[:2] == (
                        403, "from_elsewhere",
                    )  # fmt: skip
            assert caller.call("DELETE", path).status_code == 204
    with served(tmp_path / "tokens", required=True, hosts=own) as (caller, _):
        assert caller.call("GET", "/v1/state", token=ROOT).status_code == 200


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "node1", "::ffff:127.0.0.1"])
def test_other_addresses_need_tls(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    assert main(["serve", FABRIC, "--host", address, "--store", str(store)]) == 2
    assert "is not a loopback address: give --tls-cert" in capsys.readouterr().err
    assert not store.exists()


def test_a_refusal_names_the_method_and_each_wrong_field(two: Served) -> None:
    caller, *_ = two
    path = "/v1/applications/a/keys/p/request"
    assert caller.refused("GET", path, token=ROOT) == (
        405, "method_not_allowed", f"GET {path}: Method Not Allowed; expected POST",
    )  # fmt: skip
    body = {"nam": "c", "num_hosts": 0, "workload": "x", "a": 1, "b": 2}
    message = caller.refused("POST", "/v1/applications", body, token=ROOT)[2]
    name, hosts, extra, more = message.split("; ")
    assert name == "name: Field required"
    assert hosts.startswith("num_hosts: ")
    assert extra == "nam: Extra inputs are not permitted"
    assert more == "and 2 more"


def test_wrong_options_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, store = tmp_path / "certificate.pem", tmp_path / "store"
    certificate.write_text("-")
    missing = tmp_path / "key.pem"
    for options, error in (
        (["--alternatives", "0"], "--alternatives must be at least 1, not 0"),
        (["--tls-cert", "a.pem"], "expected both --tls-cert and --tls-key, or neither"),
        (
            ["--tls-cert", str(certificate), "--tls-key", str(missing)],
            f"{missing}: does not exist or",
        ),
        (["--ibsim", "--opensm", "opensm.conf"], "expected --opensm or --ibsim, and not both"),
    ):
        assert main(["serve", FABRIC, "--store", str(store), *options]) == 2
        assert error in capsys.readouterr().err
        assert not store.exists()


def test_a_port_in_use_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        options = ["--store", str(tmp_path / "store"), "--port", str(port)]
        assert main(["serve", FABRIC, *options]) == 2
    assert capsys.readouterr().err.endswith(
        f"cannot listen on 127.0.0.1:{port}: Address already in use; stop the other program, or "
        "give another --port\n"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lease", "1e10"], "--lease must be above 0 s and at most 31,536,000 s, not 1e+10"),
        (["--lease", "nan"], "--lease must be above 0 s"),
        (["--keep-log", "0"], "--keep-log must be above 0 days, not 0"),
        (["--keep-log", "nan"], "--keep-log must be above 0 days, not nan"),
        (["--max-rate", "nan"], "--max-rate must be at least 0, not nan"),
        (["--max-rate", "-1"], "--max-rate must be at least 0, not -1"),
        (["--new-monitor-token"], "--new-monitor-token is of use only with --tokens"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    assert main(["serve", FABRIC, "--store", str(store), *options]) == 2
    assert words in capsys.readouterr().err
    assert not store.exists()


# -- work of processes -------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["/etc/passwd", "file:/etc/passwd", "goal:/etc/passwd", "../x"])
def test_no_file_is_read(two: Served, text: str) -> None:
    caller, *_ = two
    by_pattern = {**PLACE, "phases": [{"name": "p", "pattern": text}]}
    by_workload = {"name": "c", "hosts": ["h2", "h3"], "workload": text}
    for body in (by_pattern, by_workload):
        status, code, message = caller.refused("POST", "/v1/applications", body, token=ROOT)
        assert (status, code) == (422, "wrong_value")
        assert "there is no" in message or "unknown" in message
        assert "root:" not in message


def test_work_for_what_would_be_refused_anyway_is_not_done(
    two: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, service, *_ = two

    async def run(function: Callable[..., object], *arguments: object, **_: object) -> object:
        assert function is parsed  # a large body
        return function(*arguments)

    monkeypatch.setattr(service._answers, "run", run)
    many = ["h2"] * 100_000
    for change, code in [
        ({"name": "a"}, "name_taken"), ({"hosts": ["h0"]}, "host_taken"),
        ({"hosts": many}, "host_twice"),
    ]:  # fmt: skip
        body = {**PLACE, **change}
        assert caller.refused("POST", "/v1/applications", body, token=ROOT)[1] == code


def test_work_has_a_limit_of_time_and_memory_for_itself_only() -> None:
    async def run() -> None:
        slow = Worker("tests", time.sleep, 6.0)
        try:
            await slow.run(time.sleep, 0.0, limit_s=5.0)  # the time to get ready does not count
        finally:
            slow.close()
        worker = Worker("tests", nothing)
        try:
            assert await worker.run(take, 10) == 10
            long, short = await asyncio.gather(
                worker.run(time.sleep, 3.5, limit_s=PATIENCE_S),
                worker.run(take, 5, limit_s=3.0),  # its time begins when the first has ended
            )
            assert (long, short) == (None, 5)
            with pytest.raises(WeftError, match=r"did not finish within 0\.5 s and was ended"):
                await worker.run(time.sleep, 600, limit_s=0.5)
            with pytest.raises(InputError, match="GiB of memory"):
                await worker.run(take, int(memory_limit() * 1.1))
            assert await worker.run(take, 7, limit_s=PATIENCE_S) == 7
            with pytest.raises(WeftError, match="has died"):
                await worker.run(os._exit, 3)
            assert await worker.run(take, 8) == 8
        finally:
            worker.close()

    asyncio.run(run())


def test_a_busy_worker_ends_with_a_service_that_is_killed() -> None:
    program = """
import asyncio, os, sys, time
from weft.subnet.service.workers import Worker
async def run():
    worker = Worker("tests", os.getpid)
    print(await worker.run(os.getpid), flush=True)
    await worker.run(time.sleep, 600)
if __name__ == "__main__":
    asyncio.run(run())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        time.sleep(0.2)
        assert state_of(worker)
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: not left_of(process.pid))
