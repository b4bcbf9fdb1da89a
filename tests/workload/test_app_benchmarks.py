"""Benchmark applications against results computed by hand or from their definitions."""

from __future__ import annotations

from itertools import product
from math import gcd

import networkx as nx
import numpy as np
import pytest
from tests.workload_runs import collective_messages, finish_times, sent

from weft.core.errors import InputError, NotApplicable
from weft.workload import Kind, Workload
from weft.workload.apps import application_workload as app
from weft.workload.apps.graph500 import KroneckerGraph
from weft.workload.apps.grids import beside, near_cube
from weft.workload.apps.pingpong import stride
from weft.workload.apps.ptrans import partners


def end(workload: Workload, **options: float) -> float:
    return float(finish_times(workload, **options).max())


# -- grids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "dims"),
    [
        (7, (7, 1, 1)), (8, (2, 2, 2)), (12, (3, 2, 2)), (36, (4, 3, 3)), (1728, (12, 12, 12)),
        (36, (6, 6)), (45, (9, 5)), (17, (17, 1)), (5, (5,)),
    ],
)  # fmt: skip
def test_grids_are_nearly_cubic(count: int, dims: tuple[int, ...]) -> None:
    assert near_cube(count, len(dims)) == dims


def test_grids_of_three_dimensions_have_the_smallest_surface() -> None:
    for count in range(1, 130):
        best = (
            min(
                a * b + b * c + a * c
                for a, b, c in product(range(1, count + 1), repeat=3)
                if a * b == count // c and count % c == 0 and a * b * c == count
            )
            if count < 40
            else None
        )
        a, b, c = near_cube(count, 3)
        assert a * b * c == count
        assert a >= b >= c
        assert best is None or a * b + b * c + a * c == best


def test_neighbours_in_a_grid() -> None:
    # 3x2 ranks: 0 1 2 / 3 4 5.
    assert beside((3, 2), (1, 0), (False, False)).tolist() == [1, 2, -1, 4, 5, -1]
    assert beside((3, 2), (1, 0), (True, False)).tolist() == [1, 2, 0, 4, 5, 3]
    assert beside((3, 2), (-1, 1), (True, False)).tolist() == [5, 3, 4, -1, -1, -1]


# -- HPC Challenge ---------------------------------------------------------------------------------


def test_pingpong_takes_one_pair_at_a_time() -> None:
    workload = app("pingpong:sizes=8", 5)
    messages = sent(workload, "8 B")
    assert len(messages) == 5 * 4 * 2 + 4  # a ping and a pong per ordered pair, and 4 tokens
    assert sorted(messages[:, 2])[:4] == [0] * 4
    barrier_rounds = 3
    assert end(workload) == len(messages) + barrier_rounds
    pings = {(a, b) for a, b, size in messages.tolist() if size == 8}
    assert len(pings) == 20


def test_concurrent_pingpong_is_faster_and_sends_the_same_messages() -> None:
    one, all_ = app("pingpong:sizes=8", 8), app("pingpong:sizes=8,concurrent=true", 8)
    pairs = [
        np.unique(sent(work, "8 B")[sent(work, "8 B")[:, 2] == 8], axis=0, return_counts=True)
        for work in (one, all_)
    ]
    assert np.array_equal(pairs[0][0], pairs[1][0])
    assert np.array_equal(pairs[0][1], pairs[1][1])
    assert end(all_) < end(one) / 3


def test_pingpong_repeats_the_messages_of_a_pair() -> None:
    workload = app("pingpong:sizes=8,repetitions=3,sample=1", 4)
    assert len(sent(workload, "8 B")) == 6
    assert len(np.unique(sent(workload, "8 B")[:, :2], axis=0)) == 2


@pytest.mark.parametrize(
    ("ranks", "pairs", "expected"),
    # The stride begins as int(ranks / max(5, sqrt(pairs)) + 0.9). Then 0 becomes 1 and 2 becomes 3.
    # Larger strides rise to the next prime, or until they exceed ranks / 3.
    [(36, 10_000, 1), (109, 10_000, 1), (110, 10_000, 3), (1728, 10_000, 19), (36, 1, 11),
     (20, 1, 5), (12, 1, 3), (13, 1, 3), (24, 1, 5)],
)  # fmt: skip
def test_the_stride_of_pingpong_is_that_of_the_benchmark(
    ranks: int, pairs: int, expected: int
) -> None:
    assert stride(ranks, pairs) == expected


