"""Groups of ports of switches that route adaptively, within the limits of their tables."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from weft.fabrics import Fabric
from weft.routing.engine_registry import path_sets, row_adapters
from weft.routing.routes import CandidateRoutes, TableRoutes

#: A switch reports its number of groups in 12 bits (``group_cap`` of AR_INFO), and the ports of a
#: group are the bits of a mask over all ports that InfiniBand allows.
MOST_GROUPS = 4095
MOST_PORTS = 254
MaxGroups = Annotated[int, Field(ge=0, le=MOST_GROUPS)]
MaxPorts = Annotated[int, Field(ge=1, le=MOST_PORTS)]

_Choice = tuple[int, ...]


def adaptive_routes(
    fabric: Fabric,
    fallback: TableRoutes,
    edge_up: NDArray[np.uint8],
    engine: str,
    max_groups: int,
    max_ports: int,
) -> CandidateRoutes:
    """Return all minimal up*/down* paths as candidates, within the limits of a switch.

    `fallback`: tables whose paths are up*/down* paths by the same order of the switches. `edge_up`:
    as for `fill_balanced`.
    """
    number, offset, member = path_sets(fabric, edge_up)
    number, offset, member, notes = _limited(fabric, number, offset, member, max_groups, max_ports)
    return CandidateRoutes(
        engine, fabric.digest, set_id=number, set_offset=offset, set_edge=member,
        fallback=fallback, notes=(*fallback.notes, *notes),
    )  # fmt: skip


def _limited(
    fabric: Fabric,
    number: NDArray[np.int32],
    offset: NDArray[np.int32],
    member: NDArray[np.int32],
    max_groups: int,
    max_ports: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], tuple[str, ...]]:
    """Return sets with at most `max_ports` edges, at most `max_groups` of several for each row.

    Each set belongs to one row, since its edges leave this row.
    """
    size = np.diff(offset)
    owner = fabric.graph.edge_tail[member[offset[:-1]]]
    several = np.bincount(owner[size > 1], minlength=1)
    if size.max(initial=0) <= max_ports and several.max() <= max_groups:
        return number, offset, member, ()
    adapters = row_adapters(fabric)
    kept: dict[_Choice, int] = {}
    result = np.full_like(number, -1)
    full, without = 0, 0
    for row in range(fabric.graph.num_rows):
        choices: dict[_Choice, list[int]] = {}
        for each in np.unique(number[:, row]):
            if each < 0:
                continue
            edges = member[offset[each] : offset[each + 1]]
            for target in np.flatnonzero(number[:, row] == each).tolist():
                choices.setdefault(_some_of(edges, target, max_ports), []).append(target)
        served = Counter({c: int(adapters[t].sum()) for c, t in choices.items() if len(c) > 1})
        # Of equally useful groups, that of the lowest ports comes first.
        groups = sorted(served, key=lambda choice: (-served[choice], choice))
        have, lack = groups[:max_groups], groups[max_groups:]
        full += bool(lack)
        turn = 0
        for choice, targets in sorted(choices.items()):
            inside = [g for g in have if set(g) <= set(choice)] if choice in lack else [choice]
            for target in targets:
                taken = max(inside, key=len, default=(choice[turn % len(choice)],))
                turn += not inside
                result[target, row] = kept.setdefault(taken, len(kept))
            without += len(targets) if choice in lack else 0
    ends = np.cumsum([0, *map(len, kept)], dtype=np.int32)
    edges = np.array([edge for choice in kept for edge in choice], dtype=np.int32)
    notes = [f"a group has at most {max_ports} ports"] if size.max(initial=0) > max_ports else []
    if full:
        notes.append(
            f"{max_groups:,} groups are too few at {full:,} of {len(result):,} switches: "
            f"{without:,} pairs of a switch and a destination switch have a smaller group or a "
            "single port"
        )
    return result, ends, edges, tuple(notes)


def _some_of(edges: NDArray[Any], target: int, most: int) -> _Choice:
    """Return at most so many edges, from others on for each target, so that all are used."""
    if len(edges) <= most:
        return tuple(edges.tolist())
    return tuple(sorted(np.roll(edges, -target * most)[:most].tolist()))
