"""Contention graphs as small text files.

One communication a line, then what holds for all::

    # Figure 3 of the paper
    inverse-bandwidth 5.105e-10     # seconds per byte; or: bandwidth 1.82GiB/s
    size 20MiB                      # of edges that give none
    start 0s                        # likewise; 0 when this line is left out
    a: 0 -> 1
    b: 0 -> 2  4MiB
    c: node-7 -> 2  1000  start 1.5ms

The name before the colon may be left out. Names of edges and nodes are any text without white
space, ``:``, ``#``, ``,`` and ``->``. A size is in bytes or has a unit (``64KiB``, ``1MB``), a
start in seconds or with one (``10us``).
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
_EDGE = re.compile(rf"\s*(?:({_NAME})\s*:)?\s*({_NAME})\s*->\s*({_NAME})(?=\s|$)")
#: Arrows that other programs draw; read as ``->`` they would leave a part to a node's name.
_OTHER_ARROW = re.compile(r"[-<=~]->|->[>-]")
_TOKEN = re.compile(r"\S+")
_BANDWIDTH = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*([kKMGT]?i?)([bB])(?:/s|ps)")
_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGT", 1)
}
_SETTINGS = ("bandwidth", "inverse-bandwidth", "size", "start")


@dataclass(frozen=True)
class ContentionGraph:
    """A dynamic contention graph with names.

    Parameters
    ----------
    names
        Of the edges, each once.
    sources, destinations
        Names of the nodes that each edge leads from and to.
    size_bytes
        What each edge sends.
    start_s
        When each edge starts.
    inverse_bandwidth_s_per_byte
        Of the network, None when the file does not say.

    Raises
    ------
    InputError
        When lengths differ, an edge has no size that can be, leads from a node to itself or
        bears another's name, or a name cannot be written.
    """

    names: tuple[str, ...]
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    size_bytes: tuple[int, ...]
    start_s: tuple[float, ...]
    inverse_bandwidth_s_per_byte: float | None = None

    def __post_init__(self) -> None:
        columns = (self.names, self.sources, self.destinations, self.size_bytes, self.start_s)
        if len({len(column) for column in columns}) != 1:
            raise InputError("names, nodes, sizes and starts must be as many as there are edges")
        for name in (*self.names, *self.sources, *self.destinations):
            if not _WORD.fullmatch(name):
                raise InputError(f"{name!r} cannot be a name in a contention graph")
        seen: set[str] = set()
        for name, source, destination, size, start in zip(*columns, strict=True):
            if name in seen:
                raise InputError(f"two edges bear the name {name}")
            seen.add(name)
            if source == destination:
                raise InputError(f"edge {name} leads from node {source} to itself")
            if not 0 <= size <= MAX_BYTES or size != int(size):
                raise InputError(f"edge {name}: a size of {size} bytes is not possible")
            if not 0 <= start < math.inf:
                raise InputError(f"edge {name}: a start of {start} seconds is not possible")
        inverse = self.inverse_bandwidth_s_per_byte
        if inverse is not None and not 0 < inverse < math.inf:
            raise InputError(f"an inverse bandwidth of {inverse} s/byte is not possible")

    def nodes(self) -> tuple[list[int], list[int]]:
        """Sources and destinations as numbers, in the order in which the names first occur."""
        number: dict[str, int] = {}
        ends = [
            [number.setdefault(name, len(number)) for name in pair]
            for pair in zip(self.sources, self.destinations, strict=True)
        ]
        return [source for source, _ in ends], [destination for _, destination in ends]


def parse_bandwidth(text: str) -> float:
    """Bytes per second of text such as ``1.82GiB/s``, ``12.5GB/s``, ``100Gb/s`` or ``4xHDR``.

    A small b is bits; InfiniBand's rates are its data rates.

    Raises
    ------
    InputError
        When it is no bandwidth, or zero.
    """
    match = _BANDWIDTH.fullmatch(text.strip())
    if match and match[2] in _PREFIX:
        found = float(match[1]) * _PREFIX[match[2]] / (8 if match[3] == "b" else 1)
        if 0 < found < math.inf:
            return found
        raise InputError(f"a bandwidth of {text} is not possible")
    try:
        return rate_gbps(rate_code(text)) * 1e9 / 8
    except InputError:
        raise InputError(
            f"{text!r} is no bandwidth; expected such as 1.82GiB/s, 12.5GB/s, 100Gb/s or 4xHDR"
        ) from None


def read_contention_graph(path: str | Path) -> ContentionGraph:
    """Read a contention graph; see this module for what the file looks like.

    Raises
    ------
    InputError
        With file, line and column, when the file cannot be read or used.
    """
    return parse_contention_graph(read_text(path), str(path))


def parse_contention_graph(text: str, file: str | None = None) -> ContentionGraph:
    """The contention graph that a text states.

    Raises
    ------
    InputError
        With line and column.
    """
    reader = _GraphFileReader(file)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.line(number, line.partition("#")[0])
    return reader.finish()


def format_contention_graph(graph: ContentionGraph) -> str:
    """A contention graph as text, from which `parse_contention_graph` gives the same back."""
    lines = []
    if graph.inverse_bandwidth_s_per_byte is not None:
        lines.append(f"inverse-bandwidth {graph.inverse_bandwidth_s_per_byte!r}")
    for name, source, destination, size, start in zip(
        graph.names, graph.sources, graph.destinations, graph.size_bytes, graph.start_s, strict=True
    ):
        lines.append(f"{name}: {source} -> {destination}  {_size_text(size)}  start {start!r}s")
    return "".join(f"{line}\n" for line in lines)


def write_contention_graph(graph: ContentionGraph, path: str | Path) -> None:
    """Write a contention graph to a file.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    write_text(path, format_contention_graph(graph))


