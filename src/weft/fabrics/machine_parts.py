"""The inside of machines as nodes and cables of a fabric, and the fabric without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.fabrics import variants
from weft.fabrics.arrays import INSIDE, OUTSIDE, FabricArrays, NodeKind
from weft.fabrics.machine_model import MachineModel
from weft.fabrics.parts import Parts


class _Node(NamedTuple):
    """A switch or processor inside a machine."""

    name: str
    kind: NodeKind
    ports: int
    #: The adapter at the node, -1 for none, and the port of the cable that leaves the machine.
    adapter: int = -1
    out: int = 0


def _inside(model: MachineModel) -> tuple[list[_Node], list[tuple[float, ...]]]:
    """Return what is inside a machine: switches, then processors; and its cables.

    A cable is index and port of one end, then of the other, its rate and its latency.
    """
    near, shared, scales_up = model.near, model.shared_adapters, model.scale_up_gbps > 0
    beside = len(shared) - 1 if model.between_gbps else 0
    nodes: list[_Node] = []
    cables: list[tuple[float, ...]] = []
    if scales_up:
        nodes.append(_Node("scale-up", NodeKind.SWITCH, model.processors))
    pcie = {adapter: scales_up + at for at, adapter in enumerate(shared)}
    for adapter in shared:
        out = near.count(adapter) + 1
        nodes.append(_Node(f"pcie{adapter}", NodeKind.SWITCH, out + beside, adapter, out))
    for at, adapter in enumerate(near):
        this, last = len(nodes), 1 + scales_up
        if scales_up:
            half_ns = model.scale_up_latency_ns / 2
            cables.append((0, at + 1, this, 1, model.scale_up_gbps, half_ns))
        nodes.append(_Node(f"{model.kind}{at}", NodeKind.HOST, last, adapter, last))
        if adapter in pcie:
            nodes[-1] = nodes[-1]._replace(adapter=-1, out=0)
            port, rate = near[: at + 1].count(adapter), model.pcie_gbps
            cables.append((pcie[adapter], port, this, last, rate, model.pcie_latency_ns))
    for i, b in enumerate(shared if beside else ()):
        for j, a in enumerate(shared[:i]):
            ends = pcie[a], nodes[pcie[a]].out + i, pcie[b], nodes[pcie[b]].out + 1 + j
            cables.append((*ends, model.between_gbps, model.between_latency_ns))
    return nodes, cables


def equipped(
    fabric: FabricArrays, model: MachineModel, groups: Mapping[str, Sequence[int]]
) -> Parts:
    """Return the fabric with the inside of machines, given by name with their adapters in order.

    Switches inside machines are numbered after those of the fabric, and processors machine by
    machine, before other hosts. The node of an adapter becomes its processor or its PCIe switch,
    which keeps its GUIDs and LIDs, and its label as description.
    """
    inside, cables = _inside(model)
    old_nodes, old_cables, machines = fabric.num_nodes, fabric.num_cables, len(groups)
    hosts = fabric.num_switches + np.array(list(groups.values())).reshape(machines, -1)
    adapter = np.array([each.adapter for each in inside])
    node = np.where(adapter < 0, -1, hosts[:, adapter])  # [machines, nodes inside]
    fresh = np.flatnonzero(node < 0)
    node[node < 0] = old_nodes + np.arange(len(fresh))
    names = [f"{machine} {each.name}" for machine in groups for each in inside]
    table = np.array(cables).reshape(-1, 6)
    ends, ports = (table[:, columns].astype(np.int64) for columns in ([0, 2], [1, 3]))
    parts = variants.with_copies(
        fabric, np.full(len(fresh), fabric.num_ports.argmax()), [names[at] for at in fresh],
        np.zeros(machines * len(cables), dtype=np.int64), node[:, ends].reshape(-1, 2),
        np.tile(ports, (machines, 1)),
    )  # fmt: skip
    parts.name = f"{fabric.name} with {model.name}"
    parts.family, parts.parameters, parts.machine_model = fabric.family, fabric.parameters, model
    kind = np.array([each.kind for each in inside])
    parts.kind[node], parts.forwards[node] = kind, kind == NodeKind.SWITCH
    parts.ports[node] = [each.ports for each in inside]
    parts.level[old_nodes:] = -1
    parts.vendor_id[old_nodes:], parts.device_id[old_nodes:] = 0, 0
    parts.adapter[fabric.host_nodes] = np.arange(fabric.num_hosts)
    parts.adapter[old_nodes:] = INSIDE
    parts.host_of_whole[fabric.host_nodes] = np.arange(fabric.num_hosts) + node.size
    processors = node[:, kind == NodeKind.HOST]
    parts.host_of_whole[node] = -1
    parts.host_of_whole[processors] = np.arange(processors.size).reshape(processors.shape)
    parts.assigned = parts.assigned or [("", "")] * len(parts.names)
    for machine, each, (first, *_) in zip(groups, node.tolist(), hosts, strict=True):
        for at in each:
            parts.assigned[at] = machine, parts.assigned[first][1]
    for at, name in zip(node.ravel().tolist(), names, strict=True):
        parts.descriptions[at], parts.names[at] = parts.names[at], name

    out = np.zeros(len(parts.names), dtype=np.int32)
    out[node] = [each.out for each in inside]
    to_processor = np.zeros(old_cables, dtype=bool)
    for node_key, port_key in (("a_node", "a_port"), ("b_node", "b_port")):
        at, port = getattr(parts, node_key)[:old_cables], getattr(parts, port_key)[:old_cables]
        port[out[at] > 0] = out[at[out[at] > 0]]
        to_processor |= (out[at] > 0) & (parts.kind[at] == NodeKind.HOST)
    parts.rate_gbps[old_cables:] = np.tile(table[:, 4], machines)
    parts.rate_code[old_cables:] = 0
    parts.latency_ns[:old_cables] = fabric.cable_latency_ns + to_processor * model.pcie_latency_ns
    parts.latency_ns[old_cables:] = np.tile(table[:, 5], machines)
    used = np.ones(old_nodes, dtype=np.int32)
    used[fabric.endpoint_node[::-1]] = fabric.endpoint_port[::-1]
    guid = fabric.port_guid[fabric.port_offset[:-1] + used - 1]
    moved = np.flatnonzero(out[:old_nodes] > 0).tolist()
    parts.port_guid = {key: its for key, its in parts.port_guid.items() if not out[key[0]]}
    parts.port_guid |= {(at, int(out[at])): int(guid[at]) for at in moved}
    if model.scale_up_gbps:  # the port GUIDs of new nodes are up to 65,535 above their own
        top = max(int(parts.guid.max()), int(fabric.port_guid.max())) + 2**16
        ups = (at for at in moved if parts.kind[at] == NodeKind.HOST)
        parts.port_guid |= {(at, 1): top + number for number, at in enumerate(ups)}
    parts.lid = {
        (at, (0 if parts.kind[at] == NodeKind.SWITCH else int(out[at])) if out[at] else port): its
        for (at, port), its in parts.lid.items()
    }
    return parts


def subnet(fabric: FabricArrays) -> Parts:
    """Return the fabric without the inside of machines; see `Fabric.subnet`."""
    assert fabric.machine_model is not None
    outside = fabric.adapter == OUTSIDE
    leaves = outside[fabric.link_from] | outside[fabric.link_to]
    parts = variants.subset(fabric, fabric.adapter != INSIDE, leaves[0::2])
    its = parts.adapter >= 0
    parts.name = parts.name.replace(f" with {fabric.machine_model.name}", "", 1)
    parts.machine_model = None
    parts.host_of_whole[its] = parts.adapter[its]
    parts.adapter[:] = OUTSIDE
    parts.kind[its], parts.forwards[its], parts.ports[its] = NodeKind.HOST, False, 1
    for at in np.flatnonzero(its).tolist():
        parts.names[at] = parts.descriptions[at]
    # The cable of an adapter, from here on at port 1, is at the last port with a GUID of its own.
    for node, port in ((parts.a_node, parts.a_port), (parts.b_node, parts.b_port)):
        port[its[node]] = 1
    parts.port_guid = {
        (at, 1 if its[at] else port): guid for (at, port), guid in parts.port_guid.items()
    }
    parts.lid = {(at, 1 if its[at] else port): lid for (at, port), lid in parts.lid.items()}
    return parts
