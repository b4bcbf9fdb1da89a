"""Halo exchange of a domain in three dimensions."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from weft.core.errors import InputError
from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import (
    all_ranks,
    application,
    at_least,
    check_messages,
    check_size,
    need,
    numbered,
)
from weft.workload.apps.grids import beside, process_grid
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload


@application("stencil", source="halo exchange of a Cartesian domain decomposition")
def stencil(
    num_ranks: int,
    *,
    local: tuple[int, ...] = (64, 64, 64),
    cell: Bytes = 8,
    halo: int = 1,
    points: int = 7,
    sizes: tuple[Bytes, ...] | None = None,
    periodic: bool = True,
    dims: tuple[int, ...] | None = None,
    iterations: int = 1,
    calc: Nanoseconds = 0.0,
) -> Workload:
    """Exchange halos with all neighbours at once, then calculate.

    An iteration posts all receives, then all sends, waits for all of them, and then calculates. A
    message holds a block of cells: `halo` deep in the dimensions of its direction, and as long
    as the rank's part in the other dimensions.

    Parameters
    ----------
    num_ranks
        Number of ranks, all in the grid.
    local
        Number of cells of a rank in each dimension.
    cell
        Bytes of a cell.
    halo
        Depth of the halo in cells.
    points
        Number of points of the stencil. 7: exchange with the six neighbours across faces. 27: also
        with the neighbours across edges and corners.
    sizes
        Bytes of a message in the first, second and third dimension, instead of the size from
        `local`, `cell` and `halo`; only for 7 points.
    periodic
        Wrap around in all dimensions. A rank that is its own neighbour sends nothing; a rank that
        is another rank's neighbour on both sides receives two messages from that rank.
    dims
        Grid of ranks, the first dimension varying fastest; if left out, as near to a cube as
        possible.
    iterations
        Number of iterations.
    calc
        Time that a rank calculates in each iteration.
    """
    at_least(1, iterations=iterations, halo=halo)
    need(
        len(local) == 3 and min(local) >= 1,
        f"local must be three sizes of 1 or more, not {'x'.join(map(str, local))}",
    )
    need(points in (7, 27), f"points must be 7 or 27, not {points}")
    if sizes is not None and (len(sizes) != 3 or points != 7):
        raise InputError("sizes must be three, one for each dimension, and points must be 7")
    grid = process_grid(num_ranks, dims, 3)
    steps = [
        step
        for step in product((-1, 0, 1), repeat=3)
        if any(step) and (points == 27 or sum(map(abs, step)) == 1)
    ]
    check_messages(num_ranks, num_ranks * len(steps) * iterations)
    builder = WorkloadBuilder(num_ranks)
    ranks = all_ranks(builder)
    sides = []
    for tag, step in enumerate(steps):
        to = beside(grid, step, (periodic,) * 3)
        source = beside(grid, tuple(-move for move in step), (periodic,) * 3)
        if sizes is None:
            size = cell * prod(halo if move else n for n, move in zip(local, step, strict=True))
        else:
            size = sizes[int(np.flatnonzero(step)[0])]
        check_size(size)
        sends, receives = ((peer >= 0) & (peer != ranks) for peer in (to, source))
        sides.append((tag, size, ranks[sends], to[sends], ranks[receives], source[receives]))
    for iteration in range(iterations):
        builder.phase(numbered("exchange", iteration, iterations))
        for tag, size, _, _, receivers, source in sides:
            builder.irecv(receivers, source, size, tag)
        for tag, size, senders, to, _, _ in sides:
            builder.isend(senders, to, size, tag)
        builder.waitall(ranks)
        if calc:
            builder.phase(numbered("compute", iteration, iterations))
            builder.calc(ranks, calc)
    return builder.build()
