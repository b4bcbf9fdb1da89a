"""Reference implementation of the contention-graph model: edge by edge, in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import networkx as nx

from weft.sim.flow.contention import INFINIBAND, PenaltyModel

Edge = tuple[int, int]


def penalties(edges: Sequence[Edge], model: PenaltyModel = INFINIBAND) -> list[Fraction]:
    own = [max(Fraction(1), share + k) for share, k in shares_and_k(edges, model)]
    return back_pressure(edges, own, model)


def back_pressure(
    edges: Sequence[Edge], own: Sequence[Fraction], model: PenaltyModel
) -> list[Fraction]:
    """Return the penalties after the slowest edge of each source has delayed the others."""
    result = []
    for number, edge in enumerate(edges):
        most = max(own[other] for other, ends in enumerate(edges) if ends[0] == edge[0])
        result.append(own[number] + Fraction(model.back_pressure) * (most - own[number]))
    return result


def shares_and_k(
    edges: Sequence[Edge], model: PenaltyModel = INFINIBAND
) -> list[tuple[Fraction, Fraction]]:
    """Return each edge's share of the sending adapter and what conflicts add to it."""
    graph = nx.MultiDiGraph()
    for number, (source, destination) in enumerate(edges):
        graph.add_edge(source, destination, key=number)
    result = {edge[2]: (_share(graph, edge, model), _k(graph, edge, model))
             for edge in graph.edges(keys=True)}  # fmt: skip
    return [result[number] for number in range(len(edges))]


def _share(graph, edge, model):
    return Fraction(model.out_offset) + Fraction(model.out_weight) * graph.out_degree(edge[0])


def _others(graph, edge):
    """Return the edges of other sources into the edge's destination."""
    return [e for e in graph.in_edges(edge[1], keys=True) if e[0] != edge[0]]


def _demand(graph, edge, model):
    out = graph.out_degree(edge[0])
    if float(model.in_exponent).is_integer():
        return Fraction(1, out ** int(model.in_exponent))
    return Fraction(out**-model.in_exponent)


def _sum_c(graph, edge, model, counted):
    """Return C(e): demand of the counted conflicts at the destinations of e and of its siblings.

    The part of the siblings is multiplied by the model's back-pressure.
    """

    def at(e):
        return sum((_demand(graph, o, model) for o in _others(graph, e) if counted(o)), Fraction(0))

    siblings = [e for e in graph.out_edges(edge[0], keys=True) if e != edge]
    return at(edge) + Fraction(model.back_pressure) * sum((at(e) for e in siblings), Fraction(0))


def _k(graph, edge, model):
    source, destination, _ = edge
    others = _others(graph, edge)
    if not others:
        return Fraction(0)
    out = graph.out_degree(source)
    weighted = Fraction(model.in_weight) * _sum_c(graph, edge, model, lambda _: True)
    alike = all(graph.out_degree(o[0]) == out for o in others)
    if graph.in_degree(destination) <= out and alike:
        return Fraction(model.balanced_weight) * weighted
    if out == 1 and all(graph.out_degree(o[0]) > 1 for o in others):
        gap = max(_among_full_rate(graph, o, model) for o in others) - 1
        if gap > 0:
            return min(weighted, Fraction(model.full_rate_weight) / gap)
    return weighted


def _among_full_rate(graph, edge, model):
    """Return the penalty that an edge has if only sources of out-degree 1 conflict with it."""

    def full_rate(other):
        return graph.out_degree(other[0]) == 1

    def own(e):
        added = Fraction(0)
        if any(full_rate(o) for o in _others(graph, e)):
            added = Fraction(model.in_weight) * _sum_c(graph, e, model, full_rate)
        return max(Fraction(1), _share(graph, e, model) + added)

    most = max(own(e) for e in graph.out_edges(edge[0], keys=True))
    return own(edge) + Fraction(model.back_pressure) * (most - own(edge))


def predict(
    edges: Sequence[Edge],
    sizes: Sequence[Fraction],
    starts: Sequence[Fraction],
    inverse_bandwidth: Fraction,
    model: PenaltyModel = INFINIBAND,
) -> list[Fraction]:
    """Return the completion time of each edge, an exact fraction."""
    left = {e: Fraction(size) for e, size in enumerate(sizes)}
    done = {e: Fraction(starts[e]) for e in left if not left[e]}
    now = min(map(Fraction, starts), default=Fraction(0))
    while len(done) < len(edges):
        active = [e for e in left if e not in done and starts[e] <= now]
        later = [Fraction(starts[e]) for e in left if starts[e] > now]
        if not active:
            now = min(later)
            continue
        rho = dict(zip(active, penalties([edges[e] for e in active], model), strict=True))
        step = min(left[e] * rho[e] * inverse_bandwidth for e in active)
        if later:
            step = min(step, min(later) - now)
        now += step
        for e in active:
            left[e] -= step / (rho[e] * inverse_bandwidth)
            if not left[e]:
                done[e] = now
    return [done[e] for e in range(len(edges))]
