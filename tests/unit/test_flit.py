"""Flit level: cycles of single packets by hand, and flows limited by credits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.kernels.flit.engine import DONE, loop
from weft.kernels.flit.net import Net
from weft.kernels.flit.routing import by_tables
from weft.routes import TableRoutes
from weft.sim.flit.network import Load, Router, flit_net, with_packets

RUN = loop(by_tables)


def simulated(
    spec: str, router: Router, load: Load, latency: int = 1, more: int = 2000, engine: str = "dmodk"
) -> Net:
    """Return the state after the measurement and some more cycles."""
    fabric = weft.fabric(spec)
    routes = weft.route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    net = flit_net(fabric, routes, router, load, latency)
    until = load.warmup + load.measure + more
    while RUN(net, until) != DONE:
        net = with_packets(net)
    return net


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
    load = Load(0.001, size=size, warmup=0, measure=100_000, targets=np.array([1, 0], np.int32))
    net = simulated(spec, Router(buffer=64, **delays), load, latency)
    measured = int(net.count.measured)
    assert measured > 20
    alone = latency + routers * (sum(delays.values()) + latency) + size - 1
    assert net.count.network == measured * alone
    assert net.count.packet_hops == measured * routers


@pytest.mark.parametrize("switching", ["cut-through", "store-and-forward"])
def test_a_stored_packet_waits_for_its_last_flit_at_each_router(switching: str) -> None:
    load = Load(0.001, size=6, warmup=0, measure=100_000, targets=np.array([1, 0], np.int32))
    net = simulated("xgft:2;1,2;1,1", Router(switching=switching), load)
    alone = 1 + 3 * (0 + 1 + 2 + 1) + 5 + 3 * 5 * (switching == "store-and-forward")
    assert net.count.network == net.count.measured * alone


@pytest.mark.parametrize("buffer", [1, 2, 4, 5, 6, 7, 8])
def test_a_flow_is_limited_by_the_round_trip_of_credits(buffer: int) -> None:
    """One virtual channel carries `buffer` flits each time that a credit has come back."""
    load = Load(1.0, size=1000, warmup=5000, measure=20_000, targets=np.array([1, 0], np.int32))
    router = Router(lanes=1, buffer=buffer, switch_delay=2, credit_delay=1)
    net = simulated("xgft:2;1,2;1,1", router, load, latency=2)
    loop_cycles = 2 + 1 + 2 * 2
    assert net.count.ejected / 40_000 == pytest.approx(min(1, buffer / loop_cycles), rel=0.01)


def state(**changes: Any) -> tuple[Router, Load]:
    """Return settings of which some are changed."""
    load = {key: changes.pop(key) for key in ("rate", "size") if key in changes}
    return Router(**changes), Load(**{"rate": 0.1, **load})


@pytest.mark.parametrize("changes", [{}, {"size": 5}, {"lanes": 1}, {"lanes": 2, "iterations": 3},
    {"size": 5, "switching": "cut-through"}, {"size": 5, "switching": "store-and-forward"},
    {"size": 5, "atomic": True}, {"vc_delay": 3, "routing_delay": 2}])  # fmt: skip
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_every_packet_arrives_and_the_network_is_empty_afterwards(
    changes: dict[str, Any], rate: float
) -> None:
    router, load = state(**changes, rate=rate)
    fabric = weft.fabric("xgft:2;4,4;1,4")
    routes = weft.route(fabric, "dmodk")
    assert isinstance(routes, TableRoutes)
    net = flit_net(fabric, routes, router, load)
    born = 0
    for until in (500, 3000):
        while RUN(net, until) != DONE:
            net = with_packets(net)
        born = int(net.count.born)
    assert born > 100
    assert net.count.ejected / 2000 / 16 <= 1
    net.sources["birth"] = 2**40  # no further packets
    while RUN(net, 3000 + 20_000) != DONE:
        net = with_packets(net)
    assert net.count.under_way == 0
    assert net.count.measured == net.count.born
    inside = net.links["head_row"][net.lanes["link"]] >= 0
    assert (net.lanes["credits"][inside] == router.buffer).all()
    assert (net.lanes["owner"] == -1).all()
    assert not net.lanes["count"].any()
    assert not net.active.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 0}, "lanes"),
        ({"buffer": 0}, "buffer"),
        ({"switching": "cut-through", "size": 9}, "needs buffers for a packet of 9 flits"),
        ({"switching": "circuit"}, "switching must be"),
        ({"rate": 0.0}, "rate must be above 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    routes = weft.route(fabric, "dmodk")
    assert isinstance(routes, TableRoutes)
    with pytest.raises(weft.InputError, match=message):
        flit_net(fabric, routes, *state(**changes))


@pytest.mark.parametrize(
    ("spec", "engine", "load", "latency", "error", "message"),
    [
        ("bcube:3,k=1", "minhop", Load(0.1), 1, weft.NotApplicable, "hosts do not forward"),
        ("xgft:1;2;1", "minhop", Load(0.1, size=0), 1, weft.InputError, "size"),
        ("xgft:1;2;1", "minhop", Load(0.1, seed=-1), 1, weft.InputError, "seed"),
        ("xgft:1;2;1", "minhop", Load(0.1), [1.5] * 4, weft.InputError, "latencies"),
        ("xgft:1;2;1", "minhop", Load(0.1), [1] * 3, weft.InputError, "latencies"),
        ("xgft:1;2;1", "minhop", Load(0.1, targets=np.array([5, 0], np.int32)), 1,
         weft.InputError, "targets"),
    ],
)  # fmt: skip
def test_traffic_and_fabrics_that_cannot_work_are_refused(
    spec: str, engine: str, load: Load, latency: Any, error: type[Exception], message: str
) -> None:
    fabric = weft.fabric(spec)
    routes = weft.route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    with pytest.raises(error, match=message):
        flit_net(fabric, routes, Router(), load, latency)


def test_pairs_without_a_path_are_refused_and_an_endpoint_alone() -> None:
    with pytest.raises(weft.InputError, match="at least two endpoints"):
        Load(0.1).check(1)
    fabric = weft.fabric("xgft:2;2,2;1,1").without(cables=["s1-0[3]"])
    routes = weft.route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    with pytest.raises(weft.NotApplicable, match="has no path to some hosts"):
        flit_net(fabric, routes, Router(), Load(0.1))
