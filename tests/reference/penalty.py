"""The contention-graph model over links, from its definition, for all flows of an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.reference import contention
from weft.sim.flow.contention import INFINIBAND, PenaltyModel


@dataclass(frozen=True)
class Flow:
    source: int
    destination: int
    #: Link to the part of the flow that crosses it, in order.
    links: Mapping[int, float]


def rates(
    flows: Sequence[Flow],
    capacity: Sequence[float],
    inner: Sequence[bool],
    model: PenaltyModel = INFINIBAND,
) -> list[float]:
    """Return the rate of each flow, bytes/ns."""
    edges = [(flow.source, ("to", flow.destination)) for flow in flows]
    own, sender = [], []
    for flow, (share, k) in zip(flows, contention.shares_and_k(edges, model), strict=True):
        first, *_, last = flow.links
        into = Fraction(capacity[last]) / Fraction(flow.links[last])
        sender.append(Fraction(capacity[first]) / Fraction(flow.links[first]))
        rate = min(sender[-1], into)
        # Share of each adapter that the flow could use alone.
        of_sender, of_receiver = rate / sender[-1], rate / into
        part = share if of_sender == 1 else max(share * of_sender, min(share, Fraction(1)))
        own.append(max(Fraction(1), part, (part + k) * of_receiver) / of_sender)
    delayed = contention.back_pressure(edges, own, model)
    levels = {}
    for link in {link for flow in flows for link in flow.links if inner[link]}:
        demands = [
            (sender[i] / delayed[i], Fraction(flow.links[link]))
            for i, flow in enumerate(flows)
            if link in flow.links
        ]
        levels[link] = fair_level(demands, Fraction(capacity[link]))
    cut = [
        max([own[i]] + [sender[i] / levels[k] for k in flow.links if levels.get(k) is not None])
        for i, flow in enumerate(flows)
    ]
    penalties = contention.back_pressure(edges, cut, model)
    return [float(sender[i] / penalty) for i, penalty in enumerate(penalties)]


def fair_level(demands: Sequence[tuple[Fraction, Fraction]], capacity: Fraction) -> Fraction | None:
    """Return the rate to which flows (demand, part) are cut to fill a link; None if they fit."""
    if sum(demand * part for demand, part in demands) <= capacity:
        return None
    left, weight = capacity, sum(part for _, part in demands)
    for demand, part in sorted(demands):
        if demand * weight > left:
            break
        left -= demand * part
        weight -= part
    return left / weight
