"""Routing keys: routes for the flows of an application, chosen so that they do not contend."""

from weft.keys.make import keys
from weft.keys.routing_key import RoutingKey

__all__ = ["RoutingKey", "keys"]
