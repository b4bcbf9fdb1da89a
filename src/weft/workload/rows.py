"""Tables that grow, by a row or by many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: Rows for which a column has room at least, once it is written out.
_ROOM = 256


class Rows:
    """A table that grows by rows one at a time or by many.

    Parameters
    ----------
    columns
        Name and dtype of each.
    """

    def __init__(self, columns: Sequence[tuple[str, Any]]):
        self._columns = [_Column(dtype) for _, dtype in columns]
        self._lists: list[list[Any]] = [[] for _ in columns]

    def add(self, *row: Any) -> None:
        """Append one row."""
        for values, value in zip(self._lists, row, strict=True):
            values.append(value)

    def extend(self, count: int, *values: Any) -> None:
        """Append rows; what is given for a column is one value for all or one for each."""
        self._flush()
        for column, value in zip(self._columns, values, strict=True):
            column.extend(count, value)

    def _flush(self) -> None:
        if self._lists[0]:
            for column, values in zip(self._columns, self._lists, strict=True):
                column.extend(len(values), values)
                values.clear()

    def column(self, number: int) -> NDArray[Any]:
        """A column of all rows so far; of one value, with a stride of 0, where all have the same.

        Use it before rows are added: it may be a view of what moves then.
        """
        self._flush()
        return self._columns[number].view()


class _Column:
    """Values of a column, only one of them while all are the same."""

    def __init__(self, dtype: DTypeLike):
        self._values = np.zeros(1, dtype=dtype)
        self._count = 0
        self._same = True

    def extend(self, count: int, value: Any) -> None:
        given = np.asarray(value, dtype=self._values.dtype)
        if not count:
            return
        if self._same:
            first = given.reshape(-1)[0]
            if not self._count:
                self._values[0] = first
            if first == self._values[0] and (given.ndim == 0 or np.all(given == first)):
                self._count += count
                return
        # Room for twice as many: memory is taken where it is written, and moved by its pages.
        if self._same or self._count + count > len(self._values):
            kept = self._values[0]
            self._values.resize(max(2 * (self._count + count), _ROOM), refcheck=False)
            if self._same:
                self._values[: self._count] = kept
                self._same = False
        self._values[self._count : self._count + count] = given
        self._count += count

    def view(self) -> NDArray[Any]:
        if self._same:
            return np.broadcast_to(self._values[0], self._count)
        return self._values[: self._count]
