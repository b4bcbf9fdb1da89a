"""The packet level: virtual cut-through with credits, lanes and arbitration."""

from weft.sim.packet.congestion_control import CongestionControl, CongestionRecord
from weft.sim.packet.engine import run_packets
from weft.sim.packet.hardware import Hardware, VlArbitration
from weft.sim.packet.result import PacketResult
from weft.sim.packet.snapshots import Snapshots

__all__ = [
    "CongestionControl",
    "CongestionRecord",
    "Hardware",
    "PacketResult",
    "Snapshots",
    "VlArbitration",
    "run_packets",
]
