"""Putting a `Fabric` together from nodes and cables, in bulk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import MAX_INT32, finite_numbers, whole_number, whole_numbers
from weft.core.errors import InputError
from weft.core.units import DEFAULT_LENGTH_M, LATENCY_NS_PER_M, RATE_NAMES, parse_rate, rate_gbps
from weft.fabrics.fabric import Fabric, NodeKind

#: The GUIDs that ibsim gives to a file without any.
SWITCH_GUID = 0x200000
ADAPTER_GUID = 0x100000
#: Where adapters move when that many would run into the switches.
FAR_ADAPTER_GUID = 0x1000000000

DEFAULT_RATE = "4xHDR"
#: Most coordinates of a node.
MAX_DIMENSIONS = 64
#: Highest port number: ports are uint16, and the largest value of that says "no path".
MAX_PORTS = int(np.iinfo(np.uint16).max) - 1


@dataclass
class Parts:
    """Nodes and cables before they are numbered: the editable form of a `Fabric`.

    All arrays are as in `Fabric`, except that nodes come in any order, `ports` counts each node's
    ports, and cables name their ends by (node, port).
    """

    name: str
    kind: NDArray[np.uint8]
    names: list[str]
    ports: NDArray[np.int32]
    a_node: NDArray[np.int32]
    a_port: NDArray[np.int32]
    b_node: NDArray[np.int32]
    b_port: NDArray[np.int32]
    rate_gbps: NDArray[np.float64]
    rate_code: NDArray[np.uint8]
    length_m: NDArray[np.float64]
    latency_ns: NDArray[np.float64]
    guid: NDArray[np.uint64]
    forwards: NDArray[np.bool_]
    level: NDArray[np.int8]
    coordinates: NDArray[np.int32]
    descriptions: list[str]
    system_guid: NDArray[np.uint64]
    vendor_id: NDArray[np.uint32]
    device_id: NDArray[np.uint32]
    #: (node, port) -> GUID of an adapter port, where it is not the node's GUID plus the port.
    port_guid: dict[tuple[int, int], int] = field(default_factory=dict)
    #: (node, port) -> (LID, LMC); port 0 for a switch.
    lid: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    family: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def assemble(self) -> Fabric:
        """Number the nodes and cables and check that they fit together.

        Nodes keep their order within a kind. Cables are numbered by their lower end (node, then
        port), which becomes the tail of the even link, so that the same wiring gives the same link
        numbers and digest whether it was generated, read from a file or put together by hand.

        Raises
        ------
        InputError
            On a name or GUID that two nodes share, a port that does not exist, a port with two
            cables, or a cable from a port to itself.
        """
        order = np.argsort(self.kind, kind="stable").astype(np.int32)
        number = np.empty(len(order), dtype=np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        names = tuple(self.names[node] for node in order)
        kind = self.kind[order]
        self._refuse_twins(names, self.guid[order])

        ports = self.ports[order]
        whole_number(int(ports.sum(dtype=np.int64)), f"{self.name}: all ports", 0, MAX_INT32)
        port_offset = np.zeros(len(order) + 1, dtype=np.int32)
        np.cumsum(ports, out=port_offset[1:])

        cables = len(self.a_node)
        ends = np.array([number[self.a_node], number[self.b_node]], dtype=np.int32)
        end_ports = np.array([self.a_port, self.b_port], dtype=np.int32)
        turned = (ends[0] > ends[1]) | ((ends[0] == ends[1]) & (end_ports[0] > end_ports[1]))
        ends[:, turned], end_ports[:, turned] = ends[::-1, turned], end_ports[::-1, turned]
        cable = np.lexsort((end_ports[0], ends[0]))
        link_from = ends[:, cable].T.reshape(-1)
        link_port = end_ports[:, cable].T.reshape(-1)
        bad = np.flatnonzero((link_port < 1) | (link_port > ports[link_from]))
        if len(bad):
            node, port = link_from[bad[0]], link_port[bad[0]]
            raise InputError(
                f"{self.name}: {names[node]} has {ports[node]} ports, and a cable names port {port}"
            )
        slots = port_offset[link_from] + link_port - 1
        port_link = np.full(int(port_offset[-1]), -1, dtype=np.int32)
        port_link[slots] = np.arange(2 * cables, dtype=np.int32)
        clash = np.flatnonzero(port_link[slots] != np.arange(2 * cables))
        if len(clash):
            node, port = link_from[clash[0]], link_port[clash[0]]
            raise InputError(f"{self.name}: two cables are plugged into {names[node]}[{port}]")

        port_guid = np.repeat(self.guid[order], ports)
        slot_node = np.repeat(np.arange(len(order)), ports)
        adapter = kind[slot_node] != NodeKind.SWITCH
        slot_port = np.arange(len(slot_node)) - port_offset[slot_node] + 1
        port_guid[adapter] += slot_port[adapter].astype(np.uint64)
        for (node, port), guid in self.port_guid.items():
            port_guid[port_offset[number[node]] + port - 1] = guid

        fabric = Fabric(
            name=self.name,
            node_kind=kind,
            node_guid=self.guid[order],
            node_names=names,
            forwards=self.forwards[order] | (kind == NodeKind.SWITCH),
            port_offset=port_offset,
            port_guid=port_guid,
            port_link=port_link,
            link_from=link_from,
            link_from_port=link_port.astype(np.uint16),
            link_to=_swapped(link_from),
            link_to_port=_swapped(link_port).astype(np.uint16),
            cable_rate_gbps=self.rate_gbps[cable],
            cable_rate_code=self.rate_code[cable],
            cable_length_m=self.length_m[cable],
            cable_latency_ns=self.latency_ns[cable],
            level=self.level[order],
            coordinates=self.coordinates[order],
            descriptions=tuple(self.descriptions[node] for node in order),
            system_guid=self.system_guid[order],
            vendor_id=self.vendor_id[order],
            device_id=self.device_id[order],
            lid=np.zeros(0, dtype=np.int32),
            lmc=np.zeros(0, dtype=np.uint8),
            family=self.family,
            parameters=dict(self.parameters),
        )
        lid, lmc = _destination_lids(fabric, number, self.lid)
        return replace(fabric, lid=lid, lmc=lmc)

    def _refuse_twins(self, names: Sequence[str], guids: NDArray[np.uint64]) -> None:
        if len(set(names)) < len(names):
            seen: set[str] = set()
            twin = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InputError(f"{self.name}: two nodes are called {twin!r}")
        first: dict[int, int] = {}
        for node, guid in enumerate(guids.tolist()):
            if guid in first:
                raise InputError(
                    f"{self.name}: {names[first[guid]]} and {names[node]} have the same "
                    f"GUID {guid:#x}"
                )
            first[guid] = node

    @classmethod
    def of(cls, fabric: Fabric) -> Parts:
        """Take a fabric apart; `assemble` puts the same one together again."""
        slot_node = np.repeat(np.arange(fabric.num_nodes), fabric.num_ports)
        slot_port = np.arange(len(slot_node)) - fabric.port_offset[slot_node] + 1
        adapter = fabric.node_kind[slot_node] != NodeKind.SWITCH
        usual = fabric.node_guid[slot_node] + np.where(adapter, slot_port, 0).astype(np.uint64)
        odd = np.flatnonzero(fabric.port_guid != usual)
        nodes = np.concatenate((fabric.endpoint_node, np.arange(fabric.num_switches)))
        node_ports = np.concatenate((fabric.endpoint_port, np.zeros(fabric.num_switches, np.int32)))
        return cls(
            name=fabric.name,
            kind=fabric.node_kind.copy(),
            names=list(fabric.node_names),
            ports=fabric.num_ports.copy(),
            a_node=fabric.link_from[0::2].copy(),
            a_port=fabric.link_from_port[0::2].astype(np.int32),
            b_node=fabric.link_from[1::2].copy(),
            b_port=fabric.link_from_port[1::2].astype(np.int32),
            rate_gbps=fabric.cable_rate_gbps.copy(),
            rate_code=fabric.cable_rate_code.copy(),
            length_m=fabric.cable_length_m.copy(),
            latency_ns=fabric.cable_latency_ns.copy(),
            guid=fabric.node_guid.copy(),
            forwards=fabric.forwards.copy(),
            level=fabric.level.copy(),
            coordinates=fabric.coordinates.copy(),
            descriptions=list(fabric.descriptions),
            system_guid=fabric.system_guid.copy(),
            vendor_id=fabric.vendor_id.copy(),
            device_id=fabric.device_id.copy(),
            port_guid={
                (int(slot_node[s]), int(slot_port[s])): int(fabric.port_guid[s]) for s in odd
            },
            lid={
                (int(node), int(port)): (int(lid), int(lmc))
                for node, port, lid, lmc in zip(
                    nodes, node_ports, fabric.lid, fabric.lmc, strict=True
                )
                if lid
            },
            family=fabric.family,
            parameters=dict(fabric.parameters),
        )


def _swapped(ends: NDArray[Any]) -> NDArray[Any]:
    """Exchange the values of each cable's two directed links."""
    return ends.reshape(-1, 2)[:, ::-1].reshape(-1).copy()


