"""Chakra execution traces of MLCommons: what each processor of a distributed training computes.

The format is ``schema/protobuf/et_def.proto`` of https://github.com/mlcommons/chakra, version 0.0.4
and later. A rank has a file ``NAME.RANK.et`` of messages, each behind its length: metadata, then
nodes, which depend on each other. The meaning of attributes is that of ASTRA-sim
(``astra-sim/workload/Workload.cc``, ``system/astraccl/native_collectives``): sizes of collectives
are the bytes that each rank contributes, groups have names of numbers.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import math
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.core.units import MAX_BYTES
from weft.fabrics.formats.records import shown
from weft.fabrics.machine_model import machine_model
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.collectives.lowering import chosen_algorithms
from weft.workload.formats.protobuf import WireError, fields, integers, messages
from weft.workload.formats.workload_format_registry import workload_reader
from weft.workload.matching import OperationError
from weft.workload.nccl import Collective, add_collective
from weft.workload.places import Places
from weft.workload.workload import Kind, Workload

_NAME = re.compile(r"(?:.*[./])?(\d{1,9})\.et(?:\.gz)?", re.ASCII)
_GZIP = b"\x1f\x8b"
_SUFFIXES = (".et", ".et.gz", ".tar", ".tar.gz", ".tgz")

METADATA, MEMORY, SEND, RECV, COLLECTIVE, TYPES = 1, (2, 3), 5, 6, 7, range(11)
#: Collective of each value of `comm_type`.
_COLLECTIVES = (
    "allreduce", "reduce", "allgather", "gather", "scatter", "bcast", "alltoall", "reduce-scatter",
    "reduce-scatter", "barrier",
)  # fmt: skip
#: Collectives whose size is that of all blocks of a rank together, and those with a root.
_WHOLE, _ROOTED = (
    ("scatter", "alltoall", "reduce-scatter"),
    ("reduce", "gather", "scatter", "bcast"),
)
#: Collectives that NCCL has, with its names.
_NCCL: dict[str, Collective] = {
    "allreduce": "allreduce", "reduce": "reduce", "allgather": "allgather", "bcast": "broadcast",
    "alltoall": "alltoall", "reduce-scatter": "reduce-scatter",
}  # fmt: skip
#: Attributes that matter; all others are left out.
_ATTRIBUTES = {
    name.encode(): name
    for name in (
        "is_cpu_op", "runtime", "num_ops", "comm_type", "comm_size", "comm_src", "comm_dst",
        "comm_tag", "pg_name", "stream", "schema",
    )
}  # fmt: skip
#: Fields that matter: of metadata, of nodes (id, type, dependencies, duration, inputs, attributes),
#: and of attributes, with the forms of their values of a fixed size.
_METADATA = {1: bytes, 2: bytes}
_NODE = {1: int, 3: int, 4: object, 5: object, 7: int, 8: bytes, 10: bytes}
_ATTRIBUTE = {1: bytes, **dict.fromkeys(range(3, 33), object)}
_FIXED = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
#: Number of processors of a rank that a workload can tell apart.
_MOST_PROCESSORS = 256
#: Longest time of a node, 30 million years, as in traces of SMPI.
_MAX_NS = 1e24
_NOTES = {
    "num_ops": "{:,} computations without duration take no time; flops_per_s gives them one",
    "memory": "{:,} memory nodes without duration take no time",
    "control": "{:,} control dependencies on nodes that the trace lacks are left out",
}


def _sniff(data: str | bytes, path: Path) -> bool:
    if isinstance(data, str):
        return any(map(_NAME.fullmatch, data.split("\n")))
    packed = data.startswith(_GZIP) and str(path).endswith(_SUFFIXES[1:])
    return packed or data[257:262] == b"ustar"


@dataclass
class _Node:
    """One node of a trace; `op` is its first operation, `last` the one that others wait for."""

    file: str
    id: int = 0
    type: int = 0
    duration_us: int = 0
    control: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    inputs: bytes = b""
    op: int = 0
    last: int = 0

    def error(self, message: str) -> InputError:
        return InputError(f"node {self.id}: {message}", file=self.file)

    def number(self, name: str, default: int | None = None, most: int = MAX_BYTES) -> int:
        """Return an attribute that is a number from 0."""
        value = self.attributes.get(name, default)
        if value is None:
            raise self.error(f"has no {name}")
        if isinstance(value, str | bytes) or not 0 <= value <= most:
            raise self.error(f"{name} is {shown(str(value))}; expected 0 to {most}")
        return int(value)


@workload_reader("chakra", suffixes=_SUFFIXES, sniff=_sniff, binary=True)
def read(
    text: str | bytes,
    file: str,
    *,
    groups_file: str | None = None,
    algorithms: tuple[str, ...] = (),
    flops_per_s: float | None = None,
    node: str | None = None,
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
    node
        Model of the machines, by name or file, for collectives of NCCL: their algorithms, protocols
        and channels for ranks on the processors of such machines in order. Gather, scatter and
        barrier remain those of MPICH.

    Raises
    ------
    InputError
        If a file is truncated or no trace, a rank has no file, a node is unknown, occurs twice or
        lacks an attribute, a group is unknown, the collectives of its ranks disagree, a message has
        no match, or nodes wait for each other; the error names file and node.
    """
    if flops_per_s is not None and not 0 < flops_per_s < math.inf:
        raise InputError(f"flops_per_s is {flops_per_s}; expected a positive number")
    lowering = _Lowering(file, _traces(text, file), flops_per_s)
    if node is not None:
        model, ranks = machine_model(node), np.arange(len(lowering.traces))
        lowering.places = Places(*np.divmod(ranks, model.processors), model)
    lowering.find_groups(groups_file)
    return lowering.run(chosen_algorithms(algorithms))


