"""The study of the contention-aware performance model."""

from weft.papers.contention import study as study
