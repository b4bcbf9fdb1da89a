"""GOAL, the schedule language of LogGOPSim: reading and writing.

Hoefler, Siebert and Lumsdaine, "Group Operation Assembly Language: a flexible way to express
collective communication", ICPP 2009; the syntax is that of LogGOPSim's ``txt2bin``::

    num_ranks 2
    rank 0 {
      l1: calc 100 cpu 1
      l2: send 8b to 1 tag 3 cpu 0 nic 0
      l2 requires l1
    }
    rank 1 { recv 8b from 0 tag 3
    }

There is one operation per line. With ``l2 requires l1``, l2 waits for the end of l1; with
``irequires``, for its start. An operation without either starts at once. Durations are in
nanoseconds.
Tags have 32 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

#: Wildcard for any tag: -1 as an unsigned number of 32 bits.
ANY = 2**32 - 1
#: Longest duration of a calculation that is exact in nanoseconds, 104 days.
MAX_NS = 2**53

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(\*/|\Z)", re.DOTALL)
# A possessive quantifier, because backtracking would be exponential.
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
#: Number of characters parsed at a time, to limit the memory for a large block.
_PIECE = 2**22


@dataclass
class _Block:
    """The text of one rank's block, and its position in the file."""

    rank: int
    body: str
    at: int
    #: Index of the block's first operation among all operations of the file.
    first: int = 0

    def pieces(self) -> Iterator[str]:
        start = 0
        while start < len(self.body):
            end = self.body.find("\n", start + _PIECE) + 1 or len(self.body)
            yield self.body[start:end]
            start = end


@workload_reader(
    "goal", suffixes=(".goal",), sniff=lambda text, path: _START.match(text) is not None
)
def read(text: str, file: str) -> Workload:
    """Read GOAL schedules, the text format of LogGOPSim and its relatives.

    Raises
    ------
    InputError
        If the text is not GOAL, a rank or label does not exist or is defined twice, a number is out
        of range, a receive has a wildcard source or tag, dependencies form a cycle, or a send or
        receive has no match; the error gives file and line.
    """
    return _GoalReader(text, file).read()


def _without_comment(match: re.Match[str]) -> str:
    """Return what replaces a comment; one without an end is kept, for the error message."""
    return match[0] if match[1] == "" else "\n" * match[0].count("\n") or " "


