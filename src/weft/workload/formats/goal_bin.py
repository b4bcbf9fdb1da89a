"""Binary GOAL, the form of schedules that LogGOPSim and its relatives map into memory.

``txt2bin`` makes it from the text (`weft.workload.formats.goal`); its definition is the code of
LogGOPSim, ``src/LogGOPSim/Parser.hpp``, which ATLAHS shares. All numbers are little-endian, without
padding: a cookie (uint64), the number of ranks (uint32), the last cpu and nic (uint8 each), and for
each rank the begin and the end of its part of the file, counted behind the cookie (uint64 each).
The part of a rank is the numbers of its operations and of those without dependencies (uint32), the
list of the latter (uint32), a record for each operation, and the appendix: operations (uint32) that
wait for the end or the start of others, of which each record says how many and where they are.

LogGOPSim2 (``simulator/Parser.hpp``) has the same cookie and longer records, with the fields of its
Portals operations behind those of LogGOPSim. The sizes of the parts tell which records a file has.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, in_file
from weft.core.units import MAX_BYTES
from weft.workload.formats.goal import ANY, MAX_NS, builder_of, expressed, wildcard
from weft.workload.formats.workload_format_registry import workload_reader, workload_writer
from weft.workload.workload import Kind, Workload

_COOKIE, _SPENT = 4223, 2342
#: Kind of an operation of each type, from 1.
_KINDS = (Kind.SEND, Kind.RECV, Kind.CALC)
_TYPES = {kind: number for number, kind in enumerate(_KINDS, 1)}
_HEAD = np.dtype([("cookie", "<u8"), ("ranks", "<u4"), ("cpu", "u1"), ("nic", "u1")])
_RECORD = np.dtype(
    [
        ("depends", "<u4"), ("type", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"),
        ("cpu", "u1"), ("nic", "u1"), ("ends", "<u4"), ("ends_at", "<u4"), ("starts", "<u4"),
        ("starts_at", "<u4"),
    ]
)  # fmt: skip
#: Records of LogGOPSim2: options, counter, threshold, own counter, three handlers, memory, and four
#: arguments follow, which only its other types of operations use.
_RECORDS = {"loggopsim": _RECORD, "loggopsim2": np.dtype([*_RECORD.descr, ("portals", "V65")])}
#: Offsets are counted from here.
_BASE = 8


def _sniff(data: str | bytes, path: Path) -> bool:
    cookies = tuple(cookie.to_bytes(8, "little") for cookie in (_COOKIE, _SPENT))
    return isinstance(data, bytes) and data.startswith(cookies)


@workload_reader("goal-bin", suffixes=(".bin",), sniff=_sniff, binary=True)
def read(text: bytes, file: str) -> Workload:
    """Read binary GOAL schedules of LogGOPSim, ATLAHS and LogGOPSim2.

    Raises
    ------
    InputError
        If the file is truncated, a part of it overlaps another, counts contradict each other, an
        operation is of another type than send, receive and calculation, or the schedule is refused
        as a text (`weft.workload.formats.goal.read`); the error names rank and operation.
    """
    with in_file(file):
        parts = _parts(text)
        first = np.cumsum([0, *(len(records) for records, _ in parts)])
        records = np.concatenate([records for records, _ in parts])
        rank = np.repeat(np.arange(len(parts)), np.diff(first))
        _check(records, rank, first)
        kind = np.array(_KINDS)[records["type"] - 1]
        message = kind != Kind.CALC
        op, on, start = np.concatenate([edges for _, edges in parts], axis=1)
        base = np.repeat(first[:-1], [edges.shape[1] for _, edges in parts])
        columns = {
            "rank": rank,
            "kind": kind,
            "peer": records["peer"].astype(np.int64),
            "size": np.where(message, records["size"], 0).astype(np.int64),
            "tag": records["tag"],
            "duration": np.where(message, 0, records["size"]).astype(np.int64),
            "cpu": np.where(message, 0, records["cpu"]),
            "op": op + base,
            "on": on + base,
            "start": start,
        }
        left_out = {what: int(np.count_nonzero(records[what][message])) for what in ("cpu", "nic")}
        return builder_of(file, len(parts), columns, left_out).build()


class _WrongSize(InputError):
    """The part of a rank has another size than its counts say."""


def _parts(data: bytes) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
    """Return the records of each rank's operations, and its dependencies: op, on, start [3, n]."""
    if len(data) < _HEAD.itemsize:
        raise InputError(f"ends in its header, after {len(data)} bytes")
    head = np.frombuffer(data, _HEAD, 1)[0]
    if head["cookie"] == _SPENT:
        raise InputError(
            "a simulation with --save-mem has used this schedule up; make it again with txt2bin"
        )
    if head["cookie"] != _COOKIE:
        raise InputError(f"begins with {head['cookie']}; expected {_COOKIE}, a GOAL schedule")
    ranks = int(head["ranks"])
    after = _HEAD.itemsize + 16 * ranks
    if not ranks or after > len(data):
        raise InputError(f"has {len(data)} bytes, too few for {ranks} ranks")
    spans = np.frombuffer(data, "<u8", 2 * ranks, _HEAD.itemsize)
    bounds = np.concatenate([[np.uint64(after - _BASE)], spans, [np.uint64(len(data) - _BASE)]])
    wrong = np.flatnonzero(bounds[1:] < bounds[:-1])
    if len(wrong):
        rank = min(int(wrong[0]) // 2, ranks - 1)
        begin, end = spans[2 * rank : 2 * rank + 2]
        raise InputError(
            f"rank {rank} is said to be at {begin} to {end}, which is outside the file of "
            f"{len(data)} bytes or overlaps another rank"
        )
    begins = (spans + np.uint64(_BASE)).reshape(-1, 2).tolist()
    problem: InputError | None = None
    for record in _RECORDS.values():
        try:
            return [_part(data[begin:end], at, record) for at, (begin, end) in enumerate(begins)]
        except _WrongSize as error:
            problem = problem or error
    assert problem is not None
    raise problem


def _part(data: bytes, rank: int, record: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    ops, roots = np.frombuffer(data, "<u4", 2).tolist() if len(data) >= 8 else (0, 0)
    table = 8 + 4 * roots
    appendix = table + ops * record.itemsize
    if len(data) < max(appendix, 8):
        raise _WrongSize(f"rank {rank} has {len(data)} bytes, too few for {ops} operations")
    records = np.frombuffer(data, record, ops, table)[list(_RECORD.names or ())]
    counts = records["ends"].astype(np.int64), records["starts"].astype(np.int64)
    edges = int(sum(map(np.sum, counts)))
    if len(data) - appendix != 4 * edges:
        raise _WrongSize(
            f"rank {rank} has {len(data) - appendix} bytes of dependencies; expected {4 * edges}"
        )
    waiting = np.frombuffer(data, "<u4", edges, appendix).astype(np.int64)
    columns = []
    for count, column in zip(counts, ("ends_at", "starts_at"), strict=True):
        begin = records[column].astype(np.int64)
        over = np.flatnonzero((count > 0) & (begin + count > edges))
        if len(over):
            raise InputError(f"dependencies on operation {over[0]} of rank {rank} are not there")
        behind = np.repeat(np.cumsum(count) - count, count)
        at = np.arange(count.sum()) - behind + np.repeat(begin, count)
        start = np.full(len(at), column == "starts_at")
        columns.append(np.stack([waiting[at], np.repeat(np.arange(ops), count), start]))
    found = np.concatenate(columns, axis=1)
    if edges and found[0].max() >= ops:
        raise InputError(f"a dependency of rank {rank} is of operation {found[0].max()} of {ops}")
    wrong = np.flatnonzero(np.bincount(found[0], minlength=ops) != records["depends"])
    if len(wrong):
        raise InputError(
            f"operation {wrong[0]} of rank {rank} is said to wait for "
            f"{records['depends'][wrong[0]]} others, but the dependencies say otherwise"
        )
    free = np.sort(np.frombuffer(data, "<u4", roots, 8))
    if not np.array_equal(free, np.flatnonzero(records["depends"] == 0)):
        raise InputError(f"rank {rank} does not list its operations without dependencies")
    return records, found


def _check(records: NDArray[Any], rank: NDArray[np.int64], first: NDArray[np.int64]) -> None:
    """Refuse values that a workload cannot have."""
    ranks = len(first) - 1
    message = records["type"] < _TYPES[Kind.CALC]
    most = np.where(message, np.uint64(MAX_BYTES), np.uint64(MAX_NS))
    kind, size, peer = records["type"], records["size"], records["peer"]
    any_source = (kind == _TYPES[Kind.RECV]) & (peer == ANY)
    any_tag = wildcard(f"tag {ANY}", "any tag")
    for bad, problem in (
        ((kind == 0) | (kind > len(_KINDS)), "is of type {type}; weft reads 1 to 3"),
        (size > most, "has size or duration {size}, more than 2^56 bytes or 2^53 ns"),
        (any_source, wildcard("{peer} as source", "any source")),
        (message & (peer >= ranks), f"is with rank {{peer}}; ranks are 0 to {ranks - 1}"),
        (message & (records["tag"] == ANY), any_tag),
    ):
        for at in np.flatnonzero(bad)[:1]:
            values = {name: records[name][at] for name in ("type", "size", "peer")}
            where = f"operation {at - first[rank[at]]} of rank {rank[at]}"
            raise InputError(f"{where}: {problem.format(**values)}")


@workload_writer("goal-bin", suffixes=(".bin",))
def write(
    workload: Workload,
    *,
    whole_ns: bool = False,
    layout: Literal["loggopsim", "loggopsim2"] = "loggopsim",
) -> bytes:
    """Write binary GOAL schedules, as txt2bin makes them from the text.

    Parameters
    ----------
    whole_ns
        Round durations of calculations to nanoseconds, the resolution of GOAL.
    layout
        Program whose records are written: ``loggopsim``, also for ATLAHS, or ``loggopsim2``.

    Raises
    ------
    NotApplicable
        In the cases of the text (`weft.workload.formats.goal.write`).
    """
    durations, tags, _ = expressed(workload, whole_ns)
    ops, offset = workload.num_ops, workload.op_offset
    calc = workload.kind == Kind.CALC
    records = np.zeros(ops, _RECORDS[layout])
    records["depends"] = np.diff(workload.dep_offset)
    records["type"] = np.array([_TYPES.get(kind, 0) for kind in Kind])[workload.kind]
    records["peer"] = np.where(calc, 0, workload.peer)
    records["size"] = np.where(calc, durations, workload.size_bytes)
    records["tag"] = np.where(calc, 0, tags)
    if len(workload.cpu):
        records["cpu"] = workload.cpu
    # The appendix of a rank has those that wait for the end of each operation, then for its start.
    after_offset, after, on_start = workload.after
    on = np.repeat(np.arange(ops), np.diff(after_offset))
    starts = on_start if len(on_start) else np.zeros(len(after), dtype=bool)
    appendix = after[np.lexsort((starts, on))]
    records["starts"] = np.bincount(on[starts], minlength=ops)
    records["ends"] = np.diff(after_offset) - records["starts"]
    base = np.repeat(after_offset[offset[:-1]], np.diff(offset))
    records["ends_at"] = after_offset[:-1] - base
    records["starts_at"] = records["ends_at"] + records["ends"]
    parts = []
    for begin, end in pairwise(offset.tolist()):
        roots = np.flatnonzero(records["depends"][begin:end] == 0)
        waiting = appendix[after_offset[begin] : after_offset[end]] - begin
        counts = np.array([end - begin, len(roots), *roots], "<u4")
        each = (counts, records[begin:end], waiting.astype("<u4"))
        parts.append(b"".join(array.tobytes() for array in each))
    head = np.array([(_COOKIE, len(parts), records["cpu"].max(initial=0), 0)], _HEAD)
    bounds = np.cumsum([_HEAD.itemsize - _BASE + 16 * len(parts), *map(len, parts)])
    spans = np.stack([bounds[:-1], bounds[1:]], axis=1).astype("<u8")
    return b"".join([head.tobytes(), spans.tobytes(), *parts])
