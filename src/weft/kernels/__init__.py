"""Compiled loops over flat arrays; they know nothing of the rest of the package."""
