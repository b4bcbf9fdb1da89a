"""Fast-forward of packet-level runs: which runs it is for, its state, and what was skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from weft.core.errors import InputError
from weft.kernels.packet import engine, steady
from weft.kernels.packet.net import Net
from weft.kernels.packet.records import NEVER
from weft.kernels.packet.steady import Steady
from weft.kernels.parts import ENTRIES, StateParts, address_of
from weft.kernels.program.operations import PUT, SEND
from weft.kernels.program.state import HEAP_SIZE, Heap, Ranks
from weft.kernels.records import aligned, record
from weft.workload import Workload

if TYPE_CHECKING:
    from weft.sim.packet.connections import Connections
    from weft.sim.packet.policies import Policy


def check_fast_forward(
    workload: Workload,
    connections: Connections,
    policy: Policy,
    keyed: bool,
    options: Mapping[str, Any],
) -> None:
    """Refuse runs whose traffic does not settle, whose packets take several paths, or snapshots."""
    if options["hardware"].congestion_control is not None:
        why, change = "congestion control changes rates all the time", "switch it off"
    elif policy.entry is not None and not policy.is_fixed:
        why = f"policy {policy.entry.name} chooses a path for each packet"
        change = "use a policy with one path per connection, such as ecmp"
    elif keyed:
        why, change = "routing keys change paths", "use other routes"
    elif connections.several_paths:
        why, change = "messages are sent to several LIDs in turn", "use lids first or hash"
    elif options["snapshot_ns"] is not None:
        why, change = "snapshots show all packets under way", "take no snapshots"
    elif (
        len(release := workload.release_ns)
        and (release[np.isin(workload.kind, (SEND, PUT))] > 0).any()
    ):
        why, change = "messages of open-loop traffic begin at any time", "use closed-loop traffic"
    else:
        return
    raise InputError(f"fast_forward skips what has settled, but {why}: {change}, or leave it out")


@dataclass(frozen=True)
class Skipped:
    """What a run skipped: packet-hops, and the number of times that a part of the traffic was.

    As it repeated itself exactly, all times and counters are those of the full run.
    """

    hops: int
    times: int

    def text(self, hops: int) -> str:
        """Return one line, for a run of a number of packet-hops."""
        return (
            f"Fast-forward: skipped {self.hops / max(hops, 1):.1%} of packet-hops, error bound 0 "
            "of the makespan: what was skipped repeated itself exactly"
        )


class FastForward:
    """Skips what repeats itself in a run; see `weft.kernels.packet.steady`."""

    def __init__(self, net: Net, ranks: Ranks):
        links, ops = len(net.topology.links), len(ranks.program.kind)
        longest = int(ranks.program.size_bytes.max(initial=0))
        is_watched = longest >= steady.SHORTEST * net.rules.mtu_bytes
        net.rules["is_watched"] = is_watched
        times = np.zeros(2 * links + 1024, dtype=np.int64)
        self.state = Steady(
            state=record(steady.STATE, resume_ps=NEVER, rests_until=0 if is_watched else NEVER),
            parts=aligned(links, steady.PART, {"next_ps": NEVER}),
            owner=np.full(links, -1, dtype=np.int32),
            next_link=np.zeros(links, dtype=np.int32),
            next_op=np.zeros(ops, dtype=np.int32),
            is_active=np.zeros(ops, dtype=np.uint8),
            tallies=np.zeros(4 * len(net.lanes) + len(net.queues) + links + ops, dtype=np.int64),
            recent=np.zeros(links * steady.RECENT, dtype=np.uint64),
            path=np.zeros(links, dtype=np.int32),
            due=np.zeros(links, dtype=np.int32),
            asking=np.zeros(links, dtype=np.int32),
            known=np.full(steady.KNOWN * steady.LONGEST, -1, dtype=np.int32),
            actions=Heap(times, np.zeros_like(times), record(HEAP_SIZE)),
        )
        self.parts = StateParts(self.state)

    def advance(self, parts: Sequence[StateParts], until: int, instants: int) -> int:
        """Simulate as `weft.kernels.packet.engine.run` does, which is called by its address."""
        net, ranks = parts
        ENTRIES.setdefault(engine.run, engine.run)
        kinds = types.int64, net._numba_type_, ranks._numba_type_, types.int64, types.int64
        loop = address_of(engine.run, *kinds)
        return int(steady.advance(net, ranks, self.parts, loop, until, instants))

    def stop(self, net: Net) -> None:
        """End all freezes, for the result of a run that was stopped."""
        steady.stop(StateParts(net), self.parts)

    def skipped(self) -> Skipped:
        """Return what has been skipped."""
        done = self.state.state
        return Skipped(int(done["skipped_hops"]), int(done["freezes"]))
