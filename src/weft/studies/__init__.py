"""Papers, one file each: their experiments and the numbers that they print."""

from weft.studies.paper_registry import Study, paper

__all__ = ["Study", "paper"]
