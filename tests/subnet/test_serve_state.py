"""Clients that wait for the state of `weft serve`."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from tests.processes import PATIENCE_S

from weft.subnet.service.page import StateReader
from weft.subnet.service.service import KnownSubnet


class Made:
    """A service, and how often its state was built."""

    def __init__(self, build_s: float = 0.0) -> None:
        self.service: Any = SimpleNamespace(
            version=3, problems={}, subnet=KnownSubnet(), stored=nullcontext
        )
        self.count = 0
        self.build_s = build_s
        self.reader = StateReader(self.service, self.build)

    def build(self) -> str:
        self.count += 1
        time.sleep(self.build_s)
        return f"{self.service.version} {self.count}"

    async def wait(self, after: int, wait_s: float = 600.0, leaves: bool = False) -> str:
        async def gone() -> bool:
            return leaves

        return await self.reader.wait(after, wait_s, gone)


def test_an_old_version_is_answered_at_once_and_the_present_one_when_it_changes() -> None:
    made = Made()

    async def run() -> None:
        assert await made.wait(2) == "3 1"
        start = time.monotonic()
        several = [asyncio.create_task(made.wait(3)) for _ in range(3)]
        await asyncio.sleep(0.3)
        assert not any(task.done() for task in several)
        made.service.version = 4
        # All who wait get one answer.
        assert await asyncio.gather(*several) == ["4 2"] * 3
        assert time.monotonic() - start >= 0.3

    asyncio.run(run())


def test_changes_without_an_event_end_the_wait() -> None:
    made = Made()

    async def run() -> None:
        service = made.service
        for where, name, value in (
            (service.subnet, "missing", (4,)), (service.subnet, "reloads", 1),
            (service, "problems", {"clock": "late"}),
        ):  # fmt: skip
            waiting = asyncio.create_task(made.wait(3))
            await asyncio.sleep(0.15)
            setattr(where, name, value)
            assert await waiting == f"3 {made.count}"
        assert made.count == 3

    asyncio.run(run())


def test_the_wait_ends_with_its_time_or_the_client() -> None:
    made = Made()

    async def run() -> None:
        start = time.monotonic()
        assert await made.wait(3, 0.3) == "3 1"
        assert time.monotonic() - start >= 0.3
        # Nothing has changed: nothing is built again.
        assert await made.wait(3, 0.1) == "3 1"
        start = time.monotonic()
        await made.wait(3, PATIENCE_S, leaves=True)
        assert time.monotonic() - start < PATIENCE_S

    asyncio.run(run())


def test_an_expensive_state_is_built_rarely_for_those_who_wait() -> None:
    made = Made(build_s=0.01)

    async def run() -> None:
        await made.reader.read()
        start = time.monotonic()
        made.service.version = 4
        assert await made.wait(3) == "4 2"
        assert time.monotonic() - start >= 1.0
        # Those who do not wait always get the present state.
        made.service.version = 5
        assert await made.reader.read() == "5 3"

    asyncio.run(run())
