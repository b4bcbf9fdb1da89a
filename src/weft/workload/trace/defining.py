"""Evaluation of the scopes that a program defines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.workload.trace import nodes
from weft.workload.trace.errors import TraceError
from weft.workload.trace.scopes import Ints, Scope, balanced, grouped
from weft.workload.trace.values import Context, condition, integer, same_everywhere

#: Largest number of ranks in one list, and in a program.
MAX_LISTED = 10_000_000


def define(statement: nodes.DefineScope, parent: Scope, context: Context, comm: int) -> Scope:
    """Return the scope that a statement defines.

    The new scope is derived from `parent`, for all ranks of which `context` has names and values.
    `comm` is the number of its communicator.
    """
    name, definition = statement.name, statement.definition
    num_ranks = len(parent.group)
    match definition:
        case nodes.Dup():
            return replace(parent, name=name, comm=comm)
        case nodes.Cart():
            return _cart(name, definition, parent, context, comm)
        case nodes.Sub():
            return _sub(name, definition, parent, comm)
        case nodes.Split(color=color, key=key):
            colors = np.broadcast_to(integer(color, context, "the colour"), len(context.ranks))
            keys = np.zeros(1, dtype=np.int64)
            if key is not None:
                keys = integer(key, context, "the key")
            keys = np.broadcast_to(keys, len(context.ranks))
            groups = _split(parent, context.ranks, colors, keys)
        case nodes.Where(condition=test):
            truth = np.broadcast_to(condition(test, context), len(context.ranks))
            groups = _split(parent, context.ranks, np.where(truth, 0, -1), truth)
        case nodes.Listed(ranks=ranges):
            groups = _lists(ranges, parent, context)
    if not sum(map(len, groups)):
        raise TraceError(f"scope {name} has no rank", statement.at)
    return grouped(name, comm, num_ranks, groups)


def _split(parent: Scope, ranks: Ints, colors: Ints, keys: Ints) -> list[Ints]:
    """Return the ranks of each new communicator.

    Communicators are sorted by parent communicator and colour, ranks by key and rank in the parent.
    """
    members = np.flatnonzero(colors >= 0)
    group = parent.group[ranks]
    # The ranks are in the parent's order, and the sort is stable.
    order = members[np.lexsort((keys[members], colors[members], group[members]))]
    if not len(order):
        return []
    cuts = (np.diff(group[order]) != 0) | (np.diff(colors[order]) != 0)
    return list(np.split(ranks[order], np.flatnonzero(cuts) + 1))


def _lists(ranges: Sequence[nodes.Range], parent: Scope, context: Context) -> list[Ints]:
    """Return the listed ranks of each communicator of the parent."""
    local = listed(ranges, context)
    if len(np.unique(local)) < len(local):
        raise TraceError("a rank is listed twice", ranges[0].at)
    groups = []
    for group in range(parent.num_groups):
        members = parent.members(group)
        bad = local[(local < 0) | (local >= len(members))]
        if len(bad):
            raise TraceError(
                f"there is no rank {bad[0]} in {parent.name}, whose ranks are 0 to "
                f"{len(members) - 1}",
                ranges[0].at,
            )
        groups.append(members[local])
    return groups


def listed(ranges: Sequence[nodes.Range], context: Context) -> Ints:
    """Return the numbers in ranges, whose bounds and steps must be the same on all ranks."""
    parts: list[Ints] = []
    for range_ in ranges:
        first = last = same_everywhere(range_.first, context, "a rank")
        if range_.last is not None:
            last = same_everywhere(range_.last, context, "a rank")
        step = 1
        if range_.step is not None:
            step = same_everywhere(range_.step, context, "the step")
        if step == 0 or (last - first) * step < 0:
            raise TraceError(
                f"the range {first}..{last} BY {step} never reaches its end", range_.at
            )
        if (last - first) // step >= MAX_LISTED:
            raise TraceError(f"a list has more than {MAX_LISTED:,} ranks", range_.at)
        parts.append(np.arange(first, last + (1 if step > 0 else -1), step, dtype=np.int64))
    return np.concatenate(parts)


def _cart(name: str, definition: nodes.Cart, parent: Scope, context: Context, comm: int) -> Scope:
    sizes = np.unique(np.diff(parent.offset))
    if len(sizes) > 1:
        raise TraceError(
            f"the communicators of {parent.name} have {sizes[0]} to {sizes[-1]} ranks; a grid "
            "needs the same number in each",
            definition.at,
        )
    size = int(sizes[0])
    extents: list[int | None] = []
    for axis, dim in zip(definition.axes, definition.dims, strict=True):
        extent = None if dim is None else same_everywhere(dim, context, f"dimension {axis}")
        if extent is not None and extent < 1:
            raise TraceError(f"dimension {axis} is {extent}; expected 1 or more", definition.at)
        extents.append(extent)
    dims = balanced(size, extents)
    if dims is None:
        grid = " x ".join("AUTO" if dim is None else str(dim) for dim in extents)
        raise TraceError(
            f"a grid of {grid} does not fill the {size} ranks of {parent.name}; for fewer "
            "ranks, first define a scope of them, as in SCOPE part = LIST ALL [0..7]",
            definition.at,
        )
    periodic = definition.axes if definition.periodic is None else definition.periodic
    return replace(
        parent, name=name, comm=comm, axes=definition.axes, dims=tuple(dims),
        periodic=tuple(axis in periodic for axis in definition.axes),
    )  # fmt: skip


def _sub(name: str, definition: nodes.Sub, parent: Scope, comm: int) -> Scope:
    """Return the subgrids of a grid: one for each position along the axes that are dropped."""
    kept = [parent.axes.index(axis) for axis in parent.axes if axis in definition.axes]
    dropped = [number for number in range(len(parent.axes)) if number not in kept]
    ranks = parent.ranks
    coordinates = parent.coordinates(ranks)

    def mixed(numbers: list[int]) -> Ints:
        value = np.zeros(len(ranks), dtype=np.int64)
        for number in numbers:
            value = value * parent.dims[number] + coordinates[number]
        return value

    groups = _split(parent, ranks, mixed(dropped), mixed(kept))
    scope = grouped(name, comm, len(parent.group), groups)
    assert math.prod(parent.dims[number] for number in kept) == len(groups[0])
    return replace(
        scope,
        axes=tuple(parent.axes[number] for number in kept),
        dims=tuple(parent.dims[number] for number in kept),
        periodic=tuple(parent.periodic[number] for number in kept),
    )
