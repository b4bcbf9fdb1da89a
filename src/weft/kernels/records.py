"""Records: named numbers that kernels read and write, passed as one pointer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Bytes of a cache line.
CACHE_LINE = 64


def record_type(**fields: str) -> np.dtype[Any]:
    """Return the dtype of records with these fields (name=format), in the memory layout of C."""
    return np.dtype(list(fields.items()), align=True)


def counters(*names: str) -> np.dtype[Any]:
    """Return the dtype of a record of int64 counters."""
    return record_type(**dict.fromkeys(names, "i8"))


def aligned(count: int, dtype: Any, values: Mapping[str, Any] | None = None) -> NDArray[Any]:
    """Return records aligned to a cache line, so that no record of a line or less crosses one.

    Their lines hold nothing else: what another thread writes would take them from the processor.
    `values`: values of fields: one value for all records, or one per record; the other fields are
    0.
    """
    size = np.dtype(dtype).itemsize * count
    raw = np.zeros((-(-size // CACHE_LINE) + 1) * CACHE_LINE, dtype=np.uint8)
    begin = -raw.ctypes.data % CACHE_LINE
    table: NDArray[Any] = raw[begin : begin + size].view(dtype)
    for name, value in (values or {}).items():
        table[name] = value
    return table


def record(fields: np.dtype[Any], **values: Any) -> Any:
    """Return one record with these values, other fields 0; kernels write into the same memory."""
    return aligned(1, fields, values).view(np.recarray)[0]


def copied(one: Any, **changes: Any) -> Any:
    """Return a copy of a record of `record`, with other values of some fields."""
    return record(one.dtype, **{name: one[name] for name in one.dtype.names} | changes)
