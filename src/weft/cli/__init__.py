"""The command line: one file per command, each a thin layer over the Python API."""

from weft.cli.app import main

__all__ = ["main"]
