"""Contract of every registered placement, built in or not."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.workload.placement import place, placement
from weft.workload.placement.placement_registry import is_explicit

NAMES = placement.names()
PICKING = [entry.name for entry in placement if not entry.facts["explicit"]]
EXPLICIT = [entry.name for entry in placement if entry.facts["explicit"]]
FABRICS = ("torus:4x4;hosts=2", "xgft:2;4,4;1,4", "jellyfish:switches=8,degree=3,hosts=3")


@cache
def fabric(spec: str) -> Fabric:
    return load(spec)


def placed_or_none(fabric_: Fabric, ranks: int, name: str, **options: object):
    try:
        return place(fabric_, ranks, name, **options)
    except NotApplicable:
        return None


def test_most_placements_exist_on_each_fabric() -> None:
    for spec in FABRICS:
        result = [name for name in PICKING if placed_or_none(fabric(spec), 4, name) is not None]
        # Placement coordinates needs coordinates, and isolated needs a tree.
        assert len(result) >= len(PICKING) - 2


@pytest.mark.parametrize("name", PICKING)
@settings(max_examples=30)
@given(
    spec=st.sampled_from(FABRICS),
    ranks=st.integers(1, 30),
    per_host=st.integers(1, 5),
    distribution=st.sampled_from(["block", "cyclic", None]),
    data=st.data(),
)
def test_ranks_sit_on_allowed_hosts_and_no_host_has_too_many(
    name: str, spec: str, ranks: int, per_host: int, distribution: str | None, data: st.DataObject
) -> None:
    fabric_ = fabric(spec)
    allowed = data.draw(
        st.lists(st.integers(0, fabric_.num_hosts - 1), min_size=1, max_size=12, unique=True)
    )
    options = {"ranks_per_host": per_host, "distribution": distribution, "hosts": allowed}
    if ranks > per_host * len(allowed):
        with pytest.raises(
            (InputError, NotApplicable), match=f"{per_host * len(allowed)} fit|coord"
        ):
            place(fabric_, ranks, name, **options)
        return
    placed = placed_or_none(fabric_, ranks, name, **options)
    if placed is None:
        return
    assert placed.dtype == np.int32
    assert placed.shape == (ranks,)
    assert not placed.flags.writeable
    assert set(placed.tolist()) <= set(allowed)
    count = np.bincount(placed)
    assert count.max() <= per_host
    # No more hosts are used than the ranks need; cyclic distributes the ranks evenly over them.
    needed = -(-ranks // per_host)
    assert np.count_nonzero(count) == needed
    if distribution == "cyclic":
        assert count[count > 0].max() - count[count > 0].min() <= 1
        assert len(set(placed[:needed].tolist())) == needed
    else:
        assert np.count_nonzero(np.diff(placed)) == needed - 1


@pytest.mark.parametrize("name", PICKING)
@pytest.mark.parametrize("spec", FABRICS)
def test_a_full_fabric_has_each_host_once(name: str, spec: str) -> None:
    fabric_ = fabric(spec)
    placed = placed_or_none(fabric_, fabric_.num_hosts, name)
    assert placed is None or sorted(placed.tolist()) == list(range(fabric_.num_hosts))


@pytest.mark.parametrize("name", [e.name for e in placement if "seed" in e.options])
def test_the_seed_determines_the_result(name: str) -> None:
    options = {"order": "random"} if "order" in placement[name].options else {}
    fabric_ = fabric(FABRICS[1])
    draws = [place(fabric_, 16, name, seed=seed, **options) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    with pytest.raises(InputError, match="seed must be at least 0, not -1"):
        place(fabric_, 16, name, seed=-1, **options)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}.*no option 'bogus'"):
        place(fabric(FABRICS[0]), 4, name, bogus=1)


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_placements_name_their_expected_text(name: str) -> None:
    assert is_explicit(name)
    with pytest.raises(InputError, match=f"placement '{name}' needs"):
        place(fabric(FABRICS[0]), 4, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_placement_is_documented(name: str) -> None:
    entry = placement[name]
    assert entry.summary.endswith(".")
    text = inspect.getdoc(entry.function)
    assert not [option for option in entry.options if f"\n{option}\n" not in text]