def test_pingpong_samples_pairs() -> None:
    messages = sent(app("pingpong:sizes=8,sample=30,seed=3", 6), "8 B")
    assert len(np.unique(messages[messages[:, 2] == 8][:, :2], axis=0)) == 30
    with pytest.raises(NotApplicable, match="6 ranks have 30 ordered pairs, not 31"):
        app("pingpong:sample=31", 6)


@pytest.mark.parametrize("method", ["nonblocking", "sendrecv"])
def test_ranks_of_a_ring_send_in_both_directions(method: str) -> None:
    workload = app(f"natural-ring:sizes=8,method={method}", 6)
    expected = {(rank, (rank + step) % 6, 8) for rank in range(6) for step in (1, -1)}
    messages = sent(workload, "8 B")
    assert len(messages) == 12
    assert set(map(tuple, messages.tolist())) == expected
    rounds = 1 if method == "nonblocking" else 2
    assert end(workload) == 3 + rounds


def test_each_random_ring_is_one_cycle_of_all_ranks() -> None:
    workload = app("random-ring:sizes=8,1MB,rings=5,3", 9)
    circles = set()
    for size, rings in ((8, 5), (1_000_000, 3)):
        for ring in range(rings):
            messages = sent(workload, f"{size} B, ring {ring + 1}")
            graph = nx.Graph([tuple(pair) for pair in messages[:, :2].tolist()])
            assert len(messages) == 18
            assert nx.is_connected(graph)
            assert set(dict(graph.degree()).values()) == {2}
            circles.add(tuple(map(tuple, np.sort(messages[:, :2], axis=0).tolist())))
            circles.add(frozenset(map(frozenset, graph.edges)))
    assert len([one for one in circles if isinstance(one, frozenset)]) == 5


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_random_access_follows_its_definition(seed: int) -> None:
    ranks, words, ahead = 5, 64, 40
    workload = app(
        f"random-access:table={8 * words},look_ahead={ahead},update_time=2", ranks, seed=seed
    )
    drawn = np.random.default_rng(seed).integers(0, ranks, (ranks, 4 * words), dtype=np.int32)
    puts = workload.messages[workload.kind[workload.messages] == Kind.PUT]
    for rank in range(ranks):
        expected, durations = [], []
        waiting, stream, last = {}, list(drawn[rank]), 0
        position = 0
        while True:
            while sum(waiting.values()) < ahead and position < len(stream):
                far = stream[position]
                position += 1
                if far:
                    waiting[far] = waiting.get(far, 0) + 1
            if not waiting:
                break
            far = min(waiting, key=lambda place: (-waiting[place], place))
            expected.append(((rank + far) % ranks, 8 * waiting.pop(far)))
            durations.append(2.0 * (position - last))
            last = position
        mine = puts[workload.rank[puts] == rank]
        assert list(zip(workload.peer[mine], workload.size_bytes[mine], strict=True)) == expected
        assert workload.duration_ns[mine - 1].tolist() == durations
    finish = sent(workload, "finish")
    assert len(finish) == ranks * (ranks - 1)


def test_random_access_sends_updates_of_other_ranks_only() -> None:
    workload = app("random-access:table=64KiB", 8)
    volume = sent(workload, "updates")[:, 2].sum() / 8
    assert volume == pytest.approx(8 * 4 * 8192 * 7 / 8, rel=0.01)


def test_random_access_along_a_hypercube() -> None:
    workload = app("random-access:algorithm=hypercube,table=64KiB", 16)
    messages = sent(workload, "updates")
    assert len(messages) == 16 * 4 * 32  # ranks, dimensions, and batches of 1,024 updates
    assert {bin(int(a) ^ int(b)).count("1") for a, b, _ in messages} == {1}
    # A rank sends half of its updates in each step.
    assert messages[:, 2].sum() / 8 == pytest.approx(16 * 4 * 8192 * 4 / 2, rel=0.01)
    with pytest.raises(NotApplicable, match="power of two as the number of ranks, not 6"):
        app("random-access:algorithm=hypercube", 6)
    with pytest.raises(InputError, match="table must be a multiple of 8, not 12"):
        app("random-access:table=12", 6)


