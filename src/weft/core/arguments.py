"""Checks of arguments of public functions: numbers, arrays and memory."""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError, OutOfMemory

_INT64 = np.iinfo(np.int64)
#: Largest count or index that fits into 32 bits.
MAX_INT32 = 2**31 - 1
_CACHED = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)
_MEMORY = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def whole_number(value: object, what: str, low: int = 0, high: int = _INT64.max) -> int:
    """Check a whole number and return it as int.

    `value`: a Python or NumPy integer; bools, floats and texts are refused. `what`: name of the
    value in messages.
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{what} must be a whole number, not {shown(value)}") from None
    if not low <= number <= high:
        if number > high == _INT64.max:
            raise InputError(f"{what} must be at most 2^63 - 1, not {shown(number)}")
        raise InputError(f"{what} must be {_range(low, high, _INT64.max)}, not {shown(number)}")
    return number


def flag(value: object, what: str) -> bool:
    """Check a truth value and return it as bool."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{what} must be true or false, not {shown(value)}")
    return bool(value)


def one_of(value: object, known: Sequence[str], what: str) -> str:
    """Check that a value is one of the known texts, and return it."""
    if not isinstance(value, str) or value not in known:
        *others, last = known
        raise InputError(f"unknown {what} {shown(value)}; expected {', '.join(others)} or {last}")
    return value


def finite_number(value: Any, what: str, low: float = 0.0, *, above: bool = False) -> float:
    """Check a finite number >= `low` (if `above`: > `low`), and return it as float."""
    number = float("nan")
    if not isinstance(value, bool) and isinstance(value, Real):
        with contextlib.suppress(OverflowError):
            number = float(value)
    if not (math.isfinite(number) and (number > low if above else number >= low)):
        least = "" if low == -math.inf else f" {'above' if above else 'of at least'} {low:g}"
        raise InputError(f"{what} must be a finite number{least}, not {shown(value)}")
    return number


def whole_numbers(
    values: ArrayLike,
    what: str,
    *,
    low: int = _INT64.min,
    high: int = _INT64.max,
    shape: Sequence[int | None] | None = (None,),
    each: int | None = None,
    of: str = "",
) -> NDArray[np.int64]:
    """Check an array of whole numbers.

    - `values`: integers of any width, as an array or as nested lists; bools and floats are refused.
    - `what`: name of the values in messages, in the plural.
    - `shape`: length of each axis, None for any length. If `shape` itself is None, a single number
      and arrays of all shapes are accepted and returned as a one-dimensional array.
    - `each`: length of the returned array, in place of `shape`; if `values` is a single number, it
      is repeated.
    - `of`: objects that the values identify, for messages: ``"hosts of torus:4x4"``.

    The shape of the result is the one that `shape` or `each` demands.
    """
    array = any_numbers(values, what, "iu", shape, each)
    if array.size and not low <= (least := int(array.min())) <= (most := int(array.max())) <= high:
        wrong = least if least < low else most
        valid = f"{of} are {_range(max(low, 0), high)}" if of else f"expected {_range(low, high)}"
        where = _index(array, array == wrong)
        raise InputError(f"{what}: {shown(wrong)}{where} is out of range; {valid}")
    return array.astype(np.int64)


def finite_numbers(
    values: ArrayLike,
    what: str,
    *,
    low: float = 0.0,
    missing: bool = False,
    shape: Sequence[int | None] | None = (None,),
    each: int | None = None,
) -> NDArray[np.float64]:
    """Check an array of finite numbers >= `low`, and return it as float64; see `whole_numbers`.

    If `missing`, NaN is allowed and means an unknown number.
    """
    given = any_numbers(values, what, "iuf", shape, each)
    array = given.astype(np.float64)
    wrong = ~(np.isfinite(array) & (array >= low)) & ~(missing & np.isnan(array))
    if wrong.any():
        least = "" if low == -np.inf else f" of at least {low:g}"
        shown_as = f"{array[wrong][0]:g}{_index(given, wrong)}"
        raise InputError(f"{what}: {shown_as} is out of range; expected finite numbers{least}")
    return array


