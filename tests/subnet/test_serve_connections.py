"""Connections of `weft serve`: slow ones, those that are not HTTP, and headers that lie."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from weft.subnet.service import access as access_module
from weft.subnet.service import connections
from weft.subnet.service.access import Access, LimitMiddleware, RequestLimits
from weft.subnet.service.connections import allow_many, server_config

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, Any]]
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


class App:
    """Answers the address of the client; a path of a number takes so many ms."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.set()
        text = scope["client"][0].encode()
        wait_ms = scope["path"][1:]
        if wait_ms.isdecimal():
            await asyncio.sleep(int(wait_ms) / 1000)
        if scope["method"] == "POST":
            while (message := await receive()).get("more_body"):
                pass
            text = message["type"].encode()
        headers = [(b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def _server(limits: RequestLimits | None = None) -> AsyncIterator[tuple[App, int]]:
    app = App()
    limited = LimitMiddleware(app, Access({}, required=True, limits=limits or RequestLimits()))
    server = uvicorn.Server(server_config(limited))
    server.config.port, server.config.host = 0, "127.0.0.1"
    running = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield app, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await running


def _talk(talk: Talk, limits: RequestLimits | None = None) -> Any:
    async def run() -> Any:
        async with asyncio.timeout(30), _server(limits) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await talk(reader, writer)
            finally:
                await _closed(writer)

    return asyncio.run(run())


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = (
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    )  # fmt: skip
    return int(head.split()[1]), await reader.readexactly(length)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET[:-2] % b"", GET % b"" + b"GET"])
def test_a_connection_whose_request_does_not_come_is_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.05)
    monkeypatch.setattr(connections, "IDLE_S", 60)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        if sent.startswith(GET % b""):
            writer.write(GET % b"")
            assert (await _answer(reader))[0] == 200
            writer.write(sent.removeprefix(GET % b""))
        else:
            writer.write(sent)
        return await reader.read()

    assert _talk(talk) == b""


def test_a_slow_answer_and_a_pause_between_requests_close_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for path in (b"200", b"", b"200"):
            writer.write(GET % path)
            assert (await _answer(reader))[0] == 200
            await asyncio.sleep(0.2)

    _talk(talk)


def test_a_body_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "BODY_S", 0.1)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(head)

        async def drip() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.03)

        dripping = asyncio.create_task(drip())
        try:
            return (await _answer(reader))[1]
        finally:
            dripping.cancel()

    assert _talk(talk) == b"http.disconnect"


@pytest.mark.parametrize("sent", [b"FOO / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"{}\n\n"])
def test_what_is_not_http_has_the_same_kind_of_answer(sent: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(sent)
        status, body = await _answer(reader)
        assert status == 400
        assert await reader.read() == b""
        return body

    error = json.loads(_talk(talk))["error"]
    assert error == {"status": 400, "code": "bad_request", "message": "the request is not HTTP/1.1"}


def test_a_client_cannot_choose_its_address() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Any]:
        answers = []
        for each in range(3):
            header = f"X-Forwarded-For: 10.0.0.{each}\r\n\r\n".encode()
            writer.write(GET[:-2] % b"" + header)
            answers.append(await _answer(reader))
        return answers

    assert _talk(talk) == [(200, b"127.0.0.1")] * 3


def test_a_client_has_a_limit_of_requests_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "AT_ONCE", 1)

    async def run() -> list[int]:
        async with asyncio.timeout(30), _server() as (app, port):
            one, two = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            one[1].write(GET % b"300")
            await app.began.wait()
            statuses = []
            for reader, writer in (two, one):
                if writer is two[1]:
                    writer.write(GET % b"")
                statuses.append((await _answer(reader))[0])
            one[1].write(GET % b"")
            statuses.append((await _answer(one[0]))[0])
            for _, writer in (one, two):
                await _closed(writer)
            return statuses

    assert asyncio.run(run()) == [429, 200, 200]


def test_the_limit_of_open_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (1024, 5000))
    monkeypatch.setattr(connections.resource, "setrlimit", lambda _, limit: raised.append(limit))
    allow_many()
    assert raised == [(5000, 5000)]


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"TLS/1.0", b"x"])
@pytest.mark.parametrize("framing", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_body_is_not_lost_to_another_protocol(protocol: bytes, framing: bytes) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n"
    body = b"5\r\nhello\r\n0\r\n\r\n" if b"chunked" in framing else b"hello"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Any]:
        # Without a body there is nothing to lose.
        writer.write(GET[:-2] % b"" + upgrade + b"\r\n")
        first = await _answer(reader)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + upgrade + b"\r\n" + body)
        second = await _answer(reader)
        assert await reader.read() == b""
        return [first, second]

    (got, _), (status, error) = _talk(talk)
    assert (got, status) == (200, 400)
    assert "without 'Upgrade'" in json.loads(error)["error"]["message"]


@pytest.mark.parametrize(
    "sent",
    [
        b"X: 1\r\n" * 200,
        b"X: " + b"1" * (1 << 20),
        b"X: %s\r\n" % (b"1" * 2000) * 90,
        b"Transfer-Encoding: chunked\r\n\r\n1;%s" % (b"x" * (1 << 20)),
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: 1\r\n" * 200,
    ],
    ids=["lines", "line", "bytes", "chunk", "trailer"],
)
@pytest.mark.parametrize("before", [b"", GET % b""], ids=["first", "second"])
def test_a_large_head_is_refused(sent: bytes, before: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        if before:
            writer.write(before)
            assert (await _answer(reader))[0] == 200
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + sent)
        return await _answer(reader)

    status, body = _talk(talk)
    assert (status, json.loads(body)["error"]["code"]) == (431, "too_large")


def test_a_head_within_the_limits_and_a_large_body_are_taken() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[int]:
        statuses = []
        for _ in range(2):
            writer.write(GET[:-2] % b"" + b"X: 1\r\n" * 99 + b"\r\n")
            statuses.append((await _answer(reader))[0])
            head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head + b"40\r\n%s\r\n" % (b"x" * 64) * 900 + b"0\r\n\r\n")
            statuses.append((await _answer(reader))[0])
        return statuses

    assert _talk(talk) == [200] * 4