class _GoalReader:
    def __init__(self, text: str, file: str):
        self._file = file
        if "/" in text:
            text = _COMMENT.sub(_without_comment, text)
        self._text = text
        self._blocks: dict[int, _Block] = {}
        self._num_ranks = 0
        #: Operations of all ranks, and their dependencies: op, on, start.
        self._columns: dict[str, list[int]] = {
            name: []
            for name in (
                "rank", "kind", "peer", "size", "tag", "duration", "cpu", "op", "on", "start",
            )
        }  # fmt: skip
        self._left_out = {"cpu": 0, "nic": 0}

    def read(self) -> Workload:
        comment_start = self._text.find("/*")
        if comment_start >= 0:
            raise self._error("a comment begins here without an end; expected '*/'", comment_start)
        self._find_blocks()
        for block in self._blocks.values():
            self._read_block(block)
        columns = {name: np.array(values, np.int64) for name, values in self._columns.items()}
        builder = builder_of(self._file, self._num_ranks, columns, self._left_out)
        with at_operation(self._file, lambda *op: (self._file, self._line_of(*op))):
            return builder.build()

    # -- the blocks --------------------------------------------------------------------------------

    def _find_blocks(self) -> None:
        text = self._text
        head = _HEAD.match(text)
        if head is None:
            raise self._error("expected 'num_ranks' and a number first", _visible(text, 0))
        self._num_ranks = int(head[1])
        if not 0 < self._num_ranks < 2**31:
            raise self._error(f"num_ranks {head[1]}; expected 1 to 2147483647", head.start(1))
        at = head.end()
        while match := _BLOCK.match(text, at):
            rank, position = int(match[1]), match.start(1)
            if rank >= self._num_ranks:
                raise self._error(
                    f"there is no rank {rank}; ranks are 0 to {self._num_ranks - 1}", position
                )
            if rank in self._blocks:
                first = self._line(self._blocks[rank].at)
                raise self._error(f"rank {rank} already has a block, in line {first}", position)
            at = match.end()
            if text[at : at + 1] != "}":
                problem = "another '{' is" if at < len(text) else "the file ends"
                raise self._error(f"{problem} before the '}}' of rank {rank}", at)
            self._blocks[rank] = _Block(rank, match[2], match.start(2))
            at += 1
        rest = _visible(text, at)
        if rest < len(text):
            actual = text[rest : rest + 40].partition("\n")[0]
            raise self._error(f"expected 'rank', its number and '{{', not {actual!r}", rest)
        if len(self._blocks) < self._num_ranks:
            missing = next(r for r in range(self._num_ranks) if r not in self._blocks)
            raise InputError(
                f"rank {missing} has no block; there are blocks of {len(self._blocks)} of "
                f"{self._num_ranks} ranks",
                file=self._file,
            )

    def _read_block(self, block: _Block) -> None:
        columns = self._columns
        block.first = len(columns["kind"])
        label_of: dict[str, int] = {}
        waits: list[str] = []
        others: list[str] = []
        for piece in block.pieces():
            rows = _ITEM.findall(piece)
            if any(row[_OTHER - 1] for row in rows):
                self._refuse(block)
            ops = [row for row in rows if row[_SIZE - 1] or row[_DURATION - 1]]
            if ops:
                self._add_operations(block, ops, label_of)
            for row in rows:
                if row[_WAITS - 1]:
                    waits.append(row[9])
                    others.append(row[11])
                    columns["start"].append(bool(row[10]))
        try:
            columns["op"] += [label_of[label] for label in waits]
            columns["on"] += [label_of[label] for label in others]
        except KeyError:
            self._refuse_label(block, waits, others, label_of)

    def _add_operations(
        self, block: _Block, ops: list[tuple[str, ...]], label_of: dict[str, int]
    ) -> None:
        columns = self._columns
        first = len(columns["kind"])
        labels, send, size, peer, tag, cpu, nic, duration, calc_cpu, *_ = zip(*ops, strict=True)
        named = {label: at for at, label in enumerate(labels, first) if label}
        before = len(label_of)
        label_of.update(named)
        if len(label_of) - before != len(ops) - labels.count(""):
            self._refuse_twice(block)
        columns["rank"] += [block.rank] * len(ops)
        columns["kind"] += [
            Kind.SEND if sends else Kind.RECV if bytes_ else Kind.CALC
            for sends, bytes_ in zip(send, size, strict=True)
        ]

        def numbers(values: tuple[str, ...], most: int, what: str) -> list[int]:
            parsed = [int(value) if value else 0 for value in values]
            if max(parsed) > most:
                at = next(at for at, value in enumerate(parsed) if value > most)
                raise self._operation_error(
                    block, first - block.first + at, f"{what} {parsed[at]}; expected 0 to {most}"
                )
            return parsed

        columns["size"] += numbers(size, MAX_BYTES, "size of")
        columns["peer"] += numbers(peer, self._num_ranks - 1, "rank")
        tags = numbers(tag, ANY, "tag")
        if ANY in tags:
            index = first - block.first + tags.index(ANY)
            raise self._operation_error(block, index, wildcard(f"tag {ANY}", "any tag"))
        columns["tag"] += tags
        columns["duration"] += numbers(duration, MAX_NS, "duration of")
        columns["cpu"] += numbers(calc_cpu, 255, "cpu")
        for what, values in (("cpu", cpu), ("nic", nic)):
            self._left_out[what] += sum(map(bool, numbers(values, 255, what)))

    # -- errors and their lines --------------------------------------------------------------------

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _error(self, message: str, at: int) -> InputError:
        return InputError(message, file=self._file, line=self._line(at))

    def _lines(self, block: _Block, *groups: int) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield the position in the file and the match of each line with one of the groups."""
        for match in _ITEM.finditer(block.body):
            if any(match[group] for group in groups):
                yield block.at + _visible(block.body, match.start()), match

    def _line_of(self, rank: int, op: int) -> int:
        lines = self._lines(self._blocks[rank], _SIZE, _DURATION)
        return self._line(next(at for index, (at, _) in enumerate(lines) if index == op))

    def _operation_error(self, block: _Block, op: int, message: str) -> InputError:
        return InputError(message, file=self._file, line=self._line_of(block.rank, op))

    def _refuse(self, block: _Block) -> None:
        at, match = next(self._lines(block, _OTHER))
        raise self._error(_fault(match[_OTHER].rstrip()), at)

    def _refuse_twice(self, block: _Block) -> None:
        seen: dict[str, int] = {}
        for at, match in self._lines(block, _SIZE, _DURATION):
            label = match[1]
            if label and label in seen:
                raise self._error(
                    f"label {shown(label)} is already defined, in line {self._line(seen[label])}",
                    at,
                )
            seen[label] = at

    def _refuse_label(
        self, block: _Block, waits: list[str], others: list[str], label_of: dict[str, int]
    ) -> None:
        for index, (at, _) in enumerate(self._lines(block, _WAITS)):
            for label in (waits[index], others[index]):
                if label not in label_of:
                    raise self._error(
                        f"rank {block.rank} has no operation labelled {shown(label)}", at
                    )


def builder_of(
    file: str, num_ranks: int, columns: Mapping[str, NDArray[Any]], left_out: Mapping[str, int]
) -> WorkloadBuilder:
    """Return a builder with the operations and dependencies of a schedule.

    `columns` [ops]: rank, kind, peer, size, tag, duration and cpu; [dependencies]: op, on and start
    of `WorkloadBuilder.requires`. `left_out`: number of sends and receives that have a cpu, and of
    those that have a nic, which are ignored.
    """
    builder = WorkloadBuilder(num_ranks, name=Path(file).stem)
    builder.operations(
        columns["rank"],
        columns["kind"],
        peer=columns["peer"],
        size_bytes=columns["size"],
        # Unsigned 32-bit tags are reinterpreted as signed ones and stay distinct.
        tag=columns["tag"].astype(np.uint32).view(np.int32),
        duration_ns=columns["duration"],
        cpu=columns["cpu"],
    )
    builder.requires(columns["op"], columns["on"], start=columns["start"].astype(np.bool_))
    notes = {
        "cpu": "the cpu of {:,} sends and receives is ignored: their overhead is on cpu 0",
        "nic": "the nic of {:,} sends and receives is ignored: routes choose the adapter",
    }
    builder.notes += [notes[what].format(count) for what, count in left_out.items() if count]
    return builder


def _visible(text: str, at: int) -> int:
    """Return the next position that is not white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def wildcard(what: str, means: str) -> str:
    """Return why a wildcard is refused."""
    return f"{what} means {means}; weft matches messages in advance and allows no wildcards"