def _size_text(size: int) -> str:
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _letters() -> Iterator[str]:
    """Names for edges that have none: a to z, aa to zz, and so on."""
    for length in itertools.count(1):
        for letters in itertools.product(ascii_lowercase, repeat=length):
            yield "".join(letters)


class _GraphFileReader:
    """Lines of a file, one after the other."""

    def __init__(self, file: str | None):
        self.file = file
        self.settings: dict[str, float] = {}
        #: name or None, source, destination, size or None, start or None; line and column.
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
            found = float(value)
        except ValueError:
            found = math.nan
        if not 0 < found < math.inf:
            raise self.fail(
                f"expected a positive number of seconds per byte, found {value[:40]!r}",
                number,
                column,
            )
        return found

    def size(self, value: str, number: int, column: int) -> int:
        try:
            return parse_bytes(value)
        except ValueError as error:
            raise self.fail(str(error), number, column) from None

    def start(self, value: str, number: int, column: int) -> float:
        plain = value[:-1].rstrip() if value.endswith("s") else value
        try:
            found = float(plain)
        except ValueError:
            try:
                found = parse_duration_ns(value) / 1e9
            except ValueError:
                found = math.nan
        if not 0 <= found < math.inf:
            raise self.fail(
                f"{value[:40]!r} is no start; expected seconds, or a unit as in 10us",
                number,
                column,
            )
        return found

    def edge(self, number: int, text: str) -> None:
        wrong = _OTHER_ARROW.search(text)
        if wrong:
            raise self.fail(
                f"expected '->' between source and destination, found {wrong[0]!r}",
                number,
                wrong.start() + 1,
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
            raise self.fail(f"edge leads from node {source} to itself", number, match.start(3) + 1)
        if name is not None:
            if name in self.named:
                raise self.fail(
                    f"the name {name} stands in line {self.named[name]} already",
                    number,
                    match.start(1) + 1,
                )
            self.named[name] = number
        size: int | None = None
        start: float | None = None
        words = list(_TOKEN.finditer(text, match.end()))
        if words and words[0][0] != "start":
            # A size may stand apart from its unit: "20 MiB".
            several = 2 if len(words) > 1 and words[1][0] != "start" else 1
            size = self.size(
                " ".join(word[0] for word in words[:several]), number, words[0].start() + 1
            )
            del words[:several]
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
                "has no edge; expected lines such as 'a: 0 -> 1  20MiB'", file=self.file
            )
        sizes: list[int] = []
        for _, source, destination, size, _, number, column in self.edges:
            if size is not None:
                sizes.append(size)
            else:
                if "size" not in self.settings:
                    raise self.fail(
                        f"a size is missing after {source} -> {destination}, and no line "
                        "'size ...' gives one for all",
                        number,
                        column,
                    )
                sizes.append(int(self.settings["size"]))
        free = (name for name in _letters() if name not in self.named)
        usual = self.settings.get("start", 0.0)
        return ContentionGraph(
            tuple(edge[0] if edge[0] is not None else next(free) for edge in self.edges),
            tuple(edge[1] for edge in self.edges),
            tuple(edge[2] for edge in self.edges),
            tuple(sizes),
            tuple(usual if edge[4] is None else edge[4] for edge in self.edges),
            self.settings.get("inverse-bandwidth"),
        )
