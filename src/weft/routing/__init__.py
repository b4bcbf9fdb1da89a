"""Routing engines, one file each, and the validator that all of them go through."""