def _index(array: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    """Return the index of the first wrong number as text; empty for a single number."""
    if array.size == 1 or not any(array.strides):
        return ""
    index = [int(axis[0]) for axis in np.nonzero(wrong)]
    return f" at index {index[0] if len(index) == 1 else tuple(index)}"


def any_numbers(
    values: ArrayLike,
    what: str,
    kinds: str,
    shape: Sequence[int | None] | None = (None,),
    each: int | None = None,
) -> NDArray[Any]:
    """Check an array whose NumPy kind is in `kinds` (``"iub"``: integers, bools).

    The other parameters are as in `whole_numbers`.
    """
    expected = f"{what}: expected {'numbers' if 'f' in kinds else 'whole numbers'}"
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{expected}, not ragged lists or other objects") from None
    if array.dtype == object and all(type(value) in (int, float) for value in array.flat):
        raise InputError(f"{what}: a number is too large")  # beyond 64 bits
    if array.size and array.dtype.kind not in kinds:
        raise InputError(f"{expected}, not {shown(array.flat[0])}")
    if each is not None:
        if array.shape not in {(), (each,)}:
            raise InputError(f"{what}: expected one number or {each:,}, not {_form(array.shape)}")
        array = np.broadcast_to(array, each)
    elif shape is None:
        array = array.reshape(-1)
    elif array.ndim != len(shape) or any(
        length not in (None, given) for length, given in zip(shape, array.shape, strict=True)
    ):
        raise InputError(f"{expected}, {_form(shape)}, not {_form(array.shape)}")
    return array if array.dtype.kind in kinds else np.zeros(array.shape)


def _form(shape: Sequence[int | None]) -> str:
    if not shape:
        return "a single number"
    if len(shape) == 1:
        return "a list" if shape[0] is None else f"{shape[0]:,} of them"
    return " x ".join("any" if length is None else f"{length:,}" for length in shape)


def _range(low: int, high: int, open_end: int = _INT64.max) -> str:
    if high == open_end:
        return f"at least {low:,}" if low != _INT64.min else "-2^63 to 2^63 - 1"
    return f"{low:,} to {high:,}"


def shown(value: object) -> str:
    """Return a value as text for messages, shortened to 60 characters."""
    if isinstance(value, int) and abs(value) >= 10**18:
        return f"{float(value):.3g}" if abs(value) < 10**300 else "a number of over 300 digits"
    if isinstance(value, tuple) and len(value) == 1:
        return shown(value[0])
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "..."


# -- memory --------------------------------------------------------------------------------------


def available_bytes() -> int | None:
    """Return the number of bytes that this process can still allocate; None if it is unknown.

    This is the smallest of free memory, the rest of the cgroup limit and the rest of the ulimit.
    """
    limits: list[int | None] = []
    with contextlib.suppress(OSError, ValueError):
        match = _MEMORY.search(Path("/proc/meminfo").read_text(encoding="ascii"))
        if match:
            limits.append(1024 * int(match[1]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        most, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        # Pages of files, which count as used, are given up for others.
        pages = sum(map(int, _CACHED.findall((group / "memory.stat").read_text())))
        limits.append(max(0, int(most) - int(used) + pages))
    limits.append(free_addresses())
    return min((limit for limit in limits if limit is not None), default=None)


def free_addresses() -> int | None:
    """Return the rest of the ulimit on addresses, used or not, in bytes; None if there is none."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            used_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            return max(0, soft - used_pages * resource.getpagesize())
    return None


def need_memory(needed: int, what: str, instead: str) -> None:
    """Refuse a computation that needs more memory than is available, before it starts.

    `needed`: number of bytes. `what`: object that needs the memory, with its size: ``"distances of
    70,000 switches"``. `instead`: end of the message: what to do instead.
    """
    free = available_bytes() if needed > 2**28 else None
    if free is not None and needed > free:
        raise OutOfMemory(
            f"{what} would take {bytes_text(needed)} of memory, and {bytes_text(free)} are free; "
            f"{instead}"
        )


def bytes_text(count: int) -> str:
    """Return a size as text with a binary unit: ``36.5 GiB``."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_SIZES) - 1)
    # 1023.9 MiB has more than three digits.
    power += count / 1024**power >= 999.5 and power + 1 < len(_SIZES)
    return f"{count / 1024**power:.3g} {_SIZES[power]}"
