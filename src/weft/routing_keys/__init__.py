"""Routing keys: routes for the flows of an application, chosen so that they do not contend."""

from weft.routing_keys.key_set import KeySet, workload_keys
from weft.routing_keys.make import keys
from weft.routing_keys.routing_key import RoutingKey

__all__ = ["KeySet", "RoutingKey", "keys", "workload_keys"]
