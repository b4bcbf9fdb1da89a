from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.reference import contention as plain
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention import model as contention
from weft.sim.flow.contention.model import penalties, predict, predict_steps

MODELS = [
    INFINIBAND,
    PenaltyModel(out_offset=-0.25, out_weight=0.75, in_weight=0.5, balanced_weight=0.5),
    PenaltyModel(back_pressure=0.0, in_exponent=0.0, balanced_weight=1.0),
    PenaltyModel(back_pressure=0.375, full_rate_weight=2.0, in_exponent=0.5),
    PenaltyModel(out_weight=0.125, in_weight=0.125),
    PenaltyModel(back_pressure=0.5, out_weight=1.5, in_weight=2.0, full_rate_weight=0.5),
]


def random_graph(random: np.random.Generator) -> list[tuple[int, int]]:
    """Return a small graph: often with parallel edges, stars, and both directions of a pair."""
    nodes = int(random.integers(2, 9))
    edges = int(random.integers(1, 18))
    weight = random.random((nodes, nodes)) ** int(random.integers(1, 6))
    np.fill_diagonal(weight, 0)
    pairs = random.choice(nodes * nodes, size=edges, p=(weight / weight.sum()).ravel())
    return [(int(pair) // nodes, int(pair) % nodes) for pair in pairs]


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_penalties_agree_with_the_formula(model: PenaltyModel) -> None:
    random = np.random.default_rng(4)
    for _ in range(150):
        edges = random_graph(random)
        expected = [float(value) for value in plain.penalties(edges, model)]
        result = penalties(*zip(*edges, strict=True), model=model)
        np.testing.assert_allclose(result, expected, rtol=1e-12, err_msg=str(edges))


def test_every_rule_occurs_among_the_random_graphs() -> None:
    random = np.random.default_rng(4)
    changed = dict.fromkeys(("in_weight", "full_rate_weight", "balanced_weight"), 0)
    parallel = 0
    for _ in range(150):
        edges = random_graph(random)
        parallel += len(set(edges)) < len(edges)
        ends = list(zip(*edges, strict=True))
        usual = penalties(*ends)
        for name in changed:
            changed[name] += bool(
                np.any(usual != penalties(*ends, model=PenaltyModel(**{name: 0.625})))
            )
    assert parallel > 30
    assert min(changed.values()) >= 5, changed


@pytest.mark.parametrize("few", [0, 256], ids=["reached", "all"])
def test_completion_times_agree_with_exact_events(monkeypatch, few: int) -> None:
    """The kernel for large graphs, which recomputes only the edges an event affects, agrees too."""
    monkeypatch.setattr(contention, "_FEW_EDGES", few)
    random = np.random.default_rng(5)
    for round_ in range(60):
        edges = random_graph(random)
        count = len(edges)
        sizes = random.choice([0, 1000, 1000, 1000, 1500, 4096], size=count)
        starts = random.choice([0, 0, 0, 1, 2, 5, 40], size=count) * (round_ % 2)
        inverse = Fraction(1, 512)
        expected = plain.predict(
            edges, [Fraction(int(s)) for s in sizes], [Fraction(int(s)) for s in starts], inverse
        )
        ends = list(zip(*edges, strict=True))
        result = predict(*ends, sizes, starts, float(inverse))
        np.testing.assert_allclose(result, [float(t) for t in expected], rtol=1e-9)
        steps = predict_steps(*ends, sizes, starts, float(inverse))
        np.testing.assert_allclose(steps.completion_s, result, rtol=1e-12)
        # Summed over all steps, an edge sends its size (equation 2).
        start = np.concatenate([[starts.min()], steps.end_s[:-1]]) if len(steps.end_s) else []
        lasted = np.zeros(count)
        for begin, end, rho in zip(start, steps.end_s, steps.penalty, strict=True):
            begins = max(begin, *(starts[~np.isnan(rho)]))
            lasted += np.nan_to_num((end - begins) / rho) / float(inverse)
        np.testing.assert_allclose(lasted, sizes, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("few", [0, 256], ids=["reached", "all"])
@pytest.mark.parametrize("far", [0, 1_700_000_000, 10**13])
def test_times_do_not_depend_on_when_the_clock_began(monkeypatch, few: int, far: int) -> None:
    """Microseconds stay exact beside an edge that lasts days, and on a clock that began in 1970."""
    monkeypatch.setattr(contention, "_FEW_EDGES", few)
    random = np.random.default_rng(6)
    edges = [*random_graph(random), *random_graph(random), (20, 0), (20, 21)]
    ends = list(zip(*edges, strict=True))
    count = len(edges)
    sizes = random.choice([512, 1000, 4096], size=count).astype(float)
    sizes[-1] = 2.0**50  # lasts throughout
    starts = far + random.choice([0, 0, 2**12, 2**20], size=count).astype(float)
    inverse = Fraction(1, 2**30)
    expected = plain.predict(
        edges, [Fraction(s) for s in sizes], [Fraction(s) for s in starts], inverse
    )
    short = predict_steps(*ends, sizes, starts, float(inverse), recorded=False)
    exact = [float(end - Fraction(start)) for end, start in zip(expected, starts, strict=True)]
    np.testing.assert_allclose(short.elapsed_s, exact, rtol=1e-12)
    # The only error is one rounding of the clock time.
    np.testing.assert_allclose(short.completion_s, [float(t) for t in expected], rtol=2.3e-16)
    steps = predict_steps(*ends, sizes, starts, float(inverse))
    np.testing.assert_allclose(steps.elapsed_s, exact, rtol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_both_kernels_agree_on_graphs_of_hundreds_of_edges(monkeypatch, model) -> None:
    random = np.random.default_rng(7)
    source = random.integers(40, size=300)
    destination = (source + random.integers(1, 40, size=300)) % 40
    sizes, starts = random.integers(0, 1000, size=300), random.integers(0, 30, size=300) * 1e-8
    result = []
    for few in (0, 1000):
        monkeypatch.setattr(contention, "_FEW_EDGES", few)
        result.append(
            predict_steps(source, destination, sizes, starts, model=model, recorded=False)
        )
    for one, other in zip(*((each.completion_s, each.elapsed_s) for each in result), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
