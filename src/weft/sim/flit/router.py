"""Settings of the routers of the flit level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from weft.core.errors import InputError
from weft.core.settings import Option, Settings, Truth, Whole, parse_words, settings

Switching = Literal["wormhole", "cut-through", "store-and-forward"]
Allocator = Literal["input-first", "output-first", "islip"]
Arbiter = Literal["round-robin", "least-recent", "age"]

#: Bits of the masks of ports and of lanes.
MOST_PORTS, MOST_LANES = 64, 32
#: Largest number of places of a buffer, of cycles of a delay, and of iterations.
MOST_PLACES, MOST_CYCLES, MOST_ITERATIONS = 2**15 - 1, 2**15, 64
#: Least number of places of a buffer by default.
LEAST_PLACES = 8

Cycles = Annotated[Whole, Field(ge=0, le=MOST_CYCLES)]
Speedup = Annotated[Whole, Field(ge=1, le=MOST_PORTS)]


@dataclass(frozen=True)
class Router(Settings):
    """Settings of all routers; delays are cycles.

    Parameters
    ----------
    lanes
        Virtual channels of each link.
    buffer
        Flits that each virtual channel's own part of a buffer holds.
    shared_buffer
        Further flits of a buffer, which all virtual channels of the link share.
    output_buffer
        Flits that the output queue of a virtual channel holds; 0 for routers without output queues.
    routing_delay
        Time to choose the output link of a packet at the front of a buffer.
    vc_delay
        Time to allocate a virtual channel of that link.
    switch_delay
        Time from switch allocation to the departure of a flit: allocation and traversal.
    credit_delay
        Time from switch allocation to the departure of the credit, without the link.
    speculative
        Whether packets bid for the switch while they wait for a virtual channel.
    allocator
        Allocator of the switch: separable with ``input-first`` or ``output-first``, or ``islip``
        (output first; priorities move only with grants of the first iteration).
    iterations
        Iterations of switch allocation in a cycle.
    arbiter
        Who is served: ``round-robin``, ``least-recent`` (the least recently served, as a matrix
        arbiter does) or ``age`` (the oldest packet).
    input_speedup, output_speedup
        Flits that an input, and an output, of the switch passes in a cycle.
    hold_switch
        Whether an output serves one packet at a time.
    switching
        ``wormhole``; ``cut-through``: a packet needs room for all its flits in the next buffer; or
        ``store-and-forward``: also, all its flits must have arrived.
    atomic
        Whether a packet may use a virtual channel only when its buffer is empty; always so with
        wormhole switching and routings that would deadlock otherwise (``adaptive``, ``dal``).

    Raises
    ------
    InputError
        If a value is out of range, or values do not work together.
    """

    lanes: Annotated[Whole, Field(ge=1, le=MOST_LANES)] = 4
    buffer: Annotated[
        Annotated[Whole, Field(ge=1, le=MOST_PLACES)] | None,
        Option(
            usual="the cycles in which the credit of a head flit comes back over the longest "
            "cable, at least 8, and a whole packet unless switching is wormhole"
        ),
    ] = None
    shared_buffer: Annotated[Whole, Field(ge=0, le=MOST_PLACES)] = 0
    output_buffer: Annotated[Whole, Field(ge=0, le=MOST_PLACES)] = 0
    routing_delay: Cycles = 0
    vc_delay: Cycles = 1
    switch_delay: Cycles = 2
    credit_delay: Cycles = 1
    speculative: Truth = False
    allocator: Allocator = "input-first"
    iterations: Annotated[Whole, Field(ge=1, le=MOST_ITERATIONS)] = 1
    arbiter: Arbiter = "round-robin"
    input_speedup: Speedup = 1
    output_speedup: Speedup = 1
    hold_switch: Truth = False
    switching: Switching = "wormhole"
    atomic: Truth = False

    def check(self) -> None:
        """Refuse settings that do not work together."""
        places = (self.buffer or 0) + self.shared_buffer
        if places > MOST_PLACES:
            raise InputError(
                f"buffer and shared_buffer are {places} flits; at most {MOST_PLACES:,} fit"
            )
        if self.output_speedup > max(self.output_buffer, 1):
            raise InputError(
                f"an output that takes {self.output_speedup} flits in a cycle needs an "
                f"output_buffer of as many flits, not {self.output_buffer}"
            )
        if self.input_speedup > self.lanes:
            raise InputError(
                f"an input passes one flit of each lane in a cycle, so input_speedup is at most "
                f"the number of lanes, {self.lanes}, not {self.input_speedup}"
            )
        if self.speculative and self.vc_delay == 0:
            raise InputError("speculative allocation saves nothing with vc_delay 0")
        if self.output_buffer and self.hold_switch:
            raise InputError("hold_switch goes with routers without output queues")

    def sized(self, largest: int, latency: int, keep_escapes: bool = False) -> Router:
        """Return the settings of a run, with a number for `buffer`.

        One virtual channel carries a flit in each cycle if its buffer holds the flits of a credit
        round trip: `switch_delay` + `credit_delay` + twice the latency of the link, and for the
        head flit of a packet also `routing_delay` + `vc_delay`.

        Parameters
        ----------
        largest
            Largest packet, flits.
        latency
            Longest latency of a link, cycles.
        keep_escapes
            Whether the routing can deadlock if a packet gets a lane with flits of another one. Then
            wormhole routers are made `atomic`, or ``cut-through`` for packets of one flit.

        Raises
        ------
        InputError
            If a buffer cannot hold a packet that it must hold, or too few flits for a round trip.
        """
        whole = 0 if self.switching == "wormhole" else largest
        sized = self
        if keep_escapes and not whole:
            # Packets of one flit only need room in the lane that they get.
            sized = (
                replace(self, atomic=True)
                if largest > 1
                else replace(self, switching="cut-through")
            )
            whole = 1 if largest == 1 else 0
        if self.buffer is None:
            trip = self.routing_delay + self.vc_delay + self.switch_delay + self.credit_delay
            trip += 2 * latency
            places = max(LEAST_PLACES, trip, whole)
            if places + self.shared_buffer > MOST_PLACES:
                raise InputError(
                    f"a credit round trip takes {trip:,} cycles and a packet has {largest:,} "
                    f"flits; buffers hold at most {MOST_PLACES:,} flits, so set buffer"
                )
            sized = replace(sized, buffer=places)
        assert sized.buffer is not None
        room = sized.buffer + sized.shared_buffer
        if room < whole:
            raise InputError(
                f"{self.switching} needs buffers for a packet of {largest} flits, not of {room}"
            )
        return sized


def parse_router(words: Iterable[str]) -> dict[str, str]:
    """Parse settings from words such as ``lanes=4,buffer=16``."""
    return parse_words(words, {item.key: item for item in settings(Router)}, "lanes=4")
