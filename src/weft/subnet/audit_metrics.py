"""Findings and predicted loads of an audit as text for Prometheus."""

from __future__ import annotations

from collections import Counter

import numpy as np

from weft.core.errors import InputError
from weft.core.severity import SEVERITIES
from weft.sim.static.loads import inner_links
from weft.subnet.audit import Audit


def metrics_text(audit: Audit) -> str:
    """Return the metrics of an audit in Prometheus' text format, for its textfile collector.

    Raises
    ------
    InputError
        If the package prometheus-client is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest
    except ImportError:
        raise InputError(
            "metrics need the package prometheus-client: pip install 'weft[serve]'"
        ) from None
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"weft_{name}", text, labels, registry=registry)

    fabric = audit.fabric
    gauge("adapters", "Adapters of the fabric that are judged.").set(fabric.num_hosts)
    gauge("machines", "Machines of the fabric that are judged.").set(len(fabric.machines))
    gauge("switches", "Switches of the fabric.").set(fabric.num_switches)
    gauge("cables", "Cables of the fabric.").set(fabric.num_cables)
    counts = Counter(finding.severity for finding in audit.findings)
    by_severity = gauge("audit_findings", "Findings of the audit.", "severity")
    for severity in SEVERITIES:
        by_severity.labels(severity).set(counts[severity])
    items = Counter[tuple[str, str]]()
    for finding in audit.findings:
        items[finding.kind, finding.severity] += len(audit.items(finding)) or 1
    by_kind = gauge(
        "audit_items", "Ports, switches, LIDs or pairs with a finding.", "kind", "severity"
    )
    for labels, count in items.items():
        by_kind.labels(*labels).set(count)
    gauge("audit_not_judged", "Points without evidence.").set(len(audit.unknown))
    if audit.loads is not None:
        flows = gauge(
            "link_load_flows",
            "Predicted load of a link between switches: flows of all host pairs, relative to its "
            "rate in units of the fastest host's.", "link",
        )  # fmt: skip
        for link in np.flatnonzero(inner_links(fabric)).tolist():
            flows.labels(fabric.link_name(link)).set(audit.loads[link])
    return str(generate_latest(registry), "utf-8")
