"""Commands of studies: their runs measure what the command itself prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import weft
from weft.advice.compare import compare
from weft.advice.machine_room import cost
from weft.fabrics.formats import write_fabric
from weft.fabrics.topology import build
from weft.sim.keys.key_set import workload_keys
from weft.sim.static.loads import flow_loads, host_flows
from weft.study.data import study_data
from weft.study.perform import perform
from weft.study.plan import plan
from weft.study.runs.executors import InProcess
from weft.study.runs.store import Store
from weft.study.spec import study_of
from weft_papers import paper

ROOT = Path(__file__).parents[2]
FABRIC = "xgft:2;4,4;1,2"


def runs_of(folder: Path, text: str) -> pl.DataFrame:
    """Perform a study and return its runs."""
    study = study_of(text, folder / "many.toml")
    with Store(folder / "store", write=True) as store:
        perform(plan(study, store), store, InProcess(), lambda progress: None)
    runs = study_data(folder / "store").runs
    assert runs["status"].to_list() == ["complete"] * len(runs), runs["reason"].to_list()
    return runs


def same(runs: pl.DataFrame, expected: pl.DataFrame, names: Any) -> None:
    """Compare columns row by row, exactly."""
    assert len(runs) == len(expected) > 0
    for name in names:
        assert runs[name].to_list() == expected[name].cast(pl.Float64).to_list(), name


def test_a_fabric_is_not_drawn_from_a_file_that_has_changed(tmp_path: Path) -> None:
    write_fabric(build(FABRIC), tmp_path / "net.topo")
    runs_of(tmp_path, 'command = "cost"\nfabric = "net.topo"\n')
    data = study_data(tmp_path / "store")
    (key,) = data.runs["key"]
    drawn = data.fabric(key)
    assert drawn is not None
    assert drawn.num_hosts == 16
    write_fabric(build("xgft:1;4;1"), tmp_path / "net.topo")
    assert data.fabric(key) is None


SWEEPS = [
    ("packet", 'engine = ["dmodk", "ecmp"]', {"routes": ["dmodk", "ecmp"]}),
    ("flow", 'engine = "dmodk"\nswitch_latency = "50ns"',
     {"routes": ["dmodk"], "switch_latency_ns": 50}),
    ("flit", 'engine = "minhop"\nrouter.buffer = 12',
     {"routes": "minhop", "router": weft.Router(buffer=12)}),
]  # fmt: skip


@pytest.mark.parametrize(("level", "keys", "options"), SWEEPS, ids=[each[0] for each in SWEEPS])
def test_a_sweep_measures_what_weft_sweep_does(
    tmp_path: Path, level: str, keys: str, options: dict[str, Any]
) -> None:
    runs = runs_of(
        tmp_path,
        f'''command = "sweep"
fabric = "{FABRIC}"
level = "{level}"
pattern = "hot-spot:fraction=0.2"
measure = "10us"
seed = 3
load = [0.2, 0.7]
{keys}
''',
    )
    table = weft.sweep(
        weft.fabric(FABRIC), loads=[0.2, 0.7], level=level, pattern="hot-spot:fraction=0.2",
        measure=10_000, seed=3, processes=1, **options,
    )  # fmt: skip
    assert (runs["load"].cast(pl.Float64) == table["load"]).all()
    same(runs, table, ("offered_load", "accepted_load", "latency_mean_ns", "latency_p99_ns"))


def test_seeds_of_a_sweep_are_those_of_weft_sweep(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        f'''command = "sweep"
fabric = "{FABRIC}"
measure = "5us"
load = 0.5
[study]
seeds = [4, 9]
''',
    )
    tables = [
        weft.sweep(weft.fabric(FABRIC), loads=[0.5], measure=5000, seed=seed) for seed in (4, 9)
    ]
    same(runs, pl.concat(tables), ("latency_mean_ns", "offered_load"))


def test_a_search_for_saturation_finds_what_weft_sweep_does(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        f'''command = "saturation"
fabric = "{FABRIC}"
engine = "dmodk"
pattern = "tornado"
measure = "10us"
resolution = 0.1
''',
    )
    table = weft.saturation_load(
        weft.fabric(FABRIC), "dmodk", pattern="tornado", measure=10_000, resolution=0.1
    )
    same(runs, table, ("sustained_load", "accepted_load", "runs"))


def test_a_comparison_measures_what_weft_compare_does(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        f'''command = "compare"
fabric = "{FABRIC}"
engine = ["minhop", "updn", "ecmp"]
samples = 50
seed = 2
''',
    )
    result = compare(weft.fabric(FABRIC), ["minhop", "updn", "ecmp"], samples=50, seed=2)
    table = pl.concat(
        [result.table.filter(pl.col("engine") == engine) for engine in runs["engine"]]
    )
    same(runs, table, ("ebb", "ebb_low", "max_load", "valid", "mean_hops", "lanes"))
    tornado = result.runs_table.filter(pl.col("pattern") == "tornado")
    expected = {row["engine"]: row["contention"] for row in tornado.iter_rows(named=True)}
    assert runs["contention_tornado"].to_list() == [expected[each] for each in runs["engine"]]


def test_flits_measure_what_weft_flits_does(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        """command = "flits"
fabric = "torus:4x4"
routing = "dor"
engine = "minhop"
load = [0.1, 0.4]
size = "1:0.5,4:0.5"
measure = 500
router.lanes = 8
seed = 5
""",
    )
    fabric = weft.fabric("torus:4x4")
    table = weft.sweep_flits(
        fabric, [weft.route(fabric, "minhop"), "dor"], loads=[0.1, 0.4],
        load=weft.Load(size="1:0.5,4:0.5", measure=500, seed=5), router=weft.Router(lanes=8),
    )  # fmt: skip
    same(runs, table, ("accepted_load", "latency_mean_cycles", "hops", "packets", "settled"))


def test_the_contention_of_keys_is_that_of_weft_keys(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        f'''command = "keys"
fabric = "{FABRIC}"
workload = "transpose"
placement = "random:seed=1"
engine = ["dmodk", "minhop"]
''',
    )
    fabric = weft.fabric(FABRIC)
    (key,) = workload_keys(fabric, weft.load_workload("transpose", 16), "random:seed=1").keys
    assert runs["contention"].to_list() == [key.contention] * 2
    flows = weft.traffic(16, "transpose")
    hosts = weft.place(fabric, 16, "random:seed=1")
    for row, engine in zip(runs.iter_rows(named=True), ("dmodk", "minhop"), strict=True):
        routes = weft.route(fabric, engine)
        ends = host_flows(fabric, hosts[flows.sources], hosts[flows.destinations])
        loads = flow_loads(fabric, routes, ends).per_link
        inner = fabric.forwards[fabric.link_from] & fabric.forwards[fabric.link_to]
        assert row["engine_contention"] == loads[inner].max()


def test_a_paper_has_the_verdicts_of_weft_paper(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        """command = "paper"
paper = "multipath"
options = { seeds = 2, k = [4, 8] }
[study.product]
options.flows = [100, 200]
""",
    )
    assert runs["options.flows"].to_list() == ["100", "200"]
    study = paper["multipath-ecmp"].function(seeds=2, flows=200, k=(4, 8), processes=1)
    holding = int((study.claims_frame["verdict"] == "holds").sum())
    assert runs["claims_hold"][1] == holding
    assert runs["claims"][1] == len(study.claims_frame) > holding


def test_predictions_are_those_of_weft_predict(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a: 0 -> 1 1MB\nb: 0 -> 2 1MB\n")
    runs = runs_of(
        tmp_path,
        """command = "predict"
