"""Distributions of link loads and of contention, as numbers and as empirical CDFs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import finite_numbers
from weft.core.columns import Column, frame
from weft.fabrics import Fabric, NodeKind

_LOAD = "flows"

#: Columns of `load_metrics`.
LOAD_COLUMNS = {
    "count": Column(pl.Int64, "", "Number of values"),
    "used": Column(pl.Float64, "share", "Share of values above 0 (null: no values)"),
    "mean": Column(pl.Float64, _LOAD, "Mean (null: no values)"),
    "cv": Column(pl.Float64, "ratio", "Population standard deviation over mean (null: mean 0)"),
    "p50": Column(pl.Float64, _LOAD, "Median"),
    "p90": Column(pl.Float64, _LOAD, "90th percentile"),
    "p99": Column(pl.Float64, _LOAD, "99th percentile"),
    "max": Column(pl.Float64, _LOAD, "Largest value"),
}

#: Columns of `metrics_by_scope`.
METRIC_COLUMNS = {
    "by": Column(pl.String, "", "Grouping of links: all, kind or tier"),
    "scope": Column(pl.String, "", "Group of links: all, a kind, or a direction between levels"),
    **LOAD_COLUMNS,
}

#: Columns that name directed links, at every level.
NAMED_LINKS = {
    "link": Column(pl.Int32, "", "Directed link (order of `Fabric.links`)"),
    "name": Column(pl.String, "", "Output port and input port of the link"),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host or auxiliary"
    ),
}

#: Columns of `ecdf`.
ECDF_COLUMNS = {
    "value": Column(pl.Float64, "as given", "Distinct value (ascending)"),
    "share": Column(pl.Float64, "share", "Share of values that are at most this value"),
}

KIND_NAMES = ("switch-switch", "host-switch", "switch-host", "host-host")
#: Kind of the links of auxiliary adapters, which flows cannot use.
AUXILIARY = "auxiliary"


def load_metrics(values: ArrayLike) -> pl.DataFrame:
    """Return the distribution of link loads, or of any values of at least 0, as one row.

    `values` [values]: finite numbers.

    Returns columns of `LOAD_COLUMNS`. Percentiles interpolate linearly between order statistics
    (type 7 of Hyndman and Fan 1996, numpy's default).
    """
    return frame(LOAD_COLUMNS, {name: [value] for name, value in _distribution(values).items()})


def _distribution(values: ArrayLike) -> dict[str, float | None]:
    numbers = finite_numbers(values, "values of a distribution", low=-np.inf)
    if not numbers.size:
        return {"count": 0} | dict.fromkeys(list(LOAD_COLUMNS)[1:])
    mean = float(numbers.mean())
    p50, p90, p99 = np.percentile(numbers, [50, 90, 99]).tolist()
    return {
        "count": len(numbers),
        "used": np.count_nonzero(numbers > 0) / len(numbers),
        "mean": mean,
        "cv": float(numbers.std()) / mean if mean else None,
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": float(numbers.max()),
    }


def ecdf(values: ArrayLike) -> pl.DataFrame:
    """Return the empirical cumulative distribution, one row for each distinct value.

    `values` [values]: finite numbers.

    Returns columns of `ECDF_COLUMNS`: a step function that rises at each value.
    """
    numbers = finite_numbers(values, "values of a distribution", low=-np.inf)
    distinct, counts = np.unique(numbers, return_counts=True)
    return frame(ECDF_COLUMNS, {"value": distinct, "share": np.cumsum(counts) / counts.sum()})


def link_kinds(fabric: Fabric) -> NDArray[Any]:
    """Return the kind of each directed link, one of `KIND_NAMES` or `AUXILIARY`, [links]."""
    kinds = np.array(KIND_NAMES, dtype=object)[fabric.link_kind]
    auxiliary = fabric.node_kind == NodeKind.AUXILIARY
    kinds[auxiliary[fabric.link_from] | auxiliary[fabric.link_to]] = AUXILIARY
    return kinds


def named_links(fabric: Fabric) -> dict[str, Any]:
    """Return the columns `NAMED_LINKS` of all links."""
    links = np.arange(fabric.num_links, dtype=np.int32)
    return {"link": links, "name": fabric.link_names.tolist(), "kind": link_kinds(fabric)}


def link_tiers(fabric: Fabric) -> NDArray[Any]:
    """Return direction and levels of each link, [links]; None unless it connects two levels.

    ``up 1-2`` leads from a node on level 1 to a node on level 2, ``down 2-1`` the opposite way;
    hosts are on level 0.
    """
    tail = fabric.level[fabric.link_from].astype(np.int64)
    head = fabric.level[fabric.link_to].astype(np.int64)
    tiers = np.full(fabric.num_links, None, dtype=object)
    known = (tail >= 0) & (head >= 0) & (tail != head)
    for low, high in np.unique(np.stack((tail[known], head[known]), axis=1), axis=0).tolist():
        here = known & (tail == low) & (head == high)
        tiers[here] = f"up {low}-{high}" if low < high else f"down {low}-{high}"
    return tiers


def scopes(fabric: Fabric) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield groups of links: (grouping, name, bool [links]).

    The first group is all links that flows may use; then each kind that occurs; then, for a fabric
    with levels, each tier, upwards first. Links of auxiliary adapters are not in any group.
    """
    kinds, tiers = link_kinds(fabric), link_tiers(fabric)
    useful = kinds != AUXILIARY
    yield "all", "all", useful
    for kind in KIND_NAMES:
        if np.any(kinds == kind):
            yield "kind", kind, kinds == kind
    names = {tier for tier in tiers[useful] if tier is not None}
    for tier in sorted(names, key=lambda name: (name.startswith("down"), name)):
        yield "tier", tier, useful & (tiers == tier)


def metrics_by_scope(fabric: Fabric, load: NDArray[np.float64]) -> pl.DataFrame:
    """Return the distribution of load over all directed links, and over each group of `scopes`.

    `load` [links]: load of each directed link.

    Returns columns of `METRIC_COLUMNS`, one row for each group.
    """
    rows = [
        {"by": by, "scope": name, **_distribution(load[here])} for by, name, here in scopes(fabric)
    ]
    return frame(METRIC_COLUMNS, {name: [row[name] for row in rows] for name in METRIC_COLUMNS})
