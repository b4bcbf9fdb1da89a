"""The page at ``/``, and the state that it waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cache

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from weft.subnet.service.service import Service

_STYLES = ("style.css", "serve.css")
_SCRIPTS = ("common.js", "serve.js")
#: Seconds between two looks whether the state has changed.
_LOOK_S = 0.1
#: Largest share of the time in which states are built for clients that wait.
_SHARE = 0.01


def add_page(app: FastAPI, service: Service) -> None:
    """Serve the page, which anybody may load: it holds no state and asks for a token itself."""

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        text, policy = await asyncio.to_thread(
            rendered, service.fabric.name, service.fabric.num_hosts, service.settings.engines
        )
        return HTMLResponse(
            text,
            headers={
                "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
                "Cache-Control": "no-cache",
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
            },
        )


@cache
def rendered(fabric: str, hosts: int, engines: tuple[str, ...]) -> tuple[str, str]:
    """Return the page and its content security policy."""
    # Jinja is only needed here; starting the service does not wait for it.
    from weft.report import render

    first, *others = engines
    text = render.render_page(
        "serve.html",
        _STYLES,
        _SCRIPTS,
        {},
        {},
        connects=True,
        title=f"Routing keys in use on {fabric}",
        facts=[("hosts", f"{hosts:,}")],
        engines=", or ".join([first, *(f"{each} where that does not fit" for each in others)]),
        notes=[],
    )
    return text, render.policy(render.style_of(_STYLES), render.script_of(_SCRIPTS), connects=True)


class StateReader:
    """Answers with the state, and lets clients wait until it changes.

    To build the state of a thousand applications takes tens of milliseconds, in which no key is
    granted. Clients that wait therefore share one answer, and wait longer while it is expensive.

    `build`: returns the state as JSON.
    """

    def __init__(self, service: Service, build: Callable[[], str]) -> None:
        self._service = service
        self._build = build
        self._text, self._stamp = "", self._now()
        #: Earliest time of the next state for clients that wait.
        self._next_s = 0.0

    def _now(self) -> tuple[object, ...]:
        """Return a value that is another one after every change of the state."""
        service = self._service
        problems = tuple(service.problems.values())
        return (service.version, problems, service.subnet.missing, service.subnet.reloads)

    async def read(self) -> str:
        """Return the present state."""
        async with self._service.stored():
            return self._read()

    def _read(self) -> str:
        start = time.monotonic()
        self._text, self._stamp = self._build(), self._now()
        end = time.monotonic()
        self._next_s = end + (end - start) / _SHARE
        return self._text

    async def wait(self, after: int, wait_s: float, gone: Callable[[], Awaitable[bool]]) -> str:
        """Return the state when it is not of a version any more, or after some time.

        `gone`: returns whether the client has gone meanwhile.
        """
        until = time.monotonic() + wait_s
        first = self._now()
        while time.monotonic() < until and not await gone():
            changed = self._service.version != after or self._now() != first
            if changed and (self._stamp == self._now() or time.monotonic() >= self._next_s):
                break
            await asyncio.sleep(_LOOK_S)
        async with self._service.stored():
            return self._text if self._text and self._stamp == self._now() else self._read()
