"""Flit level: cycles of single packets by hand, and flows limited by credits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flit_runs import Run

import weft
from weft.sim.flit.network import Links
from weft.sim.flit.router import Router
from weft.sim.flit.routings import bind, of_routes
from weft.sim.flit.traffic import Load

#: Two hosts that send to each other, one packet at a time.
ALONE = {"rate": 0.001, "pattern": "shift:offset=1", "warmup": 0, "measure": 100_000}


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize(
    "delays",
    [
        {"routing_delay": 0, "vc_delay": 1, "switch_delay": 2},
        {"routing_delay": 1, "vc_delay": 0, "switch_delay": 1},
        {"routing_delay": 3, "vc_delay": 2, "switch_delay": 0},
        {"routing_delay": 0, "vc_delay": 0, "switch_delay": 1},
    ],
)
@pytest.mark.parametrize(("spec", "routers"), [("xgft:1;2;1", 1), ("xgft:2;1,2;1,1", 3)])
@pytest.mark.parametrize("latency", [1, 4])
def test_a_packet_alone_takes_the_delays_of_its_routers_and_links(
    spec: str, routers: int, latency: int, delays: dict[str, int], size: int
) -> None:
    net = Run(spec, Router(buffer=64, **delays), Load(size=size, **ALONE), latency=latency).after()
    measured = int(net.batches["measured"].sum())
    assert measured > 20
    alone = latency + routers * (sum(delays.values()) + latency) + size - 1
    assert net.batches["network"].sum() == measured * alone
    assert net.count.packet_hops == measured * routers


@pytest.mark.parametrize("switching", ["cut-through", "store-and-forward"])
def test_a_stored_packet_waits_for_its_last_flit_at_each_router(switching: str) -> None:
    net = Run("xgft:2;1,2;1,1", Router(switching=switching), Load(size=6, **ALONE)).after()
    alone = 1 + 3 * (0 + 1 + 2 + 1) + 5 + 3 * 5 * (switching == "store-and-forward")
    assert net.batches["network"].sum() == net.batches["measured"].sum() * alone


@pytest.mark.parametrize("buffer", [1, 2, 4, 5, 6, 7, 8])
def test_a_flow_is_limited_by_the_round_trip_of_credits(buffer: int) -> None:
    """One virtual channel carries `buffer` flits each time that a credit has come back."""
    load = Load(rate=1.0, size=1000, pattern="shift", warmup=5000, measure=20_000)
    router = Router(lanes=1, buffer=buffer, switch_delay=2, credit_delay=1)
    net = Run("xgft:2;1,2;1,1", router, load, latency=2).after()
    loop_cycles = 2 + 1 + 2 * 2
    assert net.batches["ejected"].sum() / 40_000 == pytest.approx(
        min(1, buffer / loop_cycles), rel=0.01
    )


@pytest.mark.parametrize(
    ("router", "size", "latency", "places"),
    [
        (Router(), 20, 1, 8),
        (Router(shared_buffer=5), 20, 3, 10),
        (Router(routing_delay=7, vc_delay=3), 20, 3, 19),
        (Router(switch_delay=1, credit_delay=4), 1, 100, 206),
        (Router(switching="cut-through"), 20, 1, 20),
        (Router(switching="store-and-forward", shared_buffer=5), 20, 1, 20),
        (Router(buffer=2), 20, 100, 2),
    ],
)
def test_buffers_hold_a_credit_round_trip_by_default(
    router: Router, size: int, latency: int, places: int
) -> None:
    """2 * 3 + 1 + 2 + 1 cycles pass from a head flit on a link of latency 3 to its credit's use."""
    net = Run("xgft:2;1,2;1,1", router, Load(size=size), latency=latency).net
    assert net.rules.buffer == places
    assert (net.out_lanes["credits"] == places).all()


@pytest.mark.parametrize("latency", [1, 2, 40])
def test_the_default_buffer_lets_one_lane_fill_a_link(latency: int) -> None:
    load = Load(rate=1.0, size=1000, pattern="shift", warmup=5000, measure=20_000)
    net = Run("xgft:2;1,2;1,1", Router(lanes=1), load, latency=latency).after()
    assert net.batches["ejected"].sum() / 40_000 == pytest.approx(1, rel=0.01)


def test_buffers_too_small_for_long_cables_must_be_set() -> None:
    with pytest.raises(weft.InputError, match=r"round trip takes 40,004 cycles .* so set buffer"):
        Run("xgft:1;2;1", Router(), Load(), latency=20_000)
    assert Run("xgft:1;2;1", Router(buffer=9), Load(), latency=20_000).net.rules.buffer == 9


