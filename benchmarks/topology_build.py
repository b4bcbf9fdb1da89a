"""Build time of every topology at about 10,000 hosts, from the spec to a checked `Fabric`.

The time is the shortest of three runs; cellia has a fixed size.
"""

from __future__ import annotations

import time

from weft.fabrics.topology import build
from weft.fabrics.topology.family_registry import topology

SPECS = (
    "xgft:3;22,22,22;1,22,22",
    "kary-n-tree:k=10,n=4",
    "fat-tree:k=34",
    "leaf-spine:leaves=250,spines=40,hosts=40",
    "slimmed-fat-tree:k=10,up=5,n=4",
    "cellia:nodes=45",
    "kns:k=100,n=2",
    "kns:k=22,n=3",
    "kns:k=100,n=2,s=2,d=20",
    "kns:k=10,n=4,router=adapter",
    "bcube:n=10,k=3",
    "mesh:100x100",
    "torus:22x22x21",
    "ring:n=10000",
    "hypercube:n=13",
    "multi-ring:n=10000,ratio=10,rings=4",
    "rdt:size=96,n=2,R=3,m=1",
    "hyperx:S=10x10x10,K=1,T=10",
    "flattened-butterfly:k=10,n=4",
    "dragonfly:p=7,a=14,h=7",
    "megafly:p=7,leaves=14,spines=14,h=7",
    "slim-fly:q=19",
    "jellyfish:switches=1000,degree=22,hosts=10",
)
RUNS = 3


def main() -> None:
    missing = set(topology.names()) - {spec.partition(":")[0] for spec in SPECS}
    assert not missing, f"no spec for {', '.join(sorted(missing))}"
    print(f"{'spec':44s} {'hosts':>7s} {'switches':>9s} {'cables':>8s} {'build ms':>9s}")
    for spec in SPECS:
        took = []
        for _ in range(RUNS):
            start = time.perf_counter()
            fabric = build(spec)
            took.append(time.perf_counter() - start)
        print(
            f"{spec:44s} {fabric.num_hosts:7,d} {fabric.num_switches:9,d} "
            f"{fabric.num_cables:8,d} {1e3 * min(took):9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
