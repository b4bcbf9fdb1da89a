"""The grammar of BookSim's configuration files with random assignments and random text."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from weft.core.errors import InputError
from weft.sim.flit.booksim.grammar import Assignment, call, items, parse

BOUNDED = settings(max_examples=examples(100))

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
words = st.from_regex(r"[A-Za-z_.][A-Za-z0-9_\-.+(,)]{0,8}", fullmatch=True)
numbers = st.integers(-(2**31) + 1, 2**31 - 1) | st.floats(-1e9, 1e9).map(lambda x: round(x, 3))
atoms = st.integers(0, 99).map(str) | st.from_regex(r"[a-z][a-z0-9.]{0,4}", fullmatch=True)
lists = st.recursive(
    st.lists(atoms, min_size=1, max_size=3),
    lambda inner: st.lists(inner | atoms, min_size=1, max_size=3),
    max_leaves=6,
)
spaces = st.text(" \t\r\n", max_size=3) | st.from_regex(r" // [a-z=;{}\"]{0,9}\n", fullmatch=True)


def braced(parts: object) -> str:
    if isinstance(parts, str):
        return parts
    assert isinstance(parts, list)
    return "{" + ",".join(map(braced, parts)) + "}"


@BOUNDED
@given(
    st.lists(
        st.tuples(names, numbers | words | lists.map(braced), *[spaces] * 4), min_size=1, max_size=5
    )
)
def test_assignments_are_read_back_with_their_lines(
    given: list[tuple[str, object, str, str, str, str]],
) -> None:
    text, expected = "", []
    for key, value, a, b, c, d in given:
        text += a
        expected.append(Assignment(key, value, text.count("\n") + 1))  # type: ignore[arg-type]
        text += f"{key}{b} ={c}{value} {d};"
    assert list(parse(text, "file")) == expected
    assert [type(each.value) for each in parse(text, "file")] == [
        type(value) for _, value, *_ in given
    ]


@BOUNDED
@given(lists)
def test_items_of_lists_are_those_that_are_written(parts: list[object]) -> None:
    assert items(braced(parts)) == [braced(part) for part in parts]
    assert call(f"name({braced(parts)})") == ("name", [braced(part) for part in parts])


@BOUNDED
@given(st.text("ab1.-/ {},=;\n\"'#e+()", max_size=40))
@example("a = 1")
@example("a = ;")
@example("= 1;")
@example("a 1;")
@example('a = "b";')
@example("a = {1, 2};")
@example("a = {};")
@example("a = b//c;")
@example("a = 1; // b")
@example("a = 99999999999;")
@example("a = 1e999;")
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    refused: InputError | None = None
    try:
        assert all(each.key and each.line for each in parse(text, "file"))
    except InputError as error:
        refused = error
    if refused:
        assert refused.file == "file"
        assert refused.line is None or 1 <= refused.line <= text.count("\n") + 1
