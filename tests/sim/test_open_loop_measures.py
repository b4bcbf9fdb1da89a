"""Statistics and measures of open-loop runs, compared with queues of known behaviour."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.core.student import student_t
from weft.sim.common.statistics import Messages, batch_means, mser, trend
from weft.sim.sweep import measure
from weft.sim.sweep.saturation import bisect


def queues(load: float, sources: int, until: float, seed: int):
    """Return the creation and arrival time of each message of M/D/1 queues with service time 1."""
    random = np.random.default_rng(seed)
    born, arrived = [], []
    for _ in range(sources):
        times = np.cumsum(random.exponential(1 / load, int(1.3 * load * until) + 60))
        times = times[times < until]
        number = np.arange(len(times))
        born.append(times)
        arrived.append(np.maximum.accumulate(times - number) + number + 1)
    return np.concatenate(born), np.concatenate(arrived)


def run(
    load: float, *, sources: int = 16, window: float = 2000, warmup: float = 500, seed: int = 0
):
    """Measure messages of one byte in M/D/1 queues; at 8 Gb/s each takes one ns."""
    born, arrived = queues(load, sources, warmup + 1.25 * window, seed)
    return measure(
        born, arrived, np.ones(len(born)), warmup_ns=warmup, measure_ns=window, sources=sources,
        rate_gbps=8.0, sources_stop_ns=warmup + 1.25 * window,
    )  # fmt: skip


def mean_of_md1(load: float) -> float:
    return 1 + load / (2 * (1 - load))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_intervals_cover_the_closed_form_with_their_probability(load) -> None:
    estimates = [run(load, seed=seed).latency for seed in range(100)]
    inside = sum(abs(one.mean - mean_of_md1(load)) <= one.half_width for one in estimates)
    assert 88 <= inside <= 100
    # Wide intervals would also cover the mean, so check that these are narrow.
    assert np.mean([one.half_width for one in estimates]) < 0.08 * mean_of_md1(load)


def test_correlated_batches_are_merged_and_widen_the_interval() -> None:
    random = np.random.default_rng(1)
    at = np.arange(32_000.0)
    independent = batch_means(at, random.normal(5, 1, len(at)), 0, 32_000)
    assert independent.batches == 32
    assert independent.half_width == pytest.approx(student_t(31) / np.sqrt(32_000), rel=0.4)
    # Each level of this noise lasts for about three of the 32 batches: they are not independent.
    level = np.repeat(random.normal(0, 1, 12), 32_000 // 12 + 1)[:32_000]
    slow = batch_means(at, 5 + level, 0, 32_000)
    assert slow.batches < 32
    assert slow.half_width > 3 * student_t(31) * level.std() / np.sqrt(32_000)
    wave = batch_means(at, np.sin(2 * np.pi * at / 32_000), 0, 32_000)
    assert wave.batches == 8
    assert wave.correlated
    assert wave.lag1 > 0.5
    assert wave.half_width == pytest.approx(
        wave.plain_half_width * np.sqrt((1 + wave.lag1) / (1 - wave.lag1))
    )


def test_the_mean_is_over_messages_not_over_batches() -> None:
    # 100 messages have value 1 in the first half, and 300 have value 2 in the second.
    at = np.concatenate([np.linspace(0, 0.499, 100), np.linspace(0.5, 0.999, 300)])
    value = np.repeat([1.0, 2.0], [100, 300])
    assert batch_means(at, value, 0, 1).mean == pytest.approx(1.75)


def test_equal_latencies_have_an_interval_of_width_zero() -> None:
    random = np.random.default_rng(2)
    at = np.concatenate([random.uniform(i, i + 1, 5 + 40 * (i % 3)) for i in range(32)])
    assert batch_means(at, np.full(len(at), 3.0), 0, 32).half_width == pytest.approx(0, abs=1e-9)


def test_too_few_messages_have_a_mean_and_no_interval() -> None:
    result = batch_means(np.linspace(0, 0.9, 79), np.ones(79), 0, 1)
    assert result.few
    assert (result.mean, result.batches) == (1.0, 0)
    assert np.isnan(result.half_width)
    assert not batch_means(np.linspace(0, 0.9, 80), np.ones(80), 0, 1).few
    # Eighty messages at the same time count as one message.
    assert batch_means(np.full(80, 0.5), np.ones(80), 0, 1).few
    assert np.isnan(batch_means(np.zeros(0), np.zeros(0), 0, 1).mean)


def test_intervals_of_slopes_allow_for_correlated_residuals() -> None:
    at = np.arange(16.0)
    line = trend(at, 3 + 2 * at)
    assert line.slope == pytest.approx(2)
    assert line.half_width == pytest.approx(0, abs=1e-9)
    slow = trend(at, 2 * at + np.sin(at / 3))  # the residuals of the fit are correlated
    rest = np.sin(at / 3) - np.polyval(np.polyfit(at, np.sin(at / 3), 1), at)
    plain = student_t(14) * np.sqrt((rest**2).sum() / 14 / ((at - at.mean()) ** 2).sum())
    assert slow.half_width > 2 * plain
    assert slow.beyond
    assert line.grows
    assert not trend(at, 3 - 2 * at).grows
    random = np.random.default_rng(0)
    grows = [trend(at, random.normal(size=16)).grows for _ in range(1000)]
    assert 0.03 < np.mean(grows) < 0.07  # a one-sided test at 95 %
    gap = np.where(at == 4, np.nan, 2 * at)
    assert trend(at, gap).slope == pytest.approx(2)
    assert np.isnan(trend(at[:2], at[:2]).slope)


def test_the_end_of_a_known_transient_is_found() -> None:
    random = np.random.default_rng(4)
    at = np.arange(5000.0)
    value = random.normal(10, 1, 5000) - 20 * np.exp(-at / 100)
    assert 200 <= mser(at, value) <= 900
    assert mser(at, random.normal(10, 1, 5000)) < 200
    assert np.isnan(mser(at, at))  # the transient never ends
    assert np.isnan(mser(at[:49], value[:49]))


@pytest.mark.parametrize("load", [0.4, 0.8])
def test_a_sustained_load_is_accepted_and_steady(load) -> None:
    results = [run(load, seed=seed) for seed in range(30)]
    assert not any(one.saturated for one in results)
    # The tests for a transient and for a trend both have false positives.
    assert sum(one.steady for one in results) >= 23
    assert np.mean([one.offered_load for one in results]) == pytest.approx(load, rel=0.01)
    assert np.mean([one.accepted_load for one in results]) == pytest.approx(load, rel=0.01)
    assert all(abs(one.growth) < 3 * one.growth_ci95 for one in results)


def test_offered_load_counts_the_messages_created() -> None:
    born = np.array([5.0, 10.0, 14.0, 19.0, 20.0])
    arrived = np.array([11.0, 12.0, 15.0, 21.0, 22.0])
    size = np.array([3, 1, 2, 4, 9])
    result = measure(
        born, arrived, size, warmup_ns=10, measure_ns=10, sources=2, rate_gbps=8.0,
        sources_stop_ns=20.0,
    )  # fmt: skip
    # Of the 20 bytes that two sources could send, 1 + 2 + 4 were created and 3 + 1 + 2 arrived.
    assert result.offered_load == pytest.approx(7 / 20)
    assert result.accepted_load == pytest.approx(6 / 20)
    assert result.growth == pytest.approx(1 / 20)
    assert (result.messages, result.after_sources, result.censored) == (3, 1, 0)
    assert result.latency.mean == pytest.approx((2 + 1 + 2) / 3)
    assert (result.min_ns, result.max_ns) == (1.0, 2.0)


def test_an_overloaded_queue_saturates_and_accepts_its_capacity() -> None:
    for load in (1.05, 1.3):
        results = [run(load, seed=seed) for seed in range(20)]
        assert all(one.saturated and not one.steady for one in results)
        assert np.mean([one.accepted_load for one in results]) == pytest.approx(1, abs=0.01)
        # At a load above 1 the delay grows by load - 1 per ns of creation time, that is by
        # (load - 1) / load per ns of arrival time.
        slope = np.mean([one.latency_trend.slope for one in results])
        assert slope == pytest.approx((load - 1) / load, rel=0.1)


def one_slow(load: float, seed: int, **rank: str):
    """Measure 64 queues; number 5 serves at 0.2468 times the rate of the others."""
    born, arrived, rank_of = [], [], []
    for number in range(64):
        service = 1 / 0.2468 if number == 5 else 1.0
        times, done = queues(load * service, 1, 1.5 * 1562 / service, 100 * seed + number)
        born.append(times * service)
        arrived.append(done * service)
        rank_of.append(np.full(len(times), number))
    ranks = np.concatenate(rank_of)
    return measure(
        np.concatenate(born), np.concatenate(arrived), np.ones(len(ranks)), warmup_ns=1562 / 4,
        measure_ns=1562, sources=64, rate_gbps=8.0, sources_stop_ns=1.5 * 1562,
        **({"source": ranks, "load": load} if rank == {"by": "source"} else {}),
        **({"destination": ranks} if rank == {"by": "destination"} else {}),
    )  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("load", "by", "least"), [(0.27, "source", 16), (0.3, "source", 20), (0.3, "destination", 18)]
)
def test_one_overloaded_rank_among_many_is_saturation(load, by, least) -> None:
    results = [one_slow(load, seed, by=by) for seed in range(20)]
    assert sum(one.saturated for one in results) >= least
    assert sum(one.steady for one in results) <= 2
    doing = "sends" if by == "source" else "receives"
    names = {one.behind for one in results if one.saturated}
    assert names <= {f"what rank 5 {doing}", ""}
    assert (
        f"what rank 5 {doing} falls behind" in " ".join(results[-1].notes) or not results[-1].behind
    )
    if load < 0.3:  # the sum over all ranks hides the slow rank
        assert sum(one_slow(load, seed).saturated for seed in range(20)) <= least / 2


@pytest.mark.parametrize("by", ["source", "destination"])
@pytest.mark.parametrize("load", [0.15, 0.225])
def test_no_rank_falls_behind_below_its_capacity(load, by) -> None:
    results = [one_slow(load, seed, by=by) for seed in range(20)]
    assert not any(one.saturated or one.behind for one in results)


def test_few_waiting_messages_do_not_count_as_a_backlog() -> None:
    for seed in range(40):
        born, arrived = queues(0.9, 4, 30, seed)
        result = measure(
            born, arrived, np.ones(len(born)), warmup_ns=5, measure_ns=20, sources=4, rate_gbps=8.0,
            load=0.9, source=np.arange(len(born)) % 4,
        )  # fmt: skip
        assert not result.behind


def test_growing_latency_is_not_steady_and_is_noted() -> None:
    born = np.arange(0, 1000.0)
    random = np.random.default_rng(3)
    arrived = born + 50 + 0.002 * born + random.exponential(0.5, 1000)
    result = measure(
        born, arrived, np.ones(1000), warmup_ns=200, measure_ns=800, sources=1, rate_gbps=8.0
    )
    assert not result.saturated
    assert result.latency_trend.slope > result.latency_trend.half_width
    assert not result.steady
    assert "latency grows" in result.notes


def test_filling_a_long_path_is_not_saturation() -> None:
    """Nothing is accepted until the first arrival, but latency is constant."""
    born = np.arange(0, 1000.0)
    result = measure(
        born, born + 450, np.ones(1000), warmup_ns=0, measure_ns=1000, sources=1, rate_gbps=8.0
    )
    assert result.growth - result.growth_ci95 > 0.15
    assert not result.saturated


def test_latency_above_half_the_window_is_not_starvation() -> None:
    born = np.arange(0, 1000.0)
    result = measure(
        born, born + 600, np.ones(1000), warmup_ns=100, measure_ns=900, sources=1, rate_gbps=8.0
    )
    assert result.growth > 0.2
    assert not result.saturated
    assert not result.steady
    assert "less arrives than is offered" in result.notes


def test_starving_messages_are_saturation_even_if_others_are_quick() -> None:
    born = np.arange(0, 1000.0)
    arrived = np.where(born % 20 == 7, -1.0, born + 1)
    result = measure(
        born, arrived, np.ones(1000), warmup_ns=0, measure_ns=1000, sources=1, rate_gbps=8.0
    )
    assert not result.latency_trend.grows
    assert result.saturated


@pytest.mark.parametrize(
    ("born", "missing", "starves"),
    [
        (10.0, 3, True),  # window 10 to 20 ns: of 200 bytes, 2 may be missing
        (10.0, 2, False),
        (14.5, 3, True),
        (9.9, 3, False),  # created before the window
        (15.0, 3, False),  # created in its second half
    ],
)
def test_starvation_needs_over_one_percent_missing_for_long(
    born: float, missing: int, starves: bool
) -> None:
    """Latency is 1 ns in the window; arrivals outside it do not affect the usual latency."""
    quick = np.repeat(np.arange(10, 15.0), 40)[: 200 - missing]
    begins = np.concatenate((quick, np.full(missing, born), [0.0, 0.0, 10.0]))
    ends = np.concatenate((quick + 1, np.full(missing, np.inf), [9.5, 9.9, 20.0]))
    size = np.concatenate((np.ones(200), [1e3, 1e3, 0.0]))
    assert Messages(begins, ends, size).starve(10.0, 20.0) == starves
    # The usual latency is 8 ns here; at the end, missing messages are younger than twice 8 ns.
    slow = Messages(quick - 8, quick, size[: len(quick)])
    late = Messages(*(np.concatenate(pair) for pair in (
        (slow.born, begins[-3 - missing : -3]), (slow.arrived, ends[-3 - missing : -3]),
        (slow.size, np.ones(missing)),
    )))  # fmt: skip
    assert not late.starve(10.0, 20.0)


def test_messages_starve_if_none_arrives() -> None:
    born = np.arange(10, 20.0)
    assert Messages(born, np.full(10, np.inf), np.ones(10)).starve(10.0, 20.0)


@pytest.mark.parametrize("by", ["source", "destination"])
def test_a_rank_with_starving_messages_is_saturation_even_if_others_are_quick(by: str) -> None:
    born = np.tile(np.arange(0, 1000.0), 40)
    rank = np.repeat(np.arange(40), 1000)

    def measured(missing: np.ndarray):
        """Measure 40 ranks whose messages take 1 ns; missing messages of rank 7 never arrive."""
        arrived = np.where((rank == 7) & missing, -1.0, born + 1)
        return measure(
            born, arrived, np.ones(len(born)), warmup_ns=0, measure_ns=1000, sources=40,
            rate_gbps=8.0, **{by: rank},
        )  # fmt: skip

    result = measured(born % 100 < 20)
    assert not result.latency_trend.grows
    assert result.saturated
    assert result.behind == f"what rank 7 {'sends' if by == 'source' else 'receives'}"
    # Up to 1 % missing messages are not saturation, but the rank still falls behind.
    result = measured(born % 100 < 1)
    assert result.behind
    assert not result.saturated
    # Four messages under way at 500 ns, the middle of the window, are enough; three are not. One of
    # them is created at that instant.
    assert measured((born % 125 == 0) & (born > 0)).behind
    assert not measured((born % 125 == 0) & (born > 125)).behind
    # Only the middle of the window counts: at a third of it, no message waits yet.
    assert measured((born > 340) & (born % 5 == 0)).behind


def test_a_network_that_delivers_nothing_is_saturated() -> None:
    born = np.arange(0, 1000.0)
    result = measure(
        born, np.full(1000, -1.0), np.ones(1000), warmup_ns=0, measure_ns=1000, sources=1,
        rate_gbps=8.0, stopped_ns=2000.0,
    )  # fmt: skip
    assert result.saturated
    assert (result.accepted_load, result.censored) == (0.0, 1000)
    assert result.latency.mean == pytest.approx(2000 - 499.5)  # their mean age, a lower bound
    assert all(np.isnan(value) for value in result.percentiles_ns.values())


def test_percentiles_count_messages_that_never_arrive_as_the_longest() -> None:
    born = np.zeros(1000)
    arrived = np.arange(1.0, 1001.0)
    settings = {"warmup_ns": 0, "measure_ns": 1, "sources": 1, "rate_gbps": 8.0}
    result = measure(born, arrived, np.ones(1000), **settings)
    assert result.percentiles_ns == {"p50": 500.0, "p95": 950.0, "p99": 990.0, "p99_9": 999.0}
    arrived[:20] = -1  # never arrive
    result = measure(born, arrived, np.ones(1000), **settings)
    assert result.percentiles_ns["p50"] == 520.0
    assert result.percentiles_ns["p95"] == 970.0
    assert np.isnan(result.percentiles_ns["p99"])
    assert np.isnan(result.max_ns)
    assert result.min_ns == 21.0
    assert "20 messages had not arrived at the end" in result.notes


def test_a_warm_up_that_is_too_short_is_noticed() -> None:
    cold = [run(0.9, sources=36, warmup=0, seed=seed) for seed in range(20)]
    warm = [run(0.9, sources=36, warmup=1000, seed=seed) for seed in range(20)]
    assert sum(one.steady for one in cold) <= 2
    assert sum(one.steady for one in warm) >= 17
    assert any("after the warm-up" in note for one in cold for note in one.notes)


def test_bisection_finds_the_capacity_of_a_queue() -> None:
    low, high, at_high, runs = bisect(lambda load: run(load, seed=7), 2.0, 0.01)
    assert high is not None
    assert high - low <= 0.01
    assert 0.97 <= low < high <= 1.03
    assert at_high is not None
    assert at_high.offered_load == pytest.approx(high, abs=0.03)
    assert at_high.accepted_load == pytest.approx(1, abs=0.02)
    assert runs == 9
    assert bisect(run, 0.7, 0.01) == (0.7, None, None, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arrived_ns": [1.0]}, "differ in length"),
        ({"source": [1]}, "expected a rank for each of 2 messages"),
        ({"measure_ns": 0}, "measure_ns above 0"),
        ({"warmup_ns": -1}, "warmup_ns must be at least 0"),
        ({"sources": 0}, "sources must be at least 1"),
        ({"rate_gbps": 0.0}, "rate_gbps above 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(change, message) -> None:
    arguments = {
        "born_ns": [0.0, 1.0], "arrived_ns": [1.0, 2.0], "size_bytes": [1, 1], "warmup_ns": 0,
        "measure_ns": 1, "sources": 1, "rate_gbps": 1.0,
    }  # fmt: skip
    with pytest.raises(InputError, match=message):
        measure(**{**arguments, **change})
