"""Virtual lanes, load and routing time of sssp, dfsssp and lash, in weft and in the real OpenSM.

If opensm and ibsim are installed, OpenSM's engines route the same fabrics, timed by
`benchmarks._opensm`. weft's number of lanes is given for paths between hosts, then (mgmt) including
paths from and to switches, as in OpenSM's lash.
"""

from __future__ import annotations

import weft
from benchmarks._opensm import missing_tools, opensm_run
from benchmarks.link_loads import best_of
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads

SPECS = [
    "kns:k=6,n=2",
    "kns:k=4,n=3",
    "torus:4x4x4",
    "torus:5x5x5",
    "xgft:3;6,6,6;1,6,6",
    "xgft:3;12,12,12;1,12,12",
]
ENGINES = ["sssp", "dfsssp", "lash"]

#: Measured with weft only: OpenSM's lash takes half a minute already for 1,728 hosts.
ALONE = ["xgft:3;18,18,18;1,18,18"]


def figures(fabric: Fabric, routes: TableRoutes) -> str:
    """Return the largest and smallest load between switches, and the mean number of hops."""
    loads = all_to_all_loads(fabric, routes).per_link[fabric.link_kind == 0]
    return f"{loads.max():6d} {loads.min():6d} {validate(fabric, routes).mean_hops:6.3f}"


def ours(fabric: Fabric, engine: str, judge: bool) -> str:
    """Return weft's number of lanes without and with management, seconds, and loads."""
    routes = weft.route(fabric, engine)
    took = best_of(3, lambda: weft.route(fabric, engine))
    lanes = "-"
    if engine != "sssp":
        try:
            lanes = str(weft.route(fabric, engine, management=True).num_vls)
        except NotApplicable:
            lanes = ">8"
    loads = figures(fabric, routes) if judge else ""
    return f"{routes.num_vls:3d} {lanes:>4s} {took:9.4f} s {loads}"


def theirs(fabric: Fabric, engine: str) -> str:
    """Return OpenSM's number of lanes, seconds, and loads."""
    try:
        run = opensm_run(fabric, engine)
    except NotApplicable as reason:
        return f"refuses: {reason}"
    return f"{run.lanes:3d}      {run.routing_s:9.4f} s {figures(fabric, run.routes)}"


def main() -> None:
    missing = missing_tools()
    if missing:
        print(f"not installed: {missing}; weft only")
    print(f"{'':36s}lanes mgmt   routing     max    min   hops")
    for spec in SPECS + ALONE:
        fabric = weft.fabric(spec)
        for engine in ENGINES:
            small = spec not in ALONE
            print(f"{spec:24s} {engine:6s} weft {ours(fabric, engine, small)}", flush=True)
            if small and not missing:
                print(f"{'':31s} OSM  {theirs(fabric, engine)}", flush=True)


if __name__ == "__main__":
    main()
