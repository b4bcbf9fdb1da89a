"""Read and write files of routing keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, in_file
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import one_line
from weft.fabrics.formats.host_words import host_number, host_word
from weft.fabrics.formats.records import lines_of, shown
from weft.kernels.keys.assignment import load_index
from weft.sim.keys.network import KeyNetwork, key_network
from weft.sim.keys.routing_key import RoutingKey, stages_used

_KEY = re.compile(r'key "(?P<name>[^"]*)" method (?P<method>exact|greedy)')
_PORTS = re.compile(r"(\d{1,5}(,\d{1,5})*)?", re.ASCII)
_COLOUR = re.compile(r"-|\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class _Flow:
    """A flow of a file: its hosts, its columns, and its colour."""

    source: int
    destination: int
    column: list[int]
    colour: int


def write_keys(
    fabric: Fabric,
    keys: Sequence[RoutingKey],
    lids: Sequence[NDArray[np.int64]] | None = None,
) -> str:
    """Return keys as text that `read_keys` reads.

    A key begins with ``key "NAME" method exact``. Each of its flows is a line of four fields: the
    path as in the paper, the two hosts, the output ports of the switches on the path, and the
    colour, ``-`` for a flow within a leaf switch. The path ends with the LID to which the
    flow is sent: the one in `lids`, int64 [flows] for each key, or else that of `RoutingKey.lines`.
    """
    title = one_line(fabric.name, "the name")
    lines = [f"# routing keys of {title}: path | source destination | ports | colour"]
    names: set[str] = set()
    for number, key in enumerate(keys):
        if key.fabric.digest != fabric.digest:
            raise InputError(f"key {key.name} is for another fabric than {fabric.name}")
        if {*'"#|'} & set(key.name) or key.name in names:
            raise InputError(f'key {key.name!r}: expected a unique name without ", # and |')
        names.add(one_line(key.name, "the name of a key"))
        lines.append(f'key "{key.name}" method {key.method}')
        offset, edges = key.paths
        ports = fabric.graph.edge_port[edges]
        for flow, path in enumerate(key.lines(None if lids is None else lids[number])):
            ends = (key.sources[flow], key.destinations[flow])
            hosts = " ".join(host_word(fabric, fabric.num_switches + int(host)) for host in ends)
            out = ",".join(map(str, ports[offset[flow] : offset[flow + 1]]))
            colour = key.colour[flow] if key.colour[flow] >= 0 else "-"
            lines.append(f"{path} | {hosts} | {out} | {colour}")
    return "\n".join(lines) + "\n"


def read_keys(fabric: Fabric, text: str, file: str = "keys") -> tuple[RoutingKey, ...]:
    """Read keys from text.

    `text`: text in the format of `write_keys`.
    """
    network = key_network(fabric)
    index = np.full(len(fabric.graph.edge_link) + 1, -1, dtype=np.int64)
    index[network.edge] = np.arange(len(network.edge))
    index[-1] = -1
    made: list[RoutingKey] = []
    rows: list[_Flow] = []
    first: dict[tuple[int, int], _Flow] = {}
    head: tuple[str, str] | None = None
    for number, line in enumerate(lines_of(text), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        with in_file(file, number):
            begins = _KEY.fullmatch(plain)
            if begins is not None:
                if head is not None:
                    made.append(_key(network, *head, rows))
                head, rows, first = (begins["name"], begins["method"]), [], {}
                if any(key.name == head[0] for key in made):
                    raise InputError(f"there is already a key {head[0]}")
            elif head is None:
                raise InputError(f'expected key "NAME" method METHOD, not {shown(plain)}')
            else:
                flow = _flow(network, index, plain)
                ends = (flow.source, flow.destination)
                if first.setdefault(ends, flow) != flow:
                    raise InputError("an earlier flow of these hosts has another path or colour")
                rows.append(flow)
    if head is not None:
        made.append(_key(network, *head, rows))
    return tuple(made)


def _flow(network: KeyNetwork, index: NDArray[np.int64], line: str) -> _Flow:
    """Parse the line of a flow."""
    fabric, stages = network.fabric, network.stages
    graph = fabric.graph
    fields = [field.strip() for field in line.split("|")]
    hosts = fields[1].split() if len(fields) == 4 else []
    if len(hosts) != 2 or not _PORTS.fullmatch(fields[2]) or not _COLOUR.fullmatch(fields[3]):
        raise InputError(
            f"expected PATH | SOURCE DESTINATION | PORT,PORT,… | COLOUR, not {shown(line)}"
        )
    source, destination = (host_number(fabric, word) for word in hosts)
    start, end = fabric.host_endpoint[[source, destination]]
    if min(start, end) < 0:
        raise InputError(f"{hosts[0 if start < 0 else 1]} has no cable")
    ports = [int(port) for port in fields[2].split(",") if port]
    ends = [network.subtrees(np.array([each], dtype=np.int32))[0] for each in (start, end)]
    depth = int((ends[0] != ends[1]).sum())
    if len(ports) != 2 * depth or (fields[3] == "-") != (depth == 0):
        raise InputError(
            f"a flow from {hosts[0]} to {hosts[1]} has {2 * depth} ports and "
            f"{'a' if depth else 'no'} colour; the line has {len(ports)} ports and "
            f"colour {fields[3]}"
        )
    row = int(graph.destination_row[start])
    column, prefix = [], 0
    for stage, port in enumerate(ports[:depth]):
        slot = graph.row_base[row] + port
        edge = int(graph.slot_edge[slot]) if port and slot < graph.row_base[row + 1] else -1
        at = int(index[edge])
        width = int(stages.planes[stage] * stages.parallel[stage])
        first = load_index(stages, stage, 0, ends[0][stage], prefix, 0)
        if not first <= at < first + width:
            raise InputError(f"port {port} of {fabric.node_names[row]} does not lead upwards")
        column.append(at - int(first))
        prefix = prefix * int(stages.planes[stage]) + column[-1] % int(stages.planes[stage])
        row = int(graph.edge_row[edge])
    prefix, down = 0, []
    for stage, c in enumerate(column):
        edge = int(network.edge[load_index(stages, stage, 1, ends[1][stage], prefix, c)])
        if edge < 0:
            raise InputError(f"a cable downwards to {hosts[1]} on this path is missing")
        down.append(int(graph.edge_port[edge]))
        prefix = prefix * int(stages.planes[stage]) + c % int(stages.planes[stage])
    if ports[depth:] != down[::-1]:
        raise InputError(
            f"the ports {fields[2]} do not lead from {hosts[0]} to {hosts[1]}; the last must be "
            f"{','.join(map(str, down[::-1]))}"
        )
    return _Flow(source, destination, column, -1 if fields[3] == "-" else int(fields[3]))


def _key(network: KeyNetwork, name: str, method: str, flows: list[_Flow]) -> RoutingKey:
    """Make a key of the flows that a file gives for it."""
    shape = (len(flows), len(network.stages.planes))
    column = np.full(shape, -1, dtype=np.int32)
    for at, flow in enumerate(flows):
        column[at, : len(flow.column)] = flow.column
    hosts = np.array([(f.source, f.destination) for f in flows], dtype=np.int32).reshape(-1, 2).T
    endpoints = network.fabric.host_endpoint[hosts].astype(np.int32)
    colour = np.array([flow.colour for flow in flows], dtype=np.int32)
    depth, _ = stages_used(network, endpoints)
    return RoutingKey(
        network, name, method, hosts[0].copy(), hosts[1].copy(), endpoints, depth, colour,
        column,
    )  # fmt: skip
