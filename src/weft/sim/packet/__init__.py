"""The packet level: virtual cut-through with credits, lanes and arbitration."""

from weft.sim.packet.engine import simulate_packets
from weft.sim.packet.hardware import Hardware, VlArbitration
from weft.sim.packet.result import PacketResult
from weft.sim.packet.snapshots import Snapshots

__all__ = ["Hardware", "PacketResult", "Snapshots", "VlArbitration", "simulate_packets"]
