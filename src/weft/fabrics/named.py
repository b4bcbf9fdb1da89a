"""Switches, machines and cables that a text names: labels, GUIDs, lists and patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.fabrics.fabric import Fabric
from weft.fabrics.formats.hostlist import expand


@dataclass(frozen=True)
class Named:
    """Parts of a fabric: switches, and cables that do not end at these."""

    #: int64: numbers of switches and of cables, each ascending.
    switches: NDArray[np.int64]
    cables: NDArray[np.int64]
    #: What was named: each switch, machine or adapter by its label, each cable by ``node[port]``.
    labels: tuple[str, ...]


def named(fabric: Fabric, texts: Iterable[str]) -> Named:
    """Return the parts of a fabric that texts name.

    A text is a switch, a machine or one of its adapters, which stand for their cables, a cable as
    ``node[port]``, a pattern of these names such as ``spine*``, or a list such as
    ``spine[1-3],leaf7``.

    Raises
    ------
    InputError
        If a name is not in the fabric, or a list is invalid.
    """
    switches, cables = [], []
    labels: dict[str, None] = {}
    for text in texts:
        for nodes, cable, label in _parts(fabric, text.strip()):
            switches += [node for node in nodes if node < fabric.num_switches]
            for node in nodes:
                if node >= fabric.num_switches:
                    slots = slice(fabric.port_offset[node], fabric.port_offset[node + 1])
                    links = fabric.port_link[slots]
                    cables += (links[links >= 0] >> 1).tolist()
            cables += [] if cable is None else [cable]
            labels[label] = None
    lost = np.unique(np.array(switches, dtype=np.int64))
    cut = np.unique(np.array(cables, dtype=np.int64))
    ends = np.isin(fabric.link_from, lost).reshape(-1, 2)[cut]
    return Named(lost, cut[~np.any(ends, axis=1)], tuple(labels))


def _parts(fabric: Fabric, text: str) -> list[tuple[list[int], int | None, str]]:
    """Return nodes or a cable of each name in a text, with its label."""
    one = _one(fabric, text)
    if one is not None:
        return [one]
    found = []
    for name in expand(text):
        one = _one(fabric, name)
        if one is not None:
            found.append(one)
            continue
        fitting = matching(_names(fabric), name)
        if not fitting:
            raise InputError(
                f"no switch, machine or cable {name!r} in {fabric.name}"
                f"{did_you_mean(name, _names(fabric))}"
            )
        names = _names(fabric)
        found += [each for at in fitting if (each := _one(fabric, names[at])) is not None]
    return found


def _one(fabric: Fabric, text: str) -> tuple[list[int], int | None, str] | None:
    """Return the nodes or the cable that a text names as a whole; None if it names none."""
    if len(hosts := fabric.machines.get(text, ())) > 1:
        return [fabric.num_switches + host for host in hosts], None, text
    try:
        node = fabric.find_node(text)
        return [node], None, fabric.node_names[node]
    except InputError:
        pass
    name, bracket, port = text.rpartition("[")
    if not bracket or not port.removesuffix("]").isdecimal():
        return None
    try:
        node = fabric.find_node(name)
    except InputError:
        return None  # a list such as node[7]
    return [], fabric.find_cable(text), f"{fabric.node_names[node]}[{port}"


def _names(fabric: Fabric) -> list[str]:
    """Return the names of switches and machines."""
    return list(dict.fromkeys((*fabric.node_names[: fabric.num_switches], *fabric.machine_names)))


def matching(names: Sequence[str], pattern: str) -> list[int]:
    """Return the indices of the names that fit a pattern with ``*`` and ``?``."""
    if "*" not in pattern and "?" not in pattern:
        return []
    return [at for at, name in enumerate(names) if fnmatchcase(name, pattern)]
