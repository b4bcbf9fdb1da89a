"""NCCL's collectives: its own choice of algorithm, protocol and channels, as messages of ranks.

`add_collective` adds a collective of one or more groups of ranks to a workload. What is modelled,
and from which source, is in docs/nccl.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from weft.core.errors import InputError, NotApplicable
from weft.core.units import MAX_BYTES
from weft.workload.builder import WorkloadBuilder
from weft.workload.nccl.algorithms import ALGORITHMS
from weft.workload.nccl.messages import MessageGraph
from weft.workload.nccl.shape import Shape
from weft.workload.nccl.tuning import VERSION, Collective, NcclChoice, Options, Tuner
from weft.workload.places import Places

__all__ = ["VERSION", "Collective", "NcclChoice", "Options", "add_collective"]


def add_collective(
    builder: WorkloadBuilder,
    name: Collective,
    members: ArrayLike,
    places: Places,
    size_bytes: int,
    *,
    root: int = 0,
    options: Options | None = None,
) -> NcclChoice:
    """Add one collective of NCCL within each of several disjoint groups of ranks.

    Parameters
    ----------
    builder
        Builder of the workload, whose notes get what was chosen.
    name
        The collective.
    members
        int [groups, n] or [n]: ranks of each group in the order of its communicator.
    places
        Machines and processors of all ranks.
    size_bytes
        Size as nccl-tests counts it: of all blocks of a rank together for an all-gather,
        reduce-scatter or all-to-all, else of the buffer or message.
    root
        Member that broadcasts, or to which is reduced.
    options
        NCCL's variables.

    Returns
    -------
    The choice for the first group.

    Raises
    ------
    InputError
        If a size, root or option is out of range, or several members are on one processor.
    NotApplicable
        If what the options ask for does not exist on these machines, or does not fit in memory.
    """
    groups = np.atleast_2d(np.asarray(members, dtype=np.int64))
    if not 0 <= size_bytes <= MAX_BYTES:
        raise InputError(f"{name} of {size_bytes} bytes; expected 0 to 2^56")
    if groups.shape[1] < 2:
        raise NotApplicable(f"{name} needs at least 2 ranks, not {groups.shape[1]}")
    if not 0 <= root < groups.shape[1]:
        raise InputError(f"{name}: there is no root {root} among {groups.shape[1]} ranks")
    alike: dict[bytes, tuple[Shape, list[int]]] = {}
    for index, row in enumerate(groups):
        shape = Shape.of(places, row)
        alike.setdefault(np.stack([shape.machine, shape.processor]).tobytes(), (shape, []))[
            1
        ].append(index)
    choices = []
    with builder.reserved_tag(0) as tag:
        for shape, rows in alike.values():
            tuner = Tuner(shape, options or Options())
            choice = tuner.choose(name, size_bytes)
            choices.append(choice)
            if not size_bytes:
                continue
            messages = MessageGraph(tuner.hops(choice))
            ALGORITHMS[name, choice.algorithm](messages, tuner, choice, size_bytes, root)
            least_ns = tuner.least_ns(choice, size_bytes)
            messages.lower(builder, groups[rows], tuner.base_ns(choice), tag, least_ns)
    for note in dict.fromkeys(note for choice in choices for note in (choice.text, *choice.notes)):
        if note not in builder.notes:
            builder.notes.append(note)
    return choices[0]
