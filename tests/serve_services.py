"""A service of `weft serve` within the tests: no processes, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import asyncio
import httpx
import pytest

from weft import fabric
from weft.fabrics import Fabric
from weft.service import makers, service
from weft.service.access import Access, Limits
from weft.service.http import application_of
from weft.service.service import Rules, Service
from weft.service.store import Store

FABRIC = "xgft:2;4,4;1,4"
SETTINGS = makers.Settings()


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

    def close(self) -> None:
        """Do nothing."""


class Time:
    """The clocks of the machine, which stand still until a test sets them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall_ns = 1_700_000_000_000_000_000
        self.steady_ns = 5_000_000_000
        patch.setattr("weft.service.clock.time.time_ns", lambda: self.wall_ns)
        patch.setattr("weft.service.clock.time.monotonic_ns", lambda: self.steady_ns)

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.wall_ns += int(seconds * 1e9)
        self.steady_ns += int(seconds * 1e9)


def without_processes(patch: pytest.MonkeyPatch) -> None:
    """Let services work without processes of their own."""
    patch.setattr(service, "Worker", InProcess)


def opened(path: Path, rules: Rules | None = None) -> Store:
    """Open the store of a service with some rules."""
    rules = rules or Rules()
    settings = {"criterion": rules.criterion, "while_missing": rules.while_missing}
    return Store(path, the_fabric().digest, settings)


@contextmanager
def served(
    path: Path,
    rules: Rules | None = None,
    *,
    required: bool = False,
    administrator: str = "root",
    limits: Limits | None = None,
    hosts: tuple[str, ...] = (),
) -> Iterator[tuple[TestClient, Service]]:
    """Run a service on a store; yield a client of it, and the service."""
    store = opened(path, rules)
    try:
        access = Access(store.tokens(), required=required, limits=limits, hosts=hosts)
        access.add("", administrator)
        running = Service(the_fabric(), store, SETTINGS, rules or Rules())
        app = application_of(running, access)
        with TestClient(app, raise_server_exceptions=False) as client:
            yield client, running
    finally:
        store.close()