def _fault(line: str) -> str:
    """Return the error message for a line that has none of the forms of GOAL."""
    tokens = [*_TOKEN.findall(line), ""]
    at = 0

    def expected(what: str) -> str:
        token = shown(tokens[at]) if tokens[at] else "the end of the line"
        return f"expected {what}, not {token}"

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
        if step in ("tag", "cpu", "nic"):  # optional
            if tokens[at] != step:
                at -= 1
                continue
            at += 1
        elif step in ("b", "to", "from"):
            if tokens[at] != step:
                return expected(f"{step!r}")
            continue
        if tokens[at] == "-1" and step in ("a rank", "tag") and verb == "recv":
            return wildcard(f"{tokens[at]}", "any source" if step == "a rank" else "any tag")
        if not tokens[at].isdecimal() or not tokens[at].isascii():
            return expected(step if step.startswith("a ") else f"a number after {step!r}")
        if len(tokens[at]) > 20:
            return f"{tokens[at][:20]}... is too large"
    at += 1
    return expected("the end of the line")


@workload_writer("goal", suffixes=(".goal",))
def write(workload: Workload, *, whole_ns: bool = False) -> str:
    """Write GOAL schedules, the text format of LogGOPSim and its relatives.

    All dependencies are written, so that reading gives the same workload. GOAL has no
    communicators: each tag in a communicator other than the world, and each tag that is a wildcard
    in GOAL, is replaced by an unused tag, so that the same messages match. Comments at the top list
    these tags.

    Parameters
    ----------
    whole_ns
        Round durations of calculations to nanoseconds, the resolution of GOAL.

    Raises
    ------
    NotApplicable
        If the workload has a put, a routing key, a release time, or a duration that exceeds 2^53 ns
        or is not a whole number of nanoseconds. GOAL cannot express these.
    """
    all_durations, all_tags, renamed = expressed(workload, whole_ns)
    durations, tags = all_durations.tolist(), all_tags.tolist()
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
        forward: list[str] = []
        for op in range(first, offset[rank + 1]):
            label = f"l{op - first}"
            if kind[op] == Kind.SEND:
                lines.append(f"{label}: send {size[op]}b to {peer[op]} tag {tags[op]}")
            elif kind[op] == Kind.RECV:
                lines.append(f"{label}: recv {size[op]}b from {peer[op]} tag {tags[op]}")
            else:
                on = f" cpu {cpu[op]}" if cpu and cpu[op] else ""
                lines.append(f"{label}: calc {durations[op]}{on}")
            for dep_index in range(dep_offset[op], dep_offset[op + 1]):
                word = "irequires" if on_start and on_start[dep_index] else "requires"
                # LogGOPSim requires a label to be defined before it is used.
                target = lines if dep[dep_index] < op else forward
                target.append(f"{label} {word} l{dep[dep_index] - first}")
        lines += [*forward, "}", ""]
    return "\n".join(lines)


