"""
An incast and its congestion tree
=================================

Fifteen hosts send to one. Not only the senders' queues fill but also queues in the fabric, where
packets to other destinations would wait too (head-of-line blocking).
"""

import matplotlib.pyplot as plt
import polars as pl

import weft

fabric = weft.fabric("xgft:2;4,4;1,4")
routes = weft.route(fabric, "dmodk")
workload = weft.load_workload("gather:size=256KiB,algorithm=linear", fabric.num_hosts)
result = weft.simulate(fabric, routes, workload, level="packet", snapshot_ns=10_000)
print(weft.HotSpots(result, end_ns=100_000).text())

# %%
# Utilisation of the busiest links over time:

series = weft.link_series(result)
busiest = (
    series.group_by("link").agg(pl.col("utilisation").sum()).top_k(8, by="utilisation")["link"]
)
figure, axes = plt.subplots(figsize=(7, 4))
for link in sorted(busiest):
    rows = series.filter(pl.col("link") == link).sort("end_ns")
    name = fabric.node_names[fabric.link_from[link]]
    axes.step(rows["end_ns"] / 1000, rows["utilisation"], where="pre", label=f"from {name}")
axes.set(xlabel="time, µs", ylabel="utilisation")
axes.legend(ncols=2, fontsize="small")
