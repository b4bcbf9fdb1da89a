"""BookSim's configuration files: the shipped examples, values by hand, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from tests.flit_runs import Run

import weft
from weft.sim.flit.booksim import keys
from weft.sim.flit.booksim.reader import ROUTINGS
from weft.sim.flit.booksim.run import BookSimRun
from weft.sim.flit.network import Links
from weft.sim.flit.router import Router
from weft.sim.flit.run import bound
from weft.sim.flit.traffic import Load

# BookSim's examples, by what its manual says of them.
TORUS = """\
// an 8x8 torus
topology = torus;
k = 8; n = 2;
routing_function = dim_order;
num_vcs = 2;
traffic = uniform; injection_rate = 0.15;
"""
MESH = """\
topology = mesh; k = 8; n = 2; routing_function = dor;
num_vcs = 8; vc_buf_size = 8; wait_for_tail_credit = 1;
vc_allocator = islip; sw_allocator = islip; alloc_iters = 1;
credit_delay = 2; routing_delay = 0; vc_alloc_delay = 1; sw_alloc_delay = 1;
input_speedup = 2; output_speedup = 1; internal_speedup = 1.0;
traffic = transpose; packet_size = 20; sim_type = latency; injection_rate = 0.005;
"""
TREE = """\
topology = fattree; k = 4; n = 3; routing_function = nca;
num_vcs = 4; vc_buf_size = 16; hold_switch_for_packet = 1; wait_for_tail_credit = 0;
vc_allocator = separable_input_first; sw_allocator = separable_input_first;
credit_delay = 2; routing_delay = 0; st_final_delay = 1;
warmup_periods = 3; sample_period = 10000; sim_count = 1; priority = none;
traffic = uniform; injection_rate = 0.6; injection_rate_uses_flits = 1; packet_size = 1;
watch_out = -;
"""
BUTTERFLY = """\
topology = flatfly; k = 4; n = 2; c = 4; x = 4; y = 4; xr = 2; yr = 2; subnets = 1;
routing_function = ran_min; num_vcs = 8; vc_buf_size = 4; credit_delay = 2; routing_delay = 0;
traffic = uniform; packet_size = 1; injection_rate = 0.1; use_read_write = 0;
read_request_size = 1; read_request_begin_vc = 0; read_request_end_vc = 3; batch_size = 7;
"""
DRAGONFLY = """\
topology = dragonflynew; k = 4; n = 1; routing_function = min; num_vcs = 2; vc_buf_size = 256;
vc_allocator = separable_input_first; sw_allocator = separable_input_first;
credit_delay = 2; routing_delay = 0; internal_speedup = 2.0; sample_period = 10000;
traffic = uniform; packet_size = 10; injection_rate = 0.8; injection_rate_uses_flits = 1;
"""


def read(folder: Path, text: str, *changes: str, lenient: bool = False) -> BookSimRun:
    path = folder / "config"
    path.write_text(text)
    return weft.read_booksim(path, changes, lenient=lenient)


@pytest.fixture
def torus(tmp_path: Path) -> Path:
    (tmp_path / "torus88").write_text(TORUS)
    return tmp_path / "torus88"


# -- the examples ----------------------------------------------------------------------------------


def test_the_torus(torus: Path) -> None:
    run = weft.read_booksim(torus)
    assert (run.fabric, run.routing, run.file) == ("torus:8x8", "dor", str(torus))
    assert run.router == Router(
        lanes=2, buffer=8, routing_delay=1, vc_delay=2, switch_delay=1, credit_delay=1,
        allocator="islip",
    )  # fmt: skip
    assert run.load == Load(rate=0.15, size=((1, 1.0),), warmup=3000, measure=7000)
    keyed = [note.split(" = ")[0].split(", ")[-1] for note in run.notes]
    assert keyed == ["routing_function", "traffic", "vc_allocator", "max_samples"]
    assert "1 in 64 packets" in run.notes[1]


def test_the_mesh(tmp_path: Path) -> None:
    run = read(tmp_path, MESH)
    assert (run.fabric, run.routing) == ("mesh:8x8", "dor")
    assert run.router == Router(
        lanes=8, buffer=8, routing_delay=0, vc_delay=2, switch_delay=1, credit_delay=3,
        allocator="islip", input_speedup=2, atomic=True,
    )  # fmt: skip
    assert run.load == Load(
        rate=0.1, pattern="transpose", size=((20, 1.0),), warmup=3000, measure=7000
    )
    assert any("8 of 64 nodes send to themselves" in note for note in run.notes)


def test_the_fat_tree(tmp_path: Path) -> None:
    run = read(tmp_path, TREE)
    assert (run.fabric, run.routing) == ("kary-n-tree:k=4,n=3", "nca-random")
    assert run.router == Router(
        lanes=4, buffer=16, routing_delay=0, vc_delay=2, switch_delay=1, credit_delay=3,
        allocator="input-first",
    )  # fmt: skip
    assert run.load == Load(rate=0.6, size=((1, 1.0),), warmup=30_000, measure=70_000)


def test_the_flattened_butterfly(tmp_path: Path) -> None:
    run = read(tmp_path, BUTTERFLY)
    assert (run.fabric, run.routing) == ("flattened-butterfly:k=4,n=3,hosts=4", "dor")
    assert (run.router.lanes, run.router.buffer, run.load.rate) == (8, 4, 0.1)


def test_the_dragonfly_has_routers_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(weft.InputError) as refused:
        read(tmp_path, DRAGONFLY)
    assert "1 setting has no counterpart" in str(refused.value)
    assert "line 3, internal_speedup = 2.0" in str(refused.value)
    run = read(tmp_path, DRAGONFLY, lenient=True)
    assert (run.fabric, run.routing) == ("dragonfly:p=4,a=8,h=4", "ugal")
    assert run.policy == "ecmp"
    assert run.router == Router(
        lanes=3, buffer=256, output_buffer=16, routing_delay=0, vc_delay=1, switch_delay=1,
        credit_delay=3, allocator="input-first", input_speedup=2, output_speedup=2,
    )  # fmt: skip
    assert run.load.rate == pytest.approx(0.8)
    (replaced,) = run.replaced
    assert "internal_speedup = 2.0" in replaced
    assert replaced in run.notes


# -- latencies -------------------------------------------------------------------------------------


def mean_alone(run: BookSimRun, permuted: np.ndarray | None = None) -> float:
    """Return the mean latency of packets alone, by the formula of the flit level.

    All pairs count, hosts that send to themselves too, or the pairs of a permutation.
    """
    fabric = weft.fabric(run.fabric)
    cycles, switches = run.latencies(fabric), fabric.num_switches
    router = run.router.routing_delay + run.router.vc_delay + run.router.switch_delay
    tail, head = fabric.link_from, fabric.link_to
    inside = (tail < switches) & (head < switches)
    shape = (switches, switches)
    graph = csr_array((cycles[inside] + router, (tail[inside], head[inside])), shape=shape)
    between = dijkstra(graph)
    first, last = (np.zeros(fabric.num_hosts, dtype=int) for _ in range(2))
    leaf = np.zeros(fabric.num_hosts, dtype=int)
    up, down = tail >= switches, head >= switches
    first[tail[up] - switches], last[head[down] - switches] = cycles[up], cycles[down]
    leaf[tail[up] - switches] = head[up]
    paths = first[:, None] + router + between[np.ix_(leaf, leaf)] + last + run.load.mean_size - 1
    if permuted is not None:
        return float(paths[np.arange(len(permuted)), permuted].mean())
    return float(paths.mean())


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        (TORUS, (), 6 * 4 + 7),
        (TORUS, ("use_noc_latency=0",), 5 * 4 + 7),
        (TORUS, ("routing_delay=0", "st_final_delay=2", "st_prepare_delay=3"), 9 * 4 + 10),
        (MESH, (), 4 * 5.25 + 25),
        (MESH, ("packet_size=1", "routing_delay=1"), 33.25),
        (TREE, (), 19.5),
        (BUTTERFLY, (), 15.5),
        (BUTTERFLY, ("use_noc_latency=0",), 4 * 1.5 + 6),
        (DRAGONFLY, ("k=2",), 2 * (1 + 17 / 12 + 8 / 9) + 170 / 12 + 800 / 9 + 12),
        (DRAGONFLY, ("k=2", "packet_size=1"), 2 * (1 + 17 / 12 + 8 / 9) + 170 / 12 + 800 / 9 + 3),
    ],
)
def test_packets_alone_take_as_long_as_in_booksim(
    tmp_path: Path, text: str, changes: tuple[str, ...], expected: float
) -> None:
    """BookSim: (H+1) t_r + channels + 1 + (L-1); the means of H are those of all pairs."""
    run = read(tmp_path, text, *changes, lenient=True)
    assert mean_alone(run) == pytest.approx(expected, abs=1e-4)


def test_the_dragonfly_of_1056_nodes_takes_as_long_as_in_booksim(tmp_path: Path) -> None:
    run = read(tmp_path, DRAGONFLY, lenient=True)
    assert mean_alone(run) == pytest.approx(133.6, abs=0.01)


def test_a_transpose_takes_as_long_as_in_booksim(tmp_path: Path) -> None:
    host = np.arange(64)
    turned = host // 8 + host % 8 * 8
    assert mean_alone(read(tmp_path, MESH), turned) == 46.0


def test_speculation_saves_a_cycle_of_each_router(tmp_path: Path) -> None:
    run = read(tmp_path, TORUS, "speculative=1")
    assert run.router.speculative
    saved = run.router.vc_delay
    assert mean_alone(run) - saved * 5 == 5 * 4 + 6


def test_channels_of_a_flattened_butterfly_are_as_long_as_on_the_floor(tmp_path: Path) -> None:
    run = read(tmp_path, BUTTERFLY)
    fabric = weft.fabric(run.fabric)
    cycles = run.latencies(fabric)
    names = fabric.node_names
    ends = [(names[a], names[b]) for a, b in zip(fabric.link_from, fabric.link_to, strict=True)]
    link = dict(zip(ends, cycles, strict=True))
    assert link["s0.0", "s3.0"] == link["s3.0", "s0.0"] == 6
    assert link["s1.3", "s1.2"] == 2
    assert sum(cycles[fabric.link_from >= 16]) == 64
    assert sum(cycles[fabric.link_to >= 16]) == 128


def test_nodes_of_a_wide_router_are_further_away(tmp_path: Path) -> None:
    """Places -2, -1, 1, 2 in both directions: 1 cycle, and 1 for each place beyond the first."""
    run = read(tmp_path, BUTTERFLY, "c=16", "xr=4", "yr=4")
    assert run.channels.hosts == (3, 2, 2, 3, 2, 1, 1, 2, 2, 1, 1, 2, 3, 2, 2, 3)


@pytest.mark.parametrize(
    ("change", "cycles"),
    [
        ("speculative=0", 3), ("speculative=1", 2), ("internal_speedup=2.0", 2),
        ("routing_delay=1", 4), ("vc_alloc_delay=4", 6), ("st_final_delay=5", 7),
    ],
)  # fmt: skip
def test_packets_alone_in_a_simulation(tmp_path: Path, change: str, cycles: int) -> None:
    """From one end of the tree to the other: 5 routers, 4 + 2 channels, 1 cycle more."""
    changes = ["traffic=bitcomp", "injection_rate=0.0005", change]
    run = read(tmp_path, TREE, *changes, lenient=True)
    fabric = weft.fabric(run.fabric)
    net = Run(fabric, run.router, run.load, routing=run.routing, latency=run.latencies(fabric))
    histogram = net.after().histogram
    assert np.flatnonzero(histogram)[0] == np.argmax(histogram) == 5 * cycles + 7


@pytest.mark.parametrize("size", [1, 4, 20])
@pytest.mark.parametrize("delays", [("routing_delay=0",), ("routing_delay=1", "vc_alloc_delay=2")])
def test_a_virtual_channel_carries_its_packets_as_fast_as_in_booksim(
    tmp_path: Path, size: int, delays: tuple[str, ...]
) -> None:
    """BookSim: L flits in L + routing_delay + vc_alloc_delay cycles."""
    run = read(tmp_path, TREE, "num_vcs=1", *delays)
    sizes = ((size, 1.0),)
    load = Load(rate=1.0, size=sizes, pattern="shift", warmup=2000, measure=10_000)
    net = Run("xgft:1;2;1", run.router, load).after()
    more = 1 if len(delays) == 1 else 3
    assert net.batches["ejected"].sum() / 20_000 == pytest.approx(size / (size + more), rel=0.01)


def test_a_speculative_router_sends_a_packet_of_a_flit_in_each_cycle(tmp_path: Path) -> None:
    run = read(tmp_path, TREE, "num_vcs=1", "speculative=1")
    load = Load(rate=1.0, pattern="shift", warmup=2000, measure=10_000)
    net = Run("xgft:1;2;1", run.router, load).after()
    assert net.batches["ejected"].sum() / 20_000 == pytest.approx(1.0, rel=0.01)


# Means of runs of BookSim 2 with these files that others have published; one seed each.
PUBLISHED = [
    (TORUS, "uniform", 0.05, 31.51), (TORUS, "uniform", 0.1, 32.34),
    (TORUS, "uniform", 0.15, 33.66), (TORUS, "transpose", 0.02, 31.36),
    (TORUS, "transpose", 0.05, 32.53),
    (MESH, "uniform", 0.001, 47.4), (MESH, "uniform", 0.004, 52.73),
    (MESH, "uniform", 0.008, 62.86), (MESH, "uniform", 0.014, 87.01),
    (MESH, "transpose", 0.002, 48.0),
    (MESH, "transpose", 0.004, 55.96), (MESH, "transpose", 0.005, 62.83),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("text", "pattern", "rate", "booksim"), PUBLISHED)
def test_latency_is_that_of_published_runs(
    tmp_path: Path, text: str, pattern: str, rate: float, booksim: float
) -> None:
    """To the means here, packets from a node to itself are added: 7 or 25 cycles each."""
    changes = [f"traffic={pattern}", f"injection_rate={rate}", "max_samples=33"]
    run = read(tmp_path, text, *changes)
    fabric = weft.fabric(run.fabric)
    latency = run.latencies(fabric)
    net = Run(fabric, run.router, run.load, routing=run.routing, latency=latency).after(5000)
    share = 1 / 64 if pattern == "uniform" else 8 / 64
    mean = (1 - share) * net.batches["latency"].sum() / net.batches["measured"].sum() + share * (
        7 if text is TORUS else 25
    )
    assert net.batches["measured"].sum() == net.count.born
    assert mean == pytest.approx(booksim, rel=0.035)


def test_an_output_channel_changes_packets_as_fast_as_in_booksim(tmp_path: Path) -> None:
    """Several inputs, one output channel, packets of a flit: one in 1 + vc_alloc_delay cycles."""
    run = read(tmp_path, TREE, "num_vcs=1")
    pattern = "hot-spot:fraction=1,hosts=0"
    load = Load(rate=1.0, pattern=pattern, warmup=2000, measure=10_000)
    net = Run("xgft:1;5;1", run.router, load).after()
    assert net.endpoints["ejected"][0] / 10_000 == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(("buffer", "cycles"), [(1, 8), (2, 8), (3, 8)])
def test_credits_come_back_as_late_as_in_booksim(tmp_path: Path, buffer: int, cycles: int) -> None:
    """BookSim, heads: switch, channel + 1, routing, allocation of both, channel + 1, delay."""
    run = read(tmp_path, TREE, "num_vcs=1", f"vc_buf_size={buffer}")
    load = Load(rate=1.0, pattern="shift", warmup=2000, measure=16_000)
    net = Run("xgft:2;1,2;1,1", run.router, load).after()
    assert net.batches["ejected"].sum() / 32_000 == pytest.approx(buffer / cycles, rel=0.01)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "router"),
    [
        (["buf_size=10"], {"buffer": 5}),
        (["buf_size=0"], {"buffer": 8}),
        (["buffer_policy=shared"], {"buffer": 1, "shared_buffer": 14}),
        (["buffer_policy=shared", "private_buf_size=3", "buf_size=20"],
         {"buffer": 3, "shared_buffer": 14}),
        (["sw_alloc_delay=1", "st_prepare_delay=2"], {"switch_delay": 3}),
        (["routing_delay=4", "vc_alloc_delay=3"], {"routing_delay": 4, "vc_delay": 4}),
        (["speculative=1"], {"routing_delay": 2, "vc_delay": 1, "speculative": True}),
        (["sw_allocator=islip(3)"], {"iterations": 3}),
        (["alloc_iters=3"], {"iterations": 1}),
        (["sw_allocator=separable_output_first(matrix)"],
         {"allocator": "output-first", "arbiter": "least-recent"}),
        (["sw_allocator=separable_input_first", "vc_allocator=separable_input_first",
          "priority=age"], {"allocator": "input-first", "arbiter": "age"}),
        (["hold_switch_for_packet=1"], {"hold_switch": False}),
        (["wait_for_tail_credit=1"], {"atomic": True}),
    ],
)  # fmt: skip
def test_settings_of_routers(torus: Path, changes: list[str], router: dict[str, object]) -> None:
    table = weft.read_booksim(torus, changes).router.table()
    assert {key: table[key] for key in router} == router


@pytest.mark.parametrize(
    ("changes", "load"),
    [
        (["packet_size=20", "injection_rate=0.01"], {"rate": 0.2, "size": ((20, 1.0),)}),
        (["packet_size=20", "injection_rate=0.3", "injection_rate_uses_flits=1"], {"rate": 0.3}),
        (["packet_size={{1,5}}", "packet_size_rate={{3,1}}"],
         {"rate": 0.15 * 2, "size": ((1, 0.75), (5, 0.25))}),
        (["packet_size={{1,5,9}}", "packet_size_rate={{2,1}}"],
         {"size": ((1, 0.5), (5, 0.25), (9, 0.25))}),
        (["packet_size={4,9}"], {"size": ((4, 1.0),)}),
        (["injection_rate={0.25,0.5}"], {"rate": 0.25}),
        (["injection_rate={0.25}", "injection_rate=0.5"], {"rate": 0.25}),
        (["injection_rate=1"], {"rate": 1.0}),
        (["sample_period=500", "warmup_periods=2", "max_samples=6"],
         {"warmup": 1000, "measure": 2000}),
        (["seed=5"], {"seed": 5}),
        (["traffic=bitcomp"], {"pattern": "complement"}),
        (["traffic=bitrev"], {"pattern": "bit-reversal"}),
        (["traffic=shuffle"], {"pattern": "shuffle"}),
        (["traffic=tornado"], {"pattern": "tornado:dims=8x8"}),
        (["traffic=neighbor({4,3,1})"], {"pattern": "neighbour:dims=4x4x4"}),
        (["traffic={tornado,uniform}"], {"pattern": "tornado:dims=8x8"}),
    ],
)  # fmt: skip
def test_settings_of_traffic(torus: Path, changes: list[str], load: dict[str, object]) -> None:
    table = weft.read_booksim(torus, changes).load.table()
    assert table["rate"] == pytest.approx(load.pop("rate", table["rate"]))
    assert {key: table[key] for key in load} == load


REPLIES = [
    "use_read_write=1", "read_request_size=1", "read_reply_size=5", "write_request_size=5",
    "write_reply_size=5", "num_vcs=4", "read_request_end_vc=1", "write_request_begin_vc=0",
    "write_request_end_vc=1", "read_reply_begin_vc=2", "read_reply_end_vc=3",
    "write_reply_begin_vc=2", "write_reply_end_vc=3", "write_fraction=0.25",
]  # fmt: skip


def test_requests_and_replies(torus: Path) -> None:
    load = weft.read_booksim(torus, REPLIES).load
    assert (load.size, load.reply) == (((1, 0.75), (5, 0.25)), 5)
    assert load.rate == pytest.approx(0.15 * 2)
    in_flits = weft.read_booksim(torus, [*REPLIES, "injection_rate_uses_flits=1"]).load
    assert in_flits.rate == pytest.approx(0.15 / (16 // 2) * 2)


def test_only_the_kind_of_messages_that_is_sent_counts(torus: Path) -> None:
    reads = [
        "use_read_write=1", "write_fraction=0.0", "num_vcs=4", "read_request_end_vc=1",
        "read_reply_begin_vc=2", "read_reply_end_vc=3", "read_reply_size=4",
    ]  # fmt: skip
    load = weft.read_booksim(torus, reads).load
    assert (load.size, load.reply) == (((1, 1.0),), 4)


@pytest.mark.parametrize("name", sorted(ROUTINGS))
def test_every_routing_function_of_a_topology_has_a_routing(tmp_path: Path, name: str) -> None:
    text = {"torus": TORUS, "mesh": MESH, "fattree": TREE, "flatfly": BUTTERFLY}
    small = [] if name in text else ["k=2"]
    for function, ours in ROUTINGS[name].items():
        changes = [f"routing_function={function}", f"num_vcs={ours.least or 4}", *small]
        run = read(tmp_path, text.get(name, DRAGONFLY), *changes, lenient=True)
        assert (run.routing, run.policy) == (ours.routing, ours.policy)
        fabric = weft.fabric(run.fabric)
        links = Links.of(fabric, run.latencies(fabric))
        assert bound(run.routes(fabric), links, run.router.lanes, run.policy).loop
        noted = [note for note in run.notes if "routing_function = " in note]
        assert [ours.difference in note for note in noted] == [True] * bool(ours.difference)
        assert [note in run.replaced for note in noted] == [not ours.same] * len(noted)
        if not ours.same:
            with pytest.raises(weft.InputError, match=f"routing_function = {function}"):
                read(tmp_path, text.get(name, DRAGONFLY), *changes)
        if ours.least:
            with pytest.raises(weft.InputError, match=f"{function} of {name} needs {ours.least}"):
                read(tmp_path, text.get(name, DRAGONFLY), *changes, "num_vcs=1", lenient=True)


def test_minimal_packets_of_a_dragonfly_take_one_cable_between_groups(tmp_path: Path) -> None:
    """As far as the formula of BookSim's examples says, although two such cables may be shorter."""
    run = read(
        tmp_path, DRAGONFLY, "k=2", "injection_rate=0.002", "sample_period=3000", lenient=True
    )
    result = run.simulate()
    assert result.settled
    same = 12 + 2  # a node to itself: BookSim counts these, as `mean_alone` does
    apart = (72 * mean_alone(run) - same) / 71
    assert result.network_latency.mean == pytest.approx(apart, rel=0.01)


