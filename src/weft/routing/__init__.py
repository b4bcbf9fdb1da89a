"""Routing engines, one file each, and the validator of their routes."""

from weft.routing.engine_registry import engine, route

__all__ = ["engine", "route"]
