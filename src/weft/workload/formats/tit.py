"""SMPI's time-independent traces: what each rank of an MPI program did, without times.

Desprez, Markomanolis, Quinson and Suter, "Assessing the performance of MPI applications through
time-independent trace replay", PSTI 2011; the actions are those of SimGrid 3.29,
``src/smpi/internals/smpi_replay.cpp``, in letters of either case, as traces of older versions have
``allReduce``. Counts are in elements of a datatype. A line is a rank, an action and its arguments:
``3 send 4 7 1000 1``. All ranks may stand in one file, or each in its own; then what is read is the
list of their names, or their folder.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.core.units import MAX_BYTES
from weft.fabrics.formats.records import shown
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import COLLECTIVES as KINDS
from weft.workload.collectives import collective, collective_on
from weft.workload.formats.workload_format_registry import at_operation, workload_reader
from weft.workload.workload import Kind, Workload

#: Bytes of the datatypes that traces name by number: double, int, char, short, long, float, byte,
#: then those that only newer versions name.
TYPE_BYTES = {
    0: 8, 1: 4, 2: 1, 3: 2, 4: 8, 5: 4, 6: 1, 7: 8, 8: 1, 9: 1, 10: 2, 11: 4, 12: 8, 13: 8, 14: 16,
    15: 4, 16: 1, 17: 1, 18: 2, 19: 4, 20: 8, 21: 1, 22: 2, 23: 4, 24: 8, 25: 8, 26: 16, 27: 32,
    28: 8, 29: 8, 30: 8, 31: 16, 32: 16, 33: 8, 34: 8, 35: 8, 36: 16, 37: 16, 38: 4, 39: 4, 40: 8,
    41: 16, 42: 8, 43: 16, 44: 16, 45: 4, 46: 2, 47: 4, 48: 8, 49: 16, 50: 32, 53: 1, 54: 8, 55: 8,
}  # fmt: skip

#: Longest message, in characters.
_LONGEST = 500


@dataclass
class Line:
    """One line of a trace: an action and its arguments, taken from the front one by one."""

    file: str
    number: int
    rank: int
    action: str
    words: list[str]
    #: Bytes of an element where no datatype stands.
    default_bytes: int = 1
    at: int = 0

    def error(self, message: str) -> InputError:
        """An error at this line."""
        if len(message) > _LONGEST:  # words of a file may be of any length
            message = message[: _LONGEST // 2] + "..." + message[-_LONGEST // 2 :]
        return InputError(f"{self.action}: {message}", file=self.file, line=self.number)

    @property
    def left(self) -> int:
        """Arguments not taken yet."""
        return len(self.words) - self.at

    def _take(self, what: str) -> str:
        if not self.left:
            raise self.error(f"expected {what}, not the end of the line")
        self.at += 1
        return self.words[self.at - 1]

    def whole(self, what: str, low: int = 0, high: int = MAX_BYTES) -> int:
        """A whole number; also one that is written as a float, as SimGrid writes large ones."""
        word = self._take(what)
        try:
            value = int(word) if len(word) < 20 else float(word)
        except ValueError:
            try:
                value = float(word)
            except ValueError:
                raise self.error(f"expected {what}, not {word!r}") from None
        if not low <= value <= high:
            raise self.error(f"{what} {word}; expected {low} to {high}")
        if value != int(value):
            raise self.error(f"{what} {word} is no whole number")
        return int(value)

    def quantity(self, what: str) -> float:
        """A number that is not negative."""
        word = self._take(what)
        try:
            value = float(word)
        except ValueError:
            raise self.error(f"expected {what}, not {word!r}") from None
        if not 0 <= value < math.inf:
            raise self.error(f"{what} {word}; expected a positive number")
        return value

    def peer(self, num_ranks: int, what: str, first: int = 0) -> int:
        """A rank at the other side, where ranks count from `first`."""
        value = self.whole(what, -(2**31), 2**31)
        if value == -555 or (value == -1 and "source" in what):
            raise self.error(
                f"{value} means any source; weft matches messages beforehand and takes no wildcards"
            )
        if not first <= value < first + num_ranks:
            raise self.error(f"{what} {value}; ranks are {first} to {first + num_ranks - 1}")
        return value

    def tag(self) -> int:
        """A tag."""
        value = self.whole("a tag", -(2**31), 2**31 - 1)
        if value < 0:
            raise self.error(
                f"tag {value} is negative: any tag, perhaps; weft matches messages beforehand and "
                "takes no wildcards"
            )
        return value

    def element_bytes(self) -> int:
        """Bytes of the datatype that stands next, or of the default where none does."""
        if not self.left:
            return self.default_bytes
        number = self.whole("a datatype", -1, 1000)
        if number not in TYPE_BYTES:
            raise self.error(f"datatype {number}; expected a number of SMPI's, 0 to 55")
        return TYPE_BYTES[number]

    def bytes(self, count: int, element: int) -> int:
        """Bytes of a count of elements."""
        if count * element > MAX_BYTES:
            raise self.error(f"{count} elements of {element} bytes are more than 2^56 bytes")
        return count * element

    def done(self) -> None:
        """Refuse arguments that are left."""
        if self.left:
            raise self.error(f"expected the end of the line, not {self.words[self.at]!r}")


@dataclass
class Call:
    """A rank's part in a collective operation.

    `send` and `recv` are bytes, of one block or of one for each rank; None where the rank does not
    say. `flops` are computed afterwards: the reduction.
    """

    line: Line
    name: str
    send: int | list[int] | None = 0
    recv: int | list[int] | None = None
    root: int = 0
    flops: float = 0.0


def _barrier(line: Line, num_ranks: int) -> Call:
    return Call(line, "barrier")


def _root(line: Line, num_ranks: int) -> int:
    return line.whole("a root", 0, num_ranks - 1) if line.left else 0


def _bcast(line: Line, num_ranks: int) -> Call:
    count = line.whole("a count")
    root = _root(line, num_ranks)
    return Call(line, "bcast", line.bytes(count, line.element_bytes()), root=root)


def _reduce(line: Line, num_ranks: int) -> Call:
    count, flops = line.whole("a count"), line.quantity("an amount of flops")
    root = _root(line, num_ranks)
    size = line.bytes(count, line.element_bytes())
    return Call(line, "reduce", size, root=root, flops=flops)


def _allreduce(line: Line, num_ranks: int) -> Call:
    count, flops = line.whole("a count"), line.quantity("an amount of flops")
    return Call(line, "allreduce", line.bytes(count, line.element_bytes()), flops=flops)


def _scan(line: Line, num_ranks: int) -> Call:
    # The tracer writes it like a message: partner -1, tag 0, and only then the count.
    if line.left > 2:
        line.whole("-1", -1, -1)
        line.whole("0", 0, 0)
    count = line.whole("a count")
    return Call(line, line.action, line.bytes(count, line.element_bytes()))


def _two_counts(line: Line, num_ranks: int) -> Call:
    send, recv = line.whole("a count to send"), line.whole("a count to receive")
    root = _root(line, num_ranks) if line.action in ("gather", "scatter") else 0
    return _two_types(line, line.action, send, recv, root)


def _two_types(
    line: Line, name: str, send: int | list[int] | None, recv: int | list[int] | None, root: int
) -> Call:
    """Datatypes of both sides, which end the line."""
    sizes: list[int | list[int] | None] = []
    for counts in (send, recv):
        element = line.element_bytes()
        if isinstance(counts, list):
            sizes.append([line.bytes(count, element) for count in counts])
        else:
            sizes.append(None if counts is None else line.bytes(counts, element))
    return Call(line, name, sizes[0], sizes[1], root)


def _counts(line: Line, num_ranks: int, what: str) -> list[int]:
    if line.left < num_ranks:
        raise line.error(f"expected {num_ranks} {what}, one for each rank, not {line.left}")
    return [line.whole(what) for _ in range(num_ranks)]


def _gatherv(line: Line, num_ranks: int) -> Call:
    send = line.whole("a count to send")
    # Ranks that are not the root need not say what it receives.
    short = line.left < num_ranks and line.left <= 3
    recv = None if short else _counts(line, num_ranks, "counts to receive")
    return _two_types(line, "gatherv", send, recv, _root(line, num_ranks))


def _scatterv(line: Line, num_ranks: int) -> Call:
    short = line.left <= num_ranks and line.left <= 4
    send = None if short else _counts(line, num_ranks, "counts to send")
    recv = line.whole("a count to receive")
    return _two_types(line, "scatterv", send, recv, _root(line, num_ranks))


def _allgatherv(line: Line, num_ranks: int) -> Call:
    send = line.whole("a count to send")
    recv = _counts(line, num_ranks, "counts to receive")
    # Places in the buffer, one for each rank, may end the line; they do not matter here.
    if line.left > 2 and line.left >= num_ranks:
        line.words = line.words[:-num_ranks]
    if line.left == 1:  # of both sides
        line.words.append(line.words[-1])
    return _two_types(line, "allgatherv", send, recv, 0)


def _reducescatter(line: Line, num_ranks: int) -> Call:
    counts = _counts(line, num_ranks, "counts to receive")
    flops = line.quantity("an amount of flops")
    element = line.element_bytes()
    sizes: list[int] = [line.bytes(count, element) for count in counts]
    return Call(line, "reduce-scatter", sizes, flops=flops)


def _alltoallv(line: Line, num_ranks: int) -> Call:
    line.whole("the size of the send buffer")
    send = _counts(line, num_ranks, "counts to send")
    line.whole("the size of the receive buffer")
    recv = _counts(line, num_ranks, "counts to receive")
    return _two_types(line, "alltoallv", send, recv, 0)


COLLECTIVES: dict[str, Callable[[Line, int], Call]] = {
    "barrier": _barrier,
    "bcast": _bcast,
    "reduce": _reduce,
    "allreduce": _allreduce,
    "scan": _scan,
    "exscan": _scan,
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
#: Actions that change nothing here.
SILENT = ("finalize", "comm_size", "comm_split", "comm_dup", "location")
#: All others.
ALONE = ("init", "compute", "sleep", "send", "isend", "recv", "irecv", "sendrecv", "wait",
         "waitall", "test")  # fmt: skip
ACTIONS = (*SILENT, *ALONE, *COLLECTIVES)


def lower(builder: WorkloadBuilder, calls: list[Call], algorithms: dict[str, str]) -> None:
    """Append a collective to the programs of all ranks.

    Parameters
    ----------
    builder
        Whose programs grow.
    calls
        What each rank says, by rank.
    algorithms
        Algorithm of each collective that does not take its default.

    Raises
    ------
    InputError
        Naming two ranks and their lines, when they call different collectives or disagree about
        root or sizes.
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


