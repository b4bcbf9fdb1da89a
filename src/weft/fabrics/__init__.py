"""The fabric: switches, hosts and the cables between them."""

from weft.fabrics.arrays import LINK_DTYPE, LinkKind, NodeKind
from weft.fabrics.builder import DEFAULT_RATE, FabricBuilder, rate_text, rates_text
from weft.fabrics.fabric import Fabric, check_fabric
from weft.fabrics.graph import SwitchGraph
from weft.fabrics.parts import Parts

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
]
