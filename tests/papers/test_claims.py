from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from weft_papers.claims import (
    Claim,
    ClaimComparison,
    ClaimFinding,
    NotMeasured,
    OutOfScope,
    Verdict,
    headline,
    hold,
    interval,
    judge,
    reason,
    spread_over,
    vote,
)


def test_the_interval_uses_students_t() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.5])
    mean, half = interval(values)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert interval(np.array([[3.0, 4.0]])) == (pytest.approx([3.0, 4.0]), pytest.approx([0, 0]))


@pytest.mark.parametrize(
    ("values", "wanted", "verdict"),
    [
        ([-1.0, -1.1, -0.9], "below", Verdict.HOLDS),
        ([-1.0, -1.1, -0.9], "above", Verdict.FAILS),
        ([-1.0, 1.1, 0.2], "below", Verdict.UNDECIDED),
        ([-1.0, 1.1, 0.2], "above", Verdict.UNDECIDED),
        ([-0.5, -0.5, -0.5], "below", Verdict.HOLDS),  # no variation: no uncertainty
        ([0.0, 0.0, 0.0], "below", Verdict.FAILS),  # a tie is not lower
        ([0.0, 0.0, 0.0], "above", Verdict.FAILS),
        ([0.0, 0.0, 0.0], "zero", Verdict.HOLDS),
        ([0.1, -0.1, 0.0], "zero", Verdict.FAILS),  # the mean is zero, the values are not
    ],
)
def test_verdict_of_one_comparison(values: list[float], wanted: str, verdict: Verdict) -> None:
    assert ClaimComparison.of("x", np.array(values), wanted).verdict is verdict  # type: ignore[arg-type]


def test_a_claim_is_as_good_as_its_worst_comparison() -> None:
    below = (-np.inf, 0.0)
    clear = ClaimComparison("clear", -1.0, 0.1, below, 30)
    close = ClaimComparison("close", -1.0, 0.9, below, 30)
    doubtful = ClaimComparison("doubtful", -1.0, 1.5, below, 30)
    wrong = ClaimComparison("wrong", 0.001, 0.0001, below, 30)
    assert judge([clear, close], "").verdict is Verdict.HOLDS
    assert judge([clear, close], "").deciding is close
    assert judge([doubtful, clear, close], "").verdict is Verdict.UNDECIDED
    actual = judge([clear, doubtful, wrong, close], "numbers")
    assert (actual.verdict, actual.deciding, actual.comparisons) == (Verdict.FAILS, wrong, 4)
    assert actual.against == (doubtful, wrong)
    assert actual.measured == "numbers"


RANGE = (0.95, 1.05)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0], Verdict.HOLDS),
        ([1.05], Verdict.HOLDS),  # ends are included
        ([1.06], Verdict.FAILS),  # a single value has no interval
        ([0.9], Verdict.FAILS),
        ([1.0, 1.01, 0.99], Verdict.HOLDS),
        ([1.0, 1.05, 0.95], Verdict.UNDECIDED),
        ([1.2, 1.21, 1.22], Verdict.FAILS),
        ([0.8, 0.81, 0.79], Verdict.FAILS),
    ],
)
def test_a_range_has_two_ends(values: list[float], verdict: Verdict) -> None:
    assert ClaimComparison.of("x", np.array(values), RANGE).verdict is verdict


@pytest.mark.parametrize(
    ("possible", "settles", "value", "verdict"),
    [
        ((1.2, 2.0), True, 1.3, Verdict.CANNOT_TELL),  # every possible value is above the range
        ((0.1, 0.9), True, 0.8, Verdict.CANNOT_TELL),
        (
            (1.05, 2.0),
            True,
            1.3,
            Verdict.FAILS,
        ),  # a value in the range is possible but not measured
        ((1.0, 1.0), True, 1.3, Verdict.HOLDS),  # the only possible value, whatever the draws
        ((0.9, 1.1), True, 1.0, Verdict.HOLDS),
        ((0.9, 1.1), True, 1.3, Verdict.FAILS),
        ((-np.inf, np.inf), False, 1.0, Verdict.CANNOT_TELL),
        ((-np.inf, np.inf), False, 1.3, Verdict.FAILS),
    ],
)
def test_a_claim_outside_the_range_of_the_model_cannot_be_judged(
    possible: tuple[float, float], settles: bool, value: float, verdict: Verdict
) -> None:
    actual = ClaimComparison.of(
        "x", np.array([value]), RANGE, possible=possible, settles=settles, because="so it is"
    )
    assert actual.verdict is verdict
    free = ClaimComparison.of("y", np.array([1.0]), RANGE)
    finding = judge([free, actual], "")
    assert finding.verdict is verdict
    explained = verdict is Verdict.CANNOT_TELL or possible == (1.0, 1.0)
    assert finding.because == ("so it is" if explained and finding.deciding is actual else "")
    # A refuted comparison decides, even beside one that cannot be judged.
    wrong = ClaimComparison.of("z", np.array([2.0]), RANGE)
    assert judge([actual, wrong], "").verdict is Verdict.FAILS


