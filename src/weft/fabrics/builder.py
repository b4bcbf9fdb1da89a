"""`FabricBuilder`: a fabric assembled from blocks of nodes and cables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import MAX_INT32, finite_numbers, whole_number, whole_numbers
from weft.core.errors import InputError
from weft.core.units import RATE_NAMES, parse_rate, rate_gbps
from weft.fabrics.arrays import NodeKind
from weft.fabrics.fabric import Fabric
from weft.fabrics.parts import Parts, cable_latency_ns, default_guids

DEFAULT_RATE = "4xHDR"
#: Largest number of coordinates of a node.
MAX_DIMENSIONS = 64
#: Highest port number: ports are uint16, whose largest value means "no path".
MAX_PORTS = int(np.iinfo(np.uint16).max) - 1
# Defaults of arguments, which are not checked again.
_USED_PORTS, _NO_LEVEL, _NO_LENGTH, _SINGLE = 0, -1, np.nan, 1
#: Largest number of cables of a block.
MAX_CABLES = MAX_INT32 // 2


class FabricBuilder:
    """Builder of a fabric from blocks of nodes and cables.

    Parameters
    ----------
    name
        Spec or file that describes the fabric.
    rate
        Rate of cables added without a rate.
    dimensions
        Number of coordinates of a node.

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
        # Blocks without nodes and cables, so that there are columns of the right types.
        self.switches([])
        self.connect([], [])

    def switches(
        self,
        names: Sequence[str],
        *,
        ports: ArrayLike = _USED_PORTS,
        level: ArrayLike = _NO_LEVEL,
        coordinates: ArrayLike | None = None,
    ) -> NDArray[np.int32]:
        """Add switches and return their numbers for `connect`.

        Parameters
        ----------
        names
            One label per switch.
        ports
            Number of ports of each switch; 0 for the highest port that a cable uses, at least 1.
        level
            Tree level of each switch, -1 for none.
        coordinates
            Coordinates [switches, dimensions], -1 for none; by default none.
        """
        return self._add(names, NodeKind.SWITCH, True, ports, level, coordinates)

    def hosts(
        self,
        names: Sequence[str],
        *,
        ports: ArrayLike = _USED_PORTS,
        level: ArrayLike = _NO_LEVEL,
        coordinates: ArrayLike | None = None,
        forwards: bool = False,
    ) -> NDArray[np.int32]:
        """Add hosts as `switches` adds switches; `forwards` marks hosts that forward packets."""
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
            raise InputError(f"{self.name}: names must be a list of strings, not {names!r:.60}")
        count = len(names)
        start = len(self._names)
        self._names.extend(names)
        positions = np.full((count, self._dimensions), -1, dtype=np.int32)
        if coordinates is not None:
            positions[:] = whole_numbers(
                coordinates, "coordinates", low=-1, high=MAX_INT32, shape=positions.shape
            )
        if ports is not _USED_PORTS:
            ports = whole_numbers(ports, "ports", low=0, high=MAX_PORTS, each=count)
        if level is not _NO_LEVEL:
            level = whole_numbers(level, "levels", low=-1, high=127, each=count)
        self._blocks.append(
            {
                "kind": np.full(count, kind, dtype=np.uint8),
                "forwards": np.full(count, forwards, dtype=bool),
                "ports": np.full(count, ports, dtype=np.int32),
                "level": np.full(count, level, dtype=np.int8),
                "coordinates": positions,
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
        length_m: ArrayLike = _NO_LENGTH,
        cables: int = _SINGLE,
    ) -> None:
        """Add a cable from each node of `a` to the node of `b` at the same index.

        Parameters
        ----------
        a, b
            Two lists of node numbers, equally long.
        a_ports, b_ports
            Port of each cable at its node in `a` and at its node in `b`. By default a node's ports
            are assigned from 1 in the order of its cables. Give all ports of a node, or none.
        rate
            Rate of these cables; by default the rate of the builder.
        length_m
            Length of each cable, NaN where unknown.
        cables
            Number of parallel cables between the two nodes of a pair.
        """
        last = len(self._names) - 1
        of = f"nodes of {self.name} so far"
        first = whole_numbers(a, "nodes a", low=0, high=last, of=of, shape=None)
        second = whole_numbers(b, "nodes b", low=0, high=last, of=of, shape=None)
        if len(first) != len(second):
            raise InputError(f"a has {len(first)} nodes, but b has {len(second)}")
        times, count = cables, len(first)
        if cables is not _SINGLE or count > MAX_CABLES:
            times = whole_number(cables, "cables of each pair", 0, MAX_PORTS)
            count = whole_number(count * times, "the number of cables", 0, MAX_CABLES)
        ends = [end.astype(np.int32).repeat(times) for end in (first, second)]
        listed = [
            np.zeros(count, dtype=np.int64)
            if ports is None
            else whole_numbers(ports, "ports", low=0, high=MAX_PORTS, shape=None)
            for ports in (a_ports, b_ports)
        ]
        if not len(listed[0]) == len(listed[1]) == count:
            raise InputError(
                f"a_ports and b_ports have {len(listed[0])} and {len(listed[1])} values; "
                f"expected {count}, one per cable"
            )
        gbps, code = self._default_rate if rate is None else parse_rate(rate)
        if length_m is not _NO_LENGTH:
            length_m = finite_numbers(length_m, "lengths in m", missing=True, each=count)
        self._cables.append(
            {
                "a_node": ends[0],
                "a_port": listed[0].astype(np.int32),
                "b_node": ends[1],
                "b_port": listed[1].astype(np.int32),
                "rate_gbps": np.full(count, gbps),
                "rate_code": np.full(count, code, dtype=np.uint8),
                "length_m": np.full(count, length_m, dtype=np.float64),
            }
        )

    def parts(self, family: str = "", parameters: Mapping[str, Any] | None = None) -> Parts:
        """Return the nodes and cables added so far, with a port assigned to each cable end."""
        nodes, cables = _stack(self._blocks), _stack(self._cables)
        count = len(self._names)
        a_port, b_port = _free_ports(cables)
        used = np.zeros(count, dtype=np.int32)
        np.maximum.at(used, cables["a_node"], a_port)
        np.maximum.at(used, cables["b_node"], b_port)
        ports = np.where(nodes["ports"] > 0, nodes["ports"], np.maximum(used, 1)).astype(np.int32)
        return Parts(
            name=self.name,
            kind=nodes["kind"],
            names=list(self._names),
            ports=ports,
            a_node=cables["a_node"],
            a_port=a_port,
            b_node=cables["b_node"],
            b_port=b_port,
            rate_gbps=cables["rate_gbps"],
            rate_code=cables["rate_code"],
            length_m=cables["length_m"],
            latency_ns=cable_latency_ns(cables["length_m"]),
            guid=default_guids(nodes["kind"], ports),
            forwards=nodes["forwards"],
            level=nodes["level"],
            coordinates=nodes["coordinates"],
            descriptions=list(self._names),
            system_guid=np.zeros(count, dtype=np.uint64),
            vendor_id=np.zeros(count, dtype=np.uint32),
            device_id=np.zeros(count, dtype=np.uint32),
            family=family,
            parameters=dict(parameters or {}),
        )

    def fabric(self, family: str = "", parameters: Mapping[str, Any] | None = None) -> Fabric:
        """Return the fabric of the nodes and cables added so far; for errors see `Fabric.of`."""
        return Fabric.of(self.parts(family, parameters))


def rate_text(gbps: float, code: int) -> str:
    """Return the name of a rate, such as ``4xQDR``, or ``37 Gb/s`` for a rate without a name."""
    return RATE_NAMES[code] if code and rate_gbps(code) == gbps else f"{gbps:g} Gb/s"


def rates_text(fabric: Fabric) -> str:
    """Return the number of cables of each rate, such as ``23 × 4xDDR, 136 × 4xQDR``."""
    pairs = zip(fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True)
    counts = Counter(rate_text(gbps, code) for gbps, code in pairs)
    return ", ".join(f"{count:,} × {text}" for text, count in sorted(counts.items())) or "none"


def _stack(blocks: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}


def _free_ports(cables: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the ports at both ends of the cables; each 0 becomes the node's next port."""
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
