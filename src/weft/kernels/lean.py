"""Decorators for kernels whose functions do little work but pass many arrays to each other."""

from __future__ import annotations

from typing import Any

from weft.kernels.cache import njit
from weft.kernels.libraries import LeanCompiler, PartCompiler


def lean_njit(**options: Any) -> Any:
    """Compile with `njit`, without counting references to arrays.

    Numba counts a reference, by an atomic operation, whenever an array is taken out of a tuple.
    Event loops that pass tuples of arrays from function to function spend most of their time on
    these operations; without them, the flow level is three times as fast. Such a function must not
    create arrays, only read and write its arguments.

    `**options`: options of `njit`; compiled code is cached.
    """
    return njit(cache=True, exact=True, _nrt=False, pipeline_class=LeanCompiler, **options)


def part_njit(**options: Any) -> Any:
    """Compile with `lean_njit` a part of loops; a call from Python would crash.

    Its code becomes part of the kernels that call it, which LLVM optimises as a whole.

    Parameters
    ----------
    **options
        Options of `njit`.
    """
    bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}
    return njit(exact=True, _nrt=False, pipeline_class=PartCompiler, **bare)


def tiny_njit(**options: Any) -> Any:
    """Compile with `part_njit` a function of a line or two, which Numba inlines in its callers.

    A function that takes a tuple of many arrays costs the compiler some tenths of a second,
    however little it does. Inlining a larger function would cost each caller more than that.
    """
    return part_njit(inline="always", **options)
