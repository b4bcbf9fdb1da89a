"""The study of the contention-aware performance model."""

from weft_papers.contention import study as study
