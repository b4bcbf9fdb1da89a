"""Configuration files of BookSim 2: their grammar, their keys, and what they are here."""

from weft.sim.flit.booksim.reader import read_booksim
from weft.sim.flit.booksim.run import BookSimRun, Channels

__all__ = ["BookSimRun", "Channels", "read_booksim"]
