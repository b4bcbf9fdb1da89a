"""Named tuples of arrays as one pointer, for kernels that pass many arrays to each other.

Numba passes a tuple of arrays by value: seven words for each array, in every call and variable,
which the compiler has to follow and to remove again. A kernel that gets `parts(net)` in place of
the named tuple `net` reads it in the same way (``net.tables.routes[0]``), but `net` is the address
of a block with those words, of which it loads the ones that it uses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.datamodel.models import OpaqueModel
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    register_model,
    unbox,
)

from weft.kernels.described import described
from weft.kernels.lean import lean_njit

#: Kernel -> the same kernel, compiled to be called by its address.
ENTRIES: dict[Any, Any] = {}
#: Words of an array before its shape: two references, which kernels do not count, the number of
#: items, the size of an item, and the address.
BEFORE_SHAPE = 5


class PartsType(types.Type):  # type: ignore[misc]
    """Numba's type of the address of the parts of a named tuple.

    `hidden`: part whose address is stored in place of its words, and of which the type says
    nothing. `known`: type of the hidden part, None in the type for kernels that pass it on without
    using it.
    """

    def __init__(self, kind: Any, hidden: str | None = None, known: PartsType | None = None):
        self.places: dict[str, tuple[int, Any]] = {}
        self.words = 0
        self.by_address = hidden
        for name, part in zip(kind.fields, kind.types, strict=True):
            if name == hidden:
                if known is not None:
                    self.places[name] = self.words, known
                self.words += 1
                continue
            inner = PartsType(part) if hasattr(part, "instance_class") else part
            self.places[name] = self.words, inner
            self.words += _words(inner)
        # Symbols contain this name; the types of a hundred arrays would fill pages.
        layout = f"{_lowering()} {self.places} {hidden}"
        digest = hashlib.sha256(layout.encode()).hexdigest()[:16]
        super().__init__(name=f"Parts.{kind.instance_class.__name__}.{digest}")


def _words(kind: Any) -> int:
    """Return the number of words of a part."""
    if isinstance(kind, PartsType):
        return kind.words
    if isinstance(kind, types.Array):
        return BEFORE_SHAPE + 2 * kind.ndim
    if isinstance(kind, types.Record | types.Integer | types.Float | types.Boolean):
        return 1
    if isinstance(kind, types.NoneType):
        return 0
    raise TypeError(f"no part of a kernel's state can be {kind}")


class StateParts:
    """The parts of a named tuple, as a kernel gets them; keeps its arrays alive.

    `state`: named tuple of arrays, records, numbers, None, and further such tuples. `hidden`: name
    of a tuple among them whose type differs from run to run, while the loop is the same: only
    kernels that are called by their address use it. `known` is the type for them.
    """

    __slots__ = ("_numba_type_", "block", "inner", "known", "state")

    def __init__(self, state: Any, hidden: str | None = None):
        self.state, self.inner, own = state, None, {}
        if hidden is not None:
            self.inner = StateParts(getattr(state, hidden))
            own = {hidden: self.inner.block.ctypes.data}
        inner = None if self.inner is None else self.inner._numba_type_
        seen = _kind_of(state if hidden is None else state._replace(**{hidden: None}))
        self._numba_type_ = _type_of(seen, hidden, None)
        self.known = _type_of(seen, hidden, inner)
        self.block = np.array([*_block(state._asdict() | own)], dtype=np.int64)


def _kind_of(state: Any) -> Any:
    """Return Numba's type of a named tuple, which takes long to find for arrays of records."""
    key = _layout(state)
    if key not in _KINDS:
        _KINDS[key] = typeof(state)
    return _KINDS[key]


def _layout(part: Any) -> Hashable:
    """Return what Numba's type of a part depends on."""
    match part:
        case tuple():
            return type(part), *map(_layout, part)
        case np.ndarray():
            return part.dtype, part.ndim, part.flags.num
        case np.record() | np.void():
            return type(part), part.dtype
        case int():
            return type(part), part < 2**63
        case _:
            return type(part)


#: What the type of a named tuple depends on -> its type.
_KINDS: dict[Hashable, Any] = {}


@cache
def _type_of(kind: Any, hidden: str | None, known: PartsType | None) -> PartsType:
    return PartsType(kind, hidden, known)


def parts(state: Any) -> Any:
    """Return `StateParts` of a named tuple; None for None."""
    return None if state is None else StateParts(state)


def renewed(known: Any, state: Any) -> Any:
    """Return the parts of a state: those that are known, unless they are those of another tuple."""
    return known if known is not None and known.state is state else parts(state)


def _block(state: dict[str, Any]) -> Iterator[int]:
    """Yield the words that describe the parts."""
    for part in state.values():
        if isinstance(part, np.ndarray):
            address = part.ctypes.data  # an `__array_interface__` describes all fields, too
            yield from (0, 0, part.size, part.itemsize, address, *part.shape, *part.strides)
        elif isinstance(part, np.record | np.void):
            yield part.__array_interface__["data"][0]
        elif isinstance(part, tuple):
            yield from _block(part._asdict())  # type: ignore[attr-defined]
        elif isinstance(part, float):
            yield int(np.float64(part).view(np.int64))
        elif part is not None:
            yield int(part)


