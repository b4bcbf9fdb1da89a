"""GOAL, the schedule language of LogGOPSim: reading and writing.

Hoefler, Siebert and Lumsdaine, "Group Operation Assembly Language: a flexible way to express
collective communication", ICPP 2009; the syntax is what LogGOPSim's ``txt2bin`` takes::

    num_ranks 2
    rank 0 {
      l1: calc 100 cpu 1
      l2: send 8b to 1 tag 3 cpu 0 nic 0
      l2 requires l1
    }
    rank 1 { recv 8b from 0 tag 3
    }

An operation stands on a line of its own. One that requires nothing starts at once; ``irequires``
waits for the start of the other. Calculations last nanoseconds. Tags have 32 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.units import MAX_BYTES
from weft.fabrics.formats.format_registry import printable
from weft.fabrics.formats.records import shown
from weft.workload.builder import WorkloadBuilder
from weft.workload.formats.workload_format_registry import (
    at_operation,
    workload_reader,
    workload_writer,
)
from weft.workload.workload import Kind, Workload

#: The number that means any tag, or any source, in 32 bits.
ANY = 2**32 - 1
#: Longest calculation that is exact as a number of nanoseconds, 104 days.
MAX_NS = 2**53

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# What was passed over is not tried again in another way: there are too many.
_START = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*+num_ranks\b", re.DOTALL)
_HEAD = re.compile(r"\s*num_ranks[ \t]+(\d{1,10})(?!\w)", re.ASCII)
_BLOCK = re.compile(r"\s*rank[ \t]+(\d{1,10})\s*\{([^{}]*)", re.ASCII)
_LABEL = r"[A-Za-z_]\w*"
_NUMBER = r"(\d{1,20})"
#: One line of a block. Groups: label, "s" of send, size, peer, tag, cpu, nic; duration, cpu;
#: label, "i" of irequires, label; anything else.
_ITEM = re.compile(
    rf"^[ \t]*(?:(?:({_LABEL})[ \t]*:[ \t]*)?"
    rf"(?:(?:(s)end|recv)[ \t]+{_NUMBER}[ \t]*b[ \t]+(?(2)to|from)[ \t]+{_NUMBER}"
    rf"(?:[ \t]+tag[ \t]+{_NUMBER})?(?:[ \t]+cpu[ \t]+{_NUMBER})?(?:[ \t]+nic[ \t]+{_NUMBER})?"
    rf"|calc[ \t]+{_NUMBER}(?:[ \t]+cpu[ \t]+{_NUMBER})?)"
    rf"|({_LABEL})[ \t]+(i)?requires[ \t]+({_LABEL})"
    r"|(\S[^\n]*))[ \t]*\r?$",
    re.ASCII | re.MULTILINE,
)
_SIZE, _DURATION, _WAITS, _OTHER = 3, 8, 10, 13
_TOKEN = re.compile(rf"{_LABEL}|-?\d+|\S", re.ASCII)
#: Characters that are parsed at a time, so that the parts of a large block need little memory.
_PIECE = 2**22


@dataclass
class _Block:
    """The text of one rank's block, and the position in the file at which it begins."""

    rank: int
    body: str
    at: int
    #: Where its operations begin among those of the file.
    first: int = 0

    def pieces(self) -> Iterator[str]:
        start = 0
        while start < len(self.body):
            end = self.body.find("\n", start + _PIECE) + 1 or len(self.body)
            yield self.body[start:end]
            start = end


@dataclass
class _Columns:
    """Operations of all ranks, and who waits for whom."""

    rank: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    peer: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    tag: list[int] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    op: list[int] = field(default_factory=list)
    on: list[int] = field(default_factory=list)
    start: list[bool] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=lambda: {"cpu": 0, "nic": 0})


@workload_reader(
    "goal", suffixes=(".goal",), sniff=lambda text, path: _START.match(text) is not None
)
def read(text: str, file: str) -> Workload:
    """GOAL schedules, the text form that LogGOPSim and its relatives take.

    Parameters
    ----------
    text
        The schedule.
    file
        Where it stands, for messages.

    Raises
    ------
    InputError
        With file and line, on what is no GOAL, a rank or label that does not exist or is there
        twice, a number out of range, a receive from any source or with any tag, operations that
        wait for each other in a circle, and messages without their other side.
    """
    return _GoalReader(text, file).read()


