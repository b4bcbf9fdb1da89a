"""Random runs of large messages for tests of fast-forward: fabric, routes, workload, hardware."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import weft
from weft import Hardware
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.workload import Workload, WorkloadBuilder

FABRICS = (
    "xgft:2;8,4;1,8,rate=100", "xgft:2;8,4;1,2,rate=200", "xgft:2;4,4;1,3,rate=56",
    "xgft:1;16;1,rate=400", "torus:4,4,rate=100",
)  # fmt: skip
KINDS = ("collective", "permutation", "incast", "pairs", "jobs")


class SettlingRun(NamedTuple):
    """A run, and the kind of its workload."""

    kind: str
    fabric: Fabric
    routes: Routes
    workload: Workload
    hardware: Hardware


def settling_run(seed: int, largest_bytes: int) -> SettlingRun:
    """Return the random run of a seed with messages of 64 KiB to `largest_bytes`."""
    random = np.random.default_rng(seed)
    spec = str(random.choice(FABRICS))
    fabric = weft.fabric(spec)
    engines = ["dfsssp"] if spec.startswith("torus") else ["dmodk", "smodk", "minhop", "ecmp"]
    hosts, kind = fabric.num_hosts, KINDS[seed % len(KINDS)]
    builder = WorkloadBuilder(hosts, name=f"{kind} {seed}")

    def size() -> int:
        return int(2 ** random.uniform(16, np.log2(largest_bytes)))

    def put(source: int, target: int) -> None:
        if source != target:
            builder.put(source, target, same if is_same else size())

    is_same, same, order = random.random() < 0.5, size(), random.permutation(hosts).tolist()
    if kind == "permutation":
        for source, target in enumerate(order):
            put(source, target)
    elif kind == "incast":
        for source in order[: random.integers(2, hosts)]:
            put(source, order[-1])
    elif kind == "pairs":
        for _ in range(random.integers(2, 2 * hosts)):
            put(*random.choice(hosts, 2, replace=False).tolist())
    elif kind == "jobs":
        _ring(builder, order[: hosts // 2], same)
        for source, target in zip(order[hosts // 2 :], order[: hosts // 2], strict=False):
            builder.calc(source, float(random.uniform(0, 50_000)))
            put(source, target)
    work = builder.build()
    if kind == "collective":
        name, blocks = (
            ("allreduce:algorithm=ring", hosts), ("allreduce:algorithm=rabenseifner", 2),
            ("alltoall:algorithm=linear", 1),
        )[random.integers(3)]  # fmt: skip
        work = weft.load_workload(f"{name},size={same * min(blocks, 4)}", hosts)
    hardware = Hardware(
        queues="voq" if random.random() < 0.3 else "input",
        speedup=int(random.integers(1, 3)),
        mtu_bytes=int(random.choice([2048, 4096])),
        buffer_bytes=int(random.choice([16384, 65536])),
        adapter_gbps=50.0 if random.random() < 0.2 else None,
        adapter_latency_ns=float(random.choice([0, 600])),
        queue_pairs="host" if random.random() < 0.2 else "pair",
    )
    return SettlingRun(
        kind, fabric, weft.route(fabric, str(random.choice(engines))), work, hardware
    )


def _ring(builder: WorkloadBuilder, ranks: list[int], size: int, steps: int = 6) -> None:
    """Send a block around a ring; each rank sends on what it has received."""
    members, after = np.array(ranks), np.roll(ranks, -1)
    for _ in range(steps):
        builder.sendrecv(members, after, size, np.roll(members, 1), size)
