"""Data of a comparison page, drawn by `weft.report.comparison_page`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric

#: Number of entries listed in a `Ranking`; further entries are only counted.
LISTED_USERS = 200


@dataclass(frozen=True, eq=False)
class Ranking:
    """Flows on a link, summed by source, by destination or by both, most flows first."""

    #: int64 [entries, 1 or 2]: source, destination, or both. Each is a host, or a switch that
    #: stands for its hosts.
    nodes: NDArray[np.int64]
    #: int64 [entries]: number of flows of each entry.
    flows: NDArray[np.int64]
    #: Number of entries before the list was cut to `LISTED_USERS`.
    count: int

    @classmethod
    def of(cls, nodes: NDArray[np.integer[Any]], flows: NDArray[np.int64]) -> Ranking:
        """Sum flows of equal nodes; ties are ordered by node number."""
        key = nodes[:, 0].astype(np.int64)
        if nodes.shape[1] > 1:
            key = key * (int(nodes.max(initial=0)) + 1) + nodes[:, 1]
        # `numpy.unique` takes several times as long for the short lists of thousands of links.
        by_key = np.argsort(key, kind="stable")
        ordered = key[by_key]
        starts = np.flatnonzero(np.append(ordered[:1] >= 0, ordered[1:] != ordered[:-1]))
        total = np.add.reduceat(flows[by_key], starts) if len(starts) else flows[:0]
        order = np.argsort(-total, kind="stable")[:LISTED_USERS]
        listed = by_key[starts[order]]
        return cls(nodes[listed].astype(np.int64), total[order].astype(np.int64), len(starts))


@dataclass(frozen=True, eq=False)
class LinkUsers:
    """Flows that cross a link, by pair, by source and by destination."""

    pairs: Ranking
    sources: Ranking
    destinations: Ranking

    @classmethod
    def of(
        cls,
        source: NDArray[np.integer[Any]],
        destination: NDArray[np.integer[Any]],
        flows: NDArray[np.int64],
    ) -> LinkUsers:
        """Rank flows between nodes.

        `source`, `destination`: integer [entries]: nodes as in `Ranking`; a pair may occur several
        times. `flows` [entries]: number of flows of each entry.
        """
        return cls(
            Ranking.of(np.column_stack((source, destination)), flows),
            Ranking.of(np.asarray(source)[:, None], flows),
            Ranking.of(np.asarray(destination)[:, None], flows),
        )


@dataclass(frozen=True, eq=False)
class PatternRun:
    """Loads of one engine and one traffic pattern."""

    #: Name of the engine, and name of the pattern.
    engine: str
    pattern: str
    #: float64 [links]: number of flows on each link.
    flows: NDArray[np.float64]
    #: float64 [links]: flows divided by the link's rate, which is relative to the fastest host
    #: cable.
    load: NDArray[np.float64]
    #: Link -> flows that cross it, for the most loaded links.
    users: Mapping[int, LinkUsers] = field(default_factory=dict)
    #: Share of the pattern's flows that have no path.
    unrouted_share: float = 0.0
    #: Why the flows on links are unknown; empty if they are known.
    no_users: str = ""
    #: Largest load of the static fallback of adaptive routes; None without one.
    static_peak: float | None = None


@dataclass(frozen=True)
class EngineVerdict:
    """Verdict on one engine."""

    #: The engine and its one-line description.
    name: str
    summary: str
    #: Why the engine does not fit the fabric; empty if it fits.
    refusal: str = ""
    #: Whether its routes are valid.
    ok: bool = False
    #: Findings of the validator and notes of the engine, one per line.
    findings: tuple[str, ...] = ()
    #: Column -> text, in the order of the page's columns; empty if the engine does not fit.
    cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PageSection:
    """A table that a page shows above its drawing."""

    title: str
    #: Rows: column -> value, None where there is none. All rows have the same columns.
    rows: tuple[Mapping[str, Any], ...]
    #: Sentence below the title.
    lead: str = ""


@dataclass(frozen=True)
class Words:
    """What a page calls the choices of its runs, and what links carry."""

    engine: str = "Engine"
    pattern: str = "Pattern"
    #: Heading of the table of engines.
    engines_title: str = "Routing engines"
    #: What links carry: heading, unit, and whether it is counted in whole units.
    amount: str = "Flows"
    unit: str = "flow"
    counted: bool = True
    #: Name and unit of the load, and what a load of 1 is; empty: flows per fastest host cable.
    load: str = "load (flows per fastest host cable)"
    load_text: str = ""


@dataclass(frozen=True)
class Mark:
    """A node or cable that the drawing marks: with a cross if it fails, else with a ring."""

    #: The node, or else the cable; -1 for none.
    node: int = -1
    cable: int = -1
    fails: bool = False
    #: A short text beside the mark, such as a rank.
    text: str = ""


@dataclass(frozen=True, eq=False)
class Page:
    """A comparison."""

    fabric: Fabric
    #: Heading.
    title: str
    #: (name, value) of the fabric: hosts, switches, cables, rates, diameter.
    facts: tuple[tuple[str, str], ...]
    #: Column of the engine table -> its meaning and unit.
    columns: Mapping[str, str]
    #: Verdicts in the order of the table, best first.
    engines: tuple[EngineVerdict, ...]
    #: Pattern -> one-line description, or why it does not fit the fabric.
    patterns: Mapping[str, str]
    #: Runs of engines and patterns that fit.
    runs: tuple[PatternRun, ...]
    #: Notes on the method, such as options and seeds.
    notes: tuple[str, ...] = ()
    #: Heading of the notes, if it is another one.
    notes_title: str = ""
    #: The best engine and the reasons; empty if there is none.
    answer: str = ""
    #: The best engine, with which the page opens. If empty, the page opens with the first engine.
    best: str = ""
    #: Rows of the table of faults of the fabric.
    faults: tuple[Mapping[str, Any], ...] = ()
    #: Tables above the drawing.
    sections: tuple[PageSection, ...] = ()
    words: Words = Words()
    #: Parts that the drawing marks, and what the marks mean.
    marks: tuple[Mark, ...] = ()
    marks_text: str = ""
