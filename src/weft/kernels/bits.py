"""Bits of 64-bit words."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typing_context, word):
    """Return the number of the lowest set bit of a uint64 other than 0, as int64."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate
