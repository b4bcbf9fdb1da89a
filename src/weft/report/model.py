"""What a comparison page shows: plain data, drawn by `weft.report.html`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric


@dataclass(frozen=True)
class LinkUser:
    """Flows over a link that share a source and a destination, both given as people name them.

    Parameters
    ----------
    source, destination
        What to call them: a node's name, or a group of nodes.
    flows
        How many.
    source_node, destination_node
        Node to point at in the drawing, -1 for the node of that name, if there is one.
    """

    source: str
    destination: str
    flows: int
    source_node: int = -1
    destination_node: int = -1


@dataclass(frozen=True, eq=False)
class Run:
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
        Directed link -> who uses it, most flows first; given for the busiest links.
    unrouted_share
        Share of the pattern's flows that have no path.
    """

    engine: str
    pattern: str
    flows: NDArray[np.float64]
    load: NDArray[np.float64]
    users: Mapping[int, tuple[LinkUser, ...]] = field(default_factory=dict)
    unrouted_share: float = 0.0


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
    """

    fabric: Fabric
    title: str
    facts: tuple[tuple[str, str], ...]
    columns: Mapping[str, str]
    engines: tuple[EngineVerdict, ...]
    patterns: Mapping[str, str]
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()
