"""Switches that are to be added to a fabric: `leaf9: 32 hosts, 4 uplinks to each spine`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.core.words import few, unquoted
from weft.fabrics import variants
from weft.fabrics.arrays import NodeKind
from weft.fabrics.fabric import Fabric
from weft.fabrics.named import matching

_EXAMPLE = "'leaf9: 32 hosts, 4 uplinks to each spine'"
_HOSTS = re.compile(r"(\d{1,6}) hosts?", re.ASCII)
_UPLINKS = re.compile(r"(\d{1,6}) (?:uplinks?|cables?) to (each )?(.+)", re.ASCII)


@dataclass(frozen=True)
class Addition:
    """A switch to add, with its hosts and its cables to switches that are there."""

    name: str
    hosts: int
    #: Number of cables, whether they lead to each switch of a kind, and the name of it or of that.
    uplinks: tuple[tuple[int, bool, str], ...]

    @classmethod
    def parse(cls, text: str) -> Addition:
        """Read an addition.

        Raises
        ------
        InputError
            If the text is not of the form of `leaf9: 32 hosts, 4 uplinks to each spine`.
        """
        name, colon, rest = text.partition(":")
        if not colon or not name.strip():
            raise InputError(f"{text!r} names no switch to add; expected {_EXAMPLE}")
        hosts, uplinks = 0, []
        for part in rest.split(","):
            what = " ".join(part.split())
            if found := _HOSTS.fullmatch(what):
                hosts += int(found[1])
            elif found := _UPLINKS.fullmatch(what):
                uplinks.append((int(found[1]), bool(found[2]), found[3]))
            else:
                raise InputError(
                    f"{name.strip()}: {what!r} is neither hosts nor uplinks; expected {_EXAMPLE}"
                )
        if not any(count for count, _, _ in uplinks):
            raise InputError(f"{name.strip()} has no uplinks; expected {_EXAMPLE}")
        return cls(unquoted(name.strip()), hosts, tuple(uplinks))

    def of(self, fabric: Fabric) -> Fabric:
        """Return the fabric with the switch and its hosts, which are modelled on its peers.

        Peers are the switches with cables to the same switches, those with hosts first. The new
        switch has their usual number of ports and rates, and takes the lowest free ports.

        Raises
        ------
        InputError
            If the name is taken, no switch fits a name, ports are missing, or there is no peer.
        """
        if self.name in fabric.node_names:
            raise InputError(f"{self.name} cannot be added: {fabric.name} has it already")
        above = [
            switch for count, each, name in self.uplinks
            for switch in self._targets(fabric, each, name) for _ in range(count)
        ]  # fmt: skip
        peers = self._peers(fabric, above)
        model = peers[_usual(fabric.num_ports[peers].tolist())]
        ports, needed = int(fabric.num_ports[model]), self.hosts + len(above)
        if needed > ports:
            raise InputError(
                f"{self.name} needs {count_text(needed, 'port')} for {self.hosts} hosts and "
                f"{count_text(len(above), 'uplink')}; its peers, such as "
                f"{fabric.node_names[model]}, have {ports}"
            )
        node = fabric.num_nodes
        switch, hosts = np.full(needed, node), node + 1 + np.arange(self.hosts)
        host_ports, up_ports = np.ones(self.hosts, np.int64), _free_ports(fabric, above)
        of_peers = np.isin(fabric.link_from, peers)
        to_hosts = of_peers & (fabric.node_kind[fabric.link_to] == NodeKind.HOST)
        down = np.flatnonzero(to_hosts) >> 1
        up = np.flatnonzero(of_peers & np.isin(fabric.link_to, above)) >> 1
        if self.hosts and not len(down):
            raise InputError(
                f"{self.name}: no switch with cables to "
                f"{few([fabric.node_names[each] for each in np.unique(above)])} has hosts on which "
                "its own could be modelled"
            )
        rates = fabric.cable_rate_gbps
        host_cable = down[_usual(rates[down].tolist())] if len(down) else 0
        ends = fabric.link_from[2 * host_cable : 2 * host_cable + 2]
        host_model = ends[fabric.node_kind[ends] == NodeKind.HOST][:1]
        up_cable = up[_usual(rates[up].tolist())]
        return Fabric.of(
            variants.with_copies(
                fabric,
                np.append(model, host_model.repeat(self.hosts)),
                [self.name, *(f"{self.name}-host{at + 1}" for at in range(self.hosts))],
                np.repeat([host_cable, up_cable], [self.hosts, len(above)]),
                np.column_stack((switch, np.append(hosts, above))),
                np.column_stack((1 + np.arange(needed), np.append(host_ports, up_ports))),
            )
        )

    def _targets(self, fabric: Fabric, each: bool, name: str) -> list[int]:
        """Return the switches to which cables are to lead."""
        known = fabric.node_names[: fabric.num_switches]
        if not each:
            node = fabric.find_node(name)
            if node >= fabric.num_switches:
                raise InputError(f"{self.name}: {name} is not a switch")
            return [node]
        word = re.compile(rf"(?<![^\W\d_]){re.escape(name)}(?![^\W\d_])", re.IGNORECASE)
        found = matching(known, name) or [at for at, its in enumerate(known) if word.search(its)]
        if not found:
            raise InputError(
                f"{self.name}: no switch of {fabric.name} is called {name!r}"
                f"{did_you_mean(name, known)}; expected a word in names such as {few(known)}, or a "
                "pattern such as 'spine*'"
            )
        return found

    def _peers(self, fabric: Fabric, above: Iterable[int]) -> NDArray[np.int64]:
        upper = np.isin(fabric.link_from, list(above))
        near = np.unique(fabric.link_to[upper]).astype(np.int64)
        near = np.setdiff1d(near[near < fabric.num_switches], list(above))
        leaf = np.isin(near, fabric.link_from[fabric.node_kind[fabric.link_to] == NodeKind.HOST])
        if not len(near):
            names = few([fabric.node_names[switch] for switch in dict.fromkeys(above)])
            raise InputError(
                f"{self.name}: no other switch has cables to {names}, so that its ports and rates "
                "are not known"
            )
        return near[leaf] if leaf.any() else near


def _usual(values: list[float]) -> int:
    """Return the index of the most frequent value; of equally frequent ones, the largest."""
    return values.index(max(values, key=lambda value: (values.count(value), value)))


def _free_ports(fabric: Fabric, nodes: list[int]) -> list[int]:
    """Return the next free port of each node, which may be listed several times."""
    taken = []
    for node in dict.fromkeys(nodes):
        links = fabric.port_link[fabric.port_offset[node] : fabric.port_offset[node + 1]]
        free, wanted = np.flatnonzero(links < 0) + 1, nodes.count(node)
        if len(free) < wanted:
            raise InputError(
                f"{fabric.node_names[node]} has {count_text(len(free), 'free port')} of "
                f"{len(links)}; {wanted} are needed"
            )
        taken.append((node, iter(free.tolist())))
    ports = dict(taken)
    return [next(ports[node]) for node in nodes]
