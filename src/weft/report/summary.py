"""Summary of one run for a page: distribution of loads, most loaded links and their flows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric, LinkKind, NodeKind
from weft.report.comparison_data import LinkUsers, Page, PatternRun
from weft.sim.common.metrics import ecdf, load_metrics

#: Number of rows of the list of most loaded links.
BUSIEST = 20
#: Maximum number of points of a distribution curve.
CURVE_POINTS = 240

#: (key, name, meaning) of the statistics of every engine and pattern.
STATISTICS = (
    ("max", "max", "Largest load; a flow on that link gets at most 1/load of a host's rate"),
    ("p99", "p99", "99th percentile of the loads"),
    ("p90", "p90", "90th percentile of the loads"),
    ("p50", "median", "Median of the loads"),
    ("mean", "mean", "Mean load"),
    ("cv", "CV", "Coefficient of variation: standard deviation over mean (0: perfectly even)"),
    ("used", "used", "Share of the links that carry flows"),
    ("unrouted", "unrouted", "Share of the pattern's flows that have no path"),
)


@dataclass(frozen=True, eq=False)
class LinkScope:
    """Links that statistics and curves cover."""

    #: int64: the links, ascending.
    links: NDArray[np.int64]
    #: Name of these links in texts.
    name: str
    #: Whether these are all usable links, because no link is between switches.
    all_links: bool


def scope_of(fabric: Fabric) -> LinkScope:
    """Return the links between switches, or all usable links if there are none."""
    between = np.flatnonzero(fabric.link_kind == LinkKind.SWITCH_SWITCH)
    if len(between):
        return LinkScope(between, "links between switches", all_links=False)
    return LinkScope(usable_links(fabric), "links", all_links=True)


def usable_links(fabric: Fabric) -> NDArray[np.int64]:
    """Return the links that do not end at an auxiliary adapter."""
    auxiliary = fabric.node_kind == NodeKind.AUXILIARY
    return np.flatnonzero(~(auxiliary[fabric.link_from] | auxiliary[fabric.link_to]))


def busiest_links(
    load: NDArray[np.float64], links: NDArray[np.int64], count: int = BUSIEST
) -> list[int]:
    """Return the most loaded of some links, without idle ones; ties are ordered by number."""
    order = links[np.argsort(-load[links], kind="stable")][:count]
    return [int(link) for link in order if load[link] > 0]


def statistics(load: NDArray[np.float64]) -> dict[str, float | None]:
    """Return the values of `STATISTICS`, and the number of links."""
    row = load_metrics(load).row(0, named=True)
    return {"links": row["count"], **{key: row[key] for key, _, _ in STATISTICS if key in row}}


def curve(load: NDArray[np.float64], most: int = CURVE_POINTS) -> tuple[list[float], list[float]]:
    """Return the empirical distribution: ascending loads, and the share of links up to each load.

    If there are more than `most` points, at most that many are kept, at about even steps of the
    share.
    """
    if not len(load):
        return [], []
    frame = ecdf(load)
    values, shares = frame["value"].to_numpy(), frame["share"].to_numpy()
    if len(values) > most:
        wanted = np.linspace(0, 1, most)
        keep = np.unique(np.concatenate((np.searchsorted(shares, wanted), [len(values) - 1])))
        keep = keep[keep < len(values)]
        values, shares = values[keep], shares[keep]
    return [rounded(value) for value in values], [rounded(share, 6) for share in shares]


def rounded(value: float, digits: int = 10) -> float:
    """Round to significant digits, which makes JSON short."""
    return float(f"{float(value):.{digits}g}")


def node_text(fabric: Fabric, node: int) -> str:
    """Return a host's name, or ``hosts of`` a switch."""
    name = fabric.node_names[node]
    return f"hosts of {name}" if fabric.node_kind[node] == NodeKind.SWITCH else name


def user_line(fabric: Fabric, users: LinkUsers | None) -> str:
    """Return the pair with most flows on a link, and the number of other pairs."""
    if users is None or not users.pairs.count:
        return ""
    first = " → ".join(node_text(fabric, int(node)) for node in users.pairs.nodes[0])
    more = users.pairs.count - 1
    return first if not more else f"{first} and {more:,} more pair{'' if more == 1 else 's'}"


def default_run(page: Page) -> PatternRun | None:
    """Return the run with which a page opens: the first pattern of the best engine with runs."""
    runs = {(run.engine, run.pattern): run for run in reversed(page.runs)}
    names = (page.best, *(verdict.name for verdict in page.engines))
    found = (runs.get((name, pattern)) for name in names for pattern in page.patterns)
    return next(filter(None, found), page.runs[0] if page.runs else None)