def _sizes(calls: list[Call]) -> Any:
    """Sizes as `collective_on` takes them."""
    first = calls[0]
    root = calls[first.root]
    if first.name == "alltoallv":
        sent = np.array([call.send for call in calls], dtype=np.int64)
        taken = np.array([call.recv for call in calls], dtype=np.int64).T
        over = np.argwhere(sent > taken)
        if len(over):
            source, to = map(int, over[0])
            raise _too_much(calls[source], sent[source, to], calls[to], taken[source, to])
        return sent
    if first.name in ("gatherv", "allgatherv"):
        blocks = np.array([call.send for call in calls], dtype=np.int64)
        for taker in calls if first.name == "allgatherv" else [root]:
            if taker.recv is None:
                raise taker.line.error("the root does not say how much it receives from each rank")
            _check_taken(calls, blocks, taker, np.array(taker.recv))
        return blocks
    if first.name == "scatterv":
        if root.send is None:
            raise root.line.error("the root does not say how much it sends to each rank")
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
            raise _disagree(call, first, _says(call), _says(first))
    for call in [root] if KINDS[first.name].rooted else calls:
        if call.recv is not None and call.recv < first.send:  # type: ignore[operator]
            raise _too_much(first, first.send, call, call.recv)
    return first.send


def _check_taken(calls: list[Call], blocks: Any, taker: Call, taken: Any) -> None:
    over = np.flatnonzero(blocks > taken)
    if len(over):
        rank = int(over[0])
        raise _too_much(calls[rank], blocks[rank], taker, taken[rank])


