"""OpenSM's log while OpenSM writes it: new lines, and the ends of sweeps."""

from __future__ import annotations

import contextlib
from pathlib import Path

#: OpenSM logs this after each sweep whose tables are in the switches and whose dumps are written.
SUBNET_UP = "SUBNET UP"
#: OpenSM logs this if its engines failed and no other engine may take their place.
GIVEN_UP = "No routing engine able to"
#: A position in a log: number of the file, and bytes before the position.
Mark = tuple[int, int]
#: The position before a log.
START: Mark = (0, 0)


class SweepLog:
    """OpenSM's log, which may be replaced or shortened meanwhile."""

    def __init__(self, path: Path):
        self._path = path
        self._mark = self.mark()

    def mark(self) -> Mark:
        """Return the end of the log."""
        try:
            now = self._path.stat()
        except OSError:
            return START
        return now.st_ino, now.st_size

    def since(self, mark: Mark) -> tuple[str, Mark, bool]:
        """Return the lines after a position, the position after them, and whether they are all.

        They are not all lines if the log was replaced or shortened since.
        """
        file, size = self.mark()
        same = file == mark[0] and size >= mark[1]
        start = mark[1] if same else 0
        data = b""
        with contextlib.suppress(OSError), self._path.open("rb") as stream:
            stream.seek(start)
            data = stream.read()
        data = data[: data.rfind(b"\n") + 1]
        return data.decode(errors="replace"), (file, start + len(data)), same

    def new_sweep(self) -> bool:
        """Return whether a sweep has ended since the last call, or may have."""
        if self.mark() == self._mark:
            return False
        text, self._mark, same = self.since(self._mark)
        return SUBNET_UP in text or not same
