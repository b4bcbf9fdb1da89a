"""The study of QsNET: its runs, its claims on made-up measurements, and its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from weft import InputError
from weft.sim.common.congestion_matrix import congestion_matrix
from weft.study.runs.typed import Results
from weft.workload.sources import transfers
from weft_papers import paper
from weft_papers.claims import ClaimResult, Verdict, hold
from weft_papers.qsnet.claims import CLAIMS, PRINTED, QsNetEvidence
from weft_papers.qsnet.runs import (
    CHOICES,
    FIGURES,
    KIB,
    LINK,
    MAPPINGS,
    MECHANISMS,
    OPTIMAL,
    OTHERS,
    PAPER,
    QsNetRun,
    QsNetRunResult,
    fabric_of,
    measure,
    study_runs,
    workload_of,
)
from weft_papers.qsnet.study import QsNetStudy, made, qsnet_evaluation
from weft_papers.qsnet.tables import TABLES

SEEDS = range(3)
ALL = tuple(FIGURES)

# -- runs ----------------------------------------------------------------------------------------


def test_points_are_those_of_the_paper() -> None:
    runs = study_runs(ALL, range(5), choices=True, quick=False)
    assert len(set(runs)) == len(runs)
    usual = [run for run in runs if run.choice == PAPER]
    assert {run.seed for run in usual} == set(range(5))
    assert {run.seed for run in runs if run.choice != PAPER} == set(range(3))
    assert {run.choice for run in runs} == {*CHOICES, *MECHANISMS}
    assert {run.traffic for run in usual if run.figure == "13"} == {*OPTIMAL, *OTHERS}
    assert {run.nodes for run in usual if run.figure == "11"} == {16, 32, 64}
    assert {run.nodes for run in usual if run.figure == "16"} == {4, 16, 32, 64}
    assert {(run.mapping, run.dedicated) for run in usual if run.figure == "19"} == {
        (mapping, dedicated) for mapping in MAPPINGS for dedicated in (False, True)
    }
    quick = study_runs(ALL, range(2), choices=False, quick=True)
    assert len(quick) < len(usual) / 4
    assert {run.figure for run in quick} == set(ALL) - {"14"}


@pytest.mark.parametrize("nodes", [4, 16, 32, 64])
def test_networks_are_quaternary_fat_trees_at_400_mb_s(nodes: int) -> None:
    fabric = fabric_of(nodes)
    assert fabric.num_hosts == nodes
    assert set(fabric.link_rate_gbps.tolist()) == {3.2}
    ports = np.bincount(fabric.link_from, minlength=nodes + fabric.num_switches)
    assert ports.max() <= 8


def test_sources_without_a_load_never_run_dry() -> None:
    for run in (
        QsNetRun("11", "uniform"),
        QsNetRun("16", "hot", size=KIB * KIB),
        QsNetRun("12", "uniform", size=KIB),
    ):
        work = workload_of(run)
        moved = transfers(work)
        warm, measured = run.times_ns
        early = moved.issued_ns < warm
        size = np.bincount(
            moved.source[early], weights=work.size_bytes[moved.ops[early]], minlength=64
        )
        sources = np.arange(64) if run.traffic != "hot" else np.arange(1, 64)
        assert (size[sources] > 0).all()
        total = np.bincount(moved.source, weights=work.size_bytes[moved.ops], minlength=64)
        assert (total[sources] > LINK * (warm + measured) / 1e3).all()


def test_the_io_job_is_silent_at_load_0_and_the_compute_job_is_not() -> None:
    quiet, busy = (
        transfers(workload_of(QsNetRun("19", "combined", mapping="1i", io_load=load, short=True)))
        for load in (0.0, 0.5)
    )
    assert set(quiet.job) == {"compute"}
    assert set(busy.job) == {"compute", "io"}
    assert min(quiet.source) == 32
    assert set(busy.destination[busy.job == "io"]) == set(range(56, 64))
    assert (busy.job == "compute").sum() == len(quiet.ops)


def test_a_hot_spot_of_4_nodes_fills_its_link() -> None:
    result = measure(None, QsNetRun("16", "hot", 4, size=KIB * KIB, short=True))
    assert result.mb_s == pytest.approx(LINK, rel=0.01)
    assert result.parts[0] == 0
    assert result.parts.sum() == pytest.approx(result.mb_s)
    assert np.ptp(result.parts[1:]) < 0.02 * result.parts.max()


def test_a_ping_takes_the_time_of_its_packets() -> None:
    small, large = (measure(None, QsNetRun("9", "ping", 4, size=each * 320)) for each in (10, 110))
    assert large.parts[0] - small.parts[0] == pytest.approx(100 * 0.945, rel=1e-6)
    assert large.mb_s == 110 * 320 / large.parts[0]


def test_mechanisms_change_the_result() -> None:
    point = QsNetRun("13", "complement", 16, short=True)
    usual = measure(None, point).mb_s
    assert measure(None, replace(point, choice="no circuits")).mb_s > usual
    assert measure(None, replace(point, choice="one channel")).mb_s < usual
    io = QsNetRun("16", "hot", 16, size=KIB * KIB, short=True)
    near = [measure(None, replace(io, choice=each)).parts[1] for each in (PAPER, "round robin")]
    assert near[1] > 1.5 * near[0]


# -- claims --------------------------------------------------------------------------------------


def as_claimed(run: QsNetRun) -> float:
    """Return a bandwidth for which all claims hold."""
    if run.traffic == "ping":
        return {"elan": 335.0, "main": 200.0}[run.memory]
    if run.traffic == "both":
        return {"elan": 280.0, "main": 80.0}[run.memory]
    if run.traffic == "uniform":
        full = {16: 150.0, 32: 140.0, 64: 131.0}[run.nodes]
        better = run.nodes == 16 and run.sizes == run.times == "uniform"
        return full * (1.1 if better else 1.0) * (0.9 if run.size > 64 * KIB else 1.0)
    if run.traffic in OPTIMAL:
        return 275.0
    if run.traffic in OTHERS:
        return 180.0
    if run.traffic == "hot":
        return 310.0 if run.nodes == 64 else 337.0
    if run.traffic == "io":
        cells = {"random": (196.0, 234.0), "block": (320.0, 338.0)}[run.server]
        clustered = run.mapping == "clustered"
        return cells[not clustered] + 17 * (clustered and not run.dedicated)
    hurt = {"1c": 0.0, "1i": 0.3 + run.io_load / 10, "distributed": run.io_load / 2}[run.mapping]
    return 130.0 * (1 - hurt * (not run.dedicated and run.io_load > 0))


def parts_of(run: QsNetRun) -> np.ndarray:
    """Return parts of a measurement for which all claims hold."""
    if run.traffic in ("ping", "both"):
        return np.array([2.4 if run.library == "elan3lib" else 5.5])
    if run.traffic == "hot" and run.nodes == 64:
        return np.repeat([0.0, 8.0, 4.8, 4.3], [1, 3, 12, 48])
    if run.traffic == "hot":
        return np.zeros(run.nodes)
    if run.traffic not in OPTIMAL + OTHERS:
        return np.zeros(0)
    waits = np.zeros(fabric_of(run.nodes).num_links)
    matrix = waiting_order(run.nodes)
    waits[matrix["link"].to_numpy()] = matrix["order"].to_numpy()
    if run.traffic == "bit-reversal":
        hot = matrix.filter(level=2, side="upper")["link"].to_numpy()[:5]
        waits[hot] = 100.0
    return waits


def waiting_order(nodes: int) -> pl.DataFrame:
    """Return the links into switches with their order on the path, 1 to 5."""
    fabric = fabric_of(nodes)
    matrix = congestion_matrix(fabric, np.zeros(fabric.num_links))
    up = pl.col("side") == "lower"
    return matrix.with_columns(
        order=pl.when(up).then(pl.col("level")).otherwise(6 - pl.col("level")).cast(pl.Float64)
    )


def claims_of(
    mb_s: Callable[[QsNetRun], float], figures: tuple[str, ...] = ALL
) -> dict[str, ClaimResult]:
    """Test the claims on made-up bandwidths."""
    runs = study_runs(figures, SEEDS, choices=True, quick=False)
    measured = [
        QsNetRunResult(run, mb_s(run) * (1 + 1e-4 * run.seed), parts_of(run)) for run in runs
    ]
    evidence = QsNetEvidence.of(measured, runs)
    return {each.id: each for each in hold(CLAIMS, evidence, tuple(CHOICES))}


def test_claims_hold_on_measurements_that_fit() -> None:
    claims = claims_of(as_claimed)
    assert list(claims) == [claim.id for claim in CLAIMS]
    verdicts = {name: claim.findings[PAPER].verdict for name, claim in claims.items()}
    assert set(verdicts.values()) == {Verdict.HOLDS}, verdicts
    assert "round robin" in claims["hot-groups"].findings
    assert set(claims["ping"].findings) == {PAPER}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("traffic", "factor", "failing"),
    [
        ("ping", 0.9, {"ping", "bus"}),
        ("both", 1.2, {"both-ways", "bus"}),
        ("uniform", 1.4, {"uniform", "uniform-half"}),
        ("complement", 0.8, {"optimal"}),
        ("bit-reversal", 1.3, {"other-patterns"}),
        ("hot", 1.1, {"hot-flat"}),
        ("io", 1.3, {"table-1"}),
    ],
)
def test_claims_fail_on_measurements_that_do_not_fit(
    traffic: str, factor: float, failing: set[str]
) -> None:
    claims = claims_of(lambda run: as_claimed(run) * (factor if run.traffic == traffic else 1.0))
    failed = {
        name for name, each in claims.items() if each.findings[PAPER].verdict is Verdict.FAILS
    }
    assert failed == failing


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"1c": 0.8}, {"1c", "dedicated"}),
        ({"1i": 1.5}, {"1i"}),
        ({"distributed": 0.8}, {"dedicated"}),
    ],
)
def test_the_jobs_are_compared_with_and_without_io(
    change: Mapping[str, float], failing: set[str]
) -> None:
    def mb_s(run: QsNetRun) -> float:
        beside = run.traffic == "combined" and run.io_load > 0
        return as_claimed(run) * (change.get(run.mapping, 1.0) if beside else 1.0)

    claims = claims_of(mb_s, ("19",))
    failed = {
        name for name, each in claims.items() if each.findings[PAPER].verdict is Verdict.FAILS
    }
    assert failed == failing


def test_claims_without_all_seeds_are_not_measured() -> None:
    runs = study_runs(("16",), SEEDS, choices=False, quick=False)
    measured = [
        QsNetRunResult(run, as_claimed(run), parts_of(run))
        for run in runs
        if run.nodes < 64 or run.seed
    ]
    evidence = QsNetEvidence.of(measured, runs)
    claims = {each.id: each for each in hold(CLAIMS, evidence, (PAPER,))}
    assert claims["hot-flat"].findings[PAPER].verdict is Verdict.HOLDS
    assert claims["hot-64"].findings[PAPER].verdict is Verdict.NOT_MEASURED
    assert "ping" not in claims


def test_waits_of_switches_are_equal_to_the_last_bit_in_every_run() -> None:
    random = np.random.default_rng(0)
    runs = study_runs(("15",), SEEDS, choices=False, quick=False)
    measured = [QsNetRunResult(run, 0.0, random.random(fabric_of(64).num_links)) for run in runs]
    evidence = QsNetEvidence.of(measured, runs)
    claim = next(each for each in CLAIMS if each.id == "even-waits")
    assert len({claim.finding(evidence, PAPER).conditions for _ in range(50)}) == 1


# -- the study -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> QsNetStudy:
    """Return a study of made-up bandwidths."""
    runs = study_runs(ALL, SEEDS, choices=True, quick=False)
    measured = [QsNetRunResult(run, as_claimed(run) + run.seed / 10, parts_of(run)) for run in runs]
    return made({"seeds": 3, "seed": 0, "choices": True, "quick": False}, runs, measured)


def test_frames(small: QsNetStudy) -> None:
    for name, columns in TABLES.items():
        assert small.tables()[name][0].columns == list(columns)
    assert small.summary["seeds"].sum() == len(small.runs)
    usual = small.printed.filter(choice=PAPER)
    assert usual["quantity"].to_list() == [each.what for each in PRINTED]
    fits = usual.filter(
        pl.col("measured").is_between(pl.col("printed_low") * 0.97, pl.col("printed_high") * 1.03)
    )
    assert set(usual["quantity"]) - set(fits["quantity"]) == {"latency of 0 bytes, us"}
    assert len(small.matrices) == 2 * (48 * 8 - 64)
    assert small.nodes.filter(choice=PAPER)["mb_s"].to_list()[:4] == [8.0, 8.0, 8.0, 4.8]


@pytest.mark.slow
def test_text_and_files(small: QsNetStudy, tmp_path: Path) -> None:
    text = small.text(250)
    for claim in small.claims:
        assert claim.says in text
    assert small.partial == ""
    written = {path.name for path in small.write(tmp_path)}
    names = ("9-10", "11-12", "13-14", "15", "16", "17-18", "19")
    assert {f"figure-{name}.png" for name in names} < written
    assert_frame_equal(pl.read_parquet(tmp_path / "summary.parquet"), small.summary)
    assert "partial, 3 of 9 runs" in replace(small, done=3, asked=9).text()


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_processes() -> None:
    one, two = (
        qsnet_evaluation(seeds=2, figures=("9", "10"), quick=True, processes=each)
        for each in (1, 2)
    )
    assert one.text() == two.text()
    verdicts = {claim.id: claim.findings[PAPER].verdict for claim in one.claims}
    assert set(verdicts) == {"ping", "latency", "both-ways", "bus"}
    assert set(verdicts.values()) == {Verdict.HOLDS}


@pytest.mark.slow
def test_runs_of_several_figures_are_simulated_once() -> None:
    seen: set[int] = set()
    results = Results(watch=lambda progress: seen.add(progress.runs))
    qsnet_evaluation(seeds=2, figures=("9", "10"), quick=True, processes=1, results=results)
    runs = study_runs(("9", "10"), range(2), choices=False, quick=True)
    assert seen == {len({replace(run, figure="") for run in runs})}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 1}, "at least 2 seeds, not 1"),
        ({"figures": ()}, "one or more figures"),
        ({"figures": ("8",)}, "unknown figure '8'"),
        ({"seed": -1}, "the first seed must be at least 0"),
        ({"processes": 0}, "processes must be at least 1, not 0"),
    ],
)
def test_bad_parameters(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        qsnet_evaluation(**options)  # type: ignore[arg-type]


def test_registry() -> None:
    assert paper["qsnet"] is paper["quadrics"]


@pytest.mark.slow
def test_a_quick_study(tmp_path: Path) -> None:
    study = qsnet_evaluation(quick=True, out=tmp_path)
    assert study.partial == ""
    verdicts = {claim.id: claim.findings[PAPER].verdict for claim in study.claims}
    assert {"ping", "both-ways", "hot-flat", "1c"} <= {
        name for name, verdict in verdicts.items() if verdict is Verdict.HOLDS
    }
