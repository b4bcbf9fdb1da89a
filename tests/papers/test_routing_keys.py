"""The Routing Keys study: its measures against closed forms, its claims against chosen values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import weft
from weft.core.errors import InputError
from weft.sim.static.loads import link_loads
from weft.study.runs.execute import StudyProgress
from weft.study.runs.typed import Results
from weft.workload.jobs import combine
from weft_papers import paper
from weft_papers.claim_report import CHOICE_COLUMNS
from weft_papers.claims import ClaimResult, Verdict, hold
from weft_papers.routing_keys import contention
from weft_papers.routing_keys.claims import CLAIMS, RoutingKeysEvidence
from weft_papers.routing_keys.contention import METHODS, Size, traffic
from weft_papers.routing_keys.plots import STYLES
from weft_papers.routing_keys.runs import (
    APPLICATIONS,
    CHOICES,
    KIB,
    LARGE,
    PAPER,
    PAPERS,
    POLICIES,
    RATE_GBPS,
    SIZES,
    SMALL,
    RoutingKeysRun,
    RoutingKeysRunResult,
    _routes_of,
    jobs_of,
    measure,
    study_runs,
)
from weft_papers.routing_keys.study import FIGURES, KeyStudy, made, routing_keys
from weft_papers.routing_keys.tables import (
    CONTENTION_COLUMNS,
    RUN_COLUMNS,
    SUMMARY_COLUMNS,
)

SEEDS = range(3)
ONE = RoutingKeysRun("6", SMALL, 6, 0.5, 4 * KIB, 1, "nrk", 0)


def quiet(_: object) -> None:
    """Take the place of a progress display."""


# -- figure 4 ------------------------------------------------------------------------------------


def test_traffic_divides_a_permutation_into_applications() -> None:
    sources, destinations, start = traffic(2500, 3)
    assert len(sources) == len(destinations) == start[-1]
    assert 1490 <= len(sources) <= 1500  # 60 %, without flows of a host to itself
    for ends in (sources, destinations):
        assert len(np.unique(ends)) == len(ends)
    assert not (sources == destinations).any()
    sizes = np.concatenate([np.diff(traffic(40_000, seed)[2]) for seed in range(3)])
    assert sizes.min() >= 1
    assert sizes.mean() == pytest.approx(10, rel=0.05)


@pytest.mark.slow
def test_contention_of_dmodk_is_that_of_its_engine() -> None:
    fabric = weft.fabric("xgft:2;20,20;1,20")
    for seed in range(3):
        sources, destinations, _ = traffic(400, seed)
        loads = link_loads(fabric, weft.route(fabric, "dmodk"), sources, destinations)
        flows = contention.measure(None, Size(20, seed), quiet)
        assert flows["dmodk"] == loads[fabric.graph.edge_link].max()
        assert flows.keys() == METHODS.keys()
        assert flows["nrk-optimum"] <= flows["ark"] <= flows["ark-lowest"]


# -- runs ----------------------------------------------------------------------------------------


def test_one_application_takes_the_time_of_its_messages() -> None:
    def rise(policy: str) -> float:
        alone = replace(ONE, applications=1, utilization=0.25, policy=policy)
        times = [measure(None, replace(alone, size=size * KIB)).worst_us for size in (32, 64)]
        return times[1] - times[0]

    # Latencies and barriers are the same for both sizes; headers add 1.3 %.
    ideal = 6 * 32 * KIB * 8 / RATE_GBPS / 1e3
    assert rise("ark") == pytest.approx(1.013 * ideal, rel=0.01)
    assert rise("nrk") == pytest.approx(1.013 * ideal, rel=0.01)
    assert rise("dmodk") > 1.5 * ideal


@pytest.mark.parametrize("choice", ["uneven calculation", "start together"])
def test_calculations_and_start_times_are_not_communication_time(choice: str) -> None:
    alone = replace(ONE, applications=1, utilization=0.05, choice=choice)
    assert measure(None, alone).worst_us == pytest.approx(
        measure(None, replace(alone, utilization=1.0)).worst_us, rel=0.35
    )


def test_jobs_share_all_hosts_and_start_within_a_phase() -> None:
    jobs = jobs_of(replace(ONE, utilization=0.1), 216)
    hosts = np.concatenate([np.asarray(job.placement) for job in jobs])
    assert np.array_equal(np.sort(hosts), np.arange(216))
    starts = np.array([job.start_ns for job in jobs])
    assert 0 < starts.min() < starts.max() <= 4 * KIB * 8 / RATE_GBPS / 0.1
    assert len({str(job.workload.phase_names) for job in jobs}) > 1  # orders of phases
    together = jobs_of(replace(ONE, choice="start together"), 216)
    assert {job.start_ns for job in together} == {0.0}
    near = jobs_of(replace(ONE, choice="contiguous"), 216)
    assert np.array_equal(np.asarray(near[1].placement), np.arange(36, 72))


@pytest.mark.slow
def test_isolated_jobs_contend_with_no_other_job_but_within_themselves() -> None:
    isolated = replace(ONE, figure="placement", policy="dmodk", placement="isolated")
    near = replace(isolated, placement="contiguous")
    times = [measure(None, each).worst_us for each in (isolated, near, replace(near, policy="ark"))]
    # Each of the six jobs has a pod of its own, and its ranks are in the order of the hosts.
    assert times[0] == pytest.approx(times[1], rel=0.02)
    assert times[1] == pytest.approx(times[2], rel=0.02)
    odd = replace(isolated, tree=LARGE, applications=32, size=256 * KIB, utilization=0.1)
    alone = replace(odd, placement="contiguous", policy="ark")
    assert measure(None, odd).mean_us > 1.2 * measure(None, alone).mean_us


def test_sar_is_balanced_over_the_messages_of_the_jobs() -> None:
    run = replace(ONE, policy="sar", size=256 * KIB)
    fabric = weft.fabric(SMALL)
    mix = combine(jobs_of(run, 216), fabric)
    messages = mix.workload.messages[mix.workload.size_bytes[mix.workload.messages] > 0]
    ends = (mix.hosts[mix.workload.rank[messages]], mix.hosts[mix.workload.peer[messages]])
    worst = [
        link_loads(fabric, routes, *ends)[fabric.graph.edge_link].max()
        for routes in (_routes_of(run, fabric, mix, "sar", 0), weft.route(fabric, "dfsssp"))
    ]
    assert worst[0] < worst[1]


def test_the_data_of_figure_9_does_not_depend_on_the_size() -> None:
    runs = study_runs(("9",), SEEDS, choices=False, quick=False)
    assert {run.size for run in runs} == set(SIZES)
    assert {run.size * run.iterations for run in runs} == {SIZES[-1]}


def test_points_are_those_of_the_paper() -> None:
    runs = study_runs(FIGURES, SEEDS, choices=True, quick=False)
    assert len(set(runs)) == len(runs)
    assert {run.seed for run in runs} == set(SEEDS)
    usual = [run for run in runs if run.choice == PAPER]
    sixth = {(run.tree, run.applications) for run in usual if run.figure == "6"}
    assert sixth == {(SMALL, 6)}
    assert {run.utilization for run in usual if run.figure == "6" and run.policy == "nrk"} == {
        n / 10 for n in range(1, 10)
    }
    for figure in ("7", "8", "9"):
        here = [run for run in usual if run.figure == figure]
        assert {run.tree for run in here} == {LARGE}
        assert {run.applications for run in here} == set(APPLICATIONS)
        assert {run.policy for run in here} >= set(PAPERS)
    varied = {run.choice for run in runs} - {PAPER}
    assert varied == set(CHOICES) - {PAPER}
    quick = study_runs(FIGURES, range(2), choices=False, quick=True)
    assert {run.tree for run in quick} == {SMALL}
    for run in runs:
        policy = CHOICES[run.choice].policies.get(run.policy, POLICIES.get(run.policy, ("", ""))[1])
        assert policy or run.policy.startswith(("nrk:latency=", "ark:lmc="))
    assert set(POLICIES) <= set(STYLES)
    assert set(METHODS) <= set(STYLES)


def test_phases_that_wait_for_their_key_take_the_latency_longer() -> None:
    near = measure(None, replace(ONE, policy="nrk:latency=0us,before=wait"))
    assert near == replace(measure(None, ONE), run=near.run)
    far = measure(None, replace(ONE, policy="nrk:latency=100us,before=wait"))
    assert far.worst_us - near.worst_us > 6 * 2 * 100 * 0.9
    base = measure(None, replace(ONE, policy="nrk:latency=100us,before=base"))
    assert base.worst_us < 0.2 * far.worst_us


def test_runs_of_several_figures_are_simulated_once() -> None:
    seen: set[int] = set()
    runs = [replace(ONE, figure=figure, policy="dmodk") for figure in ("6", "keys")]
    known = Results(watch=lambda progress: seen.add(progress.runs)).of(
        "routing-keys", measure, None, runs, 1, alone=lambda run: replace(run, figure="")
    )
    measured = list(known.values())
    assert seen == {1}
    assert [each.run for each in measured] == runs
    assert measured[0].worst_us == measured[1].worst_us


def test_keys_run_on_trees_with_missing_cables() -> None:
    faulty = replace(ONE, missing=22, base="updn", policy="ark")
    assert measure(None, faulty).worst_us > 0


# -- claims --------------------------------------------------------------------------------------


def claims_of(
    time: Callable[[RoutingKeysRun], float],
    grows: Callable[[str, int], int] = lambda method, hosts: 2,
) -> dict[str, ClaimResult]:
    """Test the claims on made-up times and numbers of flows."""
    runs = study_runs(("6", "7", "8", "9"), SEEDS, choices=True, quick=False)
    measured = [
        RoutingKeysRunResult(run, time(run) * (1 + 0.001 * run.seed), 1.0, 0) for run in runs
    ]
    sizes = {
        Size(radix, seed): {method: grows(method, radix**2) for method in METHODS}
        for radix in (10, 100)
        for seed in SEEDS
    }
    evidence = RoutingKeysEvidence.of(measured, runs, sizes, SEEDS)
    return {each.id: each for each in hold(CLAIMS, evidence, tuple(CHOICES))}


def as_claimed(run: RoutingKeysRun) -> float:
    """Return a time for which all claims hold."""
    low = 1 - run.utilization
    many = {2: 0.0, 6: 0.2, 8: 0.2, 32: 0.5}[run.applications]
    ark = 1 + many
    if run.figure == "8":
        times = {"dmodk": ark * 1.05, "conga": ark * 1.2, "ark": ark}
    else:
        times = {"dmodk": 2 + 0.8 * low, "conga": 3 + 0.8 * low, "ark": ark}
    small = 2.0 if run.figure == "9" and run.size == SIZES[0] else 1.0
    return small * {**times, "nrk": 1.0 + 0.01 * (run.utilization == 0.9)}.get(run.policy, 1.0)


def test_claims_hold_on_measurements_that_fit() -> None:
    claims = claims_of(
        as_claimed, lambda method, hosts: 2 + (method == "dmodk") * (1 + hosts // 5000)
    )
    assert len(CLAIMS) == 12
    assert list(claims) == [claim.id for claim in CLAIMS]
    verdicts = {name: claim.findings[PAPER].verdict for name, claim in claims.items()}
    assert set(verdicts.values()) == {Verdict.HOLDS}, verdicts


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"conga": 0.5}, {"conga-worse", "gain-2.7"}),
        ({"ark": 4.0}, {"ark-better", "few-applications"}),
        ({"nrk": 3.0}, {"nrk-best", "gain-2.7", "many-applications", "single-size-nrk"}),
        ({"dmodk": 2.0}, {"single-size", "conga-worse"}),
    ],
)
def test_claims_fail_on_measurements_that_do_not_fit(
    change: Mapping[str, float], failing: set[str]
) -> None:
    claims = claims_of(lambda run: as_claimed(run) * change.get(run.policy, 1.0))
    verdicts = {name: claim.findings[PAPER].verdict for name, claim in claims.items()}
    assert failing <= {name for name, each in verdicts.items() if each is Verdict.FAILS}, verdicts


def test_choices_are_tested_only_where_they_matter() -> None:
    claims = claims_of(as_claimed)
    assert "conga in µs" in claims["conga-worse"].findings
    assert "conga in µs" not in claims["few-applications"].findings
    assert "ark from lowest" in claims["few-applications"].findings
    assert "contiguous" in claims["single-size"].findings
    assert set(claims["larger-messages"].findings) == {PAPER}


def test_points_with_missing_runs_are_not_measured() -> None:
    runs = study_runs(("7",), SEEDS, choices=False, quick=False)
    measured = [RoutingKeysRunResult(run, as_claimed(run), 1.0, 0) for run in runs[:-40]]
    evidence = RoutingKeysEvidence.of(measured, runs, {}, SEEDS)
    claims = {each.id: each for each in hold(CLAIMS, evidence, (PAPER,))}
    assert claims["gain-2.7"].findings[PAPER].verdict is Verdict.HOLDS
    assert claims["many-applications"].findings[PAPER].verdict is Verdict.NOT_MEASURED
    assert "conga-worse" not in claims


def test_the_largest_gain_is_not_judged_without_figure_7() -> None:
    runs = study_runs(("6",), SEEDS, choices=False, quick=False)
    measured = [RoutingKeysRunResult(run, as_claimed(run), 1.0, 0) for run in runs]
    evidence = RoutingKeysEvidence.of(measured, runs, {}, SEEDS)
    claims = {each.id for each in hold(CLAIMS, evidence, (PAPER,))}
    assert "nrk-best" in claims
    assert "gain-up-to-2.7" not in claims


# -- the study -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> KeyStudy:
    """Return a study of figure 4 and of made-up times."""
    runs = study_runs(("6", "7", "8", "9", "latency", "faults"), SEEDS, choices=True, quick=False)
    measured = [RoutingKeysRunResult(run, 100 * as_claimed(run), 1.0, 5) for run in runs]
    flows = {Size(10, seed): contention.measure(None, Size(10, seed), quiet) for seed in SEEDS}
    options = {"seeds": 3, "seed": 0, "choices": True, "quick": False}
    return made(options, runs, measured, flows, len(flows))


def test_frames(small: KeyStudy) -> None:
    for name, columns in (
        ("runs", RUN_COLUMNS), ("summary", SUMMARY_COLUMNS), ("contention", CONTENTION_COLUMNS),
        ("claims", CHOICE_COLUMNS),
    ):  # fmt: skip
        assert small.tables()[name][0].columns == list(columns)
    assert small.summary["seeds"].sum() == len(small.runs)
    assert set(small.summary.filter(figure="9")["seeds"]) == {3}
    assert small.summary["ratio"].null_count() == 0
    here = small.summary.filter(figure="8", policy="ark", choice=PAPER, applications=2)
    assert here["ratio"].to_list() == pytest.approx([1.05] * len(here))
    assert len(small.contention) == 3 * len(METHODS)


@pytest.mark.slow
def test_text_and_files(small: KeyStudy, tmp_path: Path) -> None:
    text = small.text(250)
    for claim in small.claims:
        assert claim.says in text
    assert small.partial == ""
    written = {path.name for path in small.write(tmp_path)}
    assert {f"figure-{n}.png" for n in (4, 6, 7, 8, 9)} | {"latency.png"} < written
    assert_frame_equal(pl.read_parquet(tmp_path / "summary.parquet"), small.summary)
    assert "partial, 3 of 9 runs" in replace(small, done=3, asked=9).text()


def test_the_result_does_not_depend_on_the_processes() -> None:
    options: dict[str, Any] = {"seeds": 2, "figures": ("4",), "quick": True, "hosts": 400}
    one = routing_keys(processes=1, **options)
    two = routing_keys(processes=2, **options)
    assert_frame_equal(one.contention, two.contention)
    assert one.text() == two.text()
    assert [claim.id for claim in one.claims] == ["low-contention"]

    def stopped(name: str) -> Results:
        def watch(progress: StudyProgress) -> None:
            if progress.study == name:
                raise KeyboardInterrupt

        return Results(watch=watch)

    options["processes"] = 1
    part = routing_keys(**{**options, "figures": ("4", "6")}, results=stopped("routing-keys"))
    assert part.partial.startswith("4 of ")
    assert_frame_equal(part.contention, one.contention)
    with pytest.raises(KeyboardInterrupt):
        routing_keys(**options, results=stopped("routing-keys-sizes"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 1}, "at least 2 seeds, not 1"),
        ({"figures": ("5",)}, "unknown figure '5'"),
        ({"hosts": 100}, "hosts must be 400 to"),
    ],
)
def test_bad_parameters(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        routing_keys(**options)  # type: ignore[arg-type]


def test_registry() -> None:
    assert paper["routing-keys"] is paper["keys"]


@pytest.mark.slow
def test_a_quick_study(tmp_path: Path) -> None:
    study = routing_keys(seeds=2, quick=True, out=tmp_path)
    assert {claim.id for claim in study.claims} == {claim.id for claim in CLAIMS}
    assert study.partial == ""
