"""Training applications: volumes, trees, destinations of tokens, and schedules."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from tests.workload_runs import finish_times, sent

from weft.core.errors import InputError, NotApplicable
from weft.workload import Kind, Workload
from weft.workload.apps import application_workload as app
from weft.workload.apps.pipeline import actions
from weft.workload.apps.tree_allreduce import double_tree


def end(workload: Workload, message: float = 1.0) -> float:
    return float(finish_times(workload, message).max())


def volume(workload: Workload) -> int:
    return int(workload.size_bytes[workload.messages].sum())


@pytest.mark.parametrize("name", ["ring-allreduce", "tree-allreduce"])
@pytest.mark.parametrize("ranks", [2, 3, 6, 7])
def test_an_allreduce_moves_each_byte_twice_for_each_other_rank(name: str, ranks: int) -> None:
    workload = app(f"{name}:gradients=1000003,bucket=300000,first_bucket=1000", ranks)
    assert volume(workload) == 2 * (ranks - 1) * 1000003
    assert workload.phase_names[1:] == (
        "forward", "backward", *(f"allreduce, bucket {n}" for n in range(1, 6)),
    )  # fmt: skip


def test_default_buckets_are_those_of_resnet_in_pytorch() -> None:
    workload = app("ring-allreduce", 2)
    phase = workload.phase[workload.messages]
    sizes = np.bincount(phase, workload.size_bytes[workload.messages])[-5:]
    mib = 2**20
    rest = 4 * 25_557_032 - 76 * mib
    assert sizes.tolist() == [2 * mib, *[50 * mib] * 3, 2 * rest]


@pytest.mark.parametrize("name", ["ring-allreduce", "tree-allreduce"])
def test_overlap_hides_reductions_behind_the_backward_pass(name: str) -> None:
    spec = f"{name}:gradients=1000,bucket=100,first_bucket=100,chunk=100,forward=5,backward=100"
    spec = spec.replace("chunk=100,", "") if name == "ring-allreduce" else spec
    one = end(app(f"{name}:gradients=100,bucket=100,first_bucket=100", 4))
    # A reduction takes less than a tenth of the backward pass: only the last one adds time.
    assert one < 10
    assert end(app(f"{spec},overlap=true", 4)) == 105 + one
    assert end(app(f"{spec},overlap=false", 4)) == pytest.approx(105 + 10 * one, rel=0.01)
    # The second iteration's forward pass waits for the last reduction.
    assert end(app(f"{spec},iterations=2", 4)) == 2 * (105 + one)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 13, 16, 36, 100, 1728])
def test_double_trees_are_binary_and_share_the_work(ranks: int) -> None:
    trees = double_tree(ranks)
    inner = []
    for parent in trees:
        roots = np.flatnonzero(parent < 0)
        assert len(roots) == 1
        children = np.bincount(parent[parent >= 0], minlength=ranks)
        assert children.max() <= 2
        net = nx.DiGraph([(int(parent[r]), r) for r in range(ranks) if parent[r] >= 0])
        depth = nx.single_source_shortest_path_length(net, int(roots[0]))
        assert len(depth) == ranks
        assert max(depth.values()) <= (ranks - 1).bit_length()
        inner.append(children > 0)
    # Number of ranks with children in both trees: 0 if the number of ranks is even, else 1.
    assert int((inner[0] & inner[1]).sum()) == ranks % 2
    if ranks % 2 == 0:
        assert np.array_equal(trees[1], np.where(trees[0] < 0, -1, ranks - 1 - trees[0])[::-1])


def test_chunks_are_pipelined_through_a_tree() -> None:
    def time(chunks: int) -> float:
        return end(
            app(f"tree-allreduce:gradients={200 * chunks},bucket=1MB,first_bucket=1MB,chunk=100", 8)
        )

    # Another chunk adds one message time, as in a pipeline.
    assert time(1) >= 5
    assert time(10) == time(9) + 1 == time(1) + 9


def test_a_rank_of_a_tree_handles_chunks_in_order() -> None:
    workload = app("tree-allreduce:gradients=1000,bucket=1MB,first_bucket=1MB,chunk=100", 5)
    waits = np.repeat(np.arange(workload.num_ops), np.diff(workload.dep_offset))
    net = nx.DiGraph(list(zip(workload.dep.tolist(), waits.tolist(), strict=True)))
    keys = np.stack([workload.rank, workload.kind, workload.peer, workload.tag], axis=1)
    messages = np.flatnonzero(workload.kind != Kind.CALC)
    for key in np.unique(keys[messages], axis=0):
        same_way = messages[np.all(keys[messages] == key, axis=1)]
        assert len(same_way) == 5  # each tree reduces half of the gradients in 5 chunks
        for first, second in pairwise(same_way):
            assert nx.has_path(net, int(first), int(second))


def test_moe_returns_every_dispatched_token() -> None:
    spec = "moe:tokens=500,token=10,top=2,group=4,layers=3,training=true,expert=1"
    workload = app(spec, 8)
    for layer in (1, 2, 3):
        there = matrix(workload, f"layer {layer}, dispatch")
        back = matrix(workload, f"layer {layer}, combine")
        assert np.array_equal(there, back.T)
        assert np.all(there[:4, 4:] == 0)
        assert np.all(there[4:, :4] == 0)
        assert np.all(there.sum(axis=1) <= 2 * 500 * 10)
        assert np.array_equal(there, matrix(workload, f"layer {layer} backward, dispatch"))
        phase = workload.phase_names.index(f"layer {layer}, experts")
        ops = (workload.phase == phase) & (workload.kind == Kind.CALC)
        computed = np.bincount(workload.rank[ops], workload.duration_ns[ops])
        # A rank computes the tokens that it receives and those that it keeps.
        kept = 2 * 500 - there.sum(axis=1) / 10
        assert computed.tolist() == (there.sum(axis=0) / 10 + kept).tolist()
    layers = [matrix(workload, f"layer {layer}, dispatch").tobytes() for layer in (1, 2, 3)]
    assert len(set(layers)) == 3
    last = workload.phase_names.index("layer 3 backward, dispatch")
    assert last < workload.phase_names.index("layer 1 backward, dispatch")


def matrix(workload: Workload, phase: str) -> np.ndarray:
    ops = workload.messages
    ops = ops[workload.phase[ops] == workload.phase_names.index(phase)]
    result = np.zeros((workload.num_ranks,) * 2)
    np.add.at(result, (workload.rank[ops], workload.peer[ops]), workload.size_bytes[ops])
    return result


def test_moe_skew_sends_most_tokens_to_few_experts() -> None:
    even, skewed = (
        matrix(
            app(f"moe:layers=1,tokens=10000,top=1,token=1,group=8,skew={skew}", 8),
            "layer, dispatch",
        ).sum(axis=0)
        for skew in (0, 1.5)
    )
    assert even.max() / even.min() < 1.1
    chances = np.arange(1, 9) ** -1.5
    wanted = np.sort(chances / chances.sum())[::-1] * 7 * 10000
    assert np.sort(skewed)[::-1] == pytest.approx(wanted, rel=0.05)


def test_moe_groups_and_experts() -> None:
    assert "group=" not in app("moe:tokens=4", 36).name
    assert len(np.unique(sent_groups(app("moe:tokens=400,group=6", 36), 6))) == 6
    with pytest.raises(NotApplicable, match="36 ranks cannot be divided into groups of group=5"):
        app("moe:group=5", 36)
    with pytest.raises(NotApplicable, match="9 experts cannot be shared equally by groups of 4"):
        app("moe:group=4,experts=9", 8)
    with pytest.raises(InputError, match="top 5 is more than the 4 experts"):
        app("moe:group=4,top=5", 8)


def sent_groups(workload: Workload, size: int) -> np.ndarray:
    ops = workload.messages
    assert np.array_equal(workload.rank[ops] // size, workload.peer[ops] // size)
    return workload.rank[ops] // size


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "count"), [(2, 1), (4, 8), (4, 3), (6, 24)])
def test_pipelines_take_their_textbook_time(schedule: str, stages: int, count: int) -> None:
    spec = f"pipeline:stages={stages},microbatches={count},schedule={schedule}"
    workload = app(f"{spec},forward=1,backward=2", stages)
    # (microbatches + stages - 1) forward and backward passes, if messages take no time.
    assert end(workload, message=0.0) == (count + stages - 1) * 3
    messages = sent(workload)
    assert len(messages) == 2 * (stages - 1) * count
    assert set(messages[:, 0] - messages[:, 1]) == {-1, 1}
    assert len(sent(app(f"{spec},iterations=2", 3 * stages))) == 3 * 2 * 2 * (stages - 1) * count


def test_one_forward_one_backward_holds_few_microbatches() -> None:
    plan = actions(4, 8, "1f1b")
    held = np.cumsum(1 - 2 * plan, axis=1)
    assert held.max(axis=1).tolist() == [4, 3, 2, 1]
    assert held.min() >= 0
    assert np.all(held[:, -1] == 0)
    assert np.cumsum(1 - 2 * actions(4, 8, "gpipe"), axis=1).max() == 8
    assert plan[0].tolist() == [0, 0, 0] + [0, 1] * 5 + [1] * 3
    assert actions(6, 2, "1f1b").sum(axis=1).tolist() == [2] * 6


def test_parallel_pipelines_reduce_the_gradients_of_each_stage() -> None:
    workload = app("pipeline:stages=3,gradients=600,microbatches=1", 6)
    ops = workload.messages
    reduced = ops[workload.phase_names.index("gradients") == workload.phase[ops]]
    assert np.array_equal(workload.rank[reduced] // 2, workload.peer[reduced] // 2)
    assert workload.size_bytes[reduced].sum() == 3 * 2 * 600
    assert set(map(tuple, sent(workload)[:, :2].tolist())) == {
        (a, b) for low in range(4) for a, b in ((low, low + 2), (low + 2, low))
    }


def test_an_iteration_ends_when_all_its_sends_have_ended() -> None:
    workload = app("pipeline:stages=3,microbatches=4,iterations=2,forward=1", 3)
    ops = np.arange(workload.num_ops)
    first = workload.phase == workload.phase_names.index("pipeline 1")
    waited = np.zeros(workload.num_ops, dtype=bool)
    waited[workload.dep] = True
    sends = ops[first & (workload.kind == Kind.SEND)]
    assert len(sends) == 16
    assert waited[sends].all()


def test_stages_divide_the_ranks() -> None:
    assert len(sent(app("pipeline:microbatches=1", 12))) == 2 * 2 * 5
    assert len(sent(app("pipeline:microbatches=1", 11))) == 2 * 10
    with pytest.raises(NotApplicable, match="12 ranks cannot be divided into groups of stages=5"):
        app("pipeline:stages=5", 12)
    with pytest.raises(InputError, match="stages must be at least 2, not 1"):
        app("pipeline:stages=1", 12)