# -- files -----------------------------------------------------------------------------------------


def _traces(text: str | bytes, file: str) -> list[list[_Node]]:
    """Return the nodes of all ranks, by id."""
    found: dict[int, list[_Node]] = {}
    names: dict[int, str] = {}
    try:
        for name, stream in _streams(text, file):
            match = _NAME.fullmatch(name)
            rank = int(match[1]) if match else 0
            if rank in found:
                raise InputError(f"rank {rank} is in {names[rank]} already", file=name)
            names[rank], found[rank] = name, _nodes(stream, name)
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
    elif file.endswith((".et", ".et.gz")):
        match = _NAME.fullmatch(file)
        if match and int(match[1]):
            raise InputError("is the trace of one rank; give the folder of all ranks", file=file)
        yield file, _unpacked(io.BufferedReader(io.BytesIO(text)))
    else:
        if not text.startswith(_GZIP) and text[-1024:] != bytes(1024):
            raise InputError("ends before the end of the archive", file=file)
        with tarfile.open(fileobj=io.BytesIO(text)) as archive:
            for member in archive:
                if member.isfile() and _NAME.fullmatch(member.name):
                    inner = archive.extractfile(member)
                    assert isinstance(inner, io.BufferedReader)
                    yield f"{file}:{member.name}", _unpacked(inner)


def _unpacked(stream: io.BufferedReader) -> BinaryIO:
    if stream.peek(2)[:2] != _GZIP:
        return stream
    return io.BufferedReader(gzip.GzipFile(fileobj=stream))


def _nodes(stream: BinaryIO, file: str) -> list[_Node]:
    nodes: dict[int, _Node] = {}
    last = "the metadata"
    try:
        trace = messages(stream)
        if (head := next(trace, None)) is None:
            raise InputError("is empty", file=file)
        _check_version(head, file)
        for message in trace:
            node = _node(message, file)
            if node.type not in TYPES:
                raise node.error(f"the type {node.type} is unknown; expected 0 to {TYPES[-1]}")
            if node.id in nodes:
                raise node.error("occurs twice")
            nodes[node.id] = node
            last = f"node {node.id}"
    except (WireError, TypeError, struct.error, UnicodeDecodeError) as error:
        why = error if isinstance(error, WireError) else "a value is of another type than its field"
        raise InputError(f"is not a Chakra trace behind {last}: {why}", file=file) from None
    return [nodes[number] for number in sorted(nodes)]


def _check_version(message: bytes, file: str) -> None:
    """Refuse a first message that is a node, or that states an older version."""
    version = ""
    for number, value in fields(message, _METADATA):
        if number == 1:
            version = value.decode("utf-8")
        elif (attribute := _attribute(value))[0] == "schema":
            version = str(attribute[1])
    match = re.search(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})$", version, re.ASCII)
    if match and tuple(map(int, match.groups())) < (0, 0, 4):
        raise InputError(
            f"has version {shown(version)} of the schema; expected 0.0.4 or later", file=file
        )


def _node(message: bytes, file: str) -> _Node:
    node = _Node(file)
    for number, value in fields(message, _NODE):
        if number == 10:
            # Most attributes do not matter, and their names come first.
            if len(value) > 1 and value[0] == 10 and value[2 : 2 + value[1]] not in _ATTRIBUTES:
                continue
            name, found = _attribute(value)
            node.attributes[name] = found
        elif number == 1:
            node.id = value
        elif number == 3:
            node.type = value
        elif number == 4:
            node.control += integers(value)
        elif number == 5:
            node.data += integers(value)
        elif number == 7:
            node.duration_us = value
        elif node.type == METADATA:
            node.inputs = dict(fields(value, _METADATA)).get(1, b"")
    return node


