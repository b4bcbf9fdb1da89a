"""The study that holds predictions against figures that benchmarks measured on real machines."""

from weft_papers.accuracy import study as study
