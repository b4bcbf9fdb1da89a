"""Differences of the contention-graph model from max-min fairness, on one switch and fat trees.

Random communications between different hosts have the same size and start together. Rates are
compared at the start, when all flows are active, and completion times at the end. The differences
are not errors of either sharing model: they answer different questions, see
`docs/contention-model.md`. The last table compares the time to update the affected flows with the
time to update all flows.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

import weft
from weft.fabrics import Fabric
from weft.kernels.flow.maxmin import maxmin_add, maxmin_solve
from weft.kernels.flow.penalty import (
    RECEIVES,
    SENDS,
    note_link,
    note_receiver,
    note_sender,
    penalty_add,
    penalty_remove,
    penalty_solve,
)
from weft.routing.routes import Routes
from weft.sim.flow.contention import INFINIBAND
from weft.sim.flow.contention.penalty_state import penalty_state
from weft.sim.flow.network import Network, lay_routes
from weft.sim.flow.sharing import maxmin_state

FABRICS = {
    "one switch, 16 hosts": "xgft:1;16;1",
    "one switch, 64 hosts": "xgft:1;64;1",
    "fat tree, 64 hosts": "xgft:2;8,8;1,8",
    "fat tree, 216 hosts": "xgft:3;6,6,6;1,6,6",
    "fat tree 4:1, 64 hosts": "xgft:2;8,8;1,2",
}
PER_HOST = (0.25, 0.5, 1.0, 2.0, 4.0)
GRAPHS = 20
SIZE_BYTES = 1 << 20


@dataclass(frozen=True)
class Compared:
    """Ratios of the penalty model to max-min: rates at the start, and completion times."""

    rate: NDArray[np.float64]
    time: NDArray[np.float64]
    makespan: NDArray[np.float64]


def random_flows(hosts: int, flows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw pairs of different hosts, uniform and independent."""
    random = np.random.default_rng([seed, hosts, flows])
    source = random.integers(hosts, size=flows)
    return source, (source + 1 + random.integers(hosts - 1, size=flows)) % hosts


