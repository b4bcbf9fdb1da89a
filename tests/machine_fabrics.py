"""Fabrics of machines with several adapters, for tests."""

from __future__ import annotations

import numpy as np

from weft.fabrics import Fabric, FabricBuilder


def rail_fabric(
    machines: int = 8,
    adapters: int = 4,
    *,
    per_group: int = 4,
    spines: int = 2,
    name: str = "gpu{machine:02d} mlx5_{adapter}",
    absent: tuple[tuple[int, int], ...] = (),
    lacking: tuple[tuple[int, int], ...] = (),
    swapped: tuple[int, int, int] | None = None,
) -> Fabric:
    """Return a rail-optimised tree: a leaf switch for each adapter of a group of machines.

    `absent`: groups and rails without a leaf switch, so that its adapters are unknown, too.
    `lacking`: machines and adapters that are not there. `swapped`: a machine, and two of its
    adapters, which have each other's cable.
    """
    build = FabricBuilder("rails", rate="4xNDR")
    groups = -(-machines // per_group)
    leaves = {
        (group, rail): int(build.switches([f"leaf{group}-{rail}"])[0])
        for group in range(groups)
        for rail in range(adapters)
        if (group, rail) not in absent
    }
    top = build.switches([f"spine{number}" for number in range(spines)])
    for leaf in leaves.values():
        build.connect(np.full(spines, leaf), top)
    for machine in range(machines):
        for adapter in range(adapters):
            rail = adapter
            if swapped and machine == swapped[0] and adapter in swapped[1:]:
                rail = sum(swapped[1:]) - adapter
            leaf = leaves.get((machine // per_group, rail))
            if leaf is None or (machine, adapter) in lacking:
                continue
            host = build.hosts([name.format(machine=machine, adapter=adapter)])
            build.connect([leaf], host)
    return build.fabric()
