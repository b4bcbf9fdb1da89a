from __future__ import annotations

import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import multipath as plain
from weft.fabrics.topology import build
from weft.kernels.routes.multipath import MOST_PATHS, residue
from weft.routing import route
from weft.routing.routes import CandidateRoutes
from weft.sim.static.multipath import HASHES, multipath_loads

SPLITS = [(1, 1), (2, 3), (5, 1), (1, 4), (3, 3)]


def candidates(fabric) -> CandidateRoutes:
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    return routes


def check(fabric, seed: int, flows: int) -> int:
    random = np.random.default_rng(seed)
    hosts = random.integers(fabric.num_hosts, size=(flows, 2))
    routes = candidates(fabric)
    unrouted = -1
    for name in HASHES:
        got = multipath_loads(fabric, routes, *hosts.T, SPLITS, hash=name, seed=seed)
        for split, loads in zip(SPLITS, got.per_link, strict=True):
            expected, unrouted = plain.loads(
                fabric, routes, name, seed, [tuple(pair) for pair in hosts.tolist()], split
            )
            np.testing.assert_allclose(loads, expected, rtol=1e-12, err_msg=f"{name} {split}")
            assert got.unrouted == unrouted
    return unrouted


def test_loads_of_random_fabrics_agree() -> None:
    # Random fabrics have parallel cables, hosts that forward, unconnected hosts and components.
    unrouted = sum(check(random_fabric(seed), seed, flows=25) for seed in range(12))
    assert unrouted > 0


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "fat-tree:k=6", "xgft:2;3,4;1,3;1,2"])
def test_loads_of_trees_agree(spec: str) -> None:
    assert check(build(spec), seed=11, flows=40) == 0


def test_residues_of_long_numbers() -> None:
    random = np.random.default_rng(3)
    limbs = random.integers(2**32, size=(40, 5), dtype=np.uint32)
    limbs[0], limbs[1] = 0, 2**32 - 1
    numbers = [sum(int(limb) << 32 * i for i, limb in enumerate(each)) for each in limbs]
    small, large = (int(random.integers(low, 2 * low)) for low in (2**31, 2**60))
    for modulus in (1, 2, 6, 16, 256, small, 2**32, 2**32 + 1, large, MOST_PATHS):
        result = [int(residue(each, np.uint64(modulus))) for each in limbs]
        assert result == [number % modulus for number in numbers]
