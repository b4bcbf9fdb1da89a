"""Kinds of machines with several adapters, their rails, and the machines that deviate.

Machines of one kind have the same role, and names that differ in numbers only. A *port* of a kind
is a device, with its port number if adapters have several: ``mlx5_3``. Ports that mostly meet the
same leaf switches are one *rail*; a kind is rail-optimised if it has several rails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from weft.core.words import natural_key
from weft.fabrics.arrays import LinkKind, NodeKind
from weft.fabrics.fabric import Fabric
from weft.fabrics.machines import name_stem

#: Share of the machines of a kind that must agree before another one deviates.
AGREE = 0.6
#: Share of the adapters of two ports at common leaf switches from which on they are one rail.
_COMMON = 0.5

#: What is between the device and the number of a port, if adapters have several.
_PORT = " port "


@dataclass(frozen=True)
class Swap:
    """Adapters of a machine at leaf switches of other rails."""

    machine: str
    #: The ports, in order, and the names of the leaf switches at which they are.
    ports: tuple[str, ...]
    leaves: tuple[str, ...]
    #: Whether these ports have each other's leaf switches.
    mutual: bool


@dataclass(frozen=True)
class AbsentLeaf:
    """A rail that all machines at some leaf switches lack, though the kind has it."""

    port: str
    machines: tuple[str, ...]
    leaves: tuple[str, ...]


@dataclass(frozen=True)
class MachineKind:
    """Machines of one kind, of which most have the same number of adapters."""

    #: Name of the machines without numbers.
    name: str
    machines: tuple[str, ...]
    #: Number of adapters of most machines.
    adapters: int
    #: Ports of each rail; one entry if the machines are not rail-optimised, none for one machine.
    rails: tuple[tuple[str, ...], ...]
    swaps: tuple[Swap, ...]
    absent: tuple[AbsentLeaf, ...]
    #: Machine -> number of its adapters and the ports that it lacks, without those of `absent`.
    lacking: Mapping[str, tuple[int, tuple[str, ...]]]


def machine_kinds(fabric: Fabric) -> list[MachineKind]:
    """Return the kinds of machines with several adapters, the most numerous kind first."""
    if (fabric.adapters_of_host < 2).all():
        return []
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, hosts in fabric.machines.items():
        members[fabric.roles[hosts[0]], name_stem(name)].append(name)
    links = _links(fabric)
    kinds = (_kind(fabric, stem, machines, links) for (_, stem), machines in members.items())
    found = [kind for kind in kinds if kind is not None]
    return sorted(found, key=lambda kind: (-len(kind.machines), kind.name))


def machine_facts(fabric: Fabric) -> list[tuple[str, str]]:
    """Return the number of machines with its name, or nothing if each has one adapter."""
    count, model = len(fabric.machines), fabric.machine_model
    if model is not None:
        adapters = fabric.subnet.num_hosts
        has = f"{fabric.num_hosts:,} processors and {adapters:,} adapters"
        return [("machines", f"{count:,} of {model.name} with {has}")]
    if count == fabric.num_hosts:
        return []
    return [("machines", f"{count:,} with {fabric.num_hosts:,} adapters")]


def _links(fabric: Fabric) -> dict[int, list[tuple[int, int]]]:
    """Return the port number and the switch of each cable of each host."""
    cables = np.flatnonzero(fabric.link_kind == LinkKind.HOST_SWITCH)
    cables = cables[fabric.node_kind[fabric.link_from[cables]] == NodeKind.HOST]
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for host, port, leaf in zip(
        (fabric.link_from[cables] - fabric.num_switches).tolist(),
        fabric.link_from_port[cables].tolist(),
        fabric.link_to[cables].tolist(),
        strict=True,
    ):
        found[host].append((port, leaf))
    return found


def _kind(
    fabric: Fabric,
    stem: str,
    machines: Sequence[str],
    links: Mapping[int, Sequence[tuple[int, int]]],
) -> MachineKind | None:
    counted = {name: len(fabric.machines[name]) for name in machines}
    counts = Counter(counted.values())
    usual = max(counts, key=lambda count: (counts[count], count))
    if usual < 2:
        return None
    ports = {name: dict(_ports(fabric, fabric.machines[name], usual, links)) for name in machines}
    leaves = Counter((port, leaf) for mine in ports.values() for port, leaf in mine.items())
    rails = _rails(leaves) if len(machines) > 1 else ()
    swaps = tuple(_swaps(fabric, ports, rails, leaves)) if rails else ()
    odd = sum(len(swap.ports) for swap in swaps)
    if len(rails) > 1 and odd > (1 - AGREE) * leaves.total():
        rails, swaps = (tuple(port for rail in rails for port in rail),), ()
    have = Counter(port for mine in ports.values() for port in mine)
    # Half is enough: of two groups of machines, one may be without a leaf switch.
    normal = {port for port, count in have.items() if 2 * count >= len(machines)}
    usual = max(usual, len({port.partition(_PORT)[0] for port in normal}))
    lost = {name: normal - set(mine) for name, mine in ports.items() if mine and normal - set(mine)}
    absent = _absent(fabric, ports, lost, len(normal)) if len(rails) > 1 else ()
    for leaf in absent:
        for name in leaf.machines:
            lost[name] = lost[name] - {leaf.port}
            counted[name] += 1
    fewer = {
        name: (len(fabric.machines[name]), tuple(sorted(lost.get(name, ()), key=natural_key)))
        for name, count in counted.items()
        if count < usual
    }
    lacking = fewer if len(fewer) <= (1 - AGREE) * len(machines) else {}
    return MachineKind(stem, tuple(machines), usual, rails, swaps, absent, lacking)


def _ports(
    fabric: Fabric, hosts: Sequence[int], usual: int, links: Mapping[int, Sequence[tuple[int, int]]]
) -> Iterator[tuple[str, int]]:
    """Yield each cabled port of a machine and its switch; none if its devices are unknown.

    Without names of devices, the ports of a machine with all its adapters are numbered.
    """
    devices = [fabric.devices[host] for host in hosts]
    if not all(devices) or len(set(devices)) < len(devices):
        devices = [f"adapter {number}" for number in range(1, len(hosts) + 1)]
        if len(hosts) != usual:
            return
    for device, host in zip(devices, hosts, strict=True):
        several = fabric.num_ports[fabric.num_switches + host] > 1
        for port, leaf in links.get(host, ()):
            yield f"{device}{_PORT}{port}" if several else device, leaf


def _rails(leaves: Counter[tuple[str, int]]) -> tuple[tuple[str, ...], ...]:
    """Return the ports of each rail; `leaves`: number of machines by port and leaf switch."""
    ports = sorted({port for port, _ in leaves}, key=natural_key)
    switches = sorted({leaf for _, leaf in leaves})
    count = np.array([[leaves[port, leaf] for leaf in switches] for port in ports])
    if not ports:
        return ()
    total = count.sum(axis=1)
    common: NDArray[np.int64] = np.minimum(count[:, None], count[None]).sum(axis=2)
    joined = common >= _COMMON * np.minimum(total[:, None], total[None])
    _, part = connected_components(joined, directed=False)
    return tuple(
        tuple(port for port, mine in zip(ports, part, strict=True) if mine == rail)
        for rail in dict.fromkeys(part.tolist())
    )


def _swaps(
    fabric: Fabric,
    ports: Mapping[str, Mapping[str, int]],
    rails: Sequence[Sequence[str]],
    leaves: Counter[tuple[str, int]],
) -> Iterator[Swap]:
    """Yield the adapters at a leaf switch at which more adapters of another rail are."""
    rail_of = {port: number for number, rail in enumerate(rails) for port in rail}
    at: dict[int, Counter[int]] = defaultdict(Counter)
    for (port, leaf), count in leaves.items():
        at[leaf][rail_of[port]] += count
    usual = {leaf: max(count, key=lambda rail: count[rail]) for leaf, count in at.items()}
    for name, mine in ports.items():
        odd = {
            port: leaf
            for port, leaf in mine.items()
            if at[leaf][rail_of[port]] < at[leaf][usual[leaf]]
        }
        if odd:
            ours, theirs = ([*map(rail_of.get, odd)], [usual[leaf] for leaf in odd.values()])
            yield Swap(
                name,
                tuple(odd),
                tuple(fabric.node_names[leaf] for leaf in odd.values()),
                len(odd) > 1 and sorted(ours) == sorted(theirs),  # type: ignore[type-var]
            )


def _absent(
    fabric: Fabric,
    ports: Mapping[str, Mapping[str, int]],
    lost: Mapping[str, set[str]],
    normal: int,
) -> tuple[AbsentLeaf, ...]:
    """Return the leaf switches that all machines at some other leaf switches lack.

    `lost`: ports that each machine lacks. `normal`: number of ports of a machine, of which an
    absent leaf switch explains one, or a quarter if several are absent.
    """
    at: dict[int, set[str]] = defaultdict(set)
    for name, mine in ports.items():
        for leaf in mine.values():
            at[leaf].add(name)
    few = max(1, normal // 4)
    found: dict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
    for port in sorted(set().union(*lost.values()), key=natural_key):
        without = {name for name, mine in lost.items() if port in mine and len(mine) <= few}
        sets = [(leaf, names) for leaf, names in at.items() if len(names) > 1 and names <= without]
        while sets:
            _, group = sets[0]
            while (more := set().union(group, *(n for _, n in sets if n & group))) != group:
                group = more
            here = [leaf for leaf, names in sets if names & group]
            sets = [(leaf, names) for leaf, names in sets if not names & group]
            found[port, frozenset(group)] = [fabric.node_names[leaf] for leaf in here]
    return tuple(
        AbsentLeaf(
            port, tuple(sorted(names, key=natural_key)), tuple(sorted(near, key=natural_key))
        )
        for (port, names), near in found.items()
    )
