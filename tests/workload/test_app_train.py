"""A step of training: sizes of models, volumes, schedules, and times on ideal networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.workload_runs import finish_times

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics.machine_model import machine_model
from weft.workload import Kind, Workload
from weft.workload.apps import application_workload as app
from weft.workload.apps.train import _Plan, _Stage
from weft.workload.apps.transformers import MODELS, Transformer
from weft.workload.places import Places

#: Parameters, and parameters that a token uses, in billions, as published.
PUBLISHED = {
    "gpt3-175b": (175.0, 175.0),
    "llama3-8b": (8.03, 8.03),
    "llama3-70b": (70.6, 70.6),
    "llama3-405b": (405.9, 405.9),
    "mixtral-8x7b": (46.7, 12.9),
    "deepseek-v3": (671.0, 37.0),
}
#: A model whose stages are all alike, as it has no output layer and no embedding.
EVEN = Transformer("this test", 8, 1024, 8, 8, 4096, 0, 512)


@pytest.fixture(autouse=True)
def even(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "even", EVEN)


def step(ranks: int, places: Places | None = None, **options: Any) -> Workload:
    return app("train", ranks, places=places, **{"model": "even", **options})


def volume(work: Workload, phase: str) -> int:
    ops = work.messages[work.phase[work.messages] == work.phase_names.index(phase)]
    return int(work.size_bytes[ops].sum())


def ideal(work: Workload) -> weft.FlowResult:
    """Run on one switch, without the exchange before large messages."""
    fabric = weft.fabric(f"kary-n-tree:k={work.num_ranks},n=1,rate=400")
    options = {"handshake": False, "latency_ns": 1000.0}
    return weft.simulate(fabric, weft.route(fabric, "minhop"), work, level="flow", **options)


def test_every_built_in_model_has_a_published_count() -> None:
    assert set(PUBLISHED) == set(MODELS) - {"even"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_published(name: str) -> None:
    model, (whole, active) = MODELS[name], PUBLISHED[name]
    assert model.parameters() / 1e9 == pytest.approx(whole, rel=0.01)
    # Active parameters of DeepSeek-V3 are published as 37 billion, and a token needs one input
    # embedding.
    used = model.parameters(model.active) - (name == "deepseek-v3") * model.embedding
    assert used / 1e9 == pytest.approx(active, rel=0.01, abs=0.5 if active == 37 else None)


def test_operations_are_those_of_megatron() -> None:
    model, s = MODELS["gpt3-175b"], 2048
    h, layers, v = model.hidden, model.layers, model.vocabulary
    # Narayanan et al. 2021, section 5.1, without recomputation: 72 for 96.
    expected = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert model.step_flop(s) == pytest.approx(expected, rel=1e-3)
    work = step(8, model="gpt3-175b", tp=2, pp=2, flops=1e15, efficiency=0.5, global_batch=8)
    assert work.step is not None
    assert work.step.tokens == 8 * 2048
    assert work.step.peak_ns == pytest.approx(model.step_flop(s) * 8 * 2048 / 8 / 1e15 * 1e9)
    assert work.duration_ns.sum() == pytest.approx(2 * 8 * work.step.peak_ns)


@pytest.mark.parametrize(("pp", "chunks"), [(1, 1), (8, 1), (16, 1), (4, 3), (7, 2)])
@pytest.mark.parametrize("name", ["llama3-405b", "deepseek-v3"])
def test_stages_have_all_layers_and_parameters_once(name: str, pp: int, chunks: int) -> None:
    model = MODELS[name]
    experts = 8 if model.experts else 1
    plan = _Plan(model, 8, 1, pp, experts, 1, 1, 1, 1, chunks, None, True, 1.0)
    parts = [(stage, chunk) for chunk in range(chunks) for stage in range(pp)]
    layers = [list(plan.layers(*part)) for part in parts]
    assert [layer for part in layers for layer in part] == list(range(model.layers))
    counts = [len(part) for part in layers]
    assert max(counts) - min(counts) <= 1
    assert counts[0] == counts[-1] == min(counts) or len(set(counts)) == 1
    buckets = [bucket for part in parts for bucket in plan.buckets_of(*part)]
    held = sum(bucket.dense + experts * bucket.experts for bucket in buckets)
    assert held == model.parameters()


@pytest.mark.parametrize(("chunks", "microbatches"), [(1, 3), (1, 8), (1, 13), (2, 8), (2, 16)])
def test_the_bubble_of_a_pipeline_is_that_of_its_schedule(chunks: int, microbatches: int) -> None:
    work = step(4, pp=4, chunks=chunks, global_batch=microbatches, efficiency=1.0)
    assert work.step is not None
    # Narayanan et al. 2021, section 2.2: (p - 1) / (v m) of the time without a bubble.
    bubble = 3 / (chunks * microbatches)
    end = finish_times(work, message=0.0).max()
    assert end == pytest.approx((1 + bubble) * work.step.peak_ns)
    # Activations cross three borders of stages, and for further chunks also from the last stage.
    borders = 4 * chunks - 1
    assert volume(work, "pipeline") == 2 * borders * microbatches * 512 * 1024 * 2


@pytest.mark.parametrize(
    ("zero", "parameters", "gradients"), [(0, 0, 2), (1, 1, 1), (2, 1, 3), (3, 6, 3)]
)
def test_volumes_are_those_of_zero(zero: int, parameters: int, gradients: int) -> None:
    work = step(4, zero=zero, global_batch=12, buckets=4)
    ring = 3 * EVEN.parameters()  # each parameter is sent 3 times in a ring of 4
    assert volume(work, "gradients") == pytest.approx(gradients * 4 * ring, rel=1e-4)
    if parameters:
        assert volume(work, "parameters") == pytest.approx(parameters * 2 * ring, rel=1e-4)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_data_parallel_steps_take_the_time_of_rings(zero: int) -> None:
    work = step(4, zero=zero, global_batch=8, buckets=8, overlap=False)
    assert work.step is not None
    result = ideal(work)
    # Blocks of a bucket at 50 B/ns, each of 3 rounds after 1 us.
    part = EVEN.parameters() / 8 / 4
    gather, reduce = (3 * (part * each / 50 + 1000) for each in (2, 4))
    rounds = {0: (0, 2), 1: (1, 1), 2: (1, 2), 3: (4, 2)}[zero]
    exchange = 8 * (rounds[0] * gather + rounds[1] * reduce)
    assert result.makespan_ns == pytest.approx(work.step.peak_ns / 0.6 + exchange, rel=1e-4)


def test_overlap_hides_all_but_the_first_and_the_last_bucket() -> None:
    work = step(4, zero=1, global_batch=8, buckets=8, efficiency=0.01)
    assert work.step is not None
    part = EVEN.parameters() / 8 / 4
    shown = sum(3 * (part * each / 50 + 1000) for each in (2, 4))
    result = ideal(work)
    assert result.makespan_ns == pytest.approx(work.step.peak_ns / 0.01 + shown, rel=1e-4)
    phases = {row["phase"]: row for row in result.phases().to_dicts()}
    assert sum(row["exposed_ns"] for row in phases.values()) == pytest.approx(result.makespan_ns)
    exposed = sum(phases[name]["exposed_ns"] for name in ("parameters", "gradients"))
    assert exposed == pytest.approx(shown, rel=1e-4)
    # All parameters at once, those of one bucket ahead: only the first gathering is exposed.
    ahead = ideal(step(4, zero=3, global_batch=8, buckets=8, efficiency=0.01))
    assert ahead.makespan_ns == pytest.approx(result.makespan_ns, rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"tp": 8}, {"zero": 0}, {"zero": 3},
        {"model": "mixtral-8x7b", "ep": 8, "sequence": 512, "global_batch": 8, "zero": 0},
    ],
    ids=str,
)  # fmt: skip
def test_formulas_within_a_machine_equal_messages(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"overlap": False, "buckets": 2, **options}
    fabric = weft.fabric("leaf-spine:leaves=8,spines=1,hosts=1,rate=400", node="dgx-h100")
    routes, places = weft.route(fabric, "minhop"), Places.of(fabric, np.arange(8))
    formula = step(8, places, **options)
    assert any("other traffic there does not slow" in note for note in formula.notes)
    monkeypatch.setattr(
        _Stage, "_alone_ns", lambda _, groups, __: 0.0 if groups.shape[1] == 1 else None
    )
    messages = step(8, places, **options)
    assert len(formula.messages) == 0 < len(messages.messages)
    assert not any("other traffic" in note for note in messages.notes)
    one, two = (
        weft.simulate(fabric, routes, work, level="flow", handshake=False)
        for work in (formula, messages)
    )
    assert one.makespan_ns == pytest.approx(two.makespan_ns, rel=1e-6)
    exposed = [
        {row["phase"]: row["exposed_ns"] for row in each.phases().to_dicts()} for each in (one, two)
    ]
    assert exposed[0] == pytest.approx(exposed[1], rel=1e-6)


def test_groups_on_several_machines_use_all_adapters() -> None:
    fabric = weft.fabric("leaf-spine:leaves=8,spines=8,hosts=2,rate=400", node="dgx-h100")
    routes, places = weft.route(fabric, "minhop"), Places.of(fabric, np.arange(16))
    options = {"model": "llama3-8b", "global_batch": 16, "buckets": 2, "overlap": False}
    work = step(16, places, **options)
    assert any("ring, simple" in note for note in work.notes)
    assert work.step is not None
    time_ns = weft.simulate(fabric, routes, work, level="flow").makespan_ns
    time_ns -= work.step.peak_ns / 0.6
    # 15 of 16 parts of the parameters and the gradients, over NVLink, which is slower than eight
    # adapters. NCCL's thread blocks copy at 85 % of its rate, and their steps add latencies.
    moved = 15 / 16 * 6 * MODELS["llama3-8b"].parameters() * 8
    assert moved / 2966.4 < time_ns < 1.3 * moved / 2966.4


def test_experts_are_sent_the_tokens_that_they_compute() -> None:
    options = {"model": "mixtral-8x7b", "sequence": 512, "global_batch": 16, "zero": 0}
    work = step(8, ep=4, tp=2, **options)
    # Of the tokens of a copy, half for each rank: two experts each, 3 of 4 on other ranks; there
    # and back, forwards and backwards, in 32 layers and 4 microbatches.
    sent = 8 * (512 // 2) * 2 * 3 // 4 * 4096 * 2
    assert volume(work, "expert parallel") == sent * 2 * 2 * 32 * 4
    model = MODELS["mixtral-8x7b"]
    experts = 32 * 8 * model.expert
    # Four ranks have the other parameters of a half in common, two those of an expert.
    expected = 2 * 4 * (3 * (model.parameters() - experts) + experts)
    assert volume(work, "gradients") == pytest.approx(expected, rel=1e-4)


def test_layers_exchange_activations_within_tensor_parallel_groups() -> None:
    work = step(8, tp=4, global_batch=8)
    # Two pairs of a gathering and a scattering for each layer and direction; 3 of 4 parts each.
    assert volume(work, "tensor parallel") == 8 * 3 * (512 // 4 * 1024 * 2) * 4 * 2 * 8 * 4
    ops = work.messages
    tensor = ops[work.phase[ops] == work.phase_names.index("tensor parallel")]
    assert np.all(work.rank[tensor] // 4 == work.peer[tensor] // 4)


@pytest.mark.parametrize("options", [{}, {"zero": 3}, {"chunks": 2}, {"ep": 2}], ids=str)
def test_all_ways_to_divide_a_model_end(options: dict[str, Any]) -> None:
    work = step(16, model="mixtral-8x7b", sequence=64, pp=4, tp=2, buckets=3, **options)
    assert np.all(np.isfinite(finish_times(work)))
    assert np.all(work.kind[work.match[work.messages]] == Kind.RECV)


def test_the_peak_is_that_of_the_gpu_of_the_machine() -> None:
    machine, ranks = machine_model("dgx-h100"), np.arange(4)
    speeds = [
        step(4, Places(ranks, ranks * 0, replace(machine, name=name)), **options).step
        for name, options in (("gb200-nvl72", {}), ("dgx-h100", {}), ("mine", {"flops": 1e15}))
    ]
    peaks = [1 / speed.peak_ns for speed in speeds if speed is not None]
    assert [peak / peaks[2] for peak in peaks] == pytest.approx([2.5, 0.9894, 1.0])
    with pytest.raises(NotApplicable, match="GPUs of mine is not known; give flops"):
        step(4, Places(ranks, ranks * 0, replace(machine, name="mine")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "llama3-80b"}, "unknown model .llama3-80b. .did you mean .llama3-8b"),
        ({"tp": 3}, "8 ranks cannot be divided by tp=3, pp=1$"),
        ({"tp": 2, "dp": 8}, "8 ranks cannot be divided by tp=2, pp=1 and dp=8"),
        ({"zero": 4}, "zero must be 0 to 3, not 4"),
        ({"efficiency": 0}, "efficiency must be above 0 and at most 1, not 0"),
        ({"flops": -1}, "flops must be above 0"),
        ({"global_batch": 12}, "12 sequences cannot be divided among 8 copies"),
        ({"chunks": 2}, "pp=1 stages"),
        ({"chunks": 2, "pp": 4, "global_batch": 4}, "pp=4 stages and 2 microbatches"),
        ({"pp": 8, "chunks": 2}, "even has 8 layers, fewer than 8 x 2 stages"),
        ({"ep": 2}, "the 0 experts of even"),
        ({"ep": 8, "pp": 2, "model": "mixtral-8x7b"}, "4 ranks of a stage .* ep=8"),
        ({"micro_batch": 0}, "micro_batch must be at least 1, not 0"),
    ],
    ids=str,
)  # fmt: skip
def test_plans_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, NotApplicable), match=message):
        step(8, **options)


def test_tensors_are_divided_between_heads() -> None:
    with pytest.raises(NotApplicable, match="the 8 heads of even cannot be divided by tp=16"):
        step(16, tp=16)


def test_too_many_messages_are_refused_before_they_are_made() -> None:
    with pytest.raises(NotApplicable, match=r"at most 16,777,216 are possible"):
        step(1024, model="llama3-405b", tp=8, pp=64, zero=0, global_batch=2048)
