"""The contention-graph model over links, from its definition, for a set of flows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.reference import contention
from weft.sim.contention import INFINIBAND, PenaltyModel


@dataclass(frozen=True)
class Flow:
    source: int
    destination: int
    #: Directed links in order, each with the part of the flow that crosses it.
    links: Mapping[int, float]


def rates(
    flows: Sequence[Flow],
    capacity: Sequence[float],
    inner: Sequence[bool],
    model: PenaltyModel = INFINIBAND,
) -> list[float]:
    """Rate of each flow, bytes/ns."""
    edges = [(flow.source, ("to", flow.destination)) for flow in flows]
    own, whole = contention.penalties_before_and_after(edges, model)
    alone = [
        min(Fraction(capacity[link]) / Fraction(part) for link, part in flow.links.items())
        for flow in flows
    ]
    levels = {}
    for link in {link for flow in flows for link in flow.links if inner[link]}:
        asked = [
            (alone[i] / whole[i], Fraction(flow.links[link]))
            for i, flow in enumerate(flows)
            if link in flow.links
        ]
        levels[link] = fair_level(asked, Fraction(capacity[link]))
    cut = [
        max([own[i]] + [alone[i] / levels[k] for k in flow.links if levels.get(k) is not None])
        for i, flow in enumerate(flows)
    ]
    found = []
    for i, flow in enumerate(flows):
        most = max(cut[j] for j, other in enumerate(flows) if other.source == flow.source)
        found.append(float(alone[i] / (cut[i] + Fraction(model.back_pressure) * (most - cut[i]))))
    return found


def fair_level(asked: Sequence[tuple[Fraction, Fraction]], capacity: Fraction) -> Fraction | None:
    """Where flows of (wanted rate, part) are cut so that they fill a link; None when they fit."""
    if sum(wanted * part for wanted, part in asked) <= capacity:
        return None
    left, weight = capacity, sum(part for _, part in asked)
    for wanted, part in sorted(asked):
        if wanted * weight > left:
            break
        left -= wanted * part
        weight -= part
    return left / weight
