"""`qsnet`: options of the flit level for the Quadrics network QsNET (Elan3 and Elite).

All values follow from the description of the hardware in Petrini, Frachtenberg, Hoisie and Coll,
"Performance Evaluation of the Quadrics Interconnection Network" (2003), sections 2, 4 and 5.1 to
5.2; docs/qsnet.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from weft.core.settings import Number, Settings, Whole, known_fields, settings
from weft.core.units import Bytes, Nanoseconds
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import MOST_LANES, MOST_PLACES, Router
from weft.sim.packet.hardware import Hardware

Memory = Literal["elan", "main"]
Library = Literal["elan3lib", "mpi"]

#: Payload rates of an adapter in MB/s, from the ping tests: one way, and each way of two. Between
#: Elan memories the link is slower than the adapter one way.
RATES: dict[Memory, tuple[float, float]] = {"elan": (335.0, 280.0), "main": (200.0, 80.0)}
#: Time of an empty message from the request to the notification of its completion, ns.
EMPTY_NS: dict[Library, float] = {"elan3lib": 2200.0, "mpi": 5500.0}
#: Part of that time that the network takes: 29 flits, links of 2 m and one to five switches.
NETWORK_NS = 200.0


@dataclass(frozen=True)
class QsNet(Settings):
    """Description of a QsNET, with the default values of Elan3 and Elite.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    #: Largest payload of a packet: five transactions of 64 bytes.
    payload_bytes: Annotated[Bytes, Field(ge=1)] = 320
    #: Other bytes of a packet: routing information, headers of transactions, checks and EOP.
    overhead_bytes: Annotated[Bytes, Field(ge=2)] = 58
    #: Size of a flit.
    flit_bytes: Annotated[Bytes, Field(ge=1, le=64)] = 2
    #: Rate of each direction of a link: 400 MB/s.
    link_gbps: Annotated[Number, Field(gt=0)] = 3.2
    #: Virtual channels of each direction of a link.
    channels: Annotated[Whole, Field(ge=1, le=MOST_LANES)] = 2
    #: Flits that the buffer of a virtual channel holds.
    fifo_flits: Annotated[Whole, Field(ge=1, le=MOST_PLACES)] = 128
    #: Latency of a switch, for flits and for acknowledgements.
    flow_through_ns: Nanoseconds = 35.0
    #: Memory of the communication buffers: of the adapter (``elan``), or ``main`` memory, which the
    #: adapter reaches over a 33 MHz PCI bus.
    memory: Memory = "elan"
    #: Library that posts and completes messages. ``mpi`` matches tags on the adapter's thread
    #: processor.
    library: Library = "elan3lib"
    #: Packets that an adapter has under way. As each has a virtual channel of the adapter's link,
    #: the next packet is sent while the last one waits for its acknowledgement.
    window: Annotated[Whole, Field(ge=1, le=MOST_LANES)] = 2
    #: Packets that a message sends before the adapter turns to the next message that waits there:
    #: the length of time slices of DMA, which the paper does not print.
    turn_packets: Annotated[Whole, Field(ge=1, lt=2**31)] = 51
    #: Time by which packets of high priority count as older.
    ageing_ns: Nanoseconds = 100_000.0

    @property
    def cycle_ns(self) -> float:
        """Time of a flit on a link."""
        return 8 * self.flit_bytes / self.link_gbps

    @property
    def service_ns(self) -> float:
        """Time of an adapter for each packet, sent or received.

        One way, a packet takes at most as long as the ping test allows. Both ways, an adapter
        handles two packets in the time of one packet each way.
        """
        one_way, each_way = RATES[self.memory]
        return min(1e3 * self.payload_bytes / one_way, 1e3 * self.payload_bytes / (2 * each_way))

    @property
    def turnaround_ns(self) -> float:
        """Further time of an adapter for a packet in the other direction than the last one."""
        return 1e3 * self.payload_bytes / (2 * RATES[self.memory][1]) - self.service_ns

    @property
    def router(self) -> Router:
        """The switch: each input link has an input of the crossbar for each virtual channel."""
        cycles = max(self._cycles(self.flow_through_ns), 1)
        return Router(
            lanes=self.channels, buffer=self.fifo_flits, vc_delay=0, switch_delay=1,
            routing_delay=cycles - 1, credit_delay=1, arbiter="age", input_speedup=self.channels,
        )  # fmt: skip

    @property
    def adapter(self) -> Adapter:
        """The adapter; packets hold their path until they are acknowledged."""
        return Adapter(
            window=self.window, turn_packets=self.turn_packets, circuits=True,
            acknowledge_hop=self._cycles(self.flow_through_ns),
            service=self._cycles(self.service_ns), turnaround=self._cycles(self.turnaround_ns),
            ageing=self._cycles(self.ageing_ns),
        )  # fmt: skip

    def options(self) -> dict[str, Any]:
        """Return the options of a run at the flit level."""
        hardware = Hardware(
            mtu_bytes=self.payload_bytes, header_bytes=self.overhead_bytes,
            adapter_latency_ns=(EMPTY_NS[self.library] - NETWORK_NS) / 2, control_bytes=0,
        )  # fmt: skip
        return {
            "router": self.router, "adapter": self.adapter, "hardware": hardware,
            "flit_bytes": self.flit_bytes, "cycle_ns": self.cycle_ns,
        }  # fmt: skip

    def _cycles(self, ns: float) -> int:
        return round(ns / self.cycle_ns)


def qsnet(**description: Any) -> dict[str, Any]:
    """Return the options of the flit level for a QsNET.

    Parameters
    ----------
    **description
        Parameters of `QsNet` that differ from Elan3 and Elite.

    Returns
    -------
    dict
        Options of `weft.simulate` by name, for a fabric such as ``kary-n-tree:4;3;rate=3.2`` and
        the routing ``nca-adaptive``.

    Raises
    ------
    InputError
        If a parameter is unknown, or a value is out of range.
    """
    known_fields(description, settings(QsNet), "weft.qsnet", lambda _: "")
    return QsNet(**description).options()
