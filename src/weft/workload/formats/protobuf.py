"""The wire format of protocol buffers: https://protobuf.dev/programming-guides/encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

#: Largest message that is read; a length beyond is an error of the file.
_MOST_BYTES = 2**28


class WireError(ValueError):
    """Bytes that are not in the wire format; the text says why."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer of variable length at a position, and the position behind it."""
    value = 0
    for place in range(at, min(at + 10, len(data))):
        value |= (data[place] & 127) << 7 * (place - at)
        if data[place] < 128:
            return value & (2**64 - 1), place + 1
    raise WireError("a number ends in its middle, or has more than 10 bytes")


def fields(message: bytes, kinds: Mapping[int, type]) -> Iterator[tuple[int, Any]]:
    """Yield number and value of the fields that `kinds` names, an int, or bytes of any other kind.

    `kinds`: type of each field, ``object`` for both.
    """
    at, end = 0, len(message)
    while at < end:
        # Nearly all keys, sizes and integers have one byte.
        key, at = (message[at], at + 1) if message[at] < 128 else varint(message, at)
        wire = key & 7
        value: int | bytes
        if wire in (1, 5):
            size = 8 if wire == 1 else 4
        elif wire in (0, 2):
            short = at < end and message[at] < 128
            size, at = (message[at], at + 1) if short else varint(message, at)
        else:
            raise WireError(f"a field has the wire type {wire}; expected 0, 1, 2 or 5")
        if wire == 0:
            value = size
        elif at + size > end:
            raise WireError(f"a field of {size} bytes ends behind its message")
        else:
            value = message[at : at + size]
            at += size
        if (kind := kinds.get(key >> 3)) is not None:
            if not isinstance(value, kind):
                raise WireError(f"field {key >> 3} is no {kind.__name__}")
            yield key >> 3, value


def integers(value: int | bytes) -> list[int]:
    """Return the values of a repeated field of integers, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def messages(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the messages of a stream, each of which follows its length."""
    while byte := stream.read(1):
        head = byte
        while head[-1] >= 128 and len(head) < 10 and byte:
            byte = stream.read(1)
            head += byte
        size, _ = varint(head, 0)
        message = stream.read(min(size, _MOST_BYTES))
        if len(message) < size:
            raise WireError(f"the file ends in a message of {size} bytes, after {len(message)}")
        yield message
