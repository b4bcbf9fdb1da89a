"""The contention-graph model over links, from its definition, for a set of flows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.reference import contention
from weft.contention import INFINIBAND, PenaltyModel


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
    own, sender = [], []
    for flow, (share, k) in zip(flows, contention.shares_and_k(edges, model), strict=True):
        first, *_, last = flow.links
        into = Fraction(capacity[last]) / Fraction(flow.links[last])
        sender.append(Fraction(capacity[first]) / Fraction(flow.links[first]))
        rate = min(sender[-1], into)
        # How much of either adapter the flow could use by itself.
        of_sender, of_receiver = rate / sender[-1], rate / into
        part = share if of_sender == 1 else max(share * of_sender, min(share, Fraction(1)))
        own.append(max(Fraction(1), part, (part + k) * of_receiver) / of_sender)
    whole = contention.back_pressure(edges, own, model)
    levels = {}
    for link in {link for flow in flows for link in flow.links if inner[link]}:
        asked = [
            (sender[i] / whole[i], Fraction(flow.links[link]))
            for i, flow in enumerate(flows)
            if link in flow.links
        ]
        levels[link] = fair_level(asked, Fraction(capacity[link]))
    cut = [
        max([own[i]] + [sender[i] / levels[k] for k in flow.links if levels.get(k) is not None])
        for i, flow in enumerate(flows)
    ]
    found = contention.back_pressure(edges, cut, model)
    return [float(sender[i] / penalty) for i, penalty in enumerate(found)]


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
