"""Machines sized for a number of hosts: the smallest of each family that switches can build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.arguments import whole_number
from weft.core.errors import InputError, NotApplicable
from weft.core.registry import wrong_name
from weft.core.units import RATE_NAMES, parse_rate
from weft.fabrics.builder import MAX_PORTS
from weft.fabrics.topology.family_registry import MOST, ClosedForm, Sizing, topology

#: Signalling rate -> number of ports of the InfiniBand switch with most ports that is one chip or
#: one box of that generation: InfiniScale III and IV, SwitchX, Switch-IB, Quantum, Quantum-2 and
#: Quantum-X800.
PORTS = {
    "SDR": 24, "DDR": 24, "QDR": 36, "FDR10": 36, "FDR": 36, "EDR": 36, "HDR": 40, "NDR": 64,
    "XDR": 144,
}  # fmt: skip
#: Number of ports for other rates.
OTHER_PORTS = 64


@dataclass(frozen=True)
class Machine:
    """A machine of a family, sized for a number of hosts."""

    #: Name of the machine: its family, with the oversubscription of a fat tree.
    name: str
    #: Family of the topology.
    family: str
    #: Spec of the fabric with the hosts that are asked for.
    spec: str
    #: Number of hosts that are asked for, which `spec` attaches.
    hosts: int
    #: Number of hosts for which the machine has ports.
    places: int
    #: Closed form of the machine with a host at each place.
    form: ClosedForm


def ports_of(rate: str | float) -> int:
    """Return the number of ports of a usual switch for a rate."""
    name = RATE_NAMES[parse_rate(rate)[1]]
    return PORTS.get(name.partition("x")[2], OTHER_PORTS)


def machine_names() -> list[str]:
    """Return the names of all machines that can be sized, in order of their families."""
    return [name for entry in topology for name in entry.facts.get("sizings", ())]


def machines_for(
    hosts: int, radix: int, rate: str | float, names: Sequence[str] | None = None
) -> tuple[list[Machine], dict[str, str]]:
    """Size a machine of each family for a number of hosts.

    Of the machines that a family proposes and that have enough hosts and no larger switches, the
    one with the fewest switches is chosen, then the one with the fewest cables. Hosts beyond those
    asked for are not attached: their ports stay free, spread evenly over the switches.

    `hosts`: number of hosts, 2 or more. `radix`: number of ports of a switch. `rate`: rate of all
    cables, such as ``4xNDR``. `names`: names of machines or of groups of them (``fat-tree`` for all
    fat trees); by default all.

    Returns machines with the fewest switches first, and name -> why there is no such machine.
    """
    whole_number(hosts, "the number of hosts", 2, MOST)
    whole_number(radix, "the number of ports of a switch", 2, MAX_PORTS)
    parse_rate(rate)
    wanted = _wanted(names)
    machines: list[Machine] = []
    refused: dict[str, str] = {}
    for entry in topology:
        for name, sizing in entry.facts.get("sizings", {}).items():
            if name not in wanted:
                continue
            try:
                machine = _machine(name, entry.name, sizing, hosts, radix, rate)
            except NotApplicable as error:
                refused[name] = str(error)
                continue
            same = next((each.name for each in machines if each.spec == machine.spec), None)
            if same:
                refused[name] = f"the same machine as {same}"
            else:
                machines.append(machine)
    return sorted(machines, key=lambda each: (each.form.switches, each.form.cables)), refused


def _wanted(names: Sequence[str] | None) -> set[str]:
    known = machine_names()
    if names is None:
        return set(known)
    wanted = set()
    for name in names:
        found = [each for each in known if name in (each, _stem(each))]
        if not found:
            raise InputError(
                wrong_name("unknown machine", name, known),
                key="family",
            )
        wanted.update(found)
    return wanted


def _stem(name: str) -> str:
    """Return the name of a group of machines: ``fat-tree`` for ``fat-tree-2:1``."""
    return name.rpartition("-")[0] if ":" in name else name


def _machine(
    name: str, family: str, sizing: Sizing, hosts: int, radix: int, rate: str | float
) -> Machine:
    entry = topology[family]
    found = smallest(entry.facts["closed_form"], sizing(hosts, radix), hosts, radix)
    if found is None:
        forms = [entry.facts["closed_form"](**each) for each in sizing(hosts, radix)]
        most = max((form.hosts for form in forms if (form.radix or 0) <= radix), default=0)
        largest = f"; the largest has {most:,}" if most else ""
        raise NotApplicable(f"switches of {radix} ports cannot connect {hosts:,} hosts{largest}")
    parameters, form = found
    default = entry.complete({})
    given = {key: value for key, value in parameters.items() if value != default[key]}
    spec = entry.text({**given, "rate": rate})
    if form.hosts > hosts:
        spec += f",attached={hosts}"
    return Machine(name, family, spec, hosts, form.hosts, form)


def smallest(
    counts: Callable[..., ClosedForm],
    proposals: Iterable[Mapping[str, Any]],
    hosts: int,
    radix: int,
) -> tuple[Mapping[str, Any], ClosedForm] | None:
    """Return the proposal with the fewest switches, then cables, of those that fit.

    `hosts`, `radix`: smallest number of hosts, and largest number of ports of a switch.

    Returns parameters and closed form; None if no proposal fits. Cables to hosts beyond `hosts` are
    not counted.
    """
    best: tuple[tuple[int, int], Mapping[str, Any], ClosedForm] | None = None
    for parameters in proposals:
        form = counts(**parameters)
        if form.hosts < hosts or (form.radix or 0) > radix:
            continue
        key = form.switches, form.cables - form.hosts
        if best is None or key < best[0]:
            best = key, parameters, form
    return None if best is None else best[1:]
