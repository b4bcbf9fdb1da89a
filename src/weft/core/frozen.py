"""Read-only arrays that remain read-only in copies and in other processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = TypeVar("Array", bound=NDArray[Any])


def read_only(array: Array) -> Array:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


class FrozenArrays:
    """Base of dataclasses with read-only arrays, which copies and pickles preserve.

    NumPy's own copies and pickles are writable. To Numba, writable arrays have another type, so a
    process that receives them would compile every kernel again.
    """

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                read_only(value)

    def __getstate__(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        values = dict(vars(self))
        return values, [array for array in _arrays(values) if not array.flags.writeable]

    def __setstate__(self, state: tuple[dict[str, Any], list[NDArray[Any]]]) -> None:
        # After copying and unpickling, arrays in the list are the same objects as the attributes.
        values, fixed = state
        vars(self).update(values)
        for array in fixed:
            read_only(array)


def _arrays(value: object) -> Iterator[NDArray[Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _arrays(each)
