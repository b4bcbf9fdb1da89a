"""Properties of every trace program and every workload."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.random_traces import Sense, Syntax, random_workload
from tests.reference.trace import plain_workload

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.workload import Workload, WorkloadBuilder
from weft.workload.trace import (
    TraceError,
    dense_text,
    format_program,
    parse,
    trace_workload,
)
from weft.workload.trace.dense_reader import read_dense


def lower(text: str, **options: Any) -> Workload:
    """Return the workload of a text, also of the dense form, by the reader of the full language."""
    return trace_workload(text, builder=WorkloadBuilder, **options)


def assert_equal(one: Workload, other: Workload) -> None:
    for name in one.__dataclass_fields__:
        ours, theirs = getattr(one, name), getattr(other, name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype, name
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
        elif name not in ("name", "notes"):
            assert ours == theirs, name


SEEDS = st.integers(0, 2**32)


def refusal(make: Callable[[], object]) -> WeftError | None:
    """Return the user-facing error, if any; other exceptions fail the test."""
    try:
        make()
    except (InputError, NotApplicable) as error:
        return error
    return None


def damaged(text: str, seed: int, characters: str) -> str:
    """Return the text with one character replaced."""
    random = Random(seed)
    at = random.randrange(len(text))
    return text[:at] + random.choice(characters) + text[at + 1 :]


@settings(max_examples=examples(120))
@given(SEEDS)
def test_a_written_program_is_read_as_the_same(seed: int) -> None:
    program = Syntax(seed).program()
    text = format_program(program)
    again = parse(text)
    assert again == program
    assert format_program(again) == text


@settings(max_examples=examples(60))
@given(SEEDS)
def test_a_broken_text_gives_one_clear_error(seed: int) -> None:
    broken = damaged(format_program(Syntax(seed).program()) + "CALC 5\n", seed, '()x"0,:.@\n =')
    error = refusal(lambda: parse(broken, "broken"))
    if error is not None:
        assert isinstance(error, TraceError)
        assert error.line is not None
        assert 1 <= error.line <= broken.count("\n") + 1
        assert "\n" not in str(error)
        assert str(error).startswith(f"broken:{error.line}: column {error.column}: ")


@settings(max_examples=examples(60))
@given(SEEDS, st.integers(1, 6))
def test_any_program_gives_a_workload_or_an_input_error(seed: int, ranks: int) -> None:
    text = format_program(Syntax(seed).program())
    error = refusal(lambda: lower(text, ranks=ranks, max_operations=2000))
    assert error is None or str(error)


# -- valid programs, against the reference implementation -----------------------------------------


@settings(max_examples=examples(50))
@given(SEEDS)
def test_vectorised_ranks_equal_ranks_one_by_one(seed: int) -> None:
    source = Sense(seed)
    text = source.text()
    assert_merged(lower(text, ranks=source.ranks), plain_workload(parse(text), source.ranks))


def assert_merged(ours: Workload, theirs: Workload) -> None:
    """Assert equality, apart from empty operations that a wait of many ranks may add to some."""

    def chains(workload: Workload) -> list[list[tuple[object, ...]]]:
        """Return each rank's operations with an effect, each with those on which it depends."""
        has_effect = (workload.kind != 0) | (workload.duration_ns != 0)
        index = np.cumsum(has_effect) - 1
        through: list[frozenset[int]] = []
        result: list[list[tuple[object, ...]]] = [[] for _ in range(workload.num_ranks)]
        for op in range(workload.num_ops):
            needs = workload.dep[workload.dep_offset[op] : workload.dep_offset[op + 1]]
            real: frozenset[int] = frozenset()
            for need in needs:
                real |= frozenset([int(index[need])]) if has_effect[need] else through[need]
            through.append(real)
            if has_effect[op]:
                row = tuple(
                    getattr(workload, name)[op].item()
                    for name in ("kind", "peer", "size_bytes", "tag", "comm", "duration_ns")
                )
                result[workload.rank[op]].append((*row, real))
        return result

    for mine, other in zip(chains(ours), chains(theirs), strict=True):
        assert [row[:-1] for row in mine] == [row[:-1] for row in other]
        assert [row[-1] for row in mine] == [row[-1] for row in other]


# -- the dense form ------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(SEEDS)
def test_the_dense_form_gives_the_same_workload(seed: int) -> None:
    workload = random_workload(seed)
    text = dense_text(workload)
    assert_equal(trace_workload(text), workload)
    assert read_dense(text, None, 10**6) is not None
    # The reader of the full language gives the same result for this text.
    assert_equal(lower(text), workload)
    assert format_program(parse(text)) == text


@pytest.mark.parametrize("end", ["", "END\nEND", "1:\n  CALC 5\nEND"])
@settings(max_examples=examples(25))
@given(seed=SEEDS)
def test_both_readers_agree_on_broken_dense_texts(end: str, seed: int) -> None:
    text = damaged(dense_text(random_workload(seed)) + end, seed, "0123456789 -,EN")

    def outcome(quick: bool) -> Workload | str:
        try:
            if quick:
                return trace_workload(text, max_operations=5000)
            return lower(text, max_operations=5000)
        except InputError as error:
            return error.message.partition("; in '")[0]

    quick, complete = outcome(True), outcome(False)
    if isinstance(quick, Workload) and isinstance(complete, Workload):
        assert_equal(quick, complete)
    else:
        assert isinstance(quick, str) == isinstance(complete, str)