def _says(call: Call) -> str:
    if isinstance(call.send, list):
        return f"has blocks of {', '.join(map(str, call.send[:8]))} bytes"
    return f"has {call.send} bytes"


def _disagree(call: Call, other: Call, ours: str, theirs: str) -> InputError:
    return call.line.error(
        f"rank {call.line.rank} {ours}, and rank {other.line.rank} {theirs} in its collective of "
        f"the same turn, at {other.line.file}:{other.line.number}"
    )


def _too_much(sender: Call, size: Any, taker: Call, taken: Any) -> InputError:
    return taker.line.error(
        f"rank {taker.line.rank} takes {taken} bytes of rank {sender.line.rank}, which sends "
        f"{size}, at {sender.line.file}:{sender.line.number}"
    )


_LINE = re.compile(r"\s*p?(\d{1,10})[ \t]+([A-Za-z_]+)(?:[ \t\r\n]|$)", re.ASCII)
_LAST = 2**31 - 2
#: Longest computation, 30 million years: sums of many stay numbers.
MAX_NS = 1e24


def _significant(text: str) -> str:
    """The first line that is neither blank nor a comment."""
    lines = (line.strip() for line in text.split("\n"))
    return next((line for line in lines if line and not line.startswith("#")), "")


def _is_trace(text: str) -> bool:
    match = _LINE.match(_significant(text[:10_000]))
    return match is not None and match[2].lower() in ACTIONS


