"""Connections of the service: how long they may take, and what is not HTTP."""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from weft.core.errors import InputError
from weft.subnet.service.access import error_json

#: Seconds for the head of a request, and for which a connection without a request stays open, which
#: is longer than clients keep one (httpx: 5 s): none is closed just as a request is sent.
HEAD_S, IDLE_S = 10.0, 15
#: Most bytes and header lines of the head of a request.
HEAD_BYTES, HEAD_LINES = 64 << 10, 100


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection that is closed if the head of a request does not come, or is too large."""

    _limit: asyncio.TimerHandle | None = None
    #: Bytes of the present request that have come, bytes and lines of headers, and bytes of body.
    _came = _header_bytes = _header_lines = _body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin; see `asyncio.Protocol`."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Take data; see `asyncio.Protocol`."""
        before = self.cycle
        self._came += len(data)
        super().data_received(data)
        # Chunks of a body may have lines of their own.
        if self._came - 2 * self._body_bytes > HEAD_BYTES + len(data) and not self._closes():
            self._header_bytes = self._came
            self.send_400_response("")
        if self.cycle is not before:
            self._end()
        elif self._waits():
            self._begin()

    def on_message_begin(self) -> None:
        """Begin a request; see uvicorn."""
        self._came = self._header_bytes = self._header_lines = self._body_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head, or one after a chunked body; see uvicorn."""
        self._header_bytes += len(name) + len(value)
        self._header_lines += 1
        if self._too_large():
            raise ValueError("the head is too large")  # the parser gives up
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body; see uvicorn."""
        self._body_bytes += len(body)
        super().on_body(body)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; see `asyncio.Protocol`."""
        self._end()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or too much; uvicorn would send plain text."""
        status, code = 400, "bad_request"
        text = "the request is not HTTP/1.1"
        if self._too_large():
            status, code = 431, "too_large"
            text = f"the head is larger than {HEAD_BYTES:,} bytes or {HEAD_LINES} lines"
        body = error_json(status, code, text).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            "connection: close\r\n"
        )
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()

    def _too_large(self) -> bool:
        return self._header_bytes > HEAD_BYTES or self._header_lines > HEAD_LINES

    def _closes(self) -> bool:
        return bool(self.transport.is_closing())

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _begin(self) -> None:
        if self._limit is None:
            self._limit = self.loop.call_later(HEAD_S, self._late)

    def _end(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _late(self) -> None:
        self._limit = None
        if self._waits():
            self.transport.close()


def server_config(
    app: ASGIApp, certificate: Path | None = None, key: Path | None = None
) -> uvicorn.Config:
    """Return the settings of the server of an application."""
    config = uvicorn.Config(
        app, http=Connection, ws="none", lifespan="off", access_log=False,
        server_header=False,
        # Warnings are about what clients send, and they would fill the log.
        log_level="error",
        # A client would choose its address by a header, and so its limits.
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        # Clients may wait for changes much longer.
        timeout_graceful_shutdown=3,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
        ssl_ciphers="ECDHE+AESGCM:ECDHE+CHACHA20",
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        raise InputError(f"cannot be used with the key {key}: {error}", file=certificate) from None
    return config


def allow_many() -> None:
    """Let this process have as many connections as the machine allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
