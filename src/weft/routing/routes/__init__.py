"""`Routes`: forwarding tables, source routes, or candidates for adaptive choices."""

from weft.routing.routes.base import Routes
from weft.routing.routes.candidates import CandidateRoutes
from weft.routing.routes.paths import PathRoutes
from weft.routing.routes.tables import TableRoutes
from weft.routing.routes.virtual_lanes import MAX_VLS, NUM_SLS, VirtualLanes

__all__ = [
    "MAX_VLS",
    "NUM_SLS",
    "CandidateRoutes",
    "PathRoutes",
    "Routes",
    "TableRoutes",
    "VirtualLanes",
]
