"""InfiniBand's congestion control: settings of switches and adapters, and its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from weft.core.errors import InputError
from weft.core.settings import Option, Settings, Whole
from weft.kernels.packet import congestion_control as kernel
from weft.kernels.packet.net import Net
from weft.kernels.records import record
from weft.sim.packet.pairs import Entries, pairs

Victims = Literal["none", "hosts", "all"]
Per = Literal["qp", "sl"]
#: Entries of a congestion control table: shift and multiplier.
Table = tuple[tuple[int, int], ...]

#: Unit of `CongestionControl.ccti_timer` in ps, and of `packet_size` in bytes.
TIMER_PS = 1_024_000
SIZE_BYTES = 64
#: Largest values of InfiniBand's fields: threshold, fields of 8 and 16 bits, shift, multiplier.
MAX_THRESHOLD, MAX_8, MAX_16, MAX_SHIFT, MAX_MULTIPLIER = 15, 255, 65535, 3, 2**14 - 1


def quadratic_table(entries: int = 128, at: float = 95.0, delays: float = 7 / 0.218) -> Table:
    """Return a table whose delays grow with the square of the index, rounded to 1/8 packet time.

    Entry ``i`` delays by ``delays * (i / at)**2`` packet times. The defaults give the table built
    into adapters, as in a public generator of subnet manager settings.
    """
    if entries < 1 or not at > 0 or not delays >= 0:
        raise InputError(
            f"expected entries >= 1, at > 0 and delays >= 0, not entries={entries}, at={at} and "
            f"delays={delays}"
        )
    return tuple((3, int(8 * delays * (entry / at) ** 2)) for entry in range(entries))


QUADRATIC = quadratic_table()


def _checked(given: Any) -> Table:
    table = pairs(given, "a shift and a multiplier")
    for number, (shift, multiplier) in enumerate(table):
        if not 0 <= shift <= MAX_SHIFT or not 0 <= multiplier <= MAX_MULTIPLIER:
            raise ValueError(
                f"entry {number} is {shift}:{multiplier}; shifts are 0 to {MAX_SHIFT} and "
                f"multipliers 0 to {MAX_MULTIPLIER}"
            )
    if not table:
        raise ValueError("it has no entries")
    return table


Cct = Annotated[Table, BeforeValidator(_checked)]
Byte = Annotated[Whole, Field(ge=0, le=MAX_8)]


@dataclass(frozen=True)
class CongestionControl(Settings):
    """Congestion control of InfiniBand's annex A10; docs/congestion-control.md has the rules.

    Names and units are those of the subnet manager's settings of switches and channel adapters.

    Parameters
    ----------
    threshold
        Weight, 0 to 15, of the threshold above which the queue of a port and lane is congested.
        With weight ``w`` the threshold is ``(16 - w) / 16`` of a buffer; with 0 no queue is ever
        congested.
    marking_rate
        Mean number of unmarked packets between two marked packets of a congested queue.
    packet_size
        Size below which packets are not marked, in units of 64 bytes.
    victims
        Ports that mark packets even if a full buffer downstream stops the port (the victim mask):
        ``none``, the ports to ``hosts``, or ``all``.
    ccti_increase
        Increment of the index into the table for each notification.
    ccti_limit
        Highest index; by default the index of the last entry of the table.
    ccti_min
        Lowest index.
    ccti_timer
        Time after which the index decreases by one, in units of 1.024 us.
    cct
        The table: shift and multiplier of each entry, or text such as ``0:0,3:12``. After a packet
        whose transfer on its link takes ``t``, a queue pair waits for
        ``(t >> shift) * multiplier``.
    per
        Unit that has its own index: each queue pair (``qp``) or each service level of a port
        (``sl``).

    Raises
    ------
    InputError
        If a value does not fit InfiniBand's fields, or an index is beyond the table.
    """

    threshold: Annotated[Whole, Field(ge=0, le=MAX_THRESHOLD), Option("cc_threshold")] = 8
    marking_rate: Annotated[Whole, Field(ge=0, le=MAX_16), Option("cc_marking_rate")] = 3
    packet_size: Annotated[Byte, Option("cc_packet_size")] = 0
    victims: Annotated[Victims, Option("cc_victims")] = "hosts"
    ccti_increase: Annotated[Byte, Field(ge=1)] = 1
    ccti_limit: Annotated[Whole | None, Option(usual="the last entry")] = None
    ccti_min: Byte = 0
    ccti_timer: Annotated[Whole, Field(ge=1, le=MAX_16)] = 40
    cct: Annotated[Cct, Option(written=Entries, usual="quadratic")] = QUADRATIC
    per: Annotated[Per, Option("cc_per")] = "qp"

    def check(self) -> None:
        """Refuse indices beyond the table."""
        if self.ccti_limit is None:
            object.__setattr__(self, "ccti_limit", len(self.cct) - 1)
        limit = self.limit
        if not 0 <= limit < len(self.cct):
            raise InputError(f"ccti_limit must be 0 to {len(self.cct) - 1}, not {limit}")
        if self.ccti_min > limit:
            raise InputError(f"ccti_min must be 0 to ccti_limit, {limit}, not {self.ccti_min}")

    @property
    def limit(self) -> int:
        """Highest index."""
        return len(self.cct) - 1 if self.ccti_limit is None else self.ccti_limit

    def threshold_credits(self, buffer_credits: int) -> int:
        """Return the credits that a queue may hold without being congested, for a buffer size."""
        return buffer_credits * (MAX_THRESHOLD + 1 - self.threshold) // (MAX_THRESHOLD + 1)


@dataclass(frozen=True, eq=False)
class CongestionRecord:
    """Counters of congestion control in a run."""

    #: int64 [links, lanes]: packets that were marked as they left via each link and lane.
    marked: NDArray[np.int64]
    #: int64 [queue pairs]: marked packets that arrived; each causes a notification.
    arrived: NDArray[np.int64]
    #: int64 [queue pairs]: notifications received.
    notified: NDArray[np.int64]
    #: int64 [queue pairs]: time for which packets were ready but an injection rate delay held them
    #: back.
    held_back_ps: NDArray[np.int64]
    #: Highest index into the table (of two queues, the larger): int64 [queue pairs], or int64
    #: [links * 16] if each service level of a link has its own index.
    highest: NDArray[np.int64]


def control_state(
    control: CongestionControl | None,
    buffer_credits: int,
    num_pairs: int,
    num_links: int,
    num_lanes: int,
) -> kernel.Control:
    """Return the kernel's initial state of congestion control."""
    settings = record(kernel.SETTINGS)
    pairs = groups = lanes = 1
    if control is not None:
        by_level = control.per == "sl"
        pairs, lanes = num_pairs, num_links * num_lanes
        groups = num_links * kernel.LEVELS if by_level else num_pairs
        threshold = control.threshold_credits(buffer_credits)
        settings = record(
            kernel.SETTINGS,
            threshold_credits=threshold if control.threshold else -1,
            smallest_bytes=control.packet_size * SIZE_BYTES,
            marking_rate=control.marking_rate,
            victims=get_args(Victims).index(control.victims),
            increase=control.ccti_increase,
            limit=control.limit,
            least=control.ccti_min,
            timer_ps=control.ccti_timer * TIMER_PS,
            by_level=by_level,
        )
    rates = np.zeros(groups, dtype=kernel.RATE)
    rates["index"] = rates["highest"] = settings["least"]
    marked = np.zeros(lanes, dtype=kernel.MARKED_LANE)
    marked["first_notice"] = marked["last_notice"] = -1
    return kernel.Control(
        settings=settings,
        table=np.array([(0, 0)] if control is None else list(control.cct), dtype=kernel.DELAY),
        paces=np.zeros(pairs, dtype=kernel.PACE),
        rates=rates,
        lanes=marked,
    )


def congestion_record(net: Net) -> CongestionRecord | None:
    """Return the counters of congestion control, None if it is off."""
    if not net.rules["has_control"]:
        return None
    queues, rates = int(net.rules["queues"]), net.control.rates["highest"]
    paces = net.control.paces.reshape(queues, -1)
    by_queue = rates.reshape(1 if net.control.settings["by_level"] else queues, -1)
    return CongestionRecord(
        marked=net.control.lanes["marked_packets"].reshape(-1, int(net.rules["lanes"])).copy(),
        arrived=paces["marked_packets"].sum(axis=0),
        notified=paces["notifications"].sum(axis=0),
        held_back_ps=paces["held_back_ps"].sum(axis=0),
        highest=by_queue.max(axis=0),
    )
