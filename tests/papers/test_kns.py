"""The KNS study: its measures against closed forms, its claims against doctored values."""

from __future__ import annotations

import multiprocessing
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.oracle.test_opensm_lanes import lanes_of
from tests.oracle.tools import opensm_tables, require_tools

import weft
from weft.errors import InputError
from weft.papers import kns_machine as machine
from weft.papers import kns_runs
from weft.papers.kns_benchmarks import BENCHMARKS, METRICS, Times, geometric_mean
from weft.papers.kns_evidence import Basis, Condition, Evidence, NotMeasured, Verdict, hold, judge
from weft.papers.kns_frames import RESULT_COLUMNS, RUN_COLUMNS, lanes_frame
from weft.papers.kns_infiniband import CLAIMS, KnsStudy, kns_infiniband
from weft.papers.kns_machine import ADAPTERS, DATA_LANES, KNS, NETWORKS, SHUFFLED, TREE
from weft.papers.kns_runs import PLACEMENTS, Run, Setting, measure, measure_all, study_runs
from weft.workload import load_workload

PACKETS = Setting("packet", "opensm", 1, False)
FLOWS = Setting("flow", "opensm", 1, False)
SMALL = ("pingpong-latency", "natural-ring-latency")
RUN_KEYS = ("network", "engine", "placement", "ranks_per_node", "benchmark")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> KnsStudy:
    return kns_infiniband(
        ranks_per_node=(1,), benchmarks=SMALL, processes=1, out=tmp_path_factory.mktemp("kns")
    )


# -- closed forms --------------------------------------------------------------------------------


def way_ns(switches: int, wire_bytes: float) -> float:
    """Posting to knowing, without contention: adapters, cables of 10 ns, switches, the bytes."""
    cables = 10.0 * (switches + 1)
    return 2 * machine.ADAPTER_LATENCY_NS + cables + 100.0 * switches + wire_bytes / 4


@pytest.mark.parametrize(
    ("network", "engine", "switches"),
    [(KNS, "hdor", (3, 5)), (KNS, "lash", (3, 5)), (TREE, "ftree", (1, 5)), (KNS, "updn", (3, 7))],
)
def test_ping_pong_latency_is_the_closed_form(
    network: str, engine: str, switches: tuple[int, int]
) -> None:
    found = measure(PACKETS, Run(network, engine, "random", 1, "pingpong-latency")).values
    least, most = ((2 * machine.OVERHEAD_NS + way_ns(n, 8 + 26)) / 1e3 for n in switches)
    assert found["pingpong-latency-min"] == pytest.approx(least, rel=1e-12)
    assert found["pingpong-latency-max"] == pytest.approx(most, rel=1e-12)


