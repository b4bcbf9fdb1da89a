"""The matching of sends with receives, and the check of dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.kernels.program.dag import in_order, out_of_order
from weft.workload.workload import Kind, Workload


class OperationError(InputError):
    """An error of operations, which `text` names by ``{}`` in the order of `ops`."""

    def __init__(self, text: str, workload: Workload, *ops: int) -> None:
        self.text, self.workload, self.ops = text, workload, ops
        super().__init__(self.with_places([""] * len(ops)))

    def with_places(self, places: Sequence[str]) -> str:
        """Return the message with a text behind the number of each operation."""
        named = map(self.workload.describe, self.ops, places)
        return self.text.format(*named)

    @property
    def first(self) -> tuple[int, int]:
        """Rank of the first operation, and its index in the rank's program."""
        rank = int(self.workload.rank[self.ops[0]])
        return rank, self.ops[0] - int(self.workload.op_offset[rank])

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        return InputError, (self.message,)


def check_order(workload: Workload) -> None:
    """Refuse dependencies between ranks, and cycles of dependencies."""
    op, at, later = out_of_order(workload.op_offset, workload.dep_offset, workload.dep)
    if op >= 0:
        text = "{} waits for {}, of another rank; expected a dependency within one rank"
        raise OperationError(text, workload, op, int(workload.dep[at]))
    if not later:
        return
    offset, after, _ = workload.after
    done = in_order(workload.num_ops, workload.dep_offset, workload.dep, offset, after)
    if done.all():
        return
    cycle = _cycle(workload, done)
    named = " waits for ".join(["{}"] * (len(cycle) + 1))
    text = f"operations wait for each other in a cycle: {named}"
    raise OperationError(text, workload, *cycle, cycle[0])


def _cycle(workload: Workload, done: NDArray[np.bool_]) -> list[int]:
    """Return one cycle: follow dependencies on blocked operations until an operation repeats."""
    op = int(np.argmin(done))
    seen: dict[int, int] = {}
    path: list[int] = []
    while op not in seen:
        seen[op] = len(path)
        path.append(op)
        before = workload.dep[workload.dep_offset[op] : workload.dep_offset[op + 1]]
        op = int(before[~done[before]][0])
    return path[seen[op] :]


def match_messages(workload: Workload) -> Workload:
    """Match the sends and receives of a workload.

    Among the sends and receives with the same source, destination, tag and communicator, the n-th
    send matches the n-th receive in program order (MPI's non-overtaking rule).
    """
    sends = np.flatnonzero(workload.kind == Kind.SEND)
    receives = np.flatnonzero(workload.kind == Kind.RECV)
    sent, received = _channels(workload, sends, receives)
    by_send, by_receive = (np.argsort(keys, kind="stable") for keys in (sent, received))
    sent, received = sent[by_send], received[by_receive]
    sends, receives = sends[by_send], receives[by_receive]
    del by_send, by_receive
    if len(sent) != len(received) or np.any(sent != received):
        _refuse_unmatched(workload, sends, receives, sent, received)
    del sent, received
    match = np.full(workload.num_ops, -1, dtype=np.int32)
    match[sends] = receives
    match[receives] = sends
    sends.sort()
    over = workload.size_bytes[sends] > workload.size_bytes[match[sends]]
    if over.any():
        op = int(sends[np.argmax(over)])
        sizes = workload.size_bytes
        text = f"{{}} sends {sizes[op]} bytes, but {{}} takes at most {sizes[match[op]]}"
        raise OperationError(text, workload, op, int(match[op]))
    return replace(workload, match=match)


def _channels(
    workload: Workload, sends: NDArray[np.int64], receives: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a key per send and per receive; source, destination, tag and comm determine it."""
    ranks = workload.num_ranks
    sent = workload.rank[sends].astype(np.int64) * ranks + workload.peer[sends]
    received = workload.peer[receives].astype(np.int64) * ranks + workload.rank[receives]
    label = _labels(workload, sends, receives)
    if label is None:
        return sent, received
    pairs = ranks**2
    if pairs * (int(label.max(initial=0)) + 1) >= 2**63:
        # Numbering only the pairs that occur avoids the overflow: there are at most as many as
        # operations.
        distinct, pair = np.unique(np.concatenate([sent, received]), return_inverse=True)
        pairs = len(distinct)
        sent, received = pair[: len(sends)], pair[len(sends) :]
    return label[: len(sends)] * pairs + sent, label[len(sends) :] * pairs + received


def _labels(
    workload: Workload, sends: NDArray[np.int64], receives: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return an index of the tag and communicator of each send, then of each receive.

    Return None if all operations have the same tag and communicator.
    """
    if all(len(column) and column.strides == (0,) for column in (workload.tag, workload.comm)):
        return None
    both = np.concatenate([sends, receives])
    tag = workload.tag[both].astype(np.int64) - np.iinfo(np.int32).min
    pairs = workload.comm[both].astype(np.int64) << 32 | tag
    if len(pairs) and np.all(pairs == pairs[0]):
        return None
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def _refuse_unmatched(
    workload: Workload,
    sends: NDArray[np.int64],
    receives: NDArray[np.int64],
    sent: NDArray[np.int64],
    received: NDArray[np.int64],
) -> None:
    """Raise an error that names the first unmatched operation, by rank and program order."""
    left = np.concatenate([_surplus(sends, sent, received), _surplus(receives, received, sent)])
    first = int(left.min())
    other = "receive" if workload.kind[first] == Kind.SEND else "send"
    more = f"; further unmatched operations: {len(left) - 1}" if len(left) > 1 else ""
    raise OperationError(f"{{}} has no matching {other}{more}", workload, first)


def _surplus(
    ops: NDArray[np.int64], keys: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the last operations of each key that occurs more often in `keys` than in `others`.

    They are as many as the difference. `keys` and `others` are sorted.
    """
    occurrence = np.arange(len(keys)) - np.searchsorted(keys, keys)
    matches = np.searchsorted(others, keys, side="right") - np.searchsorted(others, keys)
    return ops[occurrence >= matches]
