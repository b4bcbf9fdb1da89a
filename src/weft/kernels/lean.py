"""Decorators for kernels whose functions do little work but pass many arrays to each other."""

from __future__ import annotations

from typing import Any

from weft.kernels.cache import njit


def lean_njit(**options: Any) -> Any:
    """Compile with `njit`, without counting references to arrays.

    Numba counts a reference, by an atomic operation, whenever an array is taken out of a tuple.
    Event loops that pass tuples of arrays from function to function spend most of their time on
    these operations; without them, the flow level is three times as fast. Such a function must not
    create arrays, only read and write its arguments.

    Parameters
    ----------
    **options
        Options of `njit`; compiled code is cached.
    """
    try:
        return njit(cache=True, exact=True, _nrt=False, **options)
    except KeyError:  # this Numba does not have the option; kernels work, but are slower
        return njit(cache=True, exact=True, **options)


def inner_njit(**options: Any) -> Any:
    """Compile with `lean_njit` a function that only kernels call; a call from Python would crash.

    The wrapper for calls from Python unpacks every array argument. For tuples of many arrays, to
    compile this wrapper is most of the compiler's work. Nothing is cached, because the code becomes
    part of its callers.

    Parameters
    ----------
    **options
        Options of `njit`.
    """
    bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}
    try:
        return njit(exact=True, _nrt=False, **bare)
    except KeyError:
        return njit(exact=True, **bare)


def part_njit(**options: Any) -> Any:
    """Compile with `inner_njit` a part of a loop, which LLVM always inlines."""
    return inner_njit(forceinline=True, **options)


def tiny_njit(**options: Any) -> Any:
    """Compile with `inner_njit` a function of a line or two, which Numba inlines in its callers.

    A function that takes a tuple of many arrays costs the compiler some tenths of a second,
    however little it does. Inlining a larger function would cost each caller more than that.
    """
    return inner_njit(inline="always", **options)
