"""Links, ports and queues of a fabric at the packet level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.arrays import INSIDE, OUTSIDE
from weft.kernels.packet.lanes import rounded
from weft.kernels.packet.net import Topology
from weft.kernels.packet.records import KIND, LINK, NEVER, PORT, ROW
from weft.kernels.records import aligned
from weft.sim.common.times import picoseconds
from weft.sim.packet.hardware import MAX_NODE_CREDITS, Hardware


@dataclass(frozen=True, eq=False)
class PacketNetwork:
    """Directed links and the nodes and ports at both ends.

    The fabric's links are first, in the fabric's order; then, for each host that forwards, the link
    from its adapter into the node and the link back.
    """

    #: Number of the fabric's links.
    num_fabric_links: int
    #: Links in their initial state, and the nodes and ports at their ends.
    topology: Topology
    #: int32 [rows]: link from the adapter of a host that forwards, -1 for other rows.
    inject: NDArray[np.int32]
    #: Number of packet queues in all nodes.
    num_queues: int
    #: Number of 64-bit words of a bit mask of a node's ports.
    words: int

    @property
    def num_links(self) -> int:
        """Number of links, those inside hosts included."""
        return len(self.topology.links)

    @property
    def rate_gbps(self) -> NDArray[np.float64]:
        """Rate of each link, float64 [links]."""
        rate: NDArray[np.float64] = self.topology.kinds["rate_gbps"][self.topology.links["kind"]]
        return rate

    def link_name(self, fabric: Fabric, link: int) -> str:
        """Return the name of a link."""
        if link < self.num_fabric_links:
            return fabric.link_name(link)
        ends = self.topology.links[link]
        into = ends["head_row"] >= 0
        row = int(ends["head_row"] if into else ends["tail_row"])
        name = fabric.node_names[int(fabric.graph.row_node[row])]
        return f"{name}[adapter] -> {name}[0]" if into else f"{name}[0] -> {name}[adapter]"

    @classmethod
    def of(cls, fabric: Fabric, hardware: Hardware, lanes: int) -> PacketNetwork:
        """Return the network of a fabric.

        `lanes`: number of virtual lanes in use.
        """
        graph = fabric.graph
        forwarding = np.flatnonzero(graph.row_node >= fabric.num_switches).astype(np.int32)
        inside = 2 * len(forwarding)
        links = fabric.num_links + inside
        head = np.concatenate([graph.link_row, np.full(inside, -1)])
        tail = np.concatenate([graph.node_row[fabric.link_from], np.full(inside, -1)])
        enter = np.arange(fabric.num_links, links, 2)
        head[enter], tail[enter + 1] = forwarding, forwarding
        rate = np.concatenate([fabric.link_rate_gbps, np.zeros(inside)])
        through = np.bincount(
            graph.node_row[fabric.link_from][graph.node_row[fabric.link_from] >= 0],
            weights=fabric.link_rate_gbps[graph.node_row[fabric.link_from] >= 0],
            minlength=graph.num_rows,
        )[forwarding]
        rate[enter] = rate[enter + 1] = hardware.adapter_gbps or through
        wrong = np.flatnonzero(~(rate > 0) | ~np.isfinite(rate))
        if len(wrong):
            name = fabric.link_name(int(wrong[0])) if wrong[0] < fabric.num_links else "a host"
            raise InputError(f"{name} has a rate of {rate[wrong[0]]} Gb/s; expected above 0")
        latency = np.concatenate(
            [np.repeat(picoseconds(fabric.cable_latency_ns), 2), np.zeros(inside, dtype=np.int64)]
        )
        forward_ns = hardware.forward_latency_ns
        if forward_ns is None:
            forward_ns = hardware.switch_latency_ns
        is_host = np.zeros(graph.num_rows, dtype=bool)
        is_host[forwarding] = True
        passing = np.where(
            is_host, picoseconds(forward_ns), picoseconds(hardware.switch_latency_ns)
        )
        packet_bytes = hardware.mtu_bytes + hardware.header_bytes
        durations = {each: rounded(packet_bytes, each) for each in np.unique(rate)}
        memory = np.zeros(links)
        if hardware.adapter_gbps is not None:
            slower = ((head < 0) | (tail < 0)) & (hardware.adapter_gbps < rate)
            apart = fabric.adapter != INSIDE  # the scale-up network of a machine has no adapters
            slower[: fabric.num_links] &= apart[fabric.link_from] & apart[fabric.link_to]
            memory[slower] = hardware.adapter_gbps
        kinds = np.zeros(links, dtype=KIND)
        kinds["latency_ps"] = latency
        kinds["credit_latency_ps"] = latency + picoseconds(hardware.credit_latency_ns)
        kinds["arrival_ps"] = latency + np.where(head >= 0, passing[head], 0)
        kinds["full_packet_ps"] = [durations[each] for each in rate]
        kinds["rate_gbps"], kinds["memory_gbps"] = rate, memory
        # What is inside machines is made for its latency: its buffers hold what is under way.
        out = fabric.adapter == OUTSIDE
        outside = out[fabric.link_from] & out[fabric.link_to]
        trip_ps = (kinds["arrival_ps"] + kinds["credit_latency_ps"])[: fabric.num_links]
        under_way = trip_ps * fabric.link_rate_gbps / 8000 / hardware.credit_bytes
        kinds["more_credits"][: fabric.num_links] = np.where(outside, 0, np.ceil(under_way))
        kinds, kind = np.unique(kinds, return_inverse=True)
        ports = np.diff(graph.row_base)
        _check_credits(fabric, np.bincount(head[head >= 0]) * lanes, hardware)
        queues = np.ones(links, dtype=np.int64)
        if hardware.queues == "voq":
            queues = np.where(head >= 0, ports[head], 0).astype(np.int64)
        zeros = np.zeros(inside, dtype=np.int64)
        ends = {
            "wake_at_ps": NEVER, "ready_ps": NEVER, "head_row": head, "tail_row": tail,
            "kind": kind, "queues": queues,
            "first_queue": np.concatenate([[0], np.cumsum(queues * lanes)[:-1]])[:links],
            "head_port": np.concatenate([fabric.link_to_port, zeros]),
            "tail_port": np.concatenate([fabric.link_from_port, zeros]),
        }  # fmt: skip
        row_link = graph.row_link.copy()
        into = np.where(row_link >= 0, row_link ^ 1, -1).astype(np.int32)
        into[graph.row_base[forwarding]] = enter
        row_link[graph.row_base[forwarding]] = enter + 1
        inject = np.full(graph.num_rows, -1, dtype=np.int32)
        inject[forwarding] = enter
        topology = Topology(
            links=aligned(links, LINK, ends),
            kinds=kinds,
            rows=aligned(len(ports), ROW, {"first_port": graph.row_base[:-1], "ports": ports}),
            ports=aligned(len(into), PORT, {"in_link": into, "out_link": row_link}),
        )
        return cls(
            fabric.num_links, topology, inject, int((queues * lanes).sum()),
            (int(ports.max(initial=1)) + 63) // 64,
        )  # fmt: skip


def _check_credits(fabric: Fabric, buffers: NDArray[np.int64], hardware: Hardware) -> None:
    """Refuse nodes whose buffers hold too many credits, as all packets may wait for one lane.

    `buffers` [rows]: number of buffers of each node. `hardware`: settings with the credits of a
    buffer.
    """
    most = int(buffers.max(initial=0))
    if most * hardware.buffer_credits <= MAX_NODE_CREDITS:
        return
    name = fabric.node_names[int(fabric.graph.row_node[buffers.argmax()])]
    raise InputError(
        f"the {most} buffers of {name} hold {hardware.buffer_credits:,} credits each; the buffers "
        f"of a node may hold at most {MAX_NODE_CREDITS:,}, so choose a smaller buffer_bytes or a "
        "larger credit_bytes"
    )
