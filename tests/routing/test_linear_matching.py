"""Readers take linear time for any text: with quadratic time, each case here takes minutes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.fabrics.test_formats_opensm_subnet import end

from weft.core.errors import InputError
from weft.fabrics.formats import ibnetdiscover
from weft.fabrics.formats.session import without_session
from weft.fabrics.formats.signatures import SIGNATURES
from weft.fabrics.formats.subnet_list import is_subnet_list
from weft.routing.opensm.osm_log import sweeps
from weft.sim.flit.booksim import grammar
from weft.sim.flow.contention.graph_file import parse_contention_graph
from weft.workload.formats import goal

LOG = "Jan 01 00:00:00 000000 [1] 0x01 -> "


@pytest.mark.sampled(12)
@pytest.mark.parametrize("piece", ["\n", " ", "a", "a= ", "==(", "P1 ", "CA 1\n", "graph ", "# \n"])
@pytest.mark.parametrize("first", ["", "a=", " P1 -> x x ", "strict "])
def test_signatures(first: str, piece: str) -> None:
    for each in SIGNATURES:
        text = first + piece * 150_000 + "\nx"
        assert not re.search(each.pattern, text, re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("text", ["a@" + "a" * 10**6, "password for " * 10**5])
def test_terminal_sessions(text: str) -> None:
    assert without_session(text, "f") == text


def test_subnet_list() -> None:
    assert not is_subnet_list(f"{end(0x1002, 1)} " * 20_000)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (ibnetdiscover.read, f"# {'a' * 1990}\n" * 2000 + "x"),
        (parse_contention_graph, " " * 10**6 + "x:"),
        (goal.read, "num_ranks 1\n" + "/* " * 10**6),
        (grammar.parse, "{" * 10**6),
    ],
)
def test_errors(read: Callable[[str, str], object], text: str) -> None:
    with pytest.raises(InputError):
        read(text, "f")


def test_opensm_log() -> None:
    assert sweeps(LOG + "setup_routing_engine: " * 10**5) == []
