"""The study of ECMP, e-ECMP and flowlets on k-ary fat trees."""

from weft_papers.multipath import study as study
