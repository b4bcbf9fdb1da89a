"""
Topologies by their drawings
============================

Every topology is drawn by its own structure: levels of a tree, groups of a dragonfly,
coordinates of a torus.
"""

import weft

weft.plot(weft.fabric("dragonfly:p=2,a=4,h=2"), title="dragonfly:p=2,a=4,h=2", size_inches=(7, 5))

# %%

weft.plot(weft.fabric("kns:k=4,n=2"), title="kns:k=4,n=2", size_inches=(7, 5))

# %%

weft.plot(weft.fabric("torus:6x6"), title="torus:6x6", size_inches=(7, 5))

# %%

weft.plot(weft.fabric("fat-tree:k=4"), title="fat-tree:k=4", size_inches=(7, 5))
