"""Packet level: run a workload over routes, packet by packet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.core.signals import raise_deferred
from weft.fabrics import Fabric
from weft.kernels.packet import engine as kernel
from weft.routing.routes import Routes
from weft.sim.common.progress import REPORT_S, IncompleteRun, Progress, StopRun
from weft.sim.common.times import LONGEST_RUN_PS, check_options
from weft.sim.keys.run import KeyRun
from weft.sim.packet.connections import connect
from weft.sim.packet.ends import check_conservation, deadlock_in_part, explain
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.limits import check_fabric_times, check_workload
from weft.sim.packet.network import PacketNetwork
from weft.sim.packet.partition import CutInputs, cut_for
from weft.sim.packet.policies import bind
from weft.sim.packet.result import PacketResult, RolledPacketResult, alone_ns
from weft.sim.packet.rolled import PacketWindows
from weft.sim.packet.state import PacketRunState
from weft.workload import Workload

#: Options that have a field of their own in a result.
OWN = frozenset({"hardware", "policy", "trace", "threads"})


def run_packets(
    fabric: Fabric,
    routes: Routes,
    workload: Workload | PacketWindows,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
    progress: Callable[[Progress], None] | None = None,
    keyed: KeyRun | None = None,
) -> PacketResult | RolledPacketResult:
    """Run a workload at the packet level, for `weft.simulate`, which checks the arguments.

    docs/packet-level.md states every rule of virtual cut-through, credits, lanes and arbitration.
    Times are whole picoseconds.

    `hosts` [ranks]: host of each rank. `options`: options, as returned by
    `weft.sim.options.RunSettings.packet`. `progress`: called several times a second with the
    progress of the run. It may raise `StopRun`. `keyed`: routing keys of the workload; their paths
    replace those of the routes. `workload` may be the windows of a rolled one, which has a result
    only if it ends.
    """
    check_options(options)
    hardware: Hardware = options["hardware"]
    policy, lids, max_time_ns = options["policy"], options["lids"], options["max_time_ns"]
    if keyed is not None:
        routes, lids = keyed.routes, keyed.lid_offset
    routes.check(fabric)
    bound = bind(policy, fabric, routes)
    if bound.keys is not None and keyed is None:
        raise NotApplicable(f"policy {policy} needs a workload with phases, as in weft.simulate")
    windows, times = None, np.ones(1, dtype=np.int64)
    if isinstance(workload, PacketWindows):
        windows = workload
        workload, times = windows.brief, windows.times
    _check_lanes(routes, hardware)
    check_fabric_times(fabric, hardware)
    network = PacketNetwork.of(fabric, hardware, routes.num_vls)
    connections = connect(
        fabric, routes, network, workload, hosts, options, per_pair=bound.queue_pairs, lids=lids,
        further_pairs=None if keyed is None else keyed.further_pairs,
    )  # fmt: skip
    if keyed is not None:
        keyed.bind(connections.pairs, fabric.num_hosts)
    slowest = float(network.rate_gbps.min(initial=np.inf))
    if hardware.adapter_gbps is not None:
        slowest = min(slowest, hardware.adapter_gbps)
    place = None if windows is None else windows.place
    check_workload(workload, connections, hardware, slowest, options, times, place)
    traced = _traced(options["trace"], workload)
    began = time.perf_counter()
    one = ""
    if keyed is not None and keyed.rules.scheduled:
        one = f"policy {policy} has one scheduler; policy ark has none"
    if options["fast_forward"]:
        from weft.sim.packet.fast_forward import FastForward, check_fast_forward

        check_fast_forward(workload, connections, bound, keyed is not None, options)
        one = "fast_forward sets back time"
    cut = cut_for(CutInputs(fabric, network, connections, workload, hosts, options, one, times))
    piece, of_ops = workload, connections
    if windows is not None:
        windows.options, windows.lines = options, connections
        windows.alone = alone_ns(workload, network, connections, hardware, options)
        piece, of_ops = windows.piece, windows.connections()
    state = PacketRunState.of(
        piece, network, of_ops, hardware, bound, options, routes.num_vls, traced, cut, keyed,
        windows,
    )  # fmt: skip
    if options["fast_forward"]:
        state.fast_forward = FastForward(state.net, state.ranks)
    with state.team:
        wire_bytes = _wire_bytes(fabric, workload, hosts, hardware, times) if progress else 0
        why, partial = _run(state, progress, wire_bytes)
        if partial:
            state.align()
    took = time.perf_counter() - began
    if state.fast_forward is not None:
        state.fast_forward.stop(state.net)
    if why in (kernel.STUCK, kernel.NO_PATH):
        raise InputError(explain(why, fabric, routes, piece, state))
    if why == kernel.TIME_OUT and max_time_ns is None:
        raise InputError(
            f"simulated time exceeds {LONGEST_RUN_PS / 8.64e16:.0f} days, with "
            f"{state.arrived:,} of {state.num_messages:,} messages "
            "arrived"
        )
    complete = why == kernel.DONE and not partial
    now = f"{state.now_ns:g} ns"
    if windows is not None and not complete:
        raise IncompleteRun(f"stopped at {now} of simulated time; there is no result")
    conservation = check_conservation(state, complete)
    counters: dict[str, Any] = dict(
        fabric=fabric, engine=routes.engine, host=hosts, hardware=hardware, policy=policy,
        options=_recorded(options), network=network, connections=connections,
        **state.outcome(complete), complete=complete, conservation=conservation, run_s=took,
        deadlock="" if complete else deadlock_in_part(fabric, state),
        keys=None if keyed is None else keyed.plan, threads=cut.parts, fewer_threads=cut.why,
    )  # fmt: skip
    if windows is None:
        return PacketResult(workload=workload, **state.times(complete), **counters)
    windows.drop(state.ranks)
    return RolledPacketResult(
        workload=windows.work, tally=windows.tally, most_ops=windows.most_ops, **counters
    )


def _recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have no field of their own in a result."""
    lids = options["lids"]
    kept = {key: options[key] for key in options if key not in OWN}
    return {**kept, "lids": lids if isinstance(lids, str) else "given"}


