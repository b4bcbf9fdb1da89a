"""Parts of the reference implementation of the flit level; times are cycles."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.reference.balance import mix


@dataclass(eq=False)
class Packet:
    source: int
    destination: int
    kind: int  # its class of traffic
    size: int
    born: int
    key: int
    entered: int = -1  # cycle in which the source sends the first flit
    came: int = -1  # cycle in which its first flit came to the present router
    routers: int = 0  # that it has left
    way: int = 0  # latencies of the links that it took
    acknowledged: bool = False
    only: range | None = None  # lanes of its class that the routing allows; None: all
    crossed: set[int] = field(default_factory=set)  # dimensions whose dateline it has crossed
    second: bool = False  # whether it has been at its intermediate router

    def drawn(self, count: int) -> int:
        """Return the number that the routing draws of `count`."""
        return (mix(self.key ^ self.routers) >> 32) * count >> 32


class Flit(NamedTuple):
    packet: Packet
    number: int

    @property
    def is_tail(self) -> bool:
        return self.number == self.packet.size - 1


@dataclass(eq=False)
class Lane:
    """Output at the tail of a link, and buffer at its head."""

    link: Link
    number: int
    credits: int  # of its own
    borrowed: int = 0  # places in use of the shared ones
    owner: Lane | Packet | None = None
    queue: deque[tuple[int, Flit]] = field(default_factory=deque)  # with the cycle to leave
    buffer: deque[Flit] = field(default_factory=deque)
    # Of the packet at the front of the buffer.
    waits_from: int = 0
    choice: Link | None = None
    out: Lane | None = None
    may_use_from: int = 0

    @property
    def packet(self) -> Packet:
        return self.buffer[0].packet

    @property
    def load(self) -> int:
        """Flits in the queue, and places in use at the other end or on the way."""
        return len(self.queue) + self.link.own - self.credits + self.borrowed

    @property
    def has_place(self) -> bool:
        return self.link.ends_at_endpoint or self.credits > 0 or self.link.shared > 0


@dataclass(eq=False)
class Link:
    number: int
    ends_at_endpoint: bool
    latency: int
    interval: int
    own: int = 0  # places of each lane
    shared: int = 0  # credits for the shared places
    lanes: list[Lane] = field(default_factory=list)
    flits: int = 0
    free_from: int = 0  # cycle in which it takes the next flit
    # As an output.
    given: int = -1  # the lane given last
    given_port: int = -1  # the input port of which a packet got a lane last
    holder: Packet | None = None  # of which it has sent some flits, but not all
    ports_served: list[int] = field(default_factory=list)  # each once, the last one at the end
    queue_served: int = -1  # the lane whose queue sent last
    # As an input.
    port: int = -1
    got: int = -1  # the lane of which a packet got an output lane last
    lanes_served: list[int] = field(default_factory=list)
    wait: int = 0


@dataclass(eq=False)
class Switch:
    number: int
    inputs: list[Link]
    outputs: list[Link]
    granted: Counter[Link] = field(default_factory=Counter)  # inputs and outputs, in this cycle


@dataclass(eq=False)
class Endpoint:
    number: int
    link: Link
    stream: int
    birth: float
    targets: list[int]
    drawn: int = 0
    packets: int = 0
    ejected: int = 0
    sending: dict[Lane, deque[Flit]] = field(default_factory=dict)
    last: int = -1  # the lane that sent last
    replies: deque[Packet] = field(default_factory=deque)
    # The adapter.
    busy_until: int = 0
    handled: str = ""  # the packet before: "sent", "received", or no packet

    def uniform(self) -> float:
        self.drawn += 1
        return ((mix(self.stream ^ self.drawn) >> 11) + 1) / 2**53

    def next_key(self) -> int:
        self.packets += 1
        return mix(self.stream ^ mix(self.packets))


def after(items: Sequence[Any], last: int) -> list[Any]:
    """Return the items in rotating order, from the one after number `last`."""
    return [*items[last + 1 :], *items[: last + 1]]
