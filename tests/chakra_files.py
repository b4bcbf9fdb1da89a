"""Chakra execution traces for tests, encoded from the rules of protocol buffers."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

COMP, SEND, RECV, COLLECTIVE = 4, 5, 6, 7
METADATA = 1
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 2, 5, 6, 7, 9


def varint(value: int) -> bytes:
    """Return a number from 0 as seven bits a byte, the last ones first."""
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def field(number: int, value: int | bytes | str | float) -> bytes:
    """Return a field: an integer, a double, or text and messages behind their length."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, value: int | str | float | bool) -> bytes:
    """Return an attribute: int64_val, string_val, double_val or bool_val."""
    kinds = {bool: 27, int: 9, str: 29, float: 3}
    kind = kinds[type(value)]
    return field(1, name) + field(kind, int(value) if kind == 27 else value)


def node(
    number: int,
    kind: int,
    *,
    after: Iterable[int] = (),
    control: Iterable[int] = (),
    us: int = 0,
    values: str = "",
    **attributes: int | str | float | bool,
) -> bytes:
    """Return a node: its data and control dependencies, duration, inputs and attributes."""
    packed = b"".join(map(varint, after))
    return (
        field(1, number) + field(2, f"node {number}") + field(3, kind)
        + b"".join(field(4, each) for each in control)  # not packed, which readers accept as well
        + (field(5, packed) if packed else b"")
        + field(7, us) + field(8, field(1, values))
        + b"".join(field(10, attribute(*each)) for each in attributes.items())
    )  # fmt: skip


def trace(*nodes: bytes, schema: str = "1.0.2-chakra.0.0.4") -> bytes:
    """Return a file: metadata and nodes, each behind its length."""
    parts = (field(2, attribute("schema", schema)), *nodes)
    return b"".join(varint(len(each)) + each for each in parts)


def write_traces(folder: Path, *ranks: bytes, name: str = "step") -> Path:
    """Write a file for each rank into a folder, and return the folder."""
    folder.mkdir(exist_ok=True)
    for rank, data in enumerate(ranks):
        (folder / f"{name}.{rank}.et").write_bytes(data)
    return folder
