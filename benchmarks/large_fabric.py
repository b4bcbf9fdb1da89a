"""Times and peak memory of building, routing and validating 46,656 hosts, and of their loads.

The fabric is XGFT(3;36,36,36;1,36,36) with 3,888 switches. Kernels are first compiled on a small
fabric.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import weft
from weft.sim.static.all_to_all import all_to_all_loads

SPEC = "xgft:3;36,36,36;1,36,36"


def timed(what: str, step: Callable[[], object]) -> object:
    start = time.perf_counter()
    result = step()
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what:32s} {took:7.2f} s   peak so far {peak:.2f} GB", flush=True)
    return result


def main() -> None:
    small = weft.fabric("xgft:3;3,3,3;1,3,3")
    routes = weft.route(small, "dmodk")
    weft.validate(small, routes)
    all_to_all_loads(small, routes)

    start = time.perf_counter()
    fabric = timed("build", lambda: weft.fabric(SPEC))
    routes = timed("dmodk", lambda: weft.route(fabric, "dmodk"))
    print(f"{'build and dmodk together':32s} {time.perf_counter() - start:7.2f} s")
    validation = timed("validate", lambda: weft.validate(fabric, routes))
    assert validation.ok, validation.text()
    timed("all-to-all loads, 2.2e9 flows", lambda: all_to_all_loads(fabric, routes))
    timed("bisection, 100 samples", lambda: weft.bisection(fabric, routes, 100, 0))
    timed("minhop, 3 passes", lambda: weft.route(fabric, "minhop"))


if __name__ == "__main__":
    main()
