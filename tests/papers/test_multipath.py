from __future__ import annotations

import functools
import importlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.reference import multipath as plain

from weft.core.errors import InputError
from weft.core.files import write_with
from weft.fabrics.topology import build
from weft.routing import route
from weft.sim.common.metrics import link_tiers, load_metrics
from weft.sim.static.multipath import HASHES, multipath_loads
from weft_papers.claims import plus_minus
from weft_papers.multipath.claims import CLAIM_BASES, CLAIMS, MultipathEvidence, excess_variation
from weft_papers.multipath.study import (
    EPOCHS,
    QPS,
    StudyResult,
    basis_loads,
    distribution,
    multipath_ecmp,
    network,
    study_points,
    traffic,
)
from weft_papers.multipath.tables import (
    BASES,
    CDF_COLUMNS,
    CLAIM_COLUMNS,
    METRICS,
    RUN_COLUMNS,
    SCHEMES,
    SUMMARY_COLUMNS,
)
from weft_papers.paper_registry import paper

PUBLISHED = Path(__file__).with_name("multipath_published.csv")
KEYS = ["sweep", "k", "qps", "epochs", "scheme", "basis", "seed"]


@pytest.fixture(scope="module")
def small() -> StudyResult:
    return multipath_ecmp(seeds=4, flows=300, k=(4, 8))


def directed(fabric) -> dict[str, np.ndarray]:
    tier = link_tiers(fabric)
    return {
        "directed": fabric.graph.edge_link,
        "agg-core-up": np.flatnonzero(tier == "up 2-3"),
    }


# -- the accounting ------------------------------------------------------------------------------


def test_accounting_by_hand() -> None:
    # 48 cables. h0.0.0 and h0.0.1 share an edge switch and send to each other: two cables carry
    # 2 each, one flow in each direction, and 46 carry none.
    fabric = build("fat-tree:k=4")
    loads = multipath_loads(fabric, route(fabric, "ecmp"), [0, 1], [1, 0], [(1, 1)]).per_link
    result = basis_loads(fabric, directed(fabric), loads)
    assert sorted(result["cable"][0]) == [0.0] * 46 + [2.0, 2.0]
    assert sorted(result["host-cable"][0]) == [0.0] * 14 + [2.0, 2.0]
    assert result["directed"].shape == (1, 64)
    assert not result["directed"].any()
    measured = dict(zip(METRICS, distribution(result["cable"])[0], strict=True))
    mean = 4 / 48
    assert measured["mean"] == pytest.approx(mean)
    assert measured["cv"] == pytest.approx(np.sqrt(2 * 4 / 48 - mean**2) / mean)  # population cv
    assert measured["used"] == pytest.approx(2 / 48)  # unused and host cables count
    assert (measured["p50"], measured["p90"], measured["max"]) == (0, 0, 2)
    # Index 0.99 * 47 = 46.53 of 0 to 47 is between two loads of 2.
    assert measured["p99"] == 2


def test_accounting_as_the_authors_count() -> None:
    # Loads of undirected cables, keyed by the sorted names of their two ends.
    fabric = build("fat-tree:k=4")
    routes = route(fabric, "ecmp")
    source, destination, seed = traffic(4, 80, 3)
    result = basis_loads(
        fabric,
        directed(fabric),
        multipath_loads(fabric, routes, source, destination, [(2, 3)], seed=seed).per_link,
    )
    total: Counter[tuple[str, ...]] = Counter()
    for flow, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        ends = int(fabric.host_endpoint[a]), int(fabric.host_endpoint[b])
        for part in [(q, e) for q in range(2) for e in range(3)]:
            nodes = [fabric.host_names[a]]
            links = plain.part_path(fabric, routes, "ideal", seed, flow, ends, part)
            first = fabric.graph.row_node[fabric.graph.destination_row[ends[0]]]
            nodes += [fabric.node_names[first]]
            nodes += [fabric.node_names[fabric.link_to[link]] for link in links]
            nodes += [fabric.host_names[b]]
            for u, v in pairwise(nodes):
                total[tuple(sorted((u, v)))] += 1
    ends_of = zip(fabric.link_from[::2], fabric.link_to[::2], strict=True)
    names = [tuple(sorted((fabric.node_names[u], fabric.node_names[v]))) for u, v in ends_of]
    expected = [total[cable] / 6 for cable in names]
    np.testing.assert_allclose(result["cable"][0], expected)


