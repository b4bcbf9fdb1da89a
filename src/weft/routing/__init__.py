"""Routing engines, one file each, and the validator that all of them go through."""

from weft.routing.engine_registry import engine, route

__all__ = ["engine", "route"]
