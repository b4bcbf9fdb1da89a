"""How often runs of the flit level are called settled, far below and above saturation."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.sim.flit.router import Router
from weft.sim.flit.run import simulate_flits
from weft.sim.flit.traffic import Load

pytestmark = pytest.mark.slow

_LONG = {"pattern": "transpose", "size": "20", "warmup": 3000, "measure": 7000}
_WIDE = {"lanes": 8, "buffer": 8, "input_speedup": 2, "atomic": True}
#: Fabric, routing or engine, load, router, offered loads far below saturation, and one above it.
NETWORKS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], tuple[float, ...], float]] = {
    "mesh, long packets": ("mesh:8x8", "dor", _LONG, _WIDE, (0.0875,), 0.22),
    "mesh": ("mesh:8x8", "dor", {}, {}, (0.05, 0.2), 0.43),
    "torus": ("torus:8x8", "dor", {"size": "5"}, {}, (0.1, 0.3), 0.58),
    "tree": ("kary-n-tree:k=4,n=3", "minhop", {"size": "1:0.5,5:0.5"}, {}, (0.1, 0.3), 0.73),
    "dragonfly": ("dragonfly:p=2,a=4,h=2", "minhop", {}, {}, (0.05, 0.15), 0.9),
}
#: Runs at each load below saturation, and at the load above it.
BELOW, ABOVE = 200, 20
#: Stated share of runs far below saturation that are not called settled.
FALSE_ALARMS = 1 / 200


def settled(name: str, rate: float, seeds: int) -> int:
    spec, how, load, router, _, _ = NETWORKS[name]
    fabric = weft.fabric(spec)
    routing = how if how == "dor" else weft.route(fabric, how)
    return sum(
        simulate_flits(
            fabric, routing, load=Load(rate=rate, seed=seed, **load), router=Router(**router)
        ).settled
        for seed in range(seeds)
    )


def test_false_alarms_are_as_rare_as_stated() -> None:
    loads = [(name, rate) for name, (*_, below, _) in NETWORKS.items() for rate in below]
    wrong = sum(BELOW - settled(name, rate, BELOW) for name, rate in loads)
    assert wrong <= FALSE_ALARMS * BELOW * len(loads)


@pytest.mark.parametrize("name", NETWORKS)
def test_runs_just_above_saturation_are_not_settled(name: str) -> None:
    assert settled(name, NETWORKS[name][-1], ABOVE) <= 1
