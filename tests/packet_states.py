"""A simple simulator of packets in time slots, with results in the packet level's form.

Tests of reports use it to be independent of the kernel. Every packet takes one slot on every link,
a buffer holds a few packets, and links, which have no latency, serve buffers round-robin.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np

from weft.fabrics import Fabric
from weft.sim.packet import Hardware
from weft.workload import Workload

SLOT_PS = 518_500


def next_links(fabric: Fabric, target: int) -> dict[int, int]:
    """Return each node's next link to `target`, the choice among minimal ones varying by target."""
    distance, ring = {target: 0}, deque([target])
    while ring:
        node = ring.popleft()
        for link in np.flatnonzero(fabric.link_to == node).tolist():
            tail = int(fabric.link_from[link])
            if tail not in distance:
                distance[tail] = distance[node] + 1
                if fabric.forwards[tail]:
                    ring.append(tail)
    chosen = {}
    for node in distance:
        out = [
            link
            for link in np.flatnonzero(fabric.link_from == node).tolist()
            if distance.get(int(fabric.link_to[link]), 99) == distance[node] - 1
        ]
        if out:
            chosen[node] = out[target % len(out)]
    return chosen


def slot_run(
    fabric: Fabric,
    work: Workload,
    *,
    buffer_packets: int = 4,
    snapshot_slots: int = 4,
    most_slots: int = 4000,
    lanes: int = 1,
) -> Any:
    """Send the messages of a workload slot by slot; a lane is the destination's number mod `lanes`.

    An operation of a rank begins when the previous one has ended, a put not before its release
    time. A calculation takes its duration, a send ends when it has left, and a receive ends when
    its message has arrived.
    """
    hardware = Hardware(buffer_bytes=buffer_packets * 33 * 64)
    links, ops = fabric.num_links, work.num_ops
    host = np.arange(work.num_ranks, dtype=np.int32) % fabric.num_hosts
    hops = [next_links(fabric, int(node)) for node in fabric.host_nodes]
    packets = np.maximum(1, -(-work.size_bytes // hardware.mtu_bytes))
    posted, ended, left, arrived = (np.full(ops, -1, dtype=np.int64) for _ in range(4))
    done = np.zeros(ops, dtype=np.int64)
    # Packets in buffers and adapters are pairs of operation and first slot in which they may leave.
    buffers = [[deque() for _ in range(lanes)] for _ in range(links)]
    adapters = [[deque() for _ in range(lanes)] for _ in range(fabric.num_hosts)]
    into = [np.flatnonzero(fabric.link_to == node).tolist() for node in range(fabric.num_nodes)]
    next_queue = [0] * links
    program = [list(range(work.op_offset[r], work.op_offset[r + 1])) for r in range(work.num_ranks)]
    busy, shots = np.zeros(links, dtype=np.int64), []
    count, wire, wait = (np.zeros((links, lanes), dtype=np.int64) for _ in range(3))
    released = work.release_ns if len(work.release_ns) else np.zeros(ops)

    def lane_of(op: int) -> int:
        return int(host[work.peer[op]]) % lanes

    def wanted(link: int, vl: int, at: int) -> tuple[int, int] | None:
        node = int(fabric.link_to[link])
        if not buffers[link][vl] or not fabric.forwards[node]:
            return None
        op, since = buffers[link][vl][0]
        return (hops[host[work.peer[op]]][node], lane_of(op)) if since <= at else None

    slot = 0
    sends = work.messages
    while slot < most_slots and ((ended < 0).any() or (arrived[sends] < 0).any()):
        now = slot * SLOT_PS
        for rank, rest in enumerate(program):
            while rest:
                op = rest[0]
                kind = int(work.kind[op])
                if released[op] * 1e3 > now:
                    break
                if posted[op] < 0:
                    posted[op] = now
                    if kind in (1, 3):
                        adapters[host[rank]][lane_of(op)] += [(op, slot)] * int(packets[op])
                if kind == 0 and now >= posted[op] + work.duration_ns[op] * 1e3:
                    ended[op] = posted[op] + int(work.duration_ns[op] * 1e3)
                elif kind == 2 and 0 <= arrived[work.match[op]] <= now:
                    ended[op] = max(posted[op], arrived[work.match[op]])
                elif kind == 3:
                    ended[op] = now
                if ended[op] < 0:
                    break
                rest.pop(0)
        # A link or input port sends one packet per slot; freed buffer space is reused in the slot.
        sent, taken = set(), set()
        moved = True
        while moved:
            moved = False
            for link in range(links):
                tail = int(fabric.link_from[link])
                if link in sent:
                    continue
                if fabric.forwards[tail]:
                    queues = [(other, vl) for other in into[tail] for vl in range(lanes)]
                else:
                    queues = [(-1, vl) for vl in range(lanes)]
                for step in range(len(queues)):
                    source, vl = queues[(next_queue[link] + step) % len(queues)]
                    if source < 0:
                        queue = adapters[tail - fabric.num_switches][vl]
                        fits = bool(queue)
                    else:
                        queue = buffers[source][vl]
                        fits = wanted(source, vl, slot) == (link, vl) and source not in taken
                    if not fits or len(buffers[link][vl]) >= buffer_packets:
                        continue
                    op, since = queue.popleft()
                    moved = True
                    sent.add(link)
                    next_queue[link] = (next_queue[link] + step + 1) % len(queues)
                    taken.update([source] if source >= 0 else [])
                    left[op] = now if left[op] < 0 else left[op]
                    busy[link] += SLOT_PS
                    count[link, vl] += 1
                    wire[link, vl] += 2074
                    wait[link, vl] += (slot - since) * SLOT_PS
                    if fabric.forwards[fabric.link_to[link]]:
                        buffers[link][vl].append((op, slot + 1))
                    else:
                        done[op] += 1
                        if done[op] == packets[op]:
                            arrived[op] = now + SLOT_PS
                    if source < 0 and work.kind[op] == 1 and (not queue or queue[0][0] != op):
                        ended[op] = now + SLOT_PS
                    break
        slot += 1
        if slot % snapshot_slots == 0:
            wants = np.full((links, lanes), -1, dtype=np.int32)
            wants_vl, why = np.zeros((links, lanes), np.int8), np.zeros((links, lanes), np.uint8)
            held = np.array([[33 * len(lane) for lane in buffer] for buffer in buffers])
            for link in range(links):
                for vl in range(lanes):
                    to = wanted(link, vl, slot - 1)
                    if to is not None:
                        wants[link, vl], wants_vl[link, vl] = to
                        full = len(buffers[to[0]][to[1]]) >= buffer_packets
                        why[link, vl] = 2 if full else 1
            state = (slot * SLOT_PS, held, count, wire, wait, busy, wants, wants_vl, why, 0 * busy)
            shots.append(tuple(np.array(each) for each in state))
    names = [
        "time_ps",
        "held",
        "packets",
        "wire_bytes",
        "wait_ps",
        "busy_ps",
        "wants",
        "wants_vl",
        "why",
        "blocked_ps",
    ]
    arrays = [np.array(each) for each in zip(*shots, strict=True)]
    return SimpleNamespace(
        fabric=fabric,
        engine="shortest",
        workload=work,
        host=host,
        hardware=hardware,
        policy="deterministic",
        options={"seed": 0},
        posted_ps=posted,
        ended_ps=ended,
        left_ps=left,
        arrived_ps=arrived,
        end_ps=slot * SLOT_PS,
        complete=not ((ended < 0).any() or (arrived[sends] < 0).any()),
        num_vls=lanes,
        packets=count,
        wire_bytes=wire,
        wait_ps=wait,
        busy_ps=busy,
        num_hops=int(count.sum()),
        num_events=int(count.sum()),
        run_s=0.0,
        snapshots=SimpleNamespace(**dict(zip(names, arrays, strict=True))),
        link_name=fabric.link_name,
        link_names=fabric.link_names,
        makespan_ns=max(ended.max(), arrived.max()) / 1e3,
    )
