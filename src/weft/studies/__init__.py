"""Studies that reproduce papers: one folder for each paper."""

from weft.studies.paper_registry import Study, paper

__all__ = ["Study", "paper"]
