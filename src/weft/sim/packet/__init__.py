"""The packet level: virtual cut-through with credits, lanes and arbitration."""

from weft.sim.packet.hardware import Hardware, VlArbitration

__all__ = ["Hardware", "VlArbitration"]
