"""`weft study` as a process, and the log of its runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.processes import Starter, left_of, state_of, wait_for
from tests.study_kills import rows
from tests.study_runs import LOG
from weft.cli import main
from weft.study.runs.store import PROGRESS, Store


def log_of(starter: Starter) -> Path:
    """Return the file of a starter with the begins and ends of runs."""
    found = re.search(rf"\['{LOG}'\] = '(.*)'", starter.prepare)
    assert found is not None
    return Path(found[1])


class Study:
    """A study in a process of its own.

    Parameters
    ----------
    starter
        A starter with `prepared`.
    file
        The study.
    options
        Options of `weft study`.
    """

    def __init__(self, starter: Starter, file: Path, *options: object) -> None:
        self.file = file
        self.store = file.with_suffix(".study")
        self.output = file.with_suffix(".said")
        self.output.touch()
        self.log = log_of(starter)
        self.log.unlink(missing_ok=True)
        words = ["study", str(file), *map(str, options)]
        self.pid = starter.start(words, self.output)
        starter.last.append(self.pid)

    def wait(self, for_what: Callable[[], object]) -> None:
        """Wait until something is so; the process must not end before."""

        def so_or_ended() -> object:
            return for_what() or not state_of(self.pid)

        wait_for(so_or_ended, lambda: self.said)
        assert for_what(), self.said

    def wait_end(self) -> str:
        """Wait until the process and its workers have ended; return what it said."""
        wait_for(lambda: not left_of(self.pid), lambda: self.said)
        return self.said

    @property
    def said(self) -> str:
        return self.output.read_text()

    def stored(self) -> int:
        """Return the number of stored runs."""
        if not (self.store / PROGRESS).exists():
            return 0
        with Store(self.store) as store:
            return len(store.briefs())


def computed_here(file: Path, folder: Path) -> dict[str, tuple[Any, ...]]:
    main(["study", str(file), "--workers", "0", "--store", str(folder)])
    return rows(folder)
