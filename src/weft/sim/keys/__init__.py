"""Routing keys: routes for the flows of an application, chosen so that they do not contend."""

from weft.sim.keys.key_set import KeySet, workload_keys
from weft.sim.keys.make import keys
from weft.sim.keys.routing_key import RoutingKey

__all__ = ["KeySet", "RoutingKey", "keys", "workload_keys"]
