"""
Link loads on a real-looking cluster
====================================

Route a saved fabric, load it with all-to-all traffic, and colour each cable by the load
of its busier direction.
"""

import weft

fabric = weft.fabric("../../examples/cluster.ibnetdiscover")
routes = weft.route(fabric, "minhop")
flows = weft.traffic(fabric.num_hosts, "all-to-all")
loads = weft.link_loads(fabric, routes, *flows)
weft.plot(
    routes, fabric, loads, title="minhop, all-to-all", quantity="load (flows)", size_inches=(9, 5)
)

# %%
# The table of the same loads, by kind of link:

weft.analyse(fabric, routes, *flows).metrics.select("scope", "count", "used", "mean", "cv", "max")
