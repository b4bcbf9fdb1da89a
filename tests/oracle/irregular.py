"""Small irregular fabrics, on which engines are compared with those of the real OpenSM."""

from __future__ import annotations

import numpy as np

from weft.fabrics import Fabric, FabricBuilder, LinkKind
from weft.fabrics.load import fabric as load

#: Regular fabrics of 5 to 16 switches, which lose cables and hosts.
REGULAR = [
    "xgft:2;3,4;1,3", "xgft:3;2,2,3;1,2,2", "leaf-spine:leaves=6,spines=3,hosts=3,cables=2",
    "torus:dims=3x4,hosts=2", "torus:4x4", "mesh:3x4", "kns:k=3,n=2", "hypercube:3",
    "dragonfly:p=1,a=3,h=2,g=4,arrangement=palmtree", "hyperx:3x3;2;2",
]  # fmt: skip


def irregular(seed: int) -> Fabric:
    """Return a random graph, a random tree, or a regular fabric with damage, ports shuffled."""
    random = np.random.default_rng(seed)
    make = (_graph, _tree, _damaged, _damaged)[seed % 4]
    return make(seed, random).shuffled(seed)


def _graph(seed: int, random: np.random.Generator) -> Fabric:
    """Connect 5 to 15 switches at random, some twice, with 0 to 3 hosts each."""
    build = FabricBuilder(f"graph {seed}")
    switches = build.switches([f"s{i}" for i in range(random.integers(5, 16))], ports=30)
    for at in range(1, len(switches)):
        count = min(at, int(random.integers(1, 3)))
        for other in random.choice(switches[:at], size=count, replace=False):
            build.connect(switches[at : at + 1], [other], cables=int(random.integers(1, 3)))
    _hosts(build, switches, random, 0, 4)
    return build.fabric()


def _tree(seed: int, random: np.random.Generator) -> Fabric:
    """Connect two or three levels of switches; in some, hosts and cables are out of place."""
    build = FabricBuilder(f"tree {seed}")
    sizes = random.integers(2, 6, size=random.integers(2, 4))
    levels = [
        build.switches([f"s{level}.{i}" for i in range(size)], ports=30)
        for level, size in enumerate(sizes)
    ]
    for below, above in zip(levels[1:], levels, strict=False):
        for switch in below:
            missing = random.random(len(above)) < 0.1
            missing[random.integers(len(above))] = False
            for parent in above[~missing]:
                build.connect([switch], [parent])
    _hosts(build, levels[-1], random, 1, 5)
    if random.random() < 0.3:
        build.connect([random.choice(levels[0])], build.hosts(["high"]))
    if random.random() < 0.3:
        build.connect(*(levels[-1][k : k + 1] for k in random.permutation(len(levels[-1]))[:2]))
    return build.fabric()


def _hosts(
    build: FabricBuilder, switches: np.ndarray, random: np.random.Generator, least: int, stop: int
) -> None:
    counts = random.integers(least, stop, size=len(switches))
    counts[0] += 2  # A fabric has at least two hosts.
    for at, count in enumerate(counts):
        build.connect([switches[at]] * count, build.hosts([f"h{at}.{i}" for i in range(count)]))


def _damaged(seed: int, random: np.random.Generator) -> Fabric:
    """Remove up to two cables between switches, and unplug up to a third of the hosts."""
    fabric = load(REGULAR[int(random.integers(len(REGULAR)))])
    ends = np.flatnonzero(fabric.link_kind[::2] != LinkKind.SWITCH_SWITCH)
    idle = random.choice(ends, size=int(random.integers(len(ends) // 3 + 1)), replace=False)
    fabric = fabric.without(cables=idle.tolist())
    return fabric.with_faults(cables=int(random.integers(3)), seed=seed)
