"""What a page says of one run: the distribution of its loads, its hottest links, their users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric, LinkKind, NodeKind
from weft.report.comparison_data import LinkUsers, Page, PatternRun
from weft.sim.common.metrics import ecdf, load_metrics

#: Rows of the list of hottest links.
HOTTEST = 20
#: Points of a distribution curve at most.
CURVE_POINTS = 240

#: (key, name, meaning) of the numbers that are given for every engine under a pattern.
STATISTICS = (
    ("max", "max", "the busiest link's load: at best a flow over it gets 1/load of a host's rate"),
    ("p99", "p99", "99th percentile of the loads"),
    ("p90", "p90", "90th percentile of the loads"),
    ("p50", "median", "half of the links carry at most this"),
    ("mean", "mean", "mean load"),
    ("cv", "CV", "coefficient of variation: standard deviation over mean, 0 when perfectly even"),
    ("used", "used", "share of these links that carry any flow"),
    ("unrouted", "unrouted", "share of the pattern's flows that have no path"),
)


@dataclass(frozen=True, eq=False)
class Scope:
    """The links that numbers and curves speak of.

    Parameters
    ----------
    links
        int64: the directed links, ascending.
    name
        What to call them.
    whole
        They are all links that flows may use, because none joins two switches.
    """

    links: NDArray[np.int64]
    name: str
    whole: bool


def scope_of(fabric: Fabric) -> Scope:
    """The links between switches, or all links that flows may use where there are none."""
    between = np.flatnonzero(fabric.link_kind == LinkKind.SWITCH_SWITCH)
    if len(between):
        return Scope(between, "links between switches", whole=False)
    return Scope(usable_links(fabric), "links", whole=True)


def usable_links(fabric: Fabric) -> NDArray[np.int64]:
    """Links that do not end at an auxiliary adapter."""
    auxiliary = fabric.node_kind == NodeKind.AUXILIARY
    return np.flatnonzero(~(auxiliary[fabric.link_from] | auxiliary[fabric.link_to]))


def hottest(load: NDArray[np.float64], links: NDArray[np.int64], count: int = HOTTEST) -> list[int]:
    """The links of highest load among some, those without load left out; ties by number."""
    order = links[np.argsort(-load[links], kind="stable")][:count]
    return [int(link) for link in order if load[link] > 0]


def statistics(load: NDArray[np.float64]) -> dict[str, float | None]:
    """Numbers of `STATISTICS`, and how many links there are."""
    row = load_metrics(load).row(0, named=True)
    return {"links": row["count"], **{key: row[key] for key, _, _ in STATISTICS if key in row}}


def curve(load: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Empirical distribution as steps: loads ascending, share of links of at most each.

    Loads of many values keep `CURVE_POINTS` of them, evenly spread over the shares; each kept
    point is exact.
    """
    if not len(load):
        return [], []
    frame = ecdf(load)
    values, shares = frame["value"].to_numpy(), frame["share"].to_numpy()
    if len(values) > CURVE_POINTS:
        wanted = np.linspace(0, 1, CURVE_POINTS)
        keep = np.unique(np.concatenate((np.searchsorted(shares, wanted), [len(values) - 1])))
        keep = keep[keep < len(values)]
        values, shares = values[keep], shares[keep]
    return [rounded(value) for value in values], [rounded(share, 6) for share in shares]


def rounded(value: float, digits: int = 10) -> float:
    """The number with so many significant digits, short when written as JSON."""
    return float(f"{float(value):.{digits}g}")


def node_text(fabric: Fabric, node: int) -> str:
    """A user of a link in words: a host by name, a switch as what hangs from it."""
    name = fabric.node_names[node]
    return f"hosts of {name}" if fabric.node_kind[node] == NodeKind.SWITCH else name


def user_line(fabric: Fabric, users: LinkUsers | None) -> str:
    """One line for many: the first pair and how many more there are."""
    if users is None or not users.pairs.count:
        return ""
    first = " → ".join(node_text(fabric, int(node)) for node in users.pairs.nodes[0])
    more = users.pairs.count - 1
    return first if not more else f"{first} and {more:,} more pair{'' if more == 1 else 's'}"


def default_run(page: Page) -> PatternRun | None:
    """The run that a page opens with: of the best engine that has any, its first pattern."""
    for name in (page.best, *(verdict.name for verdict in page.engines)):
        for pattern in page.patterns:
            for run in page.runs:
                if (run.engine, run.pattern) == (name, pattern):
                    return run
    return page.runs[0] if page.runs else None
