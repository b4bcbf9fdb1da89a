"""Routings of the flit level, one file for each kind of fabric.

A file with a function adds a routing, which returns its kernels and their arrays::

    @routing("to-root", lanes=1)
    def to_root(links: Links, lanes: int, seed: int) -> Routing:
        return Routing(route, ToRoot(...))
"""

from weft.sim.flit import routing
from weft.sim.flit.routings.routes import of_routes
from weft.sim.flit.routings.routing_registry import Routing, bind

__all__ = ["Routing", "bind", "of_routes", "routing"]
