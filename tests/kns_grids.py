"""KNS fabrics that no spec describes: dimensions of unequal size and selected faults."""

from __future__ import annotations

from itertools import product

import numpy as np

from weft.fabrics import Fabric, FabricBuilder


def grid(
    sizes: tuple[int, ...], *, hosts: int = 1, cables: int = 1, rates: tuple[str, ...] = ("4xHDR",)
) -> Fabric:
    """Return routers on a grid of these sizes, with one switch per line.

    Parallel cables cycle through `rates`. The name of a router is r and its coordinates. The name
    of a line's switch is s and the routers' coordinates, with x for the coordinate that varies.
    """
    build = FabricBuilder(f"grid {sizes}", dimensions=len(sizes))
    coordinates = list(product(*map(range, sizes)))
    routers = build.switches(
        ["r" + ".".join(map(str, p)) for p in coordinates], coordinates=coordinates
    )
    number = dict(zip(coordinates, routers.tolist(), strict=True))
    for place in coordinates:
        name = ".".join(map(str, place))
        ends = build.hosts(
            [f"h{name}.{i}" for i in range(hosts)], coordinates=np.tile(place, (hosts, 1))
        )
        build.connect(np.repeat(number[place], hosts), ends)
    for axis in range(len(sizes)):
        for rest in product(*(range(s) for i, s in enumerate(sizes) if i != axis)):
            spot = [*rest[:axis], -1, *rest[axis:]]
            name = ".".join("x" if c < 0 else str(c) for c in spot)
            (line,) = build.switches([f"s{name}"], coordinates=[spot])
            members = [number[(*rest[:axis], c, *rest[axis:])] for c in range(sizes[axis])]
            for cable in range(cables):
                build.connect([line] * len(members), members, rate=rates[cable % len(rates)])
    return build.fabric()