def _find(name: str, path: Path) -> Path:
    """A file of a list: beside the list, or else where weft runs, as for SimGrid."""
    beside = (path if path.is_dir() else path.parent) / name
    return beside if _exists(beside) else Path(name)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # what is no name of a file, such as one too long
        return False


def _sniff(text: str, path: Path) -> bool:
    if _is_trace(text):
        return True
    name = _significant(text[:10_000])
    try:
        with _find(name, path).open("rb") as stream:
            return _is_trace(stream.read(10_000).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return False


@workload_reader("tit", suffixes=(".tit",), sniff=_sniff)
def read(
    text: str,
    file: str,
    *,
    flops_per_s: float = 1e9,
    tags: bool | None = None,
    algorithms: tuple[str, ...] = (),
) -> Workload:
    """Time-independent traces of SimGrid's SMPI: one file for all ranks, a list of files, a folder.

    All actions are of all ranks, as in SimGrid: traces do not say which ranks a communicator has.
    Collectives become messages by the algorithms that MPICH chooses.

    Parameters
    ----------
    text
        The trace, or the names of the files of the ranks, one a line.
    file
        Where it stands: for messages, and to find the files of a list.
    flops_per_s
        Speed of a rank, which turns the flops of computations and reductions into time.
    tags
        Whether sends and receives state their tag, as since SimGrid 3.20; the number of their
        arguments tells when left out.
    algorithms
        Of collectives, by the names that they are listed under, such as ``allreduce-ring``.

    Raises
    ------
    InputError
        With file and line: on what is no action, arguments that are missing or out of range,
        waits for what was not begun, ranks that are missing, in two files, or disagree about a
        collective, receives from any source or of any tag, and messages without their other side.
    """
    if not 0 < flops_per_s < math.inf:
        raise InputError(f"flops_per_s is {flops_per_s}; expected a positive number")
    chosen: dict[str, str] = {}
    for name in algorithms:
        facts = collective[name].facts
        chosen[facts["collective"]] = facts["algorithm"]
    programs = _programs(text, file)
    if tags is None:
        tags = _states_tags(programs)
    return _Replay(file, programs, flops_per_s, tags, chosen).run()


# -- files and lines -------------------------------------------------------------------------------


@dataclass
class _Program:
    """The lines of one rank, all of one file."""

    file: str
    lines: list[tuple[int, str]] = field(default_factory=list)
    actions: set[str] = field(default_factory=set)

    def line(self, at: int, rank: int) -> Line:
        """The line at a place, taken apart."""
        number, text = self.lines[at]
        words = text.split()
        return Line(self.file, number, rank, words[1].lower(), words[2:])


def _programs(text: str, file: str) -> list[_Program]:
    """Lines of all ranks, in the order of the ranks."""
    found: dict[int, _Program] = {}
    if _is_trace(text):
        _split(text, file, found)
    else:
        seen: dict[Path, int] = {}
        for number, name in enumerate(text.split("\n"), 1):
            given = name.strip()
            if not given or given.startswith("#"):
                continue
            path = _find(given, Path(file))
            if path in seen:
                raise InputError(
                    f"{given} is there already, in line {seen[path]}", file=file, line=number
                )
            seen[path] = number
            if not _exists(path):
                raise InputError(
                    f"expected a rank and an action, or the name of a file, not {given[:60]!r}",
                    file=file,
                    line=number,
                )
            _split(read_text(path), str(path), found)
    if not found:
        raise InputError("has neither actions nor names of files", file=file)
    count = max(found) + 1
    if len(found) < count:
        missing = next(rank for rank in range(count) if rank not in found)
        raise InputError(
            f"rank {missing} has no line; ranks go up to {count - 1}, in {found[count - 1].file}",
            file=file,
        )
    return [found[rank] for rank in range(count)]


def _split(text: str, file: str, found: dict[int, _Program]) -> None:
    """Add the lines of a file to the programs of their ranks."""
    here: dict[str, _Program] = {}
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
                f"there is no action {shown(match[2])}; SMPI replays {', '.join(ACTIONS)}",
                file=file,
                line=number,
            )
        program = here.get(match[1])
        if program is None:
            program = here[match[1]] = _Program(file)
        program.lines.append((number, line))
        program.actions.add(action)
    for name, program in here.items():
        rank = int(name)
        if rank in found:
            raise InputError(
                f"rank {rank} has lines in {found[rank].file} already",
                file=file,
                line=program.lines[0][0],
            )
        found[rank] = program


