"""The fabric: what is cabled to what."""

from weft.fabric.builder import DEFAULT_RATE, FabricBuilder, Parts, rate_text
from weft.fabric.fabric import LINK_DTYPE, Fabric, LinkKind, NodeKind
from weft.fabric.graph import SwitchGraph
from weft.fabric.variants import renamed, with_lengths

__all__ = [
    "DEFAULT_RATE",
    "LINK_DTYPE",
    "Fabric",
    "FabricBuilder",
    "LinkKind",
    "NodeKind",
    "Parts",
    "SwitchGraph",
    "rate_text",
    "renamed",
    "with_lengths",
]
