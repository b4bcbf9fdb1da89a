"""Plain data of a study: its runs with their measures, as tables, figures and pages need them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from weft.core.columns import Measure

if TYPE_CHECKING:
    from weft.fabrics import Fabric

#: Columns of `StudyData.runs` before those of the axes and measures.
RUN_KEYS = ("run", "key", "seed", "status", "reason", "wall_s", "memory_bytes")
#: Names of axes, or parts of them between dots, that set the task rather than a choice.
CONDITIONS = ("workload", "pattern", "load", "loads", "size", "sizes", "ranks", "faults", "start")

#: Numbers of random faults. Those of fabrics of different size belong to the choice.
COUNTS = ("random_cables", "random_switches")


@dataclass(frozen=True, eq=False)
class StudyData:
    """A study and its runs."""

    title: str
    #: Text of the experiment file with every key.
    experiment: str
    #: Command whose parameters the study varies, such as ``simulate``.
    command: str
    #: Name of a parameter that the study varies -> its values as text, in the order of the file.
    #: The seed is not among them.
    axes: Mapping[str, tuple[str, ...]]
    #: One row per run, done or not: `RUN_KEYS`, a column of text for each axis, and a column of
    #: Float64 for each measure, null where a run has no result. ``run`` counts from 1 in the order
    #: of the file; ``status`` is ``complete``, ``partial``, ``does not fit``, ``failed``,
    #: ``stopped``, ``out of time``, ``out of memory``, ``lost`` or ``not run``, and ``reason`` says
    #: why there is no complete result.
    runs: pl.DataFrame
    #: Measures in the order in which they are shown; the first is the main one.
    measures: tuple[Measure, ...]
    #: Axis -> value of the runs to which others are compared; empty if there is no baseline. A run
    #: is compared with the run that has these values and is equal in all other axes and in the
    #: seed.
    baseline: Mapping[str, str] = field(default_factory=dict)
    #: Function from the key of a run and the name of a table (``links``, ``congestion``, ``jobs``,
    #: ``series``) to this table, or None if it is not stored.
    table: Callable[[str, str], pl.DataFrame | None] = lambda key, name: None
    #: Version of weft -> number of runs that it computed.
    versions: Mapping[str, int] = field(default_factory=dict)
    #: Axes that set the task rather than a choice. The best choice is sought under each of their
    #: combinations, and on average over them. Default: those with a name of `CONDITIONS`.
    conditions: tuple[str, ...] | None = None
    #: Name -> meaning of further columns of text in `runs`, such as the engine of a run.
    details: Mapping[str, str] = field(default_factory=dict)
    #: Function from the key of a run to its fabric, or None if it cannot be drawn.
    fabric: Callable[[str], Fabric | None] = lambda key: None
    #: Function from the keys of the runs of a point to the measures that a seed does not change:
    #: nothing that they depend on is drawn. Several runs with one key are one run in any case.
    fixed: Callable[[Collection[str]], Collection[str]] = lambda keys: ()
    #: Key of a complete run of which some measures do not count -> why, as in ``saturated``, and
    #: the names of these measures.
    excluded: Mapping[str, tuple[str, Collection[str]]] = field(default_factory=dict)
    #: Key of a run -> number of its ranks or hosts, if it is known.
    sizes: Mapping[str, float] = field(default_factory=dict)
