"""Random fabrics for tests: any structure that the types allow, from a seed."""

from __future__ import annotations

import numpy as np

from weft.fabrics import Fabric, FabricBuilder, NodeKind


def random_fabric(
    seed: int, *, switches: int = 8, hosts: int = 10, others: int = 0, loopbacks: int = 0
) -> Fabric:
    """Return a random multigraph of switches with parallel cables, mixed rates and uneven hosts.

    Some hosts have two ports, forward, or have no cable; the fabric may be disconnected. `others`
    is the number of non-host adapters, of a higher rate; `loopbacks` cables join two ports of one
    switch.
    """
    random = np.random.default_rng(seed)
    build = FabricBuilder(f"random {seed}")
    nodes = build.switches([f"s{i}" for i in range(switches)])
    for _ in range(int(random.integers(switches - 2, 3 * switches))):
        a, b = random.choice(nodes, size=2, replace=False)
        rate = ["4xQDR", "4xDDR", "4xHDR", 37.5][random.integers(4)]
        build.connect([a], [b], rate=rate, cables=int(random.integers(1, 3)))
    for number in range(hosts):
        kind = random.random()
        (host,) = build.hosts([f"h{number}"], forwards=bool(kind > 0.85))
        if kind < 0.05:
            continue
        for leaf in random.choice(nodes, size=2 if kind > 0.7 else 1, replace=False):
            build.connect([host], [leaf])
    adapters = build.hosts([f"a{number}" for number in range(others)])
    build.connect(adapters, nodes[:others], rate="4xNDR")
    for _ in range(loopbacks):
        node = random.choice(nodes)
        build.connect([node], [node])
    parts = build.parts()
    parts.kind[adapters] = NodeKind.AUXILIARY
    return Fabric.of(parts)
