"""Effective bisection bandwidth with 1,000 random matchings on 1,728 hosts, on one core."""

from __future__ import annotations

import os

import weft
from benchmarks.link_loads import SPEC, best_of


def main() -> None:
    os.sched_setaffinity(0, {0})
    fabric = weft.fabric(SPEC)
    for engine in ("dmodk", "minhop", "ecmp"):
        routes = weft.route(fabric, engine)
        result = weft.bisection(fabric, routes, 1000, 0)
        took = best_of(3, lambda routes=routes: weft.bisection(fabric, routes, 1000, 0))
        low, high = result.interval
        print(f"{engine:7s} {took:6.3f} s   {result.mean:.4f} ({low:.4f} to {high:.4f})")


if __name__ == "__main__":
    main()