@functools.lru_cache(100_000)
def _attribute(data: bytes) -> tuple[str, Any]:
    """Return name and value of an attribute; the name is empty if it does not matter."""
    name, found = "", None
    for number, value in fields(data, _ATTRIBUTE):
        if number == 1:
            name = _ATTRIBUTES.get(value, "")
        elif number in _FIXED:
            (found,) = struct.unpack(_FIXED[number], value)
        elif number in (7, 9):
            found = value - 2**64 if value >= 2**63 else value
        elif number in (15, 17):
            found = (value >> 1) ^ -(value & 1)
        else:
            found = value.decode("utf-8") if number == 29 and isinstance(value, bytes) else value
    return name, found


# -- operations ------------------------------------------------------------------------------------


class _Lowering:
    """Operations of the nodes of all ranks."""

    def __init__(self, file: str, traces: list[list[_Node]], flops_per_s: float | None):
        self._file, self.traces = file, traces
        #: Places of the ranks, if collectives are those of NCCL.
        self.places: Places | None = None
        self._flops_per_s = flops_per_s
        self._groups: dict[str, list[int]] = {}
        self._builder = WorkloadBuilder(len(traces), name=Path(file).name.partition(".")[0])
        self._noted = dict.fromkeys(_NOTES, 0)

    def find_groups(self, file: str | None) -> None:
        """Find the process groups that metadata nodes state, or a file."""
        every = list(range(len(self.traces)))
        for node in chain.from_iterable(self.traces):
            begin, end = node.inputs.find(b"[{"), node.inputs.rfind(b"}]")
            if b"pg_name" in node.inputs and begin >= 0 <= end:
                for each in _tables(node.inputs[begin : end + 2], node.file):
                    name, ranks = (each.get(key) for key in ("pg_name", "ranks"))
                    self._set_group(str(name), every if ranks == [] else ranks, node.file)
        for groups in () if file is None else _tables(read_text(file).encode(), file):
            for name, ranks in groups.items():
                self._groups.pop(name, None)
                self._set_group(name, ranks, file or "")

    def _set_group(self, name: str, ranks: Any, file: str) -> None:
        count, group = len(self.traces), f"group {shown(name)}"
        for rank in ranks if isinstance(ranks, list) else [ranks]:
            if type(rank) is not int or not 0 <= rank < count:
                what = f"{group} names rank {shown(str(rank))}"
                raise InputError(f"{what}; there are traces of ranks 0 to {count - 1}", file=file)
        if not ranks or len(set(ranks)) < len(ranks):
            raise InputError(f"{group} is empty or names a rank twice", file=file)
        if self._groups.setdefault(name, ranks) != ranks:
            raise InputError(f"{group} has other ranks in another trace", file=file)

    def run(self, algorithms: dict[str, str]) -> Workload:
        """Return the workload."""
        builder, traces = self._builder, self.traces
        #: Of each group, the collectives of each rank in the order of their ids.
        calls: dict[str, dict[int, list[_Node]]] = {}
        rows: list[tuple[int, int, int, int, int, float, int]] = []
        for rank, nodes in enumerate(traces):
            processors = {("host", 0): 0}
            for node in nodes:
                node.op = node.last = len(rows)
                rows.append((rank, *self._row(rank, node, processors)))
                if node.type == COLLECTIVE:
                    group = str(node.attributes.get("pg_name", ""))
                    calls.setdefault(group, {}).setdefault(rank, []).append(node)
        if rows:
            ranks, kind, peer, size, tag, duration, cpu = zip(*rows, strict=True)
            builder.operations(
                ranks, kind, peer=peer, size_bytes=size, tag=tag, duration_ns=duration, cpu=cpu
            )
        for name, of_rank in calls.items():
            self._add_collectives(name, of_rank, algorithms)
        self._add_dependencies()
        builder.notes += [_NOTES[key].format(n) for key, n in self._noted.items() if n]
        try:
            return builder.build()
        except OperationError as error:
            nodes = [*chain.from_iterable(traces)]
            ops = builder.in_order()[1][list(error.ops)].tolist()
            places = [f", node {nodes[op].id}" if op < len(nodes) else "" for op in ops]
            file = traces[error.first[0]][0].file
            raise InputError(error.with_places(places), file=file) from None
        except InputError as error:
            raise InputError(error.message, file=self._file) from None

    def _row(
        self, rank: int, node: _Node, processors: dict[tuple[str, int], int]
    ) -> tuple[int, int, int, int, float, int]:
        """Return kind, peer, size, tag, duration and processor of a node's operation."""
        if node.type in (SEND, RECV):
            ends = ("comm_src", "comm_dst")
            own, other = ends if node.type == SEND else ends[::-1]
            most = len(self.traces) - 1
            if node.number(own, rank, most) != rank:
                raise node.error(f"{own} is another rank than its own, {rank}")
            peer, size = node.number(other, None, most), node.number("comm_size")
            kind = Kind.SEND if node.type == SEND else Kind.RECV
            return kind, peer, size, node.number("comm_tag", 0, 2**31 - 1), 0.0, 0
        if node.type in (0, METADATA, COLLECTIVE):
            return Kind.CALC, -1, 0, 0, 0.0, 0
        duration = 1e3 * (node.duration_us or node.number("runtime", 0))
        if not duration and node.type in MEMORY:
            self._noted["memory"] += 1
        elif not duration and (count := node.number("num_ops", 0, 2**64)):
            self._noted["num_ops"] += self._flops_per_s is None
            duration = 1e9 * count / (self._flops_per_s or math.inf)
            if duration > _MAX_NS:
                raise node.error(f"takes {duration:g} ns; expected at most {_MAX_NS:g}")
        place = ("host", 0) if node.attributes.get("is_cpu_op") else ("stream", 0)
        if node.type in MEMORY:
            place = ("memory", 0)
        elif place[0] == "stream":
            place = ("stream", node.number("stream", 0))
        cpu = processors.setdefault(place, len(processors))
        if cpu >= _MOST_PROCESSORS:
            raise node.error(f"is on one of more than {_MOST_PROCESSORS} streams")
        return Kind.CALC, -1, 0, 0, duration, cpu

    def _add_collectives(
        self, name: str, calls: dict[int, list[_Node]], algorithms: dict[str, str]
    ) -> None:
        """Add the collectives of a group; the n-th ones of its ranks belong together."""
        every = list(range(len(self.traces)))
        members = self._groups.get(name, every if name in ("", "0") else [])
        group = f"process group {shown(name)}"
        for rank, nodes in calls.items():
            if not members:
                raise nodes[0].error(f"there is no {group}; groups_file names a file with it")
            if rank not in members:
                raise nodes[0].error(f"rank {rank} is not in {group}")
        comm = self._builder.communicator(members, name)
        longest = max(calls, key=lambda rank: len(calls[rank]))
        for at, node in enumerate(calls[longest]):
            for rank in members:
                if (count := len(calls.get(rank, ()))) <= at:
                    what = f"is collective {at} of {group}, of which rank {rank} has {count}"
                    raise node.error(f"{what}, counted from 0")
            self._add_collective(members, [calls[rank][at] for rank in members], comm, algorithms)

    def _add_collective(
        self, members: list[int], nodes: list[_Node], comm: int, algorithms: dict[str, str]
    ) -> None:
        def agreed(name: str, default: int | None, most: int) -> int:
            values = [node.number(name, default, most) for node in nodes]
            for node, value in zip(nodes, values, strict=True):
                if value != values[0]:
                    raise node.error(
                        f"{name} is {value}, but that of the matching node {nodes[0].id} of rank "
                        f"{members[0]} is {values[0]}: {nodes[0].file}"
                    )
            return values[0]

        kind = _COLLECTIVES[agreed("comm_type", None, len(_COLLECTIVES) - 1)]
        size = 0 if kind == "barrier" else agreed("comm_size", None, MAX_BYTES)
        root = members[0]
        if kind in _ROOTED and (root := agreed("comm_src", root, MAX_BYTES)) not in members:
            raise nodes[0].error(f"its root, comm_src {root}, is not in its group")
        n, ranks, builder = len(members), np.array(members), self._builder
        index, name = members.index(root), _NCCL.get(kind)
        with builder.stream(None):
            builder.wait(ranks, [node.op for node in nodes])
            if self.places is not None and name is not None and n > 1:
                total = size * n if kind == "allgather" else size
                add_collective(builder, name, ranks, self.places, total, root=index)
            else:
                block = -(-size // n) if kind in _WHOLE else size
                chosen = algorithms.get(kind)
                collective_on(builder, kind, ranks, block, comm=comm, algorithm=chosen, root=index)
            ends = builder.calc(ranks, 0.0)
        for node, end in zip(nodes, ends.tolist(), strict=True):
            node.last = end

    def _add_dependencies(self) -> None:
        ops: list[int] = []
        on: list[int] = []
        for nodes in self.traces:
            last = {node.id: node.last for node in nodes}
            for node in nodes:
                for before in node.data:
                    if before not in last:
                        raise node.error(f"waits for node {before}, which the trace lacks")
                known = [before for before in node.control if before in last]
                self._noted["control"] += len(node.control) - len(known)
                on += [last[before] for before in (*node.data, *known)]
                ops += [node.op] * (len(node.data) + len(known))
        if ops:
            self._builder.requires(ops, on)


def _tables(data: bytes, file: str) -> list[dict[str, Any]]:
    """Return a table in JSON, or a list of tables, as a list."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("the process groups are not valid JSON", file=file) from None
    tables = found if isinstance(found, list) else [found]
    if not all(isinstance(each, dict) for each in tables):
        raise InputError("process groups are tables in JSON, not other values", file=file)
    return tables
