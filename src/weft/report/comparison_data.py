"""What a comparison page shows: plain data, drawn by `weft.report.comparison_page`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric

#: Rows that a list of the users of a link keeps; more are counted.
LISTED_USERS = 200


@dataclass(frozen=True, eq=False)
class Ranking:
    """Flows over a link added up by who sends, who receives or both, most flows first.

    Parameters
    ----------
    nodes
        int64 [rows, 1 or 2]: a host, or a switch that stands for the hosts that hang from it.
    flows
        int64 [rows]: how many flows.
    count
        How many rows there were before the list was cut to `LISTED_USERS`.
    """

    nodes: NDArray[np.int64]
    flows: NDArray[np.int64]
    count: int

    @classmethod
    def of(cls, nodes: NDArray[np.integer[Any]], flows: NDArray[np.int64]) -> Ranking:
        """Add up flows of equal nodes; ties by node number."""
        key = np.zeros(len(nodes), dtype=np.int64)
        for column in nodes.T:
            key = key * (int(nodes.max(initial=0)) + 1) + column
        _, first, where = np.unique(key, return_index=True, return_inverse=True)
        total = np.bincount(where.ravel(), weights=flows, minlength=len(first)).astype(np.int64)
        order = np.argsort(-total, kind="stable")[:LISTED_USERS]
        return cls(nodes[first[order]].astype(np.int64), total[order], len(first))


@dataclass(frozen=True, eq=False)
class LinkUsers:
    """Whose flows cross a link: by pair, by source and by destination."""

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

        Parameters
        ----------
        source, destination
            Integer [entries]: nodes as in `Ranking`; a pair may come several times.
        flows
            int64 [entries]: how many flows each entry stands for.
        """
        return cls(
            Ranking.of(np.column_stack((source, destination)), flows),
            Ranking.of(np.asarray(source)[:, None], flows),
            Ranking.of(np.asarray(destination)[:, None], flows),
        )


@dataclass(frozen=True, eq=False)
class PatternRun:
    """One engine under one traffic pattern.

    Parameters
    ----------
    engine, pattern
        Their names.
    flows
        float64 [links]: flows over each directed link.
    load
        float64 [links]: those flows over the link's rate, where 1 is one flow on a link of the
        fastest host cable's rate.
    users
        Directed link -> whose flows cross it; given for the busiest links.
    unrouted_share
        Share of the pattern's flows that have no path.
    no_users
        Why no link has users, empty where some have.
    """

    engine: str
    pattern: str
    flows: NDArray[np.float64]
    load: NDArray[np.float64]
    users: Mapping[int, LinkUsers] = field(default_factory=dict)
    unrouted_share: float = 0.0
    no_users: str = ""


@dataclass(frozen=True)
class EngineVerdict:
    """What became of one engine.

    Parameters
    ----------
    name, summary
        The engine and its one-line description.
    refusal
        Why it does not fit, empty when it does.
    ok
        It passed the validator.
    findings
        What the validator and the engine have to say, a line each.
    cells
        Column -> text, in the order of the page's columns; empty when it refused.
    """

    name: str
    summary: str
    refusal: str = ""
    ok: bool = False
    findings: tuple[str, ...] = ()
    cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Page:
    """A whole comparison.

    Parameters
    ----------
    fabric
        What was compared on.
    title
        Heading.
    facts
        (name, value) of the fabric: hosts, switches, cables, rates, diameter.
    columns
        Column -> what it means and its unit, for the engine table.
    engines
        Verdicts in the order of the table, best first.
    patterns
        Pattern -> one-line description, in the order to be offered; for those that do not fit
        the fabric, why.
    runs
        Every (engine, pattern) that ran.
    notes
        Lines of how this was made: options, seeds, version.
    answer
        Which engine is best and why, in a sentence or two; empty for none.
    best
        The engine that the answer calls best, with which the page opens; empty for the first.
    """

    fabric: Fabric
    title: str
    facts: tuple[tuple[str, str], ...]
    columns: Mapping[str, str]
    engines: tuple[EngineVerdict, ...]
    patterns: Mapping[str, str]
    runs: tuple[PatternRun, ...]
    notes: tuple[str, ...] = ()
    answer: str = ""
    best: str = ""
