"""The fabric: what is cabled to what."""

from weft.fabrics.builder import DEFAULT_RATE, FabricBuilder, Parts, rate_text, rates_text
from weft.fabrics.fabric import LINK_DTYPE, Fabric, LinkKind, NodeKind, check_fabric
from weft.fabrics.graph import SwitchGraph
from weft.fabrics.variants import renamed, with_lengths

__all__ = [
    "DEFAULT_RATE",
    "LINK_DTYPE",
    "Fabric",
    "FabricBuilder",
    "LinkKind",
    "NodeKind",
    "Parts",
    "SwitchGraph",
    "check_fabric",
    "rate_text",
    "rates_text",
    "renamed",
    "with_lengths",
]
