"""weft: build, route, check and compare interconnects.

>>> import weft
>>> fabric = weft.fabric("xgft:2;4,4;1,4")
>>> routes = weft.route(fabric, "dmodk")
>>> weft.validate(fabric, routes).ok
True
"""

from weft.core.lazy import attach

__version__ = "0.1.0"
__getattr__, __dir__ = attach(__name__, __file__)  # the public names are in __init__.pyi