def test_distribution_is_that_of_load_metrics() -> None:
    loads = np.random.default_rng(0).poisson(2.0, size=(5, 77)).astype(float)
    for row, measured in zip(loads, distribution(loads), strict=True):
        expected = load_metrics(row).row(0, named=True)
        assert dict(zip(METRICS, measured, strict=True)) == pytest.approx(
            {metric: expected[metric] for metric in METRICS}
        )


# -- traffic and sharing -------------------------------------------------------------------------


def test_traffic_is_uniform_over_pairs_of_different_hosts() -> None:
    source, destination, _ = traffic(4, 60_000, 1)
    counts = np.bincount(16 * source + destination, minlength=256).reshape(16, 16)
    assert not counts.diagonal().any()
    off = counts[~np.eye(16, dtype=bool)]
    assert ((off - 250) ** 2 / 250).sum() < 311.0  # chi-square, 239 degrees, 0.1 %


def test_traffic_is_drawn_as_in_the_published_program() -> None:
    # Hosts are drawn in pairs from the sorted names, by one generator for a whole sweep over k.
    random = Random(5)
    for before, k in (((), 4), ((4,), 12)):
        names = network(k)[0].host_names
        expected = [tuple(random.sample(sorted(names), 2)) for _ in range(50)]
        source, destination, _ = traffic(k, 50, 5, before)
        drawn = [(names[s], names[d]) for s, d in zip(source, destination, strict=True)]
        assert drawn == expected
    assert names[:7:6] == ("pod_0_edge_0_host_0", "pod_0_edge_1_host_0")
    assert names[-1] == "pod_11_edge_5_host_5"


def test_the_published_figures_are_reproduced_digit_for_digit() -> None:
    # The published program (commit 517b4d2, seed 0) computed the figures. Its README has the
    # sweeps over QPs at 30 epochs and over epochs; its script has the sweeps over k and over QPs at
    # 20 epochs. Figure 7 shows k = 8 of the sweep over k.
    runs = multipath_ecmp(seeds=2, k=(4, 6, 8, 16, 32)).runs.filter(seed=0, basis="cable")
    table = pl.read_csv(PUBLISHED)
    assert set(table["figure"]) == set(range(1, 8))
    for row in table.iter_rows(named=True):
        sweep, x = row["sweep"], row["x"]
        column = {"epochs": "epochs", "k": "k", "cdf": "k"}.get(sweep, "qps")
        for scheme in SCHEMES[:-1]:
            ours = runs.filter(pl.col(column) == x, sweep=sweep, scheme=scheme)[row["metric"]]
            assert ours.item() == pytest.approx(row[scheme], rel=1e-11), (sweep, x, scheme)


def test_points_of_equal_settings_share_traffic_and_choices(small: StudyResult) -> None:
    metrics = list(METRICS)
    at_eight = small.runs.filter(pl.col("k") == 8)

    def same(left: pl.DataFrame, right: pl.DataFrame) -> None:
        keys = ["basis", "seed"]
        assert len(left) == len(right) > 0
        assert_frame_equal(
            left.sort(keys).select(*keys, *metrics), right.sort(keys).select(*keys, *metrics)
        )

    def of(scheme: str, sweep: str, qps: int, epochs: int) -> pl.DataFrame:
        return at_eight.filter(scheme=scheme, sweep=sweep, qps=qps, epochs=epochs)

    ecmp = of("ecmp", "qps", 1, 20)
    for sweep, qps, epochs in (("qps", 30, 20), ("qps-30", 4, 30), ("epochs", 8, 40)):
        same(ecmp, of("ecmp", sweep, qps, epochs))
    same(ecmp, of("e-ecmp", "qps", 1, 20))
    same(ecmp, of("flowlet", "epochs", 8, 1))
    same(of("flowlet-e-ecmp", "qps", 1, 20), of("flowlet", "epochs", 8, 20))
    # Figure 7 shows k = 8 of the sweep over k; that traffic is drawn after the traffic of k = 4.
    same(of("flowlet", "k", 8, 20), of("flowlet", "cdf", 8, 20))
    other = of("ecmp", "cdf", 8, 20).sort("basis", "seed")["cv"]
    assert (other != ecmp.sort("basis", "seed")["cv"]).any()
    same(of("flowlet-e-ecmp", "qps", 8, 20), of("flowlet-e-ecmp", "epochs", 8, 20))
    same(of("e-ecmp", "qps-30", 16, 30), of("e-ecmp", "qps", 16, 20))


