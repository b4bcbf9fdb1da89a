"""How runs of the packet level end: what is proved of them, and why nothing moves any more."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.core.errors import WeftError
from weft.fabrics import Fabric
from weft.kernels.packet import adapter, layout
from weft.kernels.packet import engine as kernel
from weft.routes import Routes
from weft.sim.flow.engine import deadlock_of_ranks
from weft.sim.packet.congestion_trees import Buffer, deadlock_cycle
from weft.sim.packet.network import PS_PER_NS
from weft.sim.packet.state import State
from weft.workload import Workload

#: Buffers of a circle that a message names.
_NAMED = 12


class BrokenInvariant(WeftError):
    """The simulation lost or made packets or credits: a fault of weft, not of what was given."""


def check_conservation(state: State) -> Mapping[str, int]:
    """Prove that no packet and no credit was lost or made.

    Packets injected are those delivered and those in flight, and so are their bytes; of every
    lane, credits that its sender has, those on their way back and those that packets hold are the
    whole buffer.

    Returns
    -------
    mapping
        ``injected_packets``, ``delivered_packets``, ``in_flight_packets`` and the same of bytes;
        credits in all and those held at the end.

    Raises
    ------
    BrokenInvariant
        Naming what does not add up.
    """
    number, slots, lanes = state.net.number, state.net.slots, int(state.net.setting[layout.LANES])
    free = np.zeros(len(slots), dtype=bool)
    free[state.net.free[: number[layout.FREE_SLOTS]]] = True
    back = np.zeros(len(state.net.lanes), dtype=np.int64)
    for row in np.flatnonzero(state.net.lanes[:, layout.BACK_HEAD] >= 0):
        note = int(state.net.lanes[row, layout.BACK_HEAD])
        while note >= 0:
            back[row] += state.net.notes[note, layout.NOTE_COUNT]
            note = int(state.net.notes[note, layout.NOTE_AFTER])
    held = state.net.kept[:, adapter.HELD]
    for first in held[held >= 0]:
        slot = int(first)
        while slot >= 0:
            free[slot] = True
            slot = int(slots[slot, layout.NEXT])
    flying = slots[~free]
    flying = flying[flying[:, layout.LANE] >= 0]
    wire = flying[:, layout.BYTES].astype(np.int64)
    row = flying[:, layout.LINK].astype(np.int64) * lanes + flying[:, layout.LANE]
    credit = int(state.net.setting[layout.CREDIT_BYTES])
    inside = np.zeros(len(state.net.lanes), dtype=np.int64)
    np.add.at(inside, row, -(-wire // credit))
    whole = int(state.net.setting[layout.BUFFER_CREDITS])
    total = state.net.lanes[:, layout.CREDITS] + back + inside
    wrong = np.flatnonzero(total != whole)
    if len(wrong):
        link, lane = divmod(int(wrong[0]), lanes)
        raise BrokenInvariant(
            f"link {link} lane {lane} has {total[wrong[0]]} credits in all instead of {whole}"
        )
    injected, delivered = int(number[layout.SERIALS]), int(number[layout.DELIVERED])
    bytes_in, bytes_out = int(number[layout.INJECTED_BYTES]), int(number[layout.DELIVERED_BYTES])
    if injected != delivered + len(flying) or bytes_in != bytes_out + int(wire.sum()):
        raise BrokenInvariant(
            f"{injected} packets of {bytes_in} bytes were injected, {delivered} of {bytes_out} "
            f"delivered, and {len(flying)} of {wire.sum()} are in flight"
        )
    return {
        "injected_packets": injected,
        "delivered_packets": delivered,
        "in_flight_packets": len(flying),
        "injected_bytes": bytes_in,
        "delivered_bytes": bytes_out,
        "in_flight_bytes": int(wire.sum()),
        "credits": whole * len(total),
        "held_credits": int(inside.sum() + back.sum()),
    }


def explain(why: int, fabric: Fabric, routes: Routes, workload: Workload, state: State) -> str:
    """Why a run cannot go on, in words, with the place."""
    number = state.net.number
    now = f"{number[layout.NOW] / PS_PER_NS:g} ns"
    if why == kernel.NO_WAY:
        row, op = int(number[layout.FAULT_ROW]), int(number[layout.FAULT_OP])
        name = fabric.node_names[int(fabric.graph.row_node[row])]
        return (
            f"the {routes.engine} routes of {fabric.name} lead no further at {name} for "
            f"{workload.describe(op)}, after {now}"
        )
    if not number[layout.IN_FLIGHT]:
        return deadlock_of_ranks(workload, state.ranks.posted, state.ranks.ended, now)
    _, wants, wants_vl, reason = state.buffers()
    circle = deadlock_cycle(wants, wants_vl, reason)
    flying = int(number[layout.IN_FLIGHT])
    return (
        f"the network is deadlocked after {now}: {flying} packets cannot move by the "
        f"{routes.engine} routes of {fabric.name}, because full buffers wait for each other in a "
        f"circle: {_circle_text(circle, fabric, state)}"
    )


def deadlock_in_part(fabric: Fabric, state: State) -> str:
    """The circle of full buffers that will never move, in a network that does elsewhere.

    Looked for with one queue for each incoming link and lane: with one for each outgoing link a
    buffer that waits may have others that do not.

    Returns
    -------
    str: each buffer and the one that it waits for; empty where there is no circle.
    """
    if state.net.setting[layout.VOQ]:
        return ""
    _, wants, wants_vl, reason = state.buffers()
    # Credits on their way back would let a packet pass.
    lanes = int(state.net.setting[layout.LANES])
    row = wants.astype(np.int64) * lanes + wants_vl
    back = state.net.lanes[:, layout.BACK_HEAD][np.maximum(row, 0)] >= 0
    circle = deadlock_cycle(wants, wants_vl, np.where(back, 0, reason))
    return _circle_text(circle, fabric, state) if circle else ""


def _circle_text(circle: list[Buffer], fabric: Fabric, state: State) -> str:
    """Buffers that wait for each other, in words."""

    def named(link: int, lane: int) -> str:
        if link < fabric.num_links:
            return f"{fabric.link_name(link)} (VL {lane})"
        row = int(state.net.fixed[link, layout.HEAD_ROW])
        return f"the adapter of {fabric.node_names[int(fabric.graph.row_node[row])]} (VL {lane})"

    said = ", which waits for ".join(named(*each) for each in circle[:_NAMED])
    more = f", and so on over {len(circle)} buffers" if len(circle) > _NAMED else ""
    closing = f", which waits for {named(*circle[0])}" if circle else ""
    return f"the one behind {said}{more}{closing}"
