"""Contract of every registered application, built in or not."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.workload_runs import finish_times, same

from weft.core.errors import InputError, NotApplicable
from weft.workload import Kind, Workload
from weft.workload.apps import application, application_workload

NAMES = application.names()
COUNTS = [2, 3, 4, 7, 8, 16, 27, 36]


def build(name: str, ranks: int, **options: Any) -> Workload:
    return application_workload(
        name, ranks, **{**application[name].facts.get("small", {}), **options}
    )


@cache
def built(name: str, ranks: int) -> Workload | None:
    try:
        return build(name, ranks)
    except NotApplicable:
        return None


@pytest.mark.sampled(25)
@pytest.mark.parametrize("ranks", COUNTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_rank_takes_part_and_sends_to_others(name: str, ranks: int) -> None:
    workload = built(name, ranks)
    if workload is None:
        return
    assert workload.num_ranks == ranks
    assert np.all(np.diff(workload.op_offset) > 0)
    ops = workload.messages
    assert np.all(workload.rank[ops] != workload.peer[ops])
    talks = np.unique(np.concatenate([workload.rank[ops], workload.peer[ops]]))
    assert len(talks) == ranks
    sends = np.flatnonzero(workload.kind == Kind.SEND)
    assert np.all(workload.kind[workload.match[sends]] == Kind.RECV)
    assert np.all(workload.size_bytes[workload.match[sends]] == workload.size_bytes[sends])


@pytest.mark.sampled(20)
@pytest.mark.parametrize("ranks", [2, 7, 8, 12, 27])
@pytest.mark.parametrize("name", NAMES)
def test_every_application_ends_with_synchronous_sends(name: str, ranks: int) -> None:
    workload = built(name, ranks)
    if workload is None:
        return
    assert np.all(np.isfinite(finish_times(workload)))


@pytest.mark.parametrize("name", NAMES)
def test_most_numbers_of_ranks_fit(name: str) -> None:
    fits = [ranks for ranks in COUNTS if built(name, ranks) is not None]
    assert len(fits) >= len(COUNTS) / 2


@pytest.mark.sampled(50)
@pytest.mark.parametrize("ranks", COUNTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_ranks_that_does_not_fit_is_named(name: str, ranks: int) -> None:
    if built(name, ranks) is None:
        with pytest.raises(NotApplicable, match=rf"\b{ranks}\b"):
            build(name, ranks)


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_the_result_gives_the_same_workload(name: str) -> None:
    workload = build(name, 8)
    again = application_workload(workload.name, 8)
    assert again.name == workload.name
    assert same(workload, again)
    assert again.phase_names == workload.phase_names


@pytest.mark.parametrize("name", [entry.name for entry in application if "seed" in entry.options])
def test_the_seed_determines_the_result(name: str) -> None:
    options = application[name].facts.get("seeded", {})
    one, two, other = (build(name, 8, seed=seed, **options) for seed in (1, 1, 2))
    assert same(one, two)
    assert not same(one, other)
    with pytest.raises(InputError, match=r"seed must be at least 0, not -1"):
        build(name, 8, seed=-1, **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [0, 1])
def test_too_few_ranks_are_refused(name: str, ranks: int) -> None:
    with pytest.raises(NotApplicable if ranks else InputError, match=f"{name}.*{ranks}"):
        build(name, ranks)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no option 'bogus'"):
        build(name, 8, bogus=1)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "option"),
    [
        (entry.name, option)
        for entry in application
        for option in ("iterations", "repetitions", "rounds")
        if option in entry.options
    ],
)
def test_the_volume_is_linear_in_the_option(name: str, option: str) -> None:
    def volume(times: int) -> int:
        workload = build(name, 8, **{option: times})
        return int(workload.size_bytes[workload.messages].sum())

    one, two, four = (volume(times) for times in (1, 2, 4))
    assert two > one > 0
    if "seed" not in application[name].options:  # with a seed, each repetition may draw other sizes
        assert four - two == 2 * (two - one)
    with pytest.raises(InputError, match=f"{option} must be at least 1, not 0"):
        build(name, 8, **{option: 0})


@pytest.mark.parametrize("name", NAMES)
def test_every_application_is_documented(name: str) -> None:
    entry = application[name]
    assert entry.summary.partition(":")[0]
    assert entry.facts["source"]
    text = inspect.getdoc(entry.function) or ""
    heads = [word for line in text.splitlines() for word in line.split(", ")]
    assert [option for option in entry.options if option not in heads] == []
