"""
Latency over offered load
=========================

The packet level with open-loop sources: latency grows without limit where a pattern saturates the
fabric. The pattern is a random permutation on a fat tree with half the uplinks; the curves are of
two routing engines.
"""

import weft
from weft.report.load_curves import load_curves

fabric = weft.fabric("xgft:2;4,4;1,2")
table = weft.sweep(
    fabric,
    ["minhop", "dmodk"],
    loads=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    pattern="random-permutation",
    size="2KiB",
    measure="100us",
    warmup="20us",
    processes=1,
)
load_curves([table])

# %%
# The numbers of the figure:

table.select("engine", "offered_load", "accepted_load", "latency_mean_ns", "saturated")
