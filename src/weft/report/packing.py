"""Arrays and text packed into base64 for a page; `data.js` unpacks them.

A blob is compressed by zlib. It consists of the length of the head as a little-endian uint32, the
head, and the arrays, each of which begins at a multiple of eight bytes. The head is JSON with
``arrays`` (name, type, byte offset, number of values) and ``values`` (plain JSON).
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES = {
    np.dtype("<f8"): "f8", np.dtype("<f4"): "f4", np.dtype("<i4"): "i4", np.dtype("<u4"): "u4",
    np.dtype("<u2"): "u2", np.dtype("u1"): "u1", np.dtype("i1"): "i1",
}  # fmt: skip


def packed(arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> str:
    """Pack arrays and JSON values into one blob.

    `arrays`: one-dimensional arrays of a type in `_TYPES`.
    """
    # The length of the head depends on the offsets in it, so it is padded to a fixed length.
    body = bytearray()
    entries: list[tuple[str, str, int, int]] = []
    for name, array in arrays.items():
        body.extend(b"\0" * (-len(body) % 8))
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        entries.append((name, _TYPES[little.dtype], len(body), len(little)))
        body.extend(little.tobytes())

    def head(start: int) -> bytes:
        rows = [(name, kind, start + offset, count) for name, kind, offset, count in entries]
        return plain_json({"arrays": rows, "values": values}).encode("utf-8", "replace")

    room = len(head(0)) + 16 * len(entries) + 4
    room += -room % 8
    text = head(room).ljust(room - 4)
    raw = struct.pack("<I", len(text)) + text + bytes(body)
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def coded(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return numbers as a table of the distinct ones and indices, if that is shorter."""
    table, index = np.unique(values.astype(np.float64), return_inverse=True)
    if len(table) > 2**16:
        return {name: values.astype(np.float32)}
    kind = np.uint8 if len(table) <= 2**8 else np.uint16
    return {f"{name}Table": table, f"{name}Index": index.ravel().astype(kind)}


def plain_json(value: Any) -> str:
    """Return JSON without spaces, with keys in the given order; NaN and infinity are errors."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def script_json(value: Any) -> str:
    """Return JSON that is safe in a script element: no character opens a tag or ends a line."""
    text = plain_json(value)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
