"""How kernels are compiled that pass many arrays around for little work each."""

from __future__ import annotations

from typing import Any

from numba import njit


def lean_njit(**options: Any) -> Any:
    """`njit` without counting references to arrays.

    Numba counts a reference whenever an array is taken out of a tuple, with an atomic operation
    each time. Event loops that pass tuples of arrays from function to function spend most of their
    time on that: leaving it out makes the flow level three times as fast. A function compiled so
    must not make arrays, only read and write those that it is given.

    Parameters
    ----------
    **options
        Of `njit`; results are cached.
    """
    try:
        return njit(cache=True, _nrt=False, **options)
    except KeyError:  # a Numba that no longer has the option, which only costs time
        return njit(cache=True, **options)
