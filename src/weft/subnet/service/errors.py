"""Answers to refused requests: a status, a code and a message."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.subnet.service.access import Denied
from weft.subnet.service.ledger import Refused
from weft.subnet.service.store import StoreFailed

log = logging.getLogger("weft.serve")
#: Status of each refusal of the ledger; others are 409, a conflict with the state.
_STATUS = {
    "unknown_application": 404,
    "unknown_phase": 404,
    "unknown_host": 422,
    "unknown_rank": 422,
    "host_twice": 422,
    "too_many_applications": 429,
    "not_ready": 503,
    "key_failed": 503,
}
#: Most characters of the message of an error, which may name what was sent.
_MESSAGE = 2000
#: Most errors of a body that a message lists.
_MOST_ERRORS = 3
_NAMES = {400: "bad_request", 404: "unknown_address", 405: "method_not_allowed"}


def error_answer(request: Request, error: Exception) -> Response:
    """Return the answer to a request that raised an error."""
    match error:
        case Refused():
            headers = {"Retry-After": "1"} if error.code == "not_ready" else {}
            return _answer(_STATUS.get(error.code, 409), error.code, error.message, headers)
        case Denied():
            headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
            return _answer(error.status, error.code, str(error), headers)
        case StoreFailed():
            return _answer(507, "not_stored", f"nothing has changed: {error}")
        case InputError() | NotApplicable():
            return _answer(422, "wrong_value", str(error))
        case WeftError():
            return _answer(503, "unavailable", str(error), {"Retry-After": "5"})
        case RequestValidationError():
            return _invalid(error.errors(), 1)
        case ValidationError():
            return _invalid(error.errors(), 0)
        case ClientDisconnect():
            return _answer(400, "bad_request", "the body ends too early, or comes too slowly")
        case HTTPException():
            code = _NAMES.get(error.status_code, "refused")
            message = f"{request.method} {request.url.path}: {error.detail}"
            if allowed := (error.headers or {}).get("Allow"):
                message += f"; expected {allowed}"
            return _answer(error.status_code, code, message, error.headers)
        case _:
            log.error("%s %s failed", request.method, request.url.path, exc_info=error)
            message = "an error in weft serve; its log has the details"
            return _answer(500, "internal_error", message)


def _answer(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    content = {"error": {"status": status, "code": code, "message": message[:_MESSAGE]}}
    return JSONResponse(content, status, headers=headers)


def _invalid(errors: Sequence[Any], skipped: int) -> Response:
    """Return the answer to a body that is not as declared.

    `skipped`: number of leading parts of each location that are not in the body.
    """
    first = errors[0]
    if first["type"] == "json_invalid":
        where = first.get("ctx", {}).get("error", "")
        return _answer(400, "bad_json", f"the body is not JSON: {where}")
    wrong = []
    for error in errors[:_MOST_ERRORS]:
        place = ".".join(map(str, error["loc"][skipped:] or error["loc"][:1])) or "body"
        wrong.append(f"{place}: {error['msg'].removeprefix('Value error, ')}")
    if more := len(errors) - len(wrong):
        wrong.append(f"and {more:,} more")
    return _answer(422, "wrong_value", "; ".join(wrong))


def handle_errors(app: FastAPI) -> None:
    """Answer every error of an application in this form."""

    async def answer(request: Request, error: Exception) -> Response:
        return error_answer(request, error)

    for kind in (
        Refused, Denied, WeftError, RequestValidationError, HTTPException, Exception
    ):  # fmt: skip
        app.add_exception_handler(kind, answer)
