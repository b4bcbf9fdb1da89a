"""Result of the contention-graph study: text, tables and figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from weft.contention import PAPER_INVERSE_BANDWIDTH
from weft.core.columns import Column, frame_of_rows
from weft.studies.reported_study import ReportedStudy, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft.studies.contention.packets import PacketComparison

#: Size of the paper's messages: its 20 MB are 20 MiB, as its T_ref of 0.010706 s shows.
SIZE_BYTES = 20 * 2**20

PRINTED_COLUMNS: dict[str, Column] = {
    "figure": Column(pl.String, "", "Figure of the paper, with the graph"),
    "edge": Column(pl.String, "", "Communication"),
    "step": Column(pl.Int64, "", "Step of the dynamic graph (from 1; null: whole graph)"),
    "quantity": Column(pl.String, "", "Quantity (penalty, time in s, bytes left or bytes sent)"),
    "printed": Column(pl.Float64, "", "Printed value"),
    "ours": Column(pl.Float64, "", "Value of the model in weft"),
    "difference": Column(pl.Float64, "", "Value in weft minus printed value"),
    "relative": Column(pl.Float64, "", "Difference divided by printed value (null if that is 0)"),
    "agrees": Column(
        pl.Boolean,
        "",
        "Agreement within one unit of the last digit printed (times: plus 1e-5 of the value, since "
        "the paper's bandwidth has four digits)",
    ),
}
SPREAD_COLUMNS: dict[str, Column] = {
    "edges": Column(pl.Int64, "", "Number of communications per graph"),
    "graphs": Column(pl.Int64, "", "Number of random graphs"),
    "min": Column(pl.Float64, "T_ref", "Shortest predicted time"),
    "p05": Column(pl.Float64, "T_ref", "5th percentile of the times"),
    "median": Column(pl.Float64, "T_ref", "Median time"),
    "p95": Column(pl.Float64, "T_ref", "95th percentile of the times"),
    "max": Column(pl.Float64, "T_ref", "Longest time"),
    "distinct": Column(pl.Int64, "", "Number of different times"),
}
TIME_COLUMNS: dict[str, Column] = {
    "edges": Column(pl.Int64, "", "Number of communications of the graph"),
    "graph": Column(pl.Int64, "", "Index of the graph among those with the same number of edges"),
    "edge": Column(pl.Int64, "", "Index of the communication in its graph"),
    "source": Column(pl.Int64, "", "Sending node"),
    "destination": Column(pl.Int64, "", "Receiving node"),
    "penalty": Column(pl.Float64, "", "Penalty in the first step"),
    "time": Column(pl.Float64, "T_ref", "Predicted completion time"),
}
SHAPE_COLUMNS: dict[str, Column] = {
    "edges": Column(pl.Int64, "", "Number of communications per graph"),
    "shapes": Column(
        pl.Int64, "", "Number of connected graphs up to isomorphism (parallel edges included)"
    ),
    "distinct": Column(pl.Int64, "", "Number of different times"),
    "times": Column(pl.String, "T_ref", "Times as fractions"),
}


NOTES = (
    "Figure 4, graph A, edge e: the printed penalty is 1.5, but the printed time is "
    "0.013382 s = 1.25 T_ref, and rule (b) gives 1 + 1/(5 - 1) = 1.25. With 1.5, e would end at "
    "0.016059 s and a and b at 0.036400 s, where the paper prints 0.036132 s.",
    "Rule (b), read by itself, would also hold for c and d of figure 4 A (out-degree 1), where the "
    "paper prints 2.5 and 2.5; so it holds only where all other edges into the destination come "
    "from sources of more than one edge.",
    "Rule (b), with the whole penalty of the other edge, would give 1 + 1/(3.33 - 1) = 1.43 for f "
    "of figure 3, where the paper prints 1.5 = 1 + 1/(3 - 1): the rule counts only the other "
    "edge's conflicts with full-rate senders.",
    "Rule (a) is printed with an in-degree of 0, which no destination has; according to the text "
    "it means no contention at the receiving node.",
    "On complete bipartite graphs of m senders and n receivers, rule (a) gives the penalty n for "
    "m <= n; for m > n >= 2 it does not apply and rule (c) gives m + n - 1, though the receivers "
    "could give every edge 1/m. The rules are used as printed.",
    "Sums of rates into a node can exceed its bandwidth: in figure 4 B, 1/5 + 3/3.5 = 1.06.",
    "Section 3.3 prints wrong indices of T: with equation 3, m_22 = (T2 - T1)/(alpha rho_22), "
    "m_32 = (T2 - T1)/(alpha rho_32) and m_33 = (T3 - T2)/(alpha rho_33).",
    "20MB are 20 x 2^20 bytes (T_ref = 0.010706 s), and the 1.82 GB/s are 1.82 x 2^30 bytes/s. "
    "alpha = 5.105e-10 has four digits: our times differ from those of figure 3 by at most 5e-6, "
    "and 5.10502e-10 gives all of its digits. Figure 4's times are truncated, not rounded.",
    "The text does not describe the graphs of figures 3 and 4; their edges are reconstructed from "
    "the printed numbers.",
)

#: Results of the paper that need its cluster.
MISSING = (
    "Not reproduced, because they need the paper's cluster: the measurements of figures 3, 4 and "
    "5, and so the errors of the predictions (in the paper at most 3 % in figure 3, 6 % in figure "
    "4, and below 15 % in figure 5). The paper does not list the graphs of figure 5; those used "
    "here are random: each edge joins two random nodes; a node has at most 8 edges out and 8 in."
)
WITHOUT_PACKETS = (
    "--packet-graphs 200 runs random graphs of 2 to 12 communications at the packet level and "
    "reports the errors of the model's times."
)


def _figures(study: ContentionStudy) -> Table:
    """Return a table of the printed numbers; edges with equal numbers share a row."""
    table = Table(title="Printed numbers and those of the model")
    for name in ("figure", "edges", "quantity"):
        table.add_column(name)
    for name in ("step", "printed", "ours", "difference", "relative"):
        table.add_column(name, justify="right")
    table.add_column("agrees")
    rows: dict[tuple[str, ...], list[str]] = {}
    for number in study.numbers:
        value = float(number.printed)
        shown = f"{number.ours:,.0f}" if "bytes" in number.quantity else f"{number.ours:.7g}"
        key: tuple[str, ...] = (
            number.figure,
            number.quantity,
            "" if number.step is None else str(number.step),
            number.printed,
            shown,
            f"{number.ours - value:+.2g}",
            f"{number.ours / value - 1:+.1e}" if value else "",
            "yes" if number.agrees else "no, see 1",
        )
        rows.setdefault(key, []).append(number.edge)
    last = ""
    for key, edges in rows.items():
        figure, quantity, step = key[:3]
        if last and figure != last:
            table.add_section()
        table.add_row(escape(figure), escape(" ".join(edges)), quantity, step, *key[3:])
        last = figure
    return table


def _spread(study: ContentionStudy) -> Table:
    table = Table(title="Figure 5: predicted times of random graphs, in T_ref")
    for name in study.spread.columns:
        table.add_column(name, justify="right")
    for row in study.spread.iter_rows():
        edges, graphs, *values, distinct = row
        table.add_row(str(edges), str(graphs), *(f"{v:.3f}" for v in values), str(distinct))
    return table


def _shapes(study: ContentionStudy) -> Table:
    table = Table(title="All connected graphs: predicted times, in T_ref")
    for name in ("edges", "shapes", "distinct"):
        table.add_column(name, justify="right")
    table.add_column("times")
    for edges, shapes, distinct, times in study.shapes.iter_rows():
        listed = times.split(", ")
        shown = ", ".join(listed) if len(listed) <= 40 else f"{', '.join(listed[:39])}, ..."
        table.add_row(str(edges), str(shapes), str(distinct), shown)
    return table


def _packets(comparison: PacketComparison) -> list[Table]:
    variants = Table(
        title=f"Packet level: {comparison.graphs} random graphs of 2 to 12 communications"
    )
    variants.add_column("variant")
    shown = ("alone Gb/s", "mean %", "p95 %", "max %", "bias %", "max-min mean %", "max-min max %")
    for name in shown:
        variants.add_column(name, justify="right")
    for variant, *values in comparison.variants.iter_rows():
        variants.add_row(variant, *(f"{value:.2f}" for value in values))
    errors = Table(
        title="The paper's coefficients by number of communications: mean and max error, %"
    )
    by_variant = comparison.errors.partition_by("variant", maintain_order=True)
    for name in ("edges", "graphs", *(str(each["variant"][0]) for each in by_variant)):
        errors.add_column(name, justify="right")
    for rows in zip(*(each.iter_rows(named=True) for each in by_variant), strict=True):
        errors.add_row(
            str(rows[0]["edges"]),
            str(rows[0]["graphs"]),
            *(f"{row['mean_error']:.1f} / {row['max_error']:.0f}" for row in rows),
        )
    measured = Table(
        title="Times measured in the paper, of its model and of the packet level: T_ref, error %"
    )
    for name in ("figure", "edge"):
        measured.add_column(name)
    measured_by_variant = comparison.measured.partition_by("variant", maintain_order=True)
    for name in ("measured", "model", *(str(each["variant"][0]) for each in measured_by_variant)):
        measured.add_column(name, justify="right")
    for rows in zip(*(each.iter_rows(named=True) for each in measured_by_variant), strict=True):
        first = rows[0]
        model = 100 * (first["model"] / first["measured"] - 1)
        measured.add_row(
            first["figure"],
            first["edge"],
            f"{first['measured']:.3f}",
            f"{first['model']:.3f} {model:+.1f}",
            *(f"{row['packets']:.3f} {row['error']:+.1f}" for row in rows),
        )
    coefficients = Table(title="Coefficients fitted to the packet level")
    coefficients.add_column("coefficient")
    fits = comparison.coefficients.partition_by("variant", maintain_order=True)
    for name in ("paper", *(str(each["variant"][0]) for each in fits)):
        coefficients.add_column(name, justify="right")
    for rows in zip(*(each.iter_rows(named=True) for each in fits), strict=True):
        coefficients.add_row(
            rows[0]["coefficient"],
            f"{rows[0]['infiniband']:g}",
            *(f"{row['value']:.3f} +- {row['deviation']:.2g}" for row in rows),
        )
    fitted = Table(title="Errors with the paper's and with fitted coefficients: mean and max, %")
    for name in ("variant", "graphs"):
        fitted.add_column(name)
    for name in ("the paper's", "fitted"):
        fitted.add_column(name, justify="right")
    for variant, graphs, *values in comparison.fitted.iter_rows():
        before, after = (f"{values[i]:.2f} / {values[i + 1]:.0f}" for i in (0, 2))
        fitted.add_row(variant, graphs, before, after)
    return [variants, errors, measured, coefficients, fitted]


def figure_5(study: ContentionStudy) -> Figure:
    """Draw the predicted time of every communication, and the median, by number of edges."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    graphs = study.parameters["graphs"]
    # Shifted sideways by the index of the graph, so that equal times do not overlap.
    times = study.times
    shift = (times["graph"].to_numpy() + 0.5) / graphs - 0.5
    axes.plot(
        times["edges"].to_numpy() + 0.7 * shift,
        times["time"].to_numpy(),
        ".", markersize=3, color="#0072B2", alpha=0.5, label="one communication",
    )  # fmt: skip
    axes.plot(
        study.spread["edges"].to_numpy(), study.spread["median"].to_numpy(),
        "_", markersize=22, markeredgewidth=2, color="#D55E00", label="median",
    )  # fmt: skip
    axes.set_xlabel("communications of the graph")
    axes.set_ylabel("predicted time / T_ref")
    axes.set_xticks(study.spread["edges"].to_list())
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="upper left")
    axes.set_title(
        f"Predicted times of {graphs} random graphs per number of edges, "
        f"{study.parameters['nodes']} nodes, seed {study.parameters['seed']}",
        fontsize=10,
    )
    return figure


