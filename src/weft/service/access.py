"""Who may do what: tokens, and limits of size and rate."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.service.store import hashed

#: Name of the administrator among the owners of tokens; no application has it.
ADMINISTRATOR = ""


class Denied(Exception):
    """A request without the right to what it asks for."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Limits:
    """Limits of requests.

    Parameters
    ----------
    body_bytes
        Largest body.
    requests_per_s
        Most requests per second of one client address, on average; bursts of one second are
        allowed. 0 for no limit.
    """

    body_bytes: int = 64 << 20
    requests_per_s: float = 5000.0


class Access:
    """Checks of requests.

    Parameters
    ----------
    hashes
        Hash of each token by its owner; see `Store.tokens`.
    required
        Whether requests need a token.
    limits
        Limits of requests.
    """

    def __init__(
        self, hashes: Mapping[str, bytes], *, required: bool, limits: Limits | None = None
    ) -> None:
        self._hashes = dict(hashes)
        self.required = required
        self.limits = limits or Limits()

    def add(self, owner: str, token: str) -> None:
        """Accept a token of an owner from now on, in place of an earlier one."""
        self._hashes[owner] = hashed(token)

    def forget(self, owner: str) -> None:
        """Accept no token of an owner any more."""
        self._hashes.pop(owner, None)

    async def administrator(self, request: HTTPConnection) -> None:
        """Check that a request is the administrator's.

        Raises
        ------
        Denied
            If it is not.
        """
        self._check(request, ADMINISTRATOR)

    async def owner(self, request: HTTPConnection) -> None:
        """Check that a request is of the application in its address, or the administrator's.

        Raises
        ------
        Denied
            If it is not. The answer does not tell whether the application exists.
        """
        self.check_owner(request, request.path_params["application"])

    def check_owner(self, request: HTTPConnection, application: str) -> None:
        """Check that a request is of an application, or the administrator's; see `owner`."""
        self._check(request, application, ADMINISTRATOR)

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
    """Refuses requests that are too large or too many."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        # For each client: requests that are left, and the time at which that was so.
        self._left: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; see the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._within_rate(scope):
            await _refuse(send, 429, "too_many_requests", "too many requests; try again later")
            return
        most = self._limits.body_bytes
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > most):
                await _refuse(send, 413, "too_large", f"the body is larger than {most:,} bytes")
                return
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise Denied(413, "too_large", f"the body is larger than {most:,} bytes")
            return message

        await self._app(scope, limited, send)

    def _within_rate(self, scope: Scope) -> bool:
        """Count a request of a client; return whether it is allowed."""
        rate = self._limits.requests_per_s
        if not rate:
            return True
        client = scope["client"][0] if scope.get("client") else ""
        now = time.monotonic()
        left, before = self._left.get(client, (rate, now))
        left = min(rate, left + (now - before) * rate)
        if len(self._left) > 10_000:
            self._left.clear()
        self._left[client] = (left - 1 if left >= 1 else left, now)
        return left >= 1


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": {"status": status, "code": code, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
