"""Growing tables, and the dependency runs made of them, compared with plain lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import InputError
from weft.kernels.program.dag import edge_runs, out_of_order, successors
from weft.workload import WorkloadBuilder, workload
from weft.workload.program_order import Rows

VALUES = st.integers(0, 2)
BLOCKS = st.one_of(
    st.tuples(st.just("row"), VALUES),
    st.tuples(st.just("same"), VALUES, st.integers(0, 300)),
    st.tuples(st.just("each"), st.lists(VALUES, max_size=5)),
    st.tuples(st.just("look")),
)


@given(st.lists(BLOCKS, max_size=12))
def test_rows_equal_a_plain_list(blocks) -> None:
    rows, plain = Rows((("value", np.int32),)), []
    for what, *rest in blocks:
        if what == "row":
            rows.add(rest[0])
            plain.append(rest[0])
        elif what == "same":
            value, count = rest
            rows.extend(count, value)
            plain += [value] * count
        elif what == "each":
            rows.extend(len(rest[0]), np.array(rest[0], dtype=np.int32))
            plain += rest[0]
        else:
            rows.column(0)
    column = rows.column(0)
    assert column.tolist() == plain
    assert (column.strides == (0,)) == (len(set(plain)) <= 1)


def test_later_changes_of_the_callers_array_do_not_change_rows() -> None:
    rows, values = Rows((("value", np.int64),)), np.arange(3)
    rows.extend(3, values)
    values[:] = 7
    assert rows.column(0).tolist() == [0, 1, 2]


@given(st.data())
def test_runs_of_dependencies_are_sorted_and_without_duplicates(data) -> None:
    ops = data.draw(st.integers(1, 6))
    number = data.draw(st.permutations(range(ops)))
    end = st.integers(0, ops - 1)
    edges = data.draw(st.lists(st.tuples(end, end, st.booleans()), max_size=30))
    plain = {}
    for op, on, start in edges:
        key = number[op], number[on]
        plain[key] = plain.get(key, True) and start
    offset, dep, on_start = edge_runs(
        np.array(number, dtype=np.int32),
        *(np.array([edge[at] for edge in edges], dtype=np.int32) for at in (0, 1)),
        np.array([edge[2] for edge in edges], dtype=bool),
    )
    runs = [(op, int(dep[at])) for op in range(ops) for at in range(offset[op], offset[op + 1])]
    assert runs == sorted(plain)
    starts = [plain[key] for key in runs]
    assert on_start.tolist() == (starts if any(starts) else [])

    follow_offset, follow, place = successors(ops, offset, dep, True)
    following = [
        (int(follow[at]), op)
        for op in range(ops)
        for at in range(follow_offset[op], follow_offset[op + 1])
    ]
    assert sorted(following) == runs
    assert [runs[at] for at in place] == following
    assert not len(successors(ops, offset, dep, False)[2])


def test_the_first_dependency_between_ranks_is_found() -> None:
    ranks = np.array([0, 2, 4])
    fine = np.array([0, 0, 1, 1, 2])
    assert out_of_order(ranks, fine, np.array([0, 2], dtype=np.int32)) == (-1, -1, False)
    assert out_of_order(ranks, fine, np.array([1, 2], dtype=np.int32)) == (-1, -1, True)
    assert out_of_order(ranks, fine, np.array([0, 1], dtype=np.int32))[:2] == (3, 1)
    assert out_of_order(ranks, fine, np.array([2, 0], dtype=np.int32))[:2] == (1, 0)


def test_more_dependencies_than_can_be_numbered_are_refused(monkeypatch) -> None:
    builder = WorkloadBuilder(1, name="long")
    builder.rank(0).calc(1.0).calc(1.0).calc(1.0)
    chain = builder.build()
    monkeypatch.setattr(workload, "_MAX_DEPS", 1)
    with pytest.raises(InputError, match="long has 2 dependencies; at most 1 can be numbered"):
        _ = chain.after
