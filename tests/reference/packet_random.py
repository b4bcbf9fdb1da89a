"""Random cases of the packet level, from a seed: fabric, routes, hardware, workload and options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft
from tests.random_workloads import random_workload
from tests.reference.packet_cases import fabric_of
from weft.fabrics import Fabric, FabricBuilder
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes, VirtualLanes
from weft.sim.common.host_parameters import HostParameters, Overhead
from weft.sim.packet.hardware import Hardware, VlArbitration
from weft.workload import Workload, WorkloadBuilder

#: Trees, in which no assignment of lanes can cause a credit loop.
TREES = ("xgft:2;3,3;1,2", "xgft:3;2,2,2;1,2,2", "one switch", "parallel cables", "two ports")
#: Fabrics, each with engines whose routes cannot deadlock there.
FABRICS: dict[str, tuple[str, ...]] = {
    "xgft:2;3,3;1,2": ("minhop", "updn:lmc=1", "ftree", "smodk", "ecmp", "ecmp"),
    "xgft:3;2,2,2;1,2,2": ("dmodk", "smodk", "nue", "ecmp", "ecmp", "ecmp"),
    "kns:k=3,n=2": ("hdor", "dfsssp", "lash", "nue"),
    "torus:3x3": ("dfsssp", "lash"),
    "torus:5x2": ("dfsssp", "torus-2QoS", "torus-2QoS"),
    "dragonfly:p=2,a=2,h=1": ("dfsssp", "lash"),
    "bcube:3,k=1": ("dfsssp", "lash"),
    "one switch": ("minhop", "ecmp"),
    "parallel cables": ("minhop", "dfsssp:lmc=2", "ecmp"),
    "two ports": ("minhop", "dfsssp:lmc=1", "ecmp"),
}
RANKS = 7


@dataclass
class RandomCase:
    """A random run: fabric, routes, workload, hardware and options."""

    fabric: Fabric
    routes: Routes
    workload: Workload
    hosts: list[int]
    hardware: Hardware
    policy: str
    options: dict[str, Any]
    lids: NDArray[np.int64]
    #: The policy as arguments of the reference implementation.
    plain: dict[str, Any]


def _two_ports() -> Fabric:
    """Build three switches in a line; all hosts but the last have cables to two of them."""
    builder = FabricBuilder("two ports", rate=80.0)
    switches, hosts = builder.switches(["s0", "s1", "s2"]), builder.hosts([*"abcde"])
    builder.connect(switches[[0, 1]], switches[[1, 2]])
    builder.connect(switches[[0, 1, 2, 0, 2]], hosts)
    builder.connect(switches[[1, 2, 0, 0]], hosts[:4])
    return builder.fabric()


@cache
def _fabric(name: str, rates: int, flat: bool) -> Fabric:
    """Build a fabric with cables of one to three rates, and without latencies if `flat`."""
    if name == "one switch":
        fabric = fabric_of([0] * 5, [])
    elif name == "parallel cables":
        fabric = fabric_of([0, 0, 0, 1, 1, 1], [(0, 1)] * 3, faster=40.0)
    elif name == "two ports":
        fabric = _two_ports()
    else:
        fabric = weft.fabric(name)
    random = np.random.default_rng(rates)
    for rate in (32.0, 97.3)[:rates]:
        subset = random.permutation(fabric.num_cables)[: fabric.num_cables // 3]
        fabric = fabric.degraded(subset.tolist(), rate)
    if flat:
        fabric = fabric.with_lengths(np.zeros(fabric.num_cables))
    return fabric


@cache
def _routes(name: str, rates: int, flat: bool, engine: str) -> Routes:
    return weft.route(_fabric(name, rates, flat), engine)


def _on_lanes(random: np.random.Generator, fabric: Fabric, routes: Routes) -> Routes:
    """Return the routes with service levels and lanes drawn at random."""
    if isinstance(routes, CandidateRoutes) and random.random() < 0.5:
        lanes = random.integers(3, size=len(routes.set_edge)).astype(np.uint8)
        return replace(routes, set_lane=lanes)
    tables = random.integers(3, size=(4, 16)).astype(np.uint8)
    lanes = VirtualLanes(tables[:1])
    if random.random() < 0.5:
        ports = np.diff(fabric.graph.row_base)
        base = np.cumsum(ports**2) - ports**2
        index = random.integers(4, size=int(np.sum(ports**2))).astype(np.int32)
        lanes = VirtualLanes(tables, index, base.astype(np.int64), ports)
    shape: list[tuple[int, ...]] = [()]
    if isinstance(routes, PathRoutes):
        shape.append((len(routes.pair),))
    if isinstance(routes, TableRoutes):
        shape += [routes.table.shape[:1], routes.table.shape[::-1]]
    levels = random.integers(16, size=shape[int(random.integers(len(shape)))]).astype(np.uint8)
    return replace(routes, sl=np.asarray(levels, dtype=np.uint8), lanes=lanes)


def _arbitration(random: np.random.Generator, lanes: int) -> VlArbitration | None:
    """Return tables in which each lane has an entry with weight, or None."""
    if random.random() < 0.5:
        return None
    high, low = [], []
    for lane in random.permutation(lanes).tolist():
        entry = (lane, int(random.integers(1, 40)))
        (high if random.random() < 0.4 else low).append(entry)
        if random.random() < 0.3:
            low.append((lane, int(random.integers(0, 9))))
    limit = int(random.choice([0, 0, 1, 2, 255]))
    return VlArbitration(tuple(high), tuple(low), limit)


def _hardware(random: np.random.Generator, lanes: int) -> Hardware:
    def one(*choices: Any) -> Any:
        return choices[int(random.integers(len(choices)))]

    mtu, header, credit = one(256, 500, 1000), one(26, 26, 1), one(64, 64, 16, 100)
    least = -(-(mtu + header) // credit) * credit
    return Hardware(
        mtu_bytes=mtu,
        header_bytes=header,
        credit_bytes=credit,
        buffer_bytes=one(least, least, 2 * least, 2 * least + 150, 8192),
        credit_latency_ns=one(0.0, 0.0, 17.3),
        switch_latency_ns=one(0.0, 100.0, 33.333),
        forward_latency_ns=one(None, 0.0, 210.0),
        queues=one("input", "voq"),
        speedup=one(1, 1, 2, 3),
        vl_arbitration=_arbitration(random, lanes),
        queue_pairs=one("pair", "pair", "host"),
        quantum_bytes=one(0, 0, 2500, 100_000),
        adapter_gbps=one(None, None, 25.0, 60.0, 150.0),
        adapter_latency_ns=one(0.0, 0.0, 40.0),
        control_bytes=one(64, 0, 700),
    )


def _open_loop(random: np.random.Generator) -> Workload:
    """Return puts at random times, several of them simultaneous."""
    builder = WorkloadBuilder(RANKS)
    for _ in range(25):
        source, target = (int(end) for end in random.integers(RANKS, size=2))
        size = int(random.choice([0, 1, 256, 500, 1000, random.integers(2500)]))
        builder.put(source, target, size, release_ns=float(random.choice([0, 0, 20, 100, 333.3])))
    return builder.build()


def _policy(random: np.random.Generator, pairs: bool) -> tuple[str, dict[str, Any]]:
    """Return a policy's specification, and its arguments for the reference implementation."""
    entries, gap = int(random.choice([1, 4, 64])), int(random.choice([0, 50, 300]))
    policies = {
        f"flowlet:gap={gap}ns,entries={entries}": {
            "policy": "flowlet",
            "gap_ps": 1000 * gap,
            "entries": entries,
        },
        "e-ecmp:qps=3" if pairs else "ecmp": {"policy": "ecmp", "qps": 3 if pairs else 1},
        **{name: {"policy": name} for name in ("ecmp", "spray", "adaptive")},
    }
    name = str(random.choice(list(policies)))
    return name, policies[name]


