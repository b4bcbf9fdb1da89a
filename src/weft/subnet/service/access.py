"""Who may do what: tokens, and limits of size and rate."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.subnet.service.store import hashed

#: Largest body of a request that is not the administrator's.
SMALL_BODY = 64 << 10
#: Name of the administrator among the owners of tokens; no application has it.
ADMINISTRATOR = ""
#: Name of the owner of the token that only shows the state; no application has it either.
MONITOR = ":monitor"
#: Seconds for the body of a request, and most requests of a client address at the same time.
BODY_S, AT_ONCE = 120.0, 10_000


class Denied(Exception):
    """A request without the right to what it asks for."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class RequestLimits:
    """Limits of requests."""

    #: Largest body.
    body_bytes: int = 64 << 20
    #: Most requests per second of one client address, on average; bursts of one second are allowed.
    #: 0 for no limit.
    requests_per_s: float = 5000.0


class Access:
    """Checks of requests.

    `hashes`: hash of each token by its owner; see `ServiceStore.tokens`. `hosts`: names by which
    clients may address the service; empty for any.
    """

    def __init__(
        self,
        hashes: Mapping[str, bytes],
        *,
        required: bool,
        limits: RequestLimits | None = None,
        hosts: Collection[str] = (),
    ) -> None:
        self._hashes = dict(hashes)
        self.required = required
        self.limits = limits or RequestLimits()
        self.hosts = frozenset(hosts)

    def add(self, owner: str, token: str) -> None:
        """Accept a token of an owner from now on, in place of an earlier one."""
        self._hashes[owner] = hashed(token)

    def forget(self, owner: str) -> None:
        """Accept no token of an owner any more."""
        self._hashes.pop(owner, None)

    async def administrator(self, request: HTTPConnection) -> None:
        """Check that a request is the administrator's."""
        self._check(request, ADMINISTRATOR)

    async def reader(self, request: HTTPConnection) -> None:
        """Check that a request is the administrator's or the monitor's."""
        self._check(request, MONITOR, ADMINISTRATOR)

    def may_read(self, request: HTTPConnection) -> bool:
        """Return whether a request is the administrator's or the monitor's."""
        return self._is_of(request, MONITOR, ADMINISTRATOR)

    async def owner(self, request: HTTPConnection) -> None:
        """Check that a request is of the application in its address, or the administrator's.

        A refusal does not tell whether the application exists.
        """
        self.check_owner(request, request.path_params["application"])

    def check_owner(self, request: HTTPConnection, *application: str) -> None:
        """Check that a request is the administrator's, or of an application; see `owner`."""
        self._check(request, *application, ADMINISTRATOR)

    def largest_body(self, request: HTTPConnection) -> int:
        """Return the largest body of a request: only the administrator needs large ones."""
        most = self.limits.body_bytes
        return most if self._is_of(request, ADMINISTRATOR) else min(SMALL_BODY, most)

    def from_elsewhere(self, request: HTTPConnection) -> bool:
        """Return whether a page of another site sends a request, by way of a user's browser.

        Without tokens, such a page could do everything: it needs only the address of the service,
        or a name of its own that leads there.
        """
        if self.required:
            return False
        host = request.headers.get("host", "")
        name, _, port = host.rpartition(":")
        if self.hosts and (name if port.isdecimal() else host).lower() not in self.hosts:
            return True
        origin = request.headers.get("origin")
        return origin is not None and origin.partition("://")[2].lower() != host.lower()

    def _is_of(self, request: HTTPConnection, *owners: str) -> bool:
        try:
            self._check(request, *owners)
        except Denied:
            return False
        return True

    def _check(self, request: HTTPConnection, *owners: str) -> None:
        if not self.required:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Denied(401, "no_token", "expected the header 'Authorization: Bearer TOKEN'")
        given = hashed(token.strip())
        # All hashes are compared in full, so that the time does not tell which one was close.
        allowed = False
        for owner in owners:
            allowed |= hmac.compare_digest(self._hashes.get(owner, b"-" * 32), given)
        if not allowed:
            raise Denied(403, "not_yours", "this token does not give the right to this")


class LimitMiddleware:
    """Refuses requests that are too large or too many, and those of pages of other sites."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._cleared_s = 0.0
        #: Requests of each client that are being answered.
        self._open: Counter[str] = Counter()
        # For each client: requests that are left, and the time at which that was so.
        self._left: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; see the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = _network(scope["client"][0]) if scope.get("client") else ""
        if self._open[client] >= AT_ONCE or not self._within_rate(client):
            await _refuse(send, 429, "too_many_requests", "too many requests; try again later")
            return
        self._open[client] += 1
        try:
            await self._handle(scope, receive, send)
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPConnection(scope)
        if self._access.from_elsewhere(request):
            message = "the request is by a page of another site, or addresses another service"
            await _refuse(send, 403, "from_elsewhere", message)
            return
        has_body = request.headers.get("content-length", "0") != "0"
        has_body |= "transfer-encoding" in request.headers
        if scope["method"] == "CONNECT" or ("upgrade" in request.headers and has_body):
            # The parser takes a body for data of the other protocol, so that it would be lost.
            message = "no other protocol is spoken here: send the request without 'Upgrade'"
            await _refuse(send, 400, "bad_request", message)
            return
        most = self._access.largest_body(request)
        too_large = f"the body is larger than {most:,} bytes"
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > most:
            await _refuse(send, 413, "too_large", too_large)
            return
        left = most
        until = asyncio.get_running_loop().time() + BODY_S
        whole = False

        async def limited() -> Message:
            nonlocal left, whole
            try:
                async with asyncio.timeout_at(None if whole else until):
                    message = await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}
            whole = not message.get("more_body")
            left -= len(message.get("body", b""))
            return message if left >= 0 else {"type": "http.disconnect"}

        async def unless_too_large(message: Message) -> None:
            if left >= 0:
                await send(message)

        await self._app(scope, limited, unless_too_large)
        if left < 0:
            await _refuse(send, 413, "too_large", too_large)

    def _within_rate(self, client: str) -> bool:
        """Count a request of a client; return whether it is allowed."""
        rate = self._access.limits.requests_per_s
        if not rate:
            return True
        now = time.monotonic()
        burst = max(rate, 1.0)
        left, before = self._left.get(client, (burst, now))
        left = min(burst, left + (now - before) * rate)
        full_s = burst / rate
        if now - self._cleared_s > full_s:
            # Clients that may send a full burst again need not be remembered.
            self._cleared_s = now
            old = [each for each, (_, at) in self._left.items() if now - at > full_s]
            for each in old:
                del self._left[each]
        self._left[client] = (left - 1 if left >= 1 else left, now)
        return left >= 1


def _network(address: str) -> str:
    """Return an address, or for IPv6 the part of it that a site cannot choose freely."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_address(address.partition("%")[0]).exploded[:19])
    except ValueError:
        return address


def error_json(status: int, code: str, message: str) -> str:
    """Return the body of an answer that refuses a request; see `models.Error`."""
    return json.dumps({"error": {"status": status, "code": code, "message": message}})


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    body = error_json(status, code, message).encode()
    headers = [
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
