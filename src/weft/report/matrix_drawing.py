"""`matrix_drawing`: positions of the blocks and cells of a congestion matrix.

A switch is a block of cells: links from above in its upper lines, links from below in its lower
lines, and the switch itself between them. A row of blocks is a level, the highest at the top; a row
that is too long is continued in further lines. The page and the figure draw the same positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.sim.common.congestion_matrix import SIDES

#: Height of a cell of a link, and of the cell of the switch; a narrow cell is 1 wide.
CELL, CENTRE = 0.8, 1.2
#: Most cells in a line of a side, and least width of a block.
MOST_ACROSS, LEAST_WIDTH = 8, 3
#: Distance between blocks; rows up to this width are not continued in a second line.
GAP, WIDE = 1.0, 96.0
#: Width of a large matrix, divided by its height.
ASPECT = 2.2
#: Distance between levels, and the share of the width that it has in a large matrix.
LEVEL_GAP, LEVEL_SHARE = 2.0, 0.022
#: Most switches of a level that are drawn: those with the longest waits.
MOST_SWITCHES = 4000


@dataclass(frozen=True, eq=False)
class MatrixDrawing:
    """Rectangles of a congestion matrix; x to the right, y upwards, the top left is (0, 0)."""

    #: [blocks]: node of each switch, left and upper end, width and height of its block.
    node: NDArray[np.int32]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    width: NDArray[np.float64]
    height: NDArray[np.float64]
    #: float64 [blocks]: upper end of the cell of the switch, which is `CENTRE` high.
    centre_y: NDArray[np.float64]
    #: float64 [blocks]: wait of each switch, and its share.
    switch_wait_ns: NDArray[np.float64]
    switch_share: NDArray[np.float64]
    #: [cells]: link and block of each cell, its left and upper end, and its width. Cells are `CELL`
    #: high, and in the order of the blocks.
    link: NDArray[np.int32]
    block: NDArray[np.int32]
    cell_x: NDArray[np.float64]
    cell_y: NDArray[np.float64]
    cell_width: NDArray[np.float64]
    #: float64 [cells]: wait of each link, and its share.
    wait_ns: NDArray[np.float64]
    share: NDArray[np.float64]
    #: Text, left end and lower end of the label of each row.
    labels: list[tuple[str, float, float]]
    #: Notes on omitted switches.
    notes: list[str] = field(default_factory=list)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of all blocks and labels."""
        if not len(self.node):
            return LEAST_WIDTH, CENTRE
        return float((self.x + self.width).max()), float((self.height - self.y).max())