# -- what is refused -------------------------------------------------------------------------------


def test_all_defaults_may_be_given(torus: Path) -> None:
    given = {"topology", "k", "n", "routing_function", "num_vcs", "traffic", "injection_rate"}
    lines = [f"{key}={value}" for key, value in keys.DEFAULTS.items() if value != ""]
    changes = [line for line in lines if line.split("=")[0] not in given]
    run = weft.read_booksim(torus, changes)
    plain = weft.read_booksim(torus)
    assert (run.router, run.load, run.channels) == (plain.router, plain.load, plain.channels)
    assert len(run.notes) == len(plain.notes)


@pytest.mark.parametrize("key", sorted(keys.SILENT))
def test_keys_without_influence_are_passed_over(torus: Path, key: str) -> None:
    value = "some/file.txt" if isinstance(keys.DEFAULTS[key], str) else "7"
    run = weft.read_booksim(torus, [f"{key}={value}"])
    plain = weft.read_booksim(torus)
    assert (run.router, run.load) == (plain.router, plain.load)
    assert len(run.notes) == len(plain.notes) + (key in ("alloc_iters", "arb_type"))


@pytest.mark.parametrize(
    "change",
    [
        "classes=2", "subnets=2", "link_failures=1", "channel_file=lengths", "router=event",
        "vc_busy_when_full=1", "vc_prioritize_empty=1", "vc_shuffle_requests=1", "noq=1",
        "injection_process=on_off", "measure_stats=0", "include_queuing=0", "sim_count=3",
        "internal_speedup=2.0", "output_speedup=2", "sw_alloc_delay=2", "warmup_periods=0",
        "seed=time", "seed=-1", "sw_allocator=wavefront", "vc_allocator=piggyback",
        "sw_allocator=separable_input_first(tree(2,matrix))", "priority=local_age",
        "priority=age", "buffer_policy=limited", "traffic=randperm", "traffic=hotspot({3})",
        "unheard_of=1", "const_flits_per_packet=20", "print_all=1",
    ],
)  # fmt: skip
def test_values_without_a_counterpart_are_named_or_noted(torus: Path, change: str) -> None:
    key, value = change.split("=")
    with pytest.raises(weft.InputError) as refused:
        weft.read_booksim(torus, [change])
    assert str(refused.value).startswith(f"{torus}: 1 setting has no counterpart")
    assert f"\n  {key} = {value}: " in str(refused.value)
    notes = weft.read_booksim(torus, [change], lenient=True).notes
    assert any(note.startswith(f"{key} = {value}: ") for note in notes)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["topology=cmesh"], "topology"), (["topology=ring"], "topology"),
        (["topology=anynet", "network_file=x"], "topology"),
        (["k=2"], "k"), (["n=0"], "n"), (["n=20"], "n"), (["n=2000000000"], "n"),
        (["topology=dragonflynew", "routing_function=min"], "n"),
        (["routing_function=xy_yx"], "routing_function"),
        (["topology=flatfly", "routing_function=ran_min", "k=4", "c=4"], "c"),
        (["topology=flatfly", "routing_function=ran_min", "k=4", "c=4", "xr=2", "yr=2",
          "traffic=transpose"], "traffic"),
        (["topology=flatfly", "routing_function=ran_min", "y=4"], "y"),
        (["traffic=bad_dragon"], "traffic"), (["traffic=hotspot({{1,2}})"], "traffic"),
        (["k=6", "traffic=transpose"], "traffic"), (["traffic=tornado(a)"], "traffic"),
        (["traffic=tornado({4,2,1})"], "traffic"), (["traffic=hotspot({64})"], "traffic"),
        (["sim_type=batch"], "sim_type"), (["vc_alloc_delay=0"], "vc_alloc_delay"),
        (["sw_alloc_delay=0"], "sw_alloc_delay"), (["st_final_delay=0"], "st_final_delay"),
        (["credit_delay=-1"], "credit_delay"), (["vc_buf_size=0"], "vc_buf_size"),
        (["num_vcs=0"], "num_vcs"), (["num_vcs=2.0"], "num_vcs"), (["num_vcs=two"], "num_vcs"),
        (["traffic=3"], "traffic"), (["sw_allocator=best"], "sw_allocator"),
        (["sw_allocator=islip(x)"], "sw_allocator"), (["sw_allocator=islip(0)"], "sw_allocator"),
        (["injection_rate=0.0"], "injection_rate"), (["injection_rate=1.5"], "injection_rate"),
        (["injection_rate={x}"], "injection_rate"), (["packet_size={{1,x}}"], "packet_size"),
        (["packet_size=0"], "packet_size"), (["packet_size_rate={{0}}"], "packet_size_rate"),
        (["max_samples=3"], "max_samples"), (["sample_period=0"], "sample_period"),
        (["output_buffer_size=0"], "output_buffer_size"),
        (["internal_speedup=0.5"], "internal_speedup"),
        (["buffer_policy=shared", "private_buf_size=9"], "private_buf_size"),
        (["use_read_write=1", "write_fraction=1.5"], "write_fraction"),
    ],
)  # fmt: skip
def test_what_has_no_similar_value_is_refused_in_any_case(
    torus: Path, changes: list[str], key: str
) -> None:
    for lenient in (False, True):
        with pytest.raises(weft.InputError, match=rf"\n  (line \d+, )?{key} = "):
            weft.read_booksim(torus, changes, lenient=lenient)


