"""Repetitions of studies: which runs a seed changes, and which measures of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import weft
from weft.fabrics.topology import build
from weft.report.study_summary import Summary, summary
from weft.report.study_text import answers, warnings
from weft.study.checks import WORKLOADS, with_seed
from weft.study.data import study_data
from weft.study.perform import perform
from weft.study.plan import plan, tasks_of
from weft.study.runs.executors import InProcess
from weft.study.runs.store import Store
from weft.study.spec import study_of
from weft.workload import load_workload
from weft.workload.placement import placement as placements
from weft.workload.placement.placement_registry import place

TREE = "xgft:2;4,4;1,2"


def made(folder: Path, text: str) -> Summary:
    """Perform a study and return its summary."""
    study = study_of(text, folder / "many.toml")
    with Store(folder / "store", write=True) as store:
        perform(plan(study, store), store, InProcess(), lambda progress: None)
    return summary(study_data(folder / "store"))


def one(found: Summary, **wanted: Any) -> dict[str, Any]:
    (row,) = found.points.filter(**wanted).to_dicts()
    return row


WORKLOAD_SPECS = [
    ("io", True), ("io:choice=block", False), ("io:servers=1", False), ("hot-spot", True),
    ("cartesian", True), ("cartesian:sizes=4KiB", True),
    ("cartesian:sizes=4KiB,shuffled=false", False),
    ("cartesian:sizes=4KiB,shuffled=false,calc_spread=0.5,utilization=0.5", True),
    ("pingpong", False), ("pingpong:sample=8", True), ("shuffle", False),
    ("shuffle:skew=1", True), ("moe", True), ("alltoallv:size=1KiB", False),
    ("alltoallv:size=1KiB,spread=0", False), ("alltoallv:size=1KiB,spread=0.5", True),
    ("shift", False), ("open-loop:interarrival=fixed", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "draws"), WORKLOAD_SPECS, ids=[each[0] for each in WORKLOAD_SPECS]
)
def test_a_workload_takes_a_seed_if_it_draws(spec: str, draws: bool) -> None:
    assert (with_seed(spec, 3, *WORKLOADS) != spec) == draws
    separator = "," if ":" in spec else ":"
    if spec.partition(":")[0] in ("shift",):
        return  # takes no seed at all
    works = [load_workload(f"{spec}{separator}seed={seed}", 16) for seed in range(4)]
    parts = [
        (each.peer.tolist(), each.size_bytes.tolist(), each.duration_ns.tolist()) for each in works
    ]
    assert any(each != parts[0] for each in parts) == draws


@pytest.mark.parametrize(
    ("spec", "draws"),
    [("block", False), ("block:order=most", False), ("block:order=random", True),
     ("cyclic:size=2", False), ("cyclic:order=random", True), ("random", True)],
)  # fmt: skip
def test_a_placement_takes_a_seed_if_it_draws(spec: str, draws: bool) -> None:
    assert (with_seed(spec, 3, placements) != spec) == draws
    fabric, separator = build(TREE), "," if ":" in spec else ":"
    placed = [place(fabric, 16, f"{spec}{separator}seed={seed}") for seed in range(4)]
    assert any((each != placed[0]).any() for each in placed) == draws


FLOW, PACKET = 'level = "flow"\n', 'level = "packet"\n'
RUNS = [
    ("minhop at the flow level", FLOW + 'engine = "minhop"', 1),
    ("static", 'level = "static"\nengine = "ecmp"', 1),
    ("split paths", FLOW + 'engine = "ecmp"', 1),
    ("hashed paths", FLOW + 'engine = "ecmp"\nmultipath = "hash"', 3),
    ("hashed LIDs", PACKET + 'engine = "minhop:lmc=1"\nlids = "hash"', 3),
    ("keys", FLOW + 'engine = "dmodk"\npolicy = "ark"', 3),
    ("packets", PACKET + 'engine = "minhop"', 1),
    ("packets with marks", PACKET + 'engine = "minhop"\nhardware.congestion_control = true', 3),
    ("packets by hash", PACKET + 'engine = "ecmp"', 3),
    ("packets without a choice", PACKET + 'engine = "ecmp"\npolicy = "deterministic"', 1),
    ("random faults", FLOW + 'engine = "minhop"\nfaults.random_cables = 1', 3),
    ("faults of one seed",
     FLOW + 'engine = "minhop"\nfaults.random_cables = 1\nfaults.seed = 4', 1),
    ("flits", 'level = "flit"\nengine = "minhop"', 1),
    ("flits by a routing", 'level = "flit"\nrouting = "nca-random"', 3),
]  # fmt: skip


@pytest.mark.parametrize(("what", "keys", "number"), RUNS, ids=[each[0] for each in RUNS])
def test_runs_of_other_seeds_are_one_run_if_nothing_is_drawn(
    tmp_path: Path, what: str, keys: str, number: int
) -> None:
    text = f'fabric = "{TREE}"\n{keys}\n[[job]]\nworkload = "shift"\n[study]\nseeds = 3\n'
    study = study_of(text, tmp_path / "many.toml")
    assert len({task.key for task in tasks_of(study, study.runs())}) == number


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_the_seed_of_a_run_without_draws_changes_nothing(level: Any) -> None:
    fabric = weft.fabric(TREE)
    routes = weft.route(fabric, "minhop")
    work = load_workload("alltoall:size=8KiB", 16)
    times = [
        weft.simulate(fabric, routes, work, level=level, seed=s).makespan_ns for s in (0, 1, 2)
    ]
    assert len(set(times)) == 1


def test_a_deterministic_study_has_no_repetitions(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        f'''fabric = "{TREE}"
level = "flow"
engine = ["minhop", "dmodk"]
[[job]]
workload = "alltoall:size=16KiB"
[study]
seeds = [0, 1, 2]
baseline = {{ engine = "minhop" }}
''',
    )
    with Store(tmp_path / "store") as store:
        assert len(store.briefs()) == 2
    points = found.points.filter(measure="makespan_ns")
    assert points["deterministic"].all()
    assert points["n"].to_list() == [1, 1]
    for name in ("ci95", "p", "ratio_low", "significant"):
        assert points[name].is_null().all()


def test_a_seed_may_change_some_measures_only(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        f'''command = "compare"
fabric = "{TREE}"
engine = ["minhop", "dmodk"]
pattern = ["shift", "random-permutation"]
samples = 20
[study]
seeds = 3
''',
    )
    fixed = {
        name: one(found, measure=name, engine="minhop")["deterministic"]
        for name in (
            "ebb", "max_load", "lanes", "contention_shift", "contention_random_permutation",
        )
    }  # fmt: skip
    assert fixed == {
        "ebb": False, "max_load": True, "lanes": True, "contention_shift": True,
        "contention_random_permutation": False,
    }  # fmt: skip
    assert one(found, measure="ebb", engine="minhop")["n"] == 3
    assert one(found, measure="max_load", engine="minhop")["n"] == 1


def test_latencies_of_saturated_runs_do_not_count(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        f'''command = "sweep"
fabric = "{TREE}"
engine = "dmodk"
pattern = "hot-spot:fraction=0.8"
measure = "20us"
load = [0.02, 1.0]
[study]
seeds = 2
''',
    )
    low, high = (one(found, measure="latency_mean_ns", load=load) for load in ("0.02", "1"))
    assert (low["n"], low["excluded"]) == (2, 0)
    assert (high["n"], high["excluded"], high["mean"], high["note"]) == (0, 2, None, "2 saturated")
    assert one(found, measure="accepted_load", load="1")["n"] == 2
    raw = found.data.runs.filter(load="1")
    assert raw["latency_mean_ns"].null_count() == 0  # what was measured is kept


def test_latencies_of_flits_that_do_not_settle_do_not_count(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        """command = "flits"
fabric = "torus:4x4"
routing = "dor"
pattern = "tornado"
measure = 1000
load = [0.05, 1.0]
""",
    )
    runs = found.data.runs
    settled = dict(zip(runs["load"], runs["settled"], strict=True))
    assert settled["1"] == 0
    for load in ("0.05", "1"):
        row = one(found, measure="latency_mean_cycles", load=load)
        assert (row["n"], row["excluded"]) == ((1, 0) if settled[load] else (0, 1))
    assert found.points.filter(pl.col("measure") == "accepted_load")["n"].to_list() == [1, 1]


def test_makespans_of_different_numbers_of_hosts_are_told(tmp_path: Path) -> None:
    from weft.report.study_text import warnings

    text = """level = "flow"
