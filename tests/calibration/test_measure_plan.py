"""The list of communication graphs to measure, and the processes that run each graph."""

from __future__ import annotations

import re

import pytest

from weft.core.errors import InputError
from weft_calibration.measure_plan import (
    GraphOptions,
    HostRanks,
    MeasuredGraph,
    bind,
    machines_of,
    read_graphs,
)
from weft_calibration.shapes import all_shapes, shape

SIZE = 20 * 2**20
THREE = [HostRanks("a", [0, 3, 6]), HostRanks("b", [1, 4, 7]), HostRanks("c", [2, 5])]


def test_machines_are_in_the_order_of_their_first_process() -> None:
    assert machines_of(["x", "y", "x", "w", "y"]) == [
        HostRanks("x", [0, 2]), HostRanks("y", [1, 4]), HostRanks("w", [3]),
    ]  # fmt: skip


def test_each_end_of_an_edge_has_its_own_process_on_its_machine() -> None:
    graph = MeasuredGraph("g", [0, 0, 2, 1], [1, 1, 0, 2])
    ends = bind(graph, THREE)
    ranks = [rank for pair in ends for rank in pair]
    assert len(set(ranks)) == 8
    for source, destination, pair in zip(*graph[1:], ends, strict=True):
        assert pair[0] in THREE[source].ranks
        assert pair[1] in THREE[destination].ranks


def test_nodes_share_machines_only_on_request() -> None:
    graph = MeasuredGraph("g", [0, 3], [1, 1])
    with pytest.raises(InputError, match="graph 'g' has a node 3 and needs 4 machines; there"):
        bind(graph, THREE)
    (a, b), (c, d) = bind(graph, THREE, share=True)
    assert {a, c} <= {0, 3, 6}
    assert {b, d} <= {1, 4, 7}
    assert len({a, b, c, d}) == 4


@pytest.mark.parametrize(("share", "other"), [(False, 2), (True, 2), (True, 5)])
def test_too_few_processes_on_a_machine_are_an_error(share, other) -> None:
    with pytest.raises(InputError, match=re.escape("needs 3 processes on machine 2 (c)")):
        bind(MeasuredGraph("g", [2, 2, other], [0, 0, 1]), THREE, share=share)


def names(graphs) -> list[str]:
    return [graph.name for graph in graphs]


def test_all_graphs_are_listed_once_and_the_single_communication_first() -> None:
    graphs = GraphOptions(all=3).graphs(SIZE)
    assert [tuple(zip(*graph[1:], strict=True)) for graph in graphs] == list(all_shapes(3))
    assert names(graphs)[:2] == ["0->1", "0->1 0->1"]
    small = GraphOptions(all=3, max_nodes=3, max_degree=2).graphs(SIZE)
    assert 0 < len(small) < len(graphs)
    for graph in small:
        ends = [*graph.sources, *graph.destinations]
        assert max(ends) < 3
        assert max(map(ends.count, ends)) <= 2


def test_random_graphs_do_not_depend_on_their_number() -> None:
    few = GraphOptions(random=("2x4",), seed=5).graphs(SIZE)
    many = GraphOptions(random=("3x4", "2x5"), seed=5).graphs(SIZE)
    assert names(many) == [
        "0->1", "random-4-0", "random-4-1", "random-4-2", "random-5-0", "random-5-1",
    ]  # fmt: skip
    assert many[:3] == few
    assert len({(*graph.sources, *graph.destinations) for graph in many}) == 6
    assert all(len(graph.sources) == 5 for graph in many[4:])
    assert GraphOptions(random=("2x4",), seed=6).graphs(SIZE) != few
    assert GraphOptions(random=("2x4",), seed=5).facts() == {"seed": 5, "random_nodes": 6}


def test_smaller_graphs_for_the_recursion_are_added_on_request(tmp_path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("# what we care for\nfigure 4 A: 0->1 0->2 3->1  # a comment\n\nb: 5->6\n")
    assert names(GraphOptions(graphs_file=(file,)).graphs(SIZE)) == ["b", "figure 4 A"]
    graphs = GraphOptions(graphs_file=(file,), smaller=True).graphs(SIZE)
    forms = {shape(graph.sources, graph.destinations) for graph in graphs}
    assert len(forms) == len(graphs) == 4
    assert forms >= {((0, 1), (0, 2)), shape([0, 3], [1, 1])}


def test_a_graph_of_weft_predict_needs_equal_sizes_and_starts(tmp_path) -> None:
    file = tmp_path / "fig.txt"
    file.write_text("size 20MiB\na: node1 -> node2\nb: node1 -> node3\n")
    graphs = GraphOptions(graph=(file,)).graphs(SIZE)
    assert graphs[1] == MeasuredGraph("fig", [0, 0], [1, 2])
    with pytest.raises(InputError, match=r"messages have 20971520 bytes, not 7; use --size 2"):
        GraphOptions(graph=(file,)).graphs(7)
    file.write_text("size 20MiB\na: 1 -> 2\nb: 1 -> 3 4MiB\n")
    with pytest.raises(InputError, match="sizes must be equal"):
        GraphOptions(graph=(file,)).graphs(SIZE)
    file.write_text("size 20MiB\na: 1 -> 2\nb: 1 -> 3 start 2ms\n")
    with pytest.raises(InputError, match="starts must be equal"):
        GraphOptions(graph=(file,)).graphs(SIZE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected some graphs"),
        ({"all": -1}, "--all -1: expected 1 to 6 edges"),
        ({"all": 7}, "--all 7: expected 1 to 6 edges"),
        ({"random": ("5",)}, "--random 5: expected graphs x edges"),
        ({"random": ("0x5",)}, "--random 0x5: expected"),
        ({"random": ("3x5",), "random_nodes": 1}, "1 nodes"),
        ({"random": ("3x5",), "seed": -1}, "seeds of 0 or more"),
        ({"random": ("1x13",), "smaller": True}, "has 13 edges, too many to measure all"),
        ({"random": ("2x4", "2x4")}, "two graphs have the name 'random-4-0'"),
    ],
)
def test_options_that_give_no_valid_list_of_graphs_are_refused(options, message) -> None:
    with pytest.raises(InputError, match=message):
        GraphOptions(**options).graphs(SIZE)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("# nothing\n", None, "has no graphs"),
        ("a: 0->1\n0->1 0->2\n", 2, "expected a name, a colon and edges"),
        ("a:\n", 1, "expected a name, a colon and edges"),
        (": 0->1\n", 1, "expected a name, a colon and edges"),
        ("a: 0->1 0>2\n", 1, "'0>2' is not an edge"),
        ("a: 0->-1\n", 1, "'0->-1' is not an edge"),
        (f"a: 0->{'9' * 30}\n", 1, "is not an edge"),
        ("a: 0->1\n\nb: 3->3\n", 3, "edge 3->3 is a loop"),
        ("a: 0->1\na: 0->2\n", 2, "a second graph has the name 'a'"),
    ],
)
def test_faulty_lists_are_refused_with_the_line_number(text, line, message, tmp_path) -> None:
    file = tmp_path / "list.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_graphs(file)
    assert (caught.value.file, caught.value.line) == (str(file), line)
