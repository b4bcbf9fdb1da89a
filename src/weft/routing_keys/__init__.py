"""Routing keys: routes for the flows of an application, chosen so that they do not contend."""

from weft.routing_keys.make import keys
from weft.routing_keys.routing_key import RoutingKey

__all__ = ["RoutingKey", "keys"]
