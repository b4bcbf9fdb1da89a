"""Tables of the contention-graph study: their columns and their text, and notes on the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
from rich import box
from rich.markup import escape
from rich.table import Table

from weft.core.columns import Column, frame_of_rows
from weft_papers.claim_report import titled_table
from weft_papers.contention.packets import PacketComparison

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
        pl.Boolean, "",
        "Agreement within one unit of the last digit printed (times: plus 1e-5 of the value, since "
        "the paper's bandwidth has four digits)",
    ),
}  # fmt: skip
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
        pl.Int64, "", "Number of connected graphs up to isomorphism (parallel edges included)",
    ),
    "distinct": Column(pl.Int64, "", "Number of different times"),
    "times": Column(pl.String, "T_ref", "Times as fractions"),
}  # fmt: skip
TABLES = {
    "printed": PRINTED_COLUMNS,
    "times": TIME_COLUMNS,
    "spread": SPREAD_COLUMNS,
    "shapes": SHAPE_COLUMNS,
}


@dataclass(frozen=True)
class Printed:
    """Number printed in the paper, and the same number computed by weft."""

    #: Identification of the number; see `PRINTED_COLUMNS`.
    figure: str
    edge: str
    step: int | None
    quantity: str
    #: Printed number as text, to keep its digits.
    printed: str
    #: Value of the model in weft.
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


def printed_frame(numbers: Sequence[Printed]) -> pl.DataFrame:
    """Return one row per printed number, with `PRINTED_COLUMNS`."""
    rows: list[tuple[object, ...]] = []
    for n in numbers:
        value = float(n.printed)
        apart = (n.ours - value, n.ours / value - 1 if value else None)
        rows.append((n.figure, n.edge, n.step, n.quantity, value, n.ours, *apart, n.agrees))
    return frame_of_rows(PRINTED_COLUMNS, rows)


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

RATIONAL = (
    "The paper: times of graphs with 1, 2 and 3 edges are rational factors of T_ref; with more "
    "edges they are more largely spread. In the model all times are rational; only their number "
    "grows:\n"
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


_table = partial(titled_table, box=box.HEAVY_HEAD, title_justify="center")


def printed_table(numbers: Iterable[Printed]) -> Table:
    """Return a table of the printed numbers; edges with equal numbers share a row."""
    table = _table(
        "Printed numbers and those of the model", ("figure", "edges", "quantity"),
        ("step", "printed", "ours", "difference", "relative"), ("agrees",),
    )  # fmt: skip
    rows: dict[tuple[str, ...], list[str]] = {}
    for number in numbers:
        value = float(number.printed)
        shown = f"{number.ours:,.0f}" if "bytes" in number.quantity else f"{number.ours:.7g}"
        key: tuple[str, ...] = (
            number.figure, number.quantity, "" if number.step is None else str(number.step),
            number.printed, shown, f"{number.ours - value:+.2g}",
            f"{number.ours / value - 1:+.1e}" if value else "",
            "yes" if number.agrees else "no, see 1",
        )  # fmt: skip
        rows.setdefault(key, []).append(number.edge)
    last = ""
    for key, edges in rows.items():
        figure, quantity, step = key[:3]
        if last and figure != last:
            table.add_section()
        table.add_row(escape(figure), escape(" ".join(edges)), quantity, step, *key[3:])
        last = figure
    return table


def spread_table(spread: pl.DataFrame) -> Table:
    """Return the spread of the predicted times by number of communications."""
    table = _table("Figure 5: predicted times of random graphs, in T_ref", (), spread.columns)
    for row in spread.iter_rows():
        edges, graphs, *values, distinct = row
        table.add_row(str(edges), str(graphs), *(f"{v:.3f}" for v in values), str(distinct))
    return table


def shapes_table(shapes_of_edges: pl.DataFrame) -> Table:
    """Return the times of all connected graphs by number of communications."""
    title = "All connected graphs: predicted times, in T_ref"
    table = _table(title, (), ("edges", "shapes", "distinct"), ("times",))
    for edges, shapes, distinct, times in shapes_of_edges.iter_rows():
        listed = times.split(", ")
        shown = ", ".join(listed) if len(listed) <= 40 else f"{', '.join(listed[:39])}, ..."
        table.add_row(str(edges), str(shapes), str(distinct), shown)
    return table


def _by_variant(
    title: str,
    frame: pl.DataFrame,
    left: Sequence[str],
    right: Sequence[str],
    head: Callable[[dict[str, Any]], Sequence[str]],
    cell: Callable[[dict[str, Any]], str],
) -> Table:
    """Return a table with a column per variant: `cell` of its rows, beside `head` of the first."""
    variants = frame.partition_by("variant", maintain_order=True)
    table = _table(title, left, (*right, *(str(each["variant"][0]) for each in variants)))
    for rows in zip(*(each.iter_rows(named=True) for each in variants), strict=True):
        table.add_row(*head(rows[0]), *map(cell, rows))
    return table


def _measured(row: dict[str, Any]) -> tuple[str, ...]:
    error = 100 * (row["model"] / row["measured"] - 1)
    return row["figure"], row["edge"], f"{row['measured']:.3f}", f"{row['model']:.3f} {error:+.1f}"


def packet_tables(comparison: PacketComparison) -> Iterator[Table]:
    """Yield the comparison with the packet level."""
    table = _table(
        f"Packet level: {comparison.graphs} random graphs of 2 to 12 communications", ("variant",),
        ("alone Gb/s", "mean %", "p95 %", "max %", "bias %", "max-min mean %", "max-min max %"),
    )  # fmt: skip
    for variant, *values in comparison.variants.iter_rows():
        table.add_row(variant, *(f"{value:.2f}" for value in values))
    yield table
    yield _by_variant(
        "The paper's coefficients by number of communications: mean and max error, %",
        comparison.errors, (), ("edges", "graphs"),
        lambda row: (str(row["edges"]), str(row["graphs"])),
        lambda row: f"{row['mean_error']:.1f} / {row['max_error']:.0f}",
    )  # fmt: skip
    yield _by_variant(
        "Times measured in the paper, of its model and of the packet level: T_ref, error %",
        comparison.measured, ("figure", "edge"), ("measured", "model"), _measured,
        lambda row: f"{row['packets']:.3f} {row['error']:+.1f}",
    )  # fmt: skip
    yield _by_variant(
        "Coefficients fitted to the packet level",
        comparison.coefficients, ("coefficient",), ("paper",),
        lambda row: (row["coefficient"], f"{row['infiniband']:g}"),
        lambda row: f"{row['value']:.3f} +- {row['deviation']:.2g}",
    )  # fmt: skip
    table = _table(
        "Errors with the paper's and with fitted coefficients: mean and max, %",
        ("variant", "graphs"), ("the paper's", "fitted"),
    )  # fmt: skip
    for variant, graphs, *values in comparison.fitted.iter_rows():
        before, after = (f"{values[i]:.2f} / {values[i + 1]:.0f}" for i in (0, 2))
        table.add_row(variant, graphs, before, after)
    yield table
