"""Writer of Graphviz DOT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric, LinkKind, NodeKind, rate_text
from weft.fabrics.formats.format_registry import printable, writer
from weft.fabrics.formats.tiers import tiers

_SHAPES = {
    NodeKind.SWITCH: 'shape=box, style=filled, fillcolor="#dbe9f6"',
    NodeKind.HOST: "shape=ellipse",
    NodeKind.AUXILIARY: "shape=diamond",
}


@writer("dot", aliases=("graphviz",), suffixes=(".dot", ".gv"))
def write(fabric: Fabric, *, hosts: bool = True) -> str:
    """Graphviz DOT for ``dot -Tsvg``: hosts at the bottom, switches above in order of tree level.

    If the fabric has no tree levels, switches are ordered by distance from the nearest host.
    Parallel cables of one rate are drawn as one line, labelled with their number, and with their
    rate if the fabric has several rates. Ports are left out.

    Parameters
    ----------
    hosts
        Draw every host; otherwise label each switch with its number of hosts.
    """
    drawn = np.ones(fabric.num_nodes, dtype=bool)
    if not hosts:
        drawn[fabric.node_kind == NodeKind.HOST] = False
    lines = [
        f"graph {_quoted(fabric.name)} {{",
        "  rankdir=BT;",
        "  ranksep=1.5;",
        "  node [fontname=Helvetica, fontsize=10];",
        "  edge [fontname=Helvetica, fontsize=8];",
    ]
    switches = slice(0, fabric.num_switches)
    labelled = bool((fabric.level[switches] >= 0).all())
    row = fabric.level.astype(np.int32) if labelled else tiers(fabric)
    row[fabric.node_kind != NodeKind.SWITCH] = 0
    lines += _rows(fabric, drawn, row)
    lines += _cables(fabric, drawn, row)
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """Return a quoted DOT string with backslashes escaped."""
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _rows(fabric: Fabric, drawn: NDArray[np.bool_], row: NDArray[np.int32]) -> Iterator[str]:
    to_hosts = fabric.link_to[fabric.link_kind == LinkKind.HOST_SWITCH]
    own_hosts = fabric.link_from[fabric.link_kind == LinkKind.HOST_SWITCH]
    pairs = {(s, h) for s, h in zip(to_hosts.tolist(), own_hosts.tolist(), strict=True)}
    hidden = Counter(switch for switch, host in pairs if not drawn[host])
    for level in np.unique(row[drawn]).tolist():
        yield f"  subgraph {_quoted(f'level {level}' if level >= 0 else 'no level')} {{"
        yield "    rank=same;"
        for node in np.flatnonzero(drawn & (row == level)).tolist():
            label = fabric.node_names[node]
            text = _quoted(label)
            if hidden[node]:
                text = text[:-1] + f'\\n{hidden[node]} hosts"'
            yield f"    n{node} [label={text}, {_SHAPES[NodeKind(fabric.node_kind[node])]}];"
        yield "  }"


def _cables(fabric: Fabric, drawn: NDArray[np.bool_], row: NDArray[np.int32]) -> Iterator[str]:
    rates = [
        rate_text(gbps, code)
        for gbps, code in zip(
            fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True
        )
    ]
    mixed = len(set(rates)) > 1
    ends = zip(fabric.link_from[0::2].tolist(), fabric.link_to[0::2].tolist(), rates, strict=True)
    # With rankdir=BT the first end of a line is drawn below the second.
    for (tail, head, rate), count in Counter(ends).items():
        if not (drawn[tail] and drawn[head]):
            continue
        low, high = (head, tail) if row[head] < row[tail] else (tail, head)
        label = " × ".join([str(count)] * (count > 1) + [rate] * mixed)
        style = [f"label={_quoted(label)}"] if label else []
        style += [f"penwidth={1 + min(count, 16) / 2:g}"] if count > 1 else []
        yield f"  n{low} -- n{high}" + (f" [{', '.join(style)}]" if style else "") + ";"
