"""Traffic patterns as workloads: all flows at once, and open-loop sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.workload_runs import finish_times, same

from weft.core.errors import InputError, NotApplicable
from weft.workload import Kind, Workload, pattern, traffic
from weft.workload.apps import application_workload as app
from weft.workload.apps import pattern_workload
from weft.workload.sources import open_loop


def flows(workload: Workload, phase: str) -> list[tuple[int, int, int]]:
    ops = workload.messages
    ops = ops[workload.phase[ops] == workload.phase_names.index(phase)]
    return sorted(
        zip(
            workload.rank[ops].tolist(),
            workload.peer[ops].tolist(),
            workload.size_bytes[ops].tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("mode", ["put", "sendrecv"])
@pytest.mark.parametrize("name", pattern.names())
def test_all_flows_of_a_pattern_leave_at_once(name: str, mode: Any) -> None:
    workload = pattern_workload(16, name, 7, mode=mode)
    expected = traffic(16, name)
    assert flows(workload, name) == sorted(
        (int(a), int(b), 7) for a, b in zip(*expected, strict=True)
    )
    assert finish_times(workload).max() == 1


def test_each_round_waits_for_the_one_before_and_uses_the_next_seed() -> None:
    workload = pattern_workload(9, "random-permutation:seed=4", 7, rounds=3)
    for draw in range(3):
        expected = traffic(9, "random-permutation", seed=4 + draw)
        assert flows(workload, f"random-permutation {draw + 1}") == [
            (int(a), int(b), 7) for a, b in zip(*expected, strict=True)
        ]
    assert finish_times(workload).max() == 3 + 2 * 4
    assert finish_times(pattern_workload(9, "shift", 7, rounds=3, barrier=False)).max() == 3


def test_the_pattern_application_has_the_options_of_its_pattern() -> None:
    workload = app("pattern:pattern=stencil,dims=4x4,size=1KiB,wrap=false", 16)
    assert same(workload, pattern_workload(16, "stencil:dims=4x4,wrap=false", 1024))
    assert same(workload, app("pattern:stencil;dims=4x4,size=1KiB", 16, wrap=False))
    with pytest.raises(InputError, match=r"pattern 'shfit'.*did you mean 'shift'"):
        app("pattern:shfit", 16)
    with pytest.raises(InputError, match="options separately"):
        app("pattern", 16, pattern="shift:offset=3")
    with pytest.raises(NotApplicable, match="power of two"):
        app("pattern:bit-reversal", 12)
    with pytest.raises(InputError, match="mode must be put or sendrecv, not 'get'"):
        pattern_workload(4, "shift", 8, mode="get")  # type: ignore[arg-type]


def sources(spec: str = "uniform", ranks: int = 20, **options: Any) -> Workload:
    settings = {"load": 0.4, "rate_gbps": 80.0, "size": 1000, "duration_ns": "200us", **options}
    return open_loop(ranks, spec, **settings)


#: Mean interval between messages at the load, rate and size above: 250 ns.
INTERVAL = 8 * 1000 / (0.4 * 80)


def intervals(workload: Workload) -> np.ndarray:
    own = workload.rank[1:] == workload.rank[:-1]
    return np.diff(workload.release_ns)[own]


@pytest.mark.parametrize("kind", ["fixed", "uniform", "exponential"])
def test_sources_offer_the_given_load(kind: Any) -> None:
    workload = sources(interarrival=kind, size_distribution=kind, duration_ns="2ms")
    assert np.all(workload.kind == Kind.PUT)
    assert workload.size_bytes.sum() * 8 / 20 / 2e6 == pytest.approx(0.4 * 80, rel=0.01)
    assert np.all(intervals(workload) >= 0)
    assert workload.release_ns.min() >= 0
    assert workload.release_ns.max() < 2e6
    per_rank = np.diff(workload.op_offset)
    assert per_rank == pytest.approx(2e6 / INTERVAL, rel=0.05)


def test_intervals_have_the_chosen_distribution() -> None:
    fixed = sources(interarrival="fixed")
    assert intervals(fixed) == pytest.approx(INTERVAL)
    first = fixed.release_ns[fixed.op_offset[:-1]]
    assert first.max() < INTERVAL
    assert stats.kstest(first, stats.uniform(0, INTERVAL).cdf).pvalue > 0.01
    uniform = intervals(sources(interarrival="uniform"))
    assert stats.kstest(uniform, stats.uniform(0, 2 * INTERVAL).cdf).pvalue > 0.01
    poisson = intervals(sources(interarrival="exponential"))
    assert stats.kstest(poisson, stats.expon(0, INTERVAL).cdf).pvalue > 0.01


def test_sizes_have_the_chosen_distribution() -> None:
    assert set(sources().size_bytes) == {1000}
    uniform = sources(size_distribution="uniform", size=4, rate_gbps=0.32).size_bytes
    count = np.bincount(uniform)
    assert len(count) == 8
    assert count[0] == 0
    assert stats.chisquare(count[1:]).pvalue > 0.01
    drawn = sources(size_distribution="exponential", size=5, rate_gbps=0.4).size_bytes
    expected = stats.geom(1 / 5).pmf(np.arange(1, 21)) * len(drawn)
    got = np.bincount(drawn, minlength=21)[1:21]
    assert stats.chisquare(got, expected * got.sum() / expected.sum()).pvalue > 0.01
    assert drawn.min() == 1


def test_uniform_traffic_draws_a_destination_for_every_message() -> None:
    workload = sources(ranks=6, duration_ns="1ms")
    pairs = np.zeros((6, 6), dtype=int)
    np.add.at(pairs, (workload.rank, workload.peer), 1)
    assert np.all(np.diag(pairs) == 0)
    assert stats.chisquare(pairs[~np.eye(6, dtype=bool)]).pvalue > 0.01
    # Most of the 125 sequences of three destinations occur.
    first = workload.peer[: workload.op_offset[1]]
    assert len(np.unique(np.lib.stride_tricks.sliding_window_view(first, 3), axis=0)) > 100


def test_hot_spots_get_their_share_of_messages() -> None:
    workload = sources("hot-spot:hosts=3,fraction=0.5")
    others = workload.rank != 3
    share = (workload.peer[others] == 3).mean()
    assert share == pytest.approx(0.5 * len(others) / others.sum() + 0.5 / 19, abs=0.03)


def test_patterns_with_fixed_flows_keep_them() -> None:
    shift = sources("shift:offset=3")
    assert np.array_equal(shift.peer, (shift.rank + 3) % 20)
    ring = sources("ring-natural", ranks=8, duration_ns="1ms")
    turned = (ring.peer - ring.rank) % 8
    assert set(turned) == {1, 7}
    assert (turned == 1).mean() == pytest.approx(0.5, abs=0.02)
    fixed = sources("uniform:flows=2,seed=1", ranks=8)
    drawn = traffic(8, "uniform:flows=2,seed=1")
    assert set(zip(fixed.rank, fixed.peer, strict=True)) == set(zip(*drawn, strict=True))


def test_ranks_without_a_flow_send_nothing() -> None:
    workload = sources("bisect:seed=2", ranks=7)
    sending = np.flatnonzero(np.diff(workload.op_offset))
    assert sending.tolist() == sorted(traffic(7, "bisect:seed=2").sources.tolist())


def test_the_warm_up_is_a_phase() -> None:
    workload = sources(warmup_ns="50us")
    names = np.array(workload.phase_names)[workload.phase]
    assert np.array_equal(names == "warm-up", workload.release_ns < 50_000)
    assert np.array_equal(names == "measured", workload.release_ns >= 50_000)
    assert workload.release_ns.max() > 240_000


def test_messages_depend_on_the_seed() -> None:
    assert same(sources(seed=1), sources(seed=1))
    assert not same(sources(seed=1), sources(seed=2))
    again = app(
        "open-loop:shift;offset=3,load=0.4,rate_gbps=80,size=1000,duration=200us,seed=5", 20
    )
    assert same(again, sources("shift:offset=3", seed=5))


def test_few_sources_send_until_the_end_of_a_long_run() -> None:
    workload = sources(ranks=2, duration_ns="1s", load=0.01)
    assert workload.num_ops == pytest.approx(2 * 1e9 * 0.01 * 80 / 8000, rel=0.01)
    assert workload.release_ns[workload.op_offset[1] - 1] > 0.9999e9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"load": 0}, "load must be a finite number above 0, not 0"),
        ({"rate_gbps": float("nan")}, "rate_gbps must be a finite number above 0"),
        ({"size": 0}, "size must be at least 1"),
        ({"size": "4 apples"}, "size: '4 apples' is not a size"),
        ({"duration_ns": 0}, "duration_ns must be above 0"),
        ({"warmup_ns": -1}, "warmup_ns"),
        ({"interarrival": "poisson"}, "interarrival 'poisson'; expected fixed, uniform"),
        ({"size_distribution": "zipf"}, "size_distribution 'zipf'"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"spec": "uniform:bogus=1"}, "no option 'bogus'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sources(**options)


def test_too_many_messages_are_refused_before_they_are_drawn() -> None:
    with pytest.raises(
        NotApplicable, match=r"20 sources send about 1.6e\+10 messages, .* maximum of 67,108,864"
    ):
        sources(duration_ns="0.2s", size=1, load=1, rate_gbps=32)
