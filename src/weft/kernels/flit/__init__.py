"""The flit level: routers cycle by cycle."""