def test_the_points_are_those_of_the_paper() -> None:
    points = study_points((4, 8, 16, 32))
    assert [(p.qps, p.epochs, p.k) for p in points if p.sweep == "qps"] == [
        (q, 20, 8) for q in (1, 2, 4, 8, 16, 30)
    ]
    assert [(p.qps, p.epochs, p.k) for p in points if p.sweep == "qps-30"] == [
        (q, 30, 8) for q in (1, 2, 4, 8, 16)
    ]
    assert [(p.qps, p.epochs, p.k) for p in points if p.sweep == "epochs"] == [
        (8, e, 8) for e in (1, 2, 5, 10, 20, 40)
    ]
    assert [(p.qps, p.epochs, p.k) for p in points if p.sweep == "k"] == [
        (8, 20, k) for k in (4, 8, 16, 32)
    ]
    assert [(p.qps, p.epochs, p.k) for p in points if p.sweep == "cdf"] == [(8, 20, 8)]
    before = [p.before for p in points]
    assert before == [()] * 17 + [(), (4,), (4, 8), (4, 8, 16), (4,)]
    assert study_points((4, 16))[-1].before == ()


# -- the study -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_processes(small: StudyResult) -> None:
    two = multipath_ecmp(seeds=4, flows=300, k=(4, 8), processes=2)
    assert_frame_equal(two.runs, small.runs)
    assert_frame_equal(two.cdf, small.cdf)
    assert two.claims == small.claims
    assert two.text() == small.text()


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "seeds"), [(7, 2), (6, 2), (9, 3), (5, None), (0, None)])
def test_an_interrupt_leaves_the_seeds_that_are_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: int, seeds: int | None
) -> None:
    calls = []

    study = importlib.import_module("weft_papers.multipath.study")
    one = study._measure

    @functools.wraps(one)
    def measure(*arguments: object) -> object:
        if len(calls) == runs:
            raise KeyboardInterrupt
        calls.append(arguments)
        return one(*arguments)

    options = {"flows": 20, "k": (4, 6), "processes": 1}
    monkeypatch.setattr(study, "_measure", measure)
    if seeds is None:
        with pytest.raises(KeyboardInterrupt):
            multipath_ecmp(seeds=4, out=tmp_path, **options)
        assert not list(tmp_path.iterdir())
        return
    result = multipath_ecmp(seeds=4, **options)
    monkeypatch.undo()
    complete = multipath_ecmp(seeds=seeds, **options)
    assert (complete.partial, result.partial) == ("", f"{seeds} of 4 seeds")
    assert_frame_equal(result.runs, complete.runs)
    assert_frame_equal(result.cdf, complete.cdf)
    assert result.claims == complete.claims
    assert f"partial, interrupted: {seeds} of 4 seeds from 0" in result.text(200)


def test_other_seeds_give_other_numbers(small: StudyResult) -> None:
    later = multipath_ecmp(seeds=2, flows=300, k=(4, 8), first_seed=2)
    shared = small.runs.filter(pl.col("seed") >= 2)
    assert_frame_equal(later.runs.sort(KEYS), shared.sort(KEYS))
    cv = small.runs.filter(scheme="ecmp", sweep="cdf", basis="cable")["cv"]
    assert cv.n_unique() == 4


