"""Contract of every registered traffic pattern, built in or not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.errors import InputError, NotApplicable
from weft.workload.patterns import Pairs, pattern, traffic

NAMES = pattern.names()


def flows_or_none(num_hosts: int, name: str, **options: object) -> Pairs | None:
    try:
        return traffic(num_hosts, name, **options)
    except NotApplicable:
        return None


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(num_hosts=st.integers(2, 260))
def test_flows_join_different_hosts_that_exist(name: str, num_hosts: int) -> None:
    flows = flows_or_none(num_hosts, name)
    if flows is None:
        return
    assert len(flows) > 0
    for hosts in flows:
        assert hosts.dtype == np.int64
        assert hosts.shape == (len(flows),)
        assert not hosts.flags.writeable
        assert hosts.min() >= 0
        assert hosts.max() < num_hosts
    assert not np.any(flows.sources == flows.destinations)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_hosts", [16, 64])
def test_every_pattern_exists_for_an_even_power_of_two(name: str, num_hosts: int) -> None:
    assert len(traffic(num_hosts, name)) > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_hosts", [0, 1])
def test_too_few_hosts_are_not_applicable(name: str, num_hosts: int) -> None:
    with pytest.raises(NotApplicable, match=f"{name}.*{num_hosts}"):
        traffic(num_hosts, name)


@pytest.mark.parametrize("name", NAMES)
def test_the_spec_of_the_result_gives_the_same_flows(name: str) -> None:
    flows = traffic(64, name)
    again = traffic(64, flows.spec)
    assert again.spec == flows.spec
    np.testing.assert_array_equal(flows.sources, again.sources)
    np.testing.assert_array_equal(flows.destinations, again.destinations)


@pytest.mark.parametrize("name", [entry.name for entry in pattern if "seed" in entry.options])
def test_the_seed_determines_the_result(name: str) -> None:
    draws = [np.stack(tuple(traffic(64, name, seed=seed))) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    with pytest.raises(InputError, match=r"seed must be at least 0, not -1"):
        traffic(64, name, seed=-1)


@pytest.mark.parametrize("name", [entry.name for entry in pattern if entry.facts.get("binary")])
@pytest.mark.parametrize("num_hosts", [3, 6, 12, 36, 45, 1000])
def test_binary_patterns_reject_other_counts_with_a_reason(name: str, num_hosts: int) -> None:
    with pytest.raises(NotApplicable, match=rf"{name}.*power of two.*{num_hosts}"):
        traffic(num_hosts, name)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}.*no option 'bogus'"):
        traffic(16, name, bogus=1)


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_is_documented(name: str) -> None:
    entry = pattern[name]
    assert entry.summary.endswith(".")
    assert entry.facts["source"]
    text = inspect.getdoc(entry.function)
    missing = [option for option in entry.options if f"{option}\n" not in text]
    assert not missing
