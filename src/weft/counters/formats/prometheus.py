"""Prometheus text of exporters: infiniband_exporter, infiniband-exporter and node_exporter.

Their metrics have names such as ``infiniband_switch_port_transmit_data_bytes_total`` (labels guid
and port), ``infiniband_portxmitdata_total`` (local_guid and local_port) and
``node_infiniband_port_data_transmitted_bytes_total`` (device and port of the machine that runs it).
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from weft.counters.counters import COUNTERS, column_of
from weft.counters.formats.counter_format_registry import FileReader, PortReading, counter_reader
from weft.counters.times import moment_of
from weft.fabrics.formats.diags import has_line
from weft.fabrics.formats.format_registry import warn
from weft.fabrics.formats.records import shown

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(\d\S*))?|#.*|", re.ASCII)
_LABELS = re.compile(r"(?:[a-zA-Z_]\w*=\"(?:[^\"\\]|\\.)*\"\s*(?:,\s*|$))*", re.ASCII)
_LABEL = re.compile(r"(\w+)=\"((?:[^\"\\]|\\.)*)\"")
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")
_PORT = re.compile(r"\d{1,3}", re.ASCII)
_VERSION = re.compile(r'^infiniband_exporter_build_info\{.*\bversion="v?(\d{1,4})\.(\d{1,4})', re.M)
_HOST = re.compile(r'^node_uname_info\{.*\bnodename="([^"]*)"', re.M)
_FABRIC = re.compile(r"infiniband_(?:switch|hca)_port_(\w+)_total")
_BY_NAME = re.compile(r"infiniband_(\w+)_total")
_MACHINE = re.compile(r"node_infiniband_(\w+)_total")
#: Words of metrics that differ from those of counters.
_WORDS = {
    "transmit": "xmit", "transmitted": "xmit", "receive": "rcv", "received": "rcv",
    "packets": "pkts",
}  # fmt: skip
#: Words that only some of the names have.
_FILLERS = {"port", "counter", "bytes"}
#: Counters by their words in any order: ``port_data_transmitted_bytes`` is ``port_xmit_data``.
_OF_WORDS = {frozenset(name.split("_")) - _FILLERS: name for name in COUNTERS}
#: Version of infiniband_exporter from which its bytes are bytes and not words of 4.
_IN_BYTES = (0, 10)


@counter_reader("prometheus", sniff=has_line(r"(?:node_)?infiniband_\w+\{"))
def read(text: str, file: str) -> list[PortReading]:
    """Prometheus text of infiniband_exporter, infiniband-exporter and node_exporter.

    Raises
    ------
    InputError
        If a line is not Prometheus text, or a sample occurs twice.
    """
    return _Prometheus(file).read(text)


class _Prometheus(FileReader):
    """The ports so far, by labels and time."""

    def read(self, text: str) -> list[PortReading]:
        hosts = {*_HOST.findall(text)}
        self.host = hosts.pop() if len(hosts) == 1 else Path(self.file).stem
        self.data_bytes = self._data_bytes(text)
        self.of_labels: dict[tuple[str, str, str | None], PortReading | None] = {}
        self.found: dict[tuple[object, ...], PortReading] = {}
        lines = text.split("\n")
        for number, line in enumerate(map(str.strip, lines), 1):
            match = _SAMPLE.fullmatch(line)
            if not match:
                self.fail(f"expected a sample of Prometheus, found {shown(line)}", number)
            if not match[1]:
                continue
            if number == len(lines):
                self.leave_out(line, "line", "without an end, left out", "half a reading")
            elif metric := _metric(match[1]):
                self._sample(metric, match, number)
        for port in sorted(self.found.values(), key=lambda each: each.time_ns or 0):
            self.add(port)
        return self.done()

    def _data_bytes(self, text: str) -> int:
        """Return what infiniband_exporter's metrics of data count: 1 or 4 bytes."""
        if version := _VERSION.search(text):
            return 1 if (int(version[1]), int(version[2])) >= _IN_BYTES else 4
        if re.search(r"^infiniband_(?:switch|hca)_port_\w+_bytes_total\{", text, re.M):
            what = "does not tell its version (infiniband_exporter_build_info): its bytes are "
            what += "taken for bytes; before version 0.10 they are a fourth of it"
            warn(self.file, what, kind="assumed unit", severity="warning")
        return 1

    def _sample(self, metric: _Metric, match: re.Match[str], line: int) -> None:
        """Add a sample to its port, if it is that of a counter."""
        name, labels, text, time = match.groups()
        key = metric.label, labels or "", time
        if key not in self.of_labels:
            self.of_labels[key] = self._port(*key, name, line)
        port = self.of_labels[key]
        if port is None:
            return
        if not metric.column:
            self.leave_out(metric.words, "metric", "of counters that weft does not use")
            return
        value = _whole(text)
        if value is None:
            self.fail(f"{name} is {shown(text)}; expected a count", line)
        if metric.words.endswith("_bytes"):
            value = value * (self.data_bytes if metric.label == "guid" else 1) // 4
        if metric.column in port.values:
            self.fail(f"{name} of {port.name} occurs twice", line)
        port.values[metric.column] = value

    def _port(
        self, label: str, text: str, time: str | None, name: str, line: int
    ) -> PortReading | None:
        """Return the port that labels name at a time, None if they have no label of a node."""
        if not _LABELS.fullmatch(text):
            self.fail(f"expected labels of Prometheus, found {shown(text)}", line)
        labels = dict(_LABEL.findall(text))
        if label not in labels:
            return None
        number = labels.get("local_port" if label == "local_guid" else "port", "")
        host, device, guid = "", "", labels[label]
        if label == "device":
            host, device, guid = labels.get("instance", self.host).partition(":")[0], guid, "0x0"
        if not _PORT.fullmatch(number) or not _GUID.fullmatch(guid):
            self.fail(f"{name} has no label of its node or port", line)
        moment = None if time is None else moment_of(time)
        if time is not None and moment is None:
            self.fail(f"the time of {name} is {time}; expected ms or s since 1970", line)
        port = PortReading(line, int(number), int(guid, 16), 0, host, device)
        port.time_ns = moment.ns if moment else None
        return self.found.setdefault((number, guid, host, device, port.time_ns), port)


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
            words = {_WORDS.get(word, word) for word in match[1].split("_")}
            column = _OF_WORDS.get(frozenset(words - _FILLERS)) or column_of(match[1])
            return _Metric(label, column, match[1])
    return None


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