def test_ping_pong_bandwidth_is_the_closed_form() -> None:
    work = load_workload("pingpong:sizes=2000000", 2)
    result = weft.simulate_packets(
        machine.fabric(TREE), machine.routes(TREE, "ftree"), work, [0, 1],
        hardware=machine.hardware(TREE), overhead_ns=machine.OVERHEAD_NS,
    )  # fmt: skip
    times = Times(*(of / 1e3 for of in (
        result.posted_ps, result.ended_ps, result.left_ps, result.arrived_ps
    )))  # fmt: skip
    found = BENCHMARKS["pingpong-bandwidth"].measure(work, times)
    packets = -(-2_000_000 // 2048)
    handshake = 2 * way_ns(1, 64 + 26)
    one_way = 2 * machine.OVERHEAD_NS + handshake + way_ns(1, 2_000_000 + 26 * packets)
    assert found["pingpong-bandwidth-max"] == pytest.approx(2_000_000 / one_way, rel=1e-9)


def test_one_pair_at_a_time_knows_no_placement(study: KnsStudy) -> None:
    values = {
        placement: study.results.filter(
            pl.col("benchmark") == "pingpong-latency", pl.col("placement") == placement
        )["value"]
        for placement in PLACEMENTS
    }
    np.testing.assert_allclose(values["linear"], values["random"], rtol=1e-12)


def test_ring_latency_is_that_of_the_slowest_rank() -> None:
    work = load_workload("natural-ring:sizes=8,repetitions=3", 4)
    random = np.random.default_rng(3)
    posted = random.random(work.num_ops) * 100
    ended = posted + random.random(work.num_ops) * 1000
    times = Times(posted, ended, posted, ended)
    slowest = 0.0
    phase = work.phase_names.index("8 B")
    for rank in range(4):
        mine = [op for op in range(work.num_ops) if work.rank[op] == rank]
        mine = [op for op in mine if work.phase[op] == phase]
        turns = np.array_split(mine, 3)
        last, first = max(ended[turns[2]]), max(ended[turns[0]])
        slowest = max(slowest, (last - first) / 4)
    found = BENCHMARKS["natural-ring-latency"].measure(work, times)
    assert found == {"natural-ring-latency": pytest.approx(slowest / 1e3)}


@pytest.mark.parametrize(
    ("benchmark", "spec", "metric", "amount"),
    [
        ("ptrans", "ptrans:order=640", "ptrans", 640 * 640 * 8),
        ("graph500", "graph500:scale=12,drawn=12", "graph500", 16 * 2**12),
        ("random-access", "random-access:table=1KiB", "random-access", 8 * 512),
    ],
)
def test_rates_are_amounts_over_time(benchmark: str, spec: str, metric: str, amount: int) -> None:
    work = load_workload(spec, 8)
    posted = np.full(work.num_ops, 50.0)
    ended = np.full(work.num_ops, 1050.0)
    ended[work.phase == 0] = 9999.0  # what lies outside phases is not measured
    times = Times(posted, ended, posted, np.full(work.num_ops, -1.0))
    found = BENCHMARKS[benchmark].measure(work, times)
    assert found[metric] == pytest.approx(amount / 1000)


def test_hpcg_counts_what_ranks_calculate() -> None:
    found = measure(FLOWS, Run(KNS, "hdor", "linear", 1, "hpcg")).values
    assert 0.99 * 36 * 0.85 * 0.98 < found["hpcg"] < 36 * 0.85
    assert 0 < found["hpcg-waiting"] < 5


def test_ebb_alone_is_the_cable() -> None:
    work = load_workload("ebb:rounds=2", 2)
    flow = weft.simulate(
        machine.fabric(TREE), machine.routes(TREE, "ftree"), work, [0, 1], handshake=False
    )
    times = Times(flow.posted_ns, flow.ended_ns, flow.left_ns, flow.arrived_ns)
    assert BENCHMARKS["ebb"].measure(work, times)["ebb"] == pytest.approx(4.0, rel=2e-3)


def test_geometric_mean() -> None:
    assert geometric_mean([0.1 + 0.2]) == 0.1 + 0.2
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


# -- the machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engines", ["opensm", "weft"])
def test_all_routes_are_valid_and_free_of_deadlock(engines: machine.Engines) -> None:
    for network in NETWORKS.values():
        for engine in network.engines:
            routes = machine.routes(network.name, engine, engines)
            found = weft.validate(machine.fabric(network.name), routes)
            assert found.ok, (network.name, engine)
            assert routes.num_vls <= DATA_LANES


def test_table_2() -> None:
    lanes = {
        (row["network"], row["engine"]): row["lanes"]
        for row in lanes_frame("opensm").iter_rows(named=True)
    }
    found = [
        [lanes[name, engine] for engine in machine.PAPER_ENGINES[name]] for name in (KNS, TREE)
    ]
    assert found == [[1, 4, 8, 1], [1, 3, 8, 1]]
    assert [lanes[name, "lash"] for name in SHUFFLED.values()] == [6, 4]


@pytest.mark.parametrize("network", [KNS, TREE])
def test_lanes_are_spread_evenly_over_the_same_ways(network: str) -> None:
    fabric, few = machine.fabric(network), machine.routes(network, "dfsssp-few")
    spread = machine.spread_lanes(fabric, few, DATA_LANES)
    np.testing.assert_array_equal(spread.table, few.table)
    hosts = fabric.num_host_endpoints
    sources = fabric.graph.destination_row[:hosts]
    count = np.bincount(spread.sl[sources][:, :hosts].ravel(), minlength=DATA_LANES)
    # The few paths that need a second lane keep it to themselves.
    needed = few.num_vls
    assert (count > 0).all()
    full = np.sort(count)[needed - 1 :]
    assert full.max() < 2 * full.min()
    assert machine.spread_lanes(fabric, few, needed) is few
    # Paths of different lanes stay in different lanes.
    base = np.broadcast_to(few.sl, spread.sl.shape)
    assert not set(spread.sl[base == 0]) & set(spread.sl[base > 0])


@pytest.mark.parametrize("ranks", [1, 8])
def test_placements_fill_every_node_and_shuffled_ones_likewise(ranks: int) -> None:
    for network in NETWORKS:
        for placement in PLACEMENTS:
            hosts = machine.hosts_of(network, placement, ranks, 1)
            assert (np.bincount(hosts, minlength=36) == ranks).all()
    linear = machine.hosts_of(KNS, "linear", ranks, 1)
    np.testing.assert_array_equal(linear, np.arange(36 * ranks) // ranks)
    assert not np.array_equal(linear, machine.hosts_of(KNS, "random", ranks, 1))


@pytest.mark.parametrize("network", [KNS, TREE])
def test_shuffled_networks_count_hosts_alike(network: str) -> None:
    """Ways between ranks in order are as long with cables in no order."""
    lengths = []
    for name in (network, SHUFFLED[network]):
        fabric, routes = machine.fabric(name), machine.routes(name, "dfsssp")
        work = load_workload("pattern:all-to-all,size=8", 36)
        flow = weft.simulate(
            fabric, routes, work, machine.hosts_of(name, "linear", 1, 1), sharing="none",
            overhead_ns=0.0,
        )  # fmt: skip
        frame = flow.messages().sort("source_rank", "destination_rank")
        lengths.append(frame["alone_ns"].to_numpy())
    np.testing.assert_allclose(*lengths, rtol=1e-12)


@pytest.mark.oracle
def test_dumped_lash_is_that_of_opensm(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim")
    for network in (KNS, TREE):
        fabric, ours = machine.fabric(network), machine.routes(network, "lash")
        folder = tmp_path / network
        folder.mkdir()
        used, table = opensm_tables(fabric, folder, "lash", "-Q")
        assert used == "lash"
        hosts = fabric.num_host_endpoints
        np.testing.assert_array_equal(ours.table[:hosts], table[:hosts])
        assert ours.num_vls == lanes_of(folder)


# -- claims --------------------------------------------------------------------------------------

Edits = Mapping[tuple[str, str, str, str], float]
ANY = "*"


ALONE = Basis(1)


def doctored(edits: Edits, basis: Basis = ALONE) -> Evidence:
    """All values 1 but those of the edits: (metric, network, engine, placement) -> value."""
    values = {}
    for network in NETWORKS.values():
        for engine in network.engines:
            for placement in PLACEMENTS:
                for metric in METRICS:
                    key = (metric, network.name, engine, placement)
                    found = [
                        value
                        for pattern, value in edits.items()
                        if all(part in (ANY, name) for part, name in zip(pattern, key, strict=True))
                    ]
                    values[network.name, engine, placement, metric] = found[-1] if found else 1.0
    return Evidence(values, basis)


def every(metric: str, value: float) -> Edits:
    return {(metric, ANY, ANY, ANY): value}


def at_random(metric: str, network: str, value: float, engine: str = ANY) -> Edits:
    return {(metric, network, engine, "random"): value}


LANES = {
    (metric, ANY, engine, ANY): 1.2
    for metric in ("random-ring-bandwidth", "natural-ring-bandwidth", "ptrans", "graph500", "ebb")
    for engine in ("lash", "dfsssp", "hdor-2", "hdor-4", "hdor-8")
}
#: Claim -> values by which it comes out as the paper says, and some by which it does not.
FLIPS: dict[str, tuple[Edits, Edits]] = {
    "pingpong-bandwidth-max": (
        every("pingpong-bandwidth-max", 3.9),
        {**every("pingpong-bandwidth-max", 3.9), **at_random("pingpong-bandwidth-max", TREE, 3.0)},
    ),
    "pingpong-bandwidth-min-kns": ({}, at_random("pingpong-bandwidth-min", KNS, 0.9, "updn")),
    "pingpong-bandwidth-min-tree": (at_random("pingpong-bandwidth-min", TREE, 0.9), {}),
    "pingpong-bandwidth-avg": ({}, at_random("pingpong-bandwidth-avg", KNS, 0.9, "lash")),
    "pingpong-latency-min": ({("pingpong-latency-min", KNS, ANY, ANY): 1.2}, {}),
    "pingpong-latency-kns-placement": ({}, at_random("pingpong-latency-avg", KNS, 1.2, "hdor")),
    "pingpong-latency-tree-random": (
        {
            **at_random("pingpong-latency-max", TREE, 1.2),
            **at_random("pingpong-latency-avg", TREE, 1.2),
        },
        at_random("pingpong-latency-max", TREE, 1.2),
    ),
    "pingpong-latency-updn": ({("pingpong-latency-max", TREE, "updn", "linear"): 14.0}, {}),
    "ring-linear": (
        {("natural-ring-latency", KNS, ANY, ANY): 1.2, ("random-ring-latency", KNS, ANY, ANY): 1.4},
        {("natural-ring-latency", KNS, ANY, ANY): 1.6},
    ),
    "ring-natural-random": (at_random("natural-ring-latency", TREE, 1.2), {}),
    "ring-random-random": (at_random("random-ring-latency", TREE, 1.2), {}),
    "ring-lash": (
        {
            ("natural-ring-latency", KNS, "lash", ANY): 0.9,
            ("random-ring-latency", KNS, "lash", ANY): 0.9,
        },
        {("natural-ring-latency", KNS, "lash", ANY): 0.9},
    ),
    "gups-level": ({}, every("random-access", 0.04)),
    "gups-tree-random": (at_random("random-access", TREE, 0.9), {}),
    "gups-kns-hdor": ({}, at_random("random-access", KNS, 0.9, "hdor")),
    "ptrans-level": (every("ptrans", 20.0), every("ptrans", 10.0)),
    "ptrans-kns-same": ({}, at_random("ptrans", KNS, 1.2, "updn")),
    "ptrans-dfsssp-tree": ({("ptrans", TREE, "dfsssp", ANY): 1.2}, {}),
    "ptrans-hdor-ftree": ({("ptrans", KNS, "hdor", ANY): 1.2}, {}),
    "ptrans-lanes": (LANES, {}),
    "hpcg-level": (every("hpcg", 30.3), every("hpcg", 240.0)),
    "hpcg-kns-random": (at_random("hpcg", KNS, 1.2), at_random("hpcg", KNS, 1.001)),
    "hpcg-hdor": (at_random("hpcg", KNS, 1.2, "hdor"), {}),
    "graph500-level": (every("graph500", 5.0), every("graph500", 1.0)),
    "graph500-hdor": (at_random("graph500", KNS, 1.1, "hdor"), at_random("graph500", KNS, 0.9)),
    "graph500-random": (at_random("graph500", ANY, 0.9), at_random("graph500", TREE, 0.9)),
    "ebb-kns-tree": ({("ebb", KNS, "hdor", ANY): 1.2}, {("ebb", KNS, ANY, "linear"): 1.2}),
    "ebb-kns-tree-each": ({("ebb", KNS, ANY, ANY): 1.2}, {("ebb", KNS, "hdor", ANY): 1.2}),
    "ebb-hdor": ({("ebb", KNS, "hdor", ANY): 1.2}, {("ebb", KNS, ANY, ANY): 1.2}),
    "ebb-dfsssp-ftree": (
        {("ebb", TREE, "dfsssp", ANY): 1.2},
        {("ebb", TREE, "dfsssp", "linear"): 1.2},
    ),
    "lanes": (LANES, {}),
    "hdor-lanes": (LANES, {**LANES, ("ebb", KNS, "hdor-4", ANY): 0.1}),
    "adapters-latency": (
        {
            (metric, ADAPTERS, ANY, ANY): 0.8
            for metric in METRICS
            if metric.endswith(("latency", "latency-min", "latency-avg", "latency-max"))
        },
        {},
    ),
}


def test_every_claim_can_be_flipped() -> None:
    assert [claim.id for claim in CLAIMS] == list(FLIPS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
@pytest.mark.parametrize("basis", [Basis(1), Basis(8), Basis(1, shuffled=True)], ids=str)
def test_doctored_values_flip_the_verdict(claim, basis: Basis) -> None:
    as_said, otherwise = (doctored(edits, basis) for edits in FLIPS[claim.id])
    wanted = Verdict.HOLDS if claim.decides else Verdict.CANNOT_TELL
    found = judge(claim, as_said)
    assert found.verdict is wanted, found.worst
    assert not found.against
    assert claim.comment(as_said, found)
    found = judge(claim, otherwise)
    assert found.verdict is Verdict.FAILS
    assert found.against
    assert found.worst in found.against
    assert claim.comment(otherwise, found)


def test_claims_without_data_are_left_out() -> None:
    ebb = doctored({})
    only = Evidence({key: 1.0 for key in ebb.values if key[3] == "ebb"}, Basis(1))
    found = {result.claim.id for result in hold(CLAIMS, [only])}
    assert found == {"ebb-kns-tree", "ebb-kns-tree-each", "ebb-hdor", "ebb-dfsssp-ftree"}
    with pytest.raises(NotMeasured, match="ptrans"):
        only.get("ptrans", KNS, "hdor", "linear")


@pytest.mark.parametrize("seed", range(3))
def test_claims_whose_runs_are_missing_are_not_measured(seed: int) -> None:
    whole = doctored(LANES)
    (all_of_it,) = zip(*(result.findings.values() for result in hold(CLAIMS, [whole])), strict=True)
    random = np.random.default_rng(seed)
    missing = frozenset(key for key in sorted(whole.values) if random.random() < 0.02)
    values = {key: value for key, value in whole.values.items() if key not in missing}
    partial = hold(CLAIMS, [replace(whole, values=values, missing=missing)])
    assert [result.claim.id for result in partial] == [claim.id for claim in CLAIMS]
    verdicts = []
    for result, before in zip(partial, all_of_it, strict=True):
        (finding,) = result.findings.values()
        verdicts.append(finding.verdict)
        if finding.verdict is Verdict.NOT_MEASURED:
            assert finding.measured.startswith("not measured: ")
            assert (finding.conditions, finding.worst) == ((), None)
        else:
            assert finding == before
    assert 0 < verdicts.count(Verdict.NOT_MEASURED) < len(verdicts)
    # What nobody asked for is no claim of the study.
    left = {key: value for key, value in values.items() if key[3] == "ebb"}
    only = hold(CLAIMS, [replace(whole, values=left, missing=missing & left.keys())])
    assert {result.claim.id for result in only} <= {
        "ebb-kns-tree", "ebb-kns-tree-each", "ebb-hdor", "ebb-dfsssp-ftree"
    }  # fmt: skip


def test_shuffled_networks_are_a_basis_of_their_own() -> None:
    run = Run(SHUFFLED[KNS], "lash", "linear", 1, "ebb")
    measured = kns_runs.Measured(run, {"ebb": 7.0}, 1.0, 1, 1, 0.0, 0.0)
    tidy = replace(measured, run=replace(run, network=KNS), values={"ebb": 5.0})
    for shuffled, value in ((False, 5.0), (True, 7.0)):
        evidence = Evidence.of([measured, tidy], Basis(1, shuffled))
        assert evidence.values == {(KNS, "lash", "linear", "ebb"): value}


@pytest.mark.parametrize(
    ("low", "high", "met", "margin"),
    [(0.9, np.inf, True, 1 / 9), (1.1, np.inf, False, -1 / 11), (-np.inf, 0.5, False, -1.0)],
)
def test_conditions(low: float, high: float, met: bool, margin: float) -> None:
    condition = Condition("x", 1.0, low, high)
    assert condition.met is met
    assert condition.margin == pytest.approx(margin)
    assert "x: 1 (claimed at" in str(condition)


# -- the study -----------------------------------------------------------------------------------


def test_frames_are_tidy(study: KnsStudy) -> None:
    runs = study_runs((1,), SMALL, beyond=True)
    assert study.runs.height == len(runs) == len(set(runs))
    assert study.results.columns == list(RESULT_COLUMNS)
    assert study.runs.columns == list(RUN_COLUMNS)
    keys = ["network", "engine", "placement", "ranks_per_node", "metric"]
    assert study.results.select(keys).is_unique().all()
    assert study.results.height == study.runs.height * 2  # three metrics and one
    assert study.results["value"].is_finite().all()
    assert (study.runs["packet_hops"] > 0).all()
    assert study.runs["busiest"].is_between(0, 1).all()
    bases = study.claims_frame.select("ranks_per_node", "shuffled").unique()
    assert sorted(bases.rows()) == [(1, False), (1, True)]


def test_what_is_written_is_what_was_measured(study: KnsStudy) -> None:
    names = [path.name for path in study.files]
    for name, frame in (
        ("results", study.results), ("runs", study.runs), ("lanes", study.lanes),
        ("claims", study.claims_frame),
    ):  # fmt: skip
        folder = study.files[0].parent
        assert_frame_equal(pl.read_parquet(folder / f"{name}.parquet"), frame)
        assert f"{name}.csv" in names
    assert {"figure-10.png", "figure-12.png", "columns.csv", "report.txt"} <= set(names)
    assert "figure-17.png" not in names  # it was not run
    text = study.text()
    for claim in study.claims:
        assert claim.claim.says[:30] in text
    assert "dragonfly" in text


def test_the_number_of_processes_does_not_matter(study: KnsStudy) -> None:
    runs = [run for run in study_runs((1,), SMALL[:1], beyond=False) if run.network == KNS]
    parallel = measure_all(runs, PACKETS, processes=2)
    assert parallel == [measure(PACKETS, run) for run in runs]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def tell(watch: kns_runs.Watch, done: int, runs: int) -> None:
        if done >= number:
            raise KeyboardInterrupt

    monkeypatch.setattr(kns_runs.Watch, "__call__", tell)


def test_an_interrupt_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 2)
    runs = study_runs((1,), ("pingpong-latency", "hpcg"), beyond=False)
    found = [each.run for each in measure_all(runs, FLOWS, processes=2)]
    assert 2 <= len(found) < len(runs)
    assert found == [run for run in runs if run in found]
    assert not multiprocessing.active_children()


def test_an_interrupt_leaves_a_partial_study(study: KnsStudy, monkeypatch, tmp_path) -> None:
    # All of natural-ring-latency, which runs first, and none of pingpong-latency but one.
    made = study.asked // 2 + 1
    interrupt_at(monkeypatch, made)
    found = kns_infiniband(ranks_per_node=(1,), benchmarks=SMALL, processes=1, out=tmp_path)
    assert (study.partial, found.partial) == ("", f"{made} of {study.asked} runs")
    assert_frame_equal(
        found.runs,
        study.runs.join(found.runs, on=list(RUN_KEYS), how="semi", maintain_order="left"),
    )
    assert found.runs.height == made
    text = found.text()
    assert f"partial, {made} of {study.asked} runs, interrupted" in text
    before = {row[:6]: row for row in study.claims_frame.iter_rows()}
    lost = same = 0
    for row in found.claims_frame.iter_rows(named=True):
        whole = before[tuple(row.values())[:6]]
        if row["verdict"] == "not measured":
            lost += 1
            assert row["measured"].startswith("not measured: pingpong-latency")
            assert (row["conditions"], row["against"], row["worst"]) == (0, 0, "")
        else:
            same += 1
            assert tuple(row.values()) == whole
    assert lost + same == len(before)
    assert lost
    assert same
    assert (tmp_path / "report.txt").read_text() == replace(found, files=()).text(150)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in found.files}
    assert "figure-12.png" in names
    assert "figure-10.png" not in names
    assert_frame_equal(pl.read_parquet(tmp_path / "results.parquet"), found.results)


def test_an_interrupt_before_any_run_is_one(monkeypatch, tmp_path) -> None:
    interrupt_at(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        kns_infiniband(ranks_per_node=(1,), benchmarks=SMALL, processes=1, out=tmp_path)
    assert not list(tmp_path.iterdir())


#: The command, whose whole process group hears of a signal as soon as three runs are over.
SIGNALLED = """
import os, sys
from weft.cli import main
from weft.papers import kns_runs

number = int(sys.argv.pop(1))
told = []

def tell(watch, done, runs):
    if done >= 3 and not told:
        told.append(done)
        os.killpg(0, number)

kns_runs.Watch.__call__ = tell
raise SystemExit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_the_command_tells_what_a_signal_left(
    tmp_path: Path, number: signal.Signals, status: int, word: str
) -> None:
    words = ["paper", "kns-infiniband", "--level", "flow", "--ranks-per-node", "1"]
    words += ["--benchmarks", "natural-ring-latency", "--out", str(tmp_path)]
    words += ["--processes", "2"]
    child = subprocess.run(
        [sys.executable, "-c", SIGNALLED, str(int(number)), *words],
        check=False, capture_output=True, text=True, start_new_session=True, timeout=120,
    )  # fmt: skip
    assert child.returncode == status, child.stderr
    said = re.search(rf"weft: {word}: (\d+) of (\d+) runs; the study is partial\n", child.stderr)
    assert said
    made, asked = map(int, said.groups())
    assert 3 <= made < asked
    assert pl.read_parquet(tmp_path / "runs.parquet").height == made
    assert f"partial, {made} of {asked} runs, interrupted" in child.stdout
    assert "not measured" in child.stdout


def test_lanes_part_flows_only_where_there_are_packets() -> None:
    """Fluids know no lanes; packets of the same ways do."""

    def rates(setting: Setting) -> Iterator[float]:
        for engine in ("dfsssp-few", "dfsssp"):
            run = Run(TREE, engine, "random", 1, "natural-ring-bandwidth")
            yield measure(setting, run).values["natural-ring-bandwidth"]

    one, eight = rates(FLOWS)
    assert one == pytest.approx(eight, rel=1e-12)
    one, eight = rates(PACKETS)
    assert abs(eight / one - 1) > 0.01


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"ranks_per_node": (9,)}, "8 cores"),
        ({"ranks_per_node": (1, 1)}, "different"),
        ({"benchmarks": ("pingpong",)}, "unknown benchmark"),
        ({"seed": -1}, "seed"),
        ({"processes": 0}, "process"),
    ],
)
def test_bad_options(options, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        kns_infiniband(**options)
