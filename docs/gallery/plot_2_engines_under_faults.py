"""
Effective bisection bandwidth under faults
==========================================

Which engine loses least when cables fail? Each curve is the mean over random perfect matchings of
the hosts; all engines route the same damaged fabrics.
"""

import matplotlib.pyplot as plt

import weft

fabric = weft.fabric("xgft:2;8,8;1,8")
engines = ("minhop", "updn", "dfsssp", "ecmp")
failed = (0, 4, 8, 16, 24)
figure, axes = plt.subplots(figsize=(6, 4))
for engine in engines:
    share = []
    for cables in failed:
        degraded = fabric.with_faults(cables=cables, seed=1)
        routes = weft.route(degraded, engine)
        share.append(weft.bisection(degraded, routes, samples=200).mean)
    axes.plot(failed, share, marker="o", label=engine)
axes.set(xlabel="failed cables of 64", ylabel="effective bisection bandwidth", ylim=(0, 1))
axes.legend()
