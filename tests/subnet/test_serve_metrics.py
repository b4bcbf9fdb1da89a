"""Metrics of `weft serve`, as Prometheus reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families
from tests.processes import PATIENCE_S, wait_for
from tests.serve_services import FABRIC, Time, in_thread, without_processes

import weft
from weft.core.errors import WeftError
from weft.subnet.service.access import Access, RequestLimits
from weft.subnet.service.keeper import Keeper
from weft.subnet.service.service import Service
from weft.subnet.service.store import StoreFailed, hashed

PHASES = [{"name": f"p{by}", "pattern": f"shift:offset={by}"} for by in (1, 4)]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_processes(monkeypatch)


@contextmanager
def served(
    folder: Path, tokens: dict[str, bytes] | None = None
) -> Iterator[tuple[Service, httpx.Client]]:
    """Run a service in a thread of this process."""
    limits = RequestLimits(body_bytes=4000)
    access = Access(tokens or {}, required=tokens is not None, limits=limits)
    with (
        in_thread(folder / "store.sqlite", access) as (service, url),
        httpx.Client(base_url=url, timeout=PATIENCE_S) as client,
    ):
        yield service, client


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Service, httpx.Client]]:
    with served(tmp_path) as both:
        yield both


def values(client: httpx.Client) -> dict[str, float]:
    """Return each sample by its name and the value of its label."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def place(client: httpx.Client, name: str, first: int) -> None:
    hosts = [f"h{host}" for host in range(first, 16, 2)]
    body = {"name": name, "hosts": hosts, "phases": PHASES}
    assert client.post("/v1/applications", json=body).status_code == 201

    def ready() -> bool:
        keys = client.get(f"/v1/applications/{name}").json()["keys"]
        return all(key["state"] == "ready" for key in keys)

    wait_for(ready)


def test_all_numbers_after_a_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    with served(tmp_path) as (_, client):
        check_numbers(client, clock)


def check_numbers(client: httpx.Client, clock: Time) -> None:
    before = values(client)
    for name in (
        "weft_grants_total keys", "weft_grants_total base", "weft_grants_ended_total expired",
        "weft_contention_flows keys", "weft_applications", "weft_keys ready", "weft_problem store",
    ):  # fmt: skip
        assert before[name] == 0
    place(client, "even", 0)
    place(client, "odd", 1)
    contention = [0, 0]
    for name, phase, lease_s in (("even", "p1", 60), ("even", "p4", 60), ("odd", "p1", 0.5)):
        address = f"/v1/applications/{name}/keys/{phase}"
        answer = client.post(f"{address}/request", json={"lease_s": lease_s}).json()
        contention[0] += answer["contention"]
        contention[1] += answer["base_contention"]
    state = client.get("/v1/state").json()
    now = values(client)
    assert now["weft_grants_total keys"] == 3
    assert now["weft_grants_total base"] == 0
    assert now["weft_grant_contention_flows_total keys"] == contention[0] > 0
    assert now["weft_grant_contention_flows_total base"] == contention[1] > 0
    assert now["weft_contention_flows keys"] == state["contention"] > 0
    assert now["weft_contention_flows base"] == state["base_contention"] > 0
    assert now["weft_applications"] == 2
    assert now["weft_keys ready"] == 4
    assert now["weft_keys_in_use"] == 3
    assert now["weft_request_seconds_count"] == 3
    assert now["weft_request_seconds_sum"] > 0
    assert now["weft_request_seconds_bucket +Inf"] == 3
    # Two applications, four keys and three grants.
    assert now["weft_events_total"] == 9
    assert 1 <= now["weft_batches_total"] <= 9
    assert now["weft_commit_seconds_count"] == now["weft_batches_total"]

    # What is refused, by code, at all places where requests are refused.
    for method, address, body in (
        ("POST", "/v1/applications/even/keys/p1/request", None),
        ("POST", "/v1/applications/even/keys/p1/request", {"lease_s": -1}),
        ("POST", "/v1/applications/nobody/keys/p1/done", None),
        ("GET", "/v1/nothing", None),
        ("GET", "/v1/nothing-else", None),
        ("POST", "/v1/applications", {"name": "x" * 9000}),
    ):
        assert client.request(method, address, json=body).status_code >= 400
    clock.pass_s(0.6)
    assert client.post("/v1/applications/even/keys/p1/done").status_code == 200
    wait_for(lambda: values(client)["weft_grants_ended_total expired"])
    assert client.delete("/v1/applications/even").status_code == 204
    now = values(client)
    codes = {"in_use": 1, "wrong_value": 1, "unknown_application": 1, "unknown_address": 2}
    for code, count in (codes | {"too_large": 1}).items():
        assert now[f"weft_refusals_total {code}"] == count
    ends = {"done": 1, "expired": 1, "left": 1, "withdrawn": 0}
    for reason, count in ends.items():
        assert now[f"weft_grants_ended_total {reason}"] == count
    assert now["weft_keys_in_use"] == now["weft_contention_flows keys"] == 0
    assert now["weft_keys ready"] == 2


