"""`IoSettings`: what is asked of a placement of I/O nodes, and `Site`, one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from weft.core.settings import Group, Number, Option, Seed, Settings, Truth, Whole
from weft.core.settings import Hosts as HostList
from weft.core.units import Bytes
from weft.sim.options import TimedLevel

Choice = Literal["random", "cyclic", "block"]

#: More ranks than this average out the draws of a run with fewer runs.
MANY_RANKS = 256
#: Seeds are below this number.
SEEDS = 2**63
#: Least size of a message.
LEAST_BYTES = 1024
#: The placement that real machines often have; it is always confirmed, for comparison.
CLUSTERED = "last"
#: Usual candidates: placements of I/O nodes, simplest first.
PLACEMENTS = (
    CLUSTERED, "strided", "cyclic", "spread:positions=same", "spread", "apart",
    "spread:among=fastest", "spread:among=central",
)  # fmt: skip
#: Usual placements of the compute job.
COMPUTE_PLACEMENTS = ("linear", "last", "cyclic", "random")


def _hosts(given: Any) -> Any:
    """Return a number of hosts as an int; names and numbers of hosts are checked later."""
    if isinstance(given, str) and given.strip().isdecimal():
        return int(given)
    if isinstance(given, bool):
        raise ValueError("expected a number of hosts, or a list of hosts")
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        return tuple(given)
    if isinstance(given, np.integer):
        return int(given)
    if given is None or isinstance(given, str | int):
        return given
    raise ValueError("expected a number of hosts, or a list of hosts")


#: A number of hosts, or the hosts: a Slurm host list, names or numbers.
Hosts = Annotated[Any, BeforeValidator(_hosts)]


@dataclass(frozen=True)
class IoSettings(Settings):
    """What is asked of a placement of I/O nodes.

    Parameters
    ----------
    io_nodes
        Number of I/O nodes to place, or their hosts, such as ``io[1-4]``; then only the jobs are
        placed. Numbers count machines, which take part with all their adapters.
    compute
        Hosts of the compute job: a number to place, or a host list.
    clients
        Hosts of the I/O job: a number to place, or a host list.
    shared
        Whether jobs may also run on I/O nodes, which are otherwise dedicated.
    write_share
        Share of writes in the I/O traffic, 0 (all reads) to 1 (all writes).
    choice
        I/O node of each transaction: drawn at ``random``, or the same one for all transactions of a
        client: client n of C uses I/O node n mod S of S (``cyclic``) or floor(n S / C) (``block``).
    pattern
        Traffic pattern of the compute job.
    placements
        Placements of the I/O nodes to compare.
    compute_placements
        Placements of the compute job to compare, if it does not use all hosts.
    randoms
        Number of random placements of the I/O nodes to compare as well.
    moves
        Number of moves that the local search tries; 0 for no search.
    confirm
        Level that decides between the best candidates: ``packet``, ``flit``, or ``flow`` for none
        above it.
    finalists
        Number of candidates that are run at that level. The clustered placement (``last``) and the
        one with the most bandwidth in the worst case are run as well.
    repeats
        Number of runs of each candidate at each level, with different draws.
    io_bytes
        Size of a transaction of the I/O job.
    compute_bytes
        Size of a message of the compute job.
    seed
        Seed of all random draws.
    """

    GROUP: ClassVar[Group] = "workload"

    io_nodes: Annotated[Hosts, Option(written=HostList, group="first")]
    compute: Annotated[
        Hosts, Option(written=HostList, group="first", usual="all hosts without another role")
    ] = None
    clients: Annotated[
        Hosts,
        Option(
            written=HostList,
            usual="the hosts that compute leaves, or those of the compute job if it leaves none",
        ),
    ] = None
    shared: Annotated[Truth, Option(means=True)] = False
    write_share: Annotated[
        Annotated[Number, Field(ge=0, le=1)] | None,
        Option(usual="the worse of both directions, and half writes in runs"),
    ] = None
    choice: Choice = "random"
    pattern: str = "uniform"
    placements: Annotated[
        tuple[str, ...],
        Option(compared="names", flag="placement", plural="placements", group="first"),
    ] = PLACEMENTS
    compute_placements: Annotated[
        tuple[str, ...],
        Option(compared="names", flag="compute_placement", plural="compute-placements"),
    ] = COMPUTE_PLACEMENTS
    randoms: Annotated[Whole, Field(ge=0, le=1000)] = 3
    moves: Annotated[Whole, Field(ge=0, le=1_000_000)] = 300
    confirm: Annotated[TimedLevel, Option(group="levels")] = "packet"
    finalists: Annotated[Whole, Field(ge=1, le=100)] = 8
    repeats: Annotated[
        Annotated[Whole, Field(ge=1, le=100)] | None,
        Option(usual=f"5, or 3 if the compute job has more than {MANY_RANKS} ranks"),
    ] = None
    io_bytes: Annotated[Annotated[Bytes, Field(ge=LEAST_BYTES)], Option(key="io_size")] = 262144
    compute_bytes: Annotated[
        Annotated[Bytes, Field(ge=LEAST_BYTES)], Option(key="compute_size")
    ] = 65536
    seed: Annotated[Seed, Option(group="runs")] = 0

    def runs(self, ranks: int) -> int:
        """Return the number of runs of a candidate with this number of compute ranks."""
        usual = 3 if ranks > MANY_RANKS else 5
        return usual if self.repeats is None else self.repeats

    @property
    def writes(self) -> float:
        """Share of writes in runs."""
        return 0.5 if self.write_share is None else self.write_share


@dataclass(frozen=True, eq=False)
class Site:
    """Hosts of the I/O nodes and of both jobs."""

    #: int32: host of each I/O node, of each rank of the I/O job that is a client, and of each rank
    #: of the compute job. Ranks of both jobs may be on one host.
    io: NDArray[np.int32]
    clients: NDArray[np.int32]
    compute: NDArray[np.int32]
