"""The words of the language."""

from __future__ import annotations

from weft.workload.collectives import COLLECTIVES as KINDS
from weft.workload.collectives import Sizes

#: First words of statements, except collectives.
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

#: Words inside statements; they cannot be used as names.
OPTIONS = (
    "TO", "FROM", "TAG", "ON", "COMM", "AS", "AFTER", "NOTHING", "START", "ROOT", "USING", "STD",
    "CPU", "RELEASE", "KEY", "BY", "PERIODIC", "NULL", "ALL", "AND", "OR", "NOT", "AUTO",
)  # fmt: skip

DEFINITIONS = ("CART", "SUB", "SPLIT", "WHERE", "LIST", "DUP")

#: Functions of values and their number of arguments; -1 for two or more.
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
#: Names that always have a value, as do the axes of a grid. They are also functions of a scope, as
#: are the axes: ``x(grid)``.
SCOPE_FUNCTIONS = ("rank", "size")
#: Name of the destination rank in the size expression of ALLTOALLV.
PEER = "peer"

#: Deepest nesting of blocks, and of parentheses in an expression.
MAX_DEPTH = 50


def reserved(name: str) -> bool:
    """Return whether a name is a word of the language."""
    return (
        name.upper() in OPTIONS
        or name.upper() in ("END", "ELSE", "ELIF")
        or name in FUNCTIONS
        or name in (*SCOPE_FUNCTIONS, PEER, "at", "dim")
    )
