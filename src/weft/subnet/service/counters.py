"""What the service counts, in the form of Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

from weft.subnet.service.ledger import BASE, Decision, Event, Requested

_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600)
_COMMIT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
_LOAD_S = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
#: Reasons for which grants end.
_ENDS = ("done", "left", "expired", "withdrawn")


class ServiceCounters:
    """What the service counts; all since its start."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._grants = self._counter("weft_grants", "Granted keys.", "routes")
        self._ends = self._counter("weft_grants_ended", "Grants that ended.", "reason")
        self._contention = self._counter(
            "weft_grant_contention_flows",
            "Sum over grants: most flows on a link of the granted paths, and on one of their base "
            "routes if all keys took these.",
            "routes",
        )
        self._refusals = self._counter("weft_refusals", "Requests that were refused.", "code")
        self._events = self._counter("weft_events", "Events that were stored.")
        self._batches = self._counter("weft_batches", "Transactions of the store with events.")
        self.request_s = self._histogram(
            "weft_request_seconds",
            "Time from the request of a key to its grant, which is then on the disk.",
            _REQUEST_S,
        )
        self.commit_s = self._histogram(
            "weft_commit_seconds", "Time of a transaction of the store.", _COMMIT_S
        )
        self.load_s = self._histogram(
            "weft_table_load_seconds",
            "Time to load forwarding tables into the subnet manager and to compare them.",
            _LOAD_S,
        )
        self.failed_loads = self._counter(
            "weft_table_load_failures", "Forwarding tables that could not be loaded."
        )
        for routes in ("keys", "base"):
            self._grants.labels(routes)
            self._contention.labels(routes)
        for reason in _ENDS:
            self._ends.labels(reason)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)

    def stored(self, batch: Sequence[tuple[Event, Decision]]) -> None:
        """Count events that have been stored, and what they changed."""
        self._batches.inc()
        self._events.inc(len(batch))
        for event, answer in batch:
            if isinstance(event, Requested):
                base = answer.granted[0].alternative == BASE
                self._grants.labels("base" if base else "keys").inc()
            if answer.ended:
                self._ends.labels(answer.reason).inc(len(answer.ended))

    def contended(self, contention: int, base_contention: int) -> None:
        """Add the contention of a grant; see `Service.request`."""
        self._contention.labels("keys").inc(contention)
        self._contention.labels("base").inc(base_contention)

    def refused(self, code: str) -> None:
        """Count a request that was refused."""
        self._refusals.labels(code).inc()
