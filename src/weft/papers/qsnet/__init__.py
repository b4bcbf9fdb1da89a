"""The study of the performance evaluation of QsNET (Petrini et al. 2003)."""

from weft.papers.qsnet import study as study
