"""The wire format of protocol buffers, as far as readers need it: fields of messages by number.

https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

#: Largest message that is read; a length beyond is an error of the file.
_MOST_BYTES = 2**28


class WireError(ValueError):
    """Bytes that are not in the wire format; the text says why."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at a position, and the position behind it."""
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), place + 1
        shift += 7
    raise WireError("a number ends in its middle, or has more than 10 bytes")


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: an integer, or the bytes of any other value."""
    at, end = 0, len(message)
    while at < end:
        key = message[at]
        at += 1
        if key >= 128:
            key, at = varint(message, at - 1)
        kind = key & 7
        if kind == 0:
            value = message[at] if at < end else 128
            at += 1
            if value >= 128:
                value, at = varint(message, at - 1)
            yield key >> 3, value
            continue
        if kind == 2:
            size = message[at] if at < end else 128
            at += 1
            if size >= 128:
                size, at = varint(message, at - 1)
        else:
            size = {1: 8, 5: 4}.get(kind, -1)
        if size < 0:
            raise WireError(f"a field has the wire type {kind}; expected 0, 1, 2 or 5")
        if at + size > end:
            raise WireError(f"a field of {size} bytes ends behind its message")
        yield key >> 3, message[at : at + size]
        at += size


def whole(value: int | bytes) -> int:
    """Return a value that must be an integer."""
    if isinstance(value, int):
        return value
    raise WireError("bytes are in place of an integer")


def data_of(value: int | bytes) -> bytes:
    """Return a value that must be bytes."""
    if isinstance(value, bytes):
        return value
    raise WireError("an integer is in place of bytes")


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
    """Yield the messages of a stream, each of which follows its length as a varint."""
    while True:
        head = b""
        while not head or head[-1] >= 128:
            byte = stream.read(1)
            if not byte and not head:
                return
            if not byte or len(head) > 9:
                raise WireError("the length of a message ends in its middle or is too long")
            head += byte
        size, _ = varint(head, 0)
        if size > _MOST_BYTES:
            raise WireError(f"a message of {size} bytes; expected at most {_MOST_BYTES}")
        message = stream.read(size)
        if len(message) < size:
            raise WireError(f"the file ends in a message of {size} bytes, after {len(message)}")
        yield message