CHANGES: list[dict[str, Any]] = [
    {}, {"size": 5}, {"lanes": 1}, {"lanes": 2, "iterations": 3},
    {"size": 5, "switching": "cut-through"}, {"size": 5, "switching": "store-and-forward"},
    {"size": 5, "atomic": True}, {"vc_delay": 3, "routing_delay": 2},
    {"size": 5, "shared_buffer": 8, "buffer": 2}, {"size": "1:0.5,5:0.5"}, {"reply": 5},
    {"size": 5, "output_buffer": 4, "output_speedup": 2, "input_speedup": 2},
    {"allocator": "islip", "iterations": 2}, {"allocator": "output-first", "arbiter": "age"},
    {"arbiter": "least-recent"}, {"size": 4, "speculative": True},
    {"size": 4, "speculative": True, "vc_delay": 2, "allocator": "islip"},
    {"size": 5, "hold_switch": True, "arbiter": "age"},
]  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_every_packet_arrives_and_the_network_is_empty_afterwards(
    changes: dict[str, Any], rate: float
) -> None:
    of_load = {key: value for key, value in changes.items() if key in ("size", "reply")}
    router = Router(**{key: value for key, value in changes.items() if key not in of_load})
    run = Run("xgft:2;4,4;1,4", router, Load(rate=rate, **of_load))
    born = int(run.until(3000).count.born)
    assert born > 100
    assert run.net.batches["ejected"].sum() / 2000 / 16 <= 1
    run.net.endpoints["birth"] = 2**40  # no further packets
    net = run.until(3000 + 20_000)
    assert net.count.under_way == 0
    assert net.batches["measured"].sum() == net.count.born
    inside = slice(run.links.ends << int(net.rules.lane_shift), None)
    assert (net.out_lanes["credits"] == net.rules.buffer).all()
    assert (net.outputs["shared"] == router.shared_buffer).all()
    assert (net.out_lanes["owner"] == -1).all()
    assert not net.in_lanes["count"][inside].any()
    assert not net.active.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 0}, "lanes"),
        ({"buffer": 0}, "buffer"),
        ({"switching": "circuit"}, "switching"),
        ({"output_speedup": 2}, "needs an output_buffer of as many flits"),
        ({"input_speedup": 5}, "input_speedup is at most the number of lanes, 4"),
        ({"speculative": True, "vc_delay": 0}, "saves nothing"),
        ({"hold_switch": True, "output_buffer": 4}, "without output queues"),
        ({"buffer": 30_000, "shared_buffer": 10_000}, "at most"),
    ],
)
def test_routers_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.InputError, match=message):
        Router(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.1}, "rate"),
        ({"size": 0}, "1 to 16 sizes"),
        ({"size": "1:0.5,x"}, "expected a size in flits"),
        ({"size": "1:0"}, "size: expected shares above 0"),
        ({"seed": -1}, "seed"),
        ({"measure": 0}, "measure"),
    ],
)
def test_traffic_that_cannot_work_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.InputError, match=message):
        Load(**changes)


@pytest.mark.parametrize(
    ("spec", "router", "load", "options", "error", "message"),
    [
        ("bcube:3,k=1", {}, {}, {"engine": "minhop"}, weft.NotApplicable, "hosts do not forward"),
        ("xgft:1;2;1", {}, {}, {"latency": [1.5] * 4}, weft.InputError, "latencies"),
        ("xgft:1;2;1", {}, {}, {"latency": [1] * 3}, weft.InputError, "latencies"),
        ("xgft:1;2;1", {}, {"pattern": "nowhere"}, {}, weft.InputError, "nowhere"),
        ("xgft:1;6;1", {}, {"pattern": "transpose"}, {}, weft.NotApplicable, "power of two, not 6"),
        ("xgft:1;65;1", {}, {}, {"engine": "minhop"}, weft.NotApplicable, "at most 64 ports"),
        ("xgft:1;2;1", {"switching": "cut-through", "buffer": 8}, {"size": 9}, {}, weft.InputError,
         "needs buffers for a packet of 9 flits, not of 8"),
        ("xgft:1;2;1", {"lanes": 1}, {"reply": 1}, {}, weft.InputError, "lanes must be even"),
        ("torus:4x4", {}, {}, {"routing": "nca-random"}, weft.NotApplicable, "fat tree"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    spec: str, router: dict[str, Any], load: dict[str, Any], options: dict[str, Any],
    error: type[Exception], message: str,
) -> None:  # fmt: skip
    with pytest.raises(error, match=message):
        Run(spec, Router(**router), Load(**load), **options)


def test_pairs_without_a_path_are_refused() -> None:
    fabric = weft.fabric("xgft:2;2,2;1,1").without(cables=["s1-0[3]"])
    links = Links.of(fabric)
    with pytest.raises(weft.NotApplicable, match="no path from"):
        of_routes(links, weft.route(fabric, "minhop"), 4)
    with pytest.raises(weft.NotApplicable, match="a folded Clos network only without 2 switches"):
        bind("nca-random", links, 4)