[[job]]
workload = "alltoall:size=1KiB"
[study.product]
fabric = ["torus:4x4", "torus:4x4,hosts=2"]
"""
    (warning,) = warnings(made(tmp_path, text))
    assert "from 16 ranks (torus:4x4) to 32 (torus:4x4,hosts=2)" in warning
    other = text.replace("[[job]]", "[[job]]\nranks = 16")
    assert warnings(made(tmp_path, other)) == []


ONCE = [
    ("minhop", "", "deterministic"), ("minhop", "faults.random_cables = 1", "one run"),
    ("ecmp", 'multipath = "hash"', "one run"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "more", "wanted"), ONCE)
def test_a_run_without_seeds_is_deterministic_if_nothing_is_drawn(
    tmp_path: Path, engine: str, more: str, wanted: str
) -> None:
    found = made(
        tmp_path,
        f"""fabric = "{TREE}"
level = "flow"
engine = "{engine}"
{more}
[[job]]
workload = "shift"
""",
    )
    texts = ["".join(each) for each in answers(found)]
    assert all(f"({wanted}" in text for text in texts)
    assert one(found, measure="makespan_ns")["deterministic"] == (wanted == "deterministic")


def test_sweeps_of_fabrics_of_different_size_have_a_warning(tmp_path: Path) -> None:
    text = """command = "{}"
{}
measure = "20us"
[study.product]
fabric = ["xgft:2;4,4;1,2", "{}"]
"""
    for command, keys in (("sweep", 'load = 0.2\nlevel = "flow"'),
                          ("saturation", 'resolution = 0.5\nlevel = "flow"')):  # fmt: skip
        for other, said in (("xgft:2;4,8;1,2", 1), ("xgft:2;4,4;1,4", 0)):
            folder = tmp_path / f"{command}{said}"
            folder.mkdir()
            found = warnings(made(folder, text.format(command, keys, other)))
            assert len(found) == said
            assert all("from 16 hosts" in each and "to 32" in each for each in found)


def test_a_share_of_faults_is_one_condition_for_fabrics_of_any_size(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        """level = "static"
engine = "minhop"
[[job]]
workload = "shift:offset=5"
[study]
seeds = 3
[study.product]
fabric = ["xgft:2;4,4;1,4", "xgft:2;8,4;1,8"]
"faults.random_cables" = [0, "12.5%"]
""",
    )
    assert found.conditions == ("faults.random_cables",)
    measure = found.data.measures[0].name
    with Store(tmp_path / "store") as store:
        runs = {run.key: run.parameters["faults"] for run in store.runs(store.briefs())}
    for share, draws in (("0", 1), ("12.5%", 3)):
        for fabric, missing in (("xgft:2;4,4;1,4", 2), ("xgft:2;8,4;1,8", 4)):
            row = one(found, measure=measure, fabric=fabric, **{"faults.random_cables": share})
            assert (row["n"], row["deterministic"]) == (draws, draws == 1)
            keys = found.data.runs.filter(
                pl.col("fabric") == fabric, pl.col("faults.random_cables") == share
            )["key"]
            assert [runs[key]["seed"] for key in keys] == list(range(3)) if draws > 1 else [0] * 3
            if draws > 1:
                lost = {
                    weft.fabric(fabric).num_cables - found.data.fabric(key).num_cables
                    for key in keys
                }
                assert lost == {missing}


def test_numbers_of_faults_that_belong_to_fabrics_are_no_conditions(tmp_path: Path) -> None:
    head = 'level = "static"\nengine = "minhop"\n[[job]]\nworkload = "shift"\n'
    lists = 'fabric = ["xgft:2;4,4;1,4", "xgft:2;8,4;1,8"]\n"faults.random_cables" = [2, 4]\n'
    found = made(tmp_path, f"{head}[[study.zip]]\n{lists}")
    assert found.conditions == ()
    assert set(found.best["choices"]) == {2}
    (tmp_path / "every").mkdir()
    found = made(tmp_path / "every", f"{head}[study.product]\n{lists}")
    assert found.conditions == ("faults.random_cables",)