def test_problems_and_errors_within(
    running: tuple[Service, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, client = running
    place(client, "even", 0)

    def full(*_: object) -> None:
        raise StoreFailed("no space")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "record", full)
        assert client.post("/v1/applications/even/keys/p1/request").status_code == 507
    now = values(client)
    assert now["weft_problem store"] == 1
    assert now["weft_problem clock"] == 0
    assert now["weft_refusals_total not_stored"] == 1
    assert now["weft_grants_total keys"] == now["weft_request_seconds_count"] == 0
    assert client.post("/v1/applications/even/keys/p1/request").status_code == 200
    assert values(client)["weft_problem store"] == 0

    def broken(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(service, "free_hosts", broken)
        alone = {"Connection": "close"}
        answer = client.post("/v1/advice", json={"num_hosts": 2}, headers=alone)
        assert answer.status_code == 500
    assert values(client)["weft_refusals_total internal_error"] == 1


class Subnet:
    """Stands in for `Installer`: tables that load, or do not."""

    wrong = ""

    async def install(self, *_: object) -> SimpleNamespace:
        if self.wrong:
            raise WeftError(self.wrong)
        return SimpleNamespace(total_s=0.7)


def test_loads_of_tables_are_counted(running: tuple[Service, httpx.Client]) -> None:
    service, client = running
    subnet = cast(Any, Subnet())
    keeper = Keeper(service, subnet)
    assert asyncio.run(keeper._install([])) is None
    subnet.wrong = "OpenSM does not run"
    assert str(asyncio.run(keeper._install([]))) == subnet.wrong
    now = values(client)
    assert now["weft_table_load_seconds_count"] == 1
    assert now["weft_table_load_seconds_sum"] == pytest.approx(0.7)
    assert now["weft_table_load_seconds_bucket 1.0"] == 1
    assert now["weft_table_load_seconds_bucket 0.5"] == 0
    assert now["weft_table_load_failures_total"] == 1
    assert now["weft_problem subnet"] == 1
    assert client.get("/v1/state").json()["subnet"]["reloads"] == 1
    keeper._makers.close()


def test_the_formats_of_prometheus(running: tuple[Service, httpx.Client]) -> None:
    _, client = running
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = client.get("/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    for family in openmetrics_families(answer.text):
        assert family.documentation
        assert family.name.startswith(("weft_", "process_"))
    (info,) = (f for f in openmetrics_families(answer.text) if f.name == "weft_info")
    assert info.samples[0].labels == {
        "version": weft.__version__, "fabric": FABRIC, "hosts": "16"
    }  # fmt: skip


def test_only_the_administrator_reads_them(tmp_path: Path) -> None:
    tokens = {"": hashed("admin"), "even": hashed("other")}
    with served(tmp_path, tokens) as (_, client):
        for token, status in ((None, 401), ("other", 403), ("admin", 200)):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            assert client.get("/metrics", headers=headers).status_code == status
        assert client.get("/").status_code == 200
