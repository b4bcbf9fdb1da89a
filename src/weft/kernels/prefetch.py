"""Prefetching: requests for memory that is needed soon."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(typing_context, array, index):
    """Request the cache line of an entry, by its number in C order, without waiting for it."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        entries = builder.extract_value(arguments[0], 4)  # the address
        byte = ir.IntType(8).as_pointer()
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        offset = builder.mul(arguments[1], ir.Constant(ir.IntType(64), size))
        address = builder.gep(builder.bitcast(entries, byte), [offset])
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
            "llvm.prefetch.p0i8",
        )
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate
