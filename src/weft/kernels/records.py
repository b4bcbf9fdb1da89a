"""Records: named numbers that kernels read and write, passed as one pointer."""

from __future__ import annotations

from typing import Any

import numpy as np


def record_type(**fields: str) -> np.dtype[Any]:
    """Return the dtype of records with these fields (name=format), in the memory layout of C."""
    return np.dtype(list(fields.items()), align=True)


def counters(*names: str) -> np.dtype[Any]:
    """Return the dtype of a record of int64 counters."""
    return record_type(**dict.fromkeys(names, "i8"))


def record(fields: np.dtype[Any], **values: Any) -> Any:
    """Return one record with these values, other fields 0; kernels write into the same memory."""
    result = np.zeros(1, dtype=fields).view(np.recarray)[0]
    for name, value in values.items():
        result[name] = value
    return result
