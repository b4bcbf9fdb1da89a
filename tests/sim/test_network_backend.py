"""`weft.network` gives the times of a run of all messages, whenever it hears of them."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

import weft
from weft import network as module
from weft.core.errors import InputError
from weft.network import Completion, FlowNetwork
from weft.sim.common.host_parameters import HostParameters, Overhead

Send = tuple[float, int, int, int]
#: Two adapters are slower than the others.
FABRIC = weft.fabric(
    "xgft:2;4,3;1,2", faults=weft.Faults(slow={"h2[1]": "4xQDR", "h7[1]": "4xEDR"})
)
ROUTES = {name: weft.route(FABRIC, name) for name in ("dmodk", "ecmp")}


def sends_of(seed: int, count: int, span_ns: int) -> list[Send]:
    draw = np.random.default_rng(seed)
    hosts = FABRIC.num_hosts
    sizes = [0, 1, 100, 3000, 50_000, 10**6]
    return sorted(
        (float(draw.integers(span_ns)), int(a), int(b), int(draw.choice(sizes)))
        for a, b in draw.integers(hosts, size=(count, 2))
    )


def together(sends: list[Send], routes: str, **options: Any) -> list[float]:
    """Return the arrivals of messages that are one workload."""
    builder = weft.WorkloadBuilder(FABRIC.num_hosts)
    for time, source, target, size in sends:
        builder.put(source, target, size, release_ns=time)
    handles = builder.in_order()[1]
    result = weft.simulate(FABRIC, ROUTES[routes], builder.build(), **options)
    arrived = np.zeros(len(sends))
    arrived[handles] = result.arrived_ns
    return arrived.tolist()  # type: ignore[no-any-return]


def one_by_one(sends: list[Send], routes: str, **options: Any) -> list[float]:
    """Return the arrivals of messages that are sent when the network has come to their time."""
    network = FlowNetwork(FABRIC, ROUTES[routes], **options)
    found: dict[int, float] = {}
    for number, send in enumerate(sends):
        while arrival := network.next_completion(send[0]):
            assert arrival.time_ns == network.now_ns <= send[0]
            found[arrival.message] = arrival.time_ns
        assert network.now_ns == send[0]
        assert network.send(*send) == number
    while arrival := network.next_completion():
        found[arrival.message] = arrival.time_ns
    return [found[number] for number in range(len(sends))]


HOSTS = HostParameters(
    adapter_gbps=90,
    adapter_latency_ns=250,
    overhead=(
        Overhead(from_bytes=0, ns=200, ns_per_byte=0.1, latency_ns=30),
        Overhead(from_bytes=3000, ns=900, ns_per_byte=0.001),
    ),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "overhead_ns": st.sampled_from([0.0, 300.0]),
        "latency_ns": st.sampled_from([0.0, 700.0]),
        "local_latency_ns": st.just(0.0),
        "switch_latency_ns": st.just(50.0),
        "host_parameters": st.just(HOSTS),
    },
)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([100, 20_000]), st.sampled_from([*ROUTES]), OPTIONS)
def test_times_are_those_of_a_run_of_all_messages(
    seed: int, span_ns: int, routes: str, options: dict[str, Any]
) -> None:
    sends = sends_of(seed, 60, span_ns)
    expected = together(sends, routes, **options)
    assert one_by_one(sends, routes, **options) == pytest.approx(expected, rel=1e-12)
    network = FlowNetwork(FABRIC, ROUTES[routes], **options)
    for send in sends:
        network.send(*send)
    arrivals = network.advance(10_000.0) + network.advance(math.inf)
    assert [each.time_ns for each in arrivals] == sorted(each.time_ns for each in arrivals)
    times = dict(arrivals)
    assert [times[number] for number in range(len(sends))] == pytest.approx(expected, rel=1e-12)


def test_messages_under_way_move_when_room_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    sends = sends_of(3, 300, 5_000)
    some: list[dict[str, Any]] = [{}, {"overhead_ns": 400.0}, {"host_parameters": HOSTS}]
    for options in some:
        expected = together(sends, "ecmp", **options)
        monkeypatch.setattr(module, "_ROOM", 8)
        assert one_by_one(sends, "ecmp", **options) == pytest.approx(expected, rel=1e-12)


def test_later_messages_slow_those_under_way_down() -> None:
    network = FlowNetwork(FABRIC, ROUTES["dmodk"], latency_ns=0)
    gbps = float(FABRIC.link_rate_gbps[0])
    alone_ns = 8e6 / gbps
    assert network.send(0, 0, 1, 10**6) == 0
    assert network.next_completion(alone_ns / 2) is None
    assert network.now_ns == alone_ns / 2
    assert network.send(alone_ns / 2, 4, 1, 10**6) == 1
    # Both share the cable of host 1, until the first has its second half.
    assert network.next_completion() == Completion(0, pytest.approx(1.5 * alone_ns))
    assert network.send(network.now_ns, 3, 3, 0) == 2
    assert network.next_completion() == Completion(2, pytest.approx(1.5 * alone_ns + 200))
    assert network.next_completion() == Completion(1, pytest.approx(2 * alone_ns))
    assert network.next_completion() is None
    assert network.advance(9e9) == []
    assert network.now_ns == 9e9


def test_arrivals_of_one_instant_come_one_after_the_other() -> None:
    network = FlowNetwork(FABRIC, ROUTES["dmodk"])
    for source in (4, 0):
        network.send(5, source, source + 1, 4096)
    for number in (0, 1):
        arrival = network.next_completion()
        assert arrival == Completion(number, network.now_ns)


@pytest.mark.parametrize(
    "options",
    [{"sharing": "penalty"}, {"multipath": "hash"}, {"policy": "nrk"}, {"max_time_ns": 5}],
)
def test_options_that_need_all_messages_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="a network does not know later messages"):
        FlowNetwork(FABRIC, ROUTES["ecmp"], **options)
    FlowNetwork(FABRIC, ROUTES["dmodk"], multipath="hash")  # there is one path only


def test_calls_that_are_wrong_change_nothing() -> None:
    network = FlowNetwork(FABRIC, ROUTES["dmodk"])
    network.advance(100)
    for call, message in (
        (lambda: network.send(99, 0, 1, 5), "a message at 99 ns; expected 100.* ns or later"),
        (lambda: network.send(math.nan, 0, 1, 5), "a message at nan ns"),
        (lambda: network.send(math.inf, 0, 1, 5), "a message at inf ns"),
        (lambda: network.send(100, 0, 12, 5), "there is no host 12; hosts are 0 to 11"),
        (lambda: network.send(100, -1, 1, 5), "there is no host -1"),
        (lambda: network.send(100, 0, 1, -5), "a message of -5 bytes"),
        (lambda: network.advance(99), "time 99 ns has passed; the network is at 100"),
        (lambda: network.next_completion(math.nan), "time nan ns has passed"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    assert network.advance(math.inf) == []


def test_the_example_simulates() -> None:
    example = Path(__file__).parents[2] / "examples" / "event_driven.py"
    run = subprocess.run(
        [sys.executable, example, "xgft:2;4,3;1,2", "100"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("100 messages take 0.")
