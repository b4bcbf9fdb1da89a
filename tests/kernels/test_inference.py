"""Signatures that are kept are those that Numba would infer again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core.compiler import Flags
from numba.core.event import install_recorder
from numba.core.targetconfig import ConfigStack
from numba.extending import overload

from weft.kernels.cache import njit
from weft.kernels.inference import KernelFlags
from weft.kernels.libraries import PartLibrary


def entered(flags: Flags) -> Flags:
    with ConfigStack().enter(KernelFlags(flags)):
        return ConfigStack.top_or_none()


def test_flags_that_the_compiler_consults_exist_once_and_are_not_those_it_changes() -> None:
    plain, strict = Flags(), Flags()
    strict.error_model = "numpy"
    first = entered(plain)
    assert first is entered(Flags())
    plain.no_cpython_wrapper = strict.no_cpython_wrapper = True
    plain.no_cfunc_wrapper = strict.no_cfunc_wrapper = True
    assert first is entered(plain)
    assert first == plain
    assert hash(first) == hash(plain)
    assert entered(strict) == strict != first
    for changed in (first.copy(), KernelFlags(plain), KernelFlags(plain).copy()):
        changed.error_model = "numpy"
    assert first == plain
    assert entered(plain) is first


def _quotient(a: float, b: float) -> float:
    return a / b


@overload(_quotient)
def _compiled(a, b):
    return lambda a, b: a / b


def _kernel(**options: Any) -> Any:
    @njit(**options)
    def kernel(a: float, b: float) -> float:
        return _quotient(a, b)

    return kernel


def test_each_kernel_gets_the_code_of_its_own_options() -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            _kernel()(1.0, 0.0)
        assert _kernel(error_model="numpy")(1.0, 0.0) == np.inf


def test_a_function_of_a_library_is_compiled_once_as_a_part_of_kernels_and_of_their_parts() -> None:
    def function(a: float) -> float:
        return a + 1.0

    @overload(function)
    def implementation(a):
        return lambda a: a + 1.0

    @njit
    def inner(a: float) -> float:
        return function(a) * 2.0

    @njit
    def outer(a: float) -> float:
        return inner(a) + function(a)

    with install_recorder("numba:compile") as seen:
        assert outer(1.0) == 6.0
    compiled = [event.data["dispatcher"] for _, event in seen.buffer if event.is_end]
    (library,) = [each for each in compiled if each.py_func.__name__ == "<lambda>"]
    assert library.overloads[library.signatures[0]].library.__class__ is PartLibrary
