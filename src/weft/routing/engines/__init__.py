"""Routing engines, one file each."""
