"""The registry of papers.

A study is added by a folder whose module `study` has one function::

    @paper("multipath-ecmp")
    def multipath_ecmp(
        *, seeds: int = 30, results: Results = IN_MEMORY, out: Path | None = None
    ) -> StudyResult: ...

Its parameters are the options of the study, but for `results`, which computes all runs of the study
and may keep them in a store (`weft.study.runs.typed.Results`). If `out` is given, the function
writes figures and tables to that folder, and the result lists them as `files`, in the order of
writing. On a KeyboardInterrupt the function returns the results so far, whose `partial` says how
many ("12 of 600 runs"), or raises the interrupt if there are none. Functions that perform its runs
are marked with `weft.study.runs.typed.typed_run`.

A folder has the modules `runs` (the list of runs, and one run), `claims` (the measurements as
evidence, and `weft_papers.claims.Claim` objects: text, place in the paper, quantities and the range
in which they must be), `tables` (columns, frames and their text), `plots`, and `study` (a subclass
of `weft_papers.reported_study.ReportedStudy`, which makes text and files of these, or of its
`ChoiceStudy`, whose claims are tested under choices that the paper leaves open).
"""

from __future__ import annotations

from weft.core.registry import Registry

paper = Registry(
    "paper", "weft_papers", "weft.papers", pipeline=("results",),
    common={
        "processes": "Number of worker processes; by default one per core. The result does not "
        "depend on it.",
        "results": "Where the results of runs are kept, and who is told of the progress.",
        "out": "Folder for figures and tables; without it no files are written.",
    },
)  # fmt: skip
