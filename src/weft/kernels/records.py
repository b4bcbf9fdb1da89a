"""Records: numbers with names that kernels read and write, each passed as one pointer."""

from __future__ import annotations

from typing import Any

import numpy as np


def record_type(**fields: str) -> np.dtype[Any]:
    """The type of records with these fields, laid out as C does."""
    return np.dtype(list(fields.items()), align=True)


def counters(*names: str) -> np.dtype[Any]:
    """The type of a record of int64 counters."""
    return record_type(**dict.fromkeys(names, "i8"))


def record(fields: np.dtype[Any], **values: Any) -> Any:
    """One record, of zeros but for the values given; compiled code writes into the same memory."""
    made = np.zeros(1, dtype=fields).view(np.recarray)[0]
    for name, value in values.items():
        made[name] = value
    return made
