"""The study of KNS and Hybrid-DOR on InfiniBand."""

from weft_papers.kns import study as study
