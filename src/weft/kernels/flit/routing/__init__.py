"""Routing functions of the flit level; see `weft.sim.flit.routings.routing_registry.Routing`."""