class _GoalReader:
    def __init__(self, text: str, file: str):
        self._file = file
        if "/" in text:
            text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
        self._text = text
        self._blocks: dict[int, _Block] = {}
        self._num_ranks = 0

    def read(self) -> Workload:
        opened = self._text.find("/*")
        if opened >= 0:
            raise self._error("a comment begins here and does not end; expected '*/'", opened)
        self._find_blocks()
        columns = _Columns()
        for block in self._blocks.values():
            self._read_block(block, columns)
        builder = WorkloadBuilder(self._num_ranks, name=Path(self._file).stem)
        builder.operations(
            np.array(columns.rank, dtype=np.int64),
            columns.kind,
            peer=np.array(columns.peer, dtype=np.int64),
            size_bytes=np.array(columns.size, dtype=np.int64),
            # 32 bits without a sign as 32 bits with one: all tags stay different.
            tag=np.array(columns.tag, dtype=np.uint32).view(np.int32),
            duration_ns=columns.duration,
            cpu=columns.cpu,
        )
        builder.requires(
            np.array(columns.op, dtype=np.int64),
            np.array(columns.on, dtype=np.int64),
            start=np.array(columns.start, dtype=np.bool_),
        )
        builder.notes += self._notes(columns)
        with at_operation(self._file, lambda *op: (self._file, self._line_of(*op))):
            return builder.build()

    def _notes(self, columns: _Columns) -> list[str]:
        why = {
            "cpu": "the cpu of sends and receives is left out: their overhead is on cpu 0; {:,}",
            "nic": "the nic of sends and receives is left out: routes choose the adapter; {:,}",
        }
        return [why[what].format(count) for what, count in columns.left_out.items() if count]

    # -- the blocks --------------------------------------------------------------------------------

    def _find_blocks(self) -> None:
        text = self._text
        head = _HEAD.match(text)
        if head is None:
            raise self._error("expected 'num_ranks' and their number first", _visible(text, 0))
        self._num_ranks = int(head[1])
        if not 0 < self._num_ranks < 2**31:
            raise self._error(f"num_ranks {head[1]}; expected 1 to 2147483647", head.start(1))
        at = head.end()
        while match := _BLOCK.match(text, at):
            rank, where = int(match[1]), match.start(1)
            if rank >= self._num_ranks:
                raise self._error(
                    f"there is no rank {rank}; ranks are 0 to {self._num_ranks - 1}", where
                )
            if rank in self._blocks:
                first = self._line(self._blocks[rank].at)
                raise self._error(f"rank {rank} has a block already, in line {first}", where)
            at = match.end()
            if text[at : at + 1] != "}":
                found = "another '{' stands" if at < len(text) else "the file ends"
                raise self._error(f"{found} before the '}}' of rank {rank}", at)
            self._blocks[rank] = _Block(rank, match[2], match.start(2))
            at += 1
        rest = _visible(text, at)
        if rest < len(text):
            found = text[rest : rest + 40].partition("\n")[0]
            raise self._error(f"expected 'rank', its number and '{{', not {found!r}", rest)
        if len(self._blocks) < self._num_ranks:
            missing = next(r for r in range(self._num_ranks) if r not in self._blocks)
            raise InputError(
                f"rank {missing} has no block; there are {len(self._blocks)} of "
                f"{self._num_ranks} ranks",
                file=self._file,
            )

    def _read_block(self, block: _Block, columns: _Columns) -> None:
        block.first = len(columns.kind)
        label_of: dict[str, int] = {}
        waits: list[str] = []
        others: list[str] = []
        for piece in block.pieces():
            rows = _ITEM.findall(piece)
            if any(row[_OTHER - 1] for row in rows):
                self._refuse(block)
            ops = [row for row in rows if row[_SIZE - 1] or row[_DURATION - 1]]
            if ops:
                self._add_operations(block, ops, label_of, columns)
            for row in rows:
                if row[_WAITS - 1]:
                    waits.append(row[9])
                    others.append(row[11])
                    columns.start.append(bool(row[10]))
        try:
            columns.op += [label_of[label] for label in waits]
            columns.on += [label_of[label] for label in others]
        except KeyError:
            self._refuse_label(block, waits, others, label_of)

    def _add_operations(
        self,
        block: _Block,
        ops: list[tuple[str, ...]],
        label_of: dict[str, int],
        columns: _Columns,
    ) -> None:
        first = len(columns.kind)
        labels, send, size, peer, tag, cpu, nic, duration, calc_cpu, *_ = zip(*ops, strict=True)
        named = {label: at for at, label in enumerate(labels, first) if label}
        before = len(label_of)
        label_of.update(named)
        if len(label_of) - before != len(ops) - labels.count(""):
            self._refuse_twice(block)
        columns.rank += [block.rank] * len(ops)
        columns.kind += [
            Kind.SEND if sends else Kind.RECV if bytes_ else Kind.CALC
            for sends, bytes_ in zip(send, size, strict=True)
        ]

        def numbers(values: tuple[str, ...], most: int, what: str) -> list[int]:
            given = [int(value) if value else 0 for value in values]
            if max(given) > most:
                at = next(at for at, value in enumerate(given) if value > most)
                raise self._operation_error(
                    block, first - block.first + at, f"{what} {given[at]}; expected 0 to {most}"
                )
            return given

        columns.size += numbers(size, MAX_BYTES, "size of")
        columns.peer += numbers(peer, self._num_ranks - 1, "rank")
        tags = numbers(tag, ANY, "tag")
        if ANY in tags:
            place = first - block.first + tags.index(ANY)
            raise self._operation_error(block, place, _wildcard(f"tag {ANY}", "any tag"))
        columns.tag += tags
        columns.duration += numbers(duration, MAX_NS, "duration of")
        columns.cpu += numbers(calc_cpu, 255, "cpu")
        for what, values in (("cpu", cpu), ("nic", nic)):
            columns.left_out[what] += sum(map(bool, numbers(values, 255, what)))

    # -- what is wrong, and where ------------------------------------------------------------------

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _error(self, message: str, at: int) -> InputError:
        return InputError(message, file=self._file, line=self._line(at))

    def _lines(self, block: _Block, *groups: int) -> Iterator[tuple[int, re.Match[str]]]:
        """Lines of a block that have one of these groups, and where they begin in the file."""
        for match in _ITEM.finditer(block.body):
            if any(match[group] for group in groups):
                yield block.at + _visible(block.body, match.start()), match

    def _line_of(self, rank: int, place: int) -> int:
        lines = self._lines(self._blocks[rank], _SIZE, _DURATION)
        return self._line(next(at for turn, (at, _) in enumerate(lines) if turn == place))

    def _operation_error(self, block: _Block, place: int, message: str) -> InputError:
        return InputError(message, file=self._file, line=self._line_of(block.rank, place))

    def _refuse(self, block: _Block) -> None:
        at, match = next(self._lines(block, _OTHER))
        raise self._error(_fault(match[_OTHER].rstrip()), at)

    def _refuse_twice(self, block: _Block) -> None:
        seen: dict[str, int] = {}
        for at, match in self._lines(block, _SIZE, _DURATION):
            label = match[1]
            if label and label in seen:
                raise self._error(
                    f"label {shown(label)} is there already, in line {self._line(seen[label])}", at
                )
            seen[label] = at

    def _refuse_label(
        self, block: _Block, waits: list[str], others: list[str], label_of: dict[str, int]
    ) -> None:
        for turn, (at, _) in enumerate(self._lines(block, _WAITS)):
            for label in (waits[turn], others[turn]):
                if label not in label_of:
                    raise self._error(
                        f"rank {block.rank} has no operation labelled {shown(label)}", at
                    )


