"""Contention graphs as small text files.

Each line has one communication, or a setting for all communications::

    # Figure 3 of the paper
    inverse-bandwidth 5.105e-10     # seconds per byte; or: bandwidth 1.82GiB/s
    size 20MiB                      # of edges without a size
    start 0s                        # of edges without a start; default 0
    a: 0 -> 1
    b: 0 -> 2  4MiB
    c: node-7 -> 2  1000  start 1.5ms

The name before the colon is optional. Names of edges and nodes are any text without white space,
``:``, ``#``, ``,`` and ``->``. A size is in bytes or has a unit (``64KiB``, ``1MB``), a start is in
seconds or has a unit (``10us``).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

from weft.core.errors import InputError
from weft.core.files import read_text, write_text
from weft.core.units import MAX_BYTES, parse_bytes, parse_duration_ns, rate_code, rate_gbps

_NAME = r"(?:(?!->)[^\s:#,])+"
_WORD = re.compile(_NAME)
_EDGE = re.compile(rf"\s*+(?:({_NAME})\s*:)?\s*+({_NAME})\s*->\s*({_NAME})(?=\s|$)")
#: Arrows of other programs; if they were read as ``->``, the rest would be part of a node's name.
_OTHER_ARROW = re.compile(r"[-<=~]->|->[>-]")
_TOKEN = re.compile(r"\S+")
_BANDWIDTH = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*([kKMGT]?i?)([bB])(?:/s|ps)")
_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGT", 1)
}
_SETTINGS = ("bandwidth", "inverse-bandwidth", "size", "start")


@dataclass(frozen=True)
class ContentionGraph:
    """A dynamic contention graph with names."""

    #: Names of the edges, unique.
    names: tuple[str, ...]
    #: Names of the source and destination node of each edge.
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    #: Bytes that each edge sends.
    size_bytes: tuple[int, ...]
    #: Start time of each edge in seconds.
    start_s: tuple[float, ...]
    #: Inverse bandwidth of the network; None if it is not in the file.
    inverse_bandwidth_s_per_byte: float | None = None

    def __post_init__(self) -> None:
        columns = (self.names, self.sources, self.destinations, self.size_bytes, self.start_s)
        if len({len(column) for column in columns}) != 1:
            raise InputError("names, nodes, sizes and starts must have one entry per edge")
        for name in (*self.names, *self.sources, *self.destinations):
            if not _WORD.fullmatch(name):
                raise InputError(f"{name!r} cannot be a name in a contention graph")
        seen: set[str] = set()
        for name, source, destination, size, start in zip(*columns, strict=True):
            if name in seen:
                raise InputError(f"two edges have the name {name}")
            seen.add(name)
            if source == destination:
                raise InputError(f"edge {name} is a loop at node {source}")
            if not 0 <= size <= MAX_BYTES or size != int(size):
                raise InputError(f"edge {name}: size {size} bytes; expected an integer, 0 to 2^56")
            if not 0 <= start < math.inf:
                raise InputError(f"edge {name}: start {start} s; expected 0 or more")
        inverse = self.inverse_bandwidth_s_per_byte
        if inverse is not None and not 0 < inverse < math.inf:
            raise InputError(f"inverse bandwidth {inverse} s/byte; expected a number above 0")

    def nodes(self) -> tuple[list[int], list[int]]:
        """Return sources and destinations as numbers in the order of first occurrence."""
        number: dict[str, int] = {}
        ends = [
            [number.setdefault(name, len(number)) for name in pair]
            for pair in zip(self.sources, self.destinations, strict=True)
        ]
        return [source for source, _ in ends], [destination for _, destination in ends]


def parse_bandwidth(text: str) -> float:
    """Return the bytes per second of text such as ``1.82GiB/s``, ``100Gb/s`` or ``4xHDR``.

    A lower-case b means bits; InfiniBand rates are data rates.
    """
    match = _BANDWIDTH.fullmatch(text.strip())
    if match and match[2] in _PREFIX:
        value = float(match[1]) * _PREFIX[match[2]] / (8 if match[3] == "b" else 1)
        if 0 < value < math.inf:
            return value
        raise InputError(f"bandwidth {text}; expected a number above 0")
    try:
        return rate_gbps(rate_code(text)) * 1e9 / 8
    except InputError:
        raise InputError(
            f"{text!r} is not a bandwidth such as 1.82GiB/s, 12.5GB/s, 100Gb/s or 4xHDR"
        ) from None


def read_contention_graph(path: str | Path) -> ContentionGraph:
    """Read a contention graph from a file in the format of this module."""
    return parse_contention_graph(read_text(path), str(path))


def parse_contention_graph(text: str, file: str | None = None) -> ContentionGraph:
    """Parse a contention graph."""
    reader = _GraphFileReader(file)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.line(number, line.partition("#")[0])
    return reader.finish()


def format_contention_graph(graph: ContentionGraph) -> str:
    """Return a contention graph as text, which `parse_contention_graph` reads back."""
    lines = []
    if graph.inverse_bandwidth_s_per_byte is not None:
        lines.append(f"inverse-bandwidth {graph.inverse_bandwidth_s_per_byte!r}")
    for name, source, destination, size, start in zip(
        graph.names, graph.sources, graph.destinations, graph.size_bytes, graph.start_s, strict=True
    ):
        lines.append(f"{name}: {source} -> {destination}  {_size_text(size)}  start {start!r}s")
    return "".join(f"{line}\n" for line in lines)


def write_contention_graph(graph: ContentionGraph, path: str | Path) -> None:
    """Write a contention graph to a file."""
    write_text(path, format_contention_graph(graph))


def _size_text(size: int) -> str:
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _letters() -> Iterator[str]:
    """Yield names for unnamed edges: a to z, aa to zz, and so on."""
    for length in itertools.count(1):
        for letters in itertools.product(ascii_lowercase, repeat=length):
            yield "".join(letters)


class _GraphFileReader:
    """Reader of a contention graph, line by line."""

    def __init__(self, file: str | None):
        self.file = file
        self.settings: dict[str, float] = {}
        #: Name or None, source, destination, size or None, start or None, line, column.
        self.edges: list[tuple[str | None, str, str, int | None, float | None, int, int]] = []
        self.named: dict[str, int] = {}

    def fail(self, message: str, number: int, column: int) -> InputError:
        return InputError(f"column {column}: {message}", file=self.file, line=number)

    def line(self, number: int, text: str) -> None:
        if not text.strip():
            return
        words = list(_TOKEN.finditer(text))
        if "->" in text or ":" in text:
            self.edge(number, text)
        elif words[0][0] in _SETTINGS:
            self.setting(number, text, words)
        else:
            raise self.fail(
                f"expected an edge such as 'a: 0 -> 1  20MiB', or one of {', '.join(_SETTINGS)}; "
                f"found {words[0][0][:40]!r}",
                number,
                words[0].start() + 1,
            )

    def setting(self, number: int, text: str, words: list[re.Match[str]]) -> None:
        name = words[0][0]
        if len(words) < 2:
            raise self.fail(f"a value is missing after {name}", number, len(text.rstrip()) + 1)
        key = "inverse-bandwidth" if name == "bandwidth" else name
        if key in self.settings:
            raise self.fail(f"{key} is given twice", number, words[0].start() + 1)
        value, column = text[words[1].start() :].strip(), words[1].start() + 1
        if name == "bandwidth":
            try:
                self.settings[key] = 1 / parse_bandwidth(value)
            except InputError as error:
                raise self.fail(error.message, number, column) from None
        elif name == "inverse-bandwidth":
            self.settings[key] = self.inverse(value, number, column)
        elif name == "size":
            self.settings[key] = self.size(value, number, column)
        else:
            self.settings[key] = self.start(value, number, column)

    def inverse(self, value: str, number: int, column: int) -> float:
        try:
            number_value = float(value)
        except ValueError:
            number_value = math.nan
        if not 0 < number_value < math.inf:
            raise self.fail(
                f"expected a positive number of seconds per byte, found {value[:40]!r}",
                number,
                column,
            )
        return number_value

    def size(self, value: str, number: int, column: int) -> int:
        try:
            return parse_bytes(value)
        except ValueError as error:
            raise self.fail(str(error), number, column) from None

    def start(self, value: str, number: int, column: int) -> float:
        plain = value[:-1].rstrip() if value.endswith("s") else value
        try:
            seconds = float(plain)
        except ValueError:
            try:
                seconds = parse_duration_ns(value) / 1e9
            except ValueError:
                seconds = math.nan
        if not 0 <= seconds < math.inf:
            raise self.fail(
                f"{value[:40]!r} is not a start; expected seconds, or a unit as in 10us",
                number,
                column,
            )
        return seconds

    def edge(self, number: int, text: str) -> None:
        other_arrow = _OTHER_ARROW.search(text)
        if other_arrow:
            raise self.fail(
                f"expected '->' between source and destination, found {other_arrow[0]!r}",
                number,
                other_arrow.start() + 1,
            )
        match = _EDGE.match(text)
        if not match:
            at = text.find("->")
            column = (at if at >= 0 else text.find(":")) + 1
            raise self.fail(
                "expected 'name: source -> destination', with names without white space, "
                "':', ',' and '->'",
                number,
                column,
            )
        name, source, destination = match[1], match[2], match[3]
        if source == destination:
            raise self.fail(f"the edge is a loop at node {source}", number, match.start(3) + 1)
        if name is not None:
            if name in self.named:
                raise self.fail(
                    f"the name {name} is already in line {self.named[name]}",
                    number,
                    match.start(1) + 1,
                )
            self.named[name] = number
        size: int | None = None
        start: float | None = None
        words = list(_TOKEN.finditer(text, match.end()))
        if words and words[0][0] != "start":
            # A size may be separated from its unit: "20 MiB".
            words_of_size = 2 if len(words) > 1 and words[1][0] != "start" else 1
            size = self.size(
                " ".join(word[0] for word in words[:words_of_size]), number, words[0].start() + 1
            )
            del words[:words_of_size]
        if words:
            if words[0][0] != "start":
                raise self.fail(
                    f"expected 'start' or the end of the line, found {words[0][0][:40]!r}",
                    number,
                    words[0].start() + 1,
                )
            if len(words) < 2:
                raise self.fail("a time is missing after start", number, len(text.rstrip()) + 1)
            start = self.start(
                " ".join(word[0] for word in words[1:]), number, words[1].start() + 1
            )
        column = len(text.rstrip()) + 1
        self.edges.append((name, source, destination, size, start, number, column))

    def finish(self) -> ContentionGraph:
        if not self.edges:
            raise InputError(
                "the file has no edge; expected lines such as 'a: 0 -> 1  20MiB'", file=self.file
            )
        sizes: list[int] = []
        for _, source, destination, size, _, number, column in self.edges:
            if size is not None:
                sizes.append(size)
            else:
                if "size" not in self.settings:
                    raise self.fail(
                        f"a size is missing after {source} -> {destination}; there is no line "
                        "'size ...' for all edges",
                        number,
                        column,
                    )
                sizes.append(int(self.settings["size"]))
        free = (name for name in _letters() if name not in self.named)
        default_start = self.settings.get("start", 0.0)
        return ContentionGraph(
            tuple(edge[0] if edge[0] is not None else next(free) for edge in self.edges),
            tuple(edge[1] for edge in self.edges),
            tuple(edge[2] for edge in self.edges),
            tuple(sizes),
            tuple(default_start if edge[4] is None else edge[4] for edge in self.edges),
            self.settings.get("inverse-bandwidth"),
        )
