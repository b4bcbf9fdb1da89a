"""The program of one rank, written by calls that chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.workload.builder import WorkloadBuilder


class RankProgram:
    """The program of one rank: `WorkloadBuilder`'s methods without the rank.

    Blocking operations return the program itself, so that calls chain; `isend`, `irecv` and `put`
    return a handle for `wait`.
    """

    def __init__(self, builder: WorkloadBuilder, rank: int):
        self._builder = builder
        self._rank = int(rank)

    def calc(self, duration_ns: float, *, cpu: int = 0) -> RankProgram:
        """Compute."""
        self._builder.calc(self._rank, duration_ns, cpu=cpu)
        return self

    def send(self, to: int, size_bytes: int, tag: int = 0, comm: int = 0) -> RankProgram:
        """Send and wait."""
        self._builder.send(self._rank, to, size_bytes, tag, comm)
        return self

    def recv(self, source: int, size_bytes: int, tag: int = 0, comm: int = 0) -> RankProgram:
        """Receive and wait."""
        self._builder.recv(self._rank, source, size_bytes, tag, comm)
        return self

    def isend(self, to: int, size_bytes: int, tag: int = 0, comm: int = 0) -> int:
        """Begin to send."""
        return int(self._builder.isend(self._rank, to, size_bytes, tag, comm))

    def irecv(self, source: int, size_bytes: int, tag: int = 0, comm: int = 0) -> int:
        """Begin to receive."""
        return int(self._builder.irecv(self._rank, source, size_bytes, tag, comm))

    def put(self, to: int, size_bytes: int, tag: int = 0, *, release_ns: float = 0.0) -> int:
        """Begin to send what needs no receive."""
        return int(self._builder.put(self._rank, to, size_bytes, tag, release_ns=release_ns))

    def sendrecv(
        self, to: int, send_bytes: int, source: int, recv_bytes: int, tag: int = 0, comm: int = 0
    ) -> RankProgram:
        """Send and receive at once, and wait."""
        self._builder.sendrecv(self._rank, to, send_bytes, source, recv_bytes, tag, comm)
        return self

    def wait(self, *handles: int) -> RankProgram:
        """Wait for these, or for all that was begun when none is named."""
        if handles:
            self._builder.wait(self._rank, handles)
        else:
            self._builder.waitall([self._rank])
        return self
