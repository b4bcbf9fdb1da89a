"""Teams of threads: each member runs one kernel over arrays that all share, and they meet.

Kernels of a team release Python's lock (``nogil=True``). What a member wrote before it came to a
barrier is visible to all members behind it.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from weft.kernels.lean import part_njit

#: Entries of the array of a barrier, each on cache lines of its own: members that have come, number
#: of the meeting, and whether a member failed.
_CAME, _MEETING, _FAILED = 0, 16, 32
_ENTRIES = 48
#: Looks at the number of the meeting before a waiting member offers its processor to others: some
#: microseconds, so that a team with more members than free processors goes on.
_LOOKS = 200
#: Function of the system that offers the processor to others, and instruction of a waiting loop.
_OFFER = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_PAUSE = "llvm.x86.sse2.pause" if platform.machine() in ("x86_64", "AMD64") else ""


def _on_entry(step):
    """Return the generator of an intrinsic: `step` gets the address of an entry, and the values."""

    def generate(context, builder, signature, arguments):
        array, index, *values = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        found = step(builder, builder.gep(data, [index]), *values)
        return context.get_dummy_value() if signature.return_type == types.void else found

    return generate


@intrinsic
def load(typing_context, array, index):
    """Return an entry of an int64 array; what its writer wrote before is then visible."""
    return types.int64(array, types.int64), _on_entry(
        lambda builder, entry: builder.load_atomic(entry, "acquire", 8)
    )


@intrinsic
def store(typing_context, array, index, value):
    """Write an entry of an int64 array, after all that this thread wrote before."""
    return types.void(array, types.int64, types.int64), _on_entry(
        lambda builder, entry, value: builder.store_atomic(value, entry, "release", 8)
    )


@intrinsic
def fetch_add(typing_context, array, index, value):
    """Add to an entry of an int64 array and return its previous value, as one step."""
    return types.int64(array, types.int64, types.int64), _on_entry(
        lambda builder, entry, value: builder.atomic_rmw("add", entry, value, "acq_rel")
    )


@intrinsic
def set_bits(typing_context, array, index, bits):
    """Set bits of an entry of a uint64 array, into which other threads may write, too."""
    return types.void(array, types.int64, types.uint64), _on_entry(
        lambda builder, entry, bits: builder.atomic_rmw("or", entry, bits, "monotonic")
    )


def _calling(name, result):
    """Return the generator of an intrinsic that calls a function, if it has a name."""

    def generate(context, builder, signature, arguments):
        if name:
            kind = ir.FunctionType(result, [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return generate


@intrinsic
def pause(typing_context):
    """Tell the processor that this thread waits in a loop."""
    return types.void(), _calling(_PAUSE, ir.VoidType())


@intrinsic
def offer_processor(typing_context):
    """Let other threads have this thread's processor."""
    return types.void(), _calling(_OFFER, ir.IntType(32))


@part_njit()
def meet(barrier, members):
    """Wait until all members have come here, and return True; False if a member failed.

    `barrier`: int64 array, as returned by `new_barrier`. `members`, int64: size of the team.
    """
    meeting = load(barrier, _MEETING)
    if fetch_add(barrier, _CAME, 1) == members - 1:
        store(barrier, _CAME, 0)
        store(barrier, _MEETING, meeting + 1)
        return True
    looks = 0
    while load(barrier, _MEETING) == meeting:
        looks += 1
        if looks < _LOOKS:
            pause()
        elif load(barrier, _FAILED):
            return load(barrier, _MEETING) != meeting  # all may have come before the failure
        else:
            offer_processor()
    return True


def new_barrier() -> NDArray[np.int64]:
    """Return the array of a barrier at which nobody waits."""
    return np.zeros(_ENTRIES, dtype=np.int64)


class Team:
    """Threads that run one kernel together; the thread that asks for it is their first member.

    Use as a context manager: threads start with the first `run` and end with the context.

    Parameters
    ----------
    members
        Number of threads, at least 1.
    """

    def __init__(self, members: int) -> None:
        self.barrier = new_barrier()
        self._others = ThreadPoolExecutor(members - 1, "weft-team") if members > 1 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        if self._others is not None:
            self._others.shutdown()

    def run(self, kernel: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a kernel once per member with its arguments; return the results.

        If a member fails, or the first is interrupted, `meet` returns False at the others, and the
        error is raised once all have returned. The kernel releases Python's lock.
        """

        def alone(own: tuple[Any, ...]) -> Any:
            try:
                return kernel(*own)
            except BaseException:
                self.barrier[_FAILED] = 1
                raise

        if self._others is None:
            return [kernel(*arguments[0])]
        if hasattr(kernel, "compile"):  # once, and in this thread
            kernel.compile(tuple(map(typeof, arguments[0])))
        futures: list[Future[Any]] = []
        try:
            futures.extend(self._others.submit(alone, own) for own in arguments[1:])
            first = kernel(*arguments[0])
            return [first, *(each.result() for each in futures)]
        except BaseException:
            self.barrier[_FAILED] = 1
            raise
        finally:
            wait(futures)
            self.barrier[:] = 0
