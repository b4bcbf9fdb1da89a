"""How kernels are compiled that pass many arrays around for little work each."""

from __future__ import annotations

from typing import Any

from weft.kernels.cache import njit


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
        return njit(cache=True, exact=True, _nrt=False, **options)
    except KeyError:  # a Numba that no longer has the option, which only costs time
        return njit(cache=True, exact=True, **options)


def inner_njit(**options: Any) -> Any:
    """`lean_njit` for what only other compiled functions call, never Python: that would crash.

    What Python needs to call a function unpacks every array that is passed: with tuples of many
    arrays that is most of the compiler's work. Nothing is cached, as it is part of what calls it.

    Parameters
    ----------
    **options
        Of `njit`.
    """
    bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}
    try:
        return njit(exact=True, _nrt=False, **bare)
    except KeyError:
        return njit(exact=True, **bare)


def part_njit(**options: Any) -> Any:
    """`inner_njit` for parts of a loop, always compiled into their callers."""
    return inner_njit(forceinline=True, **options)


def tiny_njit(**options: Any) -> Any:
    """`inner_njit` for parts of a line or two, compiled as if they were written in their callers.

    A function that takes a tuple of many arrays costs the compiler some tenths of a second of its
    own, however little it does. Larger parts would cost each caller more than that.
    """
    return inner_njit(inline="always", **options)
