"""Files of measurements: round trips, and errors with the number of the line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.errors import InputError
from weft_calibration.measurements import (
    MEASUREMENT_COLUMNS,
    Measurement,
    read_measurements,
    write_measurements,
)

HEAD = "graph,edge,source,destination,size_bytes,time_s\n"
EDGES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda e: (e[0], (e[0] + e[1]) % 10)),
    min_size=1,
    max_size=5,
)
NAMES = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=9
)
TIMES = st.floats(1e-9, 1e6)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(NAMES, EDGES, st.data()), min_size=1, max_size=4, unique_by=lambda g: g[0])
)
def test_measurements_survive_a_round_trip_exactly(tmp_path_factory, graphs) -> None:
    file = tmp_path_factory.mktemp("m") / "m.csv"
    written = []
    for name, edges, data in graphs:
        times = data.draw(st.lists(TIMES, min_size=len(edges), max_size=len(edges)))
        sizes = data.draw(st.lists(st.integers(1, 2**56), min_size=len(edges), max_size=len(edges)))
        statistics = {"lower_s": times, "repetitions": [7] * len(edges)}
        sources, destinations = zip(*edges, strict=True)
        written.append(Measurement(name, sources, destinations, sizes, times, times, statistics))
    write_measurements(file, written, {"mpi": "Some\nMPI 4"})
    result = read_measurements(file)
    assert result.metadata["mpi"] == "Some MPI 4"
    assert result.metadata["graphs"] == str(len(graphs))
    assert [graph.name for graph in result.measurements] == [graph.name for graph in written]
    for graph, other in zip(result.measurements, written, strict=True):
        for column in ("sources", "destinations", "size_bytes", "time_s", "start_s"):
            np.testing.assert_array_equal(getattr(graph, column), getattr(other, column))
        assert list(graph.statistics) == ["lower_s", "repetitions"]
        for column, values in graph.statistics.items():
            np.testing.assert_array_equal(values, other.statistics[column])


def test_a_file_of_another_program_needs_six_columns_in_any_order(tmp_path) -> None:
    file = tmp_path / "m.csv"
    file.write_text(
        "time_s, graph ,edge,size_bytes,destination,source\n"
        "\n0.5,two,0,1000,1,0\n 0.6 ,two,1,1000,2,0\n0.25,one,0,1000,1,0\n"
    )
    result = read_measurements(file)
    assert dict(result.metadata) == {}
    two, one = result.measurements
    assert (two.name, one.name) == ("two", "one")
    np.testing.assert_array_equal(two.destinations, [1, 2])
    np.testing.assert_array_equal(two.time_s, [0.5, 0.6])
    np.testing.assert_array_equal(two.start_s, [0, 0])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "is empty"),
        ("# only: this\n", 2, "column graph is missing"),
        (HEAD, None, "has no measurements"),
        ("graph,edge,source,destination,size_bytes\n", 1, "column time_s is missing"),
        (HEAD.replace("time_s", "times"), 1, "unknown column 'times' .*'time_s'"),
        (HEAD.replace("size_bytes", "edge"), 1, "duplicate column 'edge'"),
        (HEAD + "g,0,0,1,1000\n", 2, "5 values for 6 columns"),
        (HEAD + "g,0,0,1,1000,1,2\n", 2, "7 values for 6 columns"),
        (HEAD + "g,0,0,1,1e3,1\n", 2, "size_bytes is '1e3'; expected an integer"),
        (HEAD + "g,0,0,1,1000,fast\n", 2, "time_s is 'fast'; expected a number"),
        (HEAD + "g,0,0,1,1000,nan\n", 2, "time_s is 'nan'"),
        (HEAD + "g,0,0,1,1000,inf\n", 2, "time_s is 'inf', which is too large"),
        (HEAD + f"g,0,0,1,{10**30},1\n", 2, "size_bytes is '10+', which is too large"),
        (HEAD + f"g,0,0,1,{'9' * 60},1\n", 2, "size_bytes is '9{40}', which is too large"),
        (HEAD + "g,0,0,1,1000,0\n", 2, "times must be above 0 s"),
        (HEAD + "g,0,0,1,1000,-1\n", 2, "times must be above 0 s"),
        (HEAD + "g,0,0,1,0,1\n", 2, "size_bytes: 0 is out of range; expected 1 to"),
        (HEAD + "g,0,-1,1,1000,1\n", 2, "sources: -1 is out of range; expected 0 to"),
        (HEAD + "g,0,2,2,1000,1\n", 2, "graph 'g': edge 0 is a loop at node 2"),
        (HEAD + "g,1,0,1,1000,1\n", 2, "graph 'g': expected edge 0, not 1"),
        (HEAD + "g,0,0,1,1000,1\ng,0,0,2,1000,1\n", 3, "expected edge 1, not 0"),
        (HEAD + "g,0,0,1,9,1\nh,0,0,1,9,1\ng,1,0,1,9,1\n", 4, "graph 'g' occurs again"),
        (HEAD + ",0,0,1,9,1\n", 2, "expected a printable name"),
        (HEAD + '"g,0,0,1,9,1\n', 2, "unexpected end of data"),
        (
            "# rows: 2\n" + HEAD + "g,0,0,1,9,1\n",
            None,
            "has 1 rows; expected 2 as in its head",
        ),
        ("# graphs: 9\n" + HEAD + "g,0,0,1,9,1\n", None, "has 1 graphs; expected 9 as in its head"),
    ],
)
def test_errors_in_a_file_name_the_line(text, line, message, tmp_path) -> None:
    file = tmp_path / "m.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_measurements(file)
    assert caught.value.file == str(file)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("g", [], [], 1, []), "at least one"),
        (("g", [0, 1], [1], 1, [1, 1]), "as many sources as destinations"),
        (("g", [0.5], [1], 1, [1]), "sources: expected whole numbers"),
        (("g", [0], [1], [1, 2], [1]), "size_bytes: expected one number or 1, not 2"),
        (("g", [0], [1], 1, [1, 2]), "time_s has 2 values for 1 edges"),
        (("g", [0], [1], 1, [np.nan]), "time_s must be finite"),
        (("g", [0], [1], 1, [1], [np.inf]), "start_s must be finite"),
        (("g", [0], [1], True, [1]), "size_bytes: expected whole numbers"),
        ((" g", [0], [1], 1, [1]), "without leading or trailing space"),
        (("g\n", [0], [1], 1, [1]), "printable name"),
    ],
)
def test_invalid_measurements_are_refused_by_name(arguments, message) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Measurement(*arguments)
    assert repr(arguments[0]) in str(caught.value)


def test_arrays_of_a_measurement_are_read_only_copies() -> None:
    times = np.array([1.0])
    graph = Measurement("g", [0], [1], 8, times)
    times[0] = 2
    assert graph.time_s[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        graph.time_s[0] = 3


def test_a_failed_write_leaves_the_file_unchanged(tmp_path) -> None:
    file = tmp_path / "m.csv"
    graph = Measurement("g", [0], [1], 8, [1.0])
    other = Measurement("h", [0], [1], 8, [1.0], statistics={"min_s": [1.0]})
    write_measurements(file, [graph])
    before = file.read_bytes()
    for graphs, message in (
        ([], "no measurements to write"),
        ([graph, graph], "two graphs have the name 'g'"),
        ([graph, other], "graph 'h': its statistics differ from"),
    ):
        with pytest.raises(InputError, match=message):
            write_measurements(file, graphs)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.csv"]


def test_every_column_is_described() -> None:
    assert all(column.meaning for column in MEASUREMENT_COLUMNS.values())
