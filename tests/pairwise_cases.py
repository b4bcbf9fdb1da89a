"""Pairwise runs of fabrics with a planted fault, measured at the flow level, with noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

import weft
from weft.fabrics.parts import Parts
from weft.workload import WorkloadBuilder

#: Spec, engine, and adapters of a machine; each adapter of a machine is at a leaf of its own.
FABRICS = (
    ("leaf-spine:leaves=4,spines=4,hosts=4", "dmodk", 1),
    ("leaf-spine:leaves=8,spines=8,hosts=8", "minhop", 1),
    ("leaf-spine:leaves=8,spines=4,hosts=8", "minhop", 1),
    ("leaf-spine:leaves=8,spines=8,hosts=8", "minhop", 2),
    ("leaf-spine:leaves=8,spines=8,hosts=8", "dmodk", 4),
    ("leaf-spine:leaves=10,spines=20,hosts=20", "dmodk", 1),
    ("fat-tree:k=4", "ftree", 1),
    ("fat-tree:k=8", "updn", 1),
    ("fat-tree:k=8", "ftree", 2),
    ("dragonfly:p=2,a=4,h=2", "minhop", 1),
)


class Case(NamedTuple):
    """Runs of a fabric, the settings that they expect, and the name of the part that is slow."""

    fabric: weft.Fabric
    routes: weft.Routes
    runs: pl.DataFrame
    options: dict[str, float]
    culprit: frozenset[str]


def with_adapters(fabric: weft.Fabric, adapters: int) -> weft.Fabric:
    """Name hosts as adapters of machines, those of a machine at consecutive leaf switches."""
    if adapters == 1:
        return fabric
    names, seen = {}, {}
    for node in fabric.host_nodes.tolist():
        link = fabric.port_link[fabric.port_offset[node]]
        leaf = int(fabric.link_to[link])
        slot = seen.setdefault(leaf, 0)
        seen[leaf] = slot + 1
        group, rail = divmod(sorted(seen).index(leaf), adapters)
        names[int(fabric.node_guid[node])] = f"m{group}-{slot} mlx5_{rail}"
    return fabric.renamed(names)


def case(number: int, *, healthy: bool = False, sigma: float = 0.02) -> Case:
    """Return case `number`: the fabric, the design, the fault and the noise follow from it."""
    random = np.random.default_rng(number)
    spec, engine, adapters = FABRICS[number % len(FABRICS)]
    fabric = with_adapters(weft.fabric(spec), adapters)
    routes = weft.route(fabric, engine)
    is_latency = bool(random.random() < 0.25)
    by_adapter = adapters > 1 and bool(random.random() < 0.7)
    machines = list(fabric.machines.items())
    rounds = _rounds(len(machines))
    if random.random() < 0.5 or len(machines) > 100:  # a few rounds instead of all pairs
        rounds = [rounds[at] for at in random.permutation(len(rounds))[: random.integers(6, 12)]]
    rows = []
    for turn, pairs in enumerate(rounds):
        for a, b in pairs:
            (name, hosts), (other, others) = machines[a], machines[b]
            flows = list(zip(hosts, others, strict=True))
            if by_adapter:
                rows += [
                    (fabric.host_names[x], fabric.host_names[y], turn, [(x, y)]) for x, y in flows
                ]
            else:
                rows.append((name, other, turn, flows[:1] if is_latency else flows))
    at_once = not is_latency and bool(random.random() < 0.4)
    slow, culprit, overhead = fabric, frozenset[str](), np.zeros(fabric.num_hosts)
    if not healthy:
        slow, culprit, overhead = _planted(fabric, routes, rows, random, is_latency)
    value = _measured(slow, routes, rows, at_once, is_latency, overhead)
    value *= np.exp(random.normal(0, sigma, len(value)))
    none = np.full(len(value), np.nan)
    runs = pl.DataFrame(
        {
            "from_machine": [row[0] for row in rows],
            "to_machine": [row[1] for row in rows],
            "operation": "latency" if is_latency else "bandwidth",
            "size_bytes": 8 if is_latency else 2**22,
            "gbps": none if is_latency else value,
            "time_ns": value if is_latency else none,
            "round": [f"round {row[2]}" if at_once else "" for row in rows],
        }
    )
    return Case(fabric, routes, runs, {"overhead_ns": 200.0 * is_latency}, culprit)


def _rounds(count):
    """Return a round-robin tournament: every pair meets once, each machine once a round."""
    ring = list(range(count + count % 2))
    rounds = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = zip(ring[:half], ring[: half - 1 : -1], strict=True)
        rounds.append([pair for pair in pairs if max(pair) < count])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def _planted(fabric, routes, rows, random, is_latency):
    """Return the fabric with a fault, the culprit's names, and the overhead of each host, ns."""
    share = random.uniform(0.1, 0.7)
    kind = random.choice(["machine", "adapter", "cable"])
    overhead = np.zeros(fabric.num_hosts)
    used = sorted({host for row in rows for flow in row[3] for host in flow})
    host = int(random.choice(used))
    machine = next(name for name, hosts in fabric.machines.items() if host in hosts)
    hosts = fabric.machines[machine] if kind == "machine" else [host]
    names = {
        f"{kind if len(fabric.machines[machine]) > 1 else 'machine'} "
        + (machine if kind == "machine" else fabric.host_names[host])
    }
    cables = [_cable(fabric, host) for host in hosts]
    if kind == "cable":
        crossed = _crossed(fabric, routes, rows)
        cables = [int(random.choice(crossed))]
        a, b = 2 * cables[0], 2 * cables[0] + 1
        ends = ((fabric.link_from[at], fabric.link_from_port[at]) for at in (a, b))
        names = {"cable " + " - ".join(f"{fabric.node_names[node]}[{port}]" for node, port in ends)}
    if is_latency and kind == "machine":
        overhead[hosts] = share * 1000
        return fabric, frozenset(names), overhead
    if is_latency:
        parts = Parts.of(fabric)
        parts.latency_ns[cables] += share * 1000
        return weft.Fabric.of(parts), frozenset(names), overhead
    rate = fabric.cable_rate_gbps[cables[0]]
    return fabric.degraded(cables, float(rate * (1 - share))), frozenset(names), overhead