def _lines_of(programs: list[_Program], actions: tuple[str, ...]) -> Iterator[Line]:
    """Lines of some actions, of all ranks."""
    for rank, program in enumerate(programs):
        if program.actions.isdisjoint(actions):
            continue
        for at in range(len(program.lines)):
            line = program.line(at, rank)
            if line.action in actions:
                yield line


def _states_tags(programs: list[_Program]) -> bool:
    """Whether messages state tags: they have 3 or 4 arguments with one and 2 or 3 without."""
    for line in _lines_of(programs, ("send", "isend", "recv", "irecv")):
        if line.left != 3:
            return line.left > 3
    return all(line.left > 0 for line in _lines_of(programs, ("wait",)))


def _counts_from_one(programs: list[_Program]) -> bool:
    """Whether partners in sendrecv are numbers of processes, from 1, as SimGrid's tracer writes.

    Somebody is partner 0 where they are ranks; where they are not, somebody may be the last.
    """
    partners = {
        word
        for line in _lines_of(programs, ("sendrecv",))
        for word in (line.words[1:2] + line.words[3:4])
    }
    return str(len(programs)) in partners and "0" not in partners


# -- replay ----------------------------------------------------------------------------------------


class _Replay:
    """Advances the programs of all ranks from one collective to the next."""

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
        #: Bytes of an element by rank; 0 before init.
        self._element = [0] * self._num_ranks
        #: By rank: handles of what was begun and not waited for, by source, destination and tag,
        #: and how many of each were waited for.
        self._open: list[dict[tuple[int, int, int], deque[int]]]
        self._open = [{} for _ in programs]
        self._waited: list[set[tuple[int, int, int]]] = [set() for _ in programs]
        #: First operations of lines, and the lines.
        self._starts: list[int] = []
        self._lines: list[tuple[str, int]] = []
        self._unknown_size = False
        self._said: dict[str, int] = {}

    def run(self) -> Workload:
        while True:
            calls = [self._advance(rank) for rank in range(self._num_ranks)]
            there = [call for call in calls if call is not None]
            if not there:
                break
            if len(there) < len(calls):
                rank = calls.index(None)
                raise there[0].line.error(
                    f"rank {there[0].line.rank} calls it, and rank {rank} ends without: "
                    f"{self._programs[rank].file}"
                )
            self._mark(there[0].line)
            lower(self._builder, there, self._algorithms)
            for call in there:
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
            "flops": f"ranks compute {self._flops_per_s:g} flop/s; {{}} computations",
            "init": "{} ranks have no init; counts without a datatype are taken as bytes",
            "test": "test does not wait; {} of them",
            "late": "{} waits name what was waited for already, and do nothing",
            "comm": "{} communicators are made, but traces do not say of whom: all collectives "
            "are of all ranks",
        }
        notes += [text.format(self._said[key]) for key, text in texts.items() if key in self._said]
        if not self._tags:
            notes.append("messages state no tags; all have tag 0")
        if self._from_one:
            notes.append("partners in sendrecv count from 1, as SimGrid's tracer writes them")

    def _say(self, key: str) -> None:
        self._said[key] = self._said.get(key, 0) + 1

    # -- one rank ----------------------------------------------------------------------------------

    def _advance(self, rank: int) -> Call | None:
        """Go on to the rank's next collective; None at its end."""
        program = self._programs[rank]
        while self._at[rank] < len(program.lines):
            line = program.line(self._at[rank], rank)
            self._at[rank] += 1
            action = line.action
            if action in SILENT:
                if action in ("comm_split", "comm_dup"):
                    self._say("comm")
                continue
            if action == "init":
                # SMPI looks only whether there is an argument: then elements are doubles.
                self._element[rank] = 8 if line.words else 1
                continue
            if not self._element[rank]:
                self._element[rank] = 1
                self._say("init")
            line.default_bytes = self._element[rank]
            if action in COLLECTIVES:
                call = COLLECTIVES[action](line, self._num_ranks)
                line.done()
                return call
            self._mark(line)
            self._act(rank, line)
        return None

    def _act(self, rank: int, line: Line) -> None:
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

    def _compute(self, line: Line, flops: float) -> None:
        if flops:
            self._say("flops")
            self._spend(line, flops * self._ns_per_flop)

    def _spend(self, line: Line, duration_ns: float) -> None:
        if duration_ns > MAX_NS:
            raise line.error(f"takes {duration_ns:g} ns; expected at most {MAX_NS:g}")
        self._builder.calc(line.rank, duration_ns)

    def _message(self, rank: int, line: Line) -> None:
        sends = "send" in line.action
        peer = line.peer(self._num_ranks, "a destination" if sends else "a source")
        tag = line.tag() if self._tags else 0
        # Below 1, a receive takes whatever size comes.
        count = line.whole("a count", 0 if sends else -1)
        size = line.bytes(max(count, 0), line.element_bytes())
        line.done()
        if not sends and count < 1:
            size, self._unknown_size = MAX_BYTES, True
        handle = getattr(self._builder, line.action)(rank, peer, size, tag)
        if line.action.startswith("i"):
            key = (rank, peer, tag) if sends else (peer, rank, tag)
            self._open[rank].setdefault(key, deque()).append(handle)

    def _exchange(self, rank: int, line: Line) -> None:
        def partner(what: str) -> int:
            if line.left and line.words[line.at] == "-666":  # MPI_PROC_NULL
                line.at += 1
                return -1
            return line.peer(self._num_ranks, what, int(self._from_one)) - self._from_one

        send, to = line.whole("a count to send"), partner("a destination")
        recv, source = line.whole("a count to receive"), partner("a source")
        send_bytes = line.bytes(send, line.element_bytes())
        recv_bytes = line.bytes(recv, line.element_bytes())
        line.done()
        self._builder.sendrecv(rank, to, send_bytes, source, recv_bytes)

    def _wait(self, rank: int, line: Line) -> None:
        begun = self._open[rank]
        if not self._tags:
            # A wait is for what was begun last.
            if line.action == "wait" and not begun:
                raise line.error("there is nothing to wait for")
            key = max(begun, key=lambda key: begun[key][-1]) if begun else (0, 0, 0)
        else:
            source = line.peer(self._num_ranks, "a source")
            key = (source, line.peer(self._num_ranks, "a destination"), line.tag())
            line.done()
        if line.action == "test":
            self._say("test")
            return
        if key not in begun:
            if key in self._waited[rank]:
                self._say("late")
                return
            raise line.error(
                f"rank {rank} began no message from {key[0]} to {key[1]} with tag {key[2]}"
            )
        handles = begun[key]
        handle = handles.popleft() if self._tags else handles.pop()
        if not handles:
            del begun[key]
        self._waited[rank].add(key)
        self._builder.wait(rank, handle)

    def _wait_all(self, rank: int) -> None:
        handles = sorted(handle for queue in self._open[rank].values() for handle in queue)
        if handles:
            self._waited[rank].update(self._open[rank])
            self._open[rank].clear()
            self._builder.wait(rank, handles)

    # -- where operations come from ----------------------------------------------------------------

    def _mark(self, line: Line) -> None:
        self._starts.append(self._builder.num_ops)
        self._lines.append((line.file, line.number))

    def _place_of(self, rank: int, place: int) -> tuple[str, int]:
        offset, handles = self._builder.in_order()
        handle = int(handles[offset[rank] + place])
        return self._lines[bisect_right(self._starts, handle) - 1]


def _with_sizes(workload: Workload) -> Workload:
    """Receives of unknown size, as large as what comes."""
    size = workload.size_bytes.copy()
    open_ = (workload.kind == Kind.RECV) & (size == MAX_BYTES)
    size[open_] = size[workload.match[np.flatnonzero(open_)]]
    return replace(workload, size_bytes=size)
