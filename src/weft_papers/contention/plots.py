"""Figure 5 of the contention-graph study, with predicted times only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_5(times: pl.DataFrame, spread: pl.DataFrame, options: Mapping[str, Any]) -> Figure:
    """Draw the predicted time of every communication, and the median, by number of edges."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    graphs = options["graphs"]
    # Shifted sideways by the index of the graph, so that equal times do not overlap.
    shift = (times["graph"].to_numpy() + 0.5) / graphs - 0.5
    axes.plot(
        times["edges"].to_numpy() + 0.7 * shift, times["time"].to_numpy(), ".", markersize=3,
        color="#0072B2", alpha=0.5, label="one communication",
    )  # fmt: skip
    axes.plot(
        spread["edges"].to_numpy(), spread["median"].to_numpy(),
        "_", markersize=22, markeredgewidth=2, color="#D55E00", label="median",
    )  # fmt: skip
    axes.set_xlabel("communications of the graph")
    axes.set_ylabel("predicted time / T_ref")
    axes.set_xticks(spread["edges"].to_list())
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="upper left")
    axes.set_title(
        f"Predicted times of {graphs} random graphs per number of edges, "
        f"{options['nodes']} nodes, seed {options['seed']}",
        fontsize=10,
    )
    return figure
