"""Threads of one run of the flit level: which nodes each lets act, and their own counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.kernels.flit import records
from weft.kernels.flit.engine import NO_PACKETS, run
from weft.kernels.flit.net import FlitNet
from weft.kernels.parts import StateParts, parts
from weft.kernels.program.state import Ranks
from weft.kernels.records import record
from weft.kernels.teams import Team

#: Fields of `MEMBER` that `FlitRules` has, too.
OF_RULES = ("first_end", "last_end", "first_router", "last_router", "end_shift", "router_shift")
#: Fields of `COUNT` that are sums.
SUMS = ("hops", "born", "packet_hops", "under_way")


def members(
    ends: int, inputs: NDArray[Any], threads: int
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int32]]:
    """Give each thread some consecutive endpoints, and routers with as many inputs.

    Parameters
    ----------
    ends
        Number of endpoints.
    inputs
        int [routers]: inputs of each router.
    threads
        Number of threads.

    Returns
    -------
    tuple
        `MEMBER` of each thread; int32 [nodes]: thread and place of each node. The nodes of several
        threads are in different words of 64 bits.
    """
    of = np.zeros(threads, dtype=records.MEMBER)
    share = np.arange(threads + 1) / threads
    load = np.append(0, np.cumsum(inputs))
    cuts = np.searchsorted(load, load[-1] * share), np.rint(ends * share).astype(np.int64)
    thread, place = (np.zeros(ends + len(inputs), dtype=np.int32) for _ in range(2))
    at = 0
    for name, cut, begin in (("end", cuts[1], 0), ("router", cuts[0], ends)):
        for number, (first, last) in enumerate(pairwise(cut)):
            at = at if threads == 1 else -(-at // 64) * 64
            of[f"first_{name}"][number], of[f"{name}_shift"][number] = at, at - first
            thread[begin + first : begin + last] = number
            place[begin + first : begin + last] = np.arange(at, at + last - first)
            at += last - first
            of[f"last_{name}"][number] = at
    return of, thread, place


def member_of(net: FlitNet, ends: NDArray[Any]) -> NDArray[np.int32]:
    """Return the thread of endpoints."""
    last = net.members["last_end"] - net.members["end_shift"]
    return np.searchsorted(last, ends, side="right").astype(np.int32)


def loop(net: FlitNet, known: Any, programs: Sequence[Ranks]) -> Callable[[int], int]:
    """Return the function that simulates up to a cycle with the threads of a state.

    `known`: settings that `FlitRules` gets for the loop, by name. `programs`: those of the ranks of
    each thread; empty without ranks.
    """
    count, threads = net.count, len(net.members)
    team = Team(threads)
    nets = [net, *(_own(net) for _ in range(threads - 1))]
    states = []
    for number, (each, member) in enumerate(zip(nets, net.members, strict=True)):
        own = {name: int(member[name]) for name in OF_RULES}
        rules = net.rules._replace(member=number, **own, **known)
        state = each._replace(rules=rules, barrier=team.barrier)
        own_ranks = parts(programs[number]) if programs else None
        states.append((StateParts(state, hidden="routes"), own_ranks))
    need = (net.rules.classes * net.rules.window + 1) * net.rules.stride
    most = need * int((net.members["last_end"] - net.members["first_end"]).max())

    def until(cycle: int) -> int:
        why = NO_PACKETS
        while why == NO_PACKETS and int(count.packets) // threads >= most:
            each = int(count.packets) // threads
            for other in nets[1:]:
                count.packets -= each
                other.count.packets = each
                for name in ("now", "moved", "serial"):
                    other.count[name] = count[name]
                at = int(count.packets)
                other.free_packets[:each] = net.free_packets[at : at + each]
            why = team.run(run, [(state, ranks, cycle) for state, ranks in states])[0]
            for other in nets[1:]:
                _add(net, other)
        return int(why)

    return until


def _own(net: FlitNet) -> FlitNet:
    """Return the state with counts, packets and working arrays of another thread."""
    return net._replace(
        count=record(records.COUNT),
        scratch=net.scratch._make(map(np.zeros_like, net.scratch)),
        free_packets=np.zeros_like(net.free_packets),
        batches=np.zeros_like(net.batches),
        histogram=np.zeros_like(net.histogram),
    )


def _add(net: FlitNet, other: FlitNet) -> None:
    """Move what another thread has counted, and its free packets, to the state of the first one."""
    at, more = int(net.count.packets), int(other.count.packets)
    net.free_packets[at : at + more] = other.free_packets[:more]
    net.count.packets = at + more
    for name in ("moved", "serial"):
        net.count[name] = max(net.count[name], other.count[name])
    for name in SUMS:
        net.count[name] += other.count[name]
        other.count[name] = 0
    for name in records.BATCH.names or ():
        net.batches[name] += other.batches[name]
    net.histogram[:] += other.histogram
    other.batches[:], other.histogram[:] = 0, 0
