"""Papers, one file each: their experiments and the numbers that they print."""

from weft.papers.base import Study, paper

__all__ = ["Study", "paper"]
