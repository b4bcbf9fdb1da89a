"""Indices of arrays in kernels, which count from the start only, as in C.

Numba compares each index with 0 and adds the length of the array to a negative one, which takes
more instructions than the access itself. A negative index is an error in a kernel of weft;
`tests/validation/test_bounds.py` finds those.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.np import arrayobj

#: Begin of the symbols of weft's kernels.
_OURS = "_ZN4weft"
_numbas = arrayobj.fix_integer_index


def from_start(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Generate code for an index of an axis of length `size`."""
    if not builder.function.name.startswith(_OURS):
        return _numbas(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp)


arrayobj.fix_integer_index = from_start
