"""Levels of detail of simulation: static, flow and packet."""
