"""Reference implementation of max-min sharing: textbook progressive filling over dictionaries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction

#: Link to the part of a flow's rate that crosses it.
Uses = Mapping[int, Fraction]


def max_min_rates(
    capacity: Mapping[int, Fraction], flows: Mapping[Hashable, Uses]
) -> dict[Hashable, Fraction]:
    """Return the rates: all rise together, and each stops when one of the flow's links is full."""
    rates: dict[Hashable, Fraction] = {}
    while len(rates) < len(flows):
        rising = {name: uses for name, uses in flows.items() if name not in rates}
        levels = {}
        for link, total in capacity.items():
            share = sum((uses.get(link, Fraction(0)) for uses in rising.values()), Fraction(0))
            if share:
                used = sum((rates[name] * flows[name].get(link, 0) for name in rates), Fraction(0))
                levels[link] = (total - used) / share
        level = min(levels.values())
        full = {link for link, value in levels.items() if value == level}
        rates |= {name: level for name, uses in rising.items() if full & uses.keys()}
    return rates


def is_max_min_fair(
    capacity: Mapping[int, float],
    flows: Mapping[Hashable, Mapping[int, float]],
    rates: Mapping[Hashable, float],
    *,
    slack: float = 1e-9,
) -> bool:
    """Return whether no link is overloaded and each flow is the fastest on some full link."""
    load = dict.fromkeys(capacity, 0.0)
    fastest = dict.fromkeys(capacity, 0.0)
    for name, uses in flows.items():
        for link, share in uses.items():
            load[link] += float(share) * rates[name]
            fastest[link] = max(fastest[link], rates[name])
    if any(load[link] > float(capacity[link]) * (1 + slack) for link in capacity):
        return False
    return all(
        any(
            load[link] >= float(capacity[link]) * (1 - slack)
            and rates[name] >= fastest[link] * (1 - slack)
            for link in uses
        )
        for name, uses in flows.items()
    )