def random_case(seed: int) -> RandomCase:
    """Return the case of a seed."""
    random = np.random.default_rng(seed)
    name = list(FABRICS)[seed % len(FABRICS)]
    key = name, int(random.choice([0, 0, 1, 2])), bool(random.random() < 0.2)
    fabric, routes = _fabric(*key), _routes(*key, str(random.choice(FABRICS[name])))
    if name in TREES and random.random() < 0.5:
        routes = _on_lanes(random, fabric, routes)
    if random.random() < 0.4:
        work = _open_loop(random)
    else:
        steps = int(random.integers(8, 24))
        work = random_workload(seed, ranks=RANKS, steps=steps, largest_bytes=1800)
    options = {
        "eager_bytes": int(random.choice([0, 700, 10**6])),
        "handshake": bool(random.random() < 0.7),
        "rendezvous": ("get", "put", "put-shared")[seed // len(FABRICS) % 3],
        "overhead_ns": float(random.choice([0.0, 0.0, 31.7, 250.0])),
        "local_gbps": 80.0,
        "local_latency_ns": float(random.choice([0.0, 55.5])),
        "seed": int(random.integers(100)),
    }
    if options["overhead_ns"] == 31.7:
        parts = (
            Overhead(from_bytes=0, ns=31.7),
            Overhead(from_bytes=600, ns=5, ns_per_byte=0.21, latency_ns=91),
        )
        options["host_parameters"] = HostParameters(overhead=parts)
        del options["overhead_ns"]
    lids = np.zeros(work.num_ops, dtype=np.int64)
    if isinstance(routes, TableRoutes) and routes.lmc:
        lids[work.messages] = random.integers(1 << routes.lmc, size=len(work.messages))
    hardware = _hardware(random, routes.num_vls)
    policy, plain = "deterministic", {}
    if isinstance(routes, CandidateRoutes):
        policy, plain = _policy(random, hardware.queue_pairs == "pair")
    if name == "two ports":
        options["ports"] = str(random.choice(["first", "spread", "spread", "spread"]))
    return RandomCase(
        fabric=fabric,
        routes=routes,
        workload=work,
        hosts=random.integers(fabric.num_hosts, size=RANKS).tolist(),
        hardware=hardware,
        policy=policy,
        options=options,
        lids=lids,
        plain=plain,
    )
