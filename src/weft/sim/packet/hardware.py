"""What switches and adapters are like at the packet level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from weft.core.errors import InputError
from weft.core.registry import convert
from weft.core.units import Bytes, Nanoseconds
from weft.sim.packet.congestion_control import CongestionControl
from weft.sim.packet.pairs import pairs

Queues = Literal["input", "voq"]
QueuePairs = Literal["pair", "host"]
#: Entries of a table of lane arbitration: lane and weight.
LaneWeights = tuple[tuple[int, int], ...]

#: Local route header 8, base transport header 12, invariant CRC 4, variant CRC 2.
HEADER_BYTES = 26
#: InfiniBand's tables of lane arbitration have so many entries, weights and limits one byte.
MAX_ENTRIES, MAX_BYTE = 64, 255
#: Longest latency, 10 hours: sums of times stay within 64 bits of picoseconds.
LONGEST_NS = 2**55 / 1000
#: Largest packet and largest buffer in credits, and most packets that leave a port at a time.
MAX_WIRE_BYTES, MAX_CREDITS, MAX_SPEEDUP = 2**30, 2**30, 1024
#: Credits of all buffers of a node: a lane counts those of packets that wait for it in 32 bits.
MAX_NODE_CREDITS = 2**31 - 1


@dataclass(frozen=True)
class VlArbitration:
    """InfiniBand's lane arbitration by weights.

    Parameters
    ----------
    high, low
        Lane and weight of each entry, in the order in which they take turns; weights count units
        of 64 bytes, 0 skips the entry. Or text as ``0:4,1:8``.
    limit
        How many times 4096 bytes of high priority may pass while low waits: 0 is one packet, 255
        without end.

    Raises
    ------
    InputError
        On an entry or limit that InfiniBand's tables cannot hold.
    """

    high: LaneWeights = ()
    low: LaneWeights = ()
    limit: int = 0

    def __post_init__(self) -> None:
        for name in ("high", "low"):
            table = pairs(getattr(self, name), f"the {name} table", "a lane and a weight")
            object.__setattr__(self, name, table)
            if len(table) > MAX_ENTRIES:
                raise InputError(f"the {name} table has {len(table)} entries; 64 fit")
            for lane, weight in table:
                if not 0 <= lane <= 14 or not 0 <= weight <= MAX_BYTE:
                    raise InputError(
                        f"{lane}:{weight} in the {name} table; lanes are 0 to 14 and weights 0 to "
                        f"{MAX_BYTE}"
                    )
        object.__setattr__(self, "limit", convert(self.limit, int, "limit"))
        if not 0 <= self.limit <= MAX_BYTE:
            raise InputError(f"a limit of high priority is 0 to {MAX_BYTE}, not {self.limit}")

    @property
    def lanes(self) -> set[int]:
        """Lanes that may send at all."""
        return {lane for lane, weight in (*self.high, *self.low) if weight > 0}


@dataclass(frozen=True)
class Hardware:
    """Switches and adapters; docs/packet-level.md has the rules, whose numbers stand in brackets.

    Parameters
    ----------
    mtu_bytes
        Largest payload of a packet [1].
    header_bytes
        Of each packet besides [1].
    buffer_bytes
        Of each incoming link and lane [5]: at most 2^30 credits, and less than 2^31 in all buffers
        of a switch, which a run checks.
    credit_bytes
        What a credit stands for [5].
    credit_latency_ns
        Of a credit on its way back, besides the cable's [7].
    switch_latency_ns
        From a packet's first byte to its being routed [9].
    forward_latency_ns
        The same in hosts that forward; the switches' when left out [9].
    queues
        One queue for each incoming link and lane (``input``), or one for each outgoing link as well
        (``voq``) [10].
    speedup
        Packets that leave an input port at a time [12]. With 1, a lane or virtual output queue
        can starve: its link is free only while its port is busy.
    vl_arbitration
        Tables of weights; lanes take turns when left out [15].
    queue_pairs
        A queue pair for each ``pair`` of ranks or one for each ``host`` [23].
    turn_bytes
        Wire bytes that a queue pair sends before the next one in its line has its turn, at least a
        packet [16].
    adapter_gbps
        At which adapters read and write memory; not slower than the links when left out [8, 18].
    adapter_latency_ns
        Of adapters, at either end of a message [20].
    control_bytes
        Payload of the request and the answer of a rendez-vous [21].
    congestion_control
        InfiniBand's, by marks and notifications; none when left out (docs/congestion-control.md).

    Raises
    ------
    InputError
        On a value that cannot be.
    """

    mtu_bytes: Bytes = 2048
    header_bytes: Bytes = HEADER_BYTES
    buffer_bytes: Bytes = 16384
    credit_bytes: Bytes = 64
    credit_latency_ns: Nanoseconds = 0.0
    switch_latency_ns: Nanoseconds = 100.0
    forward_latency_ns: Nanoseconds | None = None
    queues: Queues = "input"
    speedup: int = 2
    vl_arbitration: VlArbitration | None = None
    queue_pairs: QueuePairs = "pair"
    turn_bytes: Bytes = 0
    adapter_gbps: float | None = None
    adapter_latency_ns: Nanoseconds = 0.0
    control_bytes: Bytes = 64
    congestion_control: CongestionControl | None = None

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            if field.name in ("vl_arbitration", "congestion_control"):
                continue
            value = convert(getattr(self, field.name), hints[field.name], field.name)
            object.__setattr__(self, field.name, value)
        self._check()

    def _check(self) -> None:
        for name in ("mtu_bytes", "credit_bytes", "speedup"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, not {getattr(self, name)}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_ns") and value is not None and not value <= LONGEST_NS:
                raise InputError(f"{field.name} must be at most {LONGEST_NS:.4g} ns, not {value:g}")
        for name, value, most in (
            ("mtu_bytes and header_bytes", self.mtu_bytes + self.header_bytes, MAX_WIRE_BYTES),
            ("control_bytes", self.control_bytes, MAX_WIRE_BYTES),
            ("turn_bytes", self.turn_bytes, MAX_WIRE_BYTES),
            ("speedup", self.speedup, MAX_SPEEDUP),
        ):
            if value > most:
                raise InputError(f"{name} must be at most {most:,}, not {value:,}")
        if self.adapter_gbps is not None and not 0 < self.adapter_gbps < float("inf"):
            raise InputError(f"adapter_gbps must be above 0, not {self.adapter_gbps}")
        if self.vl_arbitration is not None and not isinstance(self.vl_arbitration, VlArbitration):
            raise InputError(f"expected a VlArbitration, not {self.vl_arbitration!r}")
        control = self.congestion_control
        if control is not None and not isinstance(control, CongestionControl):
            raise InputError(f"expected a CongestionControl, not {control!r}")
        for name, known in (("queues", Queues), ("queue_pairs", QueuePairs)):
            if getattr(self, name) not in get_args(known):
                there = ", ".join(get_args(known))
                raise InputError(f"unknown {name} {getattr(self, name)!r}; there are {there}")
        if self.buffer_credits > MAX_CREDITS:
            raise InputError(
                f"a buffer of {self.buffer_bytes:,} bytes holds more than {MAX_CREDITS:,} credits "
                f"of {self.credit_bytes} bytes"
            )
        needed = self.credits_of(self.mtu_bytes + self.header_bytes)
        if self.buffer_credits < needed:
            raise InputError(
                f"a buffer of {self.buffer_bytes} bytes holds {self.buffer_credits} credits of "
                f"{self.credit_bytes} bytes, and a packet of {self.mtu_bytes} + "
                f"{self.header_bytes} bytes needs {needed}"
            )

    @property
    def buffer_credits(self) -> int:
        """Credits of one buffer."""
        return self.buffer_bytes // self.credit_bytes

    def credits_of(self, wire_bytes: int) -> int:
        """Credits that a packet takes."""
        return -(-wire_bytes // self.credit_bytes)

    def packets_of(self, size_bytes: int) -> Sequence[int]:
        """Wire bytes of the packets of a message."""
        whole, rest = divmod(size_bytes, self.mtu_bytes)
        payloads = [self.mtu_bytes] * whole + [rest] * (rest > 0 or whole == 0)
        return [payload + self.header_bytes for payload in payloads]

    def table(self) -> dict[str, Any]:
        """Every setting by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
