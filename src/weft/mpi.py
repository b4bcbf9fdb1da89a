"""Application flow manager: an MPI program asks `weft serve` for the routes of its next phase.

`request` and `done` are the commands RODRequest and RODDone of the Routing Keys paper (section III,
figure 5(b)). Rank 0 of a communicator asks for all its ranks, and each learns the LIDs of its
peers. The page "MPI and routing keys" of the documentation says how to pass them to an
MPI library. Communicators are those of mpi4py; install ``weft[mpi]``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from weft.core.errors import InputError, WeftError

if TYPE_CHECKING:  # only rank 0 imports the client when it asks
    from weft.client import Client, Held

__all__ = ["PhaseRoutes", "done", "request"]

T = TypeVar("T")
#: Number of the alternative that stands for the base routes.
_BASE = -1
#: Keys that this process holds as rank 0, by communicator and key; None for base routes that were
#: used in place of a key. The second member says whether errors are only warnings.
_held: dict[tuple[int, str], tuple[Held | None, bool]] = {}


@dataclass(frozen=True)
class PhaseRoutes:
    """The routes of this rank in a phase.

    Parameters
    ----------
    key
        Name of the phase.
    alternative
        Number of the granted alternative of the key; -1 for the base routes.
    reason
        Why the base routes are used in place of a key; empty otherwise.
    ranks
        Rank in the application of each rank of the communicator.
    paths
        Path bits, and LID if known, by destination (rank in the application).
    """

    key: str
    alternative: int
    reason: str
    ranks: Sequence[int]
    paths: Mapping[int, tuple[int, int | None]]

    @property
    def base(self) -> bool:
        """Whether this phase uses the base routes, which are those of path bits 0."""
        return self.alternative == _BASE

    def path_bits(self, peer: int) -> int:
        """Return the number to add to the base LID of a peer (a rank of the communicator).

        For peers to which the key has no flow it is 0, the base routes.
        """
        return self._path(peer)[0]

    def dlid(self, peer: int) -> int | None:
        """Return the LID with which this rank reaches a peer (a rank of the communicator).

        It is None if the service has no subnet manager and so knows no LIDs, and for peers to which
        the key has no flow.
        """
        return self._path(peer)[1]

    def _path(self, peer: int) -> tuple[int, int | None]:
        if not 0 <= peer < len(self.ranks):
            raise InputError(f"peer {peer} is not a rank of the communicator of key {self.key}")
        return self.paths.get(self.ranks[peer], (0, None))


@dataclass(frozen=True)
class _Asked:
    """What rank 0 asks for, and of which service."""

    url: str | None
    token: str | None
    application: str | None
    key: str
    lease_s: float | None
    wait_s: float
    timeout_s: float
    fallback: bool


def request(
    comm: Any,
    key: str,
    *,
    url: str | None = None,
    token: str | None = None,
    application: str | None = None,
    rank: int | None = None,
    host: str | None = None,
    lease_s: float | None = None,
    wait_s: float = 60.0,
    timeout_s: float = 10.0,
    fallback: bool = False,
) -> PhaseRoutes:
    """Ask for the key of a phase that begins (RODRequest); all ranks of a communicator call this.

    Rank 0 asks the service; until `done`, a thread of rank 0 (which makes no MPI calls) renews the
    lease of the key.

    Parameters
    ----------
    comm
        Intracommunicator of mpi4py.
    key
        Name of the phase.
    url, token, application
        Address of the service, token, and name of the application; only rank 0 uses them. The
        defaults are ``WEFT_URL``, ``WEFT_TOKEN`` and ``WEFT_APPLICATION``.
    rank, host
        Rank of this process in the application, which has one rank per host; or, where several
        processes share a host, the name of the host in the fabric. By default the host is that of
        ``WEFT_HOST``; if this is not set, the rank is that in MPI_COMM_WORLD.
    lease_s
        Lease of the key in seconds; by default that of the service.
    wait_s
        How long to wait, in seconds, if the tables of the key are not loaded yet.
    timeout_s
        Longest time for an answer of the service in seconds, in addition to `wait_s`.
    fallback
        If the service refuses or cannot be reached, use the base routes and warn on rank 0.

    Returns
    -------
    PhaseRoutes
        The LID of each peer.

    Raises
    ------
    InputError
        On all ranks, if the ranks of the communicator are not ranks or hosts of the application.
    WeftError
        On all ranks, if there is no key and `fallback` is not set; `weft.client.ServiceError` if
        the service refuses.

    Warns
    -----
    RoutesWarning
        On rank 0, if the base routes are used because of `fallback`.
    """
    if rank is None and host is None:
        host = os.environ.get("WEFT_HOST")
    if rank is None and host is None:
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.rank
    where = comm.gather(host if rank is None else rank)
    asked = _Asked(url, token, application, key, lease_s, wait_s, timeout_s, fallback)
    parts: list[Mapping[int, tuple[int, int | None]]] = []

    def ask() -> tuple[int, str, list[int]]:
        alternative, reason, ranks, by_source = _ask(comm.py2f(), asked, where)
        parts.extend(by_source.get(each, {}) for each in ranks)
        return alternative, reason, ranks

    alternative, reason, ranks = _on_first(comm, ask)
    return PhaseRoutes(key, alternative, reason, ranks, comm.scatter(parts or None))


def done(comm: Any, key: str) -> None:
    """Give back the key of a phase that has ended (RODDone); all ranks call this.

    A barrier comes first, so that no rank still communicates when the key is given back.

    Parameters
    ----------
    comm, key
        As in `request`.

    Raises
    ------
    WeftError
        On all ranks, if the key was not requested, or if the service cannot be reached and
        `fallback` was not set in `request`; the grant then ends with its lease.

    Warns
    -----
    RoutesWarning
        On rank 0, if the key was no longer held, or in place of an error with `fallback`.
    """
    comm.Barrier()
    _on_first(comm, lambda: _give_back(comm.py2f(), key))


def _on_first(comm: Any, function: Callable[[], T]) -> T:
    """Call a function on rank 0, and return its result or raise its error on all ranks."""
    result: T | None = None
    error: Exception | None = None
    if comm.rank == 0:
        try:
            result = function()
        except Exception as caught:  # otherwise the other ranks would wait for ever
            error = caught
    sent = error
    if error is not None and not isinstance(error, WeftError):  # which may not be picklable
        sent = WeftError(f"rank 0 failed: {type(error).__name__}: {error}")
    result, sent = comm.bcast((result, sent))
    if error is not None:
        raise error
    if sent is not None:
        raise sent
    return result


def _ask(
    comm: int, asked: _Asked, where: Sequence[int | str]
) -> tuple[int, str, list[int], dict[int, dict[int, tuple[int, int | None]]]]:
    """Request a key; return what `PhaseRoutes` has, with the paths of each rank by its number."""
    if (comm, asked.key) in _held:
        raise InputError(f"key {asked.key} is held already: call done before requesting it again")
    from weft.client import default_application

    application = default_application(asked.application)
    try:
        client = _client(
            asked.url or os.environ.get("WEFT_URL"), asked.token or os.environ.get("WEFT_TOKEN"),
            asked.timeout_s,
        )  # fmt: skip
        ranks = _ranks(where, application, _hosts(client, application))
        held = client.hold(
            application, asked.key, lease_s=asked.lease_s, wait_s=asked.wait_s, paths=True
        )
    except InputError:
        raise
    except WeftError as error:
        if not asked.fallback:
            raise
        _warn(f"phase {asked.key} uses the base routes: {error}")
        _held[comm, asked.key] = None, True
        return _BASE, str(error), [_unknown(each) for each in where], {}
    _held[comm, asked.key] = held, asked.fallback
    by_source: dict[int, dict[int, tuple[int, int | None]]] = {}
    for path in held.grant.paths or ():
        by_source.setdefault(path.source, {})[path.destination] = path.path_bits, path.dlid
    return held.grant.alternative, "", ranks, by_source


def _unknown(place: int | str) -> int:
    """Return the rank of a process in an application whose hosts are not known."""
    return place if isinstance(place, int) else -1


def _give_back(comm: int, key: str) -> None:
    if (comm, key) not in _held:
        raise InputError(f"key {key} is not held on this communicator: call request before done")
    held, fallback = _held.pop((comm, key))
    if held is None:
        return
    try:
        held.done()
    except WeftError as error:
        if not fallback:
            raise
        _warn(f"key {key} could not be given back; its grant ends with its lease: {error}")


def _warn(text: str) -> None:
    from weft.client import RoutesWarning

    warnings.warn(text, RoutesWarning, stacklevel=5)


@lru_cache
def _client(url: str | None, token: str | None, timeout_s: float) -> Client:
    from weft.client import Client

    return Client(url, token, timeout_s=timeout_s)


@lru_cache
def _hosts(client: Client, application: str) -> tuple[str, ...]:
    """Return the hosts of an application, which never change, in order of rank."""
    return tuple(client.application(application).hosts)


def _ranks(where: Sequence[int | str], application: str, hosts: Sequence[str]) -> list[int]:
    """Return the rank in the application of each process, from its rank or host."""
    known = {name: number for number, name in enumerate(hosts)}
    ranks = []
    for number, place in enumerate(where):
        found = known.get(place) if isinstance(place, str) else place
        if found is None:
            raise InputError(
                f"rank {number} of the communicator is on host {place}, which is not a host of "
                f"application {application}"
            )
        if not 0 <= found < len(hosts):
            raise InputError(
                f"rank {number} of the communicator would be rank {found} of application "
                f"{application}, which has only {len(hosts)} ranks, one per host; if several "
                "processes share a host, give each the name of its host (host= or WEFT_HOST)"
            )
        ranks.append(found)
    return ranks
