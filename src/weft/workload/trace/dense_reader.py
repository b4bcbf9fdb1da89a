"""Fast reader of dense traces, equivalent to the full reader for the output of `dense_text`.

Traces of real programs have millions of lines. Dense traces have no expressions and no variables,
so one regular expression parses each line into columns. A text in any other form, or with an
error, is left to the reader of the full language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.workload.builder import WorkloadBuilder
from weft.workload.program_order import NONE
from weft.workload.trace.scopes import Ints
from weft.workload.workload import Kind

_TEXT = re.compile(r'(NAME|PHASE) "([^"]*)"')
_COMMUNICATOR = re.compile(r'COMMUNICATOR (\d+) "([^"]*)"')
_RANKS = re.compile(r"RANKS (\d+)")
_BLOCK = re.compile(r"(\d+)(?:\.\.(\d+))?:")
_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_STATEMENT = re.compile(
    rf"(?:(?P<calc>CALC) {_NUMBER}(?: CPU (?P<cpu>\d+))?"
    rf"|(?P<verb>I?SEND|I?RECV|PUT) (?P<size>\d+) (?P<direction>TO|FROM) (?P<peer>\d+)"
    rf"(?: TAG (?P<tag>-?\d+))?(?: COMM (?P<comm>\d+))?(?: RELEASE (?P<release>{_NUMBER[1:-1]}))?"
    r"(?: AS (?P<request>r\d+))?"
    r"|SENDRECV (?P<sent>\d+) TO (?P<to>\d+)(?:, (?P<received>\d+))? FROM (?P<source>\d+)"
    r"(?: TAG (?P<pair_tag>-?\d+))?(?: COMM (?P<pair_comm>\d+))?"
    r"|WAIT (?P<waits>r\d+(?:, r\d+)*)|(?P<all>WAITALL)|PHASE \"(?P<phase>[^\"]*)\""
    r"|(?P<key>RODREQUEST|RODDONE) KEY (?P<number>-?\d+)"
    r"(?: TAG (?P<key_tag>-?\d+))?(?: COMM (?P<key_comm>\d+))?)"
    r"(?: AFTER (?P<after>.+))?",
    re.ASCII,
)
_DEPENDENCY = re.compile(r"(-?\d+)( START)?", re.ASCII)
_KINDS = {"SEND": Kind.SEND, "RECV": Kind.RECV, "PUT": Kind.PUT}
#: Largest number of digits that int64 always holds.
_DIGITS = 18


class _NotPlainError(Exception):
    """The text is not in the form that `dense_text` writes, or has an error."""


@dataclass(frozen=True)
class Dense:
    """The content of a dense trace."""

    #: Builder that holds all operations.
    builder: WorkloadBuilder
    #: int64 [ops]: number of the text's line with each operation, by handle.
    lines: Ints


def read_dense(text: str, ranks: int | None, max_operations: int) -> Dense | None:
    """Read a text in the form that `dense_text` writes; return None for any other text.

    `text`: the contents of a trace file. `ranks`: number of ranks that the text must have; None for
    any number.
    """
    try:
        return _DenseReader(text, ranks, max_operations).read()
    except (_NotPlainError, InputError):
        return None


@dataclass
class _Block:
    """The program of consecutive ranks as columns; operations are numbered from 0."""

    first: int
    last: int
    phase: int
    kind: list[int] = field(default_factory=list)
    peer: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    tag: list[int] = field(default_factory=list)
    comm: list[int] = field(default_factory=list)
    duration: list[float] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    release: list[float] = field(default_factory=list)
    phases: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    edges: list[tuple[int, int, bool]] = field(default_factory=list)
    frontier: tuple[int, ...] = ()
    open: dict[int, None] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)

    def add(self, kind: int, line: int, row: tuple[Any, ...]) -> int:
        """Append an operation; `row` is its peer, size, tag, comm, duration, cpu and release."""
        op = len(self.kind)
        self.kind.append(kind)
        self.line.append(line)
        self.phases.append(self.phase)
        peer, size, tag, comm, duration, cpu, release = row
        self.peer.append(peer)
        self.size.append(size)
        self.tag.append(tag)
        self.comm.append(comm)
        self.duration.append(duration)
        self.cpu.append(cpu)
        self.release.append(release)
        return op

    def follow(self, op: int) -> None:
        """Make an operation wait for the previous ones in program order."""
        for before in self.frontier:
            self.edges.append((op, before, False))

    def join(self, line: int, handles: list[int]) -> None:
        """Add an empty calculation that waits for `handles` and the previous operations."""
        op = self.add(Kind.CALC, line, (NONE, 0, 0, 0, 0.0, 0, 0.0))
        self.follow(op)
        self.edges.extend((op, handle, False) for handle in handles)
        self.frontier = (op,)


class _DenseReader:
    def __init__(self, text: str, ranks: int | None, max_operations: int):
        self._lines = text.split("\n")
        self._ranks = ranks
        self._max_operations = max_operations
        self._name: str | None = None
        self._phases = {"": 0}
        self._comms: list[str] = []
        self._phase = 0
        self._parsed: dict[str, re.Match[str]] = {}
        self._named: set[str] = set()
        self._waited: set[str] = set()

    def read(self) -> Dense:
        count: int | None = None
        blocks: list[_Block] = []
        block: _Block | None = None
        for number, raw in enumerate(self._lines, start=1):
            line = raw.strip()
            if not line or line[0] == "#":
                continue
            if block is not None:
                if line == "END":
                    block = None
                else:
                    self._statement(block, line, number)
                continue
            if match := _BLOCK.fullmatch(line):
                block = _Block(_int(match[1]), _int(match[2] or match[1]), self._phase)
                blocks.append(block)
            elif blocks:
                raise _NotPlainError
            elif match := _TEXT.fullmatch(line):
                if match[1] == "PHASE":
                    self._phase = self._enter(match[2])
                elif self._name is None:
                    self._name = match[2]
                else:
                    raise _NotPlainError
            elif (match := _RANKS.fullmatch(line)) and count is None:
                count = _int(match[1])
            elif (match := _COMMUNICATOR.fullmatch(line)) and _int(match[1]) == len(
                self._comms
            ) + 1:
                self._comms.append(match[2])
            else:
                raise _NotPlainError
        if block is not None or count is None or self._ranks not in (None, count):
            raise _NotPlainError
        if self._waited - self._named - {""}:
            raise _NotPlainError
        return self._built(count, blocks)

    def _enter(self, name: str) -> int:
        return self._phases.setdefault(name, len(self._phases))

    def _statement(self, block: _Block, line: str, number: int) -> None:
        match = self._parsed.get(line)
        if match is None:
            parsed = _STATEMENT.fullmatch(line)
            if parsed is None:
                raise _NotPlainError
            match = self._parsed[line] = parsed
            self._named.add(parsed["request"])
            self._waited.update((parsed["waits"] or "").split(", "))
        if match["phase"] is not None:
            block.phase = self._enter(match["phase"])
        elif match["all"]:
            if block.open:
                block.join(number, list(block.open))
                block.open.clear()
            block.requests.clear()
        elif match["waits"]:
            self._wait(block, match["waits"].split(", "), number)
        elif match["sent"]:
            self._pair(block, match, number)
        else:
            self._operation(block, match, number)

    def _operation(self, block: _Block, match: re.Match[str], line: int) -> None:
        if match["calc"]:
            cpu = _int(match["cpu"] or "0")
            verb, kind = "CALC", int(Kind.CALC)
            row: tuple[Any, ...] = (NONE, 0, 0, 0, float(match[2]), cpu, 0.0)
        elif match["key"]:
            verb = match["key"]
            kind = int(Kind.KEY_REQUEST if verb == "RODREQUEST" else Kind.KEY_DONE)
            tag, comm = _int(match["key_tag"] or "0"), _int(match["key_comm"] or "0")
            row = (NONE, tag, _int(match["number"]), comm, 0.0, 0, 0.0)
        else:
            verb = match["verb"]
            kind = int(_KINDS[verb.removeprefix("I")])
            if (match["direction"] == "FROM") != (kind == Kind.RECV):
                raise _NotPlainError
            if (verb == "PUT" and match["comm"]) or (verb != "PUT" and match["release"]):
                raise _NotPlainError
            if match["request"] and verb in ("SEND", "RECV"):
                raise _NotPlainError
            row = (
                _int(match["peer"]), _int(match["size"]), _int(match["tag"] or "0"),
                _int(match["comm"] or "0"), 0.0, 0, float(match["release"] or 0),
            )  # fmt: skip
        op = block.add(kind, line, row)
        if match["after"]:
            self._after(block, op, match["after"])
        else:
            block.follow(op)
            if verb in ("PUT", "ISEND", "IRECV"):
                block.open[op] = None
            else:
                block.frontier = (op,)
        if match["request"]:
            block.requests[match["request"]] = op

    def _after(self, block: _Block, op: int, text: str) -> None:
        if text == "NOTHING":
            return
        for part in text.split(", "):
            match = _DEPENDENCY.fullmatch(part)
            if match is None:
                raise _NotPlainError
            block.edges.append((op, op - _int(match[1]), match[2] is not None))

    def _pair(self, block: _Block, match: re.Match[str], line: int) -> None:
        if match["after"]:
            raise _NotPlainError
        sent = _int(match["sent"])
        tag, comm = _int(match["pair_tag"] or "0"), _int(match["pair_comm"] or "0")
        received = sent if match["received"] is None else _int(match["received"])
        source, to = _int(match["source"]), _int(match["to"])
        receive = block.add(Kind.RECV, line, (source, received, tag, comm, 0.0, 0, 0.0))
        block.follow(receive)
        send = block.add(Kind.SEND, line, (to, sent, tag, comm, 0.0, 0, 0.0))
        block.follow(send)
        block.frontier = (receive, send)

    def _wait(self, block: _Block, names: list[str], line: int) -> None:
        handles = [block.requests.pop(name, NONE) for name in names]
        known = [handle for handle in handles if handle != NONE]
        for handle in known:
            block.open.pop(handle, None)
        if len(handles) == 1 and len(block.frontier) < 2:
            block.frontier += tuple(known)
        elif known:
            block.join(line, known)

    def _built(self, num_ranks: int, blocks: list[_Block]) -> Dense:
        builder = WorkloadBuilder(num_ranks, name="trace" if self._name is None else self._name)
        everyone = np.arange(num_ranks)
        for name in self._comms:
            builder.communicator(everyone, name)
        for name in self._phases:
            builder.phase(name)
        seen = np.zeros(num_ranks, dtype=np.bool_)
        lines: list[Ints] = []
        for block in blocks:
            if (
                not block.first <= block.last < num_ranks
                or seen[block.first : block.last + 1].any()
            ):
                raise _NotPlainError
            seen[block.first : block.last + 1] = True
            ranks, ops = block.last - block.first + 1, len(block.kind)
            if builder.num_ops + ranks * ops > self._max_operations:
                raise _NotPlainError
            start = builder.num_ops

            def tiled(values: Any, ranks: int = ranks) -> Any:
                return np.tile(np.asarray(values), ranks)

            builder.operations(
                np.repeat(np.arange(block.first, block.last + 1), ops),
                tiled(block.kind),
                peer=tiled(block.peer), size_bytes=tiled(block.size), tag=tiled(block.tag),
                comm=tiled(block.comm), duration_ns=tiled(block.duration), cpu=tiled(block.cpu),
                phase=tiled(block.phases), release_ns=tiled(block.release),
            )  # fmt: skip
            if block.edges:
                op, on, waits = (np.array(column) for column in zip(*block.edges, strict=True))
                if np.any((on < 0) | (on >= ops) | (on == op)):
                    raise _NotPlainError
                shift = start + np.repeat(np.arange(ranks) * ops, len(op))
                builder.requires(tiled(op) + shift, tiled(on) + shift, start=tiled(waits))
            lines.append(tiled(block.line))
        return Dense(builder, np.concatenate(lines) if lines else np.zeros(0, dtype=np.int64))


def _int(text: str) -> int:
    if len(text) > _DIGITS:
        raise _NotPlainError
    return int(text)
