"""M. Martinasso, J.-F. Mehaut 2011, "A contention-aware performance model for HPC-based networks".

Every number that figures 2, 3 and 4 print for the model is compared with `weft.penalties` and
`weft.predict`. Figure 5 needs the paper's cluster; in its place the study computes the spread of
the predicted times by number of communications, and their errors relative to the packet level.
`docs/contention-model.md` describes the interpretation of the paper, `docs/validation.md` the
comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import RenderableType

from weft.core.columns import frame_of_rows
from weft.core.errors import InputError
from weft.core.files import make_folder
from weft.sim.flow.contention.model import (
    PAPER_INVERSE_BANDWIDTH,
    penalties,
    predict,
    predict_steps,
)
from weft.study.runs.typed import IN_MEMORY, Results
from weft_calibration.shapes import all_shapes, random_graph
from weft_papers.contention import packets as packet
from weft_papers.contention import tables as table
from weft_papers.contention.packets import PacketComparison
from weft_papers.contention.plots import figure_5
from weft_papers.contention.tables import Printed
from weft_papers.paper_registry import paper
from weft_papers.reported_study import ReportedStudy, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Edges = tuple[tuple[int, int], ...]

#: Graphs of figure 2, from left to right, with the paper's names of nodes.
FIGURE_2: dict[str, tuple[tuple[str, str], ...]] = {
    "1st": (("a", "b"), ("a", "c"), ("a", "d")),
    "2nd": (("b", "a"), ("b", "d"), ("c", "a"), ("c", "d")),
    "3rd": (("a", "b"), ("a", "c"), ("a", "d"), ("d", "b"), ("d", "c")),
    "4th": (("a", "b"), ("a", "c"), ("d", "b"), ("e", "c")),
}
#: The paper only draws these graphs; the edges are reconstructed from its numbers.
FIGURE_3: Edges = ((0, 1), (0, 2), (0, 3), (4, 1), (4, 5), (6, 5))
FIGURE_4: dict[str, Edges] = {
    "A": ((0, 1), (0, 2), (3, 1), (4, 1), (5, 2)), "B": ((0, 1), (0, 2), (3, 1), (4, 1), (5, 1)),
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class ContentionStudy(ReportedStudy):
    """Result of the study."""

    counted = "variants"
    columns = table.TABLES

    #: Every number printed in the paper, and its value in weft.
    numbers: tuple[Printed, ...]
    #: Predicted times of the random graphs, and their spread by number of edges.
    times: pl.DataFrame
    spread: pl.DataFrame
    #: Predicted times of all connected graphs by number of edges.
    shapes: pl.DataFrame
    #: Errors relative to the packet level, or None.
    packets: PacketComparison | None = None

    @property
    def printed(self) -> pl.DataFrame:
        """Table with one row per printed number."""
        return table.printed_frame(self.numbers)

    @property
    def agreeing(self) -> str:
        """Number of printed numbers that agree."""
        count = sum(number.agrees for number in self.numbers)
        return f"{count} of {len(self.numbers)} printed numbers agree"

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts of the text: printed numbers, notes on the paper, and the spread."""
        yield (
            "A contention-aware performance model (Martinasso and Mehaut 2011)\n"
            f"{self.agreeing}; messages of 20 MiB, alpha = {PAPER_INVERSE_BANDWIDTH} s/byte. A "
            "number agrees when it is within one unit of the last digit printed, a time also "
            "within 1e-5.\n"
        )
        if self.partial:
            yield f"Partial, interrupted: {self.partial} at the packet level\n"
        yield table.printed_table(self.numbers)
        yield "Contradictions and open points of the paper\n"
        yield from (f"{number}. {note}" for number, note in enumerate(table.NOTES, start=1))
        yield ""
        yield table.spread_table(self.spread)
        yield table.RATIONAL
        yield table.shapes_table(self.shapes)
        yield from () if self.packets is None else table.packet_tables(self.packets)
        yield table.MISSING
        if self.packets is None:
            yield table.WITHOUT_PACKETS
        if self.files:
            yield ""

    def tables(self) -> Tables:
        """Return the tables that are written as Parquet and CSV."""
        return {**super().tables(), **({} if self.packets is None else self.packets.tables())}

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Return figure 5 with predicted times only."""
        yield "figure5", figure_5(self.times, self.spread, self.parameters)

    def __repr__(self) -> str:
        return f"ContentionStudy({self.agreeing})"


@paper("contention-model", aliases=("contention",))
def contention_model(
    *,
    edges: int = 10,
    graphs: int = 60,
    nodes: int = 9,
    shapes: int = 5,
    packet_graphs: int = 0,
    seed: int = 0,
    results: Results = IN_MEMORY,
    out: Path | None = None,
) -> ContentionStudy:
    """Contention graphs and penalty coefficients on InfiniBand (Martinasso and Mehaut 2011).

    After Ctrl-C at the packet level the result contains the hardware variants completed so far.

    Parameters
    ----------
    edges
        Largest number of communications of the random graphs, as in figure 5.
    graphs
        Number of random graphs for each number of communications; the paper measured 60 graphs of 5
        communications.
    nodes
        Number of nodes of the random graphs; the paper used 9.
    shapes
        Largest number of communications for which all connected graphs are evaluated, 1 to 6.
    packet_graphs
        Number of random graphs of 2 to 12 communications to run at the packet level, on about 20
        variants of adapters and switches; 200 graphs take about a minute.
    seed
        Seed of the random graphs.

    Raises
    ------
    InputError
        If a parameter is out of range, or the folder cannot be written to.
    """
    for name, value, low, high in (
        ("edges", edges, 1, 200),
        ("graphs", graphs, 1, 100_000),
        ("nodes", nodes, 2, 10_000),
        ("shapes", shapes, 1, 6),
        ("packet_graphs", packet_graphs, 0, 10_000),
        ("seed", seed, 0, 2**63 - 1),
    ):
        if not low <= value <= high:
            raise InputError(f"{name} must be {low} to {high}, not {value}")
    most = max(edges, MOST_PACKET_EDGES if packet_graphs else 0)
    if most > 4 * nodes:
        raise InputError(
            f"expected at most {4 * nodes} communications among {nodes} nodes, not {most}: random "
            f"graphs with at most {MOST_DEGREE} per node would be too rare"
        )
    if out is not None:
        make_folder(out)  # fails before the computation
    times = _random_times(edges, graphs, nodes, seed)
    packets = _packets(packet_graphs, nodes, seed, results)
    return ContentionStudy(
        parameters={
            "edges": edges, "graphs": graphs, "nodes": nodes, "shapes": shapes,
            "packet_graphs": packet_graphs, "seed": seed,
        },
        numbers=(*_figure_2(), *_figure_3(), *_figure_4()),
        times=times,
        spread=_spread(times),
        shapes=_shapes(shapes),
        packets=packets,
        asked=len(packet.VARIANTS) if packets else 0,
        done=packets.variants.height if packets else 0,
    ).written(out)  # fmt: skip


#: Cores per node of the paper's cluster, which limit the communications per node (section 3.1).
MOST_DEGREE = 8
#: Largest number of communications of random graphs at the packet level; the smallest is 2.
MOST_PACKET_EDGES = 12


# -- printed numbers -----------------------------------------------------------------------------


def _ends(edges: Edges) -> tuple[list[int], list[int]]:
    return [source for source, _ in edges], [destination for _, destination in edges]


def _figure_2() -> Iterator[Printed]:
    printed = {
        "1st": ("3", "3", "3"),
        "2nd": ("2", None, "2", None),
        "3rd": ("4", "4", "4", "2.66", "2.66"),
        "4th": ("4", "4", "1.33", "1.33"),
    }
    for graph, edges in FIGURE_2.items():
        numbered = tuple((ord(source), ord(destination)) for source, destination in edges)
        computed = penalties(*_ends(numbered))
        for (source, destination), text, ours in zip(edges, printed[graph], computed, strict=True):
            if text is not None:
                edge = f"({source},{destination})"
                yield Printed(f"2, {graph} graph", edge, 1, "penalty", text, float(ours))


def _figure_3() -> Iterator[Printed]:
    prediction = predict_steps(*_ends(FIGURE_3), table.SIZE_BYTES, 0.0, PAPER_INVERSE_BANDWIDTH)
    penalty = (
        ("3.5", "3.5", "3.5", "3.33", "3.33", "1.5"),
        ("3.5", "3.5", "3.5", "2.33", "2.33", None),
        ("3.0", "3.0", "3.0", None, None, None),
    )
    left = (
        ("11983700", "11983700", "11983700", "11534300", "11534300", "0"),
        ("4294170", "4294170", "4294170", "0", "0", "0"),
        ("0",) * 6,
    )
    time = (
        ("0.0160590",) * 6,
        (*("0.0297984",) * 5, "0.0160590"),
        (*("0.0363749",) * 3, *("0.0297984",) * 2, "0.0160590"),
    )
    for step in range(3):
        for edge, name in enumerate("abcdef"):
            text = penalty[step][edge]
            if text is not None:
                ours = float(prediction.penalty[step, edge])
                yield Printed("3", name, step + 1, "penalty", text, ours)
            rest = float(prediction.remaining_bytes[step, edge])
            yield Printed("3", name, step + 1, "bytes left", left[step][edge], rest)
            spent = float(min(prediction.end_s[step], prediction.completion_s[edge]))
            yield Printed("3", name, step + 1, "time", time[step][edge], spent)
    for edge, name in enumerate("abc"):
        sent = table.SIZE_BYTES - float(prediction.remaining_bytes[0, edge])
        yield Printed("3 (text)", name, 1, "bytes sent", "8987820", sent)
    alone = float(predict([0], [1], table.SIZE_BYTES, 0.0, PAPER_INVERSE_BANDWIDTH)[0])
    yield Printed("3 (text)", "alone", None, "time", "0.010706", alone)


def _figure_4() -> Iterator[Printed]:
    printed = {
        "A": (
            (("5", "4", "2"),) * 2 + (("2.5", "2.5"),) * 2 + (("1.5",),),
            ("0.036132",) * 2 + ("0.026765",) * 2 + ("0.013382",),
        ),
        "B": (
            (("5", "2"),) * 2 + (("3.5",),) * 3,
            ("0.043894",) * 2 + ("0.037471",) * 3,
        ),
    }
    for graph, edges in FIGURE_4.items():
        prediction = predict_steps(*_ends(edges), table.SIZE_BYTES, 0.0, PAPER_INVERSE_BANDWIDTH)
        steps, times = printed[graph]
        for edge, name in enumerate("abcde"):
            for step, text in enumerate(steps[edge]):
                ours = float(prediction.penalty[step, edge])
                yield Printed(f"4 {graph}", name, step + 1, "penalty", text, ours)
            when = float(prediction.completion_s[edge])
            yield Printed(f"4 {graph}", name, None, "time", times[edge], when)


# -- figure 5 --------------------------------------------------------------------------------------


def draw_graph(edges: int, nodes: int, seed: Sequence[int]) -> tuple[list[int], list[int]]:
    """Draw a random graph in which no node sends or receives more than `MOST_DEGREE` times."""
    for attempt in range(10_000):
        source, destination = random_graph(edges, nodes, [*seed, attempt])
        if max(np.bincount(source).max(), np.bincount(destination).max()) <= MOST_DEGREE:
            return source, destination
    raise InputError(
        f"no random graph of {edges} edges among {nodes} nodes with at most {MOST_DEGREE} edges "
        "in or out of each node was found"
    )


def _random_times(edges: int, graphs: int, nodes: int, seed: int) -> pl.DataFrame:
    rows: list[tuple[float, ...]] = []
    for count in range(1, edges + 1):
        for graph in range(graphs):
            source, destination = draw_graph(count, nodes, [seed, count, graph])
            penalty = penalties(source, destination)
            time = predict(source, destination, 1.0, 0.0, 1.0)
            columns = zip(source, destination, penalty.tolist(), time.tolist(), strict=True)
            rows += [(count, graph, edge, *each) for edge, each in enumerate(columns)]
    return frame_of_rows(table.TIME_COLUMNS, rows)


def _packets(
    graphs: int, nodes: int, seed: int, results: Results
) -> packet.PacketComparison | None:
    if not graphs:
        return None
    sizes = MOST_PACKET_EDGES - 1
    drawn = [
        draw_graph(2 + number % sizes, nodes, [seed, 2 + number % sizes, number // sizes])
        for number in range(graphs)
    ]
    figure_4 = {graph: _ends(edges) for graph, edges in FIGURE_4.items()}
    return packet.compare(drawn, nodes, figure_4, results)


def _distinct(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values that differ by more than rounding, ascending."""
    ascending = np.sort(times)
    new = np.diff(ascending, prepend=-1.0) > 1e-9
    return ascending[new]


def _spread(times: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for (count,), group in times.group_by("edges", maintain_order=True):
        values = group["time"].to_numpy()
        low, middle, high = np.percentile(values, [5, 50, 95])
        graphs, distinct = group["graph"].n_unique(), len(_distinct(values))
        spread = (values.min(), low, middle, high, values.max())
        rows.append((int(str(count)), graphs, *spread, distinct))
    return frame_of_rows(table.SPREAD_COLUMNS, rows)


def _fraction(value: float) -> str:
    return str(Fraction(value).limit_denominator(10_000))


def _shapes(most: int) -> pl.DataFrame:
    times: dict[int, list[NDArray[np.float64]]] = {}
    for shape in all_shapes(most):
        times.setdefault(len(shape), []).append(predict(*_ends(tuple(shape)), 1.0, 0.0, 1.0))
    distinct = {count: _distinct(np.concatenate(each)) for count, each in times.items()}
    rows = [
        (count, len(times[count]), len(values), ", ".join(map(_fraction, values)))
        for count, values in distinct.items()
    ]
    return frame_of_rows(table.SHAPE_COLUMNS, rows)
