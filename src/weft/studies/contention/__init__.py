"""The study of the contention-aware performance model."""

from weft.studies.contention import study as study