def _visible(text: str, at: int) -> int:
    """The next position that is no white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _wildcard(what: str, means: str) -> str:
    return f"{what} means {means}; weft matches messages beforehand and takes no wildcards"


def _fault(line: str) -> str:
    """What is wrong with a line that is no item."""
    tokens = [*_TOKEN.findall(line), ""]
    at = 0

    def expected(what: str) -> str:
        found = shown(tokens[at]) if tokens[at] else "the end of the line"
        return f"expected {what}, not {found}"

    def is_label(token: str) -> bool:
        return re.fullmatch(_LABEL, token, re.ASCII) is not None

    if is_label(tokens[0]) and tokens[0] not in ("send", "recv", "calc"):
        at = 1
        if tokens[1] in ("requires", "irequires"):
            at = 2 if not is_label(tokens[2]) else 3
            return expected("a label" if at == 2 else "the end of the line")
        if tokens[1] != ":":
            return expected(f"':', 'requires' or 'irequires' after {shown(tokens[0])}")
        at = 2
    verb = tokens[at]
    if verb not in ("send", "recv", "calc"):
        return expected("'send', 'recv', 'calc' or a label" if at == 0 else "an operation")
    toward = {"send": "to", "recv": "from"}.get(verb)
    steps = ["a number", "cpu"] if toward is None else ["a size", "b", toward, "a rank"]
    if toward is not None:
        steps += ["tag", "cpu", "nic"]
    for step in steps:
        at += 1
        if step in ("tag", "cpu", "nic"):  # each may be left out
            if tokens[at] != step:
                at -= 1
                continue
            at += 1
        elif step in ("b", "to", "from"):
            if tokens[at] != step:
                return expected(f"{step!r}")
            continue
        if tokens[at] == "-1" and step in ("a rank", "tag") and verb == "recv":
            return _wildcard(f"{tokens[at]}", "any source" if step == "a rank" else "any tag")
        if not tokens[at].isdecimal() or not tokens[at].isascii():
            return expected(step if step.startswith("a ") else f"a number after {step!r}")
        if len(tokens[at]) > 20:
            return f"{tokens[at][:20]}... is too large"
    at += 1
    return expected("the end of the line")


@workload_writer("goal", suffixes=(".goal",))
def write(workload: Workload, *, whole_ns: bool = False) -> str:
    """GOAL schedules, the text form that LogGOPSim and its relatives take.

    All that a workload waits for is written out, so that reading gives the same again. GOAL knows
    no communicators: a tag on one, and a tag that GOAL takes for any tag, becomes a number that
    is not in use, one for each, so that the same messages match; comments at the top name them.

    Parameters
    ----------
    workload
        What to write.
    whole_ns
        Round the durations of calculations to nanoseconds, as GOAL has no others.

    Raises
    ------
    NotApplicable
        On a put, a routing key, a release time, or a calculation that does not last whole
        nanoseconds: GOAL has none of these.
    """
    durations = _durations(workload, whole_ns)
    _check(workload)
    tags, renamed = _tags(workload)
    lines = [f"// {printable(workload.name)}"] if workload.name else []
    lines += [f"// {text}" for text in renamed]
    lines += [f"num_ranks {workload.num_ranks}", ""]
    kind, peer, size = (a.tolist() for a in (workload.kind, workload.peer, workload.size_bytes))
    cpu = workload.cpu.tolist() if len(workload.cpu) else None
    offset, dep_offset = workload.op_offset.tolist(), workload.dep_offset.tolist()
    dep, on_start = workload.dep.tolist(), workload.dep_on_start.tolist()
    for rank in range(workload.num_ranks):
        lines.append(f"rank {rank} {{")
        first = offset[rank]
        late: list[str] = []
        for op in range(first, offset[rank + 1]):
            label = f"l{op - first}"
            if kind[op] == Kind.SEND:
                lines.append(f"{label}: send {size[op]}b to {peer[op]} tag {tags[op]}")
            elif kind[op] == Kind.RECV:
                lines.append(f"{label}: recv {size[op]}b from {peer[op]} tag {tags[op]}")
            else:
                on = f" cpu {cpu[op]}" if cpu and cpu[op] else ""
                lines.append(f"{label}: calc {durations[op]}{on}")
            for at in range(dep_offset[op], dep_offset[op + 1]):
                word = "irequires" if on_start and on_start[at] else "requires"
                # LogGOPSim wants a label to be there before it is named.
                where = lines if dep[at] < op else late
                where.append(f"{label} {word} l{dep[at] - first}")
        lines += [*late, "}", ""]
    return "\n".join(lines)


def _durations(workload: Workload, whole_ns: bool) -> list[int]:
    durations = workload.duration_ns
    whole = np.rint(durations)
    broken = np.flatnonzero(whole != durations)
    if len(broken) and not whole_ns:
        raise NotApplicable(
            f"{_first(workload, broken)}: GOAL has whole nanoseconds only; the option whole_ns "
            "rounds"
        )
    long = np.flatnonzero(whole > MAX_NS)
    if len(long):
        raise NotApplicable(f"{_first(workload, long)} is longer than 2^53 ns")
    return whole.astype(np.int64).tolist()  # type: ignore[no-any-return]


def _check(workload: Workload) -> None:
    kinds = {
        Kind.PUT: "GOAL has no message without a receive",
        Kind.KEY_REQUEST: "GOAL has no routing keys",
        Kind.KEY_DONE: "GOAL has no routing keys",
    }
    for kind, why in kinds.items():
        ops = np.flatnonzero(workload.kind == kind)
        if len(ops):
            raise NotApplicable(f"{_first(workload, ops)}: {why}")
    released = np.flatnonzero(workload.release_ns)
    if len(released):
        op = int(released[0])
        raise NotApplicable(
            f"{workload.describe(op)} does not start before {workload.release_ns[op]:g} ns; "
            "GOAL has no release times"
        )


def _first(workload: Workload, ops: NDArray[np.int64]) -> str:
    more = f" (and {len(ops) - 1} more)" if len(ops) > 1 else ""
    return workload.describe(int(ops[0])) + more


def _tags(workload: Workload) -> tuple[list[int], list[str]]:
    """Tags of all operations in GOAL, and what those that are not kept as they are were before."""
    tags = workload.tag.view(np.uint32).astype(np.int64)
    message = (workload.kind == Kind.SEND) | (workload.kind == Kind.RECV)
    moved = np.flatnonzero(message & ((workload.comm != 0) | (tags == ANY)))
    if not len(moved):
        return tags.tolist(), []
    kept = set(np.unique(tags[message & (workload.comm == 0)]).tolist())
    pairs, of = np.unique(
        np.stack([workload.comm[moved], workload.tag[moved]]), axis=1, return_inverse=True
    )
    free = (number for number in range(ANY) if number not in kept)
    names = [next(free) for _ in range(pairs.shape[1])]
    tags[moved] = np.array(names, dtype=np.int64)[of.reshape(-1)]
    said = [
        f"tag {name} is tag {tag} of communicator {printable(workload.comm_names[comm])}"
        for name, (comm, tag) in zip(names, pairs.T.tolist(), strict=True)
    ]
    return tags.tolist(), said
