"""Settings of switches and adapters at the packet level, and their text form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, InstanceOf

from weft.core.errors import InputError
from weft.core.registry import convert, did_you_mean
from weft.core.settings import (
    Option,
    Positive,
    Rate,
    Setting,
    Settings,
    Truth,
    Whole,
    is_listed,
    settings,
)
from weft.core.units import Bytes, Nanoseconds
from weft.sim.packet.congestion_control import CongestionControl
from weft.sim.packet.pairs import Entries, pairs

Queues = Literal["input", "voq"]
QueuePairs = Literal["pair", "host"]

#: Local route header 8, base transport header 12, invariant CRC 4, variant CRC 2.
HEADER_BYTES = 26
#: Most entries of InfiniBand's tables of lane arbitration; largest weight and limit.
MAX_ENTRIES, MAX_BYTE = 64, 255
#: Longest latency, 10 hours: sums of times stay within 64 bits of picoseconds.
LONGEST_NS = 2**55 / 1000
Latency = Annotated[Nanoseconds, Field(le=LONGEST_NS)]
#: Largest packet in bytes, largest buffer in credits, and largest speed-up.
MAX_WIRE_BYTES, MAX_CREDITS, MAX_SPEEDUP = 2**30, 2**30, 1024
#: Most credits of all buffers of a node: 32 bits count the credits of packets that wait for a lane.
MAX_NODE_CREDITS = 2**31 - 1


def _lane_weights(given: object) -> object:
    table = pairs(given, "a lane and a weight")
    if len(table) > MAX_ENTRIES:
        raise ValueError(f"the table has {len(table)} entries; at most {MAX_ENTRIES} fit")
    for lane, weight in table:
        if not 0 <= lane <= 14 or not 0 <= weight <= MAX_BYTE:
            raise ValueError(
                f"entry {lane}:{weight}: the lane must be 0 to 14 and the weight 0 to {MAX_BYTE}"
            )
    return table


#: Entries of a table of lane arbitration: lane and weight.
LaneWeights = Annotated[tuple[tuple[int, int], ...], BeforeValidator(_lane_weights)]


@dataclass(frozen=True)
class VlArbitration(Settings):
    """InfiniBand's lane arbitration by weights.

    Parameters
    ----------
    high, low
        Lane and weight of each entry, in the order of service; weights count units of 64 bytes, 0
        skips the entry. Or text such as ``0:4,1:8``.
    limit
        Units of 4096 bytes of high priority that may pass while low priority waits: 0 is one
        packet, 255 is unlimited.

    Raises
    ------
    InputError
        On an entry or limit that InfiniBand's tables cannot hold.
    """

    high: Annotated[LaneWeights, Option("vlarb_high", written=Entries)] = ()
    low: Annotated[LaneWeights, Option("vlarb_low", written=Entries)] = ()
    limit: Annotated[Whole, Field(ge=0, le=MAX_BYTE), Option("high_limit")] = 0

    @property
    def lanes(self) -> set[int]:
        """Lanes with a weight above 0."""
        return {lane for lane, weight in (*self.high, *self.low) if weight > 0}


@dataclass(frozen=True)
class Hardware(Settings):
    """Switches and adapters; numbers in brackets are rules of docs/packet-level.md.

    Parameters
    ----------
    mtu_bytes
        Largest payload of a packet [1].
    header_bytes
        Bytes of a packet besides its payload [1].
    buffer_bytes
        Buffer of each incoming link and lane [5]: at most 2^30 credits, and less than 2^31 in all
        buffers of a switch, which a run checks.
    credit_bytes
        Buffer space of a credit [5].
    credit_latency_ns
        Latency of a credit return besides that of the cable [7].
    switch_latency_ns
        Time from the arrival of a packet's first byte to its routing [9].
    forward_latency_ns
        The same in hosts that forward; by default that of switches [9].
    queues
        One queue for each incoming link and lane (``input``), or one for each of these and each
        outgoing link (``voq``) [10].
    speedup
        Packets that can leave an input port at the same time [12]. With 1, a lane or virtual
        output queue can starve: its link is free only while its port is busy.
    vl_arbitration
        Tables of weights; round robin by default [15].
    queue_pairs
        A queue pair for each ``pair`` of ranks or one for each ``host`` [23].
    quantum_bytes
        Wire bytes that a queue pair sends before arbitration moves to the next queue pair, at
        least a packet [16].
    adapter_gbps
        Rate at which adapters read and write memory; by default not slower than links [8, 18].
    adapter_latency_ns
        Latency of adapters, at either end of a message [20].
    control_bytes
        Payload of the request and the answer of a rendez-vous [21].
    congestion_control
        InfiniBand's, by marks and notifications; none by default (docs/congestion-control.md).

    Raises
    ------
    InputError
        On an invalid value.
    """

    mtu_bytes: Annotated[Bytes, Field(ge=1)] = 2048
    header_bytes: Bytes = HEADER_BYTES
    buffer_bytes: Bytes = 16384
    credit_bytes: Annotated[Bytes, Field(ge=1)] = 64
    credit_latency_ns: Latency = 0.0
    switch_latency_ns: Latency = 100.0
    forward_latency_ns: Latency | None = None
    queues: Queues = "input"
    speedup: Annotated[Positive, Field(le=MAX_SPEEDUP)] = 2
    vl_arbitration: InstanceOf[VlArbitration] | None = None
    queue_pairs: QueuePairs = "pair"
    quantum_bytes: Annotated[Bytes, Field(le=MAX_WIRE_BYTES)] = 0
    adapter_gbps: Rate | None = None
    adapter_latency_ns: Latency = 0.0
    control_bytes: Annotated[Bytes, Field(le=MAX_WIRE_BYTES)] = 64
    congestion_control: InstanceOf[CongestionControl] | None = None

    def check(self) -> None:
        """Refuse packets that are too large, or buffers too small or too large for them."""
        if self.mtu_bytes + self.header_bytes > MAX_WIRE_BYTES:
            raise InputError(
                f"mtu_bytes and header_bytes must be at most {MAX_WIRE_BYTES:,}, not "
                f"{self.mtu_bytes + self.header_bytes:,}"
            )
        if self.buffer_credits > MAX_CREDITS:
            raise InputError(
                f"a buffer of {self.buffer_bytes:,} bytes holds more than {MAX_CREDITS:,} credits "
                f"of {self.credit_bytes} bytes"
            )
        needed = self.credits_of(self.mtu_bytes + self.header_bytes)
        if self.buffer_credits < needed:
            raise InputError(
                f"a buffer of {self.buffer_bytes} bytes holds {self.buffer_credits} credits of "
                f"{self.credit_bytes} bytes, but a packet of {self.mtu_bytes} + "
                f"{self.header_bytes} bytes needs {needed}"
            )

    @property
    def buffer_credits(self) -> int:
        """Credits of one buffer."""
        return self.buffer_bytes // self.credit_bytes

    def credits_of(self, wire_bytes: int) -> int:
        """Return the credits that a packet needs."""
        return -(-wire_bytes // self.credit_bytes)

    def packets_of(self, size_bytes: int) -> Sequence[int]:
        """Return the wire bytes of each packet of a message."""
        full, rest = divmod(size_bytes, self.mtu_bytes)
        payloads = [self.mtu_bytes] * full + [rest] * (rest > 0 or full == 0)
        return [payload + self.header_bytes for payload in payloads]


CONTROL = "congestion_control"


def _optional(item: Setting) -> Setting:
    """Return a setting of lane arbitration or congestion control as an optional one."""
    usual = item.option.usual or (f"{item.default}" if item.default != () else "")
    option = replace(item.option, usual=usual)
    return replace(item, hint=item.hint | None, default=None, option=option)


def _written() -> Iterator[Setting]:
    """Yield the settings of hardware as one flat table, with those of its parts."""
    for item in settings(Hardware):
        if item.field == "vl_arbitration":
            yield from map(_optional, settings(VlArbitration))
        elif item.field == CONTROL:
            option = Option(written=Truth, usual="true where one of the next is given")
            yield replace(item, option=option)
            yield from map(_optional, settings(CongestionControl))
        else:
            yield item


#: Keys of what the flow level takes; a buffer has to hold a packet, whatever uses it.
OF_FLOW = ("mtu", "header", "buffer", "switch_latency")
#: Every setting in files and on the command line, by its key.
WRITTEN: Mapping[str, Setting] = {item.key: item for item in _written()}
NAMES = tuple(WRITTEN)
_OF_LANES, _OF_CONTROL = (
    {item.key: item.field for item in settings(kind)} for kind in (VlArbitration, CongestionControl)
)
_KEYS = {item.field: item.key for item in WRITTEN.values()}
#: Field names in messages: at the start of a message, or with an underscore.
_FIELD = re.compile(rf"^({'|'.join(_KEYS)})\b|\b({'|'.join(n for n in _KEYS if '_' in n)})\b")


def hardware_of(given: Mapping[str, Any]) -> Hardware:
    """Return hardware from settings by `NAMES`; missing ones and None have their defaults.

    Parameters
    ----------
    given
        Numbers, or text with a unit; tables as ``"0:4,1:8"`` or a list of entries.

    Raises
    ------
    InputError
        On an unknown name or an invalid value.
    """
    wrong = next((name for name in given if name not in NAMES), None)
    if wrong is not None:
        raise InputError(
            f"hardware has no {wrong!r}{did_you_mean(wrong, NAMES)}; there are {', '.join(NAMES)}"
        )
    values = {name: _entries(value) for name, value in given.items() if value not in (None, (), [])}
    lanes, control = (
        {field: values.pop(key) for key, field in of.items() if key in values}
        for of in (_OF_LANES, _OF_CONTROL)
    )
    wanted = convert(values.pop(CONTROL, bool(control)), Truth, CONTROL)
    if lanes and not {"high", "low"} & set(lanes):
        raise InputError("high_limit needs a table of lanes, vlarb_high or vlarb_low")
    if control and not wanted:
        raise InputError(f"{CONTROL} is false, and {_KEYS[next(iter(control))]} is set")
    try:
        return Hardware(
            **{WRITTEN[key].field: value for key, value in values.items()},
            vl_arbitration=VlArbitration(**lanes) if lanes else None,
            congestion_control=CongestionControl(**control) if wanted else None,
        )
    except InputError as error:
        # Messages name fields by the keys that users write.
        raise InputError(_FIELD.sub(lambda match: _KEYS[match[0]], error.message)) from None


def check_known(given: Iterable[str], levels: Iterable[str]) -> None:
    """Refuse keys of hardware that no level knows.

    Raises
    ------
    InputError
        On the first of the packet level's own, where that level is none of these.
    """
    own = next((key for key in given if key not in OF_FLOW), None)
    if own is not None and "packet" not in levels:
        raise InputError(
            f"--hardware {own} goes with --level packet; the flow level takes {', '.join(OF_FLOW)}"
        )


def _entries(value: Any) -> Any:
    """Return a list of entries as one text; other values unchanged."""
    texts = isinstance(value, tuple | list) and all(isinstance(part, str) for part in value)
    return ",".join(value) if texts else value


def parse_hardware(words: Iterable[str]) -> dict[str, str]:
    """Parse settings from words such as ``mtu=4KiB,queues=voq`` or ``vlarb_high=0:4,1:8``.

    Raises
    ------
    InputError
        On text that is not NAME=VALUE, an unknown name, or a name given twice.
    """
    parsed: dict[str, str] = {}
    for word in words:
        last = ""
        for part in word.split(","):
            name, equals, value = (text.strip() for text in part.partition("="))
            name = name.replace("-", "_")
            # Entries of a table are also separated by commas.
            if not equals and last and is_listed(WRITTEN[last]) and part.strip():
                parsed[last] += "," + part.strip()
                continue
            if not equals or not value or not name:
                raise InputError(
                    f"{part.strip()!r} in {word!r}: expected NAME=VALUE, such as mtu=4KiB; names "
                    f"are {', '.join(NAMES)}"
                )
            if name not in NAMES:
                raise InputError(
                    f"unknown name {name!r}{did_you_mean(name, NAMES)}; there are "
                    f"{', '.join(NAMES)}"
                )
            if name in parsed:
                raise InputError(f"{name} is given twice")
            parsed[name] = value
            last = name
    return parsed
