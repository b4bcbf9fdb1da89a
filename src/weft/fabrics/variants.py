"""Fabrics made from a fabric: faults, slower cables, shuffled labels, other names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import whole_number, whole_numbers
from weft.core.errors import InputError
from weft.core.units import parse_rate
from weft.fabrics.builder import Parts, cable_latency_ns, default_guids, set_rate
from weft.fabrics.fabric import Fabric, LinkKind, NodeKind


def _one_or_more(things: int | str | Iterable[int | str]) -> Iterable[int | str]:
    if not isinstance(things, Iterable) or isinstance(things, str):
        return (things,)
    return things


def _cable_numbers(fabric: Fabric, cables: Iterable[int | str]) -> NDArray[np.int64]:
    numbers = [fabric.find_cable(c) if isinstance(c, str) else c for c in _one_or_more(cables)]
    checked = whole_numbers(
        numbers, "cables", low=0, high=fabric.num_cables - 1, of=f"cables of {fabric.name}"
    )
    return np.unique(checked)


def _node_name(fabric: Fabric, number: int) -> str:
    known = 0 <= number < fabric.num_nodes
    return f"{fabric.node_names[number]} (node {number})" if known else f"node {number}"


def _switch_numbers(fabric: Fabric, switches: Iterable[int | str]) -> NDArray[np.int64]:
    listed = [fabric.find_node(s) if isinstance(s, str) else s for s in _one_or_more(switches)]
    numbers = whole_numbers(listed, "switches").tolist()
    for number in numbers:
        if not 0 <= number < fabric.num_nodes or fabric.node_kind[number] != NodeKind.SWITCH:
            raise InputError(
                f"{_node_name(fabric, number)} is no switch; "
                "expected the name, GUID or number of one"
            )
    return np.array(sorted(set(numbers)), dtype=np.int64)


def without(fabric: Fabric, cables: Iterable[int | str], switches: Iterable[int | str]) -> Fabric:
    """See `Fabric.without`."""
    keep_cable = np.ones(fabric.num_cables, dtype=bool)
    keep_cable[_cable_numbers(fabric, cables)] = False
    keep_node = np.ones(fabric.num_nodes, dtype=bool)
    keep_node[_switch_numbers(fabric, switches)] = False
    return _subset(fabric, keep_node, keep_cable)


def _subset(fabric: Fabric, keep_node: NDArray[np.bool_], keep_cable: NDArray[np.bool_]) -> Fabric:
    parts = Parts.of(fabric)
    keep_cable = keep_cable & keep_node[parts.a_node] & keep_node[parts.b_node]
    number = np.cumsum(keep_node).astype(np.int32) - 1
    nodes = np.flatnonzero(keep_node)
    for key in ("kind", "ports", "guid", "forwards", "level", "coordinates"):
        setattr(parts, key, getattr(parts, key)[nodes])
    for key in ("system_guid", "vendor_id", "device_id"):
        setattr(parts, key, getattr(parts, key)[nodes])
    parts.names = [parts.names[node] for node in nodes]
    parts.descriptions = [parts.descriptions[node] for node in nodes]
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
    return parts.assemble()


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(whole_number(seed, "seed"))


def with_faults(fabric: Fabric, cables: int, switches: int, seed: int) -> Fabric:
    """See `Fabric.with_faults`."""
    between = np.flatnonzero(fabric.link_kind[0::2] == LinkKind.SWITCH_SWITCH)
    for what, wanted, there in (
        ("cables between switches", cables, len(between)),
        ("switches", switches, fabric.num_switches),
    ):
        if not 0 <= whole_number(wanted, f"the number of {what}") <= there:
            raise InputError(f"cannot remove {wanted} {what}: {fabric.name} has {there}")
    random = _random(seed)
    lost_switches = random.choice(fabric.num_switches, size=switches, replace=False)
    lost_cables = random.choice(between, size=cables, replace=False)
    return without(fabric, lost_cables.tolist(), lost_switches.tolist())


def degraded(fabric: Fabric, cables: Iterable[int | str], rate: str | float) -> Fabric:
    """See `Fabric.degraded`."""
    parse_rate(rate)
    parts = Parts.of(fabric)
    set_rate(parts, _cable_numbers(fabric, cables), rate)
    return parts.assemble()


def with_lengths(fabric: Fabric, length_m: NDArray[np.float64]) -> Fabric:
    """The fabric with known cable lengths, and the latencies that follow from them.

    Parameters
    ----------
    fabric
        Any fabric.
    length_m
        float64 [cables], NaN where still unknown.
    """
    parts = Parts.of(fabric)
    parts.length_m = np.asarray(length_m, dtype=np.float64).copy()
    parts.latency_ns = cable_latency_ns(parts.length_m)
    return parts.assemble()


def renamed(fabric: Fabric, names: Mapping[int, str]) -> Fabric:
    """The fabric with other labels for some nodes, given by GUID.

    Parameters
    ----------
    fabric
        Any fabric.
    names
        Node GUID -> label, as a node-name-map gives; GUIDs that the fabric lacks are passed over.

    Raises
    ------
    InputError
        When two nodes end up with one label.
    """
    parts = Parts.of(fabric)
    parts.names = [
        names.get(int(guid), old) for guid, old in zip(parts.guid, parts.names, strict=True)
    ]
    return parts.assemble()


def shuffled(fabric: Fabric, seed: int) -> Fabric:
    """See `Fabric.shuffled`."""
    random = _random(seed)
    parts = Parts.of(fabric)
    count = fabric.num_nodes
    order = random.permutation(count)
    number = np.empty(count, dtype=np.int32)
    number[order] = np.arange(count, dtype=np.int32)
    for key in ("kind", "ports", "forwards", "vendor_id", "device_id"):
        setattr(parts, key, getattr(parts, key)[order])

    # Every node gets its own permutation of port numbers.
    by_key = np.lexsort((random.random(len(fabric.port_link)), _slot_nodes(fabric)))
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
    parts.port_guid, parts.lid = {}, {}
    parts.level = np.full(count, -1, dtype=np.int8)
    parts.coordinates = np.zeros((count, 0), dtype=np.int32)
    parts.name = f"{fabric.name} shuffled by {seed}"
    parts.family, parts.parameters = "", {}
    return parts.assemble()


def _slot_nodes(fabric: Fabric) -> NDArray[np.int64]:
    return np.repeat(np.arange(fabric.num_nodes), fabric.num_ports)
