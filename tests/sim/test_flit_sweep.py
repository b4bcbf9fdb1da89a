"""Load sweeps at the flit level."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.simulate_runs import TREE

import weft
from weft import Load, Router
from weft.cli import main
from weft.core.errors import InputError
from weft.sim.flit.workloads import cycles_of
from weft.study.spec import study_of


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [1, 4])
def test_a_sweep_has_the_latency_of_traffic_generated_by_endpoints(size: int) -> None:
    """Poisson arrivals of a sweep against the Bernoulli process of `simulate_flits`.

    A message waits half a cycle on average for the next cycle. At its source, packets of s cycles
    wait r s / (2 (1 - r)) in an M/D/1 queue of load r, and r (s - 1) / (2 (1 - r)) behind a
    Bernoulli process: the difference is r / (2 (1 - r)).
    """
    fabric = weft.fabric("torus:8x8")
    cycle_ps, latency, _ = cycles_of(fabric, 64)
    table = weft.sweep(
        fabric, level="flit", routing="dor", loads=(0.1, 0.4), size=64 * size,
        hardware=weft.Hardware(header_bytes=0), processes=1, measure=10_000,
    )  # fmt: skip
    assert table["routing"].to_list() == ["dor", "dor"]
    assert table["engine"].to_list() == table["policy"].to_list() == [None, None]
    assert not table["saturated"].any()
    for row in table.iter_rows(named=True):
        load = row["load"]
        other = weft.simulate_flits(
            fabric, "dor", latency=latency,
            load=Load(rate=load, size=size, warmup=2000, measure=8000),
        )  # fmt: skip
        assert other.settled
        mean, error = (1000 * row[f"latency_{name}_ns"] / cycle_ps for name in ("mean", "ci95"))
        expected = other.latency.mean + 0.5 + load / (2 * (1 - load))
        assert mean == pytest.approx(expected, abs=error + other.latency.half_width)
        assert error < 1


def test_the_command_sweeps_and_finds_the_saturation_of_routings(capsys, tmp_path: Path) -> None:
    file = tmp_path / "sweep.parquet"
    words = ["sweep", TREE, "--level", "flit", "--loads", "0.2,0.9", "--size", "256B"]
    status = main(
        [*words, "--routing", "nca-random", "--engine", "dmodk", "--saturation", "0.5",
         "--router", "lanes=2,buffer=12", "--hardware", "header=0", "--output", str(file),
         "--plot", str(tmp_path / "curves.svg")],
    )  # fmt: skip
    out = capsys.readouterr().out
    assert status == 0
    assert re.search(r"routing nca-random: sustains 0\.(2|19)", out)
    assert re.search(r"dmodk: sustains 0\.(2|19)", out)
    assert "level flit; header_bytes=0; lanes=2, buffer=12" in out
    table = pl.read_parquet(file)
    assert table["router"].unique().to_list() == ["lanes=2, buffer=12"]
    assert table["policy"].to_list() == ["deterministic"] * 2 + [None] * 2
    assert (table.filter(load=0.2)["saturated"] == [False, False]).all()
    text = (tmp_path / "curves.svg").read_text()
    assert "routing nca-random" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "packet", "routing": "dor"}, "the packet level has no routing; the flit level"),
        ({"level": "flow", "policy": "ecmp"}, "the flow level has no policy; the packet and the"),
        ({"level": "packet", "router": Router()}, "has no router; the flit level has it"),
        ({"level": "flit", "routing": []}, "empty list"),
        ({"level": "flit", "routing": "dor", "policy": "ecmp"}, "takes no policy; routes of an"),
        ({"level": "flit", "routing": 3}, "routing must be one value or a list, not 3"),
        ({"level": "flit", "routing": [3]}, "routing must be a routing by name, not 3"),
        ({"level": "flit", "routing": "nowhere"}, "unknown routing 'nowhere'"),
        ({"level": "flit", "switch_latency_ns": 3}, "has no switch_latency_ns; the flow and the"),
        ({"level": "static"}, "the static level has no load; expected packet, flow or flit"),
    ],
)
def test_sweeps_refuse_what_does_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        weft.sweep(weft.fabric(TREE), loads=(0.1,), **options)


@pytest.mark.parametrize(
    "head", ['command = "sweep"\nlevel = "flit"', 'command = "flits"\nseed = 1']
)
def test_a_study_refuses_policies_that_no_run_has(head: str) -> None:
    text = f'{head}\nfabric = "torus:3x3"\nrouting = "dor"\npolicy = "ecmp"\nload = 0.1\n'
    with pytest.raises(InputError, match=r"x\.toml:5: a routing by coordinates takes no policy"):
        study_of(text, "x.toml").runs()
    assert len(study_of(f'{text}engine = "ugal"\n', "x.toml").runs()) == 2