def first_rates(
    network: Network, hosts: int, model: weft.PenaltyModel
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rates by the penalty model and by max-min with one flow on every route."""
    count = network.num_routes
    links = (
        network.capacity_bytes_per_ns,
        network.route_offset,
        network.route_link,
        network.route_share,
    )
    changed = np.zeros(count, dtype=np.int32)
    by_penalty, by_maxmin = np.zeros(count), np.zeros(count)
    state = penalty_state(*links, count, hosts, model=model)
    for flow in range(count):
        ends = network.route_source[flow], network.route_destination[flow]
        penalty_add(state, flow, flow, *map(int, ends))
    penalty_solve(state, by_penalty, changed)
    state = maxmin_state(*links, count)
    for flow in range(count):
        maxmin_add(state, flow, flow)
    maxmin_solve(state, by_maxmin, changed, 0.0)
    return by_penalty, by_maxmin


def completion_times(
    fabric: Fabric, routes: Routes, source: NDArray[np.int64], destination: NDArray[np.int64],
    sharing: str, model: weft.PenaltyModel,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the completion time of each flow in ns; each has two processes of its own."""
    builder = weft.WorkloadBuilder(2 * len(source))
    ranks = np.arange(0, 2 * len(source), 2)
    builder.put(ranks, ranks + 1, SIZE_BYTES)
    hosts = np.column_stack([source, destination]).ravel()
    result = weft.simulate(
        fabric, routes, builder.build(), hosts, sharing=sharing, latency_ns=0.0,
        switch_latency_ns=0.0, coefficients=model,
    )  # fmt: skip
    return result.messages()["arrived_ns"].to_numpy()


def compare(spec: str, per_host: float, model: weft.PenaltyModel) -> Compared:
    """Compare both sharing models on random graphs over a fabric."""
    fabric = weft.fabric(spec)
    routes = weft.route(fabric, "dmodk")
    rates, times, makespans = [], [], []
    for seed in range(GRAPHS):
        flows = max(int(per_host * fabric.num_hosts), 1)
        source, destination = random_flows(fabric.num_hosts, flows, seed)
        by_penalty, by_maxmin = first_rates(
            lay_routes(fabric, routes, source, destination), fabric.num_hosts, model
        )
        rates.append(by_penalty / by_maxmin)
        a, b = (
            completion_times(fabric, routes, source, destination, sharing, model)
            for sharing in ("penalty", "maxmin")
        )
        times.append(a / b)
        makespans.append(a.max() / b.max())
    return Compared(np.concatenate(rates), np.concatenate(times), np.array(makespans))


@njit
def _events(state, source, destination, order, rate, changed, everything, hosts, links):
    """Replace one flow after another, and update the rates after each."""
    slots = len(rate)
    flow_of = np.arange(slots)
    for flow in range(slots):
        penalty_add(state, flow, flow, source[flow], destination[flow])
    penalty_solve(state, rate, changed)
    for event in range(len(order)):
        slot = order[event]
        penalty_remove(state, slot, source[flow_of[slot]], destination[flow_of[slot]])
        flow_of[slot] = slots + event
        penalty_add(state, slot, slots + event, source[flow_of[slot]], destination[flow_of[slot]])
        if everything:
            for host in range(hosts):
                note_sender(state, SENDS, host)
                note_receiver(state, RECEIVES, host)
            for link in range(links):
                note_link(state, link)
        penalty_solve(state, rate, changed)


def time_events(flows: int, events: int) -> tuple[float, float]:
    """Return the seconds per event with an update of affected flows, and of all flows."""
    fabric = weft.fabric("xgft:2;32,32;1,32")
    routes = weft.route(fabric, "dmodk")
    source, destination = random_flows(fabric.num_hosts, flows + events, 0)
    network = lay_routes(fabric, routes, source, destination)
    order = np.random.default_rng(0).integers(flows, size=events)
    took = []
    for everything in (False, True, False, True):
        state = penalty_state(
            network.capacity_bytes_per_ns, network.route_offset, network.route_link,
            network.route_share, flows, fabric.num_hosts,
        )  # fmt: skip
        start = time.perf_counter()
        _events(
            state, source, destination, order, np.zeros(flows), np.zeros(flows, dtype=np.int32),
            everything, fabric.num_hosts, fabric.num_links,
        )  # fmt: skip
        took.append((time.perf_counter() - start) / events)
    return took[2], took[3]


def _print_row(name: str, per_host: float, compared: Compared) -> None:
    rate, when = compared.rate, compared.time
    low, middle, high = np.percentile(rate, [5, 50, 95])
    soon, usual, late = np.percentile(when, [5, 50, 95])
    print(
        f"{name:24} {per_host:10} | {np.mean(abs(rate - 1) < 0.01):11.0%} "
        f"{np.mean(abs(rate - 1)):9.1%} {low:6.2f} {middle:6.2f} {high:6.2f} | "
        f"{np.mean(abs(when - 1)):14.1%} {soon:6.2f} {usual:6.2f} {late:6.2f} | "
        f"{compared.makespan.mean():8.2f}",
        flush=True,
    )


def main() -> None:
    os.sched_setaffinity(0, {0})
    print(f"penalty model / max-min, {GRAPHS} random graphs each; quantiles over all flows")
    print(
        f"{'fabric':24} {'flows/host':>10} | {'rate: equal':>11} {'mean |d|':>9} "
        f"{'5 %':>6} {'50 %':>6} {'95 %':>6} | {'time: mean |d|':>14} {'5 %':>6} {'50 %':>6} "
        f"{'95 %':>6} | {'makespan':>8}"
    )
    for name, spec in FABRICS.items():
        for per_host in PER_HOST:
            _print_row(name, per_host, compare(spec, per_host, INFINIBAND))
    print("without back-pressure")
    for name, spec in FABRICS.items():
        _print_row(name, 4.0, compare(spec, 4.0, weft.PenaltyModel(back_pressure=0.0)))
    print("\nreplacement of a flow among random flows of 1,024 hosts, microseconds")
    for flows, events in ((200, 2000), (1000, 2000), (10000, 200)):
        some, everything = time_events(flows, events)
        print(
            f"{flows:6,} flows: {some * 1e6:7.0f}, and {everything * 1e6:7.0f} when all rates "
            f"are updated: {everything / some:.0f} times"
        )


if __name__ == "__main__":
    main()
