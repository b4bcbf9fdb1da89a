"""Paths between processors by their definition: inside machines, and by tables of the subnet."""

from __future__ import annotations

import numpy as np

from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.machine_model import MachineModel
from weft.routing.routes import TableRoutes


def random_machines(seed: int) -> tuple[Fabric, MachineModel]:
    """Return a connected fabric of switches and adapters, and a model that fits it."""
    random = np.random.default_rng(seed)
    adapters = int(random.integers(1, 4))
    processors = adapters * int(random.integers(1, 3)) + int(random.integers(0, 2))
    near = np.append(np.arange(adapters), random.integers(0, adapters, processors - adapters))
    scales_up = bool(random.integers(2))
    model = MachineModel(
        name="random", summary="", source={}, kind="gpu", processors=processors,
        adapters=adapters, near=tuple(random.permutation(near).tolist()), adapter_gbps=100.0,
        scale_up_gbps=1600.0 * scales_up, pcie_gbps=200.0, pcie_latency_ns=300.0,
        between_gbps=0.0 if scales_up or adapters == 1 else 150.0,
    )  # fmt: skip
    build = FabricBuilder(f"random {seed}", rate="4xEDR")
    switches = build.switches([f"s{at}" for at in range(int(random.integers(2, 9)))])
    if random.integers(2):
        for at in range(1, len(switches)):
            build.connect([switches[at]], [switches[random.integers(at)]], cables=2)
        build.connect(switches[:1], switches[-1:])
    else:  # a ring, on which engines need lanes
        build.connect(switches, np.roll(switches, 1))
    names = [f"n{at} mlx5_{a}" for at in range(int(random.integers(2, 4))) for a in range(adapters)]
    others = [f"oss{at}" for at in range(2)] if adapters > 1 else []
    hosts = build.hosts([names[at] for at in random.permutation(len(names))] + others)
    build.connect(hosts, random.choice(switches, len(hosts)))
    return build.fabric(), model


def path(
    subnet: Fabric, routes: TableRoutes, model: MachineModel, source: str, target: str
) -> tuple[list[str], int]:
    """Return the nodes on the path between two processors, and its service level.

    A processor is `machine gpuN`, any other host an adapter of the subnet.
    """
    (machine, p), (other, q) = _processor(source), _processor(target)
    if machine == other and machine:
        if model.scale_up_gbps:
            return [source, f"{machine} scale-up", target], -1
        switches = dict.fromkeys(f"{machine} pcie{model.near[at]}" for at in (p, q))
        return [source, *switches, target], -1
    ends = [
        subnet.find_node(f"{name} mlx5_{model.near[at]}" if name else text)
        for name, at, text in ((machine, p, source), (other, q, target))
    ]
    host, lid = (node - subnet.num_switches for node in ends)
    row = first = int(subnet.link_to[subnet.port_link[subnet.port_offset[ends[0]]]])
    nodes = []
    while row != ends[1]:
        nodes.append(subnet.node_names[row])
        slot = subnet.port_offset[row] + int(routes.table[lid << routes.lmc, row]) - 1
        row = int(subnet.link_to[subnet.port_link[slot]])
    assert host != lid
    sl = np.broadcast_to(routes.sl, (subnet.num_switches, len(routes.table)))
    return [
        source, *_switch(model, machine, p), *nodes, *_switch(model, other, q), target,
    ], int(sl[first, lid << routes.lmc])  # fmt: skip


def _switch(model: MachineModel, machine: str, processor: int) -> list[str]:
    """Return the PCIe switch between a processor and its adapter, if there is one."""
    adapter = model.near[processor]
    alone = model.near.count(adapter) == 1 and (model.scale_up_gbps or model.processors == 1)
    return [] if alone or not machine else [f"{machine} pcie{adapter}"]


def _processor(name: str) -> tuple[str, int]:
    machine, _, own = name.partition(" gpu")
    return (machine, int(own)) if own else ("", 0)
