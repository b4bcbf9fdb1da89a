"""
What ranks do over time
=======================

The figure shows when each of eight ranks computes, sends and waits in an allreduce at the packet
level.
"""

import weft
from weft.report.timeline_picture import plot_timelines

fabric = weft.fabric("xgft:2;4,4;1,4")
workload = weft.load_workload("allreduce:size=256KiB", 8)
result = weft.simulate(fabric, weft.route(fabric, "dmodk"), workload, level="packet")
plot_timelines(result, size_inches=(9, 4))
