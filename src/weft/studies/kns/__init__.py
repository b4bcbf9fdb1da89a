"""The study of KNS and Hybrid-DOR on InfiniBand."""

from weft.studies.kns import study as study