@pytest.mark.parametrize("grid", [(2, 2), (2, 3), (4, 6), (1, 5), (3, 3), (6, 4), (2, 8)])
def test_ptrans_sends_each_block_to_its_rank_in_the_transpose(grid: tuple[int, int]) -> None:
    rows, columns = grid
    span, block = 2 * rows * columns, 3
    wanted: dict[tuple[int, int], int] = {}
    for i, j in product(range(span), repeat=2):
        pair = (i % rows * columns + j % columns, j % rows * columns + i % columns)
        wanted[pair] = wanted.get(pair, 0) + block * block * 8
    workload = app(
        f"ptrans:order={span * block},block={block},grid={rows}x{columns}", rows * columns
    )
    messages = sent(workload)
    got = {(int(a), int(b)): int(size) for a, b, size in messages}
    assert len(got) == len(messages)
    assert got == {pair: size for pair, size in wanted.items() if pair[0] != pair[1]}
    common = gcd(rows, columns)
    assert len(partners(rows, columns)) == rows // common * (columns // common)


def test_ptrans_pads_to_whole_blocks() -> None:
    # 7x7 blocks of 10x10 on 2x2 ranks: a rank has up to 4x4 blocks and pads to 40x40.
    assert set(sent(app("ptrans:order=61,block=10,grid=2x2", 4))[:, 2]) == {40 * 40 * 8}
    with pytest.raises(NotApplicable, match="needs 6 ranks, not 4"):
        app("ptrans:grid=2x3", 4)


# -- Netgauge --------------------------------------------------------------------------------------


def test_ebb_pairs_all_ranks_in_each_round() -> None:
    workload = app("ebb:size=10,rounds=6", 10)
    pairings = []
    for step in range(6):
        messages = sent(workload, f"round {step + 1}")
        partner = dict(messages[:, :2].tolist())
        assert len(messages) == 10
        assert all(partner[partner[rank]] == rank != partner[rank] for rank in range(10))
        pairings.append(tuple(sorted(partner.items())))
    assert len(set(pairings)) == 6
    with pytest.raises(NotApplicable, match="even number of ranks, not 9"):
        app("ebb", 9)


def test_messages_of_one_to_n_and_n_to_one() -> None:
    there = sent(app("1toN:size=5", 7), "1toN")
    assert sorted(map(tuple, there.tolist())) == sorted(
        [(0, rank, 5) for rank in range(1, 7)] + [(rank, 0, 5) for rank in range(1, 7)]
    )
    back = sent(app("Nto1:size=5", 7), "Nto1")
    assert sorted(map(tuple, back.tolist())) == sorted(
        [(rank, 0, 5) for rank in range(1, 7)] + [(0, 1, 1)]
    )


# -- HPCG ------------------------------------------------------------------------------------------


def test_hpcg_halos_of_eight_ranks() -> None:
    workload = app("hpcg:local=16x16x16,iterations=2", 8)

    def halo(n: int) -> int:
        return 8 * 8 * (3 * n * n + 3 * n + 1)  # 8 ranks, 8 bytes; 3 faces, 3 edges and a corner

    # Halos are exchanged once in the setup and once for the matrix product of each iteration. A
    # multigrid cycle exchanges them three times on each level, but once on the coarsest.
    iteration = 4 * halo(16) + 3 * halo(8) + 3 * halo(4) + halo(2)
    messages = sent(workload)
    assert messages[:, 2].sum() == halo(16) + 2 * iteration
    assert len(messages) == 8 * 7 * (1 + 2 * 11)
    assert collective_messages(workload) == (1 + 2 * 3) * 8 * 3  # recursive doubling


def test_hpcg_sizes_by_direction() -> None:
    messages = sent(app("hpcg:local=8x16x32,levels=1,iterations=1,dims=3x1x1", 3), "start, product")
    assert {tuple(row) for row in messages.tolist()} == {
        (a, b, 16 * 32 * 8) for a, b in ((0, 1), (1, 0), (1, 2), (2, 1))
    }


