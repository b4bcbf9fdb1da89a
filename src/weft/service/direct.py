"""The two calls of every phase, without FastAPI's handling, which costs as much as all else.

FastAPI's routes for them describe them in the OpenAPI document; these calls never reach them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from weft.service import models
from weft.service.access import Access
from weft.service.errors import error_answer

_NAME = r"([A-Za-z0-9][A-Za-z0-9_.:+@-]{0,127})"
_CALL = re.compile(rf"/v1/applications/{_NAME}/keys/{_NAME}/(request|done)")

#: Answers a request of a key, or its return.
AskKey = Callable[[str, str, models.KeyRequest], Awaitable[models.Grant]]
ReturnKey = Callable[[str, str], Awaitable[models.Returned]]


class DirectCalls:
    """Answers requests and returns of keys; passes all else on.

    Parameters
    ----------
    app
        The application for all else.
    access
        Checks of requests.
    ask, give_back
        Functions that answer.
    """

    def __init__(self, app: ASGIApp, access: Access, ask: AskKey, give_back: ReturnKey) -> None:
        self._app = app
        self._access = access
        self._ask = ask
        self._give_back = give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; see the ASGI specification."""
        call = None
        if scope["type"] == "http" and scope["method"] == "POST":
            call = _CALL.fullmatch(scope["path"])
        if call is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request, *call.groups())
        except Exception as error:  # as FastAPI's handlers
            response = error_answer(request, error)
        await response(scope, receive, send)

    async def _answer(self, request: Request, application: str, phase: str, what: str) -> Response:
        self._access.check_owner(request, application)
        body = await request.body()
        answer: models.Grant | models.Returned
        if what == "done":
            answer = await self._give_back(application, phase)
        else:
            empty = body.strip() in (b"", b"null")
            content = models.KeyRequest.model_validate_json(b"{}" if empty else body)
            answer = await self._ask(application, phase, content)
        return Response(answer.model_dump_json(), media_type="application/json")