@pytest.mark.parametrize(
    "changes",
    [
        ["num_vcs=33"], ["routing_delay=40000"],
        ["packet_size=2000000", "injection_rate=0.0000001"],
    ],
)  # fmt: skip
def test_settings_beyond_the_limits_are_refused(torus: Path, changes: list[str]) -> None:
    with pytest.raises(weft.InputError, match="gives settings that weft refuses"):
        weft.read_booksim(torus, changes)


def test_functions_of_booksim_that_weft_lacks_are_named(torus: Path) -> None:
    with pytest.raises(weft.InputError, match="chaos: weft has no chaos; expected one of dim_o"):
        weft.read_booksim(torus, ["routing_function=chaos"])
    with pytest.raises(weft.InputError, match="cmesh: weft does not read cmesh; expected one of"):
        weft.read_booksim(torus, ["topology=cmesh"])


def test_one_error_names_everything(tmp_path: Path) -> None:
    text = "topology = cmesh;\nnumvcs = 4; classes = 2;\nk = 1.5;\n"
    with pytest.raises(weft.InputError) as refused:
        read(tmp_path, text)
    message = str(refused.value)
    assert "4 settings have no counterpart" in message
    assert "line 2, numvcs = 4: is no key of BookSim 2 (did you mean 'num_vcs'?)" in message
    assert "line 1, topology = cmesh: weft does not read cmesh; expected one of mesh, " in message
    assert "line 2, classes = 2" in message
    assert "line 3, k = 1.5: expected a whole number" in message
    assert "lenient" not in message


