"""Execution of a collective statement in all communicators of a scope at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import COLLECTIVES, Sizes, collective_on, default_algorithm
from weft.workload.trace import nodes
from weft.workload.trace.errors import TraceError
from weft.workload.trace.keywords import PEER
from weft.workload.trace.quantities import BYTES
from weft.workload.trace.scopes import Ints
from weft.workload.trace.values import Context, Value, integer

#: Algorithms in which each of n ranks sends at least n - 1 messages.
_QUADRATIC = ("ring", "pairwise")
#: Largest number of pairs in the size matrix of one ALLTOALLV.
_MAX_PAIRS = 2**26


def run_collective(
    builder: WorkloadBuilder, statement: nodes.CollectiveCall, context: Context, max_operations: int
) -> None:
    """Append a collective to the programs of the ranks that reach it.

    `context`: the ranks that reach the collective, and its scope.
    """
    name = statement.name.lower().replace("_", "-")
    kind = COLLECTIVES[name]
    scope = context.scope
    sizes = np.diff(scope.offset)
    count = np.bincount(scope.group[context.ranks], minlength=scope.num_groups)
    _refuse_missing(statement, context, count, sizes)
    active = np.flatnonzero(count)
    root = _of_ranks(statement.root, context, "the root")
    by_pair = kind.sizes is Sizes.PAIR and kind.uneven
    amounts: Ints | None = None
    if not by_pair:
        amounts = _of_ranks(statement.size, context, "the amount of data", BYTES)
        if np.any(amounts[context.ranks] < 0):
            bad = int(context.ranks[np.argmax(amounts[context.ranks] < 0)])
            raise TraceError(
                f"the amount of data is {amounts[bad]} on rank {bad}; expected 0 or more",
                statement.at if statement.size is None else statement.size.at,
            )

    def run(members: Ints, size: Any, root: int) -> None:
        n = members.shape[1]
        algorithm = statement.algorithm.lower() or default_algorithm(name, size, n)
        quadratic = algorithm in _QUADRATIC or (
            name.startswith("alltoall") and algorithm != "bruck"
        )
        if quadratic and builder.num_ops + 2 * members.size * (n - 1) > max_operations:
            raise TraceError(
                f"{statement.name} of {n:,} ranks expands to more than {max_operations:,} "
                "operations",
                statement.at,
            )
        collective_on(builder, name, members, size, algorithm=algorithm, root=root, comm=scope.comm)

    for n in np.unique(sizes[active]):
        groups = active[sizes[active] == n]
        members = np.stack([scope.members(int(group)) for group in groups])
        roots = _agreed(root[members], members, "the root", statement)
        if amounts is None:
            for row, root_rank in zip(members, roots, strict=True):
                matrix = _pairs(statement, context, row)
                run(row[None, :], matrix, int(root_rank))
            continue
        values = amounts[members]
        if not (kind.uneven and np.any(values != values[:, :1])):
            values = _agreed(values, members, "the size", statement)[:, None]
        keys, inverse = np.unique(np.hstack([values, roots[:, None]]), axis=0, return_inverse=True)
        for number, key in enumerate(keys):
            size: Any = int(key[0]) if len(key) == 2 else key[:-1]
            selected = members[inverse.reshape(-1) == number]
            run(selected, size, int(key[-1]))


def _refuse_missing(
    statement: nodes.CollectiveCall, context: Context, count: Ints, sizes: Ints
) -> None:
    partly = np.flatnonzero((count > 0) & (count < sizes))
    if not len(partly):
        return
    members = context.scope.members(int(partly[0]))
    missing = members[~np.isin(members, context.ranks)]
    here = members[np.isin(members, context.ranks)]
    raise TraceError(
        f"{statement.name} over {context.scope.name} is reached by rank {here[0]} but not by rank "
        f"{missing[0]} of the same communicator",
        statement.at,
    )


def _of_ranks(node: nodes.Expression | None, context: Context, what: str, unit: str = "") -> Ints:
    """Return int64 [world ranks]: values of a node; 0 outside `context`, or without a node."""
    values = np.zeros(len(context.scope.group), dtype=np.int64)
    if node is not None:
        values[context.ranks] = integer(node, context, what, unit)
    return values


def _agreed(values: Ints, members: Ints, what: str, statement: nodes.CollectiveCall) -> Ints:
    """Return the value of each communicator, which must be the same on all its ranks."""
    differ = values != values[:, :1]
    if differ.any():
        row, column = (int(indices[0]) for indices in np.nonzero(differ))
        raise TraceError(
            f"{what} of {statement.name} is {values[row, 0]} on rank {members[row, 0]} and "
            f"{values[row, column]} on rank {members[row, column]}",
            statement.at,
        )
    return values[:, 0]


def _pairs(statement: nodes.CollectiveCall, context: Context, members: Ints) -> Ints:
    """Return int64 [n, n]: bytes from each rank of a communicator to each rank."""
    n = len(members)
    if n * n > _MAX_PAIRS:
        raise TraceError(f"{statement.name} of {n:,} ranks has too many pairs", statement.at)
    assert statement.size is not None
    pairs = Context(
        np.repeat(members, n), context.scope, context.scopes, context.variables,
        {PEER: Value(np.tile(np.arange(n, dtype=np.int64), n))},
    )  # fmt: skip
    sizes = np.broadcast_to(
        np.asarray(integer(statement.size, pairs, "the amount of data", BYTES)), n * n
    )
    if np.any(sizes < 0):
        bad = int(np.argmax(sizes < 0))
        raise TraceError(
            f"the amount of data is {sizes[bad]} from rank {bad // n} to rank {bad % n}; "
            "expected 0 or more",
            statement.size.at,
        )
    return sizes.reshape(n, n)