def expressed(
    workload: Workload, whole_ns: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Return durations in ns and tags of all operations in GOAL, and text on tags that differ.

    Raises
    ------
    NotApplicable
        If GOAL cannot express the workload.
    """
    durations = _durations(workload, whole_ns)
    _check(workload)
    return durations, *_tags(workload)


def _durations(workload: Workload, whole_ns: bool) -> NDArray[np.int64]:
    durations = workload.duration_ns
    rounded = np.rint(durations)
    fractional = np.flatnonzero(rounded != durations)
    if len(fractional) and not whole_ns:
        raise NotApplicable(
            f"{_first(workload, fractional)}: GOAL durations are integer nanoseconds; the option "
            "whole_ns rounds them"
        )
    long = np.flatnonzero(rounded > MAX_NS)
    if len(long):
        raise NotApplicable(f"{_first(workload, long)} is longer than 2^53 ns")
    return rounded.astype(np.int64)


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
            f"{workload.describe(op)} has the release time {workload.release_ns[op]:g} ns; "
            "GOAL has no release times"
        )


def _first(workload: Workload, ops: NDArray[np.int64]) -> str:
    more = f" (and {len(ops) - 1} more)" if len(ops) > 1 else ""
    return workload.describe(int(ops[0])) + more


def _tags(workload: Workload) -> tuple[NDArray[np.int64], list[str]]:
    """Return the GOAL tags of all operations, and comments on the replaced tags."""
    tags = workload.tag.view(np.uint32).astype(np.int64)
    message = (workload.kind == Kind.SEND) | (workload.kind == Kind.RECV)
    moved = np.flatnonzero(message & ((workload.comm != 0) | (tags == ANY)))
    if not len(moved):
        return tags, []
    kept = set(np.unique(tags[message & (workload.comm == 0)]).tolist())
    pairs, pair_of = np.unique(
        np.stack([workload.comm[moved], workload.tag[moved]]), axis=1, return_inverse=True
    )
    free = (number for number in range(ANY) if number not in kept)
    new_tags = [next(free) for _ in range(pairs.shape[1])]
    tags[moved] = np.array(new_tags, dtype=np.int64)[pair_of.reshape(-1)]
    comments = [
        f"tag {new_tag} is tag {tag} of communicator {printable(workload.comm_names[comm])}"
        for new_tag, (comm, tag) in zip(new_tags, pairs.T.tolist(), strict=True)
    ]
    return tags, comments
