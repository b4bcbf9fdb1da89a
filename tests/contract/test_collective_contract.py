"""Contract of every registered collective algorithm, built in or not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.collectives import run_collective

from weft.core.errors import InputError
from weft.workload import WorkloadBuilder
from weft.workload.collectives import (
    COLLECTIVES,
    Sizes,
    collective,
    collective_on,
    collective_workload,
    default_algorithm,
)

ENTRIES = {entry.name: entry for entry in collective}
COUNTS = (1, 2, 3, 5, 8, 13)


def facts(name: str) -> tuple[str, str]:
    return ENTRIES[name].facts["collective"], ENTRIES[name].facts["algorithm"]


def sized(name: str, size: int) -> int:
    return 0 if COLLECTIVES[name].sizes is Sizes.NONE else size


@pytest.mark.sampled(60)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("n", COUNTS)
def test_every_algorithm_computes_what_mpi_defines(entry: str, n: int) -> None:
    name, algorithm = facts(entry)
    kind = COLLECTIVES[name]
    rng = np.random.default_rng(n)
    for size in (0, 1, 7, 1000003):
        root = int(rng.integers(n)) if kind.rooted else 0
        members = rng.permutation(2 * n)[:n]
        combining = 0.5 if kind.combines else 0.0
        run_collective(
            name, algorithm, members, sized(name, size), root=root, num_ranks=2 * n,
            reduce_ns_per_byte=combining,
        )  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("entry", ENTRIES)
@settings(max_examples=6)
@given(data=st.data())
def test_random_groups_roots_and_sizes(entry: str, data: st.DataObject) -> None:
    name, algorithm = facts(entry)
    kind = COLLECTIVES[name]
    n = data.draw(st.integers(1, 33), "n")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
    root = data.draw(st.integers(0, n - 1), "root") if kind.rooted else 0
    size: object = sized(name, data.draw(st.integers(0, 300), "size"))
    if kind.uneven and data.draw(st.booleans(), "uneven"):
        shape = (n, n) if kind.sizes is Sizes.PAIR else (n,)
        size = rng.integers(0, 40, shape) * rng.integers(0, 2, shape)
    members = rng.permutation(n + 3)[:n]
    run_collective(name, algorithm, members, size, root=root, num_ranks=n + 3)


@pytest.mark.parametrize("entry", ENTRIES)
def test_groups_in_one_call_equal_groups_one_by_one(entry: str) -> None:
    name, algorithm = facts(entry)
    kind = COLLECTIVES[name]
    members = np.random.default_rng(3).permutation(22)[:21].reshape(3, 7)
    size, root = sized(name, 37), 4 if kind.rooted else 0
    combining = 1.0 if kind.combines else 0.0
    together, _, _ = run_collective(
        name, algorithm, members, size, root=root, reduce_ns_per_byte=combining, num_ranks=22
    )
    builder = WorkloadBuilder(22)
    builder.calc(members.ravel(), 0.0)
    for row in members:
        collective_on(
            builder, name, row, size, algorithm=algorithm, root=root, reduce_ns_per_byte=combining
        )
    builder.calc(members.ravel(), 0.0)
    apart = builder.build()
    for column in ("op_offset", "kind", "peer", "size_bytes", "duration_ns", "dep_offset", "dep"):
        np.testing.assert_array_equal(getattr(together, column), getattr(apart, column), column)
    np.testing.assert_array_equal(together.match, apart.match)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_spec_makes_a_workload(entry: str) -> None:
    name, algorithm = facts(entry)
    size = ",size=4KiB" if sized(name, 1) else ""
    one = collective_workload(f"{name}:algorithm={algorithm}{size}", 6)
    three = collective_workload(f"{name}:algorithm={algorithm},count=3{size}", 6)
    assert len(three.messages) == 3 * len(one.messages) > 0
    same = collective_workload(f"{entry}:count=1{size}", 6)
    np.testing.assert_array_equal(one.peer, same.peer)


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_unknown_option_is_refused(entry: str) -> None:
    name, algorithm = facts(entry)
    with pytest.raises(InputError, match=f"{entry}.*no option 'bogus'"):
        collective_on(
            WorkloadBuilder(4), name, range(4), sized(name, 1), algorithm=algorithm, bogus=1
        )
    size = ",size=4KiB" if sized(name, 1) else ""
    with pytest.raises(InputError, match=f"{entry}.*no option 'bogus'"):
        collective_workload(f"{entry}:bogus=1{size}", 4)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 64, 1000])
def test_the_default_is_an_algorithm_of_the_collective(name: str, n: int) -> None:
    for size in (0, 1, 255, 5000, 40_000, 2**20):
        chosen = default_algorithm(name, sized(name, size), n)
        assert f"{name}-{chosen}" in ENTRIES


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_algorithm_is_documented(entry: str) -> None:
    assert ENTRIES[entry].summary.endswith(".")
    assert ENTRIES[entry].facts["source"]
    text = inspect.getdoc(ENTRIES[entry].function) or ""
    assert all(f"{option}\n" in text for option in ENTRIES[entry].options)
