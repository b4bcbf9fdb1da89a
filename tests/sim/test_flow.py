"""The flow level: closed forms, eager and rendezvous sends, limits, errors, and real traces."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import weft
from weft.core.errors import InputError, NotApplicable
from weft.kernels.flow import engine as flow_engine
from weft.sim.common.progress import IncompleteRun, Progress
from weft.workload import Workload, WorkloadBuilder, load_workload

TREE = weft.fabric("xgft:2;4,4;1,4,rate=100")
ROUTES = weft.route(TREE, "dmodk")
#: 100 Gb/s in bytes/ns.
RATE = 12.5


def one_message(size: int) -> Workload:
    """Return a message from rank 0 to rank 1, whose receive is posted in time."""
    builder = WorkloadBuilder(2)
    builder.rank(0).send(1, size)
    builder.rank(1).recv(0, size)
    return builder.build()


def puts(*pairs: tuple[int, int, int]) -> Workload:
    """Return messages (source, destination, size) that all start at once; rank i is on host i."""
    builder = WorkloadBuilder(TREE.num_hosts)
    for source, target, size in pairs:
        builder.put(source, target, size)
    return builder.build()


def arrivals(work: Workload, **options: object) -> list[float]:
    """Return the arrival time of each message."""
    result = weft.simulate(
        TREE,
        ROUTES,
        work,
        latency_ns=0,
        hardware=weft.Hardware(mtu_bytes=1, header_bytes=0),
        **options,
    )
    return result.messages()["arrived_ns"].to_list()


def test_an_eager_message_takes_its_latency_and_its_size_over_the_rate() -> None:
    # The path from host 0 to host 5 has two cables up, two down, and three switches.
    hops, cables = 3, 4 * 10.0
    result = weft.simulate(TREE, ROUTES, one_message(5000), [0, 5], switch_latency_ns=50)
    assert result.makespan_ns == pytest.approx(hops * 50 + cables + 5000 / RATE)
    assert result.ended_ns[0] == 0  # the library has buffered the message


def test_a_send_by_rendezvous_requests_first_and_ends_when_its_message_has_left() -> None:
    options = {"eager_bytes": 0, "switch_latency_ns": 50}
    latency = 3 * 50 + 40
    result = weft.simulate(TREE, ROUTES, one_message(5000), [0, 5], **options)
    assert result.left_ns[0] == pytest.approx(2 * latency)
    assert result.ended_ns[0] == pytest.approx(2 * latency + 5000 / RATE)
    assert result.ended_ns[1] == pytest.approx(3 * latency + 5000 / RATE)
    bare = weft.simulate(TREE, ROUTES, one_message(5000), [0, 5], handshake=False, **options)
    assert bare.left_ns[0] == 0


def test_the_overhead_occupies_both_processors() -> None:
    builder = WorkloadBuilder(2)
    for _ in range(3):
        builder.isend(0, 1, 0)
        builder.irecv(1, 0, 0)
    options = {"overhead_ns": 100, "latency_ns": 7, "hardware": weft.Hardware(header_bytes=25)}
    result = weft.simulate(TREE, ROUTES, builder.build(), [0, 5], **options)
    assert result.left_ns[:3].tolist() == [100, 200, 300]
    # The header of an empty message takes 2 ns.
    assert result.ended_ns[3:].tolist() == [209, 309, 409]


def test_calculations_run_one_at_a_time_on_each_processor() -> None:
    builder = WorkloadBuilder(1)
    for cpu in (0, 0, 1):
        builder.calc(0, 10.0, cpu=cpu, after=[])
    assert weft.simulate(TREE, ROUTES, builder.build()).ended_ns.tolist() == [10, 20, 10]


def test_flows_share_adapters_and_cables() -> None:
    # Two messages go to one host; one of them shares its source with the third message.
    ends = arrivals(puts((0, 5, 1000), (0, 6, 1000), (1, 5, 1000)))
    assert ends == pytest.approx([2000 / RATE] * 3)
    # 0 -> 4 and 1 -> 8 leave via the same cable of their leaf (dmodk selects by destination).
    assert arrivals(puts((0, 4, 1000), (1, 8, 1000))) == pytest.approx([2000 / RATE] * 2)
    assert arrivals(puts((0, 4, 1000), (1, 9, 1000))) == pytest.approx([1000 / RATE] * 2)


def test_without_sharing_every_flow_has_the_full_rate() -> None:
    work = puts((0, 5, 1000), (1, 5, 1000))
    for tolerance in (0.0, 0.5):
        ends = arrivals(work, sharing="none", tolerance=tolerance)
        assert ends == pytest.approx([1000 / RATE] * 2)


def test_a_finished_flow_leaves_its_share_to_the_others() -> None:
    # Both flows have half the rate until the short one ends; the long one then has the full rate.
    ends = arrivals(puts((0, 5, 1000), (1, 5, 3000)))
    assert ends == pytest.approx([2000 / RATE, 4000 / RATE])


def test_rates_are_updated_only_when_messages_start_or_end() -> None:
    result = weft.simulate(TREE, ROUTES, puts((0, 5, 5000), (1, 5, 15_000)))
    # At the common start and at each end; the first end changes the rate of the other message.
    assert (result.num_shares, result.num_rate_changes, result.most_concurrent) == (3, 3, 2)


def test_split_flows_use_all_paths_and_hashed_flows_a_single_one() -> None:
    spread = weft.route(TREE, "ecmp")
    work = puts((0, 4, 1000), (1, 8, 1000))
    result = weft.simulate(TREE, spread, work, latency_ns=0, hardware=weft.Hardware(header_bytes=0))
    assert result.makespan_ns == pytest.approx(1000 / RATE)
    up = result.links().filter(pl.col("kind") == "switch-switch")
    assert sorted(set(up["carried_bytes"].to_list())) == [0, 250, 500]
    drawn = weft.simulate(
        TREE,
        spread,
        work,
        multipath="hash",
        latency_ns=0,
        seed=3,
        hardware=weft.Hardware(header_bytes=0),
    )
    carried = drawn.links().filter(pl.col("kind") == "switch-switch")["carried_bytes"]
    assert set(carried.to_list()) <= {0, 1000, 2000}
    assert carried.sum() == 4000


def test_messages_go_to_the_first_lid() -> None:
    routes = weft.route(TREE, "sssp:lmc=1")
    work = load_workload("alltoall:size=2KiB", 16)
    result = weft.simulate(TREE, routes, work, multipath="hash")
    assert result.network.num_routes == 16 * 15
    network = result.network
    for at in range(0, network.num_routes, 7):
        ends = int(network.route_source[at]), int(network.route_destination[at])
        path = network.route_link[network.route_offset[at] : network.route_offset[at + 1]]
        node = int(TREE.link_to[path[0]])
        for link in path[1:]:
            port = int(routes.lft(node)[2 * ends[1]])
            assert TREE.port_link[TREE.port_offset[node] + port - 1] == link
            node = int(TREE.link_to[link])


def test_tables_give_all_messages_of_a_pair_one_route_even_with_hashing() -> None:
    result = weft.simulate(TREE, ROUTES, puts((0, 5, 10), (0, 5, 20)), multipath="hash")
    assert result.network.num_routes == 1


def test_nonminimal_routes_carry_their_share_of_messages() -> None:
    """The 8 messages of a group go to the next group, over one cable or via 7 other groups."""
    fabric = weft.fabric("dragonfly:p=2,a=4,h=2")
    work = load_workload("shift:offset=8", 72)
    rate = fabric.link_rate_gbps.max() / 8
    alone = 65536 / rate
    # Largest loads at the static level: 8 if all messages take minimal paths, 16/7 if all go via
    # intermediates, 2 if the minimal share is 1/8 to 1/4.
    for engine, options, share, load in (
        ("valiant", {}, None, 16 / 7),
        ("ugal", {}, 1 / 4, 2),
        ("ugal", {"minimal_share": 0}, 0.0, 16 / 7),
        ("ugal", {"minimal_share": "0.5"}, 0.5, 4),
        ("ugal", {"minimal_share": 1}, 1.0, 8),
    ):
        result = weft.simulate(fabric, weft.route(fabric, engine), work, latency_ns=0, **options)
        assert (
            result.network.minimal_share == pytest.approx(share or 0.0, nan_ok=True)
            or share is None
        )
        assert result.makespan_ns == pytest.approx(alone * load)
    # Answers to requests return to the senders, and do not affect the choice of the minimal share.
    builder = WorkloadBuilder(72)
    for rank in range(72):
        steps = [("send", (rank + 8) % 72), ("recv", (rank - 8) % 72)]
        for verb, peer in steps if rank // 8 % 2 == 0 else reversed(steps):
            getattr(builder.rank(rank), verb)(peer, 65536)
    exchange = weft.simulate(fabric, weft.route(fabric, "ugal"), builder.build())
    assert exchange.network.num_routes == 144
    assert exchange.network.minimal_share == pytest.approx(1 / 4)
    drawn = [
        weft.simulate(
            fabric, weft.route(fabric, "ugal"), work, multipath="hash", minimal_share=share, seed=2
        ).network
        for share in (0, 0.5, 1)
    ]
    hops = [np.diff(network.route_offset).mean() for network in drawn]
    assert 4 < hops[2] < hops[1] < hops[0] < 7
    assert not len(drawn[0].route_share)
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(InputError, match=r"minimal_share: .* does not fit: expected [01] or"):
            weft.simulate(fabric, weft.route(fabric, "ugal"), work, minimal_share=wrong)


def test_a_split_over_too_many_links_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = weft.fabric("dragonfly:p=1,a=2,h=1")
    routes = weft.route(fabric, "valiant")
    work = load_workload("shift", 6)
    monkeypatch.setattr("weft.sim.flow.network.MAX_SPLIT_LINKS", 20)
    with pytest.raises(InputError, match=r"messages of 6 pairs split .* more than 20 links .*hash"):
        weft.simulate(fabric, routes, work)
    assert weft.simulate(fabric, routes, work, multipath="hash").makespan_ns > 0


def test_the_penalty_law_refuses_messages_that_leave_by_several_ports() -> None:
    fabric = weft.fabric("bcube:3,k=1")
    routes = weft.route(fabric, "ecmp")
    work = load_workload("shift:offset=4", 9)
    weft.simulate(fabric, routes, work, multipath="hash", sharing="penalty")
    with pytest.raises(NotApplicable, match="several ports of one host; multipath=hash"):
        weft.simulate(fabric, routes, work, sharing="penalty")


def test_source_routes_can_be_simulated() -> None:
    routes = weft.route(TREE, "smodk")
    work = load_workload("alltoall:size=2KiB", 16)
    result = weft.simulate(TREE, routes, work)
    used = result.network.route_link
    first = result.network.route_offset[:-1]
    assert np.array_equal(
        TREE.link_from[used[first]], TREE.num_switches + result.network.route_source
    )
    last = result.network.route_offset[1:] - 1
    assert np.array_equal(
        TREE.link_to[used[last]], TREE.num_switches + result.network.route_destination
    )
    inner = np.setdiff1d(np.arange(len(used)), last)
    assert np.array_equal(TREE.link_to[used[inner]], TREE.link_from[used[inner + 1]])


def test_messages_between_ranks_of_one_host_use_no_link() -> None:
    result = weft.simulate(
        TREE, ROUTES, one_message(5000), [3, 3], local_gbps=80, local_latency_ns=11
    )
    assert result.makespan_ns == pytest.approx(511)
    assert result.links()["carried_bytes"].sum() == 0


def test_puts_wait_for_their_release_time() -> None:
    builder = WorkloadBuilder(2)
    builder.put(0, 1, 125, release_ns=500.0)
    result = weft.simulate(TREE, ROUTES, builder.build(), latency_ns=0)
    assert result.left_ns[0] == 500
    # The packet has 125 bytes and a header of 26.
    assert result.makespan_ns == pytest.approx(512.08)


def _ring(size: int) -> Workload:
    builder = WorkloadBuilder(4, name="ring")
    for rank in range(4):
        builder.rank(rank).send((rank + 1) % 4, size).recv((rank - 1) % 4, size)
    return builder.build()


def test_a_deadlock_error_names_the_waiting_operations() -> None:
    weft.simulate(TREE, ROUTES, _ring(100))
    message = (
        r"deadlocks after 120 ns: 4 ranks wait for ever: "
        r"rank 0 in operation 0, send to rank 1, tag 0, waits for its receive, .*; rank 1 in"
    )
    with pytest.raises(InputError, match=message):
        weft.simulate(TREE, ROUTES, _ring(100_000))


def test_a_run_that_takes_too_long_has_no_result() -> None:
    with pytest.raises(IncompleteRun, match="0 of 4 messages had arrived; there is no result"):
        weft.simulate(TREE, ROUTES, _ring(10_000), max_time_ns="200 ns")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": [0, 1, 2]}, "hosts of the ranks: expected whole numbers, 4 of them, not 3"),
        (
            {"placement": [0, 1, 2, 16]},
            "ranks: 16 at index 3 is out of range; hosts of .* are 0 to 15",
        ),
        ({"placement": [0.5] * 4}, "expected whole numbers, not 0.5"),
        (
            {"sharing": "fair"},
            "sharing: 'fair' does not fit: expected 'maxmin', 'penalty' or 'none'",
        ),
        ({"tolerance": 1.5}, "tolerance: 1.5 does not fit: expected a number less than 1"),
        ({"tolerance": float("nan")}, "tolerance: nan does not fit"),
        ({"multipath": "all"}, "multipath: 'all' does not fit: expected 'split' or 'hash'"),
        ({"eager_bytes": -1}, "eager_bytes"),
        ({"switch_latency_ns": "-5ns"}, "switch_latency_ns"),
        ({"local_gbps": 0}, "local_gbps: 0 does not fit: expected a number greater than 0"),
        ({"latency_ns": [1, 2]}, "latency_ns"),
        ({"seed": 2**63}, "seed: 9.22e.18 does not fit: expected a number less than 9223372"),
        ({"seed": -1}, "seed: -1 does not fit: expected 0 or more"),
        ({"coefficients": 3}, "coefficients: 3 does not fit: expected a PenaltyModel"),
        ({"policy": "ecmp"}, "the flow level has no policy ecmp; the packet level has it"),
        ({"level": "packet", "tolerance": 0.1}, "has no tolerance; the flow level has it"),
        ({"level": "static", "seed": 1}, "the flow, the packet and the flit level have it"),
        ({"level": "static", "progress": print}, "the static level has no progress"),
        ({"level": "bit"}, "unknown level 'bit'; there are flow, static, packet"),
        ({"egaer_bytes": 1}, "has no 'egaer_bytes' .did you mean 'eager_bytes'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        weft.simulate(TREE, ROUTES, _ring(100), **options)


def test_arguments_that_are_not_workload_or_routes_are_refused() -> None:
    with pytest.raises(InputError, match="expected Workload, not 3"):
        weft.simulate(TREE, ROUTES, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected Routes, not 3"):
        weft.simulate(TREE, 3, _ring(100))  # type: ignore[arg-type]


def test_sums_of_bytes_are_exact_where_doubles_are_not() -> None:
    # The sizes are 2^55 + 1 and 1 bytes; doubles near 2^55 are 8 apart.
    result = weft.simulate(TREE, ROUTES, puts((0, 5, 2**55 + 1), (0, 6, 1)))
    assert result.ranks()["sent_bytes"][0] == 2**55 + 2
    assert result.phases()["size_bytes"].to_list() == [2**55 + 2]


def test_a_pair_without_a_path_is_named() -> None:
    broken = TREE.without(cables=["h5[1]"])
    routes = weft.route(broken, "minhop")
    with pytest.raises(InputError, match="no path from h0 to h5 in the minhop routes"):
        weft.simulate(broken, routes, one_message(10), [0, 5])


def test_progress_reports_ended_operations_and_arrived_messages() -> None:
    reports: list[Progress] = []
    work = load_workload("alltoall:size=4KiB,algorithm=pairwise", 16)
    weft.simulate(TREE, ROUTES, work, progress=reports.append)
    assert reports[-1].ended == work.num_ops
    assert reports[-1].arrived == len(work.messages)
    assert [each.now_ns for each in reports] == sorted(each.now_ns for each in reports)


def test_long_runs_can_be_interrupted_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    instants: list[int] = []

    def run(*args: object) -> int:
        instants.append(int(args[-1]))  # type: ignore[call-overload]
        return run_kernel(*args)  # type: ignore[no-any-return]

    run_kernel = flow_engine.run
    monkeypatch.setattr(flow_engine, "run", run)
    weft.simulate(TREE, ROUTES, load_workload("alltoall:size=4KiB,algorithm=pairwise", 16))
    # The number of instants per call of the kernel grows gradually.
    assert instants[0] == 1
    assert all(more <= 16 * few for few, more in pairwise(instants))


def test_totals_of_the_result_tables_agree() -> None:
    work = load_workload("hpcg:local=16x16x16,iterations=1,levels=2", 16)
    result = weft.simulate(TREE, ROUTES, work, "random:seed=4")
    messages, links, ranks, phases = (
        result.messages(), result.links(), result.ranks(), result.phases(),
    )  # fmt: skip
    total = int(work.size_bytes[work.messages].sum())
    assert messages["size_bytes"].sum() == ranks["sent_bytes"].sum() == total
    assert ranks["received_bytes"].sum() == phases["size_bytes"].sum() == total
    out = links.filter(pl.col("kind") == "host-switch")
    packets = (messages["size_bytes"] <= 2048).sum()
    assert packets
    assert out["carried_bytes"].sum() == pytest.approx(total + 26 * packets)
    assert phases["end_ns"].max() == pytest.approx(result.makespan_ns)
    assert messages.filter(pl.col("slowdown") < 1 - 1e-9).is_empty()
    assert links["utilisation"].max() <= 1 + 1e-9


def test_runs_are_reproducible() -> None:
    work = load_workload("random-ring", 16)
    one, two = (weft.simulate(TREE, ROUTES, work, "random:seed=1") for _ in range(2))
    assert np.array_equal(one.ended_ns, two.ended_ns)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("trace", ["smpi-tit-32", "binary-tree-32.goal"])
@pytest.mark.parametrize("sharing", ["maxmin", "penalty", "none"])
def test_real_traces_replay_on_the_real_cluster(shared: Path, trace: str, sharing: str) -> None:
    fabric = weft.fabric(shared / "fabrics" / "psmn-x5.ibnetdiscover")
    routes = weft.route(fabric, ["ftree", "updn"])
    work = load_workload(shared / "traces" / trace)
    result = weft.simulate(fabric, routes, work, "random:seed=2", sharing=sharing)
    assert work.num_ranks == 32
    assert np.all(result.ended_ns >= 0)
    assert np.all(result.arrived_ns[work.messages] > 0)
    if sharing != "none":
        alone = weft.simulate(fabric, routes, work, "random:seed=2", sharing="none")
        assert result.makespan_ns >= alone.makespan_ns * (1 - 1e-12)
