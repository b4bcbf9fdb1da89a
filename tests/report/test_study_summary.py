"""The summary of a study: its points, the best, averages, and runs without a result."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats
from tests.studies import ENGINES, FABRICS, LOADS, MEASURES, study, with_failures

from weft.core.columns import Measure
from weft.core.counts import count_text, with_status
from weft.core.errors import InputError
from weft.report import study_figures
from weft.report.statistics import holm
from weft.report.study_data import StudyData
from weft.report.study_page import render_study
from weft.report.study_summary import chosen, summary
from weft.report.study_text import (
    Shown,
    answers,
    completeness,
    digits,
    question,
    ratio_text,
    shown,
    version_notes,
    warnings,
    with_interval,
)


def sentences(data: StudyData) -> list[str]:
    return ["".join(each) for each in answers(summary(data))]


def test_points_and_baseline_are_those_of_the_runs() -> None:
    data = study()
    made = summary(data)
    assert made.points.height == 24 * len(MEASURES)
    row = made.points.row(
        by_predicate=(pl.col("fabric") == FABRICS[2])
        & (pl.col("engine") == "nue")
        & (pl.col("load") == "0.6")
        & (pl.col("measure") == "makespan_ns"),
        named=True,
    )

    def values(engine: str) -> np.ndarray:
        here = data.runs.filter(fabric=FABRICS[2], engine=engine, load="0.6").sort("seed")
        return here["makespan_ns"].to_numpy()

    assert (row["n"], row["mean"]) == (5, pytest.approx(values("nue").mean()))
    assert row["ratio"] == pytest.approx(np.exp(np.log(values("nue") / values("minhop")).mean()))
    own = made.points.filter(engine="minhop", measure="makespan_ns")
    assert own["ratio"].to_list() == pytest.approx([1.0] * 8)
    assert own["p"].is_null().all()
    assert not made.uncompared
    # The p-values are those of all 16 comparisons of the measure.
    raw = []
    for (fabric, load), part in data.runs.group_by("fabric", "load"):
        logs = {
            engine: np.log(part.filter(engine=engine).sort("seed")["makespan_ns"].to_numpy())
            for engine in ENGINES
        }
        for engine in ("dfsssp", "nue"):
            p = stats.ttest_rel(logs[engine], logs["minhop"]).pvalue
            raw.append((fabric, engine, load, p))
    adjusted = dict(
        zip([each[:3] for each in raw], holm(np.array([p for *_, p in raw])), strict=True)
    )
    others = made.points.filter(pl.col("engine") != "minhop", measure="makespan_ns")
    for row in others.iter_rows(named=True):
        assert row["p"] == pytest.approx(adjusted[row["fabric"], row["engine"], row["load"]])
    # Compared with one fabric, whatever the engine.
    other = summary(chosen(data, baseline={"fabric": FABRICS[3]})).points
    known = other.filter(fabric=FABRICS[0], measure="makespan_ns")
    assert (known["ratio_high"] < 1).all()
    assert known["significant"].all()


def test_best_is_sought_on_average_and_under_each_condition() -> None:
    best = summary(study()).best.filter(measure="makespan_ns")
    assert best["under"].to_list() == ["", "load 0.3", "load 0.6"]
    assert best["conditions"].to_list() == [2, 1, 1]
    assert best["best"].unique().to_list() == [f"{FABRICS[0]} · dfsssp"]
    assert best["runner_up"].unique().to_list() == [f"{FABRICS[0]} · nue"]
    # The best is chosen from the same results: the family is all pairs of all three rows.
    assert best["significant"].to_list() == [True, False, False]
    assert best["not_worse"].to_list() == [0, 1, 1]
    assert best["choices"].to_list() == [12, 12, 12]
    # The average is smaller than the mean of the higher load, larger than that of the lower one.
    average, low, high = best["mean"].to_list()
    assert average == pytest.approx((low * high) ** 0.5, rel=1e-3)
    # Without conditions, the lower load is a choice.
    plain = summary(study(conditions=())).best.filter(measure="makespan_ns")
    assert plain["best"].to_list() == [f"{FABRICS[0]} · dfsssp · load 0.3"]


def test_higher_is_better_for_some_measures_and_ties_are_counted() -> None:
    best = summary(study()).best
    row = best.filter(measure="accepted_load", under="load 0.6").row(0, named=True)
    assert row["mean"] > row["runner_up_mean"]
    assert row["ratio"] < 1
    cost = best.filter(measure="cost_usd", under="").row(0, named=True)
    assert (cost["equal"], cost["mean"]) == (2, pytest.approx(18_000))
    assert cost["runner_up"].startswith(FABRICS[1])
    assert not cost["not_worse"]
    assert "messages" not in best["measure"].to_list()  # neither is better


def test_averages_over_axes_are_balanced() -> None:
    effects = summary(study()).effects.filter(measure="makespan_ns")
    engines = effects.filter(axis="engine")
    assert engines["value"].to_list() == list(ENGINES)
    assert engines["best"].to_list() == [False, True, False]
    # The effects of engines in the synthetic study are 0.12, 0 and 0.03.
    assert np.log(engines["ratio"].to_numpy()) == pytest.approx([0.12, 0, 0.03], abs=0.01)
    assert engines["combinations"].to_list() == [8, 8, 8]
    # nue fails on the torus, whose high times must not count for the other engines only.
    failing = summary(with_failures(study())).effects.filter(measure="makespan_ns", axis="engine")
    assert failing["combinations"].to_list() == [6, 6, 6]
    assert np.log(failing["ratio"].to_numpy()) == pytest.approx([0.12, 0, 0.03], abs=0.02)


def test_runs_without_a_result_are_listed_and_not_averaged() -> None:
    data = with_failures(study())
    made = summary(data)
    statuses = data.runs["status"].value_counts()
    counted = dict(statuses.filter(pl.col("status") != "complete").iter_rows())
    listed = made.unfinished.group_by("status").agg(pl.col("runs").sum())
    assert dict(listed.iter_rows()) == counted
    row = made.unfinished.filter(status="does not fit").row(0, named=True)
    assert row["reason"] == "nue needs 2 lanes; the fabric has 1"
    assert row["where"] == f"{FABRICS[3]} · nue"
    seen = made.unfinished.row(0, named=True)
    assert (seen["status"], seen["others"]) == ("failed", 0)
    total = sum(counted.values())
    assert completeness(made).startswith(f"{120 - total} of 120 runs are complete: ")
    first = made.points.row(0, named=True)
    here = data.runs.filter(fabric=first["fabric"], engine=first["engine"], load=first["load"])
    assert first["n"] == (here["status"] == "complete").sum() == 3
    assert first["note"] == "3 of 5 runs: 1 failed, 1 partial"
    # A partial run has values, which are those of a part.
    complete = here.filter(status="complete")["makespan_ns"].mean()
    assert first["mean"] == pytest.approx(complete)
    best = made.best.filter(measure="makespan_ns", under="").row(0, named=True)
    # One choice does not fit, and seven have partial runs.
    assert (best["choices"], best["left_out"]) == (4, 8)
    assert any("8 of 12 choices lack runs that count, and are" in text for text in sentences(data))


def test_reasons_that_differ_in_numbers_are_one_group() -> None:
    data = study()
    reasons = pl.format("deadlock after {} ns: 3 packets", pl.col("run") * 1.5)
    runs = data.runs.with_columns(
        status=pl.when(pl.col("run") < 6).then(pl.lit("failed")).otherwise("status"),
        reason=pl.when(pl.col("run") < 6).then(reasons),
    )
    (row,) = summary(replace(data, runs=runs)).unfinished.to_dicts()
    assert (row["runs"], row["others"]) == (5, 4)
    assert row["reason"] == "deadlock after 1.5 ns: 3 packets"


def test_a_point_that_lacks_seeds_says_so() -> None:
    data = study()
    made = summary(replace(data, runs=data.runs.filter(pl.col("run") != 7)))
    assert [note for note in made.notes if note] == ["4 of 5 runs: 1 missing"]
    assert "1 of 24 points lack runs" in completeness(made)


def test_seeds_without_effect_are_told() -> None:
    data = study()
    assert "equal" not in completeness(summary(data))
    runs = data.runs.with_columns(pl.col("key").first().over(list(data.axes)))
    text = completeness(summary(replace(data, runs=runs)))
    assert "96 runs are equal to others and are computed once: nothing random differs." in text


def test_several_versions_are_told() -> None:
    assert version_notes(replace(study(), versions={"0.1.0": 120})) == []
    (note,) = version_notes(replace(study(), versions={"0.2.0": 100, "0.1.0": 20}))
    assert "0.1.0 (20 runs), 0.2.0 (100 runs)" in note


def test_a_study_without_seeds_has_no_intervals() -> None:
    made = summary(study(seeds=0))
    assert made.seeds == 1
    for table, interval in ((made.points, "ci95"), (made.best, "low")):
        for name in (interval, "ratio_low", "p", "significant"):
            assert table[name].is_null().all()
    assert made.points["ratio"].null_count() == 0
    assert all("one run: no interval" in text for text in sentences(study(seeds=0)))


def test_nothing_is_best_without_a_choice() -> None:
    texts = sentences(study({"engine": ("minhop",)}))
    assert texts[2] == "Cost (lower is better): 40,000 USD (n = 5, all equal: no interval)."
    assert not any("best" in text for text in texts)


def test_question_and_answers_are_sentences() -> None:
    made = summary(study())
    text = question(made)
    assert "varies fabric (4), engine (3) and load (2), 5 seeds: 24 points and 120 runs" in text
    assert "The baseline is engine = minhop." in text
    time, load, cost = sentences(study())
    assert time.startswith(f"Makespan (lower is better): {FABRICS[0]} · dfsssp is best on average")
    assert "the difference is significant by a paired t-test by seed (p = 0.020, Holm)" in time
    assert "not significant" in load
    assert "72 % higher for every seed" in cost
    absent = summary(replace(study(), baseline={"engine": "lash"}))
    assert "The baseline is engine = lash, but no run is compared with it." in question(absent)


def test_no_complete_run_at_all() -> None:
    data = study()
    none = data.runs.with_columns(
        pl.lit("failed").alias("status"),
        pl.lit("out of luck").alias("reason"),
        *(pl.lit(None, pl.Float64).alias(measure.name) for measure in data.measures),
    )
    made = summary(replace(data, runs=none))
    assert made.best["best"].is_null().all()
    assert all("no choice has a result" in text for text in sentences(replace(data, runs=none)))


def test_a_run_may_lack_an_axis() -> None:
    """A flit-level run has a routing function instead of an engine."""
    data = study({"engine": ("minhop", "dfsssp"), "load": LOADS})
    runs = data.runs.with_columns(
        engine=pl.when(pl.col("engine") == "dfsssp").then(pl.lit("")).otherwise("engine"),
        routing=pl.when(pl.col("engine") == "dfsssp").then(pl.lit("dor")).otherwise(pl.lit("")),
    )
    axes = {"engine": ("minhop",), "routing": ("dor",), "load": LOADS}
    made = summary(replace(data, runs=runs, axes=axes))
    assert made.best["best"].drop_nulls().unique().sort().to_list() == ["dor", "minhop"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"measures": ("makespan",)}, "has no measure 'makespan' (did you mean 'makespan_ns'?)"),
        ({"baseline": {"engin": "nue"}}, "has no axis 'engin' (did you mean 'engine'?)"),
        ({"baseline": {"engine": "lash"}}, "axis engine has no value 'lash'; expected minhop"),
        ({"where": {"load": ["0.9"]}}, "axis load has no value '0.9'; expected 0.3, 0.6"),
    ],
)
def test_unknown_names_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        chosen(study(), **arguments)
    assert message in str(caught.value)


def test_parts_of_a_study() -> None:
    data = chosen(
        study(), ("cost_usd", "makespan_ns"), where={"load": ["0.6"], "engine": ["nue", "minhop"]}
    )
    made = summary(data)
    assert list(made.axes) == ["fabric", "engine"]
    assert len(made.labels) == 8
    assert made.best["measure"].to_list() == ["cost_usd", "makespan_ns"]
    with pytest.raises(InputError, match="has no runs"):
        summary(replace(data, runs=data.runs.head(0)))


def test_numbers_as_text() -> None:
    made = summary(study())
    scale = shown(made, MEASURES[0])
    assert (scale.heading, scale.factor) == ("makespan (µs)", 1e3)
    assert with_interval(123_456.0, 1_234.0, scale) == "123.5 ± 1.2 µs"
    assert with_interval(123_456.0, 123_400.0, scale) == "123 ± 123 µs"
    assert with_interval(123_456.0, None, scale) == "123.5 µs"
    assert with_interval(None, None, scale) == "–"
    assert [digits(v) for v in (0.0, 421.0, 0.12346, 52_000.4, 1e-6, None)] == [
        "0", "421", "0.1235", "52,000", "1e-06", "–"
    ]  # fmt: skip
    row = {"ratio": 1.5, "ratio_low": 1.25, "ratio_high": 1.75}
    assert ratio_text(row) == "1.500 (1.250 to 1.750)"
    assert ratio_text(row | {"ratio_low": None}) == "1.500"


def test_a_wide_interval_has_plain_numbers() -> None:
    data = study()
    wide = pl.col("makespan_ns") * pl.lit(2.0) ** (pl.col("run") * 7 % 11)
    text = " ".join(sentences(replace(data, runs=data.runs.with_columns(wide))))
    assert "e+" not in text
    assert re.search(r"interval [+−][\d.,]+ % to \+[\d,]{3,} %", text)


def test_shares_and_single_runs_have_no_odd_units() -> None:
    assert with_interval(0.5, 0.1, Shown("uniform", "share", 1.0)) == "0.50 ± 0.10"
    assert count_text(1, "run") == "1 run"
    assert count_text(2000, "study") == "2,000 studies"
    assert count_text(2, "switch") == "2 switches"
    assert count_text(2, "path") == "2 paths"
    assert with_status(20, "does not fit") == "20 do not fit"
    assert with_status(1, "does not fit") == "1 does not fit"


def same_runs(data: StudyData, chosen: pl.Expr) -> StudyData:
    """Return a study in which the seed changes nothing for some runs: they have one key."""
    point = list(data.axes)
    first = [
        pl.when(chosen).then(pl.col(name).first().over(point)).otherwise(name).alias(name)
        for name in ("key", *(measure.name for measure in data.measures))
    ]
    return replace(data, runs=data.runs.with_columns(first))


def test_runs_between_which_nothing_random_differs_are_one_run() -> None:
    data = study()
    made = summary(same_runs(data, pl.lit(True)))
    for table, interval in ((made.points, "ci95"), (made.best, "low"), (made.effects, "low")):
        for name in (interval, "ratio_low", "p", "significant"):
            assert table[name].is_null().all()
        assert table["n"].unique().to_list() == [1]
        assert table["deterministic"].all()
    assert set(made.best["test"]) == {"deterministic"}
    assert made.points["test"].unique().sort().to_list() == ["", "deterministic"]
    for text in map("".join, answers(made)):
        assert "(deterministic" in text
        assert "±" not in text
        assert "p " not in text.partition("Next is")[2]
    # A deterministic engine compared with others is a constant.
    mixed = summary(same_runs(data, pl.col("engine") == "minhop"))
    row = mixed.points.filter(
        fabric=FABRICS[0], engine="nue", load="0.6", measure="makespan_ns"
    ).row(0, named=True)
    here = mixed.data.runs.filter(fabric=FABRICS[0], load="0.6")
    constant = here.filter(engine="minhop")["makespan_ns"][0]
    expected = stats.ttest_1samp(
        np.log(here.filter(engine="nue")["makespan_ns"].to_numpy() / constant), 0
    ).confidence_interval()
    assert (row["test"], row["n"]) == ("one-sample", 5)
    assert np.log([row["ratio_low"], row["ratio_high"]]) == pytest.approx(list(expected))


def test_equal_values_of_different_draws_are_repetitions() -> None:
    """Something random was drawn, and the figures are equal by chance."""
    data = study(noise=0.0)
    made = summary(data)
    row = made.points.filter(measure="makespan_ns").row(5, named=True)
    assert (row["n"], row["deterministic"], row["test"]) == (5, False, "no variation")
    assert row["ci95"] is row["p"] is row["significant"] is None
    time = sentences(data)[0]
    assert "n = 5, all equal: no interval" in time
    assert "higher for every seed." in time
    # A study may know that its seeds change some measures only.
    known = summary(replace(study(), fixed=lambda keys: {"cost_usd"}))
    found = dict(known.points.group_by("measure").agg(pl.col("n").unique()).iter_rows())
    assert found == {name: [1] if name == "cost_usd" else [5] for name in found}


def test_excluded_runs_are_counted_and_not_averaged() -> None:
    data = study()
    full = data.runs.filter(pl.col("load") == "0.6", pl.col("fabric") == FABRICS[0])
    every = full.filter(engine="dfsssp")["key"].to_list()
    some = full.filter(engine="nue")["key"].to_list()[:2]
    why = ("saturated", ["makespan_ns"])
    made = summary(replace(data, excluded=dict.fromkeys([*every, *some], why)))
    points = made.points.filter(measure="makespan_ns", fabric=FABRICS[0], load="0.6")
    rows = {row["engine"]: row for row in points.iter_rows(named=True)}
    assert (rows["dfsssp"]["n"], rows["dfsssp"]["excluded"], rows["dfsssp"]["mean"]) == (0, 5, None)
    assert (rows["nue"]["n"], rows["nue"]["excluded"]) == (3, 2)
    assert rows["nue"]["note"] == "2 saturated"
    others = full.filter(pl.col("engine") == "nue", ~pl.col("key").is_in(some))["makespan_ns"]
    assert rows["nue"]["mean"] == pytest.approx(others.mean())
    # Their accepted loads count.
    accepted = made.points.filter(measure="accepted_load")
    assert accepted["n"].unique().to_list() == [5]
    best = made.best.filter(measure="makespan_ns", under="").row(0, named=True)
    assert (best["excluded"], best["left_out"]) == (7, 2)
    texts = sentences(made.data)
    assert "7 runs do not count: saturated." in texts[0]
    assert "do not count" not in texts[1]
    assert "7 runs are saturated and do not count for makespan." in completeness(made)


def test_missing_runs_are_complete_cases_and_are_printed() -> None:
    data = study()
    lost = (pl.col("load") == "0.3") & (pl.col("fabric") == FABRICS[0]) & (pl.col("seed") == 0)
    made = summary(replace(data, runs=data.runs.filter(~lost)))
    row = made.best.filter(measure="makespan_ns", under="").row(0, named=True)
    assert (row["n"], row["missing"], row["compared"]) == (4, 1, 4)
    mine = data.runs.filter(fabric=FABRICS[0], engine="dfsssp").sort("load", "seed")
    logs = np.log(mine["makespan_ns"].to_numpy()).reshape(2, 5)[:, 1:]
    assert row["mean"] == pytest.approx(np.exp(logs.mean()))
    assert "(n = 4, lacks 1 run). Next is" in sentences(made.data)[0]
    assert "(lacks 1 run)" in sentences(made.data)[0]


def test_an_answer_has_one_mean() -> None:
    """The next is never better than the best, also if other means have another order."""
    measure = (Measure("makespan_ns", "ns", "Time.", "lower"),)
    data = study({"engine": ENGINES[:2]}, seeds=2, measures=measure)
    times = [10.0, 90.0, 40.0, 45.0]
    made = summary(replace(data, runs=data.runs.with_columns(makespan_ns=pl.Series(times))))
    row = made.best.row(0, named=True)
    assert (row["best"], row["ratio"] > 1) == ("minhop", True)
    assert row["ratio"] == pytest.approx(row["runner_up_mean"] / row["mean"])


def of_engines(*times: list[float | None]) -> StudyData:
    """Return a study of engines with these times; None is a run that is lost."""
    measure = (Measure("makespan_ns", "ns", "Time.", "lower"),)
    data = study({"engine": ENGINES[: len(times)]}, seeds=len(times[0]), measures=measure)
    values = pl.Series("makespan_ns", [time for each in times for time in each], pl.Float64)
    status = pl.when(values.is_null()).then(pl.lit("lost")).otherwise("status")
    return replace(data, runs=data.runs.with_columns(values, status=status))


def test_choices_are_ranked_over_the_seeds_that_all_have() -> None:
    """A choice that lacks its slowest run is not best for that."""
    data = of_engines([105, 115, None], [100, 110, 200])
    row = summary(data).best.row(0, named=True)
    assert (row["best"], row["n"], row["missing"]) == ("dfsssp", 2, 0)
    assert (row["runner_up"], row["runner_up_missing"]) == ("minhop", 1)
    assert row["mean"] == pytest.approx((100 * 110) ** 0.5)
    assert row["ratio"] == pytest.approx(row["runner_up_mean"] / row["mean"])
    assert "over the 2 seeds that all compared choices have (lacks 1 run)" in sentences(data)[0]
    # One with a single seed would leave no test of the others.
    row = summary(of_engines([90, None, None], [105, 116, 213], [100, 110, 200])).best.row(
        0, named=True
    )
    assert (row["best"], row["runner_up"], row["n"]) == ("nue", "dfsssp", 3)
    assert (row["choices"], row["left_out"]) == (2, 1)
    # Without a common seed each has its own, also if two have some in common.
    data = of_engines(
        [100, 110, 120, 130, None, None],
        [None, None, 115, 125, 200, 210],
        [300, 310, None, None, 320, 330],
    )
    row = summary(data).best.row(0, named=True)
    assert (row["best"], row["runner_up"], row["choices"]) == ("minhop", "dfsssp", 3)
    assert (row["test"], row["compared"]) == ("Welch", 8)
    assert row["ratio"] == pytest.approx(row["runner_up_mean"] / row["mean"])


def test_a_measure_with_a_value_that_is_not_positive_has_no_ratios() -> None:
    measure = (Measure("makespan_ns", "ns", "Time.", "lower"),)
    data = study({"engine": ENGINES[:2], "load": LOADS}, seeds=3, measures=measure)
    times = np.array([[[0, 10, 20], [10, 11, 12]], [[15, 16, 17], [20, 22, 25]]], float)
    runs = data.runs.with_columns(makespan_ns=pl.Series(times.ravel()))
    made = summary(replace(data, runs=runs))
    row = made.best.row(0, named=True)
    mean = times.mean(axis=1)
    assert (row["best"], row["mean"]) == ("minhop", pytest.approx(mean[0].mean()))
    for table in (made.points, made.best, made.effects):
        assert table["ratio"].is_null().all()
    assert "Next is dfsssp, with 19.17 ns; the difference is not" in sentences(made.data)[0]
    # Under a load without such values, too: the tables have one kind of mean.
    high = made.best.filter(under="load 0.6").row(0, named=True)
    assert high["mean"] == pytest.approx(times[0, 1].mean())
    assert made.effects.filter(value="dfsssp")["mean"].item() == pytest.approx(times[1].mean())


@pytest.mark.parametrize("how", ["saturated", "partial"])
def test_a_choice_whose_bad_runs_do_not_count_is_left_out(how: str) -> None:
    data = of_engines([100, 900, 950], [150, 155, 160])
    bad = pl.col("run").is_in([2, 3])

    def without(runs: pl.Expr) -> StudyData:
        if how == "partial":
            status = pl.when(runs).then(pl.lit(how)).otherwise("status")
            return replace(data, runs=data.runs.with_columns(status=status))
        keys = data.runs.filter(runs)["key"]
        return replace(data, excluded=dict.fromkeys(keys, (how, ["makespan_ns"])))

    row = summary(without(bad)).best.row(0, named=True)
    assert (row["best"], row["n"], row["choices"], row["left_out"]) == ("dfsssp", 3, 1, 1)
    # If all have such runs, they are compared.
    row = summary(without(pl.col("run").is_in([3, 5]))).best.row(0, named=True)
    assert (row["best"], row["n"], row["choices"]) == ("minhop", 1, 2)


def test_choices_of_different_size_are_told() -> None:
    data = study()
    hosts = dict(zip(FABRICS, (16, 16, 32, 64), strict=True))
    sizes = {row["key"]: hosts[row["fabric"]] for row in data.runs.iter_rows(named=True)}
    assert warnings(summary(data)) == []
    (text,) = warnings(summary(replace(data, sizes=sizes)))
    assert text.startswith("Choices of different size are compared: from 16 ranks (")
    assert f"to 64 ({FABRICS[3]}" in text
    # Sizes that are a condition are not compared with each other.
    apart = replace(data, sizes=sizes, conditions=("fabric",))
    assert warnings(summary(apart)) == []


@pytest.mark.parametrize("status", ["out of time", "out of memory"])
def test_a_choice_without_the_runs_that_a_limit_ended_is_not_the_best(status: str) -> None:
    data = study({"engine": ENGINES}, seeds=3, noise=0.0)
    assert summary(data).best["best"][0] == "dfsssp"
    ended = (pl.col("engine") == "dfsssp") & (pl.col("seed") == 1)
    runs = data.runs.with_columns(
        status=pl.when(ended).then(pl.lit(status)).otherwise("status"),
        makespan_ns=pl.when(ended).then(None).otherwise("makespan_ns"),
    )
    row = summary(replace(data, runs=runs)).best.row(0, named=True)
    assert (row["best"], row["choices"], row["left_out"]) == ("nue", 2, 1)


def test_nothing_is_best_among_conditions() -> None:
    data = study({"load": LOADS})
    made = summary(data)
    best = made.best.filter(measure="makespan_ns")
    assert best["under"].to_list() == ["", "load 0.3", "load 0.6"]
    assert best["best"].to_list() == [""] * 3
    assert best["runner_up"].null_count() == 3
    means = best["mean"].to_list()
    assert means[1] < means[0] < means[2]
    assert not any("best" in text for text in [question(made), *sentences(data)])
    assert "on average over 2 conditions" in sentences(data)[0]
    page = render_study(data)
    assert 'id="plot-pareto"' not in page
    assert 'id="plot-pareto"' in render_study(study())


def test_figures_have_the_mean_of_the_measure() -> None:
    data = study({"engine": ENGINES, "load": LOADS}, seeds=0)
    gone = (pl.col("engine") == "nue") & (pl.col("load") == "0.6")
    zero = (pl.col("engine") == "nue") & (pl.col("load") == "0.3")
    runs = data.runs.with_columns(
        makespan_ns=pl.when(gone).then(None).when(zero).then(0.0).otherwise("makespan_ns")
    )
    made = summary(replace(data, runs=runs))
    measure, scale = MEASURES[0], shown(made, MEASURES[0]).factor
    mean = study_figures._over(made, measure, ["engine"])
    assert np.isnan(mean[2])  # lacks a condition
    # One value is not positive: the measure has arithmetic means, here, too.
    for engine, found in zip(ENGINES[:2], mean, strict=False):
        values = runs.filter(engine=engine)["makespan_ns"].to_numpy()
        assert found == pytest.approx(values.mean() / scale)
