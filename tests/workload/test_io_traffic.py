"""I/O traffic: clients and servers, reads and writes, and an I/O job beside a compute job."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.workload_runs import same

import weft
from weft.core.errors import InputError, NotApplicable
from weft.sim.sweep import measure_jobs, sweep
from weft.workload import Kind, Workload, traffic
from weft.workload.apps import application_workload as app
from weft.workload.jobs import Job, combine
from weft.workload.matching import check_order, match_messages
from weft.workload.sources import OpenLoop, open_loop, open_loop_jobs, transfers

TREE = "xgft:2;4,4;1,4"


def flows_of(num_hosts: int, spec: str) -> Counter[tuple[int, int]]:
    flows = traffic(num_hosts, spec)
    return Counter(zip(flows.sources.tolist(), flows.destinations.tolist(), strict=True))


def within_four_sigma(counts: Any, trials: Any, probability: Any) -> bool:
    """Return whether binomial counts are within four standard deviations of their means."""
    trials, probability = np.asarray(trials), np.asarray(probability)
    sigma = np.sqrt(trials * probability * (1 - probability))
    return bool(np.all(np.abs(counts - trials * probability) <= 4 * sigma))


# -- the pattern -----------------------------------------------------------------------------------


def test_a_single_hot_spot_is_used_by_all_other_hosts() -> None:
    assert flows_of(4, "io:servers=1") == Counter([(0, 3), (1, 3), (2, 3)])
    assert flows_of(4, "io:hosts=0") == Counter([(1, 0), (2, 0), (3, 0)])
    assert flows_of(6, "io:hosts=0;clients=1,2") == Counter([(1, 0), (2, 0)])


def test_servers_are_the_last_hosts_or_the_last_of_each_group() -> None:
    def servers(num_hosts: int, spec: str) -> list[int]:
        return sorted(set(traffic(num_hosts, spec, flows=200).destinations.tolist()))

    assert servers(16, "io:servers=4") == [12, 13, 14, 15]
    assert servers(16, "io:servers=4,mapping=distributed") == [3, 7, 11, 15]
    # Groups of 3, 3 and 4 hosts.
    assert servers(10, "io:servers=3,mapping=distributed") == [2, 5, 9]
    assert servers(64, "io") == list(range(56, 64))
    assert servers(64, "io:mapping=distributed") == [7, 15, 23, 31, 39, 47, 55, 63]


def test_dedicated_servers_are_no_clients() -> None:
    assert set(traffic(16, "io:servers=4").sources.tolist()) == set(range(16))
    assert set(traffic(16, "io:servers=4,dedicated=true").sources.tolist()) == set(range(12))
    spread = traffic(16, "io:servers=4,dedicated=true,mapping=distributed")
    assert set(spread.sources.tolist()) == {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14}


def test_fixed_choices_of_servers() -> None:
    # Clients 0 to 5 of the servers 6 and 7.
    cyclic = flows_of(8, "io:servers=2,dedicated=true,choice=cyclic")
    assert cyclic == Counter([(0, 6), (1, 7), (2, 6), (3, 7), (4, 6), (5, 7)])
    block = flows_of(8, "io:servers=2,dedicated=true,choice=block")
    assert block == Counter([(0, 6), (1, 6), (2, 6), (3, 7), (4, 7), (5, 7)])
    # Servers 3 and 7 of all hosts: 3 is in the block of 3, and 7 in that of 7; each takes the
    # next.
    shared = flows_of(8, "io:servers=2,mapping=distributed,choice=block")
    assert shared == Counter([(0, 3), (1, 3), (2, 3), (3, 7), (4, 7), (5, 7), (6, 7), (7, 3)])


@pytest.mark.parametrize("dedicated", [False, True])
def test_random_choices_are_uniform_over_the_other_servers(dedicated: bool) -> None:
    flows = traffic(16, "io:servers=4,seed=3", dedicated=dedicated, flows=4000)
    counts = np.zeros((16, 16), dtype=int)
    np.add.at(counts, (flows.sources, flows.destinations), 1)
    assert within_four_sigma(counts[:12, 12:], 4000, 1 / 4)
    if dedicated:
        assert not counts[12:].any()
    else:
        others = counts[12:, 12:][~np.eye(4, dtype=bool)]
        assert within_four_sigma(others, 4000, 1 / 3)
        assert others.sum() == 4 * 4000


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("io:servers=0", InputError, "servers must be at least 1, not 0"),
        ("io:servers=9", NotApplicable, "io needs 9 servers, and there are 8 hosts"),
        ("io:servers=8,dedicated=true", NotApplicable, "8 servers of 8 hosts has no client"),
        ("io:servers=2,hosts=1", InputError, "servers .how many. or hosts .which., not both"),
        ("io:hosts=8", NotApplicable, "io at host 8 needs 9 hosts, and there are 8"),
        ("io:clients=1,1", InputError, "clients names one host twice"),
        ("io:flows=0", InputError, "flows must be at least 1"),
    ],
)
def test_wrong_options_of_the_pattern(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        traffic(8, spec)


# -- reads and writes ------------------------------------------------------------------------------


def reads(**options: Any) -> Workload:
    settings = {"load": 0.1, "rate_gbps": 200.0, "size": 2048, "write_share": 0.0, "seed": 1}
    return open_loop(16, "io:servers=2", **{**settings, **options})


def test_a_read_is_a_request_and_a_put_that_waits_for_it() -> None:
    workload = reads(request_bytes=100)
    requests = np.flatnonzero(workload.kind == Kind.SEND)
    receives = workload.match[requests]
    assert len(requests) > 100
    assert workload.num_ops == 3 * len(requests)
    assert np.all(workload.kind[receives] == Kind.RECV)
    assert set(workload.rank[receives].tolist()) == {14, 15}
    assert set(workload.size_bytes[requests].tolist()) == {100}
    for request, receive in zip(requests.tolist(), receives.tolist(), strict=True):
        waiting = np.flatnonzero(np.diff(workload.dep_offset) > 0)
        (answer,) = waiting[workload.dep[workload.dep_offset[waiting]] == receive]
        assert workload.kind[answer] == Kind.PUT
        assert workload.rank[answer] == workload.peer[request]
        assert workload.peer[answer] == workload.rank[request]
        assert workload.size_bytes[answer] == 2048
        assert workload.release_ns[answer] == 0
    assert workload.phase_names == ("", "warm-up", "measured", "requests")
    assert np.all(workload.phase[requests] == workload.phase[receives])
    assert set(workload.phase[requests].tolist()) == {3}


def test_reads_and_writes_match_as_mpi_matches_them() -> None:
    jobs = [
        OpenLoop("io:servers=2", 0.3, write_share=0.5, name="a"),
        OpenLoop("io:servers=2,seed=1", 0.2, write_share=0.0, request_bytes=9, name="b"),
    ]
    workload = open_loop_jobs(16, jobs, rate_gbps=200.0)
    check_order(workload)
    assert np.array_equal(match_messages(workload).match, workload.match)
    assert np.all(workload.release_ns[workload.kind == Kind.RECV] == 0)
    # Each operation comes from a transfer; those of a rank are in the order of their issue.
    issued = workload.release_ns.copy()
    receives = np.flatnonzero(workload.kind == Kind.RECV)
    issued[receives] = issued[workload.match[receives]]
    answers = np.flatnonzero(np.diff(workload.dep_offset) > 0)
    issued[answers] = issued[workload.dep]
    same_rank = workload.rank[1:] == workload.rank[:-1]
    assert np.all(np.diff(issued)[same_rank] >= 0)


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_the_data_of_a_read_leaves_when_its_request_has_arrived(level: str) -> None:
    workload = reads(load=0.02, duration_ns="40us")
    fabric = weft.fabric(TREE)
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), workload, level=level)
    every = transfers(workload)
    requests = workload.match[workload.dep[workload.dep_offset[every.ops]]]
    assert len(requests) > 50
    assert np.all(result.left_ns[every.ops] >= result.arrived_ns[requests])
    assert np.all(result.arrived_ns[requests] > every.issued_ns)
    sent = result.ranks().filter(pl.col("rank") < 14)["sent_bytes"].sum()
    data = workload.size_bytes[every.ops]
    assert sent == 64 * np.count_nonzero(every.source < 14)
    received = np.bincount(workload.peer[every.ops], weights=data, minlength=16)
    assert np.array_equal(received, np.bincount(every.source, weights=data, minlength=16))
    # Alone on one switch: two cables, a switch and a packet with a header of 26 bytes each way.
    lone = open_loop(4, "io:servers=1;clients=0", load=0.001, rate_gbps=200.0, size=2048,
                     duration_ns="200us", write_share=0.0)  # fmt: skip
    switch = weft.fabric("xgft:1;4;1")
    alone = weft.simulate(switch, weft.route(switch, "minhop"), lone, level=level)
    took = alone.arrived_ns[transfers(lone).ops] - transfers(lone).issued_ns
    assert took == pytest.approx(2 * (2 * 10 + 100) + (64 + 26 + 2048 + 26) * 8 / 200, abs=0.002)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_of_writes_and_the_load(share: float) -> None:
    workload = reads(write_share=share, duration_ns="1ms", size_distribution="exponential")
    every = transfers(workload)
    count = len(every.ops)
    assert within_four_sigma(every.write.sum(), count, share)
    assert np.array_equal(workload.rank[every.ops] == every.source, every.write)
    # 16 Poisson sources with 0.1 * 200 / 8 / 2048 messages per ns.
    expected = 16 * 1e6 * 0.1 * 200 / 8 / 2048
    assert abs(count - expected) <= 4 * expected**0.5
    # The standard deviation of an exponential size is its mean.
    mean = workload.size_bytes[every.ops].mean()
    assert abs(mean - 2048) <= 4 * 2048 / count**0.5


def test_reads_and_writes_of_the_same_seed_are_the_same_transfers() -> None:
    some, none = transfers(reads()), transfers(reads(write_share=1.0))
    by_time = [np.argsort(each.issued_ns) for each in (some, none)]
    for name in ("issued_ns", "source", "destination"):
        assert np.array_equal(getattr(some, name)[by_time[0]], getattr(none, name)[by_time[1]])


def test_ranks_restrict_a_job() -> None:
    job = OpenLoop("shift", ranks=[9, 4, 2])
    workload = open_loop_jobs(12, [job], rate_gbps=100.0)
    pairs = set(zip(workload.rank.tolist(), workload.peer.tolist(), strict=True))
    assert pairs == {(9, 4), (4, 2), (2, 9)}
    for ranks in ([1, 1, 2], [1, 12], [-1, 3]):
        with pytest.raises(InputError, match="ranks must be different ranks from 0 to 11"):
            open_loop_jobs(12, [OpenLoop(ranks=ranks)], rate_gbps=100.0)
    for ranks in ([0.5, 1.5], ["a"], [[0, 1], [2, 3]]):
        with pytest.raises(InputError, match="open loop: ranks: expected whole numbers"):
            open_loop_jobs(12, [OpenLoop(ranks=ranks)], rate_gbps=100.0)
    with pytest.raises(InputError, match="jobs with different names"):
        open_loop_jobs(12, [job, job], rate_gbps=100.0)


def test_a_wrong_share_of_writes_is_refused() -> None:
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="write_share must be"):
            reads(write_share=share)


def test_options_of_a_pattern_may_be_lists_in_the_spec_of_an_application() -> None:
    workload = app("open-loop:io;hosts=1,2;clients=3,5,7,load=0.2,write_share=0.5", 8)
    every = transfers(workload)
    assert set(every.source.tolist()) == {3, 5, 7}
    assert set(every.destination.tolist()) == {1, 2}
    assert same(app(workload.name, 8), workload)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_sweep_of_one_server_accepts_what_its_cable_carries(share: float) -> None:
    # 15 clients; a packet has 2,048 bytes and a header of 26. Data of reads leave the server, and
    # data of writes enter it.
    table = sweep(
        weft.fabric(TREE), "dmodk", pattern="io:servers=1", write_share=share, loads=(0.04, 0.2),
        level="flow", measure="200us", processes=1,
    )  # fmt: skip
    capacity = 2048 / (2048 + 26) / 15
    assert table["saturated"].to_list() == [False, True]
    assert table["accepted_load"][0] == pytest.approx(table["offered_load"][0], rel=0.02)
    assert table["accepted_load"][1] == pytest.approx(capacity, rel=0.01)


# -- an I/O job beside a compute job ---------------------------------------------------------------

LOWER, UPPER = set(range(32)), set(range(32, 64))
STRIDE = {7, 15, 23, 31, 39, 47, 55, 63}
#: Hosts of the compute job and of the I/O job, and servers, of 64 hosts with 8 servers.
FIGURE_8 = {
    "clustered 1c, shared": ({}, LOWER, UPPER, set(range(56, 64))),
    "clustered 1i, shared": ({"compute_half": "upper"}, UPPER, LOWER, set(range(56, 64))),
    "clustered 1c, dedicated": (
        {"dedicated": True}, set(range(28)), set(range(28, 56)), set(range(56, 64)),
    ),
    "clustered 1i, dedicated": (
        {"dedicated": True, "compute_half": "upper"},
        set(range(28, 56)), set(range(28)), set(range(56, 64)),
    ),
    "distributed, shared": ({"mapping": "distributed"}, LOWER, UPPER, STRIDE),
    "distributed, dedicated": (
        {"mapping": "distributed", "dedicated": True}, LOWER - STRIDE, UPPER - STRIDE, STRIDE,
    ),
}  # fmt: skip


def two_jobs(ranks: int = 64, **options: Any) -> Workload:
    small = {"size": "4KiB", "io_size": "4KiB", "duration": "100us"}
    return app("io-and-compute", ranks, **{**small, **options})


@pytest.mark.parametrize("name", FIGURE_8)
def test_the_mappings_of_figure_8(name: str) -> None:
    options, compute, clients, servers = FIGURE_8[name]
    every = transfers(two_jobs(servers=8, **options))
    own, io = every.job == "compute", every.job == "io"
    assert np.all(own | io)
    assert set(every.source[own].tolist()) == set(every.destination[own].tolist()) == compute
    assert set(every.source[io].tolist()) == clients
    assert set(every.destination[io].tolist()) == servers
    assert every.write[own].all()
    assert len(compute) == len(clients) == (28 if "dedicated" in name else 32)


def test_other_numbers_of_hosts_and_servers() -> None:
    every = transfers(two_jobs(13, servers=3, dedicated=True, compute_half="upper"))
    assert set(every.source[every.job == "io"].tolist()) == {0, 1, 2, 3, 4}
    assert set(every.source[every.job == "compute"].tolist()) == {5, 6, 7, 8, 9}
    odd = transfers(two_jobs(13, servers=2, dedicated=True))
    assert set(odd.source[odd.job == "compute"].tolist()) == {0, 1, 2, 3, 4, 5}
    assert set(odd.source[odd.job == "io"].tolist()) == {6, 7, 8, 9, 10}
    with pytest.raises(NotApplicable, match="on 2 ranks leaves the compute job 1"):
        two_jobs(2, servers=1)
    with pytest.raises(NotApplicable, match="power of two, not 6"):
        two_jobs(12, pattern="shuffle")


def test_the_compute_job_does_not_depend_on_the_io_job() -> None:
    kept = []
    for load in (0.1, 0.5):
        workload = two_jobs(io_load=load)
        every = transfers(workload)
        mine = every.job == "compute"
        size = workload.size_bytes[every.ops]
        kept.append([part[mine] for part in (every.issued_ns, every.source, every.destination)])
        count, expected = np.count_nonzero(~mine), 32 * 1e5 * load * 100 / 8 / 4096
        assert abs(count - expected) <= 4 * expected**0.5
        assert set(size.tolist()) == {4096}
    for one, other in zip(*kept, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("level", ["flow", "packet"])
@pytest.mark.parametrize("mapping", ["clustered", "distributed"])
def test_each_job_is_measured_by_itself(level: str, mapping: str) -> None:
    workload = two_jobs(
        16, servers=2, mapping=mapping, rate_gbps=200, load=0.2, io_load=0.1, warmup="20us"
    )
    fabric = weft.fabric(TREE)
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), workload, level=level)
    assert np.all(result.arrived_ns[workload.messages] >= 0)
    window = {"warmup_ns": 20_000.0, "measure_ns": 100_000.0, "rate_gbps": 200.0}
    found = measure_jobs(workload, result.arrived_ns, **window)
    assert list(found) == ["compute", "io"]
    rows = result.messages().filter(~pl.col("phase").str.ends_with(": requests"))
    inside = rows.filter(pl.col("arrived_ns").is_between(20_000, 120_000, closed="left"))
    for job, measures in found.items():
        sizes = inside.filter(pl.col("phase").str.starts_with(f"{job}: "))["size_bytes"]
        assert measures.accepted_load == pytest.approx(sizes.sum() * 8 / (8 * 200 * 100_000))
        assert not measures.saturated
    assert found["compute"].offered_load == pytest.approx(0.2, rel=0.1)
    assert found["io"].offered_load == pytest.approx(0.1, rel=0.15)


def test_jobs_that_are_placed_on_hosts_are_measured_by_their_names() -> None:
    fabric = weft.fabric(TREE)
    parts = [open_loop(8, load=0.2, rate_gbps=200.0), reads(load=0.05)]
    jobs = [Job(part, name) for part, name in zip(parts, ("a", "b"), strict=True)]
    mix = combine(jobs, fabric, overlap="share")
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), mix.workload, mix.hosts)
    window = {"warmup_ns": 0.0, "measure_ns": 100_000.0, "rate_gbps": 200.0}
    found = measure_jobs(mix.workload, result.arrived_ns, **window)
    counts = [len(part.messages) for part in parts]
    # A read has two messages.
    assert {job: each.messages for job, each in found.items()} == {
        "a": counts[0],
        "b": counts[1] / 2,
    }


def test_an_overloaded_server_takes_bandwidth_from_the_job_on_its_host() -> None:
    # In the case 1i, the only server, host 15, is a host of the compute job.
    fabric = weft.fabric(TREE)
    found = {}
    for half in ("lower", "upper"):
        workload = two_jobs(
            16, servers=1, compute_half=half, write_share=1.0, rate_gbps=200, load=0.9, io_load=0.5
        )
        result = weft.simulate(fabric, weft.route(fabric, "dmodk"), workload, level="packet")
        window = {"warmup_ns": 0.0, "measure_ns": 100_000.0, "rate_gbps": 200.0}
        found[half] = measure_jobs(workload, result.arrived_ns, **window)
    apart, together = (found[half]["compute"].accepted_load for half in ("lower", "upper"))
    assert together < 0.9 * apart
    # In the case 1c, the server's cable carries nothing but the writes of the 7 other hosts of its
    # job; a packet of 2,048 bytes has a header of 26.
    assert found["lower"]["io"].accepted_load * 7 == pytest.approx(2048 / 2074, rel=0.02)
