"""`Fabric`: switches, adapters and cables as flat, read-only arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_numbers
from weft.core.errors import InputError
from weft.core.frozen import read_only
from weft.core.html import facts_table
from weft.core.registry import did_you_mean
from weft.core.units import parse_rate
from weft.core.words import few, unquoted
from weft.fabrics import variants
from weft.fabrics.arrays import FabricArrays
from weft.fabrics.graph import SwitchGraph
from weft.fabrics.machines import first_adapters, machines_by_name
from weft.fabrics.parts import Parts, assemble, cable_latency_ns, set_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How ibnetdiscover writes a node: switch, host or router, and its GUID.
_NODE_ID = re.compile(r"[SHR]-([0-9a-fA-F]{16})")


@dataclass(frozen=True, eq=False, repr=False)
class Fabric(FabricArrays):
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

    @classmethod
    def of(cls, parts: Parts) -> Fabric:
        """Number nodes and cables and check that they fit together; `Parts.of` takes them apart.

        Nodes keep their order within a kind. Cables are numbered by their lower end (node, then
        port), which becomes the tail of the even link, so that the same wiring gives the same link
        numbers and digest whether it was generated, read from a file or put together by hand.

        Raises
        ------
        InputError
            On a name or GUID that two nodes share, a port that does not exist, a port with two
            cables, or a cable from a port to itself.
        """
        return assemble(parts, cls)

    def __repr__(self) -> str:
        return (
            f"Fabric({self.name!r}: {self.num_hosts} hosts, {self.num_switches} switches, "
            f"{self.num_cables} cables)"
        )

    @cached_property
    def graph(self) -> SwitchGraph:
        """The forwarding nodes and what joins them, in the form that kernels walk."""
        return SwitchGraph.of(self)

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
        return machines_by_name(self, self.machine)

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
                raise InputError(f"{name} is no switch; expected the name, GUID or number of one")
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

    def plot(self, load: ArrayLike | None = None, **options: Any) -> Figure:
        """Draw the fabric; with a load, colour each cable by the busier of its two directions.

        Parameters
        ----------
        load
            float [links], such as `weft.link_loads` returns; None draws all cables alike.
        **options
            ``title``, ``quantity``, ``label_hottest`` and ``size_inches``, as for
            `weft.report.picture.plot`.

        Returns
        -------
        Figure
            A matplotlib figure.

        Raises
        ------
        InputError
            When `load` does not have one finite, non-negative number per link.
        """
        # By name: drawing is a room above this one, and only this call needs it.
        figure: Figure = import_module("weft.report.picture").plot(self, load, **options)
        return figure

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
        return Fabric.of(variants.shuffled(self, seed))

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
        return Fabric.of(
            variants.without(self, self._cable_numbers(cables), self._switch_numbers(switches))
        )

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
        return Fabric.of(variants.with_faults(self, cables, switches, seed))

    def degraded(self, cables: Iterable[int | str], rate: str | float) -> Fabric:
        """The fabric with some cables at another rate.

        Parameters
        ----------
        cables
            Cable numbers, or ports as ``node[port]``.
        rate
            A rate such as ``"4xSDR"``, or a number of Gb/s.
        """
        parse_rate(rate)
        parts = Parts.of(self)
        set_rate(parts, self._cable_numbers(cables), rate)
        return Fabric.of(parts)

    def with_lengths(self, length_m: NDArray[np.float64]) -> Fabric:
        """The fabric with known cable lengths, and the latencies that follow from them.

        Parameters
        ----------
        length_m
            float64 [cables], NaN where still unknown.
        """
        parts = Parts.of(self)
        parts.length_m = np.asarray(length_m, dtype=np.float64).copy()
        parts.latency_ns = cable_latency_ns(parts.length_m)
        return Fabric.of(parts)

    def renamed(self, names: Mapping[int, str]) -> Fabric:
        """The fabric with other labels for some nodes, given by GUID.

        Parameters
        ----------
        names
            Node GUID -> label, as a node-name-map gives; GUIDs that the fabric lacks are passed
            over.

        Raises
        ------
        InputError
            When two nodes end up with one label.
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


def check_fabric(given: object) -> None:
    """Refuse what is no fabric, such as the spec of one.

    Raises
    ------
    InputError
        With what was given.
    """
    if not isinstance(given, Fabric):
        raise InputError(f"expected a Fabric, as weft.fabric(…) gives, not {given!r}")