graph = "one.txt"
bandwidth = "1GB/s"
[study.product]
coefficient.out_weight = [1, 0.75]
""",
    )
    assert runs["last_completion_s"].to_list() == pytest.approx([0.002, 0.0015])
    assert runs["mean_slowdown"].to_list() == pytest.approx([2, 1.5])


def test_costs_are_those_of_weft_cost(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        f'''command = "cost"
fabric = "{FABRIC}"
[study.product]
rack_units = [20, 42]
''',
    )
    plans = [cost(weft.fabric(FABRIC), rack_units=units) for units in (20, 42)]
    assert runs["racks"].to_list() == [len(each.racks) for each in plans]
    assert runs["cable_m"].to_list() == [each.cable_m for each in plans]


def test_a_plug_in_adds_a_command(tmp_path: Path) -> None:
    """The guide's command, in a distribution of its own, in worker processes."""
    guide = (ROOT / "docs/guides/extend.md").read_text()
    section = guide.split("## A command of studies")[1]
    module, file = (
        re.findall(rf"^```{kind}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0]
        for kind in ("python", "toml")
    )
    (tmp_path / "far.py").write_text(module)
    about = tmp_path / "far-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: far\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[weft.study_commands]\ndiameter = far\n")
    (tmp_path / "far.toml").write_text(file)
    words = [sys.executable, "-m", "weft", "study", "far.toml", "--workers", "1"]
    ran = subprocess.run(
        words, check=False, cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    with Store(tmp_path / "far.study") as store:
        found = [run.measures for run in store.runs()]
    assert sorted(each["diameter"] for each in found) == [4, 6]
    assert sorted(each["short"] for each in found) == [0, 1]
