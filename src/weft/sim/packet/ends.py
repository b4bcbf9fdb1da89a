"""Ends of packet-level runs: conservation of packets and credits, and reasons for a deadlock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import WeftError
from weft.fabrics import Fabric
from weft.kernels.packet import engine as kernel
from weft.kernels.packet import records
from weft.kernels.packet.net import Calendar
from weft.routing.routes import Routes
from weft.sim.common.programs import deadlock_of_ranks
from weft.sim.common.times import PS_PER_NS
from weft.sim.packet.congestion_trees import Buffer, deadlock_cycle
from weft.sim.packet.partition import gathered
from weft.sim.packet.state import PacketRunState
from weft.workload import Workload

#: Largest number of buffers of a cycle that an error message names.
_NAMED = 12


class BrokenInvariant(WeftError):
    """Packets or credits lost or created in the simulation: a defect of weft, not of its input."""


def check_conservation(state: PacketRunState, complete: bool) -> Mapping[str, int]:
    """Prove that packets and credits are conserved.

    As many packets were injected as have been delivered or are in flight; the same holds for bytes.
    For each lane, the sender's credits, the credits being returned and the credits that packets
    hold add up to the buffer.

    Returns ``injected_packets``, ``delivered_packets``, ``in_flight_packets`` and the same in
    bytes; ``credits``, the number of all credits; and ``held_credits``, the number of credits in
    use at the end of a run that was stopped. After the end of a complete run all return.
    """
    net, count = gathered(state.nets, state.cut), state.count
    lanes, rules = net.lanes, net.rules
    now = records.NEVER if complete else int(count["now_ps"])
    back, late = np.zeros((2, len(lanes)), dtype=np.int64)
    for row in np.flatnonzero(lanes["first_return"] >= 0):
        returns = state.nets[state.cut.tail[row // int(rules["lanes"])]].credits.returns
        index = int(lanes["first_return"][row])
        while index >= 0:
            back[row] += returns["credits"][index]
            late[row] += returns["credits"][index] * (returns["time_ps"][index] > now)
            index = int(returns["next"][index])
    flying = np.concatenate([_used_slots(each.calendar) for each in state.nets])
    flying = flying[flying["lane"] >= 0]
    wire = flying["wire_bytes"].astype(np.int64)
    row = flying["link"].astype(np.int64) * rules["lanes"] + flying["lane"]
    inside = np.zeros(len(lanes), dtype=np.int64)
    np.add.at(inside, row, -(-wire // rules["credit_bytes"]))
    more = net.topology.kinds["more_credits"][net.topology.links["kind"]]
    capacity = rules["buffer_credits"] + np.repeat(more, rules["lanes"])
    total = lanes["credits"] + back + inside
    wrong = np.flatnonzero(total != capacity)
    if len(wrong):
        link, lane = divmod(int(wrong[0]), int(rules["lanes"]))
        raise BrokenInvariant(
            f"link {link} lane {lane} has {total[wrong[0]]} credits in all instead of "
            f"{capacity[wrong[0]]}"
        )
    injected, delivered = int(count["injected"]), int(count["delivered"])
    bytes_in, bytes_out = int(count["injected_bytes"]), int(count["delivered_bytes"])
    if injected != delivered + len(flying) or bytes_in != bytes_out + int(wire.sum()):
        raise BrokenInvariant(
            f"{injected} packets ({bytes_in} bytes) were injected, {delivered} ({bytes_out} bytes) "
            f"were delivered, and {len(flying)} ({wire.sum()} bytes) are in flight"
        )
    return {
        "injected_packets": injected,
        "delivered_packets": delivered,
        "in_flight_packets": len(flying),
        "injected_bytes": bytes_in,
        "delivered_bytes": bytes_out,
        "in_flight_bytes": int(wire.sum()),
        "credits": int(capacity.sum()),
        "held_credits": int(inside.sum() + late.sum()),
    }


def _used_slots(calendar: Calendar) -> NDArray[Any]:
    used = calendar.events["link"] >= 0  # without wake-ups
    used[calendar.free[: calendar.state["free"]]] = False
    return np.asarray(calendar.packets[used])


def explain(
    why: int, fabric: Fabric, routes: Routes, workload: Workload, state: PacketRunState
) -> str:
    """Return text that says why a run cannot continue and names the node or the buffers."""
    place = None
    if state.windows is not None:
        workload, place = state.windows.named()
    count = state.count
    now = f"{state.now_ns:g} ns"
    if why == kernel.NO_PATH:
        fault = min(
            (net.count for net in state.nets if net.count["fault_row"] >= 0),
            key=lambda each: int(each["now_ps"]),
        )
        row, op = int(fault["fault_row"]), int(fault["fault_op"])
        now = f"{(fault['now_ps'] + state.skipped_ps) / PS_PER_NS:g} ns"
        name = fabric.node_names[int(fabric.graph.row_node[row])]
        return (
            f"the {routes.engine} routes of {fabric.name} have no next link at {name} for "
            f"{workload.describe(op, number=None if place is None else place[op])}, after {now}"
        )
    if not count["in_flight"]:
        return deadlock_of_ranks(workload, state.ranks.posted, state.ranks.ended, now, place)
    _, wants, wants_vl, reason = state.buffers()
    cycle = deadlock_cycle(wants, wants_vl, reason)
    return (
        f"the network is deadlocked after {now}: {count['in_flight']} packets on the "
        f"{routes.engine} routes of {fabric.name} cannot move, because full buffers wait for each "
        f"other in a cycle: {_cycle_text(cycle, fabric, state)}"
    )


def deadlock_in_part(fabric: Fabric, state: PacketRunState) -> str:
    """Return a cycle of full buffers whose packets will never move while other packets move.

    Applies only to input queues (one for each incoming link and lane). With virtual output queues,
    a buffer with one waiting queue may have other queues that can proceed.

    Returns each buffer and the buffer that it waits for; empty if there is no cycle.
    """
    if state.net.rules["is_voq"]:
        return ""
    _, wants, wants_vl, reason = state.buffers()
    # A buffer whose credits are being returned is not blocked permanently.
    lane = wants.astype(np.int64) * state.net.rules["lanes"] + wants_vl
    back = gathered(state.nets, state.cut).lanes["first_return"][np.maximum(lane, 0)] >= 0
    cycle = deadlock_cycle(wants, wants_vl, np.where(back, 0, reason))
    return _cycle_text(cycle, fabric, state) if cycle else ""


def _cycle_text(cycle: list[Buffer], fabric: Fabric, state: PacketRunState) -> str:
    """Return text for buffers that wait for each other."""

    def named(link: int, lane: int) -> str:
        if link < fabric.num_links:
            return f"{fabric.link_name(link)} (VL {lane})"
        row = int(state.net.topology.links["head_row"][link])
        return f"the adapter of {fabric.node_names[int(fabric.graph.row_node[row])]} (VL {lane})"

    names = ", which waits for ".join(named(*each) for each in cycle[:_NAMED])
    more = f", and so on over {len(cycle)} buffers" if len(cycle) > _NAMED else ""
    closing = f", which waits for {named(*cycle[0])}" if cycle else ""
    return f"the buffer behind {names}{more}{closing}"
