"""MSCCL's XML: the schedule of a collective for GPUs, as msccl-tools and others write it.

Each GPU has buffers of chunks, i(nput), o(utput) and s(cratch), and thread blocks, which run at the
same time. A thread block does its steps one after the other; it sends to at most one GPU and
receives from at most one, on a channel. A step may wait for one of another thread block::

    <algo name="pair" proto="Simple" nchannels="1" ngpus="2" coll="allgather" inplace="0">
      <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
        <tb id="0" send="1" recv="1" chan="0">
          <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1"
                depid="-1" deps="-1" hasdep="0"/>
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from xml.parsers import expat

import numpy as np

from weft.core.errors import InputError
from weft.core.units import Bytes
from weft.fabrics.formats.records import shown
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives.blocks import evenly
from weft.workload.formats.workload_format_registry import workload_reader
from weft.workload.workload import Kind, Workload

#: What a step does, by its type: r(eceive), f(etch the source), c(ombine both), w(rite the
#: destination), s(end).
TYPES = {
    "s": "fs", "r": "rw", "rcs": "rws", "rrc": "rfcw", "rrs": "rfcs", "rrcs": "rfcws",
    "cpy": "fw", "re": "fcw", "nop": "",
}  # fmt: skip
#: Most steps of a schedule, since what has ended before each step is kept.
MOST_STEPS = 50_000
MOST = 2**20
#: How often a chunk contains the chunk of each rank's input, by rank and index.
Chunk = Counter[tuple[int, int]]
#: Rank, buffer and index of a chunk.
Cell = tuple[int, str, int]


@dataclass
class _Step:
    """A step; `before`: the steps that it waits for, `sender` the one that it receives from."""

    line: int
    rank: int
    does: str
    ends: dict[str, tuple[str, int]]
    count: int
    send: int
    receive: int
    channel: int
    before: list[int] = field(default_factory=list)
    sender: int = -1
    size_bytes: int = 0


@workload_reader("msccl", suffixes=(".xml",), sniff=lambda text, path: "<algo " in text)
def read(text: str, file: str, *, size: Bytes, reduce_ns_per_byte: float = 0.0) -> Workload:
    """Read a schedule in MSCCL's XML, and refuse one that does not do what its collective requires.

    Parameters
    ----------
    size
        Bytes of the buffer of an allreduce, broadcast or reduce, else of the block of one rank.
    reduce_ns_per_byte
        Time to combine a byte with another.

    Raises
    ------
    InputError
        If the text is not such XML, a step reads a chunk that is not there, steps use the same
        chunk in an order left to chance, steps wait for each other, or an output is wrong at the
        end; the error gives file and line.
    """
    schedule = _Schedule(text, file)
    forms = [form for form in ("outofplace", "inplace") if schedule.algo.get(form) == "1"]
    for form in forms or ["outofplace"]:
        schedule.follow(size, in_place=form == "inplace")
    return schedule.workload(reduce_ns_per_byte)


class _Schedule:
    def __init__(self, text: str, file: str):
        self._file = file
        self.algo: dict[str, str] = {}
        self._steps: list[_Step] = []
        self._gpus: dict[int, tuple[int, dict[str, int]]] = {}
        #: Steps of each thread block, by GPU and block, and the other steps that some wait for.
        self._blocks: dict[tuple[int, int], list[int]] = {}
        self._waits: dict[int, tuple[int, int]] = {}
        self._path: list[str] = []
        self._tb = 0, 0, 0, 0, 0
        parser = self._parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._element
        parser.EndElementHandler = lambda _: self._path.pop()
        try:
            parser.Parse(text, True)
        except expat.ExpatError as error:
            raise self._error(f"not XML: {expat.ErrorString(error.code)}", error.lineno) from None
        self._define()
        self._join()
        self._order = self._ordered()

    def _error(self, message: str, line: int | None = None) -> InputError:
        line = self._parser.CurrentLineNumber if line is None else line
        return InputError(message, file=self._file, line=line)

    # -- the text ----------------------------------------------------------------------------------

    def _doctype(self, *_: object) -> None:
        raise self._error("a document type, which may define entities; expected none")

    def _number(self, given: dict[str, str], name: str, least: int = 0) -> int:
        text = given.get(name, "none")
        digits = text.removeprefix("-").isdecimal() and len(text) < 9
        if not digits or not least <= int(text) <= MOST:
            raise self._error(f"{name} is {shown(text)}; expected {least} to {MOST}")
        return int(text)

    def _element(self, name: str, given: dict[str, str]) -> None:
        if ["algo", "gpu", "tb", "step"][len(self._path) : len(self._path) + 1] != [name]:
            raise self._error(f"<{name}> at depth {len(self._path)}; expected algo, gpu, tb, step")
        self._path.append(name)
        if name == "algo":
            self.algo, self._line = given, self._parser.CurrentLineNumber
            self.ranks = self._number(given, "ngpus", 1)
            self._root = self._number({"root": "0", **given}, "root")
        elif name == "gpu":
            rank = self._number(given, "id")
            chunks = {each: self._number(given, f"{each}_chunks") for each in "ios"}
            if rank in self._gpus:
                raise self._error(f"gpu {rank} is there twice")
            self._gpus[rank] = self._parser.CurrentLineNumber, chunks
        elif name == "tb":
            rank, block = next(reversed(self._gpus)), self._number(given, "id")
            if (rank, block) in self._blocks:
                raise self._error(f"gpu {rank} has thread block {block} twice")
            self._blocks[rank, block] = []
            peers = self._number(given, "send", -1), self._number(given, "recv", -1)
            self._tb = rank, block, *peers, self._number(given, "chan")
        else:
            self._step(given)

    def _step(self, given: dict[str, str]) -> None:
        rank, block, *peers = self._tb
        send, receive, channel = peers
        steps, kind = self._blocks[rank, block], given.get("type", "")
        if kind not in TYPES or len(self._steps) >= MOST_STEPS:
            known = f"expected at most {MOST_STEPS:,} steps of types {', '.join(TYPES)}"
            raise self._error(f"a step of type {shown(kind)}; {known}")
        if self._number(given, "s") != len(steps):
            raise self._error(f"step {given['s']}; expected {len(steps)}")
        does, count, ends = TYPES[kind], self._number(given, "cnt", int(kind != "nop")), {}
        for letter, end in (("f", "src"), ("w", "dst")):
            if letter in does:
                buffer, first = given.get(f"{end}buf", ""), self._number(given, f"{end}off")
                if first + count > (has := self._gpus[rank][1].get(buffer, 0)):
                    what = f"chunks {first} to {first + count - 1} of {end}buf {shown(buffer)}"
                    raise self._error(f"{what}; gpu {rank} has {has}")
                ends[letter] = buffer, first
        for letter, peer in (("s", send), ("r", receive)):
            if letter in does and peer < 0:
                raise self._error(f"{kind} in a thread block without a GPU for it")
        if self._number(given, "depid", -1) >= 0:
            self._waits[len(self._steps)] = int(given["depid"]), self._number(given, "deps")
        line = self._parser.CurrentLineNumber
        self._steps.append(_Step(line, rank, does, ends, count, send, receive, channel, steps[-1:]))
        steps.append(len(self._steps) - 1)

    def _define(self) -> None:
        """Set the collective, and the numbers of blocks of its input and output."""
        n, name = self.ranks, self.algo.get("coll", "")
        self.name = name.lower().replace("_", "").replace("-", "")
        blocks = {"allreduce": (1, 1), "reduce": (1, 1), "broadcast": (1, 1)}
        blocks |= {"allgather": (1, n), "reducescatter": (n, 1), "alltoall": (n, n)}
        if self.name not in blocks or set(self._gpus) != set(range(n)) or self._root >= n:
            known = f"expected {', '.join(blocks)} of gpu 0 to {n - 1}"
            raise self._error(f"coll {shown(name)} of {len(self._gpus)} GPUs; {known}", self._line)
        if not self._steps:
            raise self._error("no steps; expected one or more", self._line)
        self._in, self._out = blocks[self.name]
        most = max(max(chunks["i"], chunks["o"]) for _, chunks in self._gpus.values())
        self.chunks = most // max(self._in, self._out)
        for line, chunks in self._gpus.values():
            for buffer, count in (("i", self._in * self.chunks), ("o", self._out * self.chunks)):
                # In place, a buffer that is a part of the other one may be left out.
                left_out = chunks[buffer] == 0 and self.algo.get("inplace") == "1"
                if chunks[buffer] != count and not (left_out and self.chunks):
                    raise self._error(f"{chunks[buffer]} {buffer}_chunks; expected {count}", line)

    def _join(self) -> None:
        """Add the steps that others wait for: by dependency, or because these send to them."""
        for index, (block, at) in self._waits.items():
            steps = self._blocks.get((self._steps[index].rank, block), [])
            if at >= len(steps):
                what = f"there is no step {at} of thread block {block}"
                raise self._error(what, self._steps[index].line)
            self._steps[index].before.append(steps[at])
        ends: dict[tuple[int, int, int], dict[str, list[list[int]]]] = {}
        for (rank, _), steps in self._blocks.items():
            for letter in "sr":
                some = [index for index in steps if letter in self._steps[index].does]
                if some:
                    step = self._steps[some[0]]
                    key = (rank, step.send) if letter == "s" else (step.receive, rank)
                    of = ends.setdefault((*key, step.channel), {"s": [], "r": []})
                    of[letter].append(some)
        for (source, target, channel), of in ends.items():
            between = f"from gpu {source} to gpu {target} on channel {channel}"
            for twice in of["s"][1:] + of["r"][1:]:
                line = self._steps[twice[0]].line
                raise self._error(f"two thread blocks have messages {between}", line)
            for out, into in zip_longest(*(of[letter][0] if of[letter] else [] for letter in "sr")):
                line = self._steps[out if into is None else into].line
                if out is None or into is None:
                    lost = "sent" if out is None else "received"
                    raise self._error(f"nothing is {lost} {between} here", line)
                if self._steps[out].count != self._steps[into].count:
                    raise self._error(f"not the number of chunks that is sent {between}", line)
                self._steps[into].sender = out
                self._steps[into].before.append(out)

    def _ordered(self) -> list[int]:
        """Return the steps in an order in which each is after those that it waits for."""
        after: list[list[int]] = [[] for _ in self._steps]
        waiting = [len(step.before) for step in self._steps]
        for index, step in enumerate(self._steps):
            for other in step.before:
                after[other].append(index)
        order = [index for index, count in enumerate(waiting) if not count]
        for index in order:
            for other in after[index]:
                waiting[other] -= 1
                if not waiting[other]:
                    order.append(other)
        if len(order) < len(self._steps):
            stuck = next(index for index, count in enumerate(waiting) if count)
            raise self._error("never begins: steps wait for each other", self._steps[stuck].line)
        return order

    # -- the judgement -----------------------------------------------------------------------------

    def _cells(self, rank: int, buffer: str, first: int, count: int, in_place: bool) -> list[Cell]:
        """Return chunks; in place, the smaller of input and output is the rank's part of both."""
        if in_place and buffer != "s":
            larger = "o" if self._out > self._in else "i"
            first += rank * self.chunks if buffer != larger and self._in != self._out else 0
            buffer = larger
        return [(rank, buffer, index) for index in range(first, first + count)]

    def follow(self, size: int, *, in_place: bool) -> None:
        """Follow all chunks; refuse what depends on chance, and what the collective forbids."""
        sizes = evenly(size, self.chunks).tolist()
        has: dict[Cell, Chunk] = {}
        for rank in [self._root] if self.name == "broadcast" else range(self.ranks):
            inputs = self._cells(rank, "i", 0, self._in * self.chunks, in_place)
            has |= {cell: Counter([(rank, index)]) for index, cell in enumerate(inputs)}
        sent: dict[int, list[Chunk]] = {}
        #: Bits of the steps that have ended before a step, and the last uses of each chunk.
        ended = [0] * len(self._steps)
        writer: dict[Cell, int] = {}
        readers: dict[Cell, list[int]] = {}
        for index in self._order:
            step = self._steps[index]
            for other in step.before:
                ended[index] |= ended[other] | 1 << other
            source, target = (
                self._cells(step.rank, *step.ends[end], step.count, in_place)
                if end in step.ends
                else []
                for end in "fw"
            )
            operands = target if "c" in step.does and "r" not in step.does else []
            reads = [*source, *operands]
            for cell in {*reads, *target}:
                others = [writer[cell]] if cell in writer else []
                for other in others + (readers.get(cell, []) if cell in target else []):
                    if other != index and not ended[index] >> other & 1:
                        line = self._steps[other].line
                        what = f"uses {_name(cell)}, as line {line} does, in no order"
                        raise self._error(what, step.line)
            for cell in reads:
                readers.setdefault(cell, []).append(index)
                if cell not in has:
                    raise self._error(f"reads {_name(cell)}, which has no data", step.line)
            values = sent.pop(step.sender) if step.sender >= 0 else [has[cell] for cell in operands]
            own = [has[cell] for cell in source]
            if "c" in step.does:
                values = [mine + other for mine, other in zip(own, values, strict=True)]
            values = values or own
            for cell, value in zip(target, values, strict=False):
                has[cell], writer[cell], readers[cell] = value, index, []
            step.size_bytes = sum(sizes[next(iter(each))[1] % self.chunks] for each in values)
            if "s" in step.does:
                sent[index] = values
        for rank in [self._root] if self.name == "reduce" else range(self.ranks):
            outputs = self._cells(rank, "o", 0, self._out * self.chunks, in_place)
            for index, cell in enumerate(outputs):
                wrong = _difference(has.get(cell, Counter()), self._wanted(rank, index))
                if wrong:
                    where = f"{self.name}: at the end, chunk {index} of the output of gpu {rank}"
                    written = cell in writer
                    line = self._steps[writer[cell]].line if written else self._gpus[rank][0]
                    raise self._error(f"{where} {wrong}", line)

    def _wanted(self, rank: int, index: int) -> Chunk:
        """Return what a chunk of the output has at the end."""
        block, at = divmod(index, self.chunks)
        own = rank * self.chunks + at
        one = {"allgather": (block, at), "alltoall": (block, own), "broadcast": (self._root, index)}
        if self.name in one:
            return Counter([one[self.name]])
        part = own if self.name == "reducescatter" else index
        return Counter((each, part) for each in range(self.ranks))

    # -- the workload ------------------------------------------------------------------------------

    def workload(self, reduce_ns_per_byte: float) -> Workload:
        """Return the workload: steps wait for what they receive; a send is over when it begins."""
        rows: list[tuple[int, int, int, int, int, float]] = []
        waits: list[tuple[int, int]] = []
        last: dict[int, int] = {}
        for (rank, _), steps in sorted(self._blocks.items()):
            for index in steps:
                step, first = self._steps[index], len(rows)
                if "r" in step.does:
                    rows.append((rank, Kind.RECV, step.receive, step.size_bytes, step.channel, 0.0))
                duration = reduce_ns_per_byte * step.size_bytes if "c" in step.does else 0.0
                if duration or not set("rs") & set(step.does):
                    rows.append((rank, Kind.CALC, -1, 0, 0, duration))
                if "s" in step.does:
                    rows.append((rank, Kind.SEND, step.send, step.size_bytes, step.channel, 0.0))
                last[index] = len(rows) - 1
                waits += [(at, at - 1) for at in range(first + 1, len(rows))]
                waits += [(first, ~other) for other in step.before if other != step.sender]
        on = np.array([last[~other] if other < 0 else other for _, other in waits], dtype=np.int64)
        ranks, kinds, peers, sizes, tags, durations = map(np.array, zip(*rows, strict=True))
        builder = WorkloadBuilder(self.ranks, name=Path(self._file).stem)
        builder.operations(
            ranks, kinds, peer=peers, size_bytes=sizes, tag=tags, duration_ns=durations
        )
        builder.requires([op for op, _ in waits], on, start=kinds[on] == Kind.SEND)
        builder.notes.append(
            f"{self.name} of {self.ranks} GPUs in {len(self._steps)} steps: the output is correct, "
            "whatever the order in which thread blocks run"
        )
        return builder.build()


def _name(cell: Cell) -> str:
    return f"chunk {cell[2]} of {cell[1]} of gpu {cell[0]}"


def _difference(value: Chunk, wanted: Chunk) -> str:
    """Say what a chunk has too little or too much, with one example of each; empty for nothing."""
    few, extra = sorted(wanted - value), sorted(value - wanted)
    text = [f"lacks chunk {index} of gpu {rank}" for rank, index in few[:1]]
    text += [f"has chunk {index} of gpu {rank} once too often" for rank, index in extra[:1]]
    return " and ".join(text)
