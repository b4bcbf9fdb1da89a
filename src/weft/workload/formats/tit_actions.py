"""The actions of SMPI's time-independent traces, and the arguments of each.

They are those of SimGrid 3.29, ``src/smpi/internals/smpi_replay.cpp``; letters of either case, as
traces of older versions have ``allReduce``. Counts are in elements of a datatype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.units import MAX_BYTES

#: Bytes of the datatypes that traces name by number: double, int, char, short, long, float, byte,
#: then those that only newer versions name.
TYPE_BYTES = {
    0: 8, 1: 4, 2: 1, 3: 2, 4: 8, 5: 4, 6: 1, 7: 8, 8: 1, 9: 1, 10: 2, 11: 4, 12: 8, 13: 8, 14: 16,
    15: 4, 16: 1, 17: 1, 18: 2, 19: 4, 20: 8, 21: 1, 22: 2, 23: 4, 24: 8, 25: 8, 26: 16, 27: 32,
    28: 8, 29: 8, 30: 8, 31: 16, 32: 16, 33: 8, 34: 8, 35: 8, 36: 16, 37: 16, 38: 4, 39: 4, 40: 8,
    41: 16, 42: 8, 43: 16, 44: 16, 45: 4, 46: 2, 47: 4, 48: 8, 49: 16, 50: 32, 53: 1, 54: 8, 55: 8,
}  # fmt: skip

#: Longest message, in characters.
_LONGEST = 500


@dataclass
class Line:
    """One line of a trace: an action and its arguments, taken from the front one by one."""

    file: str
    number: int
    rank: int
    action: str
    words: list[str]
    #: Bytes of an element where no datatype stands.
    default_bytes: int = 1
    at: int = 0

    def error(self, message: str) -> InputError:
        """An error at this line."""
        if len(message) > _LONGEST:  # words of a file may be of any length
            message = message[: _LONGEST // 2] + "..." + message[-_LONGEST // 2 :]
        return InputError(f"{self.action}: {message}", file=self.file, line=self.number)

    @property
    def left(self) -> int:
        """Arguments not taken yet."""
        return len(self.words) - self.at

    def _take(self, what: str) -> str:
        if not self.left:
            raise self.error(f"expected {what}, not the end of the line")
        self.at += 1
        return self.words[self.at - 1]

    def whole(self, what: str, low: int = 0, high: int = MAX_BYTES) -> int:
        """A whole number; also one that is written as a float, as SimGrid writes large ones."""
        word = self._take(what)
        try:
            value = int(word) if len(word) < 20 else float(word)
        except ValueError:
            try:
                value = float(word)
            except ValueError:
                raise self.error(f"expected {what}, not {word!r}") from None
        if not low <= value <= high:
            raise self.error(f"{what} {word}; expected {low} to {high}")
        if value != int(value):
            raise self.error(f"{what} {word} is no whole number")
        return int(value)

    def quantity(self, what: str) -> float:
        """A number that is not negative."""
        word = self._take(what)
        try:
            value = float(word)
        except ValueError:
            raise self.error(f"expected {what}, not {word!r}") from None
        if not 0 <= value < math.inf:
            raise self.error(f"{what} {word}; expected a positive number")
        return value

    def peer(self, num_ranks: int, what: str, first: int = 0) -> int:
        """A rank at the other side, where ranks count from `first`."""
        value = self.whole(what, -(2**31), 2**31)
        if value == -555 or (value == -1 and "source" in what):
            raise self.error(
                f"{value} means any source; weft matches messages beforehand and takes no wildcards"
            )
        if not first <= value < first + num_ranks:
            raise self.error(f"{what} {value}; ranks are {first} to {first + num_ranks - 1}")
        return value

    def tag(self) -> int:
        """A tag."""
        value = self.whole("a tag", -(2**31), 2**31 - 1)
        if value < 0:
            raise self.error(
                f"tag {value} is negative: any tag, perhaps; weft matches messages beforehand and "
                "takes no wildcards"
            )
        return value

    def element_bytes(self) -> int:
        """Bytes of the datatype that stands next, or of the default where none does."""
        if not self.left:
            return self.default_bytes
        number = self.whole("a datatype", -1, 1000)
        if number not in TYPE_BYTES:
            raise self.error(f"datatype {number}; expected a number of SMPI's, 0 to 55")
        return TYPE_BYTES[number]

    def bytes(self, count: int, element: int) -> int:
        """Bytes of a count of elements."""
        if count * element > MAX_BYTES:
            raise self.error(f"{count} elements of {element} bytes are more than 2^56 bytes")
        return count * element

    def done(self) -> None:
        """Refuse arguments that are left."""
        if self.left:
            raise self.error(f"expected the end of the line, not {self.words[self.at]!r}")


@dataclass
class Call:
    """A rank's part in a collective operation.

    `send` and `recv` are bytes, of one block or of one for each rank; None where the rank does not
    say. `flops` are computed afterwards: the reduction.
    """

    line: Line
    name: str
    send: int | list[int] | None = 0
    recv: int | list[int] | None = None
    root: int = 0
    flops: float = 0.0


def _barrier(line: Line, num_ranks: int) -> Call:
    return Call(line, "barrier")


def _root(line: Line, num_ranks: int) -> int:
    return line.whole("a root", 0, num_ranks - 1) if line.left else 0


def _bcast(line: Line, num_ranks: int) -> Call:
    count = line.whole("a count")
    root = _root(line, num_ranks)
    return Call(line, "bcast", line.bytes(count, line.element_bytes()), root=root)


def _reduce(line: Line, num_ranks: int) -> Call:
    count, flops = line.whole("a count"), line.quantity("an amount of flops")
    root = _root(line, num_ranks)
    size = line.bytes(count, line.element_bytes())
    return Call(line, "reduce", size, root=root, flops=flops)


def _allreduce(line: Line, num_ranks: int) -> Call:
    count, flops = line.whole("a count"), line.quantity("an amount of flops")
    return Call(line, "allreduce", line.bytes(count, line.element_bytes()), flops=flops)


def _scan(line: Line, num_ranks: int) -> Call:
    # The tracer writes it like a message: partner -1, tag 0, and only then the count.
    if line.left > 2:
        line.whole("-1", -1, -1)
        line.whole("0", 0, 0)
    count = line.whole("a count")
    return Call(line, line.action, line.bytes(count, line.element_bytes()))


def _two_counts(line: Line, num_ranks: int) -> Call:
    send, recv = line.whole("a count to send"), line.whole("a count to receive")
    root = _root(line, num_ranks) if line.action in ("gather", "scatter") else 0
    return _two_types(line, line.action, send, recv, root)


def _two_types(
    line: Line, name: str, send: int | list[int] | None, recv: int | list[int] | None, root: int
) -> Call:
    """Datatypes of both sides, which end the line."""
    sizes: list[int | list[int] | None] = []
    for counts in (send, recv):
        element = line.element_bytes()
        if isinstance(counts, list):
            sizes.append([line.bytes(count, element) for count in counts])
        else:
            sizes.append(None if counts is None else line.bytes(counts, element))
    return Call(line, name, sizes[0], sizes[1], root)


def _counts(line: Line, num_ranks: int, what: str) -> list[int]:
    if line.left < num_ranks:
        raise line.error(f"expected {num_ranks} {what}, one for each rank, not {line.left}")
    return [line.whole(what) for _ in range(num_ranks)]


def _gatherv(line: Line, num_ranks: int) -> Call:
    send = line.whole("a count to send")
    # Ranks that are not the root need not say what it receives.
    short = line.left < num_ranks and line.left <= 3
    recv = None if short else _counts(line, num_ranks, "counts to receive")
    return _two_types(line, "gatherv", send, recv, _root(line, num_ranks))


def _scatterv(line: Line, num_ranks: int) -> Call:
    short = line.left <= num_ranks and line.left <= 4
    send = None if short else _counts(line, num_ranks, "counts to send")
    recv = line.whole("a count to receive")
    return _two_types(line, "scatterv", send, recv, _root(line, num_ranks))


def _allgatherv(line: Line, num_ranks: int) -> Call:
    send = line.whole("a count to send")
    recv = _counts(line, num_ranks, "counts to receive")
    # Places in the buffer, one for each rank, may end the line; they do not matter here.
    if line.left > 2 and line.left >= num_ranks:
        line.words = line.words[:-num_ranks]
    if line.left == 1:  # of both sides
        line.words.append(line.words[-1])
    return _two_types(line, "allgatherv", send, recv, 0)


def _reducescatter(line: Line, num_ranks: int) -> Call:
    counts = _counts(line, num_ranks, "counts to receive")
    flops = line.quantity("an amount of flops")
    element = line.element_bytes()
    sizes: list[int] = [line.bytes(count, element) for count in counts]
    return Call(line, "reduce-scatter", sizes, flops=flops)


def _alltoallv(line: Line, num_ranks: int) -> Call:
    line.whole("the size of the send buffer")
    send = _counts(line, num_ranks, "counts to send")
    line.whole("the size of the receive buffer")
    recv = _counts(line, num_ranks, "counts to receive")
    return _two_types(line, "alltoallv", send, recv, 0)


COLLECTIVES: dict[str, Callable[[Line, int], Call]] = {
    "barrier": _barrier,
    "bcast": _bcast,
    "reduce": _reduce,
    "allreduce": _allreduce,
    "scan": _scan,
    "exscan": _scan,
    "alltoall": _two_counts,
    "allgather": _two_counts,
    "gather": _two_counts,
    "scatter": _two_counts,
    "gatherv": _gatherv,
    "scatterv": _scatterv,
    "allgatherv": _allgatherv,
    "reducescatter": _reducescatter,
    "alltoallv": _alltoallv,
}
#: Actions that change nothing here.
SILENT = ("finalize", "comm_size", "comm_split", "comm_dup", "location")
#: All others.
ALONE = ("init", "compute", "sleep", "send", "isend", "recv", "irecv", "sendrecv", "wait",
         "waitall", "test")  # fmt: skip
ACTIONS = (*SILENT, *ALONE, *COLLECTIVES)
