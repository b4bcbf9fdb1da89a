"""Prometheus text of exporters: infiniband_exporter, infiniband-exporter and node_exporter.

Their metrics have names such as ``infiniband_switch_port_transmit_data_bytes_total`` (labels guid
and port), ``infiniband_portxmitdata_total`` (local_guid and local_port) and
``node_infiniband_port_data_transmitted_bytes_total`` (device and port of the machine that runs it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from weft.counters.counters import column_of
from weft.counters.formats.record import FileReader, PortReading
from weft.fabrics.formats.format_registry import warn
from weft.fabrics.formats.records import shown

PATTERN = r"(?:node_)?infiniband_\w+\{"
_SAMPLE = re.compile(
    r"([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*=\"(?:[^\"\\]|\\.)*\",?\s*)*)\})?\s+(\S+)"
    r"(?:\s+(-?\d{1,19}))?",
    re.ASCII,
)
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")
_PORT = re.compile(r"\d{1,3}", re.ASCII)
_LABEL = re.compile(r"(\w+)=\"((?:[^\"\\]|\\.)*)\"")
#: Words of metrics that differ from those of the counters.
_WORDS = {"transmit": "xmit", "receive": "rcv", "packets": "pkts"}
_FABRIC = re.compile(r"infiniband_(?:switch|hca)_port_(\w+)_total")
_BY_NAME = re.compile(r"infiniband_(\w+)_total")
_MACHINE = re.compile(r"node_infiniband_(\w+)_total")
#: Counters by metric where the words do not tell.
_SPECIAL = {
    "symbol_error": "symbol_error_counter", "link_downed": "link_downed_counter",
    "link_error_recovery": "link_error_recovery_counter",
    "transmit_data_bytes": "port_xmit_data", "receive_data_bytes": "port_rcv_data",
    "port_data_transmitted_bytes": "port_xmit_data", "port_data_received_bytes": "port_rcv_data",
    "port_packets_transmitted": "port_xmit_pkts", "port_packets_received": "port_rcv_pkts",
    "unicast_packets_transmitted": "port_unicast_xmit_pkts",
    "unicast_packets_received": "port_unicast_rcv_pkts",
    "multicast_packets_transmitted": "port_multicast_xmit_pkts",
    "multicast_packets_received": "port_multicast_rcv_pkts",
    "port_transmit_wait": "port_xmit_wait", "port_errors_received": "port_rcv_errors",
    "port_discards_transmitted": "port_xmit_discards",
    "port_constraint_errors_transmitted": "port_xmit_constraint_errors",
    "port_constraint_errors_received": "port_rcv_constraint_errors",
    "port_receive_remote_physical_errors": "port_rcv_remote_physical_errors",
    "port_receive_switch_relay_errors": "port_rcv_switch_relay_errors",
}  # fmt: skip
#: Version of infiniband_exporter from which its bytes are bytes and not words of 4.
_IN_BYTES = (0, 10)


class _Sample(NamedTuple):
    line: int
    name: str
    labels: dict[str, str]
    value: str
    time_ms: int | None


def read(text: str, file: str) -> list[PortReading]:
    """Return the ports of a file.

    Raises
    ------
    InputError
        If a line is not Prometheus text, or a sample occurs twice.
    """
    return _Prometheus(file).read(text)


class _Prometheus(FileReader):
    """The samples so far, by port and time."""

    def read(self, text: str) -> list[PortReading]:
        samples = []
        lines = text.split("\n")
        for number, line in enumerate(map(str.strip, lines), 1):
            if not line or line.startswith("#"):
                continue
            match = _SAMPLE.fullmatch(line)
            if not match:
                self.fail(f"expected a sample of Prometheus, found {shown(line)}", number)
            if number == len(lines):
                self.leave_out(line, "line", "without an end, left out", "half a reading")
            elif "infiniband" in match[1] or match[1] == "node_uname_info":
                labels = dict(_LABEL.findall(match[2] or ""))
                time_ms = int(match[4]) if match[4] else None
                samples.append(_Sample(number, match[1], labels, match[3], time_ms))
        hosts = {each.labels.get("nodename", "") for each in samples if "uname" in each.name}
        host, factor = hosts.pop() if len(hosts) == 1 else "", self._data_bytes(samples)
        found: dict[tuple[object, ...], PortReading] = {}
        for sample in samples:
            self._sample(found, sample, host, factor)
        for port in sorted(found.values(), key=lambda each: each.time_ns or 0):
            self.add(port)
        return self.done()

    def _data_bytes(self, samples: Iterable[_Sample]) -> int:
        """Return what infiniband_exporter's metrics of data count: 1 or 4 bytes."""
        for each in samples:
            if each.name == "infiniband_exporter_build_info":
                version = re.match(r"v?(\d{1,4})\.(\d{1,4})", each.labels.get("version", ""))
                if version:
                    return 1 if (int(version[1]), int(version[2])) >= _IN_BYTES else 4
        if any(_FABRIC.fullmatch(each.name) and "_bytes" in each.name for each in samples):
            text = "does not tell its version (infiniband_exporter_build_info): its bytes are "
            text += "taken for bytes; before version 0.10 they are a fourth of it"
            warn(self.file, text, kind="assumed unit", severity="warning")
        return 1

    def _sample(
        self, found: dict[tuple[object, ...], PortReading], sample: _Sample, host: str, factor: int
    ) -> None:
        """Add a sample to its port, if it is that of a counter."""
        metric, labels = _metric(sample.name), sample.labels
        if metric is None or metric.label not in labels:
            return
        if not metric.column:
            self.leave_out(metric.words, "metric", "of counters that weft does not use")
            return
        port = labels.get("local_port" if metric.label == "local_guid" else "port", "")
        guid, device = labels[metric.label], ""
        if metric.label == "device":
            guid, device = "", guid
            host = labels.get("instance", host).partition(":")[0] or Path(self.file).stem
        value, column = _whole(sample.value), metric.column
        if not _PORT.fullmatch(port) or not (_GUID.fullmatch(guid) or device):
            self.fail(f"{sample.name} has no label of its node or port", sample.line)
        if value is None:
            self.fail(f"{sample.name} is {shown(sample.value)}; expected a count", sample.line)
        if metric.words.endswith("_bytes"):
            value = value * (factor if metric.label == "guid" else 1) // 4
        key = guid, host, device, port, sample.time_ms
        if key not in found:
            found[key] = PortReading(
                sample.line, int(port), int(guid or "0", 16), host="" if guid else host,
                device=device,
                time_ns=None if sample.time_ms is None else sample.time_ms * 10**6,
            )  # fmt: skip
        if column in found[key].values:
            self.fail(f"{sample.name} of {found[key].name} occurs twice", sample.line)
        self.put(found[key], column, value, sample.line)


class _Metric(NamedTuple):
    """Label that names the node, column of the counter (empty: none), and words of the name."""

    label: str
    column: str
    words: str


@lru_cache(maxsize=1000)
def _metric(name: str) -> _Metric | None:
    """Return what a metric is; None if it is none of a port."""
    for form, label in ((_FABRIC, "guid"), (_MACHINE, "device"), (_BY_NAME, "local_guid")):
        if match := form.fullmatch(name):
            return _Metric(label, _column(match[1]), match[1])
    return None


def _column(words: str) -> str:
    """Return the column of a metric; empty if it is that of no counter."""
    if words in _SPECIAL:
        return _SPECIAL[words]
    name = "_".join(_WORDS.get(word, word) for word in words.split("_"))
    return column_of(name) or column_of(f"port_{name}")


def _whole(text: str) -> int | None:
    """Return a count; None if the text is none."""
    if text.isascii() and text.isdecimal():
        value = int(text) if len(text) <= 20 else -1
    else:
        try:
            number = float(text)
        except ValueError:
            return None
        value = int(number) if number.is_integer() else -1
    return value if 0 <= value < 1 << 64 else None
