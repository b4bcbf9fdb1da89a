"""The words of the language."""

from __future__ import annotations

from weft.workload.collectives import COLLECTIVES as KINDS
from weft.workload.collectives import Sizes

#: First words of statements, but for those of collectives.
HEADS = (
    "NAME", "RANKS", "SEED", "PARAM", "LET", "COMMUNICATOR", "SCOPE", "PHASE", "CALC", "SEND",
    "ISEND", "RECV", "IRECV", "PUT", "SENDRECV", "WAIT", "WAITALL", "RODREQUEST", "RODDONE", "FOR",
    "REPEAT", "IF", "ELIF", "ELSE", "END",
)  # fmt: skip

#: Collectives: whether each takes a size, and whether it has a root.
COLLECTIVES: dict[str, tuple[bool, bool]] = {
    name.upper().replace("-", "_"): (kind.sizes is not Sizes.NONE, kind.rooted)
    for name, kind in KINDS.items()
}

#: Words inside statements; none of them can name anything.
OPTIONS = (
    "TO", "FROM", "TAG", "ON", "COMM", "AS", "AFTER", "NOTHING", "START", "ROOT", "USING", "STD",
    "CPU", "RELEASE", "KEY", "BY", "PERIODIC", "NULL", "ALL", "AND", "OR", "NOT", "AUTO",
)  # fmt: skip

DEFINITIONS = ("CART", "SUB", "SPLIT", "WHERE", "LIST", "DUP")

#: Functions of values and how many arguments each takes; -1 for two or more.
FUNCTIONS = {
    "min": -1,
    "max": -1,
    "abs": 1,
    "floor": 1,
    "ceil": 1,
    "round": 1,
    "sqrt": 1,
    "log2": 1,
    "xor": 2,
    "choose": 3,
}
#: What a rank is in a scope; also axes can be asked for so: ``x(grid)``.
SCOPE_FUNCTIONS = ("rank", "size")
#: Names that always have a value, besides the axes of a grid.
BUILT_IN = ("rank", "size")
#: In the sizes of ALLTOALLV, the rank that a part goes to.
PEER = "peer"

#: Deepest nesting of blocks, and of parentheses in an expression.
MAX_DEPTH = 50


def reserved(name: str) -> bool:
    """Whether a word of the language keeps a name from being used."""
    return (
        name.upper() in OPTIONS
        or name.upper() in ("END", "ELSE", "ELIF")
        or name in FUNCTIONS
        or name in (*BUILT_IN, PEER, "at", "dim")
    )
