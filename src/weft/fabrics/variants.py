"""Variants of a fabric: faults, more nodes, fewer hosts, and shuffled labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import whole_number
from weft.core.errors import InputError
from weft.core.registry import convert
from weft.core.units import Count, number_of
from weft.fabrics.arrays import OUTSIDE, FabricArrays, LinkKind, NodeKind
from weft.fabrics.parts import Parts, cable_latency_ns, default_guids


def without(fabric: FabricArrays, cables: NDArray[np.int64], switches: NDArray[np.int64]) -> Parts:
    """Return the fabric without some cables and switches; see `Fabric.without`."""
    keep_cable = np.ones(fabric.num_cables, dtype=bool)
    keep_cable[cables] = False
    keep_node = np.ones(fabric.num_nodes, dtype=bool)
    keep_node[switches] = False
    return subset(fabric, keep_node, keep_cable)


def subset(
    fabric: FabricArrays, keep_node: NDArray[np.bool_], keep_cable: NDArray[np.bool_]
) -> Parts:
    """Return the fabric with some of its nodes, and those of its cables that are between them."""
    parts = Parts.of(fabric)
    keep_cable = keep_cable & keep_node[parts.a_node] & keep_node[parts.b_node]
    number = np.cumsum(keep_node).astype(np.int32) - 1
    nodes = np.flatnonzero(keep_node)
    for key in ("kind", "ports", "guid", "forwards", "level", "coordinates", "host_of_whole"):
        setattr(parts, key, getattr(parts, key)[nodes])
    for key in ("system_guid", "vendor_id", "device_id", "adapter"):
        setattr(parts, key, getattr(parts, key)[nodes])
    parts.names = [parts.names[node] for node in nodes]
    parts.descriptions = [parts.descriptions[node] for node in nodes]
    parts.assigned = [parts.assigned[node] for node in nodes] if parts.assigned else []
    for key in ("a_port", "b_port", "rate_gbps", "rate_code", "length_m", "latency_ns"):
        setattr(parts, key, getattr(parts, key)[keep_cable])
    parts.a_node = number[parts.a_node[keep_cable]]
    parts.b_node = number[parts.b_node[keep_cable]]
    parts.port_guid = {
        (int(number[node]), port): guid
        for (node, port), guid in parts.port_guid.items()
        if keep_node[node]
    }
    parts.lid = {
        (int(number[node]), port): lid for (node, port), lid in parts.lid.items() if keep_node[node]
    }
    return parts


def with_copies(
    fabric: FabricArrays,
    nodes: NDArray[np.int64],
    names: list[str],
    cables: NDArray[np.int64],
    ends: NDArray[np.int64],
    ports: NDArray[np.int64],
) -> Parts:
    """Return the fabric with more nodes and cables, each modelled on one that is there.

    Parameters
    ----------
    fabric
        The fabric.
    nodes, names
        Node on which each new one is modelled (kind, ports, level and model), and its label. New
        nodes are numbered from `num_nodes` on, and get GUIDs above all others and no LID.
    cables
        Cable on which each new one is modelled, in its rate.
    ends, ports
        int64 [cables, 2]: node and port at both ends of each new cable.
    """
    parts = Parts.of(fabric)
    for key in ("kind", "ports", "forwards", "level", "coordinates", "vendor_id", "device_id"):
        values = getattr(parts, key)
        setattr(parts, key, np.concatenate((values, values[nodes])))
    parts.coordinates[fabric.num_nodes :] = -1
    step = parts.ports[fabric.num_nodes :].astype(np.uint64) + np.uint64(1)
    first = max(parts.guid.max(initial=0), fabric.port_guid.max(initial=0)) + np.uint64(1)
    parts.guid = np.concatenate((parts.guid, first + np.cumsum(step) - step))
    parts.system_guid = np.append(parts.system_guid, np.zeros(len(nodes), dtype=np.uint64))
    parts.host_of_whole = np.append(parts.host_of_whole, np.full(len(nodes), -1, dtype=np.int32))
    parts.adapter = np.append(parts.adapter, np.full(len(nodes), OUTSIDE, dtype=np.int32))
    parts.names += names
    parts.descriptions += names
    parts.assigned += [("", "")] * len(nodes) if parts.assigned else []
    for key, new in (
        ("a_node", ends[:, 0]), ("b_node", ends[:, 1]), ("a_port", ports[:, 0]),
        ("b_port", ports[:, 1]), ("rate_gbps", parts.rate_gbps[cables]),
        ("rate_code", parts.rate_code[cables]), ("length_m", np.full(len(cables), np.nan)),
    ):  # fmt: skip
        old = getattr(parts, key)
        setattr(parts, key, np.concatenate((old, new.astype(old.dtype))))
    parts.latency_ns = cable_latency_ns(parts.length_m)
    parts.family, parts.parameters = "", {}
    return parts


def with_hosts(fabric: FabricArrays, number: int) -> Parts:
    """Return the fabric with this number of its hosts, chosen at even distances."""
    if not 2 <= number <= fabric.num_hosts:
        raise InputError(
            f"attached must be at least 2 and at most {fabric.num_hosts:,}, the number of hosts, "
            f"not {number:,}"
        )
    if fabric.forwards[fabric.host_nodes].any():
        raise InputError("attached does not apply to a fabric whose hosts forward")
    keep = np.ones(fabric.num_nodes, dtype=bool)
    keep[fabric.host_nodes] = False
    keep[fabric.host_nodes[np.arange(number) * fabric.num_hosts // number]] = True
    return subset(fabric, keep, np.ones(fabric.num_cables, dtype=bool))


def judged(fabric: FabricArrays, kept: NDArray[np.bool_]) -> Parts:
    """Return the fabric in which only the kept hosts are hosts; the others are auxiliary adapters.

    Auxiliary adapters have LIDs and paths like hosts, but no traffic.
    """
    parts = Parts.of(fabric)
    if (parts.host_of_whole < 0).all():  # else some of its hosts are left out already
        parts.host_of_whole[fabric.host_nodes] = np.arange(fabric.num_hosts)
    parts.kind[fabric.host_nodes[~kept]] = NodeKind.AUXILIARY
    return parts


def whole(fabric: FabricArrays) -> Parts:
    """Return the fabric in which hosts that are not judged are hosts again, in their old order."""
    parts = Parts.of(fabric)
    parts.kind[parts.host_of_whole >= 0] = NodeKind.HOST
    return parts


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(whole_number(seed, "seed"))


def with_faults(fabric: FabricArrays, cables: int | str, switches: int | str, seed: int) -> Parts:
    """Return the fabric after removing random cables and switches; see `Fabric.with_faults`."""
    outside = fabric.adapter == OUTSIDE
    both = outside[fabric.link_from] & outside[fabric.link_to]
    between = np.flatnonzero(((fabric.link_kind == LinkKind.SWITCH_SWITCH) & both)[0::2])
    fabric_switches = int(outside[: fabric.num_switches].sum())
    sizes, removed = [], []
    for what, given, there in (
        ("cables between switches", cables, len(between)),
        ("switches", switches, fabric_switches),
    ):
        name = f"the number of {what}"
        is_text = isinstance(given, str)
        wanted = convert(given, Count, name) if is_text else whole_number(given, name)
        size = number_of(wanted, there)
        if size > there:
            raise InputError(f"cannot remove {wanted} {what}: {fabric.name} has {there}")
        sizes.append(size)
        if wanted:
            share = f"{wanted}, " if isinstance(wanted, str) else ""
            removed.append(f"{size:,} of {there:,} {what} ({share}seed {seed})")
    random = _random(seed)
    removed_switches = random.choice(fabric_switches, size=sizes[1], replace=False)
    removed_cables = random.choice(between, size=sizes[0], replace=False)
    parts = without(fabric, removed_cables, removed_switches)
    if isinstance(cables, str) or isinstance(switches, str):
        parts.name = f"{fabric.name} without {' and '.join(removed)}"
    return parts


def shuffled(fabric: FabricArrays, seed: int) -> Parts:
    """Return the fabric with nodes, names and ports permuted; see `Fabric.shuffled`."""
    random = _random(seed)
    parts = Parts.of(fabric)
    count = fabric.num_nodes
    order = random.permutation(count)
    number = np.empty(count, dtype=np.int32)
    number[order] = np.arange(count, dtype=np.int32)
    for key in ("kind", "ports", "forwards", "vendor_id", "device_id", "host_of_whole"):
        setattr(parts, key, getattr(parts, key)[order])

    # Permute the port numbers of each node independently.
    by_key = np.lexsort((random.random(len(fabric.port_link)), fabric.slot_node))
    new_port = np.empty(len(by_key), dtype=np.int32)
    new_port[by_key] = np.arange(len(by_key), dtype=np.int32)
    slot_start = fabric.port_offset
    for node_key, port_key in (("a_node", "a_port"), ("b_node", "b_port")):
        node, port = getattr(parts, node_key), getattr(parts, port_key)
        setattr(parts, port_key, new_port[slot_start[node] + port - 1] - slot_start[node] + 1)
        setattr(parts, node_key, number[node])

    cable_order = random.permutation(fabric.num_cables)
    flip = random.random(fabric.num_cables) < 0.5
    parts.a_node, parts.b_node = (
        np.where(flip, parts.b_node, parts.a_node)[cable_order],
        np.where(flip, parts.a_node, parts.b_node)[cable_order],
    )
    parts.a_port, parts.b_port = (
        np.where(flip, parts.b_port, parts.a_port)[cable_order],
        np.where(flip, parts.a_port, parts.b_port)[cable_order],
    )
    for key in ("rate_gbps", "rate_code", "length_m", "latency_ns"):
        setattr(parts, key, getattr(parts, key)[cable_order])

    parts.guid = default_guids(parts.kind, parts.ports)
    for kind in np.unique(parts.kind):
        same = np.flatnonzero(parts.kind == kind)
        alike = [same[parts.ports[same] == ports] for ports in np.unique(parts.ports[same])]
        for group in alike:
            parts.guid[group] = parts.guid[random.permutation(group)]
    labels = random.permutation(count)
    parts.names = [f"n{label:0{len(str(count))}d}" for label in labels]
    parts.descriptions = list(parts.names)
    parts.system_guid = np.zeros(count, dtype=np.uint64)
    parts.port_guid, parts.lid, parts.assigned = {}, {}, []
    parts.level = np.full(count, -1, dtype=np.int8)
    parts.coordinates = np.zeros((count, 0), dtype=np.int32)
    parts.name = f"{fabric.name} shuffled by {seed}"
    parts.family, parts.parameters = "", {}
    return parts
