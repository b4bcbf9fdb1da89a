"""The KNS study: its measures against closed forms, its claims against doctored results."""

from __future__ import annotations

import pytest

from weft.errors import InputError
from weft.papers.kns_infiniband import KnsStudy, kns_infiniband


@pytest.fixture(scope="module")
def small() -> KnsStudy:
    return kns_infiniband(
        ranks_per_node=(1,), benchmarks=("pingpong-latency",), beyond=False, level="flow",
        processes=1,
    )  # fmt: skip


def test_frames_are_tidy(small: KnsStudy) -> None:
    keys = ["network", "engine", "placement", "ranks_per_node", "metric"]
    assert small.results.height == 8 * 2 * 3
    assert small.results.select(keys).is_unique().all()
    assert small.results["value"].is_finite().all()
    assert small.runs.height == 8 * 2


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"ranks_per_node": (9,)}, "8 cores"),
        ({"ranks_per_node": (1, 1)}, "different"),
        ({"benchmarks": ("pingpong",)}, "unknown benchmark"),
        ({"seed": -1}, "seed"),
        ({"processes": 0}, "process"),
    ],
)
def test_bad_options(options, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        kns_infiniband(**options)
