"""`Fabric`: switches, adapters and cables as flat, read-only arrays."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_numbers
from weft.core.errors import InputError
from weft.core.frozen import FrozenArrays, read_only
from weft.core.registry import did_you_mean
from weft.core.words import few, quoted, unquoted
from weft.fabrics.graph import SwitchGraph
from weft.fabrics.machines import first_adapters, machines_by_name


class NodeKind(IntEnum):
    """What a node is; nodes are ordered by it."""

    SWITCH = 0
    HOST = 1
    #: A channel adapter that is no traffic endpoint: SHARP aggregation node, subnet router.
    AUXILIARY = 2


class LinkKind(IntEnum):
    """What a directed link joins."""

    SWITCH_SWITCH = 0
    HOST_SWITCH = 1
    SWITCH_HOST = 2
    HOST_HOST = 3


#: How ibnetdiscover writes a node: switch, host or router, and its GUID.
_NODE_ID = re.compile(r"[SHR]-([0-9a-fA-F]{16})")

#: One row per directed link, in the order of every per-link result.
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
class Fabric(FrozenArrays):
    """An interconnect: immutable, so a fault or a rename gives a new one.

    Nodes are numbered switches first, then hosts, then auxiliary adapters: host ``h`` is node
    ``num_switches + h``. Cable ``c`` is the two directed links ``2c`` and ``2c + 1``, so the
    reverse of link ``l`` is ``l ^ 1``. Ports count from 1, as InfiniBand's do.

    An *endpoint* is what a packet can be addressed to: each connected port of an adapter that does
    not forward, and each host that forwards (once, whatever its ports). Endpoints of hosts come
    first, in host order. A *destination* is an endpoint or, after all endpoints, a switch.

    Parameters
    ----------
    name
        Where the fabric came from: the spec or file.
    node_kind
        uint8 [nodes], a `NodeKind`.
    node_guid, system_guid
        uint64 [nodes]; the latter is 0 where unknown and equal for switches of one chassis.
    node_names
        One unique label per node.
    descriptions
        InfiniBand node descriptions, which need not be unique.
    vendor_id, device_id
        uint32 [nodes], 0 where unknown.
    forwards
        bool [nodes]: the node passes packets on, as switches and BCube hosts do.
    port_offset
        int32 [nodes + 1]: port ``p`` of node ``n`` is slot ``port_offset[n] + p - 1``.
    port_guid
        uint64 [slots].
    port_link
        int32 [slots]: the directed link that leaves by this port, -1 when nothing is plugged in.
    link_from, link_to
        int32 [links]: node at each end.
    link_from_port, link_to_port
        uint16 [links].
    cable_rate_gbps
        float64 [cables]: data rate of each direction.
    cable_rate_code
        uint8 [cables]: index in `weft.core.units.RATE_NAMES`, 0 where the rate has no name.
    cable_length_m, cable_latency_ns
        float64 [cables]; a length is NaN where unknown.
    level
        int8 [nodes]: tree level, hosts at 0, -1 where the fabric is no tree or unlabelled.
    coordinates
        int32 [nodes, d], -1 where a node has none; d = 0 when nothing is labelled.
    lid, lmc
        int32 and uint8 [destinations]; LID 0 where none is assigned yet.
    family, parameters
        Topology family and its parameters, empty for a fabric read from a file.
    """

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
    family: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    # -- counts ------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """Switches, hosts and auxiliary adapters."""
        return len(self.node_kind)

    @cached_property
    def num_switches(self) -> int:
        """Nodes that only pass packets on."""
        return int(np.count_nonzero(self.node_kind == NodeKind.SWITCH))

    @cached_property
    def num_hosts(self) -> int:
        """Compute nodes, connected or not; SHARP aggregation nodes do not count."""
        return int(np.count_nonzero(self.node_kind == NodeKind.HOST))

    @property
    def num_cables(self) -> int:
        """Cables, those to hosts included."""
        return len(self.cable_rate_gbps)

    @property
    def num_links(self) -> int:
        """Directed links: two per cable."""
        return len(self.link_from)

    @property
    def num_endpoints(self) -> int:
        """Addressable adapter ports and forwarding hosts."""
        return len(self.endpoint_node)

    @cached_property
    def num_host_endpoints(self) -> int:
        """Endpoints of hosts, the first among all: those of auxiliary adapters follow."""
        past = self.num_switches + self.num_hosts
        return int(np.searchsorted(self.endpoint_node, past))

    @property
    def num_destinations(self) -> int:
        """Endpoints, then switches."""
        return self.num_endpoints + self.num_switches

    # -- nodes and ports ---------------------------------------------------------------------

    @property
    def host_nodes(self) -> NDArray[np.int32]:
        """Node of each host, int32 [hosts]."""
        return np.arange(self.num_switches, self.num_switches + self.num_hosts, dtype=np.int32)

    @cached_property
    def num_ports(self) -> NDArray[np.int32]:
        """Ports of each node, plugged or not, int32 [nodes]."""
        return read_only(np.diff(self.port_offset))

    @property
    def host_names(self) -> tuple[str, ...]:
        """Label of each host."""
        return self.node_names[self.num_switches : self.num_switches + self.num_hosts]

    @cached_property
    def _endpoints(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        slot_node = np.repeat(np.arange(self.num_nodes, dtype=np.int32), self.num_ports)
        used = (self.port_link >= 0) & (self.node_kind[slot_node] != NodeKind.SWITCH)
        slots = np.flatnonzero(used)
        nodes = slot_node[slots]
        first = np.ones(len(nodes), dtype=bool)
        first[1:] = nodes[1:] != nodes[:-1]
        keep = first | ~self.forwards[nodes]
        slots, nodes = slots[keep], nodes[keep]
        ports = (slots - self.port_offset[nodes] + 1).astype(np.int32)
        return read_only(nodes), read_only(ports)

    @property
    def endpoint_node(self) -> NDArray[np.int32]:
        """Node of each endpoint, int32 [endpoints]."""
        return self._endpoints[0]

    @property
    def endpoint_port(self) -> NDArray[np.int32]:
        """Port of each endpoint (the first of a forwarding host), int32 [endpoints]."""
        return self._endpoints[1]

    @cached_property
    def host_endpoint(self) -> NDArray[np.int32]:
        """First endpoint of each host, -1 for a host with no cable, int32 [hosts]."""
        found = np.full(self.num_hosts, -1, dtype=np.int32)
        host = self.endpoint_node - self.num_switches
        order = np.flatnonzero(host < self.num_hosts)[::-1]
        found[host[order]] = order
        return read_only(found)

    @cached_property
    def graph(self) -> SwitchGraph:
        """The forwarding nodes and what joins them, in the form that kernels walk."""
        return SwitchGraph.of(self)

    # -- links and cables --------------------------------------------------------------------

    @cached_property
    def link_kind(self) -> NDArray[np.uint8]:
        """A `LinkKind` per directed link, uint8 [links]."""
        tail = self.node_kind[self.link_from] != NodeKind.SWITCH
        head = self.node_kind[self.link_to] != NodeKind.SWITCH
        kind: NDArray[np.uint8] = tail.astype(np.uint8) + 2 * head.astype(np.uint8)
        return read_only(kind)

    @cached_property
    def links(self) -> NDArray[np.void]:
        """Every directed link, structured as `LINK_DTYPE`, in the order of per-link results."""
        table = np.empty(self.num_links, dtype=LINK_DTYPE)
        table["from_node"], table["from_port"] = self.link_from, self.link_from_port
        table["to_node"], table["to_port"] = self.link_to, self.link_to_port
        table["kind"] = self.link_kind
        return read_only(table)

    @property
    def link_rate_gbps(self) -> NDArray[np.float64]:
        """Data rate of each directed link, float64 [links]."""
        return np.repeat(self.cable_rate_gbps, 2)

    def port_name(self, node: int, port: int) -> str:
        """A port as people write it: ``leaf3[12]``."""
        return f"{self.node_names[node]}[{port}]"

    def link_name(self, link: int) -> str:
        """A directed link as ``leaf3[12] -> spine1[4]``."""
        tail = self.port_name(int(self.link_from[link]), int(self.link_from_port[link]))
        head = self.port_name(int(self.link_to[link]), int(self.link_to_port[link]))
        return f"{tail} -> {head}"

    def cable_name(self, cable: int) -> str:
        """A cable as ``leaf3[12] -- spine1[4]``."""
        return self.link_name(2 * cable).replace(" -> ", " -- ")

    def option_name(self, node: int) -> str:
        """A node as every option takes it: its label, in quotes where needed, or its GUID.

        The GUID stands for labels that options read as something else or cannot hold.
        """
        name = self.node_names[node]
        other = name.lower().startswith(("@", "0x", '"')) or name in ("auto", "center")
        if other or not name.isprintable() or not name:
            return f"{self.node_guid[node]:#x}"
        return quoted(name)

    # -- look-up -----------------------------------------------------------------------------

    @cached_property
    def _node_of_name(self) -> dict[str, int]:
        return {name: node for node, name in enumerate(self.node_names)}

    @cached_property
    def _node_of_guid(self) -> dict[int, int]:
        return {int(guid): node for node, guid in enumerate(self.node_guid)}

    @cached_property
    def machine(self) -> NDArray[np.int64]:
        """First adapter of the machine of each node, itself for what is no host; int64 [nodes]."""
        return read_only(first_adapters(self))

    @cached_property
    def machines(self) -> Mapping[str, list[int]]:
        """Host numbers of each machine by its name; a machine may have several adapters."""
        return machines_by_name(self)

    def find_node(self, text: str) -> int:
        """Node with this label, or this GUID as ``0x…`` or as in ibnetdiscover's ``S-…``.

        A label may stand in double quotes, as `option_name` writes it.

        Raises
        ------
        InputError
            When there is none, or the name is that of a machine with several adapters.
        """
        if text in self._node_of_name:
            return self._node_of_name[text]
        if text.startswith('"'):
            return self.find_node(unquoted(text))
        as_id = _NODE_ID.fullmatch(text)
        if as_id or text.lower().startswith("0x"):
            try:
                guid = int(as_id[1] if as_id else text, 16)
            except ValueError:
                raise InputError(f"{text!r} is no GUID; expected hexadecimal digits") from None
            if guid in self._node_of_guid:
                return self._node_of_guid[guid]
            raise InputError(f"no node of {self.name} has the GUID {guid:#x}")
        several = [self.option_name(self.num_switches + h) for h in self.machines.get(text, ())]
        if several:
            raise InputError(
                f"{text} has {len(several)} adapter{'s' * (len(several) > 1)}; name "
                f"{'one of ' * (len(several) > 1)}{few(several)}"
            )
        raise InputError(f"no node {text!r} in {self.name}{did_you_mean(text, self._node_of_name)}")

    def host_numbers(
        self, values: ArrayLike, what: str, *, count: int | None = None, low: int = 0
    ) -> NDArray[np.int64]:
        """Numbers of hosts, checked to exist.

        Parameters
        ----------
        values
            A list of whole numbers.
        what
            What they are, in the plural, for messages.
        count
            How many there must be, any number when left out.
        low
            Least that is allowed: -1 where that means no host.

        Raises
        ------
        InputError
            When they are no such list, or there is no such host.
        """
        return whole_numbers(
            values, what, low=low, high=self.num_hosts - 1, shape=(count,),
            of=f"hosts of {self.name}",
        )  # fmt: skip

    def find_cable(self, text: str) -> int:
        """Cable plugged into a port, written ``node[port]``.

        Raises
        ------
        InputError
            When the text names no port, or the port has no cable.
        """
        name, bracket, rest = text.rpartition("[")
        digits = rest.removesuffix("]")
        if not bracket or not rest.endswith("]") or not digits.isdecimal():
            raise InputError(f"{text!r} names no port; expected node[port], such as leaf3[12]")
        node, port = self.find_node(name), int(digits)
        if not 1 <= port <= self.num_ports[node]:
            raise InputError(f"{name} has ports 1 to {self.num_ports[node]}, not {port}")
        link = int(self.port_link[self.port_offset[node] + port - 1])
        if link < 0:
            raise InputError(f"no cable is plugged into {text}")
        return link >> 1

    # -- identity ----------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the nodes and cables; routes carry it to know what they were made for."""
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

    def __repr__(self) -> str:
        return (
            f"Fabric({self.name!r}: {self.num_hosts} hosts, {self.num_switches} switches, "
            f"{self.num_cables} cables)"
        )

    # -- variants: each gives a new Fabric ------------------------------------------------------

    def shuffled(self, seed: int) -> Fabric:
        """The same wiring with nodes, GUIDs, names and port numbers permuted and no labels.

        For tests of engines that must not rely on any of them: tree levels, coordinates, LIDs and
        the topology family are forgotten.

        Parameters
        ----------
        seed
            Equal seeds give equal fabrics.
        """
        from weft.fabrics.variants import shuffled

        return shuffled(self, seed)

    def without(
        self, *, cables: Iterable[int | str] = (), switches: Iterable[int | str] = ()
    ) -> Fabric:
        """The fabric after cables are pulled and switches taken out, possibly split.

        Parameters
        ----------
        cables
            Cable numbers, or ports as ``node[port]``.
        switches
            Switch numbers, names or GUIDs.

        Raises
        ------
        InputError
            When one of them does not exist.
        """
        from weft.fabrics.variants import without

        return without(self, cables, switches)

    def with_faults(self, *, cables: int = 0, switches: int = 0, seed: int = 0) -> Fabric:
        """The fabric after random faults of inter-switch cables and of switches.

        Parameters
        ----------
        cables, switches
            How many of each to remove; cables to hosts are spared.
        seed
            Equal seeds give equal faults.

        Raises
        ------
        InputError
            When there are fewer than asked for.
        """
        from weft.fabrics.variants import with_faults

        return with_faults(self, cables, switches, seed)

    def degraded(self, cables: Iterable[int | str], rate: str | float) -> Fabric:
        """The fabric with some cables at another rate.

        Parameters
        ----------
        cables
            Cable numbers, or ports as ``node[port]``.
        rate
            A rate such as ``"4xSDR"``, or a number of Gb/s.
        """
        from weft.fabrics.variants import degraded

        return degraded(self, cables, rate)


def check_fabric(given: object) -> None:
    """Refuse what is no fabric, such as the spec of one.

    Raises
    ------
    InputError
        With what was given.
    """
    if not isinstance(given, Fabric):
        raise InputError(f"expected a Fabric, as weft.fabric(…) gives, not {given!r}")
