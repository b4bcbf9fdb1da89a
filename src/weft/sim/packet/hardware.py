"""Settings of switches and adapters at the packet level, and their text form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, InstanceOf

from weft.core.errors import InputError
from weft.core.registry import convert, wrong_name
from weft.core.settings import (
    Option,
    Positive,
    Rate,
    Setting,
    Settings,
    Truth,
    Whole,
    parse_words,
    settings,
)
from weft.core.units import Bytes, Nanoseconds
from weft.sim.common.times import LONGEST_NS
from weft.sim.packet.congestion_control import CongestionControl
from weft.sim.packet.pairs import Entries, pairs

Queues = Literal["input", "voq"]
QueuePairs = Literal["pair", "host"]

#: Bytes: local route header 8, base transport header 12, invariant CRC 4, variant CRC 2.
HEADER_BYTES = 26
#: Largest number of entries of InfiniBand's lane arbitration tables; largest weight or limit.
MAX_ENTRIES, MAX_BYTE = 64, 255
Latency = Annotated[Nanoseconds, Field(le=LONGEST_NS)]
#: Largest packet in bytes, largest buffer in credits, and largest speed-up.
MAX_WIRE_BYTES, MAX_CREDITS, MAX_SPEEDUP = 2**30, 2**30, 1024
#: Largest sum of credits of the buffers of a node: the credits of packets that wait for one lane
#: are counted in 32 bits.
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
        Lane and weight of each entry, in the order of service, or text such as ``0:4,1:8``. Weights
        are in units of 64 bytes; an entry of weight 0 is skipped.
    limit
        Amount of high-priority data that may pass while low priority waits, in units of 4096 bytes:
        0 means one packet, 255 unlimited.

    Raises
    ------
    InputError
        If an entry or the limit does not fit InfiniBand's tables.
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
    """Settings of switches and adapters; numbers in brackets are rules of docs/packet-level.md.

    Parameters
    ----------
    mtu_bytes
        Largest payload of a packet [1].
    header_bytes
        Bytes of a packet besides its payload [1].
    buffer_bytes
        Size of the buffer of each incoming link and lane [5]: at most 2^30 credits. All buffers of
        a switch together must have less than 2^31 credits, which is checked before a run.
    credit_bytes
        Buffer space of a credit [5].
    credit_latency_ns
        Latency of a credit return in addition to the latency of the cable [7].
    switch_latency_ns
        Time from the arrival of a packet's first byte to its routing [9].
    forward_latency_ns
        Time from the arrival of a packet's first byte to its routing, in hosts that forward; by
        default `switch_latency_ns` [9].
    queues
        One queue for each incoming link and lane (``input``), or one for each combination of
        incoming link, lane and outgoing link (``voq``) [10].
    speedup
        Number of packets that can leave an input port at the same time [12]. With 1, a lane or
        virtual output queue can starve if its output link is only free while its input port is
        busy.
    vl_arbitration
        Lane arbitration by tables of weights; by default, lanes take turns (round robin) [15].
    queue_pairs
        One queue pair for each ``pair`` of ranks, or one for each ``host`` [23].
    quantum_bytes
        Bytes, headers included, that a queue pair sends before arbitration moves to the next queue
        pair; at least one packet [16].
    adapter_gbps
        Rate at which adapters read and write memory, headers included; by default, memory is not
        slower than links [8, 18].
    adapter_latency_ns
        Latency of an adapter, which applies at both ends of a message [20].
    control_bytes
        Payload of the request and of the answer of a rendezvous [21].
    congestion_control
        InfiniBand congestion control by marks and notifications (docs/congestion-control.md); by
        default off.

    Raises
    ------
    InputError
        If a value is invalid.
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
    adapter_latency_ns: Annotated[
        Latency | None, Option(usual="0, or that of the host parameters")
    ] = None
    control_bytes: Annotated[Bytes, Field(le=MAX_WIRE_BYTES)] = 64
    congestion_control: InstanceOf[CongestionControl] | None = None

    def check(self) -> None:
        """Refuse packets that are too large, and buffers that are too small or too large."""
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


CONTROL = "congestion_control"


def _optional(item: Setting) -> Setting:
    """Return a setting of lane arbitration or congestion control as an optional one."""
    usual = item.option.usual or (f"{item.default}" if item.default != () else "")
    option = replace(item.option, usual=usual)
    return replace(item, hint=item.hint | None, default=None, option=option)


def _written() -> Iterator[Setting]:
    """Yield the settings of hardware, including those of its parts, as one flat table."""
    for item in settings(Hardware):
        if item.field == "vl_arbitration":
            yield from map(_optional, settings(VlArbitration))
        elif item.field == CONTROL:
            option = Option(written=Truth, usual="true if one of the settings below is given")
            yield replace(item, option=option)
            yield from map(_optional, settings(CongestionControl))
        else:
            yield item


#: Level -> keys of the settings that it accepts; they include the buffer because a buffer must hold
#: a packet.
OF_LEVEL: Mapping[str, tuple[str, ...]] = {
    "flow": ("mtu", "header", "buffer", "switch_latency", "adapter_gbps", "adapter_latency"),
    "flit": ("mtu", "header", "buffer", "control", "adapter_latency"),
}
#: Every setting by its key in files and on the command line.
WRITTEN: Mapping[str, Setting] = {item.key: item for item in _written()}
NAMES = tuple(WRITTEN)
_OF_LANES, _OF_CONTROL = (
    {item.key: item.field for item in settings(kind)} for kind in (VlArbitration, CongestionControl)
)
_KEYS = {item.field: item.key for item in WRITTEN.values()}
#: Field names in messages: at the start of a message, or with an underscore.
_FIELD = re.compile(rf"^({'|'.join(_KEYS)})\b|\b({'|'.join(n for n in _KEYS if '_' in n)})\b")


def hardware_of(given: Mapping[str, Any]) -> Hardware:
    """Return hardware from settings by key (`WRITTEN`); missing settings and None mean defaults.

    `given`: settings by key: numbers, or text with a unit; tables are text such as ``"0:4,1:8"`` or
    a list of entries.
    """
    wrong = next((name for name in given if name not in NAMES), None)
    if wrong is not None:
        raise InputError(wrong_name("hardware has no", wrong, NAMES, "there are"))
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
        # In messages, replace the names of fields by the keys that users write.
        raise InputError(_FIELD.sub(lambda match: _KEYS[match[0]], error.message)) from None


def check_known(given: Iterable[str], levels: Iterable[str]) -> None:
    """Refuse keys of hardware that none of the levels uses."""
    if "packet" in levels:
        return
    lists = {level: OF_LEVEL[level] for level in levels if level in OF_LEVEL}
    for key in given:
        if not any(key in known for known in lists.values()):
            others = [level for level, known in OF_LEVEL.items() if key in known]
            takes = "; ".join(
                f"the {level} level takes {', '.join(lists[level])}" for level in lists
            )
            raise InputError(
                f"--hardware {key} goes with --level {' or '.join([*others, 'packet'])}; {takes}"
            )


def _entries(value: Any) -> Any:
    """Return a list of entries joined to one text; return other values unchanged."""
    texts = isinstance(value, tuple | list) and all(isinstance(part, str) for part in value)
    return ",".join(value) if texts else value


def parse_hardware(words: Iterable[str]) -> dict[str, str]:
    """Parse settings from words such as ``mtu=4KiB,queues=voq`` or ``vlarb_high=0:4,1:8``."""
    return parse_words(words, WRITTEN, "mtu=4KiB")