def _cable(fabric, host):
    return int(fabric.port_link[fabric.port_offset[fabric.host_nodes[host]]]) >> 1


def _crossed(fabric, routes, rows):
    """Return the cables between switches that flows cross."""
    flows = np.array([flow for row in rows for flow in row[3]])
    builder = WorkloadBuilder(2 * len(flows))
    builder.put(np.arange(len(flows)), np.arange(len(flows)) + len(flows), 4096)
    links = weft.simulate(fabric, routes, builder.build(), flows.T.ravel()).links()
    links = links.filter((pl.col("messages") > 0) & (pl.col("kind") == "switch-switch"))
    return np.unique(links["link"].to_numpy() >> 1)


def _measured(fabric, routes, rows, at_once, is_latency, overhead):
    """Run each pair at the flow level; return Gb/s or ns of each row."""
    flow_of = [(at, a, b) for at, row in enumerate(rows) for a, b in row[3]]
    if is_latency:  # half of a round trip
        flow_of += [(at, b, a) for at, a, b in flow_of]
    row_of, source, target = (np.array(column) for column in zip(*flow_of, strict=True))
    count, size = len(row_of), 8 if is_latency else 2**22
    value = np.zeros(len(rows))
    turns = np.array([rows[at][2] for at in row_of]) if at_once else np.zeros(count, dtype=int)
    for turn in np.unique(turns):
        of = np.flatnonzero(turns == turn)
        builder = WorkloadBuilder(2 * len(of))
        ranks = np.arange(len(of))
        builder.send(ranks, ranks + len(of), size)
        builder.recv(ranks + len(of), ranks, size)
        run = weft.simulate(
            fabric, routes, builder.build(), np.concatenate((source[of], target[of])),
            sharing="maxmin" if at_once else "none", overhead_ns=200.0 * is_latency,
        )  # fmt: skip
        took = run.ended_ns[len(of) :] - run.posted_ns[: len(of)]
        if is_latency:
            took = took + (overhead[source[of]] + overhead[target[of]])
            value += np.bincount(row_of[of], took, minlength=len(rows)) / 2
        else:
            slowest = np.zeros(len(rows))
            np.maximum.at(slowest, row_of[of], took)
            flows = np.bincount(row_of[of], minlength=len(rows))
            done = flows > 0
            value[done] = 8 * size * flows[done] / slowest[done]
    return value