def matrix_drawing(matrix: pl.DataFrame) -> MatrixDrawing:
    """Return the drawing of a congestion matrix.

    `matrix`: columns of `weft.sim.common.congestion_matrix.CONGESTION_MATRIX_COLUMNS`, in its
    order.
    """
    notes: list[str] = []
    rows = [_row(each, notes) for each in matrix.partition_by("level", maintain_order=True)]
    area = sum(row.count * (row.width + GAP) * (row.height + GAP) for row in rows)
    widest = max((row.count * (row.width + GAP) for row in rows), default=0.0)
    room = max(min(WIDE, widest), (ASPECT * area) ** 0.5)
    gap = max(LEVEL_GAP, LEVEL_SHARE * room)
    full = max((row.across(room) * (row.width + GAP) for row in rows), default=0.0)
    labels, places, top, blocks = [], [], 0.0, 0
    for row in rows:
        across = row.across(room)
        left = (full - across * (row.width + GAP)) / 2
        top -= gap
        labels.append((row.label, left, top + 0.2 * gap))
        places.append(row.placed(across, left, top, blocks))
        top -= -(-row.count // across) * (row.height + GAP) - GAP
        blocks += row.count
    names = [name for name in MatrixDrawing.__dataclass_fields__ if name not in ("labels", "notes")]
    joined = {
        name: np.concatenate([np.zeros(0, dtype=np.int32), *(each[name] for each in places)])
        for name in names
    }
    return MatrixDrawing(**joined, labels=labels, notes=notes)


@dataclass(frozen=True, eq=False)
class _Row:
    """Switches of one level, and sizes of their blocks; see `_row`."""

    cells: pl.DataFrame
    label: str
    block: NDArray[np.int64]
    count: int
    upper: tuple[int, int]
    lower: tuple[int, int]
    width: float

    @property
    def height(self) -> float:
        """Height of a block."""
        return (self.upper[1] + self.lower[1]) * CELL + CENTRE

    def across(self, room: float) -> int:
        """Return the blocks in a line of a matrix of about this width.

        If a number near that width divides the count, lines are full: in a tree of equal subtrees,
        each line then begins with a subtree.
        """
        most = room / (self.width + GAP)
        if self.count <= most:
            return self.count
        near = range(max(math.ceil(most / 1.5), 1), int(most * 1.25) + 1)
        full = [number for number in near if self.count % number == 0]
        if full:
            return min(full, key=lambda number: abs(number - most))
        return -(-self.count // math.ceil(self.count / max(int(most), 1)))

    def placed(self, across: int, left: float, top: float, before: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of `MatrixDrawing` for this row.

        `left`, `top`: left end of the lines, and upper end of the first. `before`: number of blocks
        in earlier rows.
        """
        line, at = np.divmod(np.arange(self.count), across)
        x, y = left + at * (self.width + GAP), top - line * (self.height + GAP)
        centre = y - self.upper[1] * CELL
        columns = {
            name: self.cells[name].to_numpy() for name in self.cells.columns if name != "name"
        }
        lower = columns["side"] == SIDES[1]
        first = np.flatnonzero(np.diff(self.block * 2 + lower, prepend=-1))
        number = np.arange(len(lower)) - np.repeat(first, np.diff(first, append=len(lower)))
        in_line = np.where(lower, self.lower[0], self.upper[0])
        cell_width = self.width / in_line
        down, along = np.divmod(number, in_line)
        begin = np.where(lower, centre[self.block] - CENTRE, y[self.block])
        head = np.flatnonzero(np.diff(self.block, prepend=-1))
        return {
            "node": columns["node"][head],
            "x": x,
            "y": y,
            "width": np.full(self.count, self.width),
            "height": np.full(self.count, self.height),
            "centre_y": centre,
            "switch_wait_ns": columns["switch_wait_ns"][head],
            "switch_share": columns["switch_share"][head],
            "link": columns["link"],
            "block": (before + self.block).astype(np.int32),
            "cell_x": x[self.block] + along * cell_width,
            "cell_y": begin - down * CELL,
            "cell_width": cell_width,
            "wait_ns": columns["wait_ns"],
            "share": columns["share"],
        }


def _row(cells: pl.DataFrame, notes: list[str]) -> _Row:
    """Return a row of blocks; a note is added if switches are left out.

    `upper` and `lower` are the most cells in a line and the number of lines of that side.
    """
    level, count = cells["level"][0], cells["node"].n_unique()
    name = "All switches" if level is None else f"Level {level}"
    of = "" if level is None else " switch" if count == 1 else " switches"
    label = f"{name}: {count:,}{of}"
    if count > MOST_SWITCHES:
        waits = cells.unique("node", maintain_order=True)
        order = waits["switch_wait_ns"].arg_sort(descending=True)[:MOST_SWITCHES]
        cells = cells.filter(pl.col("node").is_in(waits["node"][order].to_list()))
        notes.append(
            f"{name}: the {MOST_SWITCHES:,} of {count:,} switches with the longest waits are drawn."
        )
    node = cells["node"].to_numpy()
    block = np.cumsum(np.diff(node, prepend=node[:1]) != 0)
    sides = []
    for side in SIDES:
        number = int(np.bincount(block[(cells["side"] == side).to_numpy()], minlength=1).max())
        lines = -(-number // MOST_ACROSS)
        sides.append((-(-number // max(lines, 1)), lines))
    upper, lower = sides
    width = float(max(upper[0], lower[0], LEAST_WIDTH))
    return _Row(cells, label, block, int(block[-1]) + 1, upper, lower, width)