def test_frames(small: StudyResult) -> None:
    points = len(study_points((4, 8)))
    assert small.runs.columns == list(RUN_COLUMNS)
    assert len(small.runs) == points * 4 * len(SCHEMES) * len(BASES)
    assert small.summary.columns == list(SUMMARY_COLUMNS)
    assert len(small.summary) == points * len(SCHEMES) * len(BASES) * len(METRICS)
    one = {"sweep": "qps", "qps": 4, "scheme": "e-ecmp", "basis": "agg-core-up"}
    values = small.runs.filter(**one)["p90"].to_numpy()
    row = small.summary.filter(**one, metric="p90").row(0, named=True)
    assert row["mean"] == pytest.approx(values.mean())
    assert row["ci95"] == pytest.approx(3.1824463 * values.std(ddof=1) / 2)  # t of 3 degrees
    links = dict(small.runs.filter(k=8).select("basis", "links").unique().iter_rows())
    assert links == {
        "cable": 384, "host-cable": 128, "directed": 512, "edge-agg-up": 128,
        "agg-core-up": 128, "core-agg-down": 128, "agg-edge-down": 128,
    }  # fmt: skip


def test_cdf_counts_links(small: StudyResult) -> None:
    assert small.cdf.columns == list(CDF_COLUMNS)
    for _, curve in small.cdf.group_by("scheme", "basis"):
        share = curve.sort("load")["share"].to_numpy()
        assert share[-1] == 1.0
        assert (np.diff(share) >= 0).all()
    # ECMP's loads are integers, so its curve rises only at integers.
    curve = small.cdf.filter(scheme="ecmp", basis="directed").sort("load")
    rises = curve["load"].to_numpy()[1:][np.diff(curve["share"].to_numpy()) > 0]
    assert (rises == np.round(rises)).all()
    assert len(rises) > 3


def test_all_schemes_offer_the_same_load(small: StudyResult) -> None:
    mean = small.runs.group_by("sweep", "k", "basis", "seed").agg(
        (pl.col("mean").max() - pl.col("mean").min()).alias("spread"), pl.col("mean").max()
    )
    assert (mean["spread"] <= 1e-9 * mean["mean"]).all()


def test_every_claim_of_the_paper_is_included(small: StudyResult) -> None:
    ids = [claim.id for claim in small.claims]
    assert ids == [claim.id for claim in CLAIMS]
    assert len(set(ids)) == len(ids) == 23
    assert {claim.section.partition(",")[0] for claim in small.claims} == {
        "7.1", "7.2", "7.3", "7.4", "8",
    }  # fmt: skip
    assert {f"fig. {n}" for n in range(1, 8)} <= {c.section[5:] for c in small.claims}
    table = small.claims_frame
    assert table.columns == list(CLAIM_COLUMNS)
    assert len(table) == 23 * len(CLAIM_BASES)
    assert not table.null_count().sum_horizontal().item()
    text = small.text(200)
    for claim in small.claims:
        assert claim.comment
        assert claim.test
        assert claim.says in text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HASHES)
def test_every_hash_runs(name: str) -> None:
    result = multipath_ecmp(seeds=2, flows=40, k=(4, 6), hash=name)
    assert f"{name} hash" in result.text()
    assert len(result.claims) == len(CLAIMS)
    assert repr(result).startswith(f"StudyResult(multipath-ecmp, {name} hash: ")


def test_more_parts_spread_better(small: StudyResult) -> None:
    cv = small.summary.filter(sweep="cdf", basis="directed", metric="cv")
    mean = dict(cv.select("scheme", "mean").iter_rows())
    assert mean["ecmp"] > mean["e-ecmp"] > mean["flowlet"] > mean["flowlet-e-ecmp"]
    assert mean["flowlet-e-ecmp"] > mean["equal-split"]


@pytest.mark.slow
def test_imbalance_does_not_grow_when_the_flows_grow_with_the_hosts() -> None:
    # In the study, imbalance grows with k as the number of flows is fixed; see docs/multipath.md.
    mean = []
    for k, seeds in ((4, 64), (8, 24), (16, 6)):
        fabric = build(f"fat-tree:k={k}")
        routes = route(fabric, "ecmp")
        up = directed(fabric)["agg-core-up"]
        result = []
        for seed in range(seeds):
            source, destination, hashing = traffic(k, fabric.num_hosts * 16, seed)
            loads = multipath_loads(fabric, routes, source, destination, [(1, 1)], seed=hashing)
            result.append(distribution(loads.per_link[:, up])[0, METRICS.index("cv")])
        mean.append(np.mean(result))
    assert max(mean[1:]) < 1.03 * mean[0] < 0.29