def _destination_lids(
    fabric: Fabric, number: NDArray[np.int32], lids: Mapping[tuple[int, int], tuple[int, int]]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    lid = np.zeros(fabric.num_destinations, dtype=np.int32)
    lmc = np.zeros(fabric.num_destinations, dtype=np.uint8)
    if lids:
        ends = zip(fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), strict=True)
        place = {end: destination for destination, end in enumerate(ends)}
        for switch in range(fabric.num_switches):
            place[switch, 0] = fabric.num_endpoints + switch
        for (node, port), (value, mask) in lids.items():
            destination = place.get((int(number[node]), port))
            if destination is not None:
                lid[destination], lmc[destination] = value, mask
    return lid, lmc


class FabricBuilder:
    """Builds a fabric from bulk additions of nodes and cables.

    Parameters
    ----------
    name
        Spec or file that the fabric comes from.
    rate
        Rate of cables that name none.
    dimensions
        Number of coordinates a node may have.

    Examples
    --------
    >>> build = FabricBuilder("pair", rate="4xEDR")
    >>> switch = build.switches(["s0"], ports=2)
    >>> hosts = build.hosts(["h0", "h1"])
    >>> build.connect(switch.repeat(2), hosts)
    >>> build.fabric()
    Fabric('pair': 2 hosts, 1 switches, 2 cables)
    """

    def __init__(self, name: str, *, rate: str | float = DEFAULT_RATE, dimensions: int = 0):
        self.name = name
        self._default_rate = parse_rate(rate)
        self._dimensions = whole_number(dimensions, "dimensions", 0, MAX_DIMENSIONS)
        self._names: list[str] = []
        self._blocks: list[dict[str, NDArray[Any]]] = []
        self._cables: list[dict[str, NDArray[Any]]] = []

    def switches(
        self,
        names: Sequence[str],
        *,
        ports: ArrayLike = 0,
        level: ArrayLike = -1,
        coordinates: ArrayLike | None = None,
    ) -> NDArray[np.int32]:
        """Add switches; returns their numbers for `connect`.

        Parameters
        ----------
        names
            One label per switch.
        ports
            Ports of each, at least as many as get cables; 0 means just as many.
        level
            Tree level, -1 for none.
        coordinates
            [switches, dimensions] of the builder, or none.
        """
        return self._add(names, NodeKind.SWITCH, True, ports, level, coordinates)

    def hosts(
        self,
        names: Sequence[str],
        *,
        ports: ArrayLike = 0,
        level: ArrayLike = -1,
        coordinates: ArrayLike | None = None,
        forwards: bool = False,
    ) -> NDArray[np.int32]:
        """Add hosts, as `switches` adds switches; `forwards` for hosts that pass packets on."""
        return self._add(names, NodeKind.HOST, forwards, ports, level, coordinates)

    def _add(
        self,
        names: Sequence[str],
        kind: NodeKind,
        forwards: bool,
        ports: ArrayLike,
        level: ArrayLike,
        coordinates: ArrayLike | None,
    ) -> NDArray[np.int32]:
        listed = isinstance(names, Sequence) and not isinstance(names, str)
        if not listed or not all(isinstance(name, str) for name in names):
            raise InputError(f"{self.name}: names must be a list of texts, not {names!r:.60}")
        count = len(names)
        start = len(self._names)
        self._names.extend(names)
        where = np.full((count, self._dimensions), -1, dtype=np.int32)
        if coordinates is not None:
            where[:] = whole_numbers(
                coordinates, "coordinates", low=-1, high=MAX_INT32, shape=where.shape
            )
        counts = whole_numbers(ports, "ports", low=0, high=MAX_PORTS, each=count)
        levels = whole_numbers(level, "levels", low=-1, high=127, each=count)
        self._blocks.append(
            {
                "kind": np.full(count, kind, dtype=np.uint8),
                "forwards": np.full(count, forwards, dtype=bool),
                "ports": counts.astype(np.int32),
                "level": levels.astype(np.int8),
                "coordinates": where,
            }
        )
        return np.arange(start, start + count, dtype=np.int32)

    def connect(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        a_ports: ArrayLike | None = None,
        b_ports: ArrayLike | None = None,
        rate: str | float | None = None,
        length_m: ArrayLike = np.nan,
        cables: int = 1,
    ) -> None:
        """Add one cable from each node of `a` to the node of `b` beside it.

        Parameters
        ----------
        a, b
            Node numbers of equal length.
        a_ports, b_ports
            Port at each end, from 1; left out, each end takes the node's next free port in the
            order of the cables. A node takes either all its ports by hand or none.
        rate
            Rate of these cables, else the builder's.
        length_m
            Length where known.
        cables
            Parallel cables for each pair.
        """
        last = len(self._names) - 1
        of = f"nodes of {self.name} so far"
        first = whole_numbers(a, "nodes a", low=0, high=last, of=of, shape=None)
        second = whole_numbers(b, "nodes b", low=0, high=last, of=of, shape=None)
        if len(first) != len(second):
            raise InputError(f"{len(first)} nodes a do not match {len(second)} nodes b")
        times = whole_number(cables, "cables of each pair", 0, MAX_PORTS)
        count = whole_number(len(first) * times, "the number of cables", 0, MAX_INT32 // 2)
        ends = [end.astype(np.int32).repeat(times) for end in (first, second)]
        given = [
            whole_numbers([0] * count if ports is None else ports, "ports", low=0, high=MAX_PORTS,
                          shape=None)
            for ports in (a_ports, b_ports)
        ]  # fmt: skip
        if not len(given[0]) == len(given[1]) == count:
            raise InputError(f"{len(given[0])} and {len(given[1])} ports for {count} cables")
        gbps, code = self._default_rate if rate is None else parse_rate(rate)
        lengths = finite_numbers(length_m, "lengths in m", missing=True, each=count)
        self._cables.append(
            {
                "a_node": ends[0],
                "a_port": given[0].astype(np.int32),
                "b_node": ends[1],
                "b_port": given[1].astype(np.int32),
                "rate_gbps": np.full(count, gbps),
                "rate_code": np.full(count, code, dtype=np.uint8),
                "length_m": lengths,
            }
        )

    def parts(self, family: str = "", parameters: Mapping[str, Any] | None = None) -> Parts:
        """Everything added so far, numbered and with free ports chosen."""
        nodes = _stack(self._blocks, ("kind", "forwards", "ports", "level", "coordinates"))
        cables = _stack(
            self._cables,
            ("a_node", "a_port", "b_node", "b_port", "rate_gbps", "rate_code", "length_m"),
        )
        count = len(self._names)
        a_port, b_port = _free_ports(cables)
        used = np.zeros(count, dtype=np.int32)
        np.maximum.at(used, cables["a_node"], a_port)
        np.maximum.at(used, cables["b_node"], b_port)
        ports = np.where(nodes["ports"] > 0, nodes["ports"], np.maximum(used, 1)).astype(np.int32)
        length = cables["length_m"].astype(np.float64)
        return Parts(
            name=self.name,
            kind=nodes["kind"].astype(np.uint8),
            names=list(self._names),
            ports=ports,
            a_node=cables["a_node"].astype(np.int32),
            a_port=a_port,
            b_node=cables["b_node"].astype(np.int32),
            b_port=b_port,
            rate_gbps=cables["rate_gbps"].astype(np.float64),
            rate_code=cables["rate_code"].astype(np.uint8),
            length_m=length,
            latency_ns=cable_latency_ns(length),
            guid=default_guids(nodes["kind"], ports),
            forwards=nodes["forwards"].astype(bool),
            level=nodes["level"].astype(np.int8),
            coordinates=nodes["coordinates"].astype(np.int32).reshape(count, self._dimensions),
            descriptions=list(self._names),
            system_guid=np.zeros(count, dtype=np.uint64),
            vendor_id=np.zeros(count, dtype=np.uint32),
            device_id=np.zeros(count, dtype=np.uint32),
            family=family,
            parameters=dict(parameters or {}),
        )

    def fabric(self, family: str = "", parameters: Mapping[str, Any] | None = None) -> Fabric:
        """Assemble what was added; see `Parts.assemble` for what it refuses."""
        return self.parts(family, parameters).assemble()


def cable_latency_ns(length_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Propagation delay of cables, those of unknown length taken as `DEFAULT_LENGTH_M`."""
    return np.where(np.isnan(length_m), DEFAULT_LENGTH_M, length_m) * LATENCY_NS_PER_M


def default_guids(kind: NDArray[np.uint8], ports: NDArray[np.int32]) -> NDArray[np.uint64]:
    """GUIDs as ibsim numbers a file without any: switches one apart, adapters ports + 1 apart."""
    switch = kind == NodeKind.SWITCH
    step = np.where(switch, 0, ports + 1).astype(np.uint64)
    before = np.cumsum(step) - step
    base = ADAPTER_GUID if int(step.sum()) <= SWITCH_GUID - ADAPTER_GUID else FAR_ADAPTER_GUID
    rank = (np.cumsum(switch) - switch).astype(np.uint64)
    return np.where(switch, np.uint64(SWITCH_GUID) + rank, np.uint64(base) + before)


def set_rate(parts: Parts, cables: NDArray[np.integer[Any]], rate: str | float) -> None:
    """Give some cables another rate, in place."""
    parts.rate_gbps[cables], parts.rate_code[cables] = parse_rate(rate)


def rate_text(gbps: float, code: int) -> str:
    """A rate as people write it: ``4xQDR``, or ``37 Gb/s`` when it has no name."""
    return RATE_NAMES[code] if code and rate_gbps(code) == gbps else f"{gbps:g} Gb/s"


def rates_text(fabric: Fabric) -> str:
    """How many cables of each rate: ``23 × 4xDDR, 136 × 4xQDR``."""
    pairs = zip(fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True)
    counts = Counter(rate_text(gbps, code) for gbps, code in pairs)
    return ", ".join(f"{count:,} × {text}" for text, count in sorted(counts.items())) or "none"


def _stack(blocks: list[dict[str, NDArray[Any]]], keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    if not blocks:
        return {key: np.zeros(0, dtype=np.int32) for key in keys}
    return {key: np.concatenate([block[key] for block in blocks]) for key in keys}


def _free_ports(cables: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Ports of both ends, with 0 replaced by the node's next free port in cable order."""
    count = len(cables["a_node"])
    nodes = np.empty(2 * count, dtype=np.int32)
    ports = np.empty(2 * count, dtype=np.int32)
    nodes[0::2], nodes[1::2] = cables["a_node"], cables["b_node"]
    ports[0::2], ports[1::2] = cables["a_port"], cables["b_port"]
    free = np.flatnonzero(ports == 0)
    order = free[np.argsort(nodes[free], kind="stable")]
    owner = nodes[order]
    first = np.searchsorted(owner, owner, side="left")
    ports[order] = np.arange(len(order)) - first + 1
    return ports[0::2].copy(), ports[1::2].copy()
