"""Routing functions of the flit level; see `weft.kernels.flit.engine.loop`."""
