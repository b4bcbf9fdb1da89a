"""Collectives of time-independent traces: whether ranks agree about one, and its messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import COLLECTIVES as KINDS
from weft.workload.collectives import collective_on
from weft.workload.formats.tit_actions import Call


def lower(builder: WorkloadBuilder, calls: list[Call], algorithms: dict[str, str]) -> None:
    """Append a collective to the programs of all ranks.

    Parameters
    ----------
    builder
        Whose programs grow.
    calls
        What each rank says, by rank.
    algorithms
        Algorithm of each collective that does not take its default.

    Raises
    ------
    InputError
        Naming two ranks and their lines, when they call different collectives or disagree about
        root or sizes.
    """
    first = calls[0]
    for call in calls:
        if call.name != first.name:
            raise _disagree(call, first, f"calls {call.name}", f"calls {first.name}")
        if call.root != first.root:
            raise _disagree(call, first, f"has root {call.root}", f"has root {first.root}")
    try:
        collective_on(
            builder,
            first.name,
            np.arange(len(calls)),
            _sizes(calls),
            algorithm=algorithms.get(first.name),
            root=first.root,
        )
    except InputError as error:
        if error.file is not None:
            raise
        raise first.line.error(error.message) from None


def _sizes(calls: list[Call]) -> Any:
    """Sizes as `collective_on` takes them."""
    first = calls[0]
    root = calls[first.root]
    if first.name == "alltoallv":
        sent = np.array([call.send for call in calls], dtype=np.int64)
        taken = np.array([call.recv for call in calls], dtype=np.int64).T
        over = np.argwhere(sent > taken)
        if len(over):
            source, to = map(int, over[0])
            raise _too_much(calls[source], sent[source, to], calls[to], taken[source, to])
        return sent
    if first.name in ("gatherv", "allgatherv"):
        blocks = np.array([call.send for call in calls], dtype=np.int64)
        for taker in calls if first.name == "allgatherv" else [root]:
            if taker.recv is None:
                raise taker.line.error("the root does not say how much it receives from each rank")
            _check_taken(calls, blocks, taker, np.array(taker.recv))
        return blocks
    if first.name == "scatterv":
        if root.send is None:
            raise root.line.error("the root does not say how much it sends to each rank")
        blocks = np.array(root.send, dtype=np.int64)
        for call in calls:
            if blocks[call.line.rank] > call.recv:
                raise _too_much(root, blocks[call.line.rank], call, call.recv)
        return blocks
    if first.name == "scatter":
        for call in calls:
            if root.send > call.recv:  # type: ignore[operator]
                raise _too_much(root, root.send, call, call.recv)
        return root.send
    for call in calls:
        if call.send != first.send:
            raise _disagree(call, first, _says(call), _says(first))
    for call in [root] if KINDS[first.name].rooted else calls:
        if call.recv is not None and call.recv < first.send:  # type: ignore[operator]
            raise _too_much(first, first.send, call, call.recv)
    return first.send


def _check_taken(calls: list[Call], blocks: Any, taker: Call, taken: Any) -> None:
    over = np.flatnonzero(blocks > taken)
    if len(over):
        rank = int(over[0])
        raise _too_much(calls[rank], blocks[rank], taker, taken[rank])


def _says(call: Call) -> str:
    if isinstance(call.send, list):
        return f"has blocks of {', '.join(map(str, call.send[:8]))} bytes"
    return f"has {call.send} bytes"


def _disagree(call: Call, other: Call, ours: str, theirs: str) -> InputError:
    return call.line.error(
        f"rank {call.line.rank} {ours}, and rank {other.line.rank} {theirs} in its collective of "
        f"the same turn, at {other.line.file}:{other.line.number}"
    )


def _too_much(sender: Call, size: Any, taker: Call, taken: Any) -> InputError:
    return taker.line.error(
        f"rank {taker.line.rank} takes {taken} bytes of rank {sender.line.rank}, which sends "
        f"{size}, at {sender.line.file}:{sender.line.number}"
    )
