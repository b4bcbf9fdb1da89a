"""The study of the performance evaluation of QsNET (Petrini et al. 2003)."""

from weft_papers.qsnet import study as study