H, F, T, N = Verdict.HOLDS, Verdict.FAILS, Verdict.CANNOT_TELL, Verdict.NOT_MEASURED


@pytest.mark.parametrize(
    ("verdicts", "verdict", "detail"),
    [
        ([F, H, H], H, "2 of 3 choices"),
        ([F, F, T, F], F, "3 of 4 choices"),
        ([H, F], Verdict.UNDECIDED, "holds 1 of 2, does not hold 1 of 2"),
        ([H, H, F, F, T], Verdict.UNDECIDED, "holds 2 of 5, does not hold 2 of 5, "),
        ([H, H, N], H, "2 of 3 choices"),
        ([H, N], N, "1 of 2 choices"),  # the choice not measured would decide
        ([H, F, N], N, "1 of 3 choices"),
    ],
)
def test_a_majority_is_more_than_half(
    verdicts: list[Verdict], verdict: Verdict, detail: str
) -> None:
    actual = vote({place: ClaimFinding(each, "", ()) for place, each in enumerate(verdicts)})
    assert actual.verdict is verdict
    assert str(actual).startswith(detail)


def test_a_claim_of_many_comparisons_does_not_fail_by_chance() -> None:
    # Without any difference, one of a hundred intervals is likely to miss zero.
    random = np.random.default_rng(1)
    fallen = 0
    for _ in range(100):
        noise = random.normal(size=(100, 30))
        actual = judge([ClaimComparison.of("noise", values, "below") for values in noise], "")
        fallen += actual.verdict is Verdict.FAILS
    assert fallen <= 10
    worse = [*noise[1:], random.normal(2.0, 1.0, 30)]
    actual = judge([ClaimComparison.of("worse", values, "below") for values in worse], "")
    assert actual.verdict is Verdict.FAILS


def test_every_basis_is_tested() -> None:
    claim = Claim(
        "rises",
        "1",
        "It rises",
        "above 0",
        lambda evidence, basis: [ClaimComparison.of("up", evidence[basis], "above")],
        lambda evidence, basis: f"{len(evidence[basis])} values",
        lambda evidence, findings: ", ".join(findings[basis].verdict for basis in sorted(findings)),
    )
    evidence = {"a": np.array([1.0, 1.1, 1.2]), "b": np.array([-1.0, -1.1, -1.2])}
    (result,) = hold([claim], evidence, ["a", "b"])
    assert result.findings["a"].verdict is Verdict.HOLDS
    assert result.findings["b"].verdict is Verdict.FAILS
    assert result.comment == "holds, does not hold"
    assert (headline(result), reason(result)) == (result.findings["a"], "")
    assert spread_over(result) == pytest.approx((-1.1, 1.1))
    # For each basis, the spread has the mean of the condition that decides its verdict.
    others = [
        ClaimComparison(name, mean, 0.0, (1.0, np.inf), 1) for name, mean in (("x", 2), ("y", 3))
    ]
    low = [others[0], replace(others[1], mean=0.5)]
    result = replace(result, findings={"a": judge(others, ""), "b": judge(low, "")})
    assert spread_over(result) == (0.5, 2)


def test_missing_evidence_is_listed_and_unrequested_bases_are_left_out() -> None:
    def compare(evidence: object, basis: str) -> list[ClaimComparison]:
        raise {"interrupted": NotMeasured("x at 3"), "not asked": OutOfScope("x at 3")}[basis]

    claim = Claim("c", "1", "c", "c", compare, lambda *_: "", lambda *_: "no comment")
    (result,) = hold([claim], None, ["not asked", "interrupted"])
    assert list(result.findings) == ["interrupted"]
    assert result.findings["interrupted"].measured == "not measured: x at 3"
    assert vote(result.findings).verdict is Verdict.NOT_MEASURED
    assert (spread_over(result), reason(result)) == ((None, None), "")
    assert hold([claim], None, ["not asked"]) == ()
