"""Positions of the blocks and cells of a congestion matrix, and its picture."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import PolyCollection

import weft
from weft.core.errors import InputError
from weft.fabrics.topology import build
from weft.report import matrix_drawing as drawing_of
from weft.report.matrix_drawing import CELL, CENTRE, MatrixDrawing, matrix_drawing
from weft.report.matrix_picture import percent, plot_congestion_matrix
from weft.sim.common.congestion_matrix import congestion_matrix

PAPER = "kary-n-tree:k=4,n=3"


def matrix_of(spec: str, seed: int = 0) -> pl.DataFrame:
    fabric = build(spec)
    wait = np.random.default_rng(seed).integers(0, 90, fabric.num_links).astype(float)
    return congestion_matrix(fabric, wait)


def overlap(left: np.ndarray, top: np.ndarray, width: np.ndarray, height: np.ndarray) -> bool:
    """Return whether two of the rectangles share more than an edge."""
    for at in range(len(left)):
        apart = (
            (left + width <= left[at] + 1e-9) | (left >= left[at] + width[at] - 1e-9)
            | (top - height >= top[at] - 1e-9) | (top <= top[at] - height[at] + 1e-9)
        )  # fmt: skip
        if np.count_nonzero(~apart) != 1:
            return True
    return False


SPECS = (
    PAPER,
    "xgft:2;8,5;1,4",
    "xgft:3;8,8,8;1,8,8",
    "xgft:2;30,20;1,10",
    "torus:5x5",
    "bcube:n=3,k=1",
)


@pytest.mark.parametrize("spec", SPECS)
def test_cells_fill_their_blocks_and_nothing_overlaps(spec: str) -> None:
    drawn = matrix_drawing(matrix_of(spec))
    assert not overlap(drawn.x, drawn.y, drawn.width, drawn.height)
    wide, high = drawn.size
    assert drawn.x.min() >= 0
    assert (drawn.x + drawn.width).max() <= wide
    assert drawn.y.max() < 0
    assert (drawn.y - drawn.height).min() >= -high
    for block in range(len(drawn.node)):
        mine = drawn.block == block
        left, top, width = drawn.cell_x[mine], drawn.cell_y[mine], drawn.cell_width[mine]
        left, top = np.append(left, drawn.x[block]), np.append(top, drawn.centre_y[block])
        width = np.append(width, drawn.width[block])
        height = np.append(np.full(mine.sum(), CELL), CENTRE)
        assert not overlap(left, top, width, height)
        assert left.min() >= drawn.x[block] - 1e-9
        assert (left + width).max() <= drawn.x[block] + drawn.width[block] + 1e-9
        assert top.max() <= drawn.y[block] + 1e-9
        assert (top - height).min() >= drawn.y[block] - drawn.height[block] - 1e-9


@pytest.mark.parametrize("spec", SPECS)
def test_links_from_above_are_above_the_switch(spec: str) -> None:
    matrix = matrix_of(spec)
    drawn = matrix_drawing(matrix)
    assert drawn.link.tolist() == matrix["link"].to_list()
    assert np.array_equal(drawn.wait_ns, matrix["wait_ns"])
    assert np.array_equal(drawn.node[drawn.block], matrix["node"])
    above = drawn.cell_y > drawn.centre_y[drawn.block]
    assert np.array_equal(above, matrix["side"] == "upper")


def rows_of(drawn: MatrixDrawing) -> list[int]:
    """Return the number of blocks in each line."""
    return np.unique(-drawn.y, return_counts=True)[1].tolist()


def test_the_papers_tree_has_three_lines_and_large_levels_have_lines_of_whole_subtrees() -> None:
    drawn = matrix_drawing(matrix_of(PAPER))
    assert rows_of(drawn) == [16] * 3
    assert [text for text, _, _ in drawn.labels] == [f"Level {n}: 16 switches" for n in (3, 2, 1)]
    lines = rows_of(matrix_drawing(matrix_of("xgft:3;8,8,8;1,8,8")))
    assert sum(lines) == 192
    assert {line % 8 for line in lines} == {0}
    drawn = matrix_drawing(matrix_of("xgft:3;22,22,22;1,22,22"))
    wide, high = drawn.size
    assert 1.2 < wide / high < 3.5


def test_of_a_huge_level_the_most_loaded_switches_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawing_of, "MOST_SWITCHES", 5)
    matrix = matrix_of(PAPER)
    drawn = matrix_drawing(matrix)
    assert rows_of(drawn) == [5] * 3
    for level in (1, 2, 3):
        here = matrix.filter(pl.col("level") == level).unique("node", maintain_order=True)
        kept = here.filter(pl.col("node").is_in(drawn.node.tolist()))
        assert kept["switch_wait_ns"].min() >= here["switch_wait_ns"].sort()[-5]
        assert kept["column"].is_sorted()
    assert drawn.notes == [
        f"Level {n}: the 5 of 16 switches with the longest waits are drawn." for n in (3, 2, 1)
    ]


# -- picture ---------------------------------------------------------------------------------------


def test_numbers_are_percentages_where_there_is_room() -> None:
    matrix = matrix_of(PAPER)
    texts = [text.get_text() for text in plot_congestion_matrix(matrix).axes[0].texts]
    shares = [*matrix["share"], *matrix.unique("node")["switch_share"]]
    labels = [f"Level {n}: 16 switches" for n in (3, 2, 1)]
    assert sorted(texts) == sorted([*map(percent, shares), *labels])
    assert "100" in texts
    small = plot_congestion_matrix(matrix, size_inches=(4, 3)).axes[0].texts
    assert [text.get_text() for text in small] == labels


def test_shares_below_one_percent_are_not_zero() -> None:
    assert [percent(share) for share in (0.0, 0.0049, 0.0051, 0.994, 1.0)] == [
        "0", "<1", "1", "99", "100",
    ]  # fmt: skip


def colours(matrix: pl.DataFrame, **options: tuple[float, float]) -> np.ndarray:
    """Return the shares of the rectangles with a colour; -1 for no waits."""
    (cells, _) = plot_congestion_matrix(matrix, **options).axes[0].collections
    assert isinstance(cells, PolyCollection)
    return np.asarray(cells.get_array())


def test_colours_are_shares_and_tiny_cells_are_merged_by_side() -> None:
    fabric = build("xgft:2;3,2;1,2")
    wait = np.zeros(fabric.num_links)
    leaf = int(fabric.find_node("s1-0"))
    hosts = np.flatnonzero((fabric.link_to == leaf) & (fabric.link_from >= fabric.num_switches))
    wait[hosts] = [10.0, 40.0, 0.0]
    matrix = congestion_matrix(fabric, wait)
    # The upper row is two switches with two lower links each; s1-0 has two upper links.
    assert colours(matrix).tolist() == [-1] * 6 + [0.25, 1.0] + [-1] * 6 + [-1, -1, 1.0, -1]
    merged = colours(matrix, size_inches=(0.05, 1.0))
    assert merged.tolist() == [-1, -1, -1, 1.0, -1, -1, -1, -1, 1.0, -1]


def test_tables_that_are_no_matrix_are_refused() -> None:
    with pytest.raises(InputError, match="level is missing"):
        plot_congestion_matrix(pl.DataFrame({"link": [1]}))
    with pytest.raises(InputError, match="no link into a switch"):
        plot_congestion_matrix(matrix_of(PAPER).clear())


def test_a_result_draws_its_own_matrix() -> None:
    fabric = build("xgft:2;2,2;1,1")
    work = weft.load_workload("alltoall:size=4KiB", 4)
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), work, level="packet")
    figure = weft.plot(result, title="a $title$")
    assert figure.get_suptitle() == "a $title$"
    drawn = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(drawn)[-2:] == ["Level 1: 2 switches", "Level 2: 1 switch"]
