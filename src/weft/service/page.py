"""The page at ``/``, and the state that it waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cache

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from weft.service.service import Service

_STYLES = ("style.css", "serve.css")
_SCRIPTS = ("common.js", "serve.js")
#: Seconds between two looks whether the state has changed.
_LOOK_S = 0.1


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


async def wait_for_state(
    service: Service, after: int | None, wait_s: float, gone: Callable[[], Awaitable[bool]]
) -> None:
    """Return when the state is another than that of a version, or something else has changed.

    Parameters
    ----------
    service
        The service.
    after
        A version of the state; None not to wait.
    wait_s
        Longest time to wait, in seconds.
    gone
        Returns whether the client has gone meanwhile.
    """
    until = time.monotonic() + wait_s
    first = _other(service)
    while service.version == after and _other(service) == first and time.monotonic() < until:
        await asyncio.sleep(_LOOK_S)
        if await gone():
            return


def _other(service: Service) -> tuple[object, ...]:
    """Return what changes without an event."""
    return (tuple(service.problems.values()), service.missing, service.reloads)
