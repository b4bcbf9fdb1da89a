"""Progress of the runs of a study."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

#: Seconds between two progress lines.
_SAY_EVERY_S = 10.0


@dataclass
class Watch:
    """Progress of the runs on stderr: one rewritten line on a terminal, else one per 10 s."""

    _began: float = field(default_factory=time.monotonic)
    _said: float = -_SAY_EVERY_S

    def __call__(self, done: int, runs: int) -> None:
        """Print the number of runs that are complete, if a line is due."""
        live = sys.stderr is not None and sys.stderr.isatty()
        now = time.monotonic()
        due = live or now - self._said > _SAY_EVERY_S or done == runs
        if sys.stderr is None or not done or not due:
            return
        self._said = now
        text = f"weft: {done} of {runs} runs, {now - self._began:.0f} s"
        end = "\n" if not live or done == runs else ""
        print(f"\r{text}" if live else text, end=end, file=sys.stderr, flush=True)
