"""Reference implementation of the packet level: its arrays, from a fabric, routes and hardware."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from tests.reference import packet_choices, packet_flits, packet_network
from tests.reference.packet_state import (
    ADAPTIVE,
    CANDIDATES,
    ECMP,
    FLOWLET,
    FREE_CROSSINGS,
    FREE_PACKETS,
    NUMBERS,
    PATHS,
    SPRAY,
    TABLES,
    Network,
)
from weft.fabrics import Fabric
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.sim.packet.hardware import Hardware

POLICIES = {"ecmp": ECMP, "spray": SPRAY, "flowlet": FLOWLET, "adaptive": ADAPTIVE}

#: Largest number of links that a packet is on at once, in the fabrics of tests.
SPAN = 12


def packet_count(hardware: Hardware, size_bytes: int) -> int:
    """Return the number of packets of a message."""
    return max(1, -(-size_bytes // hardware.mtu_bytes))


def ps(nanoseconds: float) -> int:
    """Return nanoseconds rounded to picoseconds, halves to even [22]."""
    return int(np.rint(nanoseconds * 1000))


@dataclass
class Message:
    """A message: queue pair, number for random draws, size, source and target host."""

    queue_pair: int
    name: int
    num_bytes: int
    source: int
    target: int
    lid_offset: int = 0


def inner_links(fabric: Fabric) -> dict[int, int]:
    """Return the link into each host that forwards; the link out of it has the next number."""
    hosts = [node for node in fabric.host_nodes if fabric.forwards[node]]
    return {int(node): fabric.num_links + 2 * at for at, node in enumerate(hosts)}


def ends_of(fabric: Fabric, source: int, target: int, ports: str) -> tuple[int, int]:
    """Return the ports (endpoints) of two hosts that messages between them use."""
    ports_used = []
    for host in (source, target):
        node = fabric.num_switches + host
        cabled = np.flatnonzero(fabric.endpoint_node == node).tolist()
        ports_used.append(cabled[(source + target) % len(cabled) if ports == "spread" else 0])
    return ports_used[0], ports_used[1]


def first_link(fabric: Fabric, end: int) -> int:
    """Return the first link of packets from an endpoint; if its host forwards, the link into it."""
    inner, node = inner_links(fabric), int(fabric.endpoint_node[end])
    port = fabric.port_offset[node] + fabric.endpoint_port[end] - 1
    return inner[node] if node in inner else int(fabric.port_link[port])


def _cables(fabric: Fabric, hardware: Hardware) -> dict[str, Any]:
    """Return the arrays of links, those inside hosts last, and the links into each node [4]."""
    inner, graph = inner_links(fabric), fabric.graph
    rate = fabric.link_rate_gbps.tolist()
    latency = [ps(fabric.cable_latency_ns[link // 2]) for link in range(fabric.num_links)]
    tail = graph.node_row[fabric.link_from].tolist()
    head = graph.node_row[fabric.link_to].tolist()
    tail_port, head_port = fabric.link_from_port.tolist(), fabric.link_to_port.tolist()
    for node in inner:
        row = int(graph.node_row[node])
        plugged = fabric.port_link[fabric.port_offset[node] : fabric.port_offset[node + 1]]
        ports = sum(float(fabric.link_rate_gbps[link]) for link in plugged if link >= 0)
        rate += 2 * [hardware.adapter_gbps or ports]
        latency += [0, 0]
        tail += [-1, row]
        head += [row, -1]
        tail_port += [0, 0]
        head_port += [0, 0]
    routing = []
    for row in head:
        is_host = row >= 0 and int(graph.row_node[row]) in inner
        forward = hardware.forward_latency_ns
        latency_ns = forward if is_host and forward is not None else hardware.switch_latency_ns
        routing.append(ps(latency_ns) if row >= 0 else 0)
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_rows)]
    for link, row in enumerate(head):
        if row >= 0:
            incoming[row].append((head_port[link], link))
    row_link = graph.row_link.tolist()
    last = graph.destination_link.tolist()
    for node, link in inner.items():
        row_link[graph.row_base[graph.node_row[node]]] = link + 1
    for goal, row in enumerate(graph.destination_row):
        if last[goal] < 0 and row >= 0:
            last[goal] = row_link[graph.row_base[row]]
    return {
        "num_links": len(rate),
        "num_ports": 1 + max([*tail_port, *head_port]),
        "rate": np.array(rate, dtype=np.float64),
        "latency": latency,
        "tail": tail,
        "head": head,
        "tail_port": tail_port,
        "head_port": head_port,
        "route_time": routing,
        "in_offset": np.cumsum([0, *(len(links) for links in incoming)]),
        "in_link": [link for links in incoming for _, link in sorted(links)],
        "out_offset": np.cumsum([0, *(tail.count(row) for row in range(graph.num_rows))]),
        "out_link": [link for link in np.argsort(tail, kind="stable") if tail[link] >= 0],
        "row_base": graph.row_base,
        "row_link": row_link,
        "last_row": graph.destination_row,
        "last_link": last,
        "num_rows": graph.num_rows,
        "edge_link": graph.edge_link,
    }


def _route_arrays(routes: Routes) -> dict[str, Any]:
    none: list[int] = []
    arrays: dict[str, Any] = dict.fromkeys(
        ("table", "path_offset", "path_edge", "set_id", "set_offset", "set_edge", "set_lane"), none
    )
    if isinstance(routes, TableRoutes):
        arrays |= {"route_kind": TABLES, "table": routes.table.reshape(-1)}
    elif isinstance(routes, PathRoutes):
        arrays |= {"route_kind": PATHS, "path_offset": routes.offset, "path_edge": routes.edge}
    elif isinstance(routes, CandidateRoutes):
        assert not routes.num_intermediates
        arrays |= {
            "route_kind": CANDIDATES,
            "set_id": routes.set_id.reshape(-1),
            "set_offset": routes.set_offset,
            "set_edge": routes.set_edge,
            "set_lane": routes.set_lane,
        }
    lanes = routes.lanes
    arrays |= {
        "own_lanes": int(len(arrays["set_lane"]) > 0),
        "lanes_by_port": int(not lanes.is_uniform),
        "lane_table": lanes.tables.reshape(-1),
        "lane_index": lanes.index,
        "lane_base": lanes.base,
        "lane_ports": lanes.ports,
    }
    return arrays


def _messages(
    fabric: Fabric,
    routes: Routes,
    hardware: Hardware,
    cables: dict[str, Any],
    messages: Sequence[Message],
    ports: str,
) -> dict[str, Any]:
    """Return the arrays of messages: path, service level, first link and lane."""
    paths, sls, links, goals, lanes = [], [], [], [], []
    layout = types.SimpleNamespace(**_route_arrays(routes))
    pairs = routes.pair.tolist() if isinstance(routes, PathRoutes) else []
    for message in messages:
        start, goal = ends_of(fabric, message.source, message.target, ports)
        link = first_link(fabric, start)
        row, sl, path = cables["head"][link], routes.sl, goal
        if isinstance(routes, TableRoutes):
            path = (goal << routes.lmc) + message.lid_offset
        if isinstance(routes, PathRoutes):
            path = pairs.index(start * fabric.num_host_endpoints + goal)
        if sl.ndim == 1:
            sl = sl[path]
        elif sl.ndim == 2:
            sl = sl[row, path]
        goals.append(goal)
        paths.append(path)
        links.append(link)
        sls.append(int(sl))
        if layout.own_lanes:
            lanes.append(int(routes.lanes.tables[0][sl]))
        else:
            port = cables["head_port"][link]
            lanes.append(int(packet_choices.lane_between(layout, row, 0, port, int(sl))))
    count = len(messages)
    return {
        "msg_qp": [message.queue_pair for message in messages],
        "msg_name": [message.name for message in messages],
        "msg_bytes": [message.num_bytes for message in messages],
        "msg_coming": [packet_count(hardware, message.num_bytes) for message in messages],
        "msg_goal": goals,
        "msg_path": paths,
        "msg_sl": sls,
        "msg_link": links,
        "msg_lane": lanes,
        **{name: [-1] * count for name in ("msg_next", "msg_left", "msg_sent", "msg_arrived")},
    }


def _arbitration(hardware: Hardware, links: int) -> dict[str, Any]:
    tables = hardware.vl_arbitration
    high, low = (tables.high, tables.low) if tables else ((), ())
    limit = tables.limit if tables else 0
    # A limit of 0 admits one packet of any size.
    in_bytes = -1 if limit == 255 else max(1, 4096 * limit)
    return {
        "weighted": int(tables is not None),
        "high_lane": [lane for lane, _ in high],
        "high_weight": [weight for _, weight in high],
        "low_lane": [lane for lane, _ in low],
        "low_weight": [weight for _, weight in low],
        "high_limit": in_bytes,
        "last_lane": [-1] * links,
        "injected": [0] * links,
        "high_entry": [0] * links,
        "high_left": [high[0][1] if high else 0] * links,
        "low_entry": [0] * links,
        "low_left": [low[0][1] if low else 0] * links,
        "limit_left": [in_bytes] * links,
    }


def lay(
    fabric: Fabric,
    routes: Routes,
    hardware: Hardware,
    messages: Sequence[Message],
    *,
    policy: str = "ecmp",
    gap_ps: int = 10_000_000,
    entries: int = 4096,
    seed: int = 0,
    ports: str = "first",
    flit_bytes: int = 64,
    compiled: bool = False,
    most_packets: int | None = None,
) -> Network:
    """Return the network before anything has been sent.

    Parameters
    ----------
    fabric, routes, hardware
        The simulated fabric, its routes and its hardware.
    messages
        All messages that will be sent; messages of one queue pair may be in any order.
    policy, gap_ps, entries, seed
        Policy over candidates and its options.
    ports
        Port of hosts with several: the ``first``, or ``spread`` by the sum of the hosts' numbers.
    flit_bytes
        Size of all flits but the last of a packet.
    compiled
        Whether compiled functions will use the network, which then has arrays instead of lists.
    most_packets
        Largest number of packets in flight at once; all of them by default.
    """
    cables = _cables(fabric, hardware)
    links, vls = cables["num_links"], routes.num_vls
    link_lanes = links * vls
    packets = most_packets or sum(packet_count(hardware, m.num_bytes) for m in messages)
    crossings = SPAN * packets
    pairs = 1 + max((message.queue_pair for message in messages), default=0)
    queues = link_lanes * (cables["num_ports"] if hardware.queues == "voq" else 1)
    table = fabric.graph.num_rows * entries if policy == "flowlet" else 0
    number = [0] * NUMBERS
    number[FREE_CROSSINGS], number[FREE_PACKETS] = crossings, packets
    arrays: dict[str, Any] = {
        **cables,
        **_route_arrays(routes),
        **_messages(fabric, routes, hardware, cables, messages, ports),
        **_arbitration(hardware, links),
        **{name: [-1] * pairs for name in ("qp_first", "qp_last", "qp_next")},
        "qp_taken": [0] * pairs,
        **{name: [-1] * link_lanes for name in ("line_first", "line_last", "last_taken")},
        **{
            name: [0] * link_lanes
            for name in ("held", "returning", "inside", "wanted", "sent_packets", "sent_bytes")
        },
        "credits": [hardware.buffer_credits] * link_lanes,
        **{
            name: [0] * links
            for name in ("waited", "blocked", "link_until", "waiting", "memory_until")
        },
        **{name: [0] * links for name in ("look", "looked")},
        "port_until": [0] * (links * hardware.speedup),
        "among": [0] * vls,
        "queue_first": [-1] * queues,
        "queue_last": [-1] * queues,
        "flowlet_link": [-1] * table,
        "flowlet_time": [0] * table,
        **{
            name: [0] * packets
            for name in ("p_message", "p_bytes", "p_number", "p_passed", "p_final")
        },
        "free_packet": range(packets - 1, -1, -1),
        **{
            name: [0] * crossings
            for name in Network._fields
            if name.startswith("c_")
        },
        "free_crossing": range(crossings - 1, -1, -1),
        **{name: [0] * (6 * crossings + 6) for name in Network._fields if name.startswith("heap_")},
        "number": number,
        "reports": [0] * (2 * len(messages) + 2),
    }  # fmt: skip
    scalars = {
        "num_vls": vls,
        "flit_bytes": flit_bytes,
        "mtu_bytes": hardware.mtu_bytes,
        "header_bytes": hardware.header_bytes,
        "quantum_bytes": hardware.quantum_bytes,
        "buffer_bytes": hardware.buffer_bytes,
        "credit_bytes": hardware.credit_bytes,
        "credit_latency": ps(hardware.credit_latency_ns),
        "voq": int(hardware.queues == "voq"),
        "speedup": hardware.speedup,
        "adapter_gbps": float(hardware.adapter_gbps or 0),
        "policy": POLICIES[policy],
        "gap": gap_ps,
        "entries": entries,
        "seed": np.uint64(seed),
    }
    for name, value in arrays.items():
        if isinstance(value, int):
            scalars[name] = value
            continue
        array = np.array(value, dtype=np.float64 if name == "rate" else np.int64)
        scalars[name] = array if compiled else array.tolist()
    return _record(scalars) if compiled else Network(**scalars)


def _record(fields: dict[str, Any]) -> Any:
    """Return the fields in one block of memory, which compiled functions pass by its address."""
    kinds = []
    for name in Network._fields:
        value = np.asarray(fields[name])
        # An empty array has one element of 0 here, which is never read.
        kinds.append((name, value.dtype, (max(len(value), 1),) if value.ndim else ()))
    record = np.zeros(1, dtype=kinds)
    for name in Network._fields:
        value = np.asarray(fields[name])
        if value.size:
            record[name][0] = value
    return record.view(np.recarray)[0]


def compiled_functions() -> dict[str, Any]:
    """Return the functions of the network, compiled without changes."""
    modules = (packet_choices, packet_flits, packet_network)
    names: dict[str, Any] = {}
    for module in modules:
        names |= vars(module)
    for name, value in list(names.items()):
        if isinstance(value, types.FunctionType) and value.__module__.startswith("tests.reference"):
            again = types.FunctionType(value.__code__, names, name, value.__defaults__)
            names[name] = numba.njit(_nrt=False)(again)
    return names
