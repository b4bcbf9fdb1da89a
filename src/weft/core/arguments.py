"""What public functions take from users, checked in one place: numbers, arrays and memory."""

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

from weft.core.errors import InputError, NotApplicable

_INT64 = np.iinfo(np.int64)
#: Largest number that counts and indexes in 32 bits.
MAX_INT32 = 2**31 - 1
_MEMORY = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def whole_number(value: object, what: str, low: int = 0, high: int = _INT64.max) -> int:
    """One whole number.

    Parameters
    ----------
    value
        A Python or NumPy integer; no bool, no float, no text.
    what
        What it is, for messages.
    low, high
        Least and greatest that is allowed.

    Raises
    ------
    InputError
        When it is none, or out of range.
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
    """True or false.

    Raises
    ------
    InputError
        When it is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{what} must be true or false, not {shown(value)}")
    return bool(value)


def one_of(value: object, known: Sequence[str], what: str) -> str:
    """One of some texts.

    Raises
    ------
    InputError
        When it is another one, or no text.
    """
    if not isinstance(value, str) or value not in known:
        *others, last = known
        raise InputError(f"unknown {what} {shown(value)}; expected {', '.join(others)} or {last}")
    return value


def finite_number(value: Any, what: str, low: float = 0.0, *, above: bool = False) -> float:
    """One finite number of at least, or with `above` of more than, the least.

    Raises
    ------
    InputError
        When it is none, or out of range.
    """
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
    """An array of whole numbers.

    Parameters
    ----------
    values
        Integers of any width, as an array or as nested lists; no bools and no floats.
    what
        What they are, in the plural, for messages.
    low, high
        Least and greatest that is allowed.
    shape
        Lengths of the axes, each None for any. None takes all shapes, and one number, as a list.
    each
        Instead of `shape`, one number for all or so many, which are returned.
    of
        What the range is of, for messages: ``"hosts of torus:4x4"``.

    Returns
    -------
    ndarray
        int64 of that shape.

    Raises
    ------
    InputError
        On ragged lists, other types, another shape, or a number out of range.
    """
    array = any_numbers(values, what, "iu", shape, each)
    if array.size and not low <= (least := int(array.min())) <= (most := int(array.max())) <= high:
        wrong = least if least < low else most
        there = f"{of} are {_range(max(low, 0), high)}" if of else f"expected {_range(low, high)}"
        where = _place(array, array == wrong)
        raise InputError(f"{what}: {shown(wrong)}{where} is out of range; {there}")
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
    """An array of finite numbers, float64, of at least the least; see `whole_numbers`.

    With `missing`, NaN stands for numbers that are not known.

    Raises
    ------
    InputError
        On ragged lists, other types, another shape, NaN, infinity, or a number out of range.
    """
    given = any_numbers(values, what, "iuf", shape, each)
    array = given.astype(np.float64)
    wrong = ~(np.isfinite(array) & (array >= low)) & ~(missing & np.isnan(array))
    if wrong.any():
        least = "" if low == -np.inf else f" of at least {low:g}"
        shown_as = f"{array[wrong][0]:g}{_place(given, wrong)}"
        raise InputError(f"{what}: {shown_as} is out of range; expected finite numbers{least}")
    return array


def _place(array: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    """Where the first wrong number of an array stands, where it is one of several."""
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
    """An array of NumPy's kinds of numbers (``"iub"``: integers and bools); see `whole_numbers`.

    Raises
    ------
    InputError
        On ragged lists, other types, or another shape.
    """
    expected = f"{what}: expected {'numbers' if 'f' in kinds else 'whole numbers'}"
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{expected}, not lists of different lengths or other things") from None
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
        length not in (None, found) for length, found in zip(shape, array.shape, strict=True)
    ):
        raise InputError(f"{expected}, {_form(shape)}, not {_form(array.shape)}")
    return array if array.dtype.kind in kinds else np.zeros(array.shape)


def _form(shape: Sequence[int | None]) -> str:
    if not shape:
        return "one alone"
    if len(shape) == 1:
        return "a list" if shape[0] is None else f"{shape[0]:,} of them"
    return " x ".join("any" if length is None else f"{length:,}" for length in shape)


def _range(low: int, high: int, open_end: int = _INT64.max) -> str:
    if high == open_end:
        return f"at least {low:,}" if low != _INT64.min else "-2^63 to 2^63 - 1"
    return f"{low:,} to {high:,}"


def shown(value: object) -> str:
    """A value for messages, cut where it is long."""
    if isinstance(value, int) and abs(value) >= 10**18:
        return f"{float(value):.3g}" if abs(value) < 10**300 else "a number of over 300 digits"
    if isinstance(value, tuple) and len(value) == 1:
        return shown(value[0])
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "..."


# -- memory --------------------------------------------------------------------------------------


def available_bytes() -> int | None:
    """Memory that this process may still take, as the system and its control groups say."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        match = _MEMORY.search(Path("/proc/meminfo").read_text(encoding="ascii"))
        if match:
            found.append(1024 * int(match[1]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        most, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        found.append(max(0, int(most) - int(used)))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            used_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            found.append(max(0, soft - used_pages * resource.getpagesize()))
    return min(found, default=None)


def need_memory(needed: int, what: str, instead: str) -> None:
    """Refuse what would take more memory than there is, before any of it is taken.

    Parameters
    ----------
    needed
        Bytes.
    what
        What takes them, with its size: ``"distances of 70,000 switches"``.
    instead
        What to do about it.

    Raises
    ------
    NotApplicable
        With the two sizes.
    """
    there = available_bytes() if needed > 2**28 else None
    if there is not None and needed > there:
        raise NotApplicable(
            f"{what} would take {bytes_text(needed)} of memory, and {bytes_text(there)} are free; "
            f"{instead}"
        )


def bytes_text(count: int) -> str:
    """A size as people read it: ``36.5 GiB``."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_SIZES) - 1)
    return f"{count / 1024**power:.3g} {_SIZES[power]}"
