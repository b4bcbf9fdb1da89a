"""The arrays of a fabric: nodes, ports and cables, and the counts and names derived from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.frozen import FrozenArrays, read_only
from weft.core.words import quoted
from weft.fabrics.machine_model import MachineModel


class NodeKind(IntEnum):
    """Kind of a node; nodes are numbered in the order of their kinds."""

    SWITCH = 0
    HOST = 1
    #: A channel adapter without traffic of its own: SHARP aggregation node, InfiniBand router, or a
    #: host that is not judged (`Fabric.whole` has it as a host).
    AUXILIARY = 2


class LinkKind(IntEnum):
    """Kind of a directed link: the kinds of the nodes at its tail and its head."""

    SWITCH_SWITCH = 0
    HOST_SWITCH = 1
    SWITCH_HOST = 2
    HOST_HOST = 3


#: `Fabric.adapter` of a node outside machines, and of one inside that is not at an adapter.
OUTSIDE, INSIDE = -1, -2

#: Record of a directed link in `Fabric.links`.
LINK_DTYPE = np.dtype(
    [
        ("from_node", np.int32),
        ("from_port", np.uint16),
        ("to_node", np.int32),
        ("to_port", np.uint16),
        ("kind", np.uint8),
    ]
)


@dataclass(frozen=True, eq=False, repr=False)
class FabricArrays(FrozenArrays):
    """Fields of a `Fabric` (documented there), and the counts and names derived from them."""

    name: str
    node_kind: NDArray[np.uint8]
    node_guid: NDArray[np.uint64]
    node_names: tuple[str, ...]
    forwards: NDArray[np.bool_]
    port_offset: NDArray[np.int32]
    port_guid: NDArray[np.uint64]
    port_link: NDArray[np.int32]
    link_from: NDArray[np.int32]
    link_from_port: NDArray[np.uint16]
    link_to: NDArray[np.int32]
    link_to_port: NDArray[np.uint16]
    cable_rate_gbps: NDArray[np.float64]
    cable_rate_code: NDArray[np.uint8]
    cable_length_m: NDArray[np.float64]
    cable_latency_ns: NDArray[np.float64]
    level: NDArray[np.int8]
    coordinates: NDArray[np.int32]
    descriptions: tuple[str, ...]
    system_guid: NDArray[np.uint64]
    vendor_id: NDArray[np.uint32]
    device_id: NDArray[np.uint32]
    lid: NDArray[np.int32]
    lmc: NDArray[np.uint8]
    host_of_whole: NDArray[np.int32]
    adapter: NDArray[np.int32]
    family: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    assigned: tuple[tuple[str, str], ...] = ()
    machine_model: MachineModel | None = None
    # -- counts ------------------------------------------------------------------------------

    @cached_property
    def num_nodes(self) -> int:
        """Number of switches, hosts and auxiliary adapters."""
        return len(self.node_kind)

    @cached_property
    def num_switches(self) -> int:
        """Number of switches."""
        return int(np.count_nonzero(self.node_kind == NodeKind.SWITCH))

    @cached_property
    def num_hosts(self) -> int:
        """Number of hosts, connected or not, without auxiliary adapters."""
        return int(np.count_nonzero(self.node_kind == NodeKind.HOST))

    @property
    def num_cables(self) -> int:
        """Number of cables, including those to hosts."""
        return len(self.cable_rate_gbps)

    @cached_property
    def num_links(self) -> int:
        """Number of directed links: two per cable."""
        return len(self.link_from)

    @cached_property
    def num_endpoints(self) -> int:
        """Number of endpoints: connected ports of non-forwarding adapters, and forwarding hosts."""
        return len(self.endpoint_node)

    @cached_property
    def num_host_endpoints(self) -> int:
        """Number of endpoints of hosts; they precede the endpoints of auxiliary adapters."""
        past = self.num_switches + self.num_hosts
        return int(np.searchsorted(self.endpoint_node, past))

    @cached_property
    def num_destinations(self) -> int:
        """Number of destinations: endpoints, then switches."""
        return self.num_endpoints + self.num_switches

    # -- nodes and ports ---------------------------------------------------------------------

    @property
    def host_nodes(self) -> NDArray[np.int32]:
        """Node of each host, int32 [hosts]."""
        return np.arange(self.num_switches, self.num_switches + self.num_hosts, dtype=np.int32)

    @cached_property
    def num_ports(self) -> NDArray[np.int32]:
        """Number of ports of each node, cabled or not, int32 [nodes]."""
        return read_only(np.diff(self.port_offset))

    @cached_property
    def slot_node(self) -> NDArray[np.int32]:
        """Node of each port, int32 [slots]."""
        return read_only(np.repeat(np.arange(self.num_nodes, dtype=np.int32), self.num_ports))

    @cached_property
    def slot_port(self) -> NDArray[np.int32]:
        """Number of each port at its node, int32 [slots]."""
        first = self.port_offset[self.slot_node]
        return read_only(np.arange(1, len(first) + 1, dtype=np.int32) - first)

    @cached_property
    def slot_lid(self) -> NDArray[np.int64]:
        """LID of each port, int64 [slots]: that of the node for ports of switches; 0: none."""
        of_switch = np.zeros(self.num_nodes, dtype=np.int64)
        of_switch[: self.num_switches] = self.lid[self.num_endpoints :]
        lids: NDArray[np.int64] = of_switch[self.slot_node]
        lids[self.port_offset[self.endpoint_node] + self.endpoint_port - 1] = self.lid[
            : self.num_endpoints
        ]
        return read_only(lids)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Label of each host."""
        return self.node_names[self.num_switches : self.num_switches + self.num_hosts]

    @cached_property
    def _endpoints(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        used = (self.port_link >= 0) & (self.node_kind[self.slot_node] != NodeKind.SWITCH)
        slots = np.flatnonzero(used)
        nodes = self.slot_node[slots]
        first = np.ones(len(nodes), dtype=bool)
        first[1:] = nodes[1:] != nodes[:-1]
        keep = first | ~self.forwards[nodes]
        return read_only(nodes[keep]), read_only(self.slot_port[slots[keep]])

    @cached_property
    def endpoint_node(self) -> NDArray[np.int32]:
        """Node of each endpoint, int32 [endpoints]."""
        return self._endpoints[0]

    @property
    def endpoint_port(self) -> NDArray[np.int32]:
        """Port of each endpoint, int32 [endpoints]; of a forwarding host, its first cabled port."""
        return self._endpoints[1]

    @cached_property
    def host_endpoint(self) -> NDArray[np.int32]:
        """First endpoint of each host, int32 [hosts]; -1 for a host with no cable.

        Ports to a scale-up network do not count: the endpoint of a processor is at its adapter.
        """
        endpoints = np.full(self.num_hosts, -1, dtype=np.int32)
        host = self.endpoint_node - self.num_switches
        order = np.flatnonzero((host < self.num_hosts) & ~self.is_scale_up)[::-1]
        endpoints[host[order]] = order
        return read_only(endpoints)

    @cached_property
    def is_scale_up(self) -> NDArray[np.bool_]:
        """Whether each endpoint is cabled to the scale-up network of its machine, [endpoints]."""
        slot = self.port_offset[self.endpoint_node] + self.endpoint_port - 1
        return read_only(self.adapter[self.link_to[self.port_link[slot]]] == INSIDE)

    # -- links and cables --------------------------------------------------------------------

    @cached_property
    def link_kind(self) -> NDArray[np.uint8]:
        """`LinkKind` of each directed link, uint8 [links]."""
        tail = self.node_kind[self.link_from] != NodeKind.SWITCH
        head = self.node_kind[self.link_to] != NodeKind.SWITCH
        kind: NDArray[np.uint8] = tail.astype(np.uint8) + 2 * head.astype(np.uint8)
        return read_only(kind)

    @cached_property
    def links(self) -> NDArray[np.void]:
        """All directed links as records of `LINK_DTYPE`, in the order of per-link results."""
        table = np.empty(self.num_links, dtype=LINK_DTYPE)
        table["from_node"], table["from_port"] = self.link_from, self.link_from_port
        table["to_node"], table["to_port"] = self.link_to, self.link_to_port
        table["kind"] = self.link_kind
        return read_only(table)

    @property
    def link_rate_gbps(self) -> NDArray[np.float64]:
        """Data rate of each directed link in Gbit/s, float64 [links]."""
        return np.repeat(self.cable_rate_gbps, 2)

    def port_name(self, node: int, port: int) -> str:
        """Return the name of a port, such as ``leaf3[12]``."""
        return f"{self.node_names[node]}[{port}]"

    def slot_name(self, slot: int) -> str:
        """Return the name of the port of a slot."""
        return self.port_name(int(self.slot_node[slot]), int(self.slot_port[slot]))

    def link_name(self, link: int) -> str:
        """Return the name of a directed link, such as ``leaf3[12] -> spine1[4]``."""
        tail = self.port_name(int(self.link_from[link]), int(self.link_from_port[link]))
        head = self.port_name(int(self.link_to[link]), int(self.link_to_port[link]))
        return f"{tail} -> {head}"

    @cached_property
    def link_names(self) -> NDArray[np.object_]:
        """Names of all directed links, as `link_name` returns them, object [links]."""
        ports = [
            [f"{self.node_names[node]}[{port}]" for node, port in zip(*ends, strict=True)]
            for ends in (
                (self.link_from.tolist(), self.link_from_port.tolist()),
                (self.link_to.tolist(), self.link_to_port.tolist()),
            )
        ]
        names = np.empty(self.num_links, dtype=np.object_)
        names[:] = [f"{tail} -> {head}" for tail, head in zip(*ports, strict=True)]
        return read_only(names)

    def cable_name(self, cable: int) -> str:
        """Return the name of a cable, such as ``leaf3[12] -- spine1[4]``."""
        return self.link_name(2 * cable).replace(" -> ", " -- ")

    def option_name(self, node: int) -> str:
        """Return the text for a node in an option: its label, quoted where needed, or its GUID.

        The GUID is used if an option cannot hold the label or would parse it as something else.
        """
        name = self.node_names[node]
        other = name.lower().startswith(("@", "0x", '"')) or name in ("auto", "center")
        if other or not name.isprintable() or not name:
            return f"{self.node_guid[node]:#x}"
        return quoted(name)

    # -- identity ----------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the nodes and cables; routes store it to identify their fabric."""
        state = hashlib.blake2b(digest_size=12)
        arrays: Iterable[NDArray[Any]] = (
            self.node_kind,
            self.node_guid,
            self.forwards,
            self.port_offset,
            self.port_link,
            self.link_to,
        )
        for array in arrays:
            state.update(np.ascontiguousarray(array).tobytes())
        return state.hexdigest()
