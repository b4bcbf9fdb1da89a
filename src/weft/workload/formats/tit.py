"""SMPI's time-independent traces: what each rank of an MPI program did, without times.

Desprez, Markomanolis, Quinson and Suter, "Assessing the performance of MPI applications through
time-independent trace replay", PSTI 2011; the actions are those that SimGrid's ``smpi_replay``
takes. A line is a rank, an action and its arguments: ``3 send 4 7 1000 1``. All ranks may stand in
one file, or each in its own; then what is read is the list of their names, or their folder.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.core.units import MAX_BYTES
from weft.fabrics.formats.records import shown
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective
from weft.workload.formats.tit_actions import ACTIONS, COLLECTIVES, SILENT, Call, Line
from weft.workload.formats.tit_collectives import lower
from weft.workload.formats.workload_format_registry import at_operation, workload_reader
from weft.workload.workload import Kind, Workload

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
