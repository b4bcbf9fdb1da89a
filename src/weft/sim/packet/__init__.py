"""The packet level: virtual cut-through with credits, lanes and arbitration."""

from weft.sim.packet.congestion_control import CongestionControl, CongestionRecord
from weft.sim.packet.hardware import Hardware, VlArbitration

__all__ = ["CongestionControl", "CongestionRecord", "Hardware", "VlArbitration"]
