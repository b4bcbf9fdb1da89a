"""Every application skeleton on CELLIA's KNS and on its slimmed fat tree, at the flow level.

The machine is that of the KNS paper (section 3.4 and 4): 36 hosts on a 6-ary 2-direct 1-indirect
KNS or on a slimmed tree, with 4xQDR cables; engines updn, lash and dfsssp on both, hdor on the KNS
and ftree on the tree; linear placement, and a random one that is the same for all.
"""

from __future__ import annotations

import weft
from weft.core.errors import NotApplicable
from weft.workload import load_workload
from weft.workload.apps import application

FABRICS = {
    "KNS": ("kns:k=6,n=2,rate=4xQDR", ("updn:roots=center", "lash", "dfsssp", "hdor")),
    "tree": ("cellia:nodes=36,rate=4xQDR", ("updn", "lash", "dfsssp", "ftree")),
}
PLACEMENTS = ("linear", "random:seed=1")
RANKS = 36
#: Options of some skeletons, with sizes for this comparison; other skeletons have defaults.
OPTIONS = {
    "graph500": "scale=20",
    "open-loop": "load=0.5,rate_gbps=32,duration=200us",
    "pattern": "pattern=random-permutation,size=1MiB",
}


def main() -> None:
    """Print the table of completion times in milliseconds."""
    heads = [f"{name} {engine}" for name, (_, engines) in FABRICS.items() for engine in engines]
    print(f"| application | placement | {' | '.join(heads)} |")
    print(f"|---|---|{'---|' * len(heads)}")
    routed = {}
    for name, (spec, engines) in FABRICS.items():
        fabric = weft.fabric(spec)
        routed[name] = [(fabric, weft.route(fabric, engine)) for engine in engines]
    for entry in application:
        spec = ":".join(filter(None, (entry.name, OPTIONS.get(entry.name))))
        try:
            work = load_workload(spec, RANKS)
        except NotApplicable as reason:
            print(f"| {entry.name} | {reason} |")
            continue
        for placement in PLACEMENTS:
            ends = [
                weft.simulate(fabric, routes, work, placement).makespan_ns / 1e6
                for pairs in routed.values()
                for fabric, routes in pairs
            ]
            cells = " | ".join(f"{end:.4g}" for end in ends)
            print(f"| {spec} | {placement.partition(':')[0]} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
