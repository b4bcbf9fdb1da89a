"""A service of `weft serve` within the tests: no processes, and a clock that tests set."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from tests.processes import PATIENCE_S
from weft import fabric
from weft.fabrics import Fabric
from weft.subnet.service import makers, models
from weft.subnet.service.access import Access, RequestLimits
from weft.subnet.service.connections import server_config
from weft.subnet.service.http import application_of
from weft.subnet.service.keeper import Keeper
from weft.subnet.service.service import Rules, Service
from weft.subnet.service.store import ServiceStore

FABRIC = "xgft:2;4,4;1,4"
SETTINGS = makers.MakerSettings()
#: Token of the administrator.
ROOT = "root"


@lru_cache
def the_fabric() -> Fabric:
    """Return the fabric of these tests."""
    return fabric(FABRIC)


class InProcess:
    """A worker that runs functions at once."""

    def __init__(self, what: str, prepare: Callable[..., object], *arguments: Any) -> None:
        prepare(*arguments)

    async def run(
        self, function: Callable[..., Any], *arguments: Any, limit_s: float | None = None
    ) -> Any:
        """Run a function."""
        return function(*arguments)

    async def start(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Time:
    """The clocks of the machine, which stand still until a test sets them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall_ns = 1_700_000_000_000_000_000
        self.steady_ns = 5_000_000_000
        patch.setattr("weft.subnet.service.clock.time.time_ns", lambda: self.wall_ns)
        patch.setattr("weft.subnet.service.clock.time.monotonic_ns", lambda: self.steady_ns)

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.wall_ns += int(seconds * 1e9)
        self.steady_ns += int(seconds * 1e9)


def without_processes(patch: pytest.MonkeyPatch) -> None:
    """Let services work without processes of their own."""
    patch.setattr("weft.subnet.service.service.Worker", InProcess)
    patch.setattr("weft.subnet.service.keeper.Worker", InProcess)


def tick(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the time between two looks at leases and at the subnet."""
    patch.setattr("weft.subnet.service.service.TICK_S", seconds)
    patch.setattr("weft.subnet.service.keeper.TICK_S", seconds)


def opened(path: Path, rules: Rules | None = None) -> ServiceStore:
    """Open the store of a service with some rules."""
    rules = rules or Rules()
    settings = {"criterion": rules.criterion, "while_missing": rules.while_missing}
    return ServiceStore(path, the_fabric().digest, settings)


class Caller:
    """A client of a service in this process; time of tasks passes only during calls."""

    keeper: Keeper

    def __init__(self, runner: asyncio.Runner, app: FastAPI, host: str) -> None:
        self._runner = runner
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://{host}")

    def call(
        self, method: str, path: str, body: Any = None, *, token: str = "", **more: Any
    ) -> httpx.Response:
        """Send a request; `more` is as for httpx."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more.pop("headers", {})
        if body is not None:
            more["json"] = body
        return self._runner.run(self._client.request(method, path, headers=headers, **more))

    def refused(
        self, method: str, path: str, body: Any = None, **more: Any
    ) -> tuple[int, str, str]:
        """Send a request that is refused; return status, code and sentence of the error."""
        response = self.call(method, path, body, **more)
        error = models.Error.model_validate_json(response.content).error
        assert error.status == response.status_code >= 400
        return error.status, error.code, error.message

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for something else in the loop of the service."""
        return self._runner.run(work)

    def until(self, is_so: Callable[[], object]) -> None:
        """Let the service work until something is so."""
        limit_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < limit_s
            self.wait(asyncio.sleep(0.001))

    def place(self, name: str, hosts: list[str], **phases: str) -> str:
        """Place an application, wait until its keys are made, and return its token."""
        body = {
            "name": name, "hosts": hosts,
            "phases": [{"name": each, "pattern": pattern} for each, pattern in phases.items()],
        }  # fmt: skip
        response = self.call("POST", "/v1/applications", body, token=ROOT)
        assert response.status_code == 201, response.text

        def made() -> bool:
            answer = self.call("GET", f"/v1/applications/{name}", token=ROOT).json()
            return all(key["state"] != "making" for key in answer["keys"])

        self.until(made)
        token: str = response.json()["token"]
        return token


@contextmanager
def served(
    path: Path,
    rules: Rules | None = None,
    *,
    required: bool = False,
    limits: RequestLimits | None = None,
    hosts: tuple[str, ...] = (),
    client_host: str = "weft",
) -> Iterator[tuple[Caller, Service]]:
    """Run a service on a store; yield a client of it, and the service."""
    store = opened(path, rules)
    try:
        access = Access(store.tokens(), required=required, limits=limits, hosts=hosts)
        access.add("", ROOT)
        service = Service(the_fabric(), store, SETTINGS, rules or Rules())
        keeper = Keeper(service)
        app = application_of(keeper, access)
        with asyncio.Runner() as runner:
            life = app.router.lifespan_context(app)
            runner.run(life.__aenter__())
            try:
                caller = Caller(runner, app, client_host)
                caller.keeper = keeper
                yield caller, service
            finally:
                runner.run(life.__aexit__(None, None, None))
    finally:
        store.close()


@contextmanager
def in_thread(
    path: Path, access: Access | None = None, *, port: int = 0
) -> Iterator[tuple[Service, str]]:
    """Run a service in a thread of this process; yield it and its address."""
    store = opened(path)
    service = Service(the_fabric(), store, SETTINGS, Rules())
    keeper = Keeper(service)
    app = application_of(keeper, access or Access({}, required=False))
    server = uvicorn.Server(server_config(app))

    async def run() -> None:
        await keeper.start()
        try:
            await server.serve([listener])
        finally:
            await keeper.stop()

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(run()))
        thread.start()
        try:
            yield service, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            store.close()