def _check_lanes(routes: Routes, hardware: Hardware) -> None:
    """Refuse lanes that arbitration never serves."""
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
        cause = f"; SL {level[0]} maps to it" if level else ""
        raise InputError(
            f"VL {idle[0]} has no weight above 0 in any table of lane arbitration and would "
            f"never send{cause}"
        )


def _traced(trace: Any, workload: Workload) -> NDArray[np.uint8]:
    """Return 1 for each operation to trace and 0 for the others; empty if none is traced."""
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


def _wire_bytes(
    fabric: Fabric, workload: Workload, hosts: NDArray[Any], hardware: Hardware, times: Any
) -> int:
    """Return the bytes of all data packets between hosts, headers included."""
    ops = workload.messages
    away = fabric.apart(hosts[workload.rank[ops]], hosts[workload.peer[ops]])
    size = workload.size_bytes[ops].astype(np.int64)
    packets = np.maximum(-(-size // hardware.mtu_bytes), 1)
    return int((times * (size + hardware.header_bytes * packets))[away].sum())


def _run(
    state: PacketRunState,
    progress: Callable[[Progress], None] | None,
    wire_bytes: int,
) -> tuple[int, bool]:
    """Run to the end, with snapshots of the buffers and reports of progress.

    Returns the kernel's reason for stopping, and whether the user stopped the run.
    """
    instants = 1000
    while True:
        began = time.perf_counter()
        try:
            why = state.step(instants)
            raise_deferred()
            count = state.count
            now = Progress(
                state.ended, state.num_ops, state.arrived,
                state.num_messages, state.now_ns,
                # Delivered bytes include control packets; wire_bytes includes only data packets.
                min(count["delivered_bytes"] / wire_bytes, 1.0) if wire_bytes else None,
            )  # fmt: skip
        except KeyboardInterrupt:
            if state.windows is not None:
                raise
            return kernel.MORE, True
        if progress:
            try:
                progress(now)
            except StopRun:
                return why, why == kernel.MORE
        if why != kernel.MORE:
            return why, False
        if state.cut_short:
            continue  # too few instants to measure the speed
        took = max(time.perf_counter() - began, 1e-4)
        instants = int(min(max(instants * REPORT_S / took, 100), 4 * instants, 2**40))