@dataclass(frozen=True)
class Printed:
    """Number printed in the paper, and the same number computed by weft.

    Parameters
    ----------
    figure, edge, step, quantity
        Identification of the number; see `PRINTED_COLUMNS`.
    printed
        Printed number as text, to keep its digits.
    ours
        Value of the model in weft.
    """

    figure: str
    edge: str
    step: int | None
    quantity: str
    printed: str
    ours: float

    @property
    def unit(self) -> float:
        """One unit of the last printed digit; numbers of bytes have six significant digits.

        A number of bytes sent is the message size minus the bytes left; its unit is therefore that
        of a number with as many digits as the message size.
        """
        if self.quantity.startswith("bytes"):
            digits = len(self.printed if self.quantity == "bytes left" else str(SIZE_BYTES))
            return 10.0 ** max(digits - 6, 0)
        return 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def agrees(self) -> bool:
        """Whether the numbers differ by at most `unit`, plus 1e-5 of the value for a time."""
        value = float(self.printed)
        margin = 1.0001 * self.unit
        if self.quantity == "time":
            margin += 1e-5 * value
        return abs(self.ours - value) <= margin


@dataclass(frozen=True, eq=False)
class ContentionStudy(ReportedStudy):
    """Result of the study.

    Parameters
    ----------
    parameters
        All options.
    numbers
        Every number printed in the paper, and its value in weft.
    times, spread
        Predicted times of the random graphs, and their spread by number of edges.
    shapes
        Predicted times of all connected graphs by number of edges.
    packets
        Errors relative to the packet level, or None.
    files
        Files written.
    """

    parameters: dict[str, int]
    numbers: tuple[Printed, ...]
    times: pl.DataFrame
    spread: pl.DataFrame
    shapes: pl.DataFrame
    packets: PacketComparison | None = None

    @property
    def partial(self) -> str:
        """Number of packet-level variants completed before an interrupt; empty if complete."""
        return self.packets.partial if self.packets is not None else ""

    @property
    def printed(self) -> pl.DataFrame:
        """Table of `PRINTED_COLUMNS` with one row per printed number."""
        rows: list[tuple[object, ...]] = []
        for n in self.numbers:
            value = float(n.printed)
            apart = (n.ours - value, n.ours / value - 1 if value else None)
            rows.append((n.figure, n.edge, n.step, n.quantity, value, n.ours, *apart, n.agrees))
        return frame_of_rows(PRINTED_COLUMNS, rows)

    def parts(self) -> Iterator[RenderableType]:
        """Return the parts of the text: printed numbers, notes on the paper, and the spread."""
        agreeing = sum(number.agrees for number in self.numbers)
        yield (
            "A contention-aware performance model (Martinasso and Mehaut 2011)\n"
            f"{agreeing} of {len(self.numbers)} printed numbers agree; messages of 20 MiB, "
            f"alpha = {PAPER_INVERSE_BANDWIDTH} s/byte. A number agrees when it is within one unit "
            "of the last digit printed, a time also within 1e-5.\n"
        )
        if self.partial:
            yield f"Partial, interrupted: {self.partial} at the packet level\n"
        yield _figures(self)
        yield "Contradictions and open points of the paper\n"
        for number, note in enumerate(NOTES, start=1):
            yield f"{number}. {note}"
        yield ""
        yield _spread(self)
        yield (
            "The paper: times of graphs with 1, 2 and 3 edges are rational factors of T_ref; with "
            "more edges they are more largely spread. In the model all times are rational; only "
            "their number grows:\n"
        )
        yield _shapes(self)
        if self.packets is not None:
            yield from _packets(self.packets)
        yield MISSING
        if self.packets is None:
            yield WITHOUT_PACKETS
        if self.files:
            yield ""

    def tables(self) -> Tables:
        """Return the tables that are written as Parquet and CSV."""
        more = {} if self.packets is None else self.packets.tables()
        return {
            "printed": (self.printed, PRINTED_COLUMNS),
            "times": (self.times, TIME_COLUMNS),
            "spread": (self.spread, SPREAD_COLUMNS),
            "shapes": (self.shapes, SHAPE_COLUMNS),
            **more,
        }

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Return figure 5 with predicted times only."""
        yield "figure5", figure_5(self)

    def __repr__(self) -> str:
        agreeing = sum(number.agrees for number in self.numbers)
        return f"ContentionStudy({agreeing} of {len(self.numbers)} printed numbers agree)"