def test_excess_variation_distinguishes_tails() -> None:
    random = np.random.default_rng(0)
    exponential = excess_variation(random.exponential(size=(200, 4000)))
    assert exponential.mean() == pytest.approx(1, abs=0.01)
    assert excess_variation(random.normal(size=(50, 4000))).mean() < 0.9
    assert excess_variation(random.pareto(2.5, size=(50, 4000))).mean() > 1.3


def test_evidence_is_the_same_for_any_order_of_runs(small: StudyResult) -> None:
    shuffled = small.runs.sample(fraction=1.0, shuffle=True, seed=1)
    loads = dict.fromkeys(BASES, np.zeros((5, 4, 3)))
    one, other = (
        MultipathEvidence.of(runs, SCHEMES, loads, "ideal") for runs in (small.runs, shuffled)
    )
    for key, metrics in one.values.items():
        for metric, values in metrics.items():
            assert np.array_equal(values, other.values[key][metric])
    assert other.xs == {
        "qps": QPS, "qps-30": (1, 2, 4, 8, 16), "epochs": EPOCHS, "k": (4, 8), "cdf": (8,),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (0.18937, 0.00204, "0.1894±0.0020"),
        (257.66, 1.23, "257.7±1.2"),
        (1234.0, 56.0, "1234±56"),
        (1.0, 0.0, "1"),
        (0.00043, 0.0000213, "0.00043±0.00002"),
    ],
)
def test_numbers_show_two_digits_of_their_interval(mean: float, half: float, text: str) -> None:
    assert plus_minus(mean, half) == text


# -- output and input ----------------------------------------------------------------------------


def test_files(small: StudyResult, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    written = small.write(out)
    assert {path.name for path in written} == {path.name for path in out.iterdir()}
    assert {f"figure-{n}.png" for n in range(1, 8)} < {path.name for path in written}
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert_frame_equal(pl.read_parquet(out / "runs.parquet"), small.runs)
    assert_frame_equal(pl.read_csv(out / "summary.csv"), small.summary)
    described = pl.read_csv(out / "columns.csv")
    for name in ("runs", "summary", "cdf", "claims"):
        columns = described.filter(table=name)["column"].to_list()
        assert columns == pl.read_csv(out / f"{name}.csv").columns
    assert described.filter(pl.col("meaning").is_null()).is_empty()
    assert (out / "report.txt").read_text() == small.text()
    # A second write replaces the files by equal ones.
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    small.write(out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.slow
def test_run_writes_files_and_prints_their_names(tmp_path: Path) -> None:
    result = multipath_ecmp(seeds=2, flows=20, k=(4, 6), out=tmp_path / "study")
    assert all(path.is_file() for path in result.files)
    assert "figure-7.png" in result.text(300)


def test_unusable_output_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot create the output folder"):
        multipath_ecmp(out=tmp_path / "file")


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    target.write_text("old")

    def fail(handle) -> None:
        handle.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left"):
        write_with(target, fail)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 1}, "at least 2 seeds, not 1"),
        ({"flows": 0}, "at least 1 flow, not 0"),
        ({"k": (4,)}, "at least two sizes"),
        ({"k": (4, 4)}, "at least two sizes"),
        ({"k": (4, 7)}, "even and at least 4, not 7"),
        ({"k": (2, 4)}, "even and at least 4, not 2"),
        ({"k": (4, 200)}, "k must be at most 64, not 200"),
        ({"first_seed": -1}, "first seed must be at least 0"),
        ({"processes": 0}, "processes must be at least 1, not 0"),
    ],
)
def test_bad_parameters(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        multipath_ecmp(**options)  # type: ignore[arg-type]


def test_registry() -> None:
    entry = paper["multipath-ecmp"]
    assert entry is paper["multipath"]
    assert "multipath-ecmp" in paper.names()
    given = {"seeds": "5", "k": ["4", "8"], "hash": "crc", "out": "there"}
    assert paper.bind(entry, given) == {
        "seeds": 5, "k": (4, 8), "hash": "crc", "out": Path("there"),
    }  # fmt: skip
    with pytest.raises(InputError, match="option hash: 'sha1' does not fit"):
        paper.bind(entry, {"hash": "sha1"})
    with pytest.raises(InputError, match="unknown paper 'multipth'"):
        paper["multipth"]
