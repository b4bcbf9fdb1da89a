"""The registry of papers, and what every study of one gives back.

A study is added by a file with one function::

    @paper("multipath-ecmp")
    def multipath_ecmp(*, seeds: int = 30, out: Path | None = None) -> Study: ...

With `out` it writes its figures and tables there and says which; its options are its parameters.
After a KeyboardInterrupt it returns what is known, or raises it where that is nothing.
`weft.studies.reported_study.ReportedStudy` makes text and files of parts, tables and figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from weft.core.registry import Registry

paper = Registry("paper", "weft.studies", "weft.papers")


class Study(Protocol):
    """What a paper's function returns."""

    #: Files written, in the order of writing; empty without an output folder.
    files: tuple[Path, ...]
    #: How much there is, such as "12 of 600 runs", where an interrupt ended the study; else empty.
    partial: str

    def text(self) -> str:
        """The paper's claims beside what was measured, and the tables, as plain text."""
        ...
