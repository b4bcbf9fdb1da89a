"""Tables that grow, by a row or by many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Rows of a table that are written out though they are all the same.
_FEW = 256


class Rows:
    """A table that grows by rows one at a time or by many: lists, put into arrays now and then.

    Parameters
    ----------
    columns
        Name and dtype of each.
    """

    def __init__(self, columns: Sequence[tuple[str, Any]]):
        self._types = [dtype for _, dtype in columns]
        self._lists: list[list[Any]] = [[] for _ in columns]
        self._blocks: list[list[NDArray[Any]]] = [[] for _ in columns]

    def add(self, *row: Any) -> None:
        """Append one row."""
        for values, value in zip(self._lists, row, strict=True):
            values.append(value)

    def extend(self, count: int, *values: Any) -> None:
        """Append rows; what is given for a column is one value for all or one for each."""
        self._flush()
        for blocks, value, dtype in zip(self._blocks, values, self._types, strict=True):
            # A copy of what callers may change later; a view of what is the same for all, which
            # takes longer to make and less memory to keep.
            given = np.array(value, dtype=dtype)
            if given.ndim == 0 and count <= _FEW:
                given = np.full(count, given)
            blocks.append(given if given.shape == (count,) else np.broadcast_to(given, count))

    def _flush(self) -> None:
        if self._lists[0]:
            for blocks, values, dtype in zip(self._blocks, self._lists, self._types, strict=True):
                blocks.append(np.array(values, dtype=dtype))
                values.clear()

    def column(self, number: int) -> NDArray[Any]:
        """A column of all rows so far; a view of one value where they all have the same."""
        self._flush()
        blocks, dtype = [block for block in self._blocks[number] if len(block)], self._types[number]
        if not blocks:
            return np.zeros(0, dtype=dtype)
        first = blocks[0][:1]
        if all(block.strides == (0,) and block[:1] == first for block in blocks):
            return np.broadcast_to(first[0], sum(map(len, blocks)))
        return np.concatenate(blocks)

    def columns(self) -> list[NDArray[Any]]:
        """All rows so far, an array a column."""
        return [self.column(number) for number in range(len(self._types))]
