"""Contention graphs as text: round trips are exact, and no text causes a traceback."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import InputError
from weft.sim.flow.contention.graph_file import (
    ContentionGraph,
    format_contention_graph,
    parse_contention_graph,
)

names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=":#,"), min_size=1
).filter(lambda name: "->" not in name and not any(c.isspace() for c in name))
times = st.floats(0, 1e300)
sizes = st.integers(0, 2**56) | st.integers(0, 2**20).map(lambda k: k * 2**30 // 4)


@st.composite
def graphs(draw: st.DrawFn) -> ContentionGraph:
    edges = draw(st.lists(st.tuples(names, names).filter(lambda e: e[0] != e[1]), min_size=1))
    count = len(edges)
    chosen = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    return ContentionGraph(
        tuple(chosen),
        tuple(source for source, _ in edges),
        tuple(destination for _, destination in edges),
        tuple(draw(st.lists(sizes, min_size=count, max_size=count))),
        tuple(draw(st.lists(times, min_size=count, max_size=count))),
        draw(st.none() | st.floats(1e-300, 1e300)),
    )


@given(graphs())
def test_round_trip(graph: ContentionGraph) -> None:
    assert parse_contention_graph(format_contention_graph(graph)) == graph


pieces = st.sampled_from(
    ["0", "1", "a", " -> ", "->", ":", " ", "\n", "size ", "start ", "bandwidth ", "20MiB", "1e-9",
     "inverse-bandwidth ", "GiB/s", "#", "-1", "nan", "10us", "1e999", ",", "\t", "é", "s", "inf"]
)  # fmt: skip


@given(st.lists(pieces).map("".join) | st.text())
def test_any_text_gives_a_graph_or_one_clear_error(text: str) -> None:
    failed = None
    try:
        graph = parse_contention_graph(text, "graph.txt")
    except InputError as error:
        failed = error
    if failed is None:
        assert parse_contention_graph(format_contention_graph(graph)) == graph
    else:
        assert failed.file == "graph.txt"
        assert failed.line is None or 1 <= failed.line <= len(text.splitlines())
