"""Compiled loops over flat arrays, which import nothing from the rest of the package."""
