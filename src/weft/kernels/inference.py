"""Numba's inference of types, which asks the same questions many times, with the answers kept.

For each operator and function that a kernel calls, Numba tries all implementations that it has. For
each of them it looks up a key with the compiler's flags, of which it makes a dictionary every time.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

from numba import types
from numba.core.base import BaseContext
from numba.core.compiler import Flags
from numba.core.targetconfig import ConfigStack

#: Types of arguments whose meaning does not depend on what else is compiled.
_SETTLED = (
    types.Number, types.Boolean, types.Array, types.NumberClass, types.DType, types.NoneType,
    types.Literal, types.BaseTuple, types.Record,
)  # fmt: skip
_Flags: Any = Flags


class KernelFlags(_Flags):  # type: ignore[misc]
    """Numba's flags of a kernel; those that the compiler consults meanwhile are `EnteredFlags`."""


class EnteredFlags(_Flags):  # type: ignore[misc]
    """Flags of which equal ones exist once; the compiler consults them and changes its own."""

    @cached_property
    def _hash(self) -> int:
        return hash(Flags(self))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> Any:
        return self is other or super().__eq__(other)

    def copy(self) -> Any:
        """Return flags that may be changed."""
        return Flags(self)


_entered: dict[EnteredFlags, EnteredFlags] = {}


def _once(enter: Any) -> Any:
    """Consult the flags of kernels as `EnteredFlags`."""

    def enter_flags(stack: Any, flags: Any) -> Any:
        if isinstance(flags, KernelFlags):
            flags = EnteredFlags(flags)
            # Wrappers of a kernel make no difference for the functions that it calls.
            flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
            flags = _entered.setdefault(flags, flags)
        return enter(stack, flags)

    return enter_flags


def _remembered(infer: Any) -> Any:
    """Keep the signatures that a method of Numba's functions infers for settled types."""
    known: dict[Any, tuple[Any, Any]] = {}

    def get_call_type(function: Any, context: Any, arguments: Any, named: Any) -> Any:
        flags = ConfigStack.top_or_none()
        settled = not named and all(isinstance(each, _SETTLED) for each in arguments)
        if not settled or not isinstance(flags, EnteredFlags):
            return infer(function, context, arguments, named)
        key = function, context, tuple(arguments), flags
        if key in known:
            signature, code = known[key]
            function._impl_keys[signature.args] = code
        else:
            signature = infer(function, context, arguments, named)
            known[key] = signature, function._impl_keys[signature.args]
        return signature

    return get_call_type


types.Function.get_call_type = _remembered(types.Function.get_call_type)
BaseContext.get_abi_sizeof = cache(BaseContext.get_abi_sizeof)  # each call parses a module of LLVM
ConfigStack.enter = _once(ConfigStack.enter)
