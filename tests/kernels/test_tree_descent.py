"""Routes in trees that lead up and then down."""

from __future__ import annotations

import numpy as np
import pytest

from weft.kernels.routing.tree_descent import first_not_down

#: Levels of the rows: leaf switches 0, 1 and 2, middle switches 3 and 4, top switch 5.
LEVEL = np.array([0, 0, 0, 1, 1, 2])
#: Next rows towards the leaf switch 0, from each row that has any.
DOWN = {1: [3], 2: [4], 3: [0], 4: [5], 5: [3]}


def first(next_rows: dict[int, list[int]], goal: int = 0) -> tuple[int, int]:
    """Return the first row and target at which the routes to one leaf switch are wrong."""
    pairs = [(row, other) for row, others in next_rows.items() for other in others]
    head = np.array([other for _, other in pairs])
    set_id = np.full((len(LEVEL), len(LEVEL)), -1)
    set_id[goal, list(next_rows)] = np.arange(len(next_rows))
    offset = np.cumsum([0, *map(len, next_rows.values())])
    return first_not_down(np.arange(3), set_id, offset, np.arange(len(pairs)), head, LEVEL)


@pytest.mark.parametrize("changed", [{}, {2: [3, 4]}, {3: [5], 5: [4], 4: [0]}])
def test_routes_up_and_then_down(changed: dict[int, list[int]]) -> None:
    assert first({**DOWN, **changed}) == (-1, -1)


def test_paths_may_end_without_a_next_hop() -> None:
    assert first({1: [3], 2: [4], 4: [5]}) == (-1, -1)


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        ({4: [5, 0]}, 4),  # both up and down
        ({4: [0, 5]}, 4),
        ({5: [4], 4: [5]}, 4),  # up again after down
        ({3: [1], 1: [4]}, 1),  # down to another leaf switch, and up from there
    ],
)
def test_routes_up_and_down_or_up_after_down(changed: dict[int, list[int]], row: int) -> None:
    assert first({**DOWN, **changed}) == (row, 0)


def test_rows_that_no_leaf_switch_sends_to_are_not_checked() -> None:
    assert first({1: [3], 3: [0], 4: [5, 0]}) == (-1, -1)
