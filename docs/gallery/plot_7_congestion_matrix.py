"""
A congestion matrix
===================

Two permutations on a tree of 64 hosts with adaptive routing. Bit reversal makes packets wait at
many switches; the complement uses all links to the top equally, and nothing waits.
"""

import weft

fabric = weft.fabric("kary-n-tree:k=4,n=3")
routes = weft.route(fabric, "ecmp")
workload = weft.load_workload("bit-reversal", fabric.num_hosts)
result = weft.simulate(fabric, routes, workload, policy="adaptive", level="packet")
weft.plot(result, title="bit reversal")

# %%
# The same for the complement:

workload = weft.load_workload("complement", fabric.num_hosts)
result = weft.simulate(fabric, routes, workload, policy="adaptive", level="packet")
weft.plot(result, title="complement")
