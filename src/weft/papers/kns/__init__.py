"""The study of KNS and Hybrid-DOR on InfiniBand."""

from weft.papers.kns import study as study
