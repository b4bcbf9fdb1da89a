"""Results of synthetic traffic at the flit level: intervals, reasons, and rates near 0."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import Load, Router
from weft.sim.flit.network import Links
from weft.sim.flit.routings.grid import coordinates

TORUS = weft.fabric("torus:4x4")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("measure", [100, 300, 301, 2000])
def test_accepted_traffic_has_an_interval_for_any_length_of_the_measurement(measure: int) -> None:
    """Only some lengths are multiples of the number of batches."""
    near = 0
    for seed in range(20):
        load = Load(rate=0.3, measure=measure, seed=seed)
        result = weft.simulate_flits(TORUS, "dor", load=load)
        near += abs(result.accepted - 0.3) < result.accepted_ci95
    # Half of 20 is 4.4 standard deviations below 95 %.
    assert near > 10


def test_a_short_measurement_is_not_called_settled() -> None:
    result = weft.simulate_flits(TORUS, "dor", load=Load(rate=0.3, measure=20))
    assert np.isnan(result.accepted_ci95)
    assert result.why == "the measurement is too short"


@pytest.mark.parametrize("rate", [1e-15, 1e-30, 1e-300])
def test_a_rate_near_0_generates_nothing(rate: float) -> None:
    result = weft.simulate_flits(TORUS, "dor", load=Load(rate=rate, measure=200))
    assert (result.accepted, result.flit_hops) == (0, 0)


def test_percentiles_begin_with_the_least_latency() -> None:
    result = weft.simulate_flits(TORUS, "dor", load=Load(measure=500))
    assert result.percentile(0) == np.flatnonzero(result.histogram)[0] > 0
    assert result.percentile(100) == np.flatnonzero(result.histogram)[-1]
    for wrong in (-1, 101, float("nan")):
        with pytest.raises(weft.InputError, match="percent must be"):
            result.percentile(wrong)


def test_a_latency_may_be_a_number_of_numpy() -> None:
    one, other = (
        weft.simulate_flits(TORUS, "dor", load=Load(measure=200), latency=latency)
        for latency in (2, np.int64(2))
    )
    assert one.latency == other.latency


def test_shared_places_that_other_lanes_hold_are_named_in_a_deadlock() -> None:
    """The lanes of a link have one place of their own, and packets need 16."""
    router = Router(lanes=2, switching="cut-through", buffer=1, shared_buffer=16)
    load = Load(rate=1, size=16, warmup=0, measure=8000)
    result = weft.simulate_flits(TORUS, "dor", router=router, load=load, drain=6000)
    assert "packets are stuck" in result.why
    assert "buffers wait for each other" in result.why
    assert result.deadlock.startswith("the buffer behind ")


@pytest.mark.parametrize("spec", ["torus:4x4", "torus:8", "hyperx:4x4", "mesh:2x3x4"])
def test_coordinates_have_one_layout_so_that_a_routing_is_compiled_once(spec: str) -> None:
    arrays = coordinates(Links.of(weft.fabric(spec)))
    assert all(each.flags.c_contiguous for each in arrays)


def test_a_run_with_replies_ends_when_those_of_the_measurement_have_arrived() -> None:
    """Endpoints go on with requests, so that at any time some reply waits somewhere."""
    load = Load(rate=0.1, reply=4, warmup=500, measure=1500, seed=1)
    router = Router(lanes=8, iterations=2)
    result = weft.simulate_flits(weft.fabric("mesh:1,hosts=60"), "dor", load=load, router=router)
    assert (result.missing, result.settled) == (0, True)
    assert result.cycles < 2500


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("size", "switching", "atomic"), [(1, "cut-through", False), ("2,6", "wormhole", True)]
)
def test_adaptive_routing_over_wormhole_routers_keeps_escapes_open(
    size: int | str, switching: str, atomic: bool
) -> None:
    """With plain wormhole routers, packets of 2 and 6 flits are stuck in this run."""
    router = Router(lanes=3, buffer=8)
    load = Load(rate=1, pattern="complement", size=size, warmup=0, measure=15_000)
    fabric = weft.fabric("torus:8x8")
    result = weft.simulate_flits(fabric, "adaptive", router=router, load=load, drain=3000)
    assert (result.router.switching, result.router.atomic) == (switching, atomic)
    assert not result.deadlock
    assert result.accepted > 0.1


@pytest.mark.parametrize("seed", [15, 17, 21])
def test_long_packets_far_below_saturation_are_settled(seed: int) -> None:
    """Long packets make few, correlated latencies, whose trend is large by chance in some runs."""
    router = Router(lanes=8, buffer=8, input_speedup=2, atomic=True)
    load = Load(rate=0.0875, pattern="transpose", size=20, warmup=3000, measure=7000, seed=seed)
    result = weft.simulate_flits(weft.fabric("mesh:8x8"), "dor", load=load, router=router)
    assert (result.settled, result.why) == (True, "")
