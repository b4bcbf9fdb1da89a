from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from weft.papers.claims import Claim, Comparison, Verdict, hold, interval, judge


def test_interval_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.5])
    mean, half = interval(values)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("values", "wanted", "verdict"),
    [
        ([-1.0, -1.1, -0.9], "below", Verdict.HOLDS),
        ([-1.0, -1.1, -0.9], "above", Verdict.FAILS),
        ([-1.0, 1.1, 0.2], "below", Verdict.UNDECIDED),
        ([-1.0, 1.1, 0.2], "above", Verdict.UNDECIDED),
        ([-0.5, -0.5, -0.5], "below", Verdict.HOLDS),  # no spread: no doubt
        ([0.0, 0.0, 0.0], "below", Verdict.FAILS),  # a tie is not lower
        ([0.0, 0.0, 0.0], "above", Verdict.FAILS),
        ([0.0, 0.0, 0.0], "zero", Verdict.HOLDS),
        ([0.1, -0.1, 0.0], "zero", Verdict.FAILS),  # a mean of zero is not constancy
    ],
)
def test_verdict_of_one_comparison(values: list[float], wanted: str, verdict: Verdict) -> None:
    assert Comparison.of("x", np.array(values), wanted).verdict is verdict  # type: ignore[arg-type]


def test_a_claim_is_as_good_as_its_worst_comparison() -> None:
    clear = Comparison("clear", -1.0, 0.1, "below", 30)
    close = Comparison("close", -1.0, 0.9, "below", 30)
    doubtful = Comparison("doubtful", -1.0, 1.5, "below", 30)
    wrong = Comparison("wrong", 0.001, 0.0001, "below", 30)
    assert judge([clear, close], "").verdict is Verdict.HOLDS
    assert judge([clear, close], "").deciding is close
    assert judge([doubtful, clear, close], "").verdict is Verdict.UNDECIDED
    found = judge([clear, doubtful, wrong, close], "numbers")
    assert (found.verdict, found.deciding, found.comparisons) == (Verdict.FAILS, wrong, 4)
    assert found.against == (doubtful, wrong)
    assert found.measured == "numbers"


def test_a_claim_of_many_comparisons_does_not_fall_by_chance() -> None:
    # With no difference at all, one of a hundred intervals is likely to miss zero.
    random = np.random.default_rng(1)
    fallen = 0
    for _ in range(100):
        noise = random.normal(size=(100, 30))
        found = judge([Comparison.of("noise", values, "below") for values in noise], "")
        fallen += found.verdict is Verdict.FAILS
    assert fallen <= 10
    worse = [*noise[1:], random.normal(2.0, 1.0, 30)]
    found = judge([Comparison.of("worse", values, "below") for values in worse], "")
    assert found.verdict is Verdict.FAILS


def test_every_basis_is_tested() -> None:
    claim = Claim(
        "rises",
        "1",
        "It rises",
        "above 0",
        lambda evidence, basis: [Comparison.of("up", evidence[basis], "above")],
        lambda evidence, basis: f"{len(evidence[basis])} values",
        lambda evidence, findings: ", ".join(findings[basis].verdict for basis in sorted(findings)),
    )
    evidence = {"a": np.array([1.0, 1.1, 1.2]), "b": np.array([-1.0, -1.1, -1.2])}
    (result,) = hold([claim], evidence, ["a", "b"])
    assert result.findings["a"].verdict is Verdict.HOLDS
    assert result.findings["b"].verdict is Verdict.FAILS
    assert result.comment == "holds, does not hold"
