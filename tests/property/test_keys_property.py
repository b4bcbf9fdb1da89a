"""Routing keys: colours of both methods, and files that are read back or refused."""

from __future__ import annotations

from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from tests.examples import examples

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics.formats.flows import read_flows
from weft.sim.keys import RoutingKey, keys
from weft.sim.keys.files import read_keys, write_keys

#: Two and three levels, parallel cables, and a tree with missing cables.
FABRICS = (
    weft.fabric("xgft:2;4,4;1,4"),
    weft.fabric("xgft:2;3,4;1,2;1,2"),
    weft.fabric("xgft:3;2,3,3;1,2,3"),
    weft.fabric("xgft:3;3,3,3;1,3,3").with_faults(cables=4, seed=1),
)
#: Text to put in place of other text: words that the files contain, and text that they do not.
PIECES = [*'\n |,.→#"-é', "-1", "0", "9" * 9, "9" * 25, "key", 'key "A" method exact\n', ""]


@st.composite
def flows(draw: st.DrawFn, fabric: weft.Fabric, fewest: int = 1) -> np.ndarray:
    """Draw flows between hosts that have a path."""
    usable = np.unique(fabric.endpoint_node[: fabric.num_host_endpoints]) - fabric.num_switches
    host = st.sampled_from(usable.tolist())
    return np.array(draw(st.lists(st.tuples(host, host), min_size=fewest, max_size=40))).T


@st.composite
def sets_of_keys(draw: st.DrawFn) -> tuple[weft.Fabric, list[RoutingKey]]:
    """Draw keys of one fabric with different names."""
    fabric = draw(st.sampled_from(FABRICS))
    names = draw(st.lists(st.text(max_size=8), max_size=3, unique=True))
    return fabric, [
        keys(
            fabric, *draw(flows(fabric)), name=name, first="random", seed=number,
            method=draw(st.sampled_from(["exact", "greedy"])),
        )
        for number, name in enumerate(names)
    ]  # fmt: skip


def degree(key: RoutingKey) -> int:
    """Return the largest number of pairs of hosts at a leaf switch."""
    leaf = key.fabric.graph.destination_row[np.unique(key.endpoints, axis=1)]
    apart = leaf[0] != leaf[1]
    return int(max(np.bincount(each[apart], minlength=1).max() for each in leaf))


@given(ends=flows(FABRICS[0]), seed=st.integers(0, 2**63 - 1))
def test_exact_needs_no_more_colours_than_the_largest_degree(ends: np.ndarray, seed: int) -> None:
    exact, greedy = (
        keys(FABRICS[0], *ends, method=each, seed=seed) for each in ("exact", "greedy")
    )
    assert exact.num_colours == degree(exact) <= greedy.num_colours
    assert exact.worst == -(-degree(exact) // 4) <= greedy.worst


@pytest.mark.slow
def test_greedy_sometimes_needs_more_colours_than_the_largest_degree() -> None:
    def needs_more(ends: np.ndarray) -> bool:
        key = keys(FABRICS[0], *ends, method="greedy")
        return key.num_colours > degree(key)

    ends = find(
        flows(FABRICS[0], 3), needs_more,
        settings=settings(max_examples=5000, derandomize=True, deadline=None, database=None),
    )  # fmt: skip
    assert (
        keys(FABRICS[0], *ends).num_colours < keys(FABRICS[0], *ends, method="greedy").num_colours
    )


@given(drawn=sets_of_keys())
def test_written_keys_are_read_back(drawn: tuple[weft.Fabric, list[RoutingKey]]) -> None:
    fabric, made = drawn
    try:
        text = write_keys(fabric, made)
    except (InputError, NotApplicable):
        assert any(not key.name.isprintable() or set('"#|') & set(key.name) for key in made)
        return
    again = read_keys(fabric, text)
    assert len(again) == len(made)
    for one, other in zip(made, again, strict=True):
        for field in fields(RoutingKey)[1:]:
            assert np.array_equal(getattr(one, field.name), getattr(other, field.name)), field.name
    assert write_keys(fabric, again) == text


@given(
    fabric=st.sampled_from(FABRICS),
    data=st.data(),
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(PIECES)),
        min_size=1, max_size=3,
    ),
)  # fmt: skip
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
def test_damaged_keys_are_read_or_refused_with_file_and_line(
    fabric: weft.Fabric, data: st.DataObject, cuts: list[tuple[float, int, str]]
) -> None:
    made = [keys(fabric, *data.draw(flows(fabric)), name=name) for name in "AB"]
    text = write_keys(fabric, made)
    for place, length, piece in cuts:
        at = round(place * len(text))
        text = text[:at] + piece + text[at + length :]
    error = None
    try:
        again = read_keys(fabric, text, "x.keys")
    except InputError as caught:
        error = caught
    if error is None:
        assert [key.name for key in read_keys(fabric, write_keys(fabric, again))] == [
            key.name for key in again
        ]
        assert all(key.worst >= key.bound for key in again)
    else:
        assert error.file == "x.keys"
        assert error.line is not None
        assert 1 <= error.line <= text.count("\n") + 1


def test_a_file_with_a_path_over_a_missing_cable_is_refused() -> None:
    fabric = weft.fabric("xgft:2;3,4;1,3").with_faults(cables=2, seed=0)
    refused = set()
    for source, destination in product(range(3), range(3, 12)):
        names = [fabric.host_names[at] for at in (source, destination)]
        for up, down in product(range(1, 8), repeat=2):
            line = f"x | {names[0]} {names[1]} | {up},{down} | 0\n"
            try:
                (key,) = read_keys(fabric, f'key "A" method exact\n{line}')
                assert key.paths[1].min() >= 0
                assert key.routes.edge.min() >= 0
            except InputError as error:
                refused.add(error.message.split(" on ")[0].split(" to ")[0])
    assert "a cable downwards" in refused


def test_a_file_with_two_paths_between_the_same_hosts_is_refused() -> None:
    fabric = FABRICS[0]
    text = write_keys(fabric, [keys(fabric, [0, 0], [fabric.num_hosts - 1] * 2)])
    other = write_keys(fabric, [keys(fabric, [1, 0], [fabric.num_hosts - 2, fabric.num_hosts - 1])])
    assert read_keys(fabric, text)[0].worst == 1
    damaged = "\n".join([*text.splitlines()[:-1], other.splitlines()[-1]])
    with pytest.raises(InputError, match="another path or colour") as refused:
        read_keys(fabric, damaged)
    assert refused.value.line == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "expected SOURCE DESTINATION, not '1 2 3'"),
        ("h0 spine7", "spine7"),
        ("\ufeff", "expected SOURCE DESTINATION"),
    ],
)
def test_damaged_flows_are_refused_with_file_and_line(line: str, message: str) -> None:
    fabric = FABRICS[0]
    names = " ".join(fabric.host_names[:2])
    assert read_flows(fabric, f"# two hosts\n{names} # A1\n\n").tolist() == [[0], [1]]
    with pytest.raises(InputError, match=message) as refused:
        read_flows(fabric, f"{names}\n{line}\n", "x.flows")
    assert (refused.value.file, refused.value.line) == ("x.flows", 2)
    with pytest.raises(InputError, match="no flows"):
        read_flows(fabric, "# nothing\n")