@cache
def address_of(kernel: Any, result: Any, *arguments: Any) -> int:
    """Compile a kernel for arguments of these types, and return its address for `call`.

    `kernel`: kernel, or the function of one. `result`, `arguments`: Numba's types.
    """
    if kernel not in ENTRIES:
        ENTRIES[kernel] = lean_njit(no_cpython_wrapper=True)(kernel.py_func)
    entry = ENTRIES[kernel]
    entry.compile(result(*arguments))
    (overload,) = [each for each in entry.overloads.values() if each.signature.args == arguments]
    return int(overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name))


@intrinsic
def call_for_bool(typing_context, address, arguments):
    """Call the kernel at an address, which returns a bool, with a tuple of arguments."""
    return _call(types.boolean, arguments)


@intrinsic
def call_for_int(typing_context, address, arguments):
    """Call the kernel at an address, which returns an int64, with a tuple of arguments."""
    return _call(types.int64, arguments)


@intrinsic
def call_for_none(typing_context, address, arguments):
    """Call the kernel at an address, which returns nothing, with a tuple of arguments."""
    return _call(types.none, arguments)


def _call(result, arguments):
    """Return the signature and the generator of a call with Numba's convention.

    StateParts, addresses and integers are one word each, whose types the call need not know.
    """
    wide = (PartsType, types.NoneType)
    if not all(isinstance(each, wide) or each == types.int64 for each in arguments):
        raise TypeError(f"a kernel is called by its address with int64, not with {arguments}")

    def generate(context, builder, signature, values):
        kinds = signature.args[1].types
        convention = context.call_conv
        address = builder.inttoptr(
            values[0], convention.get_function_type(result, kinds).as_pointer()
        )
        words = cgutils.unpack_tuple(builder, values[1], len(kinds))
        _, out = convention.call_function(builder, address, result, kinds, words)
        return out

    return result(types.int64, arguments), generate


register_model(PartsType)(OpaqueModel)


@unbox(PartsType)
def _unbox(kind, value, context):
    """Take the address of the block of words."""
    block = context.pyapi.object_getattr_string(value, "block")
    native = context.unbox(types.Array(types.int64, 1, "C"), block)
    context.pyapi.decref(block)
    data = cgutils.create_struct_proxy(types.Array(types.int64, 1, "C"))(
        context.context, context.builder, native.value
    ).data
    pointer = context.context.get_value_type(kind)
    return NativeValue(context.builder.bitcast(data, pointer), native.is_error, native.cleanup)


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = PartsType

    def generic_resolve(self, parts, name):
        """Return the type of a part."""
        return parts.places[name][1] if name in parts.places else None


@lower_getattr_generic(PartsType)
def _attribute(context, builder, kind, address, name):
    """Load a part, or the address of its own parts."""
    first, part = kind.places[name]
    word = ir.IntType(64)

    def load(at, wanted):
        place = builder.gep(
            builder.bitcast(address, word.as_pointer()), [ir.Constant(word, first + at)]
        )
        loaded = builder.load(builder.bitcast(place, wanted.as_pointer()), align=8)
        # Kernels write into arrays, never into their descriptions.
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(part, types.NoneType):
        return context.get_dummy_value()
    if isinstance(part, PartsType) and name != kind.by_address:
        place = builder.gep(builder.bitcast(address, word.as_pointer()), [ir.Constant(word, first)])
        return builder.bitcast(place, context.get_value_type(part))
    if isinstance(part, types.Array):
        # As values: what stands in memory of its own, LLVM has to bring back to registers.
        null = ir.IntType(8).as_pointer()(None)
        shape = [load(BEFORE_SHAPE + axis, word) for axis in range(part.ndim)]
        if part.ndim == 1 and part.layout == "C":
            strides = [word(context.get_abi_sizeof(context.get_data_type(part.dtype)))]
            items, size = shape[0], strides[0]
        else:
            items, size = load(2, word), load(3, word)
            strides = [load(BEFORE_SHAPE + part.ndim + axis, word) for axis in range(part.ndim)]
        array = ir.Constant(context.get_value_type(part), ir.Undefined)
        data = load(4, array.type.elements[4])
        axes = (cgutils.pack_array(builder, each) for each in (shape, strides))
        for place, field in enumerate((null, null, items, size, data, *axes)):
            array = builder.insert_value(array, field, place)
        return impl_ret_borrowed(context, builder, part, array)
    if isinstance(part, types.Boolean):
        return builder.trunc(load(0, word), ir.IntType(1))
    return load(0, context.get_value_type(part))


@cache
def _lowering() -> str:
    """Return a digest of what this module compiles, which no other fingerprint contains."""
    functions = (_attribute, _call, _unbox, _words)
    text = "".join(described(each.__code__, each.__doc__, set()) for each in functions)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
