"""`Routes`: forwarding tables, source routes, or candidates for adaptive choices."""

from weft.routes.base import Routes
from weft.routes.candidates import CandidateRoutes
from weft.routes.paths import PathRoutes
from weft.routes.tables import TableRoutes
from weft.routes.virtual_lanes import MAX_VLS, NUM_SLS, VirtualLanes

__all__ = [
    "MAX_VLS",
    "NUM_SLS",
    "CandidateRoutes",
    "PathRoutes",
    "Routes",
    "TableRoutes",
    "VirtualLanes",
]
