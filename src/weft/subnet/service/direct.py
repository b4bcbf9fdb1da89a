"""Calls whose bodies are read here: those of every phase, and those with large bodies.

FastAPI's handling costs as much as all else in the calls of every phase, and it would parse a body
of many megabytes while no key is granted. FastAPI's routes for these calls describe them in the
OpenAPI document; requests never reach them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from weft.core.errors import InputError
from weft.subnet.service import models
from weft.subnet.service.access import Access
from weft.subnet.service.errors import error_answer

_NAME = r"([A-Za-z0-9][A-Za-z0-9_.:+@-]{0,127})"
#: Bytes of a body that takes longer to parse than grants should wait.
LARGE_BODY = 100_000
B = TypeVar("B", bound=BaseModel)
#: Calls a function of a module with some arguments in another process.
Elsewhere = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class PostCall:
    """A call with POST."""

    #: Its address, as FastAPI takes it.
    path: str
    #: Type of its body, of which an empty one is the default.
    body: type[BaseModel]
    #: Answers; called with the names in the address and the body.
    answer: Callable[..., Coroutine[Any, Any, Response]]


class DirectCalls:
    """Answers some calls; passes all else on.

    `app`: the application for all else. `access`: checks of requests: whose address has a name are
    the owner's, others the administrator's. `elsewhere`: parses large bodies.
    """

    def __init__(
        self, app: ASGIApp, access: Access, calls: list[PostCall], elsewhere: Elsewhere
    ) -> None:
        self._app = app
        self._access = access
        self._calls = [(re.compile(re.sub(r"{\w+}", _NAME, each.path)), each) for each in calls]
        self._elsewhere = elsewhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; see the ASGI specification."""
        if scope["type"] == "http" and scope["method"] == "POST":
            for pattern, call in self._calls:
                found = pattern.fullmatch(scope["path"])
                if found is not None:
                    request = Request(scope, receive)
                    try:
                        response = await self._answer(request, call, *found.groups())
                    except Exception as error:  # as FastAPI's handlers
                        response = error_answer(request, error)
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _answer(self, request: Request, call: PostCall, *names: str) -> Response:
        self._access.check_owner(request, *names[:1])
        body = await request.body()
        # Meanwhile the application may have left, and another one have come under its name.
        self._access.check_owner(request, *names[:1])
        if len(body) < LARGE_BODY:
            content = parsed(call.body, body)
        else:
            content = await self._elsewhere(parsed, call.body, body)
        answer = call.answer(*names, content)
        return await (_unless_gone(request, answer) if getattr(content, "wait_s", 0) else answer)


async def _unless_gone(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """Return an answer that may take long; give it up if the client has gone."""
    answering = asyncio.create_task(answer)
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        return answering.result()
    finally:
        for task in (answering, leaving):
            task.cancel()


def parsed(kind: type[B], body: bytes) -> B:
    """Return the content of a body, with flows as arrays, which pass quickly between processes."""
    empty = body.strip() in (b"", b"null")
    content = kind.model_validate_json(b"{}" if empty else body)
    if not empty:
        json.loads(body.decode(), object_pairs_hook=_once)
    phases: list[models.PhaseRequest] | None = getattr(content, "phases", None)
    if phases is None:
        return content
    arrays = [
        {} if each.flows is None else {"flows": np.array(each.flows, np.int32).reshape(-1, 2)}
        for each in phases
    ]
    copies = [each.model_copy(update=array) for each, array in zip(phases, arrays, strict=True)]
    return content.model_copy(update={"phases": copies})


def _once(fields: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in fields:
        if name in seen:
            raise InputError(f"{name} is given twice")
        seen.add(name)
