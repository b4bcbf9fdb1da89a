"""`Fabric`: switches, adapters and cables as flat, read-only arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import shown, whole_numbers
from weft.core.errors import InputError
from weft.core.frozen import read_only
from weft.core.html import facts_table
from weft.core.registry import did_you_mean
from weft.core.units import parse_rate
from weft.core.words import few, unquoted
from weft.fabrics import machine_parts, variants
from weft.fabrics.arrays import FabricArrays
from weft.fabrics.graph import SwitchGraph
from weft.fabrics.machines import first_adapters, host_parts, machines_by_name, ordinals
from weft.fabrics.parts import Parts, assemble, cable_latency_ns, set_rate
from weft.fabrics.roles import roles_of

#: A node's ID in ibnetdiscover: switch, host or router, and its GUID.
_NODE_ID = re.compile(r"[SHR]-([0-9a-fA-F]{16})")


@dataclass(frozen=True, eq=False, repr=False)
class Fabric(FabricArrays):
    """An immutable fabric; methods that change something return a new fabric.

    Nodes are numbered switches first, then hosts, then auxiliary adapters: host ``h`` is node
    ``num_switches + h``. Cable ``c`` is the two directed links ``2c`` and ``2c + 1``, so the
    reverse of link ``l`` is ``l ^ 1``. Ports are numbered from 1, as in InfiniBand.

    An *endpoint* is each connected port of an adapter that does not forward, and each host that
    forwards (one endpoint for all its ports). Endpoints of hosts are first, in host order. A
    *destination* is an endpoint or a switch; switches are numbered after all endpoints.

    Parameters
    ----------
    name
        Spec or file that describes the fabric.
    node_kind
        uint8 [nodes], a `NodeKind`.
    node_guid, system_guid
        uint64 [nodes]; a system GUID is 0 where unknown, and equal for switches of one chassis.
    node_names
        One unique label per node.
    descriptions
        InfiniBand node descriptions, which need not be unique.
    vendor_id, device_id
        uint32 [nodes], 0 where unknown.
    forwards
        bool [nodes]: the node forwards packets, as switches and BCube hosts do.
    port_offset
        int32 [nodes + 1]: port ``p`` of node ``n`` is slot ``port_offset[n] + p - 1``.
    port_guid
        uint64 [slots]: GUID of the port.
    port_link
        int32 [slots]: the directed link that leaves by this port, -1 for a port without a cable.
    link_from, link_to
        int32 [links]: node at each end.
    link_from_port, link_to_port
        uint16 [links]: port at each end.
    cable_rate_gbps
        float64 [cables]: data rate of each direction.
    cable_rate_code
        uint8 [cables]: index in `weft.core.units.RATE_NAMES`, 0 where the rate has no name.
    cable_length_m, cable_latency_ns
        float64 [cables]; a length is NaN where unknown.
    level
        int8 [nodes]: tree level, 0 for hosts; -1 if the fabric is not a tree or lists no levels.
    coordinates
        int32 [nodes, d], -1 for a coordinate that a node lacks; d = 0 if no node has coordinates.
    lid, lmc
        int32 and uint8 [destinations]; LID 0 where none is assigned.
    host_of_whole
        int32 [nodes]: number of each host in `whole` if only some hosts are judged, also of the
        others, which are auxiliary adapters; else -1.
    adapter
        int32 [nodes]: number in `subnet` of the adapter at a host or PCIe switch if the fabric has
        the inside of machines; `INSIDE` for others inside machines, else `OUTSIDE`.
    family, parameters
        Topology family and its parameters, empty for a fabric read from a file.
    assigned
        Machine and role that a table of machines gives each node, empty texts where it gives none;
        empty without a table.
    machine_model
        What is inside each machine; None if it is not known. Its processors are the hosts.
    """

    @classmethod
    def of(cls, parts: Parts) -> Fabric:
        """Return the fabric that consists of these parts; the inverse of `Parts.of`.

        Nodes keep their order within a kind. Cables are numbered by their lower end (node, then
        port), which is the tail of the even link. The same wiring thus always has the same link
        numbers and digest.

        Raises
        ------
        InputError
            If two nodes share a name or GUID, a cable is plugged into a port that does not exist,
            or two cable ends are plugged into the same port.
        """
        return assemble(parts, cls)

    def __repr__(self) -> str:
        return (
            f"Fabric({self.name!r}: {self.num_hosts} hosts, {self.num_switches} switches, "
            f"{self.num_cables} cables)"
        )

    @cached_property
    def graph(self) -> SwitchGraph:
        """The forwarding nodes and the links between them, as the arrays that kernels read."""
        return SwitchGraph.of(self)

    @property
    def whole(self) -> Fabric:
        """The fabric in which all hosts are hosts: itself, unless only some are judged.

        Engines and all that describes the wiring read it, so that neither depends on the hosts
        that are judged.
        """
        return self if (self.host_of_whole < 0).all() else self._whole

    @cached_property
    def _whole(self) -> Fabric:
        return Fabric.of(variants.whole(self))

    @property
    def subnet(self) -> Fabric:
        """The whole fabric without what is inside machines: its hosts are adapters.

        Engines and all that describes the wiring read it.
        """
        return self.whole if self.machine_model is None else self._subnet

    @cached_property
    def _subnet(self) -> Fabric:
        return Fabric.of(machine_parts.subnet(self.whole))

    @cached_property
    def destination_of_whole(self) -> NDArray[np.int64]:
        """Number of each destination among those of `whole`, int64 [destinations]."""
        adapters = self.endpoint_node
        order = np.lexsort((self.host_of_whole[adapters], self.host_of_whole[adapters] < 0))
        number = np.arange(self.num_destinations)
        number[order] = np.arange(self.num_endpoints)
        return read_only(number)

    # -- look-up -----------------------------------------------------------------------------

    @cached_property
    def host_rate_gbps(self) -> float:
        """Injection rate, to which contention refers: the rate of the fastest cable of a host."""
        out = self.graph.destination_link[: self.num_host_endpoints]
        out = out[(out >= 0) & ~self.is_scale_up[: len(out)]]
        rates = self.link_rate_gbps[out] if len(out) else self.link_rate_gbps
        return float(rates.max(initial=0.0)) or 1.0

    @cached_property
    def _node_of_name(self) -> dict[str, int]:
        return {name: node for node, name in enumerate(self.node_names)}

    @cached_property
    def _node_of_guid(self) -> dict[int, int]:
        return {int(guid): node for node, guid in enumerate(self.node_guid)}

    @cached_property
    def _host_parts(self) -> list[tuple[str, str] | None]:
        return host_parts(self) if self.machine_model is None else [None] * self.num_hosts

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Device that the name of each host gives, such as ``mlx5_0``; empty if it gives none."""
        return tuple(parts[1] if parts else "" for parts in self._host_parts)

    @cached_property
    def machine(self) -> NDArray[np.int64]:
        """int64 [nodes]: first adapter of a host's machine; for any other node, the node itself."""
        return read_only(first_adapters(self, self._host_parts))

    @cached_property
    def machine_of_host(self) -> NDArray[np.int64]:
        """int64 [hosts]: `machine` of each host; equal for the adapters of one machine."""
        return read_only(self.machine[self.host_nodes])

    @cached_property
    def ordinal_of_host(self) -> NDArray[np.int64]:
        """int64 [hosts]: index of each host in its machine, in the order of the devices.

        The index of a processor also counts processors that are not judged.
        """
        if self.machine_model is not None and self.whole is not self:
            return read_only(self.whole.ordinal_of_host[self.host_of_whole[self.host_nodes]])
        return read_only(ordinals(self._host_parts, self.machine_of_host))

    @cached_property
    def adapters_of_host(self) -> NDArray[np.int64]:
        """int64 [hosts]: number of adapters of each host's machine."""
        _, which, count = np.unique(self.machine_of_host, return_inverse=True, return_counts=True)
        return read_only(count[which])

    def apart(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether the messages of pairs of host numbers cross links.

        Those of adapters of one machine do not, unless the fabric has the inside of its machines.

        Parameters
        ----------
        a, b
            Host numbers of equal length.
        """
        unit = self.machine_of_host if self.machine_model is None else self.host_nodes
        different: NDArray[np.bool_] = unit[a] != unit[b]
        return different

    @cached_property
    def machines(self) -> Mapping[str, list[int]]:
        """Host numbers by machine name, in the order of devices; each adapter is one host."""
        return machines_by_name(self, self._host_parts, self.machine, self.ordinal_of_host)

    @cached_property
    def machine_names(self) -> tuple[str, ...]:
        """Name of each host's machine if that has several adapters, else the label of the host."""
        names = list(self.host_names)
        for name, hosts in self.machines.items():
            for host in hosts if len(hosts) > 1 else ():
                names[host] = name
        return tuple(names)

    @cached_property
    def by_adapter(self) -> Fabric:
        """The same fabric, in which each adapter is a machine of its own."""
        if len(self.machines) == self.num_hosts:
            return self
        return replace(self, assigned=tuple((name, "") for name in self.node_names))

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Role of each host, one of `weft.fabrics.roles.ROLES`; equal within a machine.

        It is the role that a table of machines gives, or else that of the machine's name.
        """
        given = [role for _, role in self.assigned] or [""] * self.num_nodes
        first = self.num_switches
        return tuple(roles_of(self.machines.items(), given[first : first + self.num_hosts]))

    def find_node(self, text: str) -> int:
        """Return the node with this label or GUID (``0x…``, or ``S-…`` as in ibnetdiscover).

        A label may be in double quotes, as `option_name` writes it.

        Raises
        ------
        InputError
            If there is no such node, or the text is the name of a machine, not of an adapter.
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
                raise InputError(f"{text!r} is not a GUID; expected hexadecimal digits") from None
            if guid in self._node_of_guid:
                return self._node_of_guid[guid]
            raise InputError(f"no node of {self.name} has the GUID {guid:#x}")
        several = [self.option_name(self.num_switches + h) for h in self.machines.get(text, ())]
        if several:
            raise InputError(
                f"{text} has {len(several)} adapter{'s' * (len(several) > 1)}; expected "
                f"{'one of ' * (len(several) > 1)}{few(several)}"
            )
        raise InputError(f"no node {text!r} in {self.name}{did_you_mean(text, self._node_of_name)}")

    def host_numbers(
        self, values: ArrayLike, what: str, *, count: int | None = None, low: int = 0
    ) -> NDArray[np.int64]:
        """Return host numbers as an array after checking that the hosts exist.

        Parameters
        ----------
        values
            A list of whole numbers.
        what
            Name of the values, in the plural, for messages.
        count
            Expected number of values; by default any.
        low
            Smallest valid number: 0, or -1 where -1 means no host.

        Raises
        ------
        InputError
            If the values are not a list of whole numbers, their number is not `count`, or a host
            does not exist.
        """
        return whole_numbers(
            values, what, low=low, high=self.num_hosts - 1, shape=(count,),
            of=f"hosts of {self.name}",
        )  # fmt: skip

    def find_cable(self, text: str) -> int:
        """Return the cable plugged into a port, written ``node[port]``.

        Raises
        ------
        InputError
            If the text does not name a port, or the port has no cable.
        """
        name, bracket, rest = text.rpartition("[")
        digits = rest.removesuffix("]")
        if not bracket or not rest.endswith("]") or not digits.isdecimal() or len(digits) > 18:
            raise InputError(f"{shown(text)} is not a port; expected node[port], such as leaf3[12]")
        node, port = self.find_node(name), int(digits)
        if not 1 <= port <= self.num_ports[node]:
            raise InputError(f"{name} has ports 1 to {self.num_ports[node]}, not {port}")
        link = int(self.port_link[self.port_offset[node] + port - 1])
        if link < 0:
            raise InputError(f"no cable is plugged into {text}")
        return link >> 1

    def _cable_numbers(self, cables: Iterable[int | str]) -> NDArray[np.int64]:
        numbers = [self.find_cable(c) if isinstance(c, str) else c for c in _one_or_more(cables)]
        return np.unique(
            whole_numbers(
                numbers, "cables", low=0, high=self.num_cables - 1, of=f"cables of {self.name}"
            )
        )

    def _switch_numbers(self, switches: Iterable[int | str]) -> NDArray[np.int64]:
        listed = [self.find_node(s) if isinstance(s, str) else s for s in _one_or_more(switches)]
        numbers = whole_numbers(listed, "switches").tolist()
        for number in numbers:
            if not 0 <= number < self.num_switches:
                known = 0 <= number < self.num_nodes
                name = f"{self.node_names[number]} (node {number})" if known else f"node {number}"
                raise InputError(
                    f"{name} is not a switch; expected a switch's name, GUID or number"
                )
        return np.unique(np.array(numbers, dtype=np.int64))

    def _repr_html_(self) -> str:
        rates = sorted({float(rate) for rate in self.link_rate_gbps})
        return facts_table(
            self.name,
            {
                "hosts": self.num_hosts, "switches": self.num_switches, "cables": self.num_cables,
                "rates, Gb/s": tuple(f"{rate:g}" for rate in rates),
            },
        )  # fmt: skip

    # -- variants: each returns a new Fabric ----------------------------------------------------

    def shuffled(self, seed: int) -> Fabric:
        """Return the same wiring with nodes, GUIDs, names and port numbers permuted.

        Tree levels, coordinates, LIDs and the topology family are removed. The result serves to
        test engines that must not rely on any of these.

        Parameters
        ----------
        seed
            Equal seeds give equal fabrics.
        """
        return Fabric.of(variants.shuffled(self, seed))

    def without(
        self, *, cables: Iterable[int | str] = (), switches: Iterable[int | str] = ()
    ) -> Fabric:
        """Return the fabric without some cables and switches; it may be disconnected.

        Parameters
        ----------
        cables
            Cable numbers, or ports as ``node[port]``.
        switches
            Switch numbers, names or GUIDs.

        Raises
        ------
        InputError
            If a cable or switch does not exist.
        """
        return Fabric.of(
            variants.without(self, self._cable_numbers(cables), self._switch_numbers(switches))
        )

    def with_faults(
        self, *, cables: int | str = 0, switches: int | str = 0, seed: int = 0
    ) -> Fabric:
        """Return the fabric after removing random switches and random cables between switches.

        Parameters
        ----------
        cables, switches
            Number or share, such as ``"2%"``, of cables between switches and of switches to
            remove. A share is rounded to the nearest number, and is at least one.
        seed
            Equal seeds give equal faults.

        Raises
        ------
        InputError
            If the fabric has fewer such cables or switches than are to be removed.
        """
        return Fabric.of(variants.with_faults(self, cables, switches, seed))

    def degraded(self, cables: Iterable[int | str], rate: str | float) -> Fabric:
        """Return the fabric with some cables at another rate.

        Parameters
        ----------
        cables
            Cable numbers, or ports as ``node[port]``.
        rate
            A rate such as ``"4xSDR"``, or a number in Gb/s.
        """
        parse_rate(rate)
        parts = Parts.of(self)
        set_rate(parts, self._cable_numbers(cables), rate)
        return Fabric.of(parts)

    def with_lengths(self, length_m: NDArray[np.float64]) -> Fabric:
        """Return the fabric with these cable lengths and the latencies derived from them.

        What the inside of machines adds to the latency of a cable stays.

        Parameters
        ----------
        length_m
            float64 [cables], NaN where unknown.
        """
        parts = Parts.of(self)
        parts.length_m = np.asarray(length_m, dtype=np.float64).copy()
        parts.latency_ns = cable_latency_ns(parts.length_m)
        if self.machine_model is not None:
            parts.latency_ns += self.cable_latency_ns - cable_latency_ns(self.cable_length_m)
        return Fabric.of(parts)

    def renamed(self, names: Mapping[int, str]) -> Fabric:
        """Return the fabric with new labels for some nodes.

        Parameters
        ----------
        names
            Node GUID -> label, as in a node-name-map; GUIDs that the fabric lacks are ignored.

        Raises
        ------
        InputError
            If two nodes would have the same label.
        """
        parts = Parts.of(self)
        parts.names = [
            names.get(int(guid), old) for guid, old in zip(parts.guid, parts.names, strict=True)
        ]
        return Fabric.of(parts)


def _one_or_more(things: int | str | Iterable[int | str]) -> Iterable[int | str]:
    if not isinstance(things, Iterable) or isinstance(things, str):
        return (things,)
    return things


def check_fabric(value: object) -> None:
    """Check that a value is a `Fabric` and not, for example, its spec."""
    if not isinstance(value, Fabric):
        raise InputError(f"expected a Fabric, as weft.fabric(…) returns, not {value!r}")
