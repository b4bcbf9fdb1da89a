"""The packet level: run a workload over routes, packet by packet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import whole_number, whole_numbers
from weft.core.errors import InputError
from weft.core.registry import convert
from weft.core.units import Bytes, Nanoseconds
from weft.fabrics import Fabric, check_fabric
from weft.kernels.packet import engine as kernel
from weft.routes import Routes
from weft.sim.flow.engine import Progress, host_of_rank
from weft.sim.packet.connections import Lids, connect
from weft.sim.packet.ends import check_conservation, deadlock_in_part, explain
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.limits import (
    LONGEST_RUN_PS,
    check_fabric_times,
    check_options,
    check_workload,
)
from weft.sim.packet.network import PS_PER_NS, PacketNetwork
from weft.sim.packet.policies import bind
from weft.sim.packet.result import PacketResult
from weft.sim.packet.state import State
from weft.sim.static.loads import Ports
from weft.workload import Workload

#: Seconds between two reports of progress, about.
REPORT_S = 0.2


class StopRun(Exception):
    """Ends a run when `progress` raises it: the result has what is known until then."""


def simulate_packets(
    fabric: Fabric,
    routes: Routes,
    workload: Workload,
    placement: str | ArrayLike = "linear",
    *,
    hardware: Hardware | None = None,
    policy: str = "deterministic",
    eager_bytes: Bytes = 16384,
    handshake: bool = True,
    overhead_ns: Nanoseconds = 0.0,
    local_gbps: float = 100.0,
    local_latency_ns: Nanoseconds = 200.0,
    ports: Ports = "first",
    lids: Lids | ArrayLike = "first",
    seed: int = 0,
    max_time_ns: Nanoseconds | None = None,
    snapshot_ns: Nanoseconds | None = None,
    trace: Sequence[int] = (),
    progress: Callable[[Progress], None] | None = None,
) -> PacketResult:
    """Run a workload at the packet level: virtual cut-through, credits, lanes and arbitration.

    docs/packet-level.md states every rule. Times are whole picoseconds.

    Parameters
    ----------
    fabric, routes, workload, placement
        As of `weft.simulate`.
    hardware
        What switches and adapters are like.
    policy
        How packets choose where routes leave a choice, with options as in ``flowlet:gap=10us``.
    eager_bytes, handshake, overhead_ns, local_gbps, local_latency_ns
        As of `weft.simulate`; request and answer of a rendez-vous are packets here.
    ports
        Which ports hosts with several use: ``first`` or ``spread``.
    lids
        Which LID of a destination with an LMC messages go to: the ``first``, one by the ``hash`` of
        the ranks, all in turn (``spread``), or an offset for each operation.
    seed
        Of all draws.
    max_time_ns
        Simulated time at which the run stops; its result is marked incomplete.
    snapshot_ns
        Time between two snapshots of all buffers; it doubles whenever 2,000 have been taken, and
        every other one goes.
    trace
        Operations whose every hop is written down.
    progress
        Called several times a second with how far the run has come. It may raise `StopRun`.

    Returns
    -------
    PacketResult
        Marked incomplete after `max_time_ns`, an interrupt from the keyboard, or `StopRun`.

    Raises
    ------
    InputError
        On a rank without a host, a pair of hosts without a path, a lane without arbitration, a
        wrong option, or a run in which nothing moves any more: ranks that wait for each other,
        named with what they wait for, or a circle of full buffers, named too.
    NotApplicable
        When policy and routes do not go together.
    """
    check_fabric(fabric)
    hardware = hardware if hardware is not None else Hardware()
    for given, kind in ((routes, Routes), (workload, Workload), (hardware, Hardware)):
        if not isinstance(given, kind):
            raise InputError(f"expected {kind.__name__}, not {given!r}")
    options = _checked(
        eager_bytes=eager_bytes, handshake=handshake, overhead_ns=overhead_ns,
        local_gbps=local_gbps, local_latency_ns=local_latency_ns, ports=ports, seed=seed,
        max_time_ns=max_time_ns, snapshot_ns=snapshot_ns,
    )  # fmt: skip
    routes.check(fabric)
    made = bind(policy, fabric, routes)
    _check_lanes(routes, hardware)
    hosts = host_of_rank(fabric, workload, placement)
    check_fabric_times(fabric, hardware)
    network = PacketNetwork.of(fabric, hardware, routes.num_vls)
    connections = connect(
        fabric, routes, network, workload, hosts, eager_bytes=options["eager_bytes"],
        handshake=options["handshake"], queue_pairs=hardware.queue_pairs,
        per_pair=made.queue_pairs, both_ways=hardware.congestion_control is not None,
        ports=ports, lids=lids, seed=options["seed"],
    )  # fmt: skip
    slowest = float(network.rate_gbps.min(initial=np.inf))
    if hardware.adapter_gbps is not None:
        slowest = min(slowest, hardware.adapter_gbps)
    check_workload(workload, connections, hardware, slowest, options)
    traced = _traced(trace, workload)
    began = time.perf_counter()
    state = State.of(
        workload, network, connections, hardware, made, options, routes.num_vls, traced
    )
    why, partial = _run(state, workload, progress, _wire_bytes(workload, hosts, hardware))
    took = time.perf_counter() - began
    if why in (kernel.STUCK, kernel.NO_WAY):
        raise InputError(explain(why, fabric, routes, workload, state))
    if why == kernel.TIME_OUT and max_time_ns is None:
        raise InputError(
            f"simulated time grows beyond {LONGEST_RUN_PS / 8.64e16:.0f} days, with "
            f"{int(state.ranks.count.arrived):,} of {len(workload.messages):,} messages "
            "arrived"
        )
    conservation = check_conservation(state)
    complete = why == kernel.DONE and not partial
    return PacketResult(
        fabric=fabric, engine=routes.engine, workload=workload, host=hosts, hardware=hardware,
        policy=policy, options={**options, "lids": lids if isinstance(lids, str) else "given"},
        network=network, connections=connections, **state.outcome(complete),
        complete=complete, conservation=conservation, run_s=took,
        deadlock="" if complete else deadlock_in_part(fabric, state),
    )  # fmt: skip


def _checked(**options: Any) -> dict[str, Any]:
    """The options, converted where they are text and refused where they cannot be."""
    hints: Mapping[str, Any] = {
        "eager_bytes": Bytes, "handshake": bool, "overhead_ns": Nanoseconds, "local_gbps": float,
        "local_latency_ns": Nanoseconds, "seed": int, "max_time_ns": Nanoseconds | None,
        "snapshot_ns": Nanoseconds | None,
    }  # fmt: skip
    checked = {
        name: convert(value, hints[name], name) if name in hints else value
        for name, value in options.items()
    }
    whole_number(checked["seed"], "seed")
    if not 0 < checked["local_gbps"] < float("inf"):
        raise InputError(f"local_gbps must be above 0, not {checked['local_gbps']}")
    if checked["snapshot_ns"] is not None and checked["snapshot_ns"] * PS_PER_NS < 1:
        raise InputError(f"snapshot_ns must be 0.001 or more, not {checked['snapshot_ns']}")
    check_options(checked)
    return checked


def _check_lanes(routes: Routes, hardware: Hardware) -> None:
    """Refuse lanes that would never send."""
    if hardware.vl_arbitration is None:
        return
    lanes = np.unique(np.asarray(routes.sl))
    used = (
        np.unique(routes.lanes.tables[:, lanes])
        if not len(getattr(routes, "set_lane", ()))
        else np.arange(routes.num_vls)
    )
    idle = sorted(set(used.tolist()) - hardware.vl_arbitration.lanes)
    if idle:
        level = [sl for sl in lanes.tolist() if idle[0] in routes.lanes.tables[:, sl]]
        named = f"; SL {level[0]} maps to it" if level else ""
        raise InputError(
            f"VL {idle[0]} is in neither table of lane arbitration with a weight above 0 and would "
            f"never send{named}"
        )


def _traced(trace: Any, workload: Workload) -> NDArray[np.uint8]:
    """Which operations to trace; empty when none."""
    if isinstance(trace, str) or not hasattr(trace, "__len__"):
        raise InputError(f"trace must be a list of operations, not {trace!r}")
    if not len(trace):
        return np.zeros(0, dtype=np.uint8)
    marks = np.zeros(workload.num_ops, dtype=np.uint8)
    for op in whole_numbers(trace, "trace"):
        if op not in workload.messages:
            raise InputError(
                f"operation {op} sends no message to trace; {workload.name or 'the workload'} has "
                f"{len(workload.messages)} messages"
            )
        marks[op] = 1
    return marks


def _wire_bytes(workload: Workload, hosts: NDArray[Any], hardware: Hardware) -> int:
    """Bytes of all data packets between hosts, headers included."""
    ops = workload.messages
    away = hosts[workload.rank[ops]] != hosts[workload.peer[ops]]
    size = workload.size_bytes[ops][away].astype(np.int64)
    packets = np.maximum(-(-size // hardware.mtu_bytes), 1)
    return int(size.sum() + hardware.header_bytes * packets.sum())


def _run(
    state: State,
    workload: Workload,
    progress: Callable[[Progress], None] | None,
    wire_bytes: int,
) -> tuple[int, bool]:
    """Run to the end, looking at the buffers and reporting now and then.

    Returns
    -------
    tuple
        The kernel's reason for stopping, and whether the user stopped it.
    """
    instants = 1000
    messages = len(workload.messages)
    while True:
        began = time.perf_counter()
        try:
            why = state.step(instants)
            done, count = state.ranks.count, state.net.count
            now = Progress(
                int(done.ended), workload.num_ops, int(done.arrived),
                messages, float(count["now_ps"]) / PS_PER_NS,
                # Control packets come on top of the data.
                min(count["delivered_bytes"] / wire_bytes, 1.0) if wire_bytes else None,
            )  # fmt: skip
        except KeyboardInterrupt:
            return kernel.MORE, True
        if progress:
            try:
                progress(now)
            except StopRun:
                return why, why == kernel.MORE
        if why != kernel.MORE:
            return why, False
        if state.cut_short:
            continue  # it says nothing of how long so many instants take
        took = max(time.perf_counter() - began, 1e-4)
        instants = int(min(max(instants * REPORT_S / took, 100), 4 * instants, 2**40))
