"""Chakra execution traces of MLCommons: what each processor of a distributed training computes.

The format is ``schema/protobuf/et_def.proto`` of https://github.com/mlcommons/chakra, version 0.0.4
and later. A rank has a file ``NAME.RANK.et`` of messages, each behind its length: metadata, then
nodes, which depend on each other. The meaning of attributes is that of ASTRA-sim
(``astra-sim/workload/Workload.cc``, ``system/astraccl/native_collectives``): sizes of collectives
are the bytes that each rank contributes, groups have names of numbers.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.core.units import MAX_BYTES
from weft.fabrics.formats.records import shown
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.collectives.lowering import chosen_algorithms
from weft.workload.formats.protobuf import WireError, data_of, fields, integers, messages, whole
from weft.workload.formats.workload_format_registry import workload_reader
from weft.workload.matching import OperationError
from weft.workload.workload import Kind, Workload

_NAME = re.compile(r"(?:.*[./])?(\d{1,9})\.et(?:\.gz)?", re.ASCII)
_GZIP = b"\x1f\x8b"
_SUFFIXES = (".et", ".et.gz", ".tar", ".tar.gz", ".tgz")

INVALID, METADATA, MEM_LOAD, MEM_STORE, COMP, SEND, RECV, COLLECTIVE, STORAGE, BATCH, CHECKPOINT = (
    range(11)
)
#: Collective of each value of `comm_type`, and whether its size is that of all blocks of a rank.
_COLLECTIVES = (
    ("allreduce", False), ("reduce", False), ("allgather", False), ("gather", False),
    ("scatter", True), ("bcast", False), ("alltoall", True), ("reduce-scatter", True),
    ("reduce-scatter", True), ("barrier", False),
)  # fmt: skip
#: Attributes that matter; all others are left out.
_ATTRIBUTES = {
    name.encode(): name
    for name in (
        "is_cpu_op", "runtime", "num_ops", "tensor_size", "comm_type", "comm_size", "comm_src",
        "comm_dst", "comm_tag", "pg_name", "stream", "schema",
    )
}  # fmt: skip
#: Fields of attributes whose values are not plain integers: how they are read.
_VALUES: dict[int, Callable[[Any], Any]] = {
    3: lambda value: struct.unpack("<d", value)[0],
    5: lambda value: struct.unpack("<f", value)[0],
    7: lambda value: value - 2**64 if value >= 2**63 else value,
    9: lambda value: value - 2**64 if value >= 2**63 else value,
    15: lambda value: (value >> 1) ^ -(value & 1),
    17: lambda value: (value >> 1) ^ -(value & 1),
    19: lambda value: struct.unpack("<I", value)[0],
    21: lambda value: struct.unpack("<Q", value)[0],
    23: lambda value: struct.unpack("<i", value)[0],
    25: lambda value: struct.unpack("<q", value)[0],
    29: lambda value: data_of(value).decode("utf-8"),
}
#: Number of processors of a rank that a workload can tell apart.
_MOST_PROCESSORS = 256
#: Longest time of a node, 30 million years, as in traces of SMPI.
_MAX_NS = 1e24


def _sniff(data: str | bytes, path: Path) -> bool:
    if isinstance(data, str):
        return any(_NAME.fullmatch(name) for name in data.split("\n"))
    return data[257:262] == b"ustar" or (
        data.startswith(_GZIP) and str(path).endswith(_SUFFIXES[1:])
    )


@dataclass
class _Node:
    """One node of a trace."""

    id: int = 0
    type: int = INVALID
    duration_us: int = 0
    control: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    inputs: bytes = b""


@dataclass
class _Trace:
    """The nodes of one rank, by id."""

    file: str
    rank: int
    nodes: dict[int, _Node]

    def error(self, node: _Node, message: str) -> InputError:
        return InputError(f"node {node.id}: {message}", file=self.file)

    def number(
        self, node: _Node, name: str, default: int | None = None, most: int = MAX_BYTES
    ) -> int:
        """Return an attribute that is a number from 0."""
        value = node.attributes.get(name, default)
        if value is None:
            raise self.error(node, f"has no {name}")
        if isinstance(value, str | bytes) or not 0 <= value <= most:
            raise self.error(node, f"{name} is {shown(str(value))}; expected 0 to {most}")
        return int(value)


@workload_reader("chakra", suffixes=_SUFFIXES, sniff=_sniff, binary=True)
def read(
    text: str | bytes,
    file: str,
    *,
    groups_file: str | None = None,
    algorithms: tuple[str, ...] = (),
    flops_per_s: float | None = None,
    memory_gbps: float | None = None,
) -> Workload:
    """Read Chakra execution traces (schema 0.0.4 and later): a folder, a tar archive, or one rank.

    Nodes are calculations, messages and collectives, which wait for the nodes of the same rank that
    they depend on. The n-th collective of each rank of a group belongs together.

    Parameters
    ----------
    text
        Contents of the archive or trace, or the list of the folder's files.
    file
        Name of the folder or file.
    groups_file
        JSON file with the ranks of each process group, ``{"1": [0, 1]}``, as ASTRA-sim has it; it
        takes precedence over the groups that traces state. Other groups are of all ranks.
    algorithms
        Algorithms of collectives by registered name, such as ``allreduce-ring``.
    flops_per_s
        Rate of computations that have a number of operations, but no duration.
    memory_gbps
        Rate of memory nodes that have a size, but no duration.

    Raises
    ------
    InputError
        If a file is truncated or no trace, a rank has no file, a node is unknown, occurs twice or
        lacks an attribute, a group is unknown, the collectives of its ranks disagree, a message has
        no match, or nodes wait for each other; the error names file and node.
    """
    for name, rate in (("flops_per_s", flops_per_s), ("memory_gbps", memory_gbps)):
        if rate is not None and not 0 < rate < float("inf"):
            raise InputError(f"{name} is {rate}; expected a positive number")
    traces = _traces(text, file)
    lowering = _Lowering(file, traces, flops_per_s or 0.0, memory_gbps or 0.0)
    lowering.find_groups(groups_file)
    return lowering.run(chosen_algorithms(algorithms))


# -- files -----------------------------------------------------------------------------------------


def _traces(text: str | bytes, file: str) -> list[_Trace]:
    """Return the traces of all ranks."""
    found: dict[int, _Trace] = {}
    cache: dict[bytes, tuple[str, Any]] = {}
    try:
        for name, stream in _streams(text, file):
            match = _NAME.fullmatch(name)
            rank = int(match[1]) if match else 0
            if rank in found:
                raise InputError(f"rank {rank} is in {found[rank].file} already", file=name)
            found[rank] = _Trace(name, rank, _nodes(stream, name, cache))
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputError(f"is not a readable archive: {error}", file=file) from None
    if not found:
        raise InputError("has no traces; expected files such as NAME.0.et", file=file)
    missing = next((rank for rank in range(len(found)) if rank not in found), None)
    if missing is not None:
        raise InputError(
            f"rank {missing} has no trace; the last of {len(found)} is rank {max(found)}", file=file
        )
    return [found[rank] for rank in range(len(found))]


def _streams(text: str | bytes, file: str) -> Iterator[tuple[str, BinaryIO]]:
    """Yield name and contents of each trace."""
    if isinstance(text, str):
        for name in filter(_NAME.fullmatch, text.split("\n")):
            with (Path(file) / name).open("rb") as stream:
                yield str(Path(file) / name), _unpacked(stream)
        return
    if not file.endswith((".et", ".et.gz")):
        if not text.startswith(_GZIP) and text[-1024:] != bytes(1024):
            raise InputError("ends before the end of the archive", file=file)
        with tarfile.open(fileobj=io.BytesIO(text)) as archive:
            for member in archive:
                if member.isfile() and _NAME.fullmatch(member.name):
                    inner = archive.extractfile(member)
                    assert isinstance(inner, io.BufferedReader)
                    yield f"{file}:{member.name}", _unpacked(inner)
        return
    if int((_NAME.fullmatch(file) or ["", "0"])[1]):
        raise InputError("is the trace of one rank; give the folder of all ranks", file=file)
    yield file, _unpacked(io.BufferedReader(io.BytesIO(text)))


def _unpacked(stream: io.BufferedReader) -> BinaryIO:
    if stream.peek(2)[:2] != _GZIP:
        return stream
    return io.BufferedReader(gzip.GzipFile(fileobj=stream))


def _nodes(stream: BinaryIO, file: str, cache: dict[bytes, tuple[str, Any]]) -> dict[int, _Node]:
    nodes: dict[int, _Node] = {}
    last = "the metadata"
    try:
        trace = messages(stream)
        for head in trace:
            _check_version(head, file, cache)
            break
        else:
            raise InputError("is empty", file=file)
        for message in trace:
            node = _node(message, cache)
            if not INVALID <= node.type <= CHECKPOINT:
                raise InputError(
                    f"node {node.id} has the unknown type {node.type}; expected 0 to {CHECKPOINT}",
                    file=file,
                )
            if node.id in nodes:
                raise InputError(f"node {node.id} occurs twice", file=file)
            nodes[node.id] = node
            last = f"node {node.id}"
    except (WireError, TypeError, struct.error, UnicodeDecodeError) as error:
        why = error if isinstance(error, WireError) else "a field has a value of another type"
        raise InputError(f"is not a Chakra trace behind {last}: {why}", file=file) from None
    return nodes


def _check_version(message: bytes, file: str, cache: dict[bytes, tuple[str, Any]]) -> None:
    """Refuse a first message that is no metadata, or of a version with other fields."""
    version = ""
    for number, value in fields(message):
        if isinstance(value, int):
            raise WireError("the file begins with a node; expected metadata")
        if number == 1:
            version = version or data_of(value).decode("utf-8")
        elif number == 2 and (attribute := _attribute(data_of(value), cache))[0] == "schema":
            version = str(attribute[1])
    match = re.search(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})$", version, re.ASCII)
    if match and tuple(map(int, match.groups())) < (0, 0, 4):
        raise InputError(
            f"has version {shown(version)} of the schema; expected 0.0.4 or later", file=file
        )


def _node(message: bytes, cache: dict[bytes, tuple[str, Any]]) -> _Node:
    node = _Node()
    for number, value in fields(message):
        if number == 10:
            data = data_of(value)
            # Most attributes do not matter, and their names come first.
            if len(data) > 1 and data[0] == 10 and data[2 : 2 + data[1]] not in _ATTRIBUTES:
                continue
            name, found = cache.get(data) or _attribute(data, cache)
            node.attributes[name] = found
        elif number == 1:
            node.id = whole(value)
        elif number == 3:
            node.type = whole(value)
        elif number == 4:
            node.control += integers(value)
        elif number == 5:
            node.data += integers(value)
        elif number == 7:
            node.duration_us = whole(value)
        elif number == 8 and node.type == METADATA:
            node.inputs = data_of(dict(fields(data_of(value))).get(1, b""))
    return node


def _attribute(data: bytes, cache: dict[bytes, tuple[str, Any]]) -> tuple[str, Any]:
    """Return name and value of an attribute; the name is empty if it does not matter."""
    name, found = "", None
    for number, value in fields(data):
        if number == 1:
            name = _ATTRIBUTES.get(data_of(value), "")
        elif number > 2:
            found = _VALUES[number](value) if number in _VALUES else value
    if len(data) < 100 and len(cache) < 100_000:
        cache[data] = name, found
    return name, found


# -- operations ------------------------------------------------------------------------------------


class _Lowering:
    """Operations of the nodes of all ranks."""

    def __init__(self, file: str, traces: list[_Trace], flops_per_s: float, memory_gbps: float):
        self._file, self._traces = file, traces
        self._flops_per_s, self._memory_gbps = flops_per_s, memory_gbps
        self._groups: dict[str, list[int]] = {}
        self._builder = WorkloadBuilder(len(traces), name=Path(file).name.partition(".")[0])
        #: Of each operation of a node: rank, kind, peer, size, tag, duration and processor.
        self._rows: list[tuple[int, int, int, int, int, float, int]] = []
        #: Rank and id of the node of each row, and the first and the last operation of each node.
        self._node_of: list[tuple[int, int]] = []
        self._first: list[dict[int, int]] = []
        self._last: list[dict[int, int]] = []
        #: Collectives of each group: the nodes of each rank, in the order of their ids.
        self._calls: dict[str, dict[int, list[_Node]]] = {}
        self._noted = {
            "{:,} computations with a number of operations have no duration and take no time; "
            "flops_per_s gives them one": 0,
            "{:,} memory nodes have no duration and take no time; memory_gbps gives them one": 0,
            "{:,} control dependencies on nodes that the trace lacks are left out": 0,
        }

    def find_groups(self, file: str | None) -> None:
        """Find the process groups that metadata nodes state, or a file."""
        for trace in self._traces:
            for node in trace.nodes.values():
                begin, end = node.inputs.find(b"[{"), node.inputs.rfind(b"}]")
                if b"pg_name" in node.inputs and begin >= 0 <= end:
                    where = f"{trace.file}, node {node.id}"
                    for each in _json(node.inputs[begin : end + 2], where):
                        ranks = each.get("ranks") if isinstance(each, dict) else None
                        if ranks is None or "pg_name" not in each:
                            raise InputError("a group lacks pg_name or ranks", file=where)
                        every = list(range(len(self._traces)))
                        self._set_group(str(each["pg_name"]), ranks or every, where)
        if file is not None:
            groups = _json(read_text(file).encode(), file)
            if not isinstance(groups, dict):
                raise InputError('expected a table of lists of ranks, {"1": [0, 1]}', file=file)
            for name, ranks in groups.items():
                self._groups.pop(name, None)
                self._set_group(name, ranks, file)

    def _set_group(self, name: str, ranks: Any, where: str) -> None:
        count = len(self._traces)
        for rank in ranks if isinstance(ranks, list) else [ranks]:
            if type(rank) is not int or not 0 <= rank < count:
                raise InputError(
                    f"group {shown(name)} names rank {shown(str(rank))}; there are traces of ranks "
                    f"0 to {count - 1}",
                    file=where,
                )
        if not ranks or len(set(ranks)) < len(ranks):
            raise InputError(f"group {shown(name)} is empty or names a rank twice", file=where)
        if self._groups.setdefault(name, ranks) != ranks:
            raise InputError(f"group {shown(name)} has other ranks in another trace", file=where)

    def run(self, algorithms: dict[str, str]) -> Workload:
        """Return the workload."""
        for trace in self._traces:
            self._add_nodes(trace)
        builder = self._builder
        if self._rows:
            rank, kind, peer, size, tag, duration, cpu = zip(*self._rows, strict=True)
            builder.operations(
                rank, kind, peer=peer, size_bytes=size, tag=tag, duration_ns=duration, cpu=cpu
            )
        for name, calls in self._calls.items():
            self._add_collectives(name, calls, algorithms)
        self._add_dependencies()
        builder.notes += [text.format(count) for text, count in self._noted.items() if count]
        try:
            return builder.build()
        except OperationError as error:
            places, file = self._places(error)
            raise InputError(error.with_places(places), file=file) from None
        except InputError as error:
            raise InputError(error.message, file=self._file) from None

    def _places(self, error: OperationError) -> tuple[list[str], str]:
        """Return the nodes of the operations of an error in words, and the file of the first."""
        handles = self._builder.in_order()[1]
        of = [int(handles[op]) for op in error.ops]
        known = [self._node_of[at] if at < len(self._node_of) else None for at in of]
        places = [f", node {each[1]}" if each else ", in a collective" for each in known]
        return places, self._traces[error.first[0]].file

    def _add_nodes(self, trace: _Trace) -> None:
        first: dict[int, int] = {}
        processors: dict[tuple[str, int], int] = {("host", 0): 0}
        for number in sorted(trace.nodes):
            node = trace.nodes[number]
            first[number] = len(self._rows)
            self._node_of.append((trace.rank, number))
            peer, size, tag, kind, duration, place = -1, 0, 0, Kind.CALC, 0.0, ("host", 0)
            if node.type in (SEND, RECV):
                kind = Kind.SEND if node.type == SEND else Kind.RECV
                own, other = ("comm_src", "comm_dst")[:: 1 if node.type == SEND else -1]
                most = len(self._traces) - 1
                if trace.number(node, own, trace.rank, most) != trace.rank:
                    raise trace.error(node, f"{own} is another rank than {trace.rank}, its own")
                peer = trace.number(node, other, None, most)
                size = trace.number(node, "comm_size")
                tag = trace.number(node, "comm_tag", 0, 2**31 - 1)
            elif node.type == COLLECTIVE:
                group = str(node.attributes.get("pg_name", ""))
                self._calls.setdefault(group, {}).setdefault(trace.rank, []).append(node)
            elif node.type not in (INVALID, METADATA):
                duration, place = self._time(trace, node)
            cpu = processors.setdefault(place, len(processors))
            if cpu >= _MOST_PROCESSORS:
                raise trace.error(node, f"is on one of more than {_MOST_PROCESSORS} streams")
            self._rows.append((trace.rank, kind, peer, size, tag, duration, cpu))
        self._first.append(first)
        self._last.append(dict(first))

    def _time(self, trace: _Trace, node: _Node) -> tuple[float, tuple[str, int]]:
        """Return the time that a node takes in ns, and the processor that it takes it on."""
        memory = node.type in (MEM_LOAD, MEM_STORE)
        duration = 1e3 * (node.duration_us or trace.number(node, "runtime", 0))
        amount = trace.number(node, "tensor_size" if memory else "num_ops", 0, 2**64)
        rate = self._memory_gbps / 8 if memory else self._flops_per_s / 1e9
        if not duration and amount:
            self._noted[list(self._noted)[memory]] += not rate
            duration = amount / rate if rate else 0.0
            if duration > _MAX_NS:
                raise trace.error(node, f"takes {duration:g} ns; expected at most {_MAX_NS:g}")
        if memory:
            return duration, ("memory", 0)
        if node.attributes.get("is_cpu_op"):
            return duration, ("host", 0)
        return duration, ("stream", trace.number(node, "stream", 0))

    def _add_collectives(
        self, name: str, calls: dict[int, list[_Node]], algorithms: dict[str, str]
    ) -> None:
        """Add the collectives of a group."""
        members = self._groups.get(name)
        first = next(iter(calls))
        if members is None:
            if name not in ("", "0"):
                raise self._traces[first].error(
                    calls[first][0],
                    f"there is no process group {shown(name)}; groups_file names a file with it",
                )
            members = list(range(len(self._traces)))
        for rank in calls:
            if rank not in members:
                raise self._traces[rank].error(
                    calls[rank][0], f"rank {rank} is not in its process group {shown(name)}"
                )
        comm = self._builder.communicator(members, name)
        longest = max(calls, key=lambda rank: len(calls[rank]))
        for at, node in enumerate(calls[longest]):
            for rank in members:
                if len(calls.get(rank, ())) <= at:
                    raise self._traces[longest].error(
                        node,
                        f"is collective {at} of process group {shown(name)}, of which rank {rank} "
                        f"has only {len(calls.get(rank, ()))}: {self._traces[rank].file}",
                    )
            self._add_collective(members, [calls[rank][at] for rank in members], comm, algorithms)

    def _add_collective(
        self, members: list[int], nodes: list[_Node], comm: int, algorithms: dict[str, str]
    ) -> None:
        n, traces = len(members), [self._traces[rank] for rank in members]
        agreed: dict[str, int] = {}
        for what, default, most in (
            ("comm_type", None, len(_COLLECTIVES) - 1),
            ("comm_size", 0, MAX_BYTES),
            ("comm_src", members[0], len(self._traces) - 1),
        ):
            values = [
                trace.number(node, what, default, most)
                for trace, node in zip(traces, nodes, strict=True)
            ]
            agreed[what] = values[0]
            for trace, node, value in zip(traces, nodes, values, strict=True):
                if value != values[0]:
                    raise trace.error(
                        node,
                        f"{what} is {value}, but that of the matching node {nodes[0].id} of rank "
                        f"{members[0]} is {values[0]}: {traces[0].file}",
                    )
        kind, whole = _COLLECTIVES[agreed["comm_type"]]
        size: Any = -(-agreed["comm_size"] // n) if whole else agreed["comm_size"]
        rooted = kind in ("reduce", "gather", "scatter", "bcast")
        if rooted and agreed["comm_src"] not in members:
            raise traces[0].error(nodes[0], f"its root {agreed['comm_src']} is not in its group")
        begin = [self._first[rank][node.id] for rank, node in zip(members, nodes, strict=True)]
        with self._builder.branch(members, begin):
            collective_on(
                self._builder, kind, members, 0 if kind == "barrier" else size, comm=comm,
                algorithm=algorithms.get(kind),
                root=members.index(agreed["comm_src"]) if rooted else 0,
            )  # fmt: skip
            ends = self._builder.calc(np.array(members), 0.0)
        for rank, node, end in zip(members, nodes, ends.tolist(), strict=True):
            self._last[rank][node.id] = end

    def _add_dependencies(self) -> None:
        ops: list[int] = []
        on: list[int] = []
        for trace, first, last in zip(self._traces, self._first, self._last, strict=True):
            for number, node in trace.nodes.items():
                for before in node.data:
                    if before not in last:
                        raise trace.error(node, f"waits for node {before}, which the trace lacks")
                known = [before for before in node.control if before in last]
                self._noted[list(self._noted)[2]] += len(node.control) - len(known)
                on += [last[before] for before in (*node.data, *known)]
                ops += [first[number]] * (len(node.data) + len(known))
        if ops:
            self._builder.requires(ops, on)


def _json(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("is not valid JSON", file=where) from None