def test_partial_ranges_of_virtual_channels_are_refused(torus: Path) -> None:
    with pytest.raises(weft.InputError, match="read_request_end_vc = 5 \\(default\\)"):
        weft.read_booksim(torus, ["use_read_write=1"])


def test_changes_may_be_one_text_and_count_last(torus: Path) -> None:
    assert weft.read_booksim(torus, "injection_rate=0.05").load.rate == 0.05
    assert weft.read_booksim(torus, ["seed=1", "seed=2"]).load.seed == 2
    with pytest.raises(weft.InputError, match="change 'seed'"):
        weft.read_booksim(torus, ["seed"])


def test_the_description_names_settings_and_notes(torus: Path) -> None:
    text = weft.read_booksim(torus).describe()
    for part in (str(torus), "torus:8x8", "dor", "2 between routers", "lanes=2", "rate=0.15",
                 "size=1,", "1 in 64 packets"):  # fmt: skip
        assert part in text


def test_the_page_has_all_keys() -> None:
    page = (Path(weft.__file__).parents[2] / "docs" / "booksim.md").read_text()
    assert [key for key in keys.DEFAULTS if f"`{key}`" not in page] == []


def test_latencies_fit_the_links_of_the_flit_level(tmp_path: Path) -> None:
    for text in (TORUS, MESH, TREE, BUTTERFLY, DRAGONFLY):
        run = read(tmp_path, text, lenient=True)
        fabric = weft.fabric(run.fabric)
        links = Links.of(fabric, latency=run.latencies(fabric))
        assert links.longest == max(run.latencies(fabric)) >= 2


def test_the_torus_saturates_where_booksim_does(torus: Path) -> None:
    """Published: stable at 0.25, unstable at 0.3. A virtual channel passes a packet in 3 cycles."""
    for rate, stable in ((0.25, True), (0.3, False)):
        run = weft.read_booksim(torus, f"injection_rate={rate}")
        fabric = weft.fabric(run.fabric)
        latency = run.latencies(fabric)
        net = Run(fabric, run.router, run.load, routing="dor", latency=latency).after(0)
        accepted = net.batches["ejected"].sum() / 64 / run.load.measure
        assert (accepted > 0.98 * rate) == stable
