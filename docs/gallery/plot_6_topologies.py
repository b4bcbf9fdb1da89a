"""
Topologies by their drawings
============================

Every topology is drawn by its own structure: levels of a tree, groups of a dragonfly,
coordinates of a torus.
"""

import weft

weft.fabric("dragonfly:p=2,a=4,h=2").plot(title="dragonfly:p=2,a=4,h=2", size_inches=(7, 5))

# %%

weft.fabric("kns:k=4,n=2").plot(title="kns:k=4,n=2", size_inches=(7, 5))

# %%

weft.fabric("torus:6x6").plot(title="torus:6x6", size_inches=(7, 5))

# %%

weft.fabric("fat-tree:k=4").plot(title="fat-tree:k=4", size_inches=(7, 5))