def test_hpcg_calculates_for_each_entry_of_the_matrix() -> None:
    dims, local = (3, 2, 1), (4, 2, 2)
    workload = app("hpcg:local=4x2x2,levels=1,iterations=1,dims=3x2x1,gflops=2", 6)
    size = [n * p for n, p in zip(local, dims, strict=True)]
    entries = np.zeros(6)
    for point in product(*map(range, size)):
        near = [sum(0 <= x + d < n for d in (-1, 0, 1)) for x, n in zip(point, size, strict=True)]
        x, y, z = (at // n for at, n in zip(point, local, strict=True))
        entries[x + 3 * y + 6 * z] += np.prod(near)
    phase = workload.phase_names.index("start, product")
    ops = (workload.phase == phase) & (workload.duration_ns > 0)
    assert workload.duration_ns[ops].tolist() == (2 * entries / 2).tolist()
    smooth = workload.phase_names.index("smooth level 0")
    ops = (workload.phase == smooth) & (workload.duration_ns > 0)
    assert workload.duration_ns[ops].tolist() == (4 * entries / 2).tolist()
    assert app("hpcg:local=8x8x8,gflops=0", 8).duration_ns.sum() == 0


def test_hpcg_needs_points_on_every_level() -> None:
    with pytest.raises(InputError, match="three multiples of 8 for 4 levels, not 16x12x16"):
        app("hpcg:local=16x12x16", 8)
    with pytest.raises(NotApplicable, match="needs 9 ranks, not 8"):
        app("hpcg:dims=3x3x1", 8)


# -- Graph500 --------------------------------------------------------------------------------------


def graph_and_root(seed: int) -> tuple[KroneckerGraph, int]:
    random = np.random.default_rng(seed)
    graph = KroneckerGraph(10, random)
    roots = np.flatnonzero(np.diff(graph.offset))
    return graph, int(random.choice(roots, 1, replace=False)[0])


def test_the_graph_is_undirected_and_skewed() -> None:
    graph, _ = graph_and_root(1)
    source = np.repeat(np.arange(1024), np.diff(graph.offset))
    pairs = np.stack([source, graph.target])
    there, count = np.unique(pairs, axis=1, return_counts=True)
    back, other = np.unique(pairs[::-1], axis=1, return_counts=True)
    assert np.array_equal(there, back)
    assert np.array_equal(count, other)
    assert np.all(source != graph.target)
    assert 0.9 * 2 * 16 * 1024 < len(graph.target) <= 2 * 16 * 1024
    # A vertex whose number has k of n bits set has (A + B)^(n - k) (C + D)^k of all edge ends.
    degree = np.sort(np.diff(graph.offset))[::-1]
    assert degree[0] == pytest.approx(2 * 16 * 1024 * 0.76**10, rel=0.15)


@pytest.mark.parametrize("partition", ["1d", "2d"])
def test_graph500_sends_the_edges_of_a_breadth_first_search(partition: str) -> None:
    graph, root = graph_and_root(5)
    ranks, columns = 6, 3
    source = np.repeat(np.arange(1024), np.diff(graph.offset))
    net = nx.Graph(zip(source.tolist(), graph.target.tolist(), strict=True))
    depth = nx.single_source_shortest_path_length(net, root)
    workload = app(f"graph500:scale=12,drawn=10,edge=1,seed=5,partition={partition}", ranks)
    ops = workload.messages
    assert len(workload.phase_names) - 1 == max(depth.values()) + 1
    for level in range(max(depth.values()) + 1):
        wanted: dict[tuple[int, int], int] = {}
        edges = [
            (u, v)
            for u, v in zip(source.tolist(), graph.target.tolist(), strict=True)
            if depth.get(u) == level
        ]
        if partition == "1d":
            for u, v in edges:
                wanted[u % ranks, v % ranks] = wanted.get((u % ranks, v % ranks), 0) + 4
        else:
            reached = {(v % ranks // columns * columns + u % ranks % columns, v) for u, v in edges}
            for holder, v in reached:
                wanted[holder, v % ranks] = wanted.get((holder, v % ranks), 0) + 4
            for u in {u for u, _ in edges}:  # sent to the other rank of the column
                pair = (u % ranks, (u + columns) % ranks)
                wanted[pair] = wanted.get(pair, 0) + 4
        mine = ops[workload.phase[ops] == workload.phase_names.index(f"level {level}")]
        # The last collective of the level, a sum over all ranks, has the lowest tag.
        tag = workload.tag[mine].min()
        mine = mine[workload.tag[mine] != tag]
        got: dict[tuple[int, int], int] = {}
        for op in mine:
            pair = (int(workload.rank[op]), int(workload.peer[op]))
            got[pair] = got.get(pair, 0) + int(workload.size_bytes[op])
        got = {pair: size for pair, size in got.items() if size}
        assert got == {pair: size for pair, size in wanted.items() if pair[0] != pair[1]}


# -- halos and shifts ------------------------------------------------------------------------------


def test_stencil_sizes_by_direction() -> None:
    messages = sent(app("stencil:local=2x3x5,cell=8,halo=2,points=27,dims=3x3x3", 27), "exchange")
    assert len(messages) == 27 * 26
    faces, edges, corner = (15, 10, 6), (5, 3, 2), 1
    cells = 2 * sum(2 * face for face in faces) + 4 * sum(4 * edge for edge in edges) + 8 * 8
    assert corner == 1
    assert messages[:, 2].sum() == 27 * 8 * cells


def test_stencils_on_open_and_periodic_grids_of_few_ranks() -> None:
    open_ = sent(app("stencil:dims=3x1x1,periodic=false,sizes=7,8,9", 3), "exchange")
    assert sorted(map(tuple, open_.tolist())) == [(0, 1, 7), (1, 0, 7), (1, 2, 7), (2, 1, 7)]
    around = sent(app("stencil:dims=2x1x1,sizes=7,8,9", 2), "exchange")
    assert sorted(map(tuple, around.tolist())) == [(0, 1, 7)] * 2 + [(1, 0, 7)] * 2
    with pytest.raises(InputError, match="points must be 7"):
        app("stencil:points=27,sizes=7,8,9", 8)
    with pytest.raises(InputError, match="points must be 7 or 27, not 9"):
        app("stencil:points=9", 8)


def test_cartesian_phases_are_shifts_with_a_barrier_after_each() -> None:
    workload = app("cartesian:sizes=32KiB,dims=4x3x3,shuffled=false", 36)
    names = ("+x", "-x", "+y", "-y", "+z", "-z")
    assert workload.phase_names[1:] == names
    ranks = np.arange(36).reshape(3, 3, 4)  # z, y, x
    times = finish_times(workload)
    last = 0.0
    for name, (axis, move) in zip(names, product((2, 1, 0), (-1, 1)), strict=True):
        messages = sent(workload, name)
        to = np.roll(ranks, move, axis=axis)
        assert dict(messages[:, :2].tolist()) == dict(
            zip(ranks.ravel().tolist(), to.ravel().tolist(), strict=True)
        )
        assert set(messages[:, 2]) == {32768}
        ops = workload.phase == workload.phase_names.index(name)
        assert times[ops].max() == last + 7  # the message and the barrier's six rounds
        last += 7


def test_the_seed_of_cartesian_draws_the_order_of_its_phases() -> None:
    orders = {app(f"cartesian:seed={seed}", 36).phase_names for seed in range(6)}
    assert len(orders) >= 5
    assert all(
        sorted(order) == sorted(["", "+x", "-x", "+y", "-y", "+z", "-z"]) for order in orders
    )


def test_cartesian_utilization_is_defined_as_in_the_paper() -> None:
    workload = app("cartesian:sizes=50000,utilization=0.2,rate_gbps=40,iterations=3", 27)
    # Alone, a message takes 10,000 ns; barriers take nothing.
    calc = workload.duration_ns.sum() / 27
    assert calc == pytest.approx(18 * 40_000)
    assert 18 * 10_000 / (18 * 10_000 + calc) == pytest.approx(0.2)
    spread = app("cartesian:sizes=50000,utilization=0.2,calc_spread=0.5", 27)
    drawn = spread.duration_ns[spread.duration_ns > 0]
    assert len(np.unique(drawn)) == len(drawn) == 27 * 6
    assert 20_000 <= drawn.min() < 22_000
    assert 58_000 < drawn.max() <= 60_000
    assert drawn.mean() == pytest.approx(40_000, rel=0.1)


def test_cartesian_draws_sizes_by_phase() -> None:
    workload = app("cartesian:sizes=1,2,4,iterations=50", 8)
    sizes = sent(workload)[:, 2].reshape(8, 300)
    assert np.all(sizes == sizes[0])
    assert np.bincount(sizes[0])[[1, 2, 4]].min() > 70
    with pytest.raises(InputError, match="utilization must be above 0 and at most 1, not 0"):
        app("cartesian:utilization=0", 8)


# -- shuffle ---------------------------------------------------------------------------------------


def test_shuffle_divides_the_data_of_each_mapper_among_reducers() -> None:
    messages = sent(app("shuffle:size=1000,mappers=4,reducers=5", 9))
    assert len(messages) == 20
    assert set(messages[:, 0]) == set(range(4))
    assert set(messages[:, 1]) == set(range(4, 9))
    assert np.bincount(messages[:, 0], weights=messages[:, 2]).tolist() == [1000] * 4


def test_skewed_shuffle_has_zipf_shares() -> None:
    messages = sent(app("shuffle:size=1000000,mappers=1,reducers=5,skew=1", 6))
    shares = np.sort(messages[:, 2])[::-1] / 1e6
    harmonic = sum(1 / n for n in range(1, 6))
    assert shares == pytest.approx([1 / n / harmonic for n in range(1, 6)], abs=2e-6)


def test_reducers_fetch_from_a_limited_number_of_mappers_at_once() -> None:
    # A reducer fetches from 12 mappers, `parallel` at a time, without contention.
    for parallel, rounds in ((1, 12), (5, 3), (12, 1)):
        workload = app(f"shuffle:mappers=12,reducers=3,parallel={parallel}", 15)
        assert end(workload) == rounds
    with pytest.raises(NotApplicable, match="15 ranks, not 16"):
        app("shuffle:mappers=16", 15)


def test_shuffle_comes_between_map_and_reduce() -> None:
    workload = app("shuffle:mappers=3,reducers=2,map_time=100,reduce_time=10,parallel=3", 5)
    times = finish_times(workload)
    sends = workload.messages
    assert np.all(times[sends] == 101)
    assert times.max() == 111
    # A mapper has ended when all its sends have left, even if it also reduces.
    both = app("shuffle:reduce_time=10,parallel=3", 4)
    reduces = np.flatnonzero(both.duration_ns == 10)
    waits = [ancestors(both, int(op)) for op in reduces]
    for op, before in zip(reduces, waits, strict=True):
        mine = sends_of(both, int(both.rank[op]))
        assert set(mine) <= before


def ancestors(workload: Workload, op: int) -> set[int]:
    result: set[int] = set()
    pending = [op]
    while pending:
        one = pending.pop()
        for before in workload.dep[workload.dep_offset[one] : workload.dep_offset[one + 1]]:
            if int(before) not in result:
                result.add(int(before))
                pending.append(int(before))
    return result


def sends_of(workload: Workload, rank: int) -> list[int]:
    return [int(op) for op in workload.messages if workload.rank[op] == rank]


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "ranks", "message"),
    [
        ("ebb", 10**7, "10,000,000 ranks; at most 1,048,576"),
        ("hpcg:levels=17", 8, "levels must be at most 16"),
        ("hpcg:local=4294967296x4294967296x8", 8, "1.48e.20 bytes are too many"),
        ("ptrans:order=100000000000", 4, "2e.22 bytes are too many"),
        ("stencil:cell=64000TiB", 8, "bytes are too many"),
        ("moe:tokens=10000000000000000000", 8, r"option tokens must be .* not 1e.19"),
        ("moe:experts=1000000000000", 8, "experts must be at most 1,048,576"),
        ("graph500:drawn=10,searches=100000", 8, "searches must be at most 8.., the number"),
        ("graph500:scale=48,drawn=10,edge=1GB", 8, "bytes are too many"),
        ("ring-allreduce:bucket=1", 8, "101,179,553 buckets; at most 65,536"),
        ("cartesian:sizes=1,utilization=1e-320", 8, "duration of inf ns"),
    ],
)
def test_values_far_too_large_are_refused(spec: str, ranks: int, message: str) -> None:
    with pytest.raises(InputError, match=f"{spec.partition(':')[0]}: .*{message}"):
        app(spec, ranks)


@pytest.mark.parametrize(
    ("spec", "ranks", "message"),
    [
        (
            "pipeline:microbatches=1000000000000",
            4,
            "each of 4 ranks sends 1,500,000,000,000 messages",
        ),
        (
            "pingpong:repetitions=100000000000",
            8,
            "each of 8 ranks sends 2,800,000,000,014 messages",
        ),
        ("random-access:table=1TB", 8, "4,000,000,000,000 updates"),
        (
            "random-access:table=1TB,algorithm=hypercube",
            8,
            "each of 8 ranks sends 1,464,843,750 messages",
        ),
        ("tree-allreduce:chunk=1", 8, "each of 8 ranks sends 178,899,224 messages"),
        ("ring-allreduce", 1728, "29,842,560 messages"),
        ("graph500", 2**15, "32768 ranks are too many for 1d"),
        ("shuffle", 2**13, "67,108,864 messages"),
    ],
)
def test_too_many_operations_are_refused_at_once(spec: str, ranks: int, message: str) -> None:
    with pytest.raises(NotApplicable, match=message):
        app(spec, ranks)
