"""The parts of a trace program: expressions, peers, scopes and statements.

Nodes are frozen; comparisons ignore their place in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.workload.trace.errors import NOWHERE, FilePosition

# -- expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Node:
    """Base of all nodes, with the place in the file."""

    at: FilePosition = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Number(Node):
    """A number as in the text, with its unit: ``4096``, ``64KiB``, ``1.5us``."""

    text: str


@dataclass(frozen=True)
class Name(Node):
    """A variable, a coordinate, or ``rank`` and ``size``."""

    name: str


@dataclass(frozen=True)
class Call(Node):
    """A call of a function of values, or of a scope."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Unary(Node):
    """``-a`` or ``not a``."""

    operator: str
    operand: Expression


@dataclass(frozen=True)
class Binary(Node):
    """``a operator b``."""

    operator: str
    left: Expression
    right: Expression


Expression = Number | Name | Call | Unary | Binary


def begin(node: Node) -> FilePosition:
    """Return where an expression begins; the node itself has the place of its operator."""
    while isinstance(node, Binary):
        node = node.left
    return node.at


# -- peers and ranks -------------------------------------------------------------------------------


@dataclass(frozen=True)
class NullPeer(Node):
    """No peer: MPI_PROC_NULL."""


@dataclass(frozen=True)
class Neighbour(Node):
    """The next rank along an axis: ``+x`` or ``-x``."""

    sign: str
    axis: str


@dataclass(frozen=True)
class Coordinates(Node):
    """The rank at these coordinates: ``at(x + 1, y)``."""

    values: tuple[Expression, ...]


Peer = NullPeer | Neighbour | Coordinates | Expression


@dataclass(frozen=True)
class Range(Node):
    """``first``, ``first..last`` or ``first..last BY step``, both ends included."""

    first: Expression
    last: Expression | None = None
    step: Expression | None = None


# -- scopes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cart(Node):
    """A Cartesian grid over the ranks of a scope; a dimension of None is chosen automatically."""

    parent: str
    axes: tuple[str, ...]
    dims: tuple[Expression | None, ...]
    #: Periodic axes; None for all of them.
    periodic: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class Sub(Node):
    """The subgrids of a grid along the axes that are kept, such as rows or planes."""

    parent: str
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Split(Node):
    """One communicator per value of an expression, its ranks ordered by a second expression."""

    parent: str
    color: Expression
    key: Expression | None = None


@dataclass(frozen=True)
class Where(Node):
    """The ranks for which a condition is true."""

    parent: str
    condition: Expression


@dataclass(frozen=True)
class Listed(Node):
    """The ranks of a list, in the order of the list."""

    parent: str
    ranks: tuple[Range, ...]


@dataclass(frozen=True)
class Dup(Node):
    """The same ranks in a new communicator."""

    parent: str


Definition = Cart | Sub | Split | Where | Listed | Dup


# -- statements ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Statement(Node):
    """One line, or a block; `comment` is the text after ``#`` on the (first) line."""

    comment: str = ""


@dataclass(frozen=True)
class Blank(Statement):
    """An empty line, or a line with only a comment."""


@dataclass(frozen=True)
class Title(Statement):
    """``NAME "text"``."""

    text: str


@dataclass(frozen=True)
class RankCount(Statement):
    """``RANKS 64``: the number of ranks of the program."""

    count: Expression


@dataclass(frozen=True)
class Seed(Statement):
    """``SEED 7``."""

    value: Expression


@dataclass(frozen=True)
class Param(Statement):
    """``PARAM n = 64KiB``: the default of a value that can be set at run time."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Let(Statement):
    """``LET n = rank // 4``."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Communicator(Statement):
    """``COMMUNICATOR 1 "halo"``: declaration of a communicator with a number."""

    number: Expression
    text: str = ""


@dataclass(frozen=True)
class DefineScope(Statement):
    """``SCOPE grid = CART ALL (x: 4, y: 4)``."""

    name: str
    definition: Definition


@dataclass(frozen=True)
class EnterScope(Statement):
    """``SCOPE grid``: the rest of the block is for the ranks of the scope."""

    name: str


@dataclass(frozen=True)
class SetPhase(Statement):
    """``PHASE "halo"``: the following operations belong to this phase."""

    text: str


@dataclass(frozen=True)
class Dependency(Node):
    """Dependency on the end (or start) of the operation `back` positions earlier in the program."""

    back: int
    start: bool = False


@dataclass(frozen=True, kw_only=True)
class Operation(Statement):
    """An operation of ranks; `after` replaces program order."""

    after: tuple[Dependency, ...] | None = None


@dataclass(frozen=True)
class Calc(Operation):
    """``CALC 10us STD 1us``."""

    mean: Expression
    std: Expression | None = None
    cpu: Expression | None = None


@dataclass(frozen=True)
class On(Node):
    """The communicator of a message: a named scope, or a number."""

    scope: str = ""
    number: Expression | None = None


@dataclass(frozen=True)
class Message(Operation):
    """``SEND``, ``ISEND`` or ``PUT`` to a peer; ``RECV`` or ``IRECV`` from a peer."""

    verb: str
    size: Expression
    peer: Peer
    tag: Expression | None = None
    on: On | None = None
    release: Expression | None = None
    request: str = ""


@dataclass(frozen=True)
class SendRecv(Statement):
    """``SENDRECV 4KiB TO +x FROM -x``."""

    size: Expression
    to: Peer
    source: Peer
    recv_size: Expression | None = None
    tag: Expression | None = None
    on: On | None = None


@dataclass(frozen=True)
class Wait(Statement):
    """``WAIT a, b``; ``WAITALL`` when there are no names."""

    requests: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyOperation(Operation):
    """``RODREQUEST KEY 7`` or ``RODDONE KEY 7``."""

    verb: str
    key: Expression
    tag: Expression | None = None
    on: On | None = None


@dataclass(frozen=True)
class CollectiveCall(Statement):
    """A collective operation of MPI."""

    name: str
    size: Expression | None = None
    root: Expression | None = None
    scope: str = ""
    algorithm: str = ""


# -- blocks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Block(Statement):
    """A statement that contains others; `end_comment` is the comment after ``END``."""

    end_comment: str = ""


@dataclass(frozen=True)
class For(Block):
    """``FOR i = 0..9 BY 2`` … ``END``."""

    counter: str
    range: Range
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Repeat(Block):
    """``REPEAT 10`` … ``END``."""

    count: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Branch(Statement):
    """One condition of an ``IF`` and its body; no condition for ``ELSE``."""

    condition: Expression | None
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If(Block):
    """``IF`` … ``ELIF`` … ``ELSE`` … ``END``."""

    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class OnRanks(Block):
    """``0..7:`` and one statement, or a block up to ``END``."""

    ranks: tuple[Range, ...]
    body: tuple[Statement, ...]
    single: bool = True


@dataclass(frozen=True)
class TraceProgram:
    """A whole trace file."""

    statements: tuple[Statement, ...]
