"""Scheduling-aware routes: balanced over the flows of jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft


def job_pairs(fabric: weft.Fabric, size: int, seed: int) -> np.ndarray:
    """Return all pairs of hosts within each of the jobs that fill a fabric at random."""
    order = np.random.default_rng(seed).permutation(fabric.num_hosts)
    jobs = order[: fabric.num_hosts // size * size].reshape(-1, size)
    first, second = np.nonzero(~np.eye(size, dtype=bool))
    return np.stack((jobs[:, first].reshape(-1), jobs[:, second].reshape(-1)))


@pytest.mark.parametrize("spec", ["xgft:3;4,4,4;1,4,4", "torus:4x4;hosts=2", "kns:k=4,n=2"])
def test_jobs_share_links_less_than_on_routes_balanced_over_all_pairs(spec: str) -> None:
    fabric = weft.fabric(spec)
    blind = weft.route(fabric, "dfsssp")
    worst = {"sar": 0, "dfsssp": 0}
    for seed in range(5):
        pairs = job_pairs(fabric, 8, seed)
        routes = weft.sar_routes(fabric, *pairs)
        assert weft.validate(fabric, routes).ok
        for name, each in (("sar", routes), ("dfsssp", blind)):
            loads = weft.link_loads(fabric, each, *pairs)
            worst[name] += loads[fabric.graph.edge_link].max()
    assert worst["sar"] < 0.9 * worst["dfsssp"]


def test_a_file_gives_the_routes_of_the_arrays(tmp_path: Path) -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    pairs = job_pairs(fabric, 5, 1)
    names = fabric.host_names
    file = tmp_path / "flows"
    file.write_text("".join(f"{names[a]} {names[b]}  # a pair\n" for a, b in pairs.T))
    routes = weft.route(fabric, f"sar:flows={file}")
    assert isinstance(routes, weft.TableRoutes)
    assert np.array_equal(routes.table, weft.sar_routes(fabric, *pairs).table)
    file.write_text(f"{names[0]} nowhere\n")
    with pytest.raises(weft.InputError, match=r"flows:1.*nowhere"):
        weft.route(fabric, "sar", flows=str(file))
    with pytest.raises(weft.NotApplicable, match="flows=FILE"):
        weft.route(fabric, "sar")


def test_unlisted_pairs_are_spread_over_the_links_that_flows_leave() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    loads = weft.link_loads(fabric, weft.sar_routes(fabric, [], []), *job_pairs(fabric, 16, 0))
    between = loads[fabric.graph.edge_link]
    assert between.max() == between.min()


def test_wrong_arguments_are_refused() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    with pytest.raises(weft.InputError, match="99"):
        weft.sar_routes(fabric, [0], [99])
    with pytest.raises(weft.InputError, match="destinations"):
        weft.sar_routes(fabric, [0, 1], [2])
    with pytest.raises(weft.InputError, match="passes must be at least 1"):
        weft.sar_routes(fabric, [0], [2], passes=0)
    with pytest.raises(weft.NotApplicable, match="lanes"):
        weft.sar_routes(weft.fabric("ring:6"), [0], [2], max_vls=1)
