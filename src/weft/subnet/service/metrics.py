"""Metrics for Prometheus, at ``/metrics``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft import __version__
from weft.subnet.service.access import Access
from weft.subnet.service.counters import ServiceCounters
from weft.subnet.service.ledger import KeyState
from weft.subnet.service.service import Service

#: Kinds of problems of `Service.problems`.
_PROBLEMS = ("base routes", "clock", "store", "subnet")


class _State(Collector):
    """Metrics of the present state."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return no description, since only `collect` knows the values."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the metrics; see prometheus_client."""
        service = self._service
        ledger = service.ledger
        keys, base = service.contention
        states = Counter(
            phase.state
            for application in ledger.applications.values()
            for phase in application.phases.values()
        )
        yield _gauge(
            "weft_contention_flows",
            "Most flows of granted keys on a link between switches; the same on the base routes.",
            "routes", {"keys": keys, "base": base},
        )  # fmt: skip
        yield _gauge("weft_applications", "Applications.", "", {"": len(ledger.applications)})
        yield _gauge("weft_keys_in_use", "Keys that are granted now.", "", {"": len(ledger.grants)})
        yield _gauge(
            "weft_keys", "Keys of all applications.", "state",
            {state.value: states[state] for state in KeyState},
        )  # fmt: skip
        yield _gauge(
            "weft_missing_cables", "Cables of the fabric that the subnet manager does not see.",
            "", {"": len(service.subnet.missing)},
        )  # fmt: skip
        yield _gauge(
            "weft_problem", "Whether there is a problem, which /v1/health describes.", "kind",
            {kind: kind in service.problems for kind in (*_PROBLEMS, *service.problems)},
        )  # fmt: skip
        info = GaugeMetricFamily(
            "weft_info", "Version of weft, and the fabric.", labels=("version", "fabric", "hosts")
        )
        info.add_metric((__version__, service.fabric.name, str(service.fabric.num_hosts)), 1)
        yield info


def _gauge(name: str, text: str, label: str, values: dict[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,) if label else ())
    for value, number in values.items():
        family.add_metric((value,) if label else (), number)
    return family


class CountRefusals:
    """Counts all answers with a status of 400 or above by their code; the outermost middleware."""

    def __init__(self, app: ASGIApp, counters: ServiceCounters) -> None:
        self._app = app
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; see the ASGI specification."""
        refused = False

        async def counted(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                refused = message["status"] >= 400
            elif refused:
                # Such an answer is one message with a body of `models.Error`.
                self._counters.refused(json.loads(message["body"])["error"]["code"])
                refused = False
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:  # Starlette answers it outside of all middleware
            self._counters.refused("internal_error")
            raise


def add_metrics(app: FastAPI, service: Service, access: Access) -> None:
    """Serve the metrics of a service."""
    registry = service.counters.registry
    registry.register(_State(service))
    app.add_middleware(CountRefusals, counters=service.counters)

    @app.get("/metrics", include_in_schema=False, dependencies=[Depends(access.reader)])
    async def metrics(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        async with service.stored():
            text = encode(registry)
        return Response(text, headers={"Content-Type": kind})
