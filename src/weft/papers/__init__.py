"""Studies that reproduce papers: one folder for each paper."""

from weft.papers.paper_registry import Study, paper

__all__ = ["Study", "paper"]
