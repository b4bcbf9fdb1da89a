"""SMPI's time-independent traces: the actions of each rank of an MPI program, without times.

Desprez, Markomanolis, Quinson and Suter, "Assessing the performance of MPI applications through
time-independent trace replay", PSTI 2011; the actions are those of SimGrid 3.29,
``src/smpi/internals/smpi_replay.cpp``. Their names are case-insensitive, because older versions
write ``allReduce``. Counts are in elements of a datatype. A line is a rank, an action and its
arguments: ``3 send 4 7 1000 1``. All ranks may be in one file, or each in its own file; the input
is then the list of the files' names, or their folder.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.core.files import file_exists, named_by, read_text
from weft.core.units import MAX_BYTES
from weft.fabrics.formats.records import shown
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import COLLECTIVES as KINDS
from weft.workload.collectives import collective_on
from weft.workload.collectives.lowering import chosen_algorithms
from weft.workload.formats.workload_format_registry import at_operation, workload_reader
from weft.workload.workload import Kind, Workload

#: Sizes in bytes of SMPI's datatypes, by number: double, int, char, short, long, float, byte; types
#: from 7 on exist only in newer versions.
TYPE_BYTES = {
    0: 8, 1: 4, 2: 1, 3: 2, 4: 8, 5: 4, 6: 1, 7: 8, 8: 1, 9: 1, 10: 2, 11: 4, 12: 8, 13: 8, 14: 16,
    15: 4, 16: 1, 17: 1, 18: 2, 19: 4, 20: 8, 21: 1, 22: 2, 23: 4, 24: 8, 25: 8, 26: 16, 27: 32,
    28: 8, 29: 8, 30: 8, 31: 16, 32: 16, 33: 8, 34: 8, 35: 8, 36: 16, 37: 16, 38: 4, 39: 4, 40: 8,
    41: 16, 42: 8, 43: 16, 44: 16, 45: 4, 46: 2, 47: 4, 48: 8, 49: 16, 50: 32, 53: 1, 54: 8, 55: 8,
}  # fmt: skip

#: Largest number of characters of an error message.
_LONGEST = 500


@dataclass
class TitLine:
    """One line of a trace: an action and its arguments, which are read one by one."""

    file: str
    number: int
    rank: int
    action: str
    words: list[str]
    #: Size in bytes of an element if the line has no datatype.
    default_bytes: int = 1
    at: int = 0

    def error(self, message: str) -> InputError:
        """Return an error at this line."""
        if len(message) > _LONGEST:  # words of a file may be of any length
            message = message[: _LONGEST // 2] + "..." + message[-_LONGEST // 2 :]
        return InputError(f"{self.action}: {message}", file=self.file, line=self.number)

    @property
    def left(self) -> int:
        """Number of unread arguments."""
        return len(self.words) - self.at

    def _number(self, what: str) -> tuple[str, float]:
        """Read a number; return its text, too."""
        if not self.left:
            raise self.error(f"expected {what}, not the end of the line")
        word = self.words[self.at]
        self.at += 1
        for kind in (int, float) if len(word) < 20 else (float,):
            with suppress(ValueError):
                return word, kind(word)
        raise self.error(f"expected {what}, not {word!r}")

    def integer(self, what: str, low: int = 0, high: int = MAX_BYTES) -> int:
        """Read an integer; it may be in float notation, which SimGrid uses for large integers."""
        word, value = self._number(what)
        if not low <= value <= high:
            raise self.error(f"{what} {word}; expected {low} to {high}")
        if value != int(value):
            raise self.error(f"{what} {word} is not an integer")
        return int(value)

    def quantity(self, what: str) -> float:
        """Read a number of 0 or more."""
        word, value = self._number(what)
        if not 0 <= value < math.inf:
            raise self.error(f"{what} {word}; expected 0 or more")
        return float(value)

    def peer(self, num_ranks: int, what: str, first: int = 0) -> int:
        """Read the rank of a peer; ranks are numbered from `first`."""
        value = self.integer(what, -MAX_BYTES)
        if value == -555 or (value == -1 and "source" in what):
            raise self.error(
                f"{value} means any source; weft matches messages in advance and allows no "
                "wildcards"
            )
        if not first <= value < first + num_ranks:
            raise self.error(f"{what} {value}; ranks are {first} to {first + num_ranks - 1}")
        return value

    def tag(self) -> int:
        """Read a tag."""
        value = self.integer("a tag", -(2**31), 2**31 - 1)
        if value < 0:
            raise self.error(
                f"tag {value} is negative, perhaps a wildcard; weft matches messages in advance "
                "and allows no wildcards"
            )
        return value

    def element_bytes(self) -> int:
        """Read a datatype and return its bytes; at the end of the line, return the default."""
        if not self.left:
            return self.default_bytes
        number = self.integer("a datatype", -MAX_BYTES)
        if number not in TYPE_BYTES:
            raise self.error(f"datatype {number}; expected a datatype of SMPI, 0 to 55")
        return TYPE_BYTES[number]

    def bytes(self, count: int, element: int) -> int:
        """Return the size in bytes of `count` elements of `element` bytes."""
        if count * element > MAX_BYTES:
            raise self.error(f"{count} elements of {element} bytes are more than 2^56 bytes")
        return count * element

    def done(self) -> None:
        """Refuse unread arguments."""
        if self.left:
            raise self.error(f"expected the end of the line, not {self.words[self.at]!r}")


@dataclass
class TitCall:
    """A rank's call of a collective operation.

    `send` and `recv` are the size in bytes of every block, or one size per rank; None if the trace
    does not give the size. `flops` is the number of floating-point operations of a reduction, which
    follow the communication.
    """

    line: TitLine
    name: str
    send: int | list[int] | None = 0
    recv: int | list[int] | None = None
    root: int = 0
    flops: float = 0.0


def _root(line: TitLine, num_ranks: int) -> int:
    return line.integer("a root", 0, num_ranks - 1) if line.left else 0


def _one_count(line: TitLine, num_ranks: int) -> TitCall:
    # SimGrid's tracer writes a scan like a message: partner -1, tag 0, then the count.
    if line.action in ("scan", "exscan") and line.left > 2:
        line.integer("-1", -1, -1)
        line.integer("0", 0, 0)
    count = line.integer("a count")
    reduces = line.action in ("reduce", "allreduce")
    flops = line.quantity("an amount of flops") if reduces else 0.0
    root = _root(line, num_ranks) if line.action in ("bcast", "reduce") else 0
    size = line.bytes(count, line.element_bytes())
    return TitCall(line, line.action, size, root=root, flops=flops)


def _two_counts(line: TitLine, num_ranks: int) -> TitCall:
    send, recv = line.integer("a count to send"), line.integer("a count to receive")
    root = _root(line, num_ranks) if line.action in ("gather", "scatter") else 0
    return _two_types(line, send, recv, root)


def _two_types(
    line: TitLine, send: int | list[int] | None, recv: int | list[int] | None, root: int = 0
) -> TitCall:
    """Read the datatypes of both sides at the end of the line; return the call."""
    sizes: list[int | list[int] | None] = []
    for counts in (send, recv):
        element = line.element_bytes()
        if isinstance(counts, list):
            sizes.append([line.bytes(count, element) for count in counts])
        else:
            sizes.append(None if counts is None else line.bytes(counts, element))
    return TitCall(line, line.action, sizes[0], sizes[1], root)


def _counts(line: TitLine, num_ranks: int, what: str) -> list[int]:
    if line.left < num_ranks:
        raise line.error(f"expected {num_ranks} {what}, one for each rank, not {line.left}")
    return [line.integer(what) for _ in range(num_ranks)]


def _gatherv(line: TitLine, num_ranks: int) -> TitCall:
    send = line.integer("a count to send")
    # Ranks other than the root may omit the counts to receive.
    short = line.left < num_ranks and line.left <= 3
    recv = None if short else _counts(line, num_ranks, "counts to receive")
    return _two_types(line, send, recv, _root(line, num_ranks))


def _scatterv(line: TitLine, num_ranks: int) -> TitCall:
    short = line.left <= num_ranks and line.left <= 4
    send = None if short else _counts(line, num_ranks, "counts to send")
    recv = line.integer("a count to receive")
    return _two_types(line, send, recv, _root(line, num_ranks))


def _allgatherv(line: TitLine, num_ranks: int) -> TitCall:
    send = line.integer("a count to send")
    recv = _counts(line, num_ranks, "counts to receive")
    # Displacements in the buffer, one per rank, may end the line; they are ignored.
    if line.left > 2 and line.left >= num_ranks:
        line.words = line.words[:-num_ranks]
    if line.left == 1:  # one datatype for both sides
        line.words.append(line.words[-1])
    return _two_types(line, send, recv)


def _reducescatter(line: TitLine, num_ranks: int) -> TitCall:
    counts = _counts(line, num_ranks, "counts to receive")
    flops = line.quantity("an amount of flops")
    element = line.element_bytes()
    sizes = [line.bytes(count, element) for count in counts]
    return TitCall(line, "reduce-scatter", sizes, flops=flops)


def _alltoallv(line: TitLine, num_ranks: int) -> TitCall:
    line.integer("the size of the send buffer")
    send = _counts(line, num_ranks, "counts to send")
    line.integer("the size of the receive buffer")
    recv = _counts(line, num_ranks, "counts to receive")
    return _two_types(line, send, recv)


COLLECTIVES: dict[str, Callable[[TitLine, int], TitCall]] = {
    "barrier": lambda line, _: TitCall(line, "barrier"),
    "bcast": _one_count,
    "reduce": _one_count,
    "allreduce": _one_count,
    "scan": _one_count,
    "exscan": _one_count,
    "alltoall": _two_counts,
    "allgather": _two_counts,
    "gather": _two_counts,
    "scatter": _two_counts,
    "gatherv": _gatherv,
    "scatterv": _scatterv,
    "allgatherv": _allgatherv,
    "reducescatter": _reducescatter,
    "alltoallv": _alltoallv,
}
#: Actions that add no operation.
SILENT = ("finalize", "comm_size", "comm_split", "comm_dup", "location")
#: All other actions except collectives.
ALONE = ("init", "compute", "sleep", "send", "isend", "recv", "irecv", "sendrecv", "wait",
         "waitall", "test")  # fmt: skip
ACTIONS = (*SILENT, *ALONE, *COLLECTIVES)


def lower(builder: WorkloadBuilder, calls: list[TitCall], algorithms: dict[str, str]) -> None:
    """Append a collective to the programs of all ranks.

    `algorithms`: algorithm of each collective that does not use the default algorithm.
    """
    first = calls[0]
    for call in calls:
        if call.name != first.name:
            raise _disagree(call, first, f"calls {call.name}", f"calls {first.name}")
        if call.root != first.root:
            raise _disagree(call, first, f"has root {call.root}", f"has root {first.root}")
    try:
        collective_on(
            builder,
            first.name,
            np.arange(len(calls)),
            _sizes(calls),
            algorithm=algorithms.get(first.name),
            root=first.root,
        )
    except InputError as error:
        if error.file is not None:
            raise
        raise first.line.error(error.message) from None


def _sizes(calls: list[TitCall]) -> Any:
    """Return the sizes that `collective_on` takes, after comparing those of all ranks."""
    first = calls[0]
    root = calls[first.root]
    if first.name == "alltoallv":
        sent = np.array([call.send for call in calls], dtype=np.int64)
        received = np.array([call.recv for call in calls], dtype=np.int64).T
        for source, to in np.argwhere(sent > received)[:1]:
            raise _too_much(calls[source], sent[source, to], calls[to], received[source, to])
        return sent
    if first.name in ("gatherv", "allgatherv"):
        blocks = np.array([call.send for call in calls], dtype=np.int64)
        for receiver in calls if first.name == "allgatherv" else [root]:
            if receiver.recv is None:
                raise receiver.line.error("the root has no counts to receive")
            received = np.array(receiver.recv)
            for rank in np.flatnonzero(blocks > received)[:1]:
                raise _too_much(calls[rank], blocks[rank], receiver, received[rank])
        return blocks
    if first.name == "scatterv":
        if root.send is None:
            raise root.line.error("the root has no counts to send")
        blocks = np.array(root.send, dtype=np.int64)
        for call in calls:
            if blocks[call.line.rank] > call.recv:
                raise _too_much(root, blocks[call.line.rank], call, call.recv)
        return blocks
    if first.name == "scatter":
        for call in calls:
            if root.send > call.recv:  # type: ignore[operator]
                raise _too_much(root, root.send, call, call.recv)
        return root.send
    for call in calls:
        if call.send != first.send:
            raise _disagree(call, first, _shown_size(call), _shown_size(first))
    for call in [root] if KINDS[first.name].rooted else calls:
        if call.recv is not None and call.recv < first.send:  # type: ignore[operator]
            raise _too_much(first, first.send, call, call.recv)
    return first.send


def _shown_size(call: TitCall) -> str:
    if isinstance(call.send, list):
        return f"has blocks of {', '.join(map(str, call.send[:8]))} bytes"
    return f"has {call.send} bytes"


def _disagree(call: TitCall, other: TitCall, ours: str, theirs: str) -> InputError:
    return call.line.error(
        f"rank {call.line.rank} {ours}, but rank {other.line.rank} {theirs} in the matching "
        f"collective, at {other.line.file}:{other.line.number}"
    )


def _too_much(sender: TitCall, size: Any, receiver: TitCall, received: Any) -> InputError:
    return receiver.line.error(
        f"rank {receiver.line.rank} receives {received} bytes from rank {sender.line.rank}, which "
        f"sends {size}, at {sender.line.file}:{sender.line.number}"
    )


_LINE = re.compile(r"\s*p?(\d{1,10})[ \t]+([A-Za-z_]+)(?:[ \t\r\n]|$)", re.ASCII)
#: A line that looks like the name of a file.
_NAME = re.compile(r"[\w./~+@%-]*[./]\w[\w./~+@%-]*")
_LAST = 2**31 - 2
#: Longest computation in ns, 30 million years; sums of many such computations remain finite.
MAX_NS = 1e24


def _significant(text: str) -> list[str]:
    """Return the first lines that are neither blank nor comments."""
    lines = (line.strip() for line in text[:10_000].split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


def _is_trace(text: str) -> bool:
    match = _LINE.match(next(iter(_significant(text)), ""))
    return match is not None and match[2].lower() in ACTIONS


def _sniff(text: str, path: Path) -> bool:
    if _is_trace(text):
        return True
    names = _significant(text) or [""]
    try:
        with named_by(names[0], path).open("rb") as stream:
            return _is_trace(stream.read(10_000).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return all(map(_NAME.fullmatch, names))


@workload_reader("tit", suffixes=(".tit",), sniff=_sniff)
def read(
    text: str,
    file: str,
    *,
    flops_per_s: float = 1e9,
    tags: bool | None = None,
    algorithms: tuple[str, ...] = (),
) -> Workload:
    """Read time-independent traces of SimGrid's SMPI: one file, a list of files, or a folder.

    All ranks take part in all collectives, as in SimGrid: traces do not give the ranks of
    communicators. Collectives become messages by the algorithms that MPICH selects.

    Parameters
    ----------
    text
        The trace, or the names of the ranks' files, one per line.
    file
        Path of the trace or list, for messages and to locate the listed files.
    flops_per_s
        Floating-point operations per second of a rank, for the time of computations and reductions.
    tags
        Whether sends and receives have tags, as they do since SimGrid 3.20; if left out, this
        follows from the number of their arguments.
    algorithms
        Algorithms of collectives by registered name, such as ``allreduce-ring``.

    Raises
    ------
    InputError
        If an action is unknown, an argument is missing or out of range, a wait has no message, a
        rank is missing or in two files, the calls of a collective disagree, a receive has a
        wildcard source or tag, or a send or receive has no match; the error gives file and line.
    """
    if not 0 < flops_per_s < math.inf:
        raise InputError(f"flops_per_s is {flops_per_s}; expected a positive number")
    by_collective = chosen_algorithms(algorithms)
    programs = _programs(text, file)
    if tags is None:
        tags = _states_tags(programs)
    return _Replay(file, programs, flops_per_s, tags, by_collective).run()


# -- files and lines -------------------------------------------------------------------------------


@dataclass
class _Program:
    """The lines of one rank, all in one file."""

    file: str
    lines: list[tuple[int, str]] = field(default_factory=list)
    actions: set[str] = field(default_factory=set)

    def line(self, at: int, rank: int) -> TitLine:
        """Return the parsed line at an index."""
        number, text = self.lines[at]
        words = text.split()
        return TitLine(self.file, number, rank, words[1].lower(), words[2:])


def _programs(text: str, file: str) -> list[_Program]:
    """Return the programs of all ranks, by rank."""
    programs: dict[int, _Program] = {}
    if _is_trace(text):
        _split(text, file, programs)
    else:
        seen: dict[Path, int] = {}
        for number, name in enumerate(text.split("\n"), 1):
            entry = name.strip()
            if not entry or entry.startswith("#"):
                continue
            path = named_by(entry, Path(file))
            if path in seen:
                raise InputError(
                    f"{entry} is already listed, in line {seen[path]}", file=file, line=number
                )
            seen[path] = number
            if not file_exists(path):
                raise InputError(
                    f"there is no file {shown(entry)}, beside this list or in this folder"
                    if _NAME.fullmatch(entry)
                    else f"expected a rank and an action, or a file's name, not {shown(entry)}",
                    file=file,
                    line=number,
                )
            _split(read_text(path), str(path), programs)
    if not programs:
        raise InputError("has neither actions nor names of files", file=file)
    count = max(programs) + 1
    if len(programs) < count:
        missing = next(rank for rank in range(count) if rank not in programs)
        raise InputError(
            f"rank {missing} has no line; the last rank is {count - 1}, in "
            f"{programs[count - 1].file}",
            file=file,
        )
    return [programs[rank] for rank in range(count)]


def _split(text: str, file: str, programs: dict[int, _Program]) -> None:
    """Add the lines of a file to the programs of their ranks."""
    in_file: dict[str, _Program] = {}
    for number, line in enumerate(text.split("\n"), 1):
        first = line.split(None, 2)
        if not first or first[0].startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None or int(match[1]) > _LAST:
            raise InputError(
                f"expected a rank and an action, not {line.strip()[:60]!r}", file=file, line=number
            )
        action = match[2].lower()
        if action not in ACTIONS:
            raise InputError(
                f"unknown action {shown(match[2])}; SMPI replays {', '.join(ACTIONS)}",
                file=file,
                line=number,
            )
        program = in_file.get(match[1])
        if program is None:
            program = in_file[match[1]] = _Program(file)
        program.lines.append((number, line))
        program.actions.add(action)
    for name, program in in_file.items():
        rank = int(name)
        if rank in programs:
            raise InputError(
                f"rank {rank} has lines in {programs[rank].file} already",
                file=file,
                line=program.lines[0][0],
            )
        programs[rank] = program


def _lines_of(programs: list[_Program], actions: tuple[str, ...]) -> Iterator[TitLine]:
    """Yield the lines of all ranks with one of the actions."""
    for rank, program in enumerate(programs):
        if program.actions.isdisjoint(actions):
            continue
        for at in range(len(program.lines)):
            line = program.line(at, rank)
            if line.action in actions:
                yield line


def _states_tags(programs: list[_Program]) -> bool:
    """Return whether sends and receives have tags: 3 or 4 arguments with a tag, else 2 or 3."""
    for line in _lines_of(programs, ("send", "isend", "recv", "irecv")):
        if line.left != 3:
            return line.left > 3
    return all(line.left > 0 for line in _lines_of(programs, ("wait",)))


def _counts_from_one(programs: list[_Program]) -> bool:
    """Return whether partners in sendrecv are process numbers from 1, as SimGrid's tracer writes.

    This is the case if the number of ranks occurs as a partner and 0 does not.
    """
    partners = {
        word
        for line in _lines_of(programs, ("sendrecv",))
        for word in (line.words[1:2] + line.words[3:4])
    }
    return str(len(programs)) in partners and "0" not in partners


# -- replay ----------------------------------------------------------------------------------------


class _Replay:
    """Replay of the programs of all ranks, from one collective to the next."""

    def __init__(
        self,
        file: str,
        programs: list[_Program],
        flops_per_s: float,
        tags: bool,
        algorithms: dict[str, str],
    ):
        self._file = file
        self._programs = programs
        self._ns_per_flop = 1e9 / flops_per_s
        self._flops_per_s = flops_per_s
        self._tags = tags
        self._algorithms = algorithms
        self._num_ranks = len(programs)
        self._from_one = _counts_from_one(programs)
        self._builder = WorkloadBuilder(self._num_ranks, name=Path(os.path.abspath(file)).stem)
        self._at = [0] * self._num_ranks
        #: For each rank, the default size in bytes of an element; 0 before init.
        self._element = [0] * self._num_ranks
        #: For each rank, the handles of open messages by source, destination and tag; `_waited` has
        #: the source, destination and tag of messages that were waited for.
        self._open: list[dict[tuple[int, int, int], deque[int]]] = [{} for _ in programs]
        self._waited: list[set[tuple[int, int, int]]] = [set() for _ in programs]
        #: First operation of each line that may add operations, and file and number of the line.
        self._starts: list[int] = []
        self._lines: list[tuple[str, int]] = []
        self._unknown_size = False
        self._note_counts: dict[str, int] = {}

    def run(self) -> Workload:
        while True:
            calls = [self._advance(rank) for rank in range(self._num_ranks)]
            present = [call for call in calls if call is not None]
            if not present:
                break
            if len(present) < len(calls):
                rank = calls.index(None)
                raise present[0].line.error(
                    f"rank {present[0].line.rank} calls it, but rank {rank} ends before it: "
                    f"{self._programs[rank].file}"
                )
            self._mark(present[0].line)
            lower(self._builder, present, self._algorithms)
            for call in present:
                self._compute(call.line, call.flops)
        for rank in range(self._num_ranks):
            self._wait_all(rank)
        self._note()
        with at_operation(self._file, self._place_of):
            workload = self._builder.build()
        return _with_sizes(workload) if self._unknown_size else workload

    def _note(self) -> None:
        notes = self._builder.notes
        texts = {
            "flops": f"ranks compute at {self._flops_per_s:g} flop/s in {{}} computations",
            "init": "{} ranks have no init; counts without a datatype are bytes",
            "test": "{} test actions do not wait",
            "late": "{} waits for messages that were already waited for are ignored",
            "comm": "{} communicators are created, but traces do not give their ranks: all "
            "ranks take part in all collectives",
        }
        notes += [
            text.format(self._note_counts[key])
            for key, text in texts.items()
            if key in self._note_counts
        ]
        if not self._tags:
            notes.append("messages have no tags in the trace; all get tag 0")
        if self._from_one:
            notes.append("partners in sendrecv are numbered from 1, as by SimGrid's tracer")

    def _count_note(self, key: str) -> None:
        self._note_counts[key] = self._note_counts.get(key, 0) + 1

    # -- one rank ----------------------------------------------------------------------------------

    def _advance(self, rank: int) -> TitCall | None:
        """Advance to the rank's next collective and return it; None at the end of the program."""
        program = self._programs[rank]
        while self._at[rank] < len(program.lines):
            line = program.line(self._at[rank], rank)
            self._at[rank] += 1
            action = line.action
            if action in SILENT:
                if action in ("comm_split", "comm_dup"):
                    self._count_note("comm")
                continue
            if action == "init":
                # SMPI checks only whether there is an argument; if so, elements are doubles.
                self._element[rank] = 8 if line.words else 1
                continue
            if not self._element[rank]:
                self._element[rank] = 1
                self._count_note("init")
            line.default_bytes = self._element[rank]
            if action in COLLECTIVES:
                call = COLLECTIVES[action](line, self._num_ranks)
                line.done()
                return call
            self._mark(line)
            self._act(rank, line)
        return None

    def _act(self, rank: int, line: TitLine) -> None:
        action = line.action
        if action == "compute":
            self._compute(line, line.quantity("an amount of flops"))
            line.done()
        elif action == "sleep":
            self._spend(line, line.quantity("a number of seconds") * 1e9)
            line.done()
        elif action == "sendrecv":
            self._exchange(rank, line)
        elif action == "waitall":
            self._wait_all(rank)
        elif action in ("wait", "test"):
            self._wait(rank, line)
        else:
            self._message(rank, line)

    def _compute(self, line: TitLine, flops: float) -> None:
        if flops:
            self._count_note("flops")
            self._spend(line, flops * self._ns_per_flop)

    def _spend(self, line: TitLine, duration_ns: float) -> None:
        if duration_ns > MAX_NS:
            raise line.error(f"the duration is {duration_ns:g} ns; expected at most {MAX_NS:g}")
        self._builder.calc(line.rank, duration_ns)

    def _message(self, rank: int, line: TitLine) -> None:
        sends = "send" in line.action
        peer = line.peer(self._num_ranks, "a destination" if sends else "a source")
        tag = line.tag() if self._tags else 0
        # A receive with a count below 1 accepts any size.
        count = line.integer("a count", 0 if sends else -1)
        size = line.bytes(max(count, 0), line.element_bytes())
        line.done()
        if not sends and count < 1:
            size, self._unknown_size = MAX_BYTES, True
        handle = getattr(self._builder, line.action)(rank, peer, size, tag)
        if line.action.startswith("i"):
            key = (rank, peer, tag) if sends else (peer, rank, tag)
            self._open[rank].setdefault(key, deque()).append(handle)

    def _exchange(self, rank: int, line: TitLine) -> None:
        def partner(what: str) -> int:
            if line.left and line.words[line.at] == "-666":  # MPI_PROC_NULL
                line.at += 1
                return -1
            return line.peer(self._num_ranks, what, int(self._from_one)) - self._from_one

        send, to = line.integer("a count to send"), partner("a destination")
        recv, source = line.integer("a count to receive"), partner("a source")
        send_bytes = line.bytes(send, line.element_bytes())
        recv_bytes = line.bytes(recv, line.element_bytes())
        line.done()
        self._builder.sendrecv(rank, to, send_bytes, source, recv_bytes)

    def _wait(self, rank: int, line: TitLine) -> None:
        pending = self._open[rank]
        if not self._tags:
            # A wait without a tag waits for the message begun last.
            if line.action == "wait" and not pending:
                raise line.error("there is nothing to wait for")
            key = max(pending, key=lambda key: pending[key][-1]) if pending else (0, 0, 0)
        else:
            source = line.peer(self._num_ranks, "a source")
            key = (source, line.peer(self._num_ranks, "a destination"), line.tag())
            line.done()
        if line.action == "test":
            self._count_note("test")
            return
        if key not in pending:
            if key in self._waited[rank]:
                self._count_note("late")
                return
            raise line.error(
                f"rank {rank} began no message from {key[0]} to {key[1]} with tag {key[2]}"
            )
        handles = pending[key]
        handle = handles.popleft() if self._tags else handles.pop()
        if not handles:
            del pending[key]
        self._waited[rank].add(key)
        self._builder.wait(rank, handle)

    def _wait_all(self, rank: int) -> None:
        handles = sorted(handle for queue in self._open[rank].values() for handle in queue)
        if handles:
            self._waited[rank].update(self._open[rank])
            self._open[rank].clear()
            self._builder.wait(rank, handles)

    # -- lines of operations -----------------------------------------------------------------------

    def _mark(self, line: TitLine) -> None:
        self._starts.append(self._builder.num_ops)
        self._lines.append((line.file, line.number))

    def _place_of(self, rank: int, place: int) -> tuple[str, int]:
        offset, handles = self._builder.in_order()
        handle = int(handles[offset[rank] + place])
        return self._lines[bisect_right(self._starts, handle) - 1]


def _with_sizes(workload: Workload) -> Workload:
    """Set the sizes of receives of unknown size to those of the matching sends."""
    size = workload.size_bytes.copy()
    open_ = (workload.kind == Kind.RECV) & (size == MAX_BYTES)
    size[open_] = size[workload.match[np.flatnonzero(open_)]]
    return replace(workload, size_bytes=size)
